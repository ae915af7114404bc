//! The thread that owns the machine of the mesh. Requests, frames and completions come in by its queue; everything
//! that has gathered is one turn, and what follows from a turn is handed to the peers, the log and the store.
//! The machine begins when it is known which topology it goes by; until it is also known whether others count on more
//! than this disk holds, it is a guest, which passes on what it is asked.

use crate::core::Core;
use crate::fatal::fatal;
use crate::mesh::board::Admission;
use crate::mesh::decide::Decider;
use crate::mesh::homes::Keeper;
use crate::mesh::lane::Asker;
use crate::mesh::log::{Log, Order};
use crate::mesh::metrics::Asked;
use crate::mesh::scout;
use crate::mesh::status::{Counts, MeshStatus};
use crate::mesh::store;
use crate::mesh::wire::Cutter;
use crate::peer::Peers;
use crate::seat::{Machine, Next};
use base::{Code, Docket, Instant, NodeId, Token};
use bytes::Bytes;
use coord::Document;
use disk::Disk;
use engine::{LifeFile, MeshView, Standing};
use mesh::frame::Envelope;
use mesh::handler;
use mesh::mesh::Note;
use mesh::overlay::Seq;
use mesh::request::{Reply, Request};
use mesh::rows::{self, Row, Rows};
use mesh::steward::Word;
use mesh::tidings::Tidings;
use mesh::{Actor, Dot, Handlers, Input, Mesh, Now, Output, Params, RegionId, Regions, Room, Topology};
use script::Scripts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;

/// How often the machine looks at the clock while something happens, and while nothing does.
const TICK: Duration = Duration::from_millis(10);
const IDLE_TICK: Duration = Duration::from_millis(50);
/// How often figures are written down for others.
const SHOW_EVERY: Duration = Duration::from_millis(250);

pub(crate) enum Mail {
    Request {
        deadline: Instant,
        request: Request,
        asker: Asker,
        admission: Admission,
    },
    /// Which other regions have a write?
    Reached {
        dot: Dot,
        asker: oneshot::Sender<Vec<RegionId>>,
    },
    Frames {
        from: NodeId,
        envelopes: Vec<Envelope>,
    },
    /// From a node of another region.
    Abroad {
        region: RegionId,
        from: NodeId,
        envelopes: Vec<Envelope>,
    },
    Tidings {
        from: NodeId,
        tidings: Tidings,
    },
    /// From whoever leads another region.
    Word {
        region: RegionId,
        word: Word,
    },
    /// What the cluster has agreed on, from a member that holds it.
    Told(Vec<(String, Document)>),
    /// Some document was replaced.
    Documents,
    Connected(NodeId),
    Lost(NodeId),
    Persisted(Seq),
    /// The flush of this number is durable and visible in this view.
    Flushed {
        number: u64,
        view: Arc<MeshView>,
    },
}

/// How the node takes part.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub me: NodeId,
    pub region: RegionId,
    pub zone: u32,
    pub points: u32,
    /// Where a node is reached that is no member of coord.
    pub address: String,
    /// Where nodes of other regions reach this one.
    pub abroad: String,
    /// What the table of regions is founded with.
    pub regions: Regions,
    pub timeout: Duration,
    pub flush_every: Duration,
    /// What is to stay free of the disk, and what even of deletes, beside the next segment of the log.
    pub low_bytes: u64,
    pub least_bytes: u64,
    pub segment_bytes: u64,
    pub round_every: Duration,
    pub drift_max: Duration,
}

/// What the machine needs when it begins.
struct Waiting {
    replayed: Vec<Vec<Row>>,
    /// The topology of the last life.
    kept: Option<Topology>,
}

struct Caller {
    asker: Asker,
    asked: Asked,
    began: Instant,
    _admission: Admission,
}

pub(crate) struct Loop {
    core: Arc<Core>,
    peers: Arc<Peers>,
    settings: Settings,
    machine: Option<Mesh>,
    /// Until the machine begins.
    waiting: Option<Waiting>,
    /// The machine waits for the cluster to write down its life.
    is_guest: bool,
    life: LifeFile,
    view: Arc<MeshView>,
    disk: Arc<dyn Disk>,
    log: Arc<Mutex<Log>>,
    /// The last batch that the log's thread was given, until it is heard to be durable.
    handed_over: Option<Seq>,
    callers: Docket<Token, Caller>,
    next_token: u64,
    next_tick: Instant,
    show_at: Instant,
    out: Output,
    cutter: Cutter,
    decider: Decider,
    keeper: Keeper,
    counts: Counts,
    /// Of the documents that the machine has been told.
    regions_version: u64,
    handlers_version: u64,
}

impl Machine for Loop {
    type Mail = Mail;

    fn turn(&mut self, mail: &mut Vec<Mail>) -> Next {
        self.run_turn(mail);
        Next::At(self.core.clock.to_system(self.next_tick))
    }
}

