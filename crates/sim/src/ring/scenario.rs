//! The worlds of a ring: the storm, and storms that judge one promise more.

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
}

pub const STORM: Scenario = Scenario {
    name: "storm",
    about: "every fault; a write of unknown fate may take effect at any time",
    clocks_agree: false,
    judges_late_writes: false,
    compares: false,
    counts: false,
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
    about: "of the writes that expect the same value one wins",
    compares: true,
    ..STORM
};

pub const COUNTED_ONCE: Scenario = Scenario {
    name: "counted-once",
    about: "an addition that is sent again under its request id counts once",
    counts: true,
    ..STORM
};

pub const ALL: [&Scenario; 4] = [&STORM, &LATE_WRITES, &CONDITIONAL_WRITES, &COUNTED_ONCE];

pub fn by_name(name: &str) -> Option<&'static Scenario> {
    ALL.into_iter().find(|scenario| scenario.name == name)
}
