//! The documents of coord on their way to and from the driver of the mesh. Members read them from what they have
//! applied; a node that is no member is told them, and shows what it was told in the same place.

use crate::auth::AUTH_NOTE;
use crate::core::Core;
use crate::mesh::wire;
use bytes::Bytes;
use coord::Documents;
use mesh::{Regions, regions};
use mesh_node::{Document, FOLLOWED, read_regions};
use std::collections::BTreeMap;

/// What the driver goes by, as far as it is known here.
pub(super) fn followed(core: &Core) -> Vec<Document> {
    let all = core.documents.all();
    let document = |name: &str| {
        let coord::Document { version, bytes } = all.get(name)?.clone();
        Some(Document { name: name.to_owned(), version, bytes })
    };
    FOLLOWED.into_iter().filter_map(document).collect()
}

/// What a node is sent that holds nothing of coord. What is lost is told again with the next stream or the next change.
pub(super) fn frames(core: &Core) -> Vec<Bytes> {
    let all = core.documents.all();
    let note = core.auth.note();
    let found = FOLLOWED.iter().filter_map(|name| Some((*name, all.get(name)?)));
    wire::documents_frames(found.chain([(AUTH_NOTE, &note)]))
}

/// Shows what this node was told.
pub(super) fn learn(core: &Core, learned: Vec<Document>) {
    let known = core.documents.all();
    let mut all: BTreeMap<String, coord::Document> =
        known.iter().map(|(name, document)| (name.to_owned(), document.clone())).collect();
    for Document { name, version, bytes } in learned {
        all.insert(name, coord::Document { version, bytes });
    }
    core.documents.set(Documents::of(all));
}

/// Who may do what is told along with the documents, and is not the driver's business.
pub(super) fn learn_auth_note(core: &Core, told: &Document) {
    if !core.data_only {
        return;
    }
    let known = core.documents.get(AUTH_NOTE).map_or(0, |document| document.version);
    if told.name == AUTH_NOTE && (known < told.version || core.documents.get(AUTH_NOTE).is_none()) {
        learn(core, vec![told.clone()]);
    }
    core.auth.be_told(core.documents.get(AUTH_NOTE).as_ref());
}

/// The table of regions that the cluster has agreed on, as far as it is known here.
pub(crate) fn table(core: &Core) -> Regions {
    let Some(document) = core.documents.get(regions::DOCUMENT) else { return Regions::default() };
    read_regions(document.version, document.bytes).unwrap_or_else(|| {
        tracing::error!(version = document.version, "the table of regions cannot be read");
        Regions::default()
    })
}
