//! The peer transport: long-lived TCP streams between the members of a cluster, batched frames, checksums.
//! Frames (opaque bytes) go in through `send` and `send_bulk`; what the peers sent comes out as `Event`s on
//! the reader threads. Each member dials every other and sends only on the stream it has dialled; frames of
//! one stream arrive in order, whole and unchanged or not at all, and what a broken stream loses is not repeated.
//!
//! Threads block on sockets here, outside the async runtime, so that a heartbeat never queues behind the
//! work of clients.

mod accept;
mod address;
mod counters;
mod dial;
mod envelope;
mod handshake;
mod inbound;
mod link;
mod outbox;
mod pause;
mod pending;
mod ping;
pub(crate) mod question;
mod security;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use counters::PeerCounts;
pub use handshake::GREETINGS;
pub use question::QuestionSender;
pub use security::{PeerAuth, PeerAuthStage, SharedPeerAuth};

use crate::audit::Audit;
use crate::peer::counters::PeerCounters;
use crate::peer::inbound::Inbound;
use crate::peer::link::Link;
use crate::peer::outbox::Outbox;
use crate::peer::pause::InterruptibleSleep;
use crate::peer::writer::EnvelopeWriter;
use base::{ClusterId, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};
use tls::PeerClaim;

pub struct PeerParams {
    pub cluster: ClusterId,
    pub me: NodeId,
    /// Already bound, so that the caller reports a taken port; none if the client port accepts peers and hands over
    /// their connections.
    pub listen: Option<TcpListener>,
    /// The other members, each with its `host:port`, which is resolved at each attempt.
    pub peers: Vec<(NodeId, String)>,
    pub timing: Timing,
    /// How connections are encrypted, and what the other side must prove.
    pub security: Arc<SharedPeerAuth>,
    /// Streams from this machine may be any member's, while members prove nothing to each other.
    pub trusts_this_machine: bool,
    /// Called once for each ping with its round-trip time.
    pub on_round_trip: OnRoundTrip,
    /// Answers nodes that want to join.
    pub on_question: OnQuestion,
    /// Records streams that are refused.
    pub audit: Option<Audit>,
}

/// The bytes of a request go in, with what is known of its sender; those of the response come out.
pub type OnQuestion = Arc<dyn Fn(Bytes, &QuestionSender<'_>) -> Bytes + Send + Sync>;

pub type OnRoundTrip = Arc<dyn Fn(NodeId, Duration) + Send + Sync>;

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub connect: Duration,
    /// For the whole handshake, however slowly its bytes come.
    pub handshake: Duration,
    /// How often a stream proves that it is alive.
    pub ping: Duration,
    /// A stream without a received byte for so long, in either direction, is given up. The kernel alone would
    /// keep trying for minutes, and after a partition for as long again as the partition lasted.
    pub silence: Duration,
    /// Before the first new attempt; each further one waits twice as long.
    pub retry_first: Duration,
    pub retry_max: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            connect: Duration::from_secs(1),
            handshake: Duration::from_secs(5),
            ping: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            retry_first: Duration::from_millis(10),
            retry_max: Duration::from_millis(500),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// In the order in which the peer sent them. The frames of one event share an allocation.
    Frames { from: NodeId, frames: Vec<Bytes> },
    /// Our stream to the peer is up: `send` works from here on.
    Connected { peer: NodeId },
    /// A stream from or to the peer broke, reported once until a stream is up again. A stream that a newer one
    /// of the same peer replaced is not a loss.
    Lost { peer: NodeId },
    /// A peer says that this member was removed from the cluster.
    Removed { by: NodeId },
    /// A peer's stream held bytes that are no envelope, and is closed.
    Damaged { peer: NodeId },
}

/// Why the stream of a peer is closed: it held a frame that no peer sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgedFrame(pub &'static str);

/// Called on the transport's threads. It may block, which holds back that peer (and, for longer than
/// `Timing::silence`, costs the stream); it must not block for ever once the transport is being stopped.
/// An answer other than `Ok` to `Event::Frames` closes the stream that the frames came on.
pub type Deliver = Arc<dyn Fn(PeerEvent) -> Result<(), ForgedFrame> + Send + Sync>;

/// A node of another cluster that this one exchanges frames with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionNode {
    pub cluster: ClusterId,
    /// The name of its region.
    pub region: String,
    pub id: NodeId,
    pub address: String,
}

