//! Frames of the client: one goes in, at most one event comes out. Every rule that a frame can break is here, with
//! the kind of end that RFC 9113 gives it.

use super::{Connection, Event, LEAVING_PING, Stage};
use crate::StreamId;
use crate::error::{ErrorCode, Violation, broken};
use crate::frame::{self, FrameHead, flag, kind, setting};
use crate::head::{HeadBuilder, HeadError};
use crate::stream::Stream;
use bytes::{Buf, Bytes, BytesMut};

/// The fields of the first frame of a header block.
#[derive(Clone, Copy, Debug)]
struct BlockHead {
    stream: StreamId,
    last: bool,
    /// Its stream is declared to depend on itself.
    on_itself: bool,
}

/// A header block whose frames have not all arrived.
#[derive(Debug)]
pub struct Block {
    head: BlockHead,
    bytes: BytesMut,
    frames: usize,
}

/// Frames of one block; an honest block is larger than a frame only if it is nearly refused.
const BLOCK_FRAMES_MAX: usize = 16;
/// The cost of a stream that is opened and reset at once: it may have begun work that is useless now.
const RESET_COST: u64 = 10;
/// So many settings, or streams that they concern, cost as much as a ping.
const SETTINGS_PER_CHARGE: u64 = 16;
/// Data that is less than this and not the last of its body costs more than it brings.
const SMALL_DATA_BYTES: usize = 256;
/// The status of an answer to a head that is too large.
const FIELDS_TOO_LARGE: u16 = 431;

impl Connection {
    /// Takes the next event out of the received bytes. `None` when they hold no complete frame any more, or
    /// when the connection has failed.
    pub fn next(&mut self, input: &mut BytesMut) -> Option<Event> {
        while self.stage != Stage::Failed {
            let taken = match next_frame(input) {
                Ok(None) => return None,
                Ok(Some((head, payload))) => self.take_frame(head, payload),
                Err(violation) => Err(violation),
            };
            match taken {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {}
                Err(Violation::Connection(code, words)) => self.fail(code, words),
                Err(Violation::Stream(stream, code)) => {
                    let known = self.streams.contains_key(&stream);
                    self.cut(stream, code);
                    if !self.budget.charge(RESET_COST) {
                        self.fail(ErrorCode::EnhanceYourCalm, "too many streams in error");
                    } else if known {
                        return Some(Event::Reset { stream });
                    }
                }
            }
        }
        None
    }

    fn take_frame(&mut self, head: FrameHead, payload: Bytes) -> Result<Option<Event>, Violation> {
        if self.block.is_some() && head.kind != kind::CONTINUATION {
            return broken(ErrorCode::Protocol, "a block of fields was interrupted");
        }
        if !self.settings_seen && head.kind != kind::SETTINGS {
            return broken(ErrorCode::Protocol, "settings come first");
        }
        match head.kind {
            kind::DATA => self.take_data(head, payload),
            kind::HEADERS => self.take_headers(head, payload),
            kind::CONTINUATION => self.take_continuation(head, payload),
            kind::RST_STREAM => self.take_reset(head, &payload),
            kind::SETTINGS => self.take_settings(head, &payload),
            kind::PING => self.take_ping(head, &payload),
            kind::WINDOW_UPDATE => self.take_window_update(head, &payload),
            kind::PRIORITY => self.take_priority(head, &payload),
            kind::GOAWAY if head.stream != 0 => broken(ErrorCode::Protocol, "GOAWAY on a stream"),
            kind::GOAWAY if payload.len() < 8 => broken(ErrorCode::FrameSize, "GOAWAY"),
            kind::PUSH_PROMISE => broken(ErrorCode::Protocol, "clients do not push"),
            // A client that leaves closes the connection when it has its answers. Unknown frames are ignored.
            _ => self.charge(1),
        }
    }

    fn charge(&mut self, cost: u64) -> Result<Option<Event>, Violation> {
        if self.budget.charge(cost) {
            Ok(None)
        } else {
            broken(ErrorCode::EnhanceYourCalm, "too many frames that say nothing")
        }
    }

