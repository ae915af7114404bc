//! The requests of clients to the mesh and its replies, as values with their bytes for a node that passes a
//! request on to a replica. An answer never claims more than is known: a write that fewer than it wanted have
//! acknowledged is indeterminate, not failed.

use crate::actor::{Actor, RegionId};
use crate::call::ListConflicts;
use crate::collection::{CollectionOp, ElementEntry, ScorePaging};
use crate::conflict::Conflict;
use crate::context::Context;
use crate::feed::{FeedAnswer, FeedAsk};
use crate::frame::ELEMENTS_MAX;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mutant::Mutant;
use crate::op::{Attributes, BoundedChange, BoundedOp, Op};
use crate::query::Query;
use crate::record::{Fence, Kind, Record};
use crate::session::Session;
use crate::topology::Epoch;
use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::mutant::planted;
use base::{Code, NodeId};
use bytes::{BufMut, Bytes};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Shared: it is large, goes through several hands, and may be passed on and kept.
    Write(Arc<Write>),
    Read {
        key: Key,
        r: Option<u8>,
    },
    Batch(Vec<Write>),
    Scan(Scan),
    Get(Box<Get>),
    /// Conflicts that the nodes of this region have noticed, by time, behind a place.
    Conflicts(ListConflicts),
    /// The rows of this node alone that belong into a backup, from one on.
    Rows {
        from: Bytes,
    },
    /// A question of a follower of the change feed to one node.
    Feed {
        node: NodeId,
        ask: Box<FeedAsk>,
    },
    /// Elements of a collection, or how many there are.
    Elements(Box<ElementsRead>),
    /// Answered by `Scanned`, whose `next` is the `after` of the next page.
    Query(Box<Query>),
}

impl Request {
    pub fn write(write: Write) -> Request {
        Request::Write(Arc::new(write))
    }
}

/// The replicas that must have a write, or answer a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// One replica of this region; a write takes it for a quorum.
    LocalOne = 0,
    /// A quorum of this region, or as many as are asked for.
    #[default]
    LocalQuorum = 1,
    /// A quorum in a majority of regions; of two regions, in both.
    GlobalQuorum = 2,
    /// A quorum in every region.
    EachQuorum = 3,
    /// Decided once, by a majority of the key's replicas in its home region.
    Linearizable = 4,
}

impl Level {
    /// Whether other regions are waited for.
    pub fn spans_regions(self) -> bool {
        matches!(self, Level::GlobalQuorum | Level::EachQuorum)
    }
}

/// A read that must not show less than its session has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    pub key: Key,
    pub r: Option<u8>,
    pub level: Level,
    pub session: Session,
    /// The context that the record must have seen; empty for none.
    pub min: Context,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetResult {
    pub record: Option<Box<Record>>,
    /// The region that it was read in.
    pub from: RegionId,
    /// How far this region is behind others, in milliseconds.
    pub lag_ms: u64,
}

