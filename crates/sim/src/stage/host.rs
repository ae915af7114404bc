//! One machine of a mesh's world: a disk that survives the process, a clock, and the process if it runs: the product's
//! machine and files, with what the shell does between them. The threads of the log and the store are events of the
//! world, so that a crash may fall between any two of their steps.

use super::Event;
use base::{Instant, NodeId, Rng, Token};
use bytes::Bytes;
use disk::{Disk, SimDisk};
use engine::{LifeFile, MeshFiles, MeshLog, MeshParams, MeshStore, Standing};
use mesh::controller::Controller;
use mesh::mesh::Persist;
use mesh::overlay::Flush;
use mesh::plan::Plan;
use mesh::rows::{self, Row, Rows};
use mesh::tidings::Tidings;
use mesh::{Actor, Epoch, Input, Mesh, Now, Output, Params, RegionId, Room, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub const TIMEOUT: Duration = Duration::from_millis(400);
pub const ROUND: Duration = Duration::from_millis(1_000);
pub const DRIFT_MAX: Duration = Duration::from_millis(500);
const CACHE_BYTES: usize = 1024 * 1024;
const SEGMENT_BYTES: u64 = 64 * 1024;
const LOW_BYTES: u64 = 1024 * 1024;
const LEAST_BYTES: u64 = LOW_BYTES / 2;
const PLENTY_BYTES: u64 = 1 << 40;

pub struct Host {
    pub node: NodeId,
    pub region: RegionId,
    pub disk: SimDisk,
    pub process: Option<Process>,
    /// Counts starts and ends, so that what was planned for an earlier process is not done to this one.
    pub life: u64,
    /// The process is stopped, as by SIGSTOP.
    pub paused: bool,
    /// What came for it meanwhile.
    pub queued: Vec<Event>,
    /// Added to true time to make its wall clock.
    pub skew_ms: i64,
    /// Its clock was far ahead once, and its stamps stay there.
    pub was_ahead: bool,
    /// It has lost its disk and does not serve again yet.
    pub is_refilling: bool,
    /// The power goes with one of the first things that its next process does to the disk, whose first sync is slow.
    pub doomed: bool,
    /// What is free of its disk.
    pub free_bytes: u64,
    /// The newest topology that it has said to follow, on this disk.
    pub reported: Epoch,
}

pub struct Process {
    node: NodeId,
    pub machine: Option<Mesh>,
    is_guest: bool,
    /// Until the machine begins: what the log brought, and the topology of the last life.
    waiting: Option<(Vec<Vec<Row>>, Option<Topology>)>,
    pub log: MeshLog,
    pub store: MeshStore,
    life: LifeFile,
    /// What the log's thread has to write, and what it has written and is syncing.
    pub to_write: Vec<Persist>,
    pub written: Vec<Persist>,
    pub flush: Option<Flush>,
    pub plan: Option<Plan>,
    pub controller: Controller,
    pub tidings: Tidings,
    pub tell_at: u64,
    pub callers: BTreeMap<Token, usize>,
    tokens: u64,
}

impl Host {
    pub fn new(node: NodeId, region: RegionId, seed: u64) -> Host {
        Host {
            node,
            region,
            disk: SimDisk::new(seed),
            process: None,
            life: 0,
            paused: false,
            queued: Vec::new(),
            skew_ms: 0,
            was_ahead: false,
            is_refilling: false,
            doomed: false,
            free_bytes: PLENTY_BYTES,
            reported: Epoch::default(),
        }
    }

    /// The machine, if the process runs and has begun.
    pub fn machine(&self) -> Option<&Mesh> {
        self.process.as_ref().and_then(|process| process.machine.as_ref())
    }

    /// What a look at the disk finds.
    pub fn room(&self) -> Room {
        Room { free_bytes: self.free_bytes, taken_bytes: 0, lacking_bytes: 0 }
    }

    /// Somebody fills it, up to the last byte or so that deletes still have room; or makes room again.
    pub fn fill_disk(&mut self, rng: &mut Rng) {
        self.free_bytes = match self.free_bytes {
            PLENTY_BYTES => *rng.pick(&[0, LOW_BYTES - 1]),
            _ => PLENTY_BYTES,
        };
    }

    pub fn is_full(&self) -> bool {
        self.free_bytes < LOW_BYTES
    }

    pub fn clear_disk(&mut self) {
        self.free_bytes = PLENTY_BYTES;
    }

    pub fn open(&self, fresh_incarnation: u32) -> Result<Process, engine::Error> {
        let params =
            MeshParams { log_segment_bytes: SEGMENT_BYTES, cache_bytes: CACHE_BYTES, fresh_incarnation };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let MeshFiles { log, store, replayed, life, .. } = engine::open_mesh(disk, &params)?;
        let newest = replayed.iter().flatten().rev().find(|row| row.key == rows::TOPOLOGY);
        let kept: Option<Bytes> =
            newest.map_or_else(|| store.view().get(rows::TOPOLOGY), |row| row.value.clone());
        let tidings = Tidings {
            incarnation: life.life().incarnation,
            zone: self.node.0 as u32,
            points: 64,
            ..Tidings::default()
        };
        Ok(Process {
            node: self.node,
            machine: None,
            is_guest: false,
            waiting: Some((replayed, kept.and_then(Topology::decode))),
            log,
            store,
            life,
            to_write: Vec::new(),
            written: Vec::new(),
            flush: None,
            plan: None,
            controller: Controller::new(self.region),
            tidings,
            tell_at: 0,
            callers: BTreeMap::new(),
            tokens: 0,
        })
    }
}

impl Process {
    /// The topology that the disk has.
    pub fn kept_epoch(&self) -> Epoch {
        let kept = self.waiting.as_ref().and_then(|(_, kept)| kept.as_ref());
        kept.map_or_else(Epoch::default, |topology| topology.epoch)
    }

    pub fn next_token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    pub fn is_serving(&self) -> bool {
        self.machine.as_ref().is_some_and(Mesh::is_serving)
    }

    /// What the cluster has agreed on; answers the topology if it is news.
    pub fn learn(&mut self, plan: Plan) -> Option<Topology> {
        if self.plan.as_ref().is_some_and(|known| known.epoch() >= plan.epoch()) {
            return None;
        }
        let topology = plan.topology.clone();
        self.plan = Some(plan);
        self.tell_at = 0;
        Some(topology)
    }

    /// As the shell does it: who was whole goes on, who is new is a guest until its life is written down. Answers what to
    /// tell the machine.
    pub fn begin_when_known(&mut self) -> Result<Option<Input>, engine::Error> {
        if self.machine.is_some() && !self.is_guest {
            return Ok(None);
        }
        let life = self.life.life();
        let judged = self.plan.as_ref().and_then(|plan| life.judged_by(plan, self.node));
        if let Some(standing) = judged.filter(|_| life.standing == Standing::Unknown) {
            self.life.set_standing(standing)?;
        }
        let standing = self.life.life().standing;
        if self.is_guest {
            self.is_guest = standing == Standing::Unknown;
            let wiped = standing == Standing::Behind;
            return Ok((!self.is_guest).then_some(Input::Enrolled { wiped }));
        }
        let newest = self.plan.as_ref().map(|plan| plan.topology.clone());
        let kept = self.waiting.as_ref().and_then(|(_, kept)| kept.clone());
        let Some(topology) = newest.or(kept) else { return Ok(None) };
        let (replayed, _) = self.waiting.take().expect("it waits until it begins");
        self.is_guest = standing == Standing::Unknown;
        let params = Params {
            actor: Actor { region: topology.region, node: self.node, incarnation: life.incarnation },
            boot: life.boot,
            wiped: standing == Standing::Behind,
            guest: self.is_guest,
            drift_max: DRIFT_MAX,
            timeout: TIMEOUT,
            flush_every: Duration::from_millis(300),
            low_bytes: LOW_BYTES,
            least_bytes: LEAST_BYTES,
            round_every: ROUND,
        };
        self.machine = Some(Mesh::new(params, topology, &*self.store.view(), replayed));
        Ok(None)
    }

    /// A node that has everything again is whole, durably.
    pub fn note_standing(&mut self) -> Result<(), engine::Error> {
        if self.is_serving() && self.life.life().standing == Standing::Behind {
            self.life.set_standing(Standing::Whole)?;
        }
        Ok(())
    }

    pub fn step(&mut self, at: Instant, wall_ms: u64, input: Input) -> Output {
        let mut out = Output::default();
        if let Some(machine) = &mut self.machine {
            let view = self.store.view();
            machine.step(Now { at, wall_ms }, input, &*view, &mut out);
            machine.collect(&mut out);
        }
        out
    }
}
