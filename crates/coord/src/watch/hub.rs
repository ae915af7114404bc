//! The hub: all streams and watches of one member, and what each is to be sent next. Inputs and applied changes go in
//! during a turn; `turn` ends it and sends what follows. Whether a watch gets changes as they come or reads what it
//! missed is decided in `assign_state` and nowhere else: it is live if, and only if, the revision it needs next is the one
//! that comes next.

use super::event::{Batch, Event, EventSource, PreviousVersions};
use super::interest::{InterestId, Interests, WatchShape};
use super::stream::{Stream, Watch, WatchState};
use super::{ChangeLog, Create, Credit, Input, Params, Refusal, Response, ResponseKind, StreamId, WatchId};
use crate::auth::Caller;
use crate::change::{Change, ChangeKind};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Code, Instant, KeyRange, Revision};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug)]
pub struct Hub {
    pub(super) params: Params,
    /// Live watches have been sent everything up to here.
    pub(super) current: Revision,
    /// Applied; what lies above `current` is gathered and not sent yet.
    observed: Revision,
    pub(super) compacted: Revision,
    /// A compaction to here is being prepared: no watch that it would end is begun.
    gate: Revision,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) interests: Interests,
    /// Watches that are behind and whose stream has credit, by the revision that they need next.
    pub(super) ready: BTreeSet<(Revision, StreamId, WatchId)>,
    pub(super) future: BTreeSet<(Revision, StreamId, WatchId)>,
    pub(super) progress_due: BTreeSet<(Instant, StreamId)>,
    /// Interests with gathered events, and the size of those.
    touched: Vec<InterestId>,
    gathered_bytes: usize,
    /// A buffer that is reused for each change.
    found: Vec<InterestId>,
}

/// The state that the hub reads while it works.
pub struct HubContext<'a> {
    pub time: Instant,
    /// The least revision that can still be read.
    pub compacted: Revision,
    pub change_log: &'a dyn ChangeLog,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCounts {
    pub streams: usize,
    pub watches: usize,
    /// Watches that have not been sent everything.
    pub behind: usize,
}

impl Hub {
    pub fn new(params: Params, revision: Revision) -> Hub {
        Hub {
            params,
            current: revision,
            observed: revision,
            compacted: Revision::ZERO,
            gate: Revision::ZERO,
            streams: BTreeMap::new(),
            interests: Interests::default(),
            ready: BTreeSet::new(),
            future: BTreeSet::new(),
            progress_due: BTreeSet::new(),
            touched: Vec::new(),
            gathered_bytes: 0,
            found: Vec::new(),
        }
    }

    pub fn step(&mut self, now: &HubContext<'_>, input: Input, out: &mut Vec<Response>) {
        assert_eq!(self.observed, self.current, "a turn ends before the next input");
        match input {
            Input::Open { stream, credit } => {
                let taken = self.streams.insert(stream, Stream::new(credit));
                assert!(taken.is_none(), "a stream begins once");
            }
            Input::Create(create) => self.create(now, create, out),
            Input::Refuse { stream, refusal } => {
                self.respond(stream, WatchId::NONE, ResponseKind::Refused(refusal), out);
            }
            Input::Cancel { stream, watch } => self.cancel(stream, watch, None, out),
            Input::Progress(stream) => self.report_progress(stream, out),
            Input::Credit { stream, credit } => self.refill(stream, credit),
            Input::Close(stream) => self.close(stream),
        }
    }

    /// Takes notice of the changes of one proposal. They are sent when the turn ends, or when much gathers.
    pub fn observe(&mut self, now: &HubContext<'_>, changes: &[Change], out: &mut Vec<Response>) {
        let Some(last) = changes.last() else { return };
        assert_eq!(last.revision, self.observed.next(), "revisions are observed without a gap");
        if self.gathered_bytes >= self.params.batch_bytes {
            self.deliver(out);
        }
        if !self.streams.is_empty() {
            changes.iter().for_each(|change| self.gather(now, change));
        }
        self.observed = last.revision;
    }

    /// Sends what has gathered, and to those who are behind some of what they missed.
    pub fn turn(&mut self, now: &HubContext<'_>, out: &mut Vec<Response>) {
        self.deliver(out);
        self.cancel_compacted(now.compacted, out);
        self.catch_up(now, out);
        self.progress_round(now.time, out);
    }

