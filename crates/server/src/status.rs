//! A member's status at a glance: written by the core's threads, read by any thread, never locked.
//! Each value is true by itself; values of different threads may be of slightly different moments.

use base::{ClusterId, Index, NodeId, Revision, Term};
use coord::watch::WatchCounts;
use coord::{Alarm, AlarmOrigin};
use node::{Apply, DiskMeasures};
use raft::Role;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The member's identity. Fixed for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
    pub member: NodeId,
    pub name: String,
}

#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub term: Term,
    pub leader: Option<NodeId>,
    pub is_leader: bool,
    /// Its log may have lost acknowledged writes, and has not caught up yet.
    pub in_doubt: bool,
    pub committed: Index,
    pub applied: Index,
    pub revision: Revision,
    /// The oldest revision that can be read; zero while nothing was compacted.
    pub compacted: Revision,
    /// Live keys.
    pub keys: u64,
    /// Covers everything applied: equal on every member at the same applied index.
    pub state_hash: u64,
    /// The store's file.
    pub store_bytes: u64,
    /// What the rows of all changes take in it, those of the past included.
    pub stored_bytes: u64,
    /// What they may take before nothing that grows is accepted; zero sets no bound.
    pub quota_bytes: u64,
    /// An alarm refuses what makes the store grow.
    pub no_space: bool,
    /// All segments of the write-ahead log.
    pub wal_bytes: u64,
    pub watches: WatchCounts,
}

/// The shared status that the threads write.
#[derive(Default)]
pub(crate) struct SharedStatus {
    raft: SharedRaft,
    applied: SharedApplied,
    space: SharedSpace,
    watches: SharedWatches,
}

/// Of the consensus machine.
#[derive(Default)]
struct SharedRaft {
    term: AtomicU64,
    /// Zero means none.
    leader: AtomicU64,
    is_leader: AtomicBool,
    in_doubt: AtomicBool,
    committed: AtomicU64,
    /// Members without whose answers this one cannot trust its log. Changes with elections at most.
    waits_for: Mutex<Vec<NodeId>>,
}

/// Of the state that was applied.
#[derive(Default)]
struct SharedApplied {
    index: AtomicU64,
    revision: AtomicI64,
    compacted: AtomicI64,
    keys: AtomicU64,
    state_hash: AtomicU64,
    no_space: AtomicBool,
    /// Changes seldom.
    alarms: Mutex<Vec<Alarm>>,
    has_alarms: AtomicBool,
}

/// Of the disk and the files on it.
#[derive(Default)]
struct SharedSpace {
    taken_bytes: AtomicU64,
    free_bytes: AtomicU64,
    /// With less free space than this, writes that grow the store are refused.
    low_bytes: AtomicU64,
    /// The disk has hardly any free space.
    disk_low: AtomicBool,
    /// The largest request that found no space since this was last read.
    refused_bytes: AtomicU64,
    stored_bytes: AtomicU64,
    held_bytes: AtomicU64,
    unflushed_bytes: AtomicU64,
    quota_bytes: AtomicU64,
    wal_bytes: AtomicU64,
}

#[derive(Default)]
struct SharedWatches {
    streams: AtomicUsize,
    watches: AtomicUsize,
    behind: AtomicUsize,
}