impl Loop {
    pub fn new(
        core: Arc<Core>,
        peers: Arc<Peers>,
        settings: Settings,
        files: engine::MeshFiles,
    ) -> (Loop, Arc<Mutex<Log>>, engine::MeshStore) {
        let engine::MeshFiles { log, store, replayed, life, disk, .. } = files;
        let view = store.view();
        let kept = kept_topology(&replayed, &view);
        let log = Arc::new(Mutex::new(Log::new(core.clone(), log)));
        let decider = Decider::new(core.clone(), &settings, life.life().incarnation);
        let start = u64::from(life.life().incarnation) << 32 ^ life.life().boot;
        let keeper = Keeper::new(core.clone(), settings.me, settings.region, start);
        let new = Loop {
            peers,
            machine: None,
            waiting: Some(Waiting { replayed, kept }),
            is_guest: false,
            life,
            view,
            disk,
            log: log.clone(),
            handed_over: None,
            callers: Docket::default(),
            next_token: 1,
            next_tick: core.clock.now(),
            show_at: Instant::ZERO,
            out: Output::default(),
            cutter: Cutter::default(),
            decider,
            keeper,
            counts: Counts::default(),
            regions_version: 0,
            handlers_version: 0,
            settings,
            core,
        };
        (new, log, store)
    }

    fn run_turn(&mut self, mail: &mut Vec<Mail>) {
        let now = self.now();
        let is_idle = mail.is_empty() && self.callers.is_empty();
        for item in mail.drain(..) {
            self.take_in(now, item);
        }
        if self.next_tick <= now.at {
            self.tick(now);
            self.next_tick = now.at.after(IDLE_TICK);
        }
        if !is_idle {
            self.next_tick = self.next_tick.min(now.at.after(TICK));
        }
        let Some(machine) = &mut self.machine else { return };
        machine.collect(&mut self.out);
        // What is durable at once may bring about more.
        while let Some(seq) = self.hand_out(now) {
            self.step(now, Input::Persisted(seq));
            if let Some(machine) = &mut self.machine {
                machine.collect(&mut self.out);
            }
        }
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { at: self.core.clock.now(), wall_ms: wall.as_millis() as u64 }
    }

    fn step(&mut self, now: Now, input: Input) {
        if let Some(machine) = &mut self.machine {
            machine.step(now, input, &*self.view, &mut self.out);
        }
    }

    fn take_in(&mut self, now: Now, item: Mail) {
        match item {
            Mail::Request { deadline, request, asker, admission } => {
                let asked = Asked::of(&request);
                let caller = Caller { asker, asked, began: now.at, _admission: admission };
                self.ask(now, deadline, request, caller);
            }
            Mail::Reached { dot, asker } => {
                let _ =
                    asker.send(self.machine.as_ref().map(|machine| machine.reached(dot)).unwrap_or_default());
            }
            Mail::Frames { from, envelopes } => {
                for envelope in envelopes {
                    self.step(now, Input::Received { from, envelope });
                }
            }
            Mail::Abroad { region, from, envelopes } => {
                for envelope in envelopes {
                    self.step(now, Input::Abroad { region, from, envelope });
                }
            }
            Mail::Tidings { from, tidings } => self.decider.hear(now.at, from, tidings),
            Mail::Word { region, word } => self.keeper.hear(now.at, region, word),
            Mail::Told(documents) => {
                if self.decider.be_told(documents) {
                    self.read_documents(now);
                }
            }
            Mail::Documents => self.read_documents(now),
            Mail::Connected(peer) => self.decider.greet(&self.peers, peer),
            Mail::Lost(peer) => self.step(now, Input::Lost(peer)),
            Mail::Persisted(seq) => {
                if self.handed_over.is_some_and(|last| last <= seq) {
                    self.handed_over = None;
                }
                self.step(now, Input::Persisted(seq));
            }
            Mail::Flushed { number, view } => {
                self.view = view;
                self.look_at_disk(now);
                self.step(now, Input::Flushed(number));
            }
        }
    }

    fn ask(&mut self, now: Now, deadline: Instant, request: Request, caller: Caller) {
        if self.machine.is_none() {
            return self.answer(caller, Reply::Refused(Code::NotInStep));
        }
        let token = Token(self.next_token);
        self.next_token += 1;
        self.callers.insert(token, caller);
        self.step(now, Input::Request { token, deadline, request });
    }

    fn answer(&mut self, caller: Caller, reply: Reply) {
        let took = self.core.clock.now().since(caller.began);
        self.core.metrics.mesh.answered(caller.asked, &reply, took);
        self.counts.count(caller.asked, &reply);
        caller.asker.tell(match reply {
            Reply::Refused(code) => Err(code),
            reply => Ok(reply),
        });
    }