    /// The state was replaced by a later one. The revisions in between were never observed: all watches read them.
    pub fn installed(&mut self, revision: Revision) {
        assert_eq!(self.observed, self.current, "a turn ends before the state is replaced");
        let next = self.current.next();
        let live: Vec<_> = self.watches_in(|place| place == WatchState::Live);
        self.current = revision;
        self.observed = revision;
        if !planted(Mutant::WatchLostOverInstall) {
            live.into_iter().for_each(|(stream, watch)| self.assign_state(stream, watch, next));
        }
        self.wake_future();
    }

    /// From now on watches begin at this revision or later; zero admits all that can still be read.
    pub fn set_gate(&mut self, gate: Revision) {
        self.gate = gate;
    }

    /// The oldest revision that a watch needs next and has not been sent.
    pub fn oldest_needed(&self) -> Option<Revision> {
        let of_stream = |stream: &StreamId| self.behind_of(*stream).into_iter().map(|(next, _)| next).min();
        self.streams.keys().filter_map(of_stream).min()
    }

    /// Some watch is behind and could be sent more at once.
    pub fn is_busy(&self) -> bool {
        !self.ready.is_empty()
    }

    pub fn counts(&self) -> WatchCounts {
        let watches = self.streams.values().map(|stream| stream.watches.len()).sum();
        let behind = self.streams.values().map(|stream| stream.behind.len()).sum();
        WatchCounts { streams: self.streams.len(), watches, behind }
    }

    fn watches_in(&self, wanted: impl Fn(WatchState) -> bool) -> Vec<(StreamId, WatchId)> {
        let of_stream = |(stream, all): (&StreamId, &Stream)| {
            let stream = *stream;
            let found = all.watches.iter().filter(|(_, watch)| wanted(watch.place));
            found.map(|(id, _)| (stream, *id)).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_stream).collect()
    }

    fn create(&mut self, now: &HubContext<'_>, create: Create, out: &mut Vec<Response>) {
        let stream = create.stream;
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let claimed = if create.start < Revision::ZERO {
            Err(Refusal::NegativeStart)
        } else if create.keys.is_empty() {
            Err(Refusal::EmptyRange)
        } else if state.watches.len() >= self.params.watches_max {
            Err(Refusal::TooMany)
        } else {
            state.claim(create.id).ok_or(Refusal::DuplicateId)
        };
        let id = match claimed {
            Ok(id) => id,
            Err(refusal) => return self.respond(stream, WatchId::NONE, ResponseKind::Refused(refusal), out),
        };
        let interest = self.interests.join(WatchShape::of(&create));
        let next = if create.start == Revision::ZERO { self.current.next() } else { create.start };
        let (caller, start) = (create.caller, create.start);
        let watch = Watch { interest, caller, start, place: WatchState::Future(next), quiet: true };
        state.watches.insert(id, watch);
        if create.progress_notify {
            self.plan_progress(stream, now.time);
        }
        self.respond(stream, id, ResponseKind::Created, out);
        self.assign_state(stream, id, next);
        // Below what the hub has observed so far, or below what was compacted in this very turn, or is about to be.
        let compacted = now.compacted.max(self.compacted).max(self.gate);
        if next < compacted {
            self.cancel(stream, id, Some(compacted), out);
        }
    }

    fn cancel(
        &mut self,
        stream: StreamId,
        watch: WatchId,
        compacted: Option<Revision>,
        out: &mut Vec<Response>,
    ) {
        let known = self.streams.get(&stream).is_some_and(|state| state.watches.contains_key(&watch));
        if known {
            self.forget(stream, watch);
            self.respond(stream, watch, ResponseKind::Canceled { compacted }, out);
        }
    }

    /// A watch that is behind a compaction is cancelled, whether its stream has credit or not.
    fn cancel_compacted(&mut self, compacted: Revision, out: &mut Vec<Response>) {
        if compacted <= self.compacted {
            return;
        }
        self.compacted = compacted;
        let lost = self.watches_in(|place| matches!(place, WatchState::Behind(next) if next < compacted));
        for (stream, watch) in lost {
            self.cancel(stream, watch, Some(compacted), out);
        }
    }

