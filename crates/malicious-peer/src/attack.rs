//! The attack: connections to all members, as another member, as a node of another region and as a stranger, each with frames and
//! bytes that the forge makes; until so many frames were sent or the time is over. Each member has its own thread that lies to it.
//! A member hears one liar only: two of three that say the same are a majority, which members believe.

use crate::cluster::{Cluster, HERE, ObservedStatus, THERE, Trouble};
use crate::connection::{Connection, Hello, envelope, header};
use crate::forge::{AttackFacts, Forge};
use base::NodeId;
use bytes::Bytes;
use fuzz_targets::forged_mesh;
use mesh::{Epoch, Member, MemberState, NamespaceCopies, RegionId, Topology};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How often the members are asked where they stand.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const FRAMES_PER_ENVELOPE: u64 = 256;
const ENVELOPES_PER_CONNECTION: usize = 16;
/// Until the members are looked at again, or the attack is over.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttackCounts {
    pub frames: u64,
    pub connections: u64,
    /// Closed by the member while frames were sent.
    pub closed: u64,
    /// Of strangers, which are turned away.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub frames: u64,
    pub time: Duration,
}

/// Lies to all members until the limit; `tell` hears of progress now and then.
pub fn attack(
    cluster: &mut Cluster,
    seed: u64,
    limit: Limit,
    mut tell: impl FnMut(&AttackCounts),
) -> Result<AttackCounts, Trouble> {
    let shared = AttackState::default();
    shared.look(cluster)?;
    let peers: Vec<SocketAddr> = cluster.members.iter().map(|member| member.peer).collect();
    let ended = thread::scope(|scope| {
        for target in 0..peers.len() {
            let forge = Forge::new(base::rng::mix(seed ^ (target as u64) << 32));
            let mut liar = Liar { target, peers: &peers, shared: &shared, forge };
            scope.spawn(move || liar.run());
        }
        let watched = shared.watch(cluster, limit, &mut tell);
        shared.is_over.store(true, Ordering::Relaxed);
        watched
    });
    ended?;
    cluster.find_ended()?;
    Ok(shared.counts())
}

/// What the threads share: what is known of the members, and what was sent.
#[derive(Default)]
struct AttackState {
    known: Mutex<Vec<Known>>,
    is_over: AtomicBool,
    frames: AtomicU64,
    connections: AtomicU64,
    closed: AtomicU64,
    refused: AtomicU64,
}

#[derive(Clone, Copy)]
struct Known {
    status: ObservedStatus,
    epoch: u64,
}

