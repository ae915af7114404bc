//! The stage on which nodes of the mesh play, in one region or several: the hosts, what happens between them and when, all
//! in the order that the seed gives it. Frames go as bytes; the steps of disks and of whoever would be coord are events
//! too. A world is a stage with clients, faults and a judge of its own: it is given its cues and the answers to what it
//! asked.

pub mod campaign;
mod coord;
mod faults;
mod files;
mod host;
mod report;

pub use campaign::Summary;
pub(crate) use campaign::campaign_of;
pub(crate) use coord::Realm;
pub(crate) use host::{DRIFT_MAX, Host, ROUND, TIMEOUT};
pub(crate) use report::caught;
pub use report::{Report, Tally};

use base::checksum::hash64;
use base::rng::mix;
use base::{Code, Instant, NodeId, Rng};
use bytes::Bytes;
use mesh::frame::{Envelope, Frame, Shard, Why};
use mesh::key::Key;
use mesh::mesh::Note;
use mesh::moves::Report as Moved;
use mesh::plan::Plan;
use mesh::record::Record;
use mesh::request::{Reply, Request};
use mesh::tidings::Tidings;
use mesh::{Dot, Input, Output, RegionId, Stamp};
use std::collections::{BTreeMap, BTreeSet};

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
    Tidings {
        from: NodeId,
        to: NodeId,
        tidings: Tidings,
    },
    /// A host hears what its region's coord has.
    Documents(NodeId, u64),
    /// Somebody wants to replace the plan that a region's coord has, having seen this version.
    Propose {
        region: RegionId,
        expect: u64,
        plan: Plan,
    },
    WriteLog(NodeId, u64),
    SyncLog(NodeId, u64),
    Flush(NodeId, u64),
    Start(NodeId),
    /// A process that was stopped goes on.
    Resume(NodeId, u64),
    Cue(Cue),
}

/// What is the world's own to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    Client(usize),
    GiveUp(usize),
    Fault,
    Evict,
}

/// A world that plays on a stage.
pub(crate) trait Play {
    fn stage(&mut self) -> &mut Stage;
    fn cue(&mut self, cue: Cue);
    fn hear(&mut self, nth: usize, reply: Reply);

    fn run(&mut self, span: u64) {
        let end = self.stage().now + span;
        self.hear_all();
        while let Some(event) = self.stage().next_event(end) {
            if let Some(cue) = self.stage().play(event) {
                self.cue(cue);
            }
            self.hear_all();
        }
        self.stage().now = end;
    }

    fn hear_all(&mut self) {
        for (nth, reply) in std::mem::take(&mut self.stage().heard) {
            self.hear(nth, reply);
        }
    }
}

pub(crate) struct Stage {
    pub rng: Rng,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    pub hosts: BTreeMap<NodeId, Host>,
    pub realms: BTreeMap<RegionId, Realm>,
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
    /// Names lives of disks.
    n_lives: u32,
    /// The writes that have left their nodes.
    names: BTreeMap<Dot, (Key, Stamp)>,
    pub violation: Option<String>,
    pub tally: Tally,
    pub trace: u64,
}

impl Stage {
    pub fn new(rng: Rng) -> Stage {
        Stage {
            rng,
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            hosts: BTreeMap::new(),
            realms: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss_per_million: 0,
            delay_max: 3 * MS,
            sync_max: 4 * MS,
            is_calm: false,
            heard: Vec::new(),
            noted: BTreeMap::new(),
            noted_on_lost: BTreeSet::new(),
            n_lives: 0,
            names: BTreeMap::new(),
            violation: None,
            tally: Tally::default(),
            trace: 0,
        }
    }

    pub fn add(&mut self, node: NodeId, region: RegionId) {
        let seed = self.rng.next_u64();
        self.hosts.insert(node, Host::new(node, region, seed));
        self.after(1, Event::Start(node));
    }

