//! The pure driver of a member: what is persisted, sent, applied and answered, and in which order.
//! It is two machines that exchange values only. `Consensus` takes requests, frames and completions and
//! decides what is written and sent; `Apply` takes committed entries and reads and gives replies and rows to
//! flush. The server steps each on its own thread; the simulator interleaves them at will.

pub mod apply;
mod asks;
pub mod batch;
mod changes;
pub mod compactor;
pub mod consensus;
mod digests;
pub mod frame;
mod gate;
mod held;
mod lease_events;
pub mod leases;
pub mod lock_call;
pub mod log_state;
pub mod member;
mod overlay;
mod past;
mod pending;
pub mod question;
mod reads;
pub mod room;
mod space;
mod staging;
mod timeline;
pub mod tokens;
pub mod waits;
pub mod word;

pub use apply::{Apply, Flush};
pub use batch::Proposal;
pub use consensus::{Consensus, Input, Output, Request, SnapshotOrder, Work};
pub use frame::{Frame, Part};
pub use lease_events::{Happened, LeaseEvent};
pub use lock_call::Call;
pub use question::{Answer, Ask, Asker, Question};
pub use reads::{Read, ReadBatch, ReadCounts};
pub use staging::Stage;
pub use tokens::{TokenNews, Tokens};
pub use waits::{Wait, WaitId};
pub use word::Word;
