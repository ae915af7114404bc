//! The lock machine: the state machines of a lock and of a lease, row by row, and who may act.

use crate::generate;
use crate::world::{World, bytes, single};
use base::{Code, LeaseId, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, LockReply};
use coord::{Acquire, ChangeKind, ClaimCalls, Command, Grant, Guard, Leave, Release, Revoke, lock_queue};

pub const A: LeaseId = LeaseId(0xa);
pub const B: LeaseId = LeaseId(0xb);
const C: LeaseId = LeaseId(0xc);
pub const LOCK: &str = "/locks/database/users-table";

pub fn world() -> World {
    let mut world = World::new();
    for id in [A, B, C] {
        world.command(Command::LeaseGrant(Grant { id, ttl: 30 })).0.expect("granted");
    }
    world
}

/// The call that a lease makes first has its own number.
fn ask(lease: LeaseId) -> Acquire {
    Acquire {
        name: bytes(LOCK),
        lease,
        value: bytes("{ \"operation\": \"schema-migration\" }"),
        holder: bytes("service-a-pod-xyz-123"),
        since: 1_700_000_000_000,
        call: lease.0 as u64,
        is_try: false,
        replaces_value: false,
    }
}

fn acquire(world: &mut World, acquire: Acquire) -> Result<LockReply, Code> {
    match world.command(Command::LockAcquire(acquire)).0?.body {
        Body::Lock(reply) => Ok(reply),
        other => panic!("answered by {other:?}"),
    }
}

pub fn lock(world: &mut World, lease: LeaseId) -> LockReply {
    acquire(world, ask(lease)).expect("the lease is there")
}

fn try_lock(world: &mut World, lease: LeaseId) -> LockReply {
    acquire(world, Acquire { is_try: true, ..ask(lease) }).expect("the lease is there")
}

pub fn place(lease: LeaseId) -> Bytes {
    lock_queue::key_of(LOCK.as_bytes(), lease)
}

pub fn release(world: &mut World, lease: LeaseId, token: i64) -> Result<(), Code> {
    let release = Release { key: place(lease), token: Revision(token) };
    world.command(Command::LockRelease(release)).0.map(drop)
}

fn leave(world: &mut World, lease: LeaseId, call: u64, keeps_held: bool) -> Option<Revision> {
    let leave = Command::LockLeave(Leave { key: place(lease), call, keeps_held });
    match world.command(leave).0.expect("leaving is never refused").body {
        Body::Left { holding } => holding,
        other => panic!("answered by {other:?}"),
    }
}

pub fn revoke(world: &mut World, id: LeaseId) {
    world.command(Command::LeaseRevoke(Revoke { id, guard: None })).0.expect("the lease is there");
}

/// The lease of the holder.
fn holder(world: &World) -> Option<LeaseId> {
    let holder = world.state.lock_holder(LOCK.as_bytes())?;
    [A, B, C].into_iter().find(|lease| holder.key == place(*lease))
}

/// The state in which a transition of the table begins: the lock is free, or A holds it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Available,
    Held,
}

#[test]
fn the_transition_table_of_a_lock_holds_row_by_row() {
    type Event = fn(&mut World) -> bool;
    let rows: [(From, &str, Event, Option<LeaseId>); 9] = [
        (From::Available, "lock request", |world| lock(world, A).acquired, Some(A)),
        (From::Available, "try request", |world| try_lock(world, A).acquired, Some(A)),
        // A free lock has no key: there is nothing to delete, and nothing changes.
        (
            From::Available,
            "delete request",
            |world| world.delete(lock_queue::keys_of(LOCK.as_bytes())).revision.0 == 1,
            None,
        ),
        (From::Held, "release request", |world| release(world, A, 2).is_ok(), None),
        (
            From::Held,
            "lease expired",
            |world| {
                let granted = world.state.lease(A).expect("it is there").granted;
                let guard = Some(Guard { term: base::Term(3), granted });
                world.command(Command::LeaseRevoke(Revoke { id: A, guard })).0.is_ok()
            },
            None,
        ),
        // Renewals are the leader's business and never reach the log.
        (From::Held, "renew request", |_| true, Some(A)),
        (From::Held, "lock request by the same holder", |world| lock(world, A).token == Revision(2), Some(A)),
        (From::Held, "lock request by another", |world| !lock(world, B).acquired, Some(A)),
        (From::Held, "try request by another", |world| !try_lock(world, B).acquired, Some(A)),
    ];
    for (from, event, happen, after) in rows {
        let mut world = world();
        if from == From::Held {
            assert!(lock(&mut world, A).acquired);
        }
        assert!(happen(&mut world), "{from:?}: {event}");
        assert_eq!(holder(&world), after, "{from:?}: {event}");
        world.reload();
        assert_eq!(holder(&world), after, "{from:?}: {event}, read back");
    }
}

