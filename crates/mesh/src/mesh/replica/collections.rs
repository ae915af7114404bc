//! Collections of rows in the replica's storage (`crate::collection`, docs/adr/0081). The record of the key holds the header;
//! the rows below it are written in the same batch, so what is durable of the one is durable of the other. A delta is merged
//! as it comes. The header of another replica is never merged: it is the state of that replica's rows, and the two are compared
//! below the key (`repair::walk`).

use crate::actor::Dot;
use crate::collection::{
    self, CollectionDelta, CollectionHeader, CollectionRows, Direction, ElementDelta, OrderedPage, RowRange,
    ScorePaging, SweepStep, TypeVerdict, is_claimed, next_expiry,
};
use crate::context::Context;
use crate::feed::ChangeKind;
use crate::frame::{
    CollectionAnswer, CollectionQuestion, ELEMENTS_MAX, Frame, OpId, RANGES_MAX, Shard, StoreOutcome,
    StoreReason,
};
use crate::key::Key;
use crate::mesh::remote_regions::streams::LoggedChange;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::LocalRecord;
use crate::mesh::replica::storage::Storage;
use crate::mesh::{Mesh, Then, Turn};
use crate::overlay::Seq;
use crate::record::{COLLECTION_ERA, Header, Kind, Record};
use crate::resolve::LostWrite;
use crate::rows::{self, Row, Rows};
use base::NodeId;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Rows that one tick sweeps behind clears, and those of one key: small collections do not wait for large ones.
const SWEPT_PER_TICK: usize = 1_024;
const SWEPT_PER_KEY: usize = 512;
/// Rows that one turn removes with their header.
const REMOVED_PER_TURN: usize = 1_024;
/// Fields that one tick removes because their time has come.
const EXPIRED_PER_TICK: usize = 512;

/// What a replica remembers of its collections beside their rows.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Collections {
    /// What the comparison that is under way will have brought in the end, by key.
    claims: BTreeMap<Key, Context>,
    /// Collections that were cleared and still have rows from before the clear.
    swept: BTreeSet<Key>,
    /// The one that was swept last.
    swept_last: Option<Key>,
    /// When the next field of which key expires.
    expiring: BTreeSet<(u64, Key)>,
    expiries: BTreeMap<Key, u64>,
    /// Nodes that have shown that they know collections: those of 0.1.0 do not.
    pub supported_by: BTreeSet<NodeId>,
}

/// What followers of the feed are told of a change of a collection.
enum CollectionFeedChange {
    Change(ChangeKind, Bytes),
    /// They have to read the rows.
    Rows,
}

/// The rows below one key.
pub(in crate::mesh) struct StoredRows<'a> {
    storage: &'a Storage,
    rows: &'a dyn Rows,
    prefix: Bytes,
}

impl CollectionRows for StoredRows<'_> {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.storage.get(self.rows, &below(&self.prefix, key)).0
    }

    fn scan(&self, range: &RowRange, direction: Direction, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let (from, to) = (below(&self.prefix, &range.from), below(&self.prefix, &range.to));
        let len = self.prefix.len();
        let visit = &mut |key: &[u8], value: &Bytes| visit(&key[len..], value);
        match direction {
            Direction::Up => self.storage.scan(self.rows, &from, &to, visit),
            Direction::Down => self.storage.scan_down(self.rows, &from, &to, visit),
        }
    }
}

fn below(prefix: &[u8], key: &[u8]) -> Bytes {
    [prefix, key].concat().into()
}

impl Collections {
    pub fn claim(&mut self, key: &Key, claim: Context) {
        self.claims.insert(key.clone(), claim);
    }

    pub fn end_claim(&mut self, key: &Key) {
        self.claims.remove(key);
    }

    /// A field of a key expires then; nothing is due before what was noted already.
    pub fn note_expiry(&mut self, key: &Key, expires_ms: u64) {
        if self.expiries.get(key).is_none_or(|noted| expires_ms < *noted) {
            self.forget_expiry(key);
            self.expiries.insert(key.clone(), expires_ms);
            self.expiring.insert((expires_ms, key.clone()));
        }
    }

