//! Every planted bug of every crate, and where each is found: by tests of its crate, by worlds of the data plane, or by
//! worlds of members, which must find all that are not listed elsewhere.

use base::mutant::PlantedBug;

/// The mutants of every crate.
macro_rules! of_every_crate {
    ($list:ident) => {{
        let bugs = coord::Mutant::$list.iter().map(|mutant| mutant.bug());
        let bugs = bugs.chain(raft::Mutant::$list.iter().map(|mutant| mutant.bug()));
        let bugs = bugs.chain(node::Mutant::$list.iter().map(|mutant| mutant.bug()));
        let bugs = bugs.chain(disk::Mutant::$list.iter().map(|mutant| mutant.bug()));
        let bugs = bugs.chain(engine::Mutant::$list.iter().map(|mutant| mutant.bug()));
        let bugs = bugs.chain(mesh::Mutant::$list.iter().map(|mutant| mutant.bug()));
        bugs.chain(mesh_node::Mutant::$list.iter().map(|mutant| mutant.bug())).collect()
    }};
}

pub fn all() -> Vec<PlantedBug> {
    of_every_crate!(ALL)
}

pub fn by_name(name: &str) -> Option<PlantedBug> {
    all().into_iter().find(|bug| bug.name() == name)
}

pub fn found_by_crate_tests() -> Vec<PlantedBug> {
    of_every_crate!(FOUND_BY_TESTS)
}

/// Those that worlds of members must find.
pub fn found_by_members() -> Vec<PlantedBug> {
    let elsewhere = [&found_by_crate_tests()[..], &FOUND_BY_RINGS, &FOUND_BY_REGIONS].concat();
    all().into_iter().filter(|bug| !elsewhere.contains(bug)).collect()
}

/// Bugs of the data plane that show only over real files, and those that the worlds of one promise more must find; tests of `mesh`
/// find these too.
pub const FOUND_BY_RINGS: [PlantedBug; 13] = [
    engine::Mutant::FlushOverstated.bug(),
    engine::Mutant::IncarnationNotSynced.bug(),
    mesh::Mutant::LossUnnoticed.bug(),
    engine::Mutant::IncarnationNameRepeated.bug(),
    mesh::Mutant::TopologyNotDurable.bug(),
    mesh::Mutant::IdentityNotDurable.bug(),
    mesh::Mutant::FullAcknowledged.bug(),
    engine::Mutant::TornEndTrusted.bug(),
    mesh::Mutant::ForwardStampedLate.bug(),
    mesh::Mutant::PromiseUnchecked.bug(),
    mesh::Mutant::RequestForgotten.bug(),
    mesh::Mutant::SlowReplicaAwaited.bug(),
    mesh::Mutant::RefusedAwaitsSilent.bug(),
];

/// Bugs that worlds of several regions over real files must find; tests of `mesh` find some of them too.
pub const FOUND_BY_REGIONS: [PlantedBug; 11] = [
    mesh::Mutant::RegionsNotCompared.bug(),
    mesh::Mutant::DeltasAddedUp.bug(),
    mesh::Mutant::LogCutInSilence.bug(),
    mesh::Mutant::LoserNotKept.bug(),
    mesh::Mutant::TokenIgnored.bug(),
    mesh::Mutant::EvictedWaitedFor.bug(),
    mesh::Mutant::FullAcknowledged.bug(),
    mesh::Mutant::HomePromiseForgotten.bug(),
    mesh::Mutant::HomeUnconfirmed.bug(),
    mesh_node::Mutant::HomeHeldFromArrival.bug(),
    mesh::Mutant::DocumentsNotExchanged.bug(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_over_all_crates() {
        let mut names: Vec<&str> = all().into_iter().map(PlantedBug::name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
