//! Planted bugs of logs and stores: `base::mutant` says what they are for.

base::mutants! {
    /// Bytes of a torn write are taken for records.
    TornTailAccepted = "torn-tail-accepted",
    /// A segment that was cut short is taken for a whole one.
    ShortSegmentAccepted = "short-segment-accepted",
    /// A segment that is gone is not missed.
    MissingSegmentAccepted = "missing-segment-accepted",
    /// What the store could not write for lack of disk space is taken for written.
    FullDiskIgnored = "full-disk-ignored",
    /// What the log could not write for lack of disk space is taken for written.
    FullLogIgnored = "full-log-ignored",
    /// What is written while a store is rewritten is missing in the new file where the copy had passed.
    RewriteMissesWrites = "rewrite-misses-writes",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[Mutant::FullDiskIgnored, Mutant::RewriteMissesWrites];
}
