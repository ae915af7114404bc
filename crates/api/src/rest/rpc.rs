//! The DataService: the data plane over gRPC. A message becomes the head and the body that the REST API would have got, and goes
//! the same way from there: one parser, one check of permissions, one table of refusals. Answers are records as
//! messages.

mod elements;
mod head;
mod message;
mod scan;
mod watch;

use super::batch::{self, PartOutcome};
use super::refusal::Refusal;
use super::request_head::RequestHead;
use super::write::{self, ValueBody};
use super::{Rest, crdt, guard, read_result, session};
use crate::clients;
use crate::grpc::call_context;
use base::Code;
use head::CallHead;
use mesh::{Kind, Op, Record, Write};
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::data_service_server::DataService;
use proto::althing::data::v1::operation::Kind as OperationKind;
use proto::althing::data::v1::value::Kind as ValueKind;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
pub use watch::MessageSender;

const NO_OPERATION: &str = "an operation is one of those that its message has";

pub struct DataApi {
    rest: Rest,
}

impl DataApi {
    pub fn new(rest: Rest) -> DataApi {
        DataApi { rest }
    }

    /// The API as the caller may use it. Permissions on keys are checked where a request goes to the mesh.
    async fn admit(&self, metadata: &MetadataMap) -> Result<Rest, Refusal> {
        let handle = self.rest.handle();
        if !handle.auth().is_on() {
            return Ok(self.rest.with_caller(None));
        }
        let caller = guard::caller_of(handle, call_context::given(metadata), clients::current_ip()).await?;
        Ok(self.rest.with_caller(Some(caller)))
    }

    async fn head(
        &self,
        metadata: &MetadataMap,
        scope: Option<wire::Scope>,
        fill: impl FnOnce(CallHead) -> Result<CallHead, Refusal>,
    ) -> Result<(Rest, RequestHead), Refusal> {
        let rest = self.admit(metadata).await?;
        let head = fill(CallHead::of(metadata, scope)?)?.find(&rest).await?;
        Ok((rest, head))
    }
}

