//! Answers to ranges, encoded piece by piece: what they hold beside keys, and each key on its own.
//! Fields of a message may stand in any order and repeated ones anywhere, so pieces are simply written one after
//! the other. The size of a key is known before its value is, and sizes are exact: a message that goes out in
//! pieces says first how long it is.

use base::codec::{put_varint, varint_len};
use bytes::{BufMut, Bytes};
use prost::Message;

use crate::etcdserverpb::RangeResponse;

/// The mark of an uncompressed message and its length, as gRPC frames it.
pub const FRAME_HEAD_BYTES: usize = 5;

/// One version of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyValueRef<'a> {
    pub key: &'a [u8],
    pub numbers: Numbers,
    pub value: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

/// Fields of `mvccpb.KeyValue` and the one of `RangeResponse` that holds them, as they begin on the wire.
const KVS: u8 = 2 << 3 | 2;
const KEY: u8 = 1 << 3 | 2;
const CREATE_REVISION: u8 = 2 << 3;
const MOD_REVISION: u8 = 3 << 3;
const VERSION: u8 = 4 << 3;
const VALUE: u8 = 5 << 3 | 2;
const LEASE: u8 = 6 << 3;
/// The one field of `RangeStreamResponse`.
const RANGE_RESPONSE: u8 = 1 << 3 | 2;

/// Bytes that a key takes in an answer.
pub fn key_value_size(key_len: usize, numbers: &Numbers, value_len: usize) -> usize {
    let inner = inner_size(key_len, numbers, value_len);
    1 + varint_len(inner as u64) + inner
}

fn inner_size(key_len: usize, numbers: &Numbers, value_len: usize) -> usize {
    let bytes = |len: usize| if len == 0 { 0 } else { 1 + varint_len(len as u64) + len };
    let number = |value: i64| if value == 0 { 0 } else { 1 + varint_len(value as u64) };
    let Numbers { create_revision, mod_revision, version, lease } = *numbers;
    let numbers = number(create_revision) + number(mod_revision) + number(version) + number(lease);
    bytes(key_len) + numbers + bytes(value_len)
}

/// A key as it stands in an answer.
pub fn put_key_value(out: &mut Vec<u8>, kv: &KeyValueRef<'_>) {
    out.put_u8(KVS);
    put_varint(out, inner_size(kv.key.len(), &kv.numbers, kv.value.len()) as u64);
    put_bytes(out, KEY, kv.key);
    put_number(out, CREATE_REVISION, kv.numbers.create_revision);
    put_number(out, MOD_REVISION, kv.numbers.mod_revision);
    put_number(out, VERSION, kv.numbers.version);
    put_bytes(out, VALUE, kv.value);
    put_number(out, LEASE, kv.numbers.lease);
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.put_u8(field);
        put_varint(out, bytes.len() as u64);
        out.put_slice(bytes);
    }
}

fn put_number(out: &mut Vec<u8>, field: u8, value: i64) {
    if value != 0 {
        out.put_u8(field);
        put_varint(out, value as u64);
    }
}

/// The beginning of an answer whose keys take `keys_bytes` and follow in pieces.
pub fn range_head(head: &RangeResponse, keys_bytes: usize) -> Bytes {
    let mut out = Vec::with_capacity(FRAME_HEAD_BYTES + head.encoded_len());
    put_frame_head(&mut out, head.encoded_len() + keys_bytes);
    head.encode_raw(&mut out);
    out.into()
}

/// The beginning of one message of a stream: what comes before its keys. `head` holds none.
pub fn stream_head(head: &RangeResponse, keys_bytes: usize) -> Bytes {
    let inner = head.encoded_len() + keys_bytes;
    let mut out = Vec::with_capacity(FRAME_HEAD_BYTES + 6 + head.encoded_len());
    put_frame_head(&mut out, 1 + varint_len(inner as u64) + inner);
    out.put_u8(RANGE_RESPONSE);
    put_varint(&mut out, inner as u64);
    head.encode_raw(&mut out);
    out.into()
}

fn put_frame_head(out: &mut Vec<u8>, len: usize) {
    out.put_u8(0);
    out.put_u32(u32::try_from(len).expect("longer messages were refused"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb::{RangeStreamResponse, ResponseHeader};
    use crate::mvccpb::KeyValue;

    fn samples() -> Vec<KeyValue> {
        let kv = |key: &'static str, value: Vec<u8>, numbers: [i64; 4]| KeyValue {
            key: key.into(),
            value: value.into(),
            create_revision: numbers[0],
            mod_revision: numbers[1],
            version: numbers[2],
            lease: numbers[3],
        };
        vec![
            kv("a", b"1".to_vec(), [2, 3, 1, 0]),
            kv("b", Vec::new(), [127, 128, 16_384, -7]),
            kv("c", vec![9; 70_000], [i64::MAX, i64::MAX, i64::MAX, i64::MAX]),
            kv("", Vec::new(), [0; 4]),
        ]
    }

    fn put_all(kvs: &[KeyValue]) -> Vec<u8> {
        let mut out = Vec::new();
        for kv in kvs {
            let numbers = Numbers {
                create_revision: kv.create_revision,
                mod_revision: kv.mod_revision,
                version: kv.version,
                lease: kv.lease,
            };
            let before = out.len();
            put_key_value(&mut out, &KeyValueRef { key: &kv.key, numbers, value: &kv.value });
            assert_eq!(out.len() - before, key_value_size(kv.key.len(), &numbers, kv.value.len()), "{kv:?}");
        }
        out
    }

    fn head() -> RangeResponse {
        let header = Some(ResponseHeader { revision: 9, raft_term: 300, ..Default::default() });
        RangeResponse { header, more: true, count: 1_000, ..Default::default() }
    }

    fn unframed(frame: &[u8]) -> &[u8] {
        let (head, message) = frame.split_at(FRAME_HEAD_BYTES);
        assert_eq!(head[0], 0);
        assert_eq!(u32::from_be_bytes(head[1..].try_into().unwrap()) as usize, message.len());
        message
    }

    #[test]
    fn pieces_written_one_after_the_other_are_the_answer() {
        let kvs = samples();
        let keys = put_all(&kvs);
        let frame = [&range_head(&head(), keys.len())[..], &keys].concat();
        assert_eq!(RangeResponse::decode(unframed(&frame)), Ok(RangeResponse { kvs, ..head() }));
    }

    #[test]
    fn a_message_of_a_stream_holds_a_part_of_the_answer() {
        for head in [head(), RangeResponse::default()] {
            let kvs = samples();
            let keys = put_all(&kvs);
            let frame = [&stream_head(&head, keys.len())[..], &keys].concat();
            let expected = RangeStreamResponse { range_response: Some(RangeResponse { kvs, ..head }) };
            assert_eq!(RangeStreamResponse::decode(unframed(&frame)), Ok(expected));
        }
    }
}
