//! The store of coord, as the thread that owns it uses it: besides flushes it builds the store of a received snapshot, puts
//! it in place, and begins the streams of snapshots to others, which then run on threads of their own.

use crate::apply;
use crate::core::Core;
use crate::defrag::Defrag;
use crate::fatal::{diverged, fatal};
use crate::snapshot::SnapshotStreams;
use crate::store_thread::{self, StoreAdapter, StoreOrder};
use base::Position;
use disk::StoreView;
use engine::{Error, MemberStore};
use node::{ConsensusInput, Flush, SnapshotRequest, StagingStep};
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use tokio::sync::oneshot;

pub(crate) enum StorageMessage {
    StagingStep(StagingStep),
    Install {
        at: Position,
        reply: SyncSender<Arc<StoreView>>,
    },
    Snapshot(SnapshotRequest),
    /// This member's state differs from that of the others.
    Diverged,
    /// A reader needs everything that is flushed.
    View {
        reply: oneshot::Sender<Arc<StoreView>>,
    },
}

impl From<StorageMessage> for StoreOrder<CoordStore> {
    fn from(message: StorageMessage) -> StoreOrder<CoordStore> {
        StoreOrder::Other(message)
    }
}

pub(crate) struct CoordStore {
    core: Arc<Core>,
    member_store: MemberStore,
    streams: SnapshotStreams,
    /// With less free than this, writes that grow the store are refused from this moment on.
    low_bytes: u64,
}

impl CoordStore {
    pub fn new(
        core: Arc<Core>,
        member_store: MemberStore,
        streams: SnapshotStreams,
        low_bytes: u64,
    ) -> CoordStore {
        core.published.status.set_low_bytes(low_bytes);
        CoordStore { core, member_store, streams, low_bytes }
    }

    fn stage(&mut self, stage: StagingStep) {
        let staged = self
            .member_store
            .stage(stage)
            .unwrap_or_else(|error| fatal("storing a snapshot that arrives", &error));
        if let Some(staged) = staged {
            self.core.coord.consensus.post(ConsensusInput::Staged {
                id: staged.id,
                at: staged.at,
                config: staged.config,
            });
        }
    }

    fn install(&mut self, at: Position, reply: &SyncSender<Arc<StoreView>>) {
        self.member_store.install(at).unwrap_or_else(|error| fatal("putting a snapshot in place", &error));
        reply.send(self.member_store.shared_view()).expect("the apply thread waits for this");
        store_thread::measure(self);
    }

    fn begin_stream(&mut self, order: SnapshotRequest) {
        let stream =
            self.member_store.snapshot(order).unwrap_or_else(|error| fatal("reading the store", &error));
        self.streams.begin(stream);
    }

    fn end_diverged(&self) -> ! {
        self.member_store.fence().unwrap_or_else(|error| fatal("fencing this member", &error));
        diverged()
    }
}

impl StoreAdapter for CoordStore {
    type Owner = MemberStore;
    type Flush = Flush;
    type Order = StorageMessage;
    const NAME: &'static str = "the store";
    const LABEL: &'static str = "store";

    fn owner(&mut self) -> &mut MemberStore {
        &mut self.member_store
    }

    fn flush(&mut self, flush: &Flush) -> Result<(), Error> {
        self.member_store.flush(flush)
    }

    fn flush_seconds(&self) -> &Histogram {
        &self.core.metrics.store_commit_seconds
    }

    fn report_flush(&mut self, flush: &Flush) {
        let view = self.member_store.shared_view();
        self.core.coord.apply.post(apply::StoreReport::Flushed { number: flush.number, view });
        self.core.coord.consensus.post(ConsensusInput::Flushed(flush.at));
    }

    fn carry_out(&mut self, message: StorageMessage, defrag: &mut Defrag) {
        match message {
            StorageMessage::StagingStep(stage) => self.stage(stage),
            StorageMessage::Install { at, reply } => {
                defrag.stop();
                self.install(at, &reply);
            }
            StorageMessage::Snapshot(order) => self.begin_stream(order),
            StorageMessage::Diverged => self.end_diverged(),
            // The caller may have gone away.
            StorageMessage::View { reply } => drop(reply.send(self.member_store.shared_view())),
        }
    }

    /// The rows of the old view are those of the new one.
    fn step_defrag(&mut self, defrag: &mut Defrag) -> bool {
        let old = self.member_store.shared_view();
        let is_rewritten = defrag.step(&mut self.member_store);
        if is_rewritten {
            let new = self.member_store.shared_view();
            self.core.coord.apply.post(apply::StoreReport::Rewritten { old, new });
        }
        is_rewritten
    }

    fn publish_size(&self, taken_bytes: u64, free_bytes: u64) {
        self.core.published.status.set_store_bytes(taken_bytes, free_bytes);
        // The apply thread decides, but not before the next flush may fill the disk.
        if free_bytes < self.low_bytes
            && !self.core.published.status.measures().has_ample_space(self.low_bytes)
        {
            self.core.published.status.set_disk_low(true);
        }
    }

    fn end(self) {
        self.streams.join();
    }
}
