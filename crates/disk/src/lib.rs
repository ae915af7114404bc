//! The only crate that opens files: the write-ahead log, the store, staged snapshots. Everything goes through the
//! `Disk` trait, so that the same code runs on a real directory and on the simulated disk that loses, tears and
//! reorders what was not synced. It is synchronous and starts no thread; an error from here means that the process
//! should stop.

mod disk;
mod error;
mod full_disk;
pub mod guard;
mod mutant;
mod real;
mod reserve;
mod rotated;
mod scratch;
pub mod sim;
pub mod store;
pub mod wal;

pub use disk::{DirLock, Disk, File};
pub use error::Error;
pub use mutant::Mutant;
pub use real::RealDisk;
pub use reserve::ReserveDisk;
pub use rotated::RotatedFile;
pub use scratch::ScratchDisk;
pub use sim::SimDisk;
pub use store::{ReplacedFile, RowRef, Store, StoreView};
pub use wal::{LostFrames, RecordStream, RecoveryReport, TornTail, Wal, WalRecord};
