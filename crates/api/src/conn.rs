//! Everything between the acceptor and the services: detects each connection's protocol, and serves it.
//! HTTP/2 is one task per connection around our own state machine (`connection`); the most frequent calls go
//! from there straight to the core and back (`fast`), all others through the router (`bridge`). HTTP/1 is hyper's.
//! After `shutdown` no connection is accepted and requests under way are finished.

mod callers;
mod connection;
mod fast;
mod fields;
mod http1;
mod progress;
mod protocol;
mod routed;
mod timers;
mod urgent;

pub use fast::GrpcFastPath;

use crate::acceptor::{Acceptor, ClientConn};
use crate::browsers::BrowserGuard;
use crate::gateway::socket;
use crate::request_budget::RequestBudget;
use crate::rest::{Client, ClientIdentity, RestFastPath};
use crate::serve::{Error, Tls};
use axum::Router;
use bytes::Bytes;
use connection::Connection;
use http2::Limits;
use protocol::Protocol;
use server::Handle;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::StreamExt;
use tonic::transport::server::Connected;
use tracing::{debug, warn};

/// The limits of every HTTP/2 connection.
const LIMITS: Limits = Limits {
    // Requests and watches under way.
    streams_max: 4_096,
    // Most requests fit; larger ones get more as the budget for incomplete requests allows.
    stream_window_bytes: 64 * 1024,
    connection_window_bytes: 8 * 1024 * 1024,
    extension_step_bytes: 256 * 1024,
    extension_bytes_max: 8 * 1024 * 1024,
    header_list_bytes_max: 16 * 1024,
    output_bytes_soft: 256 * 1024,
};

/// What connections share.
pub struct ConnContext {
    pub router: Router,
    /// Without it, every call goes through the router.
    pub fast: Option<GrpcFastPath>,
    /// Serves plain requests of HTTP/1 before the router does.
    pub rest_fast_path: Option<RestFastPath>,
    /// Receives the connections of peers, on a port that they share with clients.
    pub peers: Option<Handle>,
    /// What knows the users whose names certificates bear, where requests of REST may be theirs.
    pub users: Option<Handle>,
    /// With it, every connection must use TLS.
    pub tls: Option<Tls>,
    /// Or may: TLS is told from HTTP by its first byte.
    pub plain_too: bool,
    /// The budget for incomplete requests.
    pub request_budget: Arc<RequestBudget>,
    /// The paths of calls that take a stream of messages: these are incomplete until they end.
    pub streams: BTreeSet<String>,
    /// What browsers may do.
    pub browsers: Arc<BrowserGuard>,
}

/// Serves until `shutdown` ends, then lets calls under way finish.
pub async fn serve(
    shared: ConnContext,
    mut acceptor: Acceptor,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let shared = Arc::new(shared);
    let (stop, stopping) = watch::channel(false);
    // Each connection holds a sender; the receiver ends when the last connection is gone.
    let (here, mut gone) = mpsc::channel::<Infallible>(1);
    tokio::pin!(shutdown);
    loop {
        let conn = tokio::select! {
            () = &mut shutdown => break,
            conn = acceptor.next() => conn,
        };
        let Some(Ok(conn)) = conn else { continue };
        let (shared, stopping, here) = (shared.clone(), stopping.clone(), here.clone());
        tokio::spawn(async move {
            receive(conn, shared, stopping).await;
            drop(here);
        });
    }
    // From now on connections are refused by the kernel.
    drop((acceptor, here));
    stop.send_replace(true);
    gone.recv().await;
    Ok(())
}

