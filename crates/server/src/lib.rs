//! The thin shell around the pure machines: threads, queues, peer streams, shutdown, and the `Handle` that
//! `api` holds. Nothing in here decides anything about the protocol: values are moved between the
//! machines of `node`, the disk side of `engine` and the streams of `peer`.
//!
//! Four threads take their work from one queue each (`core`): `consensus` orders, `persist` writes the log while
//! its disk is slow, `apply` answers, `storage` owns the store. Three more do the same for the data plane (`mesh`).

mod actor;
mod apply;
mod audit;
mod auth;
mod backup;
mod budget;
mod clock;
mod cluster_secret;
mod config;
mod consensus;
mod core;
mod defrag;
mod documents;
mod durable_log;
mod error;
mod fatal;
mod format_level;
mod handle;
mod histogram;
mod history;
mod identity;
mod inspect;
mod join;
mod join_tokens;
mod lease_events;
mod lock;
mod log;
mod members;
mod merge_scripts;
pub mod mesh;
mod metrics;
mod mutant;
mod network;
pub mod offline;
pub mod peer;
pub mod pieces;
pub mod ports;
mod post;
mod queue;
mod reconfig;
mod registry;
mod reply_inbox;
mod secure;
mod server;
mod slow_requests;
mod small_file;
mod snapshot;
mod space;
mod status;
mod storage;
mod store_thread;
mod telemetry;
mod thread;
mod volume;
mod waiters;
mod watch;

pub use crate::mesh::feed::{FeedEvent, FeedMessage, FeedReceiver};
pub use crate::mesh::handle::MeshHandle;
pub use crate::mesh::status::MeshStatus;
pub use crate::mesh::worker::Worker;
pub use audit::{Audit, AuditClass, AuditConfig, AuditEntry, AuditOutcome, AuditTarget, IdentifiedBy};
pub use auth::{
    Admission, AuthConfig, AuthHandle, Credentials, DataCaller, DataRights, DataVerb, RequiredAccess,
    SignedTokens,
};
pub use backup::BackupPieces;
pub use cluster_secret::SecretObstacle;
pub use config::{ClusterMember, CompactionConfig, Config, JoinConfig, MeshConfig, PeerSecurity};
pub use defrag::DefragReport;
pub use documents::{DocumentContent, DocumentError, DocumentHandle};
pub use engine::KeyHash;
pub use error::Error;
pub use format_level::{FinalizeError, FormatHandle, UpgradeNode, UpgradeStatus};
pub use handle::{Handle, InboxReply, KvHandle, LeaseHandle, MaintenanceHandle, MemberHandle};
pub use histogram::DurationHistogram;
pub use join_tokens::JoinToken;
pub use lease_events::{LeaseEventFilter, LeaseEvents};
pub use lock::{AcquireRequest, LockGrant, LockHandle, LockOutcome, LockWaitLimit};
pub use members::MemberInfo;
pub use merge_scripts::{BoundedScripts, Scripts};
pub use metrics::metric_table;
pub use mutant::Mutant;
pub use network::network_of;
pub use node::apply::{CompactionDescription, CompactionPin, LeaseDescription, PinReader};
pub use node::lock_call::HeldLock;
pub use node::{LeaseEvent, LeaseEventKind, RoundOutcome, RoundReport};
pub use peer::PeerAuthStage;
pub use registry::{MetricDescription, Registry};
pub use reply_inbox::ReplyInbox;
pub use secure::{PeerPortHandle, PeerPortStatus, SecureError};
pub use server::Server;
pub use slow_requests::{SlowPhases, SlowRequest};
pub use status::{Identity, Status};
pub use telemetry::{
    InspectionAnswerer, InspectionTrouble, NodeEvent, NodeReport, NodeSeries, PeerRoundTrip, RefusalKind,
    RefusedAccess, ReportedNode, SERIES, Series, SeriesUnit,
};
pub use watch::{WatchRequests, WatchResponses};
