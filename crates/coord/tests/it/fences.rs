//! Fences: what a stale token cannot do any more.

use crate::locks::{A, B, LOCK, lock, release, revoke, world};
use crate::world::{World, bytes, do_all, op_put, op_range, put, single};
use base::{Code, Revision};
use coord::reply::{Body, FenceRefusal};
use coord::request::{Delete, Request};
use coord::{CheckFence, Command, Fenced, FencingToken};

fn fence(token: Revision) -> FencingToken {
    FencingToken { lock: bytes(LOCK), token }
}

fn write(world: &mut World, token: Revision, request: Request) -> Body {
    let command = Command::Fenced(Fenced { fence: fence(token), request });
    world.command(command).0.expect("a fence that does not hold is an answer").body
}

fn put_fenced(world: &mut World, token: Revision, value: &'static str) -> Body {
    write(world, token, Request::Put(put("users-table", value)))
}

fn refusal(given: Revision, last: Revision) -> Body {
    Body::Fenced(FenceRefusal { lock: bytes(LOCK), given, last })
}

fn check(world: &mut World, resource: &'static str, token: Revision) -> Result<Body, Code> {
    let check = CheckFence { resource: bytes(resource), fence: fence(token) };
    world.command(Command::FenceCheck(check)).0.map(|reply| reply.body)
}

#[test]
fn a_holder_that_slept_through_the_end_of_its_lease_writes_nothing() {
    let mut world = world();
    let slept = lock(&mut world, A).token;
    assert!(matches!(put_fenced(&mut world, slept, "X0"), Body::Put(_)));
    assert!(matches!(put_fenced(&mut world, slept, "X1"), Body::Put(_)), "a holder may write many times");
    // A pauses; its lease ends; B takes the lock and writes; A goes on.
    revoke(&mut world, A);
    let awake = lock(&mut world, B).token;
    assert!(awake > slept);
    assert!(matches!(put_fenced(&mut world, awake, "X"), Body::Put(_)));
    let before = world.revision();
    assert_eq!(put_fenced(&mut world, slept, "Y"), refusal(slept, awake));
    assert_eq!(world.revision(), before, "nothing happened");
    assert_eq!(world.get("users-table").map(|kv| kv.value), Some(bytes("X")));
}

#[test]
fn deletes_and_transactions_are_fenced_too() {
    let mut world = world();
    let token = lock(&mut world, A).token;
    world.put("users-table", "v");
    let delete = || Request::Delete(Delete { keys: single("users-table"), prev_kv: false });
    let txn = || Request::Txn(do_all(vec![op_put("a", "1"), op_range(single("a"))]));
    for request in [delete, txn] {
        assert_eq!(write(&mut world, Revision(99), request()), refusal(Revision(99), token));
    }
    assert!(matches!(write(&mut world, token, txn()), Body::Txn(_)));
    assert!(matches!(write(&mut world, token, delete()), Body::Delete(reply) if reply.deleted == 1));
    release(&mut world, A, 0).expect("it holds the lock");
    assert_eq!(write(&mut world, token, delete()), refusal(token, Revision::ZERO), "the lock is free");
    assert_eq!(write(&mut world, Revision::ZERO, delete()), refusal(Revision::ZERO, Revision::ZERO));
}

#[test]
fn a_waiting_token_does_not_hold() {
    let mut world = world();
    let holds = lock(&mut world, A).token;
    let waits = lock(&mut world, B).token;
    assert_eq!(put_fenced(&mut world, waits, "v"), refusal(waits, holds));
}

#[test]
fn a_resource_takes_equal_and_higher_tokens_and_no_lower() {
    let mut world = world();
    let first = lock(&mut world, A).token;
    let second = lock(&mut world, B).token;
    assert_eq!(check(&mut world, "disk", first), Ok(Body::FencePassed { last: first }));
    assert_eq!(check(&mut world, "disk", first), Ok(Body::FencePassed { last: first }), "a retry");
    assert_eq!(check(&mut world, "disk", second), Ok(Body::FencePassed { last: second }));
    world.reload();
    assert_eq!(check(&mut world, "disk", first), Ok(refusal(first, second)));
    assert_eq!(check(&mut world, "tape", first), Ok(Body::FencePassed { last: first }), "each for itself");
}

#[test]
fn an_impossible_token_is_not_recorded() {
    let mut world = world();
    lock(&mut world, A);
    for token in [i64::MAX, 3, 0, -1] {
        assert_eq!(check(&mut world, "disk", Revision(token)), Err(Code::UnknownToken), "{token}");
    }
    assert!(world.state.locks().fence(b"disk").is_none());
}
