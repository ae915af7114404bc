//! Counts of what passed between this member and one peer since the process started.
//! Threads add to atomics; a reader gets plain numbers. Counts only grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    pub frames_sent: u64,
    /// Bytes handed to the socket, headers and pings included.
    pub bytes_sent: u64,
    pub frames_received: u64,
    pub bytes_received: u64,
    /// Frames that `send` refused, the peer being away or its queue full.
    pub frames_refused: u64,
    /// Frames that were queued or being written when their stream broke.
    pub frames_dropped: u64,
    /// Streams to the peer that came up.
    pub connects: u64,
}

#[derive(Default)]
pub(super) struct PeerCounters {
    frames_sent: AtomicU64,
    bytes_sent: AtomicU64,
    frames_received: AtomicU64,
    bytes_received: AtomicU64,
    frames_refused: AtomicU64,
    frames_dropped: AtomicU64,
    connects: AtomicU64,
    connected_at: Mutex<Option<Instant>>,
}

impl PeerCounters {
    pub fn add_sent(&self, frames: usize, bytes: usize) {
        add(&self.frames_sent, frames);
        add(&self.bytes_sent, bytes);
    }

    pub fn add_received(&self, frames: usize, bytes: u64) {
        add(&self.frames_received, frames);
        self.bytes_received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn add_refused(&self, frames: usize) {
        add(&self.frames_refused, frames);
    }

    pub fn add_dropped(&self, frames: usize) {
        add(&self.frames_dropped, frames);
    }

    pub fn add_connect(&self) {
        add(&self.connects, 1);
        *self.connected_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Since the last stream came up.
    pub fn connected_for(&self) -> Option<Duration> {
        self.connected_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    pub fn read(&self) -> PeerCounts {
        PeerCounts {
            frames_sent: self.frames_sent.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            frames_received: self.frames_received.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
            frames_refused: self.frames_refused.load(Ordering::Relaxed),
            frames_dropped: self.frames_dropped.load(Ordering::Relaxed),
            connects: self.connects.load(Ordering::Relaxed),
        }
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
