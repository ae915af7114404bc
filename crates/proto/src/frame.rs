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
        frame.write(out);
        Ok(())
    }
}

impl WatchFrame {
    /// The whole response, for other protocols than gRPC.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.head.encoded_len() + self.events.len());
        self.write(&mut out);
        out.into()
    }

    fn write(&self, out: &mut impl BufMut) {
        self.head.encode_raw(out);
        out.put_slice(&self.events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb::ResponseHeader;
    use crate::mvccpb::KeyValue;

    #[test]
    fn a_head_and_events_encoded_apart_are_one_response() {
        let kv = |value: &'static str| KeyValue {
            key: "k".into(),
            value: value.into(),
            mod_revision: 7,
            ..Default::default()
        };
        let events = vec![
            Event { kv: Some(kv("new")), prev_kv: Some(kv("old")), ..Default::default() },
            Event { r#type: 1, kv: Some(kv("")), prev_kv: None },
        ];
        let head = WatchResponse {
            header: Some(ResponseHeader { revision: 9, ..Default::default() }),
            watch_id: -1,
            fragment: true,
            ..Default::default()
        };
        let mut bytes = Vec::new();
        WatchFrame { head: head.clone(), events: encode_events(events.clone()) }.write(&mut bytes);
        assert_eq!(WatchResponse::decode(bytes.as_slice()), Ok(WatchResponse { events, ..head }));
    }
}
