//! Everything between the acceptor and the services: detects each connection's protocol, and serves it.
//! HTTP/2 is one task per connection around our own state machine (`connection`); the most frequent calls go
//! from there straight to the core and back (`fast`), all others through the router (`bridge`). HTTP/1 is hyper's.
//! After `shutdown` no connection is accepted and requests under way are finished.

mod bridge;
mod callers;
mod clock;
mod connection;
mod fast;
mod greeting;
mod http1;
mod progress;
mod urgent;

pub use fast::Fast;

use crate::browsers::BrowserGuard;
use crate::door::{Door, Guest};
use crate::gateway::socket;
use crate::intake::Intake;
use crate::rest::{Client, ClientIdentity, Quick};
use crate::serve::{Error, Tls};
use axum::Router;
use bytes::Bytes;
use connection::Connection;
use greeting::Protocol;
use http2::Limits;
use server::Handle;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::StreamExt;
use tonic::transport::server::Connected;
use tracing::debug;

/// Of every HTTP/2 connection.
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
pub struct Front {
    pub router: Router,
    /// Without it, every call goes through the router.
    pub fast: Option<Fast>,
    /// Serves plain requests of HTTP/1 before the router does.
    pub quick: Option<Quick>,
    /// Receives the connections of peers, on a port that they share with clients.
    pub peers: Option<Handle>,
    /// What knows the users whose names certificates bear, where requests of REST may be theirs.
    pub users: Option<Handle>,
    /// With it, every connection must use TLS.
    pub tls: Option<Tls>,
    /// The budget for incomplete requests.
    pub intake: Arc<Intake>,
    /// The paths of calls that take a stream of messages: these are incomplete until they end.
    pub streams: BTreeSet<String>,
    /// What browsers may do.
    pub browsers: Arc<BrowserGuard>,
}

/// Serves until `shutdown` ends, then lets calls under way finish.
pub async fn serve(front: Front, mut door: Door, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let front = Arc::new(front);
    let (stop, stopping) = watch::channel(false);
    // Each connection holds a sender; the receiver ends when the last connection is gone.
    let (here, mut gone) = mpsc::channel::<Infallible>(1);
    tokio::pin!(shutdown);
    loop {
        let guest = tokio::select! {
            () = &mut shutdown => break,
            guest = door.next() => guest,
        };
        let Some(Ok(guest)) = guest else { continue };
        let (front, stopping, here) = (front.clone(), stopping.clone(), here.clone());
        tokio::spawn(async move {
            receive(guest, front, stopping).await;
            drop(here);
        });
    }
    // From now on connections are refused by the kernel.
    drop((door, here));
    stop.send_replace(true);
    gone.recv().await;
    Ok(())
}

/// Resolves when the process stops; a dropped sender means the same.
async fn told(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn receive(guest: Guest, front: Arc<Front>, stopping: watch::Receiver<bool>) {
    let place = guest.place().clone();
    let greeted = tokio::select! {
        greeted = greet(guest, &front) => greeted,
        () = told(stopping.clone()) => return,
        () = place.told_to_close() => return,
    };
    match greeted {
        Ok((guest, Protocol::Peer)) => {
            if let (Some(peers), Ok(stream)) = (&front.peers, guest.into_blocking()) {
                peers.adopt_peer(stream);
            }
        }
        Ok((guest, Protocol::Http2 { input })) => {
            Connection::new(guest, input, front, stopping).serve().await
        }
        Ok((guest, Protocol::Http1)) => tokio::select! {
            () = serve_http1(guest, front, stopping) => {}
            () = place.told_to_close() => {}
        },
        // It went away, was silent for too long, or speaks no protocol of ours.
        Err(error) => debug!(%error, "client connection closed before a request"),
    }
}

/// The TLS handshake, and which protocol is spoken inside it.
async fn greet(guest: Guest, front: &Front) -> io::Result<(Guest, Protocol)> {
    let mut guest = seal(guest, front.tls.as_ref()).await?;
    let protocol = greeting::recognise(&mut guest, front.peers.is_some()).await?;
    Ok((guest, protocol))
}

async fn serve_http1(guest: Guest, front: Arc<Front>, stopping: watch::Receiver<bool>) {
    let unusual = match &front.quick {
        _ if guest.place().is_limited() => Some(guest),
        None => without_sockets(guest, &front).await,
        Some(quick) => {
            let place = guest.place().clone();
            let identity = front.identity_of(&guest);
            let client = Client { place: &place, address: guest.connect_info(), identity };
            quick.serve(guest, client, told(stopping.clone())).await.map(|(mut guest, heard)| {
                guest.unread(heard);
                guest
            })
        }
    };
    if let Some(guest) = unusual {
        http1::serve(guest, front, stopping).await;
    }
}

/// The connection, unless it is a WebSocket, which is served here.
async fn without_sockets(mut guest: Guest, front: &Front) -> Option<Guest> {
    let place = guest.place().clone();
    let bounds = socket::Bounds {
        place: &place,
        intake: &front.intake,
        address: guest.connect_info(),
        browsers: &front.browsers,
    };
    let said = socket::serve(&mut guest, &front.router, bounds).await?;
    guest.unread(said);
    Some(guest)
}

impl Front {
    /// The certificate of a client of the REST API, where the names on certificates are those of users.
    fn identity_of(&self, guest: &Guest) -> Option<ClientIdentity> {
        self.tls.as_ref().filter(|tls| tls.names_users)?;
        let name = guest.certified_name()?;
        let badge = self.users.as_ref()?.badge(&name)?;
        Some(ClientIdentity { name: name.as_str().into(), badge: badge.into() })
    }

    /// The certificate token of the client, where certificates name users.
    fn badge_of(&self, guest: &Guest) -> Option<Bytes> {
        self.tls.as_ref().filter(|tls| tls.names_users)?;
        let handle = &self.fast.as_ref()?.handle;
        handle.badge(&guest.certified_name()?).map(Bytes::from)
    }
}

async fn seal(guest: Guest, tls: Option<&Tls>) -> io::Result<Guest> {
    match tls {
        None => Ok(guest),
        Some(tls) => guest.sealed(tls.server.config()).await,
    }
}
