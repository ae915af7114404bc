//! Collections in backups: their elements are read as a quorum has them, and put back some at a time. An element that is there
//! stays, so that a restore which was interrupted goes on where it ended. The items of a list have no names that last: a list
//! goes on only behind the same items.

use super::{BackupApi, Planned, delete_of};
use base::Code;
use mesh::collection::{CollectionKind, ElementEntry};
use mesh::{
    ELEMENTS_MAX, ElementsQuery, Key, NotDone, Record, restoring_elements, restoring_write_of_elements,
    saved_element_of_row, saved_key_of_row, saved_rows_of_elements,
};
use proto::althing::backup::v1 as wire;
use proto::althing::backup::v1::restored_record::Outcome;
use std::collections::BTreeSet;

/// Some elements of a collection of a backup.
pub struct SavedCollection {
    record: Record,
    kind: CollectionKind,
    elements: Vec<ElementEntry>,
    offset: u64,
    /// A row is none of a collection of this type.
    is_lawful: bool,
}

/// None for the record of another type.
pub fn saved_collection(record: &wire::SavedRecord) -> Option<SavedCollection> {
    let is_header = |row: &&wire::Row| saved_key_of_row(&row.key).is_some();
    let row = record.rows.iter().find(is_header)?;
    let saved = Some(&row.value).filter(|value| Record::are_of_collection(value))?;
    let saved = Record::decode(saved.clone())?;
    let kind = saved.kind.collection()?;
    let below: Vec<&wire::Row> = record.rows.iter().filter(|row| !is_header(row)).collect();
    let element = |row: &&wire::Row| saved_element_of_row(kind, &row.key, &row.value);
    let elements: Vec<ElementEntry> = below.iter().filter_map(element).collect();
    let is_lawful = elements.len() == below.len() && below.len() <= ELEMENTS_MAX;
    Some(SavedCollection { record: saved, kind, elements, offset: record.offset, is_lawful })
}

impl BackupApi {
    /// As many replicas answer as the caller wants, or a majority where these cannot.
    pub(super) async fn page_of_elements(
        &self,
        request: wire::ElementsRequest,
    ) -> Result<wire::ElementsResponse, Code> {
        let key = saved_key_of_row(&request.record).ok_or(Code::BadRequest)?;
        let wanted = u8::try_from(request.replicas).map_err(|_| Code::BadQuorum)?;
        let after = request.after.clone();
        let query = ElementsQuery::Page { after, limit: ELEMENTS_MAX };
        let wanted = Some(wanted).filter(|wanted| *wanted > 0);
        let page = match self.read_elements(key.clone(), query.clone(), wanted).await {
            Err(NotDone::Unavailable { .. }) if wanted.is_some() => {
                self.read_elements(key.clone(), query, None).await
            }
            page => page,
        };
        let page = page.map_err(NotDone::code)?;
        let rows = saved_rows_of_elements(&key, &page, request.after.is_none());
        let rows = rows.into_iter().map(|(key, value)| wire::Row { key, value }).collect();
        Ok(wire::ElementsResponse { rows, next: page.next })
    }

    pub(super) async fn plan_collection(
        &self,
        key: &Key,
        saved: SavedCollection,
        present: Option<Record>,
        replace: bool,
    ) -> Result<Planned, Code> {
        let SavedCollection { record, kind, elements, offset, is_lawful } = saved;
        if !is_lawful {
            return Err(Code::BadRequest);
        }
        if elements.is_empty() {
            return Ok(Planned::nothing(Ok(Outcome::Gone)));
        }
        let plan = |outcome, delete, missing: Vec<ElementEntry>| {
            let (n, ops) = (missing.len() as u64, restoring_elements(kind, &missing));
            let write = (!ops.is_empty()).then(|| restoring_write_of_elements(key.clone(), &record, ops));
            Planned { delete, write, elements: n, ..Planned::nothing(Ok(outcome)) }
        };
        let Some(present) = present else {
            // The elements before these were there a moment ago.
            let is_gone = kind == CollectionKind::List && offset > 0;
            return if is_gone {
                Err(Code::ConflictDetected)
            } else {
                Ok(plan(Outcome::Restored, None, elements))
            };
        };
        if replace && offset == 0 {
            return Ok(plan(Outcome::Replaced, Some(delete_of(key, present.kind)), elements));
        }
        let other = || Planned { is_other: true, ..Planned::nothing(Ok(Outcome::Kept)) };
        if present.kind != record.kind {
            return Ok(other());
        }
        let missing = match kind {
            CollectionKind::List => match self.missing_items(key, elements, offset).await? {
                Some(missing) => missing,
                None if offset == 0 => return Ok(other()),
                None => return Err(Code::ConflictDetected),
            },
            _ => self.missing_elements(key, elements).await?,
        };
        let outcome = if missing.is_empty() { Outcome::Kept } else { Outcome::Restored };
        Ok(plan(outcome, None, missing))
    }

    async fn missing_elements(
        &self,
        key: &Key,
        elements: Vec<ElementEntry>,
    ) -> Result<Vec<ElementEntry>, Code> {
        let names = elements.iter().map(|entry| entry.name.clone()).collect();
        let page = self.read_elements(key.clone(), ElementsQuery::Named(names), None).await;
        let page = page.map_err(NotDone::code)?;
        let present: BTreeSet<_> = page.elements.into_iter().map(|entry| entry.name).collect();
        Ok(elements.into_iter().filter(|entry| !present.contains(&entry.name)).collect())
    }

    /// Those behind the items that are there already; none if these are others.
    async fn missing_items(
        &self,
        key: &Key,
        elements: Vec<ElementEntry>,
        offset: u64,
    ) -> Result<Option<Vec<ElementEntry>>, Code> {
        let query = ElementsQuery::Ranks { from: offset, limit: elements.len() };
        let page = self.read_elements(key.clone(), query, None).await.map_err(NotDone::code)?;
        let count =
            self.read_elements(key.clone(), ElementsQuery::Count, None).await.map_err(NotDone::code)?;
        let present = page.elements;
        let is_same =
            |(item, saved): (&ElementEntry, &ElementEntry)| item.state.register() == saved.state.register();
        let same = present.iter().zip(&elements).take_while(|pair| is_same(*pair)).count();
        let is_at_end = count.count == Some(offset + same as u64);
        let goes_on = same == present.len() && (same == elements.len() || is_at_end);
        Ok(goes_on.then(|| elements.into_iter().skip(same).collect()))
    }
}