    fn forget_expiry(&mut self, key: &Key) {
        if let Some(noted) = self.expiries.remove(key) {
            self.expiring.remove(&(noted, key.clone()));
        }
    }

    /// The key that is to be swept next: they take turns.
    fn next_swept(&self) -> Option<Key> {
        let behind = self.swept_last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut following = self.swept.range::<Key, _>((behind, Bound::Unbounded));
        following.next().or_else(|| self.swept.first()).cloned()
    }

    /// Notes whether a stored collection has rows to sweep.
    pub fn note_sweep(&mut self, key: &Key, record: &Record) {
        if record.collection_header().is_some_and(|header| header.sweep.is_some()) {
            self.swept.insert(key.clone());
        } else {
            self.swept.remove(key);
        }
    }
}

impl Replica {
    pub(in crate::mesh) fn rows_of<'a>(&'a self, t: &Turn<'a>, key: &Key) -> StoredRows<'a> {
        self.rows_in(t.rows, key)
    }

    pub(in crate::mesh) fn rows_in<'a>(&'a self, rows: &'a dyn Rows, key: &Key) -> StoredRows<'a> {
        StoredRows { storage: &self.storage, rows, prefix: rows::collection(key) }
    }

    /// Puts rows below a key, and the header over them.
    pub(in crate::mesh) fn save_collection(
        &mut self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
        record: &Record,
        changed: Vec<Row>,
    ) -> Seq {
        let prefix = rows::collection(key);
        let sent = self.feed_change(t, key, local, record, &changed);
        if let Some(expires_ms) = next_expiry(&changed) {
            self.collections.note_expiry(key, expires_ms);
        }
        for Row { key, value } in changed {
            self.storage.put_row(below(&prefix, &key), value);
        }
        self.collections.note_sweep(key, record);
        let seq = self.store(key, shard, local, record, record.encode());
        match sent {
            Some(CollectionFeedChange::Change(kind, value)) => self.feed.changed(kind, shard, key, &value),
            Some(CollectionFeedChange::Rows) => self.feed.ring.begin_again(),
            None => {}
        }
        seq
    }

    /// What followers are told of a change of a collection.
    fn feed_change(
        &self,
        t: &Turn<'_>,
        key: &Key,
        local: &LocalRecord,
        record: &Record,
        changed: &[Row],
    ) -> Option<CollectionFeedChange> {
        if !self.feed.ring.is_on() {
            return None;
        }
        let after = record.collection_header()?;
        let before = local.record.as_ref().and_then(Record::collection_header);
        let nothing = Context::default();
        let cleared = before.as_ref().map_or(&nothing, |before| &before.cleared);
        let is_cleared = after.cleared != *cleared;
        if is_cleared && after.exact_count() != Some(0) {
            // Which elements have survived the clear is in the rows.
            return Some(CollectionFeedChange::Rows);
        }
        let elements = collection::changed_elements(before.as_ref(), &after, &self.rows_of(t, key), changed);
        let has_more = before.as_ref().is_none_or(|before| before.context != after.context);
        let kind = if has_more || is_cleared { ChangeKind::Record } else { ChangeKind::Elements };
        let is_told = is_cleared || !elements.is_empty();
        let value = || record.clone().with_changed(elements).encode();
        is_told.then(|| CollectionFeedChange::Change(kind, value()))
    }

    /// Removes rows of a collection whose record is to be removed, some at a time. Whether none is left. Where there are many, the
    /// collection is cleared first: its header says no more than its rows.
    pub(in crate::mesh) fn remove_collection(
        &mut self,
        t: &Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
    ) -> bool {
        let Some(record) = local.record.as_ref().filter(|record| record.is_collection()) else { return true };
        if self.rows_below(t, key, REMOVED_PER_TURN).1 {
            return self.remove_rows(t, key, REMOVED_PER_TURN);
        }
        let Some(header) = record.collection_header() else { return true };
        if !header.cleared.dominates(&header.context) {
            let change = collection::merge_cleared(&header, &self.rows_of(t, key), &header.context);
            let cleared = record.clone().with_collection(change.header);
            self.save_collection(t, key, shard, local, &cleared, change.rows);
            return false;
        }
        header.sweep.is_none() && self.remove_rows(t, key, REMOVED_PER_TURN)
    }

