//! A small world of mesh nodes that follows from a seed: a network that loses, delays, repeats and cuts, disks
//! that forget what was not synced, clocks that disagree. Frames travel as bytes. Tests put requests in, take
//! replies out, and look at what the replicas hold.

use crate::actor::{Actor, Dot, RegionId};
use crate::conflict::Conflict;
use crate::context::Context;
use crate::frame::{Envelope, Frame, OpId, StoreReason};
use crate::key::Key;
use crate::log::LogEntry;
use crate::mesh::{Destination, Input, Mesh, Now, Output, Params};
use crate::moves::{MoveProgress, MoveReport};
use crate::overlay::tests::MemoryRows;
use crate::overlay::{Flush, Seq};
use crate::record::Record;
use crate::regions::{Region, Regions};
use crate::request::{Reply, Request, Write};
use crate::ring::Partition;
use crate::rows::{self, Row};
use crate::topology::{Epoch, Member, MemberState, NamespaceCopies, Topology};
use base::{Code, Instant, NodeId, ReplyToken, Rng};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub const MS: u64 = 1_000;
pub const TIMEOUT: Duration = Duration::from_millis(400);
const TICK: u64 = 20 * MS;
/// No node: the test, where it stands for one that has passed something on.
const OUTSIDE: NodeId = NodeId(1_000_000);

pub struct Host {
    pub mesh: Option<Mesh>,
    pub rows: MemoryRows,
    /// Durable batches that the store lacks.
    log: Vec<(Seq, Vec<Row>)>,
    unsynced: Vec<(Seq, Vec<Row>)>,
    /// Added to true time to make its wall clock.
    pub skew_ms: i64,
    pub region: RegionId,
    boot: u64,
    incarnation: u32,
    wiped: bool,
    /// It starts as one.
    pub unenrolled: bool,
}

enum Event {
    Tick(NodeId, u64),
    Deliver {
        from: NodeId,
        to: NodeId,
        bytes: Bytes,
    },
    /// From one region to another.
    Cross {
        from: NodeId,
        to: NodeId,
        bytes: Bytes,
    },
    Synced(NodeId, u64, Seq),
    Flushed(NodeId, u64, Flush),
}

impl Event {
    /// The node that it happens to.
    fn node(&self) -> NodeId {
        match self {
            Event::Tick(node, _) | Event::Synced(node, ..) | Event::Flushed(node, ..) => *node,
            Event::Deliver { to, .. } | Event::Cross { to, .. } => *to,
        }
    }
}

pub struct World {
    pub rng: Rng,
    round_every: Duration,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    pub hosts: BTreeMap<NodeId, Host>,
    /// The agreed topology, and what was reported about it.
    pub topology: Topology,
    /// The topologies of the other regions, and the table that all regions go by.
    pub remote_topologies: BTreeMap<RegionId, Topology>,
    pub regions: Regions,
    pub progress: MoveProgress,
    pub caught_up: BTreeSet<NodeId>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    /// Nodes that are not told of topologies.
    pub deaf: BTreeSet<NodeId>,
    /// Nodes that stand still, and what waits for them.
    paused: BTreeMap<NodeId, Vec<Event>>,
    pub loss_per_million: u64,
    /// Every frame comes twice.
    pub repeats: bool,
    pub delay_max: u64,
    /// How long a frame takes between regions.
    pub crossing_max: u64,
    pub sync_max: u64,
    pub replies: BTreeMap<ReplyToken, Reply>,
    pub asked_at: BTreeMap<ReplyToken, u64>,
    n_tokens: u64,
    pub n_conflicts: usize,
    pub n_purged: usize,
    pub n_hints: usize,
    /// Records that were sent to nodes that lacked them.
    pub n_repairs: usize,
    /// Rounds that a replica was asked to promise.
    pub n_prepares: usize,
    pub n_crossed: usize,
    /// Bytes of frames that told what is below keys.
    pub collection_answer_bytes: usize,
    /// Bytes of batches for logs, and of frames that store.
    pub batch_bytes: usize,
    pub batch_rows_max: usize,
    pub store_bytes: usize,
    /// Bytes of entries that went from region to region.
    pub replicated_bytes: usize,
    /// Losers that were reported, by their dots.
    pub losers: BTreeSet<Dot>,
    /// What every write had seen when it was born, between regions.
    pub births: BTreeMap<Dot, (Key, Context)>,
}

