//! What a follower asks of one node, and what the node answers: changes from a place in its ring on, a page of its records
//! behind them, and how far all replicas are known to have everything.

use crate::actor::RegionId;
use crate::feed::change::Change;
use crate::feed::cursor::FeedCursor;
use crate::frame::Shard;
use crate::hlc::Stamp;
use crate::placement::COPIES_MAX;
use crate::ring::{PARTITIONS, Partition, Partitions};
use crate::watermarks::Watermarks;
use base::codec::{Reader, put_bytes, put_optional, put_varint};
use base::limits::MESH_NAME_BYTES_MAX;
use bytes::Bytes;
use std::collections::BTreeMap;

/// A set of shards, by number of copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSet {
    by_copies: BTreeMap<u8, Partitions>,
}

impl ShardSet {
    pub fn contains(&self, shard: Shard) -> bool {
        self.by_copies.get(&shard.copies).is_some_and(|set| set.contains(shard.partition))
    }

    pub fn has_partition(&self, partition: Partition) -> bool {
        self.by_copies.values().any(|set| set.contains(partition))
    }

    pub fn insert(&mut self, shard: Shard) {
        self.by_copies.entry(shard.copies).or_default().insert(shard.partition);
    }

    pub fn remove(&mut self, shard: Shard) {
        if let Some(set) = self.by_copies.get_mut(&shard.copies) {
            let kept = Partition::all().filter(|other| *other != shard.partition && set.contains(*other));
            let mut left = Partitions::default();
            kept.for_each(|other| left.insert(other));
            *set = left;
        }
        self.by_copies.retain(|_, set| !set.is_empty());
    }

    pub fn is_empty(&self) -> bool {
        self.by_copies.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Shard> + '_ {
        self.by_copies.iter().flat_map(|(copies, set)| {
            let inside = Partition::all().filter(|partition| set.contains(*partition));
            inside.map(|partition| Shard { partition, copies: *copies })
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.by_copies.len() as u64);
        for (copies, set) in &self.by_copies {
            out.push(*copies);
            set.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
    }

    fn decode(reader: &mut Reader) -> Option<ShardSet> {
        let mut set = ShardSet::default();
        for _ in 0..Some(reader.count()?).filter(|count| *count <= COPIES_MAX)? {
            let copies = reader.u8()?;
            let mut words = [0; PARTITIONS / 64];
            for word in &mut words {
                *word = reader.u64()?;
            }
            set.by_copies.insert(copies, Partitions::from_words(words));
        }
        set.by_copies.retain(|_, set| !set.is_empty());
        Some(set)
    }
}

impl FromIterator<Shard> for ShardSet {
    fn from_iter<I: IntoIterator<Item = Shard>>(shards: I) -> ShardSet {
        let mut set = ShardSet::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// The keys that a subscription is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedRange {
    /// None for all namespaces.
    pub namespace_id: Option<u32>,
    pub prefix: Bytes,
}

impl FeedRange {
    pub fn contains(&self, namespace_id: u32, name: &[u8]) -> bool {
        self.namespace_id.is_none_or(|wanted| wanted == namespace_id) && name.starts_with(&self.prefix)
    }
}

/// Records of a node to be sent, page by page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedScan {
    /// What this covers is left out; none for the state alone, without deletes and conflicts.
    pub since: Option<FeedCursor>,
    pub range: FeedRange,
    pub shards: ShardSet,
    /// The row to go on from.
    pub next: Option<Bytes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedAsk {
    /// The ring that `from` is a place in; zero for none.
    pub log: u64,
    pub from: u64,
    /// Whose changes are wanted.
    pub shards: ShardSet,
    pub scan: Option<FeedScan>,
    /// How long to wait when there is nothing to tell.
    pub wait_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedAnswer {
    /// The ring of this node.
    pub log: u64,
    /// The ring is not the one that was asked about, or does not reach back so far.
    pub lost: bool,
    /// The changes are those before this place.
    pub upto: u64,
    pub changes: Vec<Change>,
    /// Rows of the scan, as they are after these changes.
    pub rows: Vec<Change>,
    /// Whether this has a page of the scan.
    pub scanned: bool,
    /// Where the scan goes on; none at its end.
    pub next: Option<Bytes>,
    /// Deletes behind the cursor of the scan may be forgotten.
    pub gap: bool,
    /// Up to here the wanted shards have everything on all replicas.
    pub marks: Watermarks,
}

impl FeedAsk {
    pub fn encode(&self, out: &mut Vec<u8>) {
        [self.log, self.from, self.wait_ms].into_iter().for_each(|n| put_varint(out, n));
        self.shards.encode(out);
        out.push(u8::from(self.scan.is_some()));
        if let Some(scan) = &self.scan {
            scan.encode(out);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<FeedAsk> {
        let (log, from, wait_ms) = (reader.varint()?, reader.varint()?, reader.varint()?);
        let shards = ShardSet::decode(reader)?;
        let scan = if reader.bool()? { Some(FeedScan::decode(reader)?) } else { None };
        Some(FeedAsk { log, from, shards, scan, wait_ms })
    }
}

impl FeedScan {
    fn encode(&self, out: &mut Vec<u8>) {
        put_optional(out, self.since.as_ref().map(FeedCursor::encode).as_ref());
        put_varint(out, self.range.namespace_id.map_or(0, |id| u64::from(id) + 1));
        put_bytes(out, &self.range.prefix);
        self.shards.encode(out);
        put_optional(out, self.next.as_ref());
    }

    fn decode(reader: &mut Reader) -> Option<FeedScan> {
        let since = match reader.optional()? {
            Some(bytes) => Some(FeedCursor::decode(bytes)?),
            None => None,
        };
        let namespace_id = match reader.varint()? {
            0 => None,
            id => Some(u32::try_from(id - 1).ok()?),
        };
        let prefix = Some(reader.bytes()?).filter(|prefix| prefix.len() <= MESH_NAME_BYTES_MAX)?;
        let range = FeedRange { namespace_id, prefix };
        Some(FeedScan { since, range, shards: ShardSet::decode(reader)?, next: reader.optional()? })
    }
}

impl FeedAnswer {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.log);
        put_varint(out, self.upto);
        out.extend([self.lost, self.scanned, self.gap].map(u8::from));
        for changes in [&self.changes, &self.rows] {
            put_varint(out, changes.len() as u64);
            changes.iter().for_each(|change| change.encode(out));
        }
        put_optional(out, self.next.as_ref());
        self.marks.encode(out);
    }

    pub fn decode(reader: &mut Reader) -> Option<FeedAnswer> {
        let (log, upto) = (reader.varint()?, reader.varint()?);
        let (lost, scanned, gap) = (reader.bool()?, reader.bool()?, reader.bool()?);
        let mut changes =
            || (0..reader.count()?).map(|_| Change::decode(reader)).collect::<Option<Vec<Change>>>();
        let (changes, rows) = (changes()?, changes()?);
        let (next, marks) = (reader.optional()?, Watermarks::decode(reader)?);
        Some(FeedAnswer { log, lost, upto, changes, rows, scanned, next, gap, marks })
    }

    pub fn bytes(&self) -> usize {
        self.changes.iter().chain(&self.rows).map(Change::bytes).sum()
    }
}

/// Whether deletes that the cursor does not cover may be forgotten where everything up to a stamp was.
pub(crate) fn has_gap(cursor: &FeedCursor, regions: impl Iterator<Item = RegionId>, purged: Stamp) -> bool {
    purged > cursor.marks.least(regions)
}
