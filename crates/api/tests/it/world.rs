//! One member and its client port.

use api::ServeSettings;
use server::{AuthConfig, ClusterMember, Config, Server};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Far longer than anything here takes; only a failure waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Passwords are hashed cheaply: most tests are not about that.
pub fn cheap() -> AuthConfig {
    AuthConfig { bcrypt_cost: 4, ..AuthConfig::default() }
}

pub struct World {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), api::Error>>,
    _server: Server,
    _dir: TempDir,
}

impl World {
    pub async fn start() -> World {
        World::start_of(1, cheap()).await
    }

    pub async fn start_with(auth: AuthConfig) -> World {
        World::start_of(1, auth).await
    }

    /// A member whose two peers never come: it has no leader, so no request is answered.
    pub async fn start_lonely() -> World {
        World::start_of(3, cheap()).await
    }

    async fn start_of(members: usize, auth: AuthConfig) -> World {
        let dir = tempfile::tempdir().unwrap();
        let peers: Vec<_> = (0..members).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let member = |(idx, listener): (usize, &TcpListener)| ClusterMember {
            name: format!("m{idx}"),
            peer_addr: address(listener).to_string(),
        };
        let config = Config {
            name: "m0".to_owned(),
            data_dir: dir.path().join("m0"),
            client_addr: "127.0.0.1:0".parse().unwrap(),
            peer_addr: address(&peers[0]),
            initial_cluster: peers.iter().enumerate().map(member).collect(),
            join: None,
            cluster_token: "test".to_owned(),
            advertise_client: String::new(),
            advertise_peer: String::new(),
            heartbeat: Duration::from_millis(40),
            election: Duration::from_millis(400),
            request_timeout: Duration::from_secs(20),
            request_bytes_max: 1536 * 1024,
            response_bytes_max: base::limits::RESPONSE_BYTES_MAX,
            txn_ops_max: 128,
            quota_bytes: 0,
            compaction: None,
            history_age: Duration::from_secs(3_600),
            history_rows_max: 1_000,
            flush_interval: Duration::from_millis(100),
            flush_bytes: 8 * 1024 * 1024,
            wal_segment_bytes: 4 * 1024 * 1024,
            log_keep_entries: 5_000,
            watch_progress_interval: Duration::from_secs(600),
            client_tls: false,
            peer_security: Default::default(),
            force_new_cluster: false,
            strict_reconfig: false,
            drain_timeout: Duration::from_secs(5),
            audit: None,
            auth,
            mesh: server::MeshConfig::default(),
        };
        let settings = ServeSettings {
            request_bytes_max: config.request_bytes_max,
            txn_ops_max: config.txn_ops_max,
            timed: true,
            with_peers: false,
        };
        let mut peers = peers.into_iter();
        let server = Server::start_on(peers.next().unwrap(), config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = server.handle();
        let serving = tokio::spawn(async move {
            api::serve(handle, listener.into(), settings, async {
                let _ = stopped.await;
            })
            .await
        });
        World { address, stop: Some(stop), serving, _server: server, _dir: dir }
    }

    /// Tells it to stop; `stopped` waits until it has.
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub async fn stopped(self) {
        tokio::time::timeout(PATIENCE, self.serving).await.unwrap().unwrap().unwrap();
    }
}
