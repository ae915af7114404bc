//! One connection, seen from the server. The shell reads bytes and calls `next` for events until there are none,
//! answers, and writes what has gathered in `output`. A stream is known from its head to its end; after a violation
//! that concerns all of them the connection sends one GOAWAY and ignores the rest.

mod receive;
mod send;
mod windows;

use crate::budget::Budget;
use crate::error::ErrorCode;
use crate::frame::{self, flag, kind, setting};
use crate::hpack::{Decoder, Encoder};
use crate::stream::Stream;
use crate::{Head, StreamId};
use base::Instant;
use bytes::Bytes;
use receive::Block;
use std::collections::{BTreeMap, VecDeque};
use windows::WindowExtensions;

/// What one client may make the server hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams at one time; further ones are refused.
    pub streams_max: u32,
    /// How much of one body the client may send before it is consumed, unless its window is extended.
    pub stream_window_bytes: u32,
    /// How much may be on its way for all streams together; not below the protocol's 65,535.
    pub connection_window_bytes: u32,
    /// By how much a window is extended at a time, and all of them together; see `windows`.
    pub extension_step_bytes: u32,
    pub extension_bytes_max: u32,
    /// The fields of one head, as HTTP/2 measures them.
    pub header_list_bytes_max: u32,
    /// Bodies of answers wait while so much output has gathered.
    pub output_bytes_soft: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request begins, and ends with its head if that is the `last` of it.
    Request { stream: StreamId, head: Head, last: bool },
    /// A part of its body; credit is given back by `consume`.
    Data { stream: StreamId, data: Bytes, last: bool },
    /// The client does not want the answer any more. The stream is unknown from now on.
    Reset { stream: StreamId },
}

#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    output: Vec<u8>,
    decoder: Decoder,
    encoder: Encoder,
    streams: BTreeMap<StreamId, Stream>,
    /// The highest stream that the client has begun.
    highest: StreamId,
    /// What the other side accepts now, in all and on a fresh stream.
    window: i64,
    stream_window: i64,
    /// What the other side may send now, in all; and what of it was consumed and not yet credited.
    receive_window: u32,
    uncredited: u32,
    /// Received and handed out, and not yet consumed, on all streams.
    held: usize,
    extensions: WindowExtensions,
    /// A header block that continues in the next frame.
    block: Option<Block>,
    /// Streams with something to send and a window for it, in turn.
    ready: VecDeque<StreamId>,
    /// Streams whose bodies had to wait and have been sent meanwhile.
    drained: Vec<StreamId>,
    /// Streams that we ended early: what was under way on them is ignored.
    cut: VecDeque<StreamId>,
    /// Streams with a whole answer whose clients have not ended their side, oldest first.
    lingering: VecDeque<StreamId>,
    budget: Budget,
    settings_seen: bool,
    stage: Stage,
}

/// From open to closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The client was asked to open no more streams; those that it opened before it received that are served.
    Leaving,
    /// It has received that: the open streams are the last.
    Left,
    /// Input is ignored.
    Failed,
}

/// How many streams are remembered as cut.
const CUT_MAX: usize = 256;
/// How many streams with a whole answer wait for their clients to end them; older ones are cut.
const LINGERING_MAX: usize = 256;
/// Distinguishes our own ping of the shutdown from others.
const LEAVING_PING: [u8; 8] = *b"leaving!";

