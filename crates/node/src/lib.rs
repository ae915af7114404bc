//! The pure driver of a member: what is persisted, sent, applied and answered, and in which order.
//! It is two machines that exchange values only. `Consensus` takes requests, frames and completions and
//! decides what is written and sent; `Apply` takes committed entries and reads and gives replies and rows to
//! flush. The server steps each on its own thread; the simulator interleaves them at will.

pub mod apply;
pub mod auth_tokens;
pub mod batch;
mod compaction_gate;
pub mod compactor;
mod config_changes;
pub mod consensus;
mod digests;
pub mod disk_space;
mod file_usage;
pub mod frame;
mod layered_history;
pub mod lease_clock;
mod lease_events;
pub mod lock_call;
pub mod lock_waits;
pub mod log_state;
pub mod member;
mod overlay;
pub mod peer_message;
mod pending;
pub mod question;
mod quota_alarm;
mod reads;
mod snapshot_receiver;
mod timeline;
mod waiting_questions;

pub use apply::{Apply, Flush};
pub use auth_tokens::{AuthTokens, TokenEvent};
pub use batch::Proposal;
pub use consensus::{ClientRequest, ClientWork, Consensus, ConsensusInput, ConsensusOutput, SnapshotRequest};
pub use frame::{Frame, SnapshotPart};
pub use lease_events::{LeaseEvent, LeaseEventKind};
pub use lock_call::LockCall;
pub use lock_waits::{LockWait, WaitId};
pub use peer_message::PeerMessage;
pub use question::{AskedQuestion, AskerId, LeaderAnswer, LeaderQuestion};
pub use reads::{Read, ReadBatch, ReadCounts};
pub use snapshot_receiver::StagingStep;
