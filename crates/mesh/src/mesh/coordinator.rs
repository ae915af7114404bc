//! The coordinator: the operations that this node has under way for clients, peers and itself, each with a deadline.
//! An operation keeps its own state; its file has the code that drives it. What is common to all of them is here: ids, timers,
//! batches of writes, names of writes that came twice, changes of one key that wait for each other, and merge handlers.

pub mod ballot;
mod custom;
pub mod forward;
pub mod global;
pub mod listing;
mod queries;
pub mod reads;
pub mod scans;
pub mod sessions;
mod timers;
pub mod writes;

use crate::frame::OpId;
use crate::handler::Handlers;
use crate::mesh::Turn;
use crate::mesh::remote_regions::apply_remote::ApplyRemoteOp;
use crate::mesh::remote_regions::streams::RegionSendOp;
use crate::mesh::repair::exchange::ExchangeOp;
use crate::mesh::repair::hints::HintOp;
use ballot::{Proposals, ProposeOp};
use base::{IdMap, Instant, NodeId, ReplyToken};
use forward::{ForwardOp, ForwardedNames};
use global::GlobalReadOp;
use listing::ListOp;
use reads::ReadOp;
use scans::{Batches, ScanOp};
use sessions::SessionReadOp;
use std::collections::BTreeMap;
use timers::Timers;
use writes::WriteOp;

/// The requester that waits for the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mesh) enum Client {
    Local(ReplyToken),
    /// A node that forwarded the write.
    Peer(NodeId, OpId),
    /// One write of a batch: the batch, and the index in it.
    BatchPart(u64, usize),
    /// A session read: it must not return less than its session has seen.
    SessionRead(OpId),
    /// A read over several regions: this region's part.
    GlobalRead(OpId),
    /// A node of another region.
    RemoteNode(NodeId, OpId),
}

#[derive(Debug)]
pub(in crate::mesh) enum Operation {
    Write(Box<WriteOp>),
    Forward(Box<ForwardOp>),
    Read(Box<ReadOp>),
    Scan(Box<ScanOp>),
    List(Box<ListOp>),
    Exchange(Box<ExchangeOp>),
    /// A record that an exchange sends to its peer.
    GiveRecord(OpId),
    Hint(HintOp),
    SendToRegion(RegionSendOp),
    ApplyRemote(Box<ApplyRemoteOp>),
    SessionRead(Box<SessionReadOp>),
    GlobalRead(Box<GlobalReadOp>),
    Propose(Box<ProposeOp>),
}

#[derive(Debug)]
pub(in crate::mesh) struct Pending {
    pub operation: Operation,
    pub started: Instant,
    pub deadline: Instant,
}

pub(in crate::mesh) struct Coordinator {
    last_id: u64,
    pub operations: IdMap<OpId, Pending>,
    pub timers: Timers,
    pub batches: Batches,
    /// Writes that other nodes forwarded to this node recently.
    forwarded: BTreeMap<NodeId, ForwardedNames>,
    pub proposals: Proposals,
    handlers: Handlers,
}

impl Coordinator {
    /// Ids of another start are not taken for ids of this one.
    pub fn new(boot: u64) -> Coordinator {
        Coordinator {
            last_id: boot << 40,
            operations: IdMap::default(),
            timers: Timers::default(),
            batches: Batches::default(),
            forwarded: BTreeMap::new(),
            proposals: Proposals::default(),
            handlers: Handlers::default(),
        }
    }

    pub fn begin(&mut self, t: &Turn<'_>, operation: Operation, deadline: Instant) -> OpId {
        self.last_id += 1;
        let id = OpId(self.last_id);
        self.operations.insert(id, Pending { operation, started: t.now.at, deadline });
        self.timers.set(deadline, id);
        if self.timers.are_mostly_stale(self.operations.len()) {
            self.timers.retain(|id| self.operations.contains(&id));
        }
        id
    }

    pub fn finish(&mut self, id: OpId) -> Option<Pending> {
        self.operations.remove(&id)
    }
}
