//! The consensus machine: orders proposals, confirms reads, and says what to persist and send.
//! Requests, frames, ticks and completions go in one by one; `collect` ends a turn and hands out everything
//! that follows. A proposal is never answered here unless its deadline passes: `Apply` answers it.

use crate::config_changes::{self, BatchKind, ConfigChanges};
use crate::frame::Frame;
use crate::lease_clock::LeaderProposals;
use crate::mutant::Mutant;
use crate::peer_message::PeerMessage;
use crate::pending::PendingProposals;
use crate::question::{AskedQuestion, AskerId, LeaderAnswer, LeaderQuestion};
use crate::reads::{Read, ReadBatch, ReadCounts, Reads};
use crate::snapshot_receiver::{PartOutcome, SnapshotReceiver, StagedOutcome, StagingStep};
use crate::waiting_questions::WaitingQuestions;
use base::limits::{APPLY_LAG_ENTRIES_MAX, ENTRY_BYTES_SOFT, FORWARD_BYTES_MAX};
use base::mutant::planted;
use base::{Boot, Code, Index, Instant, NodeId, Position, ReplyToken, Term};
use bytes::Bytes;
use coord::reply::Reply;
use coord::request;
use coord::{Caller, Command};
use forwarded::ForwardedProposals;
use inquiry::LogInquiry;
use own_entry::OwnEntryProbe;
use own_proposals::OwnProposals;
use raft::{Config, Entry, Message, Persist, ProtocolViolation, Raft, RaftEvent, RaftStatus, RestoredState};
use std::time::Duration;

mod forwarded;
mod inquiry;
mod own_entry;
mod own_proposals;

#[derive(Clone, Debug)]
pub struct ConsensusParams {
    pub raft: raft::Params,
    /// After this long without an answer a read round or a forwarded proposal is tried again.
    pub retry_after: Duration,
}

/// A request whose caller waits for the reply under this token.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    pub token: ReplyToken,
    pub deadline: Instant,
    pub work: ClientWork,
}

#[derive(Clone, Debug)]
pub enum ClientWork {
    /// An encoded `coord` command, to be ordered and applied.
    Propose(Bytes),
    /// Answered without a log entry; linearizable unless it says otherwise.
    Read(request::Request, Caller),
    /// For the leader to answer.
    LeaderQuestion(LeaderQuestion),
}

#[derive(Debug)]
pub enum ConsensusInput {
    Tick,
    Received {
        from: NodeId,
        frame: Frame,
    },
    Request(ClientRequest),
    Persisted(u64),
    /// `Apply` has applied up to `index` and answered these proposals of ours.
    Applied {
        index: Index,
        finished: Vec<u64>,
        /// The configurations that it went through, each from this index on.
        configs: Vec<(Index, Config)>,
    },
    /// The answers of `Apply` to questions.
    Answered(Vec<(AskerId, LeaderAnswer)>),
    /// A message of `Apply` to another member.
    SendPeerMessage(NodeId, PeerMessage),
    /// The proposals of `Apply` as the leader of a term.
    LeaderProposals(LeaderProposals),
    Flushed(Position),
    Lost(NodeId),
    /// The staged store is durable at this position, or could not be built.
    Staged {
        id: u64,
        at: Option<Position>,
        /// The configuration in its table of members, if it has one.
        config: Option<Config>,
    },
    SnapshotSent {
        to: NodeId,
        ok: bool,
    },
    Transfer(NodeId),
    /// An operator accepts the loss of this member, and of what only it has.
    AcceptLoss(NodeId),
    /// The only member of its cluster does not wait for a leader.
    Campaign,
}

#[derive(Debug, Default)]
pub struct ConsensusOutput {
    pub send: Vec<(NodeId, Frame)>,
    pub persist: Vec<Persist>,
    pub committed: Vec<Entry>,
    pub reads: Vec<ReadBatch>,
    /// Messages of other members to `Apply`.
    pub peer_messages: Vec<(NodeId, PeerMessage)>,
    pub refused: Vec<(ReplyToken, Code)>,
    /// Questions that were answered by the leader.
    pub answered: Vec<(ReplyToken, Reply)>,
    /// Set when it changed: the term in which this member leads, if it does. `Apply` must get it before the rest of
    /// this turn's output.
    pub leading: Option<Option<Term>>,
    pub stage: Vec<StagingStep>,
    pub snapshots: Vec<SnapshotRequest>,
    pub released: Option<Index>,
    /// Members that violated the protocol: their streams are to be closed.
    pub forged: Vec<(NodeId, ProtocolViolation)>,
    pub events: Vec<RaftEvent>,
}

