//! Scans of a namespace in key order, and batches of writes.
//! Keys are placed by hash, so as few nodes are asked for their records from a start key on as have a quorum of every partition
//! among them, the others when an answer is late; the page ends where the shortest reply ends. A partition counts if as many
//! of its replicas as requested have answered; the reply says how many partitions did not. Records that a node returns of
//! partitions it does not keep are ignored.

mod doubtful;
mod gather;

pub(in crate::mesh) use doubtful::PageDraft;

use crate::frame::{Frame, OpId};
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::writes::{Route, join};
use crate::mesh::{Client, Mesh, Operation, Then, Turn};
use crate::moves::majority;
use crate::query::{Query, ScanRange};
use crate::record::Record;
use crate::request::{Reply, Scan, ScanPage, Write};
use crate::ring::Partition;
use crate::rows;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use doubtful::PageEntry;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of records after which a page ends early.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

/// After so long without an answer the other nodes are asked too, and those that were asked are asked again by the frame that
/// 0.1.0 knows.
const ASK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(in crate::mesh) struct ScanOp {
    pub token: ReplyToken,
    pub scan: Scan,
    /// Not by names but by what records are.
    pub query: Option<Query>,
    pub asked: Vec<NodeId>,
    /// Nodes that are not needed while all that were asked answer.
    pub rest: Vec<NodeId>,
    /// The asked nodes that got the question of release 0.1.0.
    pub asked_plainly: Vec<NodeId>,
    pub heard: Vec<ScanAnswer>,
    /// What is known of the page, while keys in doubt are read.
    pub draft: Option<PageDraft>,
}

#[derive(Debug)]
pub(in crate::mesh) struct ScanAnswer {
    pub from: NodeId,
    /// Without the record if names alone were wanted.
    pub records: Vec<(Key, Option<Record>)>,
    pub upto: Option<Bytes>,
}

/// Whether enough replicas of a partition were heard.
pub(in crate::mesh) fn covered(route: &Route, scan: &Scan, heard: &[ScanAnswer]) -> bool {
    heard.iter().filter(|heard| route.read.contains(&heard.from)).count() >= needed(route, scan)
}

/// Requests of several writes, and what has become of each.
#[derive(Debug, Default)]
pub(in crate::mesh) struct Batches {
    next: u64,
    open: BTreeMap<u64, (ReplyToken, Vec<Option<Reply>>)>,
}

impl Batches {
    fn begin(&mut self, token: ReplyToken, n: usize) -> u64 {
        self.next += 1;
        self.open.insert(self.next, (token, vec![None; n]));
        self.next
    }

    /// All replies of the batch, if this was the last one.
    pub fn finish(&mut self, batch: u64, idx: usize, reply: Reply) -> Option<(ReplyToken, Vec<Reply>)> {
        let (_, replies) = self.open.get_mut(&batch)?;
        replies[idx] = Some(reply);
        if replies.iter().any(Option::is_none) {
            return None;
        }
        let (token, replies) = self.open.remove(&batch)?;
        Some((token, replies.into_iter().flatten().collect()))
    }
}

