//! The audit log: which caller asked for what, from which address, about which keys, and what came of it. One line of JSON
//! for each request that changes something or is refused, and for reads where that is wanted. Values, passwords and tokens
//! are never part of an entry.
//! Entries go in without waiting and are written by one thread (`audit/writer.rs`). When it does not keep up, entries are
//! dropped, counted, and the count is written as a line of its own: a slow disk slows no request. See docs/adr/0059.

mod entry;
mod line;
mod writer;

pub use entry::{AuditClass, AuditEntry, AuditOutcome, IdentifiedBy};

use crate::mutant::Mutant;
use crate::registry::Registry;
use crate::thread::Thread;
use base::mutant::planted;
use disk::RotatedFile;
use prometheus_client::metrics::counter::Counter;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};
use writer::{Item, Sink};

/// Entries that wait for the writer. Each takes a few hundred bytes, and 20 KiB at most.
const ENTRIES_MAX: usize = 4_096;
/// How often a full queue is tried again by the thread that waits for its end.
const FLUSH_RETRY: Duration = Duration::from_millis(1);
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    pub target: AuditTarget,
    /// Reads that are answered are recorded, too.
    pub with_reads: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    Stderr,
    File {
        path: PathBuf,
        /// A file that would grow beyond this is renamed, and the next one begun.
        bytes_max: u64,
        /// So many renamed files are kept.
        files_kept: usize,
    },
}

/// The running audit log of a process.
#[derive(Clone)]
pub struct Audit(Arc<AuditShared>);

struct AuditShared {
    items: SyncSender<Item>,
    with_reads: bool,
    counters: Counters,
}

/// What is known of the log itself.
#[derive(Clone, Default)]
struct Counters {
    written: Counter,
    dropped: Counter,
    /// Dropped since the writer last said so.
    untold: Arc<AtomicU64>,
}

impl Counters {
    fn drop_entry(&self) {
        self.dropped.inc();
        self.untold.fetch_add(1, Ordering::Relaxed);
    }
}

impl Audit {
    /// Opens the log and writes its first line.
    pub fn start(config: &AuditConfig, node: &str) -> io::Result<Audit> {
        let sink = match &config.target {
            AuditTarget::Stderr => Sink::Stderr,
            AuditTarget::File { path, bytes_max, files_kept } => {
                Sink::File(RotatedFile::open(path.clone(), *bytes_max, *files_kept)?)
            }
        };
        Audit::start_with(sink, config.with_reads, node)
    }

    fn start_with(sink: Sink, with_reads: bool, node: &str) -> io::Result<Audit> {
        let (items, received) = sync_channel(ENTRIES_MAX);
        let counters = Counters::default();
        let (counted, node) = (counters.clone(), node.to_owned());
        Thread::spawn("audit", move || writer::run(received, sink, &counted, &node))?;
        let audit = Audit(Arc::new(AuditShared { items, with_reads, counters }));
        audit.push(Item::Started { at: SystemTime::now(), with_reads });
        Ok(audit)
    }

    /// Whether an entry of this class is recorded when all is well.
    pub fn records(&self, class: AuditClass) -> bool {
        self.0.with_reads || class != AuditClass::Read
    }

    /// Records what came of a request, if it changes something or was refused, or if reads are wanted.
    pub fn record(&self, entry: AuditEntry) {
        if self.records(entry.class)
            || entry.outcome == AuditOutcome::Refused && !planted(Mutant::RefusalNotRecorded)
        {
            self.push(Item::Entry { at: SystemTime::now(), entry: Box::new(entry) });
        }
    }

    fn push(&self, item: Item) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.0.items.try_send(item) {
            self.0.counters.drop_entry();
        }
    }

    /// Says that the process stops, and waits for a moment until everything is written.
    pub fn stop(&self) {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let (done, written) = sync_channel(1);
        let mut request = Item::Stopped { at: SystemTime::now(), done };
        while let Err(TrySendError::Full(back)) = self.0.items.try_send(request) {
            if Instant::now() >= deadline {
                return;
            }
            request = back;
            std::thread::sleep(FLUSH_RETRY);
        }
        // A writer that is stuck is not waited for any longer.
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        self.0.counters.register(registry);
    }
}

/// Without an audit log it is only known what would be counted.
pub(crate) fn register_names(registry: &mut Registry) {
    Counters::default().register(registry);
}

impl Counters {
    fn register(&self, registry: &mut Registry) {
        let Counters { written, dropped, .. } = self;
        registry.register("althing_audit_entries", "Entries of the audit log", written.clone());
        registry.register(
            "althing_audit_dropped",
            "Entries that the audit log lacks because its file did not take them in time",
            dropped.clone(),
        );
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Audit").field("with_reads", &self.0.with_reads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
