//! The driver. `step` takes one input, any number of times in a turn; `end_turn` completes the output of the turn. The
//! shell then sends, persists, answers and does the rest, in that order: what leaves before it is durable is decided by
//! the machine of `mesh`, which holds it back.

use crate::address_book::AddressBook;
use crate::discovery::{Discovery, DiscoveryContext, DiscoveryStep, answer_question};
use crate::documents::{Document, Documents};
use crate::homes::{HomeContext, HomeDriver};
use crate::messages::{
    CoordMembers, DocumentProposal, DriverEvent, DriverSettings, HeldHome, Input, Message, Output,
};
use crate::planner::Planner;
use crate::reporter::Reporter;
use crate::startup::{Startup, StartupStep};
use base::{Code, FormatLevel, Instant, NodeId};
use bytes::Bytes;
use mesh::{
    Actor, CatchUp, Destination, DocumentActions, DocumentExchange, DocumentMessage, Epoch, HomeLease,
    HomeMessage, Incarnation, Mesh, NodeReport, Now, Params, ProcessId, RegionId, Regions, Reply, Topology,
    documents,
    rows::{Row, Rows},
};
use std::collections::BTreeSet;

pub struct Driver {
    settings: DriverSettings,
    machine: Option<Mesh>,
    startup: Startup,
    documents: Documents,
    /// The table of regions, decoded once for each of its versions; the newest that can be read.
    table: Regions,
    table_read: u64,
    /// The versions of the documents that the machine was told.
    regions_told: u64,
    handlers_told: u64,
    coord: CoordMembers,
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
    /// Counts frames for any node of a region, which go to its nodes in turn.
    n_to_any: usize,
}

