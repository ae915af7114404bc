//! The one way into a running member: submit requests, read its status and metrics.
//! A request is encoded on the caller's thread and waits in the consensus queue; the caller gets an
//! answer or a refusal not much later than the deadline, whatever happens to the cluster.

use crate::auth::HandleCaller;
use crate::consensus::ConsensusMessage;
use crate::core::{Core, proposed_bytes};
use crate::lease_events::{LeaseEventFilter, LeaseEvents};
use crate::lock::LockCalls;
use crate::members::{MemberInfo, host_and_port};
use crate::mesh::handle::MeshHandle;
use crate::metrics::MetricsInput;
use crate::peer::Peers;
use crate::pieces::{HoldKind, KeyEncoder, RangePieces};
use crate::reply_inbox::ReplyInbox;
use crate::status::{Identity, Status};
use crate::waiters::{Priority, ReplyRoute};
use crate::watch::{self, WatchRequests, WatchResponses};
use base::limits::{LEASE_TTL_SECONDS_MAX, MEMBER_TEXT_BYTES_MAX, MEMBER_URLS_MAX};
use base::{Boot, Code, Instant, LeaseId, NodeId};
use coord::reply::Reply;
use coord::request::{Range, Request};
use coord::{
    Alarm, AlarmCommand, Command, Compact, Grant, IdempotentCommand, Member, MemberChange, Members,
    RequestId, Revoke,
};
use node::{ClientWork, ConsensusInput, LeaderQuestion};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// The outcome of a request that was submitted with an inbox.
#[derive(Debug)]
pub struct InboxReply {
    /// The number that it was submitted under.
    pub ticket: u64,
    pub outcome: Result<Reply, Code>,
}

#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<HandleShared>,
    pub(crate) asking: HandleCaller,
}

pub(crate) struct HandleShared {
    identity: Identity,
    pub core: Arc<Core>,
    /// For their metrics; a handle does not keep a stopped member's sockets open.
    pub peers: Weak<Peers>,
    pub request_timeout: Duration,
    request_bytes_max: usize,
    election: Duration,
    boot: Boot,
    lease_ttl_min: i64,
    pub strict_reconfig: bool,
    /// Lease ids that were chosen for clients.
    lease_ids: AtomicU64,
    pub lock_calls: LockCalls,
    /// Members that were added through this one.
    member_ids: AtomicU64,
}

pub(crate) struct HandleParams {
    pub identity: Identity,
    pub request_timeout: Duration,
    pub request_bytes_max: usize,
    pub election: Duration,
    pub boot: Boot,
    /// No shorter lease is granted; in seconds.
    pub lease_ttl_min: i64,
    pub strict_reconfig: bool,
}

impl Handle {
    pub(crate) fn new(core: Arc<Core>, peers: &Arc<Peers>, params: HandleParams) -> Handle {
        let HandleParams {
            identity,
            request_timeout,
            request_bytes_max,
            election,
            boot,
            lease_ttl_min,
            strict_reconfig,
        } = params;
        let peers = Arc::downgrade(peers);
        let shared = HandleShared {
            identity,
            core,
            peers,
            request_timeout,
            request_bytes_max,
            election,
            boot,
            lease_ttl_min,
            strict_reconfig,
            lease_ids: AtomicU64::new(0),
            lock_calls: LockCalls::default(),
            member_ids: AtomicU64::new(0),
        };
        Handle { shared: Arc::new(shared), asking: HandleCaller::default() }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }

    pub fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    /// Where it is recorded who asks for what, if anywhere.
    pub fn audit(&self) -> Option<&crate::audit::Audit> {
        self.shared.core.audit.as_ref()
    }

    pub fn status(&self) -> Status {
        self.shared.core.status.read()
    }

    /// Submits a request that `coord::request` has validated, and waits for its answer. A caller that stops
    /// waiting does not take the request back.
    pub async fn submit(&self, request: Request) -> Result<Reply, Code> {
        if request.is_read_only() {
            let read = |handle: Handle| {
                let work = ClientWork::Read(request.clone(), handle.caller().clone());
                async move { handle.wait_for(work).await }
            };
            self.admitted(read).await
        } else {
            self.propose_and_wait(&command_of(request)).await
        }
    }

