//! The hosts of all regions, what happens between them and when. Each region has what its coord would keep: the plan of
//! its ring, its table of regions, and whoever leads. Frames go as bytes, within a region and between two.

use super::clients::{CLIENTS, Clients};
use crate::ring::{Host, PATIENCE, TIMEOUT, Tally};
use base::checksum::hash64;
use base::rng::mix;
use base::{Instant, NodeId, Rng};
use bytes::Bytes;
use mesh::controller::Wanted;
use mesh::frame::Envelope;
use mesh::mesh::Note;
use mesh::plan::Plan;
use mesh::request::{Reply, Request};
use mesh::tidings::Tidings;
use mesh::{Dot, Input, Output, Region, RegionId, Regions};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000;
const TICK: u64 = 20 * MS;
const TELL_EVERY: u64 = 300 * MS;
const FIRST_WALL_MS: u64 = 1_700_000_000_000;
/// Nodes of the first region are 11, 12, 13.
const REGION_STEP: u64 = 10;

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
    /// A host hears what its region's coord has.
    Documents(NodeId, u64),
    Propose {
        region: RegionId,
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
    Evict,
}

/// What one region's coord keeps.
pub struct Realm {
    document: Option<Plan>,
    pub table: Regions,
    pub leader: NodeId,
    members: BTreeSet<NodeId>,
}

pub struct World {
    pub rng: Rng,
    pub now: u64,
    events: BTreeMap<(u64, u64), Event>,
    n_events: u64,
    pub hosts: BTreeMap<NodeId, Host>,
    pub realms: BTreeMap<RegionId, Realm>,
    /// For good.
    pub gone: Option<RegionId>,
    pub cut: BTreeSet<(NodeId, NodeId)>,
    pub loss_per_million: u64,
    pub delay_max: u64,
    pub sync_max: u64,
    pub is_calm: bool,
    pub clients: Clients,
    /// Losers of conflicts, by the node that noted them, and those that went with a disk.
    noted: BTreeMap<NodeId, BTreeSet<Dot>>,
    noted_on_lost: BTreeSet<Dot>,
    /// What the judge asked.
    answer: Option<Reply>,
    n_lives: u32,
    pub violation: Option<String>,
    pub tally: Tally,
    pub trace: u64,
}

