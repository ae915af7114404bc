//! The bounded queue between the threads that log and the thread that writes.
//! Lines go in without waiting, whatever the sink does; they come out in order, or not at all. Memory is bounded
//! by the number of lines and the length of each.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

const LINES_MAX: usize = 4_096;
const LINE_BYTES_MAX: usize = 8 * 1024;
/// How long an urgent line is waited for.
const URGENT_TIMEOUT: Duration = Duration::from_millis(200);
/// How often a flush tries again while the queue is full.
const FLUSH_RETRY: Duration = Duration::from_millis(1);

#[derive(Clone)]
pub struct Queue {
    items: SyncSender<QueueItem>,
    dropped: Arc<AtomicU64>,
    stuck: Arc<AtomicBool>,
}

enum QueueItem {
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Flush(SyncSender<()>),
}

impl Queue {
    pub fn start(sink: impl Write + Send + 'static) -> io::Result<Queue> {
        let (items, received) = sync_channel(LINES_MAX);
        let queue = Queue { items, dropped: Arc::default(), stuck: Arc::default() };
        let (dropped, stuck) = (queue.dropped.clone(), queue.stuck.clone());
        let writer = thread::Builder::new().name("log".to_owned());
        writer.spawn(move || drain(received, &dropped, &stuck, sink))?;
        Ok(queue)
    }

    pub fn writer(&self) -> QueueWriter<'_> {
        QueueWriter { queue: self, urgent: false }
    }

    /// Its lines are waited for, briefly, unless the sink is known to be stuck.
    pub fn urgent_writer(&self) -> QueueWriter<'_> {
        QueueWriter { queue: self, urgent: true }
    }

    /// Waits until what is queued has been written, but never longer than this. True when it was written.
    pub fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let (done, written) = sync_channel(1);
        let mut request = QueueItem::Flush(done);
        while let Err(TrySendError::Full(back)) = self.items.try_send(request) {
            if Instant::now() >= deadline {
                return false;
            }
            request = back;
            thread::sleep(FLUSH_RETRY);
        }
        written.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }

    /// After a timeout the sink is not waited for again until it has taken a line.
    fn flush_unless_stuck(&self) {
        if !self.stuck.load(Ordering::Relaxed) && !self.flush(URGENT_TIMEOUT) {
            self.stuck.store(true, Ordering::Relaxed);
        }
    }

    fn push(&self, line: &[u8]) {
        let line = &line[..line.len().min(LINE_BYTES_MAX)];
        if let Err(TrySendError::Full(_)) = self.items.try_send(QueueItem::Line(line.to_vec())) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes one event, which the formatter writes in one piece.
pub struct QueueWriter<'a> {
    queue: &'a Queue,
    urgent: bool,
}

impl Write for QueueWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(line);
        if self.urgent {
            self.queue.flush_unless_stuck();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn drain(items: Receiver<QueueItem>, dropped: &AtomicU64, stuck: &AtomicBool, mut sink: impl Write) {
    for item in items {
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            // An error cannot be reported anywhere; later lines may succeed.
            let _ = writeln!(sink, "{lost} log lines were dropped because the reader was too slow");
        }
        match item {
            QueueItem::Line(line) => drop(sink.write_all(&line)),
            QueueItem::Flush(done) => drop(done.send(())),
        }
        stuck.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A sink that takes nothing until its gate is opened.
    struct Gated {
        gate: Option<Receiver<()>>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if let Some(gate) = self.gate.take() {
                let _ = gate.recv();
            }
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn patient() -> Duration {
        Duration::from_secs(60)
    }

    #[test]
    fn a_sink_that_takes_nothing_blocks_no_writer_and_the_loss_is_logged() {
        let (open, gate) = sync_channel(1);
        let written = Arc::new(Mutex::new(vec![]));
        let queue = Queue::start(Gated { gate: Some(gate), written: written.clone() }).unwrap();
        for _ in 0..LINES_MAX + 100 {
            queue.writer().write_all(b"line\n").unwrap();
        }
        let lost = queue.dropped.load(Ordering::Relaxed);
        assert!((99..=100).contains(&lost), "{lost}: the thread may hold one line in its hands");

        open.send(()).unwrap();
        assert!(queue.flush(patient()));
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert!(text.contains("log lines were dropped because the reader was too slow"), "{}", text.len());
        assert_eq!(text.matches("line\n").count(), LINES_MAX + 100 - lost as usize);
    }

    #[test]
    fn lines_come_out_in_order_and_cut_to_their_bound() {
        let written = Arc::new(Mutex::new(vec![]));
        let queue = Queue::start(Gated { gate: None, written: written.clone() }).unwrap();
        queue.writer().write_all(b"first\n").unwrap();
        queue.writer().write_all(&[b'x'; LINE_BYTES_MAX + 1]).unwrap();
        assert!(queue.flush(patient()));
        let written = written.lock().unwrap();
        assert!(written.starts_with(b"first\n"));
        assert_eq!(written.len(), "first\n".len() + LINE_BYTES_MAX);
    }

    #[test]
    fn an_urgent_line_is_out_when_it_is_written() {
        let written = Arc::new(Mutex::new(vec![]));
        let queue = Queue::start(Gated { gate: None, written: written.clone() }).unwrap();
        queue.urgent_writer().write_all(b"the end\n").unwrap();
        assert_eq!(*written.lock().unwrap(), b"the end\n");
    }

    #[test]
    fn a_stuck_sink_is_waited_for_once() {
        let (open, gate) = sync_channel(1);
        let queue = Queue::start(Gated { gate: Some(gate), written: Arc::default() }).unwrap();
        queue.urgent_writer().write_all(b"waited for in vain\n").unwrap();
        assert!(queue.stuck.load(Ordering::Relaxed));
        queue.urgent_writer().write_all(b"not waited for\n").unwrap();
        open.send(()).unwrap();
        assert!(queue.flush(patient()));
        queue.urgent_writer().write_all(b"waited for again\n").unwrap();
        assert!(!queue.stuck.load(Ordering::Relaxed));
    }
}
