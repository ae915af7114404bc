//! Planted bugs of a member: `base::mutant` says what they are for.

base::mutants! {
    /// Reads run when the index is known, without waiting until it is applied.
    ReadBeforeApplied = "read-before-applied",
    /// A ReadIndex context is used again for the next attempt.
    ReadContextReused = "read-context-reused",
    /// The applied index is flushed ahead of the data it stands for.
    AppliedIndexAhead = "applied-index-ahead",
    /// A member on a new disk counts its starts from one, as it did on the disk that it lost.
    StartsCountedFromOne = "starts-counted-from-one",
    /// What is staged goes by the number that its sender chose.
    StagedByForeignNumber = "staged-by-foreign-number",
    /// A snapshot with a part missing is taken for whole.
    SnapshotHoleAccepted = "snapshot-hole-accepted",
    /// The log is cut although the store has not yet flushed what is cut.
    LogCutBeforeFlush = "log-cut-before-flush",
    /// The boot counter is not durable before it is used.
    BootReused = "boot-reused",
    /// Apply uses a member's own identity, so replicas diverge.
    ApplyNotDeterministic = "apply-not-deterministic",
    /// The leader deletes an expired lease from its own state instead of proposing that all do.
    ExpiryAppliedLocally = "expiry-applied-locally",
    /// A new leader grants leases less than what was left of them.
    TtlShortenedByElection = "ttl-shortened-by-election",
    /// A leader renews a lease without asking a quorum whether it still leads.
    KeepAliveUnverified = "keep-alive-unverified",
    /// A snapshot is installed without the kept answers.
    RepliesLostInSnapshot = "replies-lost-in-snapshot",
    /// The revoke of an expired lease is proposed once only, even if the proposal is lost.
    RevokeProposedOnce = "revoke-proposed-once",
    /// Compaction removes what a range that is read in pieces still shows.
    SweepIgnoresHolds = "sweep-ignores-holds",
    /// A member says that it needs nothing, whatever its watches and large reads still read.
    PinIgnored = "pin-ignored",
    /// The state digests of other members are ignored.
    DigestsUnread = "digests-unread",
    /// Compaction takes lines from the log that the index does not show yet.
    SweptBeforeIndexed = "swept-before-indexed",
    /// A new store is installed without clearing what the old one had in memory.
    OverlaySurvivesInstall = "overlay-survives-install",
    /// The leader uses a configuration as soon as it proposes it.
    ConfigBeforeCommit = "config-before-commit",
    /// A joint configuration lasts until the leader that proposed it leaves it; no other leader does.
    ReplacementNotFinished = "replacement-not-finished",
    /// The waiters of a lock are forgotten when the leader changes.
    HandOverLost = "hand-over-lost",
    /// The tokens of a user whose password changes, or who is deleted, stay valid.
    TokenOutlivesUser = "token-outlives-user",
    /// Another snapshot is begun over the store that raft is being offered.
    StagedUnchecked = "staged-unchecked",
    /// A leader orders proposals that one member forwards under another's name.
    ForwardUnchecked = "forward-unchecked",
    /// Digests of indexes far ahead evict those of indexes that are compared.
    DigestsCrowdedOut = "digests-crowded-out",
    /// A member believes digests that it did not ask for.
    DigestsUnasked = "digests-unasked",
    /// A member that joins on an empty directory asks no member how far its log reaches.
    NewcomerAsksNone = "newcomer-asks-none",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[
        Mutant::StagedByForeignNumber,
        Mutant::DigestsUnread,
        Mutant::StagedUnchecked,
        Mutant::ForwardUnchecked,
        Mutant::DigestsCrowdedOut,
        Mutant::DigestsUnasked,
        Mutant::NewcomerAsksNone,
    ];
}
