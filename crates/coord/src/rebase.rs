//! A state that is restored from a backup: which rows it keeps, and how its revision is raised. What clients saw
//! after the backup was taken may have had any later revision, so a restored state goes on far above them and calls
//! everything below compacted: a watch is cancelled as compacted instead of seeing revisions go back. The log then
//! ends below the state's revision, which the row `raised` explains.

use crate::compaction::sweep_row;
use crate::documents;
use crate::rows::{CorruptRow, Emit, FORMAT, META_KEY, Meta, formatted};
use crate::unindexed::INDEXED_KEY;
use base::codec::put_signed;
use base::{ReadView, Revision, Table};
use bytes::Bytes;

const RAISED_KEY: &[u8] = b"raised";

/// The revision went from one to the other without a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebase {
    pub from: Revision,
    pub to: Revision,
}

impl Rebase {
    pub fn load(view: &dyn ReadView) -> Result<Option<Rebase>, CorruptRow> {
        let Some(row) = view.get(Table::Meta, RAISED_KEY) else { return Ok(None) };
        let corrupt = CorruptRow::malformed(Table::Meta, RAISED_KEY);
        Rebase::decode(row).filter(|raised| raised.from <= raised.to).ok_or(corrupt).map(Some)
    }

    fn decode(row: Bytes) -> Option<Rebase> {
        let mut reader = formatted(row)?;
        let raised = Rebase { from: Revision(reader.signed()?), to: Revision(reader.signed()?) };
        reader.is_empty().then_some(raised)
    }

    /// Why a log ends here although the state is at a later revision.
    pub fn explains(&self, last: Revision, revision: Revision) -> bool {
        revision == self.to && last <= self.from
    }
}

/// Whether a row is saved and is not derived from etcd's rows of the keys. The times of revisions are saved, for restores as of a time.
pub fn is_beside_keys(table: Table, key: &[u8]) -> bool {
    let of_keys = matches!(table, Table::Versions | Table::Log | Table::Index);
    let is_saved = survives_restore(table, key) || table == Table::Clock;
    is_saved && !of_keys && (table, key) != (Table::Meta, INDEXED_KEY)
}

/// Whether a row of a backup belongs to the state itself. Which proposals were applied, and whatever else a
/// member kept for its cluster, means nothing in another one.
pub fn survives_restore(table: Table, key: &[u8]) -> bool {
    match table {
        Table::Meta => {
            let own = [META_KEY, INDEXED_KEY, RAISED_KEY, crate::compaction::SWEEP_KEY].contains(&key);
            own || documents::survives_restore(key)
        }
        // The revision jumps, and the time of the jump is not known.
        Table::Clock | Table::History => false,
        Table::Origins => false,
        Table::Versions | Table::Log | Table::Index => true,
        Table::Leases | Table::Sessions | Table::Claims | Table::Fences | Table::Auth => true,
        Table::Mesh => false,
    }
}

/// The row that says why a log ends at `from` although the revision is `to`.
pub(crate) fn rebase_row(from: Revision, to: Revision, emit: &mut Emit<'_>) {
    let mut value = vec![FORMAT];
    put_signed(&mut value, from.0);
    put_signed(&mut value, to.0);
    emit(Table::Meta, RAISED_KEY, Some(&value));
}

/// The rows that raise the revision of a state by so many, and mark everything before as compacted; `None`
/// if there are no such revisions.
pub fn rebase(meta: Meta, by: i64, emit: &mut Emit<'_>) -> Option<Revision> {
    let to = meta.revision.0.checked_add(by).filter(|to| by > 0 && *to < i64::MAX).map(Revision)?;
    let mut value = Vec::new();
    Meta { revision: to, compacted: to, ..meta }.encode(&mut value);
    emit(Table::Meta, META_KEY, Some(&value));
    rebase_row(meta.revision, to, emit);
    sweep_row((Revision::ZERO, 0), emit);
    Some(to)
}
