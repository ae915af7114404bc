//! The lowest crate: values that all other crates use. Nothing here performs an effect, and nothing here knows a
//! protocol, a file format or a socket. It stays small: a type belongs here only when two other crates need it to
//! talk to each other.

pub mod checksum;
pub mod code;
pub mod codec;
pub mod date;
pub mod disk_space;
pub mod format_level;
pub mod id;
pub mod id_map;
pub mod key_range;
pub mod limits;
pub mod mutant;
pub mod rng;
pub mod table;
pub mod time;

pub use code::Code;
pub use disk_space::DiskAccount;
pub use format_level::FormatLevel;
pub use id::{Boot, ClusterId, Index, LeaseId, NodeId, Position, ProposalId, ReplyToken, Revision, Term};
pub use id_map::IdMap;
pub use key_range::{KeyRange, RangeEnd};
pub use rng::Rng;
pub use table::{ReadView, Row, Table};
pub use time::Instant;
