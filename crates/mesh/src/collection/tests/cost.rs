//! How many rows an operation reads and writes, and how many bytes travel, in a collection of ten elements and in one of many.

use super::*;
use crate::collection::view::score_place;
use base::mutant::plant;

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    rows_read: usize,
    rows_written: usize,
    bytes_written: usize,
    bytes_sent: usize,
}

impl Cost {
    fn max(self, other: Cost) -> Cost {
        Cost {
            rows_read: self.rows_read.max(other.rows_read),
            rows_written: self.rows_written.max(other.rows_written),
            bytes_written: self.bytes_written.max(other.bytes_written),
            bytes_sent: self.bytes_sent.max(other.bytes_sent),
        }
    }
}

fn name(n: usize) -> Bytes {
    text(&format!("element-{:08}", n.wrapping_mul(7_919) % 100_000_000))
}

fn add(kind: CollectionKind, n: usize) -> CollectionOp {
    match kind {
        CollectionKind::Set => CollectionOp::Add(vec![name(n)]),
        CollectionKind::Map => {
            CollectionOp::SetField { field: name(n), value: text("value"), expires_ms: None }
        }
        CollectionKind::SortedSet => CollectionOp::SetScore { member: name(n), score: Decimal(n as i128) },
        CollectionKind::List => {
            CollectionOp::Insert { place: InsertPosition::Last, values: vec![text("value")] }
        }
        CollectionKind::Flag => CollectionOp::Enable,
        CollectionKind::HyperLogLog => CollectionOp::Observe(vec![name(n)]),
    }
}

fn filled(kind: CollectionKind, n_elements: usize) -> Replica {
    let mut replica = Replica::new(1, kind);
    (0..n_elements).for_each(|n| drop(replica.writes(add(kind, n))));
    replica
}

/// What an operation costs its origin; the collection stays as it is.
fn cost(replica: &Replica, op: CollectionOp) -> Cost {
    let dot = Dot { actor: replica.actor, counter: replica.dots + 1 };
    let event = WriteEvent { dot, stamp: Stamp::at_ms(replica.clock_ms), wall_ms: replica.clock_ms };
    let before = replica.rows.n_read.get();
    let delta = apply(&replica.header, &replica.rows, &[op], event).unwrap();
    let change = merge_own(&replica.header, &replica.rows, &delta).unwrap();
    let bytes = |row: &Row| row.key.len() + row.value.as_ref().map_or(0, Bytes::len);
    Cost {
        rows_read: replica.rows.n_read.get() - before,
        rows_written: change.rows.len() + 1,
        bytes_written: change.rows.iter().map(bytes).sum::<usize>() + change.header.encode().len(),
        bytes_sent: delta.encode().len(),
    }
}

/// Typical costs: one element in 64 begins a range and costs more, once.
fn costs(replica: &Replica, ops: impl Iterator<Item = CollectionOp>) -> Cost {
    let mut all: Vec<Cost> = ops.map(|op| cost(replica, op)).collect();
    all.sort_by_key(|cost| cost.rows_read);
    all[..all.len() * 9 / 10].iter().copied().fold(Cost::default(), Cost::max)
}