    /// A stream that has not been begun cannot have any of these frames.
    fn begun(&self, head: FrameHead) -> Result<StreamId, Violation> {
        let stream = StreamId(head.stream);
        if head.stream != 0 && stream <= self.highest && !head.stream.is_multiple_of(2) {
            Ok(stream)
        } else {
            broken(ErrorCode::Protocol, "a frame of a stream that was not begun")
        }
    }

    fn take_data(&mut self, head: FrameHead, payload: Bytes) -> Result<Option<Event>, Violation> {
        let stream = self.begun(head)?;
        let whole = head.len as u32;
        self.receive_window = match self.receive_window.checked_sub(whole) {
            Some(left) => left,
            None => return broken(ErrorCode::FlowControl, "more data than the connection's window"),
        };
        let data = head.content(payload)?;
        let last = head.has(flag::END_STREAM);
        // The connection's window is the size of the pipe. What streams hold is bounded by theirs.
        self.credit(whole);
        let Some(state) = self.streams.get_mut(&stream) else {
            return if self.cut.contains(&stream) {
                Ok(None)
            } else {
                Err(Violation::Stream(stream, ErrorCode::StreamClosed))
            };
        };
        // Held until it is consumed, whatever follows; the padding is consumed at once.
        state.held += whole;
        self.held += head.len;
        if !state.receiving {
            return Err(Violation::Stream(stream, ErrorCode::StreamClosed));
        }
        state.receive_window = match state.receive_window.checked_sub(whole) {
            Some(left) => left,
            None => return Err(Violation::Stream(stream, ErrorCode::FlowControl)),
        };
        if !state.count_body(data.len(), last) {
            return Err(Violation::Stream(stream, ErrorCode::Protocol));
        }
        state.receiving = !last;
        if state.ended {
            let much = state.receive_window < self.limits.stream_window_bytes / 2;
            return self.pass_over(stream, last, much);
        }
        self.consume(stream, head.len - data.len());
        if last {
            self.stop_extending(stream)
        } else {
            self.extend_if_low(stream)
        }
        if !last && data.len() < SMALL_DATA_BYTES {
            self.charge(1)?;
        }
        if data.is_empty() && !last {
            return Ok(None);
        }
        Ok(Some(Event::Data { stream, data, last }))
    }

    /// What comes after the whole answer is ignored. A client that sends much of it gets a reset.
    fn pass_over(&mut self, stream: StreamId, last: bool, much: bool) -> Result<Option<Event>, Violation> {
        if last {
            self.forget(stream);
        } else if much {
            self.cut(stream, ErrorCode::NoError);
        }
        self.charge(1)
    }

    fn take_headers(&mut self, head: FrameHead, payload: Bytes) -> Result<Option<Event>, Violation> {
        if head.stream.is_multiple_of(2) {
            return broken(ErrorCode::Protocol, "clients begin streams of odd numbers");
        }
        let on_itself = head.depends_on(&payload) == Some(head.stream);
        let block = head.content(payload)?;
        let (stream, last) = (StreamId(head.stream), head.has(flag::END_STREAM));
        let begun = BlockHead { stream, last, on_itself };
        if head.has(flag::END_HEADERS) {
            return self.take_block(begun, block);
        }
        self.block = Some(Block { head: begun, bytes: BytesMut::from(&*block), frames: 1 });
        Ok(None)
    }

    fn take_continuation(&mut self, head: FrameHead, payload: Bytes) -> Result<Option<Event>, Violation> {
        let Some(mut block) = self.block.take().filter(|block| block.head.stream.0 == head.stream) else {
            return broken(ErrorCode::Protocol, "nothing to continue");
        };
        block.bytes.extend_from_slice(&payload);
        block.frames += 1;
        // Compression makes blocks smaller than their fields, so twice as much is out of the question.
        let bytes_max = 2 * self.limits.header_list_bytes_max as usize;
        if block.frames > BLOCK_FRAMES_MAX || block.bytes.len() > bytes_max.max(frame::PAYLOAD_BYTES_MAX) {
            return broken(ErrorCode::EnhanceYourCalm, "a block of fields without end");
        }
        if head.has(flag::END_HEADERS) {
            return self.take_block(block.head, block.bytes.freeze());
        }
        self.block = Some(block);
        Ok(None)
    }

