//! What is refused before anything is proposed.

use crate::generate;
use crate::world::{all_of, bytes, do_all, everything, op_delete, op_put, op_range, put, single, span, when};
use base::{Code, LeaseId, Rng};
use bytes::Bytes;
use coord::Limits;
use coord::request::{Put, Range, Relation, Request, Target, Txn};

fn validate(request: &Request) -> Result<(), Code> {
    request.validate(&Limits::default())
}

fn check(success: Vec<Request>) -> Result<(), Code> {
    validate(&Request::Txn(do_all(success)))
}

fn either(success: Vec<Request>, failure: Vec<Request>) -> Request {
    Request::Txn(Txn { compares: Vec::new(), success, failure })
}

#[test]
fn an_empty_key_is_refused_wherever_it_stands() {
    let compare_nothing = Txn {
        compares: vec![when(single(""), Relation::Equal, Target::Version(0))],
        success: Vec::new(),
        failure: Vec::new(),
    };
    let requests = [
        op_put("", "v"),
        op_range(single("")),
        op_range(span("", "\0")),
        op_delete(single("")),
        op_delete(span("", "b")),
        Request::Txn(compare_nothing),
        either(vec![op_put("", "v")], vec![]),
        either(vec![], vec![op_range(single(""))]),
        either(vec![either(vec![], vec![op_delete(single(""))])], vec![]),
    ];
    for request in requests {
        assert_eq!(validate(&request), Err(Code::EmptyKey), "{request:?}");
    }
    assert_eq!(validate(&op_range(everything())), Ok(()));
}

#[test]
fn a_value_or_lease_given_together_with_its_ignore_flag_is_refused() {
    assert_eq!(Put::value_from_wire(bytes("v"), true), Err(Code::ValueProvided));
    assert_eq!(Put::value_from_wire(Bytes::new(), true), Ok(None));
    assert_eq!(Put::value_from_wire(Bytes::new(), false), Ok(Some(Bytes::new())));
    assert_eq!(Put::lease_from_wire(LeaseId(1), true), Err(Code::LeaseProvided));
    assert_eq!(Put::lease_from_wire(LeaseId::NONE, true), Ok(None));
    assert_eq!(Put::lease_from_wire(LeaseId(1), false), Ok(Some(LeaseId(1))));
}

#[test]
fn the_longest_of_compares_and_branches_counts_against_the_limit() {
    let ranges = |count| vec![op_range(single("k")); count];
    let compares = |count| vec![when(single("k"), Relation::Equal, Target::Version(0)); count];
    let txn = |c, s, f| {
        validate(&Request::Txn(Txn { compares: compares(c), success: ranges(s), failure: ranges(f) }))
    };
    assert_eq!(txn(128, 128, 128), Ok(()));
    assert_eq!(txn(129, 0, 0), Err(Code::TooManyOps));
    assert_eq!(txn(0, 129, 0), Err(Code::TooManyOps));
    assert_eq!(txn(0, 0, 129), Err(Code::TooManyOps));
}

#[test]
fn nested_transactions_get_what_the_outer_one_leaves_over() {
    let nested = |outer: usize, inner: usize| {
        let mut success = vec![op_range(single("k")); outer - 1];
        success.push(either(vec![op_range(single("k")); inner], vec![]));
        check(success)
    };
    assert_eq!(nested(28, 100), Ok(()));
    assert_eq!(nested(28, 101), Err(Code::TooManyOps));
    assert_eq!(nested(128, 0), Ok(()));
    assert_eq!(nested(128, 1), Err(Code::TooManyOps));
}

#[test]
fn a_lowered_limit_is_obeyed() {
    let limits = Limits { txn_ops_max: 2, txn_depth_max: 0 };
    let ranges = |count| either(vec![op_range(single("k")); count], vec![]);
    assert_eq!(ranges(2).validate(&limits), Ok(()));
    assert_eq!(ranges(3).validate(&limits), Err(Code::TooManyOps));
    assert_eq!(either(vec![ranges(1)], vec![]).validate(&limits), Err(Code::TxnTooDeep));
}

#[test]
fn nesting_deeper_than_the_limit_is_refused() {
    let mut request = either(vec![], vec![]);
    for _ in 0..4 {
        request = either(vec![], vec![request]);
    }
    assert_eq!(validate(&request), Ok(()));
    assert_eq!(validate(&either(vec![request], vec![])), Err(Code::TxnTooDeep));
}

#[test]
fn a_key_is_put_at_most_once_and_never_put_and_deleted() {
    let duplicate = Err(Code::DuplicateKey);
    let put_k = || op_put("k", "v");
    assert_eq!(check(vec![put_k(), put_k()]), duplicate);
    assert_eq!(check(vec![put_k(), op_put("l", "v")]), Ok(()));
    assert_eq!(check(vec![put_k(), op_delete(single("k"))]), duplicate);
    assert_eq!(check(vec![op_delete(span("a", "k")), put_k()]), Ok(()), "the end is not in the range");
    assert_eq!(check(vec![op_delete(span("a", "k\0")), put_k()]), duplicate);
    assert_eq!(check(vec![op_delete(span("k", "\0")), put_k()]), duplicate);
    assert_eq!(check(vec![op_delete(span("l", "a")), put_k()]), Ok(()), "an inverted range holds nothing");
    assert_eq!(check(vec![op_delete(single("k")), op_put("k\0", "v")]), Ok(()));
    assert_eq!(check(vec![op_range(single("k")), put_k()]), Ok(()));
}

