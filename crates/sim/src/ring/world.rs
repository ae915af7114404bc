//! The hosts, what happens between them and when: frames as bytes, tidings, the document that coord would keep, steps of
//! the disks, clients and faults, all in the order that the seed gives them.

use super::Tally;
use super::clients::{CLIENTS, Clients};
use super::host::{DRIFT_MAX, Host, ROUND, TIMEOUT};
use base::checksum::hash64;
use base::rng::mix;
use base::{Instant, NodeId, Rng};
use bytes::Bytes;
use mesh::controller::Wanted;
use mesh::frame::{Envelope, Frame, Shard, Why};
use mesh::key::Key;
use mesh::moves::Report;
use mesh::plan::Plan;
use mesh::record::Record;
use mesh::request::{Reply, Request};
use mesh::tidings::Tidings;
use mesh::{Dot, Input, Output, RegionId, Stamp};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000;
const TICK: u64 = 20 * MS;
const TELL_EVERY: u64 = 300 * MS;
/// When a client gives up on an answer.
pub const PATIENCE: u64 = 3 * TIMEOUT.as_micros() as u64;
const FIRST_WALL_MS: u64 = 1_700_000_000_000;

pub enum Event {
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
    /// A host hears what coord has.
    Document(NodeId, u64),
    /// Somebody wants to replace what coord has, having seen this version.
    Propose {
        expect: u64,
        plan: Plan,
    },
    WriteLog(NodeId, u64),
    SyncLog(NodeId, u64),
    Flush(NodeId, u64),
    Start(NodeId),
    Client(usize),
    GiveUp(usize),
    Fault,
}