    /// The fields must be decoded in any case: the table depends on them.
    fn take_block(&mut self, head: BlockHead, block: Bytes) -> Result<Option<Event>, Violation> {
        let BlockHead { stream, last, on_itself } = head;
        let mut draft = HeadBuilder::new(self.limits.header_list_bytes_max as usize);
        if self.decoder.decode(block, |field| draft.add(field)).is_err() {
            return broken(ErrorCode::Compression, "fields that cannot be decoded");
        }
        if stream <= self.highest {
            return self.take_trailers(stream, last, draft);
        }
        self.highest = stream;
        if on_itself {
            return Err(Violation::Stream(stream, ErrorCode::Protocol));
        }
        if self.stage == Stage::Left || self.streams.len() >= self.limits.streams_max as usize {
            return Err(Violation::Stream(stream, ErrorCode::RefusedStream));
        }
        let (head, length) = match draft.finish() {
            Ok(finished) => finished,
            Err(HeadError::Malformed) => return Err(Violation::Stream(stream, ErrorCode::Protocol)),
            Err(HeadError::TooLarge) => {
                self.begin(stream, last, None);
                self.put_block(stream, true, Some(FIELDS_TOO_LARGE), []);
                self.finish(stream);
                return self.charge(RESET_COST);
            }
        };
        if last && length.is_some_and(|length| length > 0) {
            return Err(Violation::Stream(stream, ErrorCode::Protocol));
        }
        self.begin(stream, last, length);
        Ok(Some(Event::Request { stream, head, last }))
    }

    fn begin(&mut self, stream: StreamId, last: bool, length: Option<u64>) {
        let state = Stream::new(self.stream_window, self.limits.stream_window_bytes, !last, length);
        self.streams.insert(stream, state);
    }

    /// A second block of a stream ends its request. Its fields are not used here.
    fn take_trailers(
        &mut self,
        stream: StreamId,
        last: bool,
        draft: HeadBuilder,
    ) -> Result<Option<Event>, Violation> {
        let Some(state) = self.streams.get_mut(&stream) else {
            return if self.cut.contains(&stream) {
                Ok(None)
            } else {
                broken(ErrorCode::StreamClosed, "fields on a stream that is over")
            };
        };
        if !state.receiving {
            return Err(Violation::Stream(stream, ErrorCode::StreamClosed));
        }
        if !last || !state.count_body(0, true) || draft.finish_trailers().is_err() {
            return Err(Violation::Stream(stream, ErrorCode::Protocol));
        }
        state.receiving = false;
        if state.ended {
            return self.pass_over(stream, true, false);
        }
        self.stop_extending(stream);
        Ok(Some(Event::Data { stream, data: Bytes::new(), last: true }))
    }

    fn take_reset(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Violation> {
        frame::number(payload)?;
        let stream = self.begun(head)?;
        let Some(state) = self.streams.get(&stream) else {
            // Nothing that was under way before can follow.
            self.cut.retain(|cut| *cut != stream);
            return self.charge(1);
        };
        if state.ended {
            return self.pass_over(stream, true, false);
        }
        self.forget(stream);
        self.charge(RESET_COST)?;
        Ok(Some(Event::Reset { stream }))
    }

    fn take_settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Violation> {
        if head.stream != 0 {
            return broken(ErrorCode::Protocol, "settings of a stream");
        }
        if head.has(flag::ACK) {
            return if payload.is_empty() && self.settings_seen {
                self.charge(1)
            } else {
                broken(ErrorCode::FrameSize, "an acknowledgement that says more")
            };
        }
        if !payload.len().is_multiple_of(6) {
            return broken(ErrorCode::FrameSize, "half a setting");
        }
        self.settings_seen = true;
        let pairs = payload.chunks_exact(6);
        let mut cost = 1 + pairs.len() as u64 / SETTINGS_PER_CHARGE;
        let mut window = None;
        for pair in pairs {
            let id = u16::from_be_bytes([pair[0], pair[1]]);
            self.take_setting(id, frame::number(&pair[2..])?, &mut window)?;
        }
        // The last of several counts, and every stream is visited once.
        if let Some(window) = window {
            cost += self.streams.len() as u64 / SETTINGS_PER_CHARGE;
            self.move_windows(window)?;
        }
        self.acknowledge_settings();
        self.charge(cost)
    }

    fn take_setting(&mut self, id: u16, value: u32, window: &mut Option<i64>) -> Result<(), Violation> {
        match id {
            setting::HEADER_TABLE_SIZE => self.encoder.limit(value as usize),
            setting::ENABLE_PUSH if value > 1 => return broken(ErrorCode::Protocol, "ENABLE_PUSH"),
            setting::INITIAL_WINDOW_SIZE if value > frame::WINDOW_MAX => {
                return broken(ErrorCode::FlowControl, "INITIAL_WINDOW_SIZE");
            }
            setting::INITIAL_WINDOW_SIZE => *window = Some(i64::from(value)),
            setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                return broken(ErrorCode::Protocol, "MAX_FRAME_SIZE");
            }
            // We send no larger frames than every peer accepts, and push nothing.
            _ => {}
        }
        Ok(())
    }

