//! Commands and their callers: what is refused where it is applied, whichever way it came.

use crate::world::{World, bytes, do_all, op_delete, op_put, op_range, put, single, span};
use base::{Code, KeyRange, LeaseId};
use bytes::Bytes;
use coord::request::{Compare, Delete, Range, Relation, Request, Target, Txn};
use coord::{
    Access, Acquire, AuthCommand, Caller, CheckFence, Command, Fenced, FencingToken, Grant,
    IdempotentCommand, Permission, Release, RequestId, Revoke,
};

/// Auth is on; `ann` may read and write `a` to `c`, and read `c` to `d`.
fn world() -> World {
    let mut world = World::new();
    let (root, ann, clerk) = (|| "root".to_owned(), || "ann".to_owned(), || "clerk".to_owned());
    let grant = |keys: KeyRange, access| {
        let permission = Permission { keys, access };
        AuthCommand::RoleGrantPermission { role: "clerk".to_owned(), permission }
    };
    for command in [
        AuthCommand::UserAdd { user: root(), password: Some(bytes("hash")) },
        AuthCommand::UserGrantRole { user: root(), role: root() },
        AuthCommand::RoleAdd { role: clerk() },
        grant(span("a", "c"), Access::ReadWrite),
        grant(span("c", "d"), Access::Read),
        AuthCommand::UserAdd { user: ann(), password: None },
        AuthCommand::UserGrantRole { user: ann(), role: clerk() },
        AuthCommand::Enable,
    ] {
        world.command(Command::Auth(command)).0.expect("auth is not enabled yet");
    }
    world
}

/// As it comes out of the log.
fn wrapped(caller: &Caller, command: &Command) -> Command {
    let mut encoded = Vec::new();
    command.encode_for(caller, &mut encoded);
    Command::decode(Bytes::from(encoded)).expect("what is proposed is understood")
}

fn run(world: &mut World, user: &str, command: Command) -> Result<(), Code> {
    let caller = Caller::User { name: user.into(), revision: world.state.auth().revision() };
    world.command(wrapped(&caller, &command)).0.map(drop)
}

fn request(request: Request) -> Command {
    Command::from_request(request).expect("not a plain range")
}

fn txn(operations: Vec<Request>) -> Command {
    Command::Txn(do_all(operations))
}

#[test]
fn every_branch_and_every_compare_must_be_permitted() {
    let mut world = world();
    let denied = Err(Code::PermissionDenied);
    let compare = |key| {
        let compare = Compare { keys: single(key), relation: Relation::Equal, target: Target::Version(0) };
        Command::Txn(Txn { compares: vec![compare], success: Vec::new(), failure: Vec::new() })
    };
    for (command, expected) in [
        (Command::Put(put("a", "1")), Ok(())),
        (Command::Put(put("c", "1")), denied),
        (request(Request::Delete(Delete { keys: span("a", "c"), prev_kv: true })), Ok(())),
        (request(Request::Delete(Delete { keys: span("a", "d"), prev_kv: false })), denied),
        (txn(vec![op_put("a", "1"), op_range(span("a", "d"))]), Ok(())),
        (txn(vec![op_put("a", "1"), op_range(span("a", "e"))]), denied),
        (txn(vec![op_delete(single("c"))]), denied),
        (txn(vec![Request::Txn(do_all(vec![op_put("c", "1")]))]), denied),
        (compare("c"), Ok(())),
        (compare("d"), denied),
    ] {
        let told = format!("{command:?}");
        let revision = world.revision();
        assert_eq!(run(&mut world, "ann", command.clone()), expected, "{told}");
        assert!(expected.is_ok() || world.revision() == revision, "what is refused changes nothing: {told}");
        assert_eq!(run(&mut world, "root", command.clone()), Ok(()), "{told}");
        assert_eq!(world.command(command).0.map(drop), Err(Code::UserEmpty), "{told}");
    }
}

#[test]
fn a_lease_belongs_to_users_that_may_write_all_its_keys() {
    let mut world = world();
    let revoke = |id| Command::LeaseRevoke(Revoke { id: LeaseId(id), guard: None });
    for id in [1, 2] {
        assert_eq!(run(&mut world, "ann", Command::LeaseGrant(Grant { id: LeaseId(id), ttl: 9 })), Ok(()));
    }
    let attach = |key, id| {
        let put = coord::request::Put { lease: Some(LeaseId(id)), ..put(key, "1") };
        Command::Put(put)
    };
    assert_eq!(run(&mut world, "ann", attach("a", 1)), Ok(()));
    assert_eq!(run(&mut world, "root", attach("x", 2)), Ok(()));
    assert_eq!(run(&mut world, "ann", attach("b", 2)), Err(Code::PermissionDenied), "it would end x, too");
    assert_eq!(run(&mut world, "ann", revoke(2)), Err(Code::PermissionDenied));
    assert_eq!(run(&mut world, "ann", revoke(1)), Ok(()));
    assert_eq!(world.command(Command::LeaseGrant(Grant { id: LeaseId(3), ttl: 9 })).0, Err(Code::UserEmpty));
}

