//! The thread that owns the store: it flushes, builds the store of a received snapshot, puts it in place, and
//! begins the streams of snapshots to others, which then run on threads of their own.
//! Work is done in the order in which it came. A store that cannot be written ends the process.

use crate::apply;
use crate::core::Core;
use crate::fatal::{astray, fatal};
use crate::snapshot::Streams;
use base::Position;
use disk::StoreView;
use engine::Vault;
use node::{Flush, Input, SnapshotOrder, Stage};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) enum Mail {
    Flush(Flush),
    Stage(Stage),
    Install {
        at: Position,
        reply: SyncSender<Arc<StoreView>>,
    },
    Snapshot(SnapshotOrder),
    /// This member's state differs from that of the others.
    Astray,
    /// A reader needs everything that is flushed.
    View {
        reply: oneshot::Sender<Arc<StoreView>>,
    },
}

/// How often the disk is measured when there is nothing to do.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Loop {
    core: Arc<Core>,
    vault: Vault,
    streams: Streams,
    /// With less free than this, writes that grow the store are refused from this moment on.
    low_bytes: u64,
}

impl Loop {
    pub fn new(core: Arc<Core>, vault: Vault, streams: Streams, low_bytes: u64) -> Loop {
        core.board.set_low_bytes(low_bytes);
        let new = Loop { core, vault, streams, low_bytes };
        new.show();
        new
    }

    pub fn run(mut self) {
        let mut mail = Vec::new();
        while self.core.storage.take(&mut mail, Some(Instant::now() + MEASURE_INTERVAL)) {
            if mail.is_empty() {
                self.show();
            }
            for item in mail.drain(..) {
                match item {
                    Mail::Flush(flush) => self.flush(&flush),
                    Mail::Stage(stage) => self.stage(stage),
                    Mail::Install { at, reply } => self.install(at, &reply),
                    Mail::Snapshot(order) => self.begin_stream(order),
                    Mail::Astray => self.end_astray(),
                    // The caller may have gone away.
                    Mail::View { reply } => drop(reply.send(self.vault.shared_view())),
                }
            }
        }
        self.streams.join();
    }

    fn flush(&mut self, flush: &Flush) {
        let start = Instant::now();
        self.vault.flush(flush).unwrap_or_else(|error| fatal("flushing to the store", &error));
        self.core.metrics.store_commit_seconds.observe(start.elapsed().as_secs_f64());
        let view = self.vault.shared_view();
        self.core.apply.queue.push(apply::Mail::Flushed { number: flush.number, view });
        self.core.report(Input::Flushed(flush.at));
        self.show();
    }

    fn stage(&mut self, stage: Stage) {
        let staged =
            self.vault.stage(stage).unwrap_or_else(|error| fatal("storing a snapshot that arrives", &error));
        if let Some(staged) = staged {
            self.core.report(Input::Staged { id: staged.id, at: staged.at, config: staged.config });
        }
    }

    fn install(&mut self, at: Position, reply: &SyncSender<Arc<StoreView>>) {
        self.vault.install(at).unwrap_or_else(|error| fatal("putting a snapshot in place", &error));
        reply.send(self.vault.shared_view()).expect("the apply thread waits for this");
        self.show();
    }

    fn begin_stream(&mut self, order: SnapshotOrder) {
        let stream = self.vault.snapshot(order).unwrap_or_else(|error| fatal("reading the store", &error));
        self.streams.begin(stream);
    }

    fn end_astray(&self) -> ! {
        self.vault.fence().unwrap_or_else(|error| fatal("fencing this member", &error));
        astray()
    }

    fn show(&self) {
        let bytes = self.vault.file_bytes().unwrap_or_else(|error| fatal("measuring the store", &error));
        let free = self.vault.free_bytes().unwrap_or_else(|error| fatal("measuring the disk", &error));
        let taken = self.vault.taken_bytes().unwrap_or_else(|error| fatal("measuring the store", &error));
        self.core.board.set_store_bytes(bytes, taken, free);
        // The apply thread decides, but not before the next flush may fill the disk.
        if free < self.low_bytes && !self.core.board.measures().is_roomy(self.low_bytes) {
            self.core.board.set_disk_low(true);
        }
    }
}
