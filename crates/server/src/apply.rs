//! The actor around the apply machine, with the newest view of the store. Committed entries, reads and the
//! completions of flushes come in by its queue; answers go to their callers, flushes to the storage thread,
//! and the consensus machine learns once per turn how far this one has applied.
//! When too many changes wait for the store, every message but the completion of a flush is held back.

use crate::actor::{ActorMessage, Machine, NextTurn};
use crate::auth::token_keys;
use crate::core::Core;
use crate::fatal::fatal;
use crate::queue::Wake;
use crate::slow_requests::AnswerMoments;
use crate::space::SpaceLog;
use crate::store_thread::StoreOrder;
use crate::watch::{StreamOutput, StreamOutputs, WINDOW};
use crate::{consensus, format_level, inspect, mesh, pieces, storage};
use base::{Code, Index, Instant, NodeId, Position, Term};
use bytes::Bytes;
use coord::watch::{self, StreamId};
use coord::{Caller, Command, LeaseAccess, LockClaim};
use disk::StoreView;
use node::apply::{ApplyInput, ApplyOutput};
use node::lock_waits::{self, WaitOutcome};
use node::member::config_of;
use node::{
    Apply, ClientWork, DiskAlarm, DiskMeasures, Flush, LockWait, PeerMessage, ReadBatch, TokenEvent, WaitId,
};
use raft::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub(crate) enum ApplyMessage {
    Store(StoreReport),
    Job(ApplyJob),
}

impl From<StoreReport> for ApplyMessage {
    fn from(report: StoreReport) -> ApplyMessage {
        ApplyMessage::Store(report)
    }
}

impl From<ApplyJob> for ApplyMessage {
    fn from(job: ApplyJob) -> ApplyMessage {
        ApplyMessage::Job(job)
    }
}

/// From the thread that owns the store. Everything else may be waiting for it, so it is never kept back.
pub(crate) enum StoreReport {
    /// The flush of this number is durable and visible in this view.
    Flushed { number: u64, view: Arc<StoreView> },
    /// The store was rewritten: both views show the same rows.
    Rewritten { old: Arc<StoreView>, new: Arc<StoreView> },
}

/// Done in order, and kept back while too much waits for the store.
pub(crate) enum ApplyJob {
    /// The output of one turn of the consensus machine.
    Work {
        /// When the turn began.
        at: Instant,
        leading: Option<Option<Term>>,
        committed: Vec<Entry>,
        reads: Vec<ReadBatch>,
        peer_messages: Vec<(NodeId, PeerMessage)>,
    },
    /// A stream of watches begins.
    WatchOpen {
        stream: StreamId,
        outlet: StreamOutput,
    },
    /// A client's request on its stream; the permit is released once the request is processed.
    Watch {
        input: watch::Input,
        permit: Option<OwnedSemaphorePermit>,
    },
    /// A call waits for a lock; its news goes to the listener.
    LockWait {
        id: WaitId,
        wait: LockWait,
        listener: oneshot::Sender<WaitOutcome>,
    },
    LockEnd(WaitId),
    /// Asks which clients own these positions in the queues of locks.
    Claims {
        keys: Vec<Bytes>,
        asker: oneshot::Sender<Vec<Option<LockClaim>>>,
    },
    /// Which positions in the queues of locks are taken, of those whose keys begin so and lie behind one?
    LockPlaces {
        prefix: Bytes,
        after: Bytes,
        limit: usize,
        asker: oneshot::Sender<Vec<Bytes>>,
    },
    /// May this caller do this with leases?
    CheckLeases {
        caller: Caller,
        need: LeaseAccess,
        asker: oneshot::Sender<Result<(), Code>>,
    },
    /// A question of an operator.
    Inspect(inspect::Inspection),
    /// A request of a large range that is read in pieces.
    Pieces(pieces::PieceRequest),
    /// Replaces the live store by the staged one.
    Install {
        at: Position,
        done: SyncSender<()>,
    },
    /// The last message: stop, with or without flushing what only the log holds so far.
    Finish {
        flush: bool,
    },
}

impl ActorMessage for ApplyMessage {
    /// The thread that runs a turn of consensus also runs the turn of what was committed in it, or wakes the apply thread.
    fn wake(&self) -> Wake {
        if matches!(self, ApplyMessage::Job(ApplyJob::Work { .. })) { Wake::BySender } else { Wake::Now }
    }
}

