//! The Watch service: etcd's requests in, `coord::watch` inputs out; the hub's responses in, frames out.
//! A stream ends when the client leaves, when the member stops, or, for clients that insist on a leader, when
//! there has been none for a while. Events are encoded once, however many watches get them.

use crate::audit::{self, WatchRecording};
use crate::clients::{self, ClientRecord, WatchStreamGuard};
use crate::grpc::{call_context, refusal};
use axum::extract::{Request as HttpRequest, State};
use axum::response::Response as HttpResponse;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::Caller;
use coord::reply::KeyValue;
use coord::watch::{
    Batch, Create, Event, Filters, Input, Refusal, Response, ResponseKind, StreamId, WatchId, denied,
};
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use proto::frame::{WatchCodec, WatchFrame, encode_events};
use proto::mvccpb;
use server::{Handle, WatchRequests, WatchResponses};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::codegen::BoxFuture;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

pub const PATH: &str = "/etcdserverpb.Watch/Watch";

/// A leader may be missing for this many election timeouts, as in etcd.
const LEADERLESS_TIMEOUTS_MAX: u32 = 3;

#[derive(Clone)]
pub struct WatchService {
    pub handle: Handle,
    pub message_bytes_max: usize,
    /// Becomes true when no more is served.
    pub stopping: watch::Receiver<bool>,
}

pub async fn serve(State(service): State<WatchService>, request: HttpRequest) -> HttpResponse {
    let mut grpc = Grpc::new(WatchCodec)
        .apply_max_message_size_config(Some(service.message_bytes_max), Some(usize::MAX));
    grpc.streaming(service, request).await.map(axum::body::Body::new)
}

impl StreamingService<WatchRequest> for WatchService {
    type Response = WatchFrame;
    type ResponseStream = WatchFrames;
    type Future = BoxFuture<tonic::Response<WatchFrames>, Status>;

    fn call(&mut self, request: tonic::Request<Streaming<WatchRequest>>) -> Self::Future {
        let service = self.clone();
        let (metadata, _, requests) = request.into_parts();
        Box::pin(async move {
            call_context::wait_for_leader(&service.handle, &metadata).await.map_err(refusal::render)?;
            service.begin(&metadata, requests).map(tonic::Response::new).map_err(refusal::render)
        })
    }
}

impl WatchService {
    /// A stream of watches, for gRPC and for the gateway.
    pub fn begin(
        self,
        metadata: &MetadataMap,
        wire: impl Stream<Item = Result<WatchRequest, Status>> + Send + Unpin + 'static,
    ) -> Result<WatchFrames, Code> {
        call_context::check_leader(&self.handle, metadata)?;
        let leader_required = call_context::requires_leader(metadata);
        let (requests, responses) = self.handle.watch_stream()?;
        let token = call_context::token(metadata).map(str::to_owned);
        audit::note_token(&self.handle, token.as_deref());
        let recording = WatchRecording::begin();
        let client = clients::current();
        let listed = client.as_ref().map(|client| client.begin_watches(requests.stream()));
        let callers = Callers { handle: self.handle.clone(), token, recording: recording.clone(), client };
        let reader = tokio::spawn(forward(callers, wire, requests));
        let ended = Box::pin(end_of(self.handle.clone(), leader_required, self.stopping));
        let batch = Vec::new().into_iter();
        Ok(WatchFrames {
            handle: self.handle,
            responses,
            batch,
            term: 0,
            reader: RequestReader(Some(reader)),
            ended: Some(ended),
            recording,
            _listed: listed,
        })
    }
}

/// Forwards the client's requests to the hub until there are no more. Afterwards its watches continue.
async fn forward(
    callers: Callers,
    mut wire: impl Stream<Item = Result<WatchRequest, Status>> + Unpin,
    requests: WatchRequests,
) -> Result<(), Status> {
    while let Some(request) = wire.next().await {
        let Some(input) = parse(request?, requests.stream()) else { continue };
        let input = match input {
            Input::Create(create) => callers.admit(create).await,
            input => input,
        };
        if !requests.send(input).await {
            return Err(refusal::render(Code::Stopped));
        }
    }
    Ok(())
}

