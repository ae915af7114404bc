//! The client's end of a bidirectional stream: requests are sent one by one, responses are read one by one.
//! etcd opens its direction with its first response, so nothing waits for that before a request was sent.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Response, Status, Streaming};

/// Requests that the connection has not taken yet.
const REQUESTS_WAITING: usize = 16;

#[derive(Debug)]
pub struct Duplex<Q, R> {
    requests: Sender<Q>,
    responses: Responses<R>,
}

#[derive(Debug)]
enum Responses<R> {
    Opening(JoinHandle<Result<Response<Streaming<R>>, Status>>),
    Open(Box<Streaming<R>>),
}

impl<Q, R: Send + 'static> Duplex<Q, R> {
    pub fn open<F>(call: impl FnOnce(Requests<Q>) -> F) -> Duplex<Q, R>
    where
        F: Future<Output = Result<Response<Streaming<R>>, Status>> + Send + 'static,
    {
        let (requests, inbox) = channel(REQUESTS_WAITING);
        Duplex { requests, responses: Responses::Opening(tokio::spawn(call(Requests(inbox)))) }
    }

    /// Waits while the other end takes nothing.
    pub async fn send(&self, request: Q) -> Result<(), Status> {
        self.requests.send(request).await.map_err(|_| Status::unavailable("the stream is closed"))
    }

    /// May be cancelled and called again: nothing is lost.
    pub async fn next(&mut self) -> Result<R, Status> {
        if let Responses::Opening(opening) = &mut self.responses {
            let opened = opening.await.map_err(|error| Status::unknown(error.to_string()))??;
            self.responses = Responses::Open(Box::new(opened.into_inner()));
        }
        let Responses::Open(responses) = &mut self.responses else { unreachable!("it was opened above") };
        responses.message().await?.ok_or_else(|| Status::unavailable("the stream ended"))
    }
}

#[derive(Debug)]
pub struct Requests<T>(Receiver<T>);

impl<T> Stream for Requests<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}

impl<R> Drop for Responses<R> {
    fn drop(&mut self) {
        if let Responses::Opening(opening) = self {
            opening.abort();
        }
    }
}
