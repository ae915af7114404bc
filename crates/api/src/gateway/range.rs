//! Ranges through the gateway: small answers like any other call, large ones as JSON that is written piece by
//! piece, under the same budget as everything that is sent in pieces.

use crate::gateway::answer::{JSON, read, refuse};
use crate::gateway::transcoder::Transcoder;
use crate::grpc::kv_service::RangeEncoding;
use crate::grpc::pieces::LargeRange;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use proto::etcdserverpb::{RangeRequest, RangeResponse};
use proto::mvccpb::KeyValue;
use server::pieces::{Content, KeyEncoder, KeyValueRef, Version};
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status};

/// Names, numbers and marks of a key in JSON take no more.
const KEY_OVERHEAD_BYTES: usize = 256;

pub async fn range<F>(
    transcoder: Arc<Transcoder>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
    call: impl FnOnce(Request<RangeRequest>) -> F,
) -> Response
where
    F: Future<Output = Result<tonic::Response<RangeResponse>, Status>>,
{
    let mut request = match read::<RangeRequest>(&transcoder, &headers, body) {
        Ok(request) => request,
        Err(status) => return refuse(&status),
    };
    request.extensions_mut().insert(RangeEncoding(Arc::new(JsonEncoder(transcoder.clone()))));
    let mut answer = match call(request).await {
        Ok(answer) => answer,
        Err(status) => return refuse(&status),
    };
    let body = match LargeRange::unpack(&mut answer) {
        None => Body::from(transcoder.write(answer.get_ref())),
        Some(large) => {
            let (parts, taken) = mpsc::channel(1);
            tokio::spawn(write(transcoder, large, parts));
            Body::from_stream(ReceiverStream::new(taken))
        }
    };
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// The head of the answer with the keys in it. An error can only end the body early.
async fn write(transcoder: Arc<Transcoder>, mut large: LargeRange, parts: mpsc::Sender<io::Result<Bytes>>) {
    let head = transcoder.write(&large.head);
    let opened = head.strip_suffix(b"}").expect("a message in JSON is an object");
    let written = async {
        parts.send(Ok([opened, b",\"kvs\":["].concat().into())).await.ok()?;
        let mut is_first = true;
        loop {
            let piece = match large.pieces.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(code) => return parts.send(Err(io::Error::other(code))).await.ok(),
            };
            let bytes = piece.bytes.slice(usize::from(std::mem::take(&mut is_first))..);
            parts.send(Ok(bytes)).await.ok()?;
        }
        parts.send(Ok(Bytes::from_static(b"]}"))).await.ok()
    };
    // The client may have gone away.
    let _ = written.await;
}

/// Keys as JSON, each behind a comma.
struct JsonEncoder(Arc<Transcoder>);

impl KeyEncoder for JsonEncoder {
    fn size(&self, key_len: usize, _: &Version, content: Content) -> usize {
        let base64 = |len: usize| len.div_ceil(3) * 4;
        KEY_OVERHEAD_BYTES + base64(key_len) + base64(content.value_len as usize)
    }

    fn put(&self, out: &mut Vec<u8>, kv: KeyValueRef<'_>) {
        out.push(b',');
        out.extend(self.0.write(&KeyValue {
            key: Bytes::copy_from_slice(kv.key),
            create_revision: kv.version.create.0,
            mod_revision: kv.version.modified.0,
            version: kv.version.version,
            value: Bytes::copy_from_slice(kv.value),
            lease: kv.lease.0,
        }));
    }
}