/// A quorum read below the key of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementsRead {
    pub key: Key,
    pub query: ElementsQuery,
    pub r: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementsQuery {
    /// Which of these elements does the set have?
    Named(Vec<Bytes>),
    /// The next ones in the order of their names.
    Page {
        after: Option<Bytes>,
        limit: usize,
    },
    Count,
    /// The last one in the order of names or positions. None where the end is being removed: then it is to be found by its rank.
    Last,
    /// The members of a sorted set, in the order of scores.
    Scores(ScorePaging),
    /// The elements from a rank on: a sorted set's in the order of scores, others' in that of their names or positions.
    Ranks {
        from: u64,
        limit: usize,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementsPage {
    /// The header of the collection as one of the replicas has it; none if there is no collection.
    pub record: Option<Box<Record>>,
    /// The elements of the question that the collection has.
    pub elements: Vec<ElementEntry>,
    /// Where the next page begins, behind a name or a place in the order of scores; none at the end.
    pub next: Option<Bytes>,
    /// How many there are in all, where the replicas agree or it was asked for.
    pub count: Option<u64>,
    /// How many different values a HyperLogLog has observed, if its elements were counted.
    pub estimate: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: Key,
    pub kind: Kind,
    pub op: Op,
    pub attributes: Attributes,
    /// Only if nothing is there that this context has not seen; decided by ballots.
    pub expect: Option<Context>,
    /// How many replicas must have the write durably; a majority by default.
    pub w: Option<u8>,
    /// Other nodes may stand in for replicas that are down; a read may then miss the write until they are back.
    pub sloppy: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    pub namespace_id: u32,
    /// Included.
    pub start: Bytes,
    /// Excluded; none for all.
    pub end: Option<Bytes>,
    pub limit: usize,
    pub r: Option<u8>,
    pub view: ScanView,
}

/// The rows that a scan shows, and their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanView {
    /// Names without their records.
    pub keys_only: bool,
    /// From the last name down: a page ends at its `next`, and the one behind it has that for its end.
    pub reverse: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Durable on as many as were asked for. The record as the origin has it now.
    Written(Box<Record>),
    /// As many as were asked for have been heard, and agree now.
    Found(Option<Box<Record>>),
    /// Written, but on too few that answered: it may stay or be overwritten, it will not be undone.
    Indeterminate {
        acks: u8,
        needed: u8,
        missing: Missing,
    },
    /// Too few answered a read.
    Unavailable {
        acks: u8,
        needed: u8,
        missing: Missing,
    },
    /// Something is there that the writer has not seen.
    Conflict(Box<Record>),
    Refused(Code),
    Batch(Vec<Reply>),
    Scanned(ScanPage),
    Listed(Box<ConflictPage>),
    Got(Box<GetResult>),
    Rows(Box<RowPage>),
    Feed(Box<FeedAnswer>),
    Elements(Box<ElementsPage>),
    /// The writes that the session has seen were not here in time, nor to be had elsewhere.
    Lagging {
        lag_ms: u64,
    },
}

/// Replicas and regions that did not answer. If regions are missing, `acks` and `needed` count regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub nodes: Vec<NodeId>,
    pub regions: Vec<RegionId>,
}

impl Missing {
    pub fn nodes(mut nodes: Vec<NodeId>) -> Missing {
        nodes.sort_unstable();
        nodes.retain(|_| !planted(Mutant::MissingUnnamed));
        Missing { nodes, regions: Vec::new() }
    }

    pub fn regions(regions: Vec<RegionId>) -> Missing {
        Missing { nodes: Vec::new(), regions }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.nodes.len() as u64);
        self.nodes.iter().for_each(|node| put_varint(out, node.0));
        put_varint(out, self.regions.len() as u64);
        self.regions.iter().for_each(|region| put_varint(out, u64::from(region.0)));
    }

    fn decode(reader: &mut Reader) -> Option<Missing> {
        let nodes = (0..reader.count()?).map(|_| reader.varint().map(NodeId)).collect::<Option<Vec<_>>>()?;
        let region = |reader: &mut Reader| Some(RegionId(u32::try_from(reader.varint()?).ok()?));
        let regions = (0..reader.count()?).map(|_| region(reader)).collect::<Option<Vec<_>>>()?;
        Some(Missing { nodes, regions })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    /// In order; deleted keys are left out.
    pub records: Vec<(Key, Record)>,
    /// The keys that a scan of names alone found, in the place of records.
    pub names: Vec<Key>,
    /// The cursor of the next page; none at the end.
    pub next: Option<Bytes>,
    /// Partitions of which too few replicas answered, so that something may be missing.
    pub n_missing: u16,
}

