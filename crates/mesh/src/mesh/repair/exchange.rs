//! Anti-entropy: two replicas compare the trees of a shard and bring each other up to date, always and within a
//! budget. The one that begins keeps the state: it opens with its root, walks its keys in the buckets that
//! differ page by page, takes what it lacks, gives what the other lacks, and in the end both know how far they
//! agree. Filling a newcomer, catching up and checking are the same walk: with an empty tree every bucket differs.

use crate::actor::RegionId;
use crate::frame::{
    ExchangeAnswer, ExchangeEntry, ExchangePage, Frame, OpId, Shard, StampVector, StoreReason,
};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::repair::Repair;
use crate::mesh::repair::walk::WalkClient;
use crate::mesh::replica::shards::AnsweredCompare;
use crate::mesh::{Mesh, MeshEvent, Operation, Then, Turn};
use crate::moves::{MoveReport, blocking};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::ring::Partition;
use crate::rows;
use crate::topology::{Epoch, MovePhase};
use crate::tree::{Buckets, digest};
use crate::watermarks::Watermarks;
use base::mutant::planted;
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Exchanges that a node has begun at a time: most find two equal roots, and go together in few frames.
const UNDER_WAY_MAX: usize = 16;
/// The most exchanges that walk and bring records; while there are so many, none is begun.
const WALKS_MAX: usize = 4;
/// Entries of the plan that one tick looks at.
const LOOKS_PER_TICK: usize = 256;
/// Keys on a page, rows looked at for one, and bytes of records in an answer.
const PAGE_KEYS: usize = 256;
const PAGE_ROWS: usize = 4_096;
const ANSWER_BYTES_SOFT: usize = 256 * 1024;
/// A walk that failed is taken up again after so long while the node waits for what it brings, instead of a round later.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Rows of a shard that is no longer kept, removed in a tick.
const WIPE_ROWS: usize = 500;

/// With whom this node compares what, and when next.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Exchanges {
    plan: Vec<PlannedExchange>,
    cursor: usize,
    under_way: UnderWay,
    walks: usize,
    floor_at: Instant,
    /// From whom everything of a shard was taken since the last move began.
    sources: BTreeMap<Shard, BTreeSet<NodeId>>,
    /// The replicas with which a shard was compared since then, whether or not they know all that they acknowledged.
    compared: BTreeMap<Shard, BTreeSet<NodeId>>,
    /// Shards that are no longer kept.
    lost: Vec<Shard>,
    purge_cursor: u8,
}

/// The exchanges under way: each shard has one with each peer at a time.
pub(in crate::mesh) type UnderWay = BTreeSet<(Shard, NodeId)>;

#[derive(Clone, Debug)]
struct PlannedExchange {
    shard: Shard,
    peer: NodeId,
    due: Instant,
}

/// How the initiator describes its side.
pub(in crate::mesh) struct CompareRequest {
    pub shard: Shard,
    pub root: u64,
    pub known: StampVector,
}

pub(in crate::mesh) struct LeavesReply {
    pub id: OpId,
    pub epoch: Epoch,
    pub leaves: Vec<u64>,
    pub known: StampVector,
    pub marks: Watermarks,
}

#[derive(Debug)]
pub(in crate::mesh) struct ExchangeOp {
    shard: Shard,
    peer: NodeId,
    /// The peer's region, if it is another one.
    region: Option<RegionId>,
    /// The stamps that each side vouched for when the trees were compared.
    known: StampVector,
    marks: Watermarks,
    their_known: StampVector,
    their_marks: Watermarks,
    buckets: Option<Buckets>,
    /// The last key that was compared.
    cursor: Option<Key>,
    /// How far the page reaches that is being answered; none to the end.
    page_upto: Option<Key>,
    at_end: bool,
    /// Records that the peer has not acknowledged yet.
    outstanding: usize,
    records: usize,
}

impl Exchanges {
    pub fn next_to_purge(&mut self) -> Partition {
        self.purge_cursor = self.purge_cursor.wrapping_add(1);
        Partition(self.purge_cursor)
    }
}