pub fn member(node: u64) -> Member {
    Member { node: NodeId(node), zone: node as u32, points: 64, state: MemberState::Serving, stale: false }
}

impl World {
    pub fn new(seed: u64, nodes: u64) -> World {
        World::with_rounds(seed, nodes, Duration::from_secs(1))
    }

    /// Replicas compare what they have so often.
    pub fn with_rounds(seed: u64, nodes: u64, round_every: Duration) -> World {
        let members = (1..=nodes).map(member).collect();
        let topology = Topology::new(
            Epoch(1),
            RegionId::of("here"),
            members,
            vec![NamespaceCopies { id: 0, copies: 3 }],
        );
        let mut world = World {
            rng: Rng::new(seed),
            round_every,
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            hosts: BTreeMap::new(),
            topology,
            remote_topologies: BTreeMap::new(),
            regions: Regions::default(),
            progress: MoveProgress::default(),
            caught_up: BTreeSet::new(),
            cut: BTreeSet::new(),
            deaf: BTreeSet::new(),
            paused: BTreeMap::new(),
            loss_per_million: 0,
            repeats: false,
            delay_max: 3 * MS,
            crossing_max: 30 * MS,
            sync_max: 4 * MS,
            replies: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            n_tokens: 0,
            n_conflicts: 0,
            n_purged: 0,
            n_hints: 0,
            n_repairs: 0,
            n_prepares: 0,
            n_crossed: 0,
            collection_answer_bytes: 0,
            batch_bytes: 0,
            batch_rows_max: 0,
            store_bytes: 0,
            replicated_bytes: 0,
            losers: BTreeSet::new(),
            births: BTreeMap::new(),
        };
        (1..=nodes).for_each(|node| world.add(NodeId(node)));
        world
    }

    /// Regions of three nodes each: `here` has 1 to 3, `r1` has 11 to 13, `r2` has 21 to 23.
    pub fn of_regions(seed: u64, n: u64) -> World {
        let mut world = World::new(seed, 3);
        let mut regions = Regions::default().with(Region::new("here", vec![])).unwrap();
        for nth in 1..n {
            let region = Region::new(&format!("r{nth}"), vec![]);
            let members = (1..=3).map(|node| member(nth * 10 + node)).collect();
            let topology =
                Topology::new(Epoch(1), region.id, members, vec![NamespaceCopies { id: 0, copies: 3 }]);
            world.remote_topologies.insert(region.id, topology);
            for node in 1..=3 {
                world.add_to(region.id, NodeId(nth * 10 + node));
            }
            regions = regions.with(region).unwrap();
        }
        world.agree(regions);
        world.run(4 * 1_000 * MS);
        world
    }

    /// Every region goes by this table from now on.
    pub fn agree(&mut self, regions: Regions) {
        self.regions = regions;
        for node in self.hosts.keys().copied().collect::<Vec<_>>() {
            if self.regions.get(self.hosts[&node].region).is_some() {
                self.step(node, Input::Regions(self.regions.clone()));
            }
        }
    }

    pub fn nodes_of(&self, region: RegionId) -> Vec<NodeId> {
        self.hosts.iter().filter(|(_, host)| host.region == region).map(|(node, _)| *node).collect()
    }

    fn topology_of(&self, region: RegionId) -> &Topology {
        self.remote_topologies.get(&region).unwrap_or(&self.topology)
    }

    pub fn add(&mut self, node: NodeId) {
        self.add_to(self.topology.region, node);
    }

    fn add_to(&mut self, region: RegionId, node: NodeId) {
        let host = Host {
            region,
            mesh: None,
            rows: MemoryRows::default(),
            log: Vec::new(),
            unsynced: Vec::new(),
            skew_ms: 0,
            boot: 0,
            incarnation: 0,
            wiped: false,
            unenrolled: false,
        };
        self.hosts.insert(node, host);
        self.start(node);
    }

