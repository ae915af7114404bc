//! The store of a member: flushed to, read through pinned views, replaced by a received snapshot.
//! The view moves forward with every flush, so what was flushed can leave memory.

use crate::StoreOwner;
use crate::error::Error;
use crate::mutant::Mutant;
use crate::open::config_in;
use crate::snapshot::SnapshotStream;
use base::mutant::planted;
use base::{Position, Revision, Table};
use bytes::Bytes;
use coord::rows::{META_KEY, Meta};
use coord::{CorruptRow, State, Unindexed};
use disk::store::{chunk, staging};
use disk::{Disk, Store, StoreView};
use node::{Flush, SnapshotRequest, StagingStep};
use raft::Config;
use std::sync::Arc;

pub(crate) const LIVE: &str = "store.redb";
pub(crate) const STAGED: &str = "store.staged";
/// A member does not start in a directory with this file.
pub(crate) const DIVERGED_FILE: &str = "astray";

pub struct MemberStore {
    disk: Arc<dyn Disk>,
    store: Store,
    view: Arc<StoreView>,
    staging: Option<ReceivingStore>,
    /// Keys that were flushed and are not in the index rows yet.
    unindexed: Unindexed,
    params: MemberStoreParams,
}

#[derive(Clone, Copy, Debug)]
pub struct MemberStoreParams {
    pub cache_bytes: usize,
    pub chunk_bytes: usize,
    /// The index is brought up to date when so many of its keys have changed.
    pub unindexed_keys_max: usize,
}

/// Or when so many changes were flushed since: a start reads them from the log.
const UNINDEXED_CHANGES_PER_KEY: usize = 4;

struct ReceivingStore {
    id: u64,
    progress: StagingProgress,
}

enum StagingProgress {
    Filling(Box<staging::Staging>),
    Finished(staging::Staged),
}

/// The outcome of a staged store.
#[derive(Clone, Debug)]
pub struct StagedStore {
    pub id: u64,
    /// The position of its rows, if it holds a store.
    pub at: Option<Position>,
    /// The configuration by its table of members, if it has one.
    pub config: Option<Config>,
}

impl MemberStore {
    pub(crate) fn open(disk: Arc<dyn Disk>, params: MemberStoreParams) -> Result<MemberStore, Error> {
        staging::discard(&*disk, STAGED)?;
        let store = Store::open(disk.clone(), LIVE, params.cache_bytes)?;
        // If the last process ended on a failed sync, what this one reads may be in the page cache alone. The log
        // will be cut by what the store says, so an empty transaction makes the store durable.
        store.write_with(&mut |_| {})?;
        let view = Arc::new(store.view()?);
        let unindexed = unindexed_of(&view)?;
        Ok(MemberStore { disk, store, view, staging: None, unindexed, params })
    }

    /// Everything flushed so far.
    pub fn view(&self) -> &StoreView {
        &self.view
    }

    /// The same, to be read on another thread.
    pub fn shared_view(&self) -> Arc<StoreView> {
        self.view.clone()
    }

    /// The log position that the store contains.
    pub fn position(&self) -> Result<Position, Error> {
        position_of(&self.view)
    }

    /// Writes a flush as one durable transaction and moves the view to it.
    pub fn flush(&mut self, flush: &Flush) -> Result<(), Error> {
        flush.changes().iter().for_each(|change| self.unindexed.note(change));
        let index = flush.index || self.is_index_due();
        let unindexed = &mut self.unindexed;
        self.store.write_with(&mut |put| {
            if index {
                unindexed.write(put);
            }
            flush.emit(put);
        })?;
        self.view = Arc::new(self.store.view()?);
        Ok(())
    }

    fn is_index_due(&self) -> bool {
        let keys_max = self.params.unindexed_keys_max;
        self.unindexed.keys() >= keys_max || self.unindexed.changes() >= keys_max * UNINDEXED_CHANGES_PER_KEY
    }

    /// Carries out one step of receiving a snapshot; the last one reports.
    pub fn stage(&mut self, stage: StagingStep) -> Result<Option<StagedStore>, Error> {
        match stage {
            StagingStep::Begin { id } => {
                self.staging = None;
                let filling = staging::Staging::begin(self.disk.clone(), STAGED, self.params.cache_bytes)?;
                self.staging =
                    Some(ReceivingStore { id, progress: StagingProgress::Filling(Box::new(filling)) });
                Ok(None)
            }
            StagingStep::Rows { id, rows } => self.stage_rows(id, rows).map(|()| None),
            StagingStep::Finish { id } => self.stage_finish(id).map(Some),
        }
    }

