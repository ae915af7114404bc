//! When the members of a cluster may be changed, as etcd decides with `--strict-reconfig-check`: only if enough members
//! have started, and, where that is asked for, only if this one has been connected to enough of them for a while.
//! The table of members and the state of the connections go in; a refusal comes out, or none.

use crate::handle::{MemberHandle, quorum};
use base::{Code, NodeId};
use coord::{Member, Members};
use std::time::Duration;

/// As in etcd.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);

/// A member has published its name; one that was added and has not started yet has none.
fn is_started(member: &Member) -> bool {
    !member.name.is_empty()
}

impl MemberHandle<'_> {
    /// Whether a member may be added, as far as this member knows.
    pub fn check_add(self, learner: bool) -> Result<(), Code> {
        if !learner {
            self.check_started_for_add(&self.table())?;
        }
        self.check_long_connected_for_add()
    }

    /// The same for a removal.
    pub fn check_remove(self, id: NodeId) -> Result<(), Code> {
        self.check_started_for_removal(&self.table(), id)
    }

    /// Whether a voter may be added: the members that have started must be a quorum with it.
    pub(crate) fn check_started_for_add(self, table: &Members) -> Result<(), Code> {
        let voters = table.iter().filter(|member| !member.learner);
        let (voters, started) = voters.fold((0, 0), |(voters, started), member| {
            (voters + 1, started + usize::from(is_started(member)))
        });
        // A cluster is grown from one member.
        let is_first = started == 1 && voters == 1;
        if voters == 0 || is_first || started >= quorum(voters + 1) {
            Ok(())
        } else {
            Err(Code::NotEnoughStartedMembers)
        }
    }

    /// Whether a voter may be removed: the members that have started must be a quorum without it.
    pub(crate) fn check_started_for_removal(self, table: &Members, id: NodeId) -> Result<(), Code> {
        if table.get(id).is_none_or(|member| member.learner) {
            return Ok(());
        }
        let rest = || table.iter().filter(|member| !member.learner && member.id != id);
        let started = rest().filter(|member| is_started(member)).count();
        if rest().count() > 0 && started < quorum(rest().count()) {
            return Err(Code::NotEnoughStartedMembers);
        }
        let voters = table.voters();
        let is_up = id == self.handle.identity().member || self.connected_for(id).is_some();
        if !self.handle.shared.params.strict_reconfig || !is_up || rest().count() == 0 {
            return Ok(());
        }
        let active = self.long_connected(&voters);
        if active.saturating_sub(1) < quorum(voters.len() - 1) {
            return Err(Code::UnhealthyCluster);
        }
        Ok(())
    }

    /// Whether this member has been connected for long enough to add another.
    fn check_long_connected_for_add(self) -> Result<(), Code> {
        if !self.handle.shared.params.strict_reconfig {
            return Ok(());
        }
        let voters = self.table().voters();
        let is_alone = voters.len() == 1 || self.list().len() == 1;
        if is_alone || !voters.is_empty() && self.long_connected(&voters) >= quorum(voters.len() + 1) {
            Ok(())
        } else {
            Err(Code::UnhealthyCluster)
        }
    }

    fn connected_for(self, id: NodeId) -> Option<Duration> {
        self.handle.shared.peers.upgrade()?.connected_for(id)
    }

    /// How many of them this member has been connected to for long enough, itself included.
    fn long_connected(self, members: &[NodeId]) -> usize {
        let me = self.handle.identity().member;
        let is_long = |id: &NodeId| self.connected_for(*id).is_some_and(|time| time >= HEALTHY_AFTER);
        members.iter().filter(|id| **id == me || is_long(id)).count()
    }
}
