//! Everything between the door and the services: each connection is greeted, and served by what it speaks.
//! HTTP/2 is spoken by one task per connection around our own machine (`connection`); the calls that matter most go
//! from there straight to the core and back (`fast`), all others through the router (`bridge`). HTTP/1 is hyper's.
//! After `shutdown` nothing new is accepted and what is under way is finished.

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
use crate::rest::Quick;
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
use tracing::debug;

/// Of every HTTP/2 connection.
const LIMITS: Limits = Limits {
    // Requests and watches under way.
    streams_max: 4_096,
    // Most requests fit; larger ones get more as the budget for those that are not whole allows.
    stream_window_bytes: 64 * 1024,
    connection_window_bytes: 8 * 1024 * 1024,
    extension_step_bytes: 256 * 1024,
    extension_bytes_max: 8 * 1024 * 1024,
    header_list_bytes_max: 16 * 1024,
    output_bytes_soft: 256 * 1024,
};

/// What connections need of the process.
pub struct Front {
    pub router: Router,
    /// Without it, every call goes through the router.
    pub fast: Option<Fast>,
    /// What takes plain requests of HTTP/1 before they go the long way.
    pub quick: Option<Quick>,
    /// Whom the connections of peers are handed to, on a port that they share with clients.
    pub peers: Option<Handle>,
    /// With it, nothing is heard that is not inside TLS.
    pub tls: Option<Tls>,
    /// The budget for requests that are not whole.
    pub intake: Arc<Intake>,
    /// The paths of calls that take a stream of messages: these are not whole before they end.
    pub streams: BTreeSet<String>,
    /// What browsers may do.
    pub browsers: Arc<BrowserGuard>,
}

/// Serves until `shutdown` ends, then lets calls under way finish.
pub async fn serve(front: Front, mut door: Door, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let front = Arc::new(front);
    let (stop, stopping) = watch::channel(false);
    // Each connection holds one end; when the other hears that all are gone, they are.
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
    // Whoever knocks from now on finds nobody, not even a closed door.
    drop((door, here));
    stop.send_replace(true);
    gone.recv().await;
    Ok(())
}

/// Ends when it is time to stop; a sender that was dropped says the same as one that was used.
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
        // It went away, said nothing for too long, or what it said is no protocol of ours.
        Err(error) => debug!(%error, "a client was not understood"),
    }
}

/// The handshake of TLS, and which protocol is spoken inside it.
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
            quick.serve(guest, &place, told(stopping.clone())).await.map(|(mut guest, heard)| {
                guest.unread(heard);
                guest
            })
        }
    };
    if let Some(guest) = unusual {
        http1::serve(guest, front, stopping).await;
    }
}

/// The guest, if it is not one that speaks WebSocket and has been served.
async fn without_sockets(mut guest: Guest, front: &Front) -> Option<Guest> {
    let place = guest.place().clone();
    let bounds = socket::Bounds { place: &place, intake: &front.intake, browsers: &front.browsers };
    let said = socket::serve(&mut guest, &front.router, bounds).await?;
    guest.unread(said);
    Some(guest)
}

impl Front {
    /// What stands for the name on the certificate of a client, where such names are those of users.
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
