//! What a replica knows of a collection as a whole: its type, the writes that it has seen, those that a clear has taken away, when
//! it expires, how many elements it has, and how far the sweep behind a clear has come.
//! Type, contexts and expiry are the same on replicas that have seen the same. The rest is the replica's own, and follows from
//! its rows.

use super::element::ElementState;
use crate::actor::Dot;
use crate::context::Context;
use crate::mutant::Mutant;
use crate::set::join_dots;
use base::codec::{Reader, put_bytes, put_varint};
use base::mutant::planted;
use bytes::Bytes;

/// What a collection is. The numbers are those of `Kind`: part of the format, and the larger one wins when a key was created
/// as two types at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CollectionKind {
    /// Add-wins.
    Set = 12,
    /// Enable-wins.
    Flag = 7,
    /// Fields are registers or counters.
    Map = 8,
    SortedSet = 9,
    List = 10,
    HyperLogLog = 11,
}

/// The type of a collection. The era counts how often its key was deleted and created again as another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectionType {
    pub era: u32,
    pub kind: CollectionKind,
}

/// A write that says when the collection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    pub dot: Dot,
    /// `u64::MAX` for never.
    pub expires_ms: u64,
}

/// The rows that a clear has left are removed behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The last element that was looked at.
    pub after: Option<Bytes>,
    /// Elements may have survived the clear: those up to `after` are counted, the others not yet.
    pub recounts: bool,
    /// The clear began here: other replicas are told how much of each counter it has seen.
    pub tells: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionHeader {
    pub of: CollectionType,
    /// Every write that this replica has seen.
    pub context: Context,
    /// The writes among them that a clear has seen.
    pub cleared: Context,
    /// By dot; of several that have not seen each other the latest counts.
    pub expiry: Vec<Expiry>,
    /// Elements that are visible.
    pub count: u64,
    /// The digest of all element rows, together.
    pub digest: u64,
    /// How many registers of a HyperLogLog have which rank.
    pub ranks: Vec<u64>,
    pub sweep: Option<Sweep>,
    /// The generation of the trees of ranges: a clear begins another.
    pub generation: u32,
}

const VERSION: u8 = 1;
const RECOUNTS: u8 = 1;
const TELLS: u8 = 2;
const SWEEPS: u8 = 4;

impl CollectionKind {
    pub const ALL: [CollectionKind; 6] = [
        CollectionKind::Set,
        CollectionKind::Flag,
        CollectionKind::Map,
        CollectionKind::SortedSet,
        CollectionKind::List,
        CollectionKind::HyperLogLog,
    ];

    pub fn from_number(number: u8) -> Option<CollectionKind> {
        CollectionKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

impl CollectionType {
    pub fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.era));
        out.push(self.kind as u8);
    }

    pub fn decode(reader: &mut Reader) -> Option<CollectionType> {
        let era = u32::try_from(reader.varint()?).ok()?;
        Some(CollectionType { era, kind: CollectionKind::from_number(reader.u8()?)? })
    }
}

impl Expiry {
    /// Joins the expiries of two sides, each with what it has seen.
    pub fn join(left: (&[Expiry], &Context), right: (&[Expiry], &Context)) -> Vec<Expiry> {
        let dots = |side: &[Expiry]| side.iter().map(|expiry| expiry.dot).collect::<Vec<_>>();
        let kept = join_dots((&dots(left.0), left.1), (&dots(right.0), right.1));
        let find = |dot: &Dot| left.0.iter().chain(right.0).find(|expiry| expiry.dot == *dot).copied();
        kept.iter().filter_map(find).collect()
    }

    pub fn encode_all(all: &[Expiry], out: &mut Vec<u8>) {
        put_varint(out, all.len() as u64);
        for Expiry { dot, expires_ms } in all {
            dot.encode(out);
            put_varint(out, *expires_ms);
        }
    }

    pub fn decode_all(reader: &mut Reader) -> Option<Vec<Expiry>> {
        let count = reader.count()?;
        let one =
            |reader: &mut Reader| Some(Expiry { dot: Dot::decode(reader)?, expires_ms: reader.varint()? });
        let all = (0..count).map(|_| one(reader)).collect::<Option<Vec<_>>>()?;
        all.is_sorted_by(|left, right| left.dot < right.dot).then_some(all)
    }
}

