//! The thread that writes the audit log: items in, lines out, flushed when no further item waits. A line that cannot be
//! written is counted as dropped, and the file is opened again.

use super::entry::AuditEntry;
use super::{Counters, line};
use disk::RotatedFile;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant, SystemTime};

/// So long after a failure was logged, the next ones are not.
const FAILURE_LOGGED_EVERY: Duration = Duration::from_secs(60);

pub enum Item {
    Started {
        at: SystemTime,
        with_reads: bool,
    },
    Entry {
        at: SystemTime,
        entry: Box<AuditEntry>,
    },
    /// Answered when everything before it was written.
    Stopped {
        at: SystemTime,
        done: SyncSender<()>,
    },
}

pub enum Sink {
    Stderr,
    File(RotatedFile),
    #[cfg(test)]
    Test(Box<dyn Write + Send>),
}

impl Sink {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Sink::Stderr => io::stderr().write_all(line),
            Sink::File(file) => file.append(line),
            #[cfg(test)]
            Sink::Test(sink) => sink.write_all(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Stderr => Ok(()),
            Sink::File(file) => file.flush(),
            #[cfg(test)]
            Sink::Test(sink) => sink.flush(),
        }
    }

    fn reopen(&mut self) {
        if let Sink::File(file) = self {
            // Until it can be opened again, every line fails and is counted.
            let _ = file.reopen();
        }
    }
}

struct AuditWriter<'a> {
    sink: Sink,
    counters: &'a Counters,
    node: &'a str,
    /// Lines since the last flush.
    unflushed: u64,
    failure_logged: Option<Instant>,
}

/// Ends with the last sender.
pub fn run(items: Receiver<Item>, sink: Sink, counters: &Counters, node: &str) {
    let mut writer = AuditWriter { sink, counters, node, unflushed: 0, failure_logged: None };
    loop {
        let item = match items.try_recv() {
            Ok(item) => item,
            Err(TryRecvError::Empty) => {
                writer.flush();
                match items.recv() {
                    Ok(item) => item,
                    Err(_) => return,
                }
            }
            Err(TryRecvError::Disconnected) => return writer.flush(),
        };
        writer.take(item);
    }
}

impl AuditWriter<'_> {
    fn take(&mut self, item: Item) {
        let untold = self.counters.untold.swap(0, Ordering::Relaxed);
        if untold > 0 && !self.append(&line::of_dropped(SystemTime::now(), self.node, untold)) {
            self.counters.untold.fetch_add(untold, Ordering::Relaxed);
        }
        match item {
            Item::Started { at, with_reads } => {
                self.append(&line::of_start(at, self.node, with_reads));
            }
            Item::Entry { at, entry } => {
                if self.append(&line::of_entry(at, self.node, &entry)) {
                    self.unflushed += 1;
                } else {
                    self.counters.drop_entry();
                }
            }
            Item::Stopped { at, done } => {
                self.append(&line::of_stop(at, self.node));
                self.flush();
                let _ = done.send(());
            }
        }
    }

    fn append(&mut self, line: &str) -> bool {
        let appended = self.sink.append(line.as_bytes());
        self.is_well(appended)
    }

    /// What was appended since the last flush counts as written from now on.
    fn flush(&mut self) {
        let flushed = self.sink.flush();
        let lines = std::mem::take(&mut self.unflushed);
        if self.is_well(flushed) {
            self.counters.written.inc_by(lines);
        } else {
            (0..lines).for_each(|_| self.counters.drop_entry());
        }
    }

    fn is_well(&mut self, outcome: io::Result<()>) -> bool {
        let Err(error) = outcome else { return true };
        if self.failure_logged.is_none_or(|logged| logged.elapsed() >= FAILURE_LOGGED_EVERY) {
            self.failure_logged = Some(Instant::now());
            tracing::error!(%error, "the audit log cannot be written: its entries are dropped and counted");
        }
        self.sink.reopen();
        false
    }
}
