//! The data plane of a node: one thread that owns the machine of `mesh`, its files, and the handle by which others
//! ask it.

pub mod handle;
pub mod status;
