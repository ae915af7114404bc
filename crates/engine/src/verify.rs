//! Checks the files of a stopped member: every frame of the log, every page of the store, every row by itself and
//! against the others, and that log and store belong together. Nothing on the disk is changed: repairs that a start
//! would make are made in memory.

use crate::error::Error;
use crate::member_store::LIVE;
use crate::open::config_in;
use base::{Position, Revision};
use coord::State;
use coord::rows::Meta;
use disk::wal::ShortenedSegment;
use disk::{Disk, RecordStream, RecoveryReport, ScratchDisk, Store, guard};
use raft::{Config, LogReplay, Record};
use std::sync::Arc;

/// The contents of an intact directory.
#[derive(Clone, Debug)]
pub struct MemberReport {
    pub log: RecoveryReport,
    pub store_bytes: u64,
    pub applied: Position,
    pub revision: Revision,
    pub compacted: Revision,
    pub hash: u64,
    pub keys: usize,
    pub versions: u64,
    pub leases: usize,
    config: Option<Config>,
}

/// Everything that was found to be wrong.
pub type Faults = Vec<Error>;

/// `step` is called with the part that is being checked.
pub fn verify(
    disk: Arc<dyn Disk>,
    cache_bytes: usize,
    step: &mut dyn FnMut(&str),
) -> Result<MemberReport, Faults> {
    let scratch = ScratchDisk::over(disk).map_err(|source| {
        let (action, file) = ("list", "the data directory".to_owned());
        vec![Error::Disk(disk::Error::Io { action, file, source })]
    })?;
    let scratch: Arc<dyn Disk> = Arc::new(scratch);
    step("the write-ahead log");
    let log = check_log(&scratch);
    step("the store");
    let store = guard::catch_damage(LIVE, || check_store(scratch, cache_bytes, step));
    match (log, store) {
        (Ok((log, restoring)), Ok(mut report)) => {
            let mut restored = restoring.finish(report.applied).map_err(|gap| vec![gap.into()])?;
            restored.config = report.config.take();
            if restored.has_lost_log() {
                return Err(vec![Error::LogMissing]);
            }
            report.log = log;
            Ok(report)
        }
        (log, store) => Err(log.err().into_iter().chain(store.err()).collect()),
    }
}

fn check_log(disk: &Arc<dyn Disk>) -> Result<(RecoveryReport, LogReplay), Error> {
    let mut restoring = LogReplay::default();
    let mut all_known = true;
    let recovery = disk::wal::inspect(&**disk, &mut |record| {
        if record.stream == RecordStream::Raft {
            match Record::decode(record.payload) {
                Some(record) => restoring.add(record),
                None => all_known = false,
            }
        }
    })?;
    check_length(&recovery)?;
    if all_known { Ok((recovery, restoring)) } else { Err(Error::UnknownRecord) }
}

/// A start repairs a segment that was cut behind its last frame, and asks the other members for what was cut before.
pub(crate) fn check_length(recovery: &RecoveryReport) -> Result<(), Error> {
    match recovery.shortened.clone() {
        None => Ok(()),
        Some(ShortenedSegment { file, found_bytes, listed_bytes }) => {
            Err(Error::Shortened { file, found_bytes, listed_bytes })
        }
    }
}

/// Pages first: rows are read only from a store whose pages are sound.
fn check_store(
    disk: Arc<dyn Disk>,
    cache_bytes: usize,
    step: &mut dyn FnMut(&str),
) -> Result<MemberReport, Error> {
    let mut store = Store::open(disk, LIVE, cache_bytes)?;
    store.check_pages()?;
    step("the rows of the store");
    let view = store.view()?;
    let state = State::load(&view)?.unwrap_or_else(State::empty);
    let versions = state.check_versions(&view)?;
    let applied = Meta::read(&view)?.map_or(Position::ORIGIN, |meta| meta.applied);
    Ok(MemberReport {
        log: RecoveryReport::default(),
        store_bytes: store.file_bytes()?,
        applied,
        revision: state.revision(),
        compacted: state.compacted(),
        hash: state.hash(),
        keys: state.key_count(),
        versions,
        leases: state.lease_count(),
        config: config_in(&view)?,
    })
}