/// Names one stream to a peer, so that a transfer in many pieces notices that the stream was exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTicket {
    pub peer: NodeId,
    stream: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    #[error("the stream to the peer broke")]
    Lost,
    #[error("the peer did not take the bytes in time")]
    Deadline,
}

/// The running transport. Dropping it stops it.
pub struct Peers {
    shared: Arc<PeerShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct PeerShared {
    cluster: ClusterId,
    me: NodeId,
    timing: Timing,
    security: Arc<SharedPeerAuth>,
    trusts_this_machine: bool,
    deliver: Deliver,
    on_round_trip: OnRoundTrip,
    on_question: OnQuestion,
    listen: Option<TcpListener>,
    pending: pending::PendingConns,
    audit: Option<Audit>,
    peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
    /// Former members, which are turned away for good.
    removed: RwLock<BTreeSet<NodeId>>,
    stopping: AtomicBool,
}

/// What is known of a node of another cluster.
struct RemoteRegion {
    cluster: ClusterId,
    region: String,
    deliver: Deliver,
}

/// Everything about one other member, or one node of another cluster.
struct Peer {
    id: NodeId,
    address: String,
    /// Its region and its handler, if it is of another cluster.
    remote_region: Option<RemoteRegion>,
    /// Whether the stream from the peer, and the one to it, is up without encryption.
    unencrypted_from: AtomicBool,
    unencrypted_to: AtomicBool,
    /// The IP addresses of its last lookup.
    resolved: Mutex<Vec<IpAddr>>,
    outbox: Outbox,
    /// The stream we dialled, so that stopping can cut it off.
    dialled: Mutex<Option<TcpStream>>,
    /// Writes to it.
    writer: Mutex<Option<EnvelopeWriter>>,
    inbound: Inbound,
    link: Link,
    /// Between two attempts to dial.
    pause: InterruptibleSleep,
    counters: PeerCounters,
    ping: ping::Ping,
    /// The peer no longer belongs to the cluster, or has another address: its threads end.
    gone: AtomicBool,
}

impl Peers {
    pub fn start(params: PeerParams, deliver: Deliver) -> io::Result<Peers> {
        let PeerParams { cluster, me, listen, peers, timing, security, .. } = params;
        let PeerParams { trusts_this_machine, on_round_trip, on_question, audit, .. } = params;
        assert!(timing.ping < timing.silence, "a ping must come before silence is declared");
        let shared = Arc::new(PeerShared {
            cluster,
            me,
            timing,
            security,
            trusts_this_machine,
            deliver,
            on_round_trip,
            on_question,
            audit,
            listen,
            pending: pending::PendingConns::default(),
            peers: RwLock::default(),
            removed: RwLock::default(),
            stopping: AtomicBool::new(false),
        });
        // Built first, so that threads already started are stopped if a later one cannot be.
        let running = Peers { shared: shared.clone(), threads: Mutex::default() };
        running.set_peers(peers)?;
        // Last: a peer that greets before it is known would be refused as a stranger.
        if shared.listen.is_some() {
            running.spawn("peer-accept".into(), move || accept::run(&shared))?;
        }
        Ok(running)
    }

    fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut threads = self.threads.lock().expect("no thread panics while it holds the others");
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread::Builder::new().name(name).spawn(body)?);
        Ok(())
    }

    /// Takes over a connection that the client port has accepted, and that begins with one of `greetings`.
    pub fn adopt(&self, stream: TcpStream) -> io::Result<()> {
        let remote = stream.peer_addr()?;
        let connection = accept::begin(&self.shared, stream, remote)?;
        let mut threads = self.threads.lock().expect("no thread panics while it holds the others");
        threads.retain(|thread| !thread.is_finished());
        threads.push(connection);
        Ok(())
    }

    /// Replaces the list of the other members: new ones are dialled, missing or moved ones are dropped.
    pub fn set_peers(&self, peers: Vec<(NodeId, String)>) -> io::Result<()> {
        assert!(peers.iter().all(|(id, _)| *id != self.shared.me), "a member is not its own peer");
        let mut known = self.shared.write_peers();
        // An id that a node of another cluster has as well belongs to this cluster's member.
        let is_ours =
            |peer: &Peer| peer.remote_region.is_none() || peers.iter().any(|(id, _)| *id == peer.id);
        let stays =
            |peer: &Peer| peer.remote_region.is_none() && peers.contains(&(peer.id, peer.address.clone()));
        for (_, peer) in known.extract_if(.., |_, peer| is_ours(peer) && !stays(peer)) {
            peer.leave();
        }
        for (id, address) in peers {
            if !known.contains_key(&id) {
                self.dial(&mut known, Peer::new(id, address, None))?;
            }
        }
        Ok(())
    }

    /// The same for nodes of other clusters: they are dialled and listened to, and their events go to
    /// `deliver` alone. A node with the id of a member is left out.
    pub fn set_region_nodes(&self, nodes: &[RegionNode], deliver: &Deliver) -> io::Result<()> {
        let mut known = self.shared.write_peers();
        let listed = |peer: &Peer, cluster: ClusterId| {
            nodes.iter().any(|one| (one.cluster, one.id, &one.address) == (cluster, peer.id, &peer.address))
        };
        let leaves = |peer: &Peer| {
            peer.remote_region.as_ref().is_some_and(|remote_region| !listed(peer, remote_region.cluster))
        };
        for (_, peer) in known.extract_if(.., |_, peer| leaves(peer)) {
            peer.leave();
        }
        for one in nodes.iter().filter(|one| one.id != self.shared.me) {
            if !known.contains_key(&one.id) {
                let RegionNode { cluster, region, id, address } = one.clone();
                let remote_region = Some(RemoteRegion { cluster, region, deliver: deliver.clone() });
                self.dial(&mut known, Peer::new(id, address, remote_region))?;
            }
        }
        Ok(())
    }

    fn dial(&self, known: &mut BTreeMap<NodeId, Arc<Peer>>, peer: Peer) -> io::Result<()> {
        let peer = Arc::new(peer);
        known.insert(peer.id, peer.clone());
        let shared = self.shared.clone();
        self.spawn(format!("peer-to-{:x}", peer.id.0), move || dial::run(&shared, &peer))
    }

    /// These are turned away when they dial, as removed from the cluster.
    pub fn set_removed(&self, removed: BTreeSet<NodeId>) {
        *self.shared.removed.write().expect("no thread panics while it holds the removed") = removed;
    }

    /// Queues frames for a peer; never blocks. False when the peer is not connected or its queue is full:
    /// then none of the frames will be sent, and raft repeats what matters.
    pub fn send(&self, to: NodeId, frames: Vec<Bytes>) -> bool {
        self.shared.peer(to).is_some_and(|peer| peer.send(frames, true))
    }

    /// The same, and writes the frames on this thread if the socket takes them: for few and small frames, which would wait
    /// longer for the peer's thread to wake than they take to write.
    pub fn send_at_once(&self, to: NodeId, frames: Vec<Bytes>) -> bool {
        let Some(peer) = self.shared.peer(to) else { return false };
        let small = frames.iter().map(Bytes::len).sum::<usize>() <= AT_ONCE_BYTES_MAX;
        let queued = peer.send(frames, !small);
        if queued && small {
            peer.write_at_once();
        }
        queued
    }

    /// The same for frames of the data plane, which wait behind the others; what is refused is lost.
    pub fn send_data(&self, to: NodeId, frames: Vec<Bytes>) -> bool {
        let Some(peer) = self.shared.peer(to) else { return false };
        let (count, small) =
            (frames.len(), frames.iter().map(Bytes::len).sum::<usize>() <= AT_ONCE_BYTES_MAX);
        let queued = peer.outbox.send_data(frames, !small);
        if !queued {
            peer.counters.add_refused(count);
        } else if small {
            peer.write_at_once();
        }
        queued
    }

    /// A ticket for the stream that is open to the peer now.
    pub fn ticket(&self, peer: NodeId) -> Option<StreamTicket> {
        let stream = self.shared.peer(peer)?.outbox.stream()?;
        Some(StreamTicket { peer, stream })
    }

    /// For bulk, at most `ENVELOPE_BYTES_SOFT` at a time: blocks until there is space behind the urgent
    /// frames. Success means queued; pieces of one ticket arrive in order, without gaps, until `Lost`.
    pub fn send_bulk(&self, ticket: StreamTicket, frame: Bytes, deadline: Instant) -> Result<(), BulkError> {
        let peer = self.shared.peer(ticket.peer).ok_or(BulkError::Lost)?;
        peer.outbox.send_bulk(ticket.stream, frame, deadline)
    }

    /// Whether our stream to the peer is up.
    pub fn connected(&self, peer: NodeId) -> bool {
        self.ticket(peer).is_some()
    }

    /// For how long our stream to the peer has been up.
    pub fn connected_for(&self, peer: NodeId) -> Option<Duration> {
        let peer = self.shared.peer(peer)?;
        peer.outbox.stream()?;
        peer.counters.connected_for()
    }

    /// Closes the stream that comes from a peer, which sent what no peer sends. It may dial again.
    pub fn close_from(&self, peer: NodeId, reason: &'static str) {
        let Some(peer) = self.shared.peer(peer) else { return };
        // The frames behind the first one find the stream closed already.
        if peer.inbound.close() {
            tracing::warn!(peer = peer.id.0, reason, "closed peer stream: invalid frame");
        }
    }

    /// The members with which frames are exchanged unencrypted now.
    pub fn in_the_clear(&self) -> Vec<NodeId> {
        let is_clear =
            |peer: &&Arc<Peer>| peer.unencrypted_from.load(Ordering::SeqCst) || peer.is_unencrypted_to();
        self.shared.read_peers().values().filter(is_clear).map(|peer| peer.id).collect()
    }

    /// Closes one unencrypted stream to a member, so that it is dialled again. One at a time, so that a leader never loses
    /// all its followers.
    pub fn redial_one_unencrypted(&self) {
        let clear = self.shared.read_peers().values().find(|peer| peer.is_unencrypted_to()).cloned();
        if let Some(stream) = clear.and_then(|peer| peer.outbox.stream().map(|stream| (peer, stream))) {
            stream.0.outbox.close(stream.1);
        }
    }

    /// Ends all unencrypted streams, but those of other regions.
    pub fn cut_unencrypted(&self) {
        for peer in self.shared.read_peers().values().filter(|peer| peer.remote_region.is_none()) {
            if peer.unencrypted_from.load(Ordering::SeqCst) || peer.is_unencrypted_to() {
                peer.cut();
            }
        }
    }

    /// The counts of each peer.
    pub fn counters(&self) -> Vec<(NodeId, PeerCounts)> {
        self.shared.read_peers().values().map(|peer| (peer.id, peer.counters.read())).collect()
    }

    /// Closes all sockets and delivers nothing more; dropping this waits for the threads.
    pub fn halt(&self) {
        self.shared.halt();
    }

    /// Closes all sockets and waits for all threads: at most for a name or a connection attempt under way.
    /// No `Lost` is reported for streams that are closed here.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.shared.halt();
        let threads = mem::take(self.threads.get_mut().expect("no thread panics while it holds the others"));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the peer transport panicked");
            }
        }
    }
}

