//! The actor around the consensus machine. Requests, frames and completions come in by its queue;
//! everything that has gathered is one turn, and the output of a turn goes to the other threads.
//! Tokens are assigned here, so they grow in the order of arrival; time passes here, in ticks.

use crate::actor::{ActorMessage, Machine, NextTurn};
use crate::core::{Core, proposed_bytes};
use crate::durable_log::{LogOwner, Order};
use crate::peer::Peers;
use crate::post::OutgoingFrames;
use crate::queue::Wake;
use crate::waiters::{ReplyRoute, Waiter};
use crate::{apply, storage};
use base::{Instant, NodeId, ReplyToken};
use coord::Command;
use engine::MemberLog;
use node::{ClientRequest, ClientWork, Consensus, ConsensusInput, ConsensusOutput, Frame, StagingStep};
use raft::RaftEvent;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// One heartbeat's worth of ticks.
pub(crate) const HEARTBEAT_TICKS: u32 = 2;
/// A thread that was stalled makes up for this many ticks and forgets the rest: they would all fall on the
/// same instant, and no answer could come between them.
const TICKS_AT_ONCE_MAX: u32 = 3;
/// A heartbeat is late when the thread is so many ticks behind: etcd allows two heartbeats.
const LATE_TICKS: u32 = 2 * HEARTBEAT_TICKS;
/// How long members are waited for before a warning is logged.
const WARN_WAITING_AFTER: Duration = Duration::from_secs(3);

pub(crate) enum ConsensusMessage {
    Request {
        deadline: Instant,
        posted: Instant,
        work: ClientWork,
        caller: ReplyRoute,
    },
    Frames {
        from: NodeId,
        frames: Vec<Frame>,
        bytes: usize,
    },
    /// The stream to this peer is up.
    Connected(NodeId),
    /// The table of members changed.
    Others(Vec<(NodeId, String)>),
    /// These members are removed, and the store holds the table that says so.
    Removed(BTreeSet<NodeId>),
    Input(ConsensusInput),
}

impl From<ConsensusInput> for ConsensusMessage {
    fn from(input: ConsensusInput) -> ConsensusMessage {
        ConsensusMessage::Input(input)
    }
}

impl ActorMessage for ConsensusMessage {
    fn bytes(&self) -> usize {
        if let ConsensusMessage::Frames { bytes, .. } = self { *bytes } else { 0 }
    }

    /// `Applied` can wait for the next message or tick; everything else wakes the thread.
    fn wake(&self) -> Wake {
        let can_wait = matches!(self, ConsensusMessage::Input(ConsensusInput::Applied { .. }));
        if can_wait { Wake::Later } else { Wake::Now }
    }
}

/// The kind of a request, for reports of slow ones.
fn kind_of(work: &ClientWork) -> &'static str {
    match work {
        ClientWork::Propose(bytes) => Command::kind_of(bytes),
        ClientWork::Read(..) => "read",
        ClientWork::LeaderQuestion(_) => "leader_question",
    }
}

pub(crate) struct ConsensusLoop {
    core: Arc<Core>,
    peers: Arc<Peers>,
    machine: Consensus,
    tick: Duration,
    next_tick: Instant,
    next_token: ReplyToken,
    /// Callers of this turn, whose tokens end before `next_token`.
    arrived: Vec<Waiter>,
    out: ConsensusOutput,
    outgoing: OutgoingFrames,
    leader: Option<NodeId>,
    /// The members that the last warning named.
    waits_for: Vec<NodeId>,
    /// When a warning is due.
    warn_waiting_at: Option<Instant>,
    log: LogOwner<MemberLog>,
    /// Requests whose proposals the log does not have on the disk yet.
    unsynced: VecDeque<UnsyncedRequests>,
}

/// Requests up to a token, and the batch of the log that has them.
struct UnsyncedRequests {
    seq: u64,
    last: ReplyToken,
}

impl Machine for ConsensusLoop {
    type Message = ConsensusMessage;

    fn turn(&mut self, messages: &mut Vec<ConsensusMessage>) -> NextTurn {
        let now = self.core.clock.now();
        for item in messages.drain(..) {
            self.handle_message(now, item);
        }
        self.tick_when_due(now);
        self.machine.collect(now, &mut self.out);
        let first = ReplyToken(self.next_token.0 - self.arrived.len() as u64);
        self.note_proposed();
        self.core.waiters.register(first, &mut self.arrived);
        // A caller that is answered in this turn finds the status up to date.
        self.core.published.status.set_raft(self.machine.status());
        // Records that are durable at once may produce more output.
        while let Some(seq) = self.dispatch_output(now) {
            self.note_synced(seq, self.core.clock.now());
            self.machine.step(now, ConsensusInput::Persisted(seq), &mut self.out);
            self.machine.collect(now, &mut self.out);
            self.core.published.status.set_raft(self.machine.status());
        }
        NextTurn::At(self.core.clock.to_system(self.next_tick))
    }
}