impl ScanPage {
    /// Entries, with or without their records.
    pub fn len(&self) -> usize {
        self.records.len() + self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of one node in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// The epoch of the topology that the node follows.
    pub epoch: Epoch,
    pub rows: Vec<(Bytes, Bytes)>,
    /// The cursor of the next page; none at the end.
    pub next: Option<Bytes>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConflictPage {
    /// By the time of the winner, each once.
    pub conflicts: Vec<Conflict>,
    /// The place to go on behind; none at the end.
    pub next: Option<Bytes>,
    /// Nodes that did not answer, so that something may be missing.
    pub missing: Vec<NodeId>,
}

/// The bytes of a client's request id that a record remembers.
pub fn request_hash(id: &[u8]) -> u64 {
    base::checksum::hash64(id, 0)
}

impl Write {
    /// Whether it is decided by the key's replicas together: a condition, or the level, asks for it.
    pub fn is_decided(&self) -> bool {
        self.expect.is_some() || self.attributes.level == Level::Linearizable
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.key.bytes());
        out.push(self.kind as u8);
        encode_op(&self.op, out);
        encode_attributes(&self.attributes, out);
        put_option(out, self.expect.as_ref(), |out, context| context.encode(out));
        out.push(self.w.unwrap_or(0));
        out.push(u8::from(self.sloppy));
    }

    /// Encodes the operation without its conditions and its time.
    pub fn encode_body(&self, out: &mut Vec<u8>) {
        encode_op(&self.op, out);
        let Attributes { metadata, schema, handler, .. } = &self.attributes;
        metadata.iter().for_each(|(name, value)| {
            put_bytes(out, name);
            put_bytes(out, value);
        });
        put_varint(out, u64::from(*schema));
        put_option(out, handler.as_ref(), |out, handler| put_bytes(out, handler));
    }

    pub fn decode(reader: &mut Reader) -> Option<Write> {
        Some(Write {
            key: Key::from_bytes(reader.bytes()?)?,
            kind: Kind::from_number(reader.u8()?)?,
            op: decode_op(reader)?,
            attributes: decode_attributes(reader)?,
            expect: option(reader, Context::decode)?,
            w: Some(reader.u8()?).filter(|w| *w != 0),
            sloppy: reader.bool()?,
        })
    }
}

fn encode_op(op: &Op, out: &mut Vec<u8>) {
    let mut bytes = |number: u8, value: &[u8]| {
        out.push(number);
        put_bytes(out, value);
    };
    match op {
        Op::Put(value) => bytes(1, value),
        Op::Insert(element) => bytes(5, element),
        Op::Remove(element) => bytes(6, element),
        Op::Restore(record) => bytes(7, record),
        Op::Replace(value) => bytes(10, value),
        Op::Elements(ops) => {
            out.push(8);
            put_varint(out, ops.len() as u64);
            ops.iter().for_each(|op| op.encode(out));
        }
        Op::Delete => out.push(2),
        Op::Bounded(op) => {
            out.push(11);
            encode_bounded(op, out);
        }
        Op::Add(amount) | Op::Assign(amount) => {
            out.push(if matches!(op, Op::Add(_)) { 3 } else { 4 });
            out.put_i128_le(*amount);
        }
    }
}

fn decode_op(reader: &mut Reader) -> Option<Op> {
    let number = reader.u8()?;
    let amount = |reader: &mut Reader| {
        let bytes = reader.take(16)?;
        Some(i128::from_le_bytes(bytes.as_ref().try_into().ok()?))
    };
    Some(match number {
        1 => Op::Put(reader.bytes()?),
        2 => Op::Delete,
        3 => Op::Add(amount(reader)?),
        4 => Op::Assign(amount(reader)?),
        5 => Op::Insert(reader.bytes()?),
        6 => Op::Remove(reader.bytes()?),
        7 => Op::Restore(reader.bytes()?),
        8 => {
            let count = reader.count().filter(|count| (1..=ELEMENTS_MAX).contains(count))?;
            Op::Elements((0..count).map(|_| CollectionOp::decode(reader)).collect::<Option<Vec<_>>>()?)
        }
        10 => Op::Replace(reader.bytes()?),
        11 => Op::Bounded(decode_bounded(reader)?),
        _ => return None,
    })
}

fn encode_bounded(op: &BoundedOp, out: &mut Vec<u8>) {
    let (number, amount) = match op.change {
        BoundedChange::Add(amount) => (1, amount),
        BoundedChange::Subtract(amount) => (2, amount),
        BoundedChange::Reserve(amount) => (3, amount),
        BoundedChange::Give { amount, .. } => (4, amount),
        BoundedChange::Want(amount) => (5, amount),
    };
    out.push(number);
    put_varint(out, amount);
    if let BoundedChange::Give { to, .. } = op.change {
        to.encode(out);
    }
    put_option(out, op.bound, put_signed);
}

fn decode_bounded(reader: &mut Reader) -> Option<BoundedOp> {
    let (number, amount) = (reader.u8()?, reader.varint()?);
    let change = match number {
        1 => BoundedChange::Add(amount),
        2 => BoundedChange::Subtract(amount),
        3 => BoundedChange::Reserve(amount),
        4 => BoundedChange::Give { to: Actor::decode(reader)?, amount },
        5 => BoundedChange::Want(amount),
        _ => return None,
    };
    Some(BoundedOp { change, bound: option(reader, Reader::signed)? })
}

fn encode_attributes(attributes: &Attributes, out: &mut Vec<u8>) {
    let Attributes {
        context, expires_ms, fence, home, metadata, schema, handler, request, level, after, ..
    } = attributes;
    put_option(out, context.as_ref(), |out, context| context.encode(out));
    put_option(out, *expires_ms, put_varint_to);
    put_option(out, fence.as_ref(), |out, fence| {
        put_varint(out, fence.token);
        put_bytes(out, &fence.lock);
    });
    put_option(out, home.map(|home| u64::from(home.0)), put_varint_to);
    put_varint(out, metadata.len() as u64);
    for (name, value) in metadata {
        put_bytes(out, name);
        put_bytes(out, value);
    }
    put_varint(out, u64::from(*schema));
    put_option(out, handler.as_ref(), |out, handler| put_bytes(out, handler));
    put_option(out, *request, put_varint_to);
    out.push(*level as u8);
    put_varint(out, after.0);
}

fn decode_attributes(reader: &mut Reader) -> Option<Attributes> {
    let context = option(reader, Context::decode)?;
    let expires_ms = option(reader, Reader::varint)?;
    let fence = option(reader, |reader| Some(Fence { token: reader.varint()?, lock: reader.bytes()? }))?;
    let home = option(reader, |reader| Some(RegionId(u32::try_from(reader.varint()?).ok()?)))?;
    let pair = |reader: &mut Reader| Some((reader.bytes()?, reader.bytes()?));
    let metadata = (0..reader.count()?).map(|_| pair(reader)).collect::<Option<Vec<_>>>()?;
    let schema = u32::try_from(reader.varint()?).ok()?;
    let handler = option(reader, Reader::bytes)?;
    let request = option(reader, Reader::varint)?;
    let level = match reader.u8()? {
        0 => Level::LocalOne,
        1 => Level::LocalQuorum,
        2 => Level::GlobalQuorum,
        3 => Level::EachQuorum,
        4 => Level::Linearizable,
        _ => return None,
    };
    let after = Stamp(reader.varint()?);
    // It is part of how the write began (`WriteOrigin`).
    let operation = None;
    Some(Attributes {
        context,
        expires_ms,
        fence,
        home,
        metadata,
        schema,
        handler,
        request,
        operation,
        level,
        after,
    })
}

fn put_varint_to(out: &mut Vec<u8>, value: u64) {
    put_varint(out, value);
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(out, value);
    }
}

