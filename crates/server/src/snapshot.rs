//! Snapshots that are sent to members that lag too far behind: each on a thread of its own, so that a slow
//! peer delays no other. The leader's machine learns the outcome, and starts again if necessary.

use crate::core::Core;
use crate::peer::{BulkError, Peers};
use engine::SnapshotStream;
use node::ConsensusInput;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a peer may take for one piece.
const PIECE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct SnapshotStreams {
    sender: Arc<SnapshotSender>,
    threads: Vec<JoinHandle<()>>,
}

struct SnapshotSender {
    core: Arc<Core>,
    peers: Arc<Peers>,
    /// How long a peer has at least to make a snapshot durable once it has all of it.
    patience: Duration,
    stopping: Mutex<bool>,
    stop: Condvar,
}

impl SnapshotStreams {
    pub fn new(core: Arc<Core>, peers: Arc<Peers>, patience: Duration) -> SnapshotStreams {
        let sender =
            SnapshotSender { core, peers, patience, stopping: Mutex::new(false), stop: Condvar::new() };
        SnapshotStreams { sender: Arc::new(sender), threads: Vec::new() }
    }

    pub fn begin(&mut self, stream: SnapshotStream) {
        self.threads.retain(|thread| !thread.is_finished());
        let to = stream.to();
        let sender = self.sender.clone();
        let spawned =
            thread::Builder::new().name(format!("snapshot-to-{:x}", to.0)).spawn(move || sender.run(stream));
        match spawned {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                tracing::warn!(peer = to.0, %error, "cannot start a thread to send a snapshot");
                self.sender.core.coord.consensus.post(ConsensusInput::SnapshotSent { to, ok: false });
            }
        }
    }

    /// Waits for the threads; the transport has been halted, so none of them is held up.
    pub fn join(self) {
        *self.sender.stopping.lock().expect("nothing panics in here") = true;
        self.sender.stop.notify_all();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread that sent a snapshot panicked");
            }
        }
    }
}

impl SnapshotSender {
    fn run(&self, stream: SnapshotStream) {
        let to = stream.to();
        let start = Instant::now();
        let result = self.send(stream);
        let elapsed = start.elapsed();
        match &result {
            Ok(()) => {
                tracing::info!(peer = to.0, elapsed_ms = elapsed.as_millis() as u64, "snapshot sent");
                self.wait_before_report(elapsed + self.patience);
            }
            Err(error) => tracing::warn!(peer = to.0, %error, "snapshot not sent"),
        }
        self.core.coord.consensus.post(ConsensusInput::SnapshotSent { to, ok: result.is_ok() });
    }

    fn send(&self, stream: SnapshotStream) -> Result<(), BulkError> {
        let ticket = self.peers.ticket(stream.to()).ok_or(BulkError::Lost)?;
        for frame in stream {
            self.peers.send_bulk(ticket, frame.encode(), Instant::now() + PIECE_TIMEOUT)?;
        }
        Ok(())
    }

    /// The report makes the leader try the log again, and a peer that is still storing what came would ask
    /// for another snapshot. One that is done says so by itself, and the report then means nothing.
    fn wait_before_report(&self, span: Duration) {
        let stopping = self.stopping.lock().expect("nothing panics in here");
        let waited = self.stop.wait_timeout_while(stopping, span, |stopping| !*stopping);
        drop(waited.expect("nothing panics in here"));
    }
}
