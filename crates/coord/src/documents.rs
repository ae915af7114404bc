//! Documents: small named texts that the cluster agrees on beside the keys: namespaces, the topology of the mesh. The
//! state machine does not read them. A command replaces one whole, if it still has the version that the writer saw;
//! versions count from one and never go back. They use no revision and cannot be watched.

use crate::mutant::Mutant;
use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_NAME_BYTES_MAX, DOCUMENTS_BYTES_MAX, DOCUMENTS_MAX};
use base::mutant::planted;
use base::{Code, ReadView, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

/// The keys of the documents' rows in `Table::Meta` begin so.
const ROW_PREFIX: &[u8] = b"document/";
/// The first key behind them.
const ROWS_END: &[u8] = b"document0";

/// A document whose name begins so is about this cluster's nodes, and means nothing in one that is restored from a
/// backup.
pub const OF_THE_CLUSTER: &str = "cluster/";

/// Replaces a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDocument {
    pub name: String,
    /// The version that the document must have; zero if it must not exist.
    pub expect: u64,
    pub bytes: Bytes,
}

impl SetDocument {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name.as_bytes());
        put_varint(out, self.expect);
        put_bytes(out, &self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<SetDocument> {
        let name = String::from_utf8(reader.bytes()?.into()).ok()?;
        Some(SetDocument { name, expect: reader.varint()?, bytes: reader.bytes()? })
    }

    /// What can be refused without the state.
    pub fn validate(&self) -> Result<(), Code> {
        let is_valid_name = (1..=DOCUMENT_NAME_BYTES_MAX).contains(&self.name.len());
        if is_valid_name && self.bytes.len() <= DOCUMENT_BYTES_MAX { Ok(()) } else { Err(Code::BadDocument) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub version: u64,
    pub bytes: Bytes,
}

/// All of them, by name.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    list: BTreeMap<String, Document>,
    bytes: usize,
    /// Not written yet.
    changed: BTreeSet<String>,
}

impl Documents {
    /// A copy of another table of documents.
    pub fn of(list: BTreeMap<String, Document>) -> Documents {
        let bytes = list.values().map(|document| document.bytes.len()).sum();
        Documents { list, bytes, changed: BTreeSet::new() }
    }

    pub fn get(&self, name: &str) -> Option<&Document> {
        self.list.get(name)
    }

    /// Ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Document)> {
        self.list.iter().map(|(name, document)| (name.as_str(), document))
    }

    /// Returns the version that the document has now.
    pub(crate) fn set(&mut self, set: &SetDocument) -> Result<u64, Code> {
        set.validate()?;
        let before = self.list.get(&set.name);
        let version = before.map_or(0, |document| document.version);
        if version != set.expect && !planted(Mutant::DocumentUnchecked) {
            return Err(Code::DocumentChanged);
        }
        let bytes = self.bytes - before.map_or(0, |document| document.bytes.len()) + set.bytes.len();
        let is_new = before.is_none();
        if bytes > DOCUMENTS_BYTES_MAX || is_new && self.list.len() >= DOCUMENTS_MAX {
            return Err(Code::DocumentsFull);
        }
        let version = version + 1;
        self.list.insert(set.name.clone(), Document { version, bytes: set.bytes.clone() });
        self.bytes = bytes;
        self.changed.insert(set.name.clone());
        Ok(version)
    }

    pub(crate) fn take_rows(&mut self, emit: &mut Emit<'_>) {
        let changed = std::mem::take(&mut self.changed);
        for name in changed.into_iter().filter(|_| !planted(Mutant::DocumentsNotWritten)) {
            let document = &self.list[&name];
            let mut value = vec![FORMAT];
            put_varint(&mut value, document.version);
            value.extend_from_slice(&document.bytes);
            emit(Table::Meta, &[ROW_PREFIX, name.as_bytes()].concat(), Some(&value));
        }
    }

    pub(crate) fn load(view: &dyn ReadView) -> Result<Documents, CorruptRow> {
        let mut documents = Documents::default();
        let mut outcome = Ok(());
        view.scan(Table::Meta, Included(ROW_PREFIX), Excluded(ROWS_END), &mut |key, value| {
            match decode_row(key, Bytes::copy_from_slice(value)) {
                Some((name, document)) => {
                    documents.bytes += document.bytes.len();
                    documents.list.insert(name, document);
                }
                None => outcome = Err(CorruptRow::malformed(Table::Meta, key)),
            }
            outcome.is_ok()
        });
        outcome.map(|()| documents)
    }
}

fn decode_row(key: &[u8], value: Bytes) -> Option<(String, Document)> {
    let name = String::from_utf8(key.strip_prefix(ROW_PREFIX)?.to_vec()).ok()?;
    let mut reader = formatted(value)?;
    let version = reader.varint().filter(|version| *version > 0)?;
    Some((name, Document { version, bytes: reader.rest() }))
}

/// The row of a document that means something in a cluster that is restored from a backup.
pub(crate) fn survives_restore(key: &[u8]) -> bool {
    key.strip_prefix(ROW_PREFIX).is_some_and(|name| !name.starts_with(OF_THE_CLUSTER.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, expect: u64, bytes: usize) -> SetDocument {
        SetDocument { name: name.into(), expect, bytes: vec![7; bytes].into() }
    }

    #[test]
    fn a_document_is_replaced_only_at_its_current_version() {
        let mut documents = Documents::default();
        assert_eq!(documents.set(&set("a", 1, 3)), Err(Code::DocumentChanged), "there is none");
        assert_eq!(documents.set(&set("a", 0, 3)), Ok(1));
        assert_eq!(documents.set(&set("a", 0, 3)), Err(Code::DocumentChanged), "there is one");
        assert_eq!(documents.set(&set("a", 1, 5)), Ok(2));
        assert_eq!(documents.get("a").map(|document| document.bytes.len()), Some(5));
    }

    #[test]
    fn documents_are_bounded_in_name_size_and_number() {
        let mut documents = Documents::default();
        assert_eq!(documents.set(&set("", 0, 1)), Err(Code::BadDocument));
        let long = "n".repeat(DOCUMENT_NAME_BYTES_MAX + 1);
        assert_eq!(documents.set(&set(&long, 0, 1)), Err(Code::BadDocument));
        assert_eq!(documents.set(&set("a", 0, DOCUMENT_BYTES_MAX + 1)), Err(Code::BadDocument));
        for nth in 0..DOCUMENTS_BYTES_MAX / DOCUMENT_BYTES_MAX {
            assert_eq!(documents.set(&set(&nth.to_string(), 0, DOCUMENT_BYTES_MAX)), Ok(1));
        }
        assert_eq!(documents.set(&set("one more", 0, 1)), Err(Code::DocumentsFull));
        assert_eq!(documents.set(&set("0", 1, 1)), Ok(2), "what gets smaller fits");
        assert_eq!(documents.set(&set("one more", 0, 1)), Ok(1));
    }

    #[test]
    fn documents_of_the_cluster_are_not_restored() {
        assert!(survives_restore(b"document/namespaces"));
        assert!(!survives_restore(b"document/cluster/topology"));
        assert!(!survives_restore(b"members"));
    }
}