impl CollectionHeader {
    pub fn new(of: CollectionType) -> CollectionHeader {
        CollectionHeader {
            of,
            context: Context::default(),
            cleared: Context::default(),
            expiry: Vec::new(),
            count: 0,
            digest: 0,
            ranks: Vec::new(),
            sweep: None,
            generation: 0,
        }
    }

    /// How many elements there are; none while the survivors of a clear are being counted.
    pub fn exact_count(&self) -> Option<u64> {
        let recounts = self.sweep.as_ref().is_some_and(|sweep| sweep.recounts);
        (!recounts).then_some(self.count)
    }

    /// Two replicas of which this holds have the same rows: the first answer is enough.
    pub fn is_same(&self, other: &CollectionHeader) -> bool {
        let known = |header: &CollectionHeader| header.exact_count().is_some();
        known(self)
            && known(other)
            && (self.of, self.count, self.digest) == (other.of, other.count, other.digest)
            && (&self.context, &self.cleared, &self.expiry) == (&other.context, &other.cleared, &other.expiry)
    }

    /// When the whole collection has expired.
    pub fn expires_ms(&self) -> Option<u64> {
        let latest = self.expiry.iter().map(|expiry| expiry.expires_ms).max();
        latest.filter(|expires_ms| *expires_ms != u64::MAX)
    }

    pub fn is_expired(&self, wall_ms: u64) -> bool {
        self.expires_ms().is_some_and(|expires_ms| expires_ms <= wall_ms)
    }

    /// An element is counted where the sweep has passed it, or counts nothing.
    pub(super) fn counts(&self, name: &[u8]) -> bool {
        self.sweep
            .as_ref()
            .is_none_or(|sweep| !sweep.recounts || sweep.after.as_ref().is_some_and(|after| *name <= **after))
    }

    /// The state of an element, from its row: without what a clear has taken away.
    pub(super) fn settled(&self, row: Option<&Bytes>) -> ElementState {
        let state =
            row.map(|row| ElementState::decode(row.clone()).expect("a row that we wrote can be read"));
        let mut state = state.unwrap_or_default();
        if !self.cleared.is_empty() && !planted(Mutant::ClearedShown) {
            state.settle(&self.cleared);
        }
        state
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        self.of.encode(&mut out);
        self.context.encode(&mut out);
        self.cleared.encode(&mut out);
        Expiry::encode_all(&self.expiry, &mut out);
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.digest.to_le_bytes());
        put_varint(&mut out, self.ranks.len() as u64);
        self.ranks.iter().for_each(|n| put_varint(&mut out, *n));
        put_varint(&mut out, u64::from(self.generation));
        match &self.sweep {
            None => out.push(0),
            Some(Sweep { after, recounts, tells }) => {
                let flag = |set: &bool, bit: u8| if *set { bit } else { 0 };
                out.push(SWEEPS | flag(recounts, RECOUNTS) | flag(tells, TELLS));
                out.push(u8::from(after.is_some()));
                put_bytes(&mut out, after.as_deref().unwrap_or_default());
            }
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<CollectionHeader> {
        let mut reader = Reader::new(bytes);
        reader.u8().filter(|version| *version == VERSION)?;
        let of = CollectionType::decode(&mut reader)?;
        let context = Context::decode(&mut reader)?;
        let cleared = Context::decode(&mut reader)?;
        let expiry = Expiry::decode_all(&mut reader)?;
        let count = reader.varint()?;
        let digest = reader.u64()?;
        let n_ranks = reader.count()?;
        let ranks = (0..n_ranks).map(|_| reader.varint()).collect::<Option<Vec<_>>>()?;
        let generation = u32::try_from(reader.varint()?).ok()?;
        let sweep = decode_sweep(&mut reader)?;
        reader.is_empty().then_some(CollectionHeader {
            of,
            context,
            cleared,
            expiry,
            count,
            digest,
            ranks,
            sweep,
            generation,
        })
    }
}

fn decode_sweep(reader: &mut Reader) -> Option<Option<Sweep>> {
    let flags = reader.u8()?;
    if flags == 0 {
        return Some(None);
    }
    if flags & !(RECOUNTS | TELLS) != SWEEPS {
        return None;
    }
    let (has_after, after) = (reader.bool()?, reader.bytes()?);
    let (recounts, tells) = (flags & RECOUNTS != 0, flags & TELLS != 0);
    Some(Some(Sweep { after: has_after.then_some(after), recounts, tells }))
}
