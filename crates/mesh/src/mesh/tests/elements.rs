//! Reads below the key while replicas differ, deletes that name no type, and rows that go a piece at a time.

use super::collections::{ask_elements, change, elements_of, held, named};
use super::world::World;
use super::{SECOND, key, write};
use crate::collection::CollectionOp;
use crate::collection::InsertPosition;
use crate::decimal::Decimal;
use crate::mesh::Request;
use crate::op::Op;
use crate::record::{Kind, Record};
use crate::request::{ElementsPage, ElementsQuery, ElementsRead, Reply};
use crate::rows;
use base::{Code, NodeId};
use bytes::Bytes;
use std::time::Duration;

fn written(world: &mut World, node: u64, request: Request) -> Record {
    match world.call(node, request) {
        Reply::Written(record) => *record,
        other => panic!("it is not written: {other:?}"),
    }
}

fn add(elements: Vec<Bytes>) -> Request {
    change("s", Kind::BigSet, vec![CollectionOp::Add(elements)])
}

/// Replicas that do not compare what they have.
fn world(seed: u64) -> World {
    let mut world = World::with_rounds(seed, 3, Duration::from_secs(3_600));
    world.run(2 * SECOND);
    world
}

fn fill(world: &mut World, n: u64) {
    for first in (0..n).step_by(1_000) {
        written(world, 1, add((first..n.min(first + 1_000)).map(named).collect()));
    }
    world.run(SECOND / 2);
}

/// What all three replicas say.
fn of_all(world: &mut World, name: &str, query: ElementsQuery) -> ElementsPage {
    let read = ElementsRead { key: key(name), query, r: Some(3) };
    match world.call(2, Request::Elements(Box::new(read))) {
        Reply::Elements(page) => *page,
        other => panic!("it cannot be read: {other:?}"),
    }
}

/// Node 3 misses what the others write.
fn without_3(world: &mut World, requests: Vec<Request>) {
    world.isolate(NodeId(3));
    for request in requests {
        written(world, 1, request);
    }
    world.cut.clear();
}

/// Bytes of the answers of other replicas to a count that finds them different.
fn cost_of_count(n: u64) -> usize {
    let mut world = world(11);
    fill(&mut world, n);
    let removal = change("s", Kind::BigSet, vec![CollectionOp::Remove(vec![named(7)])]);
    without_3(&mut world, vec![add(vec![named(900_001), named(5 * n)]), removal]);
    let before = world.collection_answer_bytes;
    assert_eq!(of_all(&mut world, "s", ElementsQuery::Count).count, Some(n + 1));
    assert_ne!(held(&world, NodeId(3), "s"), held(&world, NodeId(2), "s"), "the replicas still differ");
    world.collection_answer_bytes - before
}

#[test]
fn a_count_while_replicas_differ_costs_what_differs_and_not_what_there_is() {
    let (small, large) = (cost_of_count(1_000), cost_of_count(20_000));
    assert!(large < 2 * small && large < 60_000, "{small} and {large} bytes");
}

#[test]
fn a_count_follows_every_kind_of_difference() {
    for seed in 1..=6 {
        let mut world = world(seed);
        fill(&mut world, 1_500);
        let requests = (0..10).map(|n| match world.rng.between(0, 10) {
            0..=4 => {
                add((0..world.rng.between(1, 60)).map(|m| named(2_000 + seed * 700 + n * 61 + m)).collect())
            }
            5..=8 => {
                let first = world.rng.between(0, 1_400);
                change(
                    "s",
                    Kind::BigSet,
                    vec![CollectionOp::Remove((first..first + 40).map(named).collect())],
                )
            }
            _ => Request::write(write("s", Kind::BigSet, Op::Delete)),
        });
        let requests = requests.collect();
        without_3(&mut world, requests);
        let count = of_all(&mut world, "s", ElementsQuery::Count).count;
        let (header, _) = held(&world, NodeId(1), "s").expect("it is a replica");
        assert_eq!(count, Some(header.count), "seed {seed}");
    }
}