/// A follower needs the whole state: announce it with the position of the view that is streamed.
#[derive(Debug)]
pub struct SnapshotRequest {
    pub id: u64,
    pub to: NodeId,
    pub message: Message,
}

pub struct Consensus {
    params: ConsensusParams,
    raft: Raft,
    pending: PendingProposals,
    reads: Reads,
    staging: SnapshotReceiver,
    asks: WaitingQuestions,
    me: NodeId,
    boot: Boot,
    own: OwnProposals,
    forwarded: ForwardedProposals,
    /// The value that was reported last.
    leading: Option<Term>,
    /// The member to which the waiting proposals were sent, and the term.
    target: (Term, Option<NodeId>),
    applied: Index,
    /// The configuration is that of this index.
    configured: Index,
    changes: ConfigChanges,
    own_entry: OwnEntryProbe,
    inquiry: LogInquiry,
    snapshot_ids: u64,
    raft_out: raft::Output,
}

impl Consensus {
    pub fn new(params: ConsensusParams, restored: RestoredState, boot: Boot) -> Consensus {
        let me = params.raft.id;
        let applied = restored.applied.index;
        Consensus {
            raft: Raft::new(params.raft.clone(), restored),
            pending: PendingProposals::new(me, boot),
            reads: Reads::new(me, boot),
            staging: SnapshotReceiver::default(),
            asks: WaitingQuestions::new(me, boot),
            me,
            boot,
            own: OwnProposals::new(me, boot),
            forwarded: ForwardedProposals::default(),
            leading: None,
            target: (Term::ZERO, None),
            applied,
            configured: applied,
            changes: ConfigChanges::default(),
            own_entry: OwnEntryProbe::default(),
            inquiry: LogInquiry::default(),
            // Unique over restarts, so that parts of an old stream never fit a new one.
            snapshot_ids: boot.0 << 32,
            raft_out: raft::Output::default(),
            params,
        }
    }

    pub fn status(&self) -> RaftStatus {
        self.raft.status()
    }

    pub fn config(&self) -> Config {
        self.raft.config()
    }

    /// Raft uses the configuration of this index.
    pub fn configured(&self) -> Index {
        self.configured.max(self.applied)
    }

    pub fn read_counts(&self) -> ReadCounts {
        self.reads.counts()
    }

    pub fn step(&mut self, now: Instant, input: ConsensusInput, out: &mut ConsensusOutput) {
        match input {
            ConsensusInput::Tick => self.on_tick(now, out),
            ConsensusInput::Received { from, frame } => self.on_frame(now, from, frame, out),
            ConsensusInput::Request(request) => self.on_request(request, out),
            ConsensusInput::Persisted(seq) => self.on_persisted(seq),
            ConsensusInput::Applied { index, finished, configs } => {
                self.configure(configs);
                self.on_applied(index, finished);
            }
            ConsensusInput::Answered(answers) => {
                answers.into_iter().for_each(|(asker, answer)| self.on_answered(asker, answer, out));
            }
            ConsensusInput::SendPeerMessage(to, message) => {
                out.send.push((to, Frame::PeerMessage(message)));
            }
            ConsensusInput::LeaderProposals(proposals) => self.on_leader_proposals(proposals),
            ConsensusInput::Flushed(at) => self.on_flushed(at),
            ConsensusInput::Lost(peer) => {
                self.raft.step(raft::Input::Lost(peer));
            }
            ConsensusInput::Staged { id, at, config } => self.on_staged(id, at, config.as_ref(), out),
            ConsensusInput::SnapshotSent { to, ok } => {
                self.raft.step(raft::Input::SnapshotSent { to, ok });
            }
            ConsensusInput::Transfer(to) => {
                self.raft.step(raft::Input::Transfer(to));
            }
            ConsensusInput::AcceptLoss(id) => self.accept_loss(id),
            ConsensusInput::Campaign => {
                self.raft.step(raft::Input::Campaign);
            }
        }
    }

