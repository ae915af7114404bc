//! The driver. `step` takes one input, any number of times in a turn; `end_turn` completes the output of the turn. The
//! shell then sends, persists, answers and does the rest, in that order: what leaves before it is durable is decided by
//! the machine of `mesh`, which holds it back.

use crate::address_book::AddressBook;
use crate::discovery::{Discovery, Facts, Progress, answer_question};
use crate::documents::{Document, Documents};
use crate::homes::{Around, HomeDriver};
use crate::messages::{Coord, HeldFor, Input, Message, Note, Output, Proposal, Settings};
use crate::planner::Planner;
use crate::reporter::Reporter;
use crate::startup::{Startup, Step};
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use mesh::document_exchange::{self, DocumentExchange};
use mesh::life::{Life, Standing};
use mesh::mesh::Destination;
use mesh::request::Reply;
use mesh::rows::{Row, Rows};
use mesh::steward::{Name, Tenure, Word};
use mesh::tidings::Tidings;
use mesh::{Actor, Epoch, Mesh, Now, Params, RegionId, Regions, Topology, handler, regions};
use std::collections::BTreeSet;

pub struct Driver {
    settings: Settings,
    machine: Option<Mesh>,
    startup: Startup,
    documents: Documents,
    /// The table of regions, decoded once for each of its versions; the newest that can be read.
    table: Regions,
    table_read: u64,
    /// Of the documents that the machine has been told.
    regions_told: u64,
    handlers_told: u64,
    coord: Coord,
    reporter: Reporter,
    planner: Planner,
    homes: HomeDriver,
    exchange: DocumentExchange,
    /// This node leads coord, as of the last tick.
    leads: bool,
    discovery: Discovery,
    addresses: AddressBook,
    /// The peers, of this region and others, that a stream leads to.
    connected: BTreeSet<NodeId>,
    /// Frames that were for any node of a region, so that they do not all go to the same.
    n_to_any: usize,
}

