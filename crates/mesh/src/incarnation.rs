//! One incarnation of a node on one disk. A node that lost its disk has another incarnation, so that nothing which the earlier
//! one vouched for is taken for its own.

use crate::plan::MeshPlan;
use base::NodeId;

/// What others may expect of this disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CatchUp {
    /// The cluster has not said yet whether there was an earlier incarnation.
    Unknown = 0,
    /// Others count on what an earlier incarnation had, and this one does not have all of it again.
    Behind = 1,
    Complete = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    pub number: u32,
    /// Counts the starts.
    pub boot: u64,
    pub catch_up: CatchUp,
}

impl Incarnation {
    /// What the plan says of this incarnation of a node; nothing before the plan has it.
    pub fn catch_up_in(self, plan: &MeshPlan, node: NodeId) -> Option<CatchUp> {
        let is_known = plan.incarnation(node) == Some(self.number);
        let stale = plan.topology.member(node).is_some_and(|member| member.stale);
        is_known.then_some(if stale { CatchUp::Behind } else { CatchUp::Complete })
    }
}
