//! Collections of every type in a backup: pages that a quorum has agreed on become rows, and rows become a collection under another
//! name, element by element the same. One replica has missed an addition and a removal.

use super::collections::{change, elements_of, named};
use super::world::{MS, World};
use super::{SECOND, awake, key, put, value};
use crate::collection::{CollectionOp, ElementEntry, InsertPosition};
use crate::decimal::Decimal;
use crate::key::Key;
use crate::mutant::Mutant;
use crate::record::{Kind, Record};
use crate::request::{ElementsPage, ElementsQuery, Reply, Request, Write};
use crate::restored::{
    element_of_row, joined, key_of_row, restoring_elements, rows_of_elements, write_of_elements,
};
use crate::rows::{RowKind, row_kind};
use base::NodeId;
use bytes::Bytes;
use std::collections::BTreeMap;

/// More than a page holds.
const ELEMENTS: u64 = 250;
const PAGE: usize = 100;
const KINDS: [Kind; 6] =
    [Kind::BigSet, Kind::Flag, Kind::Map, Kind::SortedSet, Kind::List, Kind::HyperLogLog];

fn name_of(kind: Kind) -> String {
    format!("{kind:?}")
}

fn fill(world: &mut World, kind: Kind) {
    let elements = || (0..ELEMENTS).map(named);
    let by = |n: usize| Decimal(n as i128 * 3 - 70);
    let ops: Vec<CollectionOp> = match kind {
        Kind::BigSet => vec![CollectionOp::Add(elements().collect())],
        Kind::Flag => vec![CollectionOp::Enable],
        Kind::SortedSet => {
            let score = |(n, member)| CollectionOp::SetScore { member, score: by(n) };
            elements().enumerate().map(score).collect()
        }
        Kind::List => {
            vec![CollectionOp::Insert { place: InsertPosition::First, values: elements().rev().collect() }]
        }
        Kind::HyperLogLog => vec![CollectionOp::Observe(elements().collect())],
        _ => {
            let field = |(n, name): (usize, Bytes)| match n % 3 {
                0 => CollectionOp::Increment { name, by: by(n) },
                1 => CollectionOp::SetField { value: name.clone(), field: name, expires_ms: None },
                _ => {
                    let value = name.clone();
                    CollectionOp::SetField { value, field: name, expires_ms: Some(u64::MAX / 2 + n as u64) }
                }
            };
            elements().enumerate().map(field).collect()
        }
    };
    let reply = world.call(1, change(&name_of(kind), kind, ops));
    assert!(matches!(reply, Reply::Written(_)), "{kind:?}: {reply:?}");
}

fn all_of(world: &mut World, name: &str) -> Vec<ElementsPage> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = elements_of(world, 2, name, ElementsQuery::Page { after, limit: PAGE });
        after = page.next.clone();
        pages.push(page);
        if after.is_none() {
            return pages;
        }
    }
}

/// What clients are shown of a collection, in order.
fn shown(world: &mut World, kind: Kind, name: &str) -> Vec<String> {
    let show = |ElementEntry { name, state }: &ElementEntry| match kind {
        Kind::List => format!("{:?}", state.register()),
        Kind::SortedSet => format!("{name:?} {}", state.score()),
        Kind::HyperLogLog => format!("{name:?} {}", state.rank()),
        _ => format!("{name:?} {:?} {} {:?}", state.register(), state.amount(), state.expires_ms()),
    };
    let pages = all_of(world, name);
    let count = elements_of(world, 1, name, ElementsQuery::Count);
    let mut all: Vec<String> = pages.iter().flat_map(|page| &page.elements).map(show).collect();
    all.push(format!("{:?} {:?}", count.count, count.estimate));
    all
}

/// The rows of a backup, by key.
fn saved(world: &mut World, kind: Kind) -> BTreeMap<Bytes, Bytes> {
    let name = name_of(kind);
    let pages = all_of(world, &name);
    let rows = pages.iter().zip(0..).flat_map(|(page, n)| rows_of_elements(&key(&name), page, n == 0));
    rows.collect()
}

fn restored(world: &mut World, kind: Kind, rows: &BTreeMap<Bytes, Bytes>) -> String {
    let name = format!("{kind:?} again");
    let record = rows.iter().find(|(row, _)| key_of_row(row).is_some()).expect("it has a record");
    let record = Record::decode(record.1.clone()).expect("it is one");
    let of = record.kind.collection().expect("it is a collection");
    let elements: Vec<ElementEntry> =
        rows.iter().filter_map(|(row, value)| element_of_row(of, row, value)).collect();
    for some in elements.chunks(60) {
        let write = write_of_elements(Key::new(0, name.as_bytes()), &record, restoring_elements(of, some));
        let reply = world.call(3, Request::write(write));
        assert!(matches!(reply, Reply::Written(_)), "{kind:?}: {reply:?}");
    }
    name
}