pub struct World {
    pub rng: Rng,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    pub hosts: BTreeMap<NodeId, Host>,
    /// What coord has: the plan, under its version.
    pub document: Option<Plan>,
    pub leader: NodeId,
    pub members: BTreeSet<NodeId>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub loss_per_million: u64,
    pub delay_max: u64,
    pub sync_max: u64,
    pub is_calm: bool,
    pub clients: Clients,
    /// Names lives of disks.
    n_lives: u32,
    /// The writes that have left their nodes.
    names: BTreeMap<Dot, (Key, Stamp)>,
    pub violation: Option<String>,
    pub tally: Tally,
    pub trace: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let n = rng.between(3, 5);
        let members: BTreeSet<NodeId> = (1..=n).map(NodeId).collect();
        let mut world = World {
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            hosts: BTreeMap::new(),
            document: None,
            leader: NodeId(1),
            cut: BTreeSet::new(),
            loss_per_million: 0,
            delay_max: 3 * MS,
            sync_max: 4 * MS,
            is_calm: false,
            clients: Clients::default(),
            n_lives: 0,
            names: BTreeMap::new(),
            violation: None,
            tally: Tally::default(),
            trace: 0,
            members: members.clone(),
            rng,
        };
        members.into_iter().for_each(|node| world.add(node));
        (0..CLIENTS).for_each(|client| world.after(1_500 * MS, Event::Client(client)));
        world.after(2_000 * MS, Event::Fault);
        world
    }

    pub fn add(&mut self, node: NodeId) {
        let seed = self.rng.next_u64();
        self.hosts.insert(node, Host::new(node, RegionId::of("here"), seed));
        self.after(1, Event::Start(node));
    }

    pub fn after(&mut self, span: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event);
    }

    pub fn run(&mut self, span: u64) {
        let end = self.now + span;
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= end
            && self.violation.is_none()
        {
            let ((when, nth), event) = entry.remove_entry();
            self.now = when;
            self.trace = mix(self.trace ^ when ^ nth << 40);
            self.handle(event);
        }
        self.now = end;
    }

    fn lives(&self, node: NodeId, life: u64) -> bool {
        self.hosts[&node].life == life && self.hosts[&node].process.is_some()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick(node, life) if self.lives(node, life) => self.tick(node, life),
            Event::Deliver { from, to, bytes } if self.reaches(from, to) => {
                self.trace = mix(self.trace ^ hash64(&bytes, 0));
                let envelope = Envelope::decode(bytes).expect("what a node sends can be read");
                self.step(to, Input::Received { from, envelope });
            }
            Event::Tidings { from, to, tidings } if self.reaches(from, to) => {
                let at = Instant(self.now);
                if let Some(process) = &mut self.host(to).process {
                    process.controller.hear(at, from, tidings);
                }
            }
            Event::Document(node, life) if self.lives(node, life) => self.read_document(node, life),
            Event::Propose { expect, plan } => self.replace(expect, plan),
            Event::WriteLog(node, life) if self.lives(node, life) => self.write_log(node, life),
            Event::SyncLog(node, life) if self.lives(node, life) => self.sync_log(node, life),
            Event::Flush(node, life) if self.lives(node, life) => self.flush(node),
            Event::Start(node) => self.start(node),
            Event::Client(client) => self.ask_next(client),
            Event::GiveUp(nth) => {
                let given_up = self.clients.give_up(nth);
                self.tally.unknown += u64::from(given_up);
            }
            Event::Fault => self.strike(),
            _ => {}
        }
    }

    pub fn host(&mut self, node: NodeId) -> &mut Host {
        self.hosts.get_mut(&node).expect("hosts stay")
    }

    fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        let hears = |host: &Host| host.process.is_some() && !host.paused;
        !self.cut.contains(&(from, to)) && self.hosts.get(&to).is_some_and(hears)
    }

    /// Cut off from everybody.
    fn is_isolated(&self, node: NodeId) -> bool {
        self.hosts.keys().all(|other| *other == node || self.cut.contains(&(node, *other)))
    }

    fn tick(&mut self, node: NodeId, life: u64) {
        self.after(TICK, Event::Tick(node, life));
        if self.hosts[&node].paused {
            return;
        }
        self.begin_when_known(node);
        self.step(node, Input::Tick);
        self.tell(node);
        self.decide(node);
        let Some(process) = &mut self.host(node).process else { return };
        let (serving, noted) = (process.is_serving(), process.note_standing());
        let host = self.host(node);
        host.is_refilling &= !serving;
        if noted.is_err() {
            self.die(node);
        }
    }

    fn begin_when_known(&mut self, node: NodeId) {
        let Some(process) = &mut self.host(node).process else { return };
        match process.begin_when_known() {
            Ok(Some(input)) => self.step(node, input),
            Ok(None) => {}
            Err(_) => self.die(node),
        }
    }

    pub fn step(&mut self, node: NodeId, input: Input) {
        let (now, host) = (self.now, self.hosts.get_mut(&node).expect("hosts stay"));
        let wall_ms = (FIRST_WALL_MS + now / MS).saturating_add_signed(host.skew_ms);
        let Some(process) = &mut host.process else { return };
        let out = process.step(Instant(now), wall_ms, input);
        self.perform(node, out);
    }

    fn perform(&mut self, node: NodeId, out: Output) {
        for (to, envelope) in out.send {
            self.note_name(&envelope);
            self.post(node, to, &envelope);
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
        let reported = out.reports.iter().filter_map(|report| match report {
            Report::At(epoch) => Some(*epoch),
            _ => None,
        });
        let reported = reported.max();
        let answers: Vec<(usize, Reply)> = { out.replies.into_iter() }
            .filter_map(|(token, reply)| Some((process.callers.remove(&token)?, reply)))
            .collect();
        for (span, event) in plans {
            let span = 1 + self.rng.between(0, span);
            self.after(span, event);
        }
        answers.into_iter().for_each(|(nth, reply)| self.hear(nth, &reply));
        let host = self.host(node);
        host.reported = host.reported.max(reported.unwrap_or_default());
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

    fn hear(&mut self, nth: usize, reply: &Reply) {
        match self.clients.hear(nth, reply) {
            Ok(true) if matches!(reply, Reply::Written(_)) => self.tally.acknowledged += 1,
            Ok(told) => self.tally.read += u64::from(told),
            Err(wrong) => self.violation = Some(wrong),
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

    /// All that gathered is one write.
    fn write_log(&mut self, node: NodeId, life: u64) {
        let sync_max = self.sync_max;
        let Some(process) = &mut self.host(node).process else { return };
        process.written = std::mem::take(&mut process.to_write);
        match process.log.write(&process.written) {
            Ok(()) => {
                let span = 1 + self.rng.between(0, sync_max);
                self.after(span, Event::SyncLog(node, life));
            }
            Err(_) => self.die(node),
        }
    }

    fn sync_log(&mut self, node: NodeId, life: u64) {
        let Some(process) = &mut self.host(node).process else { return };
        if process.log.sync().is_err() {
            return self.die(node);
        }
        let last = process.written.last().map(|persist| persist.seq);
        process.written.clear();
        let more = !process.to_write.is_empty();
        if more {
            self.after(1, Event::WriteLog(node, life));
        }
        if let Some(seq) = last {
            self.step(node, Input::Persisted(seq));
        }
    }

    /// The log goes when the store has what it held.
    fn flush(&mut self, node: NodeId) {
        let Some(process) = &mut self.host(node).process else { return };
        let Some(flush) = process.flush.take() else { return };
        let done = process.store.flush(&flush).and_then(|()| process.log.release(flush.upto));
        match done {
            Ok(()) => self.step(node, Input::Flushed(flush.number)),
            Err(_) => self.die(node),
        }
    }

    /// Trouble with the disk ends the process; it is started again.
    fn die(&mut self, node: NodeId) {
        self.tally.disk_troubles += 1;
        let lost_power = self.hosts[&node].disk.has_lost_power();
        self.end(node, lost_power);
        let span = self.rng.between(10 * MS, 800 * MS);
        self.after(span, Event::Start(node));
    }

    /// The process ends, with the machine or alone.
    pub fn end(&mut self, node: NodeId, power_cut: bool) {
        self.tally.crashes += 1;
        let host = self.host(node);
        host.life += 1;
        host.paused = false;
        if power_cut {
            host.disk.crash()
        } else {
            host.disk.kill()
        }
        host.process = None;
    }

    fn start(&mut self, node: NodeId) {
        if self.hosts[&node].process.is_some() {
            return;
        }
        self.n_lives += 1;
        let fresh = self.n_lives;
        let host = self.host(node);
        host.life += 1;
        let (life, failed) = (host.life, host.disk.counters().syncs_failed);
        match host.open(fresh) {
            Ok(process) if process.kept_epoch() < host.reported => {
                let (reported, kept) = (host.reported.0, process.kept_epoch().0);
                let forgot =
                    format!("epochs: node {} said to follow {reported} and comes back at {kept}", node.0);
                self.violation = Some(forgot);
                return;
            }
            Ok(process) => host.process = Some(process),
            Err(_) if host.disk.has_lost_power() || host.disk.counters().syncs_failed > failed => {
                return self.die(node);
            }
            Err(error) => {
                self.violation = Some(format!("restart: node {} does not come back: {error}", node.0));
                return;
            }
        }
        self.after(1, Event::Document(node, life));
        self.after(2, Event::Tick(node, life));
    }

    /// What coord has comes to everybody who is not cut off, sooner or later.
    fn read_document(&mut self, node: NodeId, life: u64) {
        if self.is_isolated(node) || self.hosts[&node].paused {
            return self.after(100 * MS, Event::Document(node, life));
        }
        let Some(plan) = self.document.clone() else { return };
        let Some(process) = &mut self.host(node).process else { return };
        if let Some(topology) = process.learn(plan) {
            self.step(node, Input::Topology(topology));
        }
        self.begin_when_known(node);
    }

    fn tell(&mut self, node: NodeId) {
        let now = self.now;
        let Some(process) = &mut self.host(node).process else { return };
        if process.tell_at > now {
            return;
        }
        process.tell_at = now + TELL_EVERY;
        let tidings = process.tidings.clone();
        process.controller.hear(Instant(now), node, tidings.clone());
        for to in self.hosts.keys().copied().filter(|to| *to != node).collect::<Vec<_>>() {
            let span = 100 + self.rng.between(0, self.delay_max);
            self.after(span, Event::Tidings { from: node, to, tidings: tidings.clone() });
        }
    }

    /// Whoever leads coord makes the next plan of the one that it knows.
    fn decide(&mut self, node: NodeId) {
        let (leads, at) = (self.leader == node && !self.is_isolated(node), Instant(self.now));
        let wanted = Wanted { members: self.members.clone(), ..Wanted::default() };
        let Some(process) = &mut self.host(node).process else { return };
        process.controller.set_leading(at, leads);
        let known = process.plan.as_ref().map_or(0, |plan| plan.epoch().0);
        if let Some(plan) = process.controller.decide(at, process.plan.as_ref(), &wanted) {
            let span = self.rng.between(MS, 10 * MS);
            self.after(span, Event::Propose { expect: known, plan });
        }
    }

    fn replace(&mut self, expect: u64, plan: Plan) {
        if self.document.as_ref().map_or(0, |plan| plan.epoch().0) != expect {
            return;
        }
        self.document = Some(plan);
        for (node, life) in self.hosts.iter().map(|(node, host)| (*node, host.life)).collect::<Vec<_>>() {
            let span = self.rng.between(MS, 40 * MS);
            self.after(span, Event::Document(node, life));
        }
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.rng.between(MS, 30 * MS);
        self.after(pause, Event::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        let node = *self.rng.pick(&nodes);
        if self.hosts[&node].process.is_none() || self.hosts[&node].paused {
            return;
        }
        let (nth, request) = self.clients.next(&mut self.rng, client);
        self.ask(node, nth, request);
    }

    fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        self.after(PATIENCE, Event::GiveUp(nth));
        let deadline = Instant(self.now).after(TIMEOUT);
        let Some(process) = &mut self.host(node).process else { return };
        if process.machine.is_none() {
            return self.hear(nth, &Reply::Refused(base::Code::NotInStep));
        }
        let token = process.next_token();
        process.callers.insert(token, nth);
        self.step(node, Input::Request { token, deadline, request });
    }

    /// Nothing goes wrong any more, and everybody is there.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.heal();
        for node in self.hosts.keys().copied().collect::<Vec<_>>() {
            let host = self.host(node);
            host.disk.cancel_faults();
            (host.paused, host.skew_ms) = (false, 0);
            self.after(1, Event::Start(node));
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        (self.loss_per_million, self.delay_max, self.sync_max) = (0, 3 * MS, 4 * MS);
    }

    /// Everybody is asked for everything; then all replicas must hold the same, and no clock be led astray.
    pub fn judge_end(&mut self) -> Option<String> {
        self.events.retain(|_, event| !matches!(event, Event::Client(_) | Event::Fault));
        self.run(2 * PATIENCE);
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        for key in self.clients.keys() {
            for node in &nodes {
                let (nth, request) = self.clients.read(&key);
                self.ask(*node, nth, request);
                if let Some(wrong) = self.wait_for(nth) {
                    return Some(wrong);
                }
            }
        }
        self.judge_clocks(&nodes).or_else(|| self.judge_convergence())
    }

    /// Within three rounds after the last write all replicas hold the same. What is forgotten goes from one after the other.
    fn judge_convergence(&mut self) -> Option<String> {
        let end = self.now + 3 * ROUND.as_micros() as u64;
        loop {
            let differs = self.judge_replicas();
            if differs.is_none() || self.now >= end || self.violation.is_some() {
                return self.violation.take().or(differs);
            }
            self.run(20 * MS);
        }
    }

    fn wait_for(&mut self, nth: usize) -> Option<String> {
        let (read, written) = (self.tally.read, self.tally.acknowledged);
        for _ in 0..600 {
            if self.violation.is_some() {
                return self.violation.take();
            }
            if self.clients.operations[nth].done {
                let answered = self.tally.read + self.tally.acknowledged > read + written;
                return (!answered).then(|| "liveness: a request is refused in a calm".to_owned());
            }
            self.run(MS);
        }
        Some("liveness: a request is not answered in a calm".to_owned())
    }

    /// A node that was never ahead gives stamps of its own time to keys that are new.
    fn judge_clocks(&mut self, nodes: &[NodeId]) -> Option<String> {
        for node in nodes.iter().filter(|node| !self.hosts[node].was_ahead).copied().collect::<Vec<_>>() {
            let (nth, request) = self.clients.write(&format!("new/{}", node.0), false);
            self.ask(node, nth, request);
            if let Some(wrong) = self.wait_for(nth) {
                return Some(wrong);
            }
        }
        let true_ms = FIRST_WALL_MS + self.now / MS;
        let bound_ms = true_ms + 2 * DRIFT_MAX.as_millis() as u64;
        let ahead = |node: &&NodeId| {
            let machine = self.hosts[node].process.as_ref().and_then(|process| process.machine.as_ref());
            !self.hosts[node].was_ahead && machine.is_some_and(|machine| machine.clock_ms() > bound_ms)
        };
        let led_astray = nodes.iter().find(ahead)?;
        Some(format!("clocks: node {} gives stamps of the future, though its clock is right", led_astray.0))
    }

    fn judge_replicas(&self) -> Option<String> {
        let mut held: BTreeMap<Shard, (NodeId, u64)> = BTreeMap::new();
        // Whoever has left, and lost its disk since, stays a guest and holds nothing.
        let in_ring =
            |node: NodeId| self.document.as_ref().is_some_and(|plan| plan.topology.member(node).is_some());
        for (node, host) in self.hosts.iter().filter(|(node, _)| in_ring(**node)) {
            let machine = host.process.as_ref().and_then(|process| process.machine.as_ref());
            let Some(digests) = machine.and_then(mesh::Mesh::digests) else {
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
}
