//! The end of a stream at which envelopes are written, by one thread at a time: the peer's own, which may wait for
//! the socket, or a sender that finds the writer free, which may not.
//! The thread with the writer takes all that waits in the outbox, so frames leave in the order in which they came. An
//! envelope that the socket took in part is finished before the next is begun.

use super::counters::PeerCounters;
use super::envelope;
use super::outbox::{Batch, Outbox};
use super::wire::TlsSession;
use base::limits::ENVELOPE_BYTES_SOFT;
use bytes::Bytes;
use rustix::net::SendFlags;
use std::io::{self, Write};
use std::net::TcpStream;

/// The buffer goes back to this after an unusually large envelope.
const BUFFER_BYTES_KEPT: usize = 2 * ENVELOPE_BYTES_SOFT;

pub(super) struct EnvelopeWriter {
    stream: TcpStream,
    /// Names the stream in the outbox.
    number: u64,
    /// Where in the stream everything ends that was encoded so far.
    end: u64,
    /// Bytes for the socket.
    buffer: Vec<u8>,
    /// With TLS, the bytes that are encrypted next.
    seal: Option<(TlsSession, Vec<u8>)>,
    /// The error after which nothing can be encrypted any more.
    broken: Option<io::Error>,
    /// Frames in the buffer.
    frames: usize,
    /// How much of the buffer the socket has taken.
    taken: usize,
    batch: Batch,
}

impl EnvelopeWriter {
    pub fn new(stream: TcpStream, seal: Option<TlsSession>, number: u64) -> EnvelopeWriter {
        EnvelopeWriter {
            stream,
            number,
            end: 0,
            buffer: Vec::new(),
            seal: seal.map(|seal| (seal, Vec::new())),
            broken: None,
            frames: 0,
            taken: 0,
            batch: Batch::default(),
        }
    }

    /// Encodes one envelope of what the outbox holds, with bulk or without.
    pub fn fill(&mut self, outbox: &Outbox, bulk: bool) {
        outbox.take(self.number, &mut self.batch, bulk);
        if !self.batch.frames.is_empty() {
            let frames = std::mem::take(&mut self.batch.frames);
            self.encode(&frames);
            self.frames += frames.len();
            self.batch.frames = frames;
        }
        if self.batch.bulk_bytes > 0 {
            outbox.bulk_leaves(self.number, self.end, self.batch.bulk_bytes);
        }
        // The frames' memory is not ours to hold while we wait for the next.
        self.batch.frames.clear();
    }

    /// Encodes a ping, and answers where it ends.
    pub fn fill_ping(&mut self) -> u64 {
        self.encode(&[]);
        self.end
    }

    /// Appends an envelope to the buffer; with TLS, encrypted.
    fn encode(&mut self, frames: &[Bytes]) {
        let Some((seal, envelope)) = &mut self.seal else {
            let start = self.buffer.len();
            envelope::encode(frames, &mut self.buffer);
            self.end += (self.buffer.len() - start) as u64;
            return;
        };
        envelope.clear();
        envelope.shrink_to(BUFFER_BYTES_KEPT);
        envelope::encode(frames, envelope);
        self.end += envelope.len() as u64;
        self.broken = seal.seal(envelope, &mut self.buffer).err();
    }

    /// Waits until the socket has taken everything.
    pub fn write(&mut self, counters: &PeerCounters) -> io::Result<()> {
        let written = match self.broken.take() {
            None => (&mut &self.stream).write_all(&self.buffer[self.taken..]),
            Some(error) => Err(error),
        };
        match written {
            Ok(()) => self.written(counters),
            Err(_) => counters.add_dropped(self.frames),
        }
        written
    }

    /// Gives the socket what it takes without waiting. Returns whether that was everything; the thread that writes next
    /// meets the error.
    pub fn write_at_once(&mut self, counters: &PeerCounters) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let rest = &self.buffer[self.taken..];
        match rustix::net::send(&self.stream, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(taken) if taken == rest.len() => {
                self.written(counters);
                true
            }
            Ok(taken) => {
                self.taken += taken;
                false
            }
            Err(_) => false,
        }
    }

    pub fn is_done(&self) -> bool {
        self.buffer.is_empty() && self.broken.is_none()
    }

    fn written(&mut self, counters: &PeerCounters) {
        counters.add_sent(self.frames, self.buffer.len());
        self.frames = 0;
        self.taken = 0;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
    }
}
