//! What a range answers.

use crate::world::{World, all_of, bytes, everything, put, single, span};
use base::{Code, KeyRange, RangeEnd, Revision, Rng, Row, Table};
use bytes::Bytes;
use coord::request::{Bounds, Delete, Order, Put, Range, Request, Sort, SortTarget};
use coord::{Record, Records, State, rows};
use std::cell::Cell;

/// a..e, then b and d once more; e is the shortest value, a the longest.
fn five_keys() -> World {
    let mut world = World::new();
    for (key, value) in [("c", "3"), ("a", "9"), ("e", "1"), ("b", "2"), ("d", "4"), ("b", "7"), ("d", "4")] {
        world.put(key, value);
    }
    world
}

fn sorted(target: SortTarget, descending: bool) -> Range {
    let order = if descending { Order::Descending } else { Order::Ascending };
    Range { sort: Some(Sort { target, order }), ..all_of(everything()) }
}

#[test]
fn a_range_names_one_key_an_interval_or_everything_from_a_key_on() {
    let world = five_keys();
    assert_eq!(world.keys(&all_of(single("b"))), ["b"]);
    assert_eq!(world.keys(&all_of(span("b", "d"))), ["b", "c"]);
    assert_eq!(world.keys(&all_of(span("c", "\0"))), ["c", "d", "e"]);
    assert_eq!(world.keys(&all_of(everything())), ["a", "b", "c", "d", "e"]);
    assert!(world.keys(&all_of(span("d", "b"))).is_empty());
    assert!(world.keys(&all_of(single("bb"))).is_empty());
}

#[test]
fn a_limit_cuts_the_keys_and_leaves_the_count_whole() {
    let world = five_keys();
    let limited = |limit| {
        let range = Range { limit, ..all_of(span("b", "\0")) };
        let reply = world.range(&range).expect("readable");
        (reply.kvs.len(), reply.more, reply.count)
    };
    assert_eq!(limited(0), (4, false, 4));
    assert_eq!(limited(1), (1, true, 4));
    assert_eq!(limited(3), (3, true, 4));
    assert_eq!(limited(4), (4, false, 4));
    assert_eq!(limited(u64::MAX), (4, false, 4));
}

#[test]
fn a_target_without_an_order_is_sorted_among_the_first_keys_only() {
    let world = five_keys();
    let unasked = |limit| {
        let sort = Some(Sort { target: SortTarget::Mod, order: Order::Unspecified });
        Range { sort, limit, ..all_of(everything()) }
    };
    // By revision: c a e b d. Among a, b and c alone: c a b.
    assert_eq!(world.keys(&unasked(0)), ["c", "a", "e", "b", "d"]);
    assert_eq!(world.keys(&unasked(2)), ["c", "a"]);
    assert_eq!(world.keys(&unasked(1)), ["a"], "of a and b");
    let filtered = Range { mod_revisions: Bounds { min: Revision(2), max: Revision::ZERO }, ..unasked(1) };
    assert_eq!(world.keys(&filtered), ["c"], "a filter looks at the whole range");
    let reply = world.range(&unasked(2)).expect("readable");
    assert_eq!((reply.more, reply.count), (true, 5));
}

#[test]
fn a_revision_below_the_floor_is_compacted_and_the_floor_of_a_whole_history_is_minus_one() {
    let world = five_keys();
    let at = |revision| world.range(&Range { revision: Revision(revision), ..all_of(everything()) });
    assert_eq!(at(-1), at(0));
    assert_eq!(at(-2), Err(Code::Compacted));
    assert_eq!(at(i64::MIN), Err(Code::Compacted));
}

#[test]
fn counting_alone_answers_no_keys_and_no_more() {
    let world = five_keys();
    for keys in [everything(), span("a", "\0"), span("a", "z")] {
        let range = Range { count_only: true, limit: 1, ..all_of(keys) };
        let reply = world.range(&range).expect("readable");
        assert_eq!((reply.kvs.len(), reply.more, reply.count), (0, false, 5));
    }
}