/// The callers that begin watches on a stream.
struct Callers {
    handle: Handle,
    token: Option<String>,
    recording: Option<WatchRecording>,
    client: Option<Arc<ClientRecord>>,
}

impl Callers {
    /// The token is looked up for each watch: a stream may live longer than a token.
    async fn admit(&self, create: Create) -> Input {
        if let Some(recording) = &self.recording {
            recording.ask(&create.keys);
        }
        match self.handle.auth().admit(self.token.as_deref()).await {
            Ok(admitted) => {
                if let Some(client) = &self.client {
                    client.set_caller(admitted.caller());
                }
                if let Some(recording) = &self.recording {
                    recording.identify(admitted.caller());
                }
                if let Err(code) = admitted.auth().refuse_strangers_to_data_nodes() {
                    return Input::Refuse { stream: create.stream, refusal: Refusal::Denied(code) };
                }
                Input::Create(Create { caller: admitted.caller().clone(), ..create })
            }
            Err(code) => Input::Refuse { stream: create.stream, refusal: Refusal::Denied(code) },
        }
    }
}

/// Why the server ends a stream.
async fn end_of(handle: Handle, leader_required: bool, mut stopping: watch::Receiver<bool>) -> Code {
    let stopped = stopping.wait_for(|stopping| *stopping);
    if !leader_required {
        let _ = stopped.await;
        return Code::Stopped;
    }
    tokio::select! {
        _ = stopped => Code::Stopped,
        () = leader_lost(&handle) => Code::NoLeader,
    }
}

async fn leader_lost(handle: &Handle) {
    let mut missing = 0;
    while missing < LEADERLESS_TIMEOUTS_MAX {
        tokio::time::sleep(handle.election_timeout()).await;
        missing = if handle.status().leader.is_some() { 0 } else { missing + 1 };
    }
}

/// Something the hub can act on; unknown requests are ignored, as in etcd.
pub fn parse(wire: WatchRequest, stream: StreamId) -> Option<Input> {
    Some(match wire.request_union? {
        RequestUnion::CreateRequest(create) => Input::Create(parse_create(create, stream)),
        RequestUnion::CancelRequest(cancel) => Input::Cancel { stream, watch: WatchId(cancel.watch_id) },
        RequestUnion::ProgressRequest(_) => Input::Progress(stream),
    })
}

fn parse_create(wire: WatchCreateRequest, stream: StreamId) -> Create {
    let filtered = |kind: FilterType| wire.filters.contains(&(kind as i32));
    let filters = Filters { no_put: filtered(FilterType::Noput), no_delete: filtered(FilterType::Nodelete) };
    let key = if wire.key.is_empty() { Bytes::from_static(b"\0") } else { wire.key };
    Create {
        stream,
        caller: Caller::Anonymous,
        id: (wire.watch_id != 0).then_some(WatchId(wire.watch_id)),
        keys: KeyRange::from_wire(key, wire.range_end),
        start: Revision(wire.start_revision),
        prev_kv: wire.prev_kv,
        filters,
        progress_notify: wire.progress_notify,
        fragment: wire.fragment,
    }
}

/// The stream of responses. Dropping it ends the watches.
pub struct WatchFrames {
    handle: Handle,
    responses: WatchResponses,
    /// Responses that were taken from the stream and are not sent yet.
    batch: std::vec::IntoIter<Response>,
    /// When it was taken.
    term: u64,
    reader: RequestReader,
    /// `None` once the stream has ended.
    ended: Option<Pin<Box<dyn Future<Output = Code> + Send>>>,
    recording: Option<WatchRecording>,
    /// The stream is among those of its client while it lives.
    _listed: Option<WatchStreamGuard>,
}

