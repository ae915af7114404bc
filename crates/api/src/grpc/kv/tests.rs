use super::*;
use bytes::Bytes;

fn key() -> Bytes {
    Bytes::from_static(b"key")
}

fn range() -> wire::RangeRequest {
    wire::RangeRequest { key: key(), ..Default::default() }
}

fn put() -> wire::PutRequest {
    wire::PutRequest { key: key(), value: "value".into(), ..Default::default() }
}

fn compare() -> wire::Compare {
    wire::Compare { key: key(), ..Default::default() }
}

fn op(request: WireOp) -> wire::RequestOp {
    wire::RequestOp { request: Some(request) }
}

fn txn_of(success: Vec<wire::RequestOp>) -> wire::TxnRequest {
    wire::TxnRequest { success, ..Default::default() }
}

#[test]
fn a_range_keeps_every_field() {
    let parsed = parse_range(wire::RangeRequest {
        key: key(),
        range_end: Bytes::from_static(b"\0"),
        limit: 7,
        revision: 5,
        sort_order: SortOrder::Descend as i32,
        sort_target: WireTarget::Mod as i32,
        serializable: true,
        keys_only: true,
        count_only: true,
        min_mod_revision: 1,
        max_mod_revision: 2,
        min_create_revision: 3,
        max_create_revision: 4,
    });
    let expected = Range {
        keys: KeyRange { start: key(), end: base::RangeEnd::Open },
        revision: Revision(5),
        limit: 7,
        sort: Some(Sort { target: SortTarget::Mod, order: Order::Descending }),
        serializable: true,
        keys_only: true,
        count_only: true,
        mod_revisions: bounds(1, 2),
        create_revisions: bounds(3, 4),
        in_pieces: false,
    };
    assert_eq!(parsed, Ok(expected));
}

#[test]
fn sorting_is_asked_for_only_where_keys_do_not_come_sorted() {
    let asc = |target| Some(Sort { target, order: Order::Ascending });
    let desc = |target| Some(Sort { target, order: Order::Descending });
    let unasked = |target| Some(Sort { target, order: Order::Unspecified });
    let table = [
        (SortOrder::None, WireTarget::Key, None),
        (SortOrder::Ascend, WireTarget::Key, None),
        (SortOrder::Descend, WireTarget::Key, desc(SortTarget::Key)),
        (SortOrder::None, WireTarget::Version, unasked(SortTarget::Version)),
        (SortOrder::Ascend, WireTarget::Create, asc(SortTarget::Create)),
        (SortOrder::Descend, WireTarget::Mod, desc(SortTarget::Mod)),
        (SortOrder::None, WireTarget::Value, unasked(SortTarget::Value)),
    ];
    for (order, target, expected) in table {
        assert_eq!(parse_sort(order as i32, target as i32), Ok(expected), "{order:?} {target:?}");
    }
}

#[test]
fn what_no_range_can_be_is_refused() {
    let table = [
        (wire::RangeRequest { sort_order: 3, ..range() }, Code::InvalidSortOption),
        (wire::RangeRequest { sort_order: -1, ..range() }, Code::InvalidSortOption),
        (wire::RangeRequest { sort_target: 5, ..range() }, Code::InvalidSortOption),
        (wire::RangeRequest { sort_target: i32::MIN, ..range() }, Code::InvalidSortOption),
    ];
    for (wire, code) in table {
        assert_eq!(parse_range(wire.clone()), Err(code), "{wire:?}");
    }
}

#[test]
fn the_first_mistake_is_told_and_an_empty_key_comes_first() {
    let sorted_badly = wire::RangeRequest { sort_order: 9, ..Default::default() };
    assert_eq!(parse_range(sorted_badly), Err(Code::EmptyKey));
    let contradicts = wire::PutRequest { ignore_value: true, value: "v".into(), ..Default::default() };
    assert_eq!(parse_put(contradicts.clone()), Err(Code::EmptyKey));
    assert_eq!(parse_delete(Default::default()), Err(Code::EmptyKey));
    assert_eq!(parse_compare(wire::Compare { result: 9, ..Default::default() }), Err(Code::EmptyKey));
    let mistakes = vec![
        op(WireOp::RequestRange(Default::default())),
        op(WireOp::RequestPut(wire::PutRequest { key: key(), ..contradicts })),
    ];
    assert_eq!(parse_txn(txn_of(mistakes)), Err(Code::EmptyKey));
}