#[tonic::async_trait]
impl DataService for DataApi {
    async fn get(&self, request: Request<wire::GetRequest>) -> Result<Response<wire::GetResponse>, Status> {
        let (metadata, _, wire::GetRequest { scope, key, options }) = request.into_parts();
        let answer = async {
            let (rest, head) = self.head(&metadata, scope, |head| head.reading(options)).await?;
            let result = read_result::read(&rest, &head, head.key_of(&key)?).await?;
            let record = result.live(&rest, &head)?;
            let session = message::session(session::token(&head, result.seen())?);
            Ok(wire::GetResponse {
                entry: Some(message::entry(&rest, key, &record)),
                session,
                served_from: rest.region_name(result.from),
                replication_lag_ms: result.lag_ms,
            })
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    async fn put(&self, request: Request<wire::PutRequest>) -> Result<Response<wire::WriteResponse>, Status> {
        let (metadata, _, mut request) = request.into_parts();
        let (scope, options) = (request.scope.take(), request.options.take());
        let answer = async {
            let (rest, head) = self.head(&metadata, scope, |head| head.writing(options)).await?;
            let write = put(&rest, &head, request)?;
            let record = write::perform(&rest, &head, write).await?;
            written(&rest, &head, &record)
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    async fn delete(
        &self,
        request: Request<wire::DeleteRequest>,
    ) -> Result<Response<wire::WriteResponse>, Status> {
        let (metadata, _, wire::DeleteRequest { scope, key, options }) = request.into_parts();
        let answer = async {
            let (rest, head) = self.head(&metadata, scope, |head| head.writing(options)).await?;
            let write = delete(&rest, &head, &key)?;
            let record = write::perform(&rest, &head, write).await?;
            written(&rest, &head, &record)
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    async fn update(
        &self,
        request: Request<wire::UpdateRequest>,
    ) -> Result<Response<wire::UpdateResponse>, Status> {
        let (metadata, _, mut request) = request.into_parts();
        let (scope, options) = (request.scope.take(), request.options.take());
        let answer = async {
            let (rest, head) = self.head(&metadata, scope, |head| head.writing(options)).await?;
            let key = request.key.clone();
            if crdt::parse_name(&key, Some(&request.r#type))?.0.collection().is_some() {
                return elements::update(&rest, &head, request).await;
            }
            let write = update(&rest, &head, request)?;
            let record = write::perform(&rest, &head, write).await?;
            let session = message::session(session::token(&head, std::iter::once(&*record))?);
            let entry = Some(message::entry(&rest, key, &record));
            Ok(wire::UpdateResponse { entry, session, ..wire::UpdateResponse::default() })
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    type WatchStream = BoxStream<wire::WatchResponse>;

    async fn watch(
        &self,
        request: Request<wire::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        watch::stream(self, &metadata, request).await.map(Response::new).map_err(message::status)
    }

    async fn elements(
        &self,
        request: Request<wire::ElementsRequest>,
    ) -> Result<Response<wire::ElementsResponse>, Status> {
        let (metadata, _, mut request) = request.into_parts();
        let (scope, options) = (request.scope.take(), request.options.take());
        let answer = async {
            let (rest, head) = self.head(&metadata, scope, |head| head.reading(options)).await?;
            elements::read(&rest, &head, request).await
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    async fn batch(
        &self,
        request: Request<wire::BatchRequest>,
    ) -> Result<Response<wire::BatchResponse>, Status> {
        let (metadata, _, wire::BatchRequest { scope, operations, read_options }) = request.into_parts();
        let answer = async {
            let (rest, head) = self.head(&metadata, scope.clone(), |head| head.reading(read_options)).await?;
            let common = CallHead::of(&metadata, scope)?;
            let part = |operation: wire::BatchOperation| batch_part(&rest, &head, &common, operation);
            let parts: Vec<_> = operations.into_iter().map(part).collect();
            let keys: Vec<_> = parts.iter().map(|part| part.key.clone().unwrap_or_default()).collect();
            let results = batch::run(&rest, &Arc::new(head.clone()), parts).await?;
            let seen = results.iter().flatten().flat_map(PartOutcome::records);
            let session = message::session(session::token(&head, seen)?);
            let results = keys.into_iter().zip(results);
            let results = results.map(|(key, result)| batch_result(&rest, &head, key, result)).collect();
            Ok(wire::BatchResponse { results, session })
        };
        answer.await.map(Response::new).map_err(message::status)
    }

    async fn count(
        &self,
        request: Request<wire::CountRequest>,
    ) -> Result<Response<wire::CountResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        scan::count(self, &metadata, request).await.map(Response::new).map_err(message::status)
    }

    async fn delete_range(
        &self,
        request: Request<wire::DeleteRangeRequest>,
    ) -> Result<Response<wire::DeleteRangeResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        scan::delete(self, &metadata, request).await.map(Response::new).map_err(message::status)
    }

    type ScanStream = BoxStream<wire::ScanResponse>;

    async fn scan(&self, request: Request<wire::ScanRequest>) -> Result<Response<Self::ScanStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        scan::stream(self.rest.clone(), metadata, request).await
    }
}

/// The write of a value of the type that its message says.
fn put(rest: &Rest, head: &RequestHead, request: wire::PutRequest) -> Result<Write, Refusal> {
    let wire::PutRequest {
        key,
        value,
        r#type,
        ttl_seconds,
        metadata,
        schema_version,
        home_region,
        handler,
        ..
    } = request;
    let key = head.key_of(&key)?;
    let metadata: BTreeMap<String, String> = metadata.into_iter().collect();
    let ttl = Some(ttl_seconds).filter(|ttl| *ttl != 0);
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let value = value.and_then(|value| value.kind).ok_or_else(|| Refusal::bad("a put has a value"))?;
    if let ValueKind::Blob(wire::Blob { data, content_type }) = value {
        if !r#type.is_empty() && r#type != "lww_register" {
            return Err(Refusal::bad("bytes are kept as an lww_register; send JSON for other types"));
        }
        let content_type = text(content_type).unwrap_or("application/octet-stream".to_owned());
        return write::of_bytes(rest, head, key, write::RawBody { data, content_type, ttl, metadata });
    }
    let value = json_of(value)?;
    let given = ValueBody {
        value: &value,
        ttl,
        metadata,
        kind: text(r#type),
        schema_version: Some(schema_version).filter(|version| *version != 0),
        home_region: text(home_region),
        handler: text(handler),
    };
    write::of_given(rest, head, key, given, None)
}

fn delete(rest: &Rest, head: &RequestHead, key: &str) -> Result<Write, Refusal> {
    write::plain(rest, head, head.key_of(key)?, (Kind::Register, Op::Delete), None)
}

fn update(rest: &Rest, head: &RequestHead, request: wire::UpdateRequest) -> Result<Write, Refusal> {
    let wire::UpdateRequest { key, r#type, operation, .. } = request;
    let (kind, text) = crdt::parse_name(&key, Some(&r#type))?;
    let operation = operation.and_then(|operation| operation.kind);
    let (name, argument) = operation_of(operation.ok_or_else(|| Refusal::bad(NO_OPERATION))?)?;
    let op = crdt::parse_change(kind, &name, argument.as_bytes())?;
    write::plain(rest, head, head.key_of(text)?, (kind, op), None)
}

/// The name and the argument that the REST API has for an operation.
fn operation_of(operation: OperationKind) -> Result<(String, String), Refusal> {
    let named = |name: &str, argument: serde_json::Value| Ok((name.to_owned(), argument.to_string()));
    match operation {
        OperationKind::Increment(amount @ 0..) => named("increment", serde_json::json!({ "amount": amount })),
        OperationKind::Increment(amount) => {
            named("decrement", serde_json::json!({ "amount": amount.unsigned_abs() }))
        }
        OperationKind::AddElement(element) => named("add", serde_json::json!({ "element": element })),
        OperationKind::RemoveElement(element) => named("remove", serde_json::json!({ "element": element })),
        OperationKind::AddDecimal(delta) => named("add", serde_json::json!({ "delta": delta })),
        OperationKind::Set(value) => {
            let value = value.kind.ok_or_else(|| Refusal::bad("set needs a value"))?;
            Ok(("set".to_owned(), format!(r#"{{"value":{}}}"#, json_of(value)?)))
        }
        OperationKind::Named(wire::NamedOperation { name, argument }) => {
            let argument = String::from_utf8(argument.into());
            Ok((name, argument.map_err(|_| Refusal::bad("an argument is text in JSON"))?))
        }
    }
}

fn json_of(value: ValueKind) -> Result<Box<RawValue>, Refusal> {
    let text = match value {
        ValueKind::Json(bytes) => {
            String::from_utf8(bytes.into()).map_err(|_| Refusal::bad("JSON is text in UTF-8"))?
        }
        ValueKind::Integer(number) => number.to_string(),
        ValueKind::Decimal(digits) => serde_json::Value::from(digits).to_string(),
        ValueKind::Blob(_) => {
            return Err(Refusal::bad("bytes are put as a blob, and not into a mergeable value"));
        }
        ValueKind::Elements(_) => {
            return Err(Refusal::bad("elements are added to a set, by Update with add_element"));
        }
    };
    RawValue::from_string(text).map_err(|error| Refusal::bad(format!("the value is no JSON: {error}")))
}

/// A part of a batch. Its options are its own, its namespace, level and session those of the batch.
fn batch_part(
    rest: &Rest,
    head: &RequestHead,
    common: &CallHead,
    operation: wire::BatchOperation,
) -> batch::BatchPart {
    use wire::batch_operation::Kind;
    let own = |options| Ok(common.clone().writing(options)?.beside(head));
    let (key, write) = match operation.kind {
        None => return batch::BatchPart::new(None, Err(Refusal::bad(NO_OPERATION))),
        Some(Kind::Get(key)) => return batch::get(head, key),
        Some(Kind::Put(mut request)) => {
            let (key, head) = (request.key.clone(), own(request.options.take()));
            (key, head.and_then(|head| put(rest, &head, request)))
        }
        Some(Kind::Delete(wire::DeleteRequest { key, options, .. })) => {
            let write = own(options).and_then(|head| delete(rest, &head, &key));
            (key, write)
        }
        Some(Kind::Update(mut request)) => {
            let (key, head) = (request.key.clone(), own(request.options.take()));
            (key, head.and_then(|head| update(rest, &head, request)))
        }
    };
    batch::BatchPart::write(key, write)
}

fn batch_result(
    rest: &Rest,
    head: &RequestHead,
    key: String,
    result: Result<PartOutcome, Refusal>,
) -> wire::BatchResult {
    use wire::batch_result::Outcome;
    let outcome = result.and_then(|outcome| match outcome {
        PartOutcome::Seen(result) => {
            result.live(rest, head).map(|record| Outcome::Entry(message::entry(rest, key, &record)))
        }
        PartOutcome::Written(record) => Ok(Outcome::Written(message::write_response(rest, &record))),
    });
    let outcome = outcome.unwrap_or_else(|refusal| Outcome::Refusal(message::refusal(refusal)));
    wire::BatchResult { outcome: Some(outcome) }
}

fn written(rest: &Rest, head: &RequestHead, record: &Record) -> Result<wire::WriteResponse, Refusal> {
    let session = message::session(session::token(head, std::iter::once(record))?);
    Ok(wire::WriteResponse { session, ..message::write_response(rest, record) })
}

/// A caller without any permission in a namespace is not told whether it exists.
fn check_sees(rest: &Rest, name: &str) -> Result<(), Refusal> {
    if rest.may_see(mesh::namespaces::id_of(name)) { Ok(()) } else { Err(Code::PermissionDenied.into()) }
}
