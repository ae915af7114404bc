//! Puts, deletes and how they count revisions.

use crate::world::{
    World, all_of, bytes, delete_reply, do_all, everything, op_delete, op_put, put, put_reply, single, span,
};
use base::{Code, LeaseId, Revision};
use bytes::Bytes;
use coord::ChangeKind;
use coord::request::{Delete, Put, Range, Request};

#[test]
fn an_empty_store_is_at_revision_one_and_the_first_write_makes_two() {
    let mut world = World::new();
    assert_eq!(world.revision(), 1);
    assert_eq!(world.put("/a", "1").revision, Revision(2));
    assert_eq!(world.revision(), 2);
}

/// The worked example of the requirements, A-021.
#[test]
fn every_put_and_every_delete_takes_one_revision() {
    let mut world = World::new();
    world.put("/a", "1");
    world.put("/b", "1");
    world.put("/a", "2");
    world.delete(single("/b"));
    let a = world.get("/a").expect("it was put");
    assert_eq!((a.create_revision, a.mod_revision, a.version), (Revision(2), Revision(4), 2));
    assert_eq!(world.get("/b"), None);
    assert_eq!(world.revision(), 5);
    let b_at = |revision| {
        let range = Range { revision: Revision(revision), ..all_of(single("/b")) };
        world.range(&range).expect("nothing is compacted").count
    };
    assert_eq!([b_at(2), b_at(3), b_at(4), b_at(5)], [0, 1, 1, 0]);
}

#[test]
fn a_delete_of_nothing_does_not_raise_the_revision() {
    let mut world = World::new();
    world.put("a", "1");
    let reply = world.delete(span("b", "\0"));
    assert_eq!((reply.revision, delete_reply(&reply).deleted), (Revision(2), 0));
    assert_eq!(world.delete(span("z", "a")).revision, Revision(2), "an inverted range holds nothing");
}

#[test]
fn a_deleted_key_restarts_its_version() {
    let mut world = World::new();
    world.put("a", "1");
    world.put("a", "2");
    world.delete(single("a"));
    world.put("a", "3");
    let kv = world.get("a").expect("it was put again");
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (Revision(5), Revision(5), 1));
}

#[test]
fn the_previous_value_comes_back_only_when_asked_for_and_there() {
    let mut world = World::new();
    let asking = |value| Request::Put(Put { prev_kv: true, ..put("a", value) });
    let first = world.write(asking("1")).expect("accepted");
    assert_eq!(put_reply(&first).prev_kv, None);
    let second = world.write(asking("2")).expect("accepted");
    let prev = put_reply(&second).prev_kv.clone().expect("there was one");
    assert_eq!((prev.value, prev.mod_revision, prev.version), (bytes("1"), Revision(2), 1));
    assert_eq!(put_reply(&world.put("a", "3")).prev_kv, None);
}

#[test]
fn ignoring_the_value_or_the_lease_needs_a_key_that_exists() {
    let mut world = World::new();
    let keep_value = || Request::Put(Put { value: None, ..put("a", "") });
    let keep_lease = || Request::Put(Put { lease: None, ..put("a", "2") });
    assert_eq!(world.write(keep_value()), Err(Code::KeyNotFound));
    assert_eq!(world.write(keep_lease()), Err(Code::KeyNotFound));
    assert_eq!(world.revision(), 1);
    world.put("a", "1");
    world.write(keep_value()).expect("the key exists");
    let kept = world.get("a").expect("it exists");
    assert_eq!((kept.value, kept.version), (bytes("1"), 2));
    world.write(keep_lease()).expect("the key exists");
    assert_eq!(world.get("a").expect("it exists").value, bytes("2"));
}

#[test]
fn an_unknown_lease_is_refused_and_changes_nothing() {
    let mut world = World::new();
    let leased = Request::Put(Put { lease: Some(LeaseId(5)), ..put("a", "1") });
    assert_eq!(world.write(leased), Err(Code::LeaseNotFound));
    assert_eq!((world.revision(), world.get("a")), (1, None));
}

#[test]
fn of_a_missing_key_and_an_unknown_lease_the_lease_is_told() {
    let mut world = World::new();
    let keeps = || Request::Put(Put { value: None, lease: Some(LeaseId(5)), ..put("a", "") });
    assert_eq!(world.write(keeps()), Err(Code::LeaseNotFound));
    assert_eq!(world.txn(do_all(vec![keeps()])), Err(Code::LeaseNotFound));
    world.put("a", "1");
    assert_eq!(world.write(keeps()), Err(Code::LeaseNotFound));
    assert_eq!(world.txn(do_all(vec![keeps()])), Err(Code::LeaseNotFound));
}

#[test]
fn an_empty_value_is_a_value() {
    let mut world = World::new();
    world.put("a", "");
    assert_eq!(world.get("a").expect("it exists").value, Bytes::new());
}

#[test]
fn a_range_is_deleted_in_one_revision_with_one_change_for_each_key() {
    let mut world = World::new();
    for key in ["c", "a", "b", "d"] {
        world.put(key, "v");
    }
    let delete = Delete { keys: span("a", "d"), prev_kv: true };
    let (reply, changes) = world.propose(Request::Delete(delete));
    let reply = reply.expect("accepted");
    assert_eq!(reply.revision, Revision(6));
    let prev: Vec<&[u8]> = delete_reply(&reply).prev_kvs.iter().map(|kv| kv.key.as_ref()).collect();
    assert_eq!((delete_reply(&reply).deleted, prev), (3, vec![b"a".as_ref(), b"b", b"c"]));
    let told: Vec<_> = changes.iter().map(|c| (c.key.as_ref(), c.revision.0, c.sub, c.prev.0)).collect();
    assert_eq!(told, [(b"a".as_ref(), 6, 0, 3), (b"b", 6, 1, 4), (b"c", 6, 2, 2)]);
    assert!(changes.iter().all(|change| change.kind == ChangeKind::Delete));
    assert_eq!(world.keys(&all_of(everything())), ["d"]);
}

#[test]
fn refused_or_without_effect_a_command_still_moves_the_hash() {
    let mut world = World::new();
    let mut seen = vec![world.state.hash()];
    for request in [
        op_put("a", "1"),
        op_delete(single("z")),
        Request::Put(Put { lease: Some(LeaseId(5)), ..put("a", "1") }),
    ] {
        world.write(request).ok();
        assert!(!seen.contains(&world.state.hash()));
        seen.push(world.state.hash());
    }
}