    fn on_tick(&mut self, now: Instant, out: &mut ConsensusOutput) {
        self.raft.step(raft::Input::Tick);
        let late = self.pending.expire(now).into_iter();
        let late = late.chain(self.reads.expire(now)).chain(self.asks.expire(now));
        let code = if self.target.1.is_none() { Code::NoLeader } else { Code::Timeout };
        out.refused.extend(late.map(|token| (token, code)));
        let then = Instant(now.0.saturating_sub(self.params.retry_after.as_micros() as u64));
        self.reads.give_up_since(then);
        self.asks.ask_again_since(then);
        // The proposals of this member as leader are in its own log and need no repetition.
        if !self.raft.is_leader() && self.pending.has_unanswered_since(then) {
            self.pending.resend_all();
        }
    }

    fn on_frame(&mut self, now: Instant, from: NodeId, frame: Frame, out: &mut ConsensusOutput) {
        self.note_peer(from);
        match frame {
            Frame::Raft(message) if message.from() == from => {
                self.raft.step(raft::Input::Received(message));
            }
            Frame::Raft(_) => {}
            Frame::Forward(batch) => {
                if !self.on_forward(from, batch) {
                    out.forged.push((from, ProtocolViolation::Fields));
                }
            }
            Frame::PeerMessage(message) => out.peer_messages.push((from, message)),
            Frame::LogQuestion { boot, round } => {
                out.send.push((from, Frame::LogAnswer { boot, round, state: self.log_state() }));
            }
            Frame::LogAnswer { boot, round, state } => self.on_log_state(from, boot, round, state),
            Frame::SteppedDown(term) => self.on_stepped_down(from, term),
            // The shell keeps it.
            Frame::ClientUrl(_) | Frame::Members(_) => {}
            Frame::LeaderQuestion { boot, token, question } => {
                let asker = AskerId { member: from, boot, token };
                // The asker asks again long before that.
                let deadline = now.after(self.params.retry_after * 2);
                self.on_question(AskedQuestion { asker, deadline, question }, out);
            }
            Frame::LeaderAnswer { boot, token, answer } => {
                self.on_answered(AskerId { member: self.me, boot, token }, answer, out);
            }
            Frame::Snapshot { id, number, part } => {
                let committed = self.raft.status().committed;
                match self.staging.on_part(from, id, number, part, committed) {
                    PartOutcome::Nothing => {}
                    PartOutcome::Do(stage) => out.stage.push(stage),
                    PartOutcome::TellRaft(message) => {
                        self.raft.step(raft::Input::Received(message));
                    }
                    PartOutcome::Refused(refusal) => out.forged.push((from, refusal)),
                }
            }
        }
    }

    /// Raft decides at once, so that nothing else comes between its decision and the staged store.
    fn on_staged(
        &mut self,
        id: u64,
        at: Option<Position>,
        config: Option<&Config>,
        out: &mut ConsensusOutput,
    ) {
        match self.staging.on_staged(id, at, config) {
            StagedOutcome::Nothing => {}
            StagedOutcome::Forged(from) => out.forged.push((from, ProtocolViolation::Snapshot)),
            StagedOutcome::Complete(message) => {
                self.raft.step(raft::Input::Received(message));
                self.collect_raft(out);
                self.staging.on_decided();
            }
        }
    }

    /// The leader has stepped down.
    fn on_stepped_down(&mut self, from: NodeId, term: Term) {
        let status = self.raft.status();
        if status.term == term && status.leader == Some(from) {
            self.raft.step(raft::Input::Lost(from));
        }
    }

    /// Tells the other members, in case they still receive from this member.
    fn broadcast_step_down(&self, events: &[RaftEvent], out: &mut ConsensusOutput) {
        for note in events {
            let RaftEvent::SteppedDown(term) = note else { continue };
            let config = self.raft.config();
            let others = config.voters.into_iter().chain(config.outgoing).filter(|id| *id != self.me);
            out.send.extend(others.map(|id| (id, Frame::SteppedDown(*term))));
        }
    }

    /// A question to this member. The asker repeats a question that is dropped because another member leads.
    fn on_question(&mut self, ask: AskedQuestion, out: &mut ConsensusOutput) {
        if planted(Mutant::KeepAliveUnverified) && self.raft.is_leader() {
            let batch = ReadBatch { index: Index::ZERO, reads: Vec::new(), asks: vec![ask] };
            return out.reads.push(batch);
        }
        if self.raft.is_leader() || ask.question.is_for_anyone() {
            self.reads.add_ask(ask);
        }
    }

