//! The bytes of a record. See docs/formats/mesh-record.md.
//! A version byte, what every record has, then tagged fields in ascending order. Every version is read; a record is
//! written in the oldest that can hold it, so that nodes of two releases have the same bytes for what both know.
//! Fields that a version does not know are kept and written again.

use super::{
    Body, COLLECTION_ERA, CollectionBody, DecidedRequest, Fence, Header, Kind, METADATA_MAX, RECENT_MAX,
    REQUESTS_MAX, RareFields, RecentRequest, Record,
};
use crate::actor::{Dot, RegionId};
use crate::ballot::Ballot;
use crate::collection::{BoundedCounter, CollectionDelta, CollectionHeader, ElementEntry};
use crate::context::Context;
use crate::counter::CounterState;
use crate::hlc::Stamp;
use crate::set::OrSet;
use crate::siblings::Siblings;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

/// The first version, and one that also knows handlers.
const FIRST: u8 = 1;
const WITH_HANDLER: u8 = 2;

/// Whether the record of a collection holds its header, a delta, or the answer to an operation.
const HEADER: u8 = 0;
const DELTA: u8 = 1;
const CHANGED: u8 = 2;

const TOMBSTONE: u8 = 1;

/// Fields of the header that few records have.
mod tag {
    pub const EXPIRES: u64 = 1;
    pub const FENCE: u64 = 2;
    pub const HOME: u64 = 3;
    pub const METADATA: u64 = 4;
    pub const SCHEMA: u64 = 5;
    pub const ERA: u64 = 6;
    pub const RECENT: u64 = 7;
    pub const HANDLER: u64 = 8;
    /// In every version: a node that does not know it keeps it as it is.
    pub const BALLOT: u64 = 9;
    pub const REQUESTS: u64 = 10;
    pub const REPLACES_APART: u64 = 11;
    pub const REFUSED: u64 = 12;

    /// Whether a version has this tag.
    pub fn is_known(tag: u64, version: u8) -> bool {
        match tag {
            HANDLER => version >= super::WITH_HANDLER,
            tag => tag <= REFUSED,
        }
    }
}

impl Record {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(96 + self.body_size_hint());
        out.push(self.version());
        out.push(self.kind as u8);
        encode_body(&self.body, &mut out);
        self.context.encode(&mut out);
        put_varint(&mut out, self.created_ms);
        encode_fixed(&self.header, &mut out);
        encode_rare(&self.header, &mut out);
        if self.era != 0 {
            put_field(&mut out, tag::ERA, |field| put_varint(field, u64::from(self.era)));
        }
        if !self.recent.is_empty() {
            put_field(&mut out, tag::RECENT, |field| {
                for recent in &self.recent {
                    field.extend_from_slice(&recent.stamp.0.to_le_bytes());
                    field.extend_from_slice(&recent.request.to_le_bytes());
                }
            });
        }
        encode_late(&self.header, &mut out);
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Record> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8().filter(|version| (FIRST..=WITH_HANDLER).contains(version))?;
        decode_fields(reader, version)
    }

    /// The oldest version that can hold the record.
    fn version(&self) -> u8 {
        let has_handler = self.header.rare.as_ref().is_some_and(|rare| rare.handler.is_some());
        if has_handler || self.kind == Kind::Custom { WITH_HANDLER } else { FIRST }
    }

    fn body_size_hint(&self) -> usize {
        match &self.body {
            Body::Register(value) => value.len(),
            _ => 64,
        }
    }
}

/// The whole header, to break ties.
pub fn encode_header(header: &Header, out: &mut Vec<u8>) {
    encode_fixed(header, out);
    encode_rare(header, out);
    encode_late(header, out);
}

fn encode_fixed(header: &Header, out: &mut Vec<u8>) {
    out.push(if header.tombstone { TOMBSTONE } else { 0 });
    out.extend_from_slice(&header.stamp.0.to_le_bytes());
    header.dot.encode(out);
}

fn encode_rare(header: &Header, out: &mut Vec<u8>) {
    if let Some(expires_ms) = header.expires_ms {
        put_field(out, tag::EXPIRES, |field| put_varint(field, expires_ms));
    }
    let Some(rare) = &header.rare else { return };
    if let Some(Fence { lock, token }) = &rare.fence {
        put_field(out, tag::FENCE, |field| {
            put_varint(field, *token);
            field.extend_from_slice(lock);
        });
    }
    if let Some(home) = rare.home {
        put_field(out, tag::HOME, |field| put_varint(field, u64::from(home.0)));
    }
    if !rare.metadata.is_empty() {
        put_field(out, tag::METADATA, |field| {
            for (name, value) in &rare.metadata {
                put_bytes(field, name);
                put_bytes(field, value);
            }
        });
    }
    if rare.schema != 0 {
        put_field(out, tag::SCHEMA, |field| put_varint(field, u64::from(rare.schema)));
    }
}

