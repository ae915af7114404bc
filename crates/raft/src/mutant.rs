//! Planted bugs of a member's Raft: `base::mutant` says what they are for.

base::mutants! {
    /// A batch counts as persisted as soon as it is handed over, before its fsync.
    AckBeforeFsync = "ack-before-fsync",
    /// The vote is not among the records that a crash must preserve.
    VoteForgotten = "vote-forgotten",
    /// A follower's append responses leave before the entries they vouch for are durable.
    ResponseBeforePersist = "response-before-persist",
    /// The leader answers reads from its own commit index without asking a quorum.
    ReadWithoutQuorum = "read-without-quorum",
    /// A question that comes while a read round is under way is answered with it.
    ReadJoinsRound = "read-joins-round",
    /// A member that has lost its disk votes at once.
    EmptiedVotes = "emptied-votes",
    /// A member that has lost its disk votes after its next start, whether or not it has caught up.
    DoubtNotKept = "doubt-not-kept",
    /// A member that has lost its disk votes when it has heard from its leader.
    DoubtEndsEarly = "doubt-ends-early",
    /// A member in doubt does not notice that its leader has gone silent.
    SilentLeaderKept = "silent-leader-kept",
    /// A member whose last frame is in doubt votes at once.
    VotesInDoubt = "votes-in-doubt",
    /// A leader that hears no other member goes on until the library notices.
    DeafLeaderStays = "deaf-leader-stays",
    /// A snapshot is announced with another configuration than it holds.
    ConfigLostInSnapshot = "config-lost-in-snapshot",
    /// While two configurations count, a majority of the later one is enough.
    OneHalfCounts = "one-half-counts",
    /// The only voter speaks as leader before its vote for itself is durable.
    LeadsBeforeItsVote = "leads-before-its-vote",
    /// A member stands for election on a configuration although its log says that the next one is committed.
    StandsOnOldConfig = "stands-on-old-config",
    /// A removed member still counts for quorums.
    RemovedStillVotes = "removed-still-votes",
    /// A learner counts for quorums.
    LearnerVotes = "learner-votes",
    /// An append that builds on an entry far beyond the log reaches the library.
    AppendNotValidated = "append-not-validated",
    /// A term is taken from one peer alone, however far ahead it is.
    TermJumpTaken = "term-jump-taken",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[
        Mutant::SilentLeaderKept,
        Mutant::DeafLeaderStays,
        Mutant::ReadJoinsRound,
        Mutant::AppendNotValidated,
        Mutant::TermJumpTaken,
    ];
}
