//! The worlds of a ring: the storm, and storms that judge one promise more.

use base::mutant::PlantedBug;

#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// Clocks of nodes are never set wrong.
    pub clocks_agree: bool,
    /// A write never beats one that began after it and was acknowledged or shown.
    pub judges_late_writes: bool,
    /// Clients compare and set keys that all of them write.
    pub compares: bool,
    /// Clients add to one counter, and send each addition again until it is acknowledged.
    pub counts: bool,
    /// Logs of single nodes are damaged, and all nodes lose their power at once.
    pub damages_logs: bool,
    /// One node at a time is in trouble, and what is asked of the others is answered in time.
    pub judges_answer_times: bool,
}

pub const STORM: Scenario = Scenario {
    name: "storm",
    about: "every fault; a write of unknown fate may take effect at any time",
    clocks_agree: false,
    judges_late_writes: false,
    compares: false,
    counts: false,
    damages_logs: false,
    judges_answer_times: false,
};

pub const LATE_WRITES: Scenario = Scenario {
    name: "late-writes",
    about: "clocks agree; a write that began before an acknowledged one never beats it",
    clocks_agree: true,
    judges_late_writes: true,
    ..STORM
};

pub const CONDITIONAL_WRITES: Scenario = Scenario {
    name: "conditional-writes",
    about: "of the writes that expect the same value one wins; a creation that was refused is never carried out",
    compares: true,
    ..STORM
};

pub const COUNTED_ONCE: Scenario = Scenario {
    name: "counted-once",
    about: "an addition that is sent again under its request id counts once",
    counts: true,
    ..STORM
};

pub const DAMAGED_LOGS: Scenario = Scenario {
    name: "damaged-logs",
    about: "logs of single nodes are damaged, cut short or gone, and all nodes lose their power at once",
    damages_logs: true,
    ..STORM
};

pub const ANSWER_TIMES: Scenario = Scenario {
    name: "answer-times",
    about: "while one node is paused, down or cut off, what is asked of the others is answered in time",
    clocks_agree: true,
    compares: true,
    counts: true,
    judges_answer_times: true,
    ..STORM
};

pub const ALL: [&Scenario; 6] =
    [&STORM, &LATE_WRITES, &CONDITIONAL_WRITES, &COUNTED_ONCE, &DAMAGED_LOGS, &ANSWER_TIMES];

/// Where a planted bug shows.
pub fn hunting_ground(bug: PlantedBug) -> &'static Scenario {
    let grounds: [(PlantedBug, &'static Scenario); 6] = [
        (engine::Mutant::TornEndTrusted.bug(), &DAMAGED_LOGS),
        (mesh::Mutant::ForwardStampedLate.bug(), &LATE_WRITES),
        (mesh::Mutant::PromiseUnchecked.bug(), &CONDITIONAL_WRITES),
        (mesh::Mutant::RequestForgotten.bug(), &COUNTED_ONCE),
        (mesh::Mutant::SlowReplicaAwaited.bug(), &ANSWER_TIMES),
        (mesh::Mutant::RefusedAwaitsSilent.bug(), &ANSWER_TIMES),
    ];
    grounds.into_iter().find(|(mutant, _)| *mutant == bug).map_or(&STORM, |(_, scenario)| scenario)
}

pub fn by_name(name: &str) -> Option<&'static Scenario> {
    ALL.into_iter().find(|scenario| scenario.name == name)
}
