use super::*;
use crate::actor::{Actor, Dot, RegionId};
use crate::hlc::Stamp;
use crate::op::{self, Attributes, Op, WriteEvent};
use crate::record::{Body, Kind};
use base::NodeId;
use bytes::Bytes;

fn apply(local: Option<&Record>, node: u64, counter: u64, kind: Kind, op: Op) -> Record {
    let actor = Actor { region: RegionId(node as u32), node: NodeId(node), incarnation: 0 };
    let event = WriteEvent { dot: Dot { actor, counter }, stamp: Stamp::at_ms(counter), wall_ms: counter };
    op::apply(local, kind, &op, &Attributes::default(), event).unwrap().full
}

fn put(local: Option<&Record>, node: u64, counter: u64) -> Record {
    apply(local, node, counter, Kind::Register, Op::Put(Bytes::from(counter.to_string())))
}

#[test]
fn the_four_ways_of_clocks_lead_where_they_should() {
    let old = put(None, 1, 1);
    let new = put(Some(&old), 2, 2);
    let seen = |local, remote| {
        let Resolution { causality, verdict, record, conflict } = resolve(local, remote);
        (causality, verdict, record, conflict.is_some())
    };
    assert_eq!(seen(&new, &old), (Causality::After, MergeOutcome::KeptLocal, new.clone(), false));
    assert_eq!(seen(&old, &new), (Causality::Before, MergeOutcome::TookRemote, new.clone(), false));
    assert_eq!(seen(&old, &old), (Causality::Equal, MergeOutcome::Same, old.clone(), false));
    let other = put(Some(&old), 3, 3);
    let met = resolve(&new, &other);
    assert_eq!((met.causality, met.verdict), (Causality::Concurrent, MergeOutcome::Conflict));
    assert_eq!(met.conflict, Some(LostWrite { winner: other.clone(), loser: new.clone() }));
    assert_eq!(met.record.body, other.body);
}

#[test]
fn mergeable_values_are_joined_and_never_conflict() {
    let old = apply(None, 1, 1, Kind::Counter, Op::Add(5));
    let (left, right) = (
        apply(Some(&old), 1, 2, Kind::Counter, Op::Add(2)),
        apply(Some(&old), 2, 3, Kind::Counter, Op::Add(3)),
    );
    let met = resolve(&left, &right);
    assert_eq!(
        (met.causality, met.verdict, met.conflict),
        (Causality::Concurrent, MergeOutcome::Joined, None)
    );
    assert!(matches!(met.record.body, Body::Counter(tally) if tally.value() == 10));
}

/// The seed's example: a hundred, less twenty here and thirty there, is fifty.
#[test]
fn both_withdrawals_from_an_account_count_through_the_dispatcher() {
    let amount = |text: &str| crate::Decimal::parse(text).unwrap().0;
    let base = apply(None, 1, 1, Kind::Numeric, Op::Assign(amount("100")));
    let here = apply(Some(&base), 1, 2, Kind::Numeric, Op::Add(amount("-20")));
    let there = apply(Some(&base), 2, 2, Kind::Numeric, Op::Assign(amount("70")));
    let Body::Counter(tally) = resolve(&here, &there).record.body else { panic!("not a tally") };
    assert_eq!(crate::Decimal(tally.value()).to_string(), "50");
}
