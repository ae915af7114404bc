//! Nodes whose disks have no space.

use super::scenes::delete;
use super::*;
use crate::disk_space::DiskSpace;
use crate::ring::Partition;

/// Less than is to stay free, and more than the log needs.
const LOW: u64 = 700_000;
pub const PLENTY: u64 = 1 << 40;
pub const FULL: Reply = Reply::Refused(Code::NoSpace);

pub fn set_free(world: &mut World, node: u64, free_bytes: u64) {
    world.step(NodeId(node), Input::DiskSpace(DiskSpace { free_bytes, taken_bytes: 0, lacking_bytes: 0 }));
}

fn n_kept(world: &World, node: u64) -> usize {
    Partition::all().map(|one| world.records(NodeId(node), one).len()).sum()
}

#[test]
fn a_node_without_space_refuses_what_grows_and_takes_deletes() {
    let mut world = awake(61, 1);
    world.call(1, Request::write(put("k", "old")));
    world.call(1, Request::write(write("set", Kind::Set, Op::Insert(Bytes::from_static(b"x")))));
    set_free(&mut world, 1, LOW);
    assert_eq!(world.call(1, Request::write(put("k", "new"))), FULL);
    assert_eq!(world.call(1, Request::write(put("other", "new"))), FULL);
    assert_eq!(world.call(1, Request::write(write("c", Kind::Counter, Op::Add(1)))), FULL);
    assert_eq!(value(&world.call(1, read("k"))).as_deref(), Some("old"));
    assert!(matches!(world.call(1, delete("k")), Reply::Written(_)));
    let remove = write("set", Kind::Set, Op::Remove(Bytes::from_static(b"x")));
    assert!(matches!(world.call(1, Request::write(remove)), Reply::Written(_)));
    assert!(world.hosts[&NodeId(1)].mesh.as_ref().unwrap().replica.is_full());
    set_free(&mut world, 1, PLENTY);
    assert!(!world.hosts[&NodeId(1)].mesh.as_ref().unwrap().replica.is_full());
    assert_eq!(value(&world.call(1, Request::write(put("k", "new")))).as_deref(), Some("new"));
}

#[test]
fn what_comes_between_two_looks_at_the_disk_is_bounded() {
    let mut world = awake(62, 1);
    // Beside what is to stay free, there is space for two in the log and, twice, in the store.
    set_free(&mut world, 1, 1_000_000 + 2 * 3 * 105_000);
    let value = "x".repeat(100_000);
    let tokens: Vec<_> =
        (0..20).map(|n| world.ask(NodeId(1), Request::write(put(&format!("k{n}"), &value)))).collect();
    world.run(SECOND);
    let refused = tokens.iter().filter(|token| world.replies[token] == FULL).count();
    assert_eq!(refused, 18);
}

#[test]
fn one_of_three_without_space_is_not_missed_and_catches_up() {
    let mut world = awake(63, 3);
    let name = |n: usize| format!("k{n}");
    (0..30).for_each(|n| drop(world.call(1, Request::write(put(&name(n), "old")))));
    world.run(SECOND);
    set_free(&mut world, 3, LOW);
    for n in 0..60 {
        let node = n as u64 % 3 + 1;
        assert_eq!(value(&world.call(node, Request::write(put(&name(n), "new")))).as_deref(), Some("new"));
    }
    assert!(matches!(world.call(3, delete("k7")), Reply::Written(_)));
    for n in 0..60 {
        let shown = value(&world.call(3, read(&name(n))));
        assert_eq!(shown.as_deref(), (n != 7).then_some("new"), "{n}, by any replica that has it");
    }
    world.run(5 * SECOND);
    assert!(n_kept(&world, 3) <= 30, "it has taken in nothing, by any way");
    set_free(&mut world, 3, PLENTY);
    world.run(5 * SECOND);
    assert_eq!((world.differences().len(), world.leftovers(3)), (0, 0));
}

#[test]
fn when_no_replica_has_space_the_write_is_refused_at_once() {
    let mut world = awake(64, 5);
    (1..=5).for_each(|node| set_free(&mut world, node, 0));
    for n in 0..20 {
        let before = world.now;
        assert_eq!(world.call(n % 5 + 1, Request::write(put(&format!("k{n}"), "v"))), FULL);
        assert!(world.now - before < 100 * MS, "{} ms", (world.now - before) / MS);
    }
}