/// Resolves when the process stops; a dropped sender means the same.
async fn stop_requested(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn receive(conn: ClientConn, shared: Arc<ConnContext>, stopping: watch::Receiver<bool>) {
    let slot_guard = conn.slot_guard().clone();
    let greeted = tokio::select! {
        greeted = detect_protocol(conn, &shared) => greeted,
        () = stop_requested(stopping.clone()) => return,
        () = slot_guard.must_close() => return,
    };
    match greeted {
        Ok((conn, Protocol::Peer)) => {
            if let (Some(peers), Ok(stream)) = (&shared.peers, conn.into_blocking()) {
                peers.peer_port().adopt(stream);
            }
        }
        Ok((conn, Protocol::Http2 { input })) => Connection::new(conn, input, shared, stopping).serve().await,
        Ok((conn, Protocol::Http1)) => tokio::select! {
            () = serve_http1(conn, shared, stopping) => {}
            () = slot_guard.must_close() => {}
        },
        // It went away, was silent for too long, or speaks no protocol of ours.
        Err(error) => debug!(%error, "client connection closed before a request"),
    }
}

/// The TLS handshake, and which protocol is spoken inside it.
async fn detect_protocol(conn: ClientConn, shared: &ConnContext) -> io::Result<(ClientConn, Protocol)> {
    let mut conn = accept_tls(conn, shared.tls.as_ref(), shared.plain_too).await?;
    let protocol = protocol::sniff(&mut conn, shared.peers.is_some()).await?;
    Ok((conn, protocol))
}

async fn serve_http1(conn: ClientConn, shared: Arc<ConnContext>, stopping: watch::Receiver<bool>) {
    if conn.slot_guard().is_limited() {
        return http1::serve(conn, shared, stopping).await;
    }
    let Some(unusual) = after_fast_path(conn, &shared, stopping.clone()).await else { return };
    if let Some(conn) = without_sockets(unusual, &shared).await {
        http1::serve(conn, shared, stopping).await;
    }
}

/// The connection from the first request on that the fast path of REST does not serve, if there is one.
async fn after_fast_path(
    conn: ClientConn,
    shared: &ConnContext,
    stopping: watch::Receiver<bool>,
) -> Option<ClientConn> {
    let Some(rest_fast_path) = &shared.rest_fast_path else { return Some(conn) };
    let slot_guard = conn.slot_guard().clone();
    let identity = shared.identity_of(&conn);
    let client = Client { slot_guard: &slot_guard, address: conn.connect_info(), identity };
    let (mut conn, heard) = rest_fast_path.serve(conn, client, stop_requested(stopping)).await?;
    conn.unread(heard);
    Some(conn)
}

/// The connection, unless it is a WebSocket, which is served here.
async fn without_sockets(mut conn: ClientConn, shared: &ConnContext) -> Option<ClientConn> {
    let slot_guard = conn.slot_guard().clone();
    let bounds = socket::SocketLimits {
        slot_guard: &slot_guard,
        request_budget: &shared.request_budget,
        address: conn.connect_info(),
        identity: shared.identity_of(&conn),
        browsers: &shared.browsers,
    };
    let said = socket::serve(&mut conn, &shared.router, bounds).await?;
    conn.unread(said);
    Some(conn)
}

impl ConnContext {
    /// The certificate of a client of the REST API, where the names on certificates are those of users.
    fn identity_of(&self, conn: &ClientConn) -> Option<ClientIdentity> {
        self.tls.as_ref().filter(|tls| tls.names_users)?;
        let name = conn.certified_name()?;
        let certificate_token = self.users.as_ref()?.auth().certificate_token(&name)?;
        Some(ClientIdentity { name: name.as_str().into(), certificate_token: certificate_token.into() })
    }

    /// The certificate token of the client, where certificates name users.
    fn certificate_token_of(&self, conn: &ClientConn) -> Option<Bytes> {
        self.tls.as_ref().filter(|tls| tls.names_users)?;
        let handle = &self.fast.as_ref()?.handle;
        handle.auth().certificate_token(&conn.certified_name()?).map(Bytes::from)
    }
}

async fn accept_tls(conn: ClientConn, tls: Option<&Tls>, plain_too: bool) -> io::Result<ClientConn> {
    match tls {
        None => Ok(conn),
        Some(_) if plain_too && !conn.begins_tls().await? => Ok(conn),
        Some(tls) => {
            let address = conn.connect_info();
            conn.with_tls(tls.server.config()).await.inspect_err(|error| {
                if error.kind() == io::ErrorKind::InvalidData {
                    warn!(%error, ?address, "rejected a client's connection: the TLS handshake failed");
                }
            })
        }
    }
}
