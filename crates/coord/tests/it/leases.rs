//! What leases do to keys, and what may end them.

use crate::world::{World, bytes, put, single};
use base::{Code, Index, LeaseId, Term};
use coord::reply::{Body, Reply};
use coord::request::{Put, Request};
use coord::{ChangeKind, Checkpoint, Command, Grant, GrantTime, Guard, Revoke};

const LEASE: LeaseId = LeaseId(5);

fn grant(world: &mut World, id: LeaseId) -> Result<Reply, Code> {
    world.command(Command::LeaseGrant(Grant { id, ttl: 60 })).0
}

fn revoke(world: &mut World, guard: Option<Guard>) -> Result<Reply, Code> {
    world.command(Command::LeaseRevoke(Revoke { id: LEASE, guard })).0
}

fn put_leased(world: &mut World, key: &'static str, lease: Option<LeaseId>) -> Result<Reply, Code> {
    world.write(Request::Put(Put { lease, ..put(key, "v") }))
}

fn attached(world: &World, id: LeaseId) -> Vec<String> {
    let lease = world.state.lease(id).expect("the lease is there");
    lease.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
}

#[test]
fn an_id_that_is_taken_is_not_granted_again() {
    let mut world = World::new();
    let granted = grant(&mut world, LEASE).expect("granted");
    assert_eq!(granted.body, Body::LeaseGranted { id: LEASE, ttl: 60 });
    assert_eq!(granted.revision.0, 1, "a lease is no change of a key");
    assert_eq!(grant(&mut world, LEASE), Err(Code::LeaseExists));
}

#[test]
fn invalid_grants_are_refused() {
    let mut world = World::new();
    for (id, ttl, code) in [
        (LeaseId(0), 5, Code::LeaseNotFound),
        (LEASE, 9_000_000_001, Code::LeaseTtlTooLarge),
        (LEASE, 0, Code::LeaseTtlTooLarge),
    ] {
        assert_eq!(world.command(Command::LeaseGrant(Grant { id, ttl })).0, Err(code));
    }
}

#[test]
fn a_put_with_an_unknown_lease_is_refused() {
    assert_eq!(put_leased(&mut World::new(), "a", Some(LEASE)), Err(Code::LeaseNotFound));
}

#[test]
fn a_key_hangs_on_the_lease_of_its_last_put_alone() {
    let mut world = World::new();
    grant(&mut world, LEASE).expect("granted");
    grant(&mut world, LeaseId(6)).expect("granted");
    put_leased(&mut world, "a", Some(LEASE)).expect("put");
    put_leased(&mut world, "b", Some(LEASE)).expect("put");
    put_leased(&mut world, "a", Some(LeaseId(6))).expect("put");
    assert_eq!((attached(&world, LEASE), attached(&world, LeaseId(6))), (vec!["b".into()], vec!["a".into()]));
    put_leased(&mut world, "b", Some(LeaseId::NONE)).expect("put");
    put_leased(&mut world, "a", None).expect("the lease is kept");
    assert_eq!((attached(&world, LEASE), attached(&world, LeaseId(6))), (vec![], vec!["a".into()]));
    world.delete(single("a"));
    assert!(attached(&world, LeaseId(6)).is_empty());
    world.reload();
    assert!(attached(&world, LeaseId(6)).is_empty());
}

#[test]
fn a_revoke_deletes_the_keys_in_order_and_in_one_revision() {
    let mut world = World::new();
    grant(&mut world, LEASE).expect("granted");
    for key in ["c", "a", "b"] {
        put_leased(&mut world, key, Some(LEASE)).expect("put");
    }
    let (reply, changes) = world.command(Command::LeaseRevoke(Revoke { id: LEASE, guard: None }));
    assert_eq!(reply.expect("revoked").revision.0, 5);
    let deleted: Vec<_> = changes.iter().map(|change| (change.key.clone(), change.revision.0)).collect();
    assert_eq!(deleted, [(bytes("a"), 5), (bytes("b"), 5), (bytes("c"), 5)]);
    assert!(changes.iter().all(|change| change.kind == ChangeKind::Delete));
    assert_eq!(revoke(&mut world, None), Err(Code::LeaseNotFound));
    world.reload();
    assert!(world.state.lease(LEASE).is_none());
}

#[test]
fn a_revoke_without_keys_takes_no_revision() {
    let mut world = World::new();
    grant(&mut world, LEASE).expect("granted");
    assert_eq!(revoke(&mut world, None).expect("revoked").revision.0, 1);
}

#[test]
fn an_expiry_counts_only_in_the_term_of_the_leader_that_said_so() {
    let mut world = World::new();
    grant(&mut world, LEASE).expect("granted");
    // The world's entries are of term 3, and this grant was the first of them.
    for (term, granted) in [(2, 1), (4, 1), (3, 2)] {
        let guard = Guard { term: Term(term), granted: Index(granted) };
        assert_eq!(revoke(&mut world, Some(guard)), Err(Code::LeaseNotFound));
        assert!(world.state.lease(LEASE).is_some());
    }
    revoke(&mut world, Some(Guard { term: Term(3), granted: Index(1) })).expect("revoked");
}

#[test]
fn a_checkpoint_is_what_a_new_leader_owes_until_it_is_cleared() {
    let mut world = World::new();
    grant(&mut world, LEASE).expect("granted");
    let checkpoint = |world: &mut World, remaining: i64| {
        let stranger = Checkpoint { id: LeaseId(99), granted: Index(1), remaining };
        let namesake = Checkpoint { id: LEASE, granted: Index(9), remaining: 3 };
        let list = vec![stranger, namesake, Checkpoint { id: LEASE, granted: Index(1), remaining }];
        world.command(Command::LeaseCheckpoint(list)).0.expect("recorded");
        world.reload();
        world.state.lease(LEASE).expect("still there").owed()
    };
    assert_eq!(checkpoint(&mut world, 7), 7);
    assert_eq!(checkpoint(&mut world, 61), 7, "more than was granted is nonsense");
    assert_eq!(checkpoint(&mut world, 0), 60);
}

#[test]
fn leases_are_part_of_the_hash() {
    let hash = |ttl: i64| {
        let mut world = World::new();
        world.command(Command::LeaseGrant(Grant { id: LEASE, ttl })).0.expect("granted");
        world.state.hash()
    };
    assert_ne!(hash(60), hash(61));
}

#[test]
fn the_next_time_mark_says_when_a_lease_was_granted_and_no_later_one_does() {
    let mut world = World::new();
    assert!(!world.state.needs_time_mark());
    grant(&mut world, LEASE).expect("granted");
    assert_eq!(world.state.lease(LEASE).unwrap().granted_at, GrantTime::Unmarked);
    assert!(world.state.needs_time_mark(), "also when no key has changed");
    // What waits for its mark still does so after a restart.
    world.reload();
    world.command(Command::TimeMark { millis: 1_000 }).0.expect("time always passes");
    assert_eq!(world.state.lease(LEASE).unwrap().granted_at, GrantTime::At(1_000));
    assert!(!world.state.needs_time_mark());
    world.command(Command::TimeMark { millis: 2_000 }).0.expect("time always passes");
    world.reload();
    assert_eq!(world.state.lease(LEASE).unwrap().granted_at, GrantTime::At(1_000));
}
