//! Everything between the door and the services: each connection is greeted, and served by what it speaks.
//! HTTP/2 is spoken by one task per connection around our own machine (`connection`); the calls that matter most go
//! from there straight to the core and back (`fast`), all others through the router (`bridge`). HTTP/1 is hyper's.
//! After `shutdown` nothing new is accepted and what is under way is finished.

mod bridge;
mod callers;
mod clock;
mod connection;
mod fast;

pub use fast::Fast;

use crate::door::{Door, Guest};
use crate::gateway::socket;
use crate::rest::Quick;
use crate::serve::{Error, Tls};
use axum::Router;
use bytes::{Bytes, BytesMut};
use connection::Connection;
use http2::{Limits, PREFACE};
use server::Handle;
use server::peer::GREETINGS;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tracing::debug;

/// Of every HTTP/2 connection.
const LIMITS: Limits = Limits {
    // Requests and watches under way.
    streams_max: 4_096,
    // How much of a request is buffered ahead of its handler: a whole one of the default size.
    stream_window_bytes: 2 * 1024 * 1024,
    // The same for all requests of one connection together.
    connection_window_bytes: 8 * 1024 * 1024,
    header_list_bytes_max: 16 * 1024,
    output_bytes_soft: 256 * 1024,
};
/// Connections of HTTP/1 on their way to hyper, which takes them up at once.
const HTTP1_QUEUE: usize = 64;

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
}

/// Serves until `shutdown` ends, then lets calls under way finish.
pub async fn serve(front: Front, mut door: Door, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let front = Arc::new(front);
    let (stop, stopping) = watch::channel(false);
    let (http1, guests) = mpsc::channel::<io::Result<Guest>>(HTTP1_QUEUE);
    let http1_server = Server::builder()
        .accept_http1(true)
        .add_routes(Routes::from(front.router.clone()))
        .serve_with_incoming_shutdown(ReceiverStream::new(guests), told(stopping.clone()));
    let http1_server = tokio::spawn(http1_server);
    // Each connection holds one end; when the other hears that all are gone, they are.
    let (here, mut gone) = mpsc::channel::<Infallible>(1);
    tokio::pin!(shutdown);
    loop {
        let guest = tokio::select! {
            () = &mut shutdown => break,
            guest = door.next() => guest,
        };
        let Some(Ok(guest)) = guest else { continue };
        let (front, http1, stopping, here) = (front.clone(), http1.clone(), stopping.clone(), here.clone());
        tokio::spawn(async move {
            receive(guest, front, http1, stopping).await;
            drop(here);
        });
    }
    // Whoever knocks from now on finds nobody, not even a closed door.
    drop((door, here, http1));
    stop.send_replace(true);
    gone.recv().await;
    http1_server.await.expect("serving HTTP/1 does not panic")?;
    Ok(())
}

/// Ends when it is time to stop; a sender that was dropped says the same as one that was used.
async fn told(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

async fn receive(
    guest: Guest,
    front: Arc<Front>,
    http1: mpsc::Sender<io::Result<Guest>>,
    stopping: watch::Receiver<bool>,
) {
    let sealed = tokio::select! {
        sealed = seal(guest, front.tls.as_ref()) => sealed,
        () = told(stopping.clone()) => return,
    };
    let mut guest = match sealed {
        Ok(guest) => guest,
        Err(error) => return debug!(%error, "no TLS with a client"),
    };
    let tongue = tokio::select! {
        tongue = recognise(&mut guest, front.peers.is_some()) => tongue,
        () = told(stopping.clone()) => return,
    };
    match tongue {
        Ok(Tongue::Peer) => {
            if let (Some(peers), Ok(stream)) = (&front.peers, guest.into_blocking()) {
                peers.adopt_peer(stream);
            }
        }
        Ok(Tongue::Http2 { input }) => Connection::new(guest, input, front, stopping).serve().await,
        Ok(Tongue::Http1) => {
            let unusual = match &front.quick {
                None => without_sockets(guest, &front.router).await,
                Some(quick) => quick.serve(guest, told(stopping)).await.map(|(mut guest, heard)| {
                    guest.unread(heard);
                    guest
                }),
            };
            if let Some(guest) = unusual {
                // The server of HTTP/1 is gone only when all are to go.
                drop(http1.send(Ok(guest)).await);
            }
        }
        // It went away, or said nothing for too long.
        Err(_) => {}
    }
}

/// The guest, if it is not one that speaks WebSocket and has been served.
async fn without_sockets(mut guest: Guest, router: &Router) -> Option<Guest> {
    let said = socket::serve(&mut guest, router).await?;
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

enum Tongue {
    /// It said so, and perhaps more already.
    Http2 {
        input: BytesMut,
    },
    Http1,
    /// Another node of the cluster, or one that wants to be.
    Peer,
}

async fn recognise(guest: &mut Guest, may_be_peer: bool) -> io::Result<Tongue> {
    if may_be_peer && guest.begins_with(&GREETINGS).await? {
        return Ok(Tongue::Peer);
    }
    greet(guest).await
}

/// Listens until it is clear which protocol is spoken.
async fn greet(guest: &mut Guest) -> io::Result<Tongue> {
    let mut heard = BytesMut::new();
    loop {
        if heard.starts_with(PREFACE) {
            return Ok(Tongue::Http2 { input: heard.split_off(PREFACE.len()) });
        }
        if !PREFACE.starts_with(&heard) {
            guest.unread(heard.freeze());
            return Ok(Tongue::Http1);
        }
        if guest.read_buf(&mut heard).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
