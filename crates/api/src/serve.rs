//! The client port: gRPC and HTTP on one listener, until shutdown.
//! A listener goes in; the services are put together here, and `conn` serves them. After `shutdown` no
//! connection is accepted and requests under way are finished.

use crate::acceptor::{Acceptor, Listener};
use crate::audit;
use crate::browsers::{BrowserGuard, BrowserSettings};
use crate::conn::{self, ConnContext, GrpcFastPath};
use crate::gateway::{self, Transcoder, socket};
use crate::grpc::auth::AuthService;
use crate::grpc::backup::{self, BackupApi};
use crate::grpc::cluster::ClusterService;
use crate::grpc::data_auth::DataAuthService;
use crate::grpc::election::ElectionService;
use crate::grpc::etcd_lock::EtcdLockService;
use crate::grpc::health::HealthService;
use crate::grpc::inspect::InspectApi;
use crate::grpc::kv_service::KvService;
use crate::grpc::lease::LeaseService;
use crate::grpc::lease_events::LeaseEventService;
use crate::grpc::lock::LockApi;
use crate::grpc::maintenance::MaintenanceService;
use crate::grpc::store::StoreApi;
use crate::grpc::watch::{self, WatchService};
use crate::grpc::{calls, oversize, pieces, unserved};
use crate::http;
use crate::inspect::Inspector;
use crate::leader_hint;
use crate::limits::ClientLimits;
use crate::metrics::{ApiMetrics, ClientMetrics, Traffic};
use crate::request_budget::RequestBudget;
use crate::rest::rpc::DataApi;
use crate::rest::{self, Rest, RestFastPath, ShownSetting};
use axum::Router;
use axum::routing::post;
use base::limits::GRPC_OVERHEAD_BYTES;
use coord::request::Limits;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use proto::althing::auth::v1::data_auth_server::DataAuthServer;
use proto::althing::backup::v1::backup_service_server::BackupServiceServer;
use proto::althing::data::v1::data_service_server::DataServiceServer;
use proto::althing::inspect::v1::inspect_service_server::InspectServiceServer;
use proto::althing::lease::v1::lease_service_server::LeaseServiceServer;
use proto::althing::store::v1::store_service_server::StoreServiceServer;
use proto::etcdserverpb::auth_server::AuthServer;
use proto::etcdserverpb::cluster_server::ClusterServer;
use proto::etcdserverpb::kv_server::KvServer;
use proto::etcdserverpb::lease_server::LeaseServer;
use proto::etcdserverpb::maintenance_server::MaintenanceServer;
use proto::health::health_server::HealthServer;
use proto::lock::lock_service_server::LockServiceServer;
use proto::v3electionpb::election_server::ElectionServer;
use proto::v3lockpb::lock_server::LockServer;
use server::{Handle, Worker};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch::{Receiver, channel};
use tonic::server::NamedService;

#[derive(Clone, Copy, Debug)]
pub struct ServeSettings {
    /// The size of one request that changes something, as the core measures it; a message may be somewhat larger.
    pub request_bytes_max: usize,
    /// Compares, successes or failures of one transaction.
    pub txn_ops_max: usize,
    /// Whether the other members connect to this port as well.
    pub with_peers: bool,
}

/// Listening sockets, and whether they use TLS.
pub struct Port {
    pub listener: Listener,
    /// Shared by the ports that speak etcd's protocol and those for metrics.
    pub metrics: ClientMetrics,
    pub tls: Option<Tls>,
    /// Clients without TLS are served beside those with it.
    pub plain_too: bool,
    /// Shared with the other ports of the process.
    pub limits: ClientLimits,
    /// Which names and pages it believes.
    pub browsers: BrowserSettings,
}

impl From<std::net::TcpListener> for Port {
    fn from(listener: std::net::TcpListener) -> Port {
        let limits = ClientLimits::default();
        Port {
            listener: listener.into(),
            metrics: ClientMetrics::new(false, &limits),
            tls: None,
            plain_too: false,
            limits,
            browsers: BrowserSettings::default(),
        }
    }
}

