//! The state that the threads of a member share: a queue to each of them, and the state that they publish.
//! A thread reaches the machines and files of the others only by their queue; under light load
//! it may then run their turn itself, in `post_and_help`.

use crate::actor::Actor;
use crate::audit::Audit;
use crate::auth::AuthState;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::cluster_secret::SecretStore;
use crate::config::Config;
use crate::documents::DocumentCache;
use crate::durable_log::Order;
use crate::format_level::LogFormats;
use crate::members::MemberDirectory;
use crate::mesh::MeshShared;
use crate::metrics::Metrics;
use crate::peer::{PeerAuth, SharedPeerAuth};
use crate::queue::Queue;
use crate::slow_requests::{AnswerContext, AnswerMoments};
use crate::status::SharedStatus;
use crate::store_thread::StoreOrder;
use crate::telemetry::Telemetry;
use crate::waiters::{Priority, ReplyRoute, Waiters};
use crate::{apply, backup, consensus, storage};
use base::Instant;
use base::limits::LEASE_EVENTS_WAITING_MAX;
use engine::MemberLog;
use node::{ClientWork, LeaseEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

pub(crate) struct Core {
    pub clock: Clock,
    pub coord: CoordThreads,
    /// The data plane.
    pub mesh: Arc<MeshShared>,
    /// A data-only node: it stores data of the mesh and is no member of coord.
    pub data_only: bool,
    pub security: NodeSecurity,
    pub waiters: Waiters,
    pub reads: ReadLimits,
    pub published: PublishedState,
    pub metrics: Metrics,
    /// Samples and events of the last hour.
    pub telemetry: Telemetry,
    pub members: MemberDirectory,
    /// New requests are refused.
    pub draining: AtomicBool,
    /// The id of the next stream of watches.
    pub watch_streams: AtomicU64,
}

/// The queues into the threads of coord.
pub(crate) struct CoordThreads {
    pub consensus: Actor<consensus::ConsensusLoop>,
    pub persist: Queue<Order<MemberLog>>,
    pub apply: Actor<apply::ApplyLoop>,
    pub storage: Queue<StoreOrder<storage::CoordStore>>,
}

/// Who may talk to this node, and what is recorded of it.
pub(crate) struct NodeSecurity {
    /// How this node authenticates to others, and which nodes it trusts.
    pub peers: Arc<SharedPeerAuth>,
    /// Replaces the stored secret.
    pub secret_store: SecretStore,
    /// Other machines can connect to the peer port.
    pub is_peer_port_exposed: bool,
    /// Users, permissions and tokens.
    pub auth: AuthState,
    /// Where it is recorded who asks for what.
    pub audit: Option<Audit>,
}

/// What bounds large reads.
pub(crate) struct ReadLimits {
    /// The id of the next range that is read in pieces.
    pub large_reads: AtomicU64,
    /// Memory for the pieces of all answers.
    pub budget: Budget,
    /// Limits how many threads read values from the store.
    pub readers: Semaphore,
    /// Limits how many backups run.
    pub backups: Arc<Semaphore>,
}

/// What the threads of coord show to all others.
pub(crate) struct PublishedState {
    pub status: SharedStatus,
    /// The documents of the cluster.
    pub documents: DocumentCache,
    pub log_formats: LogFormats,
    /// Lease events, for all listeners.
    pub lease_events: broadcast::Sender<LeaseEvent>,
    /// The cluster has removed this member.
    pub removed: watch::Sender<bool>,
}

/// As many read at once as keep a disk and two cores busy.
const READERS_MAX: usize = 4;
/// With more requests under way, batching saves more than running the turn on the caller's thread.
const LIGHT_LOAD_REQUESTS_MAX: usize = 4;

impl CoordThreads {
    fn new() -> CoordThreads {
        CoordThreads {
            consensus: Actor::new(),
            persist: Queue::new(),
            apply: Actor::new(),
            storage: Queue::new(),
        }
    }
}

impl NodeSecurity {
    pub fn new(
        config: &Config,
        data_only: bool,
        peers: PeerAuth,
        secret_store: SecretStore,
        audit: Option<Audit>,
    ) -> NodeSecurity {
        NodeSecurity {
            peers: Arc::new(SharedPeerAuth::new(peers)),
            secret_store,
            is_peer_port_exposed: config.peer_addrs().any(|address| !address.ip().is_loopback()),
            auth: AuthState::new(config.auth.clone(), data_only),
            audit,
        }
    }
}

impl ReadLimits {
    fn new(response_bytes_max: usize) -> ReadLimits {
        ReadLimits {
            large_reads: AtomicU64::new(1),
            budget: Budget::new(response_bytes_max),
            readers: Semaphore::new(READERS_MAX),
            backups: backup::backup_permits(),
        }
    }
}

impl PublishedState {
    fn new() -> PublishedState {
        PublishedState {
            status: SharedStatus::default(),
            documents: DocumentCache::default(),
            log_formats: LogFormats::default(),
            lease_events: broadcast::Sender::new(LEASE_EVENTS_WAITING_MAX),
            removed: watch::Sender::new(false),
        }
    }
}

/// When the thread that posts a message runs the turn itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Help {
    UnderLightLoad,
    Always,
}

