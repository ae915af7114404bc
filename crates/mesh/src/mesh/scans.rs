//! Scans of a namespace in key order, and batches of writes.
//! Keys are placed by hash, so every node is asked for its records from a start key on; the page ends where the shortest
//! reply ends. A partition counts if as many of its replicas as requested have answered; the reply says how many partitions
//! did not. Records that a node returns of partitions it does not keep are ignored.

use super::writes::{Route, join};
use super::{Client, Mesh, Operation, Turn};
use crate::frame::{Ask, Frame};
use crate::key::Key;
use crate::moves::majority;
use crate::query::Query;
use crate::record::Record;
use crate::request::{Reply, Scan, Scanned, Write};
use crate::ring::Partition;
use crate::rows;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, Instant, NodeId, Token};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of records after which a page ends early.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Scanning {
    pub token: Token,
    pub scan: Scan,
    /// Not by names but by what records are.
    pub query: Option<Query>,
    pub asked: Vec<NodeId>,
    pub heard: Vec<Heard>,
}

#[derive(Debug)]
pub(super) struct Heard {
    pub from: NodeId,
    pub records: Vec<(Key, Record)>,
    pub upto: Option<Bytes>,
}

/// Whether enough replicas of a partition were heard.
pub(super) fn covered(route: &Route, scan: &Scan, heard: &[Heard]) -> bool {
    let list = &route.read;
    let needed = scan.r.map_or(majority(list.len()), usize::from).min(list.len());
    heard.iter().filter(|heard| list.contains(&heard.from)).count() >= needed
}

/// What is wanted of one node.
pub(super) struct Wanted {
    pub space: u32,
    pub start: Bytes,
    pub end: Option<Bytes>,
    pub limit: u16,
}

/// Requests of several writes, and what has become of each.
#[derive(Debug, Default)]
pub(super) struct Batches {
    next: u64,
    open: BTreeMap<u64, (Token, Vec<Option<Reply>>)>,
}

impl Batches {
    fn begin(&mut self, token: Token, n: usize) -> u64 {
        self.next += 1;
        self.open.insert(self.next, (token, vec![None; n]));
        self.next
    }

    /// All replies when this was the last one.
    pub fn finish(&mut self, batch: u64, idx: usize, reply: Reply) -> Option<(Token, Vec<Reply>)> {
        let (_, replies) = self.open.get_mut(&batch)?;
        replies[idx] = Some(reply);
        if replies.iter().any(Option::is_none) {
            return None;
        }
        let (token, replies) = self.open.remove(&batch)?;
        Some((token, replies.into_iter().flatten().collect()))
    }
}

impl Mesh {
    pub(super) fn start_batch(
        &mut self,
        t: &mut Turn<'_>,
        token: Token,
        writes: Vec<Write>,
        deadline: Instant,
    ) {
        if writes.is_empty() || writes.len() > MESH_PAGE_KEYS_MAX {
            let code = if writes.is_empty() { Code::EmptyKey } else { Code::TooManyOps };
            return t.out.replies.push((token, Reply::Refused(code)));
        }
        let batch = self.batches.begin(token, writes.len());
        for (idx, write) in writes.into_iter().enumerate() {
            self.start_write(t, Client::Part(batch, idx), Arc::new(write), deadline);
        }
    }

    pub(super) fn start_scan(&mut self, t: &mut Turn<'_>, token: Token, scan: Scan, deadline: Instant) {
        let Some(copies) = self.topology.copies(scan.space) else {
            return t.out.replies.push((token, Reply::Refused(Code::UnknownSpace)));
        };
        let members = self.topology.members().len();
        if scan.r.is_some_and(|r| r == 0 || usize::from(r.min(copies)) > members || r > copies) {
            return t.out.replies.push((token, Reply::Refused(Code::BadQuorum)));
        }
        let nodes: Vec<NodeId> = self.topology.members().iter().map(|member| member.node).collect();
        let wanted = Wanted {
            space: scan.space,
            start: scan.start.clone(),
            end: scan.end.clone(),
            limit: scan.limit.clamp(1, MESH_PAGE_KEYS_MAX) as u16,
        };
        let asked = nodes.iter().copied().filter(|node| self.peers.may_ask(*node, t.now.at)).collect();
        let scanning = Scanning { token, scan, query: None, asked, heard: Vec::new() };
        let others: Vec<NodeId> = scanning.asked.iter().copied().filter(|node| *node != self.me).collect();
        let ask = self.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        for node in others {
            let Wanted { space, start, end, limit } = &wanted;
            let (space, start, end, limit) = (*space, start.clone(), end.clone(), *limit);
            self.send(t, node, Frame::Collect { ask, space, start, end, limit });
        }
        if self.is_serving() {
            let (records, upto) = self.gather_page(t, &wanted);
            self.step_collected(t, self.me, ask, records, upto);
        } else {
            self.decline_scan(t, self.me, ask);
        }
    }