impl ConsensusLoop {
    pub fn new(
        core: Arc<Core>,
        peers: Arc<Peers>,
        machine: Consensus,
        log: LogOwner<MemberLog>,
        tick: Duration,
    ) -> ConsensusLoop {
        let next_tick = core.clock.now().after(tick);
        ConsensusLoop {
            core,
            peers,
            machine,
            tick,
            next_tick,
            next_token: ReplyToken(1),
            arrived: Vec::new(),
            out: ConsensusOutput::default(),
            outgoing: OutgoingFrames::default(),
            leader: None,
            waits_for: Vec::new(),
            warn_waiting_at: None,
            log,
            unsynced: VecDeque::new(),
        }
    }

    /// The requests that have arrived in this turn are in what it persists, where this member leads.
    fn note_proposed(&mut self) {
        if let Some(persist) = self.out.persist.last().filter(|_| !self.arrived.is_empty())
            && self.core.published.status.is_leader()
        {
            let last = ReplyToken(self.next_token.0 - 1);
            self.unsynced.push_back(UnsyncedRequests { seq: persist.seq, last });
        }
    }

    fn note_synced(&mut self, seq: u64, now: Instant) {
        let mut synced = None;
        while let Some(requests) = self.unsynced.pop_front_if(|requests| requests.seq <= seq) {
            synced = Some(requests.last);
        }
        if let Some(last) = synced {
            self.core.waiters.synced(last, now);
        }
    }

    fn handle_message(&mut self, now: Instant, item: ConsensusMessage) {
        match item {
            ConsensusMessage::Request { deadline, posted, work, caller } => {
                let token = self.next_token;
                self.next_token = ReplyToken(token.0 + 1);
                let (bytes, kind) = (proposed_bytes(&work), kind_of(&work));
                self.arrived.push(Waiter { caller, bytes, kind, posted, taken: now });
                let request = ClientRequest { token, deadline, work };
                self.machine.step(now, ConsensusInput::Request(request), &mut self.out);
            }
            ConsensusMessage::Frames { from, frames, .. } => {
                for frame in frames {
                    self.machine.step(now, ConsensusInput::Received { from, frame }, &mut self.out);
                }
            }
            ConsensusMessage::Connected(peer) => {
                let url = self.core.members.own_url().to_owned();
                self.outgoing.add(peer, &Frame::ClientUrl(url));
                self.outgoing.add(peer, &Frame::Members(self.core.members.table()));
            }
            ConsensusMessage::Others(others) => {
                let members = Frame::Members(self.core.members.table());
                others.iter().for_each(|(peer, _)| self.outgoing.add(*peer, &members));
                if let Err(error) = self.peers.set_peers(others) {
                    tracing::error!(%error, "cannot start a thread for a new peer");
                }
            }
            ConsensusMessage::Removed(removed) => self.peers.set_removed(removed),
            ConsensusMessage::Input(input) => {
                if let ConsensusInput::Persisted(seq) = input {
                    self.log.persisted(seq);
                    self.note_synced(seq, now);
                }
                self.machine.step(now, input, &mut self.out);
            }
        }
    }

    /// After the messages: a heartbeat that has arrived counts before the time in which it arrived passes.
    fn tick_when_due(&mut self, now: Instant) {
        let late = self.tick * LATE_TICKS;
        if now.since(self.next_tick) >= late && now > self.next_tick && self.core.published.status.is_leader()
        {
            self.core.metrics.etcd.heartbeats_late.inc();
        }
        for _ in 0..TICKS_AT_ONCE_MAX {
            if self.next_tick > now {
                return;
            }
            self.next_tick = self.next_tick.after(self.tick);
            self.machine.step(now, ConsensusInput::Tick, &mut self.out);
            self.warn_waiting(now);
            self.core.metrics.background.set_reads(self.machine.read_counts());
        }
        self.next_tick = self.next_tick.max(now);
    }