impl ExchangeOp {
    /// Counts against the budget of walks; those with remote regions have their own.
    fn walks(&self) -> bool {
        self.region.is_none() && self.buckets.is_some()
    }
}

impl Repair {
    /// Forgets the sources: records that were taken before the node was found to lack some do not count.
    pub(in crate::mesh) fn forget_sources(&mut self) {
        self.exchanges.sources.clear();
        self.exchanges.compared.clear();
        self.exchanges.plan.iter_mut().for_each(|plan| plan.due = Instant::ZERO);
    }
}

impl Coordinator {
    fn exchanges_of(&self, shard: Shard) -> impl Iterator<Item = OpId> {
        let is_of = move |operation: &Operation| matches!(operation, Operation::Exchange(exchanging) if exchanging.shard == shard);
        self.operations.iter().filter(move |(_, pending)| is_of(&pending.operation)).map(|(id, _)| *id)
    }

    fn exchange_op(&mut self, from: NodeId, id: OpId) -> Option<&mut ExchangeOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Exchange(exchanging)) if exchanging.peer == from => Some(exchanging),
            _ => None,
        }
    }
}

impl Mesh {
    /// After a change of topology: who compares with whom.
    pub(in crate::mesh) fn plan_exchanges(&mut self, begins: bool, lost: Vec<Shard>) {
        if begins {
            self.repair.exchanges.sources.clear();
            self.repair.exchanges.compared.clear();
        }
        self.repair.exchanges.lost.extend(lost);
        // Changes of topology come in quick succession: an exchange that waits keeps its turn.
        let dues: BTreeMap<(Shard, NodeId), Instant> =
            self.repair.exchanges.plan.drain(..).map(|plan| ((plan.shard, plan.peer), plan.due)).collect();
        let mut plan = Vec::new();
        for shard in self.membership.all_shards() {
            let route = self.membership.route(shard.partition, shard.copies);
            let pending = self.membership.topology.phase(shard.partition) == MovePhase::Pending;
            let settled = route.read.contains(&self.membership.me);
            if !settled && !route.also.contains(&self.membership.me) {
                continue;
            }
            // A newcomer takes from the old; the old leave it to the newcomer to begin.
            let peers: Vec<NodeId> = if pending { route.read.clone() } else { route.replicas().collect() };
            let peers = peers.into_iter().filter(|node| *node != self.membership.me);
            plan.extend(peers.map(|peer| {
                let due = dues.get(&(shard, peer)).copied().filter(|_| !begins);
                PlannedExchange { shard, peer, due: due.unwrap_or(Instant::ZERO) }
            }));
        }
        self.repair.exchanges.plan = plan;
    }

    pub(in crate::mesh) fn step_exchanges(&mut self, t: &mut Turn<'_>) {
        if t.now.at >= self.repair.exchanges.floor_at {
            self.repair.exchanges.floor_at = t.now.at.after(self.params.round_every);
            self.write_identity(t, self.replica.dots.bound());
            self.report_sources(t);
            self.probe_for_collections_support(t);
        }
        if let Some(shard) = self.repair.exchanges.lost.last().copied()
            && (self.membership.keeps(shard) || self.wipe(t, shard, WIPE_ROWS) == 0)
        {
            self.repair.exchanges.lost.pop();
        }
        self.begin_exchanges(t);
    }

    /// Begins those that are due, as far as the budget goes.
    fn begin_exchanges(&mut self, t: &mut Turn<'_>) {
        for _ in 0..LOOKS_PER_TICK.min(self.repair.exchanges.plan.len()) {
            if self.repair.exchanges.under_way.len() >= UNDER_WAY_MAX
                || self.repair.exchanges.walks >= WALKS_MAX
            {
                return;
            }
            let nth = self.repair.exchanges.cursor % self.repair.exchanges.plan.len();
            self.repair.exchanges.cursor = nth + 1;
            let PlannedExchange { shard, peer, due } = self.repair.exchanges.plan[nth].clone();
            let is_under_way = self.repair.exchanges.under_way.contains(&(shard, peer));
            let ready = due <= t.now.at && !is_under_way && self.replica.shards.is_built(shard.partition);
            if ready && self.replica.floor > Stamp::ZERO && self.membership.peers.may_ask(peer, t.now.at) {
                self.repair.exchanges.plan[nth].due = t.now.at.after(self.params.round_every);
                self.start_exchange(t, shard, peer);
            }
        }
    }

