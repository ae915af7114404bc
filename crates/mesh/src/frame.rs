//! The frames between nodes of the mesh, and their bytes. See docs/formats/mesh-frames.md.
//! Every frame carries the sender's epoch, so that a node with an older one learns of it. The receiver drops a frame that it
//! cannot decode, and trusts nothing in a frame beyond its form.

mod ballot;
mod collection;
mod feed;
mod heartbeat;
mod known;
mod outcome;
mod page;
#[cfg(test)]
mod tests;

use crate::actor::{Actor, RegionId};
use crate::ballot::{Ballot, Round};
use crate::conflict::ConflictOrder;
use crate::feed::{FeedAnswer, FeedAsk};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::query::{Query, ScanRange};
use crate::request::{Reply, Write};
use crate::ring::Partition;
use crate::topology::Epoch;
use crate::tree::TREE_LEAVES;
use crate::watermarks::{REGIONS_MAX, Watermarks};
use base::NodeId;
use base::codec::{Reader, put_bytes, put_optional, put_varint};
use bytes::Bytes;
pub use collection::{
    CollectionAnswer, CollectionQuestion, CollectionView, ELEMENTS_MAX, QueryPurpose, RANGES_MAX,
};
pub use heartbeat::RegionHeartbeat;
use known::{known, put_known};
pub use outcome::{StampCheck, StoreOutcome, StoreReason, WriteOrigin};
pub use page::{ExchangeAnswer, ExchangeEntry, ExchangePage};
use page::{decode_answer, decode_page, encode_answer, encode_page};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The numbers of all frames that this release knows.
const NUMBERS: [RangeInclusive<u8>; 6] = [1..=27, 30..=30, 40..=43, 50..=53, 60..=62, 70..=71];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub epoch: Epoch,
    pub frame: Frame,
}

/// Names what the sender waits for; unique over its restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

impl From<OpId> for u64 {
    fn from(id: OpId) -> u64 {
        id.0
    }
}

/// A partition as far as namespaces of one number of copies are concerned: its replicas hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    pub partition: Partition,
    pub copies: u8,
}

/// Up to which stamp everything that a writer wrote is here.
pub type StampVector = Vec<(Writer, Stamp)>;

