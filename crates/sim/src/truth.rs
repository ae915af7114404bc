//! Where the operations of unknown fate landed: the world sees the committed log, its clients do not.
//! Each entry is carried out on the model when the first member commits it. The judge takes the result as a
//! hint for what to try first and checks every step of it, so a wrong hint can waste its time but not
//! mislead it.

use crate::history::Operation;
use crate::model::{State, step};
use base::{Boot, Index, NodeId, ProposalId, Revision};
use node::batch;
use raft::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub struct Truth {
    /// Revisions that somebody asked to compact at.
    pub compactions: BTreeSet<Revision>,
    state: State,
    applied: Index,
    asked: BTreeMap<ProposalId, usize>,
    seen: BTreeSet<ProposalId>,
    /// The newest start of each member, and the mark below which its proposals are over.
    marks: BTreeMap<NodeId, (Boot, u64)>,
    landed: BTreeMap<usize, Revision>,
}

impl Truth {
    pub fn new() -> Truth {
        Truth {
            compactions: BTreeSet::new(),
            state: State::empty(),
            applied: Index::ZERO,
            asked: BTreeMap::new(),
            seen: BTreeSet::new(),
            marks: BTreeMap::new(),
            landed: BTreeMap::new(),
        }
    }

    /// An operation of the history goes into the log under this id, if it ever does.
    pub fn asked(&mut self, id: ProposalId, operation: usize) {
        self.asked.insert(id, operation);
    }

    pub fn committed(&mut self, entry: &Entry, history: &[Operation]) {
        if entry.at.index <= self.applied {
            return;
        }
        self.applied = entry.at.index;
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            if !self.counts(proposal.id, proposal.low) {
                continue;
            }
            let Some(operation) = self.asked.get(&proposal.id).copied() else { continue };
            if let Ok((after, _)) = step(&self.state, &history[operation].request) {
                if after.revision() > self.state.revision() {
                    self.landed.insert(operation, after.revision());
                }
                self.state = after;
            }
        }
    }

    fn counts(&mut self, id: ProposalId, low: u64) -> bool {
        let mark = self.marks.entry(id.origin).or_insert((id.boot, 0));
        let over = id.boot < mark.0 || id.boot == mark.0 && id.seq < mark.1;
        // A proposal that comes again moves no mark.
        if over || !self.seen.insert(id) {
            return false;
        }
        *mark = if id.boot > mark.0 { (id.boot, low) } else { (mark.0, mark.1.max(low)) };
        true
    }

    /// The newest state that was committed, and through it all before.
    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn revision(&self) -> Revision {
        self.state.revision()
    }

    pub fn landed(&self, operation: usize) -> Option<Revision> {
        self.landed.get(&operation).copied()
    }
}

impl Default for Truth {
    fn default() -> Truth {
        Truth::new()
    }
}
