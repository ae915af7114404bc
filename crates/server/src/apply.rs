//! The actor around the apply machine, with the newest view of the store. Committed entries, reads and the
//! completions of flushes come in by its queue; answers go to their callers, flushes to the storage thread,
//! and the consensus machine learns once per turn how far this one has applied.
//! When too many changes wait for the store, every message but the completion of a flush is held back.

use crate::actor::{Machine, NextTurn};
use crate::auth::token_keys;
use crate::core::Core;
use crate::fatal::fatal;
use crate::space::SpaceLog;
use crate::watch::{StreamOutput, StreamOutputs, WINDOW};
use crate::{consensus, inspect, mesh, pieces, storage};
use base::{Code, Index, Instant, NodeId, Position, Term};
use bytes::Bytes;
use coord::watch::{self, StreamId};
use coord::{Caller, Command, LeaseAccess, LockClaim};
use disk::StoreView;
use node::apply::{ApplyInput, ApplyOutput};
use node::lock_waits::{self, WaitOutcome};
use node::member::config_of;
use node::{
    Apply, ClientWork, DiskMeasures, DiskSpace, Flush, LockWait, PeerMessage, ReadBatch, TokenEvent, WaitId,
};
use raft::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub(crate) enum ApplyMessage {
    /// The output of one turn of the consensus machine.
    Work {
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
    /// Who owns these positions in the queues of locks?
    Claims {
        keys: Vec<Bytes>,
        asker: oneshot::Sender<Vec<Option<LockClaim>>>,
    },
    /// Which positions in the queues of locks are taken, of those whose keys begin so?
    LockPlaces {
        prefix: Bytes,
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
    /// The flush of this number is durable and visible in this view.
    Flushed {
        number: u64,
        view: Arc<StoreView>,
    },
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

/// How long the cluster may take to accept this member's name and address.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct ApplyLoop {
    core: Arc<Core>,
    machine: Apply,
    view: Arc<StoreView>,
    backlog: VecDeque<ApplyMessage>,
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
    room: DiskSpace,
    /// The storage thread was asked to end the process.
    fenced: bool,
    rounds: inspect::RoundLog,
}

impl Machine for ApplyLoop {
    type Message = ApplyMessage;

    fn turn(&mut self, messages: &mut Vec<ApplyMessage>) -> NextTurn {
        self.run_turn(messages)
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
        let room = DiskSpace::new(core.members.me(), low_bytes);
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
            room,
            fenced: false,
            rounds: inspect::RoundLog::default(),
        };
        new.publish_documents();
        new.core.auth.set(new.machine.auth());
        new.core.metrics.background.set_quota(new.machine.quota_bytes());
        new.publish_status();
        new
    }

    fn run_turn(&mut self, messages: &mut Vec<ApplyMessage>) -> NextTurn {
        self.sort_messages(messages);
        let now = self.core.clock.now();
        while !self.machine.is_full()
            && let Some(item) = self.backlog.pop_front()
        {
            match item {
                ApplyMessage::Work { leading, committed, reads, peer_messages } => {
                    if let Some(term) = leading {
                        self.step(now, ApplyInput::Leading(term));
                    }
                    self.run_work(now, committed, reads);
                    peer_messages.into_iter().for_each(|(from, word)| {
                        self.step(now, ApplyInput::PeerMessage { from, message: word })
                    });
                }
                ApplyMessage::WatchOpen { stream, outlet } => self.open_watches(now, stream, outlet),
                ApplyMessage::Watch { input, permit } => self.run_watch(now, input, permit),
                ApplyMessage::LockWait { id, wait, listener } => self.begin_wait(now, id, wait, listener),
                ApplyMessage::LockEnd(id) => self.end_wait(now, id),
                ApplyMessage::Claims { keys, asker } => self.reply_claims(&keys, asker),
                ApplyMessage::LockPlaces { prefix, limit, asker } => {
                    // The caller may have gone away.
                    let _ = asker.send(self.machine.lock_places(&prefix, limit));
                }
                ApplyMessage::CheckLeases { caller, need, asker } => {
                    // The caller may have gone away.
                    let _ = asker.send(self.machine.check_leases(&caller, need));
                }
                ApplyMessage::Inspect(inspection) => inspect::answer(&self.machine, now, inspection),
                ApplyMessage::Pieces(ask) => pieces::answer(&mut self.machine, now, &self.view, ask),
                ApplyMessage::Flushed { .. } => unreachable!("handled as it came"),
                ApplyMessage::Install { at, done } => self.install(at, &done),
                ApplyMessage::Finish { flush } => {
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

    /// A sweep goes on when its time has come, whether anything else happens or not.
    fn next_turn(&self) -> Instant {
        let sweeps = self.machine.next_flush().filter(|_| self.machine.is_sweeping());
        sweeps.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    /// The completion of a flush is never kept back: it is what everything else may be waiting for.
    fn sort_messages(&mut self, messages: &mut Vec<ApplyMessage>) {
        for item in messages.drain(..) {
            match item {
                ApplyMessage::Flushed { number, view } => self.on_flushed(number, view),
                item => self.backlog.push_back(item),
            }
        }
    }

    /// A flush of a store that was replaced meanwhile is ignored.
    fn on_flushed(&mut self, number: u64, view: Arc<StoreView>) {
        let Some((_, flushed)) = self.flushing.take_if(|(under_way, _)| *under_way == number) else { return };
        if self.removal.take_if(|removal| *removal <= flushed).is_some() {
            self.core.consensus.queue.push(consensus::ConsensusMessage::Removed(self.core.members.removed()));
        }
        self.view = view;
        self.step(self.core.clock.now(), ApplyInput::Flushed(number));
    }

    fn step(&mut self, now: Instant, input: ApplyInput) {
        self.machine.step(now, &*self.view, input, &mut self.out);
        if self.machine.is_diverged() && !self.fenced {
            self.fenced = true;
            // Nothing of this turn is answered; the process ends before another.
            self.core.storage.push(storage::StorageMessage::Diverged);
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
            self.core.status.set_watches(self.machine.watch_counts());
            self.update_metrics(now);
            self.core.status.set_space(&self.machine);
            self.space.report(&self.machine);
            self.update_disk_alarm(now);
            self.publish_membership(now);
        }
    }

    /// A member whose disk is nearly full refuses whatever grows, and raises the alarm in the cluster.
    fn update_disk_alarm(&mut self, now: Instant) {
        let sweeping = self.machine.is_sweeping();
        let refused_bytes = self.core.status.take_refused_bytes();
        self.room.look(DiskMeasures { sweeping, refused_bytes, ..self.core.status.measures() });
        self.core.status.set_disk_low(self.room.is_low());
        if let Some(command) = self.room.alarm(now, self.machine.alarms()) {
            tracing::warn!(?command, "free disk space changed");
            let mut bytes = Vec::new();
            Command::Alarm(command).encode(&mut bytes);
            self.core.submit(now.after(PUBLISH_TIMEOUT), ClientWork::Propose(bytes.into()));
        }
    }

    /// Proposes this member's name and address where the table lacks them.
    fn publish_membership(&mut self, now: Instant) {
        if let Some(change) = self.core.members.publication(now) {
            let mut bytes = Vec::new();
            Command::Members(change).encode(&mut bytes);
            self.core.submit(now.after(PUBLISH_TIMEOUT), ClientWork::Propose(bytes.into()));
        }
    }

    /// The table was changed by an entry or by a snapshot.
    fn publish_members(&mut self, at: Index) {
        let members = &self.core.members;
        members.set_table(self.machine.members().clone());
        self.removal = Some(at);
        if members.was_removed() {
            tracing::warn!("removed from the cluster: this member runs until a majority of the others knows");
        } else {
            self.core.consensus.queue.push(consensus::ConsensusMessage::Others(members.others()));
        }
    }

    fn update_metrics(&mut self, now: Instant) {
        let background = &self.core.metrics.background;
        background.set_applied(self.machine.counts());
        self.core.metrics.etcd.set_ops(&self.machine.counts().ops);
        background.set_quota(self.machine.quota_bytes());
        background.watch_events_pending.set(self.outlets.waiting() as i64);
        background.set_watch_lag(self.machine.watch_lag());
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
            return self.out.peer_messages.drain(..).for_each(|(to, word)| {
                self.core.post_input(node::ConsensusInput::SendPeerMessage(to, word))
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
            self.core.waiters.deliver(self.out.replies.drain(..));
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
        for (asker, answer) in self.out.answers.drain(..) {
            self.core.post_input(node::ConsensusInput::Answered(asker, answer));
        }
        for (to, word) in self.out.peer_messages.drain(..) {
            self.core.post_input(node::ConsensusInput::SendPeerMessage(to, word));
        }
        for proposals in self.out.proposals.drain(..) {
            self.core.post_input(node::ConsensusInput::LeaderProposals(proposals));
        }
        if news {
            self.reported = index;
            let finished = std::mem::take(&mut self.out.finished);
            let configs = members.iter().map(|(index, members)| (*index, config_of(members))).collect();
            let applied = node::ConsensusInput::Applied { index, finished, configs };
            // The consensus thread reads it before the next request and before time passes: early enough.
            self.core.consensus.queue.push_deferred(consensus::ConsensusMessage::Input(applied));
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
            self.core.auth.apply_token_events(self.core.clock.now(), self.out.tokens.drain(..));
        }
        if std::mem::take(&mut self.out.auth_changed) {
            self.core.auth.set(self.machine.auth());
            self.core.mesh.actor.queue.push(mesh::node::MeshMessage::Documents);
        }
    }

    fn publish_documents(&self) {
        self.core.documents.set(self.machine.documents().clone());
        self.core.auth.set_token_keys(self.machine.documents().get(token_keys::DOCUMENT));
        self.core.mesh.actor.queue.push(mesh::node::MeshMessage::Documents);
    }

    fn publish_lease_events(&mut self) {
        for event in self.out.lease_events.drain(..) {
            // Often there is no listener.
            let _ = self.core.lease_events.send(event);
        }
    }

    fn send_flush(&mut self, flush: Flush) {
        self.flushing = Some((flush.number, flush.at.index));
        self.core.storage.push(storage::StorageMessage::Flush(flush));
    }

    /// Flushes that the storage thread has are written to the old store before it is replaced, and none is
    /// begun before the new one is here.
    fn install(&mut self, at: Position, done: &SyncSender<()>) {
        self.end_turn();
        let (reply, wait) = mpsc::sync_channel(1);
        self.core.storage.push(storage::StorageMessage::Install { at, reply });
        self.view = wait.recv().expect("the storage thread outlives this one");
        self.flushing = None;
        self.out.lease_events = self
            .machine
            .install(self.core.clock.now(), &*self.view)
            .unwrap_or_else(|error| fatal("reading the store that a snapshot brought", &error));
        self.publish_lease_events();
        self.publish_members(at.index);
        self.publish_documents();
        self.core.auth.apply_token_events(self.core.clock.now(), std::iter::once(TokenEvent::AllRevoked));
        self.core.auth.set(self.machine.auth());
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
            self.core.apply.queue.take(&mut messages, None);
            self.sort_messages(&mut messages);
        }
    }

    fn publish_status(&self) {
        self.core.status.set_applied(&self.machine);
    }
}

/// In milliseconds since 1970; a clock before that is as good as none.
fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}
