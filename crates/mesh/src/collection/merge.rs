//! Takes a delta in: what it adds that was not seen yet comes, what it has seen and no longer has goes, and all else stays.
//! Only the rows that the delta names are read. Merging is commutative, associative and idempotent, so deltas may come in any
//! order and any number of times; one that is missing leaves a gap in the context, which the next comparison closes.

use super::delta::CollectionDelta;
use super::element::ElementState;
use super::header::{CollectionHeader, Expiry};
use super::view::{self, CollectionRows};
use super::writer::{CollectionWriter, Origin};
use crate::context::Context;
use crate::mutant::Mutant;
use crate::rows::Row;
use base::mutant::planted;
use std::cmp::Ordering;

/// What a change makes of a collection: the header and the rows go into one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionChange {
    pub header: CollectionHeader,
    /// Their keys are relative to the collection's.
    pub rows: Vec<Row>,
    pub verdict: TypeVerdict,
}

impl CollectionChange {
    /// An element as it is now, if the change has touched it and it is there.
    pub fn element(&self, name: &[u8]) -> Option<ElementState> {
        let key = view::element(name);
        let found = self.rows.binary_search_by(|row| row.key.cmp(&key)).ok()?;
        let state = self.header.settled(self.rows[found].value.as_ref());
        state.is_visible().then_some(state)
    }
}

/// How the type of a delta stands to that of the collection. The loser goes to the log of conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeVerdict {
    Same,
    /// The delta is of a type that loses: only its context is kept.
    DeltaLost,
    /// The collection was of a type that loses: its elements are gone.
    CollectionLost,
}

/// The context has so many gaps that the delta would make it too long: the replica has to be compared with others first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyGaps;

/// A context of so many spans takes no delta that leaves another gap.
pub(super) const SPANS_MAX: usize = 1_024;

/// Merges a delta of another replica, new or repeated.
pub fn merge(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    delta: &CollectionDelta,
) -> Result<CollectionChange, TooManyGaps> {
    merge_from(header, rows, delta, Origin::Elsewhere)
}

/// Merges a delta that this replica made.
pub fn merge_own(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    delta: &CollectionDelta,
) -> Result<CollectionChange, TooManyGaps> {
    merge_from(header, rows, delta, Origin::Here)
}

fn merge_from(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    delta: &CollectionDelta,
    origin: Origin,
) -> Result<CollectionChange, TooManyGaps> {
    let mut writer = CollectionWriter::new(header, rows);
    let verdict = match delta.of.cmp(&header.of) {
        Ordering::Equal => TypeVerdict::Same,
        Ordering::Less => TypeVerdict::DeltaLost,
        Ordering::Greater => TypeVerdict::CollectionLost,
    };
    if verdict == TypeVerdict::CollectionLost {
        let all = writer.header.context.clone();
        writer.clear(&all, Origin::Elsewhere);
        writer.header.of = delta.of;
    }
    if verdict != TypeVerdict::DeltaLost {
        writer.clear(&delta.cleared, origin);
        take_in(&mut writer, delta);
    }
    let mut context = writer.header.context.clone();
    context.join(&delta.context);
    context.join(&delta.cleared);
    let (before, after) = (header.context.spans().len(), context.spans().len());
    if after > before && after > SPANS_MAX {
        return Err(TooManyGaps);
    }
    writer.header.context = context;
    let (header, rows) = writer.finish();
    Ok(CollectionChange { header, rows, verdict })
}

fn take_in(writer: &mut CollectionWriter<'_>, delta: &CollectionDelta) {
    let seen = writer.header.context.clone();
    let expiry = Expiry::join((&writer.header.expiry, &seen), (&delta.expiry, &delta.context));
    writer.header.expiry = expiry;
    let seen = if planted(Mutant::SeenReturns) { Context::default() } else { seen };
    for element in &delta.elements {
        let stored = writer.load(&element.name);
        // A write that a clear has seen may come late, and what its actor had counted by then is cleared with it.
        let mut incoming = element.state.clone();
        incoming.settle(&writer.header.cleared);
        let state = ElementState::join((&stored.state, &seen), (&incoming, &delta.context));
        writer.store(&element.name, &stored, &state);
    }
}