impl Port {
    pub(crate) fn browser_guard(&self, handle: &Handle) -> Arc<BrowserGuard> {
        let address = self.listener.local_addr();
        let beyond_loopback = address.is_some_and(|address| !address.ip().is_loopback());
        let tls = self.tls.as_ref().map(|tls| tls.server.clone());
        let guard = BrowserGuard::new(self.browsers.clone(), beyond_loopback, tls);
        Arc::new(guard.with_audit(handle.audit().cloned()))
    }
}

#[derive(Clone, Debug)]
pub struct Tls {
    pub server: Arc<tls::ServerTls>,
    /// Whether the name on a client's certificate is that of a user.
    pub names_users: bool,
}

#[derive(Clone, Debug)]
pub struct RestSettings {
    /// What this region is called.
    pub region: String,
    /// The largest value.
    pub value_bytes_max: usize,
    /// Where clients reach this API.
    pub advertise: String,
    /// What the node runs with, for people to read.
    pub shown: Vec<ShownSetting>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen for clients: {0}")]
    Listen(#[from] std::io::Error),
    #[error("serving clients failed: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// Serves until `shutdown` ends, then lets requests under way finish.
pub async fn serve(
    handle: Handle,
    port: Port,
    settings: ServeSettings,
    data: RestSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let pool = described();
    let ClientMetrics(metrics) = port.metrics.clone();
    // Streams never end by themselves.
    let (stop, stopping) = channel(false);
    let shutdown = async move {
        shutdown.await;
        stop.send_replace(true);
    };
    let peers = settings.with_peers.then(|| handle.clone());
    let (tls, browsers) = (port.tls.clone(), port.browser_guard(&handle));
    let request_budget = port.limits.request_budget.clone();
    let parts = Parts {
        handle,
        settings,
        data,
        pool,
        metrics: metrics.clone(),
        stopping,
        tls,
        request_budget: request_budget.clone(),
    };
    let fast = GrpcFastPath::new(parts.handle.clone(), parts.limits(), parts.message_bytes_max(), &metrics);
    let (acceptor, tls) = (open(port.listener, &port.limits, metrics.traffic.clone())?, port.tls);
    let streams = streams_of(&parts.pool);
    let (router, fast) = (router(parts), Some(fast));
    let shared = ConnContext {
        router,
        fast,
        rest_fast_path: None,
        peers,
        users: None,
        tls,
        plain_too: port.plain_too,
        request_budget,
        streams,
        browsers,
    };
    conn::serve(shared, acceptor, shutdown).await
}

/// Serves only probes and metrics until `shutdown` ends, as for a port that others than clients may reach.
pub async fn serve_probes(
    handle: Handle,
    port: Port,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let ClientMetrics(metrics) = port.metrics.clone();
    let browsers = port.browser_guard(&handle);
    let views = http::HttpState { handle, metrics, tls: port.tls.clone() };
    let shared = ConnContext {
        router: http::router(views).fallback(unserved::refuse),
        fast: None,
        rest_fast_path: None,
        peers: None,
        users: None,
        browsers,
        tls: port.tls,
        plain_too: port.plain_too,
        request_budget: port.limits.request_budget.clone(),
        streams: BTreeSet::new(),
    };
    // Its own bytes are none of clients'.
    conn::serve(shared, open(port.listener, &port.limits, Traffic::default())?, shutdown).await
}

/// What a worker of the REST API serves. Its answers are delivered on the thread that this is called on.
pub fn rest_context(
    handle: Handle,
    worker: Worker,
    settings: RestSettings,
    metrics: Arc<ApiMetrics>,
    tls: Option<Tls>,
    (request_budget, browsers): (Arc<RequestBudget>, Arc<BrowserGuard>),
    stopping: Receiver<bool>,
) -> ConnContext {
    let connections = metrics.connections.clone();
    let views = http::HttpState { handle: handle.clone(), metrics, tls: tls.clone() };
    let (mesh, delivery) = handle.mesh().in_worker(worker);
    tokio::spawn(delivery);
    let users = Some(handle.clone());
    let rest = Rest::new(handle, mesh, settings, connections, stopping);
    let rest_fast_path = Some(RestFastPath::new(rest.clone(), request_budget.clone(), browsers.clone()));
    let router = rest::router(rest, views);
    ConnContext {
        router,
        fast: None,
        rest_fast_path,
        peers: None,
        users,
        tls,
        plain_too: false,
        request_budget,
        streams: BTreeSet::new(),
        browsers,
    }
}

pub fn described() -> DescriptorPool {
    DescriptorPool::decode(proto::DESCRIPTORS).expect("the API is described at build time")
}

/// The paths of the calls that take a stream of messages, by gRPC and by the gateway.
fn streams_of(pool: &DescriptorPool) -> BTreeSet<String> {
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let path =
        |method: &MethodDescriptor| format!("/{}/{}", method.parent_service().full_name(), method.name());
    let grpc = methods.filter(MethodDescriptor::is_client_streaming).map(|method| path(&method));
    grpc.chain(socket::STREAMS.map(str::to_owned)).collect()
}

fn open(listener: Listener, limits: &ClientLimits, traffic: Traffic) -> Result<Acceptor, Error> {
    Ok(Acceptor::open(listener.into_async()?, limits.connections.clone(), traffic))
}

/// What the routes are made of.
struct Parts {
    handle: Handle,
    settings: ServeSettings,
    /// The settings of the service for data, which is the REST API in another form.
    data: RestSettings,
    pool: DescriptorPool,
    metrics: Arc<ApiMetrics>,
    /// Becomes true when no connection is accepted any more.
    stopping: Receiver<bool>,
    tls: Option<Tls>,
    request_budget: Arc<RequestBudget>,
}

impl Parts {
    fn message_bytes_max(&self) -> usize {
        self.settings.request_bytes_max + GRPC_OVERHEAD_BYTES
    }

    fn limits(&self) -> Limits {
        Limits { txn_ops_max: self.settings.txn_ops_max, ..Limits::default() }
    }
}

fn router(parts: Parts) -> Router {
    let (message_bytes_max, limits) = (parts.message_bytes_max(), parts.limits());
    let Parts { handle, data, pool, metrics, stopping, tls, request_budget, .. } = parts;
    let leases = Arc::new(LeaseService::new(handle.clone()));
    let services = gateway::Services {
        kv: Arc::new(KvService::new(handle.clone(), limits)),
        cluster: Arc::new(ClusterService::new(handle.clone())),
        maintenance: Arc::new(MaintenanceService::new(handle.clone())),
        lease: leases.clone(),
        watch: WatchService { handle: handle.clone(), message_bytes_max, stopping: stopping.clone() },
        lock: Arc::new(EtcdLockService::new(handle.clone(), stopping.clone())),
        election: Arc::new(ElectionService::new(handle.clone(), stopping.clone())),
        locks: Arc::new(LockApi::new(handle.clone(), leases, stopping.clone())),
        store: Arc::new(StoreApi::new(handle.clone())),
        auth: Arc::new(AuthService::new(handle.clone())),
        data_auth: Arc::new(DataAuthService::new(handle.clone())),
        request_budget,
    };
    let transcoder = Arc::new(Transcoder::new(pool, message_bytes_max));
    let gateway = gateway::router(&services, &transcoder);
    let kv = KvServer::from_arc(services.kv)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let auth = AuthServer::from_arc(services.auth)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let data_auth = DataAuthServer::from_arc(services.data_auth)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let cluster = ClusterServer::from_arc(services.cluster).max_decoding_message_size(message_bytes_max);
    let maintenance =
        MaintenanceServer::from_arc(services.maintenance).max_decoding_message_size(message_bytes_max);
    let lock = LockServer::from_arc(services.lock).max_decoding_message_size(message_bytes_max);
    let election = ElectionServer::from_arc(services.election)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let locks = LockServiceServer::from_arc(services.locks)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let store = StoreServiceServer::from_arc(services.store)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let health =
        HealthServer::new(HealthService::new(stopping.clone())).max_decoding_message_size(message_bytes_max);
    let data_bytes_max = data.value_bytes_max + 2 * GRPC_OVERHEAD_BYTES;
    let rest = Rest::new(handle.clone(), handle.mesh(), data, metrics.connections.clone(), stopping.clone());
    let data = DataServiceServer::new(DataApi::new(rest))
        .max_decoding_message_size(data_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let lease_events = LeaseServiceServer::new(LeaseEventService::new(handle.clone(), stopping))
        .max_decoding_message_size(message_bytes_max);
    let backups = BackupServiceServer::new(BackupApi::new(handle.clone()))
        .max_decoding_message_size(backup::REQUEST_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let lease = LeaseServer::from_arc(services.lease)
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let inspector = Inspector { handle: handle.clone(), connections: metrics.connections.clone() };
    let inspect = InspectServiceServer::new(InspectApi::new(inspector))
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let grpc = Router::new()
        .route(watch::PATH, post(watch::serve).with_state(services.watch))
        .route_service(&path_of::<KvServer<KvService>>(), kv)
        .route_service(&path_of::<AuthServer<AuthService>>(), auth)
        .route_service(&path_of::<DataAuthServer<DataAuthService>>(), data_auth)
        .route_service(&path_of::<ClusterServer<ClusterService>>(), cluster)
        .route_service(&path_of::<MaintenanceServer<MaintenanceService>>(), maintenance)
        .route_service(&path_of::<LeaseServer<LeaseService>>(), lease)
        .route_service(&path_of::<LeaseServiceServer<LeaseEventService>>(), lease_events)
        .route_service(&path_of::<LockServer<EtcdLockService>>(), lock)
        .route_service(&path_of::<ElectionServer<ElectionService>>(), election)
        .route_service(&path_of::<LockServiceServer<LockApi>>(), locks)
        .route_service(&path_of::<StoreServiceServer<StoreApi>>(), store)
        .route_service(&path_of::<InspectServiceServer<InspectApi>>(), inspect)
        .route_service(&path_of::<BackupServiceServer<BackupApi>>(), backups)
        .route_service(&path_of::<DataServiceServer<DataApi>>(), data)
        .route_service(&path_of::<HealthServer<HealthService>>(), health)
        .merge(reflection())
        .layer(axum::middleware::map_response(async |response| oversize::reword(pieces::unpack(response))))
        .layer(axum::middleware::from_fn_with_state(
            calls::Counting {
                metrics: metrics.clone(),
                audit: handle.audit().cloned(),
                handle: Some(handle.clone()),
            },
            calls::count,
        ));
    let gateway = match handle.audit() {
        None => gateway,
        Some(audit) => {
            gateway.layer(axum::middleware::from_fn_with_state(audit.clone(), audit::record_gateway))
        }
    };
    let hint = axum::middleware::map_response_with_state(handle.clone(), leader_hint::hinted);
    let views = http::HttpState { handle, metrics, tls };
    http::router(views).merge(gateway.merge(grpc).layer(hint)).fallback(unserved::refuse)
}

/// Tells tools what the services look like, in both versions of the protocol.
fn reflection() -> Router {
    use tonic_reflection::server::Builder;
    let builder = || Builder::configure().register_encoded_file_descriptor_set(proto::DESCRIPTORS);
    let described = "the API is described at build time";
    Router::new()
        .route_service(
            "/grpc.reflection.v1.ServerReflection/{method}",
            builder().build_v1().expect(described),
        )
        .route_service(
            "/grpc.reflection.v1alpha.ServerReflection/{method}",
            builder().build_v1alpha().expect(described),
        )
}

/// Every method of a service.
fn path_of<S: NamedService>() -> String {
    format!("/{}/{{method}}", S::NAME)
}
