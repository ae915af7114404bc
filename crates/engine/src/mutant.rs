//! Planted bugs of files and starts: `base::mutant` says what they are for.

base::mutants! {
    /// A node of the mesh whose log has lost its last frame goes on as if it had it.
    TornEndTrusted = "torn-end-trusted",
    /// Its doubt ends with its process.
    TailDoubtNotKept = "tail-doubt-not-kept",
    /// The log is not sealed behind votes and terms.
    VotesNotSealed = "votes-not-sealed",
    /// After a start, changes that the index does not show yet are forgotten.
    UnindexedForgotten = "unindexed-forgotten",
    /// A start forgets the configuration that the store holds.
    ConfigLostAtStart = "config-lost-at-start",
    /// A flush of the mesh says that it reaches further into the log than it does.
    FlushOverstated = "flush-overstated",
    /// The incarnation of a mesh node is used before it is durable.
    IncarnationNotSynced = "incarnation-not-synced",
    /// A node on a new disk reuses the incarnation of the lost disk.
    IncarnationNameRepeated = "incarnation-name-repeated",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[Mutant::TailDoubtNotKept, Mutant::VotesNotSealed];
}