    /// The disk and the peers first, for their work takes longest. Returns the last write that is durable already.
    fn dispatch_output(&mut self, now: Instant) -> Option<u64> {
        let confirms_reads = self.out.send.iter().all(|(_, frame)| frame.is_of_read_round());
        for (to, frame) in self.out.send.drain(..) {
            self.outgoing.add(to, &frame);
        }
        self.outgoing.send(&self.peers, confirms_reads || self.core.is_lightly_loaded());
        let durable = self.persist();
        let out = &mut self.out;
        let leading = out.leading.take();
        let something = !out.committed.is_empty() || !out.reads.is_empty() || !out.peer_messages.is_empty();
        if leading.is_some() || something {
            let committed = std::mem::take(&mut out.committed);
            let reads = std::mem::take(&mut out.reads);
            let peer_messages = std::mem::take(&mut out.peer_messages);
            self.core.coord.apply.post(apply::ApplyJob::Work {
                at: now,
                leading,
                committed,
                reads,
                peer_messages,
            });
        }
        if !out.refused.is_empty() {
            self.core.metrics.requests_refused.inc_by(out.refused.len() as u64);
            let refused = out.refused.drain(..).map(|(token, code)| (token, Err(code)));
            self.core.waiters.deliver(refused, &self.core.answer_context(now, &[]));
        }
        if !out.answered.is_empty() {
            let answered = out.answered.drain(..).map(|(token, reply)| (token, Ok(reply)));
            self.core.waiters.deliver(answered, &self.core.answer_context(now, &[]));
        }
        for (from, refusal) in std::mem::take(&mut out.forged) {
            self.refuse(from, refusal.name());
        }
        let out = &mut self.out;
        for stage in out.stage.drain(..) {
            let bytes = stage_bytes(&stage);
            let order = storage::StorageMessage::StagingStep(stage).into();
            self.core.coord.storage.push_bytes(order, bytes, Wake::Now);
        }
        for order in out.snapshots.drain(..) {
            self.core.coord.storage.push(storage::StorageMessage::Snapshot(order).into());
        }
        for note in std::mem::take(&mut out.events) {
            self.log_event(note);
        }
        durable
    }

    fn persist(&mut self) -> Option<u64> {
        let durable = self.log.write(std::mem::take(&mut self.out.persist), &self.core.coord.persist);
        if let Some(index) = self.out.released.take() {
            self.core.coord.persist.push(Order::Release(index));
        }
        durable
    }

    fn refuse(&self, from: NodeId, reason: &'static str) {
        self.core.metrics.refuse_frame(reason);
        self.peers.close_from(from, reason);
    }

    /// Members that start together wait for each other for a moment; that is not worth a warning.
    fn warn_waiting(&mut self, now: Instant) {
        let waits_for = self.machine.waits_for();
        if waits_for != self.waits_for {
            self.warn_waiting_at = (!waits_for.is_empty()).then(|| now.after(WARN_WAITING_AFTER));
            self.core.published.status.set_waits_for(waits_for.clone());
            self.waits_for = waits_for;
        }
        if self.warn_waiting_at.take_if(|at| *at <= now).is_some() {
            tracing::warn!(
                members = ?self.waits_for.iter().map(|id| format!("{:x}", id.0)).collect::<Vec<_>>(),
                "waiting for members: this one may have lost acknowledged writes that only they have. Start them; if \
                 they are gone for good, `althing member accept-loss ID` goes on without them"
            );
        }
    }

    fn log_event(&mut self, note: RaftEvent) {
        match note {
            RaftEvent::Leadership { term, role, leader } => {
                if leader.is_some() && leader != self.leader {
                    self.core.metrics.leader_changes.inc();
                }
                self.leader = leader;
                let leader = leader.map(|leader| leader.0);
                tracing::info!(term = term.0, ?role, leader, "leader changed");
            }
            RaftEvent::SteppedDown(term) => {
                tracing::warn!(
                    term = term.0,
                    "stepped down: no majority answered within an election timeout"
                );
            }
            RaftEvent::Installed(at) => {
                self.core.metrics.snapshots_installed.inc();
                tracing::info!(term = at.term.0, index = at.index.0, "snapshot installed");
            }
            RaftEvent::CaughtUp => {
                tracing::info!("log caught up: voting again")
            }
        }
    }
}

fn stage_bytes(stage: &StagingStep) -> usize {
    match stage {
        StagingStep::Rows { rows, .. } => rows.len(),
        StagingStep::Begin { .. } | StagingStep::Finish { .. } => 0,
    }
}