    pub fn start(&mut self, node: NodeId) {
        let topology = self.topology_of(self.hosts[&node].region).clone();
        let host = self.hosts.get_mut(&node).unwrap();
        assert!(host.mesh.is_none(), "it runs");
        host.boot += 1;
        let params = Params {
            actor: Actor { region: topology.region, node, incarnation: host.incarnation },
            boot: host.boot,
            wiped: std::mem::take(&mut host.wiped),
            unenrolled: std::mem::take(&mut host.unenrolled),
            drift_max: Duration::from_millis(500),
            timeout: TIMEOUT,
            flush_every: Duration::from_millis(300),
            low_bytes: 1_000_000,
            least_bytes: 500_000,
            round_every: self.round_every,
        };
        let replayed = host.log.iter().map(|(_, rows)| rows.clone()).collect();
        host.mesh = Some(Mesh::new(params, topology, &host.rows, replayed));
        // Every incarnation counts its starts from the beginning.
        host.log.iter_mut().for_each(|(seq, _)| *seq = Seq(0));
        let boot = host.boot;
        self.at(self.now, Event::Tick(node, boot));
        if self.regions.get(self.hosts[&node].region).is_some() {
            self.step(node, Input::Regions(self.regions.clone()));
        }
    }

    pub fn actor(&self, node: NodeId) -> Actor {
        let host = &self.hosts[&node];
        Actor { region: host.region, node, incarnation: host.incarnation }
    }

    /// Loses what was not synced, and all that was on its way to and from the disk.
    pub fn crash(&mut self, node: NodeId) {
        let host = self.hosts.get_mut(&node).unwrap();
        host.mesh = None;
        host.unsynced.clear();
        self.paused.remove(&node);
    }

    /// Loses everything.
    pub fn wipe(&mut self, node: NodeId) {
        self.crash(node);
        let host = self.hosts.get_mut(&node).unwrap();
        host.rows = MemoryRows::default();
        host.log.clear();
        host.incarnation += 1;
        host.wiped = true;
        // The plan records the new incarnation of the node, which begins an epoch.
        let topology = match self.remote_topologies.get_mut(&self.hosts[&node].region) {
            Some(topology) => topology,
            None => &mut self.topology,
        };
        *topology = topology.renewed(Epoch(topology.epoch.0 + 1));
    }

    /// Forgets what was not synced, and does not know whether that is all.
    pub fn crash_in_doubt(&mut self, node: NodeId) {
        self.crash(node);
        let host = self.hosts.get_mut(&node).unwrap();
        (host.incarnation, host.wiped) = (host.incarnation + 1, true);
        self.topology = self.topology.renewed(Epoch(self.topology.epoch.0 + 1));
    }

    /// A node stands still: its disk goes on, and frames gather in its sockets.
    pub fn pause(&mut self, node: NodeId) {
        self.paused.entry(node).or_default();
    }

    pub fn is_paused(&self, node: NodeId) -> bool {
        self.paused.contains_key(&node)
    }

    /// A node goes on with everything that waits for it, connection by connection; it looks at its clock last.
    pub fn resume(&mut self, node: NodeId) {
        let mut waiting = self.paused.remove(&node).unwrap_or_default();
        let seed = self.rng.between(0, u64::MAX);
        waiting.sort_by_key(|event| match event {
            Event::Tick(..) => u64::MAX,
            Event::Deliver { from, .. } | Event::Cross { from, .. } => base::rng::mix(from.0 ^ seed) >> 1,
            Event::Synced(..) | Event::Flushed(..) => 0,
        });
        waiting.into_iter().for_each(|event| self.at(self.now, event));
    }

    fn at(&mut self, when: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((when, self.n_events), event);
    }