    /// Proposes a command and waits for its answer.
    pub(crate) async fn propose_and_wait(&self, command: &Command) -> Result<Reply, Code> {
        self.refuse_unauthenticated(command).await?;
        self.admitted(|handle| async move { handle.wait_for(handle.propose(command)?).await }).await
    }

    /// The same without waiting: the answer goes to `inbox` under this ticket, unless the request is refused
    /// here and now.
    pub fn submit_to(
        &self,
        request: Request,
        inbox: &Arc<ReplyInbox<InboxReply>>,
        ticket: u64,
    ) -> Result<(), Code> {
        if self.is_draining() {
            return Err(Code::Stopped);
        }
        let work = if request.is_read_only() {
            ClientWork::Read(request, self.caller().clone())
        } else {
            self.propose(&command_of(request))?
        };
        self.queue(self.usual_deadline(), work, || ReplyRoute::inbox(inbox.clone(), ticket))
    }

    /// Reads a large range in pieces, at its revision.
    pub async fn pieces(
        &self,
        range: Range,
        keep: HoldKind,
        encode: Arc<dyn KeyEncoder>,
    ) -> Result<RangePieces, Code> {
        RangePieces::begin(&self.shared.core, range, keep, encode).await
    }

    /// Asks the leader about a lease, wherever the leader is.
    pub async fn ask_leader(&self, question: LeaderQuestion) -> Result<Reply, Code> {
        self.wait_for(ClientWork::LeaderQuestion(question)).await
    }

    /// The data plane of this node.
    pub fn mesh(&self) -> MeshHandle {
        MeshHandle::new(self.shared.core.clone())
    }

    pub async fn revoke_lease(&self, id: LeaseId) -> Result<Reply, Code> {
        self.propose_and_wait(&Command::LeaseRevoke(Revoke { id, guard: None })).await
    }

    pub async fn compact(&self, compact: Compact) -> Result<Reply, Code> {
        self.propose_and_wait(&Command::Compact(compact)).await
    }

    /// Raises, clears or lists alarms.
    /// The alarms of which this member knows, for whatever is not linearizable.
    pub fn known_alarms(&self) -> Vec<Alarm> {
        self.shared.core.status.alarms()
    }

    pub async fn alarm(&self, command: AlarmCommand) -> Result<Reply, Code> {
        self.propose_and_wait(&Command::Alarm(command)).await
    }

    /// Sets the quota of all members, or leaves it to each; zero sets no bound.
    pub async fn set_quota(&self, bytes: Option<u64>) -> Result<Reply, Code> {
        self.propose_and_wait(&Command::Quota(bytes)).await
    }

    /// Grants a lease, under an id of our choice if none is given. If that id exists already, another is chosen.
    pub async fn grant_lease(&self, id: LeaseId, ttl: i64) -> Result<Reply, Code> {
        if ttl > LEASE_TTL_SECONDS_MAX {
            return Err(Code::LeaseTtlTooLarge);
        }
        let ttl = ttl.max(self.shared.lease_ttl_min);
        loop {
            let chosen = if id == LeaseId::NONE { self.next_lease_id() } else { id };
            match self.propose_and_wait(&Command::LeaseGrant(Grant { id: chosen, ttl })).await {
                Err(Code::LeaseExists) if id == LeaseId::NONE => {}
                answer => return answer,
            }
        }
    }

    /// Submits a client's command that may be sent again under the same id, here or elsewhere: it is executed
    /// once, and a repetition gets the answer of the first time.
    pub async fn submit_once(&self, id: RequestId, command: Command) -> Result<Reply, Code> {
        let command = match command {
            Command::LeaseGrant(Grant { ttl, .. }) if ttl > LEASE_TTL_SECONDS_MAX => {
                return Err(Code::LeaseTtlTooLarge);
            }
            Command::LeaseGrant(Grant { id, ttl }) => {
                Command::LeaseGrant(Grant { id, ttl: ttl.max(self.shared.lease_ttl_min) })
            }
            command => command,
        };
        let once = IdempotentCommand::new(id, command).ok_or(Code::RequestIdMalformed)?;
        self.propose_and_wait(&Command::Idempotent(once)).await
    }

