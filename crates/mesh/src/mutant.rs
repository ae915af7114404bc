//! Planted bugs of the data plane: `base::mutant` says what they are for.

base::mutants! {
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
    /// Tombstones are removed when this node has them, whether the other replicas have them or not.
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
    /// A replica promises a ballot for a collection, which no ballot decides about.
    CollectionPromised = "collection-promised",
    /// A request that a ballot has refused is judged again when it comes again.
    RefusalNotRemembered = "refusal-not-remembered",
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
    PurgedBeforeRemoteRegions = "purged-before-remote-regions",
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
    /// The owner of keys goes on whether other regions confirm it or not.
    HomeUnconfirmed = "home-unconfirmed",
    /// A mesh node that has lost its disk counts as the replica that it was.
    LossUnnoticed = "loss-unnoticed",
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
    /// A node follows a topology of an epoch that no plan can have reached, because one other node says so.
    TopologyOfOne = "topology-of-one",
    /// The versions that a client claims to have seen are believed without asking the replicas.
    ForgedContextJoined = "forged-context-joined",
    /// A replica whose clock is ahead declares alone that every replica has everything up to now.
    MarkOfOneReplica = "mark-of-one-replica",
    /// A node believes one peer that every replica has passed a stamp that no clock can have reached.
    FarStampTaken = "far-stamp-taken",
    /// No other replica is asked when one is late.
    SlowReplicaAwaited = "slow-replica-awaited",
    /// A proposer that one replica has refused waits for one that says nothing.
    RefusedAwaitsSilent = "refused-awaits-silent",
    /// What too few replicas can answer waits for its deadline, although that is known.
    RefusedAtDeadline = "refused-at-deadline",
    /// A refusal does not name those who did not answer.
    MissingUnnamed = "missing-unnamed",
    /// A write may name a handler that nothing is known of.
    UnknownHandlerTaken = "unknown-handler-taken",
    /// Names of forwarded writes count by number: a forged number puts those of the real peer out of use.
    ForwardNamesPoisoned = "forward-names-poisoned",
    /// A removal from a collection does not say which writes it has seen.
    RemovalUnseen = "removal-unseen",
    /// A write to a collection that was seen and removed is merged again when it is repeated.
    SeenReturns = "seen-returns",
    /// A clear removes elements that it has not seen.
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
    /// What an actor has given away of a bounded counter it still owns.
    RightsGivenTwice = "rights-given-twice",
    /// No owner of rights gives any to an actor that wants some.
    WantsUnheard = "wants-unheard",
    /// A bounded counter that was deleted goes on with the rights that it had.
    RightsOutliveDelete = "rights-outlive-delete",
    /// Of a bounded counter that is not here, none of the others is asked before it is created.
    BoundUnasked = "bound-unasked",
    /// A removal from a collection acts on what its coordinator has, and asks no other replica.
    RemovalUnasked = "removal-unasked",
    /// A read shows elements that fewer replicas have than it asked.
    ElementsNotRepaired = "elements-not-repaired",
    /// A replica that is sent the header of another acknowledges it without comparing itself.
    HeaderNotCompared = "header-not-compared",
    /// A node that has lost its disk counts an exchange as its own that a peer began with what was on that disk.
    SyncedInAnotherIncarnation = "synced-in-another-incarnation",
    /// A node that has lost its disk goes on with an exchange that a peer began with what was on that disk.
    PageOfAnotherIncarnation = "page-of-another-incarnation",
    /// A collection is claimed as seen although the peer that had it has lost its disk meanwhile.
    LostCollectionClaimed = "lost-collection-claimed",
    /// A backup of a collection has its record alone.
    BackupWithoutElements = "backup-without-elements",
    /// Ranges of a collection are compared although the element at which they began is gone, and what lies behind it is missed.
    LostRangeBeginOverlooked = "lost-range-begin-overlooked",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[
        Mutant::DotsReused,
        Mutant::EpochSkipped,
        Mutant::StoredBeforePersist,
        Mutant::MergeableSentEarly,
        Mutant::ReadNotCounted,
        Mutant::ReadNotRepaired,
        Mutant::TombstoneNotSynced,
        Mutant::PurgeUnstable,
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
        Mutant::RefusalNotRemembered,
        Mutant::RepeatCounted,
        Mutant::StreamedBeforePersist,
        Mutant::HolesAcknowledged,
        Mutant::GapVouched,
        Mutant::AdoptedByOne,
        Mutant::PurgedBeforeRemoteRegions,
        Mutant::EvictedWaitedFor,
        Mutant::RegionsNotCompared,
        Mutant::TokenIgnored,
        Mutant::SessionStampIgnored,
        Mutant::RegionsNotCounted,
        Mutant::LastWriteSentEarly,
        Mutant::LoserNotKept,
        Mutant::HomePromiseForgotten,
        Mutant::HomeUnconfirmed,
        Mutant::FullMeshDiskIgnored,
        Mutant::DeletesUnbounded,
        Mutant::PlainMixedIn,
        Mutant::PromiseNotDurable,
        Mutant::PromiseUnchecked,
        Mutant::NoteExpiresByOwnClock,
        Mutant::ElectorateNotAgreed,
        Mutant::HeartbeatOfAnother,
        Mutant::StaleTurnAnswers,
        Mutant::EmptiedPromises,
        Mutant::OneListDecides,
        Mutant::LostDiskCounted,
        Mutant::TopologyOfOne,
        Mutant::ForgedContextJoined,
        Mutant::MarkOfOneReplica,
        Mutant::FarStampTaken,
        Mutant::SlowReplicaAwaited,
        Mutant::RefusedAtDeadline,
        Mutant::MissingUnnamed,
        Mutant::UnknownHandlerTaken,
        Mutant::ForwardNamesPoisoned,
        Mutant::RemovalUnseen,
        Mutant::SeenReturns,
        Mutant::ClearTakesUnseen,
        Mutant::ClearedShown,
        Mutant::SurvivorsUncounted,
        Mutant::OldScoreStays,
        Mutant::RunsMixed,
        Mutant::RightsUnchecked,
        Mutant::RightsGivenTwice,
        Mutant::WantsUnheard,
        Mutant::RightsOutliveDelete,
        Mutant::BoundUnasked,
        Mutant::RemovalUnasked,
        Mutant::ElementsNotRepaired,
        Mutant::HeaderNotCompared,
        Mutant::SyncedInAnotherIncarnation,
        Mutant::PageOfAnotherIncarnation,
        Mutant::LostCollectionClaimed,
        Mutant::CollectionPromised,
        Mutant::BackupWithoutElements,
        Mutant::LostRangeBeginOverlooked,
    ];
}