/// How long the cluster may take to accept this member's name and address.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct ApplyLoop {
    core: Arc<Core>,
    machine: Apply,
    view: Arc<StoreView>,
    backlog: VecDeque<ApplyJob>,
    /// The number of the flush that the storage thread has, and how far it reaches.
    flushing: Option<(u64, Index)>,
    /// The index of the table of members that lists removed ones, until that is flushed.
    removal: Option<Index>,
    /// The applied index that the consensus machine knows.
    reported: Index,
    tick: Duration,
    next_tick: Instant,
    out: ApplyOutput,
    outlets: StreamOutputs,
    listeners: BTreeMap<WaitId, oneshot::Sender<WaitOutcome>>,
    /// When the sweep of compacted rows that is under way began.
    compacting: Option<Instant>,
    space: SpaceLog,
    disk_alarm: DiskAlarm,
    /// The storage thread was asked to end the process.
    fenced: bool,
    rounds: inspect::RoundLog,
    /// Moments of the answers that this turn has so far.
    answer_moments: Vec<AnswerMoments>,
}

impl Machine for ApplyLoop {
    type Message = ApplyMessage;

    fn turn(&mut self, messages: &mut Vec<ApplyMessage>) -> NextTurn {
        self.sort_messages(messages);
        let now = self.core.clock.now();
        while !self.machine.is_full()
            && let Some(job) = self.backlog.pop_front()
        {
            match job {
                ApplyJob::Work { at, leading, committed, reads, peer_messages } => {
                    if let Some(term) = leading {
                        self.step(now, ApplyInput::Leading(term));
                    }
                    self.run_work(now, committed, reads);
                    self.note_answers(at);
                    peer_messages.into_iter().for_each(|(from, message)| {
                        self.step(now, ApplyInput::PeerMessage { from, message })
                    });
                }
                ApplyJob::WatchOpen { stream, outlet } => self.open_watches(now, stream, outlet),
                ApplyJob::Watch { input, permit } => self.run_watch(now, input, permit),
                ApplyJob::LockWait { id, wait, listener } => self.begin_wait(now, id, wait, listener),
                ApplyJob::LockEnd(id) => self.end_wait(now, id),
                ApplyJob::Claims { keys, asker } => self.reply_claims(&keys, asker),
                ApplyJob::LockPlaces { prefix, after, limit, asker } => {
                    // The caller may have gone away.
                    let _ = asker.send(self.machine.lock_places(&prefix, &after, limit));
                }
                ApplyJob::CheckLeases { caller, need, asker } => {
                    // The caller may have gone away.
                    let _ = asker.send(self.machine.check_leases(&caller, need));
                }
                ApplyJob::Inspect(inspection) => inspect::answer(&self.machine, now, inspection),
                ApplyJob::Pieces(request) => pieces::answer(&mut self.machine, now, &self.view, request),
                ApplyJob::Install { at, done } => self.install(at, &done),
                ApplyJob::Finish { flush } => {
                    self.finish(flush);
                    return NextTurn::Ended;
                }
            }
        }
        self.tick_when_due(now);
        if self.next_turn() <= now {
            self.step(now, ApplyInput::Tick);
        }
        self.end_turn();
        // Watches that are behind do not wait for a message.
        if self.machine.is_catching_up() {
            NextTurn::Now
        } else {
            NextTurn::At(self.core.clock.to_system(self.next_turn()))
        }
    }
}

impl ApplyLoop {
    pub fn new(
        core: Arc<Core>,
        machine: Apply,
        view: Arc<StoreView>,
        tick: Duration,
        low_bytes: u64,
    ) -> ApplyLoop {
        let reported = machine.applied_index();
        let next_tick = core.clock.now().after(tick);
        let backlog = VecDeque::new();
        let out = ApplyOutput::default();
        let outlets = StreamOutputs::default();
        let space = SpaceLog::default();
        let disk_alarm = DiskAlarm::new(core.members.me(), low_bytes);
        let listeners = BTreeMap::new();
        let new = ApplyLoop {
            core,
            machine,
            view,
            backlog,
            flushing: None,
            removal: None,
            reported,
            tick,
            next_tick,
            out,
            outlets,
            listeners,
            compacting: None,
            space,
            disk_alarm,
            fenced: false,
            rounds: inspect::RoundLog::default(),
            answer_moments: Vec::new(),
        };
        new.publish_documents();
        new.core.security.auth.set(new.machine.auth());
        new.core.metrics.background.set_quota(new.machine.quota_bytes());
        new.publish_status();
        new
    }