    pub(in crate::mesh) fn start_exchange(&mut self, t: &mut Turn<'_>, shard: Shard, peer: NodeId) {
        let region = self.remote.region_of(peer);
        if !self.under_way(region).is_some_and(|under_way| under_way.insert((shard, peer))) {
            return;
        }
        let known = self.vouched(shard, peer);
        let state = self.replica.shards.state(shard);
        let (root, marks) = (state.tree.root(), state.marks.clone());
        let exchanging = ExchangeOp {
            shard,
            peer,
            region,
            known: known.clone(),
            marks,
            their_known: Vec::new(),
            their_marks: Watermarks::default(),
            buckets: None,
            cursor: None,
            page_upto: None,
            at_end: false,
            outstanding: 0,
            records: 0,
        };
        let deadline = t.now.at.after(self.params.timeout);
        let id = self.coordinator.begin(t, Operation::Exchange(Box::new(exchanging)), deadline);
        self.send(t, peer, Frame::Compare { id, shard, root, known });
    }

    /// The stamps that this node vouches for towards a peer; another region gets marks only.
    fn vouched(&self, shard: Shard, peer: NodeId) -> StampVector {
        if self.remote.region_of(peer).is_some() { Vec::new() } else { self.known(shard) }
    }

    fn end_count(&mut self, exchanging: &ExchangeOp) {
        let ended = (exchanging.shard, exchanging.peer);
        if let Some(under_way) = self.under_way(exchanging.region) {
            under_way.remove(&ended);
        }
        self.repair.exchanges.walks -= usize::from(exchanging.walks());
    }

    /// The exchanges under way with a region, this one or another; none if the region was evicted.
    fn under_way(&mut self, region: Option<RegionId>) -> Option<&mut UnderWay> {
        match region {
            Some(region) => self.remote.others.get_mut(&region).map(|other| &mut other.exchanges),
            None => Some(&mut self.repair.exchanges.under_way),
        }
    }

    /// Ends the exchanges of a shard without a result: the records that they brought are no longer here.
    pub(in crate::mesh) fn end_exchanges(&mut self, t: &mut Turn<'_>, shard: Shard) {
        let ended: Vec<OpId> = self.coordinator.exchanges_of(shard).collect();
        ended.into_iter().for_each(|id| self.expire(t, id));
    }

    pub(in crate::mesh) fn step_compare(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        request: CompareRequest,
    ) {
        let shard = request.shard;
        let lawful = self.membership.topology.copies_in_use().contains(&shard.copies);
        if !lawful || !self.membership.keeps(shard) || !self.replica.shards.is_built(shard.partition) {
            return self.send(t, from, Frame::Declined { id });
        }
        let (known, is_near) = (self.vouched(shard, from), self.remote.region_of(from).is_none());
        let state = self.replica.shards.state(shard);
        state.answered.insert(from, AnsweredCompare { id, known: request.known.clone() });
        if is_near {
            state.told.insert(from, request.known);
        }
        let leaves =
            if state.tree.root() == request.root { Vec::new() } else { state.tree.leaves().to_vec() };
        let marks = state.marks.clone();
        self.send(t, from, Frame::Leaves { id, leaves, known, marks });
    }