#[test]
fn every_target_sorts_both_ways_with_the_limit_last() {
    let world = five_keys();
    let expected = [
        (SortTarget::Key, ["a", "b", "c", "d", "e"], ["e", "d", "c", "b", "a"]),
        (SortTarget::Version, ["a", "c", "e", "b", "d"], ["b", "d", "a", "c", "e"]),
        (SortTarget::Create, ["c", "a", "e", "b", "d"], ["d", "b", "e", "a", "c"]),
        (SortTarget::Mod, ["c", "a", "e", "b", "d"], ["d", "b", "e", "a", "c"]),
        (SortTarget::Value, ["e", "c", "d", "b", "a"], ["a", "b", "d", "c", "e"]),
    ];
    for (target, rising, falling) in expected {
        assert_eq!(world.keys(&sorted(target, false)), rising, "{target:?}");
        assert_eq!(world.keys(&sorted(target, true)), falling, "{target:?}");
        let limited = Range { limit: 2, ..sorted(target, true) };
        assert_eq!(world.keys(&limited), falling[..2], "{target:?}");
        let reply = world.range(&limited).expect("readable");
        assert_eq!((reply.more, reply.count), (true, 5));
    }
}

#[test]
fn filters_apply_before_the_limit_and_leave_the_count_whole() {
    let world = five_keys();
    let bounds = |min, max| Bounds { min: Revision(min), max: Revision(max) };
    let by_mod = |min, max| Range { mod_revisions: bounds(min, max), ..all_of(everything()) };
    let by_create = |min, max| Range { create_revisions: bounds(min, max), ..all_of(everything()) };
    assert_eq!(world.keys(&by_mod(4, 0)), ["b", "d", "e"]);
    assert_eq!(world.keys(&by_mod(0, 4)), ["a", "c", "e"]);
    assert_eq!(world.keys(&by_mod(3, 4)), ["a", "e"]);
    assert_eq!(world.keys(&by_create(5, 6)), ["b", "d"]);
    let limited = Range { limit: 1, ..by_mod(3, 4) };
    let reply = world.range(&limited).expect("readable");
    assert_eq!((reply.kvs.len(), reply.more, reply.count), (1, true, 5));
    let all_kept = Range { limit: 2, ..by_mod(3, 4) };
    assert!(!world.range(&all_kept).expect("readable").more, "what a filter leaves out is not more");
}

/// Counts the values that are read.
struct Counting<'a> {
    world: &'a World,
    reads: Cell<usize>,
}

impl Records for Counting<'_> {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        self.reads.set(self.reads.get() + 1);
        self.world.store.record(key, revision)
    }
}

#[test]
fn values_are_read_for_the_keys_that_are_answered_and_no_others() {
    let world = five_keys();
    let reads = |range: Range| {
        let records = Counting { world: &world, reads: Cell::new(0) };
        world.state.range(&records, &range).expect("readable");
        records.reads.get()
    };
    assert_eq!(reads(Range { limit: 2, ..all_of(everything()) }), 2);
    assert_eq!(reads(Range { limit: 2, ..sorted(SortTarget::Mod, true) }), 2);
    assert_eq!(reads(Range { keys_only: true, ..all_of(everything()) }), 0);
    assert_eq!(reads(Range { keys_only: true, revision: Revision(5), ..all_of(everything()) }), 0);
    assert_eq!(reads(Range { count_only: true, ..all_of(everything()) }), 0);
    assert_eq!(reads(Range { limit: 2, ..sorted(SortTarget::Value, false) }), 5);
}

#[test]
fn keys_alone_come_without_their_values() {
    let world = five_keys();
    let reply = world.range(&Range { keys_only: true, ..all_of(everything()) }).expect("readable");
    assert_eq!(reply.kvs.len(), 5);
    assert!(reply.kvs.iter().all(|kv| kv.value.is_empty() && kv.version > 0 && kv.mod_revision.0 > 1));
    let by_value = Range { keys_only: true, ..sorted(SortTarget::Value, false) };
    assert_eq!(world.keys(&by_value), ["e", "c", "d", "b", "a"]);
    assert!(world.range(&by_value).expect("readable").kvs.iter().all(|kv| kv.value.is_empty()));
}

