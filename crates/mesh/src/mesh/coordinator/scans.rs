//! Scans of a namespace in key order, and batches of writes.
//! Keys are placed by hash, so every node is asked for its records from a start key on; the page ends where the shortest
//! reply ends. A partition counts if as many of its replicas as requested have answered; the reply says how many partitions
//! did not. Records that a node returns of partitions it does not keep are ignored.

use crate::frame::{Frame, OpId};
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::writes::{Route, join};
use crate::mesh::{Client, Mesh, Operation, Then, Turn};
use crate::moves::majority;
use crate::query::Query;
use crate::record::Record;
use crate::request::{Reply, Scan, ScanPage, Write};
use crate::ring::Partition;
use crate::rows;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of records after which a page ends early.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

#[derive(Debug)]
pub(in crate::mesh) struct ScanOp {
    pub token: ReplyToken,
    pub scan: Scan,
    /// Not by names but by what records are.
    pub query: Option<Query>,
    pub asked: Vec<NodeId>,
    pub heard: Vec<ScanAnswer>,
}

#[derive(Debug)]
pub(in crate::mesh) struct ScanAnswer {
    pub from: NodeId,
    pub records: Vec<(Key, Record)>,
    pub upto: Option<Bytes>,
}

/// Whether enough replicas of a partition were heard.
pub(in crate::mesh) fn covered(route: &Route, scan: &Scan, heard: &[ScanAnswer]) -> bool {
    let list = &route.read;
    let needed = scan.r.map_or(majority(list.len()), usize::from).min(list.len());
    heard.iter().filter(|heard| list.contains(&heard.from)).count() >= needed
}

/// What is wanted of one node.
pub(in crate::mesh) struct ScanRange {
    pub namespace_id: u32,
    pub start: Bytes,
    pub end: Option<Bytes>,
    pub limit: u16,
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

    /// All replies when this was the last one.
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
    fn scan_op(&mut self, id: OpId) -> Option<&mut ScanOp> {
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
        let nodes: Vec<NodeId> =
            self.membership.topology.members().iter().map(|member| member.node).collect();
        let wanted = ScanRange {
            namespace_id: scan.namespace_id,
            start: scan.start.clone(),
            end: scan.end.clone(),
            limit: scan.limit.clamp(1, MESH_PAGE_KEYS_MAX) as u16,
        };
        let asked =
            nodes.iter().copied().filter(|node| self.membership.peers.may_ask(*node, t.now.at)).collect();
        let scanning = ScanOp { token, scan, query: None, asked, heard: Vec::new() };
        let others: Vec<NodeId> =
            scanning.asked.iter().copied().filter(|node| *node != self.membership.me).collect();
        let id = self.coordinator.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        for node in others {
            let ScanRange { namespace_id, start, end, limit } = &wanted;
            let (namespace_id, start, end, limit) = (*namespace_id, start.clone(), end.clone(), *limit);
            self.send(t, node, Frame::Collect { id, namespace_id, start, end, limit });
        }
        if self.membership.is_serving() {
            let (records, upto) = self.gather_page(t, &wanted);
            self.step_collected(t, self.membership.me, id, records, upto);
        } else {
            self.decline_scan(t, self.membership.me, id);
        }
    }

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
        let (records, upto) = self.gather_page(t, &wanted);
        let seq = self.replica.storage.horizon();
        self.after(t, seq, Then::Send(from, Frame::Collected { id, records, upto }));
    }

    /// Records of the node's own partitions in order, and the last name up to which nothing is missing.
    fn gather_page(&self, t: &Turn<'_>, wanted: &ScanRange) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
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
        let decoded = records.into_iter().map(|(key, bytes)| Some((key, Record::decode(bytes)?)));
        let Some(records) = decoded.collect::<Option<Vec<_>>>() else { return };
        scanning.heard.push(ScanAnswer { from, records, upto });
        self.try_finish_scan(t, id);
    }

    pub(in crate::mesh) fn decline_scan(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        if let Some(scanning) = self.coordinator.scan_op(id) {
            scanning.asked.retain(|node| *node != from);
            self.try_finish_scan(t, id);
        }
    }

    fn try_finish_scan(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        if scanning.asked.iter().all(heard)
            && let Some(Operation::Scan(scanning)) =
                self.coordinator.finish(id).map(|pending| pending.operation)
        {
            self.answer_scan(t, *scanning);
        }
    }

    pub(in crate::mesh) fn expire_scan(&mut self, t: &mut Turn<'_>, scanning: ScanOp) {
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        for node in scanning.asked.iter().filter(|node| **node != self.membership.me && !heard(node)) {
            self.membership.peers.mark_unanswered(*node, t.now.at);
        }
        self.answer_scan(t, scanning);
    }

    fn answer_scan(&mut self, t: &mut Turn<'_>, mut scanning: ScanOp) {
        if let Some(query) = scanning.query.take() {
            return self.answer_query(t, scanning, &query);
        }
        let ScanOp { token, scan, heard, .. } = scanning;
        let lists = self.membership.lists(scan.namespace_id);
        let n_missing = lists.iter().filter(|route| !covered(route, &scan, &heard)).count();
        // The page ends where the first of those who were heard has more to say.
        let frontier = heard.iter().filter_map(|heard| heard.upto.clone()).min();
        let mut versions: BTreeMap<Key, Vec<Record>> = BTreeMap::new();
        for ScanAnswer { from, records, .. } in heard {
            for (key, record) in records {
                let known = lists[key.partition().idx()].read.contains(&from);
                let early = frontier.as_ref().is_none_or(|frontier| key.name() <= *frontier);
                if known && early {
                    versions.entry(key).or_default().push(record);
                }
            }
        }
        let mut scanned = ScanPage { n_missing: n_missing as u16, ..ScanPage::default() };
        scanned.next = frontier.map(|name| after(&name));
        for (key, records) in versions {
            let live = join(records.into_iter()).filter(|record| record.is_live(t.now.wall_ms));
            if let Some(record) = live {
                if scanned.records.len() == scan.limit.clamp(1, MESH_PAGE_KEYS_MAX) {
                    scanned.next = scanned.records.last().map(|(key, _)| after(&key.name()));
                    break;
                }
                scanned.records.push((key, *self.coordinator.show(t, Box::new(record))));
            }
        }
        t.out.replies.push((token, Reply::Scanned(scanned)));
    }
}

/// The next name in order.
fn after(name: &[u8]) -> Bytes {
    [name, b"\0"].concat().into()
}
