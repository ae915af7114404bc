//! The sweep behind a clear: some rows at a time, what the clear has seen is removed, and survivors are counted.
//! What a clear has seen is hidden before, so the sweep changes nothing that is shown. Where the clear began, it also tells the
//! other replicas how much of each counter the clear has seen: a clear says so of dots, and amounts are sums of many.

use super::delta::{CollectionDelta, ElementDelta};
use super::element::ElementState;
use super::header::CollectionHeader;
use super::merge::{CollectionChange, TypeVerdict};
use super::view::{self, CollectionRows, Direction, RangeOrder};
use super::writer::CollectionWriter;
use crate::context::Context;
use crate::rows::Row;
use bytes::Bytes;

pub struct SweepStep {
    pub change: CollectionChange,
    /// For the other replicas and regions.
    pub delta: Option<CollectionDelta>,
}

/// Sweeps up to `rows_max` rows. None where nothing is to be swept.
pub fn sweep(header: &CollectionHeader, rows: &dyn CollectionRows, rows_max: usize) -> Option<SweepStep> {
    let sweep = header.sweep.as_ref()?;
    let mut writer = CollectionWriter::new(header, rows);
    let mut found = Vec::new();
    rows.scan(&view::elements_after(sweep.after.as_deref()), Direction::Up, &mut |row, value| {
        let name = view::element_name(row).expect("a row that we wrote can be read");
        found.push((name, value.clone()));
        found.len() < rows_max
    });
    let mut told = Vec::new();
    for (name, row) in &found {
        writer.sweep(name, row);
        if sweep.tells {
            told.extend(cleared_amounts(&writer.header, name, row));
        }
    }
    let mut old_ranges = Vec::new();
    if found.len() < rows_max {
        old_ranges = ranges_before(header, rows, rows_max - found.len());
        if let Some(sweep) = &mut writer.header.sweep {
            sweep.recounts = false;
        }
        if found.len() + old_ranges.len() < rows_max {
            writer.header.sweep = None;
        }
    }
    let (header, mut rows) = writer.finish();
    rows.extend(old_ranges.into_iter().map(|key| Row { key, value: None }));
    let delta = (!told.is_empty()).then(|| CollectionDelta {
        of: header.of,
        context: Context::default(),
        cleared: header.cleared.clone(),
        expiry: Vec::new(),
        elements: told,
    });
    Some(SweepStep { change: CollectionChange { header, rows, verdict: TypeVerdict::Same }, delta })
}

/// Removes up to `max` fields whose time has come. None where there are none.
pub fn expire_fields(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    wall_ms: u64,
    max: usize,
) -> Option<CollectionChange> {
    let mut due = Vec::new();
    rows.scan(&view::expiries_upto(wall_ms), Direction::Up, &mut |row, _| {
        due.push(view::expiry_row_name(row).expect("a row that we wrote can be read"));
        due.len() < max
    });
    if due.is_empty() {
        return None;
    }
    let mut writer = CollectionWriter::new(header, rows);
    for name in due {
        let stored = writer.load(&name);
        let mut state = stored.state.clone();
        state.remove(&mut writer.header.context);
        writer.store(&name, &stored, &state);
    }
    let (header, rows) = writer.finish();
    Some(CollectionChange { header, rows, verdict: TypeVerdict::Same })
}

/// When the first field of a collection expires.
pub fn first_expiry(rows: &dyn CollectionRows) -> Option<u64> {
    let mut first = None;
    rows.scan(&view::expiries_upto(u64::MAX), Direction::Up, &mut |row, _| {
        first = view::expires_ms(row);
        false
    });
    first
}

/// When the first of the fields that rows are about to say expires.
pub fn next_expiry(changed: &[Row]) -> Option<u64> {
    let put = changed.iter().filter(|row| row.value.is_some());
    put.filter_map(|row| view::expires_ms(&row.key)).min()
}

fn cleared_amounts(header: &CollectionHeader, name: &Bytes, row: &Bytes) -> Option<ElementDelta> {
    let counter = header.settled(Some(row)).counter.cleared_part();
    let state = ElementState { counter, ..ElementState::default() };
    (!state.is_vacant()).then(|| ElementDelta { name: name.clone(), state })
}

/// Rows of trees that a clear has put out of use.
fn ranges_before(header: &CollectionHeader, rows: &dyn CollectionRows, max: usize) -> Vec<Bytes> {
    let mut found = Vec::new();
    for order in [RangeOrder::ByElement, RangeOrder::ByScore] {
        if found.len() < max {
            rows.scan(&view::trees_before(order, header.generation), Direction::Up, &mut |row, _| {
                found.push(Bytes::copy_from_slice(row));
                found.len() < max
            });
        }
    }
    found
}
