//! The change feed: what a node sends a follower of its records, and how a follower makes one feed of what the nodes of its
//! region tell. Each node keeps the last changes of its own records in a ring in memory (`ring`). A follower (`follower`) takes
//! the changes of each shard from one of its replicas, and the state since a cursor (`cursor`) where it has no earlier place in
//! that replica's ring. See docs/adr/0093.

mod change;
mod cursor;
mod follower;
mod page;
mod ring;
mod sent;

pub use change::{Change, ChangeKind};
pub use cursor::FeedCursor;
pub use follower::{FeedChange, FeedOutput, Follower, Subscription, SubscriptionId, Target};
pub(crate) use page::has_gap;
pub use page::{FeedAnswer, FeedAsk, FeedRange, FeedScan, ShardSet};
pub(crate) use ring::ChangeRing;
