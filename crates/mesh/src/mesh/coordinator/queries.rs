//! Queries: every node scans its own index and returns matching records of its partitions, up to a cursor; the page ends
//! where the shortest reply ends. As with scans, the reply counts partitions of which too few replicas answered. A record
//! that is written between two pages may appear again under its new cursor.

use crate::frame::{Frame, OpId};
use crate::hlc::Stamp;
use crate::index::{self, IndexScan};
use crate::key::Key;
use crate::mesh::coordinator::scans::{ScanAnswer, ScanOp, covered};
use crate::mesh::{Mesh, Operation, Then, Turn};
use crate::query::Query;
use crate::record::Record;
use crate::request::{Reply, Scan, ScanPage, ScanView};
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows that one node looks at, and bytes of records that it gives, for one page.
const ROWS_MAX: usize = 4_096;
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

impl Mesh {
    pub(in crate::mesh) fn start_query(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        query: Query,
        deadline: Instant,
    ) {
        if self.membership.topology.copies(query.namespace_id).is_none() {
            return t.out.replies.push((token, Reply::Refused(Code::UnknownSpace)));
        }
        let limit = query.limit.clamp(1, MESH_PAGE_KEYS_MAX as u16);
        // A time up to which is asked for makes the order that of time.
        let since = query.since.or(query.until.map(|_| Stamp::ZERO));
        let query = Query { limit, since, ..query };
        let scan = Scan {
            namespace_id: query.namespace_id,
            start: Bytes::new(),
            end: None,
            limit: limit.into(),
            r: None,
            view: ScanView::default(),
        };
        let nodes = self.membership.topology.members().iter().map(|member| member.node);
        let asked: Vec<NodeId> =
            { nodes }.filter(|node| self.membership.peers.may_ask(*node, t.now.at)).collect();
        let scanning = ScanOp {
            token,
            scan,
            query: Some(query.clone()),
            asked,
            rest: Vec::new(),
            asked_plainly: Vec::new(),
            heard: Vec::new(),
            draft: None,
        };
        let others: Vec<NodeId> =
            scanning.asked.iter().copied().filter(|node| *node != self.membership.me).collect();
        let id = self.coordinator.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        for node in others {
            self.send(t, node, Frame::Select { id, query: Box::new(query.clone()) });
        }
        if self.membership.is_serving() {
            let (records, upto) = self.select(t, &query);
            self.step_collected(t, self.membership.me, id, records, upto);
        } else {
            self.decline_scan(t, self.membership.me, id);
        }
    }

    pub(in crate::mesh) fn step_select(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, query: &Query) {
        if !self.membership.is_serving() {
            return self.send(t, from, Frame::Declined { id });
        }
        let (records, upto) = self.select(t, query);
        let seq = self.replica.storage.horizon();
        self.after(t, seq, Then::Send(from, Frame::Collected { id, records, upto }));
    }

    /// What this node has of its own partitions, and the place up to which nothing is missing; none at the end.
    fn select(&self, t: &Turn<'_>, query: &Query) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
        let scan_range = IndexScan::of(query);
        let Some(copies) = self.membership.topology.copies(query.namespace_id) else {
            return (Vec::new(), None);
        };
        let mine =
            |key: &Key| self.membership.route(key.partition(), copies).read.contains(&self.membership.me);
        let (mut found, mut upto, mut bytes, mut n) = (Vec::new(), None, 0, 0);
        self.replica.storage.scan(t.rows, &scan_range.from, &scan_range.to, &mut |row, _| {
            let Some((cursor, key)) = scan_range.read(row) else { return true };
            n += 1;
            let local = self.replica.load(t, &key);
            let matches_query = |record: &Record| index::matches(query, &key, record);
            if let (Some(record), true) =
                (local.bytes, local.record.as_ref().is_some_and(matches_query) && mine(&key))
            {
                bytes += record.len();
                found.push((key, record));
            }
            let full = found.len() >= query.limit.into() || n >= ROWS_MAX || bytes > PAGE_BYTES_SOFT;
            upto = full.then_some(cursor);
            !full
        });
        (found, upto)
    }

    pub(in crate::mesh) fn answer_query(&mut self, t: &mut Turn<'_>, scanning: ScanOp, query: &Query) {
        let ScanOp { token, scan, heard, .. } = scanning;
        let scan_range = IndexScan::of(query);
        let lists = self.membership.lists(scan.namespace_id);
        let n_missing = lists.iter().filter(|route| !covered(route, &scan, &heard)).count() as u16;
        // The page ends where the first replica's page ends, because that replica has more rows.
        let frontier = heard.iter().filter_map(|heard| heard.upto.clone()).min();
        let mut versions: BTreeMap<Key, Vec<Record>> = BTreeMap::new();
        for ScanAnswer { from, records, .. } in heard {
            for (key, record) in records {
                if lists[key.partition().idx()].read.contains(&from) {
                    versions.entry(key).or_default().extend(record);
                }
            }
        }
        let mut page: BTreeMap<Bytes, (Key, Record)> = BTreeMap::new();
        for (key, records) in versions {
            let joined = crate::mesh::coordinator::writes::join(records.into_iter());
            let matches_query =
                |record: &Record| index::matches(query, &key, record) && record.is_live(t.now.wall_ms);
            if let Some(record) = joined.filter(matches_query) {
                page.insert(scan_range.cursor_of(&key, &record), (key, record));
            }
        }
        let mut scanned = ScanPage { n_missing, next: frontier.clone(), ..ScanPage::default() };
        for (cursor, (key, record)) in page {
            if frontier.as_ref().is_some_and(|frontier| cursor > *frontier) {
                break;
            }
            scanned.records.push((key, *self.coordinator.show(t, Box::new(record))));
            if scanned.records.len() == scan.limit {
                scanned.next = Some(cursor);
                break;
            }
        }
        if scanned.next.as_ref().is_some_and(|next| scan_range.is_past(query, next)) {
            scanned.next = None;
        }
        t.out.replies.push((token, Reply::Scanned(scanned)));
    }
}
