//! The documents of the cluster, as far as this member has applied them: written by the apply thread,
//! read by any thread. A caller that receives an answer finds the documents that the answer is about.

use crate::handle::Handle;
use base::Code;
use bytes::Bytes;
use coord::call::{DocumentVersion, ReplyBody};
use coord::{Command, Document, Documents, SetDocument};
use std::sync::{Arc, RwLock};

#[derive(Default)]
pub(crate) struct DocumentCache {
    documents: RwLock<Arc<Documents>>,
}

impl DocumentCache {
    pub fn set(&self, documents: Documents) {
        *self.documents.write().expect("no thread panics while it holds the documents") = Arc::new(documents);
    }

    pub fn all(&self) -> Arc<Documents> {
        self.documents.read().expect("no thread panics while it holds the documents").clone()
    }

    pub fn get(&self, name: &str) -> Option<Document> {
        self.all().get(name).cloned()
    }
}

/// The documents as a caller sees and changes them.
#[derive(Clone, Copy)]
pub struct DocumentHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl DocumentHandle<'_> {
    /// A document of the cluster with its version, as it is now.
    pub async fn get(self, name: &str) -> Result<Option<(u64, Bytes)>, Code> {
        // A data-only node has the documents that members have sent.
        if !self.handle.is_data_only() {
            self.handle.auth().catch_up().await?;
        }
        Ok(self.get_here(name))
    }

    /// The same, as far as this member has applied.
    pub fn get_here(self, name: &str) -> Option<(u64, Bytes)> {
        self.handle.core().documents.get(name).map(|document| (document.version, document.bytes))
    }

    /// All of them, as far as this member has applied. Unchanged documents are the same allocation.
    pub fn all_here(self) -> Arc<Documents> {
        self.handle.core().documents.all()
    }

    /// Replaces a document that still has this version, zero if there must be none, and returns its new version.
    /// `Code::DocumentChanged` says that the version differs.
    pub async fn set(self, name: &str, expect: u64, bytes: Bytes) -> Result<u64, Code> {
        let set = SetDocument { name: name.to_owned(), expect, bytes };
        set.validate()?;
        let reply = self.handle.wait_for(self.handle.propose(&Command::Document(set))?).await?;
        let DocumentVersion(version) = DocumentVersion::of(reply.body);
        Ok(version)
    }
}
