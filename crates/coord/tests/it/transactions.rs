//! What a transaction compares, does and leaves undone.

use crate::world::{
    World, all_of, bytes, do_all, everything, op_delete, op_put, op_range, put, single, span, when,
};
use base::{Code, LeaseId, Revision};
use coord::ChangeKind;
use coord::reply::{Body, RangeReply};
use coord::request::{Compare, Put, Range, Relation, Request, Target, Txn};

fn test(compares: Vec<Compare>) -> Txn {
    Txn { compares, success: Vec::new(), failure: Vec::new() }
}

fn holds(world: &mut World, compare: Compare) -> bool {
    world.txn(test(vec![compare])).expect("accepted").succeeded
}

fn ranged(body: &Body) -> &RangeReply {
    match body {
        Body::Range(reply) => reply,
        other => panic!("a range was answered by {other:?}"),
    }
}

#[test]
fn a_transaction_without_compares_takes_the_first_branch() {
    let mut world = World::new();
    let txn = Txn { failure: vec![op_put("b", "1")], ..do_all(vec![op_put("a", "1")]) };
    assert!(world.txn(txn).expect("accepted").succeeded);
    assert_eq!(world.keys(&all_of(everything())), ["a"]);
}

#[test]
fn all_compares_must_hold() {
    let mut world = World::new();
    world.put("a", "1");
    let yes = || when(single("a"), Relation::Equal, Target::Version(1));
    let no = || when(single("a"), Relation::Equal, Target::Version(2));
    assert!(world.txn(test(vec![yes(), yes()])).expect("accepted").succeeded);
    assert!(!world.txn(test(vec![yes(), no()])).expect("accepted").succeeded);
}

#[test]
fn every_target_is_compared_by_every_relation() {
    let mut world = World::new();
    world.put("a", "m");
    world.put("a", "m");
    type Make = fn(i64) -> Target;
    let targets: [(Make, i64); 4] = [
        (Target::Version, 2),
        (|n| Target::Create(Revision(n)), 2),
        (|n| Target::Mod(Revision(n)), 3),
        (|n| Target::Lease(LeaseId(n)), 0),
    ];
    let relations = [Relation::Equal, Relation::NotEqual, Relation::Greater, Relation::Less];
    for (target, actual) in targets {
        for (operand, expected) in [
            (actual - 1, [false, true, true, false]),
            (actual, [true, false, false, false]),
            (actual + 1, [false, true, false, true]),
        ] {
            let outcome =
                relations.map(|relation| holds(&mut world, when(single("a"), relation, target(operand))));
            assert_eq!(outcome, expected, "{:?}", target(operand));
        }
    }
    for (operand, expected) in [
        ("l", [false, true, true, false]),
        ("m", [true, false, false, false]),
        ("mm", [false, true, false, true]),
        ("n", [false, true, false, true]),
    ] {
        let value = || Target::Value(bytes(operand));
        let outcome = relations.map(|relation| holds(&mut world, when(single("a"), relation, value())));
        assert_eq!(outcome, expected, "{operand}");
    }
}

#[test]
fn a_missing_key_compares_as_zeros() {
    let mut world = World::new();
    for target in
        [Target::Version(0), Target::Create(Revision(0)), Target::Mod(Revision(0)), Target::Lease(LeaseId(0))]
    {
        assert!(holds(&mut world, when(single("x"), Relation::Equal, target.clone())));
        assert!(!holds(&mut world, when(single("x"), Relation::NotEqual, target)));
    }
    assert!(holds(&mut world, when(span("x", "\0"), Relation::Less, Target::Version(1))));
}

#[test]
fn a_value_compare_on_a_missing_key_is_false_whatever_the_relation() {
    let mut world = World::new();
    for relation in [Relation::Equal, Relation::NotEqual, Relation::Greater, Relation::Less] {
        assert!(!holds(&mut world, when(single("x"), relation, Target::Value(bytes("v")))));
        assert!(!holds(&mut world, when(span("x", "z"), relation, Target::Value(bytes("")))));
    }
}