    pub fn run(&mut self, span: u64) {
        let end = self.now + span;
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
        {
            let ((when, _), event) = entry.remove_entry();
            self.now = when;
            self.handle(event);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        if let Some(waiting) = self.paused.get_mut(&event.node()) {
            return waiting.push(event);
        }
        let lives = |world: &World, node: NodeId, boot: u64| {
            world.hosts.get(&node).is_some_and(|host| host.mesh.is_some() && host.boot == boot)
        };
        match event {
            Event::Tick(node, boot) if lives(self, node, boot) => {
                self.step(node, Input::Tick);
                self.at(self.now + TICK, Event::Tick(node, boot));
            }
            Event::Deliver { from, to, bytes } if !self.cut.contains(&(from, to)) => {
                let envelope = Envelope::decode(bytes).expect("what a node sends can be read");
                self.step(to, Input::Received { from, envelope });
            }
            Event::Cross { from, to, bytes } if !self.cut.contains(&(from, to)) => {
                let envelope = Envelope::decode(bytes).expect("what a node sends can be read");
                let region = self.hosts[&from].region;
                self.step(to, Input::RemoteFrame { region, from, envelope });
            }
            Event::Synced(node, boot, seq) if lives(self, node, boot) => {
                let host = self.hosts.get_mut(&node).unwrap();
                let synced = host.unsynced.extract_if(.., |(other, _)| *other <= seq);
                host.log.extend(synced);
                self.step(node, Input::Persisted(seq));
            }
            Event::Flushed(node, boot, flush) if lives(self, node, boot) => {
                let host = self.hosts.get_mut(&node).unwrap();
                host.rows.flush(&flush);
                host.log.retain(|(seq, _)| *seq > flush.upto);
                host.unsynced
                    .iter_mut()
                    .filter(|(seq, _)| *seq <= flush.upto)
                    .for_each(|(_, rows)| rows.clear());
                self.step(node, Input::Flushed(flush.number));
            }
            _ => {}
        }
    }

    pub fn step(&mut self, node: NodeId, input: Input) {
        let wall_ms = (1_000_000_000 + self.now / MS) as i64;
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let now = Now { at: Instant(self.now), wall_ms: (wall_ms + host.skew_ms) as u64 };
        let Some(mesh) = &mut host.mesh else { return };
        let mut out = Output::default();
        mesh.step(now, input, &host.rows, &mut out);
        mesh.collect(&mut out);
        self.perform(node, out);
    }

    fn perform(&mut self, node: NodeId, out: Output) {
        let boot = self.hosts[&node].boot;
        for (to, envelope) in out.send {
            self.post(node, to, &envelope);
        }
        for (destination, envelope) in out.to_regions {
            let (region, to) = match destination {
                Destination::Node { region, node } => (region, node),
                Destination::AnyOf(region) => (region, *self.rng.pick(&self.nodes_of(region))),
            };
            assert_eq!(self.hosts[&to].region, region, "nodes are where they are said to be");
            let copies = u64::from(!self.rng.chance(self.loss_per_million));
            for _ in 0..copies + u64::from(self.repeats) {
                let when = self.now + 200 + self.rng.between(0, self.crossing_max);
                self.n_crossed += 1;
                if let Frame::Replicate { entry, .. } = &envelope.frame {
                    self.replicated_bytes += entry.len();
                }
                self.at(when, Event::Cross { from: node, to, bytes: envelope.encode() });
            }
        }
        if let Some(persist) = out.persist {
            let seq = persist.seq;
            self.batch_bytes += persist.batch.len();
            let rows = rows::decode_batch(persist.batch).expect("a batch that we wrote can be read");
            self.batch_rows_max = self.batch_rows_max.max(rows.len());
            let entries = rows.iter().filter(|row| row.key[0] == 5).filter_map(|row| row.value.clone());
            for entry in entries.filter_map(LogEntry::decode) {
                let record = Record::decode(entry.record).expect("an entry holds a record");
                self.births.insert(record.header.dot, (entry.key, record.context));
            }
            self.hosts.get_mut(&node).unwrap().unsynced.push((seq, rows));
            let when = self.now + 1 + self.rng.between(0, self.sync_max);
            self.at(when, Event::Synced(node, boot, seq));
        }
        if let Some(flush) = out.flush {
            let when = self.now + 1 + self.rng.between(0, 50 * MS);
            self.at(when, Event::Flushed(node, boot, flush));
        }
        self.replies.extend(out.replies);
        for report in out.reports {
            self.progress.report(node, report);
            if report == MoveReport::CaughtUp {
                self.caught_up.insert(node);
            }
        }
        for note in out.events {
            match note {
                super::super::MeshEvent::Conflict(conflict) => {
                    self.n_conflicts += 1;
                    self.losers.insert(conflict.loser.header.dot);
                }
                super::super::MeshEvent::Purged(n) => self.n_purged += n,
                super::super::MeshEvent::Hinted(_) => self.n_hints += 1,
                _ => {}
            }
        }
    }

    fn post(&mut self, from: NodeId, to: NodeId, envelope: &Envelope) {
        assert_ne!(from, to, "no node sends to itself");
        if to == OUTSIDE {
            return self.told_outside(&envelope.frame);
        }
        if matches!(envelope.frame, Frame::CollectionAnswer { .. }) {
            self.collection_answer_bytes += envelope.encode().len();
        }
        if matches!(envelope.frame, Frame::Store { .. }) {
            self.store_bytes += envelope.encode().len();
        }
        self.n_prepares += usize::from(matches!(envelope.frame, Frame::Prepare { round: Some(_), .. }));
        self.n_repairs +=
            usize::from(matches!(envelope.frame, Frame::Store { reason: StoreReason::Repair, .. }));
        let copies = if self.rng.chance(self.loss_per_million) {
            0
        } else if self.repeats || self.rng.chance(self.loss_per_million / 4) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let when = self.now + 200 + self.rng.between(0, self.delay_max);
            let bytes = envelope.encode();
            self.at(when, Event::Deliver { from, to, bytes });
        }
    }

