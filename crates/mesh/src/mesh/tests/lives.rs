//! Scenes about nodes that lose their disks while others compare themselves with them: what was on a disk that is gone counts
//! neither for the one that had it nor for those that were taking it over.

use super::scenes::expect;
use super::world::{MS, World};
use super::{SECOND, key, put};
use crate::mesh::{Input, Request};
use crate::mutant::Mutant;
use crate::request::Reply;
use crate::ring::Partition;
use base::NodeId;
use std::time::Duration;

/// One disk after the other is lost, each when the node before it has everything back. Frames that were meant for what was on a disk
/// reach the node that starts without it.
fn disks_are_lost_in_turn(seed: u64) -> Option<String> {
    let mut world = World::with_rounds(seed, 3, Duration::from_millis(50));
    world.run(SECOND);
    let names: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    for name in &names {
        let reply = world.call(1, Request::write(put(name, "v")));
        assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    }
    world.run(SECOND);
    for node in [1, 2, 3, 1, 2, 3] {
        world.wipe(NodeId(node));
        world.start(NodeId(node));
        world.run(3 * SECOND);
    }
    names.iter().find_map(|name| expect(&mut world, 1, name, Some("v")))
}

/// Names of keys of one partition.
fn neighbours(many: usize) -> (Partition, Vec<String>) {
    let partition = key("k0").partition();
    (
        partition,
        (0..).map(|n| format!("k{n}")).filter(|name| key(name).partition() == partition).take(many).collect(),
    )
}

/// A node takes back what it lost from another, which loses its disk when half of it has come. The third has everything, and was
/// away meanwhile.
fn a_source_loses_its_disk(seed: u64) -> Option<String> {
    let mut world = World::new(seed, 3);
    world.run(SECOND);
    let (partition, names) = neighbours(60);
    let value = "v".repeat(20_000);
    for name in &names {
        let reply = world.call(1, Request::write(put(name, &value)));
        assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    }
    world.run(5 * SECOND);
    world.crash(NodeId(3));
    world.wipe(NodeId(1));
    world.start(NodeId(1));
    for _ in 0..4_000 {
        if world.records(NodeId(1), partition).len() > 10 {
            break;
        }
        world.run(MS / 2);
    }
    let held = world.records(NodeId(1), partition).len();
    assert!((10..names.len()).contains(&held), "{held} records have come");
    world.wipe(NodeId(2));
    // The node that fills itself has heard of it before it asks on.
    world.step(NodeId(1), Input::Topology(world.topology.clone()));
    world.start(NodeId(2));
    world.run(4 * SECOND);
    world.start(NodeId(3));
    world.run(8 * SECOND);
    names
        .iter()
        .find_map(|name| expect(&mut world, 3, name, Some(&value)).map(|wrong| wrong[..60].to_owned()))
}

/// Scenes in which a rule matters, and the bug that breaks it.
pub const SCENES: [(&str, super::Scene, Mutant); 2] = [
    ("disks are lost in turn", disks_are_lost_in_turn, Mutant::SyncedInAnotherIncarnation),
    ("a source loses its disk", a_source_loses_its_disk, Mutant::PageOfAnotherIncarnation),
];

#[test]
fn what_was_on_a_lost_disk_does_not_count() {
    super::end_well(&SCENES, 6);
}

#[test]
fn every_planted_bug_of_lives_shows_in_its_scene() {
    super::show(&SCENES);
}
