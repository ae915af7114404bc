//! Requests that are sent more than once: carried out once, answered alike, and forgotten with their session.

use crate::world::{World, bytes, do_all, op_put, op_range, put, single};
use base::limits::SESSION_REPLIES_MAX;
use base::{Code, LeaseId, Revision, Table};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Delete, Put, Request};
use coord::{Command, Grant, Guard, IdempotentCommand, RequestId, Revoke, State};
use std::collections::BTreeMap;

const SESSION: LeaseId = LeaseId(5);

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn with_session() -> World {
    let mut world = World::new();
    grant(&mut world);
    world
}

fn grant(world: &mut World) {
    world.command(Command::LeaseGrant(Grant { id: SESSION, ttl: 60 })).0.expect("granted");
}

fn id(seq: u64, low: u64) -> RequestId {
    RequestId { session: SESSION, seq, low }
}

fn ask(world: &mut World, id: RequestId, command: Command) -> Result<Reply, Code> {
    world.command(Command::Idempotent(IdempotentCommand::new(id, command).expect("a client's command"))).0
}

fn ask_put(world: &mut World, seq: u64, value: &'static str) -> Result<Reply, Code> {
    ask(world, id(seq, 0), Command::Put(Put { prev_kv: true, ..put("a", value) }))
}

#[test]
fn a_repetition_changes_nothing_and_is_answered_as_before() {
    let mut world = with_session();
    let first = ask_put(&mut world, 1, "1").expect("put");
    world.put("a", "2");
    assert_eq!(ask_put(&mut world, 1, "1").expect("answered"), first);
    assert_eq!(first.revision, Revision(2), "not that of now");
    assert_eq!(world.revision(), 3);
    assert_eq!(world.get("a").expect("it is there").value, "2");
}

#[test]
fn every_kind_of_request_may_be_repeated() {
    let mut world = with_session();
    world.put("a", "1");
    let commands = [
        Command::Put(Put { lease: Some(SESSION), ..put("b", "1") }),
        Command::Delete(Delete { keys: single("a"), prev_kv: true }),
        Command::from_request(Request::Txn(do_all(vec![op_put("c", "1"), op_range(single("b"))])))
            .expect("writes"),
        Command::LeaseGrant(Grant { id: LeaseId(9), ttl: 60 }),
        Command::LeaseGrant(Grant { id: LeaseId::NONE, ttl: 60 }),
        Command::LeaseRevoke(Revoke { id: LeaseId(9), guard: None }),
    ];
    for (seq, command) in commands.into_iter().enumerate() {
        let first = ask(&mut world, id(seq as u64, 0), command.clone()).expect("carried out");
        let before = world.revision();
        world.reload();
        assert_eq!(ask(&mut world, id(seq as u64, 0), command).expect("answered"), first);
        assert_eq!(world.revision(), before);
    }
    assert_eq!(world.state.leases().count(), 2, "the session, and the lease that got an id here");
}

#[test]
fn a_lease_id_that_the_client_leaves_open_is_chosen_once() {
    let mut world = with_session();
    let open = Command::LeaseGrant(Grant { id: LeaseId::NONE, ttl: 60 });
    let first = ask(&mut world, id(1, 0), open.clone()).expect("granted");
    let Body::LeaseGranted { id: chosen, .. } = first.body else { panic!("{first:?}") };
    assert!(chosen.0 > 0 && world.state.lease(chosen).is_some());
    assert_ne!(ask(&mut world, id(2, 0), open).expect("granted").body, first.body);
}

#[test]
fn a_refusal_is_kept_too() {
    let mut world = with_session();
    let other = LeaseId(6);
    let leased = Command::Put(Put { lease: Some(other), ..put("a", "1") });
    assert_eq!(ask(&mut world, id(1, 0), leased.clone()), Err(Code::LeaseNotFound));
    world.command(Command::LeaseGrant(Grant { id: other, ttl: 60 })).0.expect("granted");
    assert_eq!(ask(&mut world, id(1, 0), leased), Err(Code::LeaseNotFound), "the client was told so");
    assert_eq!(world.revision(), 1);
}

#[test]
fn an_unknown_session_is_refused() {
    let mut world = World::new();
    assert_eq!(ask_put(&mut world, 1, "1"), Err(Code::SessionUnknown));
    assert_eq!(world.revision(), 1);
}

#[test]
fn the_table_goes_with_the_lease() {
    let mut world = with_session();
    ask_put(&mut world, 1, "1").expect("put");
    assert_eq!(world.state.cached_replies(), 1);
    let guard = Guard { term: base::Term(3), granted: base::Index(1) };
    world.command(Command::LeaseRevoke(Revoke { id: SESSION, guard: Some(guard) })).0.expect("expired");
    assert_eq!(world.state.cached_replies(), 0);
    assert_eq!(ask_put(&mut world, 1, "1"), Err(Code::SessionUnknown));
    world.reload();
    assert_eq!(ask_put(&mut world, 1, "1"), Err(Code::SessionUnknown));
    grant(&mut world);
    assert_eq!(ask_put(&mut world, 1, "1").expect("another session").revision, Revision(3));
}

#[test]
fn a_session_may_end_itself() {
    let mut world = with_session();
    let end = Command::LeaseRevoke(Revoke { id: SESSION, guard: None });
    ask(&mut world, id(1, 0), end.clone()).expect("revoked");
    assert_eq!(ask(&mut world, id(1, 0), end), Err(Code::SessionUnknown));
    world.reload();
}