    fn tick(&mut self, now: Now) {
        let has_begun = self.machine.is_some();
        self.begin_when_known(now);
        if !has_begun {
            self.follow_documents(now);
        }
        self.look_at_disk(now);
        self.step(now, Input::Tick);
        self.decider.tick(now.at, &self.peers);
        self.keeper.tick(now.at, &self.peers);
        if self.show_at <= now.at {
            self.show_at = now.at.after(SHOW_EVERY);
            self.show();
        }
    }

    /// What the machine takes in is bounded by what was free at the last look, and by what it has taken in since.
    fn look_at_disk(&mut self, now: Now) {
        let free = self.disk.free_bytes();
        let free_bytes = free.unwrap_or_else(|error| fatal("measuring the disk of the mesh", &error));
        let board = &self.core.mesh.board;
        let lacking_bytes = self.settings.segment_bytes.saturating_sub(board.spare_bytes());
        let room = Room { free_bytes, taken_bytes: board.taken_bytes(), lacking_bytes };
        self.step(now, Input::Room(room));
    }

    /// There may be a topology that is newer than what the machine has.
    fn read_documents(&mut self, now: Now) {
        if let Some(topology) = self.decider.read_documents(&self.peers) {
            self.step(now, Input::Topology(topology));
        }
        self.begin_when_known(now);
        self.follow_documents(now);
    }

    /// What else the machine goes by; what it knows already it does not hear again.
    fn follow_documents(&mut self, now: Now) {
        if self.machine.is_none() {
            return;
        }
        let regions = scout::table(&self.core);
        if regions.version > self.regions_version {
            self.regions_version = regions.version;
            self.core.mesh.scout.push(());
            self.step(now, Input::Regions(regions));
        }
        if let Some(document) = self.core.documents.get(handler::DOCUMENT)
            && document.version > self.handlers_version
        {
            self.handlers_version = document.version;
            match Handlers::decode(document.bytes) {
                Some(handlers) => self.step(now, Input::Handlers(handlers)),
                None => tracing::error!(version = document.version, "the merge handlers cannot be read"),
            }
        }
    }

    /// A node that was whole goes on with what it had, whether it hears of anybody or not. A disk that is new is a guest
    /// until the cluster has written down its life: only then is it known whether it had another before.
    fn begin_when_known(&mut self, now: Now) {
        if self.machine.is_some() && !self.is_guest {
            return;
        }
        let life = self.life.life();
        let judged = self.decider.plan().and_then(|plan| life.judged_by(plan, self.settings.me));
        if let Some(standing) = judged.filter(|_| life.standing == Standing::Unknown) {
            self.set_standing(standing);
        }
        let standing = self.life.life().standing;
        if self.is_guest {
            if standing != Standing::Unknown {
                tracing::info!(
                    behind = standing == Standing::Behind,
                    "the cluster has written down this life"
                );
                self.is_guest = false;
                self.step(now, Input::Enrolled { wiped: standing == Standing::Behind });
            }
            return;
        }
        let newest = self.decider.plan().map(|plan| plan.topology.clone());
        let kept = self.waiting.as_ref().and_then(|waiting| waiting.kept.clone());
        let Some(topology) = newest.or(kept) else { return };
        let waiting = self.waiting.take().expect("it waits until it begins");
        self.is_guest = standing == Standing::Unknown;
        self.begin(topology, waiting.replayed);
    }

    fn begin(&mut self, topology: Topology, replayed: Vec<Vec<Row>>) {
        let life = self.life.life();
        let settings = &self.settings;
        let params = Params {
            actor: Actor { region: topology.region, node: settings.me, incarnation: life.incarnation },
            boot: life.boot,
            wiped: life.standing == Standing::Behind,
            guest: self.is_guest,
            drift_max: settings.drift_max,
            timeout: settings.timeout,
            flush_every: settings.flush_every,
            low_bytes: settings.low_bytes,
            least_bytes: settings.least_bytes,
            round_every: settings.round_every,
        };
        tracing::info!(
            epoch = topology.epoch.0,
            incarnation = life.incarnation,
            boot = life.boot,
            behind = params.wiped,
            guest = params.guest,
            "the mesh begins"
        );
        self.core.mesh.board.set_topology(&topology);
        let machine = Mesh::new(params, topology, &*self.view, replayed);
        self.machine = Some(machine.with_script(Box::new(Scripts::default())));
    }

    fn set_standing(&mut self, standing: Standing) {
        self.life
            .set_standing(standing)
            .unwrap_or_else(|error| fatal("writing down the life of the mesh", &error));
    }

