//! The client port: gRPC and HTTP on one listener, until told to stop.
//! Connections go in; each gets bounded windows, streams and headers, and is dropped when its other end no
//! longer answers. After `shutdown` nothing new is accepted and what is under way is finished.

use crate::door::{CONNECTIONS_MAX, Door};
use crate::grpc::kv_service::KvService;
use crate::grpc::lease::LeaseService;
use crate::grpc::maintenance::MaintenanceService;
use crate::grpc::{oversize, unserved};
use crate::http;
use axum::Router;
use base::limits::GRPC_OVERHEAD_BYTES;
use coord::request::Limits;
use proto::etcdserverpb::kv_server::KvServer;
use proto::etcdserverpb::lease_server::LeaseServer;
use proto::etcdserverpb::maintenance_server::MaintenanceServer;
use server::Handle;
use std::time::Duration;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;

/// How much of a request is buffered ahead of its handler: a whole one of the default size.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// The same for all requests of one connection together.
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;
/// Requests and watches under way on one connection.
const STREAMS_PER_CONNECTION_MAX: u32 = 4_096;
const HEADER_LIST_BYTES_MAX: u32 = 16 * 1024;
/// A connection whose other end does not answer a ping is dropped.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The size of one request that changes something, as the core measures it; a message may be somewhat larger.
    pub request_bytes_max: usize,
    /// Compares, successes or failures of one transaction.
    pub txn_ops_max: usize,
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
    listener: std::net::TcpListener,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    listener.set_nonblocking(true)?;
    let door = Door::open(tokio::net::TcpListener::from_std(listener)?, CONNECTIONS_MAX);
    Server::builder()
        .accept_http1(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_max_header_list_size(HEADER_LIST_BYTES_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .add_routes(routes(handle, settings))
        .serve_with_incoming_shutdown(door, shutdown)
        .await?;
    Ok(())
}

fn routes(handle: Handle, settings: Settings) -> Routes {
    let message_bytes_max = settings.request_bytes_max + GRPC_OVERHEAD_BYTES;
    let limits = Limits { txn_ops_max: settings.txn_ops_max, ..Limits::default() };
    let kv = KvServer::new(KvService::new(handle.clone(), limits))
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let maintenance = MaintenanceServer::new(MaintenanceService::new(handle.clone()))
        .max_decoding_message_size(message_bytes_max);
    let lease = LeaseServer::new(LeaseService::new(handle.clone()))
        .max_decoding_message_size(message_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let grpc = Router::new()
        .route_service(&path_of::<KvServer<KvService>>(), kv)
        .route_service(&path_of::<MaintenanceServer<MaintenanceService>>(), maintenance)
        .route_service(&path_of::<LeaseServer<LeaseService>>(), lease)
        .layer(axum::middleware::map_response(oversize::reword));
    Routes::from(http::router(handle).merge(grpc).fallback(unserved::refuse))
}

/// Every method of a service.
fn path_of<S: NamedService>() -> String {
    format!("/{}/{{method}}", S::NAME)
}