    /// Rows below a key, up to so many, and whether these are all.
    fn rows_below(&self, t: &Turn<'_>, key: &Key, rows_max: usize) -> (Vec<Bytes>, bool) {
        let prefix = rows::collection(key);
        let mut found = Vec::new();
        self.storage.scan(t.rows, &prefix, &below(&prefix, &[u8::MAX]), &mut |row, _| {
            found.push(Bytes::copy_from_slice(row));
            found.len() <= rows_max
        });
        let is_all = found.len() <= rows_max;
        found.truncate(rows_max);
        (found, is_all)
    }

    /// Removes all rows below a key, up to so many. Whether none is left.
    pub(in crate::mesh) fn remove_rows(&mut self, t: &Turn<'_>, key: &Key, rows_max: usize) -> bool {
        let (found, is_all) = self.rows_below(t, key, rows_max);
        found.into_iter().for_each(|row| self.storage.put_row(row, None));
        if is_all {
            self.collections.swept.remove(key);
            self.collections.forget_expiry(key);
        }
        is_all
    }

    /// Merges what one operation changed elsewhere.
    pub(in crate::mesh) fn absorb_delta(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        shard: Shard,
        local: &LocalRecord,
        incoming: &Record,
        reason: StoreReason,
    ) -> (StoreOutcome, Seq) {
        // A header says what another replica has; that is compared, and counts for nothing before.
        let Some(delta) = incoming.collection_delta() else { return (StoreOutcome::Refilling, Seq(0)) };
        let mine = local.record.as_ref().filter(|record| record.is_collection());
        if local.record.is_none() && self.is_purged(shard, incoming) {
            return (StoreOutcome::Purged, Seq(0));
        }
        let mut dots = delta.elements.iter().flat_map(|element| element.state.dots());
        if dots.any(|dot| self.is_forged(&Context::of_dot(dot))) || self.is_forged(&delta.cleared) {
            return (StoreOutcome::Refilling, Seq(0));
        }
        // A value is never later than the write that it is part of.
        let is_ahead = |element: &ElementDelta| element.state.latest() > incoming.header.stamp;
        if delta.elements.iter().any(is_ahead) {
            return (StoreOutcome::Refilling, Seq(0));
        }
        let header = mine.and_then(Record::collection_header);
        let header = header.unwrap_or_else(|| CollectionHeader::new(delta.of));
        let nothing = Context::default();
        let claim = self.collections.claims.get(key).unwrap_or(&nothing);
        if is_claimed(&delta, claim, &header.context) {
            return (StoreOutcome::Refilling, Seq(0));
        }
        let Ok(change) = collection::merge(&header, &self.rows_of(t, key), &delta) else {
            return (StoreOutcome::Refilling, Seq(0));
        };
        if reason == StoreReason::Write && change.verdict == TypeVerdict::DeltaLost {
            return (StoreOutcome::WrongType, Seq(0));
        }
        let record = beside(mine, incoming).with_collection(change.header);
        if mine == Some(&record) && change.rows.is_empty() {
            return (StoreOutcome::Applied, local.seq);
        }
        let has_lost =
            |record: &Record| !record.is_collection() || change.verdict == TypeVerdict::CollectionLost;
        if let Some(loser) = local.record.clone().filter(has_lost) {
            self.log_loser(t, key, &record, loser);
        }
        (StoreOutcome::Applied, self.save_collection(t, key, shard, local, &record, change.rows))
    }