    pub(in crate::mesh) fn step_leaves(&mut self, t: &mut Turn<'_>, from: NodeId, reply: LeavesReply) {
        let LeavesReply { id, epoch, leaves, known, marks } = reply;
        let Some(exchanging) = self.coordinator.exchange_op(from, id) else { return };
        let (shard, is_near) = (exchanging.shard, exchanging.region.is_none());
        // A source that may still serve an older epoch may yet be given what it does not give here.
        if is_near && epoch < self.membership.topology.began {
            return self.expire(t, id);
        }
        let differing = if leaves.is_empty() {
            None
        } else {
            match self.replica.shards.state(shard).tree.differing(&leaves) {
                Some(differing) => Some(differing),
                None => return self.expire(t, id),
            }
        };
        if is_near {
            self.replica.shards.state(shard).told.insert(from, known.clone());
        } else {
            self.remote.compared(from, shard, differing.is_none());
        }
        let Some(exchanging) = self.coordinator.exchange_op(from, id) else { return };
        (exchanging.their_known, exchanging.their_marks) = (known, marks);
        let walked = exchanging.walks();
        exchanging.at_end = differing.is_none();
        exchanging.buckets = differing;
        let (at_end, walks) = (exchanging.at_end, exchanging.walks());
        self.repair.exchanges.walks += usize::from(walks);
        self.repair.exchanges.walks -= usize::from(walked);
        if at_end {
            self.after(t, self.replica.storage.horizon(), Then::Exchanged(id));
        } else {
            self.send_page(t, id);
        }
    }

    /// The next keys of this side in the buckets that differ.
    fn send_page(&mut self, t: &mut Turn<'_>, id: OpId) {
        self.extend_deadline(t, id);
        let Some(Operation::Exchange(exchanging)) =
            self.coordinator.operations.get(&id).map(|pending| &pending.operation)
        else {
            return;
        };
        let (shard, peer, after) = (exchanging.shard, exchanging.peer, exchanging.cursor.clone());
        let buckets = exchanging.buckets.clone().expect("pages are of buckets that differ");
        let (mut entries, mut upto, mut n) = (Vec::new(), None, 0);
        self.walk(t, shard, &buckets, after.as_ref(), &mut |key, value| {
            n += 1;
            if let Some(value) = value {
                let record = Record::decode(value.clone()).expect("a row that we wrote can be read");
                let (digest, stamp, writers) = (digest(&key, value), record.header.stamp, record.writers());
                if !(planted(Mutant::TombstoneNotSynced) && record.is_tombstone()) {
                    entries.push(ExchangeEntry { key: key.clone(), digest, stamp, writers });
                }
            }
            let full = entries.len() >= PAGE_KEYS || n >= PAGE_ROWS;
            upto = full.then_some(key);
            !full
        });
        if let Some(exchanging) = self.coordinator.exchange_op(peer, id) {
            exchanging.page_upto = upto.clone();
        }
        let marks = self.replica.shards.marks(shard);
        let page = ExchangePage { id, shard, buckets, marks, after, upto, entries };
        self.send(t, peer, Frame::Page(Box::new(page)));
    }

    /// Visits the keys of a shard behind `after`, with the record of those in the buckets.
    fn walk(
        &self,
        t: &Turn<'_>,
        shard: Shard,
        buckets: &Buckets,
        after: Option<&Key>,
        visit: &mut dyn FnMut(Key, Option<&Bytes>) -> bool,
    ) {
        let from = match after {
            Some(key) => [rows::record(key).as_ref(), b"\0"].concat().into(),
            None => rows::records_from(shard.partition, b""),
        };
        self.replica.storage.scan(t.rows, &from, &rows::records_end(shard.partition), &mut |row, value| {
            let key = rows::record_key(row).expect("a row that we wrote can be read");
            let wanted = self.membership.shard_of(&key) == Some(shard) && buckets.contains(&key);
            visit(key, wanted.then_some(value))
        });
    }

