//! What one node has for a page of a scan. The index by type has the names of live records in order, so a page reads as many
//! rows as it shows, and no more values than fit into it. Tombstones are in no index: the coordinator asks again for keys that
//! only some of the replicas know.

use crate::index;
use crate::key::Key;
use crate::mesh::{Mesh, Turn};
use crate::query::ScanRange;
use crate::record::Kind;
use crate::ring::PARTITIONS;
use crate::rows;
use bytes::Bytes;

/// Rows of an index that are looked at for one page, where most are of partitions that others keep.
const ROWS_MAX: usize = 4_096;
/// Bytes of records after which a page ends: it has one at least.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

/// Names of one type.
#[derive(Default)]
struct IndexPage {
    /// The second: whether the record must be read to know that it has not expired.
    found: Vec<(Key, bool)>,
    /// Where looking ended, if there may be more.
    upto: Option<Key>,
}

impl Mesh {
    /// Records of the node's own partitions in order, without their bytes if names are wanted alone, and the last name up to
    /// which nothing is missing; none at the end.
    pub(in crate::mesh) fn gather_range(
        &self,
        t: &Turn<'_>,
        wanted: &ScanRange,
    ) -> (Vec<(Key, Bytes)>, Option<Bytes>) {
        let Some(mine) = self.own_partitions(wanted.namespace_id) else { return (Vec::new(), None) };
        let pages: Vec<IndexPage> =
            Kind::ALL.into_iter().map(|kind| self.index_page(t, kind, wanted, &mine)).collect();
        let is_reverse = wanted.view.reverse;
        let order = |left: &Key, right: &Key| {
            if is_reverse { right.cmp(left) } else { left.cmp(right) }
        };
        let mut upto = pages.iter().filter_map(|page| page.upto.clone()).min_by(order);
        let mut found: Vec<(Key, bool)> = pages.into_iter().flat_map(|page| page.found).collect();
        found.sort_unstable_by(|left, right| order(&left.0, &right.0));
        let within = |(key, _): &(Key, bool)| upto.as_ref().is_none_or(|upto| order(key, upto).is_le());
        let n = found.partition_point(within).min(wanted.limit.into());
        if n < found.len() {
            found.truncate(n);
            upto = found.last().map(|(key, _)| key.clone());
        }
        let (mut page, mut bytes) = (Vec::with_capacity(found.len()), 0);
        let mut found = found.into_iter().peekable();
        while let Some((key, may_expire)) = found.next() {
            if wanted.view.keys_only && !may_expire {
                page.push((key, Bytes::new()));
                continue;
            }
            let Some(record) = self.replica.storage.get(t.rows, &rows::record(&key)).0 else { continue };
            if wanted.view.keys_only {
                let is_live =
                    crate::record::Record::decode(record).is_some_and(|record| record.is_live(t.now.wall_ms));
                page.extend(is_live.then(|| (key, Bytes::new())));
                continue;
            }
            bytes += record.len();
            page.push((key.clone(), record));
            if bytes > PAGE_BYTES_SOFT && found.peek().is_some() {
                upto = Some(key);
                break;
            }
        }
        (page, upto.map(|key| key.name()))
    }

    /// By partition, whether this node is asked for it.
    fn own_partitions(&self, namespace_id: u32) -> Option<[bool; PARTITIONS]> {
        self.membership.topology.copies(namespace_id)?;
        let mut mine = [false; PARTITIONS];
        let lists = self.membership.lists(namespace_id);
        for (mine, route) in mine.iter_mut().zip(lists) {
            *mine = route.read.contains(&self.membership.me);
        }
        Some(mine)
    }

    fn index_page(
        &self,
        t: &Turn<'_>,
        kind: Kind,
        wanted: &ScanRange,
        mine: &[bool; PARTITIONS],
    ) -> IndexPage {
        let (from, to) =
            index::names_of_kind(kind, wanted.namespace_id, &wanted.start, wanted.end.as_deref());
        let (mut page, mut n_rows) = (IndexPage::default(), 0);
        let mut visit = |row: &[u8], value: &Bytes| {
            let Some(key) = index::named_key(row) else { return true };
            n_rows += 1;
            let is_full = page.found.len() >= wanted.limit.into() || n_rows > ROWS_MAX;
            if is_full {
                // What was found before stays; the last of it is where looking ended.
                return false;
            }
            page.upto = Some(key.clone());
            if mine[key.partition().idx()] {
                page.found.push((key, index::may_expire(value)));
            }
            true
        };
        let mut is_whole = true;
        let mut watched = |row: &[u8], value: &Bytes| {
            let goes_on = visit(row, value);
            is_whole &= goes_on;
            goes_on
        };
        if wanted.view.reverse {
            self.replica.storage.scan_down(t.rows, &from, &to, &mut watched);
        } else {
            self.replica.storage.scan(t.rows, &from, &to, &mut watched);
        }
        if is_whole {
            page.upto = None;
        }
        page
    }
}