#[test]
fn a_revision_below_zero_means_now_outside_of_a_transaction() {
    for revision in [-1, i64::MIN, 0] {
        let wire = wire::RangeRequest { revision, ..range() };
        assert_eq!(parse_range(wire.clone()).unwrap().revision, Revision::ZERO);
        assert_eq!(parse_range_op(wire).unwrap().revision, Revision(revision));
    }
}

#[test]
fn a_negative_limit_is_none() {
    for (limit, expected) in [(-1, 0), (i64::MIN, 0), (0, 0), (i64::MAX, i64::MAX as u64)] {
        assert_eq!(parse_range(wire::RangeRequest { limit, ..range() }).unwrap().limit, expected);
    }
}

#[test]
fn a_put_says_what_to_keep() {
    let parsed = parse_put(wire::PutRequest { lease: 9, prev_kv: true, ..put() }).unwrap();
    assert_eq!(
        parsed,
        Put { key: key(), value: Some("value".into()), lease: Some(LeaseId(9)), prev_kv: true }
    );
    let keeps =
        parse_put(wire::PutRequest { value: Bytes::new(), ignore_value: true, ignore_lease: true, ..put() });
    assert_eq!(keeps, Ok(Put { key: key(), value: None, lease: None, prev_kv: false }));
    let empty = parse_put(wire::PutRequest { value: Bytes::new(), ..put() }).unwrap();
    assert_eq!(empty.value, Some(Bytes::new()), "an empty value is a value");
}

#[test]
fn a_put_that_contradicts_itself_is_refused() {
    let table = [
        (wire::PutRequest { ignore_value: true, ..put() }, Code::ValueProvided),
        (wire::PutRequest { ignore_lease: true, lease: 1, ..put() }, Code::LeaseProvided),
        (wire::PutRequest { ignore_lease: true, lease: -1, ..put() }, Code::LeaseProvided),
    ];
    for (wire, code) in table {
        assert_eq!(parse_put(wire.clone()), Err(code), "{wire:?}");
    }
}

#[test]
fn a_delete_keeps_its_range() {
    let wire = wire::DeleteRangeRequest { key: key(), range_end: "z".into(), prev_kv: true };
    let expected = Delete { keys: KeyRange::from_wire(key(), "z".into()), prev_kv: true };
    assert_eq!(parse_delete(wire), Ok(expected));
}

#[test]
fn a_compare_takes_its_operand_from_the_field_its_target_names() {
    let table = [
        (CompareTarget::Version, Some(TargetUnion::Version(-3)), Target::Version(-3)),
        (CompareTarget::Create, Some(TargetUnion::CreateRevision(4)), Target::Create(Revision(4))),
        (CompareTarget::Mod, Some(TargetUnion::ModRevision(5)), Target::Mod(Revision(5))),
        (CompareTarget::Value, Some(TargetUnion::Value("v".into())), Target::Value("v".into())),
        (CompareTarget::Lease, Some(TargetUnion::Lease(6)), Target::Lease(LeaseId(6))),
        (CompareTarget::Version, None, Target::Version(0)),
        (CompareTarget::Create, None, Target::Create(Revision(0))),
        (CompareTarget::Mod, Some(TargetUnion::Version(7)), Target::Mod(Revision(0))),
        (CompareTarget::Value, Some(TargetUnion::Lease(8)), Target::Value(Bytes::new())),
        (CompareTarget::Lease, Some(TargetUnion::Value("v".into())), Target::Lease(LeaseId(0))),
    ];
    for (target, target_union, expected) in table {
        let wire = wire::Compare { target: target as i32, target_union, ..compare() };
        assert_eq!(parse_compare(wire.clone()).unwrap().target, expected, "{wire:?}");
    }
}

#[test]
fn every_relation_is_known_and_no_other() {
    let relations = [Relation::Equal, Relation::Greater, Relation::Less, Relation::NotEqual];
    for (number, relation) in relations.into_iter().enumerate() {
        let wire = wire::Compare { result: number as i32, ..compare() };
        assert_eq!(parse_compare(wire).unwrap().relation, relation);
    }
    for unknown in [4, -1, i32::MAX, i32::MIN] {
        let result = wire::Compare { result: unknown, ..compare() };
        assert_eq!(parse_compare(result), Err(Code::UnknownCompare));
        let target = wire::Compare { target: unknown.saturating_add(1), ..compare() };
        assert_eq!(parse_compare(target.clone()).is_err(), target.target != 0);
    }
}

