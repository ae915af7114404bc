//! The raft machine: one input at a time goes in, `collect` hands out what follows from it.
//! Messages that vouch for something durable are held here until `Persisted` reports it; a heartbeat's
//! answer is not among them, so a slow disk does not look like a dead member. Election timeouts are a pure
//! hash of (seed, member, term, round): the same inputs give the same outputs.

use crate::config::Config;
use crate::entry::{Entry, entry_type};
use crate::guard::{self, GuardVerdict, ProtocolViolation};
use crate::log::Log;
use crate::message::Message;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::restore::RestoredState;
use crate::terms::TermClaims;
use base::mutant::planted;
use base::rng::mix;
use base::{Index, NodeId, Position, Term, limits};
use bytes::Bytes;
use raft_rs::eraftpb::{self, HardState, MessageType};
use raft_rs::{INVALID_ID, ProgressState, RawNode, Ready, SnapshotStatus, StateRole};
use std::collections::VecDeque;

mod commit_record;
mod doubt;
mod quorum;
mod read_index;

use doubt::Abstention;
pub use doubt::Doubt;
use quorum::QuorumCheck;

#[derive(Clone, Debug)]
pub struct Params {
    pub id: NodeId,
    /// The initial members of the cluster, which vote until the store has a configuration. Empty for a member that
    /// joins later.
    pub voters: Vec<NodeId>,
    pub heartbeat_ticks: usize,
    pub election_ticks: usize,
    /// Spreads the election timeouts.
    pub seed: u64,
    /// Entries kept behind the flushed state for followers that lag.
    pub log_keep_entries: u64,
    /// An append is sent when it holds so much, or one entry.
    pub append_bytes: usize,
    /// The part of the log that this start found lost.
    pub lost: Doubt,
    /// The id of this member is new: the cluster gave it out in answer to a request of this start. So the member
    /// cannot have forgotten anything.
    pub is_new: bool,
}

/// Everything that can happen to a raft member. There is no other way in.
#[derive(Debug)]
pub enum Input {
    Tick,
    Received(Message),
    Propose(Bytes),
    /// A proposal that may change the configuration when it is applied.
    ProposeChange(Bytes),
    /// The state machine has decided the configuration, at an index that is not yet reported as applied.
    Configure(Config),
    /// Ask for an index that a read must wait for. The context must never have been used before.
    ReadIndex(Bytes),
    /// Everything up to this `Persist` is durable.
    Persisted(u64),
    /// Something that this start of the member has proposed is committed, and durable here.
    OwnEntryCommitted,
    /// A log that ends at `floor` has everything that this member can have lost, and no other member has been in a later
    /// term than `term`.
    FloorKnown {
        floor: Position,
        term: Term,
    },
    /// An operator accepted the loss of this member, and the log is to keep that.
    RecordLoss(NodeId),
    /// The state machine has applied up to here.
    Applied(Index),
    /// The store has made durable what was applied up to here.
    Flushed(Position),
    /// The stream to or from this member broke.
    Lost(NodeId),
    /// A snapshot's stream to this member ended.
    SnapshotSent {
        to: NodeId,
        ok: bool,
    },
    Transfer(NodeId),
    /// Campaign now: for the only member of a cluster.
    Campaign,
}

/// The effects of the inputs. The caller drains them.
#[derive(Debug, Default)]
pub struct Output {
    pub send: Vec<Message>,
    pub persist: Vec<Persist>,
    /// Committed and locally durable, in order, each once.
    pub committed: Vec<Entry>,
    pub reads: Vec<ReadReady>,
    /// Announcements whose rows must be streamed along with them.
    pub snapshots: Vec<Message>,
    /// The log was cut: records up to here are no longer needed.
    pub released: Option<Index>,
    /// Members that sent what no member sends.
    pub refused: Vec<(NodeId, ProtocolViolation)>,
    pub events: Vec<RaftEvent>,
}

/// Records to make durable, in the order of `seq`. With `install`, the staged store takes the live one's
/// place, durably, before the records are written.
#[derive(Debug)]
pub struct Persist {
    pub seq: u64,
    pub install: Option<Position>,
    pub records: Vec<Record>,
}

