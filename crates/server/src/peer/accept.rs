//! The receiving side: accepts connections, refuses those that are no peer's, and reads the envelopes of peers.
//! One thread accepts; each connection gets one for its handshake, which then reads the stream. Unknown clients
//! hold a bounded number of them for a bounded time (`pending`).

use super::envelope::{self, ReadError};
use super::handshake::{self, HandshakeError, Hello, Verdict};
use super::security::PeerAuth;
use super::wire::PeerConn;
use super::{ForgedFrame, Peer, PeerEvent, PeerShared, cut, question};
use crate::audit::{AuditClass, AuditEntry, AuditOutcome};
use std::io::{self, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A peer's bytes are acknowledged when this many have come since the last time; a ping is always.
const ACKNOWLEDGE_BYTES: u64 = 64 * 1024;
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// After an error of `accept` itself, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// The accepting thread, until the transport stops; it waits for the threads of its connections.
pub(super) fn run(shared: &Arc<PeerShared>) {
    let mut connections: Vec<JoinHandle<()>> = Vec::new();
    let listen = shared.listen.as_ref().expect("the accepting thread has a port");
    loop {
        let accepted = listen.accept();
        if shared.stopping() {
            break;
        }
        connections.retain(|connection| !connection.is_finished());
        match accepted.and_then(|(stream, remote)| begin(shared, stream, remote)) {
            Ok(connection) => connections.push(connection),
            Err(error) => {
                if shared.pending.is_new_error(&error.to_string()) {
                    tracing::warn!(%error, "cannot accept a peer connection");
                }
                thread::sleep(ACCEPT_RETRY);
            }
        }
    }
    shared.pending.cut_all();
    for connection in connections {
        if connection.join().is_err() {
            tracing::error!("a reader of the peer transport panicked");
        }
    }
}

/// Ends a blocking `accept`, which nothing but a connection does.
pub(super) fn wake(listen: &TcpListener) {
    let Ok(mut address) = listen.local_addr() else { return };
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    if let Err(error) = TcpStream::connect_timeout(&address, WAKE_TIMEOUT) {
        tracing::warn!(%error, "cannot wake the accepting thread; it ends with the next connection");
    }
}

pub(super) fn begin(
    shared: &Arc<PeerShared>,
    stream: TcpStream,
    remote: SocketAddr,
) -> io::Result<JoinHandle<()>> {
    let stream = Arc::new(stream);
    let slot = shared.pending.enter(&stream, remote.ip());
    let reader = shared.clone();
    thread::Builder::new().name("peer-read".into()).spawn(move || {
        let guard = reader.security.now();
        let wire = PeerConn::accept(stream, guard.tls.as_deref(), reader.timing.handshake);
        let greeted = wire.map_err(HandshakeError::from).map(|wire| {
            let caller = IncomingConn { wire: &wire, guard: &guard, remote: remote.ip().to_canonical() };
            (receive_hello(&reader, &caller), wire)
        });
        match greeted {
            Ok((Ok(peer), wire)) => {
                drop(slot);
                serve(&reader, &peer, &wire, remote);
            }
            Ok((Err(HandshakeError::Question), wire)) => question::answer(&reader, &wire, &guard, &slot),
            Ok((Err(error), _)) | Err(error) => turn_away(&reader, &error, remote),
        }
    })
}

/// A connection before its handshake.
struct IncomingConn<'a> {
    wire: &'a PeerConn,
    guard: &'a PeerAuth,
    remote: IpAddr,
}

fn receive_hello(shared: &PeerShared, caller: &IncomingConn<'_>) -> Result<Arc<Peer>, HandshakeError> {
    caller.wire.socket().set_nodelay(true)?;
    let check = |hello: &Hello| check_hello(shared, hello, caller);
    let (hello, verdict) = handshake::receive(caller.wire, shared.timing.handshake, check)?;
    match (verdict, shared.peer(hello.from)) {
        (Verdict::Welcome, Some(peer)) => Ok(peer),
        _ => Err(HandshakeError::TurnedAway { verdict, version: handshake::VERSION }),
    }
}

fn check_hello(shared: &PeerShared, hello: &Hello, caller: &IncomingConn<'_>) -> Verdict {
    let known = shared.peer(hello.from);
    let comes_from_there = |peer: &Arc<Peer>| peer.cluster(shared) == hello.cluster;
    if hello.cluster != shared.cluster && !known.as_ref().is_some_and(comes_from_there) {
        Verdict::WrongCluster
    } else if hello.to != shared.me {
        Verdict::WrongMember
    } else if shared.is_removed(hello.from) {
        Verdict::Removed
    } else {
        match known.filter(comes_from_there) {
            Some(peer) => check_proof(shared, &peer, caller),
            None => Verdict::UnknownMember,
        }
    }
}

