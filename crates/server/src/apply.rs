//! The actor around the apply machine, with the newest view of the store. Committed entries, reads and the
//! completions of flushes come in by its queue; answers go to their callers, flushes to the storage thread,
//! and the consensus machine learns once per turn how far this one has applied.
//! When too many changes wait for the store, every message but the completion of a flush is held back.

use crate::auth::token_keys;
use crate::core::Core;
use crate::fatal::fatal;
use crate::seat::{Machine, Next};
use crate::space::Space;
use crate::watch::{Outlet, Outlets, WINDOW};
use crate::{consensus, mesh, pieces, storage};
use base::{Code, Index, Instant, NodeId, Position, Term};
use bytes::Bytes;
use coord::watch::{self, StreamId};
use coord::{Caller, Claim, Command, LeaseNeed};
use disk::StoreView;
use node::apply::{Input, Output};
use node::member::config_of;
use node::room::{Measures, Room};
use node::waits::{self, News};
use node::{Apply, Flush, ReadBatch, TokenNews, Wait, WaitId, Word, Work};
use raft::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

pub(crate) enum Mail {
    /// The output of one turn of the consensus machine.
    Work {
        leading: Option<Option<Term>>,
        committed: Vec<Entry>,
        reads: Vec<ReadBatch>,
        words: Vec<(NodeId, Word)>,
    },
    /// A stream of watches begins.
    WatchOpen {
        stream: StreamId,
        outlet: Outlet,
    },
    /// A client's request on its stream; the permit is released once the request is processed.
    Watch {
        input: watch::Input,
        permit: Option<OwnedSemaphorePermit>,
    },
    /// A call waits for a lock; its news goes to the listener.
    LockWait {
        id: WaitId,
        wait: Wait,
        listener: oneshot::Sender<News>,
    },
    LockEnd(WaitId),
    /// Who owns these positions in the queues of locks?
    Claims {
        keys: Vec<Bytes>,
        asker: oneshot::Sender<Vec<Option<Claim>>>,
    },
    /// May this caller do this with leases?
    CheckLeases {
        caller: Caller,
        need: LeaseNeed,
        asker: oneshot::Sender<Result<(), Code>>,
    },
    /// A request of a large range that is read in pieces.
    Pieces(pieces::Ask),
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

pub(crate) struct Loop {
    core: Arc<Core>,
    machine: Apply,
    view: Arc<StoreView>,
    backlog: VecDeque<Mail>,
    /// The number of the flush that the storage thread has, and how far it reaches.
    flushing: Option<(u64, Index)>,
    /// The index of the table of members that lists removed ones, until that is flushed.
    removal: Option<Index>,
    /// The applied index that the consensus machine knows.
    reported: Index,
    tick: Duration,
    next_tick: Instant,
    out: Output,
    outlets: Outlets,
    listeners: BTreeMap<WaitId, oneshot::Sender<News>>,
    /// When the sweep of compacted rows that is under way began.
    compacting: Option<Instant>,
    space: Space,
    room: Room,
    /// The storage thread was asked to end the process.
    fenced: bool,
}

impl Machine for Loop {
    type Mail = Mail;

    fn turn(&mut self, mail: &mut Vec<Mail>) -> Next {
        self.run_turn(mail)
    }
}

impl Loop {
    pub fn new(
        core: Arc<Core>,
        machine: Apply,
        view: Arc<StoreView>,
        tick: Duration,
        low_bytes: u64,
    ) -> Loop {
        let reported = machine.applied_index();
        let next_tick = core.clock.now().after(tick);
        let backlog = VecDeque::new();
        let out = Output::default();
        let outlets = Outlets::default();
        let space = Space::default();
        let room = Room::new(core.members.me(), low_bytes);
        let listeners = BTreeMap::new();
        let new = Loop {
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
        };
        new.tell_documents();
        new.core.auth.set(new.machine.auth());
        new.core.metrics.tallies.set_quota(new.machine.quota_bytes());
        new.show();
        new
    }