impl SharedStatus {
    pub fn waits_for(&self) -> Vec<NodeId> {
        self.raft.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_waits_for(&self, members: Vec<NodeId>) {
        *self.raft.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    pub fn set_raft(&self, status: raft::RaftStatus) {
        self.raft.term.store(status.term.0, Relaxed);
        self.raft.leader.store(status.leader.map_or(0, |leader| leader.0), Relaxed);
        self.raft.is_leader.store(status.role == Role::Leader, Relaxed);
        self.raft.in_doubt.store(status.in_doubt, Relaxed);
        self.raft.committed.store(status.committed.0, Relaxed);
    }

    pub fn set_applied(&self, machine: &Apply) {
        self.applied.index.store(machine.applied_index().0, Relaxed);
        self.applied.revision.store(machine.revision().0, Relaxed);
        self.applied.compacted.store(machine.compacted().0, Relaxed);
        self.applied.keys.store(machine.key_count() as u64, Relaxed);
        self.applied.state_hash.store(machine.state_hash(), Relaxed);
        self.set_space(machine);
    }

    pub fn is_leader(&self) -> bool {
        self.raft.is_leader.load(Relaxed)
    }

    pub fn set_space(&self, machine: &Apply) {
        self.space.stored_bytes.store(machine.stored_bytes(), Relaxed);
        self.space.held_bytes.store(machine.held_bytes(), Relaxed);
        self.space.unflushed_bytes.store(machine.unflushed_bytes() as u64, Relaxed);
        self.space.quota_bytes.store(machine.quota_bytes(), Relaxed);
        self.set_alarms(machine);
    }

    fn set_alarms(&self, machine: &Apply) {
        let has_alarms = machine.alarms().next().is_some();
        if !has_alarms && !self.applied.has_alarms.load(Relaxed) {
            return;
        }
        self.applied.no_space.store(machine.alarms().any(|alarm| alarm.refuses_growth()), Relaxed);
        *self.applied.alarms.lock().unwrap_or_else(PoisonError::into_inner) = machine.alarms().collect();
        self.applied.has_alarms.store(has_alarms, Relaxed);
    }

    /// The alarms that this member knows of, without healed ones; one for each origin.
    pub fn alarms(&self) -> Vec<Alarm> {
        let alarms = self.applied.alarms.lock().unwrap_or_else(PoisonError::into_inner).clone();
        alarms.into_iter().filter(|alarm| alarm.origin != AlarmOrigin::Healed).collect()
    }

    /// Without reading everything else: whether growth by so many bytes is to be refused while others are under way.
    pub fn has_no_space(&self, bytes: usize, under_way_bytes: usize) -> bool {
        if self.applied.no_space.load(Relaxed) || self.space.disk_low.load(Relaxed) {
            return true;
        }
        let wanted_bytes = (bytes + under_way_bytes) as u64;
        let refused = !self.measures().has_space_for(wanted_bytes, self.space.low_bytes.load(Relaxed));
        if refused {
            self.space.refused_bytes.fetch_max(bytes as u64, Relaxed);
        }
        refused
    }

    /// The largest request that found no space since the last call.
    pub fn take_refused_bytes(&self) -> u64 {
        self.space.refused_bytes.swap(0, Relaxed)
    }

    pub fn set_low_bytes(&self, bytes: u64) {
        self.space.low_bytes.store(bytes, Relaxed);
    }

    /// The log has taken so much of the disk since it was measured. The next measurement may be late.
    pub fn take_free_bytes(&self, bytes: u64) {
        let _ = self.space.free_bytes.fetch_update(Relaxed, Relaxed, |free| Some(free.saturating_sub(bytes)));
    }

    pub fn set_watches(&self, counts: WatchCounts) {
        self.watches.streams.store(counts.streams, Relaxed);
        self.watches.watches.store(counts.watches, Relaxed);
        self.watches.behind.store(counts.behind, Relaxed);
    }

    pub fn set_store_bytes(&self, taken_bytes: u64, free_bytes: u64) {
        self.space.taken_bytes.store(taken_bytes, Relaxed);
        self.space.free_bytes.store(free_bytes, Relaxed);
    }

    pub fn set_disk_low(&self, low: bool) {
        self.space.disk_low.store(low, Relaxed);
    }

    /// The last measurement of the disk.
    pub fn measures(&self) -> DiskMeasures {
        DiskMeasures {
            free_bytes: self.space.free_bytes.load(Relaxed),
            taken_bytes: self.space.taken_bytes.load(Relaxed),
            held_bytes: self.space.held_bytes.load(Relaxed),
            unflushed_bytes: self.space.unflushed_bytes.load(Relaxed),
            sweeping: false,
            refused_bytes: 0,
        }
    }

    pub fn set_wal_bytes(&self, bytes: u64) {
        self.space.wal_bytes.store(bytes, Relaxed);
    }

    pub fn read(&self) -> Status {
        Status {
            term: Term(self.raft.term.load(Relaxed)),
            leader: Some(self.raft.leader.load(Relaxed)).filter(|id| *id != 0).map(NodeId),
            is_leader: self.raft.is_leader.load(Relaxed),
            in_doubt: self.raft.in_doubt.load(Relaxed),
            committed: Index(self.raft.committed.load(Relaxed)),
            applied: Index(self.applied.index.load(Relaxed)),
            revision: Revision(self.applied.revision.load(Relaxed)),
            compacted: Revision(self.applied.compacted.load(Relaxed)),
            keys: self.applied.keys.load(Relaxed),
            state_hash: self.applied.state_hash.load(Relaxed),
            store_bytes: self.space.taken_bytes.load(Relaxed),
            stored_bytes: self.space.stored_bytes.load(Relaxed),
            quota_bytes: self.space.quota_bytes.load(Relaxed),
            no_space: self.applied.no_space.load(Relaxed),
            wal_bytes: self.space.wal_bytes.load(Relaxed),
            watches: WatchCounts {
                streams: self.watches.streams.load(Relaxed),
                watches: self.watches.watches.load(Relaxed),
                behind: self.watches.behind.load(Relaxed),
            },
        }
    }
}