fn encode_late(header: &Header, out: &mut Vec<u8>) {
    if let Some(handler) = header.rare.as_ref().and_then(|rare| rare.handler.as_ref()) {
        put_varint(out, tag::HANDLER);
        put_bytes(out, handler);
    }
    let unknown = || header.rare.iter().flat_map(|rare| &rare.unknown);
    let put_unknown = |out: &mut Vec<u8>, wanted: &dyn Fn(u64) -> bool| {
        for (tag, field) in unknown().filter(|(tag, _)| wanted(*tag)) {
            put_varint(out, *tag);
            put_bytes(out, field);
        }
    };
    put_unknown(out, &|tag| tag < tag::BALLOT);
    if let Some(ballot) = header.rare.as_ref().and_then(|rare| rare.ballot) {
        put_field(out, tag::BALLOT, |field| ballot.encode(field));
    }
    if let Some(rare) = header.rare.as_ref().filter(|rare| !rare.requests.is_empty()) {
        put_field(out, tag::REQUESTS, |field| encode_requests(&rare.requests, field));
    }
    if header.replaces_apart() {
        put_field(out, tag::REPLACES_APART, |_| {});
    }
    let refused = refused_of(header.rare.as_ref().map_or(&[], |rare| &rare.requests));
    if refused != 0 {
        put_field(out, tag::REFUSED, |field| put_varint(field, refused));
    }
    put_unknown(out, &|tag| tag > tag::REFUSED);
}

/// A bit for each request that was refused, the lowest for the oldest.
fn refused_of(requests: &[DecidedRequest]) -> u64 {
    let bits = requests.iter().take(REQUESTS_MAX).enumerate();
    bits.fold(0, |refused, (nth, request)| refused | u64::from(request.is_refused) << nth)
}

/// None if a bit is of no request, or none is set.
fn mark_refused(requests: &mut [DecidedRequest], refused: u64) -> Option<()> {
    for (nth, request) in requests.iter_mut().enumerate() {
        request.is_refused = refused >> nth & 1 == 1;
    }
    (refused != 0 && refused_of(requests) == refused).then_some(())
}

fn encode_requests(requests: &[DecidedRequest], out: &mut Vec<u8>) {
    for DecidedRequest { request, body, stamp, dot, is_refused: _ } in requests {
        for number in [*request, *body, stamp.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        dot.encode(out);
    }
}

fn put_field(out: &mut Vec<u8>, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let mut field = Vec::new();
    write(&mut field);
    put_varint(out, tag);
    put_bytes(out, &field);
}

fn encode_body(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Register(value) => put_bytes(out, value),
        Body::Counter(counter) => counter.encode(out),
        Body::Set(set) => set.encode(out),
        Body::Siblings(siblings) => siblings.encode(out),
        Body::Bounded(counter) => counter.encode(out),
        Body::Collection(body) => {
            let (sort, bytes) = match &**body {
                CollectionBody::Header(header) => (HEADER, header.encode()),
                CollectionBody::Delta(delta) => (DELTA, delta.encode()),
                CollectionBody::Changed(header, _) => (CHANGED, header.encode()),
            };
            out.push(sort);
            put_bytes(out, &bytes);
            if let CollectionBody::Changed(_, elements) = &**body {
                ElementEntry::encode_all(elements, out);
            }
        }
    }
}

fn decode_collection(reader: &mut Reader) -> Option<Body> {
    let (sort, bytes) = (reader.u8()?, reader.bytes()?);
    let body = match sort {
        HEADER => CollectionBody::Header(CollectionHeader::decode(bytes)?),
        DELTA => CollectionBody::Delta(CollectionDelta::decode(bytes)?),
        CHANGED => {
            CollectionBody::Changed(CollectionHeader::decode(bytes)?, ElementEntry::decode_all(reader)?)
        }
        _ => return None,
    };
    Some(Body::Collection(Box::new(body)))
}

/// The type is that of the record, and a delta holds what it may.
fn is_lawful_collection(record: &Record) -> bool {
    let Body::Collection(body) = &record.body else { return true };
    let (of, context) = match &**body {
        CollectionBody::Header(header) | CollectionBody::Changed(header, _) => (header.of, &header.context),
        CollectionBody::Delta(delta) => (delta.of, &delta.context),
    };
    let same_type = record.kind.collection() == Some(of.kind) && of.era == record.era;
    let is_lawful = record.collection_delta().is_none_or(|delta| delta.is_lawful());
    let is_plain = record.ballot().is_none() && record.header.expires_ms.is_none();
    context.is_empty() && same_type && record.era == COLLECTION_ERA && is_lawful && is_plain
}

