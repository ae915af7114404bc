//! Sets that 0.1.0 kept as one record become rows. The rows are a function of the record alone, so replicas that convert their records one
//! by one, before or after they have merged them, come to the same rows.

use super::element::{Cell, CellValue, ElementState};
use super::header::{CollectionHeader, CollectionKind, CollectionType};
use super::merge::{CollectionChange, TypeVerdict};
use super::view::{CollectionRows, Direction, RowRange};
use super::writer::{CollectionWriter, StoredElement};
use crate::record::{Body, Record};
use bytes::Bytes;

/// Below a record there are no rows yet.
struct NoRows;

impl CollectionRows for NoRows {
    fn get(&self, _: &[u8]) -> Option<Bytes> {
        None
    }

    fn scan(&self, _: &RowRange, _: Direction, _: &mut dyn FnMut(&[u8], &Bytes) -> bool) {}
}

/// The header and the rows of a set; none for a record of another type.
pub fn convert(record: &Record) -> Option<CollectionChange> {
    let Body::Set(set) = &record.body else { return None };
    let of = CollectionType { era: record.era, kind: CollectionKind::Set };
    let header = CollectionHeader { context: record.context.clone(), ..CollectionHeader::new(of) };
    let mut writer = CollectionWriter::new(&header, &NoRows);
    let none = StoredElement { row: None, state: ElementState::default() };
    for (name, dots) in set.entries() {
        let cells = dots.iter().map(|dot| Cell { dot: *dot, value: CellValue::Member });
        let state = ElementState { cells: cells.collect(), ..ElementState::default() };
        writer.store(name, &none, &state);
    }
    let (header, rows) = writer.finish();
    Some(CollectionChange { header, rows, verdict: TypeVerdict::Same })
}