impl Driver {
    /// A node on its rows; `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(settings: Settings, life: Life, replayed: Vec<Vec<Row>>, rows: &dyn Rows) -> Driver {
        let Settings { me, region, zone, points, address, address_abroad, regions, .. } = settings.clone();
        let here = RegionId::of(&region);
        let tidings = Tidings {
            incarnation: life.incarnation,
            zone,
            points,
            address,
            abroad: address_abroad.clone(),
            ..Tidings::default()
        };
        let mut addresses = AddressBook::default();
        addresses.learn(me, &address_abroad);
        let name = Name { node: me, start: u64::from(life.incarnation) << 32 ^ life.boot };
        Driver {
            machine: None,
            startup: Startup::new(life, replayed, rows),
            documents: Documents::default(),
            table: Regions::default(),
            table_read: 0,
            regions_told: 0,
            handlers_told: 0,
            coord: Coord::default(),
            reporter: Reporter::new(tidings),
            planner: Planner::new(here, regions),
            homes: HomeDriver::new(here, name),
            exchange: DocumentExchange::default(),
            leads: false,
            discovery: Discovery::default(),
            addresses,
            connected: BTreeSet::new(),
            n_to_any: 0,
            settings,
        }
    }

    /// None until there is a topology.
    pub fn machine(&self) -> Option<&Mesh> {
        self.machine.as_ref()
    }

    pub fn life(&self) -> Life {
        self.startup.life
    }

    /// Nodes of this region that hold nothing of coord.
    pub fn followers(&self) -> Vec<NodeId> {
        self.planner.followers()
    }

    pub fn address_book(&self) -> &AddressBook {
        &self.addresses
    }

    /// The topology that the disk had, until the machine begins.
    pub fn kept_epoch(&self) -> Epoch {
        self.startup.kept().map_or_else(Epoch::default, |topology| topology.epoch)
    }

    /// The other side of `Output::questions`.
    pub fn answer(&self, question: Bytes) -> Bytes {
        answer_question(question, &self.facts())
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            region: &self.settings.region,
            cluster: self.settings.cluster,
            table: &self.table,
            topology: self.machine.as_ref().map(Mesh::topology),
            addresses: &self.addresses,
        }
    }

    pub fn step(&mut self, now: Now, input: Input, rows: &dyn Rows, out: &mut Output) {
        match input {
            Input::Request { token, deadline, request } => match self.machine {
                Some(_) => self.run(now, mesh::Input::Request { token, deadline, request }, rows, out),
                None => out.mesh.replies.push((token, Reply::Refused(Code::NotInStep))),
            },
            Input::Frame { from, envelope } => {
                self.run(now, mesh::Input::Received { from, envelope }, rows, out);
            }
            Input::FrameAbroad { region, from, envelope } => {
                self.run(now, mesh::Input::Abroad { region, from, envelope }, rows, out);
            }
            Input::Report { from, tidings } => self.hear_report(now.at, from, tidings, out),
            Input::HomeMessage { region, word } => self.hear_home(now.at, region, word),
            Input::DocumentMessage { region, message } => {
                self.receive_documents(now.at, region, message, out);
            }
            Input::Held(held) => self.be_told_held(now.at, held, out),
            Input::AskTenures { from, asked } => self.homes.hear_ask(now.at, from, asked),
            Input::Tenures(asked, held) => out.held.extend(self.homes.hear_tenures(now.at, asked, held)),
            Input::Documents(documents) => {
                documents.iter().for_each(|document| {
                    self.documents.learn(document);
                });
                self.follow_documents(now, rows, out);
            }
            Input::Told(document) => self.be_told(now, document, rows, out),
            Input::Members(coord) => self.coord = coord,
            Input::Connected(peer) => self.greet(peer, out),
            Input::Lost(peer) => {
                self.connected.remove(&peer);
                self.run(now, mesh::Input::Lost(peer), rows, out);
            }
            Input::Persisted(seq) => self.run(now, mesh::Input::Persisted(seq), rows, out),
            Input::Flushed(number) => self.run(now, mesh::Input::Flushed(number), rows, out),
            Input::Space(room) => self.run(now, mesh::Input::Room(room), rows, out),
            Input::LifeWritten(standing) => self.life_written(now, standing, rows, out),
            Input::Answered { region, answer } => self.hear_answer(now.at, region, answer, out),
            Input::Tick { leads } => self.tick(now, leads, rows, out),
        }
    }

    /// Completes what the steps of a turn have put into the output.
    pub fn end_turn(&mut self, now: Now, out: &mut Output) {
        let Some(machine) = &mut self.machine else { return };
        machine.collect(&mut out.mesh);
        if !out.mesh.reports.is_empty() {
            self.reporter.add(now.at, &out.mesh.reports, machine.topology());
            out.mesh.reports.clear();
            out.topology_changed = true;
        }
        for (destination, envelope) in std::mem::take(&mut out.mesh.abroad) {
            let to = match destination {
                Destination::Node { node, .. } => Some(node),
                Destination::AnyOf(region) => self.any_node_of(region),
            };
            out.mesh.send.extend(to.map(|to| (to, envelope)));
        }
    }

    /// One that a stream leads to; another one each time.
    fn any_node_of(&mut self, region: RegionId) -> Option<NodeId> {
        let nodes = self.addresses.node_ids(region).filter(|node| self.connected.contains(node));
        let nodes: Vec<NodeId> = nodes.collect();
        self.n_to_any = self.n_to_any.wrapping_add(1);
        nodes.get(self.n_to_any % nodes.len().max(1)).copied()
    }

    fn run(&mut self, now: Now, input: mesh::Input, rows: &dyn Rows, out: &mut Output) {
        if let Some(machine) = &mut self.machine {
            machine.step(now, input, rows, &mut out.mesh);
        }
    }

    fn tick(&mut self, now: Now, leads: bool, rows: &dyn Rows, out: &mut Output) {
        self.go_on_starting(now, rows, out);
        self.run(now, mesh::Input::Tick, rows, out);
        if self.machine.as_ref().is_some_and(Mesh::is_serving)
            && let Step::Write(standing) = self.startup.catch_up()
        {
            out.life = Some(standing);
        }
        if self.reporter.tick(now.at, &self.coord.peers, out) {
            self.planner.hear(now.at, self.settings.me, self.reporter.tidings.clone());
        }
        self.planner.tick(now.at, leads, &self.documents, &self.coord, out);
        let (documents, coord) = (&self.documents, &self.coord);
        let around = Around { documents, table: &self.table, addresses: &self.addresses, coord };
        self.homes.tick(now.at, leads, &around, out);
        self.leads = leads;
        self.exchange_documents(now.at, out);
        self.look_for_regions(now.at, out);
    }

    fn hear_report(&mut self, now: Instant, from: NodeId, tidings: Tidings, out: &mut Output) {
        out.addresses_changed |= self.addresses.learn(from, &tidings.abroad);
        self.planner.hear(now, from, tidings);
    }

    fn hear_home(&mut self, now: Instant, region: RegionId, word: Word) {
        self.homes.hear(now, region, word);
    }

    /// Regions share some documents; the leader of each tells the others what it has.
    fn exchange_documents(&mut self, now: Instant, out: &mut Output) {
        if !self.leads {
            return;
        }
        let here = RegionId::of(&self.settings.region);
        let documents = &self.documents;
        let others = self.table.others(here);
        let actions = self.exchange.tick(now, others, |name| documents.get(name).map(|(_, bytes)| bytes));
        self.perform_exchange(actions, out);
    }

    fn receive_documents(
        &mut self,
        now: Instant,
        region: RegionId,
        message: document_exchange::Message,
        out: &mut Output,
    ) {
        if !self.leads {
            return;
        }
        let documents = &self.documents;
        let find = |name: &str| documents.get(name).map(|(_, bytes)| bytes);
        let actions = self.exchange.receive(now, region, message, find);
        self.perform_exchange(actions, out);
    }

    /// Which node leads the other region is not known, so all its nodes are told.
    fn perform_exchange(&self, actions: document_exchange::Actions, out: &mut Output) {
        for (region, message) in actions.send {
            let nodes = self.addresses.node_ids(region);
            out.messages.extend(nodes.map(|node| (node, Message::Documents(message.clone()))));
        }
        for (name, bytes) in actions.propose {
            out.propose.push(Proposal { name, expect: self.documents.version(name), bytes });
        }
    }

    fn be_told_held(&mut self, now: Instant, held: Vec<HeldFor>, out: &mut Output) {
        let tenure = |(place, epoch, span)| Tenure { place, epoch, until: now.after(span) };
        out.held.extend(held.into_iter().map(tenure));
    }

    /// A node of this region hears how this one is doing, and of the documents if it holds nothing of coord.
    fn greet(&mut self, peer: NodeId, out: &mut Output) {
        self.connected.insert(peer);
        if self.addresses.region_of(peer).is_some() {
            return;
        }
        self.reporter.send(peer, out);
        if !self.settings.data_only && self.planner.followers().contains(&peer) {
            out.documents_to.push(peer);
        }
    }

    fn be_told(&mut self, now: Now, document: Document, rows: &dyn Rows, out: &mut Output) {
        if self.settings.data_only && self.documents.learn(&document) {
            out.learned.push(document);
            self.follow_documents(now, rows, out);
        }
    }

    /// What the documents say may be newer than what the machine goes by.
    fn follow_documents(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
        if let Some(topology) = self.planner.follow(&self.documents, out) {
            self.reporter.hasten();
            self.run(now, mesh::Input::Topology(topology), rows, out);
        }
        if !self.settings.data_only {
            out.documents_to.extend(self.planner.followers());
        }
        if self.documents.version(regions::DOCUMENT) > self.table_read {
            self.read_table(out);
        }
        self.go_on_starting(now, rows, out);
        self.tell_machine(now, rows, out);
    }

    fn read_table(&mut self, out: &mut Output) {
        let version = self.documents.version(regions::DOCUMENT);
        self.table_read = version;
        let Some(table) = self.documents.regions() else {
            return out.notes.push(Note::Unreadable { name: regions::DOCUMENT, version });
        };
        self.discovery.keep(&table);
        out.addresses_changed |= self.addresses.keep(&table);
        self.table = table;
    }

    /// What else the machine goes by; what it knows already it does not hear again.
    fn tell_machine(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
        if self.machine.is_none() {
            return;
        }
        if self.table.version > self.regions_told {
            self.regions_told = self.table.version;
            self.run(now, mesh::Input::Regions(self.table.clone()), rows, out);
        }
        if let Some((version, handlers)) = self.documents.handlers_after(self.handlers_told) {
            self.handlers_told = version;
            match handlers {
                Ok(handlers) => self.run(now, mesh::Input::Handlers(handlers), rows, out),
                Err(()) => out.notes.push(Note::Unreadable { name: handler::DOCUMENT, version }),
            }
        }
    }

    fn go_on_starting(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
        match self.startup.next(self.planner.plan(), self.settings.me) {
            Step::Wait => {}
            Step::Write(standing) => out.life = Some(standing),
            Step::Begin(topology, replayed) => {
                self.begin(topology, replayed, rows, out);
                self.tell_machine(now, rows, out);
            }
        }
    }

    fn begin(&mut self, topology: Topology, replayed: Vec<Vec<Row>>, rows: &dyn Rows, out: &mut Output) {
        let (life, is_unenrolled) = (self.startup.life, self.startup.is_unenrolled);
        let settings = &self.settings;
        let params = Params {
            actor: Actor { region: topology.region, node: settings.me, incarnation: life.incarnation },
            boot: life.boot,
            wiped: life.standing == Standing::Behind,
            guest: is_unenrolled,
            drift_max: settings.drift_max,
            timeout: settings.timeout,
            flush_every: settings.flush_every,
            low_bytes: settings.low_bytes,
            least_bytes: settings.least_bytes,
            round_every: settings.round_every,
        };
        out.topology_changed = true;
        out.notes.push(Note::Begins { epoch: topology.epoch, life, is_unenrolled });
        self.machine = Some(Mesh::new(params, topology, rows, replayed));
    }

    fn life_written(&mut self, now: Now, standing: Standing, rows: &dyn Rows, out: &mut Output) {
        let was_behind = self.startup.life.standing == Standing::Behind;
        let is_behind = standing == Standing::Behind;
        if self.startup.written(standing) {
            out.notes.push(Note::Enrolled { is_behind });
            self.run(now, mesh::Input::Enrolled { wiped: is_behind }, rows, out);
        } else if was_behind && !is_behind {
            out.notes.push(Note::CaughtUp);
        }
        self.go_on_starting(now, rows, out);
    }

    fn look_for_regions(&mut self, now: Instant, out: &mut Output) {
        if self.table.iter().next().is_none() {
            return;
        }
        let mut discovery = std::mem::take(&mut self.discovery);
        for (region, progress) in discovery.tick(now, &self.facts()) {
            self.take_progress(region, progress, out);
        }
        self.discovery = discovery;
    }

    fn hear_answer(
        &mut self,
        now: Instant,
        region: RegionId,
        answer: Result<Bytes, String>,
        out: &mut Output,
    ) {
        let mut discovery = std::mem::take(&mut self.discovery);
        if let Some(progress) = discovery.hear(now, region, answer, &self.facts()) {
            self.take_progress(region, progress, out);
        }
        self.discovery = discovery;
    }

    fn take_progress(&mut self, region: RegionId, progress: Progress, out: &mut Output) {
        let told = match progress {
            Progress::Goes(question) => return out.questions.push(question),
            Progress::Over(told) => told,
        };
        let name = self.table.get(region).map(|region| region.name.clone()).unwrap_or_default();
        let trouble = told.as_ref().err().cloned();
        let is_news = self.addresses.set(region, told);
        out.addresses_changed |= is_news;
        if let Some(trouble) = trouble.filter(|_| is_news) {
            out.notes.push(Note::RegionUnreachable { region: name, trouble });
        }
    }
}
