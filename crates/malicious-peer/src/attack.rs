//! The attack: connections to all members, as another member, as a node of another region and as a stranger, each with frames and
//! bytes that the forge makes; until so many frames were sent or the time is over.
//! A member hears one liar only: two of three that say the same are a majority, which members believe.

use crate::cluster::{Cluster, HERE, Status, THERE, Trouble};
use crate::connection::{Connection, Hello, envelope, header};
use crate::forge::{Facts, Forge};
use base::NodeId;
use bytes::Bytes;
use fuzz_targets::forged_mesh;
use mesh::RegionId;
use mesh::topology::{Epoch, Member, Space, Standing, Topology};
use std::io;
use std::time::{Duration, Instant, SystemTime};

/// How often the members are asked where they stand.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const FRAMES_PER_ENVELOPE: u64 = 128;
const ENVELOPES_PER_CONNECTION: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
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

pub struct Attack<'a> {
    cluster: &'a mut Cluster,
    forge: Forge,
    known: Vec<Status>,
    epochs: Vec<u64>,
    looked: Instant,
    pub counts: Counts,
}

impl<'a> Attack<'a> {
    pub fn new(cluster: &'a mut Cluster, seed: u64) -> Result<Attack<'a>, Trouble> {
        let mut attack = Attack {
            cluster,
            forge: Forge::new(seed),
            known: Vec::new(),
            epochs: Vec::new(),
            looked: Instant::now(),
            counts: Counts::default(),
        };
        attack.look()?;
        Ok(attack)
    }

    /// `tell` hears of progress now and then.
    pub fn run(&mut self, limit: Limit, mut tell: impl FnMut(&Counts)) -> Result<(), Trouble> {
        let end = Instant::now() + limit.time;
        while self.counts.frames < limit.frames && Instant::now() < end {
            if self.looked.elapsed() >= LOOK_EVERY {
                self.look()?;
                tell(&self.counts);
            }
            self.attack_once();
        }
        self.cluster.find_ended()
    }

    fn look(&mut self) -> Result<(), Trouble> {
        self.cluster.find_ended()?;
        for (nth, member) in self.cluster.members.iter().enumerate() {
            // One that is busy says nothing, and is taken to stand where it stood.
            let known = self.known.get(nth).copied();
            let status = member
                .endpoints
                .status()
                .or(known)
                .ok_or(Trouble("a member does not say where it stands".into()))?;
            let epoch = member.endpoints.epoch().unwrap_or(self.epochs.get(nth).copied().unwrap_or(1));
            match nth < self.known.len() {
                true => (self.known[nth], self.epochs[nth]) = (status, epoch),
                false => {
                    self.known.push(status);
                    self.epochs.push(epoch);
                }
            }
        }
        self.looked = Instant::now();
        Ok(())
    }

    fn attack_once(&mut self) {
        let target = self.forge.rng().between(0, 4) as usize;
        self.counts.connections += 1;
        match self.forge.rng().between(0, 20) {
            0 => self.as_stranger(target),
            1 => self.with_bytes(target),
            2..=5 => self.with_frames(target, true),
            _ => self.with_frames(target, false),
        }
    }

    /// The member of whose name the target hears lies, in its own region or the other.
    fn liar(&self, target: usize, abroad: bool) -> usize {
        match (target, abroad) {
            (3, _) => 0,
            (_, true) => 3,
            (_, false) => (target + 2) % 3,
        }
    }

    fn greeted(&mut self, target: usize, abroad: bool) -> Option<Connection> {
        let liar = self.known[self.liar(target, abroad)];
        let hello = Hello { cluster: liar.cluster, from: liar.id, to: self.known[target].id };
        let mut connection = Connection::open(self.cluster.members[target].peer).ok()?;
        match connection.greet(&hello) {
            Ok(true) => Some(connection),
            _ => {
                self.counts.refused += 1;
                None
            }
        }
    }

    fn with_frames(&mut self, target: usize, abroad: bool) {
        let abroad = abroad || target == 3;
        let facts = self.facts(target, abroad);
        let Some(mut connection) = self.greeted(target, abroad) else { return };
        for _ in 0..ENVELOPES_PER_CONNECTION {
            let count = self.forge.rng().between(1, FRAMES_PER_ENVELOPE) as usize;
            let frames = match abroad {
                true => self.forge.frames_abroad(&facts, count),
                false => self.forge.frames(&facts, count),
            };
            let sent = connection.send(&frames);
            if sent.is_ok() {
                self.counts.frames += frames.len() as u64;
            }
            if sent.and_then(|()| connection.wait_until_read()).is_err() {
                self.counts.closed += 1;
                return;
            }
        }
    }

    /// Bytes that are no envelopes, behind a right hello.
    fn with_bytes(&mut self, target: usize) {
        let bytes = self.no_envelope();
        let Some(mut connection) = self.greeted(target, target == 3) else { return };
        self.counts.frames += 1;
        let sent = connection.send_raw(&bytes);
        if sent.and_then(|()| connection.wait_until_closed()).is_err() {
            self.counts.closed += 1;
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
    fn as_stranger(&mut self, target: usize) {
        let status = self.known[target];
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
        self.counts.frames += 1;
        self.counts.refused += u64::from(said(self.cluster.members[target].peer).is_ok());
    }

    fn facts(&self, target: usize, abroad: bool) -> Facts {
        let members: Vec<u64> = match target {
            3 => vec![self.known[3].id],
            _ => self.known[..3].iter().map(|status| status.id).collect(),
        };
        let (own, other) = if target == 3 { (THERE, HERE) } else { (HERE, THERE) };
        let status = self.known[target];
        Facts {
            target: status.id,
            liar: self.known[self.liar(target, abroad)].id,
            term: self.known.iter().map(|status| status.term).max().unwrap_or(1),
            index: status.index,
            mesh: forged_mesh::Facts {
                regions: [RegionId::of(own), RegionId::of(other)],
                nodes: self.known.iter().map(|status| status.id).collect(),
                topology: topology(&members, self.epochs[target], RegionId::of(own)),
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
        standing: Standing::Serving,
        stale: false,
    };
    Topology::new(Epoch(epoch), region, nodes.iter().map(member).collect(), vec![Space { id: 0, copies: 3 }])
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
