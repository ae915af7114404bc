//! What waits to be written to one peer: urgent frames first, those of the data plane and bulk in small quanta behind
//! them.
//! Any thread puts frames in without waiting (bulk senders wait for space), one writer takes batches out.
//! Frames are bound to the stream that was open when they came: closing it drops them all.

use super::BulkError;
use super::envelope::{FRAME_BYTES_MAX, FRAMES_MAX};
use base::limits::{ENVELOPE_BYTES_SOFT, PEER_QUEUE_FRAMES, PROPOSALS_WAITING_BYTES_MAX};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Bytes queued towards one peer: all the proposals that may wait in this process.
const QUEUE_BYTES_MAX: usize = PROPOSALS_WAITING_BYTES_MAX;
/// Frames of the data plane queued towards one peer, and their bytes; what does not fit is lost, as on a network.
const DATA_FRAMES_MAX: usize = 65_536;
const DATA_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much of them joins one envelope, so that urgent frames get their turn.
const DATA_QUANTUM_BYTES: usize = 256 * 1024;
/// Bulk frames that wait for the writer; their senders wait beyond that.
const BULK_QUEUE_FRAMES: usize = 2;
/// Bulk and frames of the data plane, written but not yet acknowledged. An urgent frame waits behind this much at most, however large the
/// socket buffers have grown.
const BULK_WINDOW_BYTES: usize = 1024 * 1024;

pub(super) struct Outbox {
    state: Mutex<OutboxState>,
    /// The writer waits here for frames.
    work: Condvar,
    /// Bulk senders wait here for space.
    has_space: Condvar,
}

#[derive(Default)]
struct OutboxState {
    open: bool,
    /// Counts the streams; it names the one that is open or was open last.
    stream: u64,
    urgent: VecDeque<Bytes>,
    urgent_bytes: usize,
    data: VecDeque<Bytes>,
    data_bytes: usize,
    bulk: VecDeque<Bytes>,
    /// Bulk and data on the way: where in the stream each piece ends, and its length.
    unacknowledged: VecDeque<(u64, usize)>,
    unacknowledged_bytes: usize,
    /// Waking a thread costs a system call, so it is done only when the writer sleeps.
    writer_sleeps: bool,
    /// The writer must wake although there may be nothing to take.
    wake_requested: bool,
}

/// What the writer takes for one envelope.
#[derive(Default)]
pub(super) struct Batch {
    pub frames: Vec<Bytes>,
    /// The bytes of the frames that urgent ones must not wait behind.
    pub bulk_bytes: usize,
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox { state: Mutex::default(), work: Condvar::new(), has_space: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().expect("no thread panics while it holds the outbox")
    }

    /// A new stream is up; the number names it.
    pub fn open(&self) -> u64 {
        let mut state = self.lock();
        *state = OutboxState { open: true, stream: state.stream + 1, ..OutboxState::default() };
        state.stream
    }

    /// The stream of this number is gone. Returns how many frames went with it.
    pub fn close(&self, stream: u64) -> usize {
        let mut state = self.lock();
        if state.stream != stream || !state.open {
            return 0;
        }
        let dropped = state.urgent.len() + state.data.len() + state.bulk.len();
        *state = OutboxState { stream, ..OutboxState::default() };
        self.work.notify_all();
        self.has_space.notify_all();
        dropped
    }

    /// The number of the open stream.
    pub fn stream(&self) -> Option<u64> {
        let state = self.lock();
        state.open.then_some(state.stream)
    }

