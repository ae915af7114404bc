//! Cached replies: an answer as it is kept for a client that may repeat its request. A reply or a refusal goes in,
//! few bytes come out, and the same answer when they are read. What would take too many is kept by its revision
//! alone: the client then learns that its request was applied, and at which revision.

use crate::reply::{Body, DeleteReply, FenceRefusal, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::limits::{SESSION_REPLY_BYTES_MAX, TXN_DEPTH_MAX};
use base::{Code, LeaseId, Revision};
use bytes::Bytes;

pub type ReplyResult = Result<Reply, Code>;

// Kinds of answers.
const REFUSED: u8 = 0;
const WHOLE: u8 = 1;
const REVISION_ALONE: u8 = 2;

// Kinds of bodies; numbered as the commands that they answer.
const RANGE: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const TXN: u8 = 3;
const LEASE_GRANTED: u8 = 4;
const LEASE_REVOKED: u8 = 5;
/// A write that its fence kept from happening.
const FENCED: u8 = 6;

/// `bytes_max` may be less than the limit of one answer, when little space is left for all.
pub fn encode(answer: &ReplyResult, bytes_max: usize) -> Bytes {
    let mut out = Vec::new();
    match answer {
        Err(code) => out.extend_from_slice(&[REFUSED, *code as u8]),
        Ok(reply) => {
            out.push(WHOLE);
            put_signed(&mut out, reply.revision.0);
            let mut buffer = BoundedBuffer { out, bytes_max: bytes_max.min(SESSION_REPLY_BYTES_MAX) };
            if buffer.body(&reply.body).is_none() {
                return encode_short(reply);
            }
            out = buffer.out;
        }
    }
    out.into()
}

/// The short form of an answer that does not fit. A write that did not happen stays one that did not.
fn encode_short(reply: &Reply) -> Bytes {
    if let Body::Fenced(_) = reply.body {
        return encode(&Err(Code::Fenced), 0);
    }
    let mut out = vec![REVISION_ALONE];
    put_signed(&mut out, reply.revision.0);
    out.into()
}

pub fn decode(bytes: Bytes) -> Option<ReplyResult> {
    let mut reader = Reader::new(bytes);
    let answer = match reader.u8()? {
        REFUSED => Err(Code::from_number(reader.u8()?)?),
        WHOLE => Ok(Reply { revision: Revision(reader.signed()?), body: decode_body(&mut reader, 0)? }),
        REVISION_ALONE => Ok(Reply { revision: Revision(reader.signed()?), body: Body::CarriedOut }),
        _ => return None,
    };
    reader.is_empty().then_some(answer)
}

/// A buffer with a size limit: a value that does not fit ends the encoding.
struct BoundedBuffer {
    out: Vec<u8>,
    bytes_max: usize,
}

impl BoundedBuffer {
    fn body(&mut self, body: &Body) -> Option<()> {
        match body {
            Body::Range(range) => {
                self.out.push(RANGE);
                put_varint(&mut self.out, range.count);
                self.out.push(u8::from(range.more));
                self.key_values(&range.kvs)
            }
            Body::Put(put) => {
                self.out.push(PUT);
                self.key_values(put.prev_kv.as_slice())
            }
            Body::Delete(delete) => {
                self.out.push(DELETE);
                put_varint(&mut self.out, delete.deleted);
                self.key_values(&delete.prev_kvs)
            }
            Body::Txn(txn) => {
                self.out.push(TXN);
                self.out.push(u8::from(txn.succeeded));
                put_varint(&mut self.out, txn.bodies.len() as u64);
                txn.bodies.iter().try_for_each(|body| self.body(body))
            }
            Body::LeaseGranted { id, ttl } => {
                self.out.push(LEASE_GRANTED);
                put_signed(&mut self.out, id.0);
                put_signed(&mut self.out, *ttl);
                self.check(0)
            }
            Body::LeaseRevoked => {
                self.out.push(LEASE_REVOKED);
                self.check(0)
            }
            Body::Fenced(FenceRefusal { lock, given, last }) => {
                self.check(lock.len())?;
                self.out.push(FENCED);
                put_bytes(&mut self.out, lock);
                put_signed(&mut self.out, given.0);
                put_signed(&mut self.out, last.0);
                self.check(0)
            }
            other => unreachable!("no request with an id is answered by {other:?}"),
        }
    }

    fn key_values(&mut self, kvs: &[KeyValue]) -> Option<()> {
        put_varint(&mut self.out, kvs.len() as u64);
        for kv in kvs {
            self.check(kv.key.len() + kv.value.len())?;
            put_bytes(&mut self.out, &kv.key);
            put_signed(&mut self.out, kv.create_revision.0);
            put_signed(&mut self.out, kv.mod_revision.0);
            put_signed(&mut self.out, kv.version);
            put_signed(&mut self.out, kv.lease.0);
            put_bytes(&mut self.out, &kv.value);
        }
        self.check(0)
    }

    fn check(&self, more: usize) -> Option<()> {
        (self.out.len() + more <= self.bytes_max).then_some(())
    }
}

/// `depth` counts the transactions around this body.
fn decode_body(reader: &mut Reader, depth: usize) -> Option<Body> {
    Some(match reader.u8()? {
        RANGE => {
            let (count, more) = (reader.varint()?, reader.bool()?);
            Body::Range(RangeReply { kvs: decode_key_values(reader)?, more, count })
        }
        PUT => {
            let mut kvs = decode_key_values(reader)?;
            let prev_kv = kvs.pop();
            if !kvs.is_empty() {
                return None;
            }
            Body::Put(PutReply { prev_kv })
        }
        DELETE => {
            let deleted = reader.varint()?;
            Body::Delete(DeleteReply { deleted, prev_kvs: decode_key_values(reader)? })
        }
        TXN if depth <= TXN_DEPTH_MAX => {
            let succeeded = reader.bool()?;
            let mut bodies = Vec::new();
            for _ in 0..reader.count()? {
                bodies.push(decode_body(reader, depth + 1)?);
            }
            Body::Txn(TxnReply { succeeded, bodies })
        }
        LEASE_GRANTED => Body::LeaseGranted { id: LeaseId(reader.signed()?), ttl: reader.signed()? },
        LEASE_REVOKED => Body::LeaseRevoked,
        // A fence is around a whole write, never around a part of one.
        FENCED if depth == 0 => Body::Fenced(FenceRefusal {
            lock: reader.bytes()?,
            given: Revision(reader.signed()?),
            last: Revision(reader.signed()?),
        }),
        _ => return None,
    })
}

fn decode_key_values(reader: &mut Reader) -> Option<Vec<KeyValue>> {
    let mut kvs = Vec::new();
    for _ in 0..reader.count()? {
        kvs.push(KeyValue {
            key: reader.bytes()?,
            create_revision: Revision(reader.signed()?),
            mod_revision: Revision(reader.signed()?),
            version: reader.signed()?,
            lease: LeaseId(reader.signed()?),
            value: reader.bytes()?,
        });
    }
    Some(kvs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(value: usize) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(b"key"),
            create_revision: Revision(2),
            mod_revision: Revision(3),
            version: 2,
            lease: LeaseId(-7),
            value: vec![b'v'; value].into(),
        }
    }

    fn answers() -> Vec<ReplyResult> {
        let put = Body::Put(PutReply { prev_kv: Some(kv(9)) });
        let range = Body::Range(RangeReply { kvs: vec![kv(1), kv(2)], more: true, count: 5 });
        let delete = Body::Delete(DeleteReply { deleted: 2, prev_kvs: vec![kv(3)] });
        let inner = Body::Txn(TxnReply { succeeded: false, bodies: vec![range, delete] });
        let txn = Body::Txn(TxnReply { succeeded: true, bodies: vec![put.clone(), inner] });
        let granted = Body::LeaseGranted { id: LeaseId(77), ttl: 60 };
        let fenced =
            Body::Fenced(FenceRefusal { lock: "db".into(), given: Revision(5), last: Revision::ZERO });
        let bodies = [put, Body::Put(PutReply::default()), txn, granted, Body::LeaseRevoked, fenced];
        let mut answers: Vec<ReplyResult> =
            bodies.into_iter().map(|body| Ok(Reply { revision: Revision(9), body })).collect();
        answers.push(Err(Code::LeaseNotFound));
        answers
    }

    #[test]
    fn every_answer_is_read_back_as_it_was() {
        for answer in answers() {
            assert_eq!(decode(encode(&answer, usize::MAX)), Some(answer));
        }
    }

    #[test]
    fn cut_or_lengthened_bytes_are_refused() {
        for answer in answers() {
            let bytes = encode(&answer, usize::MAX);
            for cut in 0..bytes.len() {
                assert_eq!(decode(bytes.slice(..cut)), None, "{answer:?}");
            }
            assert_eq!(decode([&bytes[..], b"x"].concat().into()), None);
        }
    }

    #[test]
    fn a_write_that_a_fence_refused_is_never_told_as_carried_out() {
        let refusal = FenceRefusal { lock: vec![b'l'; 5_000].into(), given: Revision(5), last: Revision(6) };
        let answer = Ok(Reply { revision: Revision(9), body: Body::Fenced(refusal) });
        assert_eq!(decode(encode(&answer, usize::MAX)), Some(Err(Code::Fenced)));
    }

    #[test]
    fn of_an_answer_that_is_too_large_the_revision_stays() {
        let reply =
            |value| Reply { revision: Revision(9), body: Body::Put(PutReply { prev_kv: Some(kv(value)) }) };
        let fits = encode(&Ok(reply(4_000)), usize::MAX);
        assert_eq!(decode(fits), Some(Ok(reply(4_000))));
        let alone = Some(Ok(Reply { revision: Revision(9), body: Body::CarriedOut }));
        for (value, buffer) in [(4_096, usize::MAX), (9, 8), (1 << 20, usize::MAX)] {
            let bytes = encode(&Ok(reply(value)), buffer);
            assert!(bytes.len() < 12);
            assert_eq!(decode(bytes), alone);
        }
    }
}
