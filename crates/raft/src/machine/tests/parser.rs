//! The library's parser of protobuf (RUSTSEC-2024-0437: groups inside groups overflow its stack) never sees bytes of others.
//! The library parses the data of an entry in one place, when it is asked to propose a change of the members in its own
//! encoding; members never ask it to, and no message on the wire does. What deny.toml says of the advisory rests on this.

use super::*;
use base::codec::Reader;

/// The start of a group of an unknown field, again and again: bytes that the parser refuses where it does not overflow.
const NESTED: &[u8] = &[0x7b; 1024 * 1024];

#[test]
fn nested_groups_in_entries_pass_by_the_parser_on_leaders_and_followers() {
    let mut cluster = Cluster::led_by(MEMBERS[0]);
    let data = Bytes::from_static(NESTED);
    for propose in [Input::ProposeChange(data.clone()), Input::Propose(data)] {
        assert!(cluster.step(MEMBERS[0], propose));
        // As they come from the wire.
        let sent = std::mem::take(&mut cluster.in_flight);
        cluster.in_flight = sent
            .iter()
            .map(|message| {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                Message::decode(&mut Reader::new(bytes.into())).unwrap()
            })
            .collect();
        cluster.settle();
    }
    cluster.tick_all(&MEMBERS, 3);
    for id in MEMBERS {
        let nested = cluster.committed[&id].iter().filter(|entry| entry.data == NESTED);
        assert_eq!(nested.count(), 2, "{id} has both");
    }
}

#[test]
fn no_bytes_of_a_peer_are_a_proposal() {
    for kind in 0..=u8::MAX {
        let mut bytes = vec![kind];
        bytes.extend([1; 9]);
        bytes.extend([0, 0, 1, 1, 1, 1, NESTED[0]]);
        if let Some(message) = Message::decode(&mut Reader::new(bytes.into())) {
            assert_ne!(message.kind(), MessageType::MsgPropose);
        }
    }
}