    pub fn ask(&mut self, node: NodeId, request: Request) -> ReplyToken {
        self.n_tokens += 1;
        let token = ReplyToken(self.n_tokens);
        self.asked_at.insert(token, self.now);
        let deadline = Instant(self.now).after(TIMEOUT);
        self.step(node, Input::Request { token, deadline, request });
        token
    }

    /// Has a node coordinate a write, as if another had passed it on.
    pub fn pass_on(&mut self, node: NodeId, write: Write) -> ReplyToken {
        self.n_tokens += 1;
        let token = ReplyToken(self.n_tokens);
        self.asked_at.insert(token, self.now);
        if let Some(mesh) = self.hosts.get(&node).and_then(|host| host.mesh.as_ref()) {
            let frame = Frame::Forward { id: OpId(token.0), origin: None, write: Arc::new(write) };
            let envelope = Envelope { epoch: mesh.topology().epoch, frame };
            self.step(node, Input::Received { from: OUTSIDE, envelope });
        }
        token
    }

    /// What comes of that.
    fn told_outside(&mut self, frame: &Frame) {
        match frame {
            Frame::Forwarded { id, reply, .. } => {
                drop(self.replies.insert(ReplyToken(id.0), (**reply).clone()))
            }
            Frame::Declined { id } => {
                self.replies.insert(ReplyToken(id.0), Reply::Refused(Code::NotInStep));
            }
            _ => {}
        }
    }

    /// Asks and waits.
    pub fn call(&mut self, node: u64, request: Request) -> Reply {
        let token = self.ask(NodeId(node), request);
        for _ in 0..1_000 {
            if let Some(reply) = self.replies.remove(&token) {
                return reply;
            }
            self.run(MS);
        }
        panic!("no answer within a second");
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        self.paused.keys().copied().collect::<Vec<_>>().into_iter().for_each(|node| self.resume(node));
        (self.loss_per_million, self.sync_max) = (0, 4 * MS);
        for node in self.hosts.keys().copied().collect::<Vec<_>>() {
            if self.hosts[&node].mesh.is_none() {
                self.start(node);
            }
        }
    }

    pub fn isolate(&mut self, node: NodeId) {
        self.split(&[node]);
    }

