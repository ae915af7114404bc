//! Answers followers of the change feed out of this node's ring and rows, and passes questions of followers here to other
//! nodes. What is sent is durable here first. A page of rows is sent with all changes before it, so that a follower never sees
//! a key go back. See `crate::feed`.

use crate::collection::{self, ElementEntry, ElementSpan, element_row, element_row_name};
use crate::conflict::Conflict;
use crate::feed::{
    Change, ChangeKind, ChangeRing, FeedAnswer, FeedAsk, FeedCursor, FeedScan, ShardSet, has_gap,
};
use crate::frame::{Frame, OpId, Shard};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::{LocalRecord, due};
use crate::mesh::replica::storage::Storage;
use crate::mesh::{Mesh, Operation, Then, Turn};
use crate::record::Record;
use crate::request::Reply;
use crate::ring::{PARTITIONS, Partition};
use crate::rows::{self, Rows};
use crate::watermarks::Watermarks;
use base::codec::Reader;
use base::limits::MESH_FEED_WAITERS_MAX;
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::time::Duration;

/// Bytes of changes after which an answer ends, and rows that are looked at for one.
const ANSWER_BYTES_SOFT: usize = 512 * 1024;
const SCAN_ROWS: usize = 1_000;
/// Elements of one collection that are told at once.
const ELEMENTS_PER_PAGE: usize = 256;
/// Looking where the records of a partition begin is as much work as so many rows.
const SEEK_ROWS: usize = 8;
/// The longest that a question waits.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Partitions whose expired records one tick looks for, and how many of those.
const PARTITIONS_PER_TICK: usize = 8;
const EXPIRED_PER_LOOK: usize = 100;

/// The caller that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum FeedCaller {
    Local(ReplyToken),
    Peer(NodeId, OpId),
}

/// A question on its way to another node.
#[derive(Debug)]
pub(in crate::mesh) struct FeedOp {
    token: ReplyToken,
    node: NodeId,
}

#[derive(Debug)]
struct Waiter {
    caller: FeedCaller,
    ask: FeedAsk,
    until: Instant,
}

/// What a node keeps for followers.
#[derive(Debug)]
pub(in crate::mesh) struct FeedSource {
    pub ring: ChangeRing,
    waiting: Vec<Waiter>,
    /// By partition, up to when expired records were sent.
    expired_ms: Vec<u64>,
    next_partition: u8,
    /// Deletes up to here may be forgotten on this node.
    purged: Stamp,
}

impl FeedSource {
    pub fn load(seed: u64, floor: Stamp, storage: &Storage, rows: &dyn Rows) -> FeedSource {
        let stored = storage.get(rows, rows::PURGED).0;
        // A node of an earlier release does not know what it has forgotten.
        let purged = stored.and_then(|bytes| Some(Stamp(Reader::new(bytes).u64()?))).unwrap_or(floor);
        FeedSource {
            ring: ChangeRing::new(seed),
            waiting: Vec::new(),
            expired_ms: vec![0; PARTITIONS],
            next_partition: 0,
            purged,
        }
    }

    pub fn changed(&mut self, kind: ChangeKind, shard: Shard, key: &Key, value: &Bytes) {
        if self.ring.is_on() && key.request().is_none() {
            self.ring.push(Some(shard), Change { kind, key: key.clone(), value: value.clone() });
        }
    }

    pub fn noticed(&mut self, conflict: &Conflict) {
        if self.ring.is_on() {
            let (kind, key) = (ChangeKind::Conflict, conflict.key.clone());
            self.ring.push(None, Change { kind, key, value: conflict.encode() });
        }
    }
}

impl Replica {
    /// Deletes up to a stamp may be forgotten here from now on.
    pub(in crate::mesh) fn note_purged(&mut self, stamp: Stamp) {
        if stamp > self.feed.purged {
            self.feed.purged = stamp;
            let value = Bytes::copy_from_slice(&stamp.0.to_le_bytes());
            self.storage.put_row(Bytes::from_static(rows::PURGED), Some(value));
        }
    }