/// Whose writes a replica vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writer {
    /// A node of this region, in one incarnation.
    Actor(Actor),
    /// Everything that another region wrote.
    Region(RegionId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A write for a replica to coordinate. Nodes of 0.1.0 do not say how it began.
    Forward {
        id: OpId,
        origin: Option<WriteOrigin>,
        write: Arc<Write>,
    },
    /// A write that was passed on is behind what has this stamp: it is carried out under another stamp, or not at all.
    Behind {
        id: OpId,
        stamp: Stamp,
        check: StampCheck,
    },
    Forwarded {
        id: OpId,
        reply: Box<Reply>,
        /// Other regions that have what was written.
        reached: Vec<RegionId>,
    },
    /// A record, or a delta of one, to be made durable.
    Store {
        id: OpId,
        key: Key,
        record: Bytes,
        reason: StoreReason,
    },
    /// A record to be kept for another node, which is down.
    KeepHint {
        id: OpId,
        target: NodeId,
        key: Key,
        record: Bytes,
    },
    Stored {
        id: OpId,
        outcome: StoreOutcome,
    },
    Fetch {
        id: OpId,
        key: Key,
    },
    /// The same for a write with a request id: what is remembered of that is asked for too.
    FetchFor {
        id: OpId,
        key: Key,
        request: u64,
    },
    FetchedFor {
        id: OpId,
        record: Option<Bytes>,
        attempts: Option<Bytes>,
    },
    /// With nothing there, up to where what is missing was deleted everywhere.
    Fetched {
        id: OpId,
        record: Option<Bytes>,
        marks: Watermarks,
    },
    /// Records of a namespace from a name on, of all partitions that the receiver keeps.
    Collect {
        id: OpId,
        namespace_id: u32,
        start: Bytes,
        end: Option<Bytes>,
        limit: u16,
    },
    /// The same without tombstones, and as the view says; answered by `Collected`, in which names without records are pairs with
    /// empty bytes.
    Gather {
        id: OpId,
        wanted: Box<ScanRange>,
    },
    /// What there is up to a name; none means to the end.
    Collected {
        id: OpId,
        records: Vec<(Key, Bytes)>,
        upto: Option<Bytes>,
    },
    /// Not served: the sender of the question has an older epoch, or the node is not in step.
    Declined {
        id: OpId,
    },
    /// A write was not taken, because the disk has no space for it. Other records are declined in such a case.
    NoSpace {
        id: OpId,
    },
    /// What is your topology?
    AskTopology,
    Topology(Bytes),
    /// From a node that has started, to all others: they may have a newer topology.
    Hello,
    Welcome,
    Compare {
        id: OpId,
        shard: Shard,
        root: u64,
        known: StampVector,
    },
    /// No leaves: the roots are the same.
    Leaves {
        id: OpId,
        leaves: Vec<u64>,
        known: StampVector,
        marks: Watermarks,
    },
    Page(Box<ExchangePage>),
    Answer(Box<ExchangeAnswer>),
    /// What was known at the beginning holds for both sides now.
    Synced {
        shard: Shard,
        known: StampVector,
        marks: Watermarks,
    },
    /// An entry of another region's log, to be stored by a quorum here; `Stored` when it is.
    Replicate {
        id: OpId,
        entry: Bytes,
    },
    /// A read by a quorum here, for another region, if everything is here that a session has seen.
    RemoteRead {
        id: OpId,
        key: Key,
        session: Bytes,
    },
    RemoteReadResult {
        id: OpId,
        record: Option<Bytes>,
    },
    /// A heartbeat from another region.
    Heartbeat(Box<RegionHeartbeat>),
    /// Conflicts behind a place. Nodes of 0.1.0 know the oldest first alone.
    List {
        id: OpId,
        after: Option<Bytes>,
        limit: u16,
        order: ConflictOrder,
    },
    Listed {
        id: OpId,
        conflicts: Vec<Bytes>,
        more: bool,
    },
    /// Records by what they are, of all partitions that the receiver keeps; answered by `Collected`.
    Select {
        id: OpId,
        query: Box<Query>,
    },
    /// Promise to accept nothing of a lower round for a key, and say what is there; without a round, say it only.
    Prepare {
        id: OpId,
        key: Key,
        round: Option<Round>,
        /// What is remembered of this request is asked for, too.
        request: Option<u64>,
    },
    /// With the round that was asked for.
    Promised {
        id: OpId,
        round: Option<Round>,
        /// Otherwise a higher one is promised.
        granted: bool,
        /// What was promised before.
        prior: Option<Round>,
        record: Option<Bytes>,
        /// With nothing there, up to where what is missing was deleted everywhere.
        marks: Watermarks,
        attempts: Option<Bytes>,
    },
    /// A proposal: a record under its ballot, to be made durable unless a higher round is promised.
    Accept {
        id: OpId,
        key: Key,
        record: Bytes,
        /// What is to be remembered of requests that the record leaves out.
        notes: Vec<RequestNote>,
    },
    Accepted {
        id: OpId,
        ballot: Ballot,
        /// Not accepted: this round is promised, or was accepted.
        passed: Option<Round>,
    },
    /// A question of a follower of the change feed.
    FeedAsk {
        id: OpId,
        ask: Box<FeedAsk>,
    },
    FeedAnswer {
        id: OpId,
        answer: Box<FeedAnswer>,
    },
    /// What is there below the key of a collection?
    CollectionQuery {
        id: OpId,
        key: Key,
        purpose: QueryPurpose,
        question: CollectionQuestion,
    },
    CollectionAnswer {
        id: OpId,
        view: Box<CollectionView>,
    },
}

/// A request by its hash, and the record of its attempts.
pub type RequestNote = (u64, Bytes);

impl Frame {
    /// Frames for a node that is not enrolled and only forwards requests: answers and topologies.
    pub fn is_for_unenrolled(&self) -> bool {
        matches!(
            self,
            Frame::Forwarded { .. }
                | Frame::Behind { .. }
                | Frame::Stored { .. }
                | Frame::Fetched { .. }
                | Frame::CollectionAnswer { .. }
                | Frame::FetchedFor { .. }
                | Frame::Collected { .. }
                | Frame::List { .. }
                | Frame::Listed { .. }
                | Frame::Declined { .. }
                | Frame::Topology(_)
                | Frame::Promised { .. }
                | Frame::Accepted { .. }
                | Frame::FeedAnswer { .. }
        )
    }