    /// Cuts some off from all others.
    pub fn split(&mut self, some: &[NodeId]) {
        for node in some {
            for other in self.hosts.keys().copied().filter(|other| !some.contains(other)).collect::<Vec<_>>()
            {
                self.cut.extend([(*node, other), (other, *node)]);
            }
        }
    }

    pub fn publish(&mut self, topology: Topology) {
        self.topology = topology;
        self.spread_topology();
    }

    /// Hands the newest topology to some node; the others hear of it from their peers.
    fn spread_topology(&mut self) {
        let here = self.topology.region;
        let hears = |node: &NodeId| !self.deaf.contains(node) && self.hosts[node].region == here;
        let nodes: Vec<NodeId> = self.hosts.keys().copied().filter(hears).collect();
        let node = *self.rng.pick(&nodes);
        self.step(node, Input::Topology(self.topology.clone()));
    }

    /// Takes the move as far as the reports allow.
    pub fn advance_move(&mut self) {
        let steps = self.progress.steps(&self.topology, &self.topology.placement());
        if self.topology.is_moving() && !steps.is_empty() {
            let epoch = Epoch(self.topology.epoch.0 + 1);
            self.topology = self.topology.advance(epoch, &steps.switch, &steps.settle);
        }
        self.spread_topology();
    }

    /// Everything that a node keeps of a partition, in memory or flushed.
    pub fn records(&self, node: NodeId, partition: Partition) -> BTreeMap<Key, Bytes> {
        let host = &self.hosts[&node];
        let mesh = host.mesh.as_ref().expect("it runs");
        let mut records = BTreeMap::new();
        let (from, to) = (rows::records_from(partition, b""), rows::records_end(partition));
        mesh.replica.storage.scan(&host.rows, &from, &to, &mut |row, value| {
            records.insert(rows::record_key(row).unwrap(), value.clone());
            true
        });
        records
    }

    /// Replicas that do not hold the same, over all regions of the table.
    pub fn differences(&self) -> Vec<(Partition, NodeId)> {
        let near = [&self.topology].into_iter();
        let far =
            self.remote_topologies.values().filter(|topology| self.regions.get(topology.region).is_some());
        let placements: Vec<_> = near.chain(far).map(Topology::placement).collect();
        let mut different = Vec::new();
        for partition in Partition::all() {
            let lists = placements.iter().flat_map(|placement| placement.next.of(partition, 3));
            let list: Vec<NodeId> = lists.copied().collect();
            let first = self.records(list[0], partition);
            let others = list[1..].iter().filter(|node| self.records(**node, partition) != first);
            different.extend(others.map(|node| (partition, *node)));
        }
        different
    }

    /// Cuts regions off from all others, or only some of their nodes.
    pub fn cut_region(&mut self, name: &str) {
        let nodes = self.nodes_of(RegionId::of(name));
        self.split(&nodes);
    }

    /// Rows of an unknown kind.
    pub fn strange_rows(&self) -> usize {
        let rows = |host: &Host| host.rows.0.keys().filter(|key| rows::row_kind(key).is_none()).count();
        self.hosts.values().map(rows).sum()
    }

    /// What a node has in its log of conflicts.
    pub fn conflicts(&self, node: NodeId) -> Vec<Conflict> {
        let host = &self.hosts[&node];
        let mut found = Vec::new();
        host.mesh.as_ref().expect("it runs").replica.storage.scan(&host.rows, &[4], &[5], &mut |_, value| {
            found.extend(Conflict::decode(value.clone()));
            true
        });
        found
    }

    /// Rows of one sort with the nodes that run: 1 records, 2 tombstones, 3 hints, 5 entries of logs.
    pub fn leftovers(&self, first_byte: u8) -> usize {
        let count = |host: &Host| {
            let Some(mesh) = &host.mesh else { return 0 };
            let mut n = 0;
            mesh.replica.storage.scan(&host.rows, &[first_byte], &[first_byte + 1], &mut |_, _| {
                n += 1;
                true
            });
            n
        };
        self.hosts.values().map(count).sum()
    }
}