    fn run_turn(&mut self, mail: &mut Vec<Mail>) -> Next {
        self.sort_mail(mail);
        let now = self.core.clock.now();
        while !self.machine.is_full()
            && let Some(item) = self.backlog.pop_front()
        {
            match item {
                Mail::Work { leading, committed, reads, words } => {
                    if let Some(term) = leading {
                        self.step(now, Input::Leading(term));
                    }
                    self.run_work(now, committed, reads);
                    words.into_iter().for_each(|(from, word)| self.step(now, Input::Word { from, word }));
                }
                Mail::WatchOpen { stream, outlet } => self.open_watches(now, stream, outlet),
                Mail::Watch { input, permit } => self.run_watch(now, input, permit),
                Mail::LockWait { id, wait, listener } => self.begin_wait(now, id, wait, listener),
                Mail::LockEnd(id) => self.end_wait(now, id),
                Mail::Claims { keys, asker } => self.tell_claims(&keys, asker),
                Mail::CheckLeases { caller, need, asker } => {
                    // The caller may have gone away.
                    let _ = asker.send(self.machine.check_leases(&caller, need));
                }
                Mail::Pieces(ask) => pieces::answer(&mut self.machine, now, &self.view, ask),
                Mail::Flushed { .. } => unreachable!("handled as it came"),
                Mail::Install { at, done } => self.install(at, &done),
                Mail::Finish { flush } => {
                    self.finish(flush);
                    return Next::Over;
                }
            }
        }
        self.tick_when_due(now);
        if self.next_turn() <= now {
            self.step(now, Input::Tick);
        }
        self.end_turn();
        match self.machine.is_catching_up() {
            // Watches that are behind do not wait for a message.
            true => Next::Now,
            false => Next::At(self.core.clock.to_system(self.next_turn())),
        }
    }

    /// A sweep goes on when its time has come, whether anything else happens or not.
    fn next_turn(&self) -> Instant {
        let sweeps = self.machine.next_flush().filter(|_| self.machine.is_sweeping());
        sweeps.map_or(self.next_tick, |due| due.min(self.next_tick))
    }

    /// The completion of a flush is never kept back: it is what everything else may be waiting for.
    fn sort_mail(&mut self, mail: &mut Vec<Mail>) {
        for item in mail.drain(..) {
            match item {
                Mail::Flushed { number, view } => self.take_flushed(number, view),
                item => self.backlog.push_back(item),
            }
        }
    }

    /// A flush of a store that was replaced meanwhile is ignored.
    fn take_flushed(&mut self, number: u64, view: Arc<StoreView>) {
        let Some((_, flushed)) = self.flushing.take_if(|(under_way, _)| *under_way == number) else { return };
        if self.removal.take_if(|removal| *removal <= flushed).is_some() {
            self.core.consensus.queue.push(consensus::Mail::Removed(self.core.members.removed()));
        }
        self.view = view;
        self.step(self.core.clock.now(), Input::Flushed(number));
    }

    fn step(&mut self, now: Instant, input: Input) {
        self.machine.step(now, &*self.view, input, &mut self.out);
        if self.machine.is_astray() && !self.fenced {
            self.fenced = true;
            // Nothing of this turn is answered; the process ends before another.
            self.core.storage.push(storage::Mail::Astray);
        }
    }

    fn run_work(&mut self, now: Instant, committed: Vec<Entry>, reads: Vec<ReadBatch>) {
        if !committed.is_empty() {
            self.step(now, Input::Committed(committed));
            self.core.metrics.tallies.applied_in(self.core.clock.now().since(now));
        }
        for batch in reads {
            self.step(now, Input::Read(batch));
        }
    }

    fn open_watches(&mut self, now: Instant, stream: StreamId, outlet: Outlet) {
        self.outlets.open(stream, outlet);
        self.step(now, Input::Watch(watch::Input::Open { stream, credit: WINDOW }));
    }