fn collections_come_back(seed: u64) -> Option<String> {
    let mut world = World::with_rounds(seed, 3, std::time::Duration::from_secs(3_600));
    world.run(2 * SECOND);
    KINDS.iter().for_each(|kind| fill(&mut world, *kind));
    world.run(SECOND / 10);
    world.isolate(NodeId(1));
    let missed = [CollectionOp::Add(vec![named(1_000)]), CollectionOp::Remove(vec![named(7)])];
    let reply = world.call(2, change(&name_of(Kind::BigSet), Kind::BigSet, missed.to_vec()));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    world.cut.clear();
    world.run(10 * MS);
    for kind in KINDS {
        let before = shown(&mut world, kind, &name_of(kind));
        assert!(before.len() > 1, "{kind:?} holds something");
        let rows = saved(&mut world, kind);
        let name = restored(&mut world, kind, &rows);
        if rows.len() < before.len() || shown(&mut world, kind, &name) != before {
            return Some(format!("{kind:?} came back otherwise"));
        }
    }
    None
}

pub const SCENES: [(&str, super::Scene, Mutant); 1] =
    [("collections of a backup", collections_come_back, Mutant::BackupWithoutElements)];

#[test]
fn scenes_of_backups_end_well() {
    super::end_well(&SCENES, 3);
}

#[test]
fn every_planted_bug_of_backups_shows_in_its_scene() {
    super::show(&SCENES);
}

/// What these nodes have to give for a backup, of hints alone or of the rest alone.
fn rows_of(world: &mut World, nodes: &[NodeId], are_hints: bool) -> Vec<(Bytes, Bytes)> {
    let mut all = Vec::new();
    for node in nodes {
        let mut from = Bytes::new();
        loop {
            let Reply::Rows(page) = world.call(node.0, Request::Rows { from }) else {
                panic!("{node:?} gives its rows")
            };
            let is_asked = |(row, _): &(Bytes, Bytes)| (row_kind(row) == Some(RowKind::Hint)) == are_hints;
            all.extend(page.rows.into_iter().filter(is_asked));
            let Some(next) = page.next else { break };
            from = next;
        }
    }
    all
}

/// A stand-in acknowledges a write for two replicas that are cut off, and hands it over while a backup is read; the third replica
/// cannot be asked. What the backup has of the key.
fn saved_while_it_is_handed_over(hints_first: bool) -> Option<String> {
    let mut world = awake(21, 5);
    let list = world.topology.placement().now.of(key("k").partition(), 3).to_vec();
    let (first, away) = list.split_first().expect("a key has replicas");
    let stand_ins: Vec<NodeId> = world.hosts.keys().copied().filter(|node| !list.contains(node)).collect();
    world.split(away);
    // Until the silence of the two is noticed.
    for _ in 0..5 {
        world.call(first.0, Request::write(put("k", "strict")));
    }
    let sloppy = world.call(first.0, Request::write(Write { sloppy: true, ..put("k", "sloppy") }));
    assert_eq!(value(&sloppy).as_deref(), Some("sloppy"), "it is acknowledged");
    world.crash(*first);
    let nodes = [away, &stand_ins].concat();
    let mut rows = rows_of(&mut world, &nodes, hints_first);
    world.cut.clear();
    world.run(3 * SECOND);
    assert_eq!(world.leftovers(3), 0, "handed over");
    rows.extend(rows_of(&mut world, &nodes, !hints_first));
    let of_key = rows.into_iter().filter(|(row, _)| key_of_row(row) == Some(key("k")));
    let copies: Vec<Bytes> = of_key.map(|(_, value)| value).collect();
    let record = joined(&copies, world.now / MS).expect("these are records")?;
    value(&Reply::Found(Some(Box::new(record))))
}

#[test]
fn a_write_that_is_handed_over_while_rows_are_read_is_saved_if_hints_are_read_first() {
    assert_eq!(saved_while_it_is_handed_over(true).as_deref(), Some("sloppy"));
    assert_eq!(saved_while_it_is_handed_over(false), None, "the other way round it is missed");
}

#[test]
fn a_row_that_fits_no_collection_of_the_type_is_no_element() {
    let mut world = World::new(5, 3);
    world.run(2 * SECOND);
    fill(&mut world, Kind::SortedSet);
    let rows = saved(&mut world, Kind::SortedSet);
    let (row, value) = rows.iter().next_back().expect("there are elements");
    let of = |kind: Kind, row: &[u8], value: &Bytes| {
        element_of_row(kind.collection().expect("it is a collection"), row, value).is_some()
    };
    assert!(of(Kind::SortedSet, row, value));
    assert!(!of(Kind::BigSet, row, value) && !of(Kind::HyperLogLog, row, value));
    for cut in 0..value.len() {
        assert!(!of(Kind::SortedSet, row, &value.slice(..cut)), "{cut}");
    }
    for cut in 0..row.len() {
        let element = element_of_row(Kind::SortedSet.collection().unwrap(), &row[..cut], value);
        assert!(element.is_none_or(|element| element.name.len() < named(0).len()), "{cut}");
    }
}
