//! The thread that owns the driver of the mesh. Requests, frames and completions come in by its queue; everything queued is one
//! turn, and the output of a turn goes to the peers, the log, the store and coord. `mesh_node` decides.

use crate::actor::{ActorMessage, Machine, NextTurn};
use crate::auth::token_keys;
use crate::consensus;
use crate::core::Core;
use crate::durable_log::{LogOwner, LogWriter};
use crate::fatal::fatal;
use crate::mesh::documents;
use crate::mesh::events;
use crate::mesh::log::MeshLogObserver;
use crate::mesh::metrics::RequestKind;
use crate::mesh::region_discovery;
use crate::mesh::request_slots::MeshRequestSlot;
use crate::mesh::status::{MeshCounts, MeshStatus};
use crate::mesh::wire::{self, FrameSplitter};
use crate::mesh::worker::ReplyTo;
use crate::peer::Peers;
use crate::queue::Wake;
use crate::slow_requests::RequestMoments;
use crate::store_thread::StoreOrder;
use base::{IdMap, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use coord::{Command, SetDocument};
use disk::Disk;
use engine::{IncarnationFile, MeshLog, MeshView};
use mesh::{CatchUp, DiskSpace, Dot, Envelope, Mesh, Now, RegionId, Reply, Request, Seq};
use mesh_node::{CoordMembers, Document, DocumentProposal, Driver, DriverSettings, Input, Output};
use node::ClientWork;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

/// How often the machine looks at the clock while something happens, and while nothing does.
const TICK: Duration = Duration::from_millis(10);
const IDLE_TICK: Duration = Duration::from_millis(50);
/// How often the status is published.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// How often the driver hears who the members of coord are.
const MEMBERS_EVERY: Duration = Duration::from_millis(100);
/// How long coord may take to agree on a document before the proposal is dropped.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How often nodes without coord hear how old the policy is, and how often the policy itself in case it was lost.
const POLICY_AGE_EVERY: Duration = Duration::from_secs(1);
const POLICY_EVERY: Duration = Duration::from_secs(15);
/// How often the leader checks that there is a key for tokens.
const TOKEN_KEYS_EVERY: Duration = Duration::from_millis(200);

pub(crate) enum MeshMessage {
    Request {
        deadline: Instant,
        request: Request,
        reply_to: ReplyTo,
        slot: MeshRequestSlot,
    },
    /// Which other regions have a write?
    Reached {
        dot: Dot,
        reply_to: oneshot::Sender<Vec<RegionId>>,
    },
    Frames {
        from: NodeId,
        envelopes: Vec<Envelope>,
        bytes: usize,
    },
    /// From a node of another region.
    RemoteFrames {
        region: RegionId,
        from: NodeId,
        envelopes: Vec<Envelope>,
        bytes: usize,
    },
    /// An input that the driver gets as it came.
    Input(Input),
    /// A document of the cluster, from a member that holds it.
    ReceivedDocument(Document),
    /// Some document was replaced.
    Documents,
    Persisted(Seq),
    /// The flush of this number is durable and visible in this view.
    Flushed {
        number: u64,
        view: Arc<MeshView>,
    },
    /// The store was rewritten: this view shows the same rows.
    Rewritten(Arc<MeshView>),
}

impl From<Input> for MeshMessage {
    fn from(input: Input) -> MeshMessage {
        MeshMessage::Input(input)
    }
}

impl ActorMessage for MeshMessage {
    fn bytes(&self) -> usize {
        match self {
            MeshMessage::Frames { bytes, .. } | MeshMessage::RemoteFrames { bytes, .. } => *bytes,
            _ => 0,
        }
    }

    /// The task that posts a request runs the turn, for itself or for all that post together.
    fn wake(&self) -> Wake {
        if matches!(self, MeshMessage::Request { .. }) { Wake::BySender } else { Wake::Now }
    }
}

struct Caller {
    reply_to: ReplyTo,
    kind: RequestKind,
    began: Instant,
    _slot: MeshRequestSlot,
}

pub(crate) struct MeshLoop {
    core: Arc<Core>,
    peers: Arc<Peers>,
    driver: Driver,
    me: NodeId,
    segment_bytes: u64,
    incarnation_file: IncarnationFile,
    view: Arc<MeshView>,
    disk: Arc<dyn Disk>,
    log: LogOwner<MeshLog>,
    callers: IdMap<ReplyToken, Caller>,
    next_token: u64,
    next_tick: Instant,
    schedule: Schedule,
    out: Output,
    splitter: FrameSplitter,
    counts: MeshCounts,
}

/// What is done every so often.
struct Schedule {
    status: Period,
    members: Period,
    policy_age: Period,
    policy: Period,
    token_keys: Period,
}

impl Schedule {
    fn new() -> Schedule {
        Schedule {
            status: Period::of(SHOW_EVERY),
            members: Period::of(MEMBERS_EVERY),
            policy_age: Period::of(POLICY_AGE_EVERY),
            policy: Period::of(POLICY_EVERY),
            token_keys: Period::of(TOKEN_KEYS_EVERY),
        }
    }
}

struct Period {
    every: Duration,
    due: Instant,
}

impl Period {
    /// Due at once for the first time.
    fn of(every: Duration) -> Period {
        Period { every, due: Instant::ZERO }
    }

    /// If it is due, it is due again later.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now.after(self.every);
        }
        is_due
    }
}

