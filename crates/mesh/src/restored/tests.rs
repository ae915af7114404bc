use super::*;
use crate::hlc::Stamp;
use crate::op::{self, BoundedChange, BoundedOp, WriteEvent};
use crate::record::Kind;

const HERE: RegionId = RegionId(9);

fn event(node: u64, counter: u64, ms: u64) -> WriteEvent {
    let actor = Actor { region: HERE, node: NodeId(node), incarnation: 1 };
    WriteEvent { dot: Dot { actor, counter }, stamp: Stamp::at_ms(ms), wall_ms: ms }
}

fn written(ops: &[(u64, Op)], kind: Kind) -> Record {
    let mut record: Option<Record> = None;
    for (counter, (node, op)) in (1..).zip(ops) {
        let at = event(*node, counter, counter);
        record = Some(op::apply(record.as_ref(), kind, op, &Attributes::default(), at).unwrap().full);
    }
    record.unwrap()
}

fn restore(local: Option<&Record>, saved: &Record, run: u64) -> Result<Record, Code> {
    let write = write_of(Key::new(1, b"k"), saved, RestoreRun { id: run, here: HERE });
    op::apply(local, write.kind, &write.op, &write.attributes, event(100 + run, 1, 1_000))
        .map(|written| written.full)
}

fn counter(record: &Record) -> i128 {
    match &record.body {
        Body::Counter(counter) => counter.value(),
        body => panic!("{body:?} counts nothing"),
    }
}

fn element(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn a_node_that_counts_from_one_again_adds_to_what_was_restored() {
    let saved = written(&[(1, Op::Add(5)), (2, Op::Add(7))], Kind::Counter);
    let restored = restore(None, &saved, 1).unwrap();
    assert_eq!((counter(&restored), restored.created_ms), (12, saved.created_ms));
    let added =
        op::apply(Some(&restored), Kind::Counter, &Op::Add(1), &Attributes::default(), event(2, 1, 2_000));
    assert_eq!(counter(&added.unwrap().full), 13);
}

#[test]
fn a_set_is_restored_also_behind_its_delete_and_twice() {
    let saved = written(&[(1, Op::Insert(element("a"))), (2, Op::Insert(element("b")))], Kind::Set);
    let mut now = saved.clone();
    for run in [1, 2] {
        let at = event(3, run, 500);
        now = op::apply(Some(&now), Kind::Set, &Op::Delete, &Attributes::default(), at).unwrap().full;
        assert!(now.is_tombstone());
        now = restore(Some(&now), &saved, run).unwrap_or_else(|code| panic!("{run}: {code:?}"));
        let Body::Set(set) = &now.body else { panic!("it was a set") };
        assert_eq!(set.elements().collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn a_register_replaces_what_is_there_and_a_counter_is_not_mixed_with_it() {
    let saved = written(&[(1, Op::Put(element("old")))], Kind::Register);
    let present = written(&[(2, Op::Put(element("new")))], Kind::Register);
    assert_eq!(restore(Some(&present), &saved, 1).unwrap().body, Body::Register(element("old")));
    let count = written(&[(1, Op::Add(5))], Kind::Counter);
    assert_eq!(restore(Some(&count), &count, 1).unwrap_err(), Code::ConflictDetected);
}

#[test]
fn replicas_that_merge_the_delta_hold_what_the_origin_holds() {
    let saved = written(&[(1, Op::Insert(element("a"))), (2, Op::Insert(element("b")))], Kind::Set);
    let gone = written(&[(4, Op::Insert(element("x"))), (4, Op::Delete)], Kind::Set);
    let write = write_of(Key::new(1, b"k"), &saved, RestoreRun { id: 3, here: HERE });
    let done = op::apply(Some(&gone), write.kind, &write.op, &write.attributes, event(1, 1, 1_000)).unwrap();
    assert_eq!(merge(&gone, &done.delta.unwrap()).record, done.full);
}

#[test]
fn copies_are_joined_and_what_is_deleted_stays_so() {
    let first = written(&[(1, Op::Add(5))], Kind::Counter);
    let second = written(&[(2, Op::Add(7))], Kind::Counter);
    let found = joined(&[first.encode(), second.encode()], 10).unwrap().unwrap();
    assert_eq!(counter(&found), 12);
    let gone = written(&[(1, Op::Put(element("v"))), (1, Op::Delete)], Kind::Register);
    assert_eq!(joined(&[gone.encode()], 10), Ok(None));
    assert_eq!(joined(&[element("no record")], 10), Err(Code::BadRequest));
}

#[test]
fn a_row_tells_its_key() {
    let key = Key::new(4, b"name");
    assert_eq!(key_of_row(&rows::record(&key)), Some(key.clone()));
    assert_eq!(key_of_row(&rows::hint(NodeId(3), &key)), Some(key));
    assert_eq!(key_of_row(b"\x05x"), None);
}

#[test]
fn what_is_above_the_bound_belongs_to_the_node_that_restores_it() {
    let of = |change, bound| Op::Bounded(BoundedOp { change, bound });
    let ops = [(1, of(BoundedChange::Add(9), Some(-2))), (2, of(BoundedChange::Add(3), None))];
    let mut saved = written(&ops, Kind::BoundedCounter);
    for nth in 0..2 {
        let restored = restore(None, &saved, nth + 1).unwrap();
        let counter = restored.bounded().unwrap();
        let owners: Vec<u64> = counter.owners().map(|(_, rights)| rights).collect();
        assert_eq!((counter.bound(), counter.value(), owners), (-2, 10, vec![12]));
        saved = restored;
    }
    assert_eq!(restore(Some(&saved), &saved, 3).unwrap_err(), Code::ConflictDetected);
}
