//! The coordination state machine.
//! Commands in log order go in; replies, changes and a rolling hash come out. It must be a pure function of
//! the state and the command: no clock, no randomness, no member's identity.

pub mod alarms;
pub mod auth;
pub mod authed;
mod cached_reply;
pub mod change;
mod chunks;
mod clock;
pub mod command;
mod compaction;
mod compare;
pub mod documents;
mod draft;
mod entry;
pub mod etcd;
pub mod history_rows;
pub mod idempotent;
mod index;
mod key_history;
pub mod lease_command;
pub mod leases;
mod load;
pub mod lock_command;
pub mod lock_queue;
pub mod locks;
mod member_command;
pub mod members;
mod origins;
mod overlap;
pub mod pieces;
pub mod proposal;
mod quota;
mod range;
pub mod rebase;
pub mod reply;
pub mod request;
pub mod rows;
mod sessions;
pub mod state;
mod txn;
mod unindexed;
mod validate;
mod versions;
pub mod watch;

pub use alarms::{Alarm, AlarmCommand, AlarmKind};
pub use auth::{
    Access, Auth, AuthCommand, AuthReply, Caller, DataAccess, DataPermission, DataRange, EVERY_NAMESPACE,
    Intervals, LeaseAccess, POLICY, Permission, Policy, PolicyUser, TokenKey,
};
pub use authed::AuthedCommand;
pub use change::{Change, ChangeKind, Record, Records};
pub use clock::TimeMark;
pub use command::{Command, Compact};
pub use documents::{Document, Documents, SetDocument};
pub use history_rows::{HistoryWindow, PastChange, history_of};
pub use idempotent::{IdempotentCommand, RequestId};
pub use lease_command::{Checkpoint, Grant, Guard, Revoke};
pub use leases::Lease;
pub use lock_command::{Acquire, CheckFence, Fenced, FencingToken, Leave, Release};
pub use locks::{ClaimCalls, Fence, LockClaim};
pub use members::{Member, MemberChange, Members};
pub use proposal::Proposal;
pub use request::Limits;
pub use rows::CorruptRow;
pub use state::{Applied, State};
pub use unindexed::Unindexed;