impl Coordinator {
    pub(in crate::mesh) fn scan_op(&mut self, id: OpId) -> Option<&mut ScanOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Scan(scanning)) => Some(scanning),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_batch(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        writes: Vec<Write>,
        deadline: Instant,
    ) {
        if writes.is_empty() || writes.len() > MESH_PAGE_KEYS_MAX {
            let code = if writes.is_empty() { Code::EmptyKey } else { Code::TooManyOps };
            return t.out.replies.push((token, Reply::Refused(code)));
        }
        let batch = self.coordinator.batches.begin(token, writes.len());
        for (idx, write) in writes.into_iter().enumerate() {
            self.start_write(t, Client::BatchPart(batch, idx), Arc::new(write), deadline);
        }
    }

    pub(in crate::mesh) fn start_scan(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        scan: Scan,
        deadline: Instant,
    ) {
        let Some(copies) = self.membership.topology.copies(scan.namespace_id) else {
            return t.out.replies.push((token, Reply::Refused(Code::UnknownSpace)));
        };
        let members = self.membership.topology.members().len();
        if scan.r.is_some_and(|r| r == 0 || usize::from(r.min(copies)) > members || r > copies) {
            return t.out.replies.push((token, Reply::Refused(Code::BadQuorum)));
        }
        let (asked, rest) = self.nodes_to_scan(t, &scan);
        let needs_more = !rest.is_empty() || asked.iter().any(|node| *node != self.membership.me);
        let scanning = ScanOp {
            token,
            scan,
            query: None,
            asked: asked.clone(),
            rest,
            asked_plainly: Vec::new(),
            heard: Vec::new(),
            draft: None,
        };
        let id = self.coordinator.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        if needs_more {
            self.coordinator.timers.set(t.now.at.after(ASK_AGAIN), id);
        }
        asked.into_iter().for_each(|node| self.ask_for_page(t, id, node));
        self.try_finish_scan(t, id);
    }

    /// The fewest nodes, this one and the quickest first, that have a quorum of every partition among them, and the others.
    fn nodes_to_scan(&mut self, t: &Turn<'_>, scan: &Scan) -> (Vec<NodeId>, Vec<NodeId>) {
        let mut nodes: Vec<NodeId> =
            self.membership.topology.members().iter().map(|member| member.node).collect();
        let peers = &mut self.membership.peers;
        nodes.retain(|node| peers.may_ask(*node, t.now.at));
        self.membership.peers.order(&mut nodes);
        nodes.sort_by_key(|node| *node != self.membership.me);
        let mut open: Vec<(Arc<Route>, usize)> = self
            .membership
            .lists(scan.namespace_id)
            .into_iter()
            .map(|route| (route.clone(), needed(&route, scan)))
            .collect();
        let (mut asked, mut rest) = (Vec::new(), Vec::new());
        for node in nodes {
            let helps = |(route, left): &(Arc<Route>, usize)| *left > 0 && route.read.contains(&node);
            if !open.iter().any(helps) {
                rest.push(node);
                continue;
            }
            open.iter_mut().filter(|part| helps(part)).for_each(|(_, left)| *left -= 1);
            asked.push(node);
        }
        (asked, rest)
    }

    fn ask_for_page(&mut self, t: &mut Turn<'_>, id: OpId, node: NodeId) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        let wanted = ScanRange::of(&scanning.scan);
        if node != self.membership.me {
            return self.send(t, node, Frame::Gather { id, wanted: Box::new(wanted) });
        }
        if !self.membership.is_serving() {
            return self.decline_scan(t, node, id);
        }
        self.after(t, self.replica.storage.horizon(), Then::GatherHere(id));
    }

    /// This node's own part, once it is durable.
    pub(in crate::mesh) fn gather_here(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        let wanted = ScanRange::of(&scanning.scan);
        let (records, upto) = self.gather_range(t, &wanted);
        self.step_collected(t, self.membership.me, id, records, upto);
    }

    /// An answer is late: asks the others, and those that may not know the question in the words of 0.1.0.
    pub(in crate::mesh) fn ask_again(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(scanning) =
            self.coordinator.scan_op(id).filter(|op| op.draft.is_none() && op.query.is_none())
        else {
            return;
        };
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        let plainly = |node: &NodeId| *node == me || scanning.asked_plainly.contains(node);
        let is_forward = !scanning.scan.view.reverse;
        let silent: Vec<NodeId> = scanning
            .asked
            .iter()
            .copied()
            .filter(|node| is_forward && !heard(node) && !plainly(node))
            .collect();
        let rest = std::mem::take(&mut scanning.rest);
        scanning.asked_plainly.extend(&silent);
        scanning.asked.extend(&rest);
        let ScanRange { namespace_id, start, end, limit, .. } = ScanRange::of(&scanning.scan);
        if !silent.is_empty() || !rest.is_empty() {
            self.coordinator.timers.set(t.now.at.after(ASK_AGAIN), id);
        }
        for node in silent {
            let (start, end) = (start.clone(), end.clone());
            self.send(t, node, Frame::Collect { id, namespace_id, start, end, limit });
        }
        rest.into_iter().for_each(|node| self.ask_for_page(t, id, node));
    }

    pub(in crate::mesh) fn step_gather(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        wanted: &ScanRange,
    ) {
        if !self.membership.is_serving() {
            return self.send(t, from, Frame::Declined { id });
        }
        let (records, upto) = self.gather_range(t, wanted);
        let seq = self.replica.storage.horizon();
        self.after(t, seq, Then::Send(from, Frame::Collected { id, records, upto }));
    }

    /// As nodes of 0.1.0 ask: with tombstones, from every partition.
    pub(in crate::mesh) fn step_collect(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        wanted: ScanRange,
    ) {
        if !self.membership.is_serving() {
            return self.send(t, from, Frame::Declined { id });
        }
        let (records, upto) = self.collect_page(t, &wanted);
        let seq = self.replica.storage.horizon();
        self.after(t, seq, Then::Send(from, Frame::Collected { id, records, upto }));
    }

    /// Records of the node's own partitions in order, and the last name up to which nothing is missing.
    fn collect_page(&self, t: &Turn<'_>, wanted: &ScanRange) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
        let Some(copies) = self.membership.topology.copies(wanted.namespace_id) else {
            return (Vec::new(), None);
        };
        let mine = |partition: &Partition| {
            self.membership.route(*partition, copies).read.contains(&self.membership.me)
        };
        let partitions: Vec<Partition> = Partition::all().filter(mine).collect();
        let each = (2 * usize::from(wanted.limit)).div_ceil(partitions.len().max(1)).max(4);
        let from = Key::new(wanted.namespace_id, &wanted.start);
        let end = wanted.end.as_ref().map(|end| Key::new(wanted.namespace_id, end));
        let (mut page, mut upto): (Vec<(Key, Bytes)>, Option<Key>) = (Vec::new(), None);
        for partition in partitions {
            let (first, last) = (rows::records_from(partition, from.bytes()), rows::records_end(partition));
            let (mut n, mut bytes) = (0, 0);
            self.replica.storage.scan(t.rows, &first, &last, &mut |row, value| {
                let Some(key) = rows::record_key(row) else { return true };
                if key.namespace_id() != wanted.namespace_id || end.as_ref().is_some_and(|end| key >= *end) {
                    return false;
                }
                (n, bytes) = (n + 1, bytes + value.len());
                let full = n >= each || bytes > PAGE_BYTES_SOFT / 16;
                if full && upto.as_ref().is_none_or(|upto| key < *upto) {
                    upto = Some(key.clone());
                }
                page.push((key, value.clone()));
                !full
            });
        }
        page.retain(|(key, _)| upto.as_ref().is_none_or(|upto| key <= upto));
        page.sort_by(|left, right| left.0.cmp(&right.0));
        let mut bytes = 0;
        let mut fits = |(_, record): &(Key, Bytes)| {
            let fits = bytes <= PAGE_BYTES_SOFT;
            bytes += record.len();
            fits
        };
        let n = page.iter().take_while(|entry| fits(entry)).count();
        if n < page.len() {
            page.truncate(n);
            upto = page.last().map(|(key, _)| key.clone());
        }
        (page, upto.map(|key| key.name()))
    }

    pub(in crate::mesh) fn step_collected(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        records: Vec<(Key, Bytes)>,
        upto: Option<Bytes>,
    ) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        if scanning.heard.iter().any(|heard| heard.from == from) {
            return;
        }
        let decoded = records.into_iter().map(|(key, bytes)| {
            let record = if bytes.is_empty() { None } else { Some(Record::decode(bytes)?) };
            Some((key, record))
        });
        let Some(records) = decoded.collect::<Option<Vec<_>>>() else { return };
        scanning.heard.push(ScanAnswer { from, records, upto });
        self.try_finish_scan(t, id);
    }

    pub(in crate::mesh) fn decline_scan(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        if let Some(scanning) = self.coordinator.scan_op(id) {
            scanning.asked.retain(|node| *node != from);
            let rest = std::mem::take(&mut scanning.rest);
            scanning.asked.extend(&rest);
            rest.into_iter().for_each(|node| self.ask_for_page(t, id, node));
            self.try_finish_scan(t, id);
        }
    }

    fn try_finish_scan(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        if scanning.draft.is_some() || !scanning.asked.iter().all(heard) && !self.is_scan_covered(id) {
            return;
        }
        if let Some(pending) = self.coordinator.finish(id)
            && let Operation::Scan(scanning) = pending.operation
        {
            self.answer_scan(t, *scanning, pending.deadline);
        }
    }

    /// Whether nothing is missing although some of those that were asked have not answered.
    fn is_scan_covered(&self, id: OpId) -> bool {
        let Some(Operation::Scan(scanning)) = self.coordinator.operations.get(&id).map(|op| &op.operation)
        else {
            return false;
        };
        let lists = self.membership.lists(scanning.scan.namespace_id);
        scanning.query.is_none()
            && scanning.asked.len() > scanning.heard.len()
            && lists.iter().all(|route| covered(route, &scanning.scan, &scanning.heard))
    }

    pub(in crate::mesh) fn expire_scan(&mut self, t: &mut Turn<'_>, mut scanning: ScanOp, deadline: Instant) {
        if let Some(draft) = scanning.draft.take() {
            return self.answer_page(t, draft);
        }
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        for node in scanning.asked.iter().filter(|node| **node != self.membership.me && !heard(node)) {
            self.membership.peers.mark_unanswered(*node, t.now.at);
        }
        self.answer_scan(t, scanning, deadline);
    }

    fn answer_scan(&mut self, t: &mut Turn<'_>, mut scanning: ScanOp, deadline: Instant) {
        if let Some(query) = scanning.query.take() {
            return self.answer_query(t, scanning, &query);
        }
        let scan = scanning.scan.clone();
        let lists = self.membership.lists(scan.namespace_id);
        let heard = std::mem::take(&mut scanning.heard);
        let n_missing = lists.iter().filter(|route| !covered(route, &scan, &heard)).count();
        // The page ends where the first replica's page ends, because that replica has more rows.
        let ends = heard.iter().filter_map(|heard| heard.upto.clone());
        let frontier = if scan.view.reverse { ends.max() } else { ends.min() };
        let early = |name: &[u8]| {
            frontier.as_ref().is_none_or(|end| if scan.view.reverse { name >= end } else { name <= end })
        };
        let answering: Vec<Vec<NodeId>> = lists
            .iter()
            .map(|route| {
                let heard = heard.iter().map(|heard| heard.from);
                heard.filter(|node| route.read.contains(node)).collect()
            })
            .collect();
        let mut versions: BTreeMap<Key, Vec<Option<Record>>> = BTreeMap::new();
        for ScanAnswer { from, records, .. } in heard {
            for (key, record) in records {
                if answering[key.partition().idx()].contains(&from) && early(key.name_slice()) {
                    versions.entry(key).or_default().push(record);
                }
            }
        }
        let limit = scan.limit.clamp(1, MESH_PAGE_KEYS_MAX);
        let judge = |(key, records): (Key, Vec<Option<Record>>)| {
            let is_known_to_all = records.len() == answering[key.partition().idx()].len();
            check_record(key, records, is_known_to_all, &scan, t.now.wall_ms)
        };
        let entries: Vec<PageEntry> = if scan.view.reverse {
            versions.into_iter().rev().filter_map(judge).take(limit + 1).collect()
        } else {
            versions.into_iter().filter_map(judge).take(limit + 1).collect()
        };
        let next = frontier.map(|name| beyond(&name, scan.view.reverse));
        let scanned = ScanPage { n_missing: n_missing as u16, next, ..ScanPage::default() };
        let mut draft = PageDraft { token: scanning.token, entries, scanned, n_reading: 0 };
        if draft.entries.len() > limit {
            draft.entries.truncate(limit);
            let last = draft.entries.last().and_then(PageEntry::key);
            draft.scanned.next = last.map(|key| beyond(&key.name(), scan.view.reverse));
        }
        self.settle_page(t, scanning, draft, deadline);
    }
}