/// A read that asked with this context sees every write acknowledged before it once `index` is applied.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadReady {
    pub context: Bytes,
    pub index: Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Leader,
    Follower,
    Candidate,
}

/// A fact worth a log line and a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaftEvent {
    Leadership {
        term: Term,
        role: Role,
        leader: Option<NodeId>,
    },
    Installed(Position),
    CaughtUp,
    /// This member led this term and was heard by no majority: the others need not wait for its silence.
    SteppedDown(Term),
}

#[derive(Clone, Copy, Debug)]
pub struct RaftStatus {
    pub term: Term,
    pub role: Role,
    pub leader: Option<NodeId>,
    pub committed: Index,
    pub last: Index,
    /// It may have forgotten what it acknowledged, and does not vote for candidates that may lack it.
    pub in_doubt: bool,
}

pub struct Raft {
    node: RawNode<Log>,
    params: Params,
    /// Counts elections that this member saw time out, so that each draws a new timeout.
    round: u64,
    persist_seq: u64,
    /// The number of the last ready that the library gave out.
    last_ready: u64,
    /// The commit index of a configuration change is to become durable soon, not only with the next entries.
    records_commit: bool,
    /// The term in which this member would restart after a crash.
    durable_term: Term,
    in_flight: VecDeque<InFlight>,
    released: Option<Index>,
    /// Messages that became free by a completion since the last `collect`.
    freed: Vec<Message>,
    abstention: Option<Abstention>,
    claims: TermClaims,
    /// Since the last `collect`.
    refused: Vec<(NodeId, ProtocolViolation)>,
    /// Not yet recorded.
    accepted_loss: Option<NodeId>,
    /// The last term that this member led since its start.
    led: Option<Term>,
    /// Whether there was a leader since its start.
    has_met_leader: bool,
    quorum_check: QuorumCheck,
    /// The context of the heartbeats of the read round under way.
    read_round: Option<Vec<u8>>,
    last_note: Option<RaftEvent>,
}

/// A persist under way, with what may leave when it is done.
struct InFlight {
    seq: u64,
    ready_number: u64,
    /// The term of this member once this is durable.
    term: Term,
    installs: bool,
    then_send: Vec<Message>,
}

/// A member that has just started skips so many tenths of its first election timeout.
const FIRST_TICKS_SKIPPED: usize = 7;
const INFLIGHT_APPENDS_MAX: usize = 256;