#[test]
fn locks_fences_and_repetitions_are_no_way_around() {
    let mut world = world();
    run(&mut world, "root", Command::LeaseGrant(Grant { id: LeaseId(7), ttl: 9 })).expect("root may");
    let acquire = |name| {
        let (value, holder) = (Bytes::new(), Bytes::new());
        let (since, call, is_try, replaces_value) = (0, 1, false, false);
        let lease = LeaseId(7);
        let name = bytes(name);
        Command::LockAcquire(Acquire { name, lease, value, holder, since, call, is_try, replaces_value })
    };
    let denied = Err(Code::PermissionDenied);
    assert_eq!(run(&mut world, "ann", acquire("x")), denied);
    assert_eq!(run(&mut world, "ann", acquire("a")), Ok(()));
    let release = Release { key: bytes("x/7"), token: base::Revision::ZERO };
    assert_eq!(run(&mut world, "ann", Command::LockRelease(release)), denied);
    let fence = |lock| FencingToken { lock: bytes(lock), token: base::Revision(2) };
    let fenced = Fenced { fence: fence("a"), request: op_put("x", "1") };
    assert_eq!(run(&mut world, "ann", Command::Fenced(fenced)), denied);
    let check = CheckFence { resource: bytes("disk"), fence: fence("x") };
    assert_eq!(run(&mut world, "ann", Command::FenceCheck(check)), denied);
    let id = RequestId { session: LeaseId(7), seq: 1, low: 0 };
    let once = |key| {
        Command::Idempotent(IdempotentCommand::new(id, Command::Put(put(key, "1"))).expect("clients put"))
    };
    assert_eq!(run(&mut world, "ann", once("x")), denied);
    assert_eq!(run(&mut world, "ann", once("b")), Ok(()), "a refusal is not what the id stands for");
    assert_eq!(run(&mut world, "ann", once("b")), Ok(()), "and is answered again");
}

#[test]
fn what_was_admitted_before_a_change_is_not_carried_out_after_it() {
    let mut world = world();
    let ann = Caller::User { name: "ann".into(), revision: world.state.auth().revision() };
    run(&mut world, "root", Command::Auth(AuthCommand::RoleAdd { role: "other".into() })).expect("root may");
    let late = wrapped(&ann, &Command::Put(put("a", "1")));
    assert_eq!(world.command(late).0, Err(Code::AuthOldRevision));
    let read = Request::Range(Range::of(single("a")));
    assert_eq!(world.state.check_read(&ann, &read), Err(Code::AuthOldRevision));
    assert_eq!(world.state.check_read(&Caller::Member, &read), Ok(()));
}

#[test]
fn users_ask_about_themselves_and_root_about_all() {
    let mut world = world();
    let (ann, root) = (|| "ann".to_owned(), || "root".to_owned());
    for (command, expected) in [
        (AuthCommand::UserGet { user: ann() }, Ok(())),
        (AuthCommand::UserGet { user: root() }, Err(Code::PermissionDenied)),
        (AuthCommand::RoleGet { role: "clerk".into() }, Ok(())),
        (AuthCommand::RoleGet { role: "unassigned".into() }, Err(Code::PermissionDenied)),
        (AuthCommand::UserList, Err(Code::PermissionDenied)),
        (AuthCommand::Disable, Err(Code::PermissionDenied)),
        (AuthCommand::Status, Ok(())),
    ] {
        assert_eq!(run(&mut world, "ann", Command::Auth(command.clone())), expected, "{command:?}");
    }
    assert_eq!(world.command(Command::Auth(AuthCommand::Status)).0.map(drop), Ok(()));
    assert_eq!(run(&mut world, "root", Command::Auth(AuthCommand::Disable)), Ok(()));
    assert_eq!(world.command(Command::Put(put("x", "1"))).0.map(drop), Ok(()));
}

#[test]
fn users_survive_a_restart() {
    let mut world = world();
    world.put_as_root();
    world.reload();
    assert_eq!(run(&mut world, "ann", Command::Put(put("c", "1"))), Err(Code::PermissionDenied));
    assert_eq!(run(&mut world, "ann", Command::Put(put("b", "1"))), Ok(()));
}

impl World {
    /// Something beside users, so that there is a state to read back.
    fn put_as_root(&mut self) {
        run(self, "root", Command::Put(put("x", "1"))).expect("root may");
    }
}
