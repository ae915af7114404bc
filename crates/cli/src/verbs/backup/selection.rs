//! Which keys of a backup are restored, and under which names. A row's key goes in; the namespace and name that its record gets
//! come out.

use super::Error;
use ::backup::{BELOW_COLLECTION, MeshPart, NamespaceEntry};
use bytes::Bytes;
use clap::Args;
use proto::althing::backup::v1::NamespaceSettings;

/// Kinds of rows that hold records; see docs/formats/mesh-rows.md.
const RECORD: u8 = 1;
const HINT: u8 = 3;
const NODE_BYTES: usize = 8;
const NAMESPACE_BYTES: usize = 4;
const LENGTH_BYTES: usize = 2;
/// The types of collections, in the second byte of their records; see docs/formats/mesh-record.md.
const COLLECTIONS: std::ops::RangeInclusive<u8> = 7..=12;

#[derive(Args, Clone)]
pub struct Selection {
    /// Only this namespace
    #[arg(long, value_name = "NAME")]
    ns: Option<String>,
    /// Only keys that begin with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only this key; may be repeated
    #[arg(long = "only", value_name = "KEY", conflicts_with = "prefix")]
    keys: Vec<String>,
    /// The namespace that keys go into, with --ns [default: that of the backup]
    #[arg(long, value_name = "NAME", requires = "ns")]
    as_ns: Option<String>,
    /// What names begin with in the place of --prefix
    #[arg(long, value_name = "PREFIX", requires = "prefix")]
    as_prefix: Option<String>,
}

/// A key of a backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SavedKey {
    pub namespace_id: u32,
    pub name: Bytes,
}

impl SavedKey {
    /// None for a row that holds neither a record nor an element.
    pub fn of_row(row: &Bytes) -> Option<SavedKey> {
        let (begin, end) = match *row.first()? {
            RECORD => (2, row.len()),
            HINT => (1 + NODE_BYTES, row.len()),
            BELOW_COLLECTION => {
                let begin = 2 + LENGTH_BYTES;
                let length = u16::from_be_bytes(row.get(2..begin)?.try_into().ok()?);
                (begin, begin + usize::from(length))
            }
            _ => return None,
        };
        let key = row.get(begin..end)?;
        let id = key.get(..NAMESPACE_BYTES)?;
        let namespace_id = u32::from_be_bytes(id.try_into().ok()?);
        Some(SavedKey { namespace_id, name: row.slice(begin + NAMESPACE_BYTES..end) })
    }
}

/// Whether a row holds the record of a collection.
pub fn is_collection(key: &[u8], value: &[u8]) -> bool {
    key.first() == Some(&RECORD) && value.get(1).is_some_and(|kind| COLLECTIONS.contains(kind))
}

/// The partition that a row lies in; none for a row of another sort.
pub fn partition_of(row: &[u8]) -> Option<u8> {
    match row {
        [RECORD | BELOW_COLLECTION, partition, ..] => Some(*partition),
        _ => None,
    }
}

impl Selection {
    /// A namespace that is asked for must be in the backup.
    pub fn check(&self, mesh: &MeshPart) -> Result<(), Error> {
        match &self.ns {
            Some(ns) if !mesh.namespaces.iter().any(|namespace| namespace.name == *ns) => {
                let known: Vec<&str> =
                    mesh.namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
                Err(Error::Usage(format!("the backup has no namespace {ns}; it has {}", known.join(", "))))
            }
            _ => Ok(()),
        }
    }

    pub fn takes(&self, namespace: &NamespaceEntry, name: &[u8]) -> bool {
        self.ns.as_ref().is_none_or(|ns| *ns == namespace.name) && self.takes_name(name)
    }

    /// Whatever namespace it lies in.
    pub fn takes_name(&self, name: &[u8]) -> bool {
        let by_prefix = self.prefix.as_ref().is_none_or(|prefix| name.starts_with(prefix.as_bytes()));
        let by_name = self.keys.is_empty() || self.keys.iter().any(|key| key.as_bytes() == name);
        by_prefix && by_name
    }

    pub fn settings(&self, namespace: &NamespaceEntry) -> NamespaceSettings {
        NamespaceSettings {
            name: self.as_ns.clone().unwrap_or_else(|| namespace.name.clone()),
            id: 0,
            copies: namespace.copies,
            kind: namespace.kind,
            policy: namespace.policy,
        }
    }

    pub fn name(&self, name: &Bytes) -> Bytes {
        match (&self.prefix, &self.as_prefix) {
            (Some(prefix), Some(other)) => {
                [other.as_bytes(), &name[prefix.len().min(name.len())..]].concat().into()
            }
            _ => name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(ns: Option<&str>, prefix: Option<&str>, key: &[&str]) -> Selection {
        let text = |text: &str| text.to_owned();
        let keys = key.iter().map(|key| text(key)).collect();
        Selection { ns: ns.map(text), prefix: prefix.map(text), keys, as_ns: None, as_prefix: None }
    }

    #[test]
    fn keys_are_chosen_by_namespace_prefix_and_name() {
        let namespace = NamespaceEntry { name: "n".to_owned(), id: 7, copies: 3, kind: 0, policy: 0 };
        let takes = |selection: &Selection, name: &str| selection.takes(&namespace, name.as_bytes());
        assert!(takes(&selection(None, None, &[]), "a"));
        assert!(takes(&selection(Some("n"), Some("a/"), &[]), "a/b"));
        assert!(!takes(&selection(Some("n"), Some("a/"), &[]), "b/a/"));
        assert!(!takes(&selection(Some("other"), None, &[]), "a"));
        assert!(
            takes(&selection(None, None, &["x", "y"]), "y") && !takes(&selection(None, None, &["x"]), "xy")
        );
        let moved = Selection { as_prefix: Some("c/".to_owned()), ..selection(None, Some("a/"), &[]) };
        assert_eq!(moved.name(&Bytes::from_static(b"a/b")), "c/b");
    }

    #[test]
    fn a_row_tells_its_namespace_and_name() {
        let key = |row: &'static [u8]| SavedKey::of_row(&Bytes::from_static(row));
        let found = Some(SavedKey { namespace_id: 7, name: Bytes::from_static(b"name") });
        assert_eq!(key(b"\x01\x99\x00\x00\x00\x07name"), found);
        assert_eq!(key(b"\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x07name"), found);
        for none in [&b""[..], b"\x01\x99\x00", b"\x09\x99\x00\x00\x00\x07name"] {
            assert_eq!(key(none), None);
        }
    }
}