    /// Something of another type meets a collection, which stays.
    pub(in crate::mesh) fn refuse_beside_collection(
        &mut self,
        t: &mut Turn<'_>,
        key: &Key,
        local: &LocalRecord,
        mine: &Record,
        incoming: &Record,
        reason: StoreReason,
    ) -> (StoreOutcome, Seq) {
        if reason == StoreReason::Write {
            return (StoreOutcome::WrongType, Seq(0));
        }
        self.log_loser(t, key, mine, incoming.clone());
        (StoreOutcome::Applied, local.seq.max(self.storage.horizon()))
    }

    pub(in crate::mesh) fn log_loser(&mut self, t: &mut Turn<'_>, key: &Key, winner: &Record, loser: Record) {
        if loser.is_live(t.now.wall_ms) {
            let source = loser.header.dot.actor.region;
            self.log_conflict(t, key, &LostWrite { winner: winner.clone(), loser }, source);
        }
    }

    /// What is here below a key.
    pub(in crate::mesh) fn answer_question(
        &self,
        t: &Turn<'_>,
        key: &Key,
        local: &LocalRecord,
        question: &CollectionQuestion,
    ) -> CollectionAnswer {
        let none = CollectionAnswer::Elements { entries: Vec::new(), upto: None };
        let Some(header) = local.record.as_ref().and_then(Record::collection_header) else { return none };
        let rows = self.rows_of(t, key);
        let page = match question {
            CollectionQuestion::Names(names) => collection::named(&header, &rows, names),
            CollectionQuestion::Page { span, limit } => {
                let limit = usize::from(*limit).clamp(1, ELEMENTS_MAX);
                collection::page_of_span(&header, &rows, span, limit)
            }
            CollectionQuestion::Last => collection::last(&header, &rows),
            CollectionQuestion::Scores(paging) => {
                let limit = paging.limit.clamp(1, ELEMENTS_MAX);
                let paging = ScorePaging { limit, ..paging.clone() };
                return CollectionAnswer::Ordered(collection::page_by_score(&header, &rows, &paging));
            }
            CollectionQuestion::Ranks { from, limit } => {
                let limit = usize::from(*limit).clamp(1, ELEMENTS_MAX);
                let entries = collection::page_by_rank(&header, &rows, *from, limit);
                return CollectionAnswer::Ordered(OrderedPage { entries, upto: None });
            }
            CollectionQuestion::Ranges { level, span } => {
                let mut ranges = collection::ranges_of(&header, &rows, *level, span);
                ranges.truncate(RANGES_MAX);
                return CollectionAnswer::Ranges(ranges);
            }
        };
        CollectionAnswer::Elements { entries: page.entries, upto: page.upto }
    }

    /// Remembers when the next field of a key expires.
    pub(in crate::mesh) fn note_next_expiry(&mut self, rows: &dyn Rows, key: &Key) {
        if let Some(expires_ms) = collection::first_expiry(&self.rows_in(rows, key)) {
            self.collections.note_expiry(key, expires_ms);
        }
    }

    /// Whether a write is claimed for this node that it has never made.
    pub(in crate::mesh) fn is_forged(&self, context: &Context) -> bool {
        context.newest(self.actor) > self.dots.last()
    }
}

impl Mesh {
    /// Sweeps rows behind clears, some at a time.
    pub(in crate::mesh) fn step_sweeps(&mut self, t: &mut Turn<'_>) {
        for _ in 0..SWEPT_PER_TICK / SWEPT_PER_KEY {
            let Some(key) = self.replica.collections.next_swept() else { return };
            self.replica.collections.swept_last = Some(key.clone());
            self.sweep_key(t, &key);
        }
    }