impl AttackState {
    fn counts(&self) -> AttackCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AttackCounts {
            frames: of(&self.frames),
            connections: of(&self.connections),
            closed: of(&self.closed),
            refused: of(&self.refused),
        }
    }

    fn known(&self) -> Vec<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn watch(
        &self,
        cluster: &mut Cluster,
        limit: Limit,
        tell: &mut impl FnMut(&AttackCounts),
    ) -> Result<(), Trouble> {
        let end = Instant::now() + limit.time;
        let mut looked = Instant::now();
        while self.counts().frames < limit.frames && Instant::now() < end {
            if looked.elapsed() >= LOOK_EVERY {
                self.look(cluster)?;
                looked = Instant::now();
                tell(&self.counts());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn look(&self, cluster: &mut Cluster) -> Result<(), Trouble> {
        cluster.find_ended()?;
        let before = self.known();
        let mut known = Vec::new();
        for (nth, member) in cluster.members.iter().enumerate() {
            // One that is busy says nothing, and is taken to stand where it stood.
            let before = before.get(nth);
            let status = member.endpoints.status().or(before.map(|known| known.status));
            let status = status.ok_or(Trouble("a member does not say where it stands".into()))?;
            let epoch = member.endpoints.epoch().or(before.map(|known| known.epoch)).unwrap_or(1);
            known.push(Known { status, epoch });
        }
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }
}

/// Lies to one member.
struct Liar<'a> {
    target: usize,
    peers: &'a [SocketAddr],
    shared: &'a AttackState,
    forge: Forge,
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

impl Liar<'_> {
    fn run(&mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            self.attack_once();
        }
    }

    fn attack_once(&mut self) {
        let known = self.shared.known();
        count(&self.shared.connections, 1);
        match self.forge.rng().between(0, 20) {
            0 => self.as_stranger(known[self.target].status),
            1 => self.with_bytes(&known),
            2..=5 => self.with_frames(&known, true),
            _ => self.with_frames(&known, false),
        }
    }

    /// The member of whose name the target hears lies, in its own region or the other.
    fn liar(&self, remote: bool) -> usize {
        match (self.target, remote) {
            (3, _) => 0,
            (_, true) => 3,
            (target, false) => (target + 2) % 3,
        }
    }

    fn greeted(&mut self, known: &[Known], remote: bool) -> Option<Connection> {
        let liar = known[self.liar(remote)].status;
        let hello = Hello { cluster: liar.cluster, from: liar.id, to: known[self.target].status.id };
        let mut connection = Connection::open(self.peers[self.target]).ok()?;
        match connection.greet(&hello) {
            Ok(true) => Some(connection),
            _ => {
                count(&self.shared.refused, 1);
                None
            }
        }
    }

    fn with_frames(&mut self, known: &[Known], remote: bool) {
        let remote = remote || self.target == 3;
        let facts = self.facts(known, remote);
        let Some(mut connection) = self.greeted(known, remote) else { return };
        for _ in 0..ENVELOPES_PER_CONNECTION {
            let n_frames = self.forge.rng().between(1, FRAMES_PER_ENVELOPE) as usize;
            let frames = if remote {
                self.forge.remote_frames(&facts, n_frames)
            } else {
                self.forge.frames(&facts, n_frames)
            };
            let sent = connection.send(&frames);
            if sent.is_ok() {
                count(&self.shared.frames, frames.len() as u64);
            }
            if sent.and_then(|()| connection.wait_until_read()).is_err() {
                count(&self.shared.closed, 1);
                return;
            }
        }
    }

    /// Bytes that are no envelopes, behind a right hello.
    fn with_bytes(&mut self, known: &[Known]) {
        let bytes = self.no_envelope();
        let Some(mut connection) = self.greeted(known, self.target == 3) else { return };
        count(&self.shared.frames, 1);
        let sent = connection.send_raw(&bytes);
        if sent.and_then(|()| connection.wait_until_closed()).is_err() {
            count(&self.shared.closed, 1);
        }
    }

    fn no_envelope(&mut self) -> Vec<u8> {
        let rng = self.forge.rng();
        let noise: Vec<u8> = (0..rng.between(1, 2_000)).map(|_| rng.next_u64() as u8).collect();
        let mut whole = envelope(&[Bytes::from(noise.clone())]);
        match rng.between(0, 6) {
            0 => noise,
            // A length beyond every bound, and one that is never reached.
            1 => header(u32::MAX, 7),
            2 => [header(60 << 20, 7), noise].concat(),
            // Cut in the midst, damaged, and too many frames.
            3 => {
                whole.truncate(rng.between(1, whole.len() as u64) as usize);
                whole
            }
            4 => {
                let at = rng.between(0, whole.len() as u64) as usize;
                whole[at] ^= 1 << rng.between(0, 8);
                whole
            }
            _ => envelope(&vec![Bytes::new(); 5_000]),
        }
    }

    /// Hellos of unknown nodes, questions that no member asks, and noise.
    fn as_stranger(&mut self, status: ObservedStatus) {
        let rng = self.forge.rng();
        let mut number = |right: u64| if rng.chance(500_000) { right } else { rng.next_u64() };
        let hello = Hello { cluster: number(status.cluster), from: number(1), to: number(status.id) };
        let mut bytes = hello.encode();
        match rng.between(0, 4) {
            0 => {}
            1 => {
                let at = rng.between(0, bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            2 => bytes.truncate(rng.between(1, bytes.len() as u64) as usize),
            _ => {
                // Asks for a place under no address; one that asked to be added would be.
                bytes = b"ALTHINGJ\x01\x00".to_vec();
                let question: Vec<u8> =
                    (0..rng.between(0, 40)).map(|_| rng.next_u64() as u8 | 0x80).collect();
                bytes.extend((question.len() as u32).to_le_bytes());
                bytes.extend(question);
            }
        }
        let said = |address| -> io::Result<()> {
            let mut connection = Connection::open(address)?;
            connection.send_raw(&bytes)?;
            connection.wait_until_closed()
        };
        count(&self.shared.frames, 1);
        count(&self.shared.refused, u64::from(said(self.peers[self.target]).is_ok()));
    }

    fn facts(&self, known: &[Known], remote: bool) -> AttackFacts {
        let ids: Vec<u64> = known.iter().map(|known| known.status.id).collect();
        let members = if self.target == 3 { vec![ids[3]] } else { ids[..3].to_vec() };
        let (own, other) = if self.target == 3 { (THERE, HERE) } else { (HERE, THERE) };
        let Known { status, epoch } = known[self.target];
        AttackFacts {
            target: status.id,
            liar: ids[self.liar(remote)],
            term: known.iter().map(|known| known.status.term).max().unwrap_or(1),
            index: status.index,
            mesh: forged_mesh::MeshFacts {
                regions: [RegionId::of(own), RegionId::of(other)],
                nodes: ids,
                topology: topology(&members, epoch, RegionId::of(own)),
                now_ms: now_ms(),
            },
            members,
        }
    }
}

fn topology(nodes: &[u64], epoch: u64, region: RegionId) -> Topology {
    let member = |node: &u64| Member {
        node: NodeId(*node),
        zone: 0,
        points: 16,
        state: MemberState::Serving,
        stale: false,
    };
    Topology::new(
        Epoch(epoch),
        region,
        nodes.iter().map(member).collect(),
        vec![NamespaceCopies { id: 0, copies: 3 }],
    )
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