    /// Subscribes to lease events from now on.
    pub fn lease_events(&self, wanted: LeaseEventFilter) -> Result<LeaseEvents, Code> {
        if self.shared.core.draining.load(Ordering::Relaxed) {
            Err(Code::Stopped)
        } else {
            Ok(LeaseEvents::new(self.clone(), self.shared.core.lease_events.subscribe(), wanted))
        }
    }

    fn next_lease_id(&self) -> LeaseId {
        let nth = self.shared.lease_ids.fetch_add(1, Ordering::Relaxed);
        node::member::lease_id(self.shared.identity.member, self.shared.boot, nth)
    }

    /// The number of a lock call, which no other call of any member has.
    pub(crate) fn call_id(&self, nth: u64) -> u64 {
        node::member::call_id(self.shared.identity.member, self.shared.boot, nth)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.shared.core.draining.load(Ordering::Relaxed)
    }

    pub(crate) async fn wait_for(&self, work: ClientWork) -> Result<Reply, Code> {
        if self.is_draining() {
            return Err(Code::Stopped);
        }
        self.wait_until(self.usual_deadline(), work).await
    }

    pub(crate) fn usual_deadline(&self) -> Instant {
        self.shared.core.clock.now().after(self.shared.request_timeout)
    }

    /// Waits for an answer, which comes by the deadline if not before.
    pub(crate) async fn wait_until(&self, deadline: Instant, work: ClientWork) -> Result<Reply, Code> {
        let (sender, answer) = oneshot::channel();
        self.queue(deadline, work, || ReplyRoute::Oneshot(sender))?;
        // The sender is dropped when the member has stopped.
        answer.await.unwrap_or(Err(Code::Stopped))
    }

    fn priority_of(&self, work: &ClientWork) -> Priority {
        if self.is_member() || matches!(work, ClientWork::LeaderQuestion(_)) {
            Priority::Urgent
        } else {
            Priority::Ordinary
        }
    }

    /// Posts work to the consensus thread. From then on the caller is answered in any case.
    fn queue(
        &self,
        deadline: Instant,
        work: ClientWork,
        caller: impl FnOnce() -> ReplyRoute,
    ) -> Result<(), Code> {
        let core = &*self.shared.core;
        let bytes = proposed_bytes(&work);
        if !core.waiters.admit(bytes, self.priority_of(&work)) {
            return Err(Code::TooManyRequests);
        }
        // A member that stops drops the request, which tells its caller.
        if !core.post_and_help(ConsensusMessage::Request { deadline, work, caller: caller() }, 0) {
            core.waiters.dismiss(1, bytes);
        }
        Ok(())
    }

    /// Every member of the cluster, ordered by id.
    pub fn members(&self) -> Vec<MemberInfo> {
        self.shared.core.members.list()
    }

    /// The replicated table, as far as this member has applied; empty until it is founded.
    pub fn member_table(&self) -> Members {
        self.shared.core.members.table()
    }

    /// This member receives the log and does not vote.
    pub fn is_learner(&self) -> bool {
        self.member_table().get(self.shared.identity.member).is_some_and(|member| member.learner)
    }

    /// Adds a member at these addresses, and returns its id.
    pub async fn add_member(&self, peer_urls: Vec<String>, learner: bool) -> Result<NodeId, Code> {
        self.check_add_member(learner)?;
        let (id, work) = self.prepare_add_member(peer_urls, learner)?;
        self.as_member().wait_for(work).await.map(|_| id)
    }

    /// The same, for a thread of the peer port; with a vote.
    pub(crate) fn add_member_blocking(&self, peer_urls: Vec<String>) -> Result<NodeId, Code> {
        let (id, work) = self.prepare_add_member(peer_urls, false)?;
        self.wait_blocking(work).map(|_| id)
    }

    pub(crate) fn propose_blocking(&self, command: &Command) -> Result<Reply, Code> {
        self.wait_blocking(self.propose(command)?)
    }