#[test]
fn a_lease_is_active_until_it_is_revoked_or_expires_and_takes_its_locks_along() {
    for guarded in [false, true] {
        let mut world = world();
        lock(&mut world, A);
        lock(&mut world, B);
        let granted = world.state.lease(A).expect("active").granted;
        let guard = guarded.then_some(Guard { term: base::Term(3), granted });
        let (reply, changes) = world.command(Command::LeaseRevoke(Revoke { id: A, guard }));
        assert_eq!(reply.map(|reply| reply.body), Ok(Body::LeaseRevoked));
        assert_eq!(changes.len(), 1, "watches get an event of the key");
        assert_eq!(changes[0].kind, ChangeKind::Delete);
        assert!(world.state.lease(A).is_none());
        assert_eq!(holder(&world), Some(B));
        assert_eq!(acquire(&mut world, ask(A)), Err(Code::LeaseNotFound), "it is over for good");
    }
}

#[test]
fn the_record_of_a_lock_is_its_key() {
    let mut world = world();
    let reply = lock(&mut world, A);
    assert_eq!(reply.key, Bytes::from("/locks/database/users-table/a"));
    let record = world.get("/locks/database/users-table/a").expect("the key is there");
    assert_eq!((record.create_revision, record.mod_revision, record.version), (reply.token, reply.token, 1));
    assert_eq!((record.lease, record.value), (A, bytes("{ \"operation\": \"schema-migration\" }")));
    let claim = world.state.claim(&reply.key).expect("the place has a claim");
    assert_eq!((claim.holder.clone(), claim.since), (bytes("service-a-pod-xyz-123"), 1_700_000_000_000));
}

#[test]
fn an_uncontended_lock_and_unlock_are_two_commands_and_two_revisions() {
    let mut world = world();
    let (before, token) = (world.revision(), lock(&mut world, A).token);
    release(&mut world, A, token.0).expect("it holds the lock");
    assert_eq!(world.revision(), before + 2);
    assert_eq!(world.seq, 5, "three grants, and these two");
}

#[test]
fn the_lock_goes_from_one_to_the_next_in_the_order_of_asking_with_rising_tokens() {
    let mut world = world();
    let replies = [C, A, B].map(|lease| lock(&mut world, lease));
    assert_eq!(
        replies.each_ref().map(|reply| (reply.acquired, reply.ahead)),
        [(true, 0), (false, 1), (false, 2)]
    );
    assert_eq!(replies[2].holder.as_ref().map(|holder| &holder.key), Some(&replies[0].key));
    for (lease, reply) in [C, A, B].into_iter().zip(&replies) {
        assert_eq!(holder(&world), Some(lease));
        release(&mut world, lease, reply.token.0).expect("it holds the lock");
    }
    assert_eq!(holder(&world), None);
    assert!(replies.is_sorted_by_key(|reply| reply.token));
}

#[test]
fn only_the_holder_can_release_the_lock() {
    let mut world = world();
    let token = lock(&mut world, A).token.0;
    let waiting = lock(&mut world, B).token.0;
    for (lease, token) in [(B, waiting), (B, 0), (C, 0), (A, token + 1), (A, waiting)] {
        assert_eq!(release(&mut world, lease, token), Err(Code::NotLockHolder), "{lease} with {token}");
    }
    assert_eq!(release(&mut world, A, 0), Ok(()), "the key alone says who it is");
    assert_eq!(release(&mut world, A, token), Err(Code::NotLockHolder), "once");
    let key = bytes("no-slash");
    let release = Command::LockRelease(Release { key, token: Revision(0) });
    assert_eq!(world.command(release).0, Err(Code::NotLockHolder));
}

#[test]
fn the_end_of_a_lease_removes_its_waiting_places_and_its_locks_in_one_step() {
    let mut world = world();
    lock(&mut world, A);
    lock(&mut world, B);
    lock(&mut world, C);
    acquire(&mut world, Acquire { name: bytes("other"), ..ask(B) }).expect("the lease is there");
    let before = world.revision();
    revoke(&mut world, B);
    assert_eq!(world.revision(), before + 1);
    revoke(&mut world, A);
    assert_eq!(holder(&world), Some(C), "the waiter of the dead lease is passed over");
    assert_eq!(world.state.lock_holder(b"other"), None);
    world.reload();
}

