//! Rows as they will be when the changes of one operation are written.
//! Reads see the changes; in the end they are handed out as rows, and nothing that stays as it was is among them.

use super::view::{CollectionRows, Direction, RowRange};
use crate::rows::Row;
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) struct Draft<'a> {
    rows: &'a dyn CollectionRows,
    changes: BTreeMap<Bytes, Option<Bytes>>,
}

impl<'a> Draft<'a> {
    pub fn new(rows: &'a dyn CollectionRows) -> Draft<'a> {
        Draft { rows, changes: BTreeMap::new() }
    }

    pub fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        self.changes.insert(key, value);
    }

    pub fn into_rows(self) -> Vec<Row> {
        self.changes.into_iter().map(|(key, value)| Row { key, value }).collect()
    }
}

impl CollectionRows for Draft<'_> {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.changes.get(key).map_or_else(|| self.rows.get(key), Clone::clone)
    }

    fn scan(&self, range: &RowRange, direction: Direction, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        if range.is_empty() {
            return;
        }
        let changes = self.changes.range(range.from.clone()..range.to.clone());
        match direction {
            Direction::Up => self.scan_with(range, direction, changes, visit),
            Direction::Down => self.scan_with(range, direction, changes.rev(), visit),
        }
    }
}

impl Draft<'_> {
    fn scan_with<'c>(
        &self,
        range: &RowRange,
        direction: Direction,
        changes: impl Iterator<Item = (&'c Bytes, &'c Option<Bytes>)>,
        visit: &mut dyn FnMut(&[u8], &Bytes) -> bool,
    ) {
        let mut changes = changes.peekable();
        let is_due = |change: &Bytes, key: &[u8]| match direction {
            Direction::Up => **change <= *key,
            Direction::Down => **change >= *key,
        };
        let mut going = true;
        self.rows.scan(range, direction, &mut |key, value| {
            while let Some((changed, new)) = changes.next_if(|(changed, _)| is_due(changed, key)) {
                going = new.as_ref().is_none_or(|new| visit(changed, new));
                if !going || **changed == *key {
                    return going;
                }
            }
            going = visit(key, value);
            going
        });
        for (changed, new) in changes {
            if !going {
                return;
            }
            going = new.as_ref().is_none_or(|new| visit(changed, new));
        }
    }
}