#[test]
fn a_past_revision_is_read_as_it_was() {
    let mut world = World::new();
    world.put("a", "1");
    world.put("a", "2");
    world.delete(single("a"));
    world.put("a", "3");
    let at = |revision| {
        let range = Range { revision: Revision(revision), ..all_of(single("a")) };
        let kv = world.range(&range).expect("readable").kvs.pop()?;
        Some((kv.value, kv.create_revision.0, kv.mod_revision.0, kv.version))
    };
    assert_eq!(at(1), None);
    assert_eq!(at(2), Some((bytes("1"), 2, 2, 1)));
    assert_eq!(at(3), Some((bytes("2"), 2, 3, 2)));
    assert_eq!(at(4), None);
    assert_eq!(at(5), Some((bytes("3"), 5, 5, 1)));
    assert_eq!(at(0), at(5));
    assert_eq!(at(-1), at(5), "a negative revision means the newest, as in etcd");
}

#[test]
fn a_revision_that_is_not_yet_is_refused() {
    let world = five_keys();
    let future = Range { revision: Revision(world.revision() + 1), ..all_of(single("a")) };
    assert_eq!(world.range(&future), Err(Code::FutureRevision));
    let count = Range { count_only: true, ..future };
    assert_eq!(world.range(&count), Err(Code::FutureRevision));
}

#[test]
fn below_the_compacted_revision_nothing_is_read_and_at_it_everything() {
    let mut world = five_keys();
    let mut meta = vec![1, 7, 3];
    base::codec::put_signed(&mut meta, world.revision());
    base::codec::put_signed(&mut meta, 4);
    meta.extend_from_slice(&world.state.hash().to_le_bytes());
    world.store.write(Row {
        table: Table::Meta,
        key: Bytes::from_static(rows::META_KEY),
        value: Some(Bytes::from(meta)),
    });
    world.state = State::load(&world.store).expect("whole").expect("written");
    assert_eq!(world.state.compacted(), Revision(4));
    let at = |revision| world.range(&Range { revision: Revision(revision), ..all_of(everything()) });
    assert_eq!(at(3), Err(Code::Compacted));
    assert_eq!(at(4).expect("the floor itself is readable").count, 3);
    assert_eq!(at(0).expect("the newest is readable").count, 5);
}

#[test]
fn counts_agree_with_the_keys_over_many_keys_at_any_revision() {
    let mut world = World::new();
    let mut rng = Rng::new(21);
    let name = |rng: &mut Rng| Bytes::from(format!("{:03}", rng.between(0, 900)));
    for _ in 0..2_500 {
        let key = name(&mut rng);
        let request = if rng.chance(250_000) {
            Request::Delete(Delete { keys: KeyRange::single(key), prev_kv: false })
        } else {
            Request::Put(Put { key, ..put("", "") })
        };
        world.write(request).expect("accepted");
    }
    let newest = world.revision() as u64;
    for _ in 0..150 {
        let keys = KeyRange { start: name(&mut rng), end: RangeEnd::Before(name(&mut rng)) };
        let revision = Revision(rng.between(0, newest + 1) as i64);
        let all = Range { revision, keys_only: true, ..all_of(keys) };
        let found = world.range(&all).expect("readable").kvs.len() as u64;
        let counted = Range { count_only: true, ..all.clone() };
        let limited = Range { limit: 3, ..all };
        assert_eq!(world.range(&counted).expect("readable").count, found);
        assert_eq!(world.range(&limited).expect("readable").count, found);
    }
}

#[test]
fn keys_with_zero_bytes_and_common_prefixes_keep_their_order_and_values() {
    let mut world = World::new();
    let keys: [&'static [u8]; 7] = [b"\0", b"\0\0", b"a", b"a\0", b"a\0\x01", b"a\x01", b"a\xff"];
    for key in keys.iter().rev() {
        let key = Bytes::from_static(key);
        world.write(Request::Put(Put { value: Some(key.clone()), key, ..put("", "") })).expect("accepted");
    }
    let reply = world.range(&all_of(everything())).expect("readable");
    let answered: Vec<&[u8]> = reply.kvs.iter().map(|kv| kv.key.as_ref()).collect();
    assert_eq!(answered, keys);
    assert!(reply.kvs.iter().all(|kv| kv.value == kv.key));
    let prefix = KeyRange::from_wire(bytes("a\0"), base::key_range::prefix_end(b"a\0"));
    assert_eq!(world.range(&all_of(prefix)).expect("readable").count, 2);
}
