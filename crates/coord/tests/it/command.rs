//! The bytes of commands: they come back as they went, and no bytes do harm.

use crate::generate;
use crate::world::{do_all, op_put, put};
use base::Rng;
use base::limits::{TXN_DEPTH_MAX, TXN_OPS_MAX};
use bytes::Bytes;
use coord::request::Request;
use coord::{Caller, Command, Limits};
use proptest::prelude::*;

fn encoded(command: &Command) -> Bytes {
    let mut out = Vec::new();
    command.encode(&mut out);
    Bytes::from(out)
}

fn random_command(rng: &mut Rng) -> Command {
    let command = random_plain_command(rng);
    if rng.chance(800_000) {
        return command;
    }
    let caller = Caller::User { name: "ann".into(), revision: rng.between(0, 1_000) };
    let mut out = Vec::new();
    command.encode_for(&caller, &mut out);
    Command::decode(Bytes::from(out)).expect("what is proposed for a user is understood")
}

fn random_plain_command(rng: &mut Rng) -> Command {
    if rng.chance(300_000) {
        return generate::lock_command(rng);
    }
    loop {
        if let Some(command) = Command::from_request(generate::request(rng, 40)) {
            return command;
        }
    }
}

#[test]
fn a_put_has_the_bytes_that_the_format_page_draws() {
    let command = Command::Put(put("key", "value"));
    assert_eq!(encoded(&command).as_ref(), b"\x01\x01\x06\x03key\x00\x05value");
}

#[test]
fn commands_survive_a_round_trip() {
    let mut rng = Rng::new(1);
    for _ in 0..3_000 {
        let command = random_command(&mut rng);
        assert_eq!(Command::decode(encoded(&command)), Some(command));
    }
}

#[test]
fn a_value_is_a_slice_of_the_bytes_it_was_decoded_from() {
    let bytes = encoded(&Command::Put(put("key", "value")));
    let Some(Command::Put(decoded)) = Command::decode(bytes.clone()) else { panic!("a put was encoded") };
    let value = decoded.value.expect("it carries one");
    assert!(bytes.as_ptr_range().contains(&value.as_ptr()));
}

#[test]
fn a_later_format_and_an_unknown_kind_are_not_understood() {
    let bytes = encoded(&Command::Put(put("key", "value")));
    for (at, byte) in [(0, 0), (0, 2), (1, 0), (1, 4), (2, 0x0e)] {
        let mut other = bytes.to_vec();
        other[at] = byte;
        assert_eq!(Command::decode(Bytes::from(other)), None, "byte {at} = {byte}");
    }
}

#[test]
fn every_cut_and_every_added_byte_is_noticed() {
    let mut rng = Rng::new(2);
    for _ in 0..200 {
        let bytes = encoded(&random_command(&mut rng));
        for len in 0..bytes.len() {
            assert_eq!(Command::decode(bytes.slice(..len)), None);
        }
        let longer = [bytes.as_ref(), b"\0"].concat();
        assert_eq!(Command::decode(Bytes::from(longer)), None);
    }
}

#[test]
fn the_deepest_nesting_that_validation_accepts_is_decoded_and_one_deeper_is_not() {
    let mut txn = do_all(vec![op_put("k", "v")]);
    for _ in 0..TXN_DEPTH_MAX {
        txn = do_all(vec![Request::Txn(txn)]);
    }
    assert_eq!(Request::Txn(txn.clone()).validate(&Limits::default()), Ok(()));
    assert!(Command::decode(encoded(&Command::Txn(txn.clone()))).is_some());
    let deeper = do_all(vec![Request::Txn(txn)]);
    assert_eq!(Command::decode(encoded(&Command::Txn(deeper))), None);
}

#[test]
fn a_list_longer_than_any_transaction_may_have_is_refused_before_it_is_built() {
    let puts = |count| Command::Txn(do_all(vec![op_put("k", "v"); count]));
    assert!(Command::decode(encoded(&puts(TXN_OPS_MAX))).is_some());
    assert_eq!(Command::decode(encoded(&puts(TXN_OPS_MAX + 1))), None);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(command) = Command::decode(Bytes::from(bytes)) {
            prop_assert_eq!(Command::decode(encoded(&command)), Some(command));
        }
    }

    #[test]
    fn mutated_commands_never_panic_and_what_is_read_can_be_written(
        seed in any::<u64>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&random_command(&mut Rng::new(seed))).to_vec();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(command) = Command::decode(Bytes::from(bytes)) {
            prop_assert_eq!(Command::decode(encoded(&command)), Some(command));
        }
    }
}
