//! The client's end of a stream of both directions: requests are fed by hand, responses are read one by one.
//! etcd opens its direction with its first response, so nobody waits for that before a request was sent.

use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Response, Status, Streaming};

pub struct Duplex<Q, R> {
    requests: UnboundedSender<Q>,
    responses: Responses<R>,
}

enum Responses<R> {
    Opening(JoinHandle<Result<Response<Streaming<R>>, Status>>),
    Open(Streaming<R>),
}

impl<Q, R: Send + 'static> Duplex<Q, R> {
    pub fn open<F>(call: impl FnOnce(Requests<Q>) -> F) -> Duplex<Q, R>
    where
        F: Future<Output = Result<Response<Streaming<R>>, Status>> + Send + 'static,
    {
        let (requests, inbox) = unbounded_channel();
        Duplex { requests, responses: Responses::Opening(tokio::spawn(call(Requests(inbox)))) }
    }

    pub fn send(&self, request: Q) {
        // A stream that is closed gives no answer, which is told as the difference that it is.
        let _ = self.requests.send(request);
    }

    pub async fn next(&mut self) -> Result<R, Status> {
        if let Responses::Opening(opening) = &mut self.responses {
            let opened = opening.await.map_err(|error| Status::unknown(error.to_string()))??;
            self.responses = Responses::Open(opened.into_inner());
        }
        let Responses::Open(responses) = &mut self.responses else { unreachable!("it was opened above") };
        responses.message().await?.ok_or_else(|| Status::unavailable("the stream ended"))
    }
}

pub struct Requests<T>(UnboundedReceiver<T>);

impl<T> Stream for Requests<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}
