//! One connection of HTTP/1, served by hyper: heads and bodies have deadlines, incomplete bodies are charged to
//! the budget for them, and the connection's slot is busy while a request is under way.

use crate::browsers::{self, Verdict};
use crate::connections::Place;
use crate::door::Guest;
use crate::front::{Front, told, urgent};
use crate::intake::Arriving;
use axum::body::Body;
use axum::http::header::CONNECTION;
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
pub async fn serve(guest: Guest, front: Arc<Front>, stopping: watch::Receiver<bool>) {
    let (place, address) = (guest.place().clone(), guest.connect_info());
    let identity = front.identity_of(&guest);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(address);
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        answer(request, front.clone(), place.clone())
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_BYTES_MAX);
    let mut connection = Box::pin(builder.serve_connection(TokioIo::new(guest), service));
    tokio::select! {
        // A broken connection needs no answer.
        _ = connection.as_mut() => return,
        () = told(stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

async fn answer(
    request: Request<Incoming>,
    front: Arc<Front>,
    place: Arc<Place>,
) -> Result<Response<Body>, Infallible> {
    if place.is_limited() && !urgent::is_urgent(request.uri().path().as_bytes()) {
        return Ok(refuse(StatusCode::TOO_MANY_REQUESTS, "too many connections\n"));
    }
    let failure = Arc::new(OnceLock::new());
    let (head, body) = request.into_parts();
    let shown_to = match front.browsers.judge(&head) {
        Verdict::Pass(shown_to) => shown_to,
        Verdict::Answered(response) => return Ok(*response),
    };
    let streams = front.streams.contains(head.uri.path());
    let body = match HttpBody::is_end_stream(&body) {
        true => {
            if !place.begin_request() {
                return Ok(refuse(StatusCode::SERVICE_UNAVAILABLE, "the connection is being closed\n"));
            }
            Body::empty()
        }
        // A call that takes a stream of messages is under way from its head on.
        false if streams && place.begin_request() => Body::new(body),
        false => {
            let (arriving, place) = (Arriving::new(&front.intake), place.clone());
            Body::new(RequestBody { body, arriving, place, failure: failure.clone() })
        }
    };
    let mut router = front.router.clone();
    let Ok(mut response) = router.call(Request::from_parts(head, body)).await;
    browsers::finish(response.headers_mut(), shown_to);
    Ok(match failure.get() {
        Some(Failure::Late) => refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive\n"),
        Some(Failure::NoRoom) => {
            refuse(StatusCode::TOO_MANY_REQUESTS, "too many requests are on their way in\n")
        }
        None => response.map(|body| Body::new(ResponseBody { body, place })),
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
enum Failure {
    Late,
    NoRoom,
}

/// The body that a handler reads. It fails when it takes too long to arrive, or when the budget is exceeded.
struct RequestBody {
    body: Incoming,
    arriving: Arriving,
    place: Arc<Place>,
    failure: Arc<OnceLock<Failure>>,
}

impl RequestBody {
    fn fail(&self, failure: Failure) -> io::Error {
        let _ = self.failure.set(failure);
        io::ErrorKind::ConnectionAborted.into()
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let more = frame.data_ref().map_or(0, Bytes::len);
                match self.arriving.hold_more(more) {
                    true => Poll::Ready(Some(Ok(frame))),
                    false => Poll::Ready(Some(Err(self.fail(Failure::NoRoom).into()))),
                }
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => {
                // Complete: from here on it is the handler's.
                self.arriving.hold(0);
                match self.place.begin_request() {
                    true => Poll::Ready(None),
                    false => Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()))),
                }
            }
            Poll::Pending if self.arriving.is_late(context) => {
                Poll::Ready(Some(Err(self.fail(Failure::Late).into())))
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
    place: Arc<Place>,
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
        self.place.end_requests();
    }
}
