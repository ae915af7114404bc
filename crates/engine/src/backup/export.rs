//! The rows of a backup, bucket by bucket in the order of their names, as many at a time as fill some pages.

use super::{OWN_BUCKET, TAKEN_ROW, Taken};
use crate::changes::Changes;
use crate::error::Error;
use base::{Table, View};
use bbolt::Writer;
use coord::etcd::{self, bucket};
use coord::raised;
use disk::StoreView;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

pub(super) struct Export {
    view: Arc<StoreView>,
    parts: VecDeque<Part>,
}

enum Part {
    /// A bucket whose rows are few.
    Rows(&'static str, Vec<(Vec<u8>, Vec<u8>)>),
    /// Rows of a table that etcd has no bucket for, after this key.
    Table(Table, Option<Vec<u8>>),
    /// The keys and their past.
    Keys(Changes),
}

impl Export {
    pub fn new(view: Arc<StoreView>, taken: Taken) -> Result<Export, Error> {
        let mut parts: VecDeque<Part> = VecDeque::new();
        for (name, rows) in etcd::small_buckets(&*view)? {
            if name > OWN_BUCKET && !parts.iter().any(|part| matches!(part, Part::Table(..))) {
                parts.extend(Table::ALL.map(|table| Part::Table(table, None)));
                parts.push_back(Part::Rows(OWN_BUCKET, vec![(vec![TAKEN_ROW], taken.encode())]));
            }
            if name > bucket::KEY && !parts.iter().any(|part| matches!(part, Part::Keys(_))) {
                parts.push_back(Part::Keys(Changes::new(view.clone())));
            }
            parts.push_back(Part::Rows(name, rows));
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
    fn add(&self, part: Part, writer: &mut Writer, bytes: usize) -> Result<Option<Part>, Error> {
        match part {
            Part::Rows(name, rows) => {
                writer.bucket(name.as_bytes());
                rows.iter().for_each(|(key, value)| writer.row(key, value));
                Ok(None)
            }
            Part::Table(table, after) => {
                writer.bucket(OWN_BUCKET.as_bytes());
                Ok(self.add_table(table, after, writer, bytes).map(|last| Part::Table(table, Some(last))))
            }
            Part::Keys(mut changes) => {
                writer.bucket(bucket::KEY.as_bytes());
                Ok(Export::add_keys(&mut changes, writer)?.then_some(Part::Keys(changes)))
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
            if raised::is_beside_keys(table, key) {
                writer.row(&[&[table as u8], key].concat(), value);
            }
            let is_full = writer.waiting() >= bytes;
            last = is_full.then(|| key.to_vec());
            !is_full
        });
        last
    }

    /// Whether there are more.
    fn add_keys(changes: &mut Changes, writer: &mut Writer) -> Result<bool, Error> {
        let some = changes.next()?;
        for change in &some {
            let (key, value) = changes.etcd_row(change)?;
            writer.row(&key, &value);
        }
        Ok(!some.is_empty())
    }
}
