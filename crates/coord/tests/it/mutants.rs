//! The planted bugs really break the rules they name.

use crate::world::{World, do_all, everything, op_put, op_range, proposal, put, single};
use base::mutant::plant;
use coord::Command;
use coord::Mutant;
use coord::reply::Body;

/// The choice belongs to the thread, and each test has its own.
fn planted(mutant: Mutant) -> World {
    plant(Some(mutant.bug()));
    World::new()
}

#[test]
fn without_deduplication_a_proposal_is_applied_twice() {
    let mut world = planted(Mutant::NoDeduplication);
    let twice = proposal(1, Command::Put(put("a", "1")));
    world.apply(&twice);
    world.apply(&twice);
    assert_eq!(world.revision(), 3);
}

#[test]
fn a_transaction_blind_to_itself_misses_its_own_put() {
    let mut world = planted(Mutant::TxnBlindToItself);
    let reply = world.txn(do_all(vec![op_put("a", "1"), op_range(everything())])).expect("accepted");
    assert!(matches!(&reply.bodies[1], Body::Range(range) if range.count == 0));
}

#[test]
fn a_version_that_is_not_reset_goes_on_counting() {
    let mut world = planted(Mutant::VersionNotReset);
    world.put("a", "1");
    world.delete(single("a"));
    world.put("a", "2");
    assert_eq!(world.get("a").expect("it is there").version, 2);
}
