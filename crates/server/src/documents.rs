//! The documents of the cluster, as far as this member has applied them: written by the apply thread,
//! read by any thread. A caller that receives an answer finds the documents that the answer is about.

use crate::handle::Handle;
use base::Code;
use bytes::Bytes;
use coord::reply::Body;
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

impl Handle {
    /// A document of the cluster with its version, as it is now.
    pub async fn document(&self, name: &str) -> Result<Option<(u64, Bytes)>, Code> {
        // A data-only node has the documents that members have sent.
        if self.is_data_only() {
            return Ok(self.document_here(name));
        }
        self.catch_up().await?;
        Ok(self.document_here(name))
    }

    /// The same, as far as this member has applied.
    pub fn document_here(&self, name: &str) -> Option<(u64, Bytes)> {
        self.shared.core.documents.get(name).map(|document| (document.version, document.bytes))
    }

    /// All of them, as far as this member has applied. Unchanged documents are the same allocation.
    pub fn documents_here(&self) -> Arc<Documents> {
        self.shared.core.documents.all()
    }

    /// Replaces a document that still has this version, zero if there must be none, and returns its new version.
    /// `Code::DocumentChanged` says that the version differs.
    pub async fn set_document(&self, name: &str, expect: u64, bytes: Bytes) -> Result<u64, Code> {
        let set = SetDocument { name: name.to_owned(), expect, bytes };
        set.validate()?;
        match self.wait_for(self.propose(&Command::Document(set))?).await?.body {
            Body::Document { version } => Ok(version),
            _ => unreachable!("a document's answer is its version"),
        }
    }
}
