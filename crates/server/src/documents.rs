//! The documents of the cluster, as far as this member has applied them: written by the apply thread,
//! read by any thread. A caller that receives an answer finds the documents that the answer is about.
//! A document changes by compare-and-set: `update` reads it, changes it, and does so again if another change came first.

use crate::handle::Handle;
use crate::join_tokens::{self, JoinTokens};
use base::{Code, FormatLevel};
use bytes::Bytes;
use coord::call::{DocumentVersion, ReplyBody};
use coord::{Command, Document, Documents, SetDocument};
use mesh::namespaces::Namespaces;
use mesh::{Handlers, Homes, MeshPlan, Regions, documents};
use std::sync::{Arc, RwLock};

/// How often a change is made again because another came first.
const ATTEMPTS: usize = 16;

/// The contents of a document.
pub trait DocumentContent: Sized {
    const NAME: &'static str;

    /// `None` if a later release has written it.
    fn decode(bytes: Bytes) -> Option<Self>;

    fn encode(&self, level: FormatLevel) -> Bytes;

    /// The document's content before it is first written; none if it must exist.
    fn unwritten() -> Option<Self>;
}

macro_rules! contents {
    ($($content:ty: $name:expr, $unwritten:expr, $encode:expr;)*) => {$(
        impl DocumentContent for $content {
            const NAME: &'static str = $name;

            fn decode(bytes: Bytes) -> Option<$content> {
                <$content>::decode(bytes)
            }

            fn encode(&self, level: FormatLevel) -> Bytes {
                let encode: fn(&$content, FormatLevel) -> Bytes = $encode;
                encode(self, level)
            }

            fn unwritten() -> Option<$content> {
                $unwritten
            }
        }
    )*};
}

contents! {
    Namespaces: documents::NAMESPACES, Some(Namespaces::default()), Namespaces::encode;
    Handlers: documents::HANDLERS, Some(Handlers::default()), Handlers::encode;
    Regions: documents::REGIONS, Some(Regions::default()), |regions, _| regions.encode();
    Homes: documents::HOMES, Some(Homes::default()), |homes, _| homes.encode();
    MeshPlan: documents::PLAN, None, |plan, _| plan.encode();
    JoinTokens: join_tokens::DOCUMENT, Some(JoinTokens::default()), |tokens, _| tokens.encode();
}

/// Why a document was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentError<E> {
    /// There is no such document, or a later release has written it.
    Unreadable,
    /// Others changed it each time.
    Busy,
    Refused(E),
    Code(Code),
}

impl From<DocumentError<Code>> for Code {
    fn from(error: DocumentError<Code>) -> Code {
        match error {
            DocumentError::Unreadable => Code::NotInStep,
            DocumentError::Busy => Code::TopologyBusy,
            DocumentError::Refused(code) | DocumentError::Code(code) => code,
        }
    }
}

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
        self.handle.core().published.documents.get(name).map(|document| (document.version, document.bytes))
    }

    /// All of them, as far as this member has applied. Unchanged documents are the same allocation.
    pub fn all_here(self) -> Arc<Documents> {
        self.handle.core().published.documents.all()
    }

    /// A document as it is now, with its version; zero if it was never written.
    pub async fn read<D: DocumentContent>(self) -> Result<(u64, D), DocumentError<Code>> {
        read(self.get(D::NAME).await.map_err(DocumentError::Code)?)
    }

    /// Changes a document; changes it again if another request changed it meanwhile. One that comes out as it was is not
    /// written.
    pub async fn update<D: DocumentContent, T, E>(
        self,
        change: impl Fn(&mut D) -> Result<T, E>,
    ) -> Result<T, DocumentError<E>> {
        for _ in 0..ATTEMPTS {
            let known = self.get(D::NAME).await.map_err(DocumentError::Code)?;
            let (version, mut content) = read::<D, E>(known)?;
            let level = self.handle.formats().level();
            let before = content.encode(level);
            let outcome = change(&mut content).map_err(DocumentError::Refused)?;
            let bytes = content.encode(level);
            if bytes == before {
                return Ok(outcome);
            }
            match self.set(D::NAME, version, bytes).await {
                Ok(_) => return Ok(outcome),
                Err(Code::DocumentChanged) => {}
                Err(code) => return Err(DocumentError::Code(code)),
            }
        }
        Err(DocumentError::Busy)
    }

    /// The same for a thread of the peer port. Without a leader it goes by what this member has applied.
    pub(crate) fn update_blocking<D: DocumentContent, T, E: From<Code>>(
        self,
        change: impl Fn(&mut D) -> Result<DocumentChange<T>, E>,
    ) -> Result<T, E> {
        for _ in 0..ATTEMPTS {
            if self.handle.status().leader.is_some() {
                self.handle.auth().catch_up_blocking()?;
            }
            let (version, mut content) = read::<D, Code>(self.get_here(D::NAME)).map_err(Code::from)?;
            let outcome = match change(&mut content)? {
                DocumentChange::None(outcome) => return Ok(outcome),
                DocumentChange::Write(outcome) => outcome,
            };
            let set = SetDocument {
                name: D::NAME.to_owned(),
                expect: version,
                bytes: content.encode(self.handle.formats().level()),
            };
            match self.handle.propose_blocking(&Command::Document(set)) {
                Ok(_) => return Ok(outcome),
                Err(Code::DocumentChanged) => {}
                Err(code) => return Err(code.into()),
            }
        }
        Err(Code::TopologyBusy.into())
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

/// What a change comes to.
pub(crate) enum DocumentChange<T> {
    None(T),
    Write(T),
}

fn read<D: DocumentContent, E>(known: Option<(u64, Bytes)>) -> Result<(u64, D), DocumentError<E>> {
    let content = match known {
        None => D::unwritten().map(|content| (0, content)),
        Some((version, bytes)) => D::decode(bytes).map(|content| (version, content)),
    };
    content.ok_or(DocumentError::Unreadable)
}
