//! What goes into the driver of a node and what comes out.

use crate::discovery::RegionQuery;
use crate::documents::Document;
use crate::homes::AskTime;
use base::{ClusterId, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use mesh::{
    CatchUp, DiskSpace, DocumentMessage, Envelope, Epoch, HomeLease, HomeMessage, HomeScope, Incarnation,
    NodeReport, Ownership, RegionId, Regions, Request, Seq,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How the node takes part.
#[derive(Clone, Debug)]
pub struct DriverSettings {
    pub me: NodeId,
    pub cluster: ClusterId,
    /// The name of the region that this cluster is.
    pub region: String,
    pub zone: u32,
    pub points: u32,
    /// Where a node is reached that is no member of coord; empty for a member.
    pub address: String,
    /// Where nodes of other regions reach this one.
    pub region_address: String,
    /// The table of regions that is proposed while the cluster has none.
    pub regions: Regions,
    /// The node is no member of coord.
    pub data_only: bool,
    pub timeout: Duration,
    pub flush_every: Duration,
    /// What is to stay free of the disk, and what even of deletes, beside the next segment of the log.
    pub low_bytes: u64,
    pub least_bytes: u64,
    pub round_every: Duration,
    pub drift_max: Duration,
}

/// What coord says of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordMembers {
    /// Each is a node of the mesh.
    pub voters: BTreeSet<NodeId>,
    pub removed: BTreeSet<NodeId>,
    /// The other nodes of this region, members or not, that frames can be sent to.
    pub peers: Vec<NodeId>,
}

/// A place, its epoch, and for how long this region still holds it.
pub type HeldHome = (HomeScope, u64, Duration);

#[derive(Debug)]
pub enum Input {
    Request {
        token: ReplyToken,
        deadline: Instant,
        request: Request,
    },
    Frame {
        from: NodeId,
        envelope: Envelope,
    },
    /// The frame of a node of another region.
    RemoteFrame {
        region: RegionId,
        from: NodeId,
        envelope: Envelope,
    },
    /// What a node of this region reports of itself.
    Report {
        from: NodeId,
        report: NodeReport,
    },
    /// What the leader of another region says of homes.
    HomeMessage {
        region: RegionId,
        message: HomeMessage,
    },
    /// What the leader of another region says of the documents that regions share.
    DocumentMessage {
        region: RegionId,
        message: DocumentMessage,
    },
    /// What a leader of 0.1.0 says that the region may write, from the arrival on.
    Held(Vec<HeldHome>),
    /// A node of this region asks what it may write.
    AskHomeLeases {
        from: NodeId,
        asked: AskTime,
    },
    /// What the leader of this region says that the region may write, from when this node asked.
    HomeLeases(AskTime, Vec<HeldHome>),
    /// The documents as this member has applied them.
    Documents(Vec<Document>),
    /// A document, as a member of coord has told it to a node that is none.
    ReceivedDocument(Document),
    Members(CoordMembers),
    /// A stream to the peer, of this region or another, is up.
    Connected(NodeId),
    Lost(NodeId),
    Persisted(Seq),
    Flushed(u64),
    /// The disk was measured, in this moment; a flush only after it, if both are told.
    DiskSpace(DiskSpace),
    /// What `Output::write_catch_up` asked for is durable.
    IncarnationWritten(CatchUp),
    /// A question to another region was answered, or could not be asked.
    Answered {
        region: RegionId,
        answer: Result<Bytes, String>,
    },
    Tick {
        /// This node leads coord, as far as it knows.
        leads: bool,
    },
}

/// What a node sends beside the frames of the mesh's machine. Each is sent again and again, so one that is lost does no
/// harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Report(NodeReport),
    Home(HomeMessage),
    /// To the leader of another region.
    Documents(DocumentMessage),
    /// To a node that does not ask.
    Held(Vec<HeldHome>),
    AskHomeLeases(AskTime),
    HomeLeases(AskTime, Vec<HeldHome>),
}

/// A document that is to replace the version that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProposal {
    pub name: &'static str,
    /// Zero if there must be none.
    pub expect: u64,
    pub bytes: Bytes,
}

/// What follows from a turn. `mesh.to_regions` and `mesh.reports` are empty when a turn ends: the driver deals with them.
#[derive(Debug, Default)]
pub struct Output {
    /// To send, persist, flush, free, and answer; and facts worth a count.
    pub mesh: mesh::Output,
    pub messages: Vec<(NodeId, Message)>,
    /// Nodes that hold nothing of coord and are to be sent the documents.
    pub documents_to: Vec<NodeId>,
    pub propose: Vec<DocumentProposal>,
    /// To be durable in the node's incarnation file; `Input::IncarnationWritten` tells when.
    pub write_catch_up: Option<CatchUp>,
    /// Documents that a node which is no member of coord has learned.
    pub learned: Vec<Document>,
    /// Where the nodes of this region are reached that are no members of coord, when that may have changed.
    pub nodes: Option<BTreeMap<NodeId, String>>,
    /// To ask at the peer ports of other regions.
    pub region_queries: Vec<RegionQuery>,
    /// The machine may go by another topology than before.
    pub topology_changed: bool,
    /// `Driver::address_book` says something else than before.
    pub addresses_changed: bool,
    /// What this region may write, as this node knows from now on.
    pub held: Vec<HomeLease>,
    pub events: Vec<DriverEvent>,
}

/// Facts worth a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEvent {
    Begins { epoch: Epoch, incarnation: Incarnation, is_unenrolled: bool },
    Enrolled { is_behind: bool },
    CaughtUp,
    Unreadable { name: &'static str, version: u64 },
    ProposesPlan { epoch: Epoch, n_nodes: usize, is_moving: bool },
    ProposesRegions { n_regions: usize },
    ProposesHome { scope: HomeScope, ownership: Ownership, region: Option<String> },
    RegionUnreachable { region: String, trouble: String },
}
