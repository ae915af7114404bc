//! The pure driver of a member: what is persisted, sent, applied and answered, and in which order.
//! It is two machines that exchange values only. `Consensus` takes requests, frames and completions and
//! decides what is written and sent; `Apply` takes committed entries and reads and gives replies and rows to
//! flush. The server steps each on its own thread; the simulator interleaves them at will.

mod alarm_proposal;
pub mod apply;
mod auth_tokens;
pub mod batch;
mod compaction_gate;
mod compaction_round;
pub mod compactor;
mod config_changes;
pub mod consensus;
mod digests;
mod disk_alarm;
mod file_usage;
mod frame;
mod layered_history;
mod lease_clock;
mod lease_events;
pub mod lock_call;
pub mod lock_waits;
mod log_state;
pub mod member;
mod mutant;
mod overlay;
mod peer_message;
mod pending;
mod question;
mod quota_alarm;
mod reads;
mod snapshot_receiver;
mod timeline;
mod waiting_questions;

pub use apply::{Apply, Flush};
pub use auth_tokens::{AuthTokens, TokenEvent};
pub use batch::Proposal;
pub use compaction_round::{RoundOutcome, RoundReport};
pub use consensus::{ClientRequest, ClientWork, Consensus, ConsensusInput, ConsensusOutput, SnapshotRequest};
pub use disk_alarm::{DiskAlarm, DiskMeasures};
pub use frame::{Frame, SnapshotPart};
pub use lease_clock::LeaseClockParams;
pub use lease_events::{LeaseEvent, LeaseEventKind};
pub use lock_call::LockCall;
pub use lock_waits::{LockWait, WaitId};
pub use log_state::LogState;
pub use mutant::Mutant;
pub use peer_message::{CompactionEpoch, CompactionMessage, CompactionSignal, PeerMessage, StateDigest};
pub use question::{AskedQuestion, AskerId, LeaderAnswer, LeaderQuestion};
pub use reads::{Read, ReadBatch, ReadCounts};
pub use snapshot_receiver::StagingStep;