/// More than this is left to the peer's thread, which may have another core.
const AT_ONCE_BYTES_MAX: usize = 16 * 1024;
/// How many envelopes a sender writes in a row in the place of the peer's thread.
const AT_ONCE_ENVELOPES_MAX: usize = 4;

impl Peer {
    fn new(id: NodeId, address: String, remote_region: Option<RemoteRegion>) -> Peer {
        Peer {
            id,
            address,
            remote_region,
            unencrypted_from: AtomicBool::new(false),
            unencrypted_to: AtomicBool::new(false),
            resolved: Mutex::default(),
            outbox: Outbox::new(),
            dialled: Mutex::default(),
            writer: Mutex::default(),
            inbound: Inbound::new(),
            link: Link::new(id),
            pause: InterruptibleSleep::new(),
            counters: PeerCounters::default(),
            ping: ping::Ping::default(),
            gone: AtomicBool::new(false),
        }
    }

    fn cluster(&self, shared: &PeerShared) -> ClusterId {
        self.remote_region.as_ref().map_or(shared.cluster, |remote_region| remote_region.cluster)
    }

    /// The handler of its events.
    fn deliver<'a>(&'a self, shared: &'a PeerShared) -> &'a Deliver {
        self.remote_region.as_ref().map_or(&shared.deliver, |remote_region| &remote_region.deliver)
    }

