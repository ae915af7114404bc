//! Counts gRPC calls and their messages: when they begin, and with which code they end.
//! The code of a refusal is in the head of the answer, that of anything else in the trailers behind its body;
//! a call that is dropped before either was cancelled by its caller. A call that exceeds its caller's
//! deadline is ended here.

use crate::Mutant;
use crate::audit::{self, Recording};
use crate::clients::{self, ClientRecord};
use crate::grpc::messages::Messages;
use crate::metrics::{ApiMetrics, MethodMetrics, VERSION};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use base::mutant::planted;
use http_body::{Frame, SizeHint};
use server::{Audit, Handle};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::{Sleep, sleep, timeout};
use tonic::{Code, Status};

const STATUS: &str = "grpc-status";
pub const TIMEOUT: &str = "grpc-timeout";
/// How long after its caller's deadline a call is ended. The caller's own timer ends the call for the caller; an answer
/// that overtakes this timer is taken for the end of one attempt, and Go's client then sends a write a second time.
/// No caller waits for the answer by then, so it may come late but never early.
const GRACE: Duration = Duration::from_millis(20);

/// Where calls are counted, and recorded if they are.
#[derive(Clone)]
pub struct Counting {
    pub metrics: Arc<ApiMetrics>,
    pub audit: Option<Audit>,
    /// What notes refusals; tests have none.
    pub handle: Option<Handle>,
}

pub async fn count(State(counting): State<Counting>, mut request: Request, next: Next) -> Response {
    let Counting { metrics, audit, handle } = counting;
    let Some(method) = metrics.method(request.uri().path()) else { return next.run(request).await };
    let counted = request.extensions_mut().remove::<CallSlot>().and_then(|counted| counted.open());
    let mut call = counted.unwrap_or_else(|| {
        let version = request.headers().get(VERSION).map(|version| version.as_bytes());
        metrics.versions.counter(method.version_kind(), version).inc();
        CountedCall::begin(method, Instant::now())
    });
    let limit = request.headers().get(TIMEOUT).and_then(|value| parse_timeout(value.as_bytes()));
    let limit = limit.map(|limit| limit.saturating_sub(call.begun.elapsed()));
    let begun = Instant::now();
    let recording = audit.map(|audit| audit::of_call(&audit, &request));
    call.record(recording.clone());
    if call.method.is_request_stream() {
        let method = call.method.clone();
        let messages = Messages::default();
        request = request.map(|body| Body::new(CountedRequest { body, method, messages }));
    }
    let response = match recording {
        None => run(limit, request, next).await,
        Some(recording) => recording.around(run(limit, request, next)).await,
    };
    match code_of(response.headers()) {
        Some(code) => {
            match clients::current() {
                Some(client) => call.end_for(handle.as_ref(), &client, code),
                None => call.end(code),
            }
            response
        }
        None => {
            let left = limit.map(|limit| Box::pin(sleep(limit.saturating_sub(begun.elapsed()))));
            let messages = call.method.is_response_stream().then(Messages::default);
            response.map(|body| Body::new(CountedResponse { body, call, messages, left, cut: false }))
        }
    }
}

async fn run(limit: Option<Duration>, request: Request, next: Next) -> Response {
    match limit {
        None => next.run(request).await,
        Some(limit) => match timeout(limit, next.run(request)).await {
            Ok(response) => response,
            Err(_) => late().into_http(),
        },
    }
}

/// The answer to a caller whose deadline has passed.
pub fn late() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(STATUS).map(|value| Code::from_bytes(value.as_bytes()))
}

