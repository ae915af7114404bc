//! The thread that owns the driver of the mesh. Requests, frames and completions come in by its queue; everything queued is one
//! turn, and the output of a turn goes to the peers, the log, the store and coord. `mesh_node` decides.

use crate::auth::token_keys;
use crate::consensus;
use crate::core::Core;
use crate::durable_log::{LogOwner, Writer};
use crate::fatal::fatal;
use crate::mesh::board::Admission;
use crate::mesh::documents;
use crate::mesh::lane::Asker;
use crate::mesh::log::RowLog;
use crate::mesh::metrics::Asked;
use crate::mesh::notes;
use crate::mesh::scout;
use crate::mesh::status::{Counts, MeshStatus};
use crate::mesh::store;
use crate::mesh::wire::{self, Cutter};
use crate::peer::Peers;
use crate::seat::{Machine, Next};
use base::{Docket, Instant, NodeId, Token};
use bytes::Bytes;
use coord::{Command, SetDocument};
use disk::Disk;
use engine::{LifeFile, MeshView};
use mesh::document_exchange;
use mesh::frame::Envelope;
use mesh::life::Standing;
use mesh::overlay::Seq;
use mesh::request::{Reply, Request};
use mesh::steward::Word;
use mesh::tidings::Tidings;
use mesh::{Dot, Mesh, Now, RegionId, Room};
use mesh_node::{AskedAt, Coord, Document, Driver, HeldFor, Input, Output, Proposal, Settings};
use node::Work;
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
    /// From the leader of another region.
    Word {
        region: RegionId,
        word: Word,
    },
    /// From the leader of another region, of the documents that regions share.
    SharedDocuments {
        region: RegionId,
        message: document_exchange::Message,
    },
    /// What the leader of this region says that the region may write.
    Held(Vec<HeldFor>),
    AskTenures {
        from: NodeId,
        asked: AskedAt,
    },
    Tenures(AskedAt, Vec<HeldFor>),
    /// What the cluster has agreed on, from a member that holds it.
    Told(Document),
    /// Some document was replaced.
    Documents,
    Connected(NodeId),
    Lost(NodeId),
    Persisted(Seq),
    /// A question to another region was answered, or could not be asked.
    Answered {
        region: RegionId,
        answer: Result<Bytes, String>,
    },
    /// The flush of this number is durable and visible in this view.
    Flushed {
        number: u64,
        view: Arc<MeshView>,
    },
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
    driver: Driver,
    me: NodeId,
    segment_bytes: u64,
    life: LifeFile,
    view: Arc<MeshView>,
    disk: Arc<dyn Disk>,
    log: LogOwner<RowLog>,
    callers: Docket<Token, Caller>,
    next_token: u64,
    next_tick: Instant,
    show_at: Instant,
    members_at: Instant,
    policy_age_at: Instant,
    policy_at: Instant,
    token_keys_at: Instant,
    out: Output,
    cutter: Cutter,
    counts: Counts,
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
        segment_bytes: u64,
        files: engine::MeshFiles,
    ) -> (Loop, Arc<Mutex<Writer<RowLog>>>, engine::MeshStore) {
        let engine::MeshFiles { log, store, replayed, life, disk, .. } = files;
        let view = store.view();
        let log = Writer::new(RowLog::new(core.clone(), log));
        let me = settings.me;
        let driver = Driver::new(settings, life.life(), replayed, &*view);
        core.mesh.addresses.set(driver.address_book().clone());
        let new = Loop {
            peers,
            driver,
            me,
            segment_bytes,
            life,
            view,
            disk,
            log: LogOwner::new(log.clone()),
            callers: Docket::default(),
            next_token: 1,
            next_tick: core.clock.now(),
            show_at: Instant::ZERO,
            members_at: Instant::ZERO,
            policy_age_at: Instant::ZERO,
            policy_at: Instant::ZERO,
            token_keys_at: Instant::ZERO,
            out: Output::default(),
            cutter: Cutter::default(),
            counts: Counts::default(),
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
        self.driver.end_turn(now, &mut self.out);
        // What is durable at once may cause more output.
        while self.hand_out(now) {
            self.driver.end_turn(now, &mut self.out);
        }
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { at: self.core.clock.now(), wall_ms: wall.as_millis() as u64 }
    }

    fn step(&mut self, now: Now, input: Input) {
        self.driver.step(now, input, &*self.view, &mut self.out);
    }

    fn take_in(&mut self, now: Now, item: Mail) {
        match item {
            Mail::Request { deadline, request, asker, admission } => {
                let asked = Asked::of(&request);
                let caller = Caller { asker, asked, began: now.at, _admission: admission };
                self.ask(now, deadline, request, caller);
            }
            Mail::Reached { dot, asker } => {
                let machine = self.driver.machine();
                let _ = asker.send(machine.map(|machine| machine.reached(dot)).unwrap_or_default());
            }
            Mail::Frames { from, envelopes } => {
                for envelope in envelopes {
                    self.step(now, Input::Frame { from, envelope });
                }
            }
            Mail::Abroad { region, from, envelopes } => {
                for envelope in envelopes {
                    self.step(now, Input::FrameAbroad { region, from, envelope });
                }
            }
            Mail::Tidings { from, tidings } => self.step(now, Input::Report { from, tidings }),
            Mail::Word { region, word } => self.step(now, Input::HomeMessage { region, word }),
            Mail::SharedDocuments { region, message } => {
                self.step(now, Input::DocumentMessage { region, message });
            }
            Mail::Held(held) => self.step(now, Input::Held(held)),
            Mail::AskTenures { from, asked } => self.step(now, Input::AskTenures { from, asked }),
            Mail::Tenures(asked, held) => self.step(now, Input::Tenures(asked, held)),
            Mail::Told(document) => {
                documents::learn_auth(&self.core, now.at, &document);
                self.step(now, Input::Told(document));
            }
            Mail::Documents => self.step(now, Input::Documents(documents::followed(&self.core))),
            Mail::Connected(peer) => self.step(now, Input::Connected(peer)),
            Mail::Lost(peer) => self.step(now, Input::Lost(peer)),
            Mail::Answered { region, answer } => self.step(now, Input::Answered { region, answer }),
            Mail::Persisted(seq) => {
                self.log.persisted(seq);
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
        if self.members_at <= now.at {
            self.members_at = now.at.after(MEMBERS_EVERY);
            self.step(now, Input::Members(self.members()));
        }
        self.look_at_disk(now);
        let status = self.core.board.read();
        let leads = status.is_leader;
        if !self.core.data_only {
            self.tend_policy(now, leads, status.leader.is_some());
        }
        self.step(now, Input::Tick { leads });
        if self.show_at <= now.at {
            self.show_at = now.at.after(SHOW_EVERY);
            self.show();
        }
    }

    /// A member that has a leader knows the newest policy, and tells nodes without coord how old what it knows is.
    fn tend_policy(&mut self, now: Now, leads: bool, has_leader: bool) {
        if has_leader {
            self.core.auth.data.confirm(now.at, Duration::ZERO);
        }
        if self.token_keys_at <= now.at {
            self.token_keys_at = now.at.after(TOKEN_KEYS_EVERY);
            let next = if leads { self.core.auth.next_token_keys(now.wall_ms) } else { None };
            if let Some((expect, bytes)) = next {
                self.propose(now, Proposal { name: token_keys::DOCUMENT, expect, bytes });
            }
        }
        if self.policy_age_at > now.at {
            return;
        }
        self.policy_age_at = now.at.after(POLICY_AGE_EVERY);
        let with_policy = self.policy_at <= now.at;
        if with_policy {
            self.policy_at = now.at.after(POLICY_EVERY);
        }
        let followers = self.driver.followers();
        if !followers.is_empty() {
            let frames = documents::policy_frames(&self.core, now.at, with_policy);
            for node in followers {
                // What is lost is told again in a second.
                self.peers.send_data(node, frames.clone());
            }
        }
    }

    fn members(&self) -> Coord {
        let table = self.core.members.table();
        let peers = self.core.members.others().into_iter().map(|(id, _)| id).collect();
        Coord { voters: table.voters().into_iter().collect(), removed: table.removed().clone(), peers }
    }

    /// What the machine takes in is bounded by what was free at the last look, and by what it has taken in since.
    fn look_at_disk(&mut self, now: Now) {
        let free = self.disk.free_bytes();
        let free_bytes = free.unwrap_or_else(|error| fatal("measuring the disk of the mesh", &error));
        let board = &self.core.mesh.board;
        let lacking_bytes = self.segment_bytes.saturating_sub(board.spare_bytes());
        let room = Room { free_bytes, taken_bytes: board.taken_bytes(), lacking_bytes };
        self.step(now, Input::Space(room));
    }

    /// The peers and the disk first, for their work takes longest. True if something has followed at once that the
    /// driver was told.
    fn hand_out(&mut self, now: Now) -> bool {
        self.send(now);
        let mut goes_on = false;
        if let Some(standing) = self.out.life.take() {
            self.write_life(standing);
            self.step(now, Input::LifeWritten(standing));
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
        let spent = self.out.mesh.spent.take().map(store::Order::Free);
        let flush = self.out.mesh.flush.take().map(store::Order::Flush);
        for order in spent.into_iter().chain(flush) {
            self.core.mesh.store.push(order);
        }
        self.hand_out_rest(now);
        goes_on
    }

    /// What happens now and then.
    fn hand_out_rest(&mut self, now: Now) {
        for proposal in std::mem::take(&mut self.out.propose) {
            self.propose(now, proposal);
        }
        if !self.out.learned.is_empty() {
            documents::learn(&self.core, std::mem::take(&mut self.out.learned));
        }
        if let Some(nodes) = self.out.nodes.take()
            && self.core.members.set_nodes(nodes)
        {
            self.core.consensus.queue.push(consensus::Mail::Others(self.core.members.others()));
        }
        if std::mem::take(&mut self.out.addresses_changed) {
            let addresses = self.driver.address_book();
            self.core.mesh.addresses.set(addresses.clone());
            self.core.mesh.scout.push(scout::Order::Lead(addresses.remote_nodes()));
        }
        for question in std::mem::take(&mut self.out.questions) {
            self.core.mesh.scout.push(scout::Order::Ask(question));
        }
        if !self.out.held.is_empty() {
            self.core.mesh.tenures.set(&std::mem::take(&mut self.out.held));
        }
        for note in std::mem::take(&mut self.out.mesh.notes) {
            notes::count(&mut self.counts, note);
        }
        std::mem::take(&mut self.out.notes).into_iter().for_each(notes::log);
        if std::mem::take(&mut self.out.topology_changed) {
            self.show_topology();
        }
    }

    fn write_life(&mut self, standing: Standing) {
        self.life
            .set_standing(standing)
            .unwrap_or_else(|error| fatal("writing down the life of the mesh", &error));
    }

    fn propose(&self, now: Now, proposal: Proposal) {
        let Proposal { name, expect, bytes } = proposal;
        let mut command = Vec::new();
        Command::Document(SetDocument { name: name.to_owned(), expect, bytes }).encode(&mut command);
        self.core.submit(now.at.after(PROPOSAL_TIMEOUT), Work::Propose(command.into()));
    }

    fn send(&mut self, now: Now) {
        let mut by_peer: BTreeMap<NodeId, Vec<Bytes>> = BTreeMap::new();
        for (to, envelope) in self.out.mesh.send.drain(..) {
            self.cutter.cut(&envelope, by_peer.entry(to).or_default());
        }
        let mut lost = BTreeSet::new();
        for (to, frames) in by_peer {
            if !self.peers.send_data(to, frames) {
                lost.insert(to);
            }
        }
        // What is lost of these is sent again.
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

    fn show(&mut self) {
        let now = self.now();
        let machine = self.driver.machine();
        self.core.mesh.board.set_status(MeshStatus {
            node: self.me,
            incarnation: self.driver.life().incarnation,
            regions: machine.map(|machine| machine.regions(now)).unwrap_or_default(),
            machine: machine.map(Mesh::status),
            counts: self.counts,
            ..MeshStatus::default()
        });
        self.show_topology();
    }

    fn show_topology(&self) {
        if let Some(machine) = self.driver.machine() {
            self.core.mesh.board.set_topology(machine.topology());
        }
    }
}
