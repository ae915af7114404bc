//! The coordination state machine.
//! Commands in log order go in; replies, changes and a rolling hash come out. It must be a pure function of
//! the state and the command: no clock, no randomness, no member's identity.

mod alarms;
mod auth;
mod authed;
mod cached_reply;
pub mod call;
mod change;
mod chunks;
mod clock;
mod command;
mod compaction;
mod compaction_times;
mod compare;
mod documents;
mod draft;
mod entry;
pub mod etcd;
mod history_rows;
mod idempotent;
mod index;
mod key_history;
mod lease_command;
mod leases;
mod load;
mod lock_command;
pub mod lock_queue;
mod locks;
mod member_command;
mod members;
mod mutant;
mod origins;
mod overlap;
pub mod pieces;
mod proposal;
mod quota;
mod range;
pub mod rebase;
pub mod reply;
pub mod request;
mod restore_point;
pub mod rows;
mod sessions;
mod state;
mod txn;
mod unindexed;
mod validate;
mod versions;
pub mod watch;

pub use alarms::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin};
pub use auth::{
    Access, Auth, AuthCommand, AuthReply, Caller, DataAccess, DataPermission, DataRange, EVERY_NAMESPACE,
    Intervals, LeaseAccess, POLICY, Permission, Policy, PolicyUser, TokenKey,
};
pub use authed::AuthedCommand;
pub use change::{Change, ChangeKind, Record, Records};
pub use clock::TimeMark;
pub use command::{Command, Compact};
pub use documents::{Document, Documents, SetDocument};
pub use history_rows::{CompactionState, HistoryWindow, PastChange, history_of};
pub use idempotent::{IdempotentCommand, RequestId};
pub use lease_command::{Checkpoint, Grant, Guard, Revoke};
pub use leases::{GrantTime, Lease};
pub use lock_command::{Acquire, CheckFence, Fenced, FencingToken, Leave, Release};
pub use locks::{ClaimCalls, Fence, LockClaim};
pub use members::{MEMBERS_KEY, Member, MemberChange, Members};
pub use mutant::Mutant;
pub use proposal::Proposal;
pub use request::Limits;
pub use restore_point::{PointError, RestoreCut, RestorePoint};
pub use rows::CorruptRow;
pub use state::{Applied, State};
pub use unindexed::Unindexed;