impl Machine for MeshLoop {
    type Message = MeshMessage;

    fn turn(&mut self, messages: &mut Vec<MeshMessage>) -> NextTurn {
        let now = self.now();
        let is_idle = messages.is_empty() && self.callers.is_empty();
        for item in messages.drain(..) {
            self.handle_message(now, item);
        }
        if self.next_tick <= now.at {
            self.tick(now);
            self.next_tick = now.at.after(IDLE_TICK);
        }
        if !is_idle {
            self.next_tick = self.next_tick.min(now.at.after(TICK));
        }
        self.driver.end_turn(now, &mut self.out);
        // Rows that are durable at once may cause more output.
        while self.perform_output(now) {
            self.driver.end_turn(now, &mut self.out);
        }
        NextTurn::At(self.core.clock.to_system(self.next_tick))
    }
}

impl MeshLoop {
    pub fn new(
        core: Arc<Core>,
        peers: Arc<Peers>,
        settings: DriverSettings,
        segment_bytes: u64,
        files: engine::MeshFiles,
    ) -> (MeshLoop, Arc<Mutex<LogWriter<MeshLog>>>, engine::MeshStore) {
        let engine::MeshFiles { log, store, replayed, incarnation_file, disk, .. } = files;
        let view = store.view();
        let observer = MeshLogObserver::new(core.clone(), &log);
        let log = LogWriter::new(log, observer);
        let me = settings.me;
        let driver = Driver::new(settings, incarnation_file.get(), replayed, &*view);
        core.mesh.addresses.set(driver.address_book().clone());
        let new = MeshLoop {
            peers,
            driver,
            me,
            segment_bytes,
            incarnation_file,
            view,
            disk,
            log: LogOwner::new(log.clone()),
            callers: IdMap::default(),
            next_token: 1,
            next_tick: core.clock.now(),
            schedule: Schedule::new(),
            out: Output::default(),
            splitter: FrameSplitter::default(),
            counts: MeshCounts::default(),
            core,
        };
        (new, log, store)
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { at: self.core.clock.now(), wall_ms: wall.as_millis() as u64 }
    }

    fn step(&mut self, now: Now, input: Input) {
        self.driver.step(now, input, &*self.view, &mut self.out);
    }

    fn handle_message(&mut self, now: Now, item: MeshMessage) {
        match item {
            MeshMessage::Request { deadline, request, reply_to, slot } => {
                let kind = RequestKind::of(&request);
                let caller = Caller { reply_to, kind, began: now.at, _slot: slot };
                self.ask(now, deadline, request, caller);
            }
            MeshMessage::Reached { dot, reply_to } => {
                let machine = self.driver.machine();
                let _ = reply_to.send(machine.map(|machine| machine.reached(dot)).unwrap_or_default());
            }
            MeshMessage::Frames { from, envelopes, .. } => {
                for envelope in envelopes {
                    self.step(now, Input::Frame { from, envelope });
                }
            }
            MeshMessage::RemoteFrames { region, from, envelopes, .. } => {
                for envelope in envelopes {
                    self.step(now, Input::RemoteFrame { region, from, envelope });
                }
            }
            MeshMessage::Input(input) => self.step(now, input),
            MeshMessage::ReceivedDocument(document) => {
                documents::learn_auth(&self.core, now.at, &document);
                self.step(now, Input::ReceivedDocument(document));
            }
            MeshMessage::Documents => self.step(now, Input::Documents(documents::followed(&self.core))),
            MeshMessage::Persisted(seq) => {
                self.log.persisted(seq);
                self.step(now, Input::Persisted(seq));
            }
            MeshMessage::Rewritten(view) => self.view = view,
            MeshMessage::Flushed { number, view } => {
                self.view = view;
                self.measure_disk(now);
                self.step(now, Input::Flushed(number));
            }
        }
    }