fn decode_body(kind: Kind, reader: &mut Reader) -> Option<Body> {
    Some(match kind {
        Kind::Register => Body::Register(reader.bytes()?),
        Kind::GrowingCounter | Kind::Counter | Kind::Numeric => Body::Counter(CounterState::decode(reader)?),
        Kind::Set => Body::Set(OrSet::decode(reader)?),
        Kind::Siblings | Kind::Custom => Body::Siblings(Siblings::decode(reader)?),
        Kind::BoundedCounter => Body::Bounded(Box::new(BoundedCounter::decode(reader)?)),
        Kind::Flag | Kind::Map | Kind::SortedSet | Kind::List | Kind::HyperLogLog | Kind::BigSet => {
            decode_collection(reader)?
        }
    })
}

fn decode_fields(mut reader: Reader, version: u8) -> Option<Record> {
    let kind = Kind::from_number(reader.u8()?)?;
    if kind == Kind::Custom && version < WITH_HANDLER {
        return None;
    }
    let body = decode_body(kind, &mut reader)?;
    let context = Context::decode(&mut reader)?;
    let created_ms = reader.varint()?;
    let tombstone = match reader.u8()? {
        0 => false,
        TOMBSTONE => true,
        _ => return None,
    };
    let stamp = Stamp(reader.u64()?);
    let dot = Dot::decode(&mut reader)?;
    let header = Header { dot, stamp, tombstone, expires_ms: None, rare: None };
    let mut record = Record { era: 0, kind, header, body, context, created_ms, recent: Vec::new() };
    let mut last = 0;
    while !reader.is_empty() {
        let tag = reader.varint()?;
        if tag <= last {
            return None;
        }
        last = tag;
        match reader.bytes()? {
            field if !tag::is_known(tag, version) => {
                record.header.rare.get_or_insert_default().unknown.push((tag, field));
            }
            field => decode_field(&mut record, tag, field)?,
        }
    }
    Some(record).filter(is_lawful_collection)
}

fn decode_field(record: &mut Record, tag: u64, field: Bytes) -> Option<()> {
    let mut reader = Reader::new(field.clone());
    match tag {
        tag::EXPIRES => record.header.expires_ms = Some(reader.varint()?),
        tag::ERA => record.era = u32::try_from(reader.varint()?).ok()?,
        tag::RECENT => {
            record.recent = decode_recent(reader)?;
            return Some(());
        }
        _ => return decode_rare(record.header.rare.get_or_insert_default(), tag, reader, field),
    }
    reader.is_empty().then_some(())
}

fn decode_rare(rare: &mut RareFields, tag: u64, mut reader: Reader, field: Bytes) -> Option<()> {
    match tag {
        tag::FENCE => {
            let token = reader.varint()?;
            rare.fence = Some(Fence { lock: reader.rest(), token });
            return Some(());
        }
        tag::HOME => rare.home = Some(RegionId(u32::try_from(reader.varint()?).ok()?)),
        tag::METADATA => {
            while !reader.is_empty() && rare.metadata.len() < METADATA_MAX {
                rare.metadata.push((reader.bytes()?, reader.bytes()?));
            }
        }
        tag::SCHEMA => rare.schema = u32::try_from(reader.varint()?).ok()?,
        tag::HANDLER => {
            rare.handler = Some(field);
            return Some(());
        }
        tag::BALLOT => rare.ballot = Some(Ballot::decode(&mut reader)?),
        tag::REQUESTS => rare.requests = decode_requests(&mut reader)?,
        tag::REPLACES_APART => rare.replaces_apart = true,
        tag::REFUSED => mark_refused(&mut rare.requests, reader.varint()?)?,
        _ => return None,
    }
    reader.is_empty().then_some(())
}

fn decode_requests(reader: &mut Reader) -> Option<Vec<DecidedRequest>> {
    let mut requests = Vec::new();
    while !reader.is_empty() && requests.len() < REQUESTS_MAX {
        let (request, body, stamp) = (reader.u64()?, reader.u64()?, Stamp(reader.u64()?));
        let dot = Dot::decode(reader)?;
        requests.push(DecidedRequest { request, body, stamp, dot, is_refused: false });
    }
    Some(requests).filter(|requests| !requests.is_empty())
}

fn decode_recent(mut reader: Reader) -> Option<Vec<RecentRequest>> {
    let mut recent = Vec::new();
    while !reader.is_empty() && recent.len() < RECENT_MAX {
        recent.push(RecentRequest { stamp: Stamp(reader.u64()?), request: reader.u64()? });
    }
    let ordered = recent.is_sorted_by(|left, right| left > right);
    (reader.is_empty() && ordered).then_some(recent)
}
