//! Conditional writes that were refused and come again when their condition is met: as the first attempt, which a node that
//! stood still carries out late, or from another node. What a client was told is refused is never carried out.

use super::contest::{linear_read, replace};
use super::world::World;
use super::{SECOND, awake, key, value, write};
use crate::context::Context;
use crate::mesh::Request;
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::record::Kind;
use crate::request::{Level, Reply, Write};
use base::NodeId;

/// The node that is no replica of the keys.
const ASKED: u64 = 4;

fn create(name: &str, value: &str, request: Option<u64>) -> Write {
    let attributes = Attributes { request, ..Attributes::default() };
    Write { attributes, ..replace(name, value, &Context::default()) }
}

fn delete(name: &str) -> Write {
    let attributes = Attributes { level: Level::Linearizable, ..Attributes::default() };
    Write { attributes, ..write(name, Kind::Register, Op::Delete) }
}

fn shown(world: &mut World, name: &str) -> Option<String> {
    let Reply::Got(got) = world.call(1, linear_read(name)) else { return None };
    value(&Reply::Found(got.record))
}

/// What was created is created again under an id and refused; then it is deleted. Now the first attempt is carried out, which the
/// second node has had in its socket since before. Every other seed many refusals come in between, and a disk is lost.
fn the_first_attempt_comes_after_the_refusal(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let other = world.call(3, Request::write(create("k", "other", None)));
    assert!(matches!(other, Reply::Written(_)), "{other:?}");
    let told = world.call(1, Request::write(create("k", "mine", Some(100))));
    assert!(matches!(told, Reply::Conflict(_)), "{told:?}");
    if seed % 2 == 1 {
        for n in 0..12 {
            let told = world.call(1 + n % 3, Request::write(create("k", "others", Some(n))));
            assert!(matches!(told, Reply::Conflict(_)), "{told:?}");
        }
        world.wipe(NodeId(1));
        world.start(NodeId(1));
        world.run(10 * SECOND);
    }
    let gone = world.call(1, Request::write(delete("k")));
    assert!(matches!(gone, Reply::Written(_)), "{gone:?}");
    let late = world.call(2, Request::write(create("k", "mine", Some(100))));
    if !matches!(late, Reply::Conflict(_)) {
        return Some(format!("the attempt that comes late: {late:?}"));
    }
    let shown = shown(&mut world, "k");
    shown.is_some().then(|| format!("{shown:?} is there, which was refused"))
}

/// A node that does not keep the key passes a creation on to a replica that stands still, and then to the next, which
/// refuses it. The key is deleted, and the first replica goes on.
fn a_replica_that_was_passed_over_goes_on(seed: u64) -> Option<String> {
    let mut world = awake(seed, 4);
    let placement = world.topology.placement();
    let list = |name: &str| placement.now.of(key(name).partition(), 3).to_vec();
    let name = (0..).map(|n| format!("k{n}")).find(|name| !list(name).contains(&NodeId(ASKED))).unwrap();
    let list = list(&name);
    let other = world.call(list[1].0, Request::write(create(&name, "other", None)));
    assert!(matches!(other, Reply::Written(_)), "{other:?}");
    world.run(SECOND);
    world.pause(list[0]);
    let told = world.call(ASKED, Request::write(create(&name, "mine", None)));
    assert!(matches!(told, Reply::Conflict(_)), "{told:?}");
    let gone = world.call(ASKED, Request::write(delete(&name)));
    assert!(matches!(gone, Reply::Written(_)), "{gone:?}");
    world.resume(list[0]);
    world.run(SECOND);
    let shown = shown(&mut world, &name);
    shown.is_some().then(|| format!("{shown:?} is there, which was refused"))
}

/// Scenes in which a rule matters, and the bug that breaks it.
pub const SCENES: [(&str, super::Scene, Mutant); 2] = [
    (
        "the first attempt comes after the refusal",
        the_first_attempt_comes_after_the_refusal,
        Mutant::RefusalNotRemembered,
    ),
    (
        "a replica that was passed over goes on",
        a_replica_that_was_passed_over_goes_on,
        Mutant::RefusalNotRemembered,
    ),
];

#[test]
fn what_was_refused_is_never_carried_out() {
    super::end_well(&SCENES, 8);
}

#[test]
fn every_planted_bug_of_refusals_shows_in_its_scene() {
    super::show(&SCENES);
}
