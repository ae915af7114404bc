//! A proposal that comes twice is applied once.

use crate::world::{World, put};
use base::{Boot, NodeId, ProposalId, Revision};
use coord::{Applied, Command, Proposal};

fn proposal(origin: u64, boot: u64, seq: u64, low: u64) -> Proposal {
    let id = ProposalId { origin: NodeId(origin), boot: Boot(boot), seq };
    Proposal { id, low, command: Command::Put(put("a", "v")) }
}

fn is_duplicate(world: &mut World, proposal: &Proposal) -> bool {
    world.apply(proposal) == Applied::Duplicate
}

#[test]
fn a_duplicate_changes_nothing() {
    let mut world = World::new();
    let first = proposal(1, 1, 1, 0);
    assert!(!is_duplicate(&mut world, &first));
    let (hash, revision) = (world.state.hash(), world.state.revision());
    assert!(is_duplicate(&mut world, &Proposal { low: 50, ..first }));
    assert_eq!((world.state.hash(), world.state.revision()), (hash, revision));
    assert!(!is_duplicate(&mut world, &proposal(1, 1, 2, 0)), "nor does its low mark count");
    assert_eq!(world.state.revision(), Revision(3));
}

#[test]
fn proposals_may_overtake_each_other() {
    let mut world = World::new();
    for seq in [5, 3, 4, 9, 1] {
        assert!(!is_duplicate(&mut world, &proposal(1, 1, seq, 1)));
    }
    for seq in [1, 3, 4, 5, 9] {
        assert!(is_duplicate(&mut world, &proposal(1, 1, seq, 1)));
    }
    for seq in [2, 6, 8, 10] {
        assert!(!is_duplicate(&mut world, &proposal(1, 1, seq, 1)));
    }
}

#[test]
fn what_lies_below_the_low_mark_is_a_duplicate_even_if_it_never_came() {
    let mut world = World::new();
    assert!(!is_duplicate(&mut world, &proposal(1, 1, 10, 8)));
    assert!(is_duplicate(&mut world, &proposal(1, 1, 7, 0)));
    assert!(!is_duplicate(&mut world, &proposal(1, 1, 8, 0)));
    assert!(is_duplicate(&mut world, &proposal(1, 1, 7, 0)), "the mark never goes back");
}

#[test]
fn a_newer_boot_forgets_the_older_and_shuts_it_out() {
    let mut world = World::new();
    assert!(!is_duplicate(&mut world, &proposal(1, 1, 10, 9)));
    assert!(!is_duplicate(&mut world, &proposal(1, 2, 1, 0)), "a new boot restarts the count");
    assert!(is_duplicate(&mut world, &proposal(1, 1, 11, 9)));
    assert!(is_duplicate(&mut world, &proposal(1, 2, 1, 0)));
}

#[test]
fn origins_do_not_disturb_each_other() {
    let mut world = World::new();
    assert!(!is_duplicate(&mut world, &proposal(1, 1, 1, 0)));
    assert!(!is_duplicate(&mut world, &proposal(2, 1, 1, 0)));
    assert!(is_duplicate(&mut world, &proposal(1, 1, 1, 0)));
}

#[test]
fn a_refused_proposal_is_remembered_as_well() {
    let mut world = World::new();
    let mut refused = proposal(1, 1, 1, 0);
    refused.command = Command::Put(coord::request::Put { value: None, ..put("missing", "") });
    assert!(matches!(world.apply(&refused), Applied::Done { reply: Err(_), .. }));
    assert!(is_duplicate(&mut world, &refused));
}

#[test]
fn duplicates_are_known_after_a_restart() {
    let mut world = World::new();
    for seq in [1, 2, 3, 7, 9] {
        assert!(!is_duplicate(&mut world, &proposal(1, 4, seq, 2)));
    }
    world.reload();
    for (seq, expected) in [(0, true), (1, true), (3, true), (4, false), (7, true), (8, false), (9, true)] {
        assert_eq!(is_duplicate(&mut world, &proposal(1, 4, seq, 2)), expected, "{seq}");
    }
    assert!(is_duplicate(&mut world, &proposal(1, 3, 100, 0)));
}