    /// All or nothing, and never waits. A caller that does not wake the writer writes the frames itself.
    pub fn send(&self, frames: Vec<Bytes>, wake: bool) -> bool {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        assert!(
            frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX),
            "a frame of the node crate fits into an envelope"
        );
        let mut state = self.lock();
        let fits = state.urgent.len() + frames.len() <= PEER_QUEUE_FRAMES
            && state.urgent_bytes + bytes <= QUEUE_BYTES_MAX;
        // An empty queue takes anything: what is refused there would be refused for ever.
        if !state.open || !(fits || state.urgent.is_empty()) {
            return false;
        }
        state.urgent_bytes += bytes;
        state.urgent.extend(frames);
        if wake {
            self.wake_writer(state);
        }
        true
    }

    /// For frames of the data plane, each a small piece. All or none are queued; never blocks.
    pub fn send_data(&self, frames: Vec<Bytes>, wake: bool) -> bool {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        let mut state = self.lock();
        let fits =
            state.data.len() + frames.len() <= DATA_FRAMES_MAX && state.data_bytes + bytes <= DATA_BYTES_MAX;
        if !state.open || !(fits || state.data.is_empty()) {
            return false;
        }
        state.data_bytes += bytes;
        state.data.extend(frames);
        if wake {
            self.wake_writer(state);
        }
        true
    }

    /// Whether frames wait that could be written now.
    pub fn has_ready(&self) -> bool {
        let state = self.lock();
        !state.urgent.is_empty() || !state.data.is_empty() && state.has_bulk_capacity()
    }

    /// Leaves the rest to the writer's thread.
    pub fn call_writer(&self) {
        let mut state = self.lock();
        state.wake_requested = true;
        self.wake_writer(state);
    }

    /// Waits for space while `stream` stays open.
    pub fn send_bulk(&self, stream: u64, frame: Bytes, deadline: Instant) -> Result<(), BulkError> {
        assert!(frame.len() <= ENVELOPE_BYTES_SOFT, "bulk goes in pieces smaller than an envelope");
        let mut state = self.lock();
        loop {
            if !state.open || state.stream != stream {
                return Err(BulkError::Lost);
            }
            if state.bulk.len() < BULK_QUEUE_FRAMES {
                state.bulk.push_back(frame);
                self.wake_writer(state);
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(BulkError::Deadline);
            }
            state = self
                .has_space
                .wait_timeout(state, left)
                .expect("no thread panics while it holds the outbox")
                .0;
        }
    }

    fn wake_writer(&self, mut state: MutexGuard<'_, OutboxState>) {
        let sleeps = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if sleeps {
            self.work.notify_one();
        }
    }

    /// The writer's side: waits until there is something to write or the time has come. False when the stream is no
    /// longer the open one.
    pub fn wait(&self, stream: u64, until: Instant) -> bool {
        let mut state = self.lock();
        loop {
            if !state.open || state.stream != stream {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.has_work() || left.is_zero() {
                state.wake_requested = false;
                return true;
            }
            state.writer_sleeps = true;
            state =
                self.work.wait_timeout(state, left).expect("no thread panics while it holds the outbox").0;
            state.writer_sleeps = false;
        }
    }

    /// Takes what one envelope may hold.
    pub fn take(&self, stream: u64, batch: &mut Batch, bulk: bool) {
        batch.frames.clear();
        batch.bulk_bytes = 0;
        let mut state = self.lock();
        if state.open && state.stream == stream {
            state.take_urgent(batch);
            state.take_data(batch);
            if bulk && state.take_bulk(batch) {
                self.has_space.notify_one();
            }
        }
    }

    /// The writer is about to write bulk that ends at `end` of the stream.
    pub fn bulk_leaves(&self, stream: u64, end: u64, bytes: usize) {
        let mut state = self.lock();
        if state.stream == stream {
            state.unacknowledged.push_back((end, bytes));
            state.unacknowledged_bytes += bytes;
        }
    }

    /// The peer has taken everything up to `end` of the stream.
    pub fn acknowledged(&self, stream: u64, end: u64) {
        let mut state = self.lock();
        if state.stream != stream {
            return;
        }
        while let Some((_, bytes)) = state.unacknowledged.pop_front_if(|(piece_end, _)| *piece_end <= end) {
            state.unacknowledged_bytes -= bytes;
        }
        if !state.bulk.is_empty() || !state.data.is_empty() {
            self.wake_writer(state);
        }
    }
}

impl OutboxState {
    fn has_work(&self) -> bool {
        let waits = !self.bulk.is_empty() || !self.data.is_empty();
        self.wake_requested || !self.urgent.is_empty() || (waits && self.has_bulk_capacity())
    }

    fn has_bulk_capacity(&self) -> bool {
        self.unacknowledged_bytes < BULK_WINDOW_BYTES
    }

    fn take_urgent(&mut self, batch: &mut Batch) {
        let mut bytes = 0;
        // One place is left for a bulk frame.
        while batch.frames.len() < FRAMES_MAX - 1 {
            let first = batch.frames.is_empty();
            let Some(frame) =
                self.urgent.pop_front_if(|frame| first || bytes + frame.len() <= ENVELOPE_BYTES_SOFT)
            else {
                break;
            };
            bytes += frame.len();
            batch.frames.push(frame);
        }
        self.urgent_bytes -= bytes;
    }

    fn take_data(&mut self, batch: &mut Batch) {
        while batch.frames.len() < FRAMES_MAX - 1
            && batch.bulk_bytes < DATA_QUANTUM_BYTES
            && self.has_bulk_capacity()
            && let Some(frame) = self.data.pop_front()
        {
            self.data_bytes -= frame.len();
            batch.bulk_bytes += frame.len();
            batch.frames.push(frame);
        }
    }