    /// A question that must not be served under an older epoch.
    pub fn request_id(&self) -> Option<OpId> {
        match self {
            Frame::Forward { id, .. }
            | Frame::Store { id, .. }
            | Frame::KeepHint { id, .. }
            | Frame::Fetch { id, .. }
            | Frame::FetchFor { id, .. }
            | Frame::CollectionQuery { id, .. }
            | Frame::Collect { id, .. }
            | Frame::Gather { id, .. }
            | Frame::Select { id, .. }
            | Frame::Prepare { id, .. }
            | Frame::Accept { id, .. }
            | Frame::FeedAsk { id, .. }
            | Frame::Compare { id, .. } => Some(*id),
            Frame::Page(page) => Some(page.id),
            _ => None,
        }
    }
}

impl Envelope {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.size_hint());
        self.encode_to(&mut out);
        out.into()
    }

    pub fn encode_to(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch.0);
        encode_frame(&self.frame, out);
    }

    /// About how many bytes it takes, and rarely fewer than it does.
    pub fn size_hint(&self) -> usize {
        const HEAD_BYTES: usize = 40;
        HEAD_BYTES
            + match &self.frame {
                Frame::Store { key, record, .. } => key.bytes().len() + record.len(),
                Frame::Accept { key, record, .. } => key.bytes().len() + record.len(),
                Frame::Fetch { key, .. } | Frame::Prepare { key, .. } => key.bytes().len(),
                Frame::Fetched { record: Some(record), .. }
                | Frame::FetchedFor { record: Some(record), .. }
                | Frame::Promised { record: Some(record), .. } => record.len(),
                Frame::FeedAnswer { answer, .. } => answer.bytes(),
                _ => 0,
            }
    }

    pub fn decode(bytes: Bytes) -> Option<Envelope> {
        Envelope::read(bytes).ok()
    }

    pub fn read(bytes: Bytes) -> Result<Envelope, FrameError> {
        let mut reader = Reader::new(bytes);
        let epoch = Epoch(reader.varint().ok_or(FrameError::Malformed)?);
        let frame = decode_frame(&mut reader).ok_or(FrameError::Malformed)??;
        if reader.is_empty() { Ok(Envelope { epoch, frame }) } else { Err(FrameError::Malformed) }
    }
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The frame has a number that this release does not know. A later one may.
    Unknown,
    Malformed,
}

fn begin(out: &mut Vec<u8>, number: u8, id: &OpId) {
    out.push(number);
    put_varint(out, id.0);
}