    fn run_watch(&mut self, now: Instant, input: watch::Input, permit: Option<OwnedSemaphorePermit>) {
        if let watch::Input::Close(stream) = &input {
            self.outlets.close(*stream);
        }
        self.step(now, Input::Watch(input));
        drop(permit);
    }

    fn begin_wait(&mut self, now: Instant, id: WaitId, wait: Wait, listener: oneshot::Sender<News>) {
        self.listeners.insert(id, listener);
        self.step(now, Input::Lock(waits::Input::Begin { id, wait }));
    }

    fn end_wait(&mut self, now: Instant, id: WaitId) {
        self.listeners.remove(&id);
        self.step(now, Input::Lock(waits::Input::End(id)));
    }

    fn tell_claims(&self, keys: &[Bytes], asker: oneshot::Sender<Vec<Option<Claim>>>) {
        // The caller may have gone away.
        let _ = asker.send(keys.iter().map(|key| self.machine.claim(key).cloned()).collect());
    }

    fn tick_when_due(&mut self, now: Instant) {
        if self.next_tick <= now || self.machine.is_catching_up() {
            self.next_tick = now.after(self.tick);
            self.step(now, Input::Tick);
            self.step(now, Input::TimeOfDay(time_of_day()));
            self.core.board.set_watches(self.machine.watch_counts());
            self.tell_tallies(now);
            self.core.board.set_space(&self.machine);
            self.space.tell(&self.machine);
            self.see_to_room(now);
            self.see_to_membership(now);
        }
    }

    /// A member whose disk is nearly full refuses whatever grows, and raises the alarm in the cluster.
    fn see_to_room(&mut self, now: Instant) {
        let sweeping = self.machine.is_sweeping();
        let refused_bytes = self.core.board.take_refused_bytes();
        self.room.look(Measures { sweeping, refused_bytes, ..self.core.board.measures() });
        self.core.board.set_disk_low(self.room.is_low());
        if let Some(command) = self.room.alarm(now, self.machine.alarms()) {
            tracing::warn!(?command, "free disk space changed");
            let mut bytes = Vec::new();
            Command::Alarm(command).encode(&mut bytes);
            self.core.submit(now.after(PUBLISH_TIMEOUT), Work::Propose(bytes.into()));
        }
    }

    /// Proposes this member's name and address where the table lacks them.
    fn see_to_membership(&mut self, now: Instant) {
        if let Some(change) = self.core.members.publication(now) {
            let mut bytes = Vec::new();
            Command::Members(change).encode(&mut bytes);
            self.core.submit(now.after(PUBLISH_TIMEOUT), Work::Propose(bytes.into()));
        }
    }

    /// The table was changed by an entry or by a snapshot.
    fn tell_members(&mut self, at: Index) {
        let members = &self.core.members;
        members.set_table(self.machine.members().clone());
        self.removal = Some(at);
        if members.was_removed() {
            tracing::warn!("removed from the cluster: this member runs until a majority of the others knows");
        } else {
            self.core.consensus.queue.push(consensus::Mail::Others(members.others()));
        }
    }

    fn tell_tallies(&mut self, now: Instant) {
        let tallies = &self.core.metrics.tallies;
        tallies.set_applied(self.machine.counts());
        tallies.set_quota(self.machine.quota_bytes());
        tallies.watch_events_pending.set(self.outlets.waiting() as i64);
        match self.compacting {
            None if self.machine.is_sweeping() => self.compacting = Some(now),
            Some(since) if !self.machine.is_sweeping() => {
                tallies.compacted_in(now.since(since));
                self.compacting = None;
            }
            _ => {}
        }
    }

