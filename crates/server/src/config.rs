//! The one configuration of a member, already checked: every value is usable as it stands.
//! `cli` gathers it from flags, environment and file; rooms below `server` never see it, they get small
//! `Params` of their own.

use crate::audit::AuditConfig;
use crate::auth::AuthConfig;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub data_dir: PathBuf,
    pub client_addr: SocketAddr,
    pub peer_addr: SocketAddr,
    /// Every member of the cluster with its peer address, this one included.
    pub initial_cluster: Vec<Member>,
    /// How the member comes into a cluster that exists; none for a founder.
    pub join: Option<Join>,
    /// Told apart from other clusters by this word.
    pub cluster_token: String,
    pub advertise_client: String,
    pub advertise_peer: String,
    pub heartbeat: Duration,
    pub election: Duration,
    pub request_timeout: Duration,
    pub request_bytes_max: usize,
    pub txn_ops_max: usize,
    /// How long applied writes may wait in memory before the store is flushed (they are in the log already).
    pub flush_interval: Duration,
    pub flush_bytes: usize,
    /// What answers read in pieces may take of memory, all together.
    pub response_bytes_max: usize,
    /// When the rows of all changes take more, nothing that grows is accepted; zero sets no bound.
    pub quota_bytes: u64,
    /// What is compacted without being asked; none leaves it to clients.
    pub compaction: Option<Compaction>,
    /// What compactions leave of the past, without values: for so long, and so many rows at most.
    pub history_age: Duration,
    pub history_rows_max: u64,
    pub wal_segment_bytes: u64,
    /// Log entries kept behind the flushed state for followers that lag.
    pub log_keep_entries: u64,
    /// After so long without an event, a watch that asked for it is told how far it is.
    pub watch_progress_interval: Duration,
    /// How users prove who they are.
    pub auth: AuthConfig,
    /// Where it is recorded who asks for what; none records nothing.
    pub audit: Option<AuditConfig>,
    /// How the node takes part in the mesh.
    pub mesh: Mesh,
    /// Clients are told to use `https`.
    pub client_tls: bool,
    /// How nodes prove themselves on the peer port.
    pub peer_security: PeerSecurity,
    /// How long SIGTERM waits for requests under way.
    pub drain_timeout: Duration,
}

/// What members and regions are proven by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSecurity {
    /// Certificates of an operator; they come before everything else.
    pub files: Option<tls::PeerFiles>,
    /// The secret of the cluster, if it is given; otherwise the one that the data directory keeps.
    pub secret: Option<tls::Secret>,
    /// A node that is alone in its cluster makes a secret at its first start.
    pub makes_secret: bool,
    /// Peers are not proven, but what they say is encrypted.
    pub self_signed: Option<tls::SelfSigned>,
    /// The secret that this region shares with each of the others, by its name.
    pub regions: Vec<(String, tls::Secret)>,
}

/// The past that stays readable although nobody asks for it, and how often the rest is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    pub keep_age: Duration,
    pub keep_revisions: u64,
    pub interval: Duration,
    /// A compaction that would gain less is not worth it.
    pub step: u64,
    /// Nothing is kept for a watch or a large read that needs something older than this, or further back.
    pub lag_age_max: Duration,
    pub lag_revisions_max: u64,
}

impl Config {
    /// Clients and peers come by one port. Where the kernel chooses, it chooses two.
    pub fn shares_a_port(&self) -> bool {
        self.client_addr == self.peer_addr && self.client_addr.port() != 0
    }
}

/// The data plane's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// The name of the region that the cluster is.
    pub region: String,
    /// Other regions, each by a place where one of its nodes is reached; a region may come several times. They found
    /// the table of regions, which is changed by asking from then on.
    pub region_peers: Vec<(String, String)>,
    /// Where nodes of other regions reach this one; empty for where its peers do.
    pub advertise_region: String,
    /// Nodes of one zone fail together, and copies are kept apart; empty for a zone of the node's own.
    pub zone: String,
    /// Points on the ring.
    pub points: u32,
    /// Keeps data and nothing of the coordination store.
    pub data_only: bool,
    /// How long replicas are waited for when a request does not say.
    pub timeout: Duration,
    /// How often each pair of replicas compares what it holds.
    pub round_every: Duration,
    /// How far ahead of this node's clock another's is believed.
    pub drift_max: Duration,
}

impl Default for Mesh {
    fn default() -> Mesh {
        Mesh {
            region: "default".to_owned(),
            region_peers: Vec::new(),
            advertise_region: String::new(),
            zone: String::new(),
            points: mesh::controller::POINTS,
            data_only: false,
            timeout: Duration::from_secs(5),
            round_every: Duration::from_secs(10),
            drift_max: Duration::from_millis(500),
        }
    }
}

/// Whom to ask for a place in the cluster. A member that has one already asks nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// `host:port` of members, as their peers reach them.
    pub ask: Vec<String>,
    /// Ask to be added, too; otherwise somebody has done that.
    pub add: bool,
    /// What lets the node in where the cluster asks for proof.
    pub token: Option<crate::JoinToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// `host:port`; resolved at each connection attempt, so that a name may move.
    pub peer_addr: String,
}