fn encode_frame(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Forward { id, origin: None, write } => {
            begin(out, 1, id);
            write.encode(out);
        }
        Frame::Forward { id, origin: Some(origin), write } => {
            begin(out, 40, id);
            put_varint(out, origin.stamp.0);
            put_varint(out, origin.remaining_ms);
            out.push(origin.check as u8);
            put_varint(out, origin.operation.unwrap_or(0));
            write.encode(out);
        }
        Frame::FetchFor { id, key, request } => {
            begin(out, 42, id);
            put_bytes(out, key.bytes());
            put_varint(out, *request);
        }
        Frame::FetchedFor { id, record, attempts } => {
            begin(out, 43, id);
            put_optional(out, record.as_ref());
            put_optional(out, attempts.as_ref());
        }
        Frame::Behind { id, stamp, check } => {
            begin(out, 41, id);
            put_varint(out, stamp.0);
            out.push(*check as u8);
        }
        Frame::Forwarded { id, reply, reached } => {
            begin(out, 2, id);
            reply.encode(out);
            // Nodes of 0.1.0 do not send it.
            if !reached.is_empty() {
                put_varint(out, reached.len() as u64);
                reached.iter().for_each(|region| put_varint(out, u64::from(region.0)));
            }
        }
        Frame::Store { id, key, record, reason } => {
            begin(out, 3, id);
            out.push(*reason as u8);
            put_bytes(out, key.bytes());
            put_bytes(out, record);
        }
        Frame::KeepHint { id, target, key, record } => {
            begin(out, 19, id);
            put_varint(out, target.0);
            put_bytes(out, key.bytes());
            put_bytes(out, record);
        }
        Frame::Stored { id, outcome } => {
            begin(out, 4, id);
            outcome.encode(out);
        }
        Frame::Fetch { id, key } => {
            begin(out, 5, id);
            put_bytes(out, key.bytes());
        }
        Frame::Fetched { id, record, marks } => {
            begin(out, 6, id);
            put_optional(out, record.as_ref());
            marks.encode(out);
        }
        Frame::Collect { id, namespace_id, start, end, limit } => {
            begin(out, 7, id);
            put_varint(out, u64::from(*namespace_id));
            put_bytes(out, start);
            put_optional(out, end.as_ref());
            put_varint(out, u64::from(*limit));
        }
        Frame::Gather { id, wanted } => {
            begin(out, 62, id);
            wanted.encode(out);
        }
        Frame::Collected { id, records, upto } => {
            begin(out, 8, id);
            put_records(out, records);
            put_optional(out, upto.as_ref());
        }
        Frame::Declined { id } => begin(out, 9, id),
        Frame::NoSpace { id } => begin(out, 27, id),
        Frame::AskTopology => out.push(10),
        Frame::Topology(bytes) => {
            out.push(11);
            put_bytes(out, bytes);
        }
        Frame::Hello => out.push(12),
        Frame::Welcome => out.push(13),
        Frame::Compare { id, shard, root, known } => {
            begin(out, 14, id);
            put_shard(out, *shard);
            out.extend(root.to_le_bytes());
            put_known(out, known);
        }
        Frame::Leaves { id, leaves, known, marks } => {
            begin(out, 15, id);
            put_varint(out, leaves.len() as u64);
            leaves.iter().for_each(|leaf| out.extend(leaf.to_le_bytes()));
            put_known(out, known);
            marks.encode(out);
        }
        Frame::Page(page) => encode_page(page, out),
        Frame::Answer(answer) => encode_answer(answer, out),
        Frame::Synced { shard, known, marks } => {
            out.push(18);
            put_shard(out, *shard);
            put_known(out, known);
            marks.encode(out);
        }
        Frame::Replicate { id, entry } => {
            begin(out, 20, id);
            put_bytes(out, entry);
        }
        Frame::RemoteRead { id, key, session } => {
            begin(out, 21, id);
            put_bytes(out, key.bytes());
            put_bytes(out, session);
        }
        Frame::RemoteReadResult { id, record } => {
            begin(out, 22, id);
            put_optional(out, record.as_ref());
        }
        Frame::Heartbeat(heartbeat) => {
            out.push(23);
            heartbeat.encode(out);
        }
        Frame::Select { id, query } => {
            begin(out, 24, id);
            query.encode(out);
        }
        Frame::List { id, after, limit, order } => {
            begin(out, if *order == ConflictOrder::Newest { 30 } else { 25 }, id);
            put_optional(out, after.as_ref());
            put_varint(out, u64::from(*limit));
        }
        Frame::Listed { id, conflicts, more } => {
            begin(out, 26, id);
            put_varint(out, conflicts.len() as u64);
            conflicts.iter().for_each(|conflict| put_bytes(out, conflict));
            out.push(u8::from(*more));
        }
        Frame::Prepare { .. } | Frame::Promised { .. } | Frame::Accept { .. } | Frame::Accepted { .. } => {
            ballot::encode(frame, out);
        }
        Frame::FeedAsk { .. } | Frame::FeedAnswer { .. } => feed::encode(frame, out),
        Frame::CollectionQuery { .. } | Frame::CollectionAnswer { .. } => collection::encode(frame, out),
    }
}

fn reached(reader: &mut Reader) -> Option<Vec<RegionId>> {
    if reader.is_empty() {
        return Some(Vec::new());
    }
    let count = reader.count().filter(|count| (1..=REGIONS_MAX).contains(count))?;
    (0..count).map(|_| Some(RegionId(u32::try_from(reader.varint()?).ok()?))).collect()
}

