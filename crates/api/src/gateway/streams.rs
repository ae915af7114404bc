//! Calls that are streams both ways, through the gateway: watches and keep-alives.
//! The body of the request holds messages one after the other and may stay open; the body of the answer is a
//! line for each answer. A message that is not whole is kept until it is, up to the bound on any message.

use crate::audit;
use crate::gateway::answer::{lines, metadata, refuse};
use crate::gateway::transcoder::Transcoder;
use crate::grpc::lease::LeaseService;
use crate::grpc::refusal;
use crate::grpc::watch::WatchService;
use crate::request_budget::{IncompleteRequest, RequestBudget};
use axum::body::{Body, BodyDataStream};
use axum::http::HeaderMap;
use axum::response::Response;
use base::Code;
use prost::{Message, Name};
use proto::DecodeLimit;
use proto::etcdserverpb::{LeaseKeepAliveRequest, WatchRequest, WatchResponse};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::codegen::tokio_stream::{Stream, StreamExt};

pub async fn watch(
    transcoder: Arc<Transcoder>,
    service: WatchService,
    headers: HeaderMap,
    (body, request_budget): (Body, Arc<RequestBudget>),
) -> Response {
    let requests = BodyMessages::<WatchRequest>::new(transcoder.clone(), body, request_budget);
    match service.begin(&metadata(&headers), requests) {
        Ok(frames) => {
            lines(frames.map(move |frame| Ok(transcoder.write_encoded::<WatchResponse>(frame?.to_bytes()))))
        }
        Err(code) => refuse(&refusal::render(code)),
    }
}

pub async fn keep_alive(
    transcoder: Arc<Transcoder>,
    service: Arc<LeaseService>,
    headers: HeaderMap,
    (body, request_budget): (Body, Arc<RequestBudget>),
) -> Response {
    let requests = BodyMessages::<LeaseKeepAliveRequest>::new(transcoder.clone(), body, request_budget);
    match service.keep_alives(&metadata(&headers), requests).await {
        Ok(answers) => {
            let recording = audit::current();
            lines(answers.map(move |answer| {
                let answer = answer.inspect_err(|status| {
                    recording.iter().for_each(|recording| recording.end(status.code()));
                })?;
                Ok(transcoder.write(&answer))
            }))
        }
        Err(status) => refuse(&status),
    }
}

/// The messages of a body.
struct BodyMessages<Q> {
    transcoder: Arc<Transcoder>,
    body: BodyDataStream,
    /// What has come and is not a whole message.
    rest: Vec<u8>,
    splitter: ObjectSplitter,
    whole: VecDeque<Q>,
    ended: bool,
    request_budget: Arc<RequestBudget>,
    /// While there is a part of a message.
    incomplete: Option<IncompleteRequest>,
}

/// Finds where an object of JSON ends, looking at each byte once.
#[derive(Default)]
struct ObjectSplitter {
    looked_at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl ObjectSplitter {
    /// The length of the first object, if it is whole.
    fn end_of_first(&mut self, bytes: &[u8]) -> Result<Option<usize>, Status> {
        while let Some(byte) = bytes.get(self.looked_at) {
            self.looked_at += 1;
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' if self.depth > 0 => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' => self.depth += 1,
                b'}' if self.depth == 1 => return Ok(Some(std::mem::take(self).looked_at)),
                b'}' if self.depth > 1 => self.depth -= 1,
                _ if self.depth > 0 || byte.is_ascii_whitespace() => {}
                _ => return Err(Status::invalid_argument("a message in JSON is an object")),
            }
        }
        Ok(None)
    }
}

impl<Q: Message + Name + Default + DecodeLimit> BodyMessages<Q> {
    fn new(transcoder: Arc<Transcoder>, body: Body, request_budget: Arc<RequestBudget>) -> BodyMessages<Q> {
        BodyMessages {
            transcoder,
            body: body.into_data_stream(),
            rest: Vec::new(),
            splitter: ObjectSplitter::default(),
            whole: VecDeque::new(),
            ended: false,
            request_budget,
            incomplete: None,
        }
    }

    /// Charges what is there of the next message, and begins to count its time.
    fn charge_rest(&mut self) -> Result<(), Status> {
        if self.rest.is_empty() {
            self.incomplete = None;
            return Ok(());
        }
        let incomplete = self.incomplete.get_or_insert_with(|| IncompleteRequest::new(&self.request_budget));
        if incomplete.hold(self.rest.len()) { Ok(()) } else { Err(refusal::render(Code::TooManyRequests)) }
    }

