//! The replica: what this node itself keeps. Its records with their indexes and trees, the clock and the counter that name its
//! writes, what it has promised to proposers, and the space that it has on its disk. Everything that changes rows of records
//! is a method of `Replica` and touches nothing else of the node.

mod claims;
pub mod collections;
mod full_disk;
mod identity;
pub mod promises;
pub mod records;
mod serving;
pub mod shards;
pub mod storage;

use crate::actor::Actor;
use crate::dots::DotAllocator;
use crate::hlc::{HybridClock, Stamp};
use crate::key::Key;
use crate::mesh::feed::FeedSource;
use crate::mesh::io::{Output, Params};
use crate::rows::{self, Rows};
use crate::topology::Topology;
use base::Instant;
use base::limits::MESH_FLUSH_LOG_BYTES;
use collections::Collections;
use full_disk::SpaceState;
use identity::Identity;
use promises::Promises;
use shards::Shards;
use std::collections::{BTreeMap, BTreeSet};
use storage::Storage;

/// Rows in memory that are worth a flush before its time.
const FLUSH_BYTES: usize = 64 * 1024 * 1024;

pub(in crate::mesh) struct Replica {
    pub actor: Actor,
    pub clock: HybridClock,
    pub dots: DotAllocator,
    /// Durable: no stamp at or below it will be given, and everything given up to it is durable here.
    pub floor: Stamp,
    /// The same bound before it is durable.
    pub promised: Stamp,
    pub storage: Storage,
    space_state: SpaceState,
    pub shards: Shards,
    pub promises: Promises,
    /// Requests of which this node knows several attempts and has not all of them yet, by key.
    repeated: BTreeMap<Key, BTreeSet<u64>>,
    pub feed: FeedSource,
    pub collections: Collections,
    /// Bounded counters that have changed since the coordinator looked at them.
    pub bounded_changed: BTreeSet<Key>,
}

impl Replica {
    pub fn open(params: &Params, topology: &Topology, storage: Storage, rows: &dyn Rows) -> Replica {
        let identity = stored_identity(&storage, rows);
        let identity = identity.filter(|identity| identity.incarnation == params.actor.incarnation);
        let (dots, floor) = identity.map_or((0, Stamp::ZERO), |identity| (identity.dots, identity.floor));
        let seed = u64::from(params.actor.incarnation) << 32 ^ params.boot ^ params.actor.node.0;
        Replica {
            actor: params.actor,
            clock: HybridClock::new(floor, params.drift_max),
            dots: DotAllocator::resume(dots),
            floor,
            promised: floor,
            space_state: SpaceState::new(params),
            shards: Shards::load(topology, &storage, rows),
            promises: Promises::load(topology, &storage, rows),
            repeated: BTreeMap::new(),
            feed: FeedSource::load(seed, floor, &storage, rows),
            collections: Collections::default(),
            bounded_changed: BTreeSet::new(),
            storage,
        }
    }

    /// Whether a flush is due with the end of this turn.
    pub fn step_flush(&mut self, now: Instant) {
        let full = self.storage.bytes() > FLUSH_BYTES || self.storage.unflushed_bytes > MESH_FLUSH_LOG_BYTES;
        let is_time = self.storage.flushed_at.is_none_or(|at| now >= at.after(self.flush_every()));
        if is_time || full || self.is_crowded() {
            self.storage.flushed_at = Some(now);
            self.storage.flush_due = true;
        }
    }

    /// Rows gathered in a turn become one batch. A flush is cut after it, so that it holds whole batches and its bound is the
    /// last of them: what comes later is not in it, and must stay in the log.
    pub fn collect(&mut self, out: &mut Output) {
        if let Some(persist) = self.storage.cut_batch() {
            out.persist = Some(persist);
        }
        let worth_while = self.storage.bytes() > 0 || self.is_settling();
        if std::mem::take(&mut self.storage.flush_due) && worth_while && !self.storage.is_flushing() {
            out.flush = Some(self.storage.cut_flush());
            self.note_flush();
        }
    }
}

/// Whether the rows are those of an earlier incarnation of the node.
pub(in crate::mesh) fn is_of_another_incarnation(actor: Actor, storage: &Storage, rows: &dyn Rows) -> bool {
    stored_identity(storage, rows).is_some_and(|identity| identity.incarnation != actor.incarnation)
}

fn stored_identity(storage: &Storage, rows: &dyn Rows) -> Option<Identity> {
    storage.get(rows, rows::IDENTITY).0.and_then(Identity::decode)
}
