//! The names of the documents of the data plane. The members of a region agree on each of them, see `document_exchange` for
//! those that regions share.

/// Which nodes keep which partitions, now and next.
pub const PLAN: &str = "cluster/topology";
pub const NAMESPACES: &str = "namespaces";
/// The merge handlers beside those that are built in.
pub const HANDLERS: &str = "handlers";
/// The regions that replicate to each other.
pub const REGIONS: &str = "regions";
/// Which region owns which scope.
pub const HOMES: &str = "homes";
/// The regions that elect the owner of a home.
pub const ELECTORATES: &str = "home-electorates";

/// The documents that regions share.
pub(crate) const EXCHANGED: [&str; 2] = [NAMESPACES, HANDLERS];
