//! What the threads of a member share: one queue into each of them, and what they write for others to see.
//! A thread reaches the machines and files of the others only by putting a value into their queue; while little is to
//! be done it may then take a turn with them itself, in `consult`.

use crate::audit::Audit;
use crate::auth::AuthDesk;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::cluster_secret::Keeper;
use crate::config::Config;
use crate::documents::Shelf;
use crate::members::Members;
use crate::mesh::Desk;
use crate::metrics::Metrics;
use crate::peer::Security;
use crate::queue::Queue;
use crate::seat::Seat;
use crate::status::Board;
use crate::waiters::{Caller, Priority, Waiters};
use crate::{apply, backup, consensus, persist, storage};
use base::Instant;
use base::limits::LEASE_EVENTS_WAITING_MAX;
use node::{LeaseEvent, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

pub(crate) struct Core {
    pub clock: Clock,
    pub consensus: Seat<consensus::Loop>,
    pub persist: Queue<persist::Mail>,
    pub apply: Seat<apply::Loop>,
    pub storage: Queue<storage::Mail>,
    /// The data plane.
    pub mesh: Arc<Desk>,
    /// This node is no member of coord: it keeps data alone.
    pub data_only: bool,
    /// What other nodes are shown, and whom this one believes.
    pub security: Arc<Security>,
    /// Changes what the data directory keeps of it.
    pub secret_keeper: Keeper,
    /// Other machines reach the peer port.
    pub is_peer_port_exposed: bool,
    pub waiters: Waiters,
    pub board: Board,
    pub metrics: Metrics,
    pub members: Members,
    /// What the cluster agrees on beside the keys.
    pub documents: Shelf,
    /// Who may do what, and who is who.
    pub auth: AuthDesk,
    /// Where it is recorded who asks for what.
    pub audit: Option<Audit>,
    /// New requests are refused.
    pub draining: AtomicBool,
    /// The number of the next stream of watches.
    pub watch_streams: AtomicU64,
    /// The number of the next range that is read in pieces.
    pub large_reads: AtomicU64,
    /// What the pieces of all answers may take.
    pub budget: Budget,
    /// Seats for those who read values from the store.
    pub readers: Semaphore,
    /// Seats for those who take backups.
    pub backups: Arc<Semaphore>,
    /// What happens to leases, for whoever listens.
    pub lease_events: broadcast::Sender<LeaseEvent>,
    /// The cluster has this member no longer.
    pub removed: watch::Sender<bool>,
}

/// As many read at once as keep a disk and two cores busy.
const READERS_MAX: usize = 4;
/// With more requests under way, taking them together is worth more than waking nobody.
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

    /// Tells the consensus machine. While few requests are under way, everything that follows happens on this thread,
    /// before this returns; otherwise the threads of the core see to it, many at a time. False while the member stops.
    pub fn consult(&self, mail: consensus::Mail, bytes: usize) -> bool {
        if !self.is_calm() {
            return self.consensus.queue.push_bytes(mail, bytes);
        }
        let heard = self.consensus.queue.push_unwoken(mail, bytes);
        self.consensus.attend();
        self.apply.attend();
        heard
    }

    /// Few requests are under way: time is lost by waking threads, not by working.
    pub fn is_calm(&self) -> bool {
        self.waiters.count() <= CALM_REQUESTS_MAX
    }

    /// Puts work into the queue whose outcome nobody waits for.
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

    /// Growth by so many bytes would find no room. Whatever is under way already counts as much as what is in the log.
    pub fn has_no_space_for(&self, bytes: usize) -> bool {
        self.board.has_no_space(bytes, self.waiters.bytes())
    }

    /// Something happened that the consensus machine must hear. While the member stops, nobody listens.
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
