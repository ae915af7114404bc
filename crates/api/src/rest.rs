//! The REST API of the mesh, for curl and for programs without a library: `/api/v1/store`, `/v1/data`, `/v1/crdt`
//! and what belongs to them, its description, and a page to try it out.
//! HTTP requests go in, requests to the mesh come out, its replies go back as JSON or bytes. An answer never says
//! more than the mesh has said: a write that too few have acknowledged is indeterminate.

mod access;
mod batch;
mod bounded;
mod clock;
mod cluster;
mod collection_changes;
mod collection_ops;
mod collection_page;
mod collections;
mod conflicts;
mod coord;
mod coord_watch;
mod crdt;
mod data;
mod documents;
mod event_stream;
mod events;
mod explain;
pub mod fast_path;
mod feed;
mod guard;
mod handlers;
mod home;
mod identity;
mod inspect;
mod json_text;
mod locks;
mod maintenance;
mod namespace_cache;
mod namespaces;
mod openapi;
mod page;
mod pages;
mod permit;
mod query;
mod range;
mod read_result;
mod refusal;
mod regions;
mod request_head;
mod request_id;
mod ring;
mod routes;
pub mod rpc;
mod select;
mod session;
mod store;
mod upgrade;
mod value;
mod write;

pub use fast_path::{Client, RestFastPath};
pub use identity::ClientIdentity;
pub use maintenance::ShownSetting;
pub use openapi::document as openapi_document;
pub use refusal::describe_code;

use crate::audit;
use crate::connections::Connections;
use crate::console;
use crate::http;
use crate::inspect::{Inspector, PeerInspections};
use crate::serve::RestSettings;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use base::date;
use base::limits::GRPC_OVERHEAD_BYTES;
use base::{Code, NodeId};
use guard::GuardState;
use mesh::{Key, MeshCall, Missing, NotDone, Read, Record, RegionId, Reply, Request};
use namespace_cache::NamespaceCache;
use refusal::{MissingNames, Refusal};
use serde::Serialize;
use server::mesh::merging;
use server::{DataCaller, Handle, MeshHandle};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Status;

/// The state that the handlers share.
#[derive(Clone)]
pub struct Rest {
    shared: Arc<RestShared>,
    /// The caller; none while auth is off.
    caller: Option<Arc<DataCaller>>,
}

struct RestShared {
    handle: Handle,
    mesh: MeshHandle,
    spaces: NamespaceCache,
    settings: RestSettings,
    served_from: HeaderValue,
    inspector: Inspector,
    /// Becomes true when the process stops.
    stopping: watch::Receiver<bool>,
}

impl Rest {
    pub fn new(
        handle: Handle,
        mesh: MeshHandle,
        settings: RestSettings,
        connections: Arc<Connections>,
        stopping: watch::Receiver<bool>,
    ) -> Rest {
        let inspector = Inspector { handle: handle.clone(), connections };
        let runtime = tokio::runtime::Handle::current();
        handle.answer_inspections(PeerInspections { inspector: inspector.clone(), runtime });
        let spaces = NamespaceCache::new(&settings.region);
        let served_from = HeaderValue::try_from(&settings.region);
        let served_from = served_from.unwrap_or(HeaderValue::from_static("unnamed"));
        let shared = RestShared { handle, mesh, spaces, settings, served_from, inspector, stopping };
        Rest { shared: Arc::new(shared), caller: None }
    }

    fn handle(&self) -> &Handle {
        &self.shared.handle
    }

    fn inspector(&self) -> &Inspector {
        &self.shared.inspector
    }

    fn mesh(&self) -> &MeshHandle {
        &self.shared.mesh
    }

    fn spaces(&self) -> &NamespaceCache {
        &self.shared.spaces
    }

    fn region(&self) -> &str {
        &self.shared.settings.region
    }

    fn region_id(&self) -> RegionId {
        RegionId::of(self.region())
    }

    /// The region as a header names it.
    fn served_from(&self) -> &HeaderValue {
        &self.shared.served_from
    }

    /// Where clients reach this API.
    fn advertised(&self) -> &str {
        &self.shared.settings.advertise
    }

    fn value_bytes_max(&self) -> usize {
        self.shared.settings.value_bytes_max
    }

    fn body_bytes_max(&self) -> usize {
        self.shared.settings.value_bytes_max + GRPC_OVERHEAD_BYTES
    }

    /// A region that this node has no name for is called by its number.
    fn region_name(&self, region: RegionId) -> String {
        if region == self.region_id() {
            self.region().to_owned()
        } else {
            self.mesh().region_name(region).unwrap_or_else(|| format!("{:08x}", region.0))
        }
    }

