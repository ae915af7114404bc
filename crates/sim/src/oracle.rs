//! What is true of the cluster as a whole, checked as it happens: one leader for a term, one entry for an
//! index, one state for an applied index. A member that contradicts another is caught at the event.

use base::checksum::hash64;
use base::{Index, NodeId, Term};
use raft::Entry;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Oracle {
    leaders: BTreeMap<Term, NodeId>,
    entries: BTreeMap<Index, u64>,
    states: BTreeMap<Index, u64>,
}

/// Which check found a violation, and what it saw.
#[derive(Clone, Debug)]
pub struct Violation {
    pub checker: Checker,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    OneLeader,
    SameLog,
    SameState,
    Linearizable,
    Serializable,
    Watch,
    Live,
    Restart,
    Lease,
    Lock,
    Register,
    Config,
    History,
    Document,
    Permission,
    /// An assertion of the product itself.
    Assertion,
}

impl Checker {
    pub fn name(self) -> &'static str {
        match self {
            Checker::OneLeader => "one leader per term",
            Checker::SameLog => "same log",
            Checker::SameState => "same state",
            Checker::Linearizable => "linearizability",
            Checker::Serializable => "serializable reads",
            Checker::Watch => "watch",
            Checker::Live => "liveness",
            Checker::Restart => "restart",
            Checker::Lease => "leases",
            Checker::Lock => "locks",
            Checker::Register => "leases and compaction in real time",
            Checker::Config => "configuration",
            Checker::History => "history",
            Checker::Document => "documents",
            Checker::Permission => "permissions",
            Checker::Assertion => "assertion",
        }
    }
}

impl Oracle {
    pub fn leads(&mut self, term: Term, leader: NodeId) -> Result<bool, Violation> {
        let first = *self.leaders.entry(term).or_insert(leader);
        if first != leader {
            let what = format!("{first} and {leader} both lead term {term}");
            return Err(Violation { checker: Checker::OneLeader, what });
        }
        Ok(self.leaders.last_key_value().is_some_and(|(newest, _)| *newest == term))
    }

    pub fn committed(&mut self, member: NodeId, entry: &Entry) -> Result<(), Violation> {
        let hash = hash64(&entry.data, entry.at.term.0);
        let first = *self.entries.entry(entry.at.index).or_insert(hash);
        if first != hash {
            let what =
                format!("{member} commits another entry at index {} than was committed", entry.at.index);
            return Err(Violation { checker: Checker::SameLog, what });
        }
        Ok(())
    }

    pub fn applied(&mut self, member: NodeId, index: Index, hash: u64) -> Result<(), Violation> {
        let first = *self.states.entry(index).or_insert(hash);
        if first != hash {
            let what = format!("{member} has another state at index {index} than was seen before");
            return Err(Violation { checker: Checker::SameState, what });
        }
        Ok(())
    }
}
