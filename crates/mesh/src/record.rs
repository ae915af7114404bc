//! One key's state: who wrote it last and when, what it holds, and what it has seen.
//! The header is that of the greatest write; the body is one value, or a state into which all writes went. Two
//! replicas that have seen the same writes have the same record, byte for byte.

mod codec;
#[cfg(test)]
mod tests;

use crate::actor::{Actor, Dot, RegionId};
use crate::ballot::Ballot;
use crate::collection::{
    BoundedCounter, CollectionDelta, CollectionHeader, CollectionKind, CollectionType, ElementEntry,
};
use crate::context::Context;
use crate::counter::{CounterState, CounterSums};
use crate::hlc::Stamp;
use crate::set::OrSet;
use crate::siblings::Siblings;
use base::checksum::hash64;
use bytes::Bytes;
use std::cmp::Ordering;

/// How a key's writes come together. The number is part of the format, and the larger one wins when a key was
/// created as two types at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    Register = 0,
    GrowingCounter = 1,
    Counter = 2,
    Numeric = 3,
    Set = 4,
    Siblings = 5,
    /// Siblings whose values a handler brings together when they are shown.
    Custom = 6,
    // Collections: their elements are rows of their own.
    /// Enable-wins.
    Flag = 7,
    /// Fields are registers or counters.
    Map = 8,
    SortedSet = 9,
    List = 10,
    HyperLogLog = 11,
    /// A set of any size.
    BigSet = 12,
    /// A counter that is never below its bound.
    BoundedCounter = 13,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Register(Bytes),
    Counter(CounterState),
    Set(OrSet),
    Siblings(Siblings),
    Bounded(Box<BoundedCounter>),
    Collection(Box<CollectionBody>),
}

/// What the record of a collection says of it, beside its context and its era, which are the record's own. The elements are
/// rows below the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionBody {
    /// What a replica has.
    Header(CollectionHeader),
    /// What one operation has changed: it travels, and is never stored.
    Delta(CollectionDelta),
    /// What a replica has, and the elements that one operation has changed or removed there: for its client.
    Changed(CollectionHeader, Vec<ElementEntry>),
}

/// A fence: the lock that a write was made under, and its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub lock: Bytes,
    pub token: u64,
}

/// What few records have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareFields {
    pub fence: Option<Fence>,
    /// The region that owns the key, where one does.
    pub home: Option<RegionId>,
    /// By name.
    pub metadata: Vec<(Bytes, Bytes)>,
    /// The application's own version of what it stores.
    pub schema: u32,
    /// The handler that merges the values of a `custom` record.
    pub handler: Option<Bytes>,
    /// The proposal that this record is, if the key is decided by ballots.
    pub ballot: Option<Ballot>,
    /// The last requests that were decided, oldest first.
    pub requests: Vec<DecidedRequest>,
    /// It took the place of custom values that could not be merged with it.
    pub replaces_apart: bool,
    /// Fields of a later format, by tag: kept as they are.
    pub unknown: Vec<(u64, Bytes)>,
}

/// The greatest write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub dot: Dot,
    pub stamp: Stamp,
    pub tombstone: bool,
    /// Gone from here on, in milliseconds of the wall clock.
    pub expires_ms: Option<u64>,
    pub rare: Option<Box<RareFields>>,
}

/// A request that this record has taken in, so that a retry is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecentRequest {
    pub stamp: Stamp,
    pub request: u64,
}

/// A request that was decided: its change is part of the record, or it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedRequest {
    /// The hash of the request id.
    pub request: u64,
    /// A hash of what was asked for.
    pub body: u64,
    pub stamp: Stamp,
    /// Of its change, or, if it was refused, of what was there.
    pub dot: Dot,
    /// It has changed nothing, and never will.
    pub is_refused: bool,
}

/// The most pairs of metadata.
pub const METADATA_MAX: usize = 64;

/// The era of every collection: nothing that was created under its key in another way goes before it, however often that was deleted
/// and created again. A key that was a collection stays one until its deletion is forgotten.
pub const COLLECTION_ERA: u32 = u32::MAX;

/// How many requests a record remembers.
pub const RECENT_MAX: usize = 8;

/// How many requests a record that is decided by ballots holds at most.
pub const REQUESTS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts how often the key was deleted and created again as another kind.
    pub era: u32,
    pub kind: Kind,
    pub header: Header,
    pub body: Body,
    pub context: Context,
    pub created_ms: u64,
    /// Newest first.
    pub recent: Vec<RecentRequest>,
}

