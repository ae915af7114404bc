//! The routed path: a call becomes an HTTP request, a task of its own calls the router, and the response goes back in
//! parts. A request's body is handed over as it arrives and credited to the client as it is read; a response's body is
//! polled only as fast as the client takes it.

use crate::browsers::{self, BrowserGuard, Verdict};
use crate::clients::{self, ClientRecord};
use crate::conn::progress::BodyProgress;
use crate::grpc::calls;
use crate::grpc::kv_service::LargeFound;
use crate::grpc::messages::Messages;
use crate::rest::ClientIdentity;
use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING, UPGRADE};
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version, response};
use bytes::Bytes;
use http_body::Frame;
use http2::{Field, Head, StreamId};
use server::ReplyInbox;
use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tonic::codegen::Service;

/// Pieces of one response's body on their way to the client.
const PIECES_MAX: usize = 4;

/// Messages of a task about its call.
pub enum RoutedPart {
    Head {
        stream: StreamId,
        head: Box<response::Parts>,
        last: bool,
    },
    Data {
        stream: StreamId,
        data: Bytes,
        last: bool,
    },
    Trailers {
        stream: StreamId,
        trailers: HeaderMap,
    },
    /// The response cannot be finished.
    Broken {
        stream: StreamId,
    },
    /// So much of the request's body was read.
    Consumed {
        stream: StreamId,
        bytes: usize,
    },
}

/// Where a call comes from.
pub struct CallOrigin {
    pub stream: StreamId,
    /// The client's address, while it has one.
    pub address: Option<SocketAddr>,
    /// What its certificate says, if that names users.
    pub identity: Option<ClientIdentity>,
    /// Its count, if it was counted before.
    pub counted: Option<calls::CountedCall>,
    /// The answer of the fast path, if that is large.
    pub found: Option<LargeFound>,
    pub client: Arc<ClientRecord>,
}

/// A call on the routed path. Dropping it ends its task.
pub struct RoutedCall {
    /// Until the request's body has ended.
    body: Option<mpsc::UnboundedSender<Bytes>>,
    pub progress: BodyProgress,
    task: AbortHandle,
    pieces: Arc<Semaphore>,
    /// Pieces that the client's window does not take yet.
    owed: usize,
    /// Where messages end in the response.
    messages: Messages,
}

impl Drop for RoutedCall {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RoutedCall {
    /// Begins the call. `None` if its head is no HTTP.
    pub fn begin(
        (router, browsers): (&Router, &Arc<BrowserGuard>),
        from: CallOrigin,
        head: Head,
        parts: &Arc<ReplyInbox<RoutedPart>>,
        progress: BodyProgress,
    ) -> Option<RoutedCall> {
        let CallOrigin { stream, address, identity, counted, found, client } = from;
        let (sender, receiver) = mpsc::unbounded_channel();
        let body = RoutedBody { receiver, stream, parts: parts.clone() };
        let mut request = request_of(head, Body::new(body))?;
        // As connections of HTTP/1 have it.
        request.extensions_mut().insert(address);
        if let Some(identity) = identity {
            request.extensions_mut().insert(identity);
        }
        if let Some(call) = counted {
            request.extensions_mut().insert(calls::CallSlot::new(call));
        }
        if let Some(found) = found {
            request.extensions_mut().insert(found);
        }
        let pieces = Arc::new(Semaphore::new(PIECES_MAX));
        let outlet = ResponseSender { stream, parts: parts.clone(), pieces: pieces.clone(), ended: false };
        let (router, browsers) = (router.clone(), browsers.clone());
        let task = tokio::spawn(async move {
            let response = clients::serve(client, ask(router, &browsers, request)).await;
            outlet.send(response).await;
        });
        let task = task.abort_handle();
        let messages = Messages::default();
        Some(RoutedCall { body: Some(sender), progress, task, pieces, owed: 0, messages })
    }

    /// Adds a piece of the request's body.
    pub fn push(&mut self, data: Bytes, now: Instant) {
        self.progress.receive(&data, now);
        if let Some(body) = self.body.as_ref().filter(|_| !data.is_empty()) {
            // A task that does not read any more drops it; its bytes are credited when the stream ends.
            let _ = body.send(data);
        }
    }

    pub fn end_body(&mut self) {
        self.progress.end();
        self.body = None;
    }

    /// Sends a part of the response. Each message of gRPC gets DATA frames of its own, as grpc-go's messages do.
    pub fn send(
        &mut self,
        machine: &mut http2::Connection,
        stream: StreamId,
        mut data: Bytes,
        last: bool,
    ) -> bool {
        if self.progress.is_grpc() {
            while let Some(len) = self.messages.first_end_in(&data) {
                if len == data.len() {
                    break;
                }
                machine.send_data(stream, data.split_to(len), false);
            }
        }
        machine.send_data(stream, data, last)
    }

    /// A piece of the response was sent, at once or into the queue of the stream.
    pub fn sent(&mut self, at_once: bool) {
        if at_once { self.pieces.add_permits(1) } else { self.owed += 1 }
    }