impl Core {
    pub fn new(
        clock: Clock,
        metrics: Metrics,
        members: MemberDirectory,
        config: &Config,
        data_only: bool,
        security: NodeSecurity,
    ) -> Core {
        Core {
            clock,
            coord: CoordThreads::new(),
            mesh: Arc::new(MeshShared::new(&config.mesh.region, config.mesh.timeout)),
            data_only,
            security,
            waiters: Waiters::default(),
            reads: ReadLimits::new(config.response_bytes_max),
            published: PublishedState::new(),
            metrics,
            telemetry: Telemetry::new(),
            members,
            draining: AtomicBool::new(false),
            watch_streams: AtomicU64::new(1),
        }
    }

    /// Posts to the consensus machine. This thread may also run the turns that follow, before this returns; otherwise the
    /// core's threads do, in batches. False while the member stops.
    pub fn post_and_help(&self, message: consensus::ConsensusMessage, help: Help) -> bool {
        if help == Help::UnderLightLoad && !self.is_lightly_loaded() {
            return self.coord.consensus.post(message);
        }
        let heard = self.coord.consensus.post_and_help(message);
        self.coord.apply.help();
        heard
    }

    /// Few requests are under way: waking threads costs more than the work.
    pub fn is_lightly_loaded(&self) -> bool {
        self.waiters.count() <= LIGHT_LOAD_REQUESTS_MAX
    }

    /// Queues work whose outcome no caller waits for.
    pub fn post_unanswered(&self, deadline: Instant, work: ClientWork) {
        let bytes = proposed_bytes(&work);
        if self.waiters.admit(bytes, Priority::Urgent) {
            let (sender, _) = oneshot::channel();
            let caller = ReplyRoute::Oneshot(sender);
            let posted = self.clock.now();
            let message = consensus::ConsensusMessage::Request { deadline, posted, work, caller };
            if !self.coord.consensus.post(message) {
                self.waiters.dismiss(1, bytes);
            }
        }
    }

    /// For answers that are handed over now.
    pub fn answer_context<'a>(&'a self, now: Instant, moments: &'a [AnswerMoments]) -> AnswerContext<'a> {
        AnswerContext { moments, now, slow: &self.metrics.slow_requests }
    }

    /// Growth by so many bytes would exceed the space. Requests under way count as much as what is in the log.
    pub fn has_no_space_for(&self, bytes: usize) -> bool {
        self.published.status.has_no_space(bytes, self.waiters.bytes())
    }
}

/// How many bytes of this work may go into the log.
pub(crate) fn proposed_bytes(work: &ClientWork) -> usize {
    match work {
        ClientWork::Propose(bytes) => bytes.len(),
        ClientWork::Read(..) | ClientWork::LeaderQuestion(_) => 0,
    }
}