impl Kind {
    pub const ALL: [Kind; 14] = [
        Kind::Register,
        Kind::GrowingCounter,
        Kind::Counter,
        Kind::Numeric,
        Kind::Set,
        Kind::Siblings,
        Kind::Custom,
        Kind::Flag,
        Kind::Map,
        Kind::SortedSet,
        Kind::List,
        Kind::HyperLogLog,
        Kind::BigSet,
        Kind::BoundedCounter,
    ];

    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether one of two writes wins and the other goes. Their order needs nothing but the writes themselves, so they
    /// may travel before they are durable; see docs/adr/0021.
    pub fn is_last_write_wins(self) -> bool {
        self == Kind::Register
    }

    /// The collection that a key of this kind is; none where a record holds all of it.
    pub fn collection(self) -> Option<CollectionKind> {
        CollectionKind::from_number(self as u8)
    }

    pub fn empty_body(self) -> Body {
        match self {
            Kind::Register => Body::Register(Bytes::new()),
            Kind::GrowingCounter | Kind::Counter | Kind::Numeric => Body::Counter(CounterState::default()),
            Kind::Set => Body::Set(OrSet::default()),
            Kind::Siblings | Kind::Custom => Body::Siblings(Siblings::default()),
            Kind::Flag => empty_collection(CollectionKind::Flag),
            Kind::Map => empty_collection(CollectionKind::Map),
            Kind::SortedSet => empty_collection(CollectionKind::SortedSet),
            Kind::List => empty_collection(CollectionKind::List),
            Kind::HyperLogLog => empty_collection(CollectionKind::HyperLogLog),
            Kind::BigSet => empty_collection(CollectionKind::Set),
            Kind::BoundedCounter => Body::Bounded(Box::new(BoundedCounter::vacant())),
        }
    }
}

fn empty_collection(kind: CollectionKind) -> Body {
    let of = CollectionType { era: COLLECTION_ERA, kind };
    Body::Collection(Box::new(CollectionBody::Header(CollectionHeader::new(of))))
}

impl Body {
    /// Nothing is left that a delete would have to remove.
    fn is_empty(&self) -> bool {
        match self {
            Body::Register(_) => true,
            Body::Counter(counter) => counter.is_empty(),
            Body::Set(set) => set.is_empty(),
            Body::Siblings(siblings) => siblings.is_empty(),
            Body::Bounded(counter) => counter.is_vacant(),
            Body::Collection(body) => match &**body {
                CollectionBody::Header(header) | CollectionBody::Changed(header, _) => {
                    header.count == 0 && header.sweep.is_none()
                }
                CollectionBody::Delta(delta) => delta.elements.is_empty(),
            },
        }
    }
}

impl Header {
    pub fn token(&self) -> u64 {
        self.rare.as_ref().and_then(|rare| rare.fence.as_ref()).map_or(0, |fence| fence.token)
    }

    /// Whether the write took the place of custom values that it could not be merged with.
    pub fn replaces_apart(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.replaces_apart)
    }
}

impl Record {
    pub fn updated_ms(&self) -> u64 {
        self.header.stamp.ms()
    }

    /// Deleted: nothing is shown of it, and it stays only so that others hear of the delete.
    pub fn is_tombstone(&self) -> bool {
        self.header.tombstone && self.body.is_empty()
    }

    pub fn is_expired(&self, wall_ms: u64) -> bool {
        self.header.expires_ms.is_some_and(|expires_ms| expires_ms <= wall_ms)
    }

    pub fn is_live(&self, wall_ms: u64) -> bool {
        !self.is_tombstone() && !self.is_expired(wall_ms)
    }

    /// The regions whose writes went into it, each once.
    pub fn writers(&self) -> Vec<RegionId> {
        let mut writers = vec![self.header.dot.actor.region];
        writers.extend(self.context.spans().iter().map(|(actor, _)| actor.region));
        writers.sort_unstable();
        writers.dedup();
        writers
    }

    /// What an actor has counted in it.
    pub fn sums_by(&self, actor: Actor) -> CounterSums {
        match &self.body {
            Body::Counter(counter) => counter.sums_by(actor),
            _ => CounterSums::default(),
        }
    }

    /// What this replica has of a collection, beside its rows; none for a delta and for other kinds.
    pub fn collection_header(&self) -> Option<CollectionHeader> {
        let Body::Collection(body) = &self.body else { return None };
        let (CollectionBody::Header(header) | CollectionBody::Changed(header, _)) = &**body else {
            return None;
        };
        Some(CollectionHeader { context: self.context.clone(), ..header.clone() })
    }

