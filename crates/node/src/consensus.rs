//! The consensus machine: orders proposals, confirms reads, and says what to persist and send.
//! Requests, frames, ticks and completions go in one by one; `collect` ends a turn and hands out everything
//! that follows. A proposal is never answered here unless its deadline passes: `Apply` answers it.

use crate::asks::Asks;
use crate::batch::Proposal;
use crate::changes::{self, Changes, Kind};
use crate::frame::Frame;
use crate::leases::Proposals;
use crate::member::{changer_id, lessor_id};
use crate::pending::Pending;
use crate::question::{Answer, Ask, Asker, Question};
use crate::reads::{Read, ReadBatch, ReadCounts, Reads};
use crate::staging::{Outcome, Received, Stage, Staging};
use crate::word::Word;
use base::limits::{APPLY_LAG_ENTRIES_MAX, ENTRY_BYTES_SOFT, FORWARD_BYTES_MAX, PROPOSALS_WAITING_BYTES_MAX};
use base::mutant::{Mutant, planted};
use base::{Boot, Code, Index, Instant, NodeId, Position, ProposalId, Term, Token};
use bytes::Bytes;
use coord::reply::Reply;
use coord::request;
use coord::{Caller, Command};
use inquiry::Inquiry;
use raft::{Config, Entry, Message, Note, Persist, Raft, Refusal, Restored, Status};
use std::collections::VecDeque;
use std::time::Duration;
use vouching::Vouching;

mod inquiry;
mod vouching;

#[derive(Clone, Debug)]
pub struct Params {
    pub raft: raft::Params,
    /// After this long without an answer a read round or a forwarded proposal is tried again.
    pub retry_after: Duration,
}

/// A request whose caller waits for the reply under this token.
#[derive(Clone, Debug)]
pub struct Request {
    pub token: Token,
    pub deadline: Instant,
    pub work: Work,
}

#[derive(Clone, Debug)]
pub enum Work {
    /// An encoded `coord` command, to be ordered and applied.
    Propose(Bytes),
    /// Answered without a log entry; linearizable unless it says otherwise.
    Read(request::Request, Caller),
    /// For the leader to answer.
    Ask(Question),
}