    /// The peers and the disk first, for their work takes longest. Answers what has become durable meanwhile.
    fn hand_out(&mut self, now: Now) -> Option<Seq> {
        self.send(now);
        let durable = self.persist();
        for (token, reply) in std::mem::take(&mut self.out.replies) {
            if let Some(caller) = self.callers.remove(&token) {
                self.answer(caller, reply);
            }
        }
        let spent = self.out.spent.take().map(store::Order::Free);
        let flush = self.out.flush.take().map(store::Order::Flush);
        for order in spent.into_iter().chain(flush) {
            self.core.mesh.store.push(order);
        }
        let reports = std::mem::take(&mut self.out.reports);
        if let Some(machine) = self.machine.as_ref().filter(|_| !reports.is_empty()) {
            self.decider.report(&reports, machine.topology());
            self.core.mesh.board.set_topology(machine.topology());
        }
        for note in std::mem::take(&mut self.out.notes) {
            self.tell(note);
        }
        durable
    }

    fn send(&mut self, now: Now) {
        let mut by_peer: BTreeMap<NodeId, Vec<Bytes>> = BTreeMap::new();
        for (to, envelope) in self.out.send.drain(..) {
            self.cutter.cut(&envelope, by_peer.entry(to).or_default());
        }
        for (region, to, envelope) in std::mem::take(&mut self.out.abroad) {
            let to = if to == NodeId(0) { self.any_node_of(region) } else { Some(to) };
            if let Some(to) = to {
                self.cutter.cut(&envelope, by_peer.entry(to).or_default());
            }
        }
        let mut lost = BTreeSet::new();
        for (to, frames) in by_peer {
            if !self.peers.send_data(to, frames) {
                lost.insert(to);
            }
        }
        // Whoever cannot be sent anything does not answer; to wait for that would take longer.
        lost.into_iter().for_each(|peer| self.step(now, Input::Lost(peer)));
    }

    fn any_node_of(&self, region: RegionId) -> Option<NodeId> {
        let nodes = self.core.mesh.atlas.nodes(region);
        nodes.into_keys().find(|node| self.peers.connected(*node))
    }

    fn persist(&mut self) -> Option<Seq> {
        let persist = self.out.persist.take()?;
        if self.handed_over.is_none()
            && let Ok(mut log) = self.log.try_lock()
            && log.is_quick()
            && log.fits(&persist)
        {
            return log.write(&[persist]);
        }
        self.handed_over = Some(persist.seq);
        self.core.mesh.log.push(Order::Write(persist));
        None
    }

    fn tell(&mut self, note: Note) {
        match note {
            Note::Conflict(_) => self.counts.conflicts += 1,
            Note::Hinted(_) => self.counts.hinted += 1,
            Note::Repaired { records, .. } => self.counts.repaired += records as u64,
            Note::Purged(records) => self.counts.purged += records as u64,
            Note::ClockAhead { actor, stamp } => {
                self.counts.clocks_ahead += 1;
                let (node, wall_ms) = (actor.node.0, stamp.ms());
                tracing::warn!(node, wall_ms, "a record comes from a clock that is far ahead");
            }
            Note::RegionClash { region, node } => {
                let (region, node) = (region.0, node.0);
                tracing::error!(region, node, "a node of another region has the id of one of this region");
            }
            Note::HandlerFellBack { handler } => {
                let handler = handler.escape_ascii();
                tracing::warn!(%handler, "a custom value is shown as the last write left it: no such handler");
            }
            Note::Damaged { from } => {
                tracing::warn!(node = from.0, "what another region sent was damaged on the way");
            }
            Note::NoRoom => {
                tracing::error!("the disk has no room: the mesh takes in nothing but deletes until it has");
            }
            Note::RoomAgain => tracing::info!("the disk has room again: the mesh takes in everything"),
            Note::Awake => tracing::info!("the mesh has heard enough of the others to know where it stands"),
        }
    }

    fn show(&mut self) {
        let now = self.now();
        let life = self.life.life();
        let machine = self.machine.as_ref().map(Mesh::status);
        let serving = machine.as_ref().is_some_and(|status| status.is_serving);
        if serving && life.standing == Standing::Behind {
            tracing::info!("the mesh has everything again that an earlier life had");
            self.set_standing(Standing::Whole);
        }
        self.core.mesh.board.set_status(MeshStatus {
            node: self.settings.me,
            incarnation: life.incarnation,
            regions: self.machine.as_ref().map(|machine| machine.regions(now)).unwrap_or_default(),
            machine,
            counts: self.counts,
            ..MeshStatus::default()
        });
        if let Some(machine) = &self.machine {
            self.core.mesh.board.set_topology(machine.topology());
        }
    }
}

fn kept_topology(replayed: &[Vec<Row>], view: &MeshView) -> Option<Topology> {
    let newest = replayed.iter().flatten().rev().find(|row| row.key == rows::TOPOLOGY);
    let bytes = newest.map_or_else(|| view.get(rows::TOPOLOGY), |row| row.value.clone());
    bytes.and_then(Topology::decode)
}