    /// Ends the watches whose caller may not read their keys any more. What was applied before is sent first.
    pub fn cancel_denied(
        &mut self,
        out: &mut Vec<Response>,
        check: impl Fn(&Caller, &KeyRange) -> Result<(), Code>,
    ) {
        self.deliver(out);
        let mut denied = Vec::new();
        for (stream, state) in &self.streams {
            for (id, watch) in &state.watches {
                if let Err(code) = check(&watch.caller, &self.interests.get(watch.interest).shape.keys) {
                    denied.push((*stream, *id, code));
                }
            }
        }
        for (stream, watch, code) in denied {
            self.forget(stream, watch);
            self.respond(stream, watch, ResponseKind::Denied(code), out);
        }
    }

    fn close(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get(&stream) else { return };
        let watches: Vec<_> = state.watches.keys().copied().collect();
        watches.into_iter().for_each(|watch| self.forget(stream, watch));
        let state = self.streams.remove(&stream).expect("it was there");
        if let Some(due) = state.progress_due {
            self.progress_due.remove(&(due, stream));
        }
    }

    fn forget(&mut self, stream: StreamId, watch: WatchId) {
        self.clear_state(stream, watch);
        let state = self.streams.get_mut(&stream).expect("only what is known is forgotten");
        let gone = state.watches.remove(&watch).expect("only what is known is forgotten");
        self.interests.leave(gone.interest);
    }

    /// The one decision: where a watch belongs that needs this revision next.
    pub(super) fn assign_state(&mut self, stream: StreamId, watch: WatchId, next: Revision) {
        self.clear_state(stream, watch);
        let comes_next = self.current.next();
        let early = next > comes_next && planted(Mutant::WatchFutureEarly);
        let place = match next {
            next if next < comes_next => WatchState::Behind(next),
            next if next == comes_next || early => WatchState::Live,
            next => WatchState::Future(next),
        };
        let state = self.streams.get_mut(&stream).expect("a watch has a stream");
        let entry = state.watches.get_mut(&watch).expect("only what is known is settled");
        entry.place = place;
        let interest = entry.interest;
        match place {
            WatchState::Behind(next) => {
                state.behind.insert(watch);
                if state.credit.is_positive() {
                    self.ready.insert((next, stream, watch));
                }
            }
            WatchState::Future(next) => {
                self.future.insert((next, stream, watch));
            }
            WatchState::Live => {}
        }
        let too_soon = matches!(place, WatchState::Behind(_)) && planted(Mutant::WatchLiveBeforeHistory);
        if place == WatchState::Live || too_soon {
            self.interests.get_mut(interest).live.insert((stream, watch));
        }
    }

    fn clear_state(&mut self, stream: StreamId, watch: WatchId) {
        let state = self.streams.get_mut(&stream).expect("a watch has a stream");
        let entry = &state.watches[&watch];
        match entry.place {
            WatchState::Live => {}
            WatchState::Future(next) => {
                self.future.remove(&(next, stream, watch));
            }
            WatchState::Behind(next) => {
                state.behind.remove(&watch);
                self.ready.remove(&(next, stream, watch));
            }
        }
        self.interests.get_mut(entry.interest).live.remove(&(stream, watch));
    }

    fn gather(&mut self, now: &HubContext<'_>, change: &Change) {
        let mut found = std::mem::take(&mut self.found);
        self.interests.find(&change.key, &mut found);
        for id in found.drain(..) {
            let interest = self.interests.get_mut(id);
            let deleted = matches!(change.kind, ChangeKind::Delete);
            if interest.live.is_empty() || !interest.shape.wants(deleted) {
                continue;
            }
            if interest.gathered.is_empty() {
                self.touched.push(id);
            }
            let compacted = now.compacted.max(self.compacted);
            let previous =
                interest.shape.prev_kv.then_some(PreviousVersions { records: now.change_log, compacted });
            self.gathered_bytes +=
                interest.gathered.add(Event::new(EventSource::of_change(change), previous));
        }
        self.found = found;
    }

