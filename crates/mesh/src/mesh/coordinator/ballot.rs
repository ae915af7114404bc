//! Conditional and linearizable changes: a majority of the key's replicas decides each one (`crate::ballot`,
//! docs/adr/0045). `acceptor` is the replica's side, `proposer` the side of the node that changes or reads the key, `change`
//! computes the new record from what the majority has. This file holds the state that a node keeps as a proposer; what it
//! has promised is in `replica::promises`. Invariant: a node has at most one change of a key in progress.

mod acceptor;
mod change;
mod proposer;
mod requests;

pub(in crate::mesh) use proposer::ProposeOp;

use crate::ballot::Ballot;
use crate::frame::OpId;
use crate::key::Key;
use std::collections::{BTreeMap, VecDeque};

/// Keys whose replicas have promised this node its next turn. What is forgotten costs a round trip.
const LEADS_MAX: usize = 16_384;

#[derive(Debug, Default)]
pub(in crate::mesh) struct Proposals {
    /// The last ballot of this node that a majority accepted, while nothing is known to have come after it.
    leads: BTreeMap<Key, Ballot>,
    /// Changes of a key that this node has under way: the first one runs, the others wait.
    queues: BTreeMap<Key, VecDeque<OpId>>,
    /// Changes whose turn it is, and whether they are being begun.
    ready: VecDeque<OpId>,
    is_beginning: bool,
}

impl Proposals {
    fn lead(&mut self, key: &Key, ballot: Ballot) {
        self.leads.insert(key.clone(), ballot);
        if self.leads.len() > LEADS_MAX {
            self.leads.pop_first();
        }
    }

    /// The record of a key is purged here.
    pub fn forget(&mut self, key: &Key) {
        self.leads.remove(key);
    }
}