#[test]
fn an_operation_costs_as_much_in_a_large_collection_as_in_a_small_one() {
    plant(None);
    for kind in CollectionKind::ALL {
        let n_large = if kind == CollectionKind::Set { 100_000 } else { 20_000 };
        let (small, large) = (filled(kind, 10), filled(kind, n_large));
        let adds = |replica: &Replica| costs(replica, (0..40).map(|n| add(kind, 50_000_000 + n)));
        let (few, many) = (adds(&small), adds(&large));
        assert!(many.rows_read <= few.rows_read.max(10) * 2, "{kind:?} add: {few:?} {many:?}");
        assert!(many.rows_written <= few.rows_written.max(8) * 2, "{kind:?} add: {few:?} {many:?}");
        assert!(many.bytes_written <= few.bytes_written * 2, "{kind:?} add: {few:?} {many:?}");
        assert!(many.bytes_sent <= few.bytes_sent * 2, "{kind:?} add: {few:?} {many:?}");
        let removes = |replica: &Replica| {
            let names = page(&replica.header, &replica.rows, None, 40).entries;
            costs(replica, names.into_iter().map(|entry| CollectionOp::Remove(vec![entry.name])))
        };
        if matches!(kind, CollectionKind::Flag | CollectionKind::HyperLogLog) {
            continue;
        }
        let (few, many) = (removes(&small), removes(&large));
        assert!(many.rows_read <= few.rows_read.max(10) * 2, "{kind:?} remove: {few:?} {many:?}");
        assert!(many.bytes_sent <= few.bytes_sent * 2, "{kind:?} remove: {few:?} {many:?}");
    }
}

#[test]
fn a_clear_touches_no_row_and_is_swept_behind() {
    plant(None);
    let mut replica = filled(CollectionKind::Set, 20_000);
    let before = replica.rows.n_read.get();
    let delta = replica.writes(CollectionOp::Clear);
    assert_eq!((replica.rows.n_read.get(), replica.header.exact_count()), (before, Some(0)));
    assert!(delta.encode().len() < 100);
    replica.writes(CollectionOp::Add(vec![text("after")]));
    let mut steps = 0;
    while replica.header.sweep.is_some() {
        replica.sweeps(500);
        steps += 1;
    }
    assert!(steps > 40);
    assert_eq!((replica.names(), replica.header.count), (vec![text("after")], 1));
    assert_eq!(replica.rows.rows.len(), 4, "the element and a range on each of three levels");
    check_derived(&replica).unwrap();
}

#[test]
fn tests_scores_ranks_and_pages_read_few_rows() {
    plant(None);
    let replica = filled(CollectionKind::SortedSet, 20_000);
    let read = |what: &dyn Fn()| {
        let before = replica.rows.n_read.get();
        what();
        replica.rows.n_read.get() - before
    };
    assert_eq!(
        read(&|| assert_eq!(replica.state(std::str::from_utf8(&name(7)).unwrap()).score(), Decimal(7))),
        1
    );
    let rank = || {
        assert_eq!(rank_of(&replica.header, &replica.rows, &name(15_000)), Some(15_000));
        assert_eq!(page_by_rank(&replica.header, &replica.rows, 12_345, 1)[0].name, name(12_345));
    };
    assert!(read(&rank) < 2_000, "{} rows", read(&rank));
    let (from, to, direction) = (Decimal(5_000), Decimal(6_000), Direction::Down);
    let paging = ScorePaging {
        from,
        to,
        direction,
        after: Some(score_place(Decimal(5_501), &name(5_501))),
        limit: 10,
    };
    let by_score = || {
        let entries = page_by_score(&replica.header, &replica.rows, &paging).entries;
        assert_eq!((entries.len(), &entries[0].name), (10, &name(5_500)));
    };
    assert_eq!(read(&by_score), 20);
}

#[test]
fn two_large_replicas_that_differ_in_a_row_compare_few_ranges() {
    plant(None);
    let a = filled(CollectionKind::Set, 20_000);
    let mut b = a.clone();
    b.actor = actor(2);
    b.writes(CollectionOp::Add(vec![text("one more")]));
    let mut spans = vec![ElementSpan { from: None, to: None }];
    let mut n_ranges = 0;
    for level in (1..=3).rev() {
        let mut finer = Vec::new();
        for span in &spans {
            let ranges = [&a, &b].map(|one| ranges_of(&one.header, &one.rows, level, span));
            n_ranges += ranges[0].len();
            finer.extend(differing_ranges(&ranges[0], &ranges[1], span));
        }
        spans = finer;
    }
    assert_eq!(spans.len(), 1);
    assert!(n_ranges < 600, "{n_ranges} ranges");
}
