//! Watch responses whose events were encoded before, once for all watches that get them.
//! The head of a response and the bytes of its events go in, one message comes out: fields of a message may
//! stand in any order, so the two are simply written one after the other.

use crate::codec::{Codec, GuardedDecoder};
use crate::etcdserverpb::{WatchRequest, WatchResponse};
use crate::mvccpb::Event;
use bytes::{BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{EncodeBuf, Encoder};

#[derive(Clone, Debug)]
pub struct WatchFrame {
    /// Everything but the events.
    pub head: WatchResponse,
    /// What `encode_events` made.
    pub events: Bytes,
}

/// Events as they stand in a response.
pub fn encode_events(events: Vec<Event>) -> Bytes {
    WatchResponse { events, ..WatchResponse::default() }.encode_to_vec().into()
}

/// The codec of the Watch service on the server's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchCodec;

impl tonic::codec::Codec for WatchCodec {
    type Encode = WatchFrame;
    type Decode = WatchRequest;
    type Encoder = FrameEncoder;
    type Decoder = GuardedDecoder<WatchRequest>;

    fn encoder(&mut self) -> FrameEncoder {
        FrameEncoder
    }

    fn decoder(&mut self) -> GuardedDecoder<WatchRequest> {
        Codec::<WatchResponse, WatchRequest>::default().decoder()
    }
}

pub struct FrameEncoder;

impl Encoder for FrameEncoder {
    type Item = WatchFrame;
    type Error = Status;

    fn encode(&mut self, frame: WatchFrame, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(frame.head.encoded_len() + frame.events.len());
        frame.head.encode_raw(out);
        out.put_slice(&frame.events);
        Ok(())
    }
}
