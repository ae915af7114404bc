//! The sending side of one peer: dials, greets, writes what the outbox holds, and starts again when it breaks.
//! One thread writes; a second one, for as long as a stream lives, reads the acknowledgements that come
//! back, and so notices at once when the peer goes away.

use super::envelope;
use super::handshake::{self, HandshakeError, Hello, Verdict};
use super::pause::Backoff;
use super::security::PeerAuthStage;
use super::wire::PeerConn;
use super::writer::EnvelopeWriter;
use super::{Peer, PeerEvent, PeerShared, cut};
use base::checksum::hash64;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;
use tls::DialTls;

#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("the address cannot be resolved: {0}")]
    Resolve(io::Error),
    #[error("the address has no IP address")]
    NoAddress,
    #[error("no connection: {0}")]
    Connect(io::Error),
    #[error("this cluster has a secret, and shares none with that region (--region-secret)")]
    Barred,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// The thread of one peer, until the transport stops.
pub(super) fn run(shared: &PeerShared, peer: &Peer) {
    let id = peer.id;
    let seed = hash64(&shared.me.0.to_le_bytes(), id.0);
    let mut backoff = Backoff::new(&shared.timing, seed);
    let mut last_trouble = String::new();
    let over = || shared.stopping() || peer.is_gone();
    while !over() {
        match dial(shared, peer) {
            Ok(wire) => {
                tracing::info!(peer = id.0, address = peer.address, "connected to peer");
                last_trouble.clear();
                let start = Instant::now();
                serve(shared, peer, &wire);
                // A peer that accepts every stream and drops it at once does not shorten the backoff.
                if start.elapsed() > shared.timing.retry_max {
                    backoff.reset();
                }
            }
            Err(DialError::Handshake(HandshakeError::TurnedAway { verdict: Verdict::Removed, .. })) => {
                let _ = (peer.deliver(shared))(PeerEvent::Removed { by: id });
            }
            Err(error) => {
                let trouble = error.to_string();
                if trouble != last_trouble && !over() {
                    tracing::warn!(
                        peer = id.0,
                        address = peer.address,
                        error = trouble,
                        "cannot reach peer; retrying"
                    );
                    last_trouble = trouble;
                }
            }
        }
        if !over() {
            peer.pause.sleep(backoff.next());
        }
    }
}

fn dial(shared: &PeerShared, peer: &Peer) -> Result<PeerConn, DialError> {
    let addresses = peer.resolve().map_err(DialError::Resolve)?;
    let mut error = DialError::NoAddress;
    for address in addresses {
        match try_address(shared, peer, address) {
            Ok(wire) => return Ok(wire),
            Err(failed) => error = failed,
        }
    }
    Err(error)
}

/// While the cluster is being closed, a peer without the secret is spoken to unencrypted.
fn try_address(shared: &PeerShared, peer: &Peer, address: SocketAddr) -> Result<PeerConn, DialError> {
    let guard = shared.security.now();
    if guard.is_barred(peer.claim()) {
        return Err(DialError::Barred);
    }
    let dialled = try_with_tls(shared, peer, address, guard.dial(peer.claim(), &peer.address));
    match guard.stage {
        PeerAuthStage::Both if dialled.is_err() && peer.remote_region.is_none() => {
            try_with_tls(shared, peer, address, None)
        }
        _ => dialled,
    }
}

fn try_with_tls(
    shared: &PeerShared,
    peer: &Peer,
    address: SocketAddr,
    sealed: Option<DialTls>,
) -> Result<PeerConn, DialError> {
    let stream = TcpStream::connect_timeout(&address, shared.timing.connect).map_err(DialError::Connect)?;
    let greeted = send_hello(shared, peer, stream, sealed);
    if greeted.is_err() {
        // The copy kept for stopping would keep the connection open.
        peer.set_dialled(None);
    }
    Ok(greeted?)
}

