//! Windows of streams that are extended before what they hold is consumed: a request that is larger than a stream's
//! window must be able to arrive completely. Extensions are given in steps and bounded in sum, in the order in which streams
//! began. The first in line always gets its next step, so one request after the other becomes complete, however many come
//! at once.

use super::Connection;
use crate::{StreamId, frame};
use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct WindowExtensions {
    /// What was given and not returned.
    total: u32,
    /// Streams that need, or have needed, more than their window, until they have ended.
    large: BTreeSet<StreamId>,
    /// The streams whose window is low.
    waiting: BTreeSet<StreamId>,
    /// While memory is scarce nothing is given.
    scarce: bool,
}

impl Connection {
    /// Bytes of requests that were handed out and not consumed.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The stream that holds most of it.
    pub fn largest(&self) -> Option<StreamId> {
        let (stream, state) = self.streams.iter().max_by_key(|(_, state)| state.held)?;
        (state.held > 0).then_some(*stream)
    }

    /// Whether the head of this stream's answer is out.
    pub fn is_answered(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_none_or(|state| state.answered)
    }

    /// While memory is scarce no window is extended.
    pub fn set_scarce(&mut self, scarce: bool) {
        self.extensions.scarce = scarce;
        self.extend();
    }

    /// Data has come on a stream: when half of its window is used, and not consumed, it needs more.
    pub(super) fn extend_if_low(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get(&stream) else { return };
        let low = state.receive_window + state.uncredited <= self.limits.stream_window_bytes / 2;
        if low && self.extensions.waiting.insert(stream) {
            self.extensions.large.insert(stream);
            self.extend();
        }
    }

    /// The stream needs no more.
    pub(super) fn stop_extending(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let extended = std::mem::take(&mut state.extended);
        self.end_extension(stream, extended);
    }

    pub(super) fn end_extension(&mut self, stream: StreamId, extended: u32) {
        if self.extensions.large.remove(&stream) {
            self.extensions.waiting.remove(&stream);
            self.return_extension(extended);
        }
    }

    /// So much of what streams were given in advance has been consumed.
    pub(super) fn return_extension(&mut self, bytes: u32) {
        self.extensions.total -= bytes;
        self.extend();
    }

    fn extend(&mut self) {
        if self.extensions.scarce || self.extensions.waiting.is_empty() {
            return;
        }
        if let Some(first) = self.extensions.large.first().copied()
            && self.extensions.waiting.remove(&first)
        {
            self.extend_one(first);
        }
        let step = self.limits.extension_step_bytes;
        while self.extensions.total + step <= self.limits.extension_bytes_max
            && let Some(next) = self.extensions.waiting.pop_first()
        {
            self.extend_one(next);
        }
    }

    fn extend_one(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let step = self.limits.extension_step_bytes;
        if state.receive_window > frame::WINDOW_MAX - step {
            return;
        }
        state.receive_window += step;
        state.extended += step;
        self.extensions.total += step;
        frame::put_window_update(stream.0, step, &mut self.output);
    }
}