    fn ask(&mut self, now: Now, deadline: Instant, request: Request, caller: Caller) {
        let token = ReplyToken(self.next_token);
        self.next_token += 1;
        self.callers.insert(token, caller);
        self.step(now, Input::Request { token, deadline, request });
    }

    fn answer(&mut self, caller: Caller, reply: Reply) {
        let took = self.core.clock.now().since(caller.began);
        self.core.metrics.mesh.answered(caller.kind, &reply, took);
        self.note_if_slow(&caller, &reply);
        self.counts.count(caller.kind, &reply);
        caller.reply_to.send(match reply {
            Reply::Refused(code) => Err(code),
            reply => Ok(reply),
        });
    }

    /// Reports a slow request. The time of all replicas counts as replication.
    fn note_if_slow(&self, caller: &Caller, reply: &Reply) {
        let (slow, answered) = (&self.core.metrics.slow_requests, self.core.clock.now());
        if !slow.is_slow(answered.since(caller.began)) {
            return;
        }
        let refusal = if let Reply::Refused(code) = reply { Some(*code) } else { None };
        let moments = RequestMoments {
            posted: caller.began,
            taken: caller.began,
            synced: None,
            committed: Some(answered),
            applied: None,
            answered,
        };
        slow.note(caller.kind.slow_name(), 0, refusal, &moments);
    }

    fn tick(&mut self, now: Now) {
        if self.schedule.members.is_due(now.at) {
            self.step(now, Input::Members(self.members()));
        }
        self.measure_disk(now);
        let status = self.core.published.status.read();
        let leads = status.is_leader;
        if !self.core.data_only {
            self.refresh_policy(now, leads, status.leader.is_some());
        }
        self.step(now, Input::Tick { leads });
        if self.schedule.status.is_due(now.at) {
            self.publish_status();
        }
    }

    /// A member that has a leader knows the newest policy, and tells nodes without coord how old what it knows is.
    fn refresh_policy(&mut self, now: Now, leads: bool, has_leader: bool) {
        if has_leader {
            self.core.security.auth.data.confirm(now.at, Duration::ZERO);
        }
        if self.schedule.token_keys.is_due(now.at) {
            let next = if leads { self.core.security.auth.next_token_keys(now.wall_ms) } else { None };
            if let Some((expect, bytes)) = next {
                self.propose(now, DocumentProposal { name: token_keys::DOCUMENT, expect, bytes });
            }
        }
        if !self.schedule.policy_age.is_due(now.at) {
            return;
        }
        let with_policy = self.schedule.policy.is_due(now.at);
        let data_only_nodes = self.driver.data_only_nodes();
        if !data_only_nodes.is_empty() {
            let frames = documents::policy_frames(&self.core, now.at, with_policy);
            for node in data_only_nodes {
                // A lost report is sent again in a second.
                self.peers.send_data(node, frames.clone());
            }
        }
    }

    fn members(&self) -> CoordMembers {
        let table = self.core.members.table();
        let peers = self.core.members.others().into_iter().map(|(id, _)| id).collect();
        CoordMembers { voters: table.voters().into_iter().collect(), removed: table.removed().clone(), peers }
    }

    /// The machine bounds what it accepts by the last measurement, and by what it has accepted since.
    fn measure_disk(&mut self, now: Now) {
        let free = self.disk.free_bytes();
        let free_bytes = free.unwrap_or_else(|error| fatal("measuring the disk of the mesh", &error));
        let shared_status = &self.core.mesh.status;
        let lacking_bytes = self.segment_bytes.saturating_sub(shared_status.spare_bytes());
        let disk_space = DiskSpace { free_bytes, taken_bytes: shared_status.taken_bytes(), lacking_bytes };
        self.step(now, Input::DiskSpace(disk_space));
    }

