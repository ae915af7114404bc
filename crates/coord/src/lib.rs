//! The coordination state machine.
//! Commands in log order go in; replies, changes and a rolling hash come out. It must be a pure function of
//! the state and the command: no clock, no randomness, no member's identity.

pub mod alarms;
pub mod auth;
pub mod authed;
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
mod history;
mod index;
mod kept;
pub mod lease_command;
pub mod leases;
mod load;
pub mod lock_command;
pub mod locks;
mod member_command;
pub mod members;
pub mod once;
mod origins;
mod overlap;
pub mod pieces;
pub mod proposal;
pub mod queue;
mod quota;
pub mod raised;
mod range;
pub mod reply;
pub mod request;
pub mod rows;
mod sessions;
pub mod skeletons;
pub mod state;
mod txn;
mod unindexed;
mod validate;
mod versions;
pub mod watch;

pub use alarms::{Alarm, AlarmCommand, AlarmKind};
pub use auth::{
    Access, Auth, AuthCommand, AuthReply, Caller, DataAccess, DataPermission, DataRange, EVERY_NAMESPACE,
    Intervals, LeaseNeed, POLICY, Permission, Policy, PolicyUser, TokenKey,
};
pub use authed::Authed;
pub use change::{Change, ChangeKind, Record, Records};
pub use clock::Mark;
pub use command::{Command, Compact};
pub use documents::{Document, Documents, SetDocument};
pub use lease_command::{Checkpoint, Grant, Guard, Revoke};
pub use leases::Lease;
pub use lock_command::{Acquire, CheckFence, Fenced, FencedBy, Leave, Release};
pub use locks::{Calls, Claim, Fence};
pub use members::{Member, MemberChange, Members};
pub use once::{Once, RequestId};
pub use proposal::Proposal;
pub use request::Limits;
pub use rows::Corrupt;
pub use skeletons::{Past, Window, history_of};
pub use state::{Applied, State};
pub use unindexed::Unindexed;
