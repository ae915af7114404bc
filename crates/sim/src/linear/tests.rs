//! Histories made by hand: what etcd allows is accepted, and each way to break a promise is caught.

use super::{Verdict, check, check_within};
use crate::builders::{
    compare, delete, deleted, done, found, kv, one, put, range, refused, span, txn, unknown, was, went,
};
use crate::durable::{final_read, read_everything};
use crate::history::{ModelRequest, Operation};
use base::{Code, LeaseId, Revision};
use coord::reply::{Body, KeyValue, RangeReply, Reply};
use coord::request::{Put, Range, Relation, Request, Target};

fn write(key: &str, value: &str) -> Request {
    Request::Put(put(key, value))
}

fn read(key: &str) -> Request {
    Request::Range(range(one(key)))
}

fn stale_read(key: &str) -> Request {
    Request::Range(Range { serializable: true, ..range(one(key)) })
}

fn erase(key: &str) -> Request {
    Request::Delete(delete(one(key)))
}

fn accept(history: &[Operation]) {
    let verdict = check(history);
    assert!(matches!(verdict, Verdict::Lawful(_)), "{verdict:?}");
}

/// Rejects for good, for a reason that holds these words.
fn reject(history: &[Operation], words: &str) {
    match check(history) {
        Verdict::Violation(violation) => assert!(violation.to_string().contains(words), "{violation}"),
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn nothing_at_all_is_lawful() {
    accept(&[]);
}

#[test]
fn a_sequence_as_etcd_answers_it_is_lawful() {
    accept(&[
        done(0, 1, read("a"), 1, found(vec![])),
        done(2, 3, write("a", "1"), 2, was(None)),
        done(4, 5, write("a", "2"), 3, was(None)),
        done(6, 7, read("a"), 3, found(vec![kv("a", "2", 2, 3, 2)])),
        done(8, 9, erase("a"), 4, deleted(1)),
        done(10, 11, erase("a"), 4, deleted(0)),
        done(12, 13, write("a", "3"), 5, was(None)),
        done(14, 15, read("a"), 5, found(vec![kv("a", "3", 5, 5, 1)])),
    ]);
}

#[test]
fn a_read_beside_a_write_may_see_either_state() {
    let w = done(0, 10, write("a", "1"), 2, was(None));
    accept(&[w.clone(), done(1, 9, read("a"), 1, found(vec![]))]);
    accept(&[w, done(1, 9, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]))]);
}

#[test]
fn a_stale_read_is_caught() {
    let w = done(0, 1, write("a", "1"), 2, was(None));
    reject(&[w.clone(), done(2, 3, read("a"), 1, found(vec![]))], "invoked after");
    reject(&[w, done(2, 3, read("a"), 2, found(vec![]))], "right would be");
}

#[test]
fn a_lost_write_is_caught_by_the_final_read() {
    let everything = |revision, kvs: Vec<_>| {
        final_read(9, 100, 101, Reply { revision: Revision(revision), body: found(kvs) })
    };
    let a = done(0, 1, write("a", "1"), 2, was(None));
    let b = done(2, 3, write("b", "1"), 3, was(None));
    let (kept_a, kept_b) = (kv("a", "1", 2, 2, 1), kv("b", "1", 3, 3, 1));
    accept(&[a.clone(), b.clone(), everything(3, vec![kept_a.clone(), kept_b.clone()])]);
    reject(&[a.clone(), b.clone(), everything(3, vec![kept_b])], "right would be");
    reject(&[a, b, everything(2, vec![kept_a])], "invoked after");
}

#[test]
fn a_write_that_was_never_acknowledged_may_be_there_or_not() {
    let w = unknown(0, write("a", "1"));
    accept(&[w.clone(), done(5, 6, read("a"), 1, found(vec![]))]);
    accept(&[w.clone(), done(5, 6, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]))]);
    let absent = done(5, 6, read("a"), 1, found(vec![]));
    accept(&[w.clone(), absent, done(7, 8, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]))]);
    let present = done(5, 6, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]));
    reject(&[w, present, done(7, 8, read("a"), 1, found(vec![]))], "invoked after");
}

#[test]
fn a_write_cannot_be_seen_before_it_is_asked_for() {
    let seen = done(0, 1, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]));
    reject(&[seen.clone(), unknown(5, write("a", "1"))], "no operation of unknown fate fits");
    let seen = Operation { request: stale_read("a").into(), ..seen };
    reject(&[seen.clone(), unknown(5, write("a", "1"))], "no operation of unknown fate fits");
    reject(&[seen, done(5, 6, write("a", "1"), 2, was(None))], "invoked after");
}