#[test]
fn a_waiting_place_belongs_to_the_call_that_asked_last() {
    let mut world = world();
    lock(&mut world, A);
    lock(&mut world, B);
    let again = acquire(&mut world, Acquire { call: 77, ..ask(B) }).expect("the lease is there");
    assert_eq!((again.ahead, again.acquired), (1, false), "the same place");
    world.reload();
    assert_eq!(leave(&mut world, B, B.0 as u64, false), None);
    assert!(world.state.created(&place(B)).is_some(), "the later call waits");
    assert_eq!(leave(&mut world, B, 77, false), None);
    assert_eq!(world.state.created(&place(B)), None, "and takes the place along when it leaves");
    assert_eq!(leave(&mut world, B, 77, false), None, "leaving twice does nothing");
    world.reload();
}

#[test]
fn a_held_place_goes_when_the_last_of_its_calls_leaves() {
    let mut world = world();
    lock(&mut world, A);
    assert!(acquire(&mut world, Acquire { call: 77, ..ask(A) }).expect("the lease is there").acquired);
    assert_eq!(leave(&mut world, A, 77, false), None);
    assert_eq!(holder(&world), Some(A), "the first call may have been answered");
    assert_eq!(leave(&mut world, A, A.0 as u64, false), None);
    assert_eq!(holder(&world), None);
}

#[test]
fn a_retry_is_safe_from_the_leave_of_the_call_before_it() {
    let mut world = world();
    lock(&mut world, A);
    lock(&mut world, B);
    release(&mut world, A, 0).expect("it holds the lock");
    let retry = acquire(&mut world, Acquire { call: 77, ..ask(B) }).expect("the lease is there");
    assert!(retry.acquired);
    leave(&mut world, B, B.0 as u64, false);
    assert_eq!(holder(&world), Some(B));
}

#[test]
fn leaving_at_the_last_moment_keeps_the_lock_if_it_is_wanted() {
    let mut world = world();
    let token = lock(&mut world, A).token;
    assert_eq!(leave(&mut world, A, A.0 as u64, true), Some(token));
    assert_eq!(holder(&world), Some(A));
    assert_eq!(leave(&mut world, A, A.0 as u64, false), None);
    assert_eq!(holder(&world), None, "no call was answered");
}

#[test]
fn so_many_calls_of_one_lease_are_not_counted_for_ever() {
    let mut world = world();
    for call in 0..100 {
        acquire(&mut world, Acquire { call, ..ask(A) }).expect("the lease is there");
    }
    assert_eq!(world.state.claim(&place(A)).map(|claim| claim.calls.clone()), Some(ClaimCalls::Many));
    world.reload();
    (0..100).for_each(|call| assert_eq!(leave(&mut world, A, call, false), None));
    assert_eq!(holder(&world), Some(A));
}

#[test]
fn plain_keys_take_part_in_the_queue() {
    let mut world = world();
    world.put("/locks/database/users-table/stranger", "");
    let reply = lock(&mut world, A);
    assert_eq!((reply.acquired, reply.ahead), (false, 1));
    world.delete(single("/locks/database/users-table/stranger"));
    assert_eq!(holder(&world), Some(A));
    world.delete(lock_queue::keys_of(LOCK.as_bytes()));
    assert_eq!(world.state.claim(&place(A)), None, "a claim is removed with its key");
    world.reload();
}

#[test]
fn a_candidate_changes_its_value_and_keeps_its_place() {
    let mut world = world();
    let token = lock(&mut world, A).token;
    let campaign = Acquire { value: bytes("new"), replaces_value: true, ..ask(A) };
    let before = world.revision();
    assert_eq!(acquire(&mut world, campaign.clone()).map(|reply| reply.token), Ok(token));
    assert_eq!(
        world.get("/locks/database/users-table/a").map(|kv| (kv.value, kv.version)),
        Some((bytes("new"), 2))
    );
    acquire(&mut world, campaign).expect("the lease is there");
    assert_eq!(world.revision(), before + 1, "the same value again changes nothing");
}

#[test]
fn whatever_comes_there_is_one_holder_and_it_comes_back_from_the_store() {
    let mut rng = Rng::new(3);
    let mut world = World::new();
    for step in 0..4_000 {
        let newest = world.revision();
        let command = match rng.between(0, 4) {
            0 => generate::command(&mut rng, newest),
            _ => generate::lock_command(&mut rng),
        };
        let before = world.state.lock_holder(b"lock");
        drop(world.command(command));
        let after = world.state.lock_holder(b"lock");
        if let (Some(before), Some(after)) = (before, after) {
            assert!(before.token <= after.token, "tokens rise from holder to holder");
        }
        if step % 200 == 0 {
            world.reload();
        }
    }
}