#[derive(Debug)]
pub enum Input {
    Tick,
    Received {
        from: NodeId,
        frame: Frame,
    },
    Request(Request),
    Persisted(u64),
    /// `Apply` has applied up to `index` and answered these proposals of ours.
    Applied {
        index: Index,
        finished: Vec<u64>,
        /// The configurations that it went through, each from this index on.
        configs: Vec<(Index, Config)>,
    },
    /// What `Apply` answered to a question.
    Answered(Asker, Answer),
    /// A message of `Apply` to another member.
    Say(NodeId, Word),
    /// What `Apply` proposes as the leader of a term.
    Lessor(Proposals),
    Flushed(Position),
    Lost(NodeId),
    /// The staged store is durable at this position, or could not be built.
    Staged {
        id: u64,
        at: Option<Position>,
        /// What its table of members says, if it has one.
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
pub struct Output {
    pub send: Vec<(NodeId, Frame)>,
    pub persist: Vec<Persist>,
    pub committed: Vec<Entry>,
    pub reads: Vec<ReadBatch>,
    /// Messages of other members to `Apply`.
    pub words: Vec<(NodeId, Word)>,
    pub refused: Vec<(Token, Code)>,
    /// Questions that were answered by the leader.
    pub answered: Vec<(Token, Reply)>,
    /// Set when it changed: the term in which this member leads, if it does. `Apply` must get it before the rest of
    /// this turn's output.
    pub leading: Option<Option<Term>>,
    pub stage: Vec<Stage>,
    pub snapshots: Vec<SnapshotOrder>,
    pub released: Option<Index>,
    /// Members that violated the protocol: their streams are to be closed.
    pub forged: Vec<(NodeId, Refusal)>,
    pub notes: Vec<Note>,
}

/// A follower needs the whole state: announce it with the position of the view that is streamed.
#[derive(Debug)]
pub struct SnapshotOrder {
    pub id: u64,
    pub to: NodeId,
    pub message: Message,
}

pub struct Consensus {
    params: Params,
    raft: Raft,
    pending: Pending,
    reads: Reads,
    staging: Staging,
    asks: Asks,
    me: NodeId,
    boot: Boot,
    /// Commands that this member proposes itself as leader, and how many it has proposed.
    own: Vec<Bytes>,
    own_seq: u64,
    /// How many changes of the configuration it has proposed in that way.
    own_changes: u64,
    /// The value that was reported last.
    leading: Option<Term>,
    /// Proposals of other members, to be ordered in this turn.
    forwarded: VecDeque<Bytes>,
    forwarded_bytes: usize,
    /// The member to which the waiting proposals were sent, and the term.
    target: (Term, Option<NodeId>),
    applied: Index,
    /// The configuration is that of this index.
    configured: Index,
    changes: Changes,
    vouching: Vouching,
    inquiry: Inquiry,
    snapshot_ids: u64,
    raft_out: raft::Output,
}

impl Consensus {
    pub fn new(params: Params, restored: Restored, boot: Boot) -> Consensus {
        let me = params.raft.id;
        let applied = restored.applied.index;
        Consensus {
            raft: Raft::new(params.raft.clone(), restored),
            pending: Pending::new(me, boot),
            reads: Reads::new(me, boot),
            staging: Staging::default(),
            asks: Asks::new(me, boot),
            me,
            boot,
            own: Vec::new(),
            own_seq: 0,
            own_changes: 0,
            leading: None,
            forwarded: VecDeque::new(),
            forwarded_bytes: 0,
            target: (Term::ZERO, None),
            applied,
            configured: applied,
            changes: Changes::default(),
            vouching: Vouching::default(),
            inquiry: Inquiry::default(),
            // Unique over restarts, so that parts of an old stream never fit a new one.
            snapshot_ids: boot.0 << 32,
            raft_out: raft::Output::default(),
            params,
        }
    }

    pub fn status(&self) -> Status {
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

    pub fn step(&mut self, now: Instant, input: Input, out: &mut Output) {
        match input {
            Input::Tick => self.on_tick(now, out),
            Input::Received { from, frame } => self.on_frame(now, from, frame, out),
            Input::Request(request) => self.on_request(request, out),
            Input::Persisted(seq) => self.on_persisted(seq),
            Input::Applied { index, finished, configs } => {
                self.configure(configs);
                self.on_applied(index, finished);
            }
            Input::Answered(asker, answer) => self.on_answered(asker, answer, out),
            Input::Say(to, word) => out.send.push((to, Frame::Word(word))),
            Input::Lessor(proposals) => self.on_lessor(proposals),
            Input::Flushed(at) => self.on_flushed(at),
            Input::Lost(peer) => {
                self.raft.step(raft::Input::Lost(peer));
            }
            Input::Staged { id, at, config } => self.on_staged(id, at, config.as_ref(), out),
            Input::SnapshotSent { to, ok } => {
                self.raft.step(raft::Input::SnapshotSent { to, ok });
            }
            Input::Transfer(to) => {
                self.raft.step(raft::Input::Transfer(to));
            }
            Input::AcceptLoss(id) => self.accept_loss(id),
            Input::Campaign => {
                self.raft.step(raft::Input::Campaign);
            }
        }
    }

    fn on_tick(&mut self, now: Instant, out: &mut Output) {
        self.raft.step(raft::Input::Tick);
        let late = self.pending.expire(now).into_iter();
        let late = late.chain(self.reads.expire(now)).chain(self.asks.expire(now));
        let code = if self.target.1.is_none() { Code::NoLeader } else { Code::Timeout };
        out.refused.extend(late.map(|token| (token, code)));
        let then = Instant(now.0.saturating_sub(self.params.retry_after.as_micros() as u64));
        self.reads.give_up_since(then);
        self.asks.put_again_since(then);
        // What this member proposed as leader is in its own log and needs no repetition.
        if !self.raft.is_leader() && self.pending.has_unanswered_since(then) {
            self.pending.resend_all();
        }
    }

    fn on_frame(&mut self, now: Instant, from: NodeId, frame: Frame, out: &mut Output) {
        self.note_peer(from);
        match frame {
            Frame::Raft(message) if message.from() == from => {
                self.raft.step(raft::Input::Received(message));
            }
            Frame::Raft(_) => {}
            Frame::Forward(batch) => {
                if !self.on_forward(from, batch) {
                    out.forged.push((from, Refusal::Fields));
                }
            }
            Frame::Word(word) => out.words.push((from, word)),
            Frame::LogQuestion { boot, round } => {
                out.send.push((from, Frame::LogAnswer { boot, round, state: self.log_state() }));
            }
            Frame::LogAnswer { boot, round, state } => self.on_log_state(from, boot, round, state),
            Frame::SteppedDown(term) => self.on_stepped_down(from, term),
            // The shell keeps it.
            Frame::ClientUrl(_) | Frame::Members(_) => {}
            Frame::Ask { boot, token, question } => {
                let asker = Asker { member: from, boot, token };
                // The asker asks again long before that.
                let deadline = now.after(self.params.retry_after * 2);
                self.take_ask(Ask { asker, deadline, question }, out);
            }
            Frame::Answer { boot, token, answer } => {
                self.on_answered(Asker { member: self.me, boot, token }, answer, out);
            }
            Frame::Snapshot { id, number, part } => {
                let committed = self.raft.status().committed;
                match self.staging.on_part(from, id, number, part, committed) {
                    Received::Nothing => {}
                    Received::Do(stage) => out.stage.push(stage),
                    Received::TellRaft(message) => {
                        self.raft.step(raft::Input::Received(message));
                    }
                    Received::Refused(refusal) => out.forged.push((from, refusal)),
                }
            }
        }
    }

    /// Raft decides at once, so that nothing else comes between its decision and the staged store.
    fn on_staged(&mut self, id: u64, at: Option<Position>, config: Option<&Config>, out: &mut Output) {
        match self.staging.on_staged(id, at, config) {
            Outcome::Nothing => {}
            Outcome::Forged(from) => out.forged.push((from, Refusal::Snapshot)),
            Outcome::Complete(message) => {
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
    fn tell_stepping_down(&self, notes: &[Note], out: &mut Output) {
        for note in notes {
            let Note::SteppedDown(term) = note else { continue };
            let config = self.raft.config();
            let others = config.voters.into_iter().chain(config.outgoing).filter(|id| *id != self.me);
            out.send.extend(others.map(|id| (id, Frame::SteppedDown(*term))));
        }
    }

    /// A question to this member. The asker repeats a question that is dropped because another member leads.
    fn take_ask(&mut self, ask: Ask, out: &mut Output) {
        if planted(Mutant::KeepAliveUnverified) && self.raft.is_leader() {
            let batch = ReadBatch { index: Index::ZERO, reads: Vec::new(), asks: vec![ask] };
            return out.reads.push(batch);
        }
        if self.raft.is_leader() || ask.question.is_for_anyone() {
            self.reads.add_ask(ask);
        }
    }

    fn on_answered(&mut self, asker: Asker, answer: Answer, out: &mut Output) {
        let Asker { member, boot, token } = asker;
        if member != self.me {
            return out.send.push((member, Frame::Answer { boot, token, answer }));
        }
        match answer {
            Some(reply) if self.asks.finish(boot, token) => out.answered.push((token, reply)),
            Some(_) => {}
            None => self.asks.put_again(boot, token),
        }
    }

    /// Proposed only in the term that they were made in; `Apply` repeats what is dropped here and still needed.
    fn on_lessor(&mut self, proposals: Proposals) {
        let Status { term, .. } = self.raft.status();
        let current = self.raft.is_leader() && term == proposals.term;
        if current || planted(Mutant::RevokeWithoutGuard) {
            let (changes, plain): (Vec<_>, Vec<_>) =
                proposals.commands.into_iter().partition(|command| Command::reconfigures(command));
            self.own.extend(plain);
            changes.into_iter().for_each(|command| self.add_own_change(command));
        }
    }

    fn add_own_change(&mut self, command: Bytes) {
        self.own_changes += 1;
        let id = ProposalId { origin: changer_id(self.me), boot: self.boot, seq: self.own_changes };
        let mut batch = Vec::new();
        Proposal { id, low: self.own_changes, command }.encode(&mut batch);
        self.changes.add(batch.into());
    }

    fn take_own(&mut self, batch: &mut Vec<u8>) {
        for command in self.own.drain(..) {
            self.own_seq += 1;
            let id = ProposalId { origin: lessor_id(self.me), boot: self.boot, seq: self.own_seq };
            Proposal { id, low: self.own_seq, command }.encode(batch);
        }
    }

    /// The origin repeats what is dropped here, so no caller is answered. False for a batch that no correct member
    /// forwards.
    fn on_forward(&mut self, from: NodeId, batch: Bytes) -> bool {
        let room = self.forwarded_bytes + batch.len() <= PROPOSALS_WAITING_BYTES_MAX;
        if !self.raft.is_leader() || !room {
            return true;
        }
        if batch.len() > FORWARD_BYTES_MAX {
            return false;
        }
        match changes::kind_of(from, batch.clone()) {
            Kind::Plain => {
                self.forwarded_bytes += batch.len();
                self.forwarded.push_back(batch);
            }
            Kind::Change => self.changes.add(batch),
            Kind::Unlawful => return false,
        }
        true
    }

    fn on_request(&mut self, request: Request, out: &mut Output) {
        let Request { token, deadline, work } = request;
        let lag = self.raft.status().committed.0.saturating_sub(self.applied.0);
        let taken = match work {
            _ if lag > APPLY_LAG_ENTRIES_MAX => false,
            Work::Propose(command) => self.pending.add(token, command, deadline),
            Work::Read(request, caller) if request.is_serializable() => {
                let read = Read { token, deadline, request, caller };
                out.reads.push(ReadBatch { index: Index::ZERO, reads: vec![read], asks: Vec::new() });
                true
            }
            Work::Read(request, caller) => self.reads.add(Read { token, deadline, request, caller }),
            Work::Ask(question) => self.asks.add(token, question, deadline),
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

    /// What is flushed was applied, whether or not that has been reported: raft must know before its log is cut.
    fn on_flushed(&mut self, at: Position) {
        self.on_applied(at.index, Vec::new());
        self.raft.step(raft::Input::Flushed(at));
    }

    /// What was decided before a snapshot was installed is contained in it.
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
        // What `Apply` reported before a snapshot was installed may arrive after it; and `Apply` stands on the
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
    pub fn collect(&mut self, now: Instant, out: &mut Output) {
        self.collect_raft(out);
        self.aim();
        self.vouch(now, out);
        self.inquire(now, out);
        self.send_proposals(now, out);
        self.send_asks(now, out);
        self.ask_for_reads(now);
        self.collect_raft(out);
        self.tell_leading(out);
    }

    fn tell_leading(&mut self, out: &mut Output) {
        let leading = self.raft.is_leader().then(|| self.raft.status().term);
        if leading != self.leading {
            self.leading = leading;
            out.leading = Some(leading);
        }
    }

    fn send_asks(&mut self, now: Instant, out: &mut Output) {
        let Some(leader) = self.target.1 else { return };
        for ask in self.asks.take_unsent(now) {
            if leader == self.me || ask.question.is_for_anyone() {
                self.take_ask(ask, out);
            } else {
                let Ask { asker: Asker { boot, token, .. }, question, .. } = ask;
                out.send.push((leader, Frame::Ask { boot, token, question }));
            }
        }
    }

    /// A new leader, or a new term of the same leader, has none of what was sent before.
    fn aim(&mut self) {
        let Status { term, leader, .. } = self.raft.status();
        if self.target != (term, leader) {
            self.target = (term, leader);
            self.pending.resend_all();
            self.reads.give_up_since(Instant::FAR_FUTURE);
            self.asks.put_all_again();
        }
    }

    fn send_proposals(&mut self, now: Instant, out: &mut Output) {
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
    fn forward_own(&mut self, leader: NodeId, out: &mut Output) {
        if planted(Mutant::RevokeWithoutGuard) && !self.own.is_empty() {
            let mut batch = Vec::new();
            self.take_own(&mut batch);
            out.send.push((leader, Frame::Forward(batch.into())));
        }
        self.own.clear();
    }

    /// As leader: everything that waits becomes one entry, or a few when it is much.
    fn order_proposals(&mut self, now: Instant) {
        while self.pending.has_unsent() || !self.forwarded.is_empty() || !self.own.is_empty() {
            let mut batch = Vec::new();
            self.take_own(&mut batch);
            while batch.len() < ENTRY_BYTES_SOFT
                && let Some(forwarded) = self.forwarded.pop_front()
            {
                batch.extend_from_slice(&forwarded);
            }
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
        self.forwarded_bytes = 0;
    }

    fn ask_for_reads(&mut self, now: Instant) {
        if self.target.1.is_none() || !self.raft.can_read_index() {
            return;
        }
        if let Some(context) = self.reads.begin(now) {
            self.raft.step(raft::Input::ReadIndex(context));
        }
    }

    fn collect_raft(&mut self, out: &mut Output) {
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
        self.look_for_own(&from_raft.committed);
        out.committed.append(&mut from_raft.committed);
        for ready in from_raft.reads.drain(..) {
            out.reads.extend(self.reads.answer(&ready.context, ready.index));
        }
        for message in from_raft.snapshots.drain(..) {
            self.snapshot_ids += 1;
            out.snapshots.push(SnapshotOrder { id: self.snapshot_ids, to: message.to(), message });
        }
        out.released = from_raft.released.take().or(out.released);
        out.forged.append(&mut from_raft.refused);
        self.tell_stepping_down(&from_raft.notes, out);
        out.notes.append(&mut from_raft.notes);
        self.raft_out = from_raft;
    }
}
