//! A cluster that release 0.1.0 began keeps to what that release reads, until its format level is raised.

use crate::world::{World, bytes, do_all};
use base::{Code, FormatLevel, LeaseId, NodeId, Table};
use bytes::Bytes;
use coord::request::{Put, Request};
use coord::{
    Alarm, AlarmCommand, AlarmKind, AlarmOrigin, AuthCommand, Command, DataAccess, DataPermission, DataRange,
    Grant, Member, MemberChange, SetDocument, State,
};

fn bootstrap() -> Command {
    let member =
        Member { id: NodeId(1), name: "m1".into(), peer_urls: vec![], client_urls: vec![], learner: false };
    Command::Members(MemberChange::Bootstrap(vec![member]))
}

fn set_level(expect: u64, level: FormatLevel) -> Command {
    let bytes = Bytes::copy_from_slice(&level.encode());
    Command::Document(SetDocument { name: FormatLevel::DOCUMENT.to_owned(), expect, bytes })
}

/// As the log of 0.1.0 begins.
fn old_world() -> World {
    let mut world = World::new();
    world.command(bootstrap()).0.expect("the first command is taken");
    assert_eq!(world.state.format_level(), FormatLevel::OLDEST);
    world
}

fn alarm(kind: AlarmKind, origin: AlarmOrigin) -> Alarm {
    Alarm { kind, member: NodeId(1), origin }
}

fn put(key: &'static str) -> Command {
    let put = Put { key: bytes(key), value: Some(bytes("v")), lease: Some(LeaseId::NONE), prev_kv: false };
    Command::from_request(Request::Put(put)).expect("a put is a command")
}

fn first_byte(world: &World, table: Table, key: &[u8]) -> u8 {
    world.store.tables[&table][key][0]
}

#[test]
fn a_new_cluster_begins_with_the_newest_formats() {
    let mut world = World::new();
    assert_eq!(world.state.format_level(), FormatLevel::NEWEST);
    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    world.command(bootstrap()).0.expect("the first command is taken");
    assert_eq!(world.state.format_level(), FormatLevel::NEWEST);
    let loaded = State::load(&world.store).unwrap().unwrap();
    assert_eq!(loaded.format_level(), FormatLevel::NEWEST);
}

#[test]
fn the_level_is_raised_once_and_never_falls() {
    let mut world = old_world();
    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    assert_eq!(world.command(set_level(1, FormatLevel::OLDEST)).0, Err(Code::BadDocument));
    let unreadable =
        SetDocument { name: FormatLevel::DOCUMENT.to_owned(), expect: 1, bytes: Bytes::from_static(b"?") };
    assert_eq!(world.command(Command::Document(unreadable)).0, Err(Code::BadDocument));
    assert_eq!(world.state.format_level(), FormatLevel::NEWEST);
    assert_eq!(State::load(&world.store).unwrap().unwrap().format_level(), FormatLevel::NEWEST);
}

#[test]
fn a_state_of_a_later_release_is_not_loaded() {
    let mut world = old_world();
    world.command(set_level(0, FormatLevel(FormatLevel::NEWEST.0 + 1))).0.unwrap();
    let error = State::load(&world.store).unwrap_err();
    assert!(error.what.contains("later release"), "{error}");
}

#[test]
fn users_and_leases_have_rows_of_the_old_layout() {
    let mut world = old_world();
    let add = |user: &str| {
        Command::Auth(AuthCommand::UserAdd { user: user.to_owned(), password: Some(bytes("hash")) })
    };
    world.command(add("ann")).0.unwrap();
    let change = AuthCommand::UserChangePassword { user: "ann".into(), password: bytes("other") };
    world.command(Command::Auth(change)).0.unwrap();
    assert_eq!(first_byte(&world, Table::Auth, b"uann"), 1);
    let grant = |id| Command::LeaseGrant(Grant { id: LeaseId(id), ttl: 60 });
    world.command(grant(7)).0.unwrap();
    world.command(put("a")).0.unwrap();
    world.command(Command::TimeMark { millis: 1_000 }).0.unwrap();
    let old_row = world.store.tables[&Table::Leases][&7u64.to_be_bytes()[..]].clone();

    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    world.command(add("ben")).0.unwrap();
    assert_eq!(first_byte(&world, Table::Auth, b"uben"), 2);
    world.command(grant(8)).0.unwrap();
    let new_row = &world.store.tables[&Table::Leases][&8u64.to_be_bytes()[..]];
    assert!(new_row.len() > old_row.len(), "the time of the grant is behind the rest");
    assert_eq!(State::load(&world.store).unwrap().unwrap().hash(), world.state.hash());
}

#[test]
fn what_the_old_release_cannot_read_is_refused() {
    let mut world = old_world();
    world.command(Command::Auth(AuthCommand::RoleAdd { role: "clerk".into() })).0.unwrap();
    let range = DataRange { namespace: "shop".into(), prefix: Bytes::new() };
    let permission = DataPermission { range, access: DataAccess::Read };
    let grant = Command::Auth(AuthCommand::RoleGrantData { role: "clerk".into(), permission });
    assert!(grant.level_needed() > FormatLevel::OLDEST, "it is not even proposed");
    assert_eq!(world.command(grant.clone()).0, Err(Code::FormatLevelTooLow));
    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    world.command(grant).0.unwrap();
}

/// Refusals are kept for requests that may be repeated, and are part of the state.
#[test]
fn of_a_missing_key_and_an_unknown_lease_a_transaction_tells_what_the_old_release_tells() {
    let mut world = old_world();
    let keeps = Request::Put(Put { key: bytes("a"), value: None, lease: Some(LeaseId(5)), prev_kv: false });
    assert_eq!(world.write(keeps.clone()), Err(Code::LeaseNotFound));
    assert_eq!(world.txn(do_all(vec![keeps.clone()])), Err(Code::KeyNotFound));
    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    assert_eq!(world.txn(do_all(vec![keeps])), Err(Code::LeaseNotFound));
}

/// As 0.1.0 does it: its members must come to the same state.
#[test]
fn an_alarm_has_one_origin_and_a_corrupt_cluster_takes_changes() {
    let mut world = old_world();
    let run = |world: &mut World, command| world.command(Command::Alarm(command)).0.unwrap();
    run(&mut world, AlarmCommand::Raise(alarm(AlarmKind::NoSpace, AlarmOrigin::Client)));
    run(&mut world, AlarmCommand::Raise(alarm(AlarmKind::NoSpace, AlarmOrigin::Leader)));
    let raised: Vec<Alarm> = world.state.alarms().collect();
    assert_eq!(raised, [alarm(AlarmKind::NoSpace, AlarmOrigin::Leader)]);
    run(&mut world, AlarmCommand::Clear(alarm(AlarmKind::NoSpace, AlarmOrigin::Client)));
    assert_eq!(world.state.alarms().count(), 0);
    run(&mut world, AlarmCommand::Raise(alarm(AlarmKind::Corrupt, AlarmOrigin::Client)));
    world.command(put("a")).0.unwrap();
    world.command(set_level(0, FormatLevel::NEWEST)).0.unwrap();
    assert_eq!(world.command(put("a")).0, Err(Code::Corrupt));
}