    /// What a node must prove to speak for this peer.
    fn claim(&self) -> PeerClaim<'_> {
        match &self.remote_region {
            None => PeerClaim::Member { id: self.id.0, address: &self.address },
            Some(remote_region) => {
                PeerClaim::Region { name: &remote_region.region, address: Some(&self.address) }
            }
        }
    }

    fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = self.address.to_socket_addrs()?.collect();
        let addresses = found.iter().map(|address| address.ip().to_canonical()).collect();
        *self.resolved.lock().expect("no thread panics while it holds addresses") = addresses;
        Ok(found)
    }

    fn is_unencrypted_to(&self) -> bool {
        self.remote_region.is_none() && self.unencrypted_to.load(Ordering::SeqCst)
    }

    /// Where its address led when it was last looked up.
    fn addresses(&self) -> Vec<IpAddr> {
        self.resolved.lock().expect("no thread panics while it holds addresses").clone()
    }

    fn writer(&self) -> MutexGuard<'_, Option<EnvelopeWriter>> {
        self.writer.lock().expect("no thread panics while it writes")
    }

    fn send(&self, frames: Vec<Bytes>, wake: bool) -> bool {
        let count = frames.len();
        let queued = self.outbox.send(frames, wake);
        if !queued {
            self.counters.add_refused(count);
        }
        queued
    }

    /// Unless another thread is writing: then that thread writes these as well.
    fn write_at_once(&self) {
        for _ in 0..AT_ONCE_ENVELOPES_MAX {
            let Ok(mut guard) = self.writer.try_lock() else { return };
            let Some(writer) = &mut *guard else { break };
            if writer.is_done() {
                writer.fill(&self.outbox, false);
            }
            let done = writer.is_done() || writer.write_at_once(&self.counters);
            // Before the outbox is checked again: a later sender finds the writer free.
            drop(guard);
            if done && !self.outbox.has_ready() {
                return;
            }
            if !done {
                break;
            }
        }
        self.outbox.call_writer();
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Wakes every thread that waits for this peer, and ends its streams.
    fn cut(&self) {
        self.pause.interrupt();
        self.inbound.cut();
        if let Some(stream) = &*self.dialled.lock().expect("no thread panics while it holds a socket") {
            cut(stream);
        }
        if let Some(stream) = self.outbox.stream() {
            self.outbox.close(stream);
        }
    }

    /// Remembers the stream we dialled, or forgets it.
    fn set_dialled(&self, stream: Option<TcpStream>) {
        *self.dialled.lock().expect("no thread panics while it holds a socket") = stream;
    }
}

impl PeerShared {
    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Wakes every thread. A thread that registers a socket checks `stopping` afterwards, so
    /// that none is missed between the two.
    fn halt(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.listen.as_ref().inspect(|listen| accept::wake(listen));
        self.pending.cut_all();
        self.read_peers().values().for_each(|peer| peer.cut());
    }

    fn peer(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.read_peers().get(&id).cloned()
    }

    fn read_peers(&self) -> RwLockReadGuard<'_, BTreeMap<NodeId, Arc<Peer>>> {
        self.peers.read().expect("no thread panics while it holds the peers")
    }

    fn write_peers(&self) -> RwLockWriteGuard<'_, BTreeMap<NodeId, Arc<Peer>>> {
        self.peers.write().expect("no thread panics while it holds the peers")
    }

    /// Whether a connection that claims to be a peer's comes from a member's address. Connections from this machine
    /// do: their source address depends on the route.
    /// Whether the address is that of a node of the peer's own cluster.
    fn is_address_beside(&self, peer: &Peer, remote: IpAddr) -> bool {
        let nodes = || {
            let peers = self.read_peers();
            let nodes = peers.values().filter(|other| other.cluster(self) == peer.cluster(self));
            nodes.flat_map(|node| node.addresses()).collect::<Vec<IpAddr>>()
        };
        let is_let_in = || address::is_of_a_member(remote, &nodes(), self.trusts_this_machine);
        // Its name may have moved since it was last looked up.
        is_let_in() || peer.resolve().is_ok() && is_let_in()
    }

    fn is_removed(&self, id: NodeId) -> bool {
        self.removed.read().expect("no thread panics while it holds the removed").contains(&id)
    }
}

/// Ends a stream for every thread that uses it. It may be closed already.
fn cut(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}