impl Driver {
    /// A node on its rows; `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(
        settings: DriverSettings,
        incarnation: Incarnation,
        replayed: Vec<Vec<Row>>,
        rows: &dyn Rows,
    ) -> Driver {
        let DriverSettings { me, region, zone, points, address, region_address, regions, .. } =
            settings.clone();
        let here = RegionId::of(&region);
        let report = NodeReport {
            incarnation: incarnation.number,
            zone,
            points,
            address,
            region_address: region_address.clone(),
            ..NodeReport::default()
        };
        let mut addresses = AddressBook::default();
        addresses.learn(me, &region_address);
        let process = ProcessId { node: me, start: u64::from(incarnation.number) << 32 ^ incarnation.boot };
        Driver {
            machine: None,
            startup: Startup::new(incarnation, replayed, rows),
            documents: Documents::default(),
            table: Regions::default(),
            table_read: 0,
            regions_told: 0,
            handlers_told: 0,
            coord: CoordMembers::default(),
            reporter: Reporter::new(report),
            planner: Planner::new(here, regions),
            homes: HomeDriver::new(here, process),
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

    pub fn incarnation(&self) -> Incarnation {
        self.startup.incarnation
    }

    /// Nodes of this region that hold nothing of coord.
    pub fn data_only_nodes(&self) -> Vec<NodeId> {
        self.planner.data_only_nodes()
    }

    pub fn address_book(&self) -> &AddressBook {
        &self.addresses
    }

    /// The topology that the disk had, until the machine begins.
    pub fn kept_epoch(&self) -> Epoch {
        self.startup.kept().map_or_else(Epoch::default, |topology| topology.epoch)
    }

    /// Answers the query of another region: the other side of `Output::region_queries`.
    pub fn answer(&self, question: Bytes) -> Bytes {
        answer_question(question, &self.context())
    }

    fn context(&self) -> DiscoveryContext<'_> {
        DiscoveryContext {
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
            Input::RemoteFrame { region, from, envelope } => {
                self.run(now, mesh::Input::RemoteFrame { region, from, envelope }, rows, out);
            }
            Input::Report { from, report } => self.receive_report(now.at, from, report, out),
            Input::HomeMessage { region, message } => self.receive_home_message(now.at, region, message),
            Input::DocumentMessage { region, message } => {
                self.receive_documents(now.at, region, message, out);
            }
            Input::Held(held) => self.receive_held(now.at, held, out),
            Input::AskHomeLeases { from, asked } => self.homes.receive_lease_request(now.at, from, asked),
            Input::HomeLeases(asked, held) => {
                out.held.extend(self.homes.receive_home_leases(now.at, asked, held))
            }
            Input::Documents(documents) => {
                documents.iter().for_each(|document| {
                    self.documents.learn(document);
                });
                self.follow_documents(now, rows, out);
            }
            Input::ReceivedDocument(document) => self.receive_document(now, document, rows, out),
            Input::Members(coord) => self.coord = coord,
            Input::Connected(peer) => self.on_connected(peer, out),
            Input::Lost(peer) => {
                self.connected.remove(&peer);
                self.run(now, mesh::Input::Lost(peer), rows, out);
            }
            Input::Persisted(seq) => self.run(now, mesh::Input::Persisted(seq), rows, out),
            Input::Flushed(number) => self.run(now, mesh::Input::Flushed(number), rows, out),
            Input::DiskSpace(disk_space) => self.run(now, mesh::Input::DiskSpace(disk_space), rows, out),
            Input::IncarnationWritten(catch_up) => self.incarnation_written(now, catch_up, rows, out),
            Input::Answered { region, answer } => self.receive_answer(now.at, region, answer, out),
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
        for (destination, envelope) in std::mem::take(&mut out.mesh.to_regions) {
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
        self.continue_startup(now, rows, out);
        self.run(now, mesh::Input::Tick, rows, out);
        if self.machine.as_ref().is_some_and(Mesh::is_serving)
            && let StartupStep::Write(catch_up) = self.startup.catch_up()
        {
            out.write_catch_up = Some(catch_up);
        }
        if self.reporter.tick(now.at, &self.coord.peers, out) {
            self.planner.receive(now.at, self.settings.me, self.reporter.report.clone());
        }
        self.planner.tick(now.at, leads, &self.documents, &self.coord, out);
        let (documents, coord) = (&self.documents, &self.coord);
        let context = HomeContext { documents, table: &self.table, addresses: &self.addresses, coord };
        self.homes.tick(now.at, leads, &context, out);
        self.leads = leads;
        self.exchange_documents(now.at, out);
        self.discover_regions(now.at, out);
    }

    fn receive_report(&mut self, now: Instant, from: NodeId, report: NodeReport, out: &mut Output) {
        out.addresses_changed |= self.addresses.learn(from, &report.region_address);
        self.planner.receive(now, from, report);
    }

    fn receive_home_message(&mut self, now: Instant, region: RegionId, message: HomeMessage) {
        self.homes.receive(now, region, message);
    }

    /// Regions share some documents; the leader of each tells the others what it has. In the oldest formats entries have no
    /// versions, so that a merge would undo what was changed here.
    fn exchange_documents(&mut self, now: Instant, out: &mut Output) {
        if !self.shares_documents() {
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
        message: DocumentMessage,
        out: &mut Output,
    ) {
        if !self.shares_documents() {
            return;
        }
        let documents = &self.documents;
        let find = |name: &str| documents.get(name).map(|(_, bytes)| bytes);
        let actions = self.exchange.receive(now, region, message, find);
        self.perform_exchange(actions, out);
    }

    fn shares_documents(&self) -> bool {
        self.leads && self.documents.format_level() > FormatLevel::OLDEST
    }

    /// Which node leads the other region is not known, so all its nodes are told.
    fn perform_exchange(&self, actions: DocumentActions, out: &mut Output) {
        for (region, message) in actions.send {
            let nodes = self.addresses.node_ids(region);
            out.messages.extend(nodes.map(|node| (node, Message::Documents(message.clone()))));
        }
        for (name, bytes) in actions.propose {
            out.propose.push(DocumentProposal { name, expect: self.documents.version(name), bytes });
        }
    }

    fn receive_held(&mut self, now: Instant, held: Vec<HeldHome>, out: &mut Output) {
        let home_lease = |(scope, epoch, span)| HomeLease { scope, epoch, until: now.after(span) };
        out.held.extend(held.into_iter().map(home_lease));
    }

    /// A node of this region hears how this one is doing, and of the documents if it holds nothing of coord.
    fn on_connected(&mut self, peer: NodeId, out: &mut Output) {
        self.connected.insert(peer);
        if self.addresses.region_of(peer).is_some() {
            return;
        }
        self.reporter.send(peer, out);
        if !self.settings.data_only && self.planner.data_only_nodes().contains(&peer) {
            out.documents_to.push(peer);
        }
    }

    fn receive_document(&mut self, now: Now, document: Document, rows: &dyn Rows, out: &mut Output) {
        if self.settings.data_only && self.documents.learn(&document) {
            out.learned.push(document);
            self.follow_documents(now, rows, out);
        }
    }

    /// Gives the machine what documents have that is newer than its own.
    fn follow_documents(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
        if let Some(topology) = self.planner.follow(&self.documents, out) {
            self.reporter.report_soon();
            self.run(now, mesh::Input::Topology(topology), rows, out);
        }
        if !self.settings.data_only {
            out.documents_to.extend(self.planner.data_only_nodes());
        }
        if self.documents.version(documents::REGIONS) > self.table_read {
            self.read_table(out);
        }
        self.continue_startup(now, rows, out);
        self.update_machine(now, rows, out);
    }

    fn read_table(&mut self, out: &mut Output) {
        let version = self.documents.version(documents::REGIONS);
        self.table_read = version;
        let Some(table) = self.documents.regions() else {
            return out.events.push(DriverEvent::Unreadable { name: documents::REGIONS, version });
        };
        self.discovery.keep(&table);
        out.addresses_changed |= self.addresses.keep(&table);
        self.table = table;
    }

    /// Tells the machine of a changed table of regions and of changed handlers, each version once.
    fn update_machine(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
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
                Err(()) => out.events.push(DriverEvent::Unreadable { name: documents::HANDLERS, version }),
            }
        }
    }

    fn continue_startup(&mut self, now: Now, rows: &dyn Rows, out: &mut Output) {
        match self.startup.next(self.planner.plan(), self.settings.me) {
            StartupStep::Wait => {}
            StartupStep::Write(catch_up) => out.write_catch_up = Some(catch_up),
            StartupStep::Begin(topology, replayed) => {
                self.begin(topology, replayed, rows, out);
                self.update_machine(now, rows, out);
            }
        }
    }

    fn begin(&mut self, topology: Topology, replayed: Vec<Vec<Row>>, rows: &dyn Rows, out: &mut Output) {
        let (incarnation, is_unenrolled) = (self.startup.incarnation, self.startup.is_unenrolled);
        let settings = &self.settings;
        let params = Params {
            actor: Actor { region: topology.region, node: settings.me, incarnation: incarnation.number },
            boot: incarnation.boot,
            wiped: incarnation.catch_up == CatchUp::Behind,
            unenrolled: is_unenrolled,
            drift_max: settings.drift_max,
            timeout: settings.timeout,
            flush_every: settings.flush_every,
            low_bytes: settings.low_bytes,
            least_bytes: settings.least_bytes,
            round_every: settings.round_every,
        };
        out.topology_changed = true;
        out.events.push(DriverEvent::Begins { epoch: topology.epoch, incarnation, is_unenrolled });
        self.machine = Some(Mesh::new(params, topology, rows, replayed));
    }

    fn incarnation_written(&mut self, now: Now, catch_up: CatchUp, rows: &dyn Rows, out: &mut Output) {
        let was_behind = self.startup.incarnation.catch_up == CatchUp::Behind;
        let is_behind = catch_up == CatchUp::Behind;
        if self.startup.written(catch_up) {
            out.events.push(DriverEvent::Enrolled { is_behind });
            self.run(now, mesh::Input::Enrolled { wiped: is_behind }, rows, out);
        } else if was_behind && !is_behind {
            out.events.push(DriverEvent::CaughtUp);
        }
        self.continue_startup(now, rows, out);
    }

    fn discover_regions(&mut self, now: Instant, out: &mut Output) {
        if self.table.iter().next().is_none() {
            return;
        }
        let mut discovery = std::mem::take(&mut self.discovery);
        for (region, progress) in discovery.tick(now, &self.context()) {
            self.apply_discovery_step(region, progress, out);
        }
        self.discovery = discovery;
    }

    fn receive_answer(
        &mut self,
        now: Instant,
        region: RegionId,
        answer: Result<Bytes, String>,
        out: &mut Output,
    ) {
        let mut discovery = std::mem::take(&mut self.discovery);
        if let Some(progress) = discovery.receive(now, region, answer, &self.context()) {
            self.apply_discovery_step(region, progress, out);
        }
        self.discovery = discovery;
    }

    fn apply_discovery_step(&mut self, region: RegionId, progress: DiscoveryStep, out: &mut Output) {
        let told = match progress {
            DiscoveryStep::Ask(question) => return out.region_queries.push(question),
            DiscoveryStep::Done(told) => told,
        };
        let name = self.table.get(region).map(|region| region.name.clone()).unwrap_or_default();
        let trouble = told.as_ref().err().cloned();
        let is_news = self.addresses.set(region, told);
        out.addresses_changed |= is_news;
        if let Some(trouble) = trouble.filter(|_| is_news) {
            out.events.push(DriverEvent::RegionUnreachable { region: name, trouble });
        }
    }
}
