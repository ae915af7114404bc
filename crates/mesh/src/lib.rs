//! The leaderless data plane.
//! Requests, frames of other nodes and completions go in; frames, rows to persist and replies come out. Invariants: an
//! acknowledged write is durable on as many replicas as it asked for; replicas that have seen the same writes, in any order,
//! hold the same bytes.
//!
//! Exported, in groups:
//! - the machine of a node: `Mesh` with its `Params`, `Input`, `Output` and `MachineStatus`;
//! - requests and replies: `Request`, `Write`, `Get`, `Scan`, `Query`, `Reply`, `Level`, `Session`, and `MeshCall` with the reply to each;
//! - records: `Key`, `Record`, `Body`, `Kind`, `Op` and how they merge, with `Context`, `Dot`, `Stamp` and `Ballot` for their order;
//! - frames between nodes: `Envelope`, `Frame` and what frames carry;
//! - the ring: `Topology`, `Placement`, `Partition`, and `MeshPlan` with the `Controller` that changes it;
//! - regions and homes: `Regions`, `Homes`, `HomeElection`, `Electorates`, `DocumentExchange`;
//! - the change feed: `Follower` with what it asks of nodes and tells its subscriptions;
//! - merge handlers: `Handlers`, `Handler`, `Script`;
//! - storage: `Persist`, `Flush`, `DiskSpace`, `Incarnation`, and the module `rows` for the layout of keys and batches.
//!
//! The modules `namespaces`, `documents` and `collection` keep names that are read with their module.

mod actor;
mod attempts;
mod ballot;
mod call;
pub mod collection;
mod conflict;
mod context;
mod controller;
mod counter;
mod decimal;
mod disk_space;
mod document_exchange;
pub mod documents;
mod dots;
mod electorates;
mod explain;
mod feed;
mod frame;
mod handler;
mod hlc;
mod home;
mod home_election;
mod homes;
mod incarnation;
mod index;
mod json;
mod key;
mod log;
mod merge;
mod mesh;
mod moves;
mod mutant;
pub mod namespaces;
mod node_report;
mod op;
mod overlay;
mod peers;
mod placement;
mod plan;
mod query;
mod record;
mod regions;
mod request;
mod resolve;
mod restored;
mod ring;
pub mod rows;
mod sealed;
mod session;
mod set;
mod siblings;
mod stream;
mod topology;
mod tree;
mod versioned;
mod watermarks;

pub use mesh::{
    Destination, Input, MachineStatus, Mesh, MeshEvent, Now, Output, Params, Persist, RegionState,
};

pub use call::{ListConflicts, ListRows, MeshCall, NotDone, Read};
pub use mutant::Mutant;
pub use query::{Query, ScanRange};
pub use request::{
    ConflictPage, ElementsPage, ElementsQuery, ElementsRead, Get, GetResult, Level, Missing, Reply, Request,
    RowPage, Scan, ScanPage, ScanView, Write, request_hash,
};
pub use session::Session;

pub use actor::{Actor, Dot, RegionId};
pub use ballot::{Ballot, Round};
pub use conflict::{Conflict, ConflictOrder, ConflictRule, row_key as conflict_row_key};
pub use context::{Context, Span};
pub use decimal::Decimal;
pub use explain::Explanation;
pub use feed::{
    Change, ChangeKind, FeedAnswer, FeedAsk, FeedChange, FeedCursor, FeedOutput, FeedRange, FeedScan,
    Follower, ShardSet, Subscription, SubscriptionId, Target,
};
pub use hlc::Stamp;
pub use index::{is_value as is_index_value, rows as index_rows};
pub use json::Json;
pub use key::Key;
pub use merge::merge;
pub use op::{Attributes, BoundedChange, BoundedOp, Op, WriteEvent, apply as apply_op};
pub use record::{Body, Fence, Header, Kind, METADATA_MAX, Record};
pub use restored::{
    RestoreRun, element_of_row as saved_element_of_row, joined as joined_copies,
    key_of_row as saved_key_of_row, restoring_elements, rows_of_elements as saved_rows_of_elements,
    write_of as restoring_write, write_of_elements as restoring_write_of_elements,
};
pub use siblings::{Sibling, Siblings};

pub use frame::{
    CollectionAnswer, CollectionQuestion, CollectionView, ELEMENTS_MAX, Envelope, ExchangeAnswer,
    ExchangeEntry, ExchangePage, Frame, FrameError, OpId, QueryPurpose, RegionHeartbeat, Shard, StampCheck,
    StoreOutcome, StoreReason, WriteOrigin, Writer,
};
pub use tree::{Buckets, TREE_LEAVES};
pub use watermarks::Watermarks;

pub use controller::{Controller, DesiredMembers, POINTS_DEFAULT};
pub use moves::MoveReport;
pub use node_report::NodeReport;
pub use placement::{COPIES_MAX, Placement};
pub use plan::{EnrolledNode, MeshPlan};
pub use ring::{PARTITIONS, Partition};
pub use topology::{Epoch, Member, MemberState, MovePhase, NamespaceCopies, Topology};

pub use document_exchange::{DocumentActions, DocumentExchange, DocumentMessage};
pub use electorates::{Electorate, Electorates};
pub use home::Home;
pub use home_election::{AgreedHomes, HomeElection, HomeLease, HomeMessage, ProcessId};
pub use homes::{
    HOME_LEASE_MS_MAX, HOME_LEASE_MS_MIN, HOME_PREFIX_BYTES_MAX, HomeScope, HomeTransfer, Homes, Ownership,
};
pub use regions::{Region, Regions};

pub use handler::{Handler, Handlers, LawViolation, MergeLaw, NoScript, Script};

pub use disk_space::DiskSpace;
pub use incarnation::{CatchUp, Incarnation};
pub use log::{LogEntry, LogOperation};
pub use overlay::{Flush, FlushedRows, Seq};
