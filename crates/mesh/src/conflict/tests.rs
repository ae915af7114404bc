use super::*;
use crate::actor::{Actor, Dot};
use crate::hlc::Stamp;
use crate::op::{self, WriteEvent};
use crate::record::{Fence, Kind};
use base::NodeId;

fn born(node: u64, ms: u64, kind: Kind, op: Op, token: u64) -> Record {
    let actor = Actor { region: RegionId(node as u32), node: NodeId(node), incarnation: 0 };
    let event = WriteEvent { dot: Dot { actor, counter: 7 }, stamp: Stamp::at_ms(ms), wall_ms: ms };
    let fence = (token > 0).then(|| Fence { lock: Bytes::from_static(b"l"), token });
    let attributes = Attributes { fence, home: Some(RegionId(3)), ..Attributes::default() };
    op::apply(None, kind, &op, &attributes, event).unwrap().full
}

fn put(node: u64, ms: u64, token: u64) -> Record {
    born(node, ms, Kind::Register, Op::Put(Bytes::from(format!("{node}"))), token)
}

#[test]
fn a_conflict_survives_a_round_trip_and_cut_bytes_are_refused() {
    let conflict = Conflict::new(&Key::new(0, b"k"), &put(1, 20, 0), &put(2, 10, 0), RegionId(2), 99);
    let Row { key, value } = conflict.row();
    assert_eq!((key, conflict.rule), (conflict.cursor(), ConflictRule::LaterStamp));
    let bytes = value.unwrap();
    assert_eq!(Conflict::decode(bytes.clone()), Some(conflict));
    (0..bytes.len()).for_each(|cut| assert_eq!(Conflict::decode(bytes.slice(..cut)), None));
}

#[test]
fn the_rule_that_decided_is_named() {
    let set = born(1, 5, Kind::Set, Op::Insert(Bytes::from_static(b"e")), 0);
    assert_eq!(ConflictRule::between(&set, &put(2, 9, 0)), ConflictRule::Kind);
    assert_eq!(ConflictRule::between(&put(1, 5, 2), &put(2, 9, 1)), ConflictRule::Fence);
    assert_eq!(ConflictRule::between(&put(2, 9, 0), &put(1, 9, 0)), ConflictRule::Actor);
}

#[test]
fn a_loser_is_put_back_over_what_won() {
    let (winner, loser) = (put(1, 20, 0), put(2, 10, 0));
    let conflict = Conflict::new(&Key::new(0, b"k"), &winner, &loser, RegionId(2), 99);
    let write = conflict.restore().unwrap();
    assert_eq!((&write.op, write.attributes.home), (&Op::Put(Bytes::from_static(b"2")), Some(RegionId(3))));
    // The node that applies it, with a clock that is behind, has seen neither.
    let actor = Actor { region: RegionId(9), node: NodeId(9), incarnation: 0 };
    let stamp = Stamp::at_ms(1).max(write.attributes.after.next());
    let event = WriteEvent { dot: Dot { actor, counter: 1 }, stamp, wall_ms: 1 };
    let restored = op::apply(None, write.kind, &write.op, &write.attributes, event).unwrap().full;
    let merged = crate::merge::merge(&winner, &restored);
    assert_eq!((merged.record.body, merged.loser), (loser.body.clone(), None), "and is no conflict itself");
    let gone = Conflict { loser: born(2, 10, Kind::Register, Op::Delete, 0), ..conflict.clone() };
    assert_eq!(gone.restore().unwrap().op, Op::Delete);
    let set = born(2, 10, Kind::Set, Op::Insert(Bytes::from_static(b"e")), 0);
    assert_eq!(Conflict { loser: set, ..conflict }.restore(), Err(Code::WrongType));
}