fn decode_frame(reader: &mut Reader) -> Option<Result<Frame, FrameError>> {
    let number = reader.u8()?;
    if !NUMBERS.iter().any(|known| known.contains(&number)) {
        return Some(Err(FrameError::Unknown));
    }
    let id = if matches!(number, 10..=13 | 18 | 23) { OpId(0) } else { OpId(reader.varint()?) };
    Some(Ok(match number {
        1 => Frame::Forward { id, origin: None, write: Arc::new(Write::decode(reader)?) },
        2 => Frame::Forwarded { id, reply: Box::new(Reply::decode(reader)?), reached: reached(reader)? },
        3 => {
            let reason = if reader.bool()? { StoreReason::Repair } else { StoreReason::Write };
            Frame::Store { id, key: key(reader)?, record: reader.bytes()?, reason }
        }
        4 => Frame::Stored { id, outcome: StoreOutcome::decode(reader)? },
        5 => Frame::Fetch { id, key: key(reader)? },
        6 => Frame::Fetched { id, record: reader.optional()?, marks: Watermarks::decode(reader)? },
        7 => Frame::Collect {
            id,
            namespace_id: u32::try_from(reader.varint()?).ok()?,
            start: reader.bytes()?,
            end: reader.optional()?,
            limit: u16::try_from(reader.varint()?).ok()?,
        },
        8 => Frame::Collected { id, records: records(reader)?, upto: reader.optional()? },
        9 => Frame::Declined { id },
        10 => Frame::AskTopology,
        11 => Frame::Topology(reader.bytes()?),
        12 => Frame::Hello,
        13 => Frame::Welcome,
        14 => Frame::Compare { id, shard: shard(reader)?, root: reader.u64()?, known: known(reader)? },
        15 => {
            let count = Some(reader.count()?).filter(|count| *count == 0 || *count == TREE_LEAVES)?;
            let leaves = (0..count).map(|_| reader.u64()).collect::<Option<Vec<_>>>()?;
            Frame::Leaves { id, leaves, known: known(reader)?, marks: Watermarks::decode(reader)? }
        }
        16 => Frame::Page(Box::new(decode_page(id, reader)?)),
        17 => Frame::Answer(Box::new(decode_answer(id, reader)?)),
        18 => {
            let shard = shard(reader)?;
            Frame::Synced { shard, known: known(reader)?, marks: Watermarks::decode(reader)? }
        }
        19 => {
            let target = NodeId(reader.varint()?);
            Frame::KeepHint { id, target, key: key(reader)?, record: reader.bytes()? }
        }
        20 => Frame::Replicate { id, entry: reader.bytes()? },
        21 => Frame::RemoteRead { id, key: key(reader)?, session: reader.bytes()? },
        22 => Frame::RemoteReadResult { id, record: reader.optional()? },
        23 => Frame::Heartbeat(Box::new(RegionHeartbeat::decode(reader)?)),
        24 => Frame::Select { id, query: Box::new(Query::decode(reader)?) },
        25 | 30 => {
            let order = if number == 30 { ConflictOrder::Newest } else { ConflictOrder::Oldest };
            let after = reader.optional()?;
            Frame::List { id, after, limit: u16::try_from(reader.varint()?).ok()?, order }
        }
        26 => {
            let conflicts = (0..reader.count()?).map(|_| reader.bytes()).collect::<Option<Vec<_>>>()?;
            Frame::Listed { id, conflicts, more: reader.bool()? }
        }
        27 => Frame::NoSpace { id },
        40 => {
            let (stamp, remaining_ms) = (Stamp(reader.varint()?), reader.varint()?);
            let check = StampCheck::from_number(reader.u8()?)?;
            let operation = Some(reader.varint()?).filter(|name| *name != 0);
            let origin = Some(WriteOrigin { stamp, remaining_ms, check, operation });
            Frame::Forward { id, origin, write: Arc::new(Write::decode(reader)?) }
        }
        42 => Frame::FetchFor { id, key: key(reader)?, request: reader.varint()? },
        43 => Frame::FetchedFor { id, record: reader.optional()?, attempts: reader.optional()? },
        41 => {
            let stamp = Stamp(reader.varint()?);
            Frame::Behind { id, stamp, check: StampCheck::from_number(reader.u8()?)? }
        }
        50..=53 => ballot::decode(number, id, reader)?,
        70..=71 => feed::decode(number, id, reader)?,
        60 | 61 => collection::decode(number, id, reader)?,
        62 => Frame::Gather { id, wanted: Box::new(ScanRange::decode(reader)?) },
        _ => return None,
    }))
}

fn key(reader: &mut Reader) -> Option<Key> {
    Key::from_bytes(reader.bytes()?)
}

fn optional_key(reader: &mut Reader) -> Option<Option<Key>> {
    match reader.optional()? {
        Some(bytes) => Key::from_bytes(bytes).map(Some),
        None => Some(None),
    }
}

fn put_records(out: &mut Vec<u8>, records: &[(Key, Bytes)]) {
    put_varint(out, records.len() as u64);
    for (key, record) in records {
        put_bytes(out, key.bytes());
        put_bytes(out, record);
    }
}

fn records(reader: &mut Reader) -> Option<Vec<(Key, Bytes)>> {
    (0..reader.count()?).map(|_| Some((key(reader)?, reader.bytes()?))).collect()
}

fn put_shard(out: &mut Vec<u8>, shard: Shard) {
    out.extend([shard.partition.0, shard.copies]);
}

fn shard(reader: &mut Reader) -> Option<Shard> {
    Some(Shard { partition: Partition(reader.u8()?), copies: reader.u8()? })
}
