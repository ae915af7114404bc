//! One key's state: who wrote it last and when, what it holds, and what it has seen.
//! The header is that of the greatest write; the body is one value, or a state into which all writes went. Two
//! replicas that have seen the same writes have the same record, byte for byte.

mod codec;
#[cfg(test)]
mod tests;

use crate::actor::{Actor, Dot, RegionId};
use crate::ballot::Ballot;
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Register(Bytes),
    Counter(CounterState),
    Set(OrSet),
    Siblings(Siblings),
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
    /// Who brings the values of a `custom` record together.
    pub handler: Option<Bytes>,
    /// The proposal that this record is, if the key is decided by ballots.
    pub ballot: Option<Ballot>,
    /// The last requests whose changes are part of what was decided, oldest first.
    pub requests: Vec<DecidedRequest>,
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

/// A request whose change is part of what was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedRequest {
    /// The hash of the request id.
    pub request: u64,
    /// A hash of what was asked for.
    pub body: u64,
    pub stamp: Stamp,
    pub dot: Dot,
}

/// The most pairs of metadata.
pub const METADATA_MAX: usize = 64;

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
    pub const ALL: [Kind; 7] = [
        Kind::Register,
        Kind::GrowingCounter,
        Kind::Counter,
        Kind::Numeric,
        Kind::Set,
        Kind::Siblings,
        Kind::Custom,
    ];

    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Of two writes one wins and the other goes. Their order needs nothing but the writes themselves, so they
    /// may travel before they are durable; see docs/adr/0021.
    pub fn is_last_write_wins(self) -> bool {
        self == Kind::Register
    }

    pub fn empty_body(self) -> Body {
        match self {
            Kind::Register => Body::Register(Bytes::new()),
            Kind::GrowingCounter | Kind::Counter | Kind::Numeric => Body::Counter(CounterState::default()),
            Kind::Set => Body::Set(OrSet::default()),
            Kind::Siblings | Kind::Custom => Body::Siblings(Siblings::default()),
        }
    }
}

impl Body {
    /// Nothing is left that a delete would have to remove.
    fn is_empty(&self) -> bool {
        match self {
            Body::Register(_) => true,
            Body::Counter(counter) => counter.is_empty(),
            Body::Set(set) => set.is_empty(),
            Body::Siblings(siblings) => siblings.is_empty(),
        }
    }
}

impl Header {
    pub fn token(&self) -> u64 {
        self.rare.as_ref().and_then(|rare| rare.fence.as_ref()).map_or(0, |fence| fence.token)
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
            Body::Register(_) | Body::Set(_) | Body::Siblings(_) => CounterSums::default(),
        }
    }

    pub fn has_taken(&self, request: u64) -> bool {
        self.recent.iter().any(|recent| recent.request == request)
    }

    pub fn ballot(&self) -> Option<Ballot> {
        self.header.rare.as_ref().and_then(|rare| rare.ballot)
    }

    /// The last requests whose changes are part of what was decided, oldest first.
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