    pub fn after(&mut self, span: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event);
    }

    pub fn cue_after(&mut self, span: u64, cue: Cue) {
        self.after(span, Event::Cue(cue));
    }

    pub fn drop_cues(&mut self, which: impl Fn(Cue) -> bool) {
        self.events.retain(|_, event| !matches!(event, Event::Cue(cue) if which(*cue)));
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
    fn play(&mut self, event: Event) -> Option<Cue> {
        if let Some(node) = self.paused_target(&event) {
            self.queue(node, event);
            return None;
        }
        match event {
            Event::Tick(node, life) if self.lives(node, life) => self.tick(node, life),
            Event::Deliver { from, to, bytes } if self.reaches(from, to) => self.deliver(from, to, bytes),
            Event::Tidings { from, to, tidings } if self.reaches(from, to) => {
                let at = Instant(self.now);
                if let Some(process) = &mut self.host(to).process {
                    process.controller.hear(at, from, tidings);
                }
            }
            Event::Documents(node, life) if self.lives(node, life) => self.read_documents(node, life),
            Event::Propose { region, expect, plan } => self.replace(region, expect, plan),
            Event::WriteLog(node, life) if self.lives(node, life) => self.write_log(node, life),
            Event::SyncLog(node, life) if self.lives(node, life) => self.sync_log(node, life),
            Event::Flush(node, life) if self.lives(node, life) => self.flush(node),
            Event::Start(node) if self.hosts.contains_key(&node) => self.start(node),
            Event::Resume(node, life) if self.lives(node, life) => self.resume(node),
            Event::Cue(cue) => return Some(cue),
            _ => {}
        }
        None
    }

    /// The process that an event is for, if that is stopped.
    fn paused_target(&self, event: &Event) -> Option<NodeId> {
        let node = match event {
            Event::Tick(node, life)
            | Event::Documents(node, life)
            | Event::WriteLog(node, life)
            | Event::SyncLog(node, life)
            | Event::Flush(node, life) => self.lives(*node, *life).then_some(*node)?,
            Event::Deliver { from, to, .. } | Event::Tidings { from, to, .. } => {
                self.reaches(*from, *to).then_some(*to)?
            }
            Event::Propose { .. } | Event::Start(_) | Event::Resume(..) | Event::Cue(_) => return None,
        };
        self.hosts[&node].paused.then_some(node)
    }

    fn lives(&self, node: NodeId, life: u64) -> bool {
        self.hosts.get(&node).is_some_and(|host| host.life == life && host.process.is_some())
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

    fn any_node_of(&mut self, region: RegionId) -> Option<NodeId> {
        let nodes = self.nodes_of(region);
        (!nodes.is_empty()).then(|| *self.rng.pick(&nodes))
    }

    fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        let hears = |host: &Host| host.process.is_some();
        let exists = self.hosts.contains_key(&from);
        exists && !self.cut.contains(&(from, to)) && self.hosts.get(&to).is_some_and(hears)
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        self.trace = mix(self.trace ^ hash64(&bytes, 0));
        let envelope = Envelope::decode(bytes).expect("what a node sends can be read");
        let region = self.hosts[&from].region;
        match region == self.hosts[&to].region {
            true => self.step(to, Input::Received { from, envelope }),
            false => self.step(to, Input::Abroad { region, from, envelope }),
        }
    }

    fn tick(&mut self, node: NodeId, life: u64) {
        self.after(TICK, Event::Tick(node, life));
        self.begin_when_known(node);
        self.step(node, Input::Room(self.hosts[&node].room()));
        self.step(node, Input::Tick);
        self.tell(node);
        self.decide(node);
        let Some(process) = &mut self.host(node).process else { return };
        let (serving, noted) = (process.is_serving(), process.note_standing());
        self.host(node).is_refilling &= !serving;
        if noted.is_err() {
            self.die(node);
        }
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

    fn perform(&mut self, node: NodeId, out: Output) {
        for (to, envelope) in out.send {
            self.note_name(&envelope);
            self.post(node, to, &envelope);
        }
        for (region, to, envelope) in out.abroad {
            let to = if to == NodeId(0) { self.any_node_of(region) } else { Some(to) };
            to.into_iter().for_each(|to| self.post(node, to, &envelope));
        }
        for note in out.notes {
            if let Note::Conflict(conflict) = note {
                self.noted.entry(node).or_default().insert(conflict.loser.header.dot);
            }
        }
        let life = self.hosts[&node].life;
        let (sync_max, Some(process)) = (self.sync_max, &mut self.host(node).process) else { return };
        let mut plans = Vec::new();
        if let Some(persist) = out.persist {
            process.to_write.push(persist);
            if process.written.is_empty() && process.to_write.len() == 1 {
                plans.push((sync_max, Event::WriteLog(node, life)));
            }
        }
        if let Some(flush) = out.flush {
            process.flush = Some(flush);
            plans.push((50 * MS, Event::Flush(node, life)));
        }
        if let Some(machine) = process.machine.as_ref().filter(|_| !out.reports.is_empty()) {
            out.reports.iter().for_each(|report| process.tidings.add(*report, machine.topology()));
            process.tell_at = 0;
        }
        let callers = &mut process.callers;
        let answers =
            out.replies.into_iter().filter_map(|(token, reply)| Some((callers.remove(&token)?, reply)));
        let answers: Vec<(usize, Reply)> = answers.collect();
        self.heard.extend(answers);
        for (span, event) in plans {
            let span = 1 + self.rng.between(0, span);
            self.after(span, event);
        }
        let reported = out.reports.iter().filter_map(|report| match report {
            Moved::At(epoch) => Some(*epoch),
            _ => None,
        });
        let host = self.host(node);
        host.reported = host.reported.max(reported.max().unwrap_or_default());
    }

    /// Whatever leaves a node under a name must be the one write of that name, also if its node forgets it.
    fn note_name(&mut self, envelope: &Envelope) {
        let Frame::Store { key, record, why: Why::Write, .. } = &envelope.frame else { return };
        let Some(header) = Record::decode(record.clone()).map(|record| record.header) else { return };
        let named = self.names.entry(header.dot).or_insert_with(|| (key.clone(), header.stamp));
        if *named != (key.clone(), header.stamp) {
            self.violation =
                Some(format!("dots: {:?} leaves its node as the name of two writes", header.dot));
        }
    }

    fn post(&mut self, from: NodeId, to: NodeId, envelope: &Envelope) {
        let copies = match self.rng.chance(self.loss_per_million) {
            true => 0,
            false => 1 + u64::from(self.rng.chance(self.loss_per_million / 4)),
        };
        for _ in 0..copies {
            let span = 100 + self.rng.between(0, self.delay_max);
            self.after(span, Event::Deliver { from, to, bytes: envelope.encode() });
        }
    }

    /// Somebody whom a client can ask, or nobody this time.
    pub fn any_that_hears(&mut self) -> Option<NodeId> {
        let nodes = self.nodes();
        let node = *self.rng.pick(&nodes);
        let host = &self.hosts[&node];
        (host.process.is_some() && !host.paused).then_some(node)
    }

    /// The world hears the answer under this number.
    pub fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        let deadline = Instant(self.now).after(TIMEOUT);
        let Some(process) = &mut self.host(node).process else { return };
        if process.machine.is_none() {
            return self.heard.push((nth, Reply::Refused(Code::NotInStep)));
        }
        let token = process.next_token();
        process.callers.insert(token, nth);
        self.step(node, Input::Request { token, deadline, request });
    }

    /// What a client made of an answer.
    pub fn count(&mut self, made: Result<bool, String>, reply: &Reply) {
        match made {
            Ok(true) if matches!(reply, Reply::Written(_)) => self.tally.acknowledged += 1,
            Ok(told) => self.tally.read += u64::from(told),
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
