//! The thread that owns the store: it flushes, builds the store of a received snapshot, puts it in place, and
//! begins the streams of snapshots to others, which then run on threads of their own.
//! Work is done in the order in which it came. A store that cannot be written ends the process.

use crate::apply;
use crate::core::Core;
use crate::fatal::{diverged, fatal};
use crate::snapshot::SnapshotStreams;
use base::Position;
use disk::StoreView;
use engine::MemberStore;
use node::{ConsensusInput, Flush, SnapshotRequest, StagingStep};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) enum StorageMessage {
    Flush(Flush),
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

/// How often the disk is measured when there is nothing to do.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct StorageLoop {
    core: Arc<Core>,
    member_store: MemberStore,
    streams: SnapshotStreams,
    /// With less free than this, writes that grow the store are refused from this moment on.
    low_bytes: u64,
}

impl StorageLoop {
    pub fn new(
        core: Arc<Core>,
        member_store: MemberStore,
        streams: SnapshotStreams,
        low_bytes: u64,
    ) -> StorageLoop {
        core.status.set_low_bytes(low_bytes);
        let new = StorageLoop { core, member_store, streams, low_bytes };
        new.publish_status();
        new
    }

    pub fn run(mut self) {
        let mut messages = Vec::new();
        while self.core.storage.take(&mut messages, Some(Instant::now() + MEASURE_INTERVAL)) {
            if messages.is_empty() {
                self.publish_status();
            }
            for item in messages.drain(..) {
                match item {
                    StorageMessage::Flush(flush) => self.flush(&flush),
                    StorageMessage::StagingStep(stage) => self.stage(stage),
                    StorageMessage::Install { at, reply } => self.install(at, &reply),
                    StorageMessage::Snapshot(order) => self.begin_stream(order),
                    StorageMessage::Diverged => self.end_diverged(),
                    // The caller may have gone away.
                    StorageMessage::View { reply } => drop(reply.send(self.member_store.shared_view())),
                }
            }
        }
        self.streams.join();
    }

    fn flush(&mut self, flush: &Flush) {
        let start = Instant::now();
        self.member_store.flush(flush).unwrap_or_else(|error| fatal("flushing to the store", &error));
        self.core.metrics.store_commit_seconds.observe(start.elapsed().as_secs_f64());
        let view = self.member_store.shared_view();
        self.core.apply.queue.push(apply::ApplyMessage::Flushed { number: flush.number, view });
        self.core.post_input(ConsensusInput::Flushed(flush.at));
        self.publish_status();
    }

    fn stage(&mut self, stage: StagingStep) {
        let staged = self
            .member_store
            .stage(stage)
            .unwrap_or_else(|error| fatal("storing a snapshot that arrives", &error));
        if let Some(staged) = staged {
            self.core.post_input(ConsensusInput::Staged {
                id: staged.id,
                at: staged.at,
                config: staged.config,
            });
        }
    }

    fn install(&mut self, at: Position, reply: &SyncSender<Arc<StoreView>>) {
        self.member_store.install(at).unwrap_or_else(|error| fatal("putting a snapshot in place", &error));
        reply.send(self.member_store.shared_view()).expect("the apply thread waits for this");
        self.publish_status();
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

    fn publish_status(&self) {
        let bytes =
            self.member_store.file_bytes().unwrap_or_else(|error| fatal("measuring the store", &error));
        let free = self.member_store.free_bytes().unwrap_or_else(|error| fatal("measuring the disk", &error));
        let taken =
            self.member_store.taken_bytes().unwrap_or_else(|error| fatal("measuring the store", &error));
        self.core.status.set_store_bytes(bytes, taken, free);
        // The apply thread decides, but not before the next flush may fill the disk.
        if free < self.low_bytes && !self.core.status.measures().has_ample_space(self.low_bytes) {
            self.core.status.set_disk_low(true);
        }
    }
}
