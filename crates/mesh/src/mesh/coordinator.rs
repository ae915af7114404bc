//! The coordinator: the operations that this node has under way for clients, peers and itself, each with a deadline.
//! An operation keeps its own state; its file has the code that drives it. What is common to all of them is here: ids, timers,
//! batches of writes, names of writes that came twice, changes of one key that wait for each other, and merge handlers.

pub mod ballot;
mod custom;
pub mod elements;
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
use crate::mesh::feed::FeedOp;
use crate::mesh::remote_regions::apply_remote::ApplyRemoteOp;
use crate::mesh::remote_regions::streams::RegionSendOp;
use crate::mesh::repair::exchange::ExchangeOp;
use crate::mesh::repair::hints::HintOp;
use crate::mesh::repair::walk::WalkOp;
use ballot::{Proposals, ProposeOp};
use base::{IdMap, Instant, NodeId, ReplyToken};
use elements::ReadElementsOp;
use forward::{ForwardOp, ForwardedNames};
use global::GlobalReadOp;
use listing::ListOp;
use reads::ReadOp;
use scans::{Batches, ScanOp};
use sessions::SessionReadOp;
use std::collections::BTreeMap;
use timers::Timers;
use writes::collections::GatherOp;
use writes::{AwaitedRights, WriteOp};

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
    /// None: a change that this node makes by itself.
    Unasked,
    /// A key of a page that is in doubt: the scan, and the place of the key.
    ScanRead(OpId, usize),
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
    /// A question of a follower here to another node.
    Feed(FeedOp),
    ReadElements(Box<ReadElementsOp>),
    /// A write to a collection that asks first.
    Gather(Box<GatherOp>),
    /// A comparison of a collection with a peer.
    Walk(Box<WalkOp>),
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
    pub rights: AwaitedRights,
    handlers: Handlers,
}

impl Coordinator {
    /// Ids of another start are not taken for ids of this one, nor are those of another incarnation, whose starts were
    /// counted from one as well.
    pub fn new(incarnation: u32, boot: u64) -> Coordinator {
        Coordinator {
            last_id: boot.wrapping_add(u64::from(incarnation)) << 40,
            operations: IdMap::default(),
            timers: Timers::default(),
            batches: Batches::default(),
            forwarded: BTreeMap::new(),
            proposals: Proposals::default(),
            rights: AwaitedRights::default(),
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

    /// A name for a write, which no node gives twice.
    pub fn name_operation(&mut self, me: NodeId) -> u64 {
        self.last_id += 1;
        base::rng::mix(me.0 ^ base::rng::mix(self.last_id)).max(1)
    }

    pub fn finish(&mut self, id: OpId) -> Option<Pending> {
        self.operations.remove(&id)
    }
}
