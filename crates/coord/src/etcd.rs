//! The state as rows of etcd's buckets, and back, so that a backup is one that etcd's tools read and one of etcd's is one that we
//! read. Keys keep their revisions, versions and leases; users and roles their names, hashes and permissions.
//! The buckets are listed in docs/formats/backup.md.

mod export;
mod import;
pub(crate) mod message;

pub use export::{key_row, small_buckets};
pub use import::Import;

/// A name and a value in one of etcd's buckets.
pub(crate) type EtcdRow = (Vec<u8>, Vec<u8>);

/// The buckets that etcd has.
pub mod bucket {
    pub const ALARM: &str = "alarm";
    pub const AUTH: &str = "auth";
    pub const ROLES: &str = "authRoles";
    pub const USERS: &str = "authUsers";
    pub const CLUSTER: &str = "cluster";
    pub const KEY: &str = "key";
    pub const LEASE: &str = "lease";
    pub const MEMBERS: &str = "members";
    pub const MEMBERS_REMOVED: &str = "members_removed";
    pub const META: &str = "meta";
}

mod row {
    pub const AUTH_ENABLED: &[u8] = b"authEnabled";
    pub const AUTH_REVISION: &[u8] = b"authRevision";
    pub const CLUSTER_VERSION: &[u8] = b"clusterVersion";
    pub const CONF_STATE: &[u8] = b"confState";
    pub const CONSISTENT_INDEX: &[u8] = b"consistent_index";
    pub const TERM: &[u8] = b"term";
    pub const COMPACT_SCHEDULED: &[u8] = b"scheduledCompactRev";
    pub const COMPACT_FINISHED: &[u8] = b"finishedCompactRev";
}

/// Between the numbers of a revision, and behind those of a delete.
const SEPARATOR: u8 = b'_';
const TOMBSTONE: u8 = b't';

/// The oldest release that has everything that is written here.
const CLUSTER_VERSION: &str = "3.5.0";

#[cfg(test)]
mod tests;