    /// Publishes the output of the turn. A caller that receives an answer finds the status up to date.
    fn end_turn(&mut self) {
        if self.fenced {
            return self
                .out
                .words
                .drain(..)
                .for_each(|(to, word)| self.core.report(node::Input::Say(to, word)));
        }
        let index = self.machine.applied_index();
        let news = index > self.reported || !self.out.finished.is_empty();
        if news {
            self.show();
        }
        self.tell_auth();
        if std::mem::take(&mut self.out.documents_changed) {
            self.tell_documents();
        }
        let members = std::mem::take(&mut self.out.members);
        if let Some((at, _)) = members.last() {
            self.tell_members(*at);
        }
        // Before the answers: a client that listens once its grant is answered hears what follows, and not the grant.
        self.tell_lease_events();
        if !self.out.replies.is_empty() {
            self.core.waiters.deliver(self.out.replies.drain(..));
        }
        if !self.out.watch.is_empty() {
            let events = self.outlets.deliver(&mut self.out.watch);
            self.core.metrics.tallies.watch_events.inc_by(events);
        }
        for (id, news) in self.out.locks.drain(..) {
            if let Some(listener) = self.listeners.remove(&id) {
                // A call that has just stopped waiting needs no news.
                let _ = listener.send(news);
            }
        }
        for (asker, answer) in self.out.answers.drain(..) {
            self.core.report(node::Input::Answered(asker, answer));
        }
        for (to, word) in self.out.words.drain(..) {
            self.core.report(node::Input::Say(to, word));
        }
        for proposals in self.out.proposals.drain(..) {
            self.core.report(node::Input::Lessor(proposals));
        }
        if news {
            self.reported = index;
            let finished = std::mem::take(&mut self.out.finished);
            let configs = members.iter().map(|(index, members)| (*index, config_of(members))).collect();
            let applied = node::Input::Applied { index, finished, configs };
            // The consensus thread reads it before the next request and before time passes: early enough.
            self.core.consensus.queue.push_quietly(consensus::Mail::Input(applied));
        }
        if let Some(flush) = self.out.flush.take() {
            self.send_flush(flush);
        }
    }

    /// A caller that receives an answer finds the state of auth that the answer is about.
    fn tell_auth(&mut self) {
        if !self.out.tokens.is_empty() {
            self.core.auth.hear(self.core.clock.now(), self.out.tokens.drain(..));
        }
        if std::mem::take(&mut self.out.auth_changed) {
            self.core.auth.set(self.machine.auth());
            self.core.mesh.seat.queue.push(mesh::node::Mail::Documents);
        }
    }

    fn tell_documents(&self) {
        self.core.documents.set(self.machine.documents().clone());
        self.core.auth.set_token_keys(self.machine.documents().get(token_keys::DOCUMENT));
        self.core.mesh.seat.queue.push(mesh::node::Mail::Documents);
    }

    fn tell_lease_events(&mut self) {
        for event in self.out.lease_events.drain(..) {
            // Often there is no listener.
            let _ = self.core.lease_events.send(event);
        }
    }

    fn send_flush(&mut self, flush: Flush) {
        self.flushing = Some((flush.number, flush.at.index));
        self.core.storage.push(storage::Mail::Flush(flush));
    }

    /// Flushes that the storage thread has are written to the old store before it is replaced, and none is
    /// begun before the new one is here.
    fn install(&mut self, at: Position, done: &SyncSender<()>) {
        self.end_turn();
        let (reply, wait) = mpsc::sync_channel(1);
        self.core.storage.push(storage::Mail::Install { at, reply });
        self.view = wait.recv().expect("the storage thread outlives this one");
        self.flushing = None;
        self.out.lease_events = self
            .machine
            .install(self.core.clock.now(), &*self.view)
            .unwrap_or_else(|error| fatal("reading the store that a snapshot brought", &error));
        self.tell_lease_events();
        self.tell_members(at.index);
        self.tell_documents();
        self.core.auth.hear(self.core.clock.now(), std::iter::once(TokenNews::AllRevoked));
        self.core.auth.set(self.machine.auth());
        self.reported = at.index;
        self.show();
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
        let mut mail = Vec::new();
        while self.flushing.is_some() {
            self.core.apply.queue.take(&mut mail, None);
            self.sort_mail(&mut mail);
        }
    }

    fn show(&self) {
        self.core.board.set_applied(&self.machine);
    }
}

/// In milliseconds since 1970; a clock before that is as good as none.
fn time_of_day() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}