fn send_hello(
    shared: &PeerShared,
    peer: &Peer,
    stream: TcpStream,
    sealed: Option<DialTls>,
) -> Result<PeerConn, HandshakeError> {
    peer.set_dialled(Some(stream.try_clone()?));
    if shared.stopping() || peer.is_gone() {
        cut(&stream);
    }
    stream.set_nodelay(true)?;
    let hello = Hello { cluster: shared.cluster, from: shared.me, to: peer.id };
    let wire = PeerConn::dial(stream, sealed, shared.timing.handshake)?;
    handshake::send_hello(&wire, hello, shared.timing.handshake)?;
    wire.socket().set_read_timeout(Some(shared.timing.silence))?;
    wire.socket().set_write_timeout(Some(shared.timing.silence))?;
    Ok(wire)
}

/// Uses one stream until it breaks.
fn serve(shared: &PeerShared, peer: &Peer, wire: &PeerConn) {
    let stream = wire.socket();
    peer.ping.reset();
    let Ok(copy) = stream.try_clone() else {
        peer.set_dialled(None);
        return cut(stream);
    };
    peer.unencrypted_to.store(wire.seal().is_none(), Ordering::SeqCst);
    let number = peer.outbox.open();
    *peer.writer() = Some(EnvelopeWriter::new(copy, wire.seal().cloned(), number));
    peer.counters.add_connect();
    if shared.stopping() || peer.is_gone() {
        peer.outbox.close(number);
    }
    let since = peer.link.dialled(peer.deliver(shared));
    let (wrote, watched) = thread::scope(|scope| {
        let watcher = thread::Builder::new()
            .name(format!("peer-acks-{:x}", peer.id.0))
            .spawn_scoped(scope, || watch(shared, peer, number, wire));
        let wrote = match &watcher {
            Ok(_) => write(shared, peer, number),
            Err(error) => Err(io::Error::new(error.kind(), "no thread for the acknowledgements")),
        };
        end(peer, number, stream);
        (wrote, watcher.map(|watcher| watcher.join()))
    });
    peer.set_dialled(None);
    peer.unencrypted_to.store(false, Ordering::SeqCst);
    *peer.writer() = None;
    if shared.stopping() || peer.is_gone() {
        return;
    }
    let read = if let Ok(Ok(ended)) = watched { Some(ended.to_string()) } else { None };
    let write = wrote.err().map(|error| error.to_string());
    tracing::warn!(peer = peer.id.0, address = peer.address, read, write, "lost stream to peer");
    peer.link.broke(shared, peer.deliver(shared), since);
}

/// Ends the stream for both of its threads.
fn end(peer: &Peer, number: u64, stream: &TcpStream) {
    cut(stream);
    peer.counters.add_dropped(peer.outbox.close(number));
}

/// Writes envelopes until the stream is closed or a write fails.
fn write(shared: &PeerShared, peer: &Peer, number: u64) -> io::Result<()> {
    let mut next_ping = Instant::now() + shared.timing.ping;
    while peer.outbox.wait(number, next_ping) {
        let mut writer = peer.writer();
        let Some(writer) = &mut *writer else { break };
        // What another thread has begun to write.
        writer.write(&peer.counters)?;
        writer.fill(&peer.outbox, true);
        let now = Instant::now();
        if now >= next_ping {
            next_ping = now + shared.timing.ping;
            peer.ping.sent(writer.fill_ping(), now);
        }
        writer.write(&peer.counters)?;
    }
    Ok(())
}

/// Reads acknowledgements until the stream ends, and then ends it for the writer too.
fn watch(shared: &PeerShared, peer: &Peer, number: u64, mut wire: &PeerConn) -> envelope::ReadError {
    let ended = loop {
        let mut end = [0; 8];
        match wire.read_exact(&mut end) {
            Ok(()) => {
                let end = u64::from_le_bytes(end);
                peer.outbox.acknowledged(number, end);
                if let Some(time) = peer.ping.acknowledged(end, Instant::now()) {
                    (shared.on_round_trip)(peer.id, time);
                }
            }
            Err(error) => break error.into(),
        }
    };
    end(peer, number, wire.socket());
    ended
}
