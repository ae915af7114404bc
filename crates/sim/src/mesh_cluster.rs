//! A simulated cluster of mesh nodes, in one region or several: the hosts, the network, and the events between them in the
//! order that the seed gives. Frames travel as bytes; the steps of disks and of coord are events too. A world adds clients,
//! faults and a judge: it receives its own scheduled events and the replies to its requests.

mod between;
pub mod campaign;
mod coord;
mod faults;
mod files;
mod host;
mod report;

pub use campaign::Summary;
pub(crate) use campaign::campaign_of;
pub(crate) use coord::RegionCoord;
pub(crate) use host::{DRIFT_MAX, Host, ROUND, TIMEOUT, address};
pub(crate) use report::caught;
pub use report::{MeshCounts, Report};

use base::rng::mix;
use base::{Instant, NodeId, Rng};
use bytes::Bytes;
use mesh::{
    CatchUp, Dot, Envelope, Frame, Key, MeshEvent, Record, RegionId, Reply, Request, Shard, Stamp,
    StoreReason,
};
use mesh_node::{Input, Message, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) const MS: u64 = 1_000;
/// When a client gives up on an answer.
pub(crate) const PATIENCE: u64 = 3 * TIMEOUT.as_micros() as u64;
const TICK: u64 = 20 * MS;
const FIRST_WALL_MS: u64 = 1_700_000_000_000;

pub(crate) enum Event {
    Tick(NodeId, u64),
    Deliver {
        from: NodeId,
        to: NodeId,
        bytes: Bytes,
    },
    Message {
        from: NodeId,
        to: NodeId,
        message: Message,
    },
    /// A stream to a peer is up.
    Connected {
        of: NodeId,
        pid: u64,
        peer: NodeId,
    },
    /// A stream to a peer is found to be broken.
    Broken {
        of: NodeId,
        pid: u64,
        peer: NodeId,
        peer_pid: u64,
    },
    Answered {
        to: NodeId,
        pid: u64,
        region: RegionId,
        answer: Result<Bytes, String>,
    },
    /// A host hears what its region's coord has.
    Documents(NodeId, u64),
    /// A document that a region's coord has is to be replaced, if it still has the version that was seen.
    Propose {
        region: RegionId,
        name: String,
        expect: u64,
        bytes: Bytes,
    },
    WriteIncarnation(NodeId, u64, CatchUp),
    WriteLog(NodeId, u64),
    SyncLog(NodeId, u64),
    Flush(NodeId, u64),
    Start(NodeId),
    /// A process that was stopped goes on.
    Resume(NodeId, u64),
    WorldEvent(WorldEvent),
}

/// What is the world's own to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldEvent {
    Client(usize),
    GiveUp(usize),
    Fault,
    Evict,
}

/// A world that plays on a stage.
pub(crate) trait ClusterWorld {
    fn cluster(&mut self) -> &mut MeshCluster;
    fn on_world_event(&mut self, on_world_event: WorldEvent);
    fn hear(&mut self, nth: usize, reply: Reply);

    fn run(&mut self, span: u64) {
        let end = self.cluster().now + span;
        self.hear_all();
        while let Some(event) = self.cluster().next_event(end) {
            if let Some(on_world_event) = self.cluster().play(event) {
                self.on_world_event(on_world_event);
            }
            self.hear_all();
        }
        self.cluster().now = end;
    }

    fn hear_all(&mut self) {
        for (nth, reply) in std::mem::take(&mut self.cluster().heard) {
            self.hear(nth, reply);
        }
    }
}

pub(crate) struct MeshCluster {
    pub rng: Rng,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    pub hosts: BTreeMap<NodeId, Host>,
    pub region_coords: BTreeMap<RegionId, RegionCoord>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub loss_per_million: u64,
    pub delay_max: u64,
    pub sync_max: u64,
    pub is_calm: bool,
    /// Answers that the world has not heard yet, by what it asked.
    heard: Vec<(usize, Reply)>,
    /// Losers of conflicts, by the node that noted them, and those that went with a disk.
    noted: BTreeMap<NodeId, BTreeSet<Dot>>,
    noted_on_lost: BTreeSet<Dot>,
    /// Counts incarnations, so that each disk that was lost gives another.
    n_incarnations: u32,
    /// The writes that have left their nodes.
    names: BTreeMap<Dot, (Key, Stamp)>,
    pub violation: Option<String>,
    pub counts: MeshCounts,
    pub trace: u64,
}