#[test]
fn a_range_compare_must_hold_for_every_key() {
    let mut world = World::new();
    world.put("a", "1");
    world.put("b", "1");
    assert!(holds(&mut world, when(span("a", "c"), Relation::Equal, Target::Value(bytes("1")))));
    world.put("b", "2");
    assert!(!holds(&mut world, when(span("a", "c"), Relation::Equal, Target::Value(bytes("1")))));
    assert!(holds(&mut world, when(span("a", "\0"), Relation::Greater, Target::Version(0))));
}

#[test]
fn a_transaction_without_effect_does_not_raise_the_revision() {
    let mut world = World::new();
    world.put("a", "1");
    let txn = do_all(vec![op_delete(single("x")), op_range(single("a")), Request::Txn(do_all(vec![]))]);
    let reply = world.write(Request::Txn(txn)).expect("accepted");
    assert_eq!((reply.revision, world.revision()), (Revision(2), 2));
}

#[test]
fn all_writes_share_one_revision_in_the_order_of_the_operations() {
    let mut world = World::new();
    world.put("x", "1");
    let nested = Request::Txn(do_all(vec![op_put("b", "1")]));
    let txn = do_all(vec![op_put("c", "1"), nested, op_delete(single("x")), op_put("a", "1")]);
    let (reply, changes) = world.propose(Request::Txn(txn));
    assert_eq!(reply.expect("accepted").revision, Revision(3));
    let told: Vec<_> = changes
        .iter()
        .map(|c| (c.key.as_ref(), c.revision.0, c.sub, matches!(c.kind, ChangeKind::Put(_))))
        .collect();
    assert_eq!(
        told,
        [(b"c".as_ref(), 3, 0, true), (b"b", 3, 1, true), (b"x", 3, 2, false), (b"a", 3, 3, true)]
    );
}

#[test]
fn operations_see_the_earlier_writes_of_their_transaction() {
    let mut world = World::new();
    world.put("a", "old");
    world.put("b", "old");
    let all = || op_range(everything());
    let txn =
        do_all(vec![all(), op_put("a", "new"), all(), op_delete(single("b")), op_put("c", "new"), all()]);
    let reply = world.txn(txn).expect("accepted");
    let seen = |nth: usize| -> Vec<(String, String, i64)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let kvs = &ranged(&reply.bodies[nth]).kvs;
        kvs.iter().map(|kv| (text(&kv.key), text(&kv.value), kv.mod_revision.0)).collect()
    };
    let row = |key: &str, value: &str, revision| (key.to_string(), value.to_string(), revision);
    assert_eq!(seen(0), [row("a", "old", 2), row("b", "old", 3)]);
    assert_eq!(seen(2), [row("a", "new", 4), row("b", "old", 3)]);
    assert_eq!(seen(5), [row("a", "new", 4), row("c", "new", 4)]);
}

#[test]
fn a_named_revision_inside_a_transaction_is_read_without_its_writes() {
    let mut world = World::new();
    world.put("a", "old");
    let past = Request::Range(Range { revision: Revision(2), ..all_of(single("a")) });
    let reply = world.txn(do_all(vec![op_put("a", "new"), past])).expect("accepted");
    assert_eq!(ranged(&reply.bodies[1]).kvs[0].value, bytes("old"));
    let own = Request::Range(Range { revision: Revision(4), ..all_of(single("a")) });
    assert_eq!(world.txn(do_all(vec![op_put("a", "newer"), own])), Err(Code::FutureRevision));
    assert_eq!(world.revision(), 3);
}

#[test]
fn nested_compares_are_decided_before_any_write() {
    let mut world = World::new();
    let nested = Txn {
        compares: vec![when(single("a"), Relation::Equal, Target::Version(0))],
        success: vec![op_put("was-missing", "1")],
        failure: vec![op_put("was-there", "1")],
    };
    let reply = world.txn(do_all(vec![op_put("a", "1"), Request::Txn(nested)])).expect("accepted");
    assert!(matches!(&reply.bodies[1], Body::Txn(nested) if nested.succeeded));
    assert_eq!(world.keys(&all_of(everything())), ["a", "was-missing"]);
}