#[test]
fn deletes_may_overlap_each_other() {
    assert_eq!(check(vec![op_delete(single("k")), op_delete(single("k"))]), Ok(()));
    assert_eq!(check(vec![op_delete(span("a", "m")), op_delete(span("k", "\0"))]), Ok(()));
}

#[test]
fn the_branches_of_a_transaction_exclude_each_other_and_its_neighbours_do_not() {
    let put_k = || op_put("k", "v");
    let del_k = || op_delete(single("k"));
    assert_eq!(validate(&either(vec![put_k()], vec![put_k()])), Ok(()));
    assert_eq!(check(vec![either(vec![put_k()], vec![put_k()])]), Ok(()));
    assert_eq!(check(vec![either(vec![put_k()], vec![del_k()])]), Ok(()));
    let duplicate = Err(Code::DuplicateKey);
    assert_eq!(check(vec![either(vec![put_k()], vec![]), put_k()]), duplicate);
    assert_eq!(check(vec![either(vec![], vec![put_k()]), del_k()]), duplicate);
    assert_eq!(check(vec![either(vec![del_k()], vec![]), put_k()]), duplicate);
    assert_eq!(check(vec![either(vec![put_k()], vec![]), either(vec![], vec![put_k()])]), duplicate);
    assert_eq!(check(vec![either(vec![put_k()], vec![]), either(vec![], vec![del_k()])]), duplicate);
    assert_eq!(validate(&either(vec![], vec![put_k(), put_k()])), duplicate, "both branches are checked");
}

/// Every way the compares could go, as the flat list of operations it would run.
fn paths(branch: &[Request]) -> Vec<Vec<&Request>> {
    let mut all = vec![Vec::new()];
    for request in branch {
        let tails = match request {
            Request::Txn(txn) => [paths(&txn.success), paths(&txn.failure)].concat(),
            other => vec![vec![other]],
        };
        all = all.iter().flat_map(|head| tails.iter().map(|tail| [&head[..], tail].concat())).collect();
    }
    all
}

fn clash(path: &[&Request]) -> bool {
    let puts_twice = |a: &Put, other: &Request| match other {
        Request::Put(b) => a.key == b.key,
        Request::Delete(delete) => delete.keys.contains(&a.key),
        _ => false,
    };
    (0..path.len()).any(|i| match path[i] {
        Request::Put(put) => (0..path.len()).any(|j| i != j && puts_twice(put, path[j])),
        _ => false,
    })
}

#[test]
fn duplicates_are_found_exactly_when_some_path_writes_a_key_twice() {
    let mut rng = Rng::new(5);
    let mut refused = 0;
    for _ in 0..4_000 {
        let txn = generate::txn(&mut rng, 10, 2);
        let clashes = [&txn.success, &txn.failure].iter().any(|b| paths(b).iter().any(|path| clash(path)));
        let expected = if clashes { Err(Code::DuplicateKey) } else { Ok(()) };
        refused += usize::from(clashes);
        assert_eq!(validate(&Request::Txn(txn.clone())), expected, "{txn:?}");
    }
    assert!(refused > 500 && refused < 3_500, "{refused}");
}

#[test]
fn a_transaction_of_many_thousand_writes_is_checked_in_one_sweep() {
    let key = |n: usize| Bytes::from(format!("{n:08}"));
    let inner = |outer: usize| {
        let puts = (0..63).map(|n| Request::Put(Put { key: key(2 * (outer * 63 + n)), ..put("", "v") }));
        let hole = |n: usize| base::KeyRange::single(key(2 * (outer * 63 + n) + 1));
        let dels = (0..63).map(move |n| op_delete(hole(n)));
        either(puts.collect(), vec![either(vec![], vec![]), either(dels.collect(), vec![])])
    };
    let wide = Limits { txn_ops_max: 4_000, txn_depth_max: 4 };
    let request = either((0..2_000).map(inner).collect(), vec![]);
    assert_eq!(request.validate(&wide), Ok(()));
}

#[test]
fn ranges_and_transactions_of_ranges_alone_are_read_only() {
    assert!(op_range(single("k")).is_read_only());
    assert!(!op_put("k", "v").is_read_only());
    assert!(!op_delete(single("k")).is_read_only());
    assert!(either(vec![op_range(single("k"))], vec![op_range(everything())]).is_read_only());
    assert!(!either(vec![op_range(single("k"))], vec![op_put("k", "v")]).is_read_only());
    assert!(!either(vec![either(vec![], vec![])], vec![]).is_read_only(), "nested ones go through the log");
}

#[test]
fn a_transaction_is_serializable_when_it_has_ranges_and_all_of_them_are() {
    let stale = || Request::Range(Range { serializable: true, ..all_of(single("k")) });
    assert!(stale().is_serializable());
    assert!(!op_range(single("k")).is_serializable());
    assert!(either(vec![stale()], vec![stale()]).is_serializable());
    assert!(!either(vec![stale()], vec![op_range(single("k"))]).is_serializable());
    assert!(!either(vec![], vec![]).is_serializable());
}