/// In place of a client's operation: the judge asks.
const JUDGE: usize = usize::MAX;

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let n_regions = rng.between(2, 4);
        let names: Vec<String> = (1..=n_regions).map(|n| format!("r{n}")).collect();
        let add =
            |table: Regions, name: &String| table.with(Region::new(name, vec![])).expect("a lawful name");
        let table = names.iter().fold(Regions::default(), add);
        let evicts = n_regions == 3 && rng.chance(300_000);
        let mut world = World {
            now: 0,
            events: BTreeMap::new(),
            n_events: 0,
            hosts: BTreeMap::new(),
            realms: BTreeMap::new(),
            gone: None,
            cut: BTreeSet::new(),
            loss_per_million: 0,
            delay_max: 3 * MS,
            sync_max: 4 * MS,
            is_calm: false,
            clients: Clients::new(),
            noted: BTreeMap::new(),
            noted_on_lost: BTreeSet::new(),
            answer: None,
            n_lives: 0,
            violation: None,
            tally: Tally::default(),
            trace: 0,
            rng,
        };
        for (nth, name) in names.iter().enumerate() {
            let (first, n) = (REGION_STEP * (nth as u64 + 1) + 1, world.rng.between(2, 4));
            let members: BTreeSet<NodeId> = (first..first + n).map(NodeId).collect();
            let region = RegionId::of(name);
            let leader = NodeId(first);
            members.iter().for_each(|node| world.add(*node, region));
            world.realms.insert(region, Realm { document: None, table: table.clone(), leader, members });
        }
        (0..CLIENTS).for_each(|client| world.after(1_500 * MS, Event::Client(client)));
        world.after(2_000 * MS, Event::Fault);
        if evicts {
            let span = world.rng.between(6_000 * MS, 14_000 * MS);
            world.after(span, Event::Evict);
        }
        world
    }

    fn add(&mut self, node: NodeId, region: RegionId) {
        let seed = self.rng.next_u64();
        let mut host = Host::new(node, region, seed);
        host.skew_ms = self.rng.between(0, 800) as i64 - 400;
        self.hosts.insert(node, host);
        self.after(1, Event::Start(node));
    }

    pub fn after(&mut self, span: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event);
    }

    pub fn drop_events(&mut self, which: impl Fn(&Event) -> bool) {
        self.events.retain(|_, event| !which(event));
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
        self.hosts.get(&node).is_some_and(|host| host.life == life && host.process.is_some())
    }

    fn handle(&mut self, event: Event) {
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
            Event::Client(client) => self.ask_next(client),
            Event::GiveUp(nth) => {
                let given_up = self.clients.give_up(nth);
                self.tally.unknown += u64::from(given_up);
            }
            Event::Fault => self.strike(),
            Event::Evict => self.evict(),
            _ => {}
        }
    }

    pub fn host(&mut self, node: NodeId) -> &mut Host {
        self.hosts.get_mut(&node).expect("it is there")
    }

    pub fn realm(&mut self, region: RegionId) -> &mut Realm {
        self.realms.get_mut(&region).expect("it is there")
    }

    pub fn nodes_of(&self, region: RegionId) -> Vec<NodeId> {
        let of_region = self.hosts.iter().filter(|(_, host)| host.region == region);
        of_region.map(|(node, _)| *node).collect()
    }

    fn reaches(&self, from: NodeId, to: NodeId) -> bool {
        let hears = |host: &Host| host.process.is_some() && !host.paused;
        let exists = self.hosts.contains_key(&from);
        exists && !self.cut.contains(&(from, to)) && self.hosts.get(&to).is_some_and(hears)
    }

    /// Cut off from everybody in its region, who are not alone without it.
    fn is_isolated(&self, node: NodeId) -> bool {
        let others = self.nodes_of(self.hosts[&node].region).into_iter().filter(|other| *other != node);
        others.into_iter().all(|other| self.cut.contains(&(node, other)))
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
        if self.hosts[&node].paused {
            return;
        }
        self.begin_when_known(node);
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

    fn begin_when_known(&mut self, node: NodeId) {
        let region = self.hosts[&node].region;
        let Some(process) = &mut self.host(node).process else { return };
        let had_begun = process.machine.is_some();
        match process.begin_when_known() {
            Ok(input) => {
                let has_begun = process.machine.is_some();
                input.into_iter().for_each(|input| self.step(node, input));
                if has_begun && !had_begun {
                    let table = self.realms[&region].table.clone();
                    self.step(node, Input::Regions(table));
                }
            }
            Err(_) => self.die(node),
        }
    }

    fn step(&mut self, node: NodeId, input: Input) {
        let (now, host) = (self.now, self.hosts.get_mut(&node).expect("it is there"));
        let wall_ms = (FIRST_WALL_MS + now / MS).saturating_add_signed(host.skew_ms);
        let Some(process) = &mut host.process else { return };
        let out = process.step(Instant(now), wall_ms, input);
        self.perform(node, out);
    }

    fn perform(&mut self, node: NodeId, out: Output) {
        for (to, envelope) in out.send {
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
        let answers: Vec<(usize, Reply)> = { out.replies.into_iter() }
            .filter_map(|(token, reply)| Some((process.callers.remove(&token)?, reply)))
            .collect();
        for (span, event) in plans {
            let span = 1 + self.rng.between(0, span);
            self.after(span, event);
        }
        answers.into_iter().for_each(|(nth, reply)| self.hear(nth, reply));
    }

    fn any_node_of(&mut self, region: RegionId) -> Option<NodeId> {
        let nodes = self.nodes_of(region);
        (!nodes.is_empty()).then(|| *self.rng.pick(&nodes))
    }

    fn hear(&mut self, nth: usize, reply: Reply) {
        if nth == JUDGE {
            self.answer = Some(reply);
            return;
        }
        match self.clients.hear(nth, &reply) {
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
        if !process.to_write.is_empty() {
            self.after(1, Event::WriteLog(node, life));
        }
        if let Some(seq) = last {
            self.step(node, Input::Persisted(seq));
        }
    }

    fn flush(&mut self, node: NodeId) {
        let Some(process) = &mut self.host(node).process else { return };
        let Some(flush) = process.flush.take() else { return };
        match process.store.flush(&flush).and_then(|()| process.log.release(flush.upto)) {
            Ok(()) => self.step(node, Input::Flushed(flush.number)),
            Err(_) => self.die(node),
        }
    }

    fn die(&mut self, node: NodeId) {
        self.tally.disk_troubles += 1;
        let lost_power = self.hosts[&node].disk.has_lost_power();
        self.end(node, lost_power);
        let span = self.rng.between(10 * MS, 800 * MS);
        self.after(span, Event::Start(node));
    }

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
            Ok(process) => host.process = Some(process),
            Err(_) if host.disk.has_lost_power() || host.disk.counters().syncs_failed > failed => {
                return self.die(node);
            }
            Err(error) => {
                self.violation = Some(format!("restart: node {} does not come back: {error}", node.0));
                return;
            }
        }
        self.after(1, Event::Documents(node, life));
        self.after(2, Event::Tick(node, life));
    }

    /// What its coord has comes to everybody in the region who is not cut off, sooner or later.
    fn read_documents(&mut self, node: NodeId, life: u64) {
        if self.is_isolated(node) || self.hosts[&node].paused {
            return self.after(100 * MS, Event::Documents(node, life));
        }
        let Realm { document, table, .. } = &self.realms[&self.hosts[&node].region];
        let (document, table) = (document.clone(), table.clone());
        let Some(process) = &mut self.host(node).process else { return };
        if let Some(topology) = document.and_then(|plan| process.learn(plan)) {
            self.step(node, Input::Topology(topology));
        }
        self.begin_when_known(node);
        self.step(node, Input::Regions(table));
    }

    fn tell(&mut self, node: NodeId) {
        let (now, region) = (self.now, self.hosts[&node].region);
        let Some(process) = &mut self.host(node).process else { return };
        if process.tell_at > now {
            return;
        }
        process.tell_at = now + TELL_EVERY;
        let tidings = process.tidings.clone();
        process.controller.hear(Instant(now), node, tidings.clone());
        for to in self.nodes_of(region).into_iter().filter(|to| *to != node) {
            let span = 100 + self.rng.between(0, self.delay_max);
            self.after(span, Event::Tidings { from: node, to, tidings: tidings.clone() });
        }
    }

    fn decide(&mut self, node: NodeId) {
        let (region, at) = (self.hosts[&node].region, Instant(self.now));
        let realm = &self.realms[&region];
        let leads = realm.leader == node && !self.is_isolated(node);
        let wanted = Wanted { members: realm.members.clone(), ..Wanted::default() };
        let Some(process) = &mut self.host(node).process else { return };
        process.controller.set_leading(at, leads);
        let known = process.plan.as_ref().map_or(0, |plan| plan.epoch().0);
        if let Some(plan) = process.controller.decide(at, process.plan.as_ref(), &wanted) {
            let span = self.rng.between(MS, 10 * MS);
            self.after(span, Event::Propose { region, expect: known, plan });
        }
    }

    fn replace(&mut self, region: RegionId, expect: u64, plan: Plan) {
        let Some(realm) = self.realms.get_mut(&region) else { return };
        if realm.document.as_ref().map_or(0, |plan| plan.epoch().0) != expect {
            return;
        }
        realm.document = Some(plan);
        self.spread_documents(region);
    }

    pub fn spread_documents(&mut self, region: RegionId) {
        for node in self.nodes_of(region) {
            let (span, life) = (self.rng.between(MS, 40 * MS), self.hosts[&node].life);
            self.after(span, Event::Documents(node, life));
        }
    }

    fn ask_next(&mut self, client: usize) {
        let pause = self.rng.between(MS, 60 * MS);
        self.after(pause, Event::Client(client));
        if self.clients.is_busy(client) {
            return;
        }
        let nodes: Vec<NodeId> = self.hosts.keys().copied().collect();
        let node = *self.rng.pick(&nodes);
        let host = &self.hosts[&node];
        if host.process.as_ref().is_none_or(|process| process.machine.is_none()) || host.paused {
            return;
        }
        let (nth, request) = self.clients.next(&mut self.rng, client, host.region);
        self.after(PATIENCE, Event::GiveUp(nth));
        self.ask(node, nth, request);
    }

    fn ask(&mut self, node: NodeId, nth: usize, request: Request) {
        let deadline = Instant(self.now).after(TIMEOUT);
        let Some(process) = &mut self.host(node).process else { return };
        let token = process.next_token();
        process.callers.insert(token, nth);
        self.step(node, Input::Request { token, deadline, request });
    }

    /// The judge asks, and waits.
    pub fn call(&mut self, node: NodeId, request: Request) -> Option<Reply> {
        self.answer = None;
        self.ask(node, JUDGE, request);
        for _ in 0..600 {
            if self.answer.is_some() || self.violation.is_some() {
                break;
            }
            self.run(MS);
        }
        self.answer.take()
    }

    /// Nothing goes wrong any more, and everybody is there who will be.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.heal();
        for node in self.hosts.keys().copied().collect::<Vec<_>>() {
            let host = self.host(node);
            host.disk.cancel_faults();
            host.paused = false;
            self.after(1, Event::Start(node));
        }
    }

    pub fn heal(&mut self) {
        self.cut.clear();
        (self.loss_per_million, self.delay_max, self.sync_max) = (0, 3 * MS, 4 * MS);
    }

    /// What a node has noted goes with its disk.
    pub fn forget_noted(&mut self, node: NodeId) {
        self.noted_on_lost.extend(self.noted.remove(&node).unwrap_or_default());
    }

    pub fn losers_of_lost_disks(&self) -> BTreeSet<Dot> {
        self.noted_on_lost.clone()
    }

    pub fn n_losers(&self) -> usize {
        self.noted.values().map(BTreeSet::len).sum()
    }
}
