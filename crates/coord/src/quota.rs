//! The quota that was set at run time, which then replaces the configured quota on all members. A command sets it or
//! takes it back; the row is missing while none was set. Rows in docs/formats/rows.md.

use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::put_varint;
use base::{ReadView, Table};

const QUOTA_KEY: &[u8] = b"quota";

#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// Zero sets no bound.
    bytes: Option<u64>,
    changed: bool,
}

impl Quota {
    pub fn get(&self) -> Option<u64> {
        self.bytes
    }

    pub fn set(&mut self, bytes: Option<u64>) {
        self.bytes = bytes;
        self.changed = true;
    }

    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let value = self.bytes.map(|bytes| {
            let mut value = vec![FORMAT];
            put_varint(&mut value, bytes);
            value
        });
        emit(Table::Meta, QUOTA_KEY, value.as_deref());
    }

    pub fn load(view: &dyn ReadView) -> Result<Quota, CorruptRow> {
        let Some(row) = view.get(Table::Meta, QUOTA_KEY) else { return Ok(Quota::default()) };
        let bytes = formatted(row).and_then(|mut reader| reader.varint().filter(|_| reader.is_empty()));
        let bytes = bytes.ok_or(CorruptRow::malformed(Table::Meta, QUOTA_KEY))?;
        Ok(Quota { bytes: Some(bytes), changed: false })
    }
}
