//! A client of etcd's API, for Althing and for etcd itself: several endpoints, of which one answers; watches that
//! resume by themselves; leases that are kept alive and know until when they may be relied on; locks and leaderships
//! that know when they are lost, and whose writes carry the token that proves them.
//! Messages of the wire go in and out as they are, in the types of `proto`. A read may be retried elsewhere; a
//! write is sent again only when it is certain that no server executed it.

mod auth;
mod backup;
mod connection;
mod data;
mod data_auth;
mod diagnose;
pub mod duplex;
mod election;
mod error;
mod fence;
mod held_lease;
mod hold;
mod inspect;
mod keeper;
mod kv;
mod lease;
mod lock;
mod login;
mod maintenance;
mod members;
mod store;
mod tls;
mod watch;

pub use connection::{Client, Config, Kind};
pub use election::{Leadership, Observer};
pub use error::Error;
pub use fence::Fence;
pub use held_lease::Lease;
pub use hold::Hold;
pub use keeper::{LeaseKeeper, LeaseState};
pub use lease::GrantedLease;
pub use lock::{Guard, LockOptions};
pub use login::{AuthedChannel, Login};
pub use maintenance::DefragmentedBytes;
pub use tls::Tls;
pub use watch::Watcher;