    /// One bulk frame joins an envelope, last: more would hold up the urgent frames that come next, and
    /// none at all would let a busy log starve a snapshot.
    fn take_bulk(&mut self, batch: &mut Batch) -> bool {
        if !self.has_bulk_capacity() {
            return false;
        }
        let Some(frame) = self.bulk.pop_front() else { return false };
        batch.bulk_bytes += frame.len();
        batch.frames.push(frame);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(byte: u8, length: usize) -> Bytes {
        Bytes::from(vec![byte; length])
    }

    fn take(outbox: &Outbox, stream: u64) -> Batch {
        let mut batch = Batch::default();
        assert!(outbox.wait(stream, Instant::now()));
        outbox.take(stream, &mut batch, true);
        batch
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(1)
    }

    #[test]
    fn nothing_is_queued_without_a_stream_and_what_is_queued_goes_with_it() {
        let outbox = Outbox::new();
        assert!(!outbox.send(vec![frame(1, 1)], true));
        let first = outbox.open();
        assert!(outbox.send(vec![frame(1, 1), frame(2, 1)], true));
        assert_eq!(outbox.close(first), 2);
        assert_eq!(outbox.close(first), 0, "closed already");
        let second = outbox.open();
        assert!(take(&outbox, second).frames.is_empty());
        assert_eq!(outbox.send_bulk(first, frame(3, 1), soon()), Err(BulkError::Lost));
        assert_eq!(outbox.close(first), 0, "an older stream's end does not close the newer");
        assert_eq!(outbox.stream(), Some(second));
    }

    #[test]
    fn the_queue_is_bounded_by_frames_and_by_bytes_but_an_empty_one_takes_anything() {
        let outbox = Outbox::new();
        let stream = outbox.open();
        assert!(outbox.send(vec![frame(0, 1); PEER_QUEUE_FRAMES + 1], true));
        assert!(!outbox.send(vec![frame(0, 1)], true));
        while !take(&outbox, stream).frames.is_empty() {}
        let half = frame(0, QUEUE_BYTES_MAX / 2);
        assert!(outbox.send(vec![half.clone()], true));
        assert!(outbox.send(vec![half], true));
        assert!(!outbox.send(vec![frame(0, 1)], true));
    }

    #[test]
    fn an_envelope_takes_a_soft_bound_of_frames_in_order() {
        let outbox = Outbox::new();
        let stream = outbox.open();
        let large = ENVELOPE_BYTES_SOFT / 2;
        assert!(outbox.send(
            vec![frame(1, large), frame(2, large), frame(3, 1), frame(4, 2 * ENVELOPE_BYTES_SOFT)],
            true
        ));
        let firsts = |batch: Batch| batch.frames.iter().map(|frame| frame[0]).collect::<Vec<_>>();
        assert_eq!(firsts(take(&outbox, stream)), [1, 2]);
        assert_eq!(firsts(take(&outbox, stream)), [3]);
        assert_eq!(firsts(take(&outbox, stream)), [4], "a large frame travels alone");
    }

    #[test]
    fn data_comes_behind_what_is_urgent_and_in_quanta() {
        let outbox = Outbox::new();
        assert!(!outbox.send_data(vec![frame(5, 1)], true), "there is no stream");
        let stream = outbox.open();
        assert!(outbox.send_data(vec![frame(5, DATA_QUANTUM_BYTES / 2); 5], true));
        assert!(outbox.send(vec![frame(1, 1)], true));
        let batch = take(&outbox, stream);
        assert_eq!(batch.frames.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [1, 5, 5]);
        assert_eq!(batch.bulk_bytes, DATA_QUANTUM_BYTES);
        outbox.bulk_leaves(stream, 10, BULK_WINDOW_BYTES);
        assert!(take(&outbox, stream).frames.is_empty(), "the window is full");
        outbox.acknowledged(stream, 10);
        assert_eq!(take(&outbox, stream).frames.len(), 2);
        assert_eq!(outbox.close(stream), 1);
    }

    #[test]
    fn bulk_comes_last_one_at_a_time_and_stops_at_the_window() {
        let outbox = Outbox::new();
        let stream = outbox.open();
        let piece = frame(9, BULK_WINDOW_BYTES / 2);
        let mut end = 0;
        for _ in 0..2 {
            outbox.send_bulk(stream, piece.clone(), soon()).unwrap();
            assert!(outbox.send(vec![frame(1, 1)], true));
            let batch = take(&outbox, stream);
            assert_eq!([batch.frames[0][0], batch.frames[1][0]], [1, 9]);
            end += batch.bulk_bytes as u64;
            outbox.bulk_leaves(stream, end, batch.bulk_bytes);
        }
        outbox.send_bulk(stream, piece.clone(), soon()).unwrap();
        outbox.send_bulk(stream, piece.clone(), soon()).unwrap();
        assert_eq!(outbox.send_bulk(stream, piece.clone(), soon()), Err(BulkError::Deadline));
        assert!(take(&outbox, stream).frames.is_empty(), "the window is full");
        assert!(outbox.send(vec![frame(1, 1)], true));
        assert_eq!(take(&outbox, stream).frames.len(), 1, "urgent frames pass");
        outbox.acknowledged(stream, end / 2);
        assert_eq!(take(&outbox, stream).frames.len(), 1, "half a window is free again");
    }
}