    /// A record is about to be removed that followers were shown, and its delete was not.
    pub(in crate::mesh) fn note_gone(&mut self, t: &Turn<'_>, key: &Key, shard: Shard, local: &LocalRecord) {
        if let (Some(record), Some(bytes)) = (&local.record, &local.bytes)
            && record.is_live(t.now.wall_ms)
        {
            self.feed.changed(ChangeKind::Gone, shard, key, bytes);
        }
    }

    /// A record is about to be removed because its time is over, or because it was deleted.
    pub(in crate::mesh) fn note_due(&mut self, key: &Key, shard: Shard, local: &LocalRecord) {
        let (Some(record), Some(bytes)) = (&local.record, &local.bytes) else { return };
        self.note_purged(due(record).unwrap_or(record.header.stamp));
        let told_ms = self.feed.expired_ms[key.partition().idx()];
        if !record.is_tombstone() && record.header.expires_ms.is_some_and(|expires_ms| expires_ms > told_ms) {
            self.feed.changed(ChangeKind::Expired, shard, key, bytes);
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_feed(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        node: NodeId,
        ask: FeedAsk,
        deadline: Instant,
    ) {
        if node == self.membership.me {
            return self.serve_feed(t, FeedCaller::Local(token), ask);
        }
        if self.membership.topology.member(node).is_none() {
            return t.out.replies.push((token, Reply::Refused(Code::NotInStep)));
        }
        let id = self.coordinator.begin(t, Operation::Feed(FeedOp { token, node }), deadline);
        self.send(t, node, Frame::FeedAsk { id, ask: Box::new(ask) });
    }

    pub(in crate::mesh) fn serve_feed(&mut self, t: &mut Turn<'_>, caller: FeedCaller, ask: FeedAsk) {
        if !self.membership.is_serving() {
            return self.refuse_feed(t, caller);
        }
        let feed = &mut self.replica.feed;
        if feed.ring.asked(t.now.at) {
            feed.expired_ms.fill(t.now.wall_ms);
        }
        let has_news = ask.log != feed.ring.log() || ask.from != feed.ring.end() || ask.scan.is_some();
        if has_news || ask.wait_ms == 0 {
            return self.answer_feed(t, caller, &ask);
        }
        let until = t.now.at.after(Duration::from_millis(ask.wait_ms).min(WAIT_MAX));
        if feed.waiting.len() >= MESH_FEED_WAITERS_MAX {
            return self.refuse_feed(t, caller);
        }
        feed.waiting.push(Waiter { caller, ask, until });
    }

    fn refuse_feed(&mut self, t: &mut Turn<'_>, caller: FeedCaller) {
        match caller {
            FeedCaller::Local(token) => t.out.replies.push((token, Reply::Refused(Code::NotInStep))),
            FeedCaller::Peer(node, id) => self.send(t, node, Frame::Declined { id }),
        }
    }

    /// Answers questions for which there is something now, or which have waited long enough.
    pub(in crate::mesh) fn step_feed(&mut self, t: &mut Turn<'_>) {
        if self.replica.feed.waiting.is_empty() {
            return;
        }
        let end = self.replica.feed.ring.end();
        let is_due = |waiter: &mut Waiter| waiter.ask.from != end || waiter.until <= t.now.at;
        let due: Vec<Waiter> = self.replica.feed.waiting.extract_if(.., is_due).collect();
        due.into_iter().for_each(|waiter| self.answer_feed(t, waiter.caller, &waiter.ask));
    }

    pub(in crate::mesh) fn tick_feed(&mut self, t: &mut Turn<'_>) {
        self.replica.feed.ring.rest(t.now.at);
        if self.replica.feed.ring.is_on() {
            for _ in 0..PARTITIONS_PER_TICK {
                self.notify_expired(t);
            }
        }
        self.step_feed(t);
    }

    /// Records of the next partition whose time has come since this was last looked for.
    fn notify_expired(&mut self, t: &mut Turn<'_>) {
        let partition = Partition(self.replica.feed.next_partition);
        self.replica.feed.next_partition = partition.0.wrapping_add(1);
        let (told_ms, now_ms) = (self.replica.feed.expired_ms[partition.idx()], t.now.wall_ms);
        let (_, end) = rows::due_range(partition, Stamp::at_ms(now_ms));
        let (_, first) = rows::due_range(partition, Stamp::at_ms(told_ms));
        let mut found: Vec<(Stamp, Key)> = Vec::new();
        self.replica.storage.scan(t.rows, &first, &end, &mut |row, _| {
            found.extend(rows::due_key(row));
            found.len() < EXPIRED_PER_LOOK
        });
        let is_all = found.len() < EXPIRED_PER_LOOK;
        let upto_ms =
            found.last().filter(|_| !is_all).map_or(now_ms, |(stamp, _)| stamp.ms().max(told_ms + 1));
        for (stamp, key) in found {
            let Some(shard) = self.membership.shard_of(&key) else { continue };
            let local = self.replica.load(t, &key);
            let (Some(record), Some(bytes)) = (&local.record, &local.bytes) else { continue };
            if due(record) == Some(stamp) && !record.is_tombstone() && record.is_expired(now_ms) {
                self.replica.feed.changed(ChangeKind::Expired, shard, &key, bytes);
            }
        }
        self.replica.feed.expired_ms[partition.idx()] = upto_ms.max(told_ms);
    }

    /// Answers once everything in the answer is durable.
    fn answer_feed(&mut self, t: &mut Turn<'_>, caller: FeedCaller, ask: &FeedAsk) {
        let answer = self.feed_answer(t, ask);
        let seq = self.replica.storage.horizon();
        self.after(t, seq, Then::SendFeed(caller, Box::new(answer)));
    }

    pub(in crate::mesh) fn send_feed(
        &mut self,
        t: &mut Turn<'_>,
        caller: FeedCaller,
        answer: Box<FeedAnswer>,
    ) {
        match caller {
            FeedCaller::Local(token) => t.out.replies.push((token, Reply::Feed(answer))),
            FeedCaller::Peer(node, id) => self.send(t, node, Frame::FeedAnswer { id, answer }),
        }
    }

    fn feed_answer(&self, t: &Turn<'_>, ask: &FeedAsk) -> FeedAnswer {
        let ring = &self.replica.feed.ring;
        let mut answer = FeedAnswer { log: ring.log(), upto: ring.end(), ..FeedAnswer::default() };
        let Some(entries) = ring.from(ask.log, ask.from) else {
            answer.lost = true;
            return answer;
        };
        let (mut bytes, mut upto) = (0, ask.from);
        for (shard, change) in entries {
            if bytes > ANSWER_BYTES_SOFT {
                answer.upto = upto;
                return answer;
            }
            upto += 1;
            if shard.is_none_or(|shard| ask.shards.contains(shard)) {
                bytes += change.bytes();
                answer.changes.push(change.clone());
            }
        }
        answer.marks = self.feed_marks(&ask.shards);
        if let Some(scan) = &ask.scan {
            self.scan_feed(t, scan, &mut answer);
        }
        answer
    }

    /// Up to where the shards have everything on all replicas. The only replica of a shard vouches for itself.
    fn feed_marks(&self, shards: &ShardSet) -> Watermarks {
        let here = self.params.actor.region;
        let mut all: Option<Watermarks> = None;
        for shard in shards.iter() {
            let mut marks = self.replica.shards.marks(shard);
            let is_alone =
                self.membership.route(shard.partition, shard.copies).replicas().eq([self.membership.me]);
            if is_alone {
                marks.raise(here, self.replica.floor);
            }
            all = Some(all.map_or(marks.clone(), |all| all.meet(&marks)));
        }
        all.unwrap_or_default()
    }

    /// A page of the rows that a follower lacks: records, and then conflicts.
    fn scan_feed(&self, t: &Turn<'_>, scan: &FeedScan, answer: &mut FeedAnswer) {
        answer.scanned = true;
        let regions = || self.remote.regions().chain([self.params.actor.region]);
        let purged = self.replica.feed.purged;
        answer.gap = scan.since.as_ref().is_some_and(|since| has_gap(since, regions(), purged));
        let mut page = FeedScanPage { left: SCAN_ROWS, bytes: 0, rows: Vec::new() };
        let mut place = scan.next.clone();
        if let Some((key, after)) = scan.next.as_ref().and_then(|next| element_place(next)) {
            answer.next = self.scan_elements(t, &key, Some(after), &mut page);
            if answer.next.is_some() {
                answer.rows = page.rows;
                return;
            }
            place = Some([&rows::record(&key)[..], b"\0"].concat().into());
        }
        let (conflicts, _) = rows::conflict_range();
        let is_among_records = place.as_ref().is_none_or(|next| *next < conflicts);
        if is_among_records {
            for partition in Partition::all().filter(|partition| scan.shards.has_partition(*partition)) {
                answer.next = self.scan_partition(t, scan, place.as_ref(), partition, &mut page);
                if answer.next.is_some() {
                    answer.rows = page.rows;
                    return;
                }
            }
        }
        if let Some(since) = &scan.since {
            answer.next = self.scan_conflicts(t, scan, since, place, &mut page);
        }
        answer.rows = page.rows;
    }

    /// Where to go on, if the page ends here.
    fn scan_partition(
        &self,
        t: &Turn<'_>,
        scan: &FeedScan,
        place: Option<&Bytes>,
        partition: Partition,
        page: &mut FeedScanPage,
    ) -> Option<Bytes> {
        let begin = match scan.range.namespace_id {
            Some(id) => rows::records_from(partition, Key::new(id, &scan.range.prefix).bytes()),
            None => rows::records_from(partition, b""),
        };
        let end = rows::records_end(partition);
        let from = place.cloned().map_or(begin.clone(), |next| next.max(begin));
        if from >= end {
            return None;
        }
        if page.is_full() {
            return Some(from);
        }
        page.left = page.left.saturating_sub(SEEK_ROWS);
        let mut from = from;
        loop {
            let (mut next, mut collection) = (None, None);
            self.replica.storage.scan(t.rows, &from, &end, &mut |row, value| {
                let Some(key) = rows::record_key(row) else { return true };
                let is_in_namespace = scan.range.namespace_id.is_none()
                    || scan.range.contains(key.namespace_id(), key.name_slice());
                if !is_in_namespace {
                    return false;
                }
                if page.is_full() {
                    next = Some(Bytes::copy_from_slice(row));
                    return false;
                }
                page.left = page.left.saturating_sub(1);
                let is_wanted =
                    self.membership.shard_of(&key).is_some_and(|shard| scan.shards.contains(shard))
                        && key.request().is_none()
                        && scan.range.contains(key.namespace_id(), key.name_slice());
                if is_wanted && let Some(change) = change_since(scan, key, value, t.now.wall_ms) {
                    if change.kind == ChangeKind::Record && Record::are_of_collection(value) {
                        collection = Some((change.key, Bytes::from([row, b"\0"].concat())));
                    } else {
                        page.push(change);
                    }
                }
                collection.is_none()
            });
            // A scan cannot run within another: the elements are read between two.
            let Some((key, behind)) = collection else { return next };
            if let Some(next) = self.scan_elements(t, &key, None, page) {
                return Some(next);
            }
            if behind >= end {
                return None;
            }
            from = behind;
        }
    }

    /// Adds the elements of a collection behind one; from the first on they take the place of what was told before. Where to go
    /// on, if not all fit into the page.
    fn scan_elements(
        &self,
        t: &Turn<'_>,
        key: &Key,
        after: Option<Bytes>,
        page: &mut FeedScanPage,
    ) -> Option<Bytes> {
        let local = self.replica.load(t, key);
        let record = local.record.filter(|record| record.is_live(t.now.wall_ms))?;
        let header = record.collection_header()?;
        let kind = if after.is_none() { ChangeKind::FirstElements } else { ChangeKind::Elements };
        let from = after.map(|after| [&after[..], b"\0"].concat().into());
        let span = ElementSpan { from, to: None };
        let limit = page.left.clamp(1, ELEMENTS_PER_PAGE);
        let found = collection::page_of_span(&header, &self.replica.rows_of(t, key), &span, limit);
        page.left = page.left.saturating_sub(found.entries.len());
        let is_shown =
            |entry: &ElementEntry| entry.state.is_visible() && !entry.state.is_expired(t.now.wall_ms);
        let entries = found.entries.into_iter().filter(is_shown).collect();
        page.push(Change { kind, key: key.clone(), value: record.with_changed(entries).encode() });
        let upto = found.upto?;
        Some([&rows::collection(key)[..], &element_row(&upto)].concat().into())
    }

    fn scan_conflicts(
        &self,
        t: &Turn<'_>,
        scan: &FeedScan,
        since: &FeedCursor,
        place: Option<Bytes>,
        page: &mut FeedScanPage,
    ) -> Option<Bytes> {
        let (_, end) = rows::conflict_range();
        let begin = rows::conflict(since.least(), 0);
        let from = place.map_or(begin.clone(), |place| place.max(begin));
        let mut next = None;
        self.replica.storage.scan(t.rows, &from, &end, &mut |row, value| {
            if page.is_full() {
                next = Some(Bytes::copy_from_slice(row));
                return false;
            }
            page.left = page.left.saturating_sub(1);
            let change = Change::of_conflict(value);
            let inside =
                |change: &Change| scan.range.contains(change.key.namespace_id(), change.key.name_slice());
            change.filter(inside).into_iter().for_each(|change| page.push(change));
            true
        });
        next
    }

    pub(in crate::mesh) fn step_feed_answer(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        answer: Box<FeedAnswer>,
    ) {
        let is_asked = |operation: &Operation| matches!(operation, Operation::Feed(op) if op.node == from);
        if self.coordinator.operations.get(&id).is_some_and(|pending| is_asked(&pending.operation))
            && let Some(Operation::Feed(op)) = self.coordinator.finish(id).map(|pending| pending.operation)
        {
            t.out.replies.push((op.token, Reply::Feed(answer)));
        }
    }

    /// The node has not answered, or not now.
    pub(in crate::mesh) fn end_feed(&mut self, t: &mut Turn<'_>, op: &FeedOp) {
        t.out.replies.push((op.token, Reply::Refused(Code::NotInStep)));
    }

    pub(in crate::mesh) fn decline_feed(&mut self, t: &mut Turn<'_>, id: OpId) {
        if let Some(Operation::Feed(op)) = self.coordinator.finish(id).map(|pending| pending.operation) {
            self.end_feed(t, &op);
        }
    }

    /// The connection to a node broke: its answers do not come any more.
    pub(in crate::mesh) fn end_feeds_of(&mut self, t: &mut Turn<'_>, node: NodeId) {
        let lost = |operation: &Operation| matches!(operation, Operation::Feed(op) if op.node == node);
        let lost = self.coordinator.operations.iter().filter(|(_, pending)| lost(&pending.operation));
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.decline_feed(t, id);
        }
    }
}

/// The collection, and the element behind which a scan goes on there.
fn element_place(place: &[u8]) -> Option<(Key, Bytes)> {
    let (key, below) = rows::collection_key(place).filter(|_| rows::is_below_collection(place))?;
    Some((key, element_row_name(below)?))
}

struct FeedScanPage {
    left: usize,
    bytes: usize,
    rows: Vec<Change>,
}

impl FeedScanPage {
    fn is_full(&self) -> bool {
        self.left == 0 || self.bytes > ANSWER_BYTES_SOFT
    }

    fn push(&mut self, change: Change) {
        self.bytes += change.bytes();
        self.rows.push(change);
    }
}

/// What a follower with this cursor lacks of a record.
fn change_since(scan: &FeedScan, key: Key, value: &Bytes, wall_ms: u64) -> Option<Change> {
    let record = Record::decode(value.clone())?;
    let Some(since) = &scan.since else {
        let is_live = record.is_live(wall_ms);
        return is_live.then(|| Change { kind: ChangeKind::Record, key, value: value.clone() });
    };
    let is_expired = record.is_expired(wall_ms) && !record.is_tombstone();
    let expired_since = || due(&record).is_some_and(|due| due > since.least());
    let kind = match is_expired {
        true if expired_since() => ChangeKind::Expired,
        false if !since.covers(&record) => ChangeKind::Record,
        _ => return None,
    };
    Some(Change { kind, key, value: value.clone() })
}
