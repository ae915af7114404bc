//! A client of etcd's API, for Althing and for etcd itself: several endpoints, of which one answers; watches that
//! resume by themselves; leases that are kept alive and know until when they may be relied on.
//! Messages of the wire go in and out as they are, in the types of `proto`. A read may be asked again elsewhere; a
//! write is sent again only when it is certain that nobody executed it.

mod connection;
pub mod duplex;
mod error;
mod keeper;
mod kv;
mod lease;
mod members;
mod upkeep;
mod watch;

pub use connection::{Client, Config, Kind};
pub use error::Error;
pub use keeper::{Keeper, Standing};
pub use lease::Granted;
pub use watch::Watcher;