#[test]
fn sibling_and_deeper_transactions_each_take_their_own_branch() {
    let mut world = World::new();
    let pick = |there: bool, success: Vec<Request>, failure: Vec<Request>| {
        let version = if there { 0 } else { 1 };
        let compares = vec![when(single("x"), Relation::Equal, Target::Version(version))];
        Request::Txn(Txn { compares, success, failure })
    };
    let txn = do_all(vec![
        pick(true, vec![pick(false, vec![op_put("1", "")], vec![op_put("2", "")])], vec![op_put("3", "")]),
        pick(false, vec![op_put("4", "")], vec![pick(true, vec![op_put("5", "")], vec![op_put("6", "")])]),
    ]);
    world.txn(txn).expect("accepted");
    assert_eq!(world.keys(&all_of(everything())), ["2", "5"]);
}

#[test]
fn overlapping_deletes_count_a_key_once() {
    let mut world = World::new();
    world.put("a", "1");
    world.put("b", "1");
    let reply = world.txn(do_all(vec![op_delete(single("a")), op_delete(everything())])).expect("accepted");
    let deleted: Vec<u64> = reply
        .bodies
        .iter()
        .map(|body| match body {
            Body::Delete(reply) => reply.deleted,
            other => panic!("a delete was answered by {other:?}"),
        })
        .collect();
    assert_eq!(deleted, [1, 1]);
    assert_eq!(world.revision(), 4);
}

#[test]
fn one_refused_operation_leaves_the_whole_transaction_undone() {
    let refused: [(Request, Code); 4] = [
        (Request::Put(Put { lease: Some(LeaseId(1)), ..put("b", "1") }), Code::LeaseNotFound),
        (Request::Put(Put { value: None, ..put("b", "") }), Code::KeyNotFound),
        (Request::Put(Put { lease: None, ..put("b", "1") }), Code::KeyNotFound),
        (Request::Range(Range { revision: Revision(99), ..all_of(single("a")) }), Code::FutureRevision),
    ];
    for (last, code) in refused {
        let mut world = World::new();
        world.put("a", "old");
        let before = world.store.tables.get(&base::Table::Log).cloned();
        let txn = do_all(vec![op_put("a", "new"), op_put("c", "new"), Request::Txn(do_all(vec![last]))]);
        let (reply, changes) = world.propose(Request::Txn(txn));
        assert_eq!((reply, changes.len(), world.revision()), (Err(code), 0, 2));
        assert_eq!(world.get("a").expect("it is there").value, bytes("old"));
        assert_eq!(world.get("c"), None);
        assert_eq!(world.store.tables.get(&base::Table::Log).cloned(), before);
    }
}

#[test]
fn a_refusal_in_the_branch_not_taken_is_none() {
    let mut world = World::new();
    let bad = Request::Put(Put { lease: Some(LeaseId(1)), ..put("b", "1") });
    let txn = Txn { failure: vec![bad], ..do_all(vec![op_put("a", "1")]) };
    assert!(world.txn(txn).expect("accepted").succeeded);
}

#[test]
fn a_command_that_writes_a_key_twice_although_validation_forbids_it_is_refused_whole() {
    let mut world = World::new();
    assert_eq!(world.txn(do_all(vec![op_put("a", "1"), op_put("a", "2")])), Err(Code::DuplicateKey));
    assert_eq!(world.txn(do_all(vec![op_put("a", "1"), op_delete(single("a"))])), Err(Code::DuplicateKey));
    assert_eq!((world.revision(), world.get("a")), (1, None));
}

#[test]
fn a_transaction_of_ranges_is_answered_without_a_proposal() {
    let mut world = World::new();
    world.put("a", "1");
    let hash = world.state.hash();
    let txn = Request::Txn(Txn {
        compares: vec![when(single("a"), Relation::Equal, Target::Version(1))],
        success: vec![op_range(single("a"))],
        failure: Vec::new(),
    });
    let reply = world.state.read(&world.store, &txn).expect("readable");
    let Body::Txn(body) = &reply.body else { panic!("a txn was answered by {reply:?}") };
    assert!(body.succeeded);
    assert_eq!((reply.revision, ranged(&body.bodies[0]).count), (Revision(2), 1));
    assert_eq!(world.state.hash(), hash);
}
