//! Queries: every node scans its own index and returns matching records of its partitions, up to a cursor; the page ends
//! where the shortest reply ends. As with scans, the reply counts partitions of which too few replicas answered. A record
//! that is written between two pages may appear again under its new cursor.

use super::scans::{Heard, Scanning, covered};
use super::{Mesh, Operation, Then, Turn};
use crate::frame::{Ask, Frame};
use crate::index::{self, Walk};
use crate::key::Key;
use crate::query::Query;
use crate::record::Record;
use crate::request::{Reply, Scan, Scanned};
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, Instant, NodeId, Token};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows that one node looks at, and bytes of records that it gives, for one page.
const ROWS_MAX: usize = 4_096;
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

impl Mesh {
    pub(super) fn start_query(&mut self, t: &mut Turn<'_>, token: Token, query: Query, deadline: Instant) {
        if self.topology.copies(query.space).is_none() {
            return t.out.replies.push((token, Reply::Refused(Code::UnknownSpace)));
        }
        let limit = query.limit.clamp(1, MESH_PAGE_KEYS_MAX as u16);
        let query = Query { limit, ..query };
        let scan = Scan { space: query.space, start: Bytes::new(), end: None, limit: limit.into(), r: None };
        let nodes = self.topology.members().iter().map(|member| member.node);
        let asked: Vec<NodeId> = { nodes }.filter(|node| self.peers.may_ask(*node, t.now.at)).collect();
        let scanning = Scanning { token, scan, query: Some(query.clone()), asked, heard: Vec::new() };
        let others: Vec<NodeId> = scanning.asked.iter().copied().filter(|node| *node != self.me).collect();
        let ask = self.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        for node in others {
            self.send(t, node, Frame::Select { ask, query: Box::new(query.clone()) });
        }
        if self.is_serving() {
            let (records, upto) = self.select(t, &query);
            self.step_collected(t, self.me, ask, records, upto);
        } else {
            self.decline_scan(t, self.me, ask);
        }
    }

    pub(super) fn step_select(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, query: &Query) {
        if !self.is_serving() {
            return self.send(t, from, Frame::Declined { ask });
        }
        let (records, upto) = self.select(t, query);
        let seq = self.horizon();
        self.after(t, seq, Then::Send(from, Frame::Collected { ask, records, upto }));
    }

    /// What this node has of its own partitions, and the place up to which nothing is missing; none at the end.
    fn select(&self, t: &Turn<'_>, query: &Query) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
        let walk = Walk::of(query);
        let Some(copies) = self.topology.copies(query.space) else { return (Vec::new(), None) };
        let mine = |key: &Key| self.route(key.partition(), copies).read.contains(&self.me);
        let (mut found, mut upto, mut bytes, mut n) = (Vec::new(), None, 0, 0);
        self.overlay.scan(t.rows, &walk.from, &walk.to, &mut |row, _| {
            let Some((place, key)) = walk.read(row) else { return true };
            n += 1;
            let local = self.load(t, &key);
            let suits = |record: &Record| index::suits(query, &key, record);
            if let (Some(record), true) =
                (local.bytes, local.record.as_ref().is_some_and(suits) && mine(&key))
            {
                bytes += record.len();
                found.push((key, record));
            }
            let full = found.len() >= query.limit.into() || n >= ROWS_MAX || bytes > PAGE_BYTES_SOFT;
            upto = full.then_some(place);
            !full
        });
        (found, upto)
    }

    pub(super) fn answer_query(&mut self, t: &mut Turn<'_>, scanning: Scanning, query: &Query) {
        let Scanning { token, scan, heard, .. } = scanning;
        let walk = Walk::of(query);
        let lists = self.lists(scan.space);
        let n_missing = lists.iter().filter(|route| !covered(route, &scan, &heard)).count() as u16;
        // The page ends where the first of those who were heard has more to say.
        let frontier = heard.iter().filter_map(|heard| heard.upto.clone()).min();
        let mut versions: BTreeMap<Key, Vec<Record>> = BTreeMap::new();
        for Heard { from, records, .. } in heard {
            for (key, record) in records {
                if lists[key.partition().idx()].read.contains(&from) {
                    versions.entry(key).or_default().push(record);
                }
            }
        }
        let mut page: BTreeMap<Bytes, (Key, Record)> = BTreeMap::new();
        for (key, records) in versions {
            let joined = super::writes::join(records.into_iter());
            let suits = |record: &Record| index::suits(query, &key, record) && record.is_live(t.now.wall_ms);
            if let Some(record) = joined.filter(suits) {
                page.insert(walk.place(&key, &record), (key, record));
            }
        }
        let mut scanned = Scanned { n_missing, next: frontier.clone(), ..Scanned::default() };
        for (place, (key, record)) in page {
            if frontier.as_ref().is_some_and(|frontier| place > *frontier) {
                break;
            }
            scanned.records.push((key, *self.show(t, Box::new(record))));
            if scanned.records.len() == scan.limit {
                scanned.next = Some(place);
                break;
            }
        }
        t.out.replies.push((token, Reply::Scanned(scanned)));
    }
}
