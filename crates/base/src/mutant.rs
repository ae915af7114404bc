//! Planted bugs, so that the simulator's checkers can be checked: each names one rule that the code keeps,
//! and breaks it where the rule is kept. Without the `mutants` feature `planted` is a constant `false` and
//! the branches vanish; only the simulator turns the feature on and chooses one.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant { $($(#[$doc])* $name,)* }

        impl Mutant {
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name),*];

            /// The name used on the simulator's command line.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$name => $text,)* }
            }

            pub fn from_name(name: &str) -> Option<Mutant> {
                Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name)
            }
        }
    };
}

mutants! {
    /// A batch counts as persisted as soon as it is handed over, before its fsync.
    AckBeforeFsync = "ack-before-fsync",
    /// The vote is not among the records that a crash must preserve.
    VoteForgotten = "vote-forgotten",
    /// A follower's append responses leave before the entries they vouch for are durable.
    ResponseBeforePersist = "response-before-persist",
    /// The leader answers reads from its own commit index without asking a quorum.
    ReadWithoutQuorum = "read-without-quorum",
    /// Reads run when the index is known, without waiting until it is applied.
    ReadBeforeApplied = "read-before-applied",
    /// A ReadIndex context is used again for the next attempt.
    ReadContextReused = "read-context-reused",
    /// Proposals that come twice are applied twice.
    NoDeduplication = "no-deduplication",
    /// The applied index is flushed ahead of the data it stands for.
    AppliedIndexAhead = "applied-index-ahead",
    /// Bytes of a torn write are taken for records.
    TornTailAccepted = "torn-tail-accepted",
    /// A segment that was cut short is taken for a whole one.
    ShortSegmentAccepted = "short-segment-accepted",
    /// A node of the mesh whose log has lost its last frame goes on as if it had it.
    TornEndTrusted = "torn-end-trusted",
    /// A segment that is gone is not missed.
    MissingSegmentAccepted = "missing-segment-accepted",
    /// What the store could not write for lack of disk space is taken for written.
    FullDiskIgnored = "full-disk-ignored",
    /// What the log could not write for lack of disk space is taken for written.
    FullLogIgnored = "full-log-ignored",
    /// A member on a new disk counts its starts from one, as it did on the disk that it lost.
    StartsCountedFromOne = "starts-counted-from-one",
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
    /// Its doubt ends with its process.
    TailDoubtNotKept = "tail-doubt-not-kept",
    /// The log is not sealed behind votes and terms.
    VotesNotSealed = "votes-not-sealed",
    /// A leader that hears no other member goes on until the library notices.
    DeafLeaderStays = "deaf-leader-stays",
    /// What is staged goes by the number that its sender chose.
    StagedByForeignNumber = "staged-by-foreign-number",
    /// A snapshot with a part missing is taken for whole.
    SnapshotHoleAccepted = "snapshot-hole-accepted",
    /// The log is cut although the store has not yet flushed what is cut.
    LogCutBeforeFlush = "log-cut-before-flush",
    /// The boot counter is not durable before it is used.
    BootReused = "boot-reused",
    /// A transaction's range reads the state before the transaction's own puts.
    TxnBlindToItself = "txn-blind-to-itself",
    /// Deleting and creating again keeps the version counter.
    VersionNotReset = "version-not-reset",
    /// Apply uses a member's own identity, so replicas diverge.
    ApplyNotDeterministic = "apply-not-deterministic",
    /// The revoke of an expired lease is forwarded to a new leader, and applied whichever leader proposed it.
    RevokeWithoutGuard = "revoke-without-guard",
    /// The leader deletes an expired lease from its own state instead of proposing that all do.
    ExpiryAppliedLocally = "expiry-applied-locally",
    /// A new leader grants leases less than what was left of them.
    TtlShortenedByElection = "ttl-shortened-by-election",
    /// A leader renews a lease without asking a quorum whether it still leads.
    KeepAliveUnverified = "keep-alive-unverified",
    /// A request that its client repeats is carried out again.
    RetryCarriedOutAgain = "retry-carried-out-again",
    /// A request of a session that is gone is carried out.
    UnknownSessionServed = "unknown-session-served",
    /// A request below the session's window is carried out.
    ForgottenCarriedOut = "forgotten-carried-out",
    /// A request is answered as the one before it was.
    ReplyOfAnother = "reply-of-another",
    /// The kept answers are not flushed.
    RepliesNotWritten = "replies-not-written",
    /// A snapshot is installed without the kept answers.
    RepliesLostInSnapshot = "replies-lost-in-snapshot",
    /// The kept answers stay when the session's lease ends.
    SessionOutlivesLease = "session-outlives-lease",
    /// A request that was refused is carried out when it is repeated.
    RefusalNotKept = "refusal-not-kept",
    /// A lease ends and its keys stay.
    EndedLeaseLeavesKeys = "ended-lease-leaves-keys",
    /// A key that is put again stays attached to its old lease.
    KeyNotDetached = "key-not-detached",
    /// The revoke of an expired lease is proposed once only, even if the proposal is lost.
    RevokeProposedOnce = "revoke-proposed-once",
    /// A revision is read although it was compacted.
    CompactedRead = "compacted-read",
    /// Compaction forgets the newest version of a key that is still there.
    CompactionDropsLive = "compaction-drops-live",
    /// Compaction forgets a delete at the compacted revision itself.
    TombstoneDropped = "tombstone-dropped",
    /// What one compaction kept stays for ever, although it was replaced since.
    SweptOnceOnly = "swept-once-only",
    /// Compaction removes what a range that is read in pieces still shows.
    SweepIgnoresHolds = "sweep-ignores-holds",
    /// The floor of a compaction is not flushed.
    FloorNotDurable = "floor-not-durable",
    /// The floor is flushed when the sweep is done, and not before what it hides is removed.
    FloorAfterSweep = "floor-after-sweep",
    /// A member says that it needs nothing, whatever its watches and large reads still read.
    PinIgnored = "pin-ignored",
    /// A delete that is compacted leaves nothing in the history.
    DeleteLeavesNoTrace = "delete-leaves-no-trace",
    /// The state digests of other members are ignored.
    DigestsUnread = "digests-unread",
    /// The rows of the index keep keys that were deleted.
    IndexKeepsEnded = "index-keeps-ended",
    /// Compaction takes lines from the log that the index does not show yet.
    SweptBeforeIndexed = "swept-before-indexed",
    /// After a start, changes that the index does not show yet are forgotten.
    UnindexedForgotten = "unindexed-forgotten",
    /// A new store is installed without clearing what the old one had in memory.
    OverlaySurvivesInstall = "overlay-survives-install",
    /// The leader uses a configuration as soon as it proposes it.
    ConfigBeforeCommit = "config-before-commit",
    /// A snapshot is announced with another configuration than it holds.
    ConfigLostInSnapshot = "config-lost-in-snapshot",
    /// A start forgets the configuration that the store holds.
    ConfigLostAtStart = "config-lost-at-start",
    /// While two configurations count, a majority of the later one is enough.
    OneHalfCounts = "one-half-counts",
    /// A joint configuration lasts until the leader that proposed it leaves it; no other leader does.
    ReplacementNotFinished = "replacement-not-finished",
    /// A removed member stops before the members that may need its vote know of the removal.
    RemovedGoesAtOnce = "removed-goes-at-once",
    /// The only voter speaks as leader before its vote for itself is durable.
    LeadsBeforeItsVote = "leads-before-its-vote",
    /// A member stands for election on a configuration although its log says that the next one is committed.
    StandsOnOldConfig = "stands-on-old-config",
    /// A removed member still counts for quorums.
    RemovedStillVotes = "removed-still-votes",
    /// A learner counts for quorums.
    LearnerVotes = "learner-votes",
    /// A watch that read a piece of history goes live, whether there is more or not.
    WatchHistoryGap = "watch-history-gap",
    /// A watch that still reads history is sent changes as they come.
    WatchLiveBeforeHistory = "watch-live-before-history",
    /// Events for a client that cannot take them now are dropped.
    WatchSlowDropped = "watch-slow-dropped",
    /// Progress is reported although watches of the stream are behind.
    WatchProgressAhead = "watch-progress-ahead",
    /// The events of one revision come in several responses.
    WatchRevisionSplit = "watch-revision-split",
    /// The previous version in an event is not the one that was replaced.
    WatchPrevWrong = "watch-prev-wrong",
    /// Watches go on after a snapshot without what it skipped.
    WatchLostOverInstall = "watch-lost-over-install",
    /// A watch on a future revision is sent what comes before it.
    WatchFutureEarly = "watch-future-early",
    /// The end of a lease leaves its waiting places in the queues of locks.
    DeadWaiterGranted = "dead-waiter-granted",
    /// The waiters of a lock are forgotten when the leader changes.
    HandOverLost = "hand-over-lost",
    /// A fence passes with any token.
    StaleFenceAccepted = "stale-fence-accepted",
    /// A fenced write that is sent again is judged by the lock's holder of then.
    FencedRetryJudgedAgain = "fenced-retry-judged-again",
    /// The second waiter in the queue is told that it holds the lock.
    DoubleGrant = "double-grant",
    /// A call that was cancelled stays in the queue.
    CancelledWaiterStays = "cancelled-waiter-stays",
    /// A document is replaced whatever version its writer saw.
    DocumentUnchecked = "document-unchecked",
    /// Documents are not flushed.
    DocumentsNotWritten = "documents-not-written",
    /// A node counts its dots from one again after a restart.
    DotsReused = "dots-reused",
    /// A partition settles in its new place although the old replicas still serve the old epoch.
    EpochSkipped = "epoch-skipped",
    /// A replica acknowledges a record of the mesh before it is durable.
    StoredBeforePersist = "stored-before-persist",
    /// An operation on a mergeable value leaves its origin before it is durable there.
    MergeableSentEarly = "mergeable-sent-early",
    /// A read answers with the first reply, whatever it asked for.
    ReadNotCounted = "read-not-counted",
    /// A read answers without bringing stale replicas up to date.
    ReadNotRepaired = "read-not-repaired",
    /// Anti-entropy passes over deletes.
    TombstoneNotSynced = "tombstone-not-synced",
    /// Tombstones go when this node has them, whether the others have them or not.
    PurgeUnstable = "purge-unstable",
    /// A record whose tombstone is gone is taken for new.
    PurgedReturns = "purged-returns",
    /// A replica takes writes under a fence that has been passed.
    FenceIgnored = "fence-ignored",
    /// A write keeps its stamp although a replica holds a later one.
    SkewKept = "skew-kept",
    /// A write that was retried elsewhere, and carried out there, is stamped as if it were new.
    RetryRestamped = "retry-restamped",
    /// A forwarded write is stamped by the replica that executes it, when it executes it.
    ForwardStampedLate = "forward-stamped-late",
    /// A write is stamped again after the time of its client is over.
    RestampedAfterDeadline = "restamped-after-deadline",
    /// A replica that will give no stamp so early any more says so as if a quorum had compared the stamp with what it has.
    FloorCountsAsCheck = "floor-counts-as-check",
    /// A replica that has lost its disk acknowledges writes before it has everything back.
    RefillingAcknowledged = "refilling-acknowledged",
    /// While a partition moves, a read shows what its old replicas have, whether its new ones have it or not.
    OldListShows = "old-list-shows",
    /// A request is remembered in the record of its key alone, among the last eight.
    RequestForgotten = "request-forgotten",
    /// A change by ballot that leaves a request out of the record does not remember it beside the key.
    DecidedRequestDropped = "decided-request-dropped",
    /// A request that two nodes carried out without knowing of each other stays carried out twice.
    RepeatCounted = "repeat-counted",
    /// An entry of the replication log leaves before it is durable.
    StreamedBeforePersist = "streamed-before-persist",
    /// Entries count as acknowledged although others before them are still on their way.
    HolesAcknowledged = "holes-acknowledged",
    /// A region that lacks entries which were cut from the log is acknowledged as having them.
    GapVouched = "gap-vouched",
    /// A region acknowledges an entry when one of its replicas has it.
    AdoptedByOne = "adopted-by-one",
    /// Deletes are forgotten when this region has them, whether the others have them or not.
    PurgedBeforeAbroad = "purged-before-abroad",
    /// A region that was evicted is still waited for.
    EvictedWaitedFor = "evicted-waited-for",
    /// Regions rely on their logs alone and never compare what they hold.
    RegionsNotCompared = "regions-not-compared",
    /// A read does not wait for what its session has seen.
    TokenIgnored = "token-ignored",
    /// A write does not come after what its session has seen.
    SessionStampIgnored = "session-stamp-ignored",
    /// A write over regions is acknowledged when this region has it.
    RegionsNotCounted = "regions-not-counted",
    /// A last write travels before it is durable, although other regions rely on the log of its origin.
    LastWriteSentEarly = "last-write-sent-early",
    /// What loses a conflict goes without a trace.
    LoserNotKept = "loser-not-kept",
    /// What an actor had counted earlier, when it comes again or late, counts once more.
    DeltasAddedUp = "deltas-added-up",
    /// The log of a node is cut when one region has it, and the others are told that they have it too.
    LogCutInSilence = "log-cut-in-silence",
    /// A region votes for another owner of keys although it knows of the present one.
    HomePromiseForgotten = "home-promise-forgotten",
    /// A node counts the lease of its region from when it hears of it, not from when it asked.
    HomeHeldFromArrival = "home-held-from-arrival",
    /// The owner of keys goes on whether other regions confirm it or not.
    HomeUnconfirmed = "home-unconfirmed",
    /// What was admitted under an older auth revision is carried out nevertheless.
    AuthRevisionUnchecked = "auth-revision-unchecked",
    /// A user that may read or write the first key of a range may do so with the whole range.
    PermissionByStartKey = "permission-by-start-key",
    /// A role that is deleted stays with the users who had it, with what it permitted.
    DeletedRoleStays = "deleted-role-stays",
    /// A permission that is revoked from a role still applies to the users of the role.
    RevokedRangeStays = "revoked-range-stays",
    /// The tokens of a user whose password changes, or who is deleted, stay valid.
    TokenOutlivesUser = "token-outlives-user",
    /// A new password does not end the signed tokens of its user.
    EpochNotRaised = "epoch-not-raised",
    /// What a role permits on data is not written.
    DataPermissionsNotWritten = "data-permissions-not-written",
    /// A flush of the mesh says that it reaches further into the log than it does.
    FlushOverstated = "flush-overstated",
    /// The incarnation of a mesh node is used before it is durable.
    LifeNotSynced = "life-not-synced",
    /// A mesh node that has lost its disk counts as the replica that it was.
    LossUnnoticed = "loss-unnoticed",
    /// A node on a new disk reuses the incarnation of the lost disk.
    LifeNameRepeated = "life-name-repeated",
    /// A node of the mesh says to follow a topology that its disk does not have yet.
    TopologyNotDurable = "topology-not-durable",
    /// A node of the mesh gives dots of a block that its disk does not have yet.
    IdentityNotDurable = "identity-not-durable",
    /// A node of the mesh accepts writes for which its disk has no space.
    FullMeshDiskIgnored = "full-mesh-disk-ignored",
    /// A node of the mesh whose disk is full takes in deletes until the log has to wait.
    DeletesUnbounded = "deletes-unbounded",
    /// A plain write is taken into a key that is decided by ballots, and merged with what was decided.
    PlainMixedIn = "plain-mixed-in",
    /// A replica tells a promise before it is durable.
    PromiseNotDurable = "promise-not-durable",
    /// A replica accepts a proposal although it has promised a higher round.
    PromiseUnchecked = "promise-unchecked",
    /// A node forgets what was done for a request id when its own clock says so.
    NoteExpiresByOwnClock = "note-expires-by-own-clock",
    /// A region goes by its own table of regions when owners of homes are elected, whatever the others go by.
    ElectorateNotAgreed = "electorate-not-agreed",
    /// A node of another region says how far the log of its neighbour has come, and is believed.
    HeartbeatOfAnother = "heartbeat-of-another",
    /// A proposer that skips the promises refuses a change by its own record, which others may have changed.
    StaleTurnAnswers = "stale-turn-answers",
    /// A replica that has lost its disk takes part in ballots at once.
    EmptiedPromises = "emptied-promises",
    /// While a partition moves, a majority of the list that is read decides alone.
    OneListDecides = "one-list-decides",
    /// What a node holds that has lost its disk counts as what it had acknowledged before.
    LostDiskCounted = "lost-disk-counted",
    /// A replica that has no space for a record acknowledges it nevertheless.
    FullAcknowledged = "full-acknowledged",
    /// Regions do not tell each other of the documents that they share.
    DocumentsNotExchanged = "documents-not-exchanged",
    /// An append that builds on an entry far beyond the log reaches the library.
    AppendNotValidated = "append-not-validated",
    /// A term is taken from one peer alone, however far ahead it is.
    TermJumpTaken = "term-jump-taken",
    /// Another snapshot is begun over the store that raft is being offered.
    StagedUnchecked = "staged-unchecked",
    /// A leader orders proposals that one member forwards under another's name.
    ForwardUnchecked = "forward-unchecked",
    /// The digests of one member evict those of the others.
    DigestsCrowdedOut = "digests-crowded-out",
    /// A node follows a topology of an epoch that no plan can have reached, because one other node says so.
    TopologyOfOne = "topology-of-one",
    /// The versions that a client claims to have seen are believed without asking the replicas.
    ForgedContextJoined = "forged-context-joined",
    /// A member that joins on an empty directory asks no member how far its log reaches.
    NewcomerAsksNone = "newcomer-asks-none",
    /// A replica whose clock is ahead declares alone that every replica has everything up to now.
    MarkOfOneReplica = "mark-of-one-replica",
    /// A node believes one peer that every replica has passed a stamp that no clock can have reached.
    FarStampTaken = "far-stamp-taken",
    /// Names of forwarded writes are forgotten by number: a forged number puts those of the real peer out of use.
    ForwardNamesPoisoned = "forward-names-poisoned",
    /// A removal from a collection does not say which writes it has seen.
    RemovalUnseen = "removal-unseen",
    /// A write to a collection that was seen and removed is taken in again when it comes again.
    SeenReturns = "seen-returns",
    /// A clear takes away what it has not seen.
    ClearTakesUnseen = "clear-takes-unseen",
    /// Rows that a clear has seen are shown until they are swept.
    ClearedShown = "cleared-shown",
    /// Elements that survive a clear are not counted.
    SurvivorsUncounted = "survivors-uncounted",
    /// A member of a sorted set stays at its old place when its score changes.
    OldScoreStays = "old-score-stays",
    /// Runs of items that are inserted at the same place at the same time are mixed.
    RunsMixed = "runs-mixed",
    /// A bounded counter is lowered by more than its actor has rights to.
    RightsUnchecked = "rights-unchecked",
}

