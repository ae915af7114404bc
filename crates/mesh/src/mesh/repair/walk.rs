//! Compares a collection with a peer below its key, and takes in what the peer has. The peer answers questions and
//! keeps nothing; so each side takes for itself, when it learns that the other has the key otherwise. Ranges lead to the spans
//! that differ, and their rows come page by page.
//! In the end everything that the other had seen when it began is here, or was removed by what is here: then that context is
//! claimed, and gaps close. While a comparison is under way a write that the claim covers and that is not here is not taken
//! in by another way: the comparison brings it, or its removal, and the same write put back behind it would stay for good.
//! A crash forgets the claim with the comparison. One comparison of a key runs at a time; others wait for it.

use crate::collection::{
    CollectionDelta, CollectionHeader, CollectionKind, ElementPage, ElementSpan, differing_ranges, join_same,
    merge_cleared, merge_page, ranges_of,
};
use crate::context::Context;
use crate::frame::{
    CollectionAnswer, CollectionQuestion, CollectionView, Frame, OpId, QueryPurpose, Shard, StoreOutcome,
    StoreReason,
};
use crate::key::Key;
use crate::mesh::replica::collections::{beside, empty};
use crate::mesh::{Mesh, Operation, Then, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use base::NodeId;
use base::limits::MESH_OVERLAY_BYTES_MAX;
use base::mutant::planted;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Elements of one page.
const PAGE_ELEMENTS: u16 = 256;
/// The coarsest ranges.
const TOP_LEVEL: u8 = 3;
/// While the store is behind with what was taken in, a comparison pauses.
const PAUSE: Duration = Duration::from_millis(20);

/// Comparisons by key, of which the first of each runs.
pub(in crate::mesh) type Walks = BTreeMap<Key, VecDeque<OpId>>;

/// What waits for the end of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum WalkClient {
    /// The peer: it has sent its header to be stored.
    Store(OpId),
    /// An exchange of this node.
    Exchange(OpId),
}

#[derive(Debug)]
pub(in crate::mesh) struct WalkOp {
    client: WalkClient,
    peer: NodeId,
    key: Key,
    shard: Shard,
    /// What the peer had when this began.
    theirs: Option<Box<Record>>,
    /// What is still to be compared, the next one last; level zero are the rows.
    rest: Vec<(u8, ElementSpan)>,
    asked: Option<(u8, ElementSpan)>,
}

const ALL: ElementSpan = ElementSpan { from: None, to: None };

impl Mesh {
    pub(in crate::mesh) fn start_walk(
        &mut self,
        t: &mut Turn<'_>,
        client: WalkClient,
        peer: NodeId,
        key: &Key,
        shard: Shard,
    ) {
        let walk =
            WalkOp { client, peer, key: key.clone(), shard, theirs: None, rest: Vec::new(), asked: None };
        let deadline = t.now.at.after(self.params.timeout);
        let id = self.coordinator.begin(t, Operation::Walk(Box::new(walk)), deadline);
        let waiting = self.repair.walks.entry(key.clone()).or_default();
        waiting.push_back(id);
        if waiting.len() == 1 {
            self.ask_peer(t, id, CollectionQuestion::Names(Vec::new()));
        }
    }