#[test]
fn a_write_applied_twice_is_caught() {
    let retried = unknown(0, write("a", "1"));
    let once = done(5, 6, read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)]));
    let twice = done(7, 8, read("a"), 3, found(vec![kv("a", "1", 2, 3, 2)]));
    reject(&[retried, once.clone(), twice.clone()], "more revisions are unaccounted for");
    let acknowledged = done(0, 1, write("a", "1"), 2, was(None));
    reject(&[acknowledged, once, twice], "more revisions are unaccounted for");
}

#[test]
fn a_value_that_was_never_written_is_caught() {
    let w = done(0, 1, write("a", "1"), 2, was(None));
    let invented = kv("a", "9", 2, 2, 1);
    reject(&[w.clone(), done(2, 3, read("a"), 2, found(vec![invented.clone()]))], "right would be");
    reject(&[w, done(2, 3, stale_read("a"), 2, found(vec![invented]))], "right would be");
}

#[test]
fn revisions_that_go_back_between_sequential_operations_are_caught() {
    reject(
        &[done(0, 1, write("a", "1"), 3, was(None)), done(2, 3, write("b", "1"), 2, was(None))],
        "invoked after",
    );
}

#[test]
fn one_revision_for_two_writes_is_caught() {
    reject(
        &[done(0, 5, write("a", "1"), 2, was(None)), done(1, 6, write("b", "1"), 2, was(None))],
        "two mutations",
    );
}

#[test]
fn a_skipped_revision_is_caught() {
    reject(&[done(0, 5, write("a", "1"), 3, was(None))], "more revisions are unaccounted for");
}

#[test]
fn a_revision_below_the_first_is_caught() {
    reject(&[done(0, 5, read("a"), 0, found(vec![]))], "no store");
    reject(&[done(0, 5, write("a", "1"), 1, was(None))], "no store");
}

#[test]
fn of_two_that_compare_and_swap_the_same_only_one_can_win() {
    let swap = |value: &str| {
        let absent = compare("a", Relation::Equal, Target::Create(Revision::ZERO));
        txn(vec![absent], vec![write("a", value)], vec![])
    };
    let won = |revision| (revision, went(true, vec![was(None)]));
    let history = |(revision, second): (i64, Body)| {
        [done(0, 5, swap("1"), 2, went(true, vec![was(None)])), done(1, 6, swap("2"), revision, second)]
    };
    accept(&history((2, went(false, vec![]))));
    reject(&history(won(3)), "right would be");
    reject(&history((1, went(false, vec![]))), "right would be");
}

#[test]
fn a_version_that_survives_a_delete_is_caught() {
    let history = |version| {
        [
            done(0, 1, write("a", "1"), 2, was(None)),
            done(2, 3, erase("a"), 3, deleted(1)),
            done(4, 5, write("a", "2"), 4, was(None)),
            done(6, 7, read("a"), 4, found(vec![kv("a", "2", 4, 4, version)])),
        ]
    };
    accept(&history(1));
    reject(&history(2), "right would be");
}

#[test]
fn a_wrong_count_is_caught() {
    let history = |count| {
        let all = Request::Range(Range { limit: 1, ..range(span("a", "z")) });
        let body = Body::Range(RangeReply { kvs: vec![kv("a", "1", 2, 2, 1)], more: true, count });
        [
            done(0, 1, write("a", "1"), 2, was(None)),
            done(2, 3, write("b", "1"), 3, was(None)),
            done(4, 5, all, 3, body),
        ]
    };
    accept(&history(2));
    reject(&history(1), "right would be");
}

#[test]
fn a_wrong_previous_value_is_caught() {
    let history = |prev| {
        let second = Request::Put(Put { prev_kv: true, ..put("a", "2") });
        [done(0, 1, write("a", "1"), 2, was(None)), done(2, 3, second, 3, was(prev))]
    };
    accept(&history(Some(kv("a", "1", 2, 2, 1))));
    reject(&history(Some(kv("a", "0", 2, 2, 1))), "right would be");
    reject(&history(None), "right would be");
}

#[test]
fn a_transaction_that_does_not_see_its_own_put_is_caught() {
    let request = txn(vec![], vec![write("a", "1"), read("a")], vec![]);
    let history = |kvs| [done(0, 1, request.clone(), 2, went(true, vec![was(None), found(kvs)]))];
    accept(&history(vec![kv("a", "1", 2, 2, 1)]));
    reject(&history(vec![]), "right would be");
}

#[test]
fn a_serializable_read_may_be_old_but_must_have_been_true() {
    let writes =
        [done(0, 1, write("a", "1"), 2, was(None)), done(2, 3, write("a", "2"), 3, was(None))].to_vec();
    let with = |revision, kvs| {
        let mut history = writes.clone();
        history.push(done(4, 5, stale_read("a"), revision, found(kvs)));
        history
    };
    accept(&with(1, vec![]));
    accept(&with(2, vec![kv("a", "1", 2, 2, 1)]));
    reject(&with(2, vec![kv("a", "2", 2, 3, 2)]), "right would be");
    reject(&with(3, vec![kv("a", "1", 2, 2, 1)]), "right would be");
}