/// When to end a call, counted from its arrival: at most eight digits and a unit, and then the grace. A header of another
/// form sets no limit.
pub fn parse_timeout(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    let amount: u64 = std::str::from_utf8(digits).ok().filter(|digits| digits.len() <= 8)?.parse().ok()?;
    let limit = match unit {
        b'H' => Duration::from_secs(amount * 3_600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return None,
    };
    if planted(Mutant::DeadlineToldEarly) {
        return Some(limit / 2);
    }
    Some(limit + GRACE)
}

/// A call under way.
pub struct CountedCall {
    method: Arc<MethodMetrics>,
    begun: Instant,
    ended: bool,
    recording: Option<Recording>,
}

impl CountedCall {
    pub fn begin(method: Arc<MethodMetrics>, begun: Instant) -> CountedCall {
        method.count_start();
        CountedCall { method, begun, ended: false, recording: None }
    }

    /// Its outcome goes into the audit log as well.
    pub fn record(&mut self, recording: Option<Recording>) {
        self.recording = recording;
    }

    /// Ends a call of this client; that it had no permission is told to operators.
    pub fn end_for(&mut self, handle: Option<&Handle>, client: &ClientRecord, code: Code) {
        if let (Code::PermissionDenied, Some(handle)) = (code, handle) {
            handle.note_refused(client.refused(self.method.name()));
        }
        self.end(code);
    }

    pub fn end(&mut self, code: Code) {
        if !std::mem::replace(&mut self.ended, true) {
            self.method.count_end(code, self.begun);
            if let Some(recording) = &self.recording {
                recording.end(code);
            }
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// A call that was counted before it reached the router; it travels in the extensions of its request.
#[derive(Clone)]
pub struct CallSlot(Arc<Mutex<Option<CountedCall>>>);

impl CallSlot {
    pub fn new(call: CountedCall) -> CallSlot {
        CallSlot(Arc::new(Mutex::new(Some(call))))
    }

    fn open(&self) -> Option<CountedCall> {
        self.0.lock().expect("nothing panics in here").take()
    }
}

/// The body of a request that is a stream, with its messages counted.
struct CountedRequest {
    body: Body,
    method: Arc<MethodMetrics>,
    messages: Messages,
}

impl http_body::Body for CountedRequest {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            let begun = self.messages.begun_in(data);
            self.method.count_received(begun);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer, which watches its trailers and the deadline.
struct CountedResponse {
    body: Body,
    call: CountedCall,
    /// The messages of an answer that is a stream.
    messages: Option<Messages>,
    left: Option<Pin<Box<Sleep>>>,
    /// The deadline has passed, and the caller got the status.
    cut: bool,
}

impl CountedResponse {
    fn count_frame(&mut self, frame: &Frame<Bytes>) {
        if let Some(code) = frame.trailers_ref().and_then(code_of) {
            self.call.end(code);
        }
        if let (Some(messages), Some(data)) = (&mut self.messages, frame.data_ref()) {
            self.call.method.count_sent(messages.begun_in(data));
        }
    }

    /// The end of an answer that takes too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Frame<Bytes>> {
        let Some(left) = &mut self.left else { return Poll::Pending };
        std::task::ready!(left.as_mut().poll(cx));
        self.cut = true;
        self.call.end(Code::DeadlineExceeded);
        let mut trailers = HeaderMap::new();
        late().add_header(&mut trailers).expect("the words fit into a header");
        Poll::Ready(Frame::trailers(trailers))
    }
}

impl http_body::Body for CountedResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.cut {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame {
                    self.count_frame(frame);
                }
                Poll::Ready(frame)
            }
            Poll::Pending => self.poll_late(cx).map(|frame| Some(Ok(frame))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::post;
    use prost_reflect::DescriptorPool;
    use std::future::pending;
    use tonic::codegen::Service;
    use tonic::codegen::tokio_stream;

    async fn answer(path: &'static str) -> (Response, Arc<ApiMetrics>) {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        let metrics = Arc::new(ApiMetrics::new(&pool, false, &crate::ClientLimits::default()));
        let endless =
            || async { Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>()) };
        let mut router: Router = Router::new()
            .route("/etcdserverpb.KV/Range", post(pending::<Response>))
            .route("/etcdserverpb.Watch/Watch", post(endless))
            .layer(axum::middleware::from_fn_with_state(
                Counting { metrics: metrics.clone(), audit: None, handle: None },
                count,
            ));
        let request = Request::post(path).header(TIMEOUT, "20m").body(Body::empty()).unwrap();
        (router.call(request).await.unwrap(), metrics)
    }

    #[tokio::test]
    async fn a_call_that_takes_too_long_gets_deadline_exceeded() {
        let (response, metrics) = answer("/etcdserverpb.KV/Range").await;
        assert_eq!(code_of(response.headers()), Some(Code::DeadlineExceeded));
        assert_eq!(response.headers()["grpc-message"], "context%20deadline%20exceeded");
        let mut text = String::new();
        metrics.append_to(&mut text);
        assert!(text.contains(r#"grpc_method="Range",grpc_code="DeadlineExceeded"} 1"#), "{text}");
    }

    async fn next_frame(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
        std::future::poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut *body), cx)).await
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_time_is_up() {
        let (response, _) = answer("/etcdserverpb.Watch/Watch").await;
        let mut body = response.into_body();
        let trailers = next_frame(&mut body).await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(code_of(&trailers), Some(Code::DeadlineExceeded));
        assert!(next_frame(&mut body).await.is_none());
    }

    #[test]
    fn timeouts_are_read_as_grpc_writes_them() {
        let limit = |text: &str| parse_timeout(text.as_bytes());
        assert_eq!(limit("2S"), Some(Duration::from_secs(2) + GRACE));
        assert_eq!(limit("1H"), Some(Duration::from_secs(3_600) + GRACE));
        assert_eq!(limit("1m"), Some(Duration::from_millis(1) + GRACE));
        assert_eq!(limit("0n"), Some(GRACE));
        for text in ["", "S", "5", "5x", "-1S", "123456789S", "5 S", "\u{e4}S"] {
            assert_eq!(limit(text), None, "{text}");
        }
    }
}
