//! Counts gRPC calls: when they begin, and with which code they end.
//! The code of a refusal is in the head of the answer, that of anything else in the trailers behind its body;
//! a call that is dropped before either was cancelled by its caller.

use crate::figures::{Figures, Method};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tonic::Code;

const STATUS: &str = "grpc-status";

pub async fn count(State(figures): State<Arc<Figures>>, request: Request, next: Next) -> Response {
    let Some(method) = figures.method(request.uri().path()) else { return next.run(request).await };
    let mut call = Call::begin(method);
    let response = next.run(request).await;
    match code_of(response.headers()) {
        Some(code) => {
            call.end(code);
            response
        }
        None => response.map(|body| Body::new(Counted { body, call })),
    }
}

fn code_of(headers: &HeaderMap) -> Option<Code> {
    headers.get(STATUS).map(|value| Code::from_bytes(value.as_bytes()))
}

/// A call under way.
pub struct Call {
    method: Arc<Method>,
    ended: bool,
}

impl Call {
    pub fn begin(method: Arc<Method>) -> Call {
        method.count_start();
        Call { method, ended: false }
    }

    pub fn end(&mut self, code: Code) {
        if !std::mem::replace(&mut self.ended, true) {
            self.method.count_end(code);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// The body of an answer, with an eye on its trailers.
struct Counted {
    body: Body,
    call: Call,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(code) = frame.trailers_ref().and_then(code_of)
        {
            self.call.end(code);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