    /// The queue of the stream is empty.
    pub fn drained(&mut self) {
        self.pieces.add_permits(std::mem::take(&mut self.owed));
    }
}

async fn ask(mut router: Router, browsers: &BrowserGuard, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let shown_to = match browsers.check(&head) {
        Verdict::Pass(shown_to) => shown_to,
        Verdict::Answered(response) => return *response,
    };
    let request = Request::from_parts(head, body);
    let Ok(mut response): Result<_, Infallible> = async {
        poll_fn(|context| Service::<Request<Body>>::poll_ready(&mut router, context)).await?;
        router.call(request).await
    }
    .await;
    browsers::finish(response.headers_mut(), shown_to);
    response
}

fn request_of(head: Head, body: Body) -> Option<Request<Body>> {
    let mut request = Request::new(body);
    *request.version_mut() = Version::HTTP_2;
    *request.method_mut() = Method::from_bytes(&head.method).ok()?;
    let mut uri = axum::http::uri::Parts::default();
    uri.path_and_query = Some(PathAndQuery::from_maybe_shared(head.path).ok()?);
    // Clients of etcd 3.4 put a whole URL there when they speak to a single member; it is ignored.
    if let Ok(authority) = Authority::from_maybe_shared(head.authority) {
        uri.scheme = Some(Scheme::try_from(&*head.scheme).ok()?);
        uri.authority = Some(authority);
    }
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    let headers = request.headers_mut();
    for Field { name, value } in head.fields {
        headers.append(HeaderName::from_bytes(&name).ok()?, HeaderValue::from_maybe_shared(value).ok()?);
    }
    Some(request)
}

/// The body that the handler reads.
struct RoutedBody {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    stream: StreamId,
    parts: Arc<ReplyInbox<RoutedPart>>,
}

impl http_body::Body for RoutedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(data) = ready!(self.receiver.poll_recv(context)) else { return Poll::Ready(None) };
        self.parts.push(RoutedPart::Consumed { stream: self.stream, bytes: data.len() });
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.receiver.is_closed() && self.receiver.is_empty()
    }
}

/// Where a task puts its response. If it ends without one, the client gets an error.
struct ResponseSender {
    stream: StreamId,
    parts: Arc<ReplyInbox<RoutedPart>>,
    pieces: Arc<Semaphore>,
    ended: bool,
}

impl ResponseSender {
    async fn send(mut self, response: Response<Body>) {
        let (mut head, mut body) = response.into_parts();
        let last = http_body::Body::is_end_stream(&body);
        complete(&mut head.headers, &body, last);
        self.push(RoutedPart::Head { stream: self.stream, head: Box::new(head), last }, last);
        while !self.ended {
            let frame = poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut body), context)).await;
            let last = http_body::Body::is_end_stream(&body);
            self.send_frame(frame, last).await;
        }
    }

    async fn send_frame(&mut self, frame: Option<Result<Frame<Bytes>, axum::Error>>, last: bool) {
        let stream = self.stream;
        let frame = match frame {
            None => return self.push(RoutedPart::Data { stream, data: Bytes::new(), last: true }, true),
            Some(Err(_)) => return self.push(RoutedPart::Broken { stream }, true),
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(data) => {
                let place = self.pieces.acquire().await.expect("it is never closed");
                place.forget();
                self.push(RoutedPart::Data { stream, data, last }, last);
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                self.push(RoutedPart::Trailers { stream, trailers }, true);
            }
        }
    }

    fn push(&mut self, part: RoutedPart, last: bool) {
        self.ended = last;
        self.parts.push(part);
    }
}

impl Drop for ResponseSender {
    fn drop(&mut self) {
        if !self.ended {
            self.parts.push(RoutedPart::Broken { stream: self.stream });
        }
    }
}

/// Removes headers that HTTP/2 does not allow; adds the length of the body if it is known.
fn complete(headers: &mut HeaderMap, body: &Body, last: bool) {
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
    if let Some(len) = http_body::Body::size_hint(body).exact().filter(|_| !last) {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| len.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(authority: &'static str, path: &'static str) -> Option<Request<Body>> {
        let head = Head {
            method: Bytes::from_static(b"POST"),
            scheme: Bytes::from_static(b"http"),
            path: Bytes::from_static(path.as_bytes()),
            authority: Bytes::from_static(authority.as_bytes()),
            fields: vec![Field::from_static("a", "1"), Field::from_static("a", "2")],
        };
        request_of(head, Body::empty())
    }

    #[test]
    fn a_head_becomes_a_request_of_http() {
        let request = request("host:1", "/a/b?c").unwrap();
        assert_eq!((request.method(), request.version()), (&Method::POST, Version::HTTP_2));
        assert_eq!(request.uri(), "http://host:1/a/b?c");
        assert_eq!(request.headers().get_all("a").iter().count(), 2);
    }

    #[test]
    fn a_url_in_the_place_of_the_authority_is_accepted() {
        for authority in ["", "http://127.0.0.1:2379", "https://host"] {
            assert_eq!(request(authority, "/a").unwrap().uri(), "/a", "{authority}");
        }
        assert!(request("host", "no path").is_none());
    }
}