#[test]
fn a_serializable_read_may_be_the_only_witness_of_a_lost_answer() {
    accept(&[
        unknown(0, write("a", "1")),
        unknown(0, write("a", "2")),
        done(5, 6, stale_read("a"), 2, found(vec![kv("a", "1", 2, 2, 1)])),
        done(7, 8, write("b", "1"), 3, was(None)),
    ]);
}

#[test]
fn a_refusal_must_fit_the_state_it_can_have_met() {
    let keep = Request::Put(Put { value: None, ..put("a", "") });
    let w = done(0, 1, write("a", "1"), 2, was(None));
    accept(&[refused(0, 5, keep.clone(), Code::KeyNotFound), w.clone()]);
    reject(&[w.clone(), refused(2, 5, keep.clone(), Code::KeyNotFound)], "refusal");
    accept(&[w.clone(), unknown(2, erase("a")), refused(3, 5, keep.clone(), Code::KeyNotFound)]);
    accept(&[w.clone(), refused(2, 5, keep, Code::NoLeader)]);
    let future = Request::Range(Range { revision: Revision(2), ..range(one("a")) });
    reject(&[w, refused(2, 5, future, Code::FutureRevision)], "refusal");
}

#[test]
fn a_search_without_budget_is_undecided() {
    let history: Vec<Operation> = (0..8)
        .map(|client| unknown(0, write("a", &client.to_string())))
        .chain([done(5, 6, read_everything(), 7, found(vec![]))])
        .collect();
    assert!(matches!(check_within(&history, 10), Verdict::Undecided(_)));
    assert!(matches!(check_within(&history, u64::MAX), Verdict::Violation(_)));
}

fn leased(key: &str, value: &str, lease: i64) -> Request {
    Request::Put(Put { lease: Some(LeaseId(lease)), ..put(key, value) })
}

fn end(lease: i64) -> ModelRequest {
    ModelRequest::EndLease(LeaseId(lease))
}

#[test]
fn a_lease_ends_with_all_of_its_keys_in_one_revision() {
    let both = [
        done(0, 1, leased("a", "1", 5), 2, was(None)),
        done(2, 3, leased("b", "1", 5), 3, was(None)),
        done(4, 5, end(5), 4, Body::LeaseRevoked),
    ];
    let gone = done(6, 7, Request::Range(range(span("a", "c"))), 4, found(vec![]));
    accept(&[&both[..], &[gone]].concat());
    let one_left = KeyValue { lease: LeaseId(5), ..kv("b", "1", 3, 3, 1) };
    let half = done(6, 7, Request::Range(range(span("a", "c"))), 4, found(vec![one_left]));
    reject(&[&both[..], &[half]].concat(), "no operation of unknown fate fits");
}

#[test]
fn a_lease_that_expires_explains_a_revision_and_one_without_keys_explains_none() {
    let put = done(0, 1, leased("a", "1", 5), 2, was(None));
    let seen = done(20, 30, read("a"), 3, found(vec![]));
    accept(&[put.clone(), unknown(10, end(5)), seen.clone()]);
    reject(&[put.clone(), seen.clone()], "more revisions are unaccounted for");
    reject(&[put, unknown(10, end(6)), seen], "no operation of unknown fate fits");
}

#[test]
fn a_key_that_was_moved_to_no_lease_outlives_it() {
    let moved = [done(0, 1, leased("a", "1", 5), 2, was(None)), done(2, 3, write("a", "2"), 3, was(None))];
    let end = |revision| done(4, 5, end(5), revision, Body::LeaseRevoked);
    let stays = done(6, 7, read("a"), 3, found(vec![kv("a", "2", 2, 3, 2)]));
    accept(&[&moved[..], &[end(3), stays]].concat());
    let gone = done(6, 7, read("a"), 4, found(vec![]));
    reject(&[&moved[..], &[end(4), gone]].concat(), "");
}

#[test]
fn an_ended_lease_is_not_used_again_and_its_end_is_not_put_off() {
    let ended = done(2, 3, end(5), 1, Body::LeaseRevoked);
    reject(&[ended.clone(), done(4, 5, leased("a", "1", 5), 2, was(None))], "lease");
    accept(&[ended, done(4, 5, write("a", "1"), 2, was(None))]);
    let late = [
        done(0, 1, leased("a", "1", 5), 2, was(None)),
        done(2, 3, end(5), 3, Body::LeaseRevoked),
        done(4, 5, read("a"), 2, found(vec![KeyValue { lease: LeaseId(5), ..kv("a", "1", 2, 2, 1) }])),
    ];
    reject(&late, "");
}