    /// Rows that cannot be read end the attempt: it will finish without a position.
    fn stage_rows(&mut self, id: u64, rows: Bytes) -> Result<(), Error> {
        let Some(ReceivingStore { progress: StagingProgress::Filling(filling), .. }) =
            self.staging.as_mut().filter(|it| it.id == id)
        else {
            return Ok(());
        };
        match chunk::decode(rows) {
            Some(rows) => filling.add(&rows)?,
            None => self.staging = None,
        }
        Ok(())
    }

    fn stage_finish(&mut self, id: u64) -> Result<StagedStore, Error> {
        let filling = match self.staging.take() {
            Some(ReceivingStore { id: same, progress: StagingProgress::Filling(filling) }) if same == id => {
                filling
            }
            other => {
                self.staging = other;
                return Ok(StagedStore { id, at: None, config: None });
            }
        };
        let staged = filling.finish()?;
        let store = Store::open(self.disk.clone(), STAGED, self.params.cache_bytes)?;
        match examine(&store.view()?) {
            Ok((at, config)) => {
                self.staging = Some(ReceivingStore { id, progress: StagingProgress::Finished(staged) });
                Ok(StagedStore { id, at: Some(at), config })
            }
            // The rows are another member's: bad rows end the attempt, not this process.
            Err(Error::Store(_)) => Ok(StagedStore { id, at: None, config: None }),
            Err(error) => Err(error),
        }
    }

    /// Puts the staged store, which raft has accepted at this position, in the place of the live one.
    pub fn install(&mut self, at: Position) -> Result<(), Error> {
        let Some(ReceivingStore { progress: StagingProgress::Finished(staged), .. }) = self.staging.take()
        else {
            panic!("raft accepts only a snapshot that was staged");
        };
        self.store.abandon_rewrite()?;
        staging::install(&*self.disk, staged, LIVE)?;
        self.store = Store::open(self.disk.clone(), LIVE, self.params.cache_bytes)?;
        self.view = Arc::new(self.store.view()?);
        self.unindexed = unindexed_of(&self.view)?;
        assert_eq!(self.position()?, at, "the staged store is the one that raft accepted");
        Ok(())
    }

    /// Keeps the next start from serving a diverged state.
    pub fn fence(&self) -> Result<(), Error> {
        let trouble = || disk::Error::io("create", DIVERGED_FILE);
        if !self.disk.exists(DIVERGED_FILE).map_err(trouble())? {
            self.disk.create(DIVERGED_FILE).map_err(trouble())?;
        }
        Ok(self.disk.sync_dir().map_err(trouble())?)
    }

    /// The frames of a snapshot of what is flushed now.
    pub fn snapshot(&self, order: SnapshotRequest) -> Result<SnapshotStream, Error> {
        let view = self.store.view()?;
        let at = position_of(&view)?;
        let config = config_in(&view)?;
        let chunks = chunk::Chunks::new(Arc::new(view), self.params.chunk_bytes);
        Ok(SnapshotStream::new(order, at, config, chunks))
    }
}

impl StoreOwner for MemberStore {
    fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    fn renew_view(&mut self) -> Result<(), Error> {
        self.view = Arc::new(self.store.view()?);
        Ok(())
    }
}

fn unindexed_of(view: &StoreView) -> Result<Unindexed, Error> {
    if planted(Mutant::UnindexedForgotten) { Ok(Unindexed::default()) } else { Ok(Unindexed::load(view)?) }
}

/// Reads everything that a member reads of its store when it starts: once raft has accepted the snapshot, it cannot
/// be undone.
fn examine(view: &StoreView) -> Result<(Position, Option<Config>), Error> {
    let corrupt = |what| CorruptRow::new(Table::Meta, META_KEY, what);
    let state = State::load(view)?.ok_or_else(|| corrupt("missing"))?;
    if state.revision() > REVISION_MAX {
        return Err(corrupt("a revision too close to the maximum").into());
    }
    unindexed_of(view)?;
    Ok((position_of(view)?, config_in(view)?))
}

/// A store beyond it is refused: later writes would overflow.
const REVISION_MAX: Revision = Revision(i64::MAX - (1 << 32));

fn position_of(view: &StoreView) -> Result<Position, Error> {
    Ok(Meta::read(view)?.map_or(Position::ORIGIN, |meta| meta.applied))
}