    /// The elements that an operation has changed or removed, where this is its answer.
    pub fn changed_elements(&self) -> &[ElementEntry] {
        match &self.body {
            Body::Collection(body) => match &**body {
                CollectionBody::Changed(_, elements) => elements,
                CollectionBody::Header(_) | CollectionBody::Delta(_) => &[],
            },
            _ => &[],
        }
    }

    /// The answer to an operation on a collection.
    pub fn with_changed(self, elements: Vec<ElementEntry>) -> Record {
        let Body::Collection(body) = self.body else { return self };
        let body = match *body {
            CollectionBody::Header(header) | CollectionBody::Changed(header, _) => {
                CollectionBody::Changed(header, elements)
            }
            delta @ CollectionBody::Delta(_) => delta,
        };
        Record { body: Body::Collection(Box::new(body)), ..self }
    }

    /// What one operation has changed in a collection; none for a header and for other kinds.
    pub fn collection_delta(&self) -> Option<CollectionDelta> {
        let Body::Collection(body) = &self.body else { return None };
        let CollectionBody::Delta(delta) = &**body else { return None };
        Some(CollectionDelta { context: self.context.clone(), ..delta.clone() })
    }

    /// The same record with another header of its collection.
    pub fn with_collection(self, header: CollectionHeader) -> Record {
        let CollectionHeader { context, .. } = header;
        let header = CollectionHeader { context: Context::default(), ..header };
        Record { body: Body::Collection(Box::new(CollectionBody::Header(header))), context, ..self }
    }

    /// The record in which the delta of a collection travels.
    pub fn with_delta(self, delta: CollectionDelta) -> Record {
        let CollectionDelta { context, .. } = delta;
        let delta = CollectionDelta { context: Context::default(), ..delta };
        Record { body: Body::Collection(Box::new(CollectionBody::Delta(delta))), context, ..self }
    }

    /// Whether bytes are the record of a collection, without reading more than their beginning.
    pub fn are_of_collection(bytes: &[u8]) -> bool {
        let kind = bytes.get(1).and_then(|number| Kind::from_number(*number));
        kind.is_some_and(|kind| kind.collection().is_some())
    }

    /// The state of a counter with a bound, where this is one that was not deleted.
    pub fn bounded(&self) -> Option<&BoundedCounter> {
        match &self.body {
            Body::Bounded(counter) if !self.is_tombstone() => Some(counter),
            _ => None,
        }
    }

    /// Whether no ballot can decide about it: its parts are changed by several nodes, each for itself.
    pub fn is_never_decided(&self) -> bool {
        self.is_collection() || self.bounded().is_some()
    }

    pub fn is_collection(&self) -> bool {
        matches!(self.body, Body::Collection(_))
    }

    pub fn has_taken(&self, request: u64) -> bool {
        self.recent.iter().any(|recent| recent.request == request)
    }

    pub fn ballot(&self) -> Option<Ballot> {
        self.header.rare.as_ref().and_then(|rare| rare.ballot)
    }

    /// The last requests that were decided, oldest first.
    pub fn requests(&self) -> &[DecidedRequest] {
        self.header.rare.as_ref().map_or(&[], |rare| &rare.requests)
    }

    pub fn with_requests(mut self, requests: Vec<DecidedRequest>) -> Record {
        if requests != self.requests() {
            self.header.rare.get_or_insert_default().requests = requests;
        }
        self
    }

    /// The same value under another ballot.
    pub fn with_ballot(mut self, ballot: Ballot) -> Record {
        self.header.rare.get_or_insert_default().ballot = Some(ballot);
        self
    }

    /// The order of headers: ballot, kind of thing, fence, stamp, actor, and last of all the bytes.
    pub fn rank(&self, other: &Record) -> Ordering {
        let key = |record: &Record| {
            let header = &record.header;
            (record.ballot(), record.era, record.kind, header.token(), header.stamp, header.dot.actor)
        };
        key(self).cmp(&key(other)).then_with(|| {
            if self.header == other.header && self.same_register(other) {
                return Ordering::Equal;
            }
            self.tie_hash().cmp(&other.tie_hash())
        })
    }

    fn same_register(&self, other: &Record) -> bool {
        match (&self.body, &other.body) {
            (Body::Register(left), Body::Register(right)) => left == right,
            _ => true,
        }
    }

    fn tie_hash(&self) -> (u64, Vec<u8>) {
        let mut out = Vec::new();
        codec::encode_header(&self.header, &mut out);
        if let Body::Register(value) = &self.body {
            out.extend_from_slice(value);
        }
        (hash64(&out, 0), out)
    }
}
