//! Pages of this node's own rows, for backups. Every row is shown as it is when its page is read, so what was acknowledged before
//! the first page is in one of them. A page is small, because requests wait for it.

use super::{Mesh, Turn};
use crate::request::{Reply, RowPage};
use crate::rows::{self, RowKind, row_kind};
use base::{Code, ReplyToken};
use bytes::Bytes;

/// Rows that are looked at for one page, and bytes of those in it.
const PAGE_ROWS: usize = 1_000;
const PAGE_BYTES_SOFT: usize = 256 * 1024;

impl Mesh {
    pub(super) fn answer_rows(&self, t: &mut Turn<'_>, token: ReplyToken, from: &Bytes) {
        let reply = if self.membership.is_serving() {
            Reply::Rows(Box::new(self.row_page(t, from)))
        } else {
            Reply::Refused(Code::NotInStep)
        };
        t.out.replies.push((token, reply));
    }

    fn row_page(&self, t: &Turn<'_>, from: &Bytes) -> RowPage {
        let mut page = RowPage { epoch: self.membership.topology.epoch, ..RowPage::default() };
        let (mut n_rows, mut bytes) = (0, 0);
        for (first, end) in rows::saved_ranges() {
            let mut last = None;
            self.replica.storage.scan(t.rows, &first.max(from.clone()), &end, &mut |row, value| {
                n_rows += 1;
                last = Some(Bytes::copy_from_slice(row));
                if self.is_saved(row, value) {
                    bytes += row.len() + value.len();
                    page.rows.push((Bytes::copy_from_slice(row), value.clone()));
                }
                n_rows < PAGE_ROWS && bytes < PAGE_BYTES_SOFT
            });
            if n_rows >= PAGE_ROWS || bytes >= PAGE_BYTES_SOFT {
                page.next = last.map(|last| [last.as_ref(), b"\0"].concat().into());
                return page;
            }
        }
        page
    }

    /// Records of shards that this node keeps, and those that it keeps for another node. A shard that it has given up may hold
    /// what was deleted since. What is remembered of requests names dots of this cluster alone.
    fn is_saved(&self, row: &[u8], value: &Bytes) -> bool {
        match row_kind(row) {
            Some(RowKind::Record) => rows::record_key(row)
                .is_some_and(|key| key.request().is_none() && self.membership.keeps_key(&key)),
            Some(RowKind::Hint) => !value.is_empty(),
            _ => true,
        }
    }
}