    fn on_answered(&mut self, asker: AskerId, answer: LeaderAnswer, out: &mut ConsensusOutput) {
        let AskerId { member, boot, token } = asker;
        if member != self.me {
            return out.send.push((member, Frame::LeaderAnswer { boot, token, answer }));
        }
        match answer {
            Some(reply) if self.asks.finish(boot, token, &reply.body) => out.answered.push((token, reply)),
            Some(_) => {}
            None => self.asks.ask_again(boot, token),
        }
    }

    /// Proposed only in the term that they were made in; `Apply` repeats what is dropped here and still needed.
    fn on_leader_proposals(&mut self, proposals: LeaderProposals) {
        let RaftStatus { term, .. } = self.raft.status();
        let current = self.raft.is_leader() && term == proposals.term;
        if current || planted(coord::Mutant::RevokeWithoutGuard) {
            let (changes, plain): (Vec<_>, Vec<_>) =
                proposals.commands.into_iter().partition(|command| Command::reconfigures(command));
            self.own.add(plain);
            changes.into_iter().for_each(|command| self.changes.add(self.own.name_change(command)));
        }
    }

    /// The origin repeats what is dropped here, so no caller is answered. False for a batch that no correct member
    /// forwards.
    fn on_forward(&mut self, from: NodeId, batch: Bytes) -> bool {
        if !self.raft.is_leader() || !self.forwarded.fits(&batch) {
            return true;
        }
        if batch.len() > FORWARD_BYTES_MAX {
            return false;
        }
        match config_changes::classify(from, batch.clone()) {
            BatchKind::Plain => self.forwarded.add(batch),
            BatchKind::Change => self.changes.add(batch),
            BatchKind::Invalid => return false,
        }
        true
    }

    fn on_request(&mut self, request: ClientRequest, out: &mut ConsensusOutput) {
        let ClientRequest { token, deadline, work } = request;
        let lag = self.raft.status().committed.0.saturating_sub(self.applied.0);
        let taken = match work {
            _ if lag > APPLY_LAG_ENTRIES_MAX => false,
            ClientWork::Propose(command) => self.pending.add(token, command, deadline),
            ClientWork::Read(request, caller) if request.is_serializable() => {
                let read = Read { token, deadline, request, caller };
                out.reads.push(ReadBatch { index: Index::ZERO, reads: vec![read], asks: Vec::new() });
                true
            }
            ClientWork::Read(request, caller) => self.reads.add(Read { token, deadline, request, caller }),
            ClientWork::LeaderQuestion(question) => self.asks.add(token, question, deadline),
        };
        if !taken {
            out.refused.push((token, Code::TooManyRequests));
        }
    }

    /// With a snapshot's records durable, its store is live and everything up to it is applied.
    fn on_persisted(&mut self, seq: u64) {
        self.raft.step(raft::Input::Persisted(seq));
        if let Some(at) = self.staging.on_persisted(seq) {
            self.on_applied(at.index, Vec::new());
        }
    }

    /// The flushed entries were applied, whether or not that has been reported: raft must know before its log is cut.
    fn on_flushed(&mut self, at: Position) {
        self.on_applied(at.index, Vec::new());
        self.raft.step(raft::Input::Flushed(at));
    }

    /// Takes over configurations; those that were decided before a snapshot was installed are contained in it.
    fn configure(&mut self, configs: Vec<(Index, Config)>) {
        for (index, config) in configs {
            if index > self.configured {
                self.configured = index;
                self.raft.step(raft::Input::Configure(config));
            }
        }
    }

    fn on_applied(&mut self, index: Index, finished: Vec<u64>) {
        finished.into_iter().for_each(|seq| self.pending.finish(seq));
        // A report of `Apply` from before a snapshot was installed may arrive after it; and `Apply` stands on the
        // snapshot before its records are durable, which raft must not hear until they are.
        if index <= self.applied || self.staging.is_installing_up_to(index) {
            return;
        }
        self.applied = index;
        self.raft.step(raft::Input::Applied(index));
        if planted(Mutant::LogCutBeforeFlush) {
            let at = Position { term: self.raft.status().term, index };
            self.raft.step(raft::Input::Flushed(at));
        }
    }

    /// Ends a turn: proposals and reads gathered in it go to the leader, and everything that follows from
    /// the turn's inputs is handed out.
    pub fn collect(&mut self, now: Instant, out: &mut ConsensusOutput) {
        self.collect_raft(out);
        self.update_target();
        self.propose_own_entry(now, out);
        self.ask_log_states(now, out);
        self.send_proposals(now, out);
        self.send_asks(now, out);
        self.ask_for_reads(now);
        self.collect_raft(out);
        self.report_leading(out);
    }

