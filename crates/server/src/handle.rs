//! The one way into a running member. What can be done with it is divided by concern: `kv`, `leases`, `locks`, `auth`,
//! `members`, `documents`, `peer_port`, `maintenance`, and `mesh` for data. Each part borrows the handle and costs nothing.
//! A handle acts for one caller; the caller of each request gets an answer or a refusal not much later than the deadline,
//! whatever happens to the cluster.

mod kv;
mod leases;
mod maintenance;
mod members;
mod requests;

pub use kv::{InboxReply, KvHandle};
pub use leases::LeaseHandle;
pub use maintenance::MaintenanceHandle;
pub use members::MemberHandle;
pub(crate) use members::quorum;

use crate::audit::Audit;
use crate::auth::{AuthHandle, HandleCaller};
use crate::core::Core;
use crate::documents::DocumentHandle;
use crate::format_level::FormatHandle;
use crate::lock::{LockCalls, LockHandle};
use crate::mesh::handle::MeshHandle;
use crate::peer::Peers;
use crate::secure::PeerPortHandle;
use crate::status::{Identity, Status};
use crate::watch::{self, WatchRequests, WatchResponses};
use base::{Boot, Code};
use coord::Caller;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<HandleShared>,
    pub(crate) asking: HandleCaller,
}

pub(crate) struct HandleShared {
    pub core: Arc<Core>,
    pub params: HandleParams,
    /// For their metrics; a handle does not keep a stopped member's sockets open.
    pub peers: Weak<Peers>,
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
        let shared = HandleShared {
            core,
            params,
            peers: Arc::downgrade(peers),
            lease_ids: AtomicU64::new(0),
            lock_calls: LockCalls::default(),
            member_ids: AtomicU64::new(0),
        };
        Handle { shared: Arc::new(shared), asking: HandleCaller::default() }
    }

    /// Keys.
    pub fn kv(&self) -> KvHandle<'_> {
        KvHandle { handle: self }
    }

    pub fn leases(&self) -> LeaseHandle<'_> {
        LeaseHandle { handle: self }
    }

    pub fn locks(&self) -> LockHandle<'_> {
        LockHandle { handle: self }
    }

    /// Callers, users and permissions.
    pub fn auth(&self) -> AuthHandle<'_> {
        AuthHandle { handle: self }
    }

    /// The members of the cluster.
    pub fn members(&self) -> MemberHandle<'_> {
        MemberHandle { handle: self }
    }

    /// The documents of the cluster.
    pub fn documents(&self) -> DocumentHandle<'_> {
        DocumentHandle { handle: self }
    }

    /// How this member and others authenticate to each other.
    pub fn peer_port(&self) -> PeerPortHandle<'_> {
        PeerPortHandle { handle: self }
    }

    /// In which formats the cluster writes.
    pub fn formats(&self) -> FormatHandle<'_> {
        FormatHandle { handle: self }
    }

    /// Backups, alarms, the quota, leadership, metrics.
    pub fn maintenance(&self) -> MaintenanceHandle<'_> {
        MaintenanceHandle { handle: self }
    }

    /// The data plane of this node.
    pub fn mesh(&self) -> MeshHandle {
        MeshHandle::new(self.shared.core.clone())
    }

    /// Opens a stream of watches: one end takes requests, the other gives responses. Dropping the latter closes
    /// it.
    pub fn watch_stream(&self) -> Result<(WatchRequests, WatchResponses), Code> {
        if self.is_draining() { Err(Code::Stopped) } else { Ok(watch::open(&self.shared.core)) }
    }

    pub fn identity(&self) -> &Identity {
        &self.shared.params.identity
    }

    pub fn status(&self) -> Status {
        self.shared.core.published.status.read()
    }

    /// This node stores data of the mesh and nothing of the coordination store.
    pub fn is_data_only(&self) -> bool {
        self.shared.core.data_only
    }

    /// How long a cluster may be without a leader before an election begins.
    pub fn election_timeout(&self) -> Duration {
        self.shared.params.election
    }

    /// Where it is recorded who asks for what, if anywhere.
    pub fn audit(&self) -> Option<&Audit> {
        self.shared.core.security.audit.as_ref()
    }

    /// The caller for whom this handle acts.
    pub fn caller(&self) -> &Caller {
        &self.asking.caller
    }

    /// A handle for the member's own requests.
    pub fn as_member(&self) -> Handle {
        self.with_caller(HandleCaller::member())
    }

    /// The handle acts for a user that was admitted at some auth revision.
    pub fn is_of_user(&self) -> bool {
        matches!(self.asking.caller, Caller::User { .. })
    }

    pub(crate) fn with_caller(&self, asking: HandleCaller) -> Handle {
        Handle { shared: self.shared.clone(), asking }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.shared.core
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.shared.params.request_timeout
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.core().draining.load(Ordering::Relaxed)
    }
}