impl Raft {
    pub fn new(params: Params, restored: RestoredState) -> Raft {
        let hard_state = HardState {
            term: restored.term.0,
            vote: restored.vote.map_or(0, |node| node.0),
            commit: restored.commit.0,
            ..HardState::default()
        };
        let entries = restored.entries.iter().map(Entry::to_library).collect();
        let first = || Config { voters: params.voters.clone(), ..Config::default() };
        let config = restored.config.clone().unwrap_or_else(first);
        let abstention = Abstention::begin(&params, &restored);
        let mut log = Log::new(restored.base, entries, hard_state, config);
        let released = log.flush_to(restored.applied, params.log_keep_entries, None);
        let library = raft_rs::Config {
            id: params.id.0,
            election_tick: params.election_ticks,
            heartbeat_tick: params.heartbeat_ticks,
            applied: restored.applied.index.0,
            max_size_per_msg: params.append_bytes as u64,
            max_inflight_msgs: INFLIGHT_APPENDS_MAX,
            check_quorum: true,
            pre_vote: true,
            batch_append: true,
            max_uncommitted_size: limits::PROPOSALS_WAITING_BYTES_MAX as u64,
            ..raft_rs::Config::default()
        };
        let silence = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&library, log, &silence).expect("the parameters were checked");
        Raft {
            node,
            params,
            round: 0,
            persist_seq: 0,
            last_ready: 0,
            records_commit: false,
            durable_term: restored.term,
            in_flight: VecDeque::new(),
            released,
            freed: Vec::new(),
            abstention,
            claims: TermClaims::default(),
            refused: Vec::new(),
            accepted_loss: None,
            led: None,
            has_met_leader: false,
            quorum_check: QuorumCheck::default(),
            read_round: None,
            last_note: None,
        }
    }

    pub fn status(&self) -> RaftStatus {
        let raft = &self.node.raft;
        RaftStatus {
            term: Term(raft.term),
            role: role_of(raft.state),
            leader: Some(raft.leader_id).filter(|id| *id != INVALID_ID).map(NodeId),
            committed: Index(raft.raft_log.committed),
            last: Index(raft.raft_log.last_index()),
            in_doubt: self.is_in_doubt(),
        }
    }

    /// The last term that this member has led since its start: it has every entry of that term.
    pub fn led(&self) -> Option<Term> {
        self.led
    }

    pub fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// A leader answers reads only once it has committed an entry of its own term.
    pub fn can_read_index(&self) -> bool {
        !self.is_leader() || self.node.raft.commit_to_current_term()
    }

    /// Takes one input. False means that it was dropped: a proposal without a leader here, a message that no correct
    /// peer sends.
    pub fn step(&mut self, input: Input) -> bool {
        match input {
            Input::Tick => self.step_tick(),
            Input::Received(message) => return self.step_received(message),
            Input::Propose(data) => return self.step_propose(data, false),
            Input::ProposeChange(data) => return self.can_change() && self.step_propose(data, true),
            Input::Configure(config) => self.configure(&config),
            Input::ReadIndex(context) => self.step_read_index(context),
            Input::Persisted(seq) => self.step_persisted(seq),
            Input::OwnEntryCommitted => self.step_own_entry_committed(),
            Input::FloorKnown { floor, term } => self.step_floor_known(floor, term),
            Input::RecordLoss(id) => self.accepted_loss = Some(id),
            Input::Applied(index) => self.node.advance_apply_to(index.0),
            Input::Flushed(at) => self.step_flushed(at),
            Input::Lost(peer) => self.step_lost(peer),
            Input::SnapshotSent { to, ok } => {
                let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
                self.node.report_snapshot(to.0, status);
            }
            Input::Transfer(to) if self.is_leader() => self.node.transfer_leader(to.0),
            Input::Transfer(_) => return false,
            Input::Campaign => return self.may_stand() && self.node.campaign().is_ok(),
        }
        true
    }

    fn step_tick(&mut self) {
        self.check_quorum();
        let timeout = self.election_timeout();
        self.node.raft.set_randomized_election_timeout(timeout);
        self.hurry_first_election();
        if !self.is_leader() && !self.may_stand() {
            self.forget_silent_leader(timeout);
        }
        self.node.tick();
        if self.node.raft.election_elapsed == 0 && !self.is_leader() {
            self.round += 1;
        }
    }

    /// A member in doubt does not campaign. Nor does a member whose snapshot is being installed: the library would
    /// look for entries between its old and its new log. Nor does the only voter while part of its log is not
    /// durable: it leads as soon as it campaigns.
    fn may_stand(&self) -> bool {
        let log = &self.node.raft.raft_log;
        let leads_at_once = self.node.raft.prs().is_singleton() && log.persisted < log.last_index();
        !self.doubts_itself() && !leads_at_once && !self.in_flight.iter().any(|flight| flight.installs)
    }

    /// A member that may not campaign still notices that its leader is silent. It could not ask the others how far
    /// their logs reach otherwise (ADR 46), and would refuse every pre-vote for the sake of that leader.
    fn forget_silent_leader(&mut self, timeout: usize) {
        let raft = &mut self.node.raft;
        if raft.election_elapsed + 1 < timeout && !planted(Mutant::SilentLeaderKept) {
            return;
        }
        raft.election_elapsed = 0;
        if !planted(Mutant::SilentLeaderKept) {
            raft.leader_id = INVALID_ID;
        }
    }

    /// A member that has just started has no leader whose silence it must wait for. If there is a leader after all,
    /// the other members know it and refuse the pre-vote.
    fn hurry_first_election(&mut self) {
        let raft = &mut self.node.raft;
        let is_waiting = raft.election_elapsed == 0 && raft.leader_id == INVALID_ID;
        if is_waiting && !self.has_met_leader {
            raft.election_elapsed = self.params.election_ticks * FIRST_TICKS_SKIPPED / 10;
        }
    }

    /// From one to 1.2 election timeouts: a wider spread only makes failover slower, because pre-vote
    /// already keeps candidates from disturbing each other.
    fn election_timeout(&self) -> usize {
        let election = self.params.election_ticks;
        election + (self.draw() % (election as u64 / 5 + 1)) as usize
    }

    fn draw(&self) -> u64 {
        let raft = &self.node.raft;
        mix(self.params.seed ^ mix(raft.id ^ mix(raft.term ^ mix(self.round))))
    }

    fn step_received(&mut self, message: Message) -> bool {
        let Some(message) = self.admit(message) else { return false };
        let untimely = message.kind() == MessageType::MsgTimeoutNow && !self.may_stand();
        if untimely || self.keeps_vote_from(&message) {
            return false;
        }
        self.note_new_cluster(&message);
        let from = message.0.from;
        self.quorum_check.record_contact(NodeId(from));
        if message.kind() == MessageType::MsgReadIndex && self.can_gather_reads() {
            self.gather_read(message.0);
            return true;
        }
        let taken = self.node.step(message.0).is_ok();
        self.keep_next_above_match(from);
        taken
    }

    fn admit(&mut self, message: Message) -> Option<Message> {
        let (from, term) = (message.from(), message.term().0);
        let admission = guard::admit(&self.node, message);
        let refusal = match admission {
            GuardVerdict::Take(message) if self.accepts_term(from, term) => return Some(message),
            GuardVerdict::Take(_) => ProtocolViolation::TermJump,
            GuardVerdict::Ignore => return None,
            GuardVerdict::Refuse(refusal) => refusal,
        };
        self.refused.push((from, refusal));
        None
    }

    fn accepts_term(&mut self, from: NodeId, term: u64) -> bool {
        let raft = &self.node.raft;
        let voters: Vec<u64> =
            if term > raft.term { raft.prs().conf().voters().ids().iter().collect() } else { return true };
        self.claims.admit(from.0, term, raft.term, raft.id, &voters)
    }

    /// A rejection that was overtaken by an acknowledgement makes the library probe below what it knows to
    /// match (raft-rs #557): harmless while the log reaches back so far, a needless snapshot when it does not.
    fn keep_next_above_match(&mut self, peer: u64) {
        if let Some(progress) = self.node.raft.mut_prs().get_mut(peer)
            && progress.next_idx <= progress.matched
        {
            progress.next_idx = progress.matched + 1;
        }
    }

    /// Appends as the library does for a proposal; the library itself would decode a change in its own encoding.
    fn step_propose(&mut self, data: Bytes, reconfigures: bool) -> bool {
        let raft = &mut self.node.raft;
        let can_append = raft.state == StateRole::Leader && raft.lead_transferee.is_none();
        if !can_append || raft.raft_log.store.is_full() {
            return false;
        }
        let entry_type = entry_type(reconfigures);
        if !raft.append_entry(&mut [eraftpb::Entry { data, entry_type, ..eraftpb::Entry::default() }]) {
            return false;
        }
        if reconfigures {
            raft.pending_conf_index = raft.raft_log.last_index();
        }
        raft.bcast_append();
        true
    }

    /// Every change so far is applied here (entries that a new leader found in its log count as changes), and an
    /// entry of its own term is committed.
    pub fn can_change(&self) -> bool {
        let raft = &self.node.raft;
        self.is_leader() && !raft.has_pending_conf() && raft.commit_to_current_term()
    }

    pub fn config(&self) -> Config {
        Config::from_library(&self.node.raft.prs().conf().to_conf_state())
    }

    fn configure(&mut self, config: &Config) {
        for step in self.config().steps_to(config) {
            self.node
                .apply_conf_change(&step)
                .expect("the state machine goes from one valid configuration to the next");
        }
        let config = self.config();
        if !config.has_vote(self.params.id) && self.is_leader() {
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, INVALID_ID);
        }
        self.node.raft.mut_store().set_config(config);
        self.records_commit = true;
    }

    /// A learner has nearly the whole log of this leader, by etcd's measure.
    pub fn has_caught_up(&self, id: NodeId) -> bool {
        let prs = self.node.raft.prs();
        let matched = |id: u64| prs.get(id).map_or(0, |progress| progress.matched);
        matched(id.0) * 10 >= matched(self.params.id.0) * 9
    }

    /// The other voter with the longest log: the target of a leadership transfer.
    pub fn transfer_target(&self) -> Option<NodeId> {
        let prs = self.node.raft.prs();
        let others = self.config().voters.into_iter().filter(|id| *id != self.params.id);
        let active =
            others.filter_map(|id| prs.get(id.0).filter(|it| it.recent_active).map(|it| (it.matched, id)));
        active.max().map(|(_, id)| id)
    }

    fn step_persisted(&mut self, seq: u64) {
        let mut number = None;
        while let Some(done) = self.in_flight.front().filter(|flight| flight.seq <= seq) {
            number = Some(done.ready_number);
            let done = self.in_flight.pop_front().expect("front() saw it");
            self.durable_term = done.term;
            self.freed.extend(done.then_send);
        }
        if let Some(number) = number {
            self.node.on_persist_ready(number);
        }
    }

    fn step_flushed(&mut self, at: Position) {
        // Entries are kept only if there are other members.
        let keep = if self.node.raft.store().is_of_one() { 0 } else { self.params.log_keep_entries };
        let held = self.oldest_snapshot_on_its_way();
        let cut = self.node.raft.mut_store().flush_to(at, keep, held);
        self.released = cut.or(self.released);
    }

    fn oldest_snapshot_on_its_way(&self) -> Option<Index> {
        let peers = self.node.raft.prs().iter();
        let sent = peers.filter(|(_, progress)| progress.state == ProgressState::Snapshot);
        sent.map(|(_, progress)| Index(progress.pending_snapshot)).min()
    }

    /// The connection to the leader was closed: do not wait out the election timeout. The other members see the same
    /// and grant the pre-vote; if they do not, the leader lives and nothing happens.
    fn step_lost(&mut self, peer: NodeId) {
        if self.is_leader() {
            self.node.report_unreachable(peer.0);
        } else if self.node.raft.leader_id == peer.0 && self.may_stand() {
            let delay = self.draw() % (self.params.election_ticks as u64 / 10 + 1);
            let timeout = self.election_timeout();
            let raft = &mut self.node.raft;
            raft.leader_id = INVALID_ID;
            raft.election_elapsed = timeout - 1 - delay as usize;
        }
    }

    /// Returns the output of all inputs so far.
    pub fn collect(&mut self, out: &mut Output) {
        std::mem::take(&mut self.freed).into_iter().for_each(|message| self.route(message, out));
        self.begin_read_round();
        while self.node.has_ready() {
            let ready = self.node.ready();
            self.collect_ready(ready, out);
        }
        if std::mem::take(&mut self.records_commit) && !planted(Mutant::StandsOnOldConfig) {
            self.record_commit(out);
        }
        out.released = self.released.take().or(out.released);
        out.refused.append(&mut self.refused);
        if let Some(id) = self.accepted_loss.take() {
            self.record(Record::AcceptedLoss(id), out);
        }
        self.note_end_of_doubt(out);
        self.note_leadership(out);
    }

    fn collect_ready(&mut self, mut ready: Ready, out: &mut Output) {
        let at_once = ready.take_messages().into_iter().map(Message).collect();
        let mut then_send = self.hold_until_elected(at_once, out);
        for read in ready.take_read_states() {
            out.reads.push(ReadReady { context: read.request_ctx.into(), index: Index(read.index) });
        }
        out.committed.extend(ready.take_committed_entries().into_iter().map(Entry::from_library));
        then_send.extend(self.hold_back(ready.take_persisted_messages(), out));
        let install = self.install_of(&ready, out);
        let entries = ready.take_entries();
        self.node.raft.mut_store().append(&entries);
        let records = records_of(install, &ready, entries);
        let number = ready.number();
        self.last_ready = number;
        self.node.advance_append_async(ready);
        let term = Term(self.node.raft.term);
        let flight = InFlight { seq: 0, ready_number: number, term, installs: install.is_some(), then_send };
        self.persist(install, records, flight, out);
    }

    /// Queues what must be durable; a ready with nothing to persist is done when those before it are.
    fn persist(
        &mut self,
        install: Option<Position>,
        records: Vec<Record>,
        mut flight: InFlight,
        out: &mut Output,
    ) {
        let nothing_new = records.is_empty() && install.is_none();
        if !nothing_new {
            self.persist_seq += 1;
            flight.seq = self.persist_seq;
            out.persist.push(Persist { seq: self.persist_seq, install, records });
        }
        let is_done = planted(Mutant::AckBeforeFsync) || nothing_new && self.in_flight.is_empty();
        if is_done {
            self.durable_term = flight.term;
            flight.then_send.into_iter().for_each(|message| self.route(message, out));
            self.node.on_persist_ready(flight.ready_number);
        } else if nothing_new {
            let last = self.in_flight.back_mut().expect("checked not empty");
            last.ready_number = flight.ready_number;
            last.term = flight.term;
            last.then_send.extend(flight.then_send);
        } else {
            self.in_flight.push_back(flight);
        }
    }

    /// A leader's messages may leave before its own disk has the entries. But the only voter has just elected itself,
    /// and if it forgot that in a crash, it would lead the same term again with other entries.
    fn hold_until_elected(&self, messages: Vec<Message>, out: &mut Output) -> Vec<Message> {
        let is_durable = Term(self.node.raft.term) == self.durable_term;
        if is_durable || planted(Mutant::LeadsBeforeItsVote) {
            messages.into_iter().for_each(|message| self.route(message, out));
            return Vec::new();
        }
        messages
    }

    /// Sorts a follower's messages into those that may go at once and those that wait for the disk. A heartbeat's
    /// answer acknowledges the leader's term, which a quorum made durable when it elected it; a read request claims
    /// nothing. Everything else may acknowledge data that is still being written.
    fn hold_back(&self, messages: Vec<eraftpb::Message>, out: &mut Output) -> Vec<Message> {
        let mut held = Vec::new();
        for message in messages {
            let free =
                matches!(message.msg_type, MessageType::MsgHeartbeatResponse | MessageType::MsgReadIndex)
                    || planted(Mutant::ResponseBeforePersist)
                        && message.msg_type == MessageType::MsgAppendResponse;
            let message = Message(message);
            if free {
                out.send.push(message);
            } else {
                held.push(message);
            }
        }
        held
    }

    fn route(&self, message: Message, out: &mut Output) {
        if message.is_snapshot() {
            out.snapshots.push(message);
        } else {
            out.send.push(message);
        }
    }

    fn install_of(&mut self, ready: &Ready, out: &mut Output) -> Option<Position> {
        if ready.snapshot().is_empty() {
            return None;
        }
        let meta = ready.snapshot().get_metadata();
        let at = Position { term: Term(meta.term), index: Index(meta.index) };
        let config = Config::from_library(meta.get_conf_state());
        let store = self.node.raft.mut_store();
        store.reset(at);
        store.set_config(config);
        out.events.push(RaftEvent::Installed(at));
        Some(at)
    }

    fn note_leadership(&mut self, out: &mut Output) {
        let RaftStatus { term, role, leader, .. } = self.status();
        if role == Role::Leader {
            self.led = Some(term);
        }
        self.has_met_leader |= leader.is_some();
        self.report_step_down(out);
        let note = RaftEvent::Leadership { term, role, leader };
        if self.last_note != Some(note) {
            self.last_note = Some(note);
            out.events.push(note);
        }
    }
}

/// The commit index alone is not worth a write: the leader reports it again. It is written with other records.
fn records_of(install: Option<Position>, ready: &Ready, entries: Vec<eraftpb::Entry>) -> Vec<Record> {
    let mut records = Vec::new();
    records.extend(install.map(Record::Installed));
    if ready.must_sync() {
        records.extend(ready.hs().map(|state| Record::Vote {
            term: Term(state.term),
            vote: vote_of(state),
            commit: Index(state.commit),
        }));
    }
    if !entries.is_empty() {
        records.push(Record::Entries(entries.into_iter().map(Entry::from_library).collect()));
    }
    records
}

fn vote_of(state: &HardState) -> Option<NodeId> {
    let voted = state.vote != INVALID_ID && !planted(Mutant::VoteForgotten);
    voted.then_some(NodeId(state.vote))
}

fn role_of(state: StateRole) -> Role {
    match state {
        StateRole::Leader => Role::Leader,
        StateRole::Follower => Role::Follower,
        StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
    }
}

#[cfg(test)]
mod tests;