/// The task that reads the client's requests; it does not outlive the stream.
struct RequestReader(Option<JoinHandle<Result<(), Status>>>);

impl Drop for RequestReader {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl RequestReader {
    /// The fault in the client's requests, if there was one.
    fn poll_fault(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let task = self.0.as_mut()?;
        let Poll::Ready(read) = Pin::new(task).poll(cx) else { return None };
        self.0 = None;
        read.unwrap_or_else(|_| Err(Status::internal("reading the requests failed"))).err()
    }
}

impl WatchFrames {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        if let Some(fault) = self.reader.poll_fault(cx) {
            return Some(fault);
        }
        match self.ended.as_mut()?.as_mut().poll(cx) {
            Poll::Ready(code) => Some(refusal::render(code)),
            Poll::Pending => None,
        }
    }

    fn end(&mut self, status: Status) -> Poll<Option<Result<WatchFrame, Status>>> {
        self.ended = None;
        Poll::Ready(Some(Err(status)))
    }
}

impl Stream for WatchFrames {
    type Item = Result<WatchFrame, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended.is_none() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(response) = self.batch.next() {
                if let Some(recording) = &self.recording {
                    record(recording, &response.kind);
                }
                let frame = render(&self.handle, self.term, response);
                return Poll::Ready(Some(Ok(frame)));
            }
            if let Some(status) = self.poll_end(cx) {
                return self.end(status);
            }
            match self.responses.poll_take(cx) {
                Poll::Ready(Some(batch)) => {
                    self.batch = batch.into_iter();
                    self.term = self.handle.status().term.0;
                }
                Poll::Ready(None) => return self.end(refusal::render(Code::Stopped)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Writes the outcome of a watch to the audit log.
pub fn record(recording: &WatchRecording, kind: &ResponseKind) {
    match kind {
        ResponseKind::Created => recording.answer(tonic::Code::Ok),
        ResponseKind::Refused(Refusal::Denied(code)) => recording.answer(refusal::render(*code).code()),
        ResponseKind::Refused(_) => recording.answer(tonic::Code::InvalidArgument),
        ResponseKind::Denied(_) => recording.deny(),
        ResponseKind::Events { .. } | ResponseKind::Canceled { .. } | ResponseKind::Progress => {}
    }
}

fn render(handle: &Handle, term: u64, response: Response) -> WatchFrame {
    let mut head = WatchResponse {
        header: Some(call_context::header_at(handle, response.revision, term)),
        watch_id: response.watch.0,
        ..WatchResponse::default()
    };
    let mut events = Bytes::new();
    match response.kind {
        ResponseKind::Created => head.created = true,
        ResponseKind::Refused(refusal) => {
            head.created = true;
            head.canceled = true;
            head.cancel_reason = refusal.reason().to_owned();
        }
        ResponseKind::Events { batch, fragment } => {
            head.fragment = fragment;
            events = encoded(&batch);
        }
        ResponseKind::Canceled { compacted } => {
            head.canceled = true;
            head.compact_revision = compacted.map_or(0, |revision| revision.0);
        }
        ResponseKind::Denied(code) => {
            head.canceled = true;
            head.cancel_reason = denied(code).to_owned();
        }
        ResponseKind::Progress => {}
    }
    WatchFrame { head, events }
}

fn encoded(batch: &Batch) -> Bytes {
    batch.encoded(|events| encode_events(events.iter().map(render_event).collect())).clone()
}

fn render_event(event: &Event) -> mvccpb::Event {
    let kind = if event.deleted { mvccpb::event::EventType::Delete } else { mvccpb::event::EventType::Put };
    mvccpb::Event {
        r#type: kind as i32,
        kv: Some(render_key_value(&event.kv)),
        prev_kv: event.prev.as_ref().map(render_key_value),
    }
}

fn render_key_value(kv: &KeyValue) -> mvccpb::KeyValue {
    crate::grpc::kv::render_key_value(kv.clone())
}

#[cfg(test)]
mod tests;
