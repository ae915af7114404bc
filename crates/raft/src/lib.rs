//! A pure adapter over TiKV's `raft` library.
//! Ticks, messages, proposals and completions go in; messages, records to persist and committed entries come
//! out. What may leave only after something is durable is held here until that is reported, so that no
//! driver can send it too early. The library's own types end at this border.

mod config;
mod entry;
mod guard;
mod log;
mod machine;
mod message;
mod mutant;
mod record;
mod restore;
mod terms;

pub use config::Config;
pub use entry::Entry;
pub use guard::ProtocolViolation;
pub use machine::{Doubt, Input, Output, Params, Persist, Raft, RaftEvent, RaftStatus, ReadReady, Role};
pub use message::Message;
pub use mutant::Mutant;
pub use record::Record;
pub use restore::{LogGap, LogReplay, RestoredState};
