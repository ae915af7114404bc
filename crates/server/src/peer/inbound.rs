//! Which stream of a peer is read: the newest, after the reader of the older has finished.
//! A newer stream cuts the older off and waits for its reader, so that frames of two streams never mix; at
//! most one reader works and one waits, however often the peer dials.

use super::cut;
use std::io;
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, MutexGuard};

pub(super) struct Inbound {
    state: Mutex<InboundState>,
    turn_over: Condvar,
}

#[derive(Default)]
struct InboundState {
    /// Counts the streams that came; the newest has this number.
    newest: u64,
    stream: Option<TcpStream>,
    reading: bool,
}

/// The right to read. It is given back when dropped.
pub(super) struct ReadTurn<'a> {
    inbound: &'a Inbound,
    number: u64,
}

impl Inbound {
    pub fn new() -> Inbound {
        Inbound { state: Mutex::default(), turn_over: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, InboundState> {
        self.state.lock().expect("no thread panics while it holds a peer's turn")
    }

    /// Waits for the turn of this stream; none if a newer one came meanwhile.
    pub fn take_turn(&self, stream: &TcpStream) -> io::Result<Option<ReadTurn<'_>>> {
        let clone = stream.try_clone()?;
        let mut state = self.lock();
        state.newest += 1;
        let number = state.newest;
        if let Some(older) = state.stream.replace(clone) {
            cut(&older);
        }
        // A reader that waited for its turn learns that its stream is no longer the newest.
        self.turn_over.notify_all();
        while state.reading && state.newest == number {
            state = self.turn_over.wait(state).expect("no thread panics while it holds a peer's turn");
        }
        if state.newest != number {
            return Ok(None);
        }
        state.reading = true;
        Ok(Some(ReadTurn { inbound: self, number }))
    }

    /// Ends the stream that is read, as if it had broken. False if there is none, or it was ended before.
    pub fn close(&self) -> bool {
        let stream = self.lock().stream.take();
        if let Some(stream) = &stream {
            cut(stream);
        }
        stream.is_some()
    }

    /// Ends the stream that is read, and the wait of one that is not yet.
    pub fn cut(&self) {
        let mut state = self.lock();
        state.newest += 1;
        if let Some(stream) = state.stream.take() {
            cut(&stream);
        }
        self.turn_over.notify_all();
    }
}

impl ReadTurn<'_> {
    /// Whether a newer stream of the same peer has come.
    pub fn replaced(&self) -> bool {
        self.inbound.lock().newest != self.number
    }
}

impl Drop for ReadTurn<'_> {
    fn drop(&mut self) {
        let mut state = self.inbound.lock();
        state.reading = false;
        if state.newest == self.number {
            state.stream = None;
        }
        self.inbound.turn_over.notify_all();
    }
}
