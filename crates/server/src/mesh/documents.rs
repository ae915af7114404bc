//! The documents of coord on their way to and from the driver of the mesh. Members read them from their applied state; a node
//! that is no member receives them and publishes them in the same place.

use crate::auth::AUTH_NOTE;
use crate::core::Core;
use crate::format_level;
use crate::mesh::wire;
use base::Instant;
use base::codec::{Reader, put_varint};
use bytes::Bytes;
use coord::{Documents, POLICY};
use mesh::{Regions, documents};
use mesh_node::{Document, FOLLOWED, read_regions};
use std::collections::BTreeMap;
use std::time::Duration;

/// Under this name nodes that keep data alone are told how old the policy of their teller is, with its version.
const POLICY_AGE: &str = "policy-age";

/// The documents that the driver follows, as far as this node has them.
pub(super) fn followed(core: &Core) -> Vec<Document> {
    let all = core.published.documents.all();
    let document = |name: &str| {
        let coord::Document { version, bytes } = all.get(name)?.clone();
        Some(Document { name: name.to_owned(), version, bytes })
    };
    FOLLOWED.into_iter().filter_map(document).collect()
}

/// What a node is sent that holds nothing of coord. What is lost is told again with the next stream or the next change.
pub(super) fn frames(core: &Core) -> Vec<Bytes> {
    let all = core.published.documents.all();
    let (policy, note) = (core.security.auth.policy_document(), core.security.auth.note());
    let found = FOLLOWED.iter().filter_map(|name| Some((*name, all.get(name)?)));
    // The access policy comes first: a node that has its ring gets requests.
    wire::documents_frames([(POLICY, &policy), (AUTH_NOTE, &note)].into_iter().chain(found))
}

/// The policy alone, with its age; often the age is all that is news.
pub(super) fn policy_frames(core: &Core, now: Instant, with_policy: bool) -> Vec<Bytes> {
    let Some(age) = core.security.auth.data.age(now) else { return Vec::new() };
    let policy = core.security.auth.policy_document();
    let mut bytes = Vec::new();
    put_varint(&mut bytes, age.as_millis() as u64);
    let age = coord::Document { version: policy.version, bytes: bytes.into() };
    let whole = with_policy.then_some((POLICY, &policy));
    wire::documents_frames(whole.into_iter().chain([(POLICY_AGE, &age)]))
}

/// Shows what this node was told.
pub(super) fn learn(core: &Core, learned: Vec<Document>) {
    let known = core.published.documents.all();
    let mut all: BTreeMap<String, coord::Document> =
        known.iter().map(|(name, document)| (name.to_owned(), document.clone())).collect();
    for Document { name, version, bytes } in learned {
        all.insert(name, coord::Document { version, bytes });
    }
    core.published.documents.set(Documents::of(all));
    format_level::follow(core);
}

/// The access policy arrives along with the documents, and is not the driver's business.
pub(super) fn learn_auth(core: &Core, now: Instant, told: &Document) {
    if !core.data_only {
        return;
    }
    let known = |name: &str| core.published.documents.get(name).map_or(0, |document| document.version);
    match told.name.as_str() {
        AUTH_NOTE if known(AUTH_NOTE) < told.version => learn(core, vec![told.clone()]),
        POLICY if known(POLICY) < told.version => {
            learn(core, vec![told.clone()]);
            let Document { version, bytes, .. } = told.clone();
            core.security.auth.set_policy(&coord::Document { version, bytes });
        }
        // What the teller knew so long ago is what this node knows.
        POLICY_AGE if known(POLICY) >= told.version => {
            if let Some(age) = Reader::new(told.bytes.clone()).varint() {
                core.security.auth.data.confirm(now, Duration::from_millis(age));
            }
        }
        _ => {}
    }
    core.security.auth.set_from_note(core.published.documents.get(AUTH_NOTE).as_ref());
}

/// The table of regions that the cluster has agreed on, as far as it is known here.
pub(crate) fn table(core: &Core) -> Regions {
    let Some(document) = core.published.documents.get(documents::REGIONS) else { return Regions::default() };
    read_regions(document.version, document.bytes).unwrap_or_else(|| {
        tracing::error!(version = document.version, "cannot decode the table of regions");
        Regions::default()
    })
}
