//! `/v1/namespaces/{ns}`: the settings of a namespace. They are a document of the cluster, changed by compare-and-set;
//! the ring learns of a new namespace by its topology, and the answer waits until this node has that.

use super::documents::update;
use super::namespace_cache::bad_name;
use super::pages::Pages;
use super::refusal::Refusal;
use super::request_head::{WholeBody, now_ms, parse_json};
use super::value::{kind_name, kind_named};
use super::write::{POLICIES, policy_named};
use super::{Rest, json};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Code;
use bytes::Bytes;
use mesh::{
    COPIES_MAX, Scan, ScanView,
    namespaces::{self, Namespace, Namespaces},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json as object};
use std::time::Duration;

const RIGHT: &str = r#"{"n": 3, "default_type": "lww_register", "conflict_policy": "LWW"}, each optional"#;
/// How long a node may take to learn of a new namespace.
const HEARD_MS_MAX: u64 = 5_000;
const HEARD_POLL: Duration = Duration::from_millis(5);

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamespaceBody {
    #[serde(default, deserialize_with = "given")]
    n: Option<u8>,
    #[serde(default, deserialize_with = "given")]
    default_type: Option<String>,
    #[serde(default, deserialize_with = "given")]
    conflict_policy: Option<String>,
}

/// A field that is there has a value: `null` is none.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<T>, D::Error> {
    T::deserialize(field).map(Some)
}

impl NamespaceBody {
    /// Fields that are not given stay as they are.
    fn over(self, old: Option<Namespace>) -> Result<Namespace, Refusal> {
        let mut namespace = old.unwrap_or_default();
        if let Some(n) = self.n {
            if !(1..=COPIES_MAX).contains(&usize::from(n)) {
                return Err(Refusal::bad(format!("n must be from 1 to {COPIES_MAX}, not {n}")));
            }
            namespace.copies = n;
        }
        if let Some(name) = &self.default_type {
            namespace.kind = kind_named(name)?;
        }
        if let Some(word) = &self.conflict_policy {
            namespace.policy = policy_named(word)?;
        }
        Ok(namespace)
    }
}

pub async fn list(rest: Rest) -> Result<Response, Refusal> {
    let (_, all) = rest.spaces().now(rest.handle()).await?;
    let seen = all.iter().filter(|(name, _)| rest.may_see(namespaces::id_of(name)));
    let all: Vec<Value> = seen.map(|(name, namespace)| render(name, namespace)).collect();
    Ok(json(&object!({ "namespaces": all })))
}

pub async fn get(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let space = rest.spaces().find(rest.handle(), &name).await?;
    Ok(json(&render(&space.name, space.wants)))
}

pub async fn put(
    rest: Rest,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Result<Response, Refusal> {
    if !namespaces::is_name(&name) {
        return Err(bad_name(&name));
    }
    let change = |all: &mut Namespaces| {
        let wanted: NamespaceBody =
            if body.is_empty() { NamespaceBody::default() } else { parse_json(&body, RIGHT)? };
        let old = all.get(&name);
        let namespace = wanted.over(old)?;
        all.set(&name, namespace, rest.region_id()).map_err(|code| refuse(code, &name, old))?;
        Ok((namespace, old.is_none()))
    };
    let (namespace, created) = update(&rest, change).await?;
    wait_until_received(&rest, namespaces::id_of(&name)).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(render(&name, namespace))).into_response())
}

/// Only an empty one can go, for its keys would be out of reach.
pub async fn delete(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let space = rest.spaces().find(rest.handle(), &name).await?;
    if name == namespaces::DEFAULT {
        return Err(Refusal::new(Code::NamespaceInUse, "the default namespace stays"));
    }
    let view = ScanView { keys_only: true, reverse: false };
    let scan = Scan { namespace_id: space.id, start: Bytes::new(), end: None, limit: 1, r: None, view };
    let mut pages = Pages::of(scan, None);
    while let Some(page) = pages.next(&rest).await? {
        if !page.is_empty() {
            let message = "the namespace holds keys; delete them first: GET …/store/range lists them, DELETE deletes them";
            return Err(Refusal::new(Code::NamespaceInUse, message));
        }
        if page.n_missing > 0 {
            return Err(Refusal::new(Code::TooFewReplicas, "some partitions did not answer; try again"));
        }
    }
    update(&rest, |all: &mut Namespaces| Ok(all.remove(&name, rest.region_id()))).await?;
    Ok(json(&object!({ "status": "deleted", "namespace": name })))
}

/// A namespace can be used here once this node's topology has it.
async fn wait_until_received(rest: &Rest, id: u32) -> Result<(), Refusal> {
    let deadline = now_ms() + HEARD_MS_MAX;
    while rest.mesh().topology().copies(id).is_none() {
        if now_ms() > deadline {
            let message =
                "the namespace is created, and this node has not heard of it in its ring yet; try again";
            return Err(Refusal::new(Code::NotSeenHere, message));
        }
        tokio::time::sleep(HEARD_POLL).await;
    }
    Ok(())
}

fn refuse(code: Code, name: &str, old: Option<Namespace>) -> Refusal {
    let message = match (code, old) {
        (Code::NamespaceDiffers, Some(old)) => {
            format!("`{name}` has n={}, which is never changed; create another and copy", old.copies)
        }
        (Code::NamespaceDiffers, None) => format!("there is no place for `{name}`; choose another name"),
        (code, _) => return code.into(),
    };
    Refusal::new(code, message)
}

fn render(name: &str, namespace: Namespace) -> Value {
    let policy = POLICIES.iter().find(|(_, policy)| *policy == namespace.policy).map(|(word, _)| word);
    object!({
        "namespace": name,
        "n": namespace.copies,
        "default_type": kind_name(namespace.kind),
        "conflict_policy": policy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::namespaces::Policy;

    #[test]
    fn what_is_not_said_stays() {
        let old = Namespace { copies: 5, policy: Policy::Fail, ..Namespace::default() };
        assert_eq!(NamespaceBody::default().over(Some(old)).unwrap(), old);
        let wanted: NamespaceBody = serde_json::from_str(r#"{"conflict_policy": "CRDT"}"#).unwrap();
        assert_eq!(wanted.over(Some(old)).unwrap(), Namespace { policy: Policy::Merge, ..old });
        for body in
            [r#"{"n": 0}"#, r#"{"n": 6}"#, r#"{"default_type": "heap"}"#, r#"{"conflict_policy": "lww"}"#]
        {
            let wanted: NamespaceBody = serde_json::from_str(body).unwrap();
            assert!(wanted.over(None).is_err(), "{body}");
        }
        for body in [r#"{"n": null}"#, r#"{"default_type": null}"#, r#"{"conflict_policy": null}"#] {
            assert!(serde_json::from_str::<NamespaceBody>(body).is_err(), "{body}");
        }
    }
}
