//! The one configuration of a member, already checked: every value is usable as it stands.
//! `cli` gathers it from flags, environment and file; crates below `server` never see it, they get small
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
    /// Further addresses at which the process hears peers and passes them on (`PeerPortHandle::adopt`).
    pub more_peer_addrs: Vec<SocketAddr>,
    /// Every member of the cluster with its peer address, this one included.
    pub initial_cluster: Vec<ClusterMember>,
    /// How the member joins an existing cluster; none for a founder.
    pub join: Option<JoinConfig>,
    /// Distinguishes this cluster from others.
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
    /// Memory for answers that are read in pieces, all together.
    pub response_bytes_max: usize,
    /// When the rows of all changes take more, every write that grows the store is refused; zero sets no bound.
    pub quota_bytes: u64,
    /// Automatic compaction; none leaves it to clients.
    pub compaction: Option<CompactionConfig>,
    /// How long, and in how many rows, the history without values outlives a compaction.
    pub history_age: Duration,
    pub history_rows_max: u64,
    pub wal_segment_bytes: u64,
    /// Log entries kept behind the flushed state for followers that lag.
    pub log_keep_entries: u64,
    /// How often a watch that asked for progress notifications gets one while there are no events.
    pub watch_progress_interval: Duration,
    /// How users authenticate.
    pub auth: AuthConfig,
    /// Where it is recorded who asks for what; none records nothing.
    pub audit: Option<AuditConfig>,
    /// How the node takes part in the mesh.
    pub mesh: MeshConfig,
    /// Advertise `https` to clients.
    pub client_tls: bool,
    /// How nodes authenticate on the peer port.
    pub peer_security: PeerSecurity,
    /// The member continues as the only one of its cluster.
    pub force_new_cluster: bool,
    /// Members are changed only while this one has been connected to enough others for a while, as in etcd.
    pub strict_reconfig: bool,
    /// How long SIGTERM waits for requests under way.
    pub drain_timeout: Duration,
    /// A request that takes this long is reported with where the time went; zero for none.
    pub slow_request: Duration,
}

/// The proofs by which members and regions authenticate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerSecurity {
    /// Certificates of an operator; they take precedence.
    pub files: Option<tls::PeerFiles>,
    /// The secret of the cluster, if it is given; otherwise the one that the data directory keeps.
    pub secret: Option<tls::Secret>,
    /// A node that is alone in its cluster generates a secret at its first start.
    pub makes_secret: bool,
    /// Peers are not authenticated, but connections are encrypted.
    pub self_signed: Option<tls::SelfSigned>,
    /// The secret that this region shares with each of the others, by its name.
    pub regions: Vec<(String, tls::Secret)>,
}

/// How much of the past automatic compaction leaves readable, and how often it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionConfig {
    pub keep_age: Duration,
    pub keep_revisions: u64,
    pub interval: Duration,
    /// A compaction of fewer revisions is skipped.
    pub step: u64,
    /// A watch or a large read that is older than this, or further behind, does not hold compaction back.
    pub lag_age_max: Duration,
    pub lag_revisions_max: u64,
}

impl Config {
    /// Every address at which peers are heard.
    pub fn peer_addrs(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.peer_addr).chain(self.more_peer_addrs.iter().copied())
    }

    /// Clients and peers share one port. Where the kernel chooses ports, it chooses two.
    pub fn shares_a_port(&self) -> bool {
        self.client_addr == self.peer_addr && self.client_addr.port() != 0
    }
}

/// The data plane's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshConfig {
    /// The name of the region that the cluster is.
    pub region: String,
    /// Other regions, each by the address of one of its nodes; a region may occur several times. They found
    /// the table of regions, which requests change from then on.
    pub region_peers: Vec<(String, String)>,
    /// Where nodes of other regions reach this one; empty for where its peers do.
    pub advertise_region: String,
    /// Nodes of one zone fail together, so copies are placed in different zones; empty for a zone of the node's own.
    pub zone: String,
    /// Points on the ring.
    pub points: u32,
    /// Stores data of the mesh and nothing of the coordination store.
    pub data_only: bool,
    /// The default timeout for replicas.
    pub timeout: Duration,
    /// How often each pair of replicas compares what it holds.
    pub round_every: Duration,
    /// How far ahead of this node's clock another's may be.
    pub drift_max: Duration,
}

impl Default for MeshConfig {
    fn default() -> MeshConfig {
        MeshConfig {
            region: "default".to_owned(),
            region_peers: Vec::new(),
            advertise_region: String::new(),
            zone: String::new(),
            points: mesh::POINTS_DEFAULT,
            data_only: false,
            timeout: Duration::from_secs(5),
            round_every: Duration::from_secs(10),
            drift_max: Duration::from_millis(500),
        }
    }
}

/// Which members a new node asks to join. A member that has an identity already does not ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinConfig {
    /// `host:port` of members, as their peers reach them.
    pub ask: Vec<String>,
    /// Ask to be added, too; otherwise an operator has added the node.
    pub add: bool,
    /// Authenticates the node where the cluster demands a token.
    pub token: Option<crate::JoinToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMember {
    pub name: String,
    /// `host:port`; resolved at each connection attempt, so that a name may move.
    pub peer_addr: String,
}