fn check_proof(shared: &PeerShared, peer: &Peer, caller: &IncomingConn<'_>) -> Verdict {
    let claim = peer.claim();
    if !caller.guard.admits(caller.wire, claim) {
        let has_shown = caller.wire.certificates(|certificates| !certificates.is_empty());
        if has_shown { Verdict::NotNamed } else { Verdict::NotProven }
    } else if !caller.guard.proves(caller.wire, claim) && !shared.is_address_beside(peer, caller.remote) {
        Verdict::OtherAddress
    } else {
        Verdict::Welcome
    }
}

fn turn_away(shared: &PeerShared, error: &HandshakeError, remote: SocketAddr) {
    let trouble = format!("{}: {error}", remote.ip());
    if !shared.stopping() && shared.pending.is_new_error(&trouble) {
        tracing::warn!(%remote, %error, "refused a connection to the peer port");
        if let Some(audit) = &shared.audit {
            audit.record(refused_stream(remote, error));
        }
    }
}

fn refused_stream(remote: SocketAddr, error: &HandshakeError) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditClass::Change, "peer", "stream");
    entry.address = Some(remote);
    entry.end(AuditOutcome::Refused, error.name());
    entry
}

/// Reads one stream of a peer until it ends or a newer one takes its place.
fn serve(shared: &PeerShared, peer: &Peer, wire: &PeerConn, remote: SocketAddr) {
    let stream = wire.socket();
    let turn = match peer.inbound.take_turn(stream) {
        Ok(Some(turn)) if !shared.stopping() && !peer.is_gone() => turn,
        _ => return cut(stream),
    };
    let since = peer.link.accepted();
    // Only members count; regions have secrets of their own.
    peer.unencrypted_from.store(peer.remote_region.is_none() && wire.seal().is_none(), Ordering::SeqCst);
    // The peer runs, so there is no reason to wait longer before dialling it.
    peer.pause.interrupt();
    let ended = read(shared, peer, wire);
    peer.unencrypted_from.store(false, Ordering::SeqCst);
    cut(stream);
    if ended.is_damage() {
        let _ = (peer.deliver(shared))(PeerEvent::Damaged { peer: peer.id });
    }
    if let ReadError::Forged(reason) = ended {
        tracing::warn!(
            peer = peer.id.0,
            %remote,
            reason,
            "closed peer stream: invalid frame"
        );
    }
    if turn.replaced() || shared.stopping() || peer.is_gone() {
        return;
    }
    if !matches!(ended, ReadError::Forged(_)) {
        tracing::warn!(peer = peer.id.0, %remote, reason = %ended, "lost stream from peer");
    }
    // Reported before the turn is over, so that the event of the next stream cannot overtake it.
    peer.link.broke(shared, peer.deliver(shared), since);
    drop(turn);
}

fn read(shared: &PeerShared, peer: &Peer, wire: &PeerConn) -> ReadError {
    let (stream, silence) = (wire.socket(), Some(shared.timing.silence));
    if let Err(error) = stream.set_read_timeout(silence).and_then(|()| stream.set_write_timeout(silence)) {
        return ReadError::Io(error);
    }
    let mut input = BufReader::with_capacity(READ_BUFFER_BYTES, wire);
    let mut receipt = Acknowledger { wire, received: 0, acknowledged: 0 };
    loop {
        let before = receipt.received;
        let frames = match envelope::read(&mut input, &mut |bytes| receipt.add(bytes)) {
            Ok(frames) => frames,
            Err(error) => return error,
        };
        peer.counters.add_received(frames.len(), receipt.received - before);
        if frames.is_empty() {
            if let Err(error) = receipt.acknowledge() {
                return ReadError::Io(error);
            }
        } else if let Err(ForgedFrame(reason)) =
            (peer.deliver(shared))(PeerEvent::Frames { from: peer.id, frames })
        {
            return ReadError::Forged(reason);
        }
    }
}

/// Acknowledges how far the peer's stream was read.
struct Acknowledger<'a> {
    wire: &'a PeerConn,
    received: u64,
    acknowledged: u64,
}

impl Acknowledger<'_> {
    fn add(&mut self, bytes: usize) -> io::Result<()> {
        self.received += bytes as u64;
        if self.received - self.acknowledged >= ACKNOWLEDGE_BYTES { self.acknowledge() } else { Ok(()) }
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        self.acknowledged = self.received;
        self.wire.write_all(&self.received.to_le_bytes())
    }
}
