//! The members of the cluster: who they are, and changes of the table, which are refused while they would leave too few
//! members in reach for a quorum. Conditions as etcd has them are in `reconfig`; tokens for new members in `join_tokens`.

use crate::handle::Handle;
use crate::members::{MemberInfo, host_and_port};
use base::limits::{MEMBER_TEXT_BYTES_MAX, MEMBER_URLS_MAX};
use base::{Code, NodeId};
use coord::{Command, Member, MemberChange, Members};
use node::{ClientWork, ConsensusInput};
use std::sync::atomic::Ordering;

#[derive(Clone, Copy)]
pub struct MemberHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl MemberHandle<'_> {
    /// Every member of the cluster, ordered by id.
    pub fn list(self) -> Vec<MemberInfo> {
        self.handle.core().members.list()
    }

    /// The replicated table, as far as this member has applied; empty until it is founded.
    pub fn table(self) -> Members {
        self.handle.core().members.table()
    }

    /// This member receives the log and does not vote.
    pub fn is_learner(self) -> bool {
        self.table().get(self.handle.identity().member).is_some_and(|member| member.learner)
    }

    /// Adds a member at these addresses, and returns its id.
    pub async fn add(self, peer_urls: Vec<String>, learner: bool) -> Result<NodeId, Code> {
        self.check_add(learner)?;
        let (id, work) = self.prepare_add(peer_urls, learner)?;
        self.handle.as_member().wait_for(work).await.map(|_| id)
    }

    /// The same, for a thread of the peer port; with a vote.
    pub(crate) fn add_blocking(self, peer_urls: Vec<String>) -> Result<NodeId, Code> {
        let (id, work) = self.prepare_add(peer_urls, false)?;
        self.handle.as_member().wait_blocking(work).map(|_| id)
    }

    fn prepare_add(self, peer_urls: Vec<String>, learner: bool) -> Result<(NodeId, ClientWork), Code> {
        check_urls(&peer_urls)?;
        let table = self.table();
        if !learner {
            self.check_started_for_add(&table)?;
        }
        let voters = table.voters();
        if !learner && self.reachable(&voters) < quorum(voters.len() + 1) && voters.len() > 1 {
            return Err(Code::UnhealthyCluster);
        }
        let id = self.next_id();
        let member = Member { id, name: String::new(), peer_urls, client_urls: Vec::new(), learner };
        Ok((id, self.handle.propose(&Command::Members(MemberChange::Add(member)))?))
    }

    /// Removes a member, unless the remaining members that can be reached are no quorum.
    pub async fn remove(self, id: NodeId) -> Result<(), Code> {
        let table = self.table();
        self.check_started_for_removal(&table, id)?;
        let mut voters = table.voters();
        let voted = voters.len();
        voters.retain(|voter| *voter != id);
        if voters.len() < voted && self.reachable(&voters) < quorum(voters.len()) && !voters.is_empty() {
            return Err(Code::UnhealthyCluster);
        }
        self.change(MemberChange::Remove(id)).await
    }

    /// Replaces a member by a new one at these addresses in one step, and returns its id. The
    /// leader completes the joint configuration soon after.
    pub async fn replace(self, old: NodeId, peer_urls: Vec<String>) -> Result<NodeId, Code> {
        check_urls(&peer_urls)?;
        let mut staying = self.table().voters();
        let voted = staying.len();
        staying.retain(|voter| *voter != old);
        if self.reachable(&staying) < quorum(voted) {
            return Err(Code::UnhealthyCluster);
        }
        let id = self.next_id();
        let new = Member { id, name: String::new(), peer_urls, client_urls: Vec::new(), learner: false };
        self.change(MemberChange::Replace { old, new }).await.map(|()| id)
    }

    pub async fn update(self, id: NodeId, peer_urls: Vec<String>) -> Result<(), Code> {
        check_urls(&peer_urls)?;
        self.change(MemberChange::Update { id, peer_urls }).await
    }

    /// Gives a learner its vote, if it has caught up.
    pub async fn promote(self, id: NodeId) -> Result<(), Code> {
        let outcome = self.change(MemberChange::Promote { id, caught_up: false }).await;
        if self.handle.status().is_leader {
            self.handle.core().metrics.etcd.count_promotion(outcome.err());
        }
        outcome
    }

    async fn change(self, change: MemberChange) -> Result<(), Code> {
        let work = self.handle.propose(&Command::Members(change))?;
        self.handle.as_member().wait_for(work).await.map(|_| ())
    }

    /// Members without whose answers this one cannot trust its log, and so elects no candidate.
    pub fn waits_for(self) -> Vec<NodeId> {
        self.handle.core().published.status.waits_for()
    }

    /// Continues without a member that this one waits for. Writes that only that member has are lost.
    pub fn accept_loss(self, id: NodeId) -> Result<(), Code> {
        if !self.waits_for().contains(&id) {
            return Err(Code::MemberNotFound);
        }
        tracing::warn!(member = format!("{:x}", id.0), "operator accepted the loss of a member");
        self.handle.core().coord.consensus.post(ConsensusInput::AcceptLoss(id));
        Ok(())
    }

    /// Resolves when the cluster has removed this member.
    pub async fn removed(self) {
        let mut removed = self.handle.core().published.removed.subscribe();
        if removed.wait_for(|removed| *removed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// An id that no member and no node has had.
    pub(crate) fn next_id(self) -> NodeId {
        let nth = self.handle.shared.member_ids.fetch_add(1, Ordering::Relaxed);
        node::member::added_id(self.handle.identity().member, self.handle.shared.params.boot, nth)
    }

    /// How many of them this member can reach, itself included.
    fn reachable(self, members: &[NodeId]) -> usize {
        let Some(peers) = self.handle.shared.peers.upgrade() else { return 0 };
        let me = self.handle.identity().member;
        members.iter().filter(|id| **id == me || peers.connected(**id)).count()
    }
}

pub(crate) fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// As etcd has them: a scheme, a host and a port.
fn check_urls(urls: &[String]) -> Result<(), Code> {
    let lawful = |url: &String| {
        let has_scheme = url.starts_with("http://") || url.starts_with("https://");
        let host_port = host_and_port(url).rsplit_once(':');
        let fits = url.len() <= MEMBER_TEXT_BYTES_MAX;
        fits && has_scheme
            && host_port.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if !urls.is_empty() && urls.len() <= MEMBER_URLS_MAX && urls.iter().all(lawful) {
        Ok(())
    } else {
        Err(Code::MemberUrlsInvalid)
    }
}