#[test]
fn what_was_deleted_frees_space_once_the_store_can_use_it_again() {
    let mut world = awake(65, 1);
    let value = "x".repeat(100_000);
    (0..20).for_each(|n| drop(world.call(1, Request::write(put(&format!("k{n}"), &value)))));
    world.run(SECOND);
    let disk_space = DiskSpace { free_bytes: 1_000_000, taken_bytes: 4_000_000, lacking_bytes: 0 };
    world.step(NodeId(1), Input::DiskSpace(disk_space));
    assert_eq!(world.call(1, Request::write(put("more", &value))), FULL);
    (0..20).for_each(|n| assert!(matches!(world.call(1, delete(&format!("k{n}"))), Reply::Written(_))));
    assert_eq!(world.call(1, Request::write(put("more", &value))), FULL, "it still lies in the file");
    let origin = world.now;
    while world.call(1, Request::write(put("more", &value))) == FULL {
        world.run(10 * MS);
        assert!(world.now < origin + SECOND, "without any further write");
    }
}

#[test]
fn what_waits_for_the_store_is_flushed_before_it_is_in_the_way() {
    let mut world = awake(66, 1);
    world.run(SECOND);
    world.call(1, Request::write(put("k", &"x".repeat(100_000))));
    for (free_for, flushes) in [(20, false), (10, true)] {
        set_free(&mut world, 1, 1_000_000 + free_for * 100_000);
        let now = base::Instant(world.now);
        let mesh = world.hosts.get_mut(&NodeId(1)).and_then(|host| host.mesh.as_mut()).unwrap();
        mesh.replica.storage.flushed_at = Some(now);
        world.step(NodeId(1), Input::Tick);
        let mesh = world.hosts[&NodeId(1)].mesh.as_ref().unwrap();
        assert_eq!(mesh.replica.storage.is_flushing(), flushes);
    }
}

#[test]
fn deletes_stop_where_the_log_would_have_to_wait_and_go_on_when_there_is_space() {
    let mut world = awake(67, 3);
    let name = |n: usize| format!("k{n}");
    (0..30).for_each(|n| drop(world.call(1, Request::write(put(&name(n), "v")))));
    let set = write("set", Kind::Set, Op::Insert(Bytes::from(vec![b'x'; 50_000])));
    world.call(1, Request::write(set));
    let remove = || Request::write(write("set", Kind::Set, Op::Remove(Bytes::from_static(b"y"))));
    world.run(SECOND);
    // There is space for a name and its tombstone, and not for another copy of a large set.
    (1..=3).for_each(|node| set_free(&mut world, node, 600_000));
    assert_eq!(world.call(1, remove()), FULL);
    assert!(matches!(world.call(1, delete("k0")), Reply::Written(_)));
    (1..=3).for_each(|node| set_free(&mut world, node, 500_000));
    assert_eq!(world.call(1, delete("k1")), FULL);
    let needs_segment = DiskSpace { free_bytes: LOW, taken_bytes: 0, lacking_bytes: 250_000 };
    world.step(NodeId(1), Input::DiskSpace(needs_segment));
    assert_eq!(world.call(1, delete("k1")), FULL);
    set_free(&mut world, 1, LOW);
    assert_eq!(world.call(1, delete("never")), FULL, "a trace of what was not there is more than nothing");
    let before = world.now;
    assert!(matches!(world.call(1, delete("k2")), Reply::Indeterminate { acks: 1, needed: 2, .. }));
    assert!(world.now - before < 100 * MS, "the others have declined it");
    (1..=3).for_each(|node| set_free(&mut world, node, LOW));
    world.run(2 * SECOND);
    assert!(matches!(world.call(2, delete("k1")), Reply::Written(_)));
    world.run(SECOND);
    for n in 0..30 {
        assert_eq!(value(&world.call(3, read(&name(n)))).is_none(), n < 3, "{n}");
    }
    assert_eq!((world.differences().len(), world.leftovers(3)), (0, 0), "the hint was replayed");
}
