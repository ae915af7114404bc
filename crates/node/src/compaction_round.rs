//! How a round of automatic compaction ended, for the log and for operators.

use base::{NodeId, Revision};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundReport {
    /// What the retention would have allowed.
    pub goal: Revision,
    /// What the members allowed.
    pub to: Revision,
    /// From where on each member that answered still needs the past.
    pub needs: BTreeMap<NodeId, Revision>,
    pub outcome: RoundOutcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundOutcome {
    /// The compaction was proposed.
    Compacted,
    /// Members need so much that it was not worth it.
    HeldBack,
    /// These members did not answer, or changed their mind.
    Unanswered(BTreeSet<NodeId>),
}

impl RoundReport {
    /// The member that needs the oldest revision, if that is less than the retention allows.
    pub fn held_by(&self) -> Option<(NodeId, Revision)> {
        let oldest = self.needs.iter().min_by_key(|(_, needed)| **needed);
        oldest.filter(|(_, needed)| **needed <= self.goal).map(|(member, needed)| (*member, *needed))
    }
}

impl RoundOutcome {
    pub fn name(&self) -> &'static str {
        match self {
            RoundOutcome::Compacted => "compacted",
            RoundOutcome::HeldBack => "held back",
            RoundOutcome::Unanswered(_) => "unanswered",
        }
    }
}
