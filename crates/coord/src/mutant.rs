//! Planted bugs of the replicated state: `base::mutant` says what they are for.

base::mutants! {
    /// Proposals that come twice are applied twice.
    NoDeduplication = "no-deduplication",
    /// A transaction's range reads the state before the transaction's own puts.
    TxnBlindToItself = "txn-blind-to-itself",
    /// Deleting and creating again keeps the version counter.
    VersionNotReset = "version-not-reset",
    /// The revoke of an expired lease is forwarded to a new leader, and applied whichever leader proposed it.
    RevokeWithoutGuard = "revoke-without-guard",
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
    /// The kept answers stay when the session's lease ends.
    SessionOutlivesLease = "session-outlives-lease",
    /// A request that was refused is carried out when it is repeated.
    RefusalNotKept = "refusal-not-kept",
    /// A lease ends and its keys stay.
    EndedLeaseLeavesKeys = "ended-lease-leaves-keys",
    /// A key that is put again stays attached to its old lease.
    KeyNotDetached = "key-not-detached",
    /// A revision is read although it was compacted.
    CompactedRead = "compacted-read",
    /// Compaction forgets the newest version of a key that is still there.
    CompactionDropsLive = "compaction-drops-live",
    /// Compaction forgets a delete at the compacted revision itself.
    TombstoneDropped = "tombstone-dropped",
    /// What one compaction kept stays for ever, although it was replaced since.
    SweptOnceOnly = "swept-once-only",
    /// The floor of a compaction is not flushed.
    FloorNotDurable = "floor-not-durable",
    /// The floor is flushed when the sweep is done, and not before what it hides is removed.
    FloorAfterSweep = "floor-after-sweep",
    /// A delete that is compacted leaves nothing in the history.
    DeleteLeavesNoTrace = "delete-leaves-no-trace",
    /// The rows of the index keep keys that were deleted.
    IndexKeepsEnded = "index-keeps-ended",
    /// A removed member stops before the members that may need its vote know of the removal.
    RemovedGoesAtOnce = "removed-goes-at-once",
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
    /// What was admitted under an older auth revision is carried out nevertheless.
    AuthRevisionUnchecked = "auth-revision-unchecked",
    /// A user that may read or write the first key of a range may do so with the whole range.
    PermissionByStartKey = "permission-by-start-key",
    /// A role that is deleted stays with the users who had it, with what it permitted.
    DeletedRoleStays = "deleted-role-stays",
    /// A permission that is revoked from a role still applies to the users of the role.
    RevokedRangeStays = "revoked-range-stays",
    /// A new password does not end the signed tokens of its user.
    EpochNotRaised = "epoch-not-raised",
    /// What a role permits on data is not written.
    DataPermissionsNotWritten = "data-permissions-not-written",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[];
}
