//! One machine of a mesh's world: a disk that survives the process, a clock, and the process if it runs: the product's
//! driver over the product's files. The threads of the log and the store are events of the world, so that a crash may
//! fall between any two of their steps.

use super::Event;
use base::{ClusterId, Instant, NodeId, ReplyToken, Rng};
use disk::{Disk, SimDisk};
use engine::{IncarnationFile, MeshFiles, MeshLog, MeshParams, MeshStore};
use mesh::{DiskSpace, Epoch, Flush, Mesh, Now, Persist, RegionId, Regions};
use mesh_node::{Driver, DriverSettings, HomeLeases, Input, Output};
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
    pub region: RegionId,
    pub disk: SimDisk,
    pub process: Option<Process>,
    /// Counts starts and ends, so that what was planned for an earlier process is not done to this one.
    pub pid: u64,
    /// The process is stopped, as by SIGSTOP.
    pub paused: bool,
    /// What came for it meanwhile.
    pub queued: Vec<Event>,
    /// Added to true time to make its wall clock.
    pub skew_ms: i64,
    /// Its clock was far ahead once, and its stamps stay there.
    pub was_ahead: bool,
    /// Its log was damaged while it was down.
    pub is_damaged: bool,
    /// Names the life that its last process had.
    pub incarnation: u32,
    /// It has lost its disk and does not serve again yet.
    pub is_refilling: bool,
    /// The power goes with one of the first things that its next process does to the disk, whose first sync is slow.
    pub doomed: bool,
    /// What is free of its disk.
    pub free_bytes: u64,
    /// The newest topology that it has said to follow, on this disk.
    pub reported: Epoch,
    /// Whether its process takes itself for the leader of coord, and when it learns that it is otherwise.
    pub leads: bool,
    pub learns_at: Option<u64>,
}

pub struct Process {
    pub driver: Driver,
    pub log: MeshLog,
    pub store: MeshStore,
    pub incarnation_file: IncarnationFile,
    /// What the log's thread has to write, and what it has written and is syncing.
    pub to_write: Vec<Persist>,
    pub written: Vec<Persist>,
    pub flush: Option<Flush>,
    /// What its threads that serve clients would go by.
    pub home_leases: HomeLeases,
    pub callers: BTreeMap<ReplyToken, usize>,
    tokens: u64,
}

impl Host {
    pub fn new(region: RegionId, seed: u64) -> Host {
        Host {
            region,
            disk: SimDisk::new(seed),
            process: None,
            pid: 0,
            paused: false,
            queued: Vec::new(),
            skew_ms: 0,
            was_ahead: false,
            is_refilling: false,
            is_damaged: false,
            incarnation: 0,
            doomed: false,
            free_bytes: PLENTY_BYTES,
            reported: Epoch::default(),
            leads: false,
            learns_at: None,
        }
    }

    /// The machine, if the process runs and has begun.
    pub fn machine(&self) -> Option<&Mesh> {
        self.process.as_ref().and_then(|process| process.driver.machine())
    }

    /// What a look at the disk finds.
    pub fn disk_space(&self) -> DiskSpace {
        DiskSpace { free_bytes: self.free_bytes, taken_bytes: 0, lacking_bytes: 0 }
    }

    /// Fills the disk, up to the last byte or so that deletes still have space; or frees it again.
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

    pub fn open(&self, fresh_incarnation: u32, settings: DriverSettings) -> Result<Process, engine::Error> {
        let params =
            MeshParams { log_segment_bytes: SEGMENT_BYTES, cache_bytes: CACHE_BYTES, fresh_incarnation };
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let MeshFiles { log, store, replayed, incarnation_file, .. } = engine::open_mesh(disk, &params)?;
        let driver = Driver::new(settings, incarnation_file.get(), replayed, &*store.view());
        Ok(Process {
            driver,
            log,
            store,
            incarnation_file,
            to_write: Vec::new(),
            written: Vec::new(),
            flush: None,
            home_leases: HomeLeases::default(),
            callers: BTreeMap::new(),
            tokens: 0,
        })
    }
}

/// Where other regions reach a node.
pub fn address(node: NodeId) -> String {
    format!("node-{}", node.0)
}

/// How a node of this region takes part; the table of regions is founded with `regions`.
pub fn settings(me: NodeId, region: &str, regions: Regions) -> DriverSettings {
    DriverSettings {
        me,
        cluster: ClusterId(RegionId::of(region).0.into()),
        region: region.to_owned(),
        zone: me.0 as u32,
        points: 64,
        address: String::new(),
        region_address: address(me),
        regions,
        data_only: false,
        timeout: TIMEOUT,
        flush_every: Duration::from_millis(300),
        low_bytes: LOW_BYTES,
        least_bytes: LEAST_BYTES,
        round_every: ROUND,
        drift_max: DRIFT_MAX,
    }
}

impl Process {
    pub fn next_token(&mut self) -> ReplyToken {
        self.tokens += 1;
        ReplyToken(self.tokens)
    }

    pub fn is_serving(&self) -> bool {
        self.driver.machine().is_some_and(Mesh::is_serving)
    }

    /// One input is one turn.
    pub fn step(&mut self, at: Instant, wall_ms: u64, input: Input) -> Output {
        let (mut out, now, view) = (Output::default(), Now { at, wall_ms }, self.store.view());
        self.driver.step(now, input, &*view, &mut out);
        self.driver.end_turn(now, &mut out);
        out
    }
}
