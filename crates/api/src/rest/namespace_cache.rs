//! Namespaces as this process knows them: the document, decoded once for each of its versions.
//! A name goes in, the number of the namespace and its settings come out. One that this member has not applied
//! yet is read from the current document before it is refused.

use super::refusal::Refusal;
use base::Code;
use bytes::Bytes;
use coord::Documents;
use mesh::{
    Homes, RegionId, documents,
    namespaces::{self, Namespace, Namespaces},
};
use server::Handle;
use std::sync::{Arc, Mutex};

/// The namespace that a request is about.
#[derive(Clone, Debug)]
pub struct ResolvedNamespace {
    pub name: String,
    pub id: u32,
    pub wants: Namespace,
    /// The home regions of keys.
    pub homes: Arc<Homes>,
    /// The region that serves the request.
    pub here: RegionId,
}

pub struct NamespaceCache {
    here: RegionId,
    /// The version that was decoded last, and what it says.
    known: Mutex<(u64, Arc<Namespaces>)>,
    homes: Mutex<(u64, Arc<Homes>)>,
    /// The default namespace, by these documents.
    usual: Mutex<Option<(Arc<Documents>, Arc<ResolvedNamespace>)>>,
}

impl NamespaceCache {
    pub fn new(region: &str) -> NamespaceCache {
        let here = RegionId::of(region);
        NamespaceCache { here, known: Mutex::default(), homes: Mutex::default(), usual: Mutex::default() }
    }

    fn named(&self, handle: &Handle, name: &str, wants: Namespace) -> ResolvedNamespace {
        let homes = self.homes(handle);
        ResolvedNamespace {
            name: name.to_owned(),
            id: namespaces::id_of(name),
            wants,
            homes,
            here: self.here,
        }
    }

    /// The home regions, as far as this member has applied.
    fn homes(&self, handle: &Handle) -> Arc<Homes> {
        let mut known = self.homes.lock().expect("no thread panics while it holds the homes");
        if let Some((version, bytes)) = handle.documents().get_here(documents::HOMES)
            && known.0 != version
        {
            match Homes::decode(bytes) {
                Some(decoded) => *known = (version, Arc::new(decoded)),
                None => {
                    tracing::error!(version, "cannot decode the homes of namespaces");
                    known.0 = version;
                }
            }
        }
        known.1.clone()
    }

    /// All of them, as far as this member has applied.
    pub fn here(&self, handle: &Handle) -> Arc<Namespaces> {
        let Some((version, bytes)) = handle.documents().get_here(documents::NAMESPACES) else {
            return Arc::default();
        };
        self.decoded(version, bytes)
    }

    /// The newest namespaces, with the version of their document; zero if there is none yet.
    pub async fn now(&self, handle: &Handle) -> Result<(u64, Arc<Namespaces>), Code> {
        Ok(match handle.documents().get(documents::NAMESPACES).await? {
            None => (0, Arc::default()),
            Some((version, bytes)) => (version, self.decoded(version, bytes)),
        })
    }

    fn decoded(&self, version: u64, bytes: Bytes) -> Arc<Namespaces> {
        let mut known = self.known.lock().expect("no thread panics while it holds the namespaces");
        if known.0 != version {
            match Namespaces::decode(bytes) {
                Some(decoded) => *known = (version, Arc::new(decoded)),
                // A member of a later version has written it; the previous one stays in use.
                None => {
                    tracing::error!(version, "cannot decode the namespaces");
                    known.0 = version;
                }
            }
        }
        known.1.clone()
    }

    /// The default namespace. Most requests are about it, and documents change rarely.
    pub fn usual(&self, handle: &Handle) -> Arc<ResolvedNamespace> {
        let documents = handle.documents().all_here();
        let mut usual = self.usual.lock().expect("no thread panics while it holds the usual namespace");
        if let Some((of, space)) = &*usual
            && Arc::ptr_eq(of, &documents)
        {
            return space.clone();
        }
        let name = namespaces::DEFAULT;
        let wants = self.here(handle).get(name).unwrap_or_default();
        let space = Arc::new(self.named(handle, name, wants));
        *usual = Some((documents, space.clone()));
        space
    }

    pub async fn find(&self, handle: &Handle, name: &str) -> Result<ResolvedNamespace, Refusal> {
        if !namespaces::is_name(name) {
            return Err(bad_name(name));
        }
        let wants = match self.here(handle).get(name) {
            Some(wants) => Some(wants),
            None => self.now(handle).await?.1.get(name),
        };
        let Some(wants) = wants else {
            let message = format!("no namespace `{name}`; PUT /v1/namespaces/{name} {{\"n\":3}} creates it");
            return Err(Refusal::new(Code::UnknownSpace, message));
        };
        Ok(self.named(handle, name, wants))
    }
}

pub fn bad_name(name: &str) -> Refusal {
    Refusal::bad(format!(
        "`{name}` is no name of a namespace: 1 to 64 small letters, digits, dots, dashes and underscores"
    ))
}
