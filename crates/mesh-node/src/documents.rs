//! The documents that the cluster agrees on about its mesh, as far as this node knows them. A version that is known is
//! never replaced by an older one.

use base::FormatLevel;
use bytes::Bytes;
use mesh::{
    Handlers, NamespaceCopies, Regions, documents,
    namespaces::{self, Namespace, Namespaces},
};
use std::collections::BTreeMap;

/// The documents that the driver goes by.
pub const FOLLOWED: [&str; 7] = [
    FormatLevel::DOCUMENT,
    documents::PLAN,
    documents::NAMESPACES,
    documents::REGIONS,
    documents::HANDLERS,
    documents::HOMES,
    documents::ELECTORATES,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub name: String,
    pub version: u64,
    pub bytes: Bytes,
}

#[derive(Debug, Default)]
pub(crate) struct Documents {
    known: BTreeMap<&'static str, (u64, Bytes)>,
}

impl Documents {
    /// True if it is newer than what was known.
    pub fn learn(&mut self, document: &Document) -> bool {
        let Some(name) = FOLLOWED.into_iter().find(|name| *name == document.name) else { return false };
        let is_news = document.version > self.version(name);
        if is_news {
            self.known.insert(name, (document.version, document.bytes.clone()));
        }
        is_news
    }

    /// Zero if there is none.
    pub fn version(&self, name: &str) -> u64 {
        self.known.get(name).map_or(0, |(version, _)| *version)
    }

    pub fn get(&self, name: &str) -> Option<(u64, Bytes)> {
        self.known.get(name).cloned()
    }

    /// The formats that the cluster writes; without the document, the oldest.
    pub fn format_level(&self) -> FormatLevel {
        let document = self.get(FormatLevel::DOCUMENT);
        document.and_then(|(_, bytes)| FormatLevel::decode(&bytes)).unwrap_or_default()
    }

    /// None if it cannot be read.
    pub fn regions(&self) -> Option<Regions> {
        self.get(documents::REGIONS)
            .map_or(Some(Regions::default()), |(version, bytes)| read_regions(version, bytes))
    }

    /// None if there is none newer than this version; an error if there is and it cannot be read.
    pub fn handlers_after(&self, version: u64) -> Option<(u64, Result<Handlers, ()>)> {
        let (newest, bytes) = self.get(documents::HANDLERS).filter(|(newest, _)| *newest > version)?;
        Some((newest, Handlers::decode(bytes).ok_or(())))
    }

    /// What the namespaces want of the ring.
    pub fn namespace_copies(&self) -> Vec<NamespaceCopies> {
        let document = self.get(documents::NAMESPACES);
        let all = document.and_then(|(_, bytes)| Namespaces::decode(bytes)).unwrap_or_default();
        let space = |(name, wants): (&str, Namespace)| NamespaceCopies {
            id: namespaces::id_of(name),
            copies: wants.copies,
        };
        all.iter().map(space).collect()
    }
}

/// The table of regions of this version; none if it cannot be read.
pub fn read_regions(version: u64, bytes: Bytes) -> Option<Regions> {
    let mut table = Regions::decode(bytes)?;
    table.version = version;
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str, version: u64) -> Document {
        Document { name: name.to_owned(), version, bytes: Bytes::from(vec![version as u8]) }
    }

    #[test]
    fn only_newer_versions_of_documents_that_are_followed_are_learned() {
        let mut documents = Documents::default();
        assert!(documents.learn(&document(documents::PLAN, 2)));
        assert!(
            !documents.learn(&document(documents::PLAN, 2))
                && !documents.learn(&document(documents::PLAN, 1))
        );
        assert!(!documents.learn(&document("another", 1)));
        assert_eq!(documents.get(documents::PLAN), Some((2, Bytes::from_static(&[2]))));
        assert_eq!((documents.version("another"), documents.version(documents::HOMES)), (0, 0));
    }
}