/// The record of a key by all answers; none if the key does not exist.
fn check_record(
    key: Key,
    records: Vec<Option<Record>>,
    is_known_to_all: bool,
    scan: &Scan,
    wall_ms: u64,
) -> Option<PageEntry> {
    let is_live = |record: &Record| record.is_live(wall_ms);
    let all_live = records.iter().flatten().all(is_live);
    // A node of 0.1.0 tells of tombstones too; names alone do not say which is later.
    if scan.view.keys_only {
        let is_sure = is_known_to_all && all_live;
        return Some(if is_sure { PageEntry::Named(key) } else { PageEntry::Doubtful(key) });
    }
    if !is_known_to_all {
        return Some(PageEntry::Doubtful(key));
    }
    let record = join(records.into_iter().flatten()).filter(is_live)?;
    Some(PageEntry::Found(key, record))
}

/// How many replicas of a partition are wanted.
fn needed(route: &Route, scan: &Scan) -> usize {
    let list = &route.read;
    scan.r.map_or(majority(list.len()), usize::from).min(list.len())
}

/// Where the next page begins: behind this name, or before it.
fn beyond(name: &[u8], reverse: bool) -> Bytes {
    if reverse { Bytes::copy_from_slice(name) } else { after(name) }
}

/// The next name in order.
fn after(name: &[u8]) -> Bytes {
    [name, b"\0"].concat().into()
}
