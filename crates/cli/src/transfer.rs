//! Rows on their way from one place to another: files, running stores, and both planes of this one. A source yields rows with a
//! position from which it can go on; a destination is read before it is written, and read again afterwards. A checkpoint keeps the
//! position and the counts, so a transfer that was interrupted goes on, and what it says at the end is about all of it.

mod checkpoint;
mod consul;
mod destination;
mod etcd;
mod export;
mod import;
mod lines;
mod paths;
mod plane;
mod redis;
mod resp;
mod row;
mod saved;
mod source;
mod table;

pub use checkpoint::Checkpoint;
pub use consul::read_export as read_consul;
pub use destination::Destination;
pub use etcd::{EtcdSource, copy_leases};
pub use export::{Export, FileFormat};
pub use import::Import;
pub use lines::LineFile;
pub use paths::open;
pub use plane::{DataPlane, DataSource};
pub use redis::{RedisLogin, RedisSource};
pub use row::{Row, RowChecksum};
pub use saved::SavedSource;
pub use source::Source;
pub use table::TableFile;
