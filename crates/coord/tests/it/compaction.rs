//! What a compaction forgets, what it must keep, and that it may be cut short anywhere.

use crate::world::{World, all_of, everything, single};
use base::{Code, Revision, Table};
use coord::rows::{LoggedChange, parse_log_key};
use coord::{Command, Compact};

fn compact(world: &mut World, revision: i64) -> Result<i64, Code> {
    let command = Command::Compact(Compact { revision: Revision(revision), physical: false });
    world.command(command).0.map(|reply| reply.revision.0)
}

fn sweep_all(world: &mut World) {
    while world.state.is_sweeping() {
        world.sweep(1);
        world.reload();
    }
}

/// Put twice, deleted, put again.
fn eventful() -> World {
    let mut world = World::new();
    world.put("a", "2");
    world.put("a", "3");
    world.put("b", "4");
    world.delete(single("a"));
    world.put("a", "6");
    world
}

fn values_at(world: &World, revision: i64) -> Result<Vec<String>, Code> {
    let mut range = all_of(everything());
    range.revision = Revision(revision);
    let reply = world.range(&range)?;
    Ok(reply.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.value).into_owned()).collect())
}

fn log_revisions(world: &World) -> Vec<(i64, bool)> {
    let rows = &world.store.tables[&Table::Log];
    rows.iter()
        .map(|(key, value)| {
            let logged = LoggedChange::from_row(value.clone().into()).expect("whole");
            (parse_log_key(key).expect("whole").0.0, logged.put.is_some())
        })
        .collect()
}

#[test]
fn only_revisions_between_the_floor_and_now_can_be_compacted() {
    let mut world = eventful();
    assert_eq!(compact(&mut world, 7), Err(Code::FutureRevision));
    assert_eq!(compact(&mut world, 4), Ok(6));
    assert_eq!(compact(&mut world, 4), Err(Code::Compacted));
    assert_eq!(compact(&mut world, 3), Err(Code::Compacted));
    assert_eq!(compact(&mut world, 6), Ok(6));
}

#[test]
fn the_floor_itself_can_be_read_and_what_is_below_cannot() {
    let mut world = eventful();
    compact(&mut world, 4).expect("compacted");
    for _ in 0..2 {
        assert_eq!(values_at(&world, 3), Err(Code::Compacted));
        assert_eq!(values_at(&world, 4), Ok(vec!["3".into(), "4".into()]));
        assert_eq!(values_at(&world, 5), Ok(vec!["4".into()]));
        assert_eq!(values_at(&world, 6), Ok(vec!["6".into(), "4".into()]));
        sweep_all(&mut world);
    }
}

#[test]
fn the_newest_version_at_or_below_the_floor_stays() {
    let mut world = eventful();
    compact(&mut world, 4).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(3, true), (4, true), (5, false), (6, true)]);
    assert_eq!(world.store.tables[&Table::Versions].len(), 3);
}

#[test]
fn a_delete_at_the_floor_stays_until_the_next_compaction() {
    let mut world = eventful();
    compact(&mut world, 5).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(4, true), (5, false), (6, true)]);
    compact(&mut world, 6).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(4, true), (6, true)]);
}

#[test]
fn what_one_compaction_kept_the_next_removes_when_it_was_replaced() {
    let mut world = World::new();
    world.put("a", "2");
    compact(&mut world, 2).expect("compacted");
    sweep_all(&mut world);
    world.put("a", "3");
    world.put("b", "4");
    compact(&mut world, 4).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(3, true), (4, true)]);
}

#[test]
fn a_key_that_is_gone_is_forgotten_and_may_come_back() {
    let mut world = World::new();
    world.put("a", "2");
    world.put("a", "3");
    world.delete(single("a"));
    world.put("b", "5");
    compact(&mut world, 5).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(5, true)]);
    world.put("a", "6");
    assert_eq!(world.get("a").map(|kv| (kv.create_revision.0, kv.version)), Some((6, 1)));
    world.reload();
    assert_eq!(world.get("a").map(|kv| (kv.create_revision.0, kv.version)), Some((6, 1)));
}

#[test]
fn a_compaction_during_a_sweep_starts_it_over() {
    let mut world = eventful();
    compact(&mut world, 3).expect("compacted");
    world.sweep(1);
    compact(&mut world, 6).expect("compacted");
    sweep_all(&mut world);
    assert_eq!(log_revisions(&world), [(4, true), (6, true)]);
}

#[test]
fn the_floor_is_part_of_the_hash() {
    let hash = |revision: i64| {
        let mut world = eventful();
        compact(&mut world, revision).expect("compacted");
        world.state.hash()
    };
    assert_ne!(hash(4), hash(5));
}

/// Floors that rise while the sweep is somewhere, in pieces of any size, with and without restarts: what is left is what
/// one sweep to the last floor leaves, and it is counted right.
#[test]
fn however_it_is_swept_the_same_is_left() {
    let mut left = Vec::new();
    for (lines, restarts, floors) in
        [(100, false, &[19][..]), (1, true, &[6, 11, 19]), (2, false, &[6, 11, 19]), (3, true, &[9, 19])]
    {
        let mut world = World::new();
        for round in 0..5 {
            world.put("a", "1");
            world.put("b", "2");
            if round % 2 == 0 {
                world.delete(single("b"));
            }
            world.put("c", "3");
        }
        for floor in floors {
            compact(&mut world, *floor).expect("compacted");
            world.sweep(lines);
        }
        while world.state.is_sweeping() {
            if restarts {
                world.reload();
            }
            world.sweep(lines);
        }
        let counted = world.state.stored_bytes();
        world.reload();
        assert_eq!(counted, world.state.stored_bytes(), "in pieces of {lines}");
        left.push((log_revisions(&world), world.store.tables[&Table::Versions].len(), counted));
    }
    assert!(left.windows(2).all(|pair| pair[0] == pair[1]), "{left:?}");
}