    /// One batch for each interest, shared by all its watches.
    fn deliver(&mut self, out: &mut Vec<Response>) {
        let first = self.current.next();
        if self.observed < first {
            return;
        }
        self.current = self.observed;
        self.gathered_bytes = 0;
        for id in std::mem::take(&mut self.touched) {
            let interest = self.interests.get_mut(id);
            let batch = interest.gathered.take();
            let revision = batch.last_revision();
            let parts = self.params.parts(&interest.shape, batch);
            let quiets = interest.shape.progress_notify;
            let mut live = std::mem::take(&mut interest.live);
            let mut late = BTreeSet::new();
            for (stream, watch) in &live {
                if self.send_events(*stream, *watch, &parts, revision, out) {
                    if quiets {
                        self.note_events(*stream, *watch);
                    }
                } else if !planted(Mutant::WatchSlowDropped) {
                    late.insert((*stream, *watch));
                }
            }
            if !late.is_empty() {
                live.retain(|watch| !late.contains(watch));
            }
            self.interests.get_mut(id).live = live;
            late.into_iter().for_each(|(stream, watch)| self.assign_state(stream, watch, first));
        }
        self.wake_future();
    }

    /// False when the stream has no credit: then nothing is sent.
    pub(super) fn send_events(
        &mut self,
        stream: StreamId,
        watch: WatchId,
        parts: &[Arc<Batch>],
        revision: Revision,
        out: &mut Vec<Response>,
    ) -> bool {
        let state = self.streams.get_mut(&stream).expect("a watch has a stream");
        if !state.credit.is_positive() {
            return false;
        }
        let last = parts.len() - 1;
        for (nth, batch) in parts.iter().enumerate() {
            let fragment = nth < last && !planted(Mutant::WatchRevisionSplit);
            let kind = ResponseKind::Events { batch: batch.clone(), fragment };
            let response = Response { stream, watch, revision, kind };
            state.credit = state.credit.minus(response.cost());
            out.push(response);
        }
        if !state.credit.is_positive() {
            self.pause_stream(stream);
        }
        true
    }

    /// The next round of progress skips a watch that was just sent events.
    pub(super) fn note_events(&mut self, stream: StreamId, watch: WatchId) {
        let state = self.streams.get_mut(&stream).expect("a watch has a stream");
        state.watches.get_mut(&watch).expect("it was just sent something").quiet = false;
    }

    /// A response that the client waits for, or that ends something: it does not wait for credit.
    pub(super) fn respond(
        &mut self,
        stream: StreamId,
        watch: WatchId,
        kind: ResponseKind,
        out: &mut Vec<Response>,
    ) {
        let response = Response { stream, watch, revision: self.current, kind };
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let before = state.credit.is_positive();
        state.credit = state.credit.minus(response.cost());
        if before && !state.credit.is_positive() {
            self.pause_stream(stream);
        }
        out.push(response);
    }

    /// The stream's credit is used up.
    fn pause_stream(&mut self, stream: StreamId) {
        for (next, watch) in self.behind_of(stream) {
            self.ready.remove(&(next, stream, watch));
        }
    }

    fn refill(&mut self, stream: StreamId, credit: Credit) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let before = state.credit.is_positive();
        state.credit = state.credit.plus(credit);
        if !before && state.credit.is_positive() {
            for (next, watch) in self.behind_of(stream) {
                self.ready.insert((next, stream, watch));
            }
        }
    }

    fn behind_of(&self, stream: StreamId) -> Vec<(Revision, WatchId)> {
        let state = &self.streams[&stream];
        let place = |watch: &WatchId| match state.watches[watch].place {
            WatchState::Behind(next) => (next, *watch),
            other => unreachable!("a watch that is behind is not {other:?}"),
        };
        state.behind.iter().map(place).collect()
    }

    /// Wakes watches of a future revision that is the next one now, or is there.
    fn wake_future(&mut self) {
        let comes_next = self.current.next();
        while let Some((next, stream, watch)) = self.future.first().copied().filter(|it| it.0 <= comes_next) {
            self.assign_state(stream, watch, next);
        }
    }
}

impl Params {
    /// A batch as the responses that carry it.
    pub(super) fn parts(&self, shape: &WatchShape, batch: Batch) -> Vec<Arc<Batch>> {
        let bytes_max = if planted(Mutant::WatchRevisionSplit) {
            1
        } else if shape.fragment {
            self.fragment_bytes
        } else {
            usize::MAX
        };
        if batch.bytes() >= bytes_max {
            batch.split(bytes_max).into_iter().map(Arc::new).collect()
        } else {
            vec![Arc::new(batch)]
        }
    }
}