fn push(values: &[&'static str]) -> Request {
    let values = values.iter().map(|value| Bytes::from_static(value.as_bytes())).collect();
    change("l", Kind::List, vec![CollectionOp::Insert { place: InsertPosition::Last, values }])
}

fn last_of(world: &mut World) -> Option<Bytes> {
    let last = of_all(world, "l", ElementsQuery::Last);
    last.elements.first().and_then(|item| item.state.register().cloned())
}

#[test]
fn the_last_item_is_found_whichever_replica_has_another_end() {
    for misses_removal in [true, false] {
        let mut world = world(4);
        let pushed = written(&mut world, 1, push(&["a", "b", "c", "d"]));
        let names: Vec<Bytes> = pushed.changed_elements().iter().map(|item| item.name.clone()).collect();
        world.run(SECOND / 10);
        assert_eq!(last_of(&mut world).as_deref(), Some(&b"d"[..]));
        let removal = change("l", Kind::List, vec![CollectionOp::Remove(names[2..].to_vec())]);
        let missed = if misses_removal { removal } else { push(&["e", "f"]) };
        without_3(&mut world, vec![missed]);
        let wanted: &[u8] = if misses_removal { b"b" } else { b"f" };
        assert_eq!(last_of(&mut world).as_deref(), Some(wanted));
    }
}

#[test]
fn the_last_item_of_an_empty_list_is_none_and_the_count_says_why() {
    let mut world = world(4);
    assert_eq!(last_of(&mut world), None);
    let pushed = written(&mut world, 1, push(&["a"]));
    let names = pushed.changed_elements().iter().map(|item| item.name.clone()).collect();
    without_3(&mut world, vec![change("l", Kind::List, vec![CollectionOp::Remove(names)])]);
    assert_eq!(last_of(&mut world), None);
    assert_eq!(of_all(&mut world, "l", ElementsQuery::Count).count, Some(0));
}

#[test]
fn a_delete_through_a_replica_that_missed_the_collection_deletes_it() {
    let mut world = world(9);
    // Before the first collection is created every node has shown that it knows them.
    written(&mut world, 1, change("other", Kind::BigSet, vec![CollectionOp::Add(vec![named(0)])]));
    without_3(&mut world, vec![add(vec![named(1), named(2)])]);
    assert_eq!(held(&world, NodeId(3), "s"), None, "it was missed");
    written(&mut world, 3, Request::write(write("s", Kind::Register, Op::Delete)));
    let left = elements_of(&mut world, 1, "s", ElementsQuery::Page { after: None, limit: 10 });
    assert_eq!(left.elements, []);
    written(&mut world, 2, add(vec![named(3)]));
    let left = elements_of(&mut world, 3, "s", ElementsQuery::Page { after: None, limit: 10 });
    assert_eq!(left.elements.len(), 1);
}

#[test]
fn a_delete_without_a_type_is_refused_what_collections_do_not_take() {
    let mut world = world(9);
    written(&mut world, 1, add(vec![named(1)]));
    world.run(SECOND / 10);
    let mut delete = write("s", Kind::Register, Op::Delete);
    delete.sloppy = true;
    assert_eq!(world.call(2, Request::write(delete)), Reply::Refused(Code::NotForCollections));
    let left = elements_of(&mut world, 1, "s", ElementsQuery::Page { after: None, limit: 10 });
    assert_eq!(left.elements.len(), 1);
}

fn is_gone(world: &World, node: u64, name: &str) -> bool {
    let host = &world.hosts[&NodeId(node)];
    let storage = &host.mesh.as_ref().expect("it runs").replica.storage;
    storage.get(&host.rows, &rows::record(&key(name))).0.is_none()
}

/// Amounts leave notes behind, which stay until the record goes.
#[test]
fn rows_of_a_purged_collection_go_a_piece_at_a_time() {
    let mut world = World::new(5, 3);
    world.run(2 * SECOND);
    for first in (0..3_000).step_by(500) {
        let increment = |n| CollectionOp::Increment { name: named(n), by: Decimal(1) };
        written(&mut world, 1, change("m", Kind::Map, (first..first + 500).map(increment).collect()));
    }
    written(&mut world, 1, Request::write(write("m", Kind::Map, Op::Delete)));
    world.batch_rows_max = 0;
    for _ in 0..240 {
        world.run(SECOND / 2);
        if (1..=3).all(|node| is_gone(&world, node, "m")) {
            break;
        }
    }
    assert_eq!((world.leftovers(1), world.leftovers(12)), (0, 0));
    assert!(world.batch_rows_max < 2_500, "{} rows in one batch", world.batch_rows_max);
}

#[test]
fn a_small_collection_does_not_wait_for_the_sweep_of_a_large_one() {
    let mut world = World::new(6, 3);
    world.run(2 * SECOND);
    // By name the large one comes first.
    for name in ["a", "b"] {
        let n = if name == "a" { 20_000 } else { 100 };
        for first in (0..n).step_by(1_000) {
            let elements = (first..n.min(first + 1_000)).map(named).collect();
            written(&mut world, 1, change(name, Kind::BigSet, vec![CollectionOp::Add(elements)]));
        }
    }
    for name in ["a", "b"] {
        written(&mut world, 1, Request::write(write(name, Kind::BigSet, Op::Delete)));
    }
    let is_swept = |world: &World, name: &str| {
        let host = &world.hosts[&NodeId(1)];
        let storage = &host.mesh.as_ref().expect("it runs").replica.storage;
        let record = storage.get(&host.rows, &rows::record(&key(name))).0.and_then(Record::decode);
        record.and_then(|record| record.collection_header()).is_none_or(|header| header.sweep.is_none())
    };
    while !is_swept(&world, "b") {
        assert!(!is_swept(&world, "a"), "the large one is swept first");
        world.run(super::MS);
    }
}

#[test]
fn a_page_of_a_collection_that_is_not_there_is_empty() {
    let mut world = world(2);
    let page = match world.call(1, ask_elements("none", ElementsQuery::Last)) {
        Reply::Elements(page) => *page,
        other => panic!("it cannot be read: {other:?}"),
    };
    assert_eq!(page, ElementsPage::default());
}
