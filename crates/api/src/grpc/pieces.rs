//! Large answers to ranges on their way out: one message, or a stream of them, written as the client takes it.
//! A handler leaves the answer in the extensions of an empty response (`DeferredBody`), and `unpack` gives that
//! response its body. The length of a message is sent first and kept to; later errors are sent in
//! the trailers.

use crate::grpc::refusal;
use axum::body::Body;
use axum::response::Response;
use base::Code;
use bytes::Bytes;
use http_body::Frame;
use proto::etcdserverpb::RangeResponse;
use proto::pieces::{self, KeyValueRef, Numbers, key_value_size, put_key_value};
use server::pieces::{BudgetShare, Content, KeyEncoder, RangePiece, RangePieces, RangeTotal, Version};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tonic::Status;

/// etcd's bound on what is sent.
const MESSAGE_BYTES_MAX: u64 = i32::MAX as u64;
/// RangePieces that wait for the connection while the next one is read.
const PIECES_AHEAD: usize = 1;

/// A large answer.
pub struct LargeRange {
    /// Everything but the keys.
    pub head: RangeResponse,
    pub total: RangeTotal,
    pub pieces: RangePieces,
    pub shape: LargeShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeShape {
    /// One message.
    Message,
    /// A message for each piece; the last one has the head.
    Stream,
}

/// A large answer in the extensions of a response: a deferred body.
#[derive(Clone)]
struct DeferredBody(Arc<Mutex<Option<LargeRange>>>);

/// The share of a message that was read at once: it counts against the budget until it has been sent.
#[derive(Clone)]
struct HeldShare(#[expect(dead_code, reason = "it is kept for its drop")] Arc<BudgetShare>);

impl LargeRange {
    /// One message cannot be of any length.
    pub fn check_size(&self) -> Result<(), Status> {
        match self.total.bytes {
            ..=MESSAGE_BYTES_MAX => Ok(()),
            size => {
                let words =
                    format!("grpc: trying to send message larger than max ({size} vs. {MESSAGE_BYTES_MAX})");
                Err(Status::resource_exhausted(words))
            }
        }
    }

    pub fn pack<T>(self, mut empty: tonic::Response<T>) -> tonic::Response<T> {
        empty.extensions_mut().insert(DeferredBody(Arc::new(Mutex::new(Some(self)))));
        empty
    }

    /// Takes the answer out of a response, if it has one.
    pub fn unpack<T>(response: &mut tonic::Response<T>) -> Option<LargeRange> {
        response.extensions_mut().remove::<DeferredBody>()?.open()
    }
}

/// Attaches the share to the response; without a share it returns the response unchanged.
pub fn pack_share<T>(share: Option<BudgetShare>, mut response: tonic::Response<T>) -> tonic::Response<T> {
    if let Some(share) = share {
        response.extensions_mut().insert(HeldShare(Arc::new(share)));
    }
    response
}

impl DeferredBody {
    fn open(&self) -> Option<LargeRange> {
        self.0.lock().expect("nothing panics in here").take()
    }
}

/// Gives a response the body that its handler left for it.
pub fn unpack(mut response: Response) -> Response {
    if let Some(kept) = response.extensions_mut().remove::<HeldShare>() {
        return response.map(|body| Body::new(BodyWithShare { body, _share: kept }));
    }
    let deferred = response.extensions_mut().remove::<DeferredBody>();
    let Some(large) = deferred.and_then(|body| body.open()) else { return response };
    let (frames, taken) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(send(large, frames));
    response.map(|_| Body::new(FrameBody(taken)))
}

async fn send(large: LargeRange, frames: mpsc::Sender<Frame<Bytes>>) {
    let outcome = tokio::select! {
        outcome = write(large, &frames) => outcome,
        () = frames.closed() => return,
    };
    let status = match outcome {
        Ok(()) => Status::ok(""),
        Err(code) => refusal::render(code),
    };
    let mut trailers = axum::http::HeaderMap::new();
    if status.add_header(&mut trailers).is_ok() {
        // The client may have gone away.
        let _ = frames.send(Frame::trailers(trailers)).await;
    }
}

async fn write(large: LargeRange, frames: &mpsc::Sender<Frame<Bytes>>) -> Result<(), Code> {
    match large.shape {
        LargeShape::Message => write_message(large, frames).await,
        LargeShape::Stream => write_stream(large, frames).await,
    }
}

async fn write_message(mut large: LargeRange, frames: &mpsc::Sender<Frame<Bytes>>) -> Result<(), Code> {
    let mut bytes_left = large.total.bytes;
    let head = pieces::range_head(&large.head, usize::try_from(bytes_left).expect("the size was checked"));
    put(frames, head).await;
    while let Some(RangePiece { bytes, .. }) = large.pieces.next().await? {
        bytes_left = bytes_left.checked_sub(bytes.len() as u64).expect("pieces are as large as surveyed");
        put(frames, bytes).await;
    }
    assert_eq!(bytes_left, 0, "pieces are as large as surveyed");
    Ok(())
}

async fn write_stream(mut large: LargeRange, frames: &mpsc::Sender<Frame<Bytes>>) -> Result<(), Code> {
    let mut keys_left = large.total.keys;
    let nothing = RangeResponse::default();
    while keys_left > 0 {
        let piece = large.pieces.next().await?.expect("all keys come that were counted");
        keys_left -= piece.keys;
        let head = if keys_left == 0 { &large.head } else { &nothing };
        put(frames, pieces::stream_head(head, piece.bytes.len())).await;
        put(frames, piece.bytes).await;
    }
    Ok(())
}

/// Waits for the channel. Whether the client is still there is checked elsewhere.
async fn put(frames: &mpsc::Sender<Frame<Bytes>>, bytes: Bytes) {
    let _ = frames.send(Frame::data(bytes)).await;
}

/// The body: frames as they come.
struct FrameBody(mpsc::Receiver<Frame<Bytes>>);

impl http_body::Body for FrameBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(ready!(self.0.poll_recv(cx)).map(Ok))
    }
}

/// A body with something that lives as long.
struct BodyWithShare {
    body: Body,
    _share: HeldShare,
}

impl http_body::Body for BodyWithShare {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Keys as protobuf.
pub struct ProtobufEncoder;

impl KeyEncoder for ProtobufEncoder {
    fn size(&self, key_len: usize, version: &Version, content: Content) -> usize {
        key_value_size(key_len, &numbers(version, content.lease), content.value_len as usize)
    }

    fn put(&self, out: &mut Vec<u8>, kv: server::pieces::KeyValueRef<'_>) {
        let numbers = numbers(&kv.version, kv.lease);
        put_key_value(out, &KeyValueRef { key: kv.key, numbers, value: kv.value });
    }
}

fn numbers(version: &Version, lease: base::LeaseId) -> Numbers {
    Numbers {
        create_revision: version.create.0,
        mod_revision: version.modified.0,
        version: version.version,
        lease: lease.0,
    }
}