#[test]
fn below_the_clients_mark_nothing_is_kept_and_nothing_is_carried_out() {
    let mut world = with_session();
    for seq in 1..=3 {
        ask_put(&mut world, seq, "1").expect("put");
    }
    ask(&mut world, id(5, 3), Command::Put(put("a", "5"))).expect("put");
    world.reload();
    assert_eq!(world.state.cached_replies(), 2);
    assert_eq!(ask_put(&mut world, 2, "1"), Err(Code::RequestForgotten));
    assert_eq!(ask_put(&mut world, 3, "1").expect("kept").revision, Revision(4));
    assert_eq!(ask_put(&mut world, 4, "1").expect("new, though late").revision, Revision(6));
}

#[test]
fn without_a_mark_the_oldest_are_forgotten_by_count() {
    let mut world = with_session();
    let last = SESSION_REPLIES_MAX as u64 + 10;
    for seq in 1..=last {
        ask_put(&mut world, seq, "1").expect("put");
    }
    assert_eq!(world.state.cached_replies(), SESSION_REPLIES_MAX);
    let before = world.revision();
    assert_eq!(ask_put(&mut world, 10, "1"), Err(Code::RequestForgotten));
    assert_eq!(ask_put(&mut world, 11, "1").expect("kept").revision, Revision(12));
    assert_eq!(world.revision(), before);
    world.reload();
    assert_eq!(ask_put(&mut world, 10, "1"), Err(Code::RequestForgotten));
}

#[test]
fn an_id_is_not_used_for_two_requests() {
    let mut world = with_session();
    ask_put(&mut world, 1, "1").expect("put");
    assert_eq!(ask_put(&mut world, 1, "2"), Err(Code::RequestIdReused));
    assert_eq!(world.get("a").expect("it is there").value, "1");
}

#[test]
fn of_a_large_answer_the_revision_is_kept() {
    let mut world = with_session();
    let large = Put { value: Some(Bytes::from(vec![b'x'; 5_000])), ..put("a", "") };
    world.write(Request::Put(large)).expect("put");
    let first = ask_put(&mut world, 1, "1").expect("put");
    assert!(matches!(&first.body, Body::Put(reply) if reply.prev_kv.is_some()));
    let again = ask_put(&mut world, 1, "1").expect("answered");
    assert_eq!(again, Reply { revision: first.revision, body: Body::CarriedOut });
}

#[test]
fn only_what_clients_ask_for_can_be_wrapped() {
    let guard = Some(Guard { term: base::Term(1), granted: base::Index(1) });
    for command in [
        Command::LeaseCheckpoint(Vec::new()),
        Command::LeaseRevoke(Revoke { id: SESSION, guard }),
        Command::Compact(coord::Compact { revision: Revision(2), physical: false }),
        Command::Idempotent(
            IdempotentCommand::new(id(1, 0), Command::Put(put("a", "1"))).expect("a client's command"),
        ),
    ] {
        assert_eq!(IdempotentCommand::new(id(1, 0), command.clone()), None, "{command:?}");
    }
    assert_eq!(
        IdempotentCommand::new(id(1, 2), Command::Put(put("a", "1"))),
        None,
        "a mark above the request itself"
    );
}

#[test]
fn a_wrapped_command_survives_its_bytes_and_no_cut_of_them_panics() {
    let once =
        IdempotentCommand::new(id(700, 690), Command::Put(put("key", "value"))).expect("a client's command");
    let command = Command::Idempotent(once);
    let mut encoded = Vec::new();
    command.encode(&mut encoded);
    let encoded = Bytes::from(encoded);
    assert_eq!(Command::decode(encoded.clone()), Some(command));
    for cut in 0..encoded.len() {
        assert_eq!(Command::decode(encoded.slice(..cut)), None);
    }
    assert_eq!(encoded[..2], [1, 16]);
    assert_eq!(bytes("value"), encoded.slice(encoded.len() - 5..));
}

#[test]
fn damaged_rows_of_a_session_are_noticed() {
    let mut world = with_session();
    ask_put(&mut world, 1, "1").expect("put");
    ask(&mut world, id(2, 2), Command::Put(put("a", "2"))).expect("put");
    let rows: Vec<Vec<u8>> = world.store.tables[&Table::Sessions].keys().cloned().collect();
    assert_eq!(rows.len(), 2, "the mark, and the one answer above it");
    let found = |damage: &dyn Fn(&mut Rows)| {
        let mut store = world.store.clone();
        damage(store.tables.get_mut(&Table::Sessions).expect("there are sessions"));
        State::load(&store).expect_err("damage is noticed").what
    };
    for row in &rows {
        let changed = found(&|damaged| damaged.get_mut(row).expect("it is there")[0] = 9);
        let cut = found(&|damaged| {
            damaged.get_mut(row).expect("it is there").pop();
        });
        assert_eq!((changed, cut), ("malformed", "malformed"));
    }
    let without_mark = found(&|damaged| {
        damaged.remove(&rows[0]);
    });
    assert_eq!(without_mark, "an answer without its session");
    let mark_raised = found(&|damaged| {
        damaged.insert(rows[0].clone(), vec![1, 3]);
    });
    assert_eq!(mark_raised, "an answer below the session's mark");
    world.store.tables.remove(&Table::Leases);
    let orphan = State::load(&world.store).expect_err("damage is noticed");
    assert_eq!(orphan.what, "a session of a lease that does not exist");
}