    pub(in crate::mesh) fn step_page(&mut self, t: &mut Turn<'_>, from: NodeId, page: ExchangePage) {
        let is_answered = self.replica.shards.answers(page.shard, from, page.id);
        if !self.membership.keeps(page.shard) || !is_answered || page.entries.len() > PAGE_KEYS {
            return self.send(t, from, Frame::Declined { id: page.id });
        }
        let marks = self.replica.shards.marks(page.shard);
        let mut theirs: BTreeMap<&Key, &ExchangeEntry> =
            page.entries.iter().map(|entry| (&entry.key, entry)).collect();
        let mut answer = ExchangeAnswer {
            id: page.id,
            upto: None,
            records: Vec::new(),
            wanted: Vec::new(),
            purged: Vec::new(),
        };
        let (mut forgotten, mut bytes, mut n) = (Vec::new(), 0, 0);
        self.walk(t, page.shard, &page.buckets, page.after.as_ref(), &mut |key, value| {
            if page.upto.as_ref().is_some_and(|upto| key > *upto) {
                return false;
            }
            n += 1;
            if let Some(value) = value {
                let record = Record::decode(value.clone()).expect("a row that we wrote can be read");
                match theirs.remove(&key) {
                    Some(entry) if entry.digest == digest(&key, value) => {}
                    None if page.marks.cover(&record) => forgotten.push(key.clone()),
                    entry => {
                        bytes += value.len();
                        answer.wanted.extend(entry.map(|entry| entry.key.clone()));
                        if !(planted(Mutant::TombstoneNotSynced) && record.is_tombstone()) {
                            answer.records.push((key.clone(), value.clone()));
                        }
                    }
                }
            }
            let full = bytes > ANSWER_BYTES_SOFT || n >= PAGE_ROWS;
            answer.upto = full.then_some(key);
            !full
        });
        let lacked =
            theirs.into_values().filter(|entry| answer.upto.as_ref().is_none_or(|upto| entry.key <= *upto));
        for ExchangeEntry { key, stamp, writers, .. } in lacked {
            let gone = marks.cover_writers(*stamp, writers);
            if gone { &mut answer.purged } else { &mut answer.wanted }.push(key.clone());
        }
        forgotten.iter().for_each(|key| self.forget(t, key, page.shard, &page.marks));
        // With a merged record goes the only trace, elsewhere, of what was lost in it: that is durable first.
        self.after(t, self.replica.storage.horizon(), Then::Send(from, Frame::Answer(Box::new(answer))));
    }

    /// Removes a record that all other replicas have purged.
    fn forget(&mut self, t: &mut Turn<'_>, key: &Key, shard: Shard, marks: &Watermarks) {
        let local = self.replica.load(t, key);
        if local.record.as_ref().is_some_and(|record| marks.cover(record))
            && self.remove(t, key, shard, &local)
        {
            self.replica.note_gone(t, key, shard, &local);
        }
    }

    pub(in crate::mesh) fn step_answer(&mut self, t: &mut Turn<'_>, from: NodeId, answer: ExchangeAnswer) {
        let id = answer.id;
        let Some(exchanging) = self.coordinator.exchange_op(from, id) else { return };
        if exchanging.outstanding > 0 {
            return;
        }
        let (shard, their_marks) = (exchanging.shard, exchanging.their_marks.clone());
        exchanging.at_end = answer.upto.is_none() && exchanging.page_upto.is_none();
        exchanging.cursor = answer.upto.or(exchanging.page_upto.take());
        exchanging.records += answer.records.len() + answer.wanted.len();
        let mut has_space = true;
        let mut headers = Vec::new();
        for (key, bytes) in answer.records {
            let len = bytes.len();
            if let Some(record) =
                Record::decode(bytes).filter(|_| self.membership.shard_of(&key) == Some(shard))
            {
                if record.collection_header().is_some() {
                    if !planted(Mutant::HeaderNotCompared) {
                        headers.push(key);
                    }
                } else if self.replica.may_take(t, &key, &record, len) {
                    self.replica.absorb(t, &key, shard, &record, StoreReason::Repair);
                } else {
                    has_space = false;
                }
            }
        }
        if !has_space {
            // Without the record this node must not count as having what the peer has.
            return self.expire(t, id);
        }
        answer.purged.iter().for_each(|key| self.forget(t, key, shard, &their_marks));
        let mut outstanding = 0;
        for key in answer.wanted {
            let local = self.replica.load(t, &key);
            if let Some(record) = local.bytes {
                outstanding += 1;
                let give =
                    self.coordinator.begin(t, Operation::GiveRecord(id), t.now.at.after(self.params.timeout));
                let store = Frame::Store { id: give, key, record, reason: StoreReason::Repair };
                self.after(t, local.seq, Then::Send(from, store));
            }
        }
        self.extend_deadline(t, id);
        let Some(exchanging) = self.coordinator.exchange_op(from, id) else { return };
        exchanging.outstanding = outstanding + headers.len();
        if exchanging.outstanding == 0 {
            return self.after(t, self.replica.storage.horizon(), Then::Exchanged(id));
        }
        for key in headers {
            self.start_walk(t, WalkClient::Exchange(id), from, &key, shard);
        }
    }