    /// A sweep goes on when its time has come, whether anything else happens or not.
    fn next_turn(&self) -> Instant {
        let sweeps = self.machine.next_flush().filter(|_| self.machine.is_sweeping());
        sweeps.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    fn sort_messages(&mut self, messages: &mut Vec<ApplyMessage>) {
        for message in messages.drain(..) {
            match message {
                ApplyMessage::Store(report) => self.on_store_report(report),
                ApplyMessage::Job(job) => self.backlog.push_back(job),
            }
        }
    }

    fn on_store_report(&mut self, report: StoreReport) {
        match report {
            StoreReport::Flushed { number, view } => self.on_flushed(number, view),
            // A snapshot that was put in place meanwhile has another view.
            StoreReport::Rewritten { old, new } if Arc::ptr_eq(&self.view, &old) => self.view = new,
            StoreReport::Rewritten { .. } => {}
        }
    }

    /// A flush of a store that was replaced meanwhile is ignored.
    fn on_flushed(&mut self, number: u64, view: Arc<StoreView>) {
        let Some((_, flushed)) = self.flushing.take_if(|(under_way, _)| *under_way == number) else { return };
        if self.removal.take_if(|removal| *removal <= flushed).is_some() {
            self.core.coord.consensus.post(consensus::ConsensusMessage::Removed(self.core.members.removed()));
        }
        self.view = view;
        self.step(self.core.clock.now(), ApplyInput::Flushed(number));
    }

    fn step(&mut self, now: Instant, input: ApplyInput) {
        self.machine.step(now, &*self.view, input, &mut self.out);
        if self.machine.is_diverged() && !self.fenced {
            self.fenced = true;
            // Nothing of this turn is answered; the process ends before another.
            self.core.coord.storage.push(storage::StorageMessage::Diverged.into());
        }
    }

    fn run_work(&mut self, now: Instant, committed: Vec<Entry>, reads: Vec<ReadBatch>) {
        let before = self.machine.counts().ops;
        let mut begun = now;
        if !committed.is_empty() {
            self.step(now, ApplyInput::Committed(committed));
            begun = self.core.clock.now();
            self.core.metrics.background.applied_in(begun.since(now));
            self.core.metrics.etcd.observe_applied(&before, &self.machine.counts().ops, begun.since(now));
        }
        if reads.is_empty() {
            return;
        }
        let before = self.machine.counts().ops;
        for batch in reads {
            self.step(now, ApplyInput::Read(batch));
        }
        let took = self.core.clock.now().since(begun);
        self.core.metrics.etcd.observe_reads(&before, &self.machine.counts().ops, took);
    }

    fn note_answers(&mut self, committed: Instant) {
        let upto = self.out.replies.len();
        if self.answer_moments.last().map_or(0, |moments| moments.upto) < upto {
            let applied = self.core.clock.now();
            self.answer_moments.push(AnswerMoments { upto, committed, applied });
        }
    }

    fn open_watches(&mut self, now: Instant, stream: StreamId, outlet: StreamOutput) {
        self.outlets.open(stream, outlet);
        self.step(now, ApplyInput::Watch(watch::Input::Open { stream, credit: WINDOW }));
    }

    fn run_watch(&mut self, now: Instant, input: watch::Input, permit: Option<OwnedSemaphorePermit>) {
        if let watch::Input::Close(stream) = &input {
            self.outlets.close(*stream);
        }
        self.step(now, ApplyInput::Watch(input));
        drop(permit);
    }

    fn begin_wait(
        &mut self,
        now: Instant,
        id: WaitId,
        wait: LockWait,
        listener: oneshot::Sender<WaitOutcome>,
    ) {
        self.listeners.insert(id, listener);
        self.step(now, ApplyInput::Lock(lock_waits::LockWaitInput::Begin { id, wait }));
    }

    fn end_wait(&mut self, now: Instant, id: WaitId) {
        self.listeners.remove(&id);
        self.step(now, ApplyInput::Lock(lock_waits::LockWaitInput::End(id)));
    }

    fn reply_claims(&self, keys: &[Bytes], asker: oneshot::Sender<Vec<Option<LockClaim>>>) {
        // The caller may have gone away.
        let _ = asker.send(keys.iter().map(|key| self.machine.claim(key).cloned()).collect());
    }

    fn tick_when_due(&mut self, now: Instant) {
        if self.next_tick <= now || self.machine.is_catching_up() {
            self.next_tick = now.after(self.tick);
            self.step(now, ApplyInput::Tick);
            self.step(now, ApplyInput::TimeOfDay(unix_millis()));
            self.core.published.status.set_watches(self.machine.watch_counts());
            self.update_metrics(now);
            self.core.published.status.set_space(&self.machine);
            self.space.report(&self.machine);
            self.update_disk_alarm(now);
            self.publish_membership(now);
        }
    }

    /// A member whose disk is nearly full refuses whatever grows, and raises the alarm in the cluster.
    fn update_disk_alarm(&mut self, now: Instant) {
        let sweeping = self.machine.is_sweeping();
        let refused_bytes = self.core.published.status.take_refused_bytes();
        self.disk_alarm.measure(DiskMeasures {
            sweeping,
            refused_bytes,
            ..self.core.published.status.measures()
        });
        self.core.published.status.set_disk_low(self.disk_alarm.is_low());
        if let Some(command) = self.disk_alarm.alarm(now, self.machine.alarms(), self.machine.format_level())
        {
            tracing::warn!(?command, "disk space alarm changed");
            let mut bytes = Vec::new();
            Command::Alarm(command).encode(&mut bytes);
            self.core.post_unanswered(now.after(PUBLISH_TIMEOUT), ClientWork::Propose(bytes.into()));
        }
    }

    /// Proposes this member's name and address where the table lacks them.
    fn publish_membership(&mut self, now: Instant) {
        if let Some(change) = self.core.members.publication(now) {
            let mut bytes = Vec::new();
            Command::Members(change).encode(&mut bytes);
            self.core.post_unanswered(now.after(PUBLISH_TIMEOUT), ClientWork::Propose(bytes.into()));
        }
    }

    /// The table was changed by an entry or by a snapshot.
    fn publish_members(&mut self, at: Index) {
        let members = &self.core.members;
        members.set_table(self.machine.members().clone());
        self.removal = Some(at);
        if members.was_removed() {
            tracing::warn!("removed from the cluster: this member runs until a majority confirms it");
        } else {
            self.core.coord.consensus.post(consensus::ConsensusMessage::Others(members.others()));
        }
    }

    fn update_metrics(&mut self, now: Instant) {
        let background = &self.core.metrics.background;
        background.set_applied(self.machine.counts());
        self.core.metrics.etcd.set_ops(&self.machine.counts().ops);
        background.set_quota(self.machine.quota_bytes());
        background.watch_events_pending.set(self.outlets.waiting() as i64);
        background.set_watch_lag(self.machine.watch_lag());
        background.set_holders(&self.machine, now);
        self.core.metrics.etcd.open_reads.set(self.machine.count_large_reads(now) as i64);
        match self.compacting {
            None if self.machine.is_sweeping() => self.compacting = Some(now),
            Some(since) if !self.machine.is_sweeping() => {
                background.compacted_in(now.since(since));
                self.compacting = None;
            }
            _ => {}
        }
    }

    /// Publishes the output of the turn. A caller that receives an answer finds the status up to date.
    fn end_turn(&mut self) {
        if self.fenced {
            return self.out.peer_messages.drain(..).for_each(|(to, message)| {
                self.core.coord.consensus.post(node::ConsensusInput::SendPeerMessage(to, message));
            });
        }
        let index = self.machine.applied_index();
        let news = index > self.reported || !self.out.finished.is_empty();
        if news {
            self.publish_status();
        }
        self.publish_auth();
        if std::mem::take(&mut self.out.documents_changed) {
            self.publish_documents();
        }
        let members = std::mem::take(&mut self.out.members);
        if let Some((at, _)) = members.last() {
            self.publish_members(*at);
        }
        // Before the answers: a client that listens once its grant is answered hears what follows, and not the grant.
        self.publish_lease_events();
        if !self.out.replies.is_empty() {
            let context = self.core.answer_context(self.core.clock.now(), &self.answer_moments);
            self.core.waiters.deliver(self.out.replies.drain(..), &context);
            self.answer_moments.clear();
        }
        if !self.out.watch.is_empty() {
            let events = self.outlets.deliver(&mut self.out.watch);
            self.core.metrics.background.watch_events.inc_by(events);
        }
        for (id, news) in self.out.locks.drain(..) {
            if let Some(listener) = self.listeners.remove(&id) {
                // A call that has just stopped waiting needs no news.
                let _ = listener.send(news);
            }
        }
        if !self.out.answers.is_empty() {
            let answers = std::mem::take(&mut self.out.answers);
            self.core.coord.consensus.post(node::ConsensusInput::Answered(answers));
        }
        for (to, message) in self.out.peer_messages.drain(..) {
            self.core.coord.consensus.post(node::ConsensusInput::SendPeerMessage(to, message));
        }
        for proposals in self.out.proposals.drain(..) {
            self.core.coord.consensus.post(node::ConsensusInput::LeaderProposals(proposals));
        }
        if news {
            self.reported = index;
            let finished = std::mem::take(&mut self.out.finished);
            let configs = members.iter().map(|(index, members)| (*index, config_of(members))).collect();
            let applied = node::ConsensusInput::Applied { index, finished, configs };
            self.core.coord.consensus.post(applied);
        }
        for round in self.out.compaction_rounds.drain(..) {
            self.core.metrics.background.count_round(&round);
            self.rounds.report(&round);
        }
        if let Some(flush) = self.out.flush.take() {
            self.send_flush(flush);
        }
    }

    /// A caller that receives an answer finds the state of auth that the answer is about.
    fn publish_auth(&mut self) {
        if !self.out.tokens.is_empty() {
            self.core.security.auth.apply_token_events(self.core.clock.now(), self.out.tokens.drain(..));
        }
        if std::mem::take(&mut self.out.auth_changed) {
            self.core.security.auth.set(self.machine.auth());
            self.core.mesh.actor.post(mesh::node::MeshMessage::Documents);
        }
    }

    fn publish_documents(&self) {
        self.core.published.documents.set(self.machine.documents().clone());
        format_level::follow(&self.core);
        self.core.security.auth.set_token_keys(self.machine.documents().get(token_keys::DOCUMENT));
        self.core.mesh.actor.post(mesh::node::MeshMessage::Documents);
    }

    fn publish_lease_events(&mut self) {
        for event in self.out.lease_events.drain(..) {
            // Often there is no listener.
            let _ = self.core.published.lease_events.send(event);
        }
    }

    fn send_flush(&mut self, flush: Flush) {
        self.flushing = Some((flush.number, flush.at.index));
        self.core.coord.storage.push(StoreOrder::Flush(flush));
    }

    /// Flushes that the storage thread has are written to the old store before it is replaced, and none is
    /// begun before the new one is here.
    fn install(&mut self, at: Position, done: &SyncSender<()>) {
        self.end_turn();
        let (reply, wait) = mpsc::sync_channel(1);
        self.core.coord.storage.push(storage::StorageMessage::Install { at, reply }.into());
        self.view = wait.recv().expect("the storage thread outlives this one");
        self.flushing = None;
        self.out.lease_events = self
            .machine
            .install(self.core.clock.now(), &*self.view)
            .unwrap_or_else(|error| fatal("reading the store that a snapshot brought", &error));
        self.publish_lease_events();
        self.publish_members(at.index);
        self.publish_documents();
        self.core
            .security
            .auth
            .apply_token_events(self.core.clock.now(), std::iter::once(TokenEvent::AllRevoked));
        self.core.security.auth.set(self.machine.auth());
        self.reported = at.index;
        self.publish_status();
        done.send(()).expect("the persist thread waits for this");
    }

    fn finish(&mut self, flush: bool) {
        self.end_turn();
        if flush {
            self.await_flush();
            if let Some(flush) = self.machine.flush_now(self.core.clock.now()) {
                self.send_flush(flush);
                self.await_flush();
            }
        }
    }

    fn await_flush(&mut self) {
        let mut messages = Vec::new();
        while self.flushing.is_some() {
            self.core.coord.apply.take_more(&mut messages);
            self.sort_messages(&mut messages);
        }
    }

    fn publish_status(&self) {
        self.core.published.status.set_applied(&self.machine);
    }
}

/// In milliseconds since 1970; a clock before that is as good as none.
fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}