    /// Every window of a stream moves with the setting that it began with.
    fn move_windows(&mut self, to: i64) -> Result<(), Violation> {
        let by = to - self.stream_window;
        self.stream_window = to;
        for (id, stream) in &mut self.streams {
            stream.window += by;
            if stream.window > i64::from(frame::WINDOW_MAX) {
                return broken(ErrorCode::FlowControl, "a window larger than windows are");
            }
            list(&mut self.ready, *id, stream);
        }
        Ok(())
    }

    fn take_ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Violation> {
        if head.stream != 0 {
            return broken(ErrorCode::Protocol, "a ping of a stream");
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return broken(ErrorCode::FrameSize, "a ping takes eight bytes");
        };
        if !head.has(flag::ACK) {
            frame::put_ping(payload, flag::ACK, &mut self.output);
        } else if payload == LEAVING_PING && self.stage == Stage::Leaving {
            self.stage = Stage::Left;
            frame::put_go_away(self.highest.0, ErrorCode::NoError, "", &mut self.output);
        }
        self.charge(1)
    }

    fn take_window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Violation> {
        let more = i64::from(frame::number(payload)? & frame::WINDOW_MAX);
        if head.stream == 0 {
            self.window += more;
            return if more == 0 {
                broken(ErrorCode::Protocol, "a window that grows by nothing")
            } else if self.window <= i64::from(frame::WINDOW_MAX) {
                self.charge(1)
            } else {
                broken(ErrorCode::FlowControl, "a window larger than windows are")
            };
        }
        let stream = self.begun(head)?;
        let Some(state) = self.streams.get_mut(&stream) else { return self.charge(1) };
        state.window += more;
        if more == 0 {
            return Err(Violation::Stream(stream, ErrorCode::Protocol));
        }
        if state.window > i64::from(frame::WINDOW_MAX) {
            return Err(Violation::Stream(stream, ErrorCode::FlowControl));
        }
        list(&mut self.ready, stream, state);
        self.charge(1)
    }

    fn take_priority(&mut self, head: FrameHead, payload: &[u8]) -> Result<Option<Event>, Violation> {
        if head.stream == 0 {
            return broken(ErrorCode::Protocol, "a priority of no stream");
        }
        if payload.len() != 5 {
            return broken(ErrorCode::FrameSize, "a priority takes five bytes");
        }
        if frame::dependency(payload) == Some(head.stream) {
            return Err(Violation::Stream(StreamId(head.stream), ErrorCode::Protocol));
        }
        self.charge(1)
    }
}

/// Puts a stream that can send again among those that do.
fn list(ready: &mut std::collections::VecDeque<StreamId>, id: StreamId, stream: &mut Stream) {
    let waits = stream.outgoing.as_ref().is_some_and(|outgoing| !outgoing.is_drained());
    if waits && stream.window > 0 && !stream.listed {
        stream.listed = true;
        ready.push_back(id);
    }
}

fn next_frame(input: &mut BytesMut) -> Result<Option<(FrameHead, Bytes)>, Violation> {
    let Some(bytes) = input.first_chunk::<{ frame::HEAD_BYTES }>() else { return Ok(None) };
    let head = FrameHead::parse(bytes);
    if head.len > frame::PAYLOAD_BYTES_MAX {
        return broken(ErrorCode::FrameSize, "a frame larger than was allowed");
    }
    if input.len() < frame::HEAD_BYTES + head.len {
        return Ok(None);
    }
    input.advance(frame::HEAD_BYTES);
    Ok(Some((head, input.split_to(head.len).freeze())))
}
