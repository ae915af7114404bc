//! What a change of rows shows to those who follow a collection: elements as they are now.

use super::element::ElementState;
use super::header::CollectionHeader;
use super::page::ElementEntry;
use super::view::{self, CollectionRows};
use crate::rows::Row;

/// The elements that are other ones than before, as they are now; vacant if they are gone. The rows are the earlier ones.
pub fn changed_elements(
    before: Option<&CollectionHeader>,
    after: &CollectionHeader,
    rows: &dyn CollectionRows,
    changed: &[Row],
) -> Vec<ElementEntry> {
    let entry = |row: &Row| {
        let name = view::element_name(&row.key)?;
        let was = before.map(|header| header.settled(rows.get(&row.key).as_ref())).unwrap_or_default();
        let is = after.settled(row.value.as_ref());
        let shows = is != was && (is.is_visible() || was.is_visible());
        let state = if is.is_visible() { is } else { ElementState::default() };
        shows.then_some(ElementEntry { name, state })
    };
    changed.iter().filter_map(entry).collect()
}
