//! What an operator does with a member and asks of it: alarms, quota, leadership, metrics. Backups are in `backup`.

use crate::defrag::{DefragReply, DefragReport};
use crate::handle::Handle;
use crate::metrics::MetricsInput;
use crate::slow_requests::SlowRequest;
use crate::store_thread::StoreOrder;
use base::{Code, NodeId};
use coord::reply::Reply;
use coord::{Alarm, AlarmCommand, Command};
use node::ConsensusInput;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often a transfer polls for the new leader.
const LEADER_POLL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
pub struct MaintenanceHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl MaintenanceHandle<'_> {
    /// The alarms that this member knows of, which may not be the newest.
    pub fn known_alarms(self) -> Vec<Alarm> {
        self.handle.core().published.status.alarms()
    }

    /// The last requests of this node that took long, the newest first.
    pub fn slow_requests(self) -> Vec<SlowRequest> {
        self.handle.core().metrics.slow_requests.list()
    }

    /// Gives the free space of this member's stores back to the file system, first that of the coordination store, then
    /// that of the mesh. Requests are served meanwhile.
    pub async fn defragment(self) -> Result<DefragReport, Code> {
        let core = self.handle.core();
        let store = defragmented(|caller| core.coord.storage.push(StoreOrder::Defrag(caller))).await?;
        let mesh = defragmented(|caller| core.mesh.store.push(StoreOrder::Defrag(caller))).await?;
        Ok(DefragReport {
            before_bytes: store.before_bytes + mesh.before_bytes,
            after_bytes: store.after_bytes + mesh.after_bytes,
        })
    }

    /// Raises, clears or lists alarms.
    pub async fn alarm(self, command: AlarmCommand) -> Result<Reply<Vec<Alarm>>, Code> {
        self.handle.propose_and_wait(&Command::Alarm(command)).await
    }

    /// Sets the quota of all members, or leaves it to each; zero sets no bound.
    pub async fn set_quota(self, bytes: Option<u64>) -> Result<Reply<()>, Code> {
        self.handle.propose_and_wait(&Command::Quota(bytes)).await
    }

    /// Hands leadership to another member and waits until it leads.
    pub async fn move_leader(self, to: NodeId) -> Result<(), Code> {
        self.begin_move_leader(to)?;
        self.wait_for_leader(to).await
    }

    /// Hands leadership to another member, without waiting until it leads.
    pub fn begin_move_leader(self, to: NodeId) -> Result<(), Code> {
        let Handle { shared, .. } = self.handle;
        if !self.handle.status().is_leader {
            return Err(Code::NotLeader);
        }
        if !shared.core.members.contains(to) {
            return Err(Code::BadLeaderTransferee);
        }
        shared.core.coord.consensus.post(ConsensusInput::Transfer(to));
        Ok(())
    }

    /// Waits until this member leads, as far as the member that serves the call knows.
    pub async fn wait_for_leader(self, to: NodeId) -> Result<(), Code> {
        let moved = async {
            while self.handle.status().leader != Some(to) {
                tokio::time::sleep(LEADER_POLL).await;
            }
        };
        tokio::time::timeout(self.handle.request_timeout(), moved).await.map_err(|_| Code::Timeout)
    }

    /// The metrics of the core as text for Prometheus, without the end marker.
    pub fn metrics(self) -> String {
        let core = self.handle.core();
        let peers = self.handle.shared.peers.upgrade().map(|peers| {
            let connected = |(id, counts)| (id, counts, peers.connected(id));
            peers.counters().into_iter().map(connected).collect()
        });
        let reading = MetricsInput {
            status: self.handle.status(),
            is_learner: self.handle.members().is_learner(),
            waiting: core.waiters.count(),
            response_bytes: core.reads.budget.reserved_bytes(),
            me: self.handle.identity().member,
            peers: peers.unwrap_or_default(),
            has_open_peer_port: self.handle.peer_port().is_open(),
            mesh: core.mesh.status.status(),
            policy_age: self.handle.auth().policy_age().unwrap_or_default(),
        };
        core.metrics.render(&reading)
    }
}

/// A thread that ends meanwhile drops the caller.
async fn defragmented(ask: impl FnOnce(DefragReply) -> bool) -> Result<DefragReport, Code> {
    let (caller, answer) = oneshot::channel();
    if !ask(caller) {
        return Err(Code::Stopped);
    }
    answer.await.map_err(|_| Code::Stopped)?
}
