//! What the threads of a member share: a queue to each of them, and the state that they publish.
//! A thread reaches the machines and files of the others only by their queue; under light load
//! it may then run their turn itself, in `consult`.

use crate::audit::Audit;
use crate::auth::AuthDesk;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::cluster_secret::Keeper;
use crate::config::Config;
use crate::documents::Shelf;
use crate::durable_log::Order;
use crate::log::RaftLog;
use crate::members::Members;
use crate::mesh::Desk;
use crate::metrics::Metrics;
use crate::peer::Security;
use crate::queue::Queue;
use crate::seat::Seat;
use crate::status::Board;
use crate::waiters::{Caller, Priority, Waiters};
use crate::{apply, backup, consensus, storage};
use base::Instant;
use base::limits::LEASE_EVENTS_WAITING_MAX;
use node::{LeaseEvent, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

pub(crate) struct Core {
    pub clock: Clock,
    pub consensus: Seat<consensus::Loop>,
    pub persist: Queue<Order<RaftLog>>,
    pub apply: Seat<apply::Loop>,
    pub storage: Queue<storage::Mail>,
    /// The data plane.
    pub mesh: Arc<Desk>,
    /// A data-only node: it stores data of the mesh and is no member of coord.
    pub data_only: bool,
    /// How this node authenticates to others, and which nodes it trusts.
    pub security: Arc<Security>,
    /// Replaces the stored secret.
    pub secret_keeper: Keeper,
    /// Other machines can connect to the peer port.
    pub is_peer_port_exposed: bool,
    pub waiters: Waiters,
    pub board: Board,
    pub metrics: Metrics,
    pub members: Members,
    /// The documents of the cluster.
    pub documents: Shelf,
    /// Users, permissions and tokens.
    pub auth: AuthDesk,
    /// Where it is recorded who asks for what.
    pub audit: Option<Audit>,
    /// New requests are refused.
    pub draining: AtomicBool,
    /// The id of the next stream of watches.
    pub watch_streams: AtomicU64,
    /// The id of the next range that is read in pieces.
    pub large_reads: AtomicU64,
    /// Memory for the pieces of all answers.
    pub budget: Budget,
    /// Limits how many threads read values from the store.
    pub readers: Semaphore,
    /// Limits how many backups run.
    pub backups: Arc<Semaphore>,
    /// Lease events, for all listeners.
    pub lease_events: broadcast::Sender<LeaseEvent>,
    /// The cluster has removed this member.
    pub removed: watch::Sender<bool>,
}

/// As many read at once as keep a disk and two cores busy.
const READERS_MAX: usize = 4;
/// With more requests under way, batching saves more than running the turn on the caller's thread.
const CALM_REQUESTS_MAX: usize = 4;

impl Core {
    pub fn new(
        clock: Clock,
        metrics: Metrics,
        members: Members,
        config: &Config,
        data_only: bool,
        security: Arc<Security>,
        secret_keeper: Keeper,
    ) -> Core {
        Core {
            clock,
            consensus: Seat::new(),
            persist: Queue::new(),
            apply: Seat::new(),
            storage: Queue::new(),
            mesh: Arc::new(Desk::new(&config.mesh.region, config.mesh.timeout)),
            data_only,
            security,
            secret_keeper,
            is_peer_port_exposed: !config.peer_addr.ip().is_loopback(),
            waiters: Waiters::default(),
            board: Board::default(),
            metrics,
            members,
            documents: Shelf::default(),
            auth: AuthDesk::new(config.auth.clone(), data_only),
            audit: None,
            draining: AtomicBool::new(false),
            watch_streams: AtomicU64::new(1),
            large_reads: AtomicU64::new(1),
            budget: Budget::new(config.response_bytes_max),
            readers: Semaphore::new(READERS_MAX),
            backups: backup::seats(),
            lease_events: broadcast::Sender::new(LEASE_EVENTS_WAITING_MAX),
            removed: watch::Sender::new(false),
        }
    }

    /// Posts to the consensus machine. Under light load this thread also runs the turns that follow,
    /// before this returns; otherwise the core's threads do, in batches. False while the member stops.
    pub fn consult(&self, mail: consensus::Mail, bytes: usize) -> bool {
        if !self.is_calm() {
            return self.consensus.queue.push_bytes(mail, bytes);
        }
        let heard = self.consensus.queue.push_unwoken(mail, bytes);
        self.consensus.attend();
        self.apply.attend();
        heard
    }

    /// Few requests are under way: waking threads costs more than the work.
    pub fn is_calm(&self) -> bool {
        self.waiters.count() <= CALM_REQUESTS_MAX
    }

    /// Queues work whose outcome no caller waits for.
    pub fn submit(&self, deadline: Instant, work: Work) {
        let bytes = proposed_bytes(&work);
        if self.waiters.admit(bytes, Priority::Urgent) {
            let (sender, _) = oneshot::channel();
            let caller = Caller::Alone(sender);
            if !self.consensus.queue.push(consensus::Mail::Request { deadline, work, caller }) {
                self.waiters.dismiss(1, bytes);
            }
        }
    }

    /// Growth by so many bytes would exceed the space. Requests under way count as much as what is in the log.
    pub fn has_no_space_for(&self, bytes: usize) -> bool {
        self.board.has_no_space(bytes, self.waiters.bytes())
    }

    /// Posts an input to the consensus machine. While the member stops, it is dropped.
    pub fn report(&self, input: node::Input) {
        self.consensus.queue.push(consensus::Mail::Input(input));
    }
}

/// How much of this may come into the log.
pub(crate) fn proposed_bytes(work: &Work) -> usize {
    match work {
        Work::Propose(bytes) => bytes.len(),
        Work::Read(..) | Work::Ask(_) => 0,
    }
}