    pub(crate) fn wait_blocking(&self, work: ClientWork) -> Result<Reply, Code> {
        let (sender, answer) = oneshot::channel();
        self.queue(self.usual_deadline(), work, || ReplyRoute::Oneshot(sender))?;
        answer.blocking_recv().unwrap_or(Err(Code::Stopped))
    }

    /// An id that no member and no node has had.
    pub(crate) fn next_node_id(&self) -> NodeId {
        let nth = self.shared.member_ids.fetch_add(1, Ordering::Relaxed);
        node::member::added_id(self.shared.identity.member, self.shared.boot, nth)
    }

    /// This node stores data of the mesh and nothing of the coordination store.
    pub fn is_data_only(&self) -> bool {
        self.shared.core.data_only
    }

    fn prepare_add_member(
        &self,
        peer_urls: Vec<String>,
        learner: bool,
    ) -> Result<(NodeId, ClientWork), Code> {
        check_urls(&peer_urls)?;
        let table = self.member_table();
        if !learner {
            self.check_started_for_add(&table)?;
        }
        let voters = table.voters();
        if !learner && self.reachable(&voters) < quorum(voters.len() + 1) && voters.len() > 1 {
            return Err(Code::UnhealthyCluster);
        }
        let id = self.next_node_id();
        let member = Member { id, name: String::new(), peer_urls, client_urls: Vec::new(), learner };
        Ok((id, self.propose(&Command::Members(MemberChange::Add(member)))?))
    }

    /// Removes a member, unless the remaining members that can be reached are no quorum.
    pub async fn remove_member(&self, id: NodeId) -> Result<(), Code> {
        let table = self.member_table();
        self.check_started_for_removal(&table, id)?;
        let mut voters = table.voters();
        let voted = voters.len();
        voters.retain(|voter| *voter != id);
        if voters.len() < voted && self.reachable(&voters) < quorum(voters.len()) && !voters.is_empty() {
            return Err(Code::UnhealthyCluster);
        }
        self.change_members(MemberChange::Remove(id)).await
    }

    /// Members without whose answers this one cannot trust its log, and so elects no candidate.
    pub fn waits_for(&self) -> Vec<NodeId> {
        self.shared.core.status.waits_for()
    }

    /// Continues without a member that this one waits for. Writes that only that member has are lost.
    pub fn accept_loss(&self, id: NodeId) -> Result<(), Code> {
        if !self.waits_for().contains(&id) {
            return Err(Code::MemberNotFound);
        }
        tracing::warn!(member = format!("{:x}", id.0), "operator accepted the loss of a member");
        self.shared.core.post_input(ConsensusInput::AcceptLoss(id));
        Ok(())
    }

    /// Replaces a member by a new one at these addresses in one step, and returns its id. The
    /// leader completes the joint configuration soon after.
    pub async fn replace_member(&self, old: NodeId, peer_urls: Vec<String>) -> Result<NodeId, Code> {
        check_urls(&peer_urls)?;
        let mut staying = self.member_table().voters();
        let voted = staying.len();
        staying.retain(|voter| *voter != old);
        if self.reachable(&staying) < quorum(voted) {
            return Err(Code::UnhealthyCluster);
        }
        let id = self.next_node_id();
        let new = Member { id, name: String::new(), peer_urls, client_urls: Vec::new(), learner: false };
        self.change_members(MemberChange::Replace { old, new }).await.map(|()| id)
    }

    pub async fn update_member(&self, id: NodeId, peer_urls: Vec<String>) -> Result<(), Code> {
        check_urls(&peer_urls)?;
        self.change_members(MemberChange::Update { id, peer_urls }).await
    }

    /// Gives a learner its vote, if it has caught up.
    pub async fn promote_member(&self, id: NodeId) -> Result<(), Code> {
        let outcome = self.change_members(MemberChange::Promote { id, caught_up: false }).await;
        if self.status().is_leader {
            self.shared.core.metrics.etcd.count_promotion(outcome.err());
        }
        outcome
    }

    async fn change_members(&self, change: MemberChange) -> Result<(), Code> {
        let work = self.propose(&Command::Members(change))?;
        self.as_member().wait_for(work).await.map(|_| ())
    }