#[test]
fn operations_inside_are_held_to_the_same_rules() {
    let refused = |request: wire::RequestOp| parse_txn(txn_of(vec![request])).unwrap_err();
    assert_eq!(refused(wire::RequestOp { request: None }), Code::KeyNotFound);
    assert_eq!(
        refused(op(WireOp::RequestPut(wire::PutRequest { ignore_value: true, ..put() }))),
        Code::ValueProvided
    );
    let inner = txn_of(vec![wire::RequestOp::default()]);
    assert_eq!(refused(op(WireOp::RequestTxn(inner))), Code::KeyNotFound);
    assert_eq!(
        refused(op(WireOp::RequestRange(wire::RangeRequest { sort_order: 9, ..range() }))),
        Code::InvalidSortOption
    );
    let failure = wire::TxnRequest { failure: vec![wire::RequestOp::default()], ..Default::default() };
    assert_eq!(parse_txn(failure), Err(Code::KeyNotFound), "the other branch is checked too");
}

fn head(revision: i64) -> Head {
    Head { cluster_id: 1, member_id: 2, revision, raft_term: 3 }
}

fn key_value() -> KeyValue {
    KeyValue {
        key: key(),
        create_revision: Revision(1),
        mod_revision: Revision(2),
        version: 3,
        lease: LeaseId(4),
        value: "value".into(),
    }
}

#[test]
fn a_key_value_keeps_every_field() {
    let rendered = render_range(head(5), RangeReply { kvs: vec![key_value()], more: true, count: 6 });
    let kv = mvccpb::KeyValue {
        key: key(),
        create_revision: 1,
        mod_revision: 2,
        version: 3,
        lease: 4,
        value: "value".into(),
    };
    let expected = wire::RangeResponse { header: Some(head(5)), kvs: vec![kv], more: true, count: 6 };
    assert_eq!(rendered, expected);
}

fn revisions_of(response: &wire::TxnResponse) -> Vec<i64> {
    let mut revisions = vec![response.header.unwrap().revision];
    for op in &response.responses {
        match op.response.as_ref().unwrap() {
            WireOpReply::ResponseRange(range) => revisions.push(range.header.unwrap().revision),
            WireOpReply::ResponsePut(put) => revisions.push(put.header.unwrap().revision),
            WireOpReply::ResponseDeleteRange(delete) => revisions.push(delete.header.unwrap().revision),
            WireOpReply::ResponseTxn(txn) => revisions.extend(revisions_of(txn)),
        }
    }
    revisions
}

#[test]
fn inside_a_transaction_the_revision_moves_with_the_first_change() {
    let read = || Body::Range(RangeReply::default());
    let deleted = |deleted| Body::Delete(DeleteReply { deleted, prev_kvs: vec![] });
    let written = || Body::Put(PutReply::default());
    let inner = |bodies| Body::Txn(TxnReply { succeeded: true, bodies });
    let table = [
        (vec![], vec![9]),
        (vec![read(), deleted(0)], vec![9, 9, 9]),
        (vec![read(), deleted(0), written(), read()], vec![9, 8, 8, 9, 9]),
        (vec![read(), deleted(2), read()], vec![9, 8, 9, 9]),
        (vec![read(), inner(vec![read(), written(), read()]), read()], vec![9, 8, 0, 8, 9, 9, 9]),
        (vec![inner(vec![read()]), read()], vec![9, 0, 9, 9]),
    ];
    for (bodies, expected) in table {
        let rendered = render_txn(head(9), TxnReply { succeeded: false, bodies });
        assert_eq!(rendered.header, Some(head(9)));
        assert!(!rendered.succeeded);
        assert_eq!(revisions_of(&rendered), expected);
    }
}

#[test]
fn headers_inside_a_transaction_carry_nothing_but_the_revision() {
    let reply =
        TxnReply { succeeded: true, bodies: vec![Body::Put(PutReply { prev_kv: Some(key_value()) })] };
    let rendered = render_txn(head(9), reply);
    let Some(WireOpReply::ResponsePut(put)) = &rendered.responses[0].response else {
        panic!("a put is answered by a put")
    };
    assert_eq!(put.header, Some(Head { revision: 9, ..Default::default() }));
    assert_eq!(put.prev_kv.as_ref().unwrap().mod_revision, 2);
}
