//! Deltas that are lost: gaps in contexts are bounded, and comparison below the key closes them.

use super::*;
use base::Rng;
use base::mutant::plant;

#[test]
fn lost_deltas_leave_gaps_that_a_comparison_closes() {
    plant(None);
    for kind in [CollectionKind::Set, CollectionKind::SortedSet, CollectionKind::Map] {
        let mut rng = Rng::new(3);
        let mut replicas: Vec<Replica> = (1..11).map(|node| Replica::new(node, kind)).collect();
        for n in 0..3_000 {
            let nth = rng.between(0, 10) as usize;
            let name = text(&format!("e{}", rng.between(0, 400)));
            let op = match kind {
                _ if n % 700 == 699 => CollectionOp::Clear,
                _ if rng.chance(300_000) => CollectionOp::Remove(vec![name]),
                CollectionKind::Set => CollectionOp::Add(vec![name]),
                _ => CollectionOp::Increment { name, by: Decimal(1) },
            };
            let delta = replicas[nth].writes(op);
            for replica in &mut replicas {
                if !rng.chance(100_000) {
                    replica.hears(&delta);
                }
                while replica.header.sweep.is_some() {
                    replica.sweeps(64);
                }
            }
        }
        let spans = |replica: &Replica| replica.header.context.spans().len();
        assert!(replicas.iter().map(spans).max() > Some(50), "there are gaps");
        // Each with the next, around the ring and around again.
        for nth in (0..10).chain(0..10) {
            let (mut one, mut other) = (replicas[nth].clone(), replicas[(nth + 1) % 10].clone());
            one.repair_with(&mut other);
            (replicas[nth], replicas[(nth + 1) % 10]) = (one, other);
        }
        for replica in &replicas {
            assert!(replica.header.is_same(&replicas[0].header), "{kind:?}");
            assert_eq!(spans(replica), 10, "{kind:?}: one span for each actor");
            check_derived(replica).unwrap();
        }
    }
}

#[test]
fn a_context_with_too_many_gaps_takes_no_more() {
    plant(None);
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Set), Replica::new(2, CollectionKind::Set));
    let mut refused = None;
    for n in 0..3_000 {
        let delta = a.writes(CollectionOp::Add(vec![text(&n.to_string())]));
        if n % 2 == 0 {
            continue;
        }
        match merge(&b.header, &b.rows, &delta) {
            Ok(change) => b.take(change),
            Err(TooManyGaps) => refused = refused.or(Some(n)),
        }
    }
    assert!(refused.is_some() && b.header.context.spans().len() <= 1_024);
    a.repair_with(&mut b);
    assert_eq!((b.header.count, b.header.context.spans().len()), (3_000, 1));
}

#[test]
fn a_row_that_was_removed_elsewhere_is_told_from_one_that_has_not_come_there() {
    plant(None);
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Set), Replica::new(2, CollectionKind::Set));
    let removed = a.writes(CollectionOp::Add(vec![text("removed")]));
    b.hears(&removed);
    b.writes(CollectionOp::Remove(vec![text("removed")]));
    a.writes(CollectionOp::Add(vec![text("new")]));
    a.repair_with(&mut b);
    assert_eq!((a.names(), b.names()), (vec![text("new")], vec![text("new")]));
    a.hears(&removed);
    assert!(!a.holds("removed"));
}