    /// How many of them this member can reach, itself included.
    fn reachable(&self, members: &[NodeId]) -> usize {
        let Some(peers) = self.shared.peers.upgrade() else { return 0 };
        let me = self.shared.identity.member;
        members.iter().filter(|id| **id == me || peers.connected(**id)).count()
    }

    /// Takes over a peer's connection that was accepted on the client port. If that fails, it is closed.
    pub fn adopt_peer(&self, stream: std::net::TcpStream) {
        let Some(peers) = self.shared.peers.upgrade() else { return };
        if let Err(error) = peers.adopt(stream) {
            tracing::warn!(%error, "cannot take over a peer's connection");
        }
    }

    /// Resolves when the cluster has removed this member.
    pub async fn removed(&self) {
        let mut removed = self.shared.core.removed.subscribe();
        if removed.wait_for(|removed| *removed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Hands leadership to another member and waits until it leads.
    pub async fn move_leader(&self, to: NodeId) -> Result<(), Code> {
        let core = &*self.shared.core;
        if !self.status().is_leader {
            return Err(Code::NotLeader);
        }
        if !core.members.contains(to) {
            return Err(Code::BadLeaderTransferee);
        }
        core.post_input(ConsensusInput::Transfer(to));
        let moved = async {
            while self.status().leader != Some(to) {
                tokio::time::sleep(LEADER_POLL).await;
            }
        };
        tokio::time::timeout(self.shared.request_timeout, moved).await.map_err(|_| Code::Timeout)
    }

    /// A request that the quota would refuse is not put into the log.
    pub(crate) fn propose(&self, command: &Command) -> Result<ClientWork, Code> {
        let mut bytes = Vec::with_capacity(COMMAND_BYTES_USUAL);
        command.encode_for(self.caller(), &mut bytes);
        if command.grows() && self.shared.core.has_no_space_for(bytes.len()) {
            return Err(Code::NoSpace);
        }
        if bytes.len() <= self.shared.request_bytes_max {
            Ok(ClientWork::Propose(bytes.into()))
        } else {
            Err(Code::RequestTooLarge)
        }
    }

    /// Opens a stream of watches: one end takes requests, the other gives responses. Dropping the latter closes
    /// it.
    pub fn watch_stream(&self) -> Result<(WatchRequests, WatchResponses), Code> {
        if self.shared.core.draining.load(Ordering::Relaxed) {
            Err(Code::Stopped)
        } else {
            Ok(watch::open(&self.shared.core))
        }
    }

    /// How long a cluster may be without a leader before an election begins.
    pub fn election_timeout(&self) -> Duration {
        self.shared.election
    }

    /// Members do not authenticate to each other, and other machines can connect to the peer port.
    pub fn has_open_peer_port(&self) -> bool {
        let core = &*self.shared.core;
        core.is_peer_port_exposed && core.security.now().is_open()
    }

    /// When the certificate that this member shows to others expires, in seconds since 1970.
    pub fn peer_certificate_expiry(&self) -> Option<u64> {
        self.shared.core.security.now().tls.as_ref()?.expiry()
    }

    /// The metrics of the core as text for Prometheus, without the end marker.
    pub fn metrics(&self) -> String {
        let core = &*self.shared.core;
        let peers = self.shared.peers.upgrade().map(|peers| {
            let connected = |(id, counts)| (id, counts, peers.connected(id));
            peers.counters().into_iter().map(connected).collect()
        });
        let reading = MetricsInput {
            status: self.status(),
            is_learner: self.is_learner(),
            waiting: core.waiters.count(),
            response_bytes: core.budget.reserved_bytes(),
            me: self.shared.identity.member,
            peers: peers.unwrap_or_default(),
            has_open_peer_port: self.has_open_peer_port(),
            mesh: core.mesh.status_board.status(),
            policy_age: self.policy_age().unwrap_or_default(),
        };
        core.metrics.render(&reading)
    }
}

fn command_of(request: Request) -> Command {
    Command::from_request(request).expect("a request that is no read is a command")
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

/// How often a transfer polls for the new leader.
const LEADER_POLL: Duration = Duration::from_millis(5);
/// Most commands fit without their buffer growing.
const COMMAND_BYTES_USUAL: usize = 256;