impl Connection {
    pub fn new(limits: Limits) -> Connection {
        assert!(limits.connection_window_bytes >= frame::WINDOW_DEFAULT, "it cannot begin lower");
        assert!(limits.connection_window_bytes <= frame::WINDOW_MAX, "windows end here");
        assert!(limits.stream_window_bytes <= frame::WINDOW_MAX, "windows end here");
        let mut output = Vec::new();
        let ours = [
            (setting::MAX_CONCURRENT_STREAMS, limits.streams_max),
            (setting::INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
            (setting::MAX_HEADER_LIST_SIZE, limits.header_list_bytes_max),
        ];
        frame::put_head(6 * ours.len(), kind::SETTINGS, 0, 0, &mut output);
        ours.into_iter().for_each(|(id, value)| frame::put_setting(id, value, &mut output));
        let more = limits.connection_window_bytes - frame::WINDOW_DEFAULT;
        if more > 0 {
            frame::put_window_update(0, more, &mut output);
        }
        Connection {
            limits,
            output,
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            streams: BTreeMap::new(),
            highest: StreamId(0),
            window: i64::from(frame::WINDOW_DEFAULT),
            stream_window: i64::from(frame::WINDOW_DEFAULT),
            receive_window: limits.connection_window_bytes,
            uncredited: 0,
            held: 0,
            extensions: WindowExtensions::default(),
            block: None,
            ready: VecDeque::new(),
            drained: Vec::new(),
            cut: VecDeque::new(),
            lingering: VecDeque::new(),
            budget: Budget::default(),
            settings_seen: false,
            stage: Stage::Open,
        }
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Instant) {
        self.budget.advance(now);
    }

    /// The bytes to be written; the writer drains them.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Pings the client.
    pub fn ping(&mut self) {
        frame::put_ping([0; 8], 0, &mut self.output);
    }

    /// Begins to end the connection: no new streams, but those under way are finished.
    pub fn shut_down(&mut self) {
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Leaving;
        frame::put_go_away(frame::WINDOW_MAX, ErrorCode::NoError, "", &mut self.output);
        // When this ping comes back, everything that was sent before the client knew has arrived, too.
        frame::put_ping(LEAVING_PING, 0, &mut self.output);
    }

    /// Ends the connection now. Streams that the client begins after this were not processed, and it may repeat them.
    pub fn leave(&mut self) {
        if self.stage != Stage::Failed {
            self.fail(ErrorCode::NoError, "");
        }
    }

    /// Whether there is nothing left to do but to write the output.
    pub fn is_over(&self) -> bool {
        match self.stage {
            Stage::Open | Stage::Leaving => false,
            Stage::Left => self.streams.values().all(|stream| stream.ended),
            Stage::Failed => true,
        }
    }

    /// Streams under way.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// So many bytes of a body have been consumed: the client may send as many more.
    pub fn consume(&mut self, stream: StreamId, bytes: usize) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(state.held);
        state.held -= bytes;
        self.held -= bytes as usize;
        if state.receiving {
            // What was given in advance is not given again.
            let advance = bytes.min(state.extended);
            state.extended -= advance;
            state.uncredited += bytes - advance;
            if state.uncredited >= self.limits.stream_window_bytes / 2 {
                let more = std::mem::take(&mut state.uncredited);
                state.receive_window += more;
                frame::put_window_update(stream.0, more, &mut self.output);
            }
            self.return_extension(advance);
        }
    }

    fn credit(&mut self, bytes: u32) {
        self.uncredited += bytes;
        if self.uncredited >= self.limits.connection_window_bytes / 2 {
            let more = std::mem::take(&mut self.uncredited);
            self.receive_window += more;
            frame::put_window_update(0, more, &mut self.output);
        }
    }

    /// Ends a stream before its time.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode) {
        if self.streams.contains_key(&stream) {
            self.cut(stream, code);
        }
    }

    /// Resets a stream, and ignores what the client sent before it knew.
    fn cut(&mut self, stream: StreamId, code: ErrorCode) {
        frame::put_reset(stream.0, code, &mut self.output);
        self.forget(stream);
        if self.cut.len() == CUT_MAX {
            self.cut.pop_front();
        }
        self.cut.push_back(stream);
    }

    fn forget(&mut self, stream: StreamId) {
        if let Some(state) = self.streams.remove(&stream) {
            self.held -= state.held as usize;
            self.end_extension(stream, state.extended);
            if state.outgoing.is_some_and(|outgoing| !outgoing.is_drained()) {
                self.drained.push(stream);
            }
        }
    }

    /// Sends one GOAWAY with the reason, and ignores the rest.
    fn fail(&mut self, code: ErrorCode, words: &'static str) {
        frame::put_go_away(self.highest.0, code, words, &mut self.output);
        self.stage = Stage::Failed;
    }

    fn acknowledge_settings(&mut self) {
        frame::put_head(0, kind::SETTINGS, flag::ACK, 0, &mut self.output);
    }
}

#[cfg(test)]
mod tests;
