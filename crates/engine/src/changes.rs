//! The changes of a store, in the order of their revisions, some at a time.

use crate::error::Error;
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use coord::rows::{CorruptRow, LoggedChange, parse_log_key, read_record};
use coord::{Record, etcd};
use disk::StoreView;
use std::ops::Bound;
use std::sync::Arc;

/// Changes that are read together.
const CHANGES_AT_ONCE: usize = 256;

pub(crate) struct ChangeReader {
    view: Arc<StoreView>,
    /// The key of the last change that was read.
    after: Option<Vec<u8>>,
}

pub(crate) struct PositionedChange {
    pub revision: Revision,
    pub sub: u32,
    pub logged: LoggedChange,
}

impl ChangeReader {
    pub fn new(view: Arc<StoreView>) -> ChangeReader {
        ChangeReader { view, after: None }
    }

    /// The next changes; empty when all were read.
    pub fn next(&mut self) -> Result<Vec<PositionedChange>, Error> {
        let mut rows = Vec::new();
        let from = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.view.scan(Table::Log, from, Bound::Unbounded, &mut |key, value| {
            rows.push((key.to_vec(), Bytes::copy_from_slice(value)));
            rows.len() < CHANGES_AT_ONCE
        });
        self.after = rows.last().map(|(key, _)| key.clone()).or(self.after.take());
        rows.into_iter().map(|(key, value)| Ok(parse(&key, value)?)).collect()
    }

    /// A change as a row of etcd's bucket of keys.
    pub fn etcd_row(&self, change: &PositionedChange) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let PositionedChange { revision, sub, logged } = change;
        Ok(etcd::key_row(*revision, *sub, logged, self.record(change)?.as_ref()))
    }

    fn record(&self, change: &PositionedChange) -> Result<Option<Record>, CorruptRow> {
        let PositionedChange { revision, logged, .. } = change;
        if logged.put.is_none() {
            return Ok(None);
        }
        let missing = || CorruptRow::new(Table::Versions, &logged.key, "a version of the log is missing");
        read_record(&*self.view, &logged.key, *revision)?.ok_or_else(missing).map(Some)
    }
}

fn parse(key: &[u8], value: Bytes) -> Result<PositionedChange, CorruptRow> {
    let malformed = || CorruptRow::malformed(Table::Log, key);
    let (revision, sub) = parse_log_key(key).ok_or_else(malformed)?;
    Ok(PositionedChange { revision, sub, logged: LoggedChange::from_row(value).ok_or_else(malformed)? })
}
