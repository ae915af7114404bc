//! The set of applied proposals against a plain set, and its bytes.

use super::*;
use base::Rng;
use std::collections::BTreeSet;

fn id(seq: u64) -> ProposalId {
    ProposalId { origin: NodeId(1), boot: Boot(1), seq }
}

fn encoded(origin: &Origin) -> Bytes {
    let mut out = Vec::new();
    origin.encode(&mut out);
    Bytes::from(out)
}

#[test]
fn runs_hold_what_a_plain_set_holds() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut origins = Origins::default();
        let (mut plain, mut low) = (BTreeSet::new(), 0);
        for _ in 0..200 {
            let seq = rng.between(low, low + 20);
            if rng.chance(100_000) {
                low += rng.between(0, 6);
            }
            origins.record(id(seq), low);
            plain.insert(seq);
            for probe in 0..low + 25 {
                assert_eq!(origins.is_duplicate(id(probe)), probe < low || plain.contains(&probe));
            }
            let origin = &origins.by_member[&NodeId(1)];
            assert!(origin.runs.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
            assert_eq!(Origin::decode(encoded(origin)).as_ref(), Some(origin));
        }
    }
}

#[test]
fn proposals_in_order_are_one_run_of_a_few_bytes() {
    let mut origins = Origins::default();
    for seq in 1..=1_000_000 {
        origins.record(id(seq), 1);
    }
    assert!(encoded(&origins.by_member[&NodeId(1)]).len() < 10);
}

#[test]
fn the_ends_of_the_number_line_are_safe() {
    let mut origins = Origins::default();
    for seq in [u64::MAX, 0, u64::MAX - 1, 1] {
        origins.record(id(seq), 0);
        assert!(origins.is_duplicate(id(seq)));
    }
    origins.record(id(5), u64::MAX);
    assert!(origins.is_duplicate(id(7)));
}

#[test]
fn malformed_rows_are_refused() {
    let good = [1, 1, 5, 2, 0, 3, 2, 0];
    assert!(Origin::decode(Bytes::copy_from_slice(&good)).is_some());
    for len in 0..good.len() {
        assert_eq!(Origin::decode(Bytes::copy_from_slice(&good[..len])), None);
    }
    for (at, byte) in [(0, 2), (3, 3), (6, 0), (6, 1)] {
        let mut bad = good;
        bad[at] = byte;
        assert_eq!(Origin::decode(Bytes::copy_from_slice(&bad)), None, "byte {at} = {byte}");
    }
}

#[test]
fn the_last_number_of_all_is_a_number_like_any_other() {
    let mut origins = Origins::default();
    for seq in [u64::MAX, u64::MAX - 1, u64::MAX] {
        origins.record(id(seq), 0);
        assert!(origins.is_duplicate(id(seq)) && !origins.is_duplicate(id(7)));
    }
}
