//! The files of the mesh, in a directory of their own: a log of batches of rows, the store that they are flushed to,
//! and the incarnation of the node on this disk. `open_mesh` recovers them after any crash. What the log holds and
//! the store lacks is handed out in order; the new start is counted durably before.

mod incarnation;
mod log;
mod store;
#[cfg(test)]
mod tests;
pub mod verify;

pub use incarnation::{CatchUp, Incarnation, IncarnationFile};
pub use log::MeshLog;
pub use store::{MeshStore, MeshView};

use crate::error::Error;
use crate::mutant::Mutant;
use ::mesh::rows::{self, Row};
use base::mutant::planted;
use disk::wal::{SPARES_MAX, WalOpening};
use disk::{Disk, LostFrames, RecordStream, RecoveryReport, guard};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct MeshParams {
    pub log_segment_bytes: u64,
    pub cache_bytes: usize,
    /// The node's incarnation on this disk, if the disk is empty; never zero, and never reused.
    pub fresh_incarnation: u32,
}

pub struct MeshFiles {
    pub log: MeshLog,
    pub store: MeshStore,
    /// Batches of the log that the store lacks, in order.
    pub replayed: Vec<Vec<Row>>,
    pub incarnation_file: IncarnationFile,
    pub recovery: RecoveryReport,
    /// The disk of these files.
    pub disk: Arc<dyn Disk>,
}

pub fn open_mesh(disk: Arc<dyn Disk>, params: &MeshParams) -> Result<MeshFiles, Error> {
    open_files(disk, params).map_err(Error::of_mesh)
}

fn open_files(disk: Arc<dyn Disk>, params: &MeshParams) -> Result<MeshFiles, Error> {
    let known = incarnation::read(&*disk)?;
    if known.is_some() && !disk.exists(store::LIVE).map_err(incarnation::trouble("look for", store::LIVE))? {
        return Err(Error::MeshStoreMissing);
    }
    let (mut store, flushed) = guard::catch_damage(store::LIVE, || {
        let store = MeshStore::open(disk.clone(), params.cache_bytes)?;
        let flushed = store.flushed()?;
        Ok::<_, Error>((store, flushed))
    })?;
    let (opening, replay) = replay(disk.clone(), params, flushed)?;
    let recovery = opening.report().clone();
    // Positions count on over the node's starts; the batches of one start count from one.
    let base = replay.last.max(flushed);
    store.count_from(base);
    // The incarnation is durable before the end is cut, so no crash between the two forgets what the end may have held.
    let known = known.map(|incarnation| incarnation_after(incarnation, &recovery, params));
    let incarnation_file = IncarnationFile::begin(disk.clone(), known, params.fresh_incarnation)?;
    let log = MeshLog::new(opening.start(&[])?, base);
    Ok(MeshFiles { log, store, replayed: replay.batches, incarnation_file, recovery, disk })
}

/// A log that is gone or without its last frame may have lost acknowledged batches, promises and given dots. No reader of the log can tell
/// that from a write that a power cut tore. So the node goes on under another incarnation: as after the loss of its disk it
/// counts for nothing until it has been compared with the other replicas (ADR 55).
fn incarnation_after(
    incarnation: Incarnation,
    recovery: &RecoveryReport,
    params: &MeshParams,
) -> Incarnation {
    let is_there = recovery.segments > 0;
    if is_there && recovery.lost == LostFrames::Nothing || planted(Mutant::TornEndTrusted) {
        return incarnation;
    }
    Incarnation { number: params.fresh_incarnation, catch_up: CatchUp::Unknown, ..incarnation }
}

struct Replay {
    batches: Vec<Vec<Row>>,
    last: u64,
}

fn replay(disk: Arc<dyn Disk>, params: &MeshParams, flushed: u64) -> Result<(WalOpening, Replay), Error> {
    let mut replay = Replay { batches: Vec::new(), last: 0 };
    let mut all_known = true;
    // A flush releases all segments but the last at once.
    let wal_params = disk::wal::WalParams { segment_bytes: params.log_segment_bytes, spares_max: SPARES_MAX };
    let opening = WalOpening::read(disk, wal_params, &mut |record| {
        if record.stream != RecordStream::Mesh {
            return;
        }
        replay.last = replay.last.max(record.position);
        if record.position <= flushed {
            return;
        }
        match rows::decode_batch(record.payload) {
            Some(batch) => replay.batches.push(batch),
            None => all_known = false,
        }
    })?;
    if !all_known {
        return Err(Error::UnknownRecord);
    }
    // Acknowledged batches are lost, and no other replica would notice.
    let recovery = opening.report();
    if let Some(shortened) = recovery.shortened.clone().filter(|_| recovery.lost == LostFrames::Unknown) {
        return Err(Error::MeshDisk(disk::Error::Missing { file: format!("the end of {}", shortened.file) }));
    }
    Ok((opening, replay))
}