    pub(in crate::mesh) fn exchange_stored(&mut self, t: &mut Turn<'_>, give: OpId) {
        let Some(Operation::GiveRecord(id)) = self.coordinator.finish(give).map(|pending| pending.operation)
        else {
            return;
        };
        self.exchange_part_done(t, id);
    }

    /// One of the records of a page is durable on both sides.
    pub(in crate::mesh) fn exchange_part_done(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Operation::Exchange(exchanging)) =
            self.coordinator.operations.get_mut(&id).map(|pending| &mut pending.operation)
        else {
            return;
        };
        exchanging.outstanding = exchanging.outstanding.saturating_sub(1);
        if exchanging.outstanding == 0 {
            self.after(t, self.replica.storage.horizon(), Then::Exchanged(id));
        }
    }

    /// A page is done, and durable on both sides.
    pub(in crate::mesh) fn step_exchanged(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Operation::Exchange(exchanging)) =
            self.coordinator.operations.get(&id).map(|pending| &pending.operation)
        else {
            return;
        };
        if !exchanging.at_end {
            return self.send_page(t, id);
        }
        let Some(Operation::Exchange(done)) = self.coordinator.finish(id).map(|pending| pending.operation)
        else {
            return;
        };
        self.end_count(&done);
        let walked = done.walks();
        let ExchangeOp { shard, peer, region, known, marks, their_known, their_marks, records, .. } = *done;
        self.send(t, peer, Frame::Synced { shard, known, marks });
        if let Some(region) = region {
            self.record_region_synced(region, shard, &their_marks);
        } else {
            self.record_synced(shard, &their_known, &their_marks);
            let must_be_filled = self.must_be_filled(shard);
            self.repair.exchanges.compared.entry(shard).or_default().insert(peer);
            // One that has lost its disk vouches for nothing: what it had acknowledged before is not what it gave.
            let vouches = their_known.first().is_some_and(|(_, upto)| *upto > Stamp::ZERO);
            if vouches || planted(Mutant::LostDiskCounted) {
                self.repair.exchanges.sources.entry(shard).or_default().insert(peer);
            }
            self.report_filled(t, shard);
            if must_be_filled || walked {
                self.begin_exchanges(t);
            }
        }
        if records > 0 {
            t.out.events.push(MeshEvent::Repaired { shard, with: peer, records });
        }
    }

    pub(in crate::mesh) fn step_synced(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        shard: Shard,
        known: StampVector,
        marks: Watermarks,
    ) {
        if !self.membership.keeps(shard) {
            return;
        }
        self.after(t, self.replica.storage.horizon(), Then::Synced(from, shard, known, marks));
    }

    /// The records that a peer vouched for when it began an exchange are durable here as well, if all of that exchange came to what is here
    /// now: not if this node lost its disk meanwhile, or removed the shard.
    pub(in crate::mesh) fn record_synced_by(
        &mut self,
        from: NodeId,
        shard: Shard,
        known: StampVector,
        marks: &Watermarks,
    ) {
        if !self.replica.shards.end_answered(shard, from, &known) {
            return;
        }
        if let Some(region) = self.remote.region_of(from) {
            return self.record_region_synced(region, shard, marks);
        }
        self.record_synced(shard, &known, marks);
        self.replica.shards.state(shard).told.insert(from, known);
    }

    pub(in crate::mesh) fn expire_exchange(&mut self, t: &mut Turn<'_>, exchanging: ExchangeOp) {
        self.end_count(&exchanging);
        let ExchangeOp { shard, peer, region, .. } = exchanging;
        self.membership.peers.mark_unanswered(peer, t.now.at);
        if region.is_none() && self.must_be_filled(shard) {
            let soon = t.now.at.after(RETRY_AFTER);
            let mut plan = self.repair.exchanges.plan.iter_mut();
            if let Some(plan) = plan.find(|plan| plan.shard == shard && plan.peer == peer) {
                plan.due = plan.due.min(soon);
            }
        }
    }

    /// The node cannot take its part before it has what others have of this shard.
    fn must_be_filled(&self, shard: Shard) -> bool {
        let lacks = self.membership.is_newcomer(shard)
            || self.membership.readiness.is_wiped()
            || self.membership.is_stale();
        lacks && !self.is_filled(shard)
    }

    /// A peer takes in a collection that this node has given it: that takes as long as there are differences.
    pub(in crate::mesh) fn extend_given(&mut self, t: &Turn<'_>, store: OpId) {
        match self.coordinator.operations.get(&store).map(|pending| &pending.operation) {
            Some(Operation::GiveRecord(exchange)) => {
                let exchange = *exchange;
                self.extend_deadline(t, store);
                self.extend_deadline(t, exchange);
            }
            Some(Operation::Hint(_)) => self.extend_deadline(t, store),
            _ => {}
        }
    }

    pub(in crate::mesh) fn extend_deadline(&mut self, t: &Turn<'_>, id: OpId) {
        if let Some(pending) = self.coordinator.operations.get_mut(&id) {
            pending.deadline = t.now.at.after(self.params.timeout);
            self.coordinator.timers.set(pending.deadline, id);
        }
    }

    /// Reports what this node has, again until the plan shows it.
    fn report_sources(&mut self, t: &mut Turn<'_>) {
        self.report_epoch(t);
        let mut all = true;
        for shard in self.membership.all_shards() {
            self.report_filled(t, shard);
            let route = self.membership.route(shard.partition, shard.copies);
            all &= !route.read.contains(&self.membership.me)
                || route.read == [self.membership.me]
                || self.is_filled(shard);
        }
        if all && (self.membership.readiness.is_wiped() || self.membership.is_stale()) {
            // This node has never seen what the other replicas deleted before.
            self.replica.note_purged(self.replica.clock.last());
        }
        if all {
            self.membership.readiness.caught_up();
        }
        if all && self.membership.is_stale() {
            t.out.reports.push(MoveReport::CaughtUp);
        }
    }

    fn report_filled(&mut self, t: &mut Turn<'_>, shard: Shard) {
        if self.membership.is_newcomer(shard) && self.is_filled(shard) {
            let Shard { partition, copies } = shard;
            t.out.reports.push(MoveReport::Filled { partition, copies });
        }
    }

    /// Everything was taken from as many replicas as every quorum must meet; or from all others, and then no replica has
    /// more. After a power cut of all nodes none of them may know all that it acknowledged.
    fn is_filled(&self, shard: Shard) -> bool {
        let route = self.membership.route(shard.partition, shard.copies);
        let sources = self.repair.exchanges.sources.get(&shard);
        let gave = |node: &&NodeId| sources.is_some_and(|sources| sources.contains(node));
        let compared = self.repair.exchanges.compared.get(&shard);
        let is_compared = |node: &NodeId| compared.is_some_and(|compared| compared.contains(node));
        route.read.iter().filter(gave).count() >= blocking(route.read.len())
            || route.read.iter().all(|node| *node == self.membership.me || is_compared(node))
    }
}