    fn walk_op(&mut self, id: OpId) -> Option<&mut WalkOp> {
        match self.coordinator.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Walk(walk)) => Some(walk),
            _ => None,
        }
    }

    fn ask_peer(&mut self, t: &mut Turn<'_>, id: OpId, question: CollectionQuestion) {
        let Some(walk) = self.walk_op(id) else { return };
        let (peer, key) = (walk.peer, walk.key.clone());
        let store = match walk.client {
            WalkClient::Store(store) => store,
            WalkClient::Exchange(_) => OpId(0),
        };
        self.send(
            t,
            peer,
            Frame::CollectionQuery { id, key, purpose: QueryPurpose::Compare(store), question },
        );
    }

    /// The next span; in the end, what the peer had seen is claimed.
    pub(in crate::mesh) fn resume_walk(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.replica.storage.bytes() > MESH_OVERLAY_BYTES_MAX / 2 {
            self.keep_alive(t, id);
            return self.coordinator.timers.set(t.now.at.after(PAUSE), id);
        }
        let Some(walk) = self.walk_op(id) else { return };
        if walk.theirs.is_none() || walk.asked.is_some() {
            return;
        }
        let Some((level, span)) = walk.rest.pop() else { return self.finish_walk(t, id) };
        walk.asked = Some((level, span.clone()));
        let question = match level {
            0 => CollectionQuestion::Page { span, limit: PAGE_ELEMENTS },
            level => CollectionQuestion::Ranges { level, span },
        };
        self.ask_peer(t, id, question);
    }

    pub(in crate::mesh) fn walk_answered(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        view: CollectionView,
        record: Option<Record>,
    ) {
        let Some(walk) = self.walk_op(id).filter(|walk| walk.peer == from) else { return };
        let (key, shard, asked) = (walk.key.clone(), walk.shard, walk.asked.take());
        let has_begun = walk.theirs.is_some();
        let Some(record) = record.filter(Record::is_collection) else {
            // The peer has nothing more to give.
            return self.end_walk(t, id, !has_begun);
        };
        let is_forged = |header: &CollectionHeader| {
            self.replica.is_forged(&header.context) || self.replica.is_forged(&header.cleared)
        };
        let Some(header) = record.collection_header().filter(|header| !is_forged(header)) else {
            return self.end_walk(t, id, false);
        };
        self.keep_alive(t, id);
        if !has_begun {
            return self.begin_walk(t, id, &key, shard, record, &header);
        }
        let Some((level, span)) = asked else { return };
        if !self.still_has_seen(id, &header.context) {
            return self.end_walk(t, id, false);
        }
        match view.answer {
            CollectionAnswer::Ranges(theirs) if level > 0 => {
                let (_, mine) = self.walked(t, &key, &record);
                let exact = mine.exact_count().is_some() && header.exact_count().is_some();
                let spans = if exact {
                    let ours = ranges_of(&mine, &self.replica.rows_of(t, &key), level, &span);
                    differing_ranges(&ours, &theirs, &span)
                } else {
                    vec![span]
                };
                let next = if exact { level - 1 } else { 0 };
                let Some(walk) = self.walk_op(id) else { return };
                walk.rest.extend(spans.into_iter().rev().map(|span| (next, span)));
            }
            CollectionAnswer::Elements { entries, upto } if level == 0 => {
                let CollectionHeader { context, cleared, .. } = header;
                let page = ElementPage { context, cleared, entries, upto };
                if !self.take_page(t, id, &span, &page, &record) {
                    return self.end_walk(t, id, false);
                }
            }
            _ => return self.end_walk(t, id, false),
        }
        self.resume_walk(t, id);
    }

    /// Whether the peer still has all that it had seen when the comparison began: one that has lost its disk since then does not,
    /// and what it lacks was not removed.
    fn still_has_seen(&mut self, id: OpId, context: &Context) -> bool {
        let begun = self.walk_op(id).and_then(|walk| walk.theirs.as_ref());
        let begun = begun.and_then(|record| record.collection_header());
        begun.is_some_and(|header| context.dominates(&header.context))
            || planted(Mutant::LostCollectionClaimed)
    }

    /// The peer has told its header. Where only the contexts differ there is nothing to compare.
    fn begin_walk(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        key: &Key,
        shard: Shard,
        record: Record,
        theirs: &CollectionHeader,
    ) {
        let local = self.replica.load(t, key);
        if local.record.is_none() && self.replica.is_purged(shard, &record) {
            return self.end_walk(t, id, true);
        }
        let (base, mine) = self.walked(t, key, &record);
        if mine.of != theirs.of {
            return self.settle_types(t, id, key, shard, &record, theirs);
        }
        let same = (&mine.cleared, &mine.expiry) == (&theirs.cleared, &theirs.expiry);
        if let Some(joined) = join_same(&mine, theirs).filter(|_| same && local.record.is_some()) {
            let joined = base.with_collection(joined);
            if local.record.as_ref() != Some(&joined) {
                self.replica.save_collection(t, key, shard, &local, &joined, Vec::new());
            }
            return self.end_walk(t, id, true);
        }
        if !self.replica.may_take(t, key, &record, record.encode().len()) {
            return self.end_walk(t, id, false);
        }
        if let Some(loser) = local.record.clone().filter(|record| !record.is_collection()) {
            self.replica.log_loser(t, key, &record, loser);
        }
        self.replica.collections.claim(key, theirs.context.clone());
        let change = merge_cleared(&mine, &self.replica.rows_of(t, key), &theirs.cleared);
        let known = change.header.exact_count().is_some() && theirs.exact_count().is_some();
        let has_ranges = theirs.of.kind != CollectionKind::Flag;
        let saved = base.with_collection(change.header);
        self.replica.save_collection(t, key, shard, &local, &saved, change.rows);
        let Some(walk) = self.walk_op(id) else { return };
        walk.theirs = Some(Box::new(record));
        walk.rest.push((if known && has_ranges { TOP_LEVEL } else { 0 }, ALL));
        self.resume_walk(t, id);
    }

    /// The key was created as two types: of these the larger one stays, and what the other has seen was seen.
    fn settle_types(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        key: &Key,
        shard: Shard,
        record: &Record,
        theirs: &CollectionHeader,
    ) {
        let CollectionHeader { of, context, .. } = theirs.clone();
        let (cleared, expiry, elements) = (Context::default(), Vec::new(), Vec::new());
        let wins = self.walked(t, key, record).1.of < of;
        // The record of a larger type is not taken in yet.
        let context = if wins { Context::default() } else { context };
        let delta = CollectionDelta { of, context, cleared, expiry, elements };
        let incoming = record.clone().with_delta(delta);
        let local = self.replica.load(t, key);
        self.replica.absorb_delta(t, key, shard, &local, &incoming, StoreReason::Repair);
        if wins && self.walked(t, key, record).1.of == of {
            return self.begin_walk(t, id, key, shard, record.clone(), theirs);
        }
        self.end_walk(t, id, !wins);
    }

    /// What is here of a collection that a peer has, with what both say beside their elements.
    fn walked(&self, t: &Turn<'_>, key: &Key, theirs: &Record) -> (Record, CollectionHeader) {
        let local = self.replica.load(t, key).record.filter(Record::is_collection);
        let base = beside(local.as_ref(), theirs);
        let mine = local.unwrap_or_else(|| empty(theirs.kind, t.now.wall_ms));
        (base, mine.collection_header().expect("it is a collection"))
    }

    /// Takes a page in. False if there is no space for it, or it claims what never was.
    fn take_page(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        span: &ElementSpan,
        page: &ElementPage,
        theirs: &Record,
    ) -> bool {
        let Some((key, shard)) = self.walk_op(id).map(|walk| (walk.key.clone(), walk.shard)) else {
            return false;
        };
        let dots = page.entries.iter().flat_map(|entry| entry.state.dots());
        let forged = dots.into_iter().any(|dot| self.replica.is_forged(&Context::of_dot(dot)));
        let is_within = page.entries.iter().all(|entry| span.contains(&entry.name));
        let is_ahead = page.entries.iter().any(|entry| entry.state.latest() > theirs.header.stamp);
        let bytes = page.entries.iter().map(|entry| entry.name.len() + entry.state.bytes()).sum();
        if is_ahead || forged || !is_within || !self.replica.may_take(t, &key, theirs, bytes) {
            return false;
        }
        let (local, (base, mine)) = (self.replica.load(t, &key), self.walked(t, &key, theirs));
        if theirs.kind.collection() != Some(mine.of.kind) {
            return false;
        }
        let (change, upto) = merge_page(&mine, &self.replica.rows_of(t, &key), span, page);
        let saved = base.with_collection(change.header);
        if !change.rows.is_empty() || local.record.as_ref() != Some(&saved) {
            self.replica.save_collection(t, &key, shard, &local, &saved, change.rows);
        }
        if let (Some(upto), Some(walk)) = (upto, self.walk_op(id)) {
            let from = Some([upto.as_ref(), b"\0"].concat().into());
            walk.rest.push((0, ElementSpan { from, to: span.to.clone() }));
        }
        true
    }

    fn finish_walk(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(walk) = self.walk_op(id) else { return };
        let (key, shard) = (walk.key.clone(), walk.shard);
        let Some(theirs) = walk.theirs.take() else { return };
        let local = self.replica.load(t, &key);
        let claim = theirs.context.clone();
        let (base, mut mine) = self.walked(t, &key, &theirs);
        mine.context.join(&claim);
        let saved = base.with_collection(mine);
        if local.record.as_ref() != Some(&saved) {
            self.replica.save_collection(t, &key, shard, &local, &saved, Vec::new());
        }
        self.end_walk(t, id, true);
    }

    /// Tells what waits for it, and begins the next comparison of the key.
    fn end_walk(&mut self, t: &mut Turn<'_>, id: OpId, is_done: bool) {
        let Some(Operation::Walk(walk)) = self.coordinator.finish(id).map(|pending| pending.operation) else {
            return;
        };
        self.walk_ended(t, id, *walk, is_done);
    }

    pub(in crate::mesh) fn walk_ended(&mut self, t: &mut Turn<'_>, id: OpId, walk: WalkOp, is_done: bool) {
        let WalkOp { client, peer, key, .. } = walk;
        let waiting = self.repair.walks.entry(key.clone()).or_default();
        let was_first = waiting.front() == Some(&id);
        waiting.retain(|other| *other != id);
        let next = waiting.front().copied();
        if waiting.is_empty() {
            self.repair.walks.remove(&key);
        }
        if was_first {
            self.replica.collections.end_claim(&key);
            if let Some(next) = next {
                self.keep_alive(t, next);
                self.ask_peer(t, next, CollectionQuestion::Names(Vec::new()));
            }
        }
        let seq = self.replica.storage.horizon();
        match client {
            WalkClient::Store(store) if is_done => {
                let outcome = self.membership.reported_outcome(StoreOutcome::Applied);
                self.after(t, seq, Then::Send(peer, Frame::Stored { id: store, outcome }));
            }
            WalkClient::Store(store) => self.send(t, peer, Frame::Declined { id: store }),
            WalkClient::Exchange(exchange) if is_done => self.exchange_part_done(t, exchange),
            WalkClient::Exchange(exchange) => self.expire(t, exchange),
        }
    }

    /// The walk makes progress: it and the walks that wait behind it get a later deadline.
    fn keep_alive(&mut self, t: &Turn<'_>, id: OpId) {
        let Some(key) = self.walk_op(id).map(|walk| walk.key.clone()) else { return };
        let waiting = self.repair.walks.get(&key).cloned().unwrap_or_default();
        for id in waiting {
            self.extend_deadline(t, id);
            if let Some(WalkClient::Exchange(exchange)) = self.walk_op(id).map(|walk| walk.client) {
                self.extend_deadline(t, exchange);
            }
        }
    }

    /// Asks the other nodes something that those of 0.1.0 do not know, until they have answered: before they have, no collection
    /// is created that they would keep.
    pub(in crate::mesh) fn probe_for_collections_support(&mut self, t: &mut Turn<'_>) {
        let supported_by = &self.replica.collections.supported_by;
        let members = self.membership.topology.members().iter().map(|member| member.node);
        let nodes: Vec<NodeId> =
            members.filter(|node| *node != self.membership.me && !supported_by.contains(node)).collect();
        for node in nodes
            .into_iter()
            .filter(|node| self.membership.peers.may_ask(*node, t.now.at))
            .collect::<Vec<_>>()
        {
            let (id, key, purpose) = (OpId(0), Key::new(0, b"?"), QueryPurpose::Read);
            self.send(
                t,
                node,
                Frame::CollectionQuery { id, key, purpose, question: CollectionQuestion::Names(Vec::new()) },
            );
        }
    }

    /// A peer asks what is here below a key.
    pub(in crate::mesh) fn step_look(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        key: &Key,
        purpose: QueryPurpose,
        question: &CollectionQuestion,
    ) {
        let may_answer = match purpose {
            QueryPurpose::Read => self.membership.is_serving(),
            QueryPurpose::Compare(_) => self.membership.keeps_key(key),
        };
        let Some(shard) = self.membership.shard_of(key).filter(|_| may_answer) else {
            return self.send(t, from, Frame::Declined { id });
        };
        if let QueryPurpose::Compare(store) = purpose {
            self.extend_given(t, store);
        }
        let local = self.replica.load(t, key);
        let answer = self.replica.answer_question(t, key, &local, question);
        let marks =
            if local.record.is_none() { self.replica.shards.marks(shard) } else { Default::default() };
        let view = Box::new(CollectionView { record: local.bytes, marks, answer });
        self.after(t, local.seq, Then::Send(from, Frame::CollectionAnswer { id, view }));
    }

    pub(in crate::mesh) fn step_collection_answer(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        view: CollectionView,
    ) {
        self.record_rtt(t, from, id);
        self.replica.collections.supported_by.insert(from);
        let Some(record) = view.read() else { return };
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Walk(_)) => self.walk_answered(t, from, id, view, record),
            Some(Operation::ReadElements(_)) => self.elements_answered(t, from, id, view, record),
            Some(Operation::Gather(_)) => self.gather_answered(t, from, id, view, record),
            _ => {}
        }
    }
}

/// The header of a peer came to be stored: it is compared with what is here.
pub(in crate::mesh) fn is_header(bytes: &Bytes, record: &Record) -> bool {
    Record::are_of_collection(bytes) && record.collection_header().is_some()
}