fn option<T>(reader: &mut Reader, read: impl FnOnce(&mut Reader) -> Option<T>) -> Option<Option<T>> {
    if reader.bool()? { read(reader).map(Some) } else { Some(None) }
}

impl Reply {
    /// Encodes the reply of a replica to a write that was passed on to it; the others never travel.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Written(record) => {
                out.push(1);
                put_bytes(out, &record.encode());
            }
            // Nodes of 0.1.0 do not name who is missing.
            Reply::Indeterminate { acks, needed, missing } if *missing == Missing::default() => {
                out.extend([2, *acks, *needed]);
            }
            Reply::Indeterminate { acks, needed, missing } => {
                out.extend([5, *acks, *needed]);
                missing.encode(out);
            }
            Reply::Conflict(record) => {
                out.push(3);
                put_bytes(out, &record.encode());
            }
            Reply::Refused(code) => out.extend([4, *code as u8]),
            Reply::Unavailable { acks, needed, missing } => {
                out.extend([6, *acks, *needed]);
                missing.encode(out);
            }
            Reply::Found(_)
            | Reply::Batch(_)
            | Reply::Scanned(_)
            | Reply::Listed(_)
            | Reply::Got(_)
            | Reply::Rows(_)
            | Reply::Feed(_)
            | Reply::Elements(_)
            | Reply::Lagging { .. } => unreachable!("only writes are passed on"),
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<Reply> {
        let record = |reader: &mut Reader| Record::decode(reader.bytes()?).map(Box::new);
        Some(match reader.u8()? {
            1 => Reply::Written(record(reader)?),
            2 => {
                Reply::Indeterminate { acks: reader.u8()?, needed: reader.u8()?, missing: Missing::default() }
            }
            5 => Reply::Indeterminate {
                acks: reader.u8()?,
                needed: reader.u8()?,
                missing: Missing::decode(reader)?,
            },
            3 => Reply::Conflict(record(reader)?),
            4 => Reply::Refused(Code::from_number(reader.u8()?)?),
            6 => Reply::Unavailable {
                acks: reader.u8()?,
                needed: reader.u8()?,
                missing: Missing::decode(reader)?,
            },
            _ => return None,
        })
    }
}
