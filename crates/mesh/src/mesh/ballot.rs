//! Conditional and linearizable changes: a majority of the key's replicas decides each one (`crate::ballot`,
//! docs/adr/0045). `acceptor` is the replica's side, `proposer` the side of the node that changes or reads the key, `change`
//! computes the new record from what the majority has. This file holds the state that a node keeps for both sides.
//!
//! Invariants: a promise, and an accepted record, is durable before it is sent; a node that has forgotten a promise answers
//! as if it had promised more; a node has at most one change of a key in progress.

mod acceptor;
mod change;
mod proposer;
mod requests;

pub(super) use proposer::ProposeOp;

use super::replica::LocalRecord;
use super::{Mesh, Turn};
use crate::ballot::{Ballot, Round};
use crate::frame::{OpId, Shard};
use crate::key::Key;
use crate::overlay::Overlay;
use crate::record::Record;
use crate::ring::Partition;
use crate::rows::{self, Rows};
use crate::topology::Topology;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Keys whose replicas have promised this node its next turn. What is forgotten costs a round trip.
const LEADS_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Ballots {
    /// Keys for which something is promised here, and no record of a ballot is held.
    undecided: BTreeSet<Key>,
    /// The highest round of each shard that was forgotten with its record.
    forgotten: BTreeMap<Shard, Round>,
    /// The last ballot of this node that a majority accepted, while nothing is known to have come after it.
    leads: BTreeMap<Key, Ballot>,
    /// Changes of a key that this node has under way: the first one runs, the others wait.
    queues: BTreeMap<Key, VecDeque<OpId>>,
    /// Changes whose turn it is, and whether they are being begun.
    ready: VecDeque<OpId>,
    is_beginning: bool,
}

/// What a replica has promised about a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PromiseState {
    promised: Option<Round>,
    /// It may have promised as much, and has forgotten it.
    forgotten: Option<Round>,
}

impl PromiseState {
    fn permits(self, round: Round) -> bool {
        match (self.promised, self.forgotten) {
            (Some(promised), _) => round >= promised,
            (None, forgotten) => forgotten.is_none_or(|forgotten| round > forgotten),
        }
    }

    fn highest(self) -> Option<Round> {
        self.promised.max(self.forgotten)
    }
}

impl Ballots {
    pub fn load(topology: &Topology, overlay: &Overlay, rows: &dyn Rows) -> Ballots {
        let mut ballots = Ballots::default();
        let (from, to) = rows::undecided_range();
        overlay.scan(rows, &from, &to, &mut |row, _| {
            ballots.undecided.extend(rows::record_key(row));
            true
        });
        for copies in topology.copies_in_use() {
            for partition in Partition::all() {
                let row = overlay.get(rows, &rows::forgotten_round(partition, copies)).0;
                let round = row.and_then(Round::from_bytes);
                ballots.forgotten.extend(round.map(|round| (Shard { partition, copies }, round)));
            }
        }
        ballots
    }

    fn lead(&mut self, key: &Key, ballot: Ballot) {
        self.leads.insert(key.clone(), ballot);
        if self.leads.len() > LEADS_MAX {
            self.leads.pop_first();
        }
    }
}

impl Mesh {
    /// Whether a plain write of the key would be lost: only ballots change it.
    pub(super) fn is_balloted(&self, key: &Key, record: Option<&Record>) -> bool {
        record.is_some_and(|record| record.ballot().is_some()) || self.ballots.undecided.contains(key)
    }

    fn promise_state(&self, t: &Turn<'_>, key: &Key, shard: Shard, local: &LocalRecord) -> PromiseState {
        let row = self.overlay.get(t.rows, &rows::promise(key)).0.and_then(Round::from_bytes);
        let accepted = local.record.as_ref().and_then(Record::ballot).map(|ballot| ballot.round);
        let promised = row.max(accepted);
        let forgotten = self.ballots.forgotten.get(&shard).copied().filter(|_| promised.is_none());
        PromiseState { promised, forgotten }
    }

    fn write_promise(&mut self, key: &Key, round: Round, local: &LocalRecord) {
        self.put_row(rows::promise(key), Some(round.to_bytes()));
        let holds_ballot = local.record.as_ref().is_some_and(|record| record.ballot().is_some());
        if !holds_ballot && self.ballots.undecided.insert(key.clone()) {
            self.put_row(rows::undecided(key), Some(Bytes::new()));
        }
    }

    /// A record was stored: if it carries a ballot, the undecided row is not needed any more.
    pub(super) fn note_ballot(&mut self, key: &Key, record: &Record) {
        if record.ballot().is_some() && self.ballots.undecided.remove(key) {
            self.put_row(rows::undecided(key), None);
        }
    }

    /// The record is purged, and its promise with it: from now on no key of the shard without a promise of its own accepts a
    /// round up to this one.
    pub(super) fn forget_promise(&mut self, t: &Turn<'_>, key: &Key, shard: Shard, local: &LocalRecord) {
        if !self.is_balloted(key, local.record.as_ref()) {
            return;
        }
        if let Some(promised) = self.promise_state(t, key, shard, local).promised {
            let forgotten = self.ballots.forgotten.entry(shard).or_default();
            *forgotten = promised.max(*forgotten);
            let bytes = forgotten.to_bytes();
            self.put_row(rows::forgotten_round(shard.partition, shard.copies), Some(bytes));
        }
        self.put_row(rows::promise(key), None);
        self.ballots.leads.remove(key);
        if self.ballots.undecided.remove(key) {
            self.put_row(rows::undecided(key), None);
        }
    }

    /// The shard is not kept any more; rounds of this epoch and before are refused should it come back.
    pub(super) fn forget_undecided(&mut self, t: &Turn<'_>, shard: Shard) {
        let is_of_shard = |key: &&Key| self.shard_of(key) == Some(shard);
        for key in self.ballots.undecided.iter().filter(is_of_shard).cloned().collect::<Vec<_>>() {
            let local = self.load(t, &key);
            self.forget_promise(t, &key, shard, &local);
        }
    }
}