    pub(super) fn step_collect(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, wanted: Wanted) {
        if !self.is_serving() {
            return self.send(t, from, Frame::Declined { ask });
        }
        let (records, upto) = self.gather_page(t, &wanted);
        let seq = self.horizon();
        self.after(t, seq, super::Then::Send(from, Frame::Collected { ask, records, upto }));
    }

    /// Records of the node's own partitions in order, and the last name up to which nothing is missing.
    fn gather_page(&self, t: &Turn<'_>, wanted: &Wanted) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
        let Some(copies) = self.topology.copies(wanted.space) else { return (Vec::new(), None) };
        let mine = |partition: &Partition| self.route(*partition, copies).read.contains(&self.me);
        let partitions: Vec<Partition> = Partition::all().filter(mine).collect();
        let each = (2 * usize::from(wanted.limit)).div_ceil(partitions.len().max(1)).max(4);
        let from = Key::new(wanted.space, &wanted.start);
        let end = wanted.end.as_ref().map(|end| Key::new(wanted.space, end));
        let (mut page, mut upto): (Vec<(Key, Bytes)>, Option<Key>) = (Vec::new(), None);
        for partition in partitions {
            let (first, last) = (rows::records_from(partition, from.bytes()), rows::records_end(partition));
            let (mut n, mut bytes) = (0, 0);
            self.overlay.scan(t.rows, &first, &last, &mut |row, value| {
                let Some(key) = rows::record_key(row) else { return true };
                if key.space() != wanted.space || end.as_ref().is_some_and(|end| key >= *end) {
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

    fn scanning(&mut self, ask: Ask) -> Option<&mut Scanning> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Scan(scanning)) => Some(scanning),
            _ => None,
        }
    }

    pub(super) fn step_collected(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        records: Vec<(Key, Bytes)>,
        upto: Option<Bytes>,
    ) {
        let Some(scanning) = self.scanning(ask) else { return };
        if scanning.heard.iter().any(|heard| heard.from == from) {
            return;
        }
        let decoded = records.into_iter().map(|(key, bytes)| Some((key, Record::decode(bytes)?)));
        let Some(records) = decoded.collect::<Option<Vec<_>>>() else { return };
        scanning.heard.push(Heard { from, records, upto });
        self.settle_scan(t, ask);
    }

    pub(super) fn decline_scan(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        if let Some(scanning) = self.scanning(ask) {
            scanning.asked.retain(|node| *node != from);
            self.settle_scan(t, ask);
        }
    }

    fn settle_scan(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(scanning) = self.scanning(ask) else { return };
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        if scanning.asked.iter().all(heard)
            && let Some(Operation::Scan(scanning)) = self.finish(ask).map(|pending| pending.operation)
        {
            self.answer_scan(t, *scanning);
        }
    }

    pub(super) fn expire_scan(&mut self, t: &mut Turn<'_>, scanning: Scanning) {
        let heard = |node: &NodeId| scanning.heard.iter().any(|heard| heard.from == *node);
        for node in scanning.asked.iter().filter(|node| **node != self.me && !heard(node)) {
            self.peers.silent(*node, t.now.at);
        }
        self.answer_scan(t, scanning);
    }

    /// Who keeps the partitions of a namespace, in their order.
    pub(super) fn lists(&self, space: u32) -> Vec<Arc<Route>> {
        let copies = self.topology.copies(space).unwrap_or(0);
        Partition::all().map(|partition| self.route(partition, copies).clone()).collect()
    }

    fn answer_scan(&mut self, t: &mut Turn<'_>, mut scanning: Scanning) {
        if let Some(query) = scanning.query.take() {
            return self.answer_query(t, scanning, &query);
        }
        let Scanning { token, scan, heard, .. } = scanning;
        let lists = self.lists(scan.space);
        let n_missing = lists.iter().filter(|route| !covered(route, &scan, &heard)).count();
        // The page ends where the first of those who were heard has more to say.
        let frontier = heard.iter().filter_map(|heard| heard.upto.clone()).min();
        let mut versions: BTreeMap<Key, Vec<Record>> = BTreeMap::new();
        for Heard { from, records, .. } in heard {
            for (key, record) in records {
                let known = lists[key.partition().idx()].read.contains(&from);
                let early = frontier.as_ref().is_none_or(|frontier| key.name() <= *frontier);
                if known && early {
                    versions.entry(key).or_default().push(record);
                }
            }
        }
        let mut scanned = Scanned { n_missing: n_missing as u16, ..Scanned::default() };
        scanned.next = frontier.map(|name| after(&name));
        for (key, records) in versions {
            let live = join(records.into_iter()).filter(|record| record.is_live(t.now.wall_ms));
            if let Some(record) = live {
                if scanned.records.len() == scan.limit.clamp(1, MESH_PAGE_KEYS_MAX) {
                    scanned.next = scanned.records.last().map(|(key, _)| after(&key.name()));
                    break;
                }
                scanned.records.push((key, *self.show(t, Box::new(record))));
            }
        }
        t.out.replies.push((token, Reply::Scanned(scanned)));
    }
}

/// The next name in order.
fn after(name: &[u8]) -> Bytes {
    [name, b"\0"].concat().into()
}