    /// Where too few have answered, the refusal names those that have not.
    fn refusal(&self, not_done: NotDone) -> Refusal {
        match not_done {
            NotDone::Indeterminate { acks, needed, missing } => {
                Refusal::indeterminate(acks, needed, &self.names_of(&missing))
            }
            NotDone::Unavailable { acks, needed, missing } => {
                Refusal::unavailable(acks, needed, &self.names_of(&missing))
            }
            NotDone::Conflict(_) => Code::ConflictDetected.into(),
            NotDone::Lagging { lag_ms } => read_result::lagging(lag_ms),
            NotDone::Refused(code) => code.into(),
        }
    }

    fn not_written(&self, acks: u8, needed: u8, missing: &Missing) -> Refusal {
        Refusal::not_written(acks, needed, &self.names_of(missing))
    }

    fn names_of(&self, missing: &Missing) -> MissingNames {
        let names = if missing.nodes.is_empty() { BTreeMap::default() } else { self.node_names() };
        let name = |node: &NodeId| {
            let known = names.get(node).filter(|name| !name.is_empty()).cloned();
            known.unwrap_or_else(|| format!("{:x}", node.0))
        };
        MissingNames {
            nodes: missing.nodes.iter().map(name).collect(),
            regions: missing.regions.iter().map(|region| self.region_name(*region)).collect(),
        }
    }

    /// The reply to a request, or a refusal.
    async fn get<C: MeshCall>(&self, call: C, timeout: Option<Duration>) -> Result<C::Reply, Refusal> {
        self.ask(call, timeout).await?.map_err(|not_done| self.refusal(not_done))
    }

    /// The same, with why the mesh has not done it. What it refuses is an error here, and so is what the caller may not do.
    async fn ask<C: MeshCall>(
        &self,
        call: C,
        timeout: Option<Duration>,
    ) -> Result<Result<C::Reply, NotDone>, Refusal> {
        let request = call.into_request();
        self.permit(&request)?;
        let _turn = match &request {
            Request::Scan(_) | Request::Query(_) => Some(Box::pin(self.mesh().scan_turn(timeout)).await?),
            _ => None,
        };
        // Scripts are rare, and kept out of the future that every request is.
        let reply = if merging::is_custom_write(&request) {
            Box::pin(self.mesh().write_custom(request, timeout)).await?
        } else {
            self.mesh().request(request, timeout).await?
        };
        match reply {
            Reply::Refused(code) => Err(code.into()),
            reply if merging::has_values_apart(&reply) => {
                Ok(C::outcome(Box::pin(self.mesh().show_custom(reply)).await))
            }
            reply => Ok(C::outcome(reply)),
        }
    }

    /// The record of a key on the replicas that were counted, tombstones included.
    async fn read(
        &self,
        key: Key,
        r: Option<u8>,
        timeout: Option<Duration>,
    ) -> Result<Option<Box<Record>>, Refusal> {
        self.get(Read { key, r }, timeout).await
    }
}

/// Every route of the REST port.
pub fn router(rest: Rest, views: http::HttpState) -> Router {
    let limit = DefaultBodyLimit::max(rest.body_bytes_max());
    let mut router = Router::new();
    for route in routes::all() {
        let pattern = route.pattern();
        let guarded =
            GuardState { rest: rest.clone(), needs: route.needs().into(), pattern: pattern.as_str().into() };
        let guard = axum::middleware::from_fn_with_state(guarded, guard::check);
        let handler = route.handler.layer(guard);
        let handler = match rest.handle().audit() {
            None => handler,
            Some(audit) => {
                let recorded = (audit.clone(), Arc::from(pattern.as_str()));
                handler.layer(axum::middleware::from_fn_with_state(recorded, audit::record_rest))
            }
        };
        router = router.route(&pattern, handler);
    }
    router
        .layer(limit)
        .with_state(rest)
        .merge(page::router())
        .merge(console::router())
        .merge(http::router(views))
        .method_not_allowed_fallback(async || wrong_method())
        .fallback(async |headers: HeaderMap| unknown_path(&headers))
}

fn wrong_method() -> Response {
    let refusal = Refusal::bad("this path does not take this method; /openapi.json lists what each takes");
    (axum::http::StatusCode::METHOD_NOT_ALLOWED, axum::Json(refusal.body())).into_response()
}

/// A client of etcd is told which port it has found.
fn unknown_path(headers: &HeaderMap) -> Response {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
    if content_type.is_some_and(|value| value.starts_with(b"application/grpc")) {
        return Status::unimplemented(
            "this is the port of the REST API (http-addr, 8080 by default); clients of etcd and gRPC connect to client-addr \
             (2379 by default)",
        )
        .into_http();
    }
    let message = "nothing is served here; /openapi.json lists every path, /api-docs lets you try them";
    let mut body = Refusal::new(Code::BadRequest, message).body();
    body.insert("error".to_owned(), "unknown_path".into());
    (axum::http::StatusCode::NOT_FOUND, axum::Json(body)).into_response()
}

/// A body of JSON with status 200.
fn json(body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("what we answer with can be written as JSON");
    let mut response = bytes.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
