//! The model against the written contract, rule by rule.

use super::{State, step};
use crate::builders::{bytes, compare, delete, deleted, found, kv, one, put, range, span, txn, was, went};
use base::{Code, LeaseId, Revision};
use coord::reply::{Body, RangeReply};
use coord::request::{Bounds, Compare, Order, Put, Range, Relation, Request, Sort, SortTarget, Target};

/// The state after these requests, and the answer to the last of them.
fn after(requests: &[Request]) -> (State, Body) {
    let mut last = (State::empty(), found(vec![]));
    for request in requests {
        let (state, reply) = step(&last.0, request).expect("no refusal");
        assert_eq!(reply.revision, state.revision());
        last = (state, reply.body);
    }
    last
}

fn write(key: &str, value: &str) -> Request {
    Request::Put(put(key, value))
}

fn three() -> State {
    after(&[write("a", "3"), write("b", "1"), write("c", "2"), write("a", "0")]).0
}

fn answer(state: &State, request: Range) -> RangeReply {
    match step(state, &Request::Range(request)).expect("no refusal").1.body {
        Body::Range(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn keys(state: &State, request: Range) -> String {
    answer(state, request).kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

#[test]
fn only_effects_make_revisions() {
    let nothing = Request::Delete(delete(one("z")));
    let empty = txn(vec![], vec![nothing.clone()], vec![]);
    let (state, body) = after(&[nothing, write("a", "1"), empty]);
    assert_eq!(state.revision(), Revision(2));
    assert_eq!(body, went(true, vec![deleted(0)]));
}

#[test]
fn a_limit_cuts_but_the_count_is_whole() {
    let reply = answer(&three(), Range { limit: 2, ..range(span("a", "z")) });
    assert_eq!((reply.kvs.len(), reply.more, reply.count), (2, true, 3));
    let reply = answer(&three(), Range { limit: 3, ..range(span("a", "z")) });
    assert_eq!((reply.kvs.len(), reply.more, reply.count), (3, false, 3));
    let reply = answer(&three(), Range { count_only: true, limit: 1, ..range(span("a", "z")) });
    assert_eq!((reply.kvs.len(), reply.more, reply.count), (0, false, 3));
}

#[test]
fn filters_and_sorts_come_before_the_limit() {
    let all = || range(span("a", "z"));
    let sort = |target, descending| {
        let order = if descending { Order::Descending } else { Order::Ascending };
        Some(Sort { target, order })
    };
    assert_eq!(keys(&three(), Range { sort: sort(SortTarget::Value, false), ..all() }), "abc");
    assert_eq!(keys(&three(), Range { sort: sort(SortTarget::Mod, true), limit: 1, ..all() }), "a");
    let young = Bounds { min: Revision(4), max: Revision::ZERO };
    let reply = answer(&three(), Range { mod_revisions: young, limit: 1, ..all() });
    assert_eq!((reply.kvs.len(), reply.more, reply.count), (1, true, 3));
    assert_eq!(keys(&three(), Range { create_revisions: young, ..all() }), "c");
}

#[test]
fn the_past_is_kept_and_the_future_is_refused() {
    let at = |revision| Range { revision: Revision(revision), ..range(one("a")) };
    assert_eq!(answer(&three(), at(4)).kvs, vec![kv("a", "3", 2, 2, 1)]);
    assert_eq!(answer(&three(), at(5)).kvs, vec![kv("a", "0", 2, 5, 2)]);
    assert_eq!(answer(&three(), at(1)).kvs, vec![]);
    assert_eq!(step(&three(), &Request::Range(at(6))).err(), Some(Code::FutureRevision));
}

#[test]
fn a_put_that_keeps_something_needs_something() {
    let keep_value = |key| Request::Put(Put { value: None, prev_kv: true, ..put(key, "") });
    assert_eq!(step(&three(), &keep_value("z")).err(), Some(Code::KeyNotFound));
    let (state, reply) = step(&three(), &keep_value("b")).unwrap();
    assert_eq!(reply.body, was(Some(kv("b", "1", 3, 3, 1))));
    assert_eq!(state.keys()[&bytes("b")], kv("b", "1", 3, 6, 2));
    let leased = Request::Put(Put { lease: Some(LeaseId(7)), ..put("a", "1") });
    assert_eq!(step(&three(), &leased).err(), Some(Code::LeaseNotFound));
}

#[test]
fn a_missing_key_compares_as_zeros_and_has_no_value() {
    let holds = |compare: Compare| after(&[txn(vec![compare], vec![], vec![])]).1 == went(true, vec![]);
    assert!(holds(compare("z", Relation::Equal, Target::Version(0))));
    assert!(holds(compare("z", Relation::Less, Target::Create(Revision(1)))));
    assert!(!holds(compare("z", Relation::Equal, Target::Value(bytes("")))));
    assert!(!holds(compare("z", Relation::NotEqual, Target::Value(bytes("x")))));
}

#[test]
fn a_compare_over_a_range_must_hold_for_every_key() {
    let holds = |target, relation| {
        let compare = Compare { keys: span("a", "z"), relation, target };
        step(&three(), &txn(vec![compare], vec![], vec![])).unwrap().1.body == went(true, vec![])
    };
    assert!(holds(Target::Version(0), Relation::Greater));
    assert!(!holds(Target::Version(1), Relation::Equal));
}

#[test]
fn nested_compares_look_at_the_state_before_any_write() {
    let exists = compare("a", Relation::Greater, Target::Version(0));
    let nested = txn(vec![exists], vec![], vec![Request::Range(range(one("a")))]);
    let (state, body) = after(&[txn(vec![], vec![write("a", "1"), nested], vec![])]);
    let seen = went(false, vec![found(vec![kv("a", "1", 2, 2, 1)])]);
    assert_eq!(body, went(true, vec![was(None), seen]));
    assert_eq!(state.revision(), Revision(2));
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let keep = Request::Put(Put { value: None, ..put("z", "") });
    let whole = txn(vec![], vec![write("a", "1"), keep], vec![]);
    assert_eq!(step(&three(), &whole).err(), Some(Code::KeyNotFound));
}

#[test]
fn equal_content_by_another_way_has_another_hash() {
    let left = after(&[write("a", "1"), write("a", "2")]).0;
    let right = after(&[write("a", "9"), write("a", "2")]).0;
    assert_eq!(left.keys(), right.keys());
    assert_ne!(left.hash(), right.hash());
}

#[test]
fn a_long_past_can_be_dropped() {
    let mut state = State::empty();
    for _ in 0..200_000 {
        state = step(&state, &write("a", "1")).unwrap().0;
    }
    drop(state);
}
