//! The in-memory state of each shard: its Merkle tree, and which stamps which replicas are known to have.
//! Trees are not stored. After a start they are built from the rows, some rows a tick; a change to a key that the build has
//! not reached is left to the build. No index of keys is kept.

use crate::actor::RegionId;
use crate::attempts::attempts_of;
use crate::frame::{OpId, Shard, StampVector, Writer};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::replica::storage::Storage;
use crate::mesh::{Mesh, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::ring::Partition;
use crate::rows::{self, Rows};
use crate::topology::Topology;
use crate::tree::{MerkleTree, digest};
use crate::watermarks::Watermarks;
use base::NodeId;
use base::codec::Reader;
use base::mutant::planted;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Rows that one tick looks at to build trees: few, for they come from the disk after a start, and requests wait.
const BUILD_ROWS: usize = 1_000;

#[derive(Debug, Default)]
pub(in crate::mesh) struct Shards {
    /// By number of copies, and then by partition.
    states: BTreeMap<u8, Vec<Option<ShardState>>>,
    /// How far the trees are built; none when they are.
    building: Option<BuildCursor>,
    /// The bytes of the rows of all records that the trees hold.
    stored_bytes: u64,
}

/// A record's rows: it lies under its key, and is found by what it is and by when it was written.
const ROWS_OF_RECORD: usize = 3;

/// What an element of a collection takes about, with the key before its name.
const ELEMENT_BYTES: u64 = 96;

#[derive(Debug, Default)]
pub(in crate::mesh) struct ShardState {
    pub tree: MerkleTree,
    /// Up to which stamp every replica has, or had, every write.
    pub marks: Watermarks,
    /// Up to which stamp everything of another's is here, durably.
    pub known: BTreeMap<Writer, Stamp>,
    /// The exchanges that peers have begun, the latest of each, since the shard is kept here and the node runs.
    pub answered: BTreeMap<NodeId, AnsweredCompare>,
    /// What the other replicas said of themselves.
    pub told: BTreeMap<NodeId, StampVector>,
    /// What the other regions said of theirs.
    pub region_marks: BTreeMap<RegionId, Watermarks>,
}

/// What a peer said when it began an exchange, which it says again when the exchange has ended.
#[derive(Debug)]
pub(in crate::mesh) struct AnsweredCompare {
    pub id: OpId,
    pub known: StampVector,
}

#[derive(Clone, Debug)]
struct BuildCursor {
    partition: Partition,
    /// The last row that was looked at.
    row: Option<Bytes>,
}

impl Shards {
    pub fn load(topology: &Topology, storage: &Storage, rows: &dyn Rows) -> Shards {
        let building = Some(BuildCursor { partition: Partition(0), row: None });
        let mut shards = Shards { states: BTreeMap::new(), building, stored_bytes: 0 };
        for copies in topology.copies_in_use() {
            for partition in Partition::all() {
                let row = storage.get(rows, &rows::mark(partition, copies)).0;
                if let Some(marks) = row.and_then(|row| Watermarks::decode(&mut Reader::new(row))) {
                    shards.state(Shard { partition, copies }).marks = marks;
                }
            }
        }
        shards
    }

    pub fn state(&mut self, shard: Shard) -> &mut ShardState {
        let none = || Partition::all().map(|_| None).collect();
        self.states.entry(shard.copies).or_insert_with(none)[shard.partition.idx()].get_or_insert_default()
    }

    fn get(&self, shard: Shard) -> Option<&ShardState> {
        self.states.get(&shard.copies)?[shard.partition.idx()].as_ref()
    }

    pub fn marks(&self, shard: Shard) -> Watermarks {
        self.get(shard).map_or_else(Watermarks::default, |state| state.marks.clone())
    }

    /// What another region said of a shard.
    pub fn marks_of_region(&self, shard: Shard, region: RegionId) -> Option<&Watermarks> {
        self.get(shard)?.region_marks.get(&region)
    }

    pub fn cover(&self, shard: Shard, record: &Record) -> bool {
        self.get(shard).is_some_and(|state| state.marks.cover(record))
    }

    /// Whether the peer began this exchange with what is here now.
    pub fn answers(&self, shard: Shard, peer: NodeId, id: OpId) -> bool {
        let answered = self.get(shard).and_then(|state| state.answered.get(&peer));
        answered.is_some_and(|compare| compare.id == id) || planted(Mutant::PageOfAnotherIncarnation)
    }

    /// The peer says that its exchange has ended: whether all of it came to what is here now.
    pub fn end_answered(&mut self, shard: Shard, peer: NodeId, known: &StampVector) -> bool {
        let answered = self.state(shard).answered.remove(&peer);
        answered.is_some_and(|compare| compare.known == *known) || planted(Mutant::SyncedInAnotherIncarnation)
    }

    /// A digest of every record: the same on two nodes that keep the same shards and hold the same.
    pub fn digest(&self) -> u64 {
        let one = |(copies, partition): (u8, Partition)| {
            let place = u64::from(partition.0) << 8 | u64::from(copies);
            let sum = self.sum(Shard { partition, copies });
            if sum == 0 { 0 } else { base::rng::mix(sum ^ place) }
        };
        let all =
            self.states.keys().flat_map(|copies| Partition::all().map(|partition| (*copies, partition)));
        all.map(one).fold(0, |digest, one| digest ^ one)
    }

    pub fn sum(&self, shard: Shard) -> u64 {
        self.get(shard).map_or(0, |state| state.tree.sum())
    }

    /// Whether every record is in its tree.
    pub fn are_built(&self) -> bool {
        self.building.is_none()
    }

    /// What another region said counts no more.
    pub fn forget_region(&mut self, region: RegionId) {
        let all = self.states.values_mut().flatten().flatten();
        all.for_each(|state| drop(state.region_marks.remove(&region)));
    }

    /// The shard is not kept any more.
    pub fn forget(&mut self, shard: Shard) {
        if let Some(states) = self.states.get_mut(&shard.copies) {
            states[shard.partition.idx()] = None;
        }
    }

    pub fn is_built(&self, partition: Partition) -> bool {
        self.building.as_ref().is_none_or(|cursor| partition < cursor.partition)
    }

    /// A record was put, changed or removed.
    pub fn changed(&mut self, shard: Shard, key: &Key, old: Option<&Bytes>, new: Option<&Bytes>) {
        let counted = self.building.as_ref().is_none_or(|cursor| {
            let reached = |row: &Bytes| rows::record(key) <= *row;
            shard.partition < cursor.partition
                || shard.partition == cursor.partition && cursor.row.as_ref().is_some_and(reached)
        });
        if counted {
            let tree = &mut self.state(shard).tree;
            old.into_iter().chain(new).for_each(|record| tree.toggle(key, digest(key, record)));
            let bytes = |record: Option<&Bytes>| record.map_or(0, |record| bytes_of_rows(key, record));
            self.stored_bytes = (self.stored_bytes + bytes(new)).saturating_sub(bytes(old));
        }
    }

    /// What the rows of all records come to; none before they were counted.
    pub fn stored_bytes(&self) -> Option<u64> {
        self.are_built().then_some(self.stored_bytes)
    }
}

impl Replica {
    pub(in crate::mesh) fn learn(&mut self, shard: Shard, known: impl Iterator<Item = (Writer, Stamp)>) {
        let me = Writer::Actor(self.actor);
        let state = self.shards.state(shard);
        for (writer, stamp) in known.filter(|(writer, _)| *writer != me) {
            let entry = state.known.entry(writer).or_default();
            *entry = stamp.max(*entry);
        }
    }

    pub(in crate::mesh) fn raise_marks(
        &mut self,
        shard: Shard,
        marks: impl Iterator<Item = (RegionId, Stamp)>,
    ) {
        let here = self.actor.region;
        let mut changed = false;
        for (region, stamp) in marks {
            if region == here {
                self.clock.advance_to(stamp);
            }
            changed |= self.shards.state(shard).marks.raise(region, stamp);
        }
        if changed {
            let mut value = Vec::new();
            self.shards.state(shard).marks.encode(&mut value);
            self.storage.put_row(rows::mark(shard.partition, shard.copies), Some(value.into()));
        }
    }
}

impl Mesh {
    /// Builds a piece of the trees.
    pub(in crate::mesh) fn step_shards(&mut self, t: &mut Turn<'_>) {
        let mut left = BUILD_ROWS;
        while let Some(cursor) = self.replica.shards.building.clone()
            && left > 0
        {
            self.replica.shards.building = self.build(t, cursor, &mut left);
        }
    }

    fn build(&mut self, t: &Turn<'_>, cursor: BuildCursor, left: &mut usize) -> Option<BuildCursor> {
        let BuildCursor { partition, row } = cursor;
        let from = match &row {
            Some(row) => [row.as_ref(), b"\0"].concat().into(),
            None => rows::records_from(partition, b""),
        };
        let (mut last, mut more) = (row, false);
        let (mut repeated, mut collections) = (Vec::new(), Vec::new());
        let (shards, topology) = (&mut self.replica.shards, &self.membership.topology);
        self.replica.storage.scan(t.rows, &from, &rows::records_end(partition), &mut |row, value| {
            let key = rows::record_key(row).expect("a row that we wrote can be read");
            if let Some(copies) = topology.copies(key.kept_by()) {
                shards.state(Shard { partition, copies }).tree.toggle(&key, digest(&key, value));
                shards.stored_bytes += bytes_of_rows(&key, value);
                collections.extend(collection_of(&key, value));
                repeated.extend(repeated_request(&key, value).map(|(of, request)| (of, copies, request)));
            }
            last = Some(Bytes::copy_from_slice(row));
            *left = left.saturating_sub(1);
            more = *left == 0;
            !more
        });
        for (key, copies, request) in repeated {
            self.replica.undo_repeats(t, &key, Shard { partition, copies }, request);
        }
        for (key, record) in &collections {
            self.replica.collections.note_sweep(key, record);
            self.replica.note_next_expiry(t.rows, key);
        }
        if more {
            return Some(BuildCursor { partition, row: last });
        }
        partition.0.checked_add(1).map(|next| BuildCursor { partition: Partition(next), row: None })
    }

    /// What this node vouches for, itself first. One that has lost its disk vouches for nothing until it has
    /// everything again: what its earlier incarnation wrote may be with one other only.
    pub(in crate::mesh) fn known(&self, shard: Shard) -> StampVector {
        let floor = if self.membership.readiness.is_wiped() { Stamp::ZERO } else { self.replica.floor };
        let mut known = vec![(Writer::Actor(self.params.actor), floor)];
        if let Some(state) = self.replica.shards.get(shard) {
            known.extend(state.known.iter().map(|(writer, stamp)| (*writer, *stamp)));
        }
        known
    }
}

/// A record that is the header of a collection.
fn collection_of(key: &Key, record: &Bytes) -> Option<(Key, Record)> {
    let bytes = Some(record).filter(|bytes| Record::are_of_collection(bytes)).cloned();
    Some((key.clone(), bytes.and_then(Record::decode)?))
}

/// The key and the request of a record that remembers several attempts.
fn repeated_request(key: &Key, record: &Bytes) -> Option<(Key, u64)> {
    let request = key.request()?;
    (attempts_of(&Record::decode(record.clone())?).len() > 1).then_some(request)
}

fn bytes_of_rows(key: &Key, record: &Bytes) -> u64 {
    let header = collection_of(key, record).and_then(|(_, record)| record.collection_header());
    let n_elements = header.map_or(0, |header| header.count);
    (record.len() + ROWS_OF_RECORD * key.bytes().len()) as u64 + n_elements * ELEMENT_BYTES
}
