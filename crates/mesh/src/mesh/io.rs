//! The inputs and outputs of a node: parameters, its two clocks, inputs, outputs, and events worth a log line or a count.

use crate::actor::{Actor, RegionId};
use crate::conflict::Conflict;
use crate::disk_space::DiskSpace;
use crate::frame::{Envelope, Shard};
use crate::handler::Handlers;
use crate::hlc::Stamp;
use crate::moves::MoveReport;
use crate::overlay::{Flush, FlushedRows, Seq};
use crate::regions::Regions;
use crate::request::{Reply, Request};
use crate::topology::Topology;
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Params {
    /// This node's actor; another incarnation at every start on an empty disk.
    pub actor: Actor,
    /// Counts starts, so that answers to an earlier one are not taken for answers to this one.
    pub boot: u64,
    /// The disk is empty although others count on this node: it serves when it has caught up.
    pub wiped: bool,
    /// The node does not know yet which of its incarnations the others count on: it forwards requests, keeps nothing and answers
    /// no peer, until `Input::Enrolled`.
    pub unenrolled: bool,
    /// How far ahead of this node's clock another's is believed.
    pub drift_max: Duration,
    /// How long replicas are waited for when the request does not say.
    pub timeout: Duration,
    pub flush_every: Duration,
    /// What is to stay free of the disk, and what even of deletes, beside the log's next segment.
    pub low_bytes: u64,
    pub least_bytes: u64,
    /// How often each pair of replicas compares what it holds.
    pub round_every: Duration,
}

/// The two clocks of a node: one for waiting, one for people and stamps.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub at: Instant,
    pub wall_ms: u64,
}

#[derive(Debug)]
pub enum Input {
    Tick,
    Received {
        from: NodeId,
        envelope: Envelope,
    },
    Request {
        token: ReplyToken,
        deadline: Instant,
        request: Request,
    },
    Persisted(Seq),
    Flushed(u64),
    /// The disk was measured, in this moment; a flush only after it, if both are told.
    DiskSpace(DiskSpace),
    /// What was agreed on, or what a peer has handed over.
    Topology(Topology),
    /// An unenrolled node is the one that the others count on from now on, with or without what an earlier incarnation had.
    Enrolled {
        wiped: bool,
    },
    /// The connection to a peer broke.
    Lost(NodeId),
    /// Nothing later than this is forgotten, whatever the regions have heard of.
    PurgeBound(Stamp),
    /// The regions that replicate to each other, as was agreed here.
    Regions(Regions),
    /// The merge handlers beside those that are built in.
    Handlers(Handlers),
    /// A frame of another region's node.
    RemoteFrame {
        region: RegionId,
        from: NodeId,
        envelope: Envelope,
    },
}

/// Rows to be made durable in this order, see `rows::Batch`; `Persisted` tells when.
#[derive(Clone, Debug)]
pub struct Persist {
    pub seq: Seq,
    pub batch: Bytes,
}

/// Where a frame for another region goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    Node {
        region: RegionId,
        node: NodeId,
    },
    /// Any node of the region: the machine knows none of them yet.
    AnyOf(RegionId),
}

#[derive(Debug, Default)]
pub struct Output {
    pub send: Vec<(NodeId, Envelope)>,
    /// To nodes of other regions.
    pub to_regions: Vec<(Destination, Envelope)>,
    pub persist: Option<Persist>,
    pub flush: Option<Flush>,
    /// Rows that the store has now, to be dropped on a thread where no request waits.
    pub flushed_rows: Option<FlushedRows>,
    pub replies: Vec<(ReplyToken, Reply)>,
    /// For the controller.
    pub reports: Vec<MoveReport>,
    pub events: Vec<MeshEvent>,
}

/// Facts worth a log line or a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshEvent {
    Conflict(Box<Conflict>),
    /// A record whose clock is further ahead than is believed.
    ClockAhead {
        actor: Actor,
        stamp: Stamp,
    },
    /// A record claims writes of this node that it never made; they are left out of it.
    ForgedClaim {
        actor: Actor,
    },
    /// A peer vouches for a stamp that no clock can have reached; it is not believed.
    FarStamp {
        from: NodeId,
        stamp: Stamp,
    },
    Hinted(NodeId),
    /// Replicas of a shard hold the same again.
    Repaired {
        shard: Shard,
        with: NodeId,
        records: usize,
    },
    Purged(usize),
    /// Something was refused because the disk has no space for it, and that there is space again.
    NoSpace,
    SpaceAgain,
    /// A node that was not in step serves.
    Ready,
    /// A node of another region has the id of one of this region; it is not listened to.
    RegionClash {
        region: RegionId,
        node: NodeId,
    },
    /// A custom value is shown as the last write left it: its handler is not known here, or failed.
    HandlerFellBack {
        handler: Bytes,
    },
    /// What another region sent was damaged on the way.
    Damaged {
        from: NodeId,
    },
}