    /// Takes the whole messages out of what has come.
    fn take_whole(&mut self) -> Result<(), Status> {
        let mut upto = 0;
        while let Some(len) = self.splitter.end_of_first(&self.rest[upto..])? {
            self.whole.push_back(self.transcoder.read(&self.rest[upto..upto + len])?);
            upto += len;
        }
        self.rest.drain(..upto);
        if self.rest.len() <= self.transcoder.json_bytes_max() {
            Ok(())
        } else {
            Err(Status::resource_exhausted("a message is too large"))
        }
    }

    /// Behind the last message only blanks may stand.
    fn end(&mut self) -> Option<Result<Q, Status>> {
        self.ended = true;
        let torn = !self.rest.trim_ascii().is_empty();
        torn.then(|| Err(Status::invalid_argument("the last message is not whole")))
    }

    fn fail(&mut self, status: Status) -> Poll<Option<Result<Q, Status>>> {
        self.ended = true;
        Poll::Ready(Some(Err(status)))
    }
}

impl<Q: Message + Name + Default + DecodeLimit + Unpin> Stream for BodyMessages<Q> {
    type Item = Result<Q, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(message) = self.whole.pop_front() {
                return Poll::Ready(Some(Ok(message)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.body).poll_next(cx) {
                Poll::Pending
                    if self.incomplete.as_mut().is_some_and(|incomplete| incomplete.is_late(cx)) =>
                {
                    return self.fail(refusal::render(Code::Timeout));
                }
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(self.end()),
                Poll::Ready(Some(Err(error))) => return self.fail(Status::cancelled(error.to_string())),
                Poll::Ready(Some(Ok(bytes))) => {
                    self.rest.extend_from_slice(&bytes);
                    if let Err(status) = self.take_whole().and_then(|()| self.charge_rest()) {
                        return self.fail(status);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use prost_reflect::DescriptorPool;
    use proto::etcdserverpb::WatchCreateRequest;
    use proto::etcdserverpb::watch_request::RequestUnion;
    use tonic::codegen::tokio_stream;

    async fn read(parts: Vec<&'static str>) -> Vec<Result<WatchRequest, tonic::Code>> {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        let transcoder = Arc::new(Transcoder::new(pool, 64));
        let parts =
            parts.into_iter().map(|part| Ok::<_, std::io::Error>(Bytes::from_static(part.as_bytes())));
        let body = Body::from_stream(tokio_stream::iter(parts));
        let mut requests = BodyMessages::new(transcoder, body, RequestBudget::new(1_000));
        let mut messages = Vec::new();
        while let Some(message) = requests.next().await {
            messages.push(message.map_err(|status| status.code()));
        }
        messages
    }

    fn create(key: &'static str) -> Result<WatchRequest, tonic::Code> {
        let create = WatchCreateRequest { key: key.into(), ..Default::default() };
        Ok(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) })
    }

    #[tokio::test]
    async fn messages_come_out_however_the_body_is_cut() {
        let whole = vec![r#"{"create_request":{"key":"YQ=="}}{"create_request":{"key":"Yg=="}} "#];
        let odd = vec![r#"{"x":"}\\\"{","create_request":{"key":"YQ=="}}{"create_request":{"key":"Yg=="}}"#];
        let torn =
            vec![r#"{"create_requ"#, r#"est":{"key":"YQ=="}} {"create"#, r#"_request":{"key":"Yg=="}}"#];
        for parts in [whole, odd, torn] {
            assert_eq!(read(parts).await, [create("a"), create("b")]);
        }
    }

    #[tokio::test]
    async fn what_is_no_message_ends_the_stream() {
        let invalid = Err(tonic::Code::InvalidArgument);
        assert_eq!(read(vec![r#"{"create_request":"#]).await, std::slice::from_ref(&invalid));
        assert_eq!(read(vec!["nonsense"]).await, [invalid]);
        assert_eq!(read(vec!["}"]).await, [Err(tonic::Code::InvalidArgument)]);
        let endless = [vec![r#"{"x":""#], vec!["aaaaaaaaaaaaaaaa"; 9]].concat();
        assert_eq!(read(endless).await, [Err(tonic::Code::ResourceExhausted)]);
    }
}
