//! Elements of collections in backups. A page that a quorum has agreed on becomes rows below the key; rows become operations as
//! clients have them, so that what is restored gets new dots, stamps and positions.

use crate::collection::{
    CollectionKind, CollectionOp, ElementEntry, ElementState, InsertPosition, element_row, element_row_name,
    is_lawful_element,
};
use crate::key::Key;
use crate::mutant::Mutant;
use crate::request::ElementsPage;
use crate::rows;
use base::mutant::planted;
use bytes::Bytes;

/// The rows that a backup keeps of a page: those of its elements, and before those of the first page that of the record.
pub fn rows_of_elements(key: &Key, page: &ElementsPage, is_first: bool) -> Vec<(Bytes, Bytes)> {
    let record = page.record.as_ref().filter(|_| is_first);
    let record = record.map(|record| (rows::record(key), record.encode()));
    let below = rows::collection(key);
    let row = |entry: &ElementEntry| {
        ([&below[..], &element_row(&entry.name)].concat().into(), entry.state.encode())
    };
    let elements = page.elements.iter().filter(|_| !planted(Mutant::BackupWithoutElements));
    record.into_iter().chain(elements.map(row)).collect()
}

/// The element in a row of a backup; none if the row holds none that a collection of this type can have.
pub fn element_of_row(kind: CollectionKind, row: &[u8], value: &Bytes) -> Option<ElementEntry> {
    let (_, below) = rows::collection_key(row).filter(|_| rows::is_below_collection(row))?;
    let (name, state) = (element_row_name(below)?, ElementState::decode(value.clone())?);
    is_lawful_element(kind, &name, &state).then_some(ElementEntry { name, state })
}

/// The operations that put elements into a collection that does not have them. Items of a list come behind those that are there.
pub fn restoring_elements(kind: CollectionKind, elements: &[ElementEntry]) -> Vec<CollectionOp> {
    let visible = || elements.iter().filter(|entry| entry.state.is_visible());
    let names = || visible().map(|entry| entry.name.clone()).collect::<Vec<_>>();
    let values = || visible().filter_map(|entry| entry.state.register().cloned()).collect::<Vec<_>>();
    let op_of = |entry: &ElementEntry| {
        let (name, state) = (entry.name.clone(), &entry.state);
        match (kind, state.register()) {
            (CollectionKind::Flag, _) => CollectionOp::Enable,
            (CollectionKind::SortedSet, _) => CollectionOp::SetScore { member: name, score: state.score() },
            (CollectionKind::HyperLogLog, _) => {
                CollectionOp::RaiseRegister { register: name, rank: state.rank() }
            }
            (_, Some(value)) => {
                CollectionOp::SetField { field: name, value: value.clone(), expires_ms: state.expires_ms() }
            }
            (_, None) => CollectionOp::Increment { name, by: state.amount() },
        }
    };
    if visible().next().is_none() {
        return Vec::new();
    }
    match kind {
        CollectionKind::Set => vec![CollectionOp::Add(names())],
        CollectionKind::List => vec![CollectionOp::Insert { place: InsertPosition::Last, values: values() }],
        _ => visible().map(op_of).collect(),
    }
}