impl Mutant {
    /// Mutants that the unit tests of a crate find: a diverged state is found by the simulator's checker before the
    /// members notice; simulated stores hardly ever outgrow their file; and two leaders choose the same number once
    /// in thousands of worlds. Members of the simulator forge nothing.
    pub const FOUND_BY_CRATE_TESTS: &'static [Mutant] = &[
        Mutant::DigestsUnread,
        Mutant::FullDiskIgnored,
        Mutant::StagedByForeignNumber,
        Mutant::AppendNotValidated,
        Mutant::TermJumpTaken,
        Mutant::StagedUnchecked,
        Mutant::ForwardUnchecked,
        Mutant::DigestsCrowdedOut,
        Mutant::TopologyOfOne,
        Mutant::TailDoubtNotKept,
        Mutant::VotesNotSealed,
        Mutant::DeafLeaderStays,
        Mutant::SilentLeaderKept,
        Mutant::NewcomerAsksNone,
        Mutant::RemovalUnseen,
        Mutant::SeenReturns,
        Mutant::ClearTakesUnseen,
        Mutant::ClearedShown,
        Mutant::SurvivorsUncounted,
        Mutant::OldScoreStays,
        Mutant::RunsMixed,
        Mutant::RightsUnchecked,
    ];

    /// Mutants of the mesh, which the tests of the crate `mesh` find in a simulated cluster of their own.
    pub const FOUND_BY_MESH_TESTS: &'static [Mutant] = &[
        Mutant::DotsReused,
        Mutant::EpochSkipped,
        Mutant::StoredBeforePersist,
        Mutant::MergeableSentEarly,
        Mutant::ReadNotCounted,
        Mutant::ReadNotRepaired,
        Mutant::TombstoneNotSynced,
        Mutant::PurgeUnstable,
        Mutant::MarkOfOneReplica,
        Mutant::PurgedReturns,
        Mutant::FenceIgnored,
        Mutant::SkewKept,
        Mutant::RetryRestamped,
        Mutant::ForwardStampedLate,
        Mutant::RestampedAfterDeadline,
        Mutant::FloorCountsAsCheck,
        Mutant::RefillingAcknowledged,
        Mutant::OldListShows,
        Mutant::RequestForgotten,
        Mutant::DecidedRequestDropped,
        Mutant::RepeatCounted,
        Mutant::StreamedBeforePersist,
        Mutant::HolesAcknowledged,
        Mutant::GapVouched,
        Mutant::AdoptedByOne,
        Mutant::PurgedBeforeAbroad,
        Mutant::EvictedWaitedFor,
        Mutant::RegionsNotCompared,
        Mutant::TokenIgnored,
        Mutant::SessionStampIgnored,
        Mutant::RegionsNotCounted,
        Mutant::LastWriteSentEarly,
        Mutant::LoserNotKept,
        Mutant::HomePromiseForgotten,
        Mutant::HomeUnconfirmed,
        Mutant::LostDiskCounted,
        Mutant::FullMeshDiskIgnored,
        Mutant::DeletesUnbounded,
        Mutant::PlainMixedIn,
        Mutant::PromiseNotDurable,
        Mutant::PromiseUnchecked,
        Mutant::StaleTurnAnswers,
        Mutant::HeartbeatOfAnother,
        Mutant::ElectorateNotAgreed,
        Mutant::NoteExpiresByOwnClock,
        Mutant::EmptiedPromises,
        Mutant::OneListDecides,
        Mutant::ForgedContextJoined,
        Mutant::FarStampTaken,
        Mutant::ForwardNamesPoisoned,
    ];

    /// Mutants of the mesh that show only over real files.
    pub const FOUND_BY_RING_WORLDS: &'static [Mutant] = &[
        Mutant::FlushOverstated,
        Mutant::LifeNotSynced,
        Mutant::LossUnnoticed,
        Mutant::LifeNameRepeated,
        Mutant::TopologyNotDurable,
        Mutant::IdentityNotDurable,
        Mutant::FullAcknowledged,
        Mutant::TornEndTrusted,
    ];

    /// Mutants that worlds of several regions over real files must find; some also have scenario tests in the mesh.
    pub const FOUND_BY_REGION_WORLDS: &'static [Mutant] = &[
        Mutant::RegionsNotCompared,
        Mutant::DeltasAddedUp,
        Mutant::LogCutInSilence,
        Mutant::LoserNotKept,
        Mutant::TokenIgnored,
        Mutant::EvictedWaitedFor,
        Mutant::FullAcknowledged,
        Mutant::HomePromiseForgotten,
        Mutant::HomeUnconfirmed,
        Mutant::HomeHeldFromArrival,
        Mutant::DocumentsNotExchanged,
    ];
}

#[cfg(feature = "mutants")]
mod chosen {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static CHOSEN: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants one bug in everything that this thread runs from now on.
    pub fn plant(mutant: Option<Mutant>) {
        CHOSEN.set(mutant);
    }

    #[inline]
    pub fn planted(mutant: Mutant) -> bool {
        CHOSEN.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{plant, planted};

/// Planted bugs are compiled into this build: it is one for tests.
pub const COMPILED_IN: bool = cfg!(feature = "mutants");

#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_: Mutant) -> bool {
    false
}
