//! One incarnation of a node on one disk. A node that lost its disk has another incarnation, so that nothing which the earlier
//! one vouched for is taken for its own.

use crate::plan::Plan;
use base::NodeId;

/// What others may expect of this disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Standing {
    /// The cluster has not said yet whether there was an earlier incarnation.
    Unknown = 0,
    /// Others count on what an earlier incarnation had, and this one does not have all of it again.
    Behind = 1,
    Whole = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub incarnation: u32,
    /// Counts the starts.
    pub boot: u64,
    pub standing: Standing,
}

impl Life {
    /// What the plan says of this incarnation of a node; nothing before the plan has it.
    pub fn judged_by(self, plan: &Plan, node: NodeId) -> Option<Standing> {
        let is_known = plan.incarnation(node) == Some(self.incarnation);
        let stale = plan.topology.member(node).is_some_and(|member| member.stale);
        is_known.then_some(if stale { Standing::Behind } else { Standing::Whole })
    }
}
