//! Entry points for the fuzz targets: bytes as a client sends them go in, as far as only their form is checked.

use crate::browsers::BrowserGuard;
use crate::gateway::socket::frame::{FrameDecoder, SocketEvent};
use crate::gateway::socket::handshake::{self, HandshakeCheck};
use crate::grpc::{calls, fence, kv};
use crate::rest::fast_path::head;
use bytes::{Bytes, BytesMut};
use prost::Message;
use proto::DecodeLimit;
use proto::etcdserverpb as wire;

/// Two heads on one connection: the second may be decided by the cached headers of the first.
pub fn http1_heads(bytes: &[u8]) {
    let (mut header_cache, browsers) = (head::HeaderCache::default(), BrowserGuard::default());
    let middle = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    for part in [&bytes[..middle], &bytes[middle..]] {
        if let head::ParsedHead::Plain(plain) = head::parse(part, &mut header_cache, &browsers) {
            assert!(plain.head_bytes <= part.len(), "a head is part of what has come");
            assert!(head::is_plain(&part[plain.key.clone()]) || plain.key.is_empty());
        }
    }
    if let HandshakeCheck::Upgrade { len, opening } = handshake::check(bytes) {
        assert!(len <= bytes.len(), "a head is part of what has come");
        let _ = opening.answer(&browsers);
        let _ = opening.request(axum::body::Body::empty());
    }
    let _ = (calls::parse_timeout(bytes), fence::parse_value(bytes));
}

/// The frames of a client's WebSocket, in pieces.
pub fn websocket(bytes: &[u8]) {
    let (mut decoder, mut input) = (FrameDecoder::default(), BytesMut::new());
    for piece in bytes.chunks(7) {
        input.extend_from_slice(piece);
        loop {
            match decoder.next(&mut input) {
                Ok(Some(SocketEvent::Close)) | Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
    }
}

/// The first byte chooses the message, the others are it.
pub fn grpc_messages(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match first % 12 {
        0 => drop(read::<wire::RangeRequest>(bytes).map(kv::parse_range)),
        1 => drop(read::<wire::PutRequest>(bytes).map(kv::parse_put)),
        2 => drop(read::<wire::DeleteRangeRequest>(bytes).map(kv::parse_delete)),
        3 => drop(read::<wire::TxnRequest>(bytes).map(kv::parse_txn)),
        4 => drop(read::<wire::CompactionRequest>(bytes)),
        5 => drop(read::<wire::WatchRequest>(bytes)),
        6 => drop(read::<wire::LeaseGrantRequest>(bytes)),
        7 => drop(read::<wire::LeaseTimeToLiveRequest>(bytes)),
        8 => drop(read::<wire::AlarmRequest>(bytes)),
        9 => drop(read::<wire::AuthRoleGrantPermissionRequest>(bytes)),
        10 => drop(read::<wire::MemberAddRequest>(bytes)),
        _ => drop(read::<proto::lock::LockRequest>(bytes)),
    }
}

/// What a service gets, and what is refused before it is built.
fn read<M: Message + Default + DecodeLimit>(bytes: Bytes) -> Option<M> {
    M::check(&bytes).ok()?;
    M::decode(bytes).ok()
}
