//! The rows of a backup, bucket by bucket in the order of their names, as many at a time as fill some pages.

use super::{BackupOrigin, ORIGIN_ROW, OWN_BUCKET};
use crate::changes::ChangeReader;
use crate::error::Error;
use base::{ReadView, Table};
use bbolt::Writer;
use coord::etcd::{self, bucket};
use coord::rebase;
use disk::StoreView;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

pub(super) struct Export {
    view: Arc<StoreView>,
    parts: VecDeque<ExportPart>,
}

enum ExportPart {
    /// A bucket whose rows are few.
    Rows(&'static str, Vec<(Vec<u8>, Vec<u8>)>),
    /// Rows of a table that etcd has no bucket for, after this key.
    Table(Table, Option<Vec<u8>>),
    /// The keys and their past.
    Keys(ChangeReader),
}

impl Export {
    pub fn new(view: Arc<StoreView>, taken: BackupOrigin) -> Result<Export, Error> {
        let mut parts: VecDeque<ExportPart> = VecDeque::new();
        for (name, rows) in etcd::small_buckets(&*view)? {
            if name > OWN_BUCKET && !parts.iter().any(|part| matches!(part, ExportPart::Table(..))) {
                parts.extend(Table::ALL.map(|table| ExportPart::Table(table, None)));
                parts.push_back(ExportPart::Rows(OWN_BUCKET, vec![(vec![ORIGIN_ROW], taken.encode())]));
            }
            if name > bucket::KEY && !parts.iter().any(|part| matches!(part, ExportPart::Keys(_))) {
                parts.push_back(ExportPart::Keys(ChangeReader::new(view.clone())));
            }
            parts.push_back(ExportPart::Rows(name, rows));
        }
        Ok(Export { view, parts })
    }

    /// Adds rows until so many bytes of pages wait. Whether there are more.
    pub fn fill(&mut self, writer: &mut Writer, bytes: usize) -> Result<bool, Error> {
        while writer.waiting() < bytes {
            let Some(part) = self.parts.pop_front() else { return Ok(false) };
            if let Some(rest) = self.add(part, writer, bytes)? {
                self.parts.push_front(rest);
            }
        }
        Ok(true)
    }

    /// Returns the rest of a part.
    fn add(&self, part: ExportPart, writer: &mut Writer, bytes: usize) -> Result<Option<ExportPart>, Error> {
        match part {
            ExportPart::Rows(name, rows) => {
                writer.bucket(name.as_bytes());
                rows.iter().for_each(|(key, value)| writer.row(key, value));
                Ok(None)
            }
            ExportPart::Table(table, after) => {
                writer.bucket(OWN_BUCKET.as_bytes());
                Ok(self
                    .add_table(table, after, writer, bytes)
                    .map(|last| ExportPart::Table(table, Some(last))))
            }
            ExportPart::Keys(mut changes) => {
                writer.bucket(bucket::KEY.as_bytes());
                Ok(Export::add_keys(&mut changes, writer)?.then_some(ExportPart::Keys(changes)))
            }
        }
    }

    fn add_table(
        &self,
        table: Table,
        after: Option<Vec<u8>>,
        writer: &mut Writer,
        bytes: usize,
    ) -> Option<Vec<u8>> {
        let mut last = None;
        let from = after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.view.scan(table, from, Bound::Unbounded, &mut |key, value| {
            if rebase::is_beside_keys(table, key) {
                writer.row(&[&[table as u8], key].concat(), value);
            }
            let is_full = writer.waiting() >= bytes;
            last = is_full.then(|| key.to_vec());
            !is_full
        });
        last
    }

    /// Whether there are more.
    fn add_keys(changes: &mut ChangeReader, writer: &mut Writer) -> Result<bool, Error> {
        let some = changes.next()?;
        for change in &some {
            let (key, value) = changes.etcd_row(change)?;
            writer.row(&key, &value);
        }
        Ok(!some.is_empty())
    }
}