    /// Sends and persists first, because peers and disk take longest. True if the driver was told of something that was
    /// durable at once, and may have more output.
    fn perform_output(&mut self, now: Now) -> bool {
        self.send(now);
        let mut goes_on = false;
        if let Some(catch_up) = self.out.write_catch_up.take() {
            self.write_incarnation(catch_up);
            self.step(now, Input::IncarnationWritten(catch_up));
            goes_on = true;
        }
        if let Some(seq) = self.persist() {
            self.step(now, Input::Persisted(seq));
            goes_on = true;
        }
        for (token, reply) in std::mem::take(&mut self.out.mesh.replies) {
            if let Some(caller) = self.callers.remove(&token) {
                self.answer(caller, reply);
            }
        }
        let flushed_rows = self.out.mesh.flushed_rows.take().map(StoreOrder::Other);
        let flush = self.out.mesh.flush.take().map(StoreOrder::Flush);
        for order in flushed_rows.into_iter().chain(flush) {
            self.core.mesh.store.push(order);
        }
        self.perform_rest(now);
        goes_on
    }

    /// The output that most turns do not have.
    fn perform_rest(&mut self, now: Now) {
        for proposal in std::mem::take(&mut self.out.propose) {
            self.propose(now, proposal);
        }
        if !self.out.learned.is_empty() {
            documents::learn(&self.core, std::mem::take(&mut self.out.learned));
        }
        if let Some(nodes) = self.out.nodes.take()
            && self.core.members.set_nodes(nodes)
        {
            self.core.coord.consensus.post(consensus::ConsensusMessage::Others(self.core.members.others()));
        }
        if std::mem::take(&mut self.out.addresses_changed) {
            let addresses = self.driver.address_book();
            self.core.mesh.addresses.set(addresses.clone());
            self.core.mesh.discovery.push(region_discovery::DiscoveryCommand::Lead(addresses.remote_nodes()));
        }
        for query in std::mem::take(&mut self.out.region_queries) {
            self.core.mesh.discovery.push(region_discovery::DiscoveryCommand::Query(query));
        }
        if !self.out.held.is_empty() {
            self.core.mesh.home_leases.set(&std::mem::take(&mut self.out.held));
        }
        for event in std::mem::take(&mut self.out.mesh.events) {
            events::count(&mut self.counts, event);
        }
        std::mem::take(&mut self.out.events).into_iter().for_each(events::log);
        if std::mem::take(&mut self.out.topology_changed) {
            self.publish_topology();
        }
    }

    fn write_incarnation(&mut self, catch_up: CatchUp) {
        self.incarnation_file
            .set_catch_up(catch_up)
            .unwrap_or_else(|error| fatal("writing the incarnation of the mesh", &error));
    }

    fn propose(&self, now: Now, proposal: DocumentProposal) {
        let DocumentProposal { name, expect, bytes } = proposal;
        let mut command = Vec::new();
        Command::Document(SetDocument { name: name.to_owned(), expect, bytes }).encode(&mut command);
        self.core.post_unanswered(now.at.after(PROPOSAL_TIMEOUT), ClientWork::Propose(command.into()));
    }

    fn send(&mut self, now: Now) {
        let mut by_peer: BTreeMap<NodeId, Vec<Bytes>> = BTreeMap::new();
        for (to, envelope) in self.out.mesh.send.drain(..) {
            self.splitter.split(&envelope, by_peer.entry(to).or_default());
        }
        let mut lost = BTreeSet::new();
        for (to, frames) in by_peer {
            if !self.peers.send_data(to, frames) {
                lost.insert(to);
            }
        }
        // Lost messages are sent again.
        for (to, message) in self.out.messages.drain(..) {
            self.peers.send_data(to, vec![wire::message_frame(&message)]);
        }
        for to in self.out.documents_to.drain(..) {
            for frame in documents::frames(&self.core) {
                self.peers.send_data(to, vec![frame]);
            }
        }
        // A peer that cannot be sent anything does not answer; waiting for its timeout would take longer.
        lost.into_iter().for_each(|peer| self.step(now, Input::Lost(peer)));
    }

    fn persist(&mut self) -> Option<Seq> {
        let persist = self.out.mesh.persist.take()?;
        self.log.write(vec![persist], &self.core.mesh.log)
    }

    fn publish_status(&mut self) {
        let now = self.now();
        let machine = self.driver.machine();
        self.core.mesh.status.set_status(MeshStatus {
            node: self.me,
            incarnation: self.driver.incarnation().number,
            regions: machine.map(|machine| machine.regions(now)).unwrap_or_default(),
            machine: machine.map(Mesh::status),
            counts: self.counts,
            ..MeshStatus::default()
        });
        self.publish_topology();
    }

    fn publish_topology(&self) {
        if let Some(machine) = self.driver.machine() {
            self.core.mesh.status.set_topology(machine.topology());
        }
    }
}