impl MeshCluster {
    pub fn new(rng: Rng) -> MeshCluster {
        MeshCluster {
            rng,
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            hosts: BTreeMap::new(),
            region_coords: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss_per_million: 0,
            delay_max: 3 * MS,
            sync_max: 4 * MS,
            is_calm: false,
            heard: Vec::new(),
            noted: BTreeMap::new(),
            noted_on_lost: BTreeSet::new(),
            n_incarnations: 0,
            names: BTreeMap::new(),
            violation: None,
            counts: MeshCounts::default(),
            trace: 0,
        }
    }

    pub fn add(&mut self, node: NodeId, region: RegionId) {
        let seed = self.rng.next_u64();
        self.hosts.insert(node, Host::new(region, seed));
        self.after(1, Event::Start(node));
    }

    pub fn after(&mut self, span: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event);
    }

    pub fn schedule(&mut self, span: u64, on_world_event: WorldEvent) {
        self.after(span, Event::WorldEvent(on_world_event));
    }

    pub fn drop_world_events(&mut self, which: impl Fn(WorldEvent) -> bool) {
        self.events
            .retain(|_, event| !matches!(event, Event::WorldEvent(on_world_event) if which(*on_world_event)));
    }

    /// The next one, if it is due by then; none once something was found to be wrong.
    fn next_event(&mut self, end: u64) -> Option<Event> {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= end)?;
        if self.violation.is_some() {
            return None;
        }
        let ((when, nth), event) = entry.remove_entry();
        self.now = when;
        self.trace = mix(self.trace ^ when ^ nth << 40);
        Some(event)
    }

    /// Does what is the hosts' to do, and hands back what is not.
    fn play(&mut self, event: Event) -> Option<WorldEvent> {
        if let Some(node) = self.paused_target(&event) {
            self.queue(node, event);
            return None;
        }
        match event {
            Event::Tick(node, pid) if self.is_current(node, pid) => self.tick(node, pid),
            Event::Deliver { from, to, bytes } if self.reaches(from, to) => self.deliver(from, to, bytes),
            Event::Message { from, to, message } if self.reaches(from, to) => {
                self.deliver_message(from, to, message);
            }
            Event::Connected { of, pid, peer } if self.is_current(of, pid) => self.connected(of, peer),
            Event::Broken { of, pid, peer, peer_pid } if self.is_current(of, pid) => {
                self.broken(of, peer, peer_pid);
            }
            Event::Answered { to, pid, region, answer } if self.is_current(to, pid) => {
                self.step(to, Input::Answered { region, answer });
            }
            Event::Documents(node, pid) if self.is_current(node, pid) => self.read_documents(node, pid),
            Event::Propose { region, name, expect, bytes } => self.replace(region, &name, expect, bytes),
            Event::WriteIncarnation(node, pid, catch_up) if self.is_current(node, pid) => {
                self.write_incarnation(node, catch_up);
            }
            Event::WriteLog(node, pid) if self.is_current(node, pid) => self.write_log(node, pid),
            Event::SyncLog(node, pid) if self.is_current(node, pid) => self.sync_log(node, pid),
            Event::Flush(node, pid) if self.is_current(node, pid) => self.flush(node),
            Event::Start(node) if self.hosts.contains_key(&node) => self.start(node),
            Event::Resume(node, pid) if self.is_current(node, pid) => self.resume(node),
            Event::WorldEvent(on_world_event) => return Some(on_world_event),
            _ => {}
        }
        None
    }

    /// The process that an event is for, if that is stopped.
    fn paused_target(&self, event: &Event) -> Option<NodeId> {
        let node = match event {
            Event::Tick(node, pid)
            | Event::Documents(node, pid)
            | Event::WriteLog(node, pid)
            | Event::SyncLog(node, pid)
            | Event::Flush(node, pid)
            | Event::WriteIncarnation(node, pid, _)
            | Event::Connected { of: node, pid, .. }
            | Event::Broken { of: node, pid, .. }
            | Event::Answered { to: node, pid, .. } => self.is_current(*node, *pid).then_some(*node)?,
            Event::Deliver { from, to, .. } | Event::Message { from, to, .. } => {
                self.reaches(*from, *to).then_some(*to)?
            }
            Event::Propose { .. } | Event::Start(_) | Event::Resume(..) | Event::WorldEvent(_) => {
                return None;
            }
        };
        self.hosts[&node].paused.then_some(node)
    }

    fn is_current(&self, node: NodeId, pid: u64) -> bool {
        self.hosts.get(&node).is_some_and(|host| host.pid == pid && host.process.is_some())
    }

    pub fn host(&mut self, node: NodeId) -> &mut Host {
        self.hosts.get_mut(&node).expect("it is there")
    }

    pub fn nodes(&self) -> Vec<NodeId> {
        self.hosts.keys().copied().collect()
    }

    pub fn nodes_of(&self, region: RegionId) -> Vec<NodeId> {
        let of_region = self.hosts.iter().filter(|(_, host)| host.region == region);
        of_region.map(|(node, _)| *node).collect()
    }

    fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        let hears = |host: &Host| host.process.is_some();
        let exists = self.hosts.contains_key(&from);
        exists && !self.cut.contains(&(from, to)) && self.hosts.get(&to).is_some_and(hears)
    }

    fn tick(&mut self, node: NodeId, pid: u64) {
        self.after(TICK, Event::Tick(node, pid));
        self.step(node, Input::Members(self.members(node)));
        self.step(node, Input::DiskSpace(self.hosts[&node].disk_space()));
        let leads = self.leads(node);
        self.step(node, Input::Tick { leads });
        let host = self.host(node);
        let is_serving = host.process.as_ref().is_some_and(host::Process::is_serving);
        host.is_refilling &= !is_serving;
    }

    pub fn true_ms(&self) -> u64 {
        FIRST_WALL_MS + self.now / MS
    }

    fn step(&mut self, node: NodeId, input: Input) {
        let (now, true_ms, host) = (self.now, self.true_ms(), self.host(node));
        let wall_ms = true_ms.saturating_add_signed(host.skew_ms);
        let Some(process) = &mut host.process else { return };
        let out = process.step(Instant(now), wall_ms, input);
        self.perform(node, out);
    }

    /// As the shell does it: the peers and the disk first.
    fn perform(&mut self, node: NodeId, out: Output) {
        for (to, envelope) in &out.mesh.send {
            self.note_name(envelope);
            self.post(node, *to, envelope);
        }
        for (to, message) in &out.messages {
            self.note_report(node, message);
            self.post_message(node, *to, message);
        }
        self.perform_files(node, &out);
        let region = self.hosts[&node].region;
        for proposal in out.propose.into_iter().filter(|_| !self.is_isolated(node)).collect::<Vec<_>>() {
            let (name, span) = (proposal.name.to_owned(), self.rng.between(MS, 10 * MS));
            self.after(span, Event::Propose { region, name, expect: proposal.expect, bytes: proposal.bytes });
        }
        for note in out.mesh.events {
            if let MeshEvent::Conflict(conflict) = note {
                self.noted.entry(node).or_default().insert(conflict.loser.header.dot);
            }
        }
        out.region_queries.into_iter().for_each(|question| self.ask_region(node, question));
        let Some(process) = &mut self.host(node).process else { return };
        let replies = out.mesh.replies.into_iter();
        let answers = replies.filter_map(|(token, reply)| Some((process.callers.remove(&token)?, reply)));
        let answers: Vec<(usize, Reply)> = answers.collect();
        process.home_leases.set(&out.held);
        self.heard.extend(answers);
        if !out.held.is_empty() {
            self.check_owners();
        }
    }

    fn perform_files(&mut self, node: NodeId, out: &Output) {
        let pid = self.hosts[&node].pid;
        let (sync_max, Some(process)) = (self.sync_max, &mut self.host(node).process) else { return };
        let mut plans = Vec::new();
        if let Some(catch_up) = out.write_catch_up {
            plans.push((sync_max, Event::WriteIncarnation(node, pid, catch_up)));
        }
        if let Some(persist) = &out.mesh.persist {
            process.to_write.push(persist.clone());
            if process.written.is_empty() && process.to_write.len() == 1 {
                plans.push((sync_max, Event::WriteLog(node, pid)));
            }
        }
        if let Some(flush) = &out.mesh.flush {
            process.flush = Some(flush.clone());
            plans.push((50 * MS, Event::Flush(node, pid)));
        }
        for (span, event) in plans {
            let span = 1 + self.rng.between(0, span);
            self.after(span, event);
        }
    }

    /// The newest topology that a node has said to follow.
    fn note_report(&mut self, node: NodeId, message: &Message) {
        if let Message::Report(report) = message {
            let host = self.host(node);
            host.reported = host.reported.max(report.at);
        }
    }

    /// Whatever leaves a node under a name must be the one write of that name, also if its node forgets it.
    fn note_name(&mut self, envelope: &Envelope) {
        let Frame::Store { key, record, reason: StoreReason::Write, .. } = &envelope.frame else { return };
        let Some(header) = Record::decode(record.clone()).map(|record| record.header) else { return };
        let named = self.names.entry(header.dot).or_insert_with(|| (key.clone(), header.stamp));
        if *named != (key.clone(), header.stamp) {
            self.violation =
                Some(format!("dots: {:?} leaves its node as the name of two writes", header.dot));
        }
    }

    /// A node that a client can ask, or none this time.
    pub fn any_running_node(&mut self) -> Option<NodeId> {
        let nodes = self.nodes();
        let node = *self.rng.pick(&nodes);
        let host = &self.hosts[&node];
        (host.process.is_some() && !host.paused).then_some(node)
    }

    /// The world hears the answer under this number.
    pub fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        self.ask_within(node, nth, request, TIMEOUT);
    }

    /// The same, with the time that the client gives its request.
    pub fn ask_within(&mut self, node: NodeId, nth: usize, request: Request, timeout: Duration) {
        let deadline = Instant(self.now).after(timeout);
        let Some(process) = &mut self.host(node).process else { return };
        let token = process.next_token();
        process.callers.insert(token, nth);
        self.step(node, Input::Request { token, deadline, request });
    }

    /// What a client made of an answer.
    pub fn count(&mut self, made: Result<bool, String>, reply: &Reply) {
        match made {
            Ok(true) if matches!(reply, Reply::Written(_)) => self.counts.acknowledged += 1,
            Ok(told) => self.counts.read += u64::from(told),
            Err(wrong) => self.violation = Some(wrong),
        }
    }

    /// Two hosts that should hold the same and do not.
    pub fn differ(&self, counts: impl Fn(NodeId) -> bool) -> Option<String> {
        let mut held: BTreeMap<Shard, (NodeId, u64)> = BTreeMap::new();
        for (node, host) in self.hosts.iter().filter(|(node, _)| counts(**node)) {
            let Some(digests) = host.machine().and_then(mesh::Mesh::digests) else {
                return Some(format!("liveness: node {} does not know what it holds", node.0));
            };
            for (shard, digest) in digests {
                let (other, known) = *held.entry(shard).or_insert((*node, digest));
                if known != digest {
                    let (partition, one, two) = (shard.partition.0, other.0, node.0);
                    return Some(format!("convergence: {one} and {two} differ in partition {partition}"));
                }
            }
        }
        None
    }

    pub fn losers_of_lost_disks(&self) -> BTreeSet<Dot> {
        self.noted_on_lost.clone()
    }

    pub fn n_losers(&self) -> usize {
        self.noted.values().map(BTreeSet::len).sum()
    }
}
