//! Rows of this node on their way to the disk: those that no flush has written yet, those that the next batch of the log will
//! hold, and the effects that wait until a batch is durable. Invariant: an effect leaves when its batch is durable, in the
//! order of batches.

use crate::ballot::Ballot;
use crate::feed::FeedAnswer;
use crate::frame::{CollectionQuestion, Frame, OpId, Shard, StampVector, StoreOutcome};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::feed::FeedCaller;
use crate::mesh::io::Persist;
use crate::moves::MoveReport;
use crate::overlay::{Flush, FlushedRows, Overlay, Seq};
use crate::record::Record;
use crate::rows::{Batch, Row, Rows};
use crate::watermarks::Watermarks;
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::VecDeque;

/// An effect that is held until a batch is durable.
#[derive(Debug)]
pub(in crate::mesh) enum Then {
    Send(NodeId, Frame),
    /// This node has stored the operation's record.
    Stored(OpId, StoreOutcome),
    /// The operation's record may be sent to the other replicas.
    SendToReplicas(OpId),
    /// A read may use this node's own record.
    FetchLocal(OpId),
    /// A scan may use this node's own rows.
    GatherHere(OpId),
    /// The merged record of a read may be sent to replicas that lack it.
    Repair(OpId),
    RepairRegions(OpId),
    /// All records of an exchange are durable.
    Exchanged(OpId),
    /// What a peer vouched for is durable here too.
    Synced(NodeId, Shard, StampVector, Watermarks),
    /// An entry of the replication log may be sent.
    Logged(u64),
    Identity {
        dots: u64,
        floor: Stamp,
    },
    MoveReport(MoveReport),
    /// This node's answer to its own ballot.
    BallotAnswer(Frame),
    /// What a follower asked for.
    SendFeed(FeedCaller, Box<FeedAnswer>),
    /// A question about a collection may be answered out of this node's own rows.
    QueryCollectionHere(OpId, Key, CollectionQuestion),
    /// The base of a proposal, once the conflicts found in merging it are durable.
    Propose(OpId, Option<Box<Record>>, Ballot),
}

pub(in crate::mesh) struct Storage {
    overlay: Overlay,
    /// The last batch handed out, and rows for the next.
    seq: Seq,
    next_batch: Batch,
    durable: Seq,
    /// By batch.
    held: VecDeque<(Seq, Then)>,
    /// When a flush was last due.
    pub flushed_at: Option<Instant>,
    /// With the end of this turn.
    pub(super) flush_due: bool,
    /// Bytes of rows that went to the log and to no flush yet.
    pub(super) unflushed_bytes: u64,
}

impl Storage {
    /// `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(seed: u64, replayed: Vec<Vec<Row>>) -> Storage {
        let mut overlay = Overlay::new(seed);
        replayed.into_iter().flatten().for_each(|row| overlay.put(row, Seq(0)));
        Storage {
            overlay,
            seq: Seq(0),
            next_batch: Batch::default(),
            durable: Seq(0),
            held: VecDeque::new(),
            flushed_at: None,
            flush_due: false,
            unflushed_bytes: 0,
        }
    }

    /// The row, and the batch that makes it durable.
    pub fn get(&self, rows: &dyn Rows, key: &[u8]) -> (Option<Bytes>, Seq) {
        self.overlay.get(rows, key)
    }

    /// Visits rows in `[from, to)`, those in memory in the place of those in the store.
    pub fn scan(
        &self,
        rows: &dyn Rows,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> bool,
    ) {
        self.overlay.scan(rows, from, to, visit);
    }

    /// The same from the last row down.
    pub fn scan_down(
        &self,
        rows: &dyn Rows,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> bool,
    ) {
        self.overlay.scan_down(rows, from, to, visit);
    }

    /// What the rows take in memory that wait for the next flush.
    pub fn bytes(&self) -> usize {
        self.overlay.bytes()
    }

    pub(super) fn n_growing(&self) -> u64 {
        self.overlay.n_growing()
    }

    pub(super) fn n_flushing(&self) -> u64 {
        self.overlay.n_flushing()
    }

    pub fn is_flushing(&self) -> bool {
        self.overlay.is_flushing()
    }

    pub fn put_row(&mut self, key: Bytes, value: Option<Bytes>) {
        self.unflushed_bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
        self.next_batch.put(&key, value.as_deref());
        self.overlay.put(Row { key, value }, self.next_seq());
    }

    /// The batch that rows written now belong to.
    pub fn next_seq(&self) -> Seq {
        Seq(self.seq.0 + 1)
    }

    /// The batch with which everything written so far is durable.
    pub fn horizon(&self) -> Seq {
        if self.next_batch.is_empty() { self.seq } else { self.next_seq() }
    }

    pub fn is_durable(&self, seq: Seq) -> bool {
        seq <= self.durable
    }

    pub fn persisted(&mut self, seq: Seq) {
        self.durable = self.durable.max(seq);
    }

    /// Holds an effect until a batch is durable.
    pub fn hold(&mut self, seq: Seq, then: Then) {
        let at = self.held.partition_point(|(other, _)| *other <= seq);
        self.held.insert(at, (seq, then));
    }

    /// The next effect whose batch is durable.
    pub fn release(&mut self) -> Option<Then> {
        self.held.pop_front_if(|(seq, _)| *seq <= self.durable).map(|(_, then)| then)
    }

    /// The rows that were put since the last batch.
    pub(super) fn cut_batch(&mut self) -> Option<Persist> {
        if self.next_batch.is_empty() {
            return None;
        }
        self.seq = self.next_seq();
        Some(Persist { seq: self.seq, batch: self.next_batch.take() })
    }

    /// Everything up to the last batch becomes the content of a flush.
    pub(super) fn cut_flush(&mut self) -> Flush {
        self.overlay.freeze(self.seq)
    }

    /// The store has a flush.
    pub(super) fn flushed(&mut self, number: u64) -> Option<FlushedRows> {
        self.overlay.flushed(number)
    }
}
