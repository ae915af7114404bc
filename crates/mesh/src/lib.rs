//! The leaderless data plane.
//! Requests, frames of other nodes and completions go in; frames, rows to persist and answers come out. It must
//! hold that an acknowledged write is durable on as many replicas as it asked for, and that replicas which have
//! seen the same writes, in whatever order, hold the same bytes.

pub mod actor;
pub mod conflict;
pub mod context;
pub mod controller;
pub mod decimal;
pub mod document_exchange;
pub mod dots;
pub mod explain;
pub mod frame;
pub mod handler;
pub mod hlc;
pub mod home;
pub mod homes;
pub mod index;
pub mod json;
pub mod key;
pub mod log;
pub mod marks;
pub mod merge;
pub mod mesh;
pub mod moves;
pub mod namespaces;
pub mod op;
pub mod overlay;
pub mod peers;
pub mod placement;
pub mod plan;
pub mod query;
pub mod record;
pub mod regions;
pub mod request;
pub mod resolve;
pub mod ring;
pub mod room;
pub mod rows;
pub mod session;
pub mod set;
pub mod siblings;
pub mod steward;
pub mod stream;
pub mod tally;
pub mod tidings;
pub mod topology;
pub mod tree;
pub mod versioned;

pub use actor::{Actor, Dot, RegionId};
pub use conflict::Conflict;
pub use context::{Context, Span};
pub use decimal::Decimal;
pub use handler::{Handlers, Script};
pub use hlc::{Clock, Stamp};
pub use home::Home;
pub use mesh::{Input, Mesh, Now, Output, Params, RegionState};
pub use moves::{Progress, Report};
pub use op::{Attributes, Op};
pub use placement::{Lists, Placement};
pub use query::Query;
pub use record::{Body, Kind, Record};
pub use regions::{Region, Regions};
pub use ring::Partition;
pub use room::Room;
pub use session::Session;
pub use topology::{Epoch, Member, Standing, Topology};