    fn sweep_key(&mut self, t: &mut Turn<'_>, key: &Key) {
        let (local, shard) = (self.replica.load(t, key), self.membership.shard_of(key));
        let header = local.record.as_ref().and_then(Record::collection_header);
        let rows = self.replica.rows_of(t, key);
        let step = header.and_then(|header| collection::sweep(&header, &rows, SWEPT_PER_KEY));
        match (local.record.clone(), shard, step) {
            (Some(record), Some(shard), Some(SweepStep { change, delta })) => {
                let record = record.with_collection(change.header);
                self.replica.save_collection(t, key, shard, &local, &record, change.rows);
                if let Some(delta) = delta {
                    self.notify_swept(t, key, shard, delta);
                }
            }
            _ => drop(self.replica.collections.swept.remove(key)),
        }
    }

    /// Tells the other replicas and regions what a sweep has found out, as a write of this node. What is lost on its way is
    /// found when replicas are compared.
    fn notify_swept(&mut self, t: &mut Turn<'_>, key: &Key, shard: Shard, delta: CollectionDelta) {
        let local = self.replica.load(t, key);
        let (Some(mine), Some(counter)) = (local.record.clone(), self.replica.dots.take()) else { return };
        let Some(mut header) = mine.collection_header() else { return };
        let dot = Dot { actor: self.params.actor, counter };
        let mut context = Context::default();
        context.add(dot.actor, header.context.extend(dot));
        let stamp = self.replica.clock.tick(t.now.wall_ms).max(mine.header.stamp.next());
        let head = Header { dot, stamp, ..mine.header.clone() };
        let told = Record { header: head.clone(), ..mine.clone() };
        let told = told.with_delta(CollectionDelta { context, ..delta }).encode();
        let record = Record { header: head, ..mine }.with_collection(header);
        let seq = self.replica.save_collection(t, key, shard, &local, &record, Vec::new());
        let change = LoggedChange { key, before: local.record.as_ref(), after: &record, delta: &told };
        self.append(t, &change);
        let (me, route) = (self.membership.me, self.membership.route(shard.partition, shard.copies).clone());
        for node in route.replicas().filter(|node| *node != me) {
            let (key, record) = (key.clone(), told.clone());
            let frame = Frame::Store { id: OpId(0), key, record, reason: StoreReason::Repair };
            self.after(t, seq, Then::Send(node, frame));
        }
    }

    /// Removes fields whose time has come by this node's clock, some at a time. Readers do not see them any more.
    pub(in crate::mesh) fn step_expiries(&mut self, t: &mut Turn<'_>) {
        let due = |(expires_ms, _): &&(u64, Key)| *expires_ms <= t.now.wall_ms;
        let Some((_, key)) = self.replica.collections.expiring.first().filter(due).cloned() else { return };
        self.replica.collections.forget_expiry(&key);
        let Some(shard) = self.membership.shard_of(&key) else { return };
        let local = self.replica.load(t, &key);
        let Some(header) = local.record.as_ref().and_then(Record::collection_header) else { return };
        let rows = self.replica.rows_of(t, &key);
        let expired = collection::expire_fields(&header, &rows, t.now.wall_ms, EXPIRED_PER_TICK);
        if let (Some(record), Some(change)) = (local.record.clone(), expired) {
            let record = record.with_collection(change.header);
            self.replica.save_collection(t, &key, shard, &local, &record, change.rows);
        }
        self.replica.note_next_expiry(t.rows, &key);
    }
}

/// What a record says beside its elements after it has met another: the greater write's.
pub(in crate::mesh) fn beside(mine: Option<&Record>, incoming: &Record) -> Record {
    let Some(mine) = mine else { return Record { recent: Vec::new(), ..incoming.clone() } };
    let greater = if incoming.rank(mine) == Ordering::Greater { incoming } else { mine };
    let created_ms = mine.created_ms.min(incoming.created_ms);
    Record { created_ms, recent: Vec::new(), ..greater.clone() }
}

/// A collection into which nothing was written yet.
pub(in crate::mesh) fn empty(kind: Kind, wall_ms: u64) -> Record {
    Record {
        era: COLLECTION_ERA,
        kind,
        header: Default::default(),
        body: kind.empty_body(),
        context: Context::default(),
        created_ms: wall_ms,
        recent: Vec::new(),
    }
}
