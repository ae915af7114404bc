//! One connection of HTTP/1, served by hyper: heads and bodies have deadlines, incomplete bodies are charged to
//! the budget for them, and the connection's slot is busy while a request is under way.

use crate::acceptor::ClientConn;
use crate::browsers::{self, Verdict};
use crate::clients;
use crate::conn::{ConnContext, stop_requested, urgent};
use crate::connections::SlotGuard;
use crate::gateway::old_prefix;
use crate::request_budget::IncompleteRequest;
use axum::body::Body;
use axum::http::header::{CONNECTION, USER_AGENT};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tonic::codegen::Service;
use tonic::transport::server::Connected;

/// How long the head of a request may take, and how long a connection may be silent before one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// What one connection buffers ahead of its handlers; a longer head is refused.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Serves until the connection ends, or, when the process stops, until the request under way is answered.
pub async fn serve(conn: ClientConn, shared: Arc<ConnContext>, stopping: watch::Receiver<bool>) {
    let (slot_guard, address) = (conn.slot_guard().clone(), conn.connect_info());
    let identity = shared.identity_of(&conn);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(address);
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        answer(request, shared.clone(), slot_guard.clone())
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_BYTES_MAX);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(conn), service));
    tokio::select! {
        // A broken connection needs no answer.
        _ = connection.as_mut() => return,
        () = stop_requested(stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<ConnContext>,
    slot_guard: Arc<SlotGuard>,
) -> Result<Response<Body>, Infallible> {
    if slot_guard.is_limited() && !urgent::is_urgent(request.uri().path().as_bytes()) {
        shared.browsers.record_refused(&request.into_parts().0, StatusCode::TOO_MANY_REQUESTS);
        return Ok(refuse(StatusCode::TOO_MANY_REQUESTS, "too many connections\n"));
    }
    let failure = Arc::new(OnceLock::new());
    let (mut head, body) = request.into_parts();
    old_prefix::replace_in(&mut head.uri);
    let shown_to = match shared.browsers.check(&head) {
        Verdict::Pass(shown_to) => shown_to,
        Verdict::Answered(response) => return Ok(*response),
    };
    let streams = shared.streams.contains(head.uri.path());
    let body = if HttpBody::is_end_stream(&body) {
        if !slot_guard.begin_request() {
            return Ok(refuse(StatusCode::SERVICE_UNAVAILABLE, "the connection is being closed\n"));
        }
        Body::empty()
    } else if streams && slot_guard.begin_request() {
        // A call that takes a stream of messages is under way from its head on.
        Body::new(body)
    } else {
        let (incomplete, slot_guard) = (IncompleteRequest::new(&shared.request_budget), slot_guard.clone());
        Body::new(Http1Body { body, incomplete, slot_guard, failure: failure.clone() })
    };
    let client = slot_guard.client().clone();
    client.count_request();
    if let Some(agent) = head.headers.get(USER_AGENT) {
        client.set_agent(agent.as_bytes());
    }
    let mut router = shared.router.clone();
    let Ok(mut response) = clients::serve(client, router.call(Request::from_parts(head, body))).await;
    browsers::finish(response.headers_mut(), shown_to);
    Ok(match failure.get() {
        Some(BodyFailure::Late) => {
            refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive\n")
        }
        Some(BodyFailure::NoSpace) => {
            refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests are on their way in\n")
        }
        None => response.map(|body| Body::new(ResponseBody { body, slot_guard })),
    })
}

fn refuse(status: StatusCode, why: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(why));
    *response.status_mut() = status;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    browsers::protect(response.headers_mut());
    response
}

/// Why a body ends before it is complete.
#[derive(Debug)]
enum BodyFailure {
    Late,
    NoSpace,
}

/// The body that a handler reads. It fails when it takes too long to arrive, or when the budget is exceeded.
struct Http1Body {
    body: Incoming,
    incomplete: IncompleteRequest,
    slot_guard: Arc<SlotGuard>,
    failure: Arc<OnceLock<BodyFailure>>,
}

impl Http1Body {
    fn fail(&self, failure: BodyFailure) -> io::Error {
        let _ = self.failure.set(failure);
        io::ErrorKind::ConnectionAborted.into()
    }
}

impl HttpBody for Http1Body {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let more = frame.data_ref().map_or(0, Bytes::len);
                if self.incomplete.hold_more(more) {
                    Poll::Ready(Some(Ok(frame)))
                } else {
                    Poll::Ready(Some(Err(self.fail(BodyFailure::NoSpace).into())))
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                // Complete: from here on it is the handler's.
                self.incomplete.hold(0);
                if self.slot_guard.begin_request() {
                    Poll::Ready(None)
                } else {
                    Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted).into())))
                }
            }
            Poll::Pending if self.incomplete.is_late(context) => {
                Poll::Ready(Some(Err(self.fail(BodyFailure::Late).into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response; when it is over, so is the request.
struct ResponseBody {
    body: Body,
    slot_guard: Arc<SlotGuard>,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.slot_guard.end_requests();
    }
}