    fn report_leading(&mut self, out: &mut ConsensusOutput) {
        let leading = self.raft.is_leader().then(|| self.raft.status().term);
        if leading != self.leading {
            self.leading = leading;
            out.leading = Some(leading);
        }
    }

    fn send_asks(&mut self, now: Instant, out: &mut ConsensusOutput) {
        let Some(leader) = self.target.1 else { return };
        for ask in self.asks.take_unsent(now) {
            if leader == self.me || ask.question.is_for_anyone() {
                self.on_question(ask, out);
            } else {
                let AskedQuestion { asker: AskerId { boot, token, .. }, question, .. } = ask;
                out.send.push((leader, Frame::LeaderQuestion { boot, token, question }));
            }
        }
    }

    /// A new leader, or a new term of the same leader, has none of what was sent before.
    fn update_target(&mut self) {
        let RaftStatus { term, leader, .. } = self.raft.status();
        if self.target != (term, leader) {
            self.target = (term, leader);
            self.pending.resend_all();
            self.reads.give_up_since(Instant::FAR_FUTURE);
            self.asks.ask_all_again();
        }
    }

    fn send_proposals(&mut self, now: Instant, out: &mut ConsensusOutput) {
        if self.raft.is_leader() {
            self.order_proposals(now);
            self.changes.order(self.me, &mut self.raft);
            return;
        }
        self.changes.clear();
        if let (_, Some(leader)) = self.target {
            self.forward_own(leader, out);
            while self.pending.has_unsent() {
                let mut batch = Vec::new();
                self.pending.take_unsent(now, &mut batch);
                out.send.push((leader, Frame::Forward(batch.into())));
            }
        }
    }

    /// Commands of an ended term are dropped; the planted bug forwards them.
    fn forward_own(&mut self, leader: NodeId, out: &mut ConsensusOutput) {
        if planted(coord::Mutant::RevokeWithoutGuard) && !self.own.is_empty() {
            let mut batch = Vec::new();
            self.own.take(&mut batch);
            out.send.push((leader, Frame::Forward(batch.into())));
        }
        self.own.clear();
    }

    /// As leader: everything that waits becomes one entry, or a few when it is much.
    fn order_proposals(&mut self, now: Instant) {
        while self.pending.has_unsent() || !self.forwarded.is_empty() || !self.own.is_empty() {
            let mut batch = Vec::new();
            self.own.take(&mut batch);
            self.forwarded.take(&mut batch, ENTRY_BYTES_SOFT);
            if batch.is_empty() && self.pending.is_change_next() {
                self.pending.take_unsent(now, &mut batch);
                self.changes.add(batch.into());
                continue;
            }
            self.pending.take_unsent(now, &mut batch);
            if !self.raft.step(raft::Input::Propose(batch.into())) {
                // Too much is uncommitted. Ours are sent again at the next turn, others' by their origins.
                self.pending.resend_all();
                self.forwarded.clear();
                break;
            }
        }
    }

    fn ask_for_reads(&mut self, now: Instant) {
        if self.target.1.is_none() || !self.raft.can_read_index() {
            return;
        }
        if let Some(context) = self.reads.begin(now) {
            self.raft.step(raft::Input::ReadIndex(context));
        }
    }

    fn collect_raft(&mut self, out: &mut ConsensusOutput) {
        let mut from_raft = std::mem::take(&mut self.raft_out);
        self.raft.collect(&mut from_raft);
        out.send.extend(from_raft.send.drain(..).map(|message| (message.to(), Frame::Raft(message))));
        for persist in from_raft.persist.drain(..) {
            if let Some(at) = persist.install {
                self.staging.on_install(persist.seq, at);
                self.configured = self.configured.max(at.index);
            }
            out.persist.push(persist);
        }
        self.find_own_entry(&from_raft.committed);
        out.committed.append(&mut from_raft.committed);
        for ready in from_raft.reads.drain(..) {
            out.reads.extend(self.reads.answer(&ready.context, ready.index));
        }
        for message in from_raft.snapshots.drain(..) {
            self.snapshot_ids += 1;
            out.snapshots.push(SnapshotRequest { id: self.snapshot_ids, to: message.to(), message });
        }
        out.released = from_raft.released.take().or(out.released);
        out.forged.append(&mut from_raft.refused);
        self.broadcast_step_down(&from_raft.events, out);
        out.events.append(&mut from_raft.events);
        self.raft_out = from_raft;
    }
}
