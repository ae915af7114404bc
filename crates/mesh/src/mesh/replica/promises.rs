//! What this replica has promised to proposers of ballots (`crate::ballot`, docs/adr/0045). A promise, and an accepted record,
//! is durable before it is sent; a replica that has forgotten a promise answers as if it had promised more.

use crate::ballot::Round;
use crate::frame::Shard;
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::LocalRecord;
use crate::mesh::replica::storage::Storage;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::ring::Partition;
use crate::rows::{self, Rows};
use crate::topology::Topology;
use base::mutant::planted;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(in crate::mesh) struct Promises {
    /// Keys for which something is promised here, and no record of a ballot is held.
    undecided: BTreeSet<Key>,
    /// The highest round of each shard that was forgotten with its record.
    forgotten: BTreeMap<Shard, Round>,
}

/// What a replica has promised about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::mesh) struct PromiseState {
    pub promised: Option<Round>,
    /// The highest round that it may have promised and forgotten.
    forgotten: Option<Round>,
}

impl PromiseState {
    pub fn permits(self, round: Round) -> bool {
        match (self.promised, self.forgotten) {
            (Some(promised), _) => round >= promised,
            (None, forgotten) => forgotten.is_none_or(|forgotten| round > forgotten),
        }
    }

    pub fn highest(self) -> Option<Round> {
        self.promised.max(self.forgotten)
    }
}

impl Promises {
    pub fn load(topology: &Topology, storage: &Storage, rows: &dyn Rows) -> Promises {
        let mut promises = Promises::default();
        let (from, to) = rows::undecided_range();
        storage.scan(rows, &from, &to, &mut |row, _| {
            promises.undecided.extend(rows::record_key(row));
            true
        });
        for copies in topology.copies_in_use() {
            for partition in Partition::all() {
                let row = storage.get(rows, &rows::forgotten_round(partition, copies)).0;
                let round = row.and_then(Round::from_bytes);
                promises.forgotten.extend(round.map(|round| (Shard { partition, copies }, round)));
            }
        }
        promises
    }
}

impl Replica {
    /// Whether a plain write of the key would be lost: only ballots change it.
    pub(in crate::mesh) fn is_balloted(&self, key: &Key, record: Option<&Record>) -> bool {
        let is_never_decided = record.is_some_and(Record::is_never_decided);
        let is_kept_out = !is_never_decided || planted(Mutant::CollectionPromised);
        is_kept_out && self.promises.undecided.contains(key)
            || record.is_some_and(|record| record.ballot().is_some())
    }

    pub(in crate::mesh) fn promise_state(
        &self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
    ) -> PromiseState {
        let row = self.storage.get(t.rows, &rows::promise(key)).0.and_then(Round::from_bytes);
        let accepted = local.record.as_ref().and_then(Record::ballot).map(|ballot| ballot.round);
        let promised = row.max(accepted);
        let forgotten = self.promises.forgotten.get(&shard).copied().filter(|_| promised.is_none());
        PromiseState { promised, forgotten }
    }

    pub(in crate::mesh) fn write_promise(&mut self, key: &Key, round: Round, local: &LocalRecord) {
        self.storage.put_row(rows::promise(key), Some(round.to_bytes()));
        let holds_ballot = local.record.as_ref().is_some_and(|record| record.ballot().is_some());
        if !holds_ballot && self.promises.undecided.insert(key.clone()) {
            self.storage.put_row(rows::undecided(key), Some(Bytes::new()));
        }
    }

    /// A record was stored: if it carries a ballot, the undecided row is not needed any more.
    pub(in crate::mesh) fn note_ballot(&mut self, key: &Key, record: &Record) {
        if record.ballot().is_some() && self.promises.undecided.remove(key) {
            self.storage.put_row(rows::undecided(key), None);
        }
    }

    /// The record is purged, and its promise with it: from now on no key of the shard without a promise of its own accepts a
    /// round up to this one. Whether there may have been one.
    pub(super) fn forget_promise(
        &mut self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
    ) -> bool {
        if !self.is_balloted(key, local.record.as_ref()) {
            return false;
        }
        if let Some(promised) = self.promise_state(t, key, shard, local).promised {
            let forgotten = self.promises.forgotten.entry(shard).or_default();
            *forgotten = promised.max(*forgotten);
            let bytes = forgotten.to_bytes();
            self.storage.put_row(rows::forgotten_round(shard.partition, shard.copies), Some(bytes));
        }
        self.storage.put_row(rows::promise(key), None);
        if self.promises.undecided.remove(key) {
            self.storage.put_row(rows::undecided(key), None);
        }
        true
    }
}

impl Mesh {
    /// Removes a record, and what this node has promised and leads of its key. False if rows of a collection are left: the
    /// record goes with the last of them, when it is removed again.
    pub(in crate::mesh) fn remove(
        &mut self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
    ) -> bool {
        let is_bare = self.replica.remove_collection(t, key, shard, local);
        if is_bare && self.replica.remove(t, key, shard, local) {
            self.coordinator.proposals.forget(key);
        }
        is_bare
    }

    /// The shard is not kept any more; rounds of this epoch and before are refused should it come back.
    pub(in crate::mesh) fn forget_undecided(&mut self, t: &Turn<'_>, shard: Shard) {
        let is_of_shard = |key: &&Key| self.membership.shard_of(key) == Some(shard);
        for key in self.replica.promises.undecided.iter().filter(is_of_shard).cloned().collect::<Vec<_>>() {
            let local = self.replica.load(t, &key);
            self.replica.forget_promise(t, &key, shard, &local);
            self.coordinator.proposals.forget(&key);
        }
    }
}
