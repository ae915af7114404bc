//! One member and its client port.

use crate::config::config;
use api::ServeSettings;
use server::{AuthConfig, Config, Server};
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
        let addresses: Vec<SocketAddr> = peers.iter().map(|peer| peer.local_addr().unwrap()).collect();
        let config = Config {
            request_timeout: Duration::from_secs(20),
            response_bytes_max: base::limits::RESPONSE_BYTES_MAX,
            auth,
            ..config(dir.path(), 0, &addresses)
        };
        let settings = ServeSettings {
            request_bytes_max: config.request_bytes_max,
            txn_ops_max: config.txn_ops_max,
            with_peers: false,
        };
        let data = api::RestSettings {
            region: config.mesh.region.clone(),
            value_bytes_max: config.request_bytes_max,
            advertise: String::new(),
            shown: Vec::new(),
        };
        let mut peers = peers.into_iter();
        let server = Server::start_on(peers.next().unwrap(), config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = server.handle();
        let serving = tokio::spawn(async move {
            let mut port = api::Port::from(listener);
            port.metrics = api::ClientMetrics::new(true, &port.limits);
            api::serve(handle, port, settings, data, async {
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
