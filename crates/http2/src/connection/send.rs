//! Answers: heads, bodies and trailers go in and become frames in the output, as far as the client's windows and
//! the bound of the output go. What does not fit waits in its stream; streams that wait take turns, one frame each.

use super::{Connection, LINGERING_MAX};
use crate::error::ErrorCode;
use crate::frame::{self, HEAD_BYTES, PAYLOAD_BYTES_MAX, flag, kind};
use crate::hpack::Field;
use crate::outgoing::{BodyEnd, Outgoing};
use crate::stream::Stream;
use crate::{StreamId, hpack};
use bytes::Bytes;

impl Connection {
    /// Begins an answer, and ends it as well if the head is the `last` of it. An answer to a stream that is over
    /// is dropped; so are all further parts of it.
    pub fn answer_head<'a>(
        &mut self,
        stream: StreamId,
        status: u16,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        last: bool,
    ) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        debug_assert!(!state.answered, "an answer has one head");
        state.answered = true;
        self.put_block(stream, last, Some(status), fields);
        if last {
            self.end(stream);
        }
    }

    /// Sends a part of an answer's body. True if all of it is in the output; otherwise `next_drained` reports when.
    pub fn send_data(&mut self, stream: StreamId, data: Bytes, last: bool) -> bool {
        let Some(state) = self.streams.get_mut(&stream) else { return true };
        if data.is_empty() && !last {
            return true;
        }
        self.budget.sent_part();
        let outgoing = state.outgoing.get_or_insert_default();
        let waited = !outgoing.is_drained();
        debug_assert!(outgoing.end.is_none(), "nothing comes behind the end of a body");
        outgoing.push(data);
        outgoing.end = last.then_some(BodyEnd::Plain);
        if waited {
            return false;
        }
        if outgoing.is_drained() {
            // An end alone needs no window.
            self.send_frame(stream);
        } else {
            while self.has_capacity() && self.send_frame(stream) {}
        }
        self.settle(stream)
    }

    /// Ends an answer with fields behind its body.
    pub fn send_trailers(&mut self, stream: StreamId, fields: Vec<Field>) {
        let Some(state) = self.streams.get_mut(&stream) else { return };
        let outgoing = state.outgoing.get_or_insert_default();
        debug_assert!(outgoing.end.is_none(), "a body ends once");
        outgoing.end = Some(BodyEnd::Trailers(fields));
        if outgoing.is_drained() {
            self.send_frame(stream);
        }
    }

    /// A whole answer at once. `write` appends the body, which has `len` bytes.
    pub fn answer_whole(
        &mut self,
        stream: StreamId,
        fields: &[Field],
        len: usize,
        write: impl FnOnce(&mut Vec<u8>),
        trailers: &[Field],
    ) {
        let Some(state) = self.streams.get(&stream) else { return };
        let fits = len <= PAYLOAD_BYTES_MAX && len as i64 <= self.window.min(state.window);
        self.answer_head(stream, 200, pairs(fields), false);
        if !fits {
            let mut body = Vec::with_capacity(len);
            write(&mut body);
            self.send_data(stream, body.into(), false);
            return self.send_trailers(stream, trailers.to_vec());
        }
        self.window -= len as i64;
        self.budget.sent_bytes(len);
        if len > 0 {
            frame::put_head(len, kind::DATA, 0, stream.0, &mut self.output);
            let at = self.output.len();
            write(&mut self.output);
            assert_eq!(self.output.len(), at + len, "a body has the declared length");
        }
        self.put_block(stream, true, None, pairs(trailers));
        self.end(stream);
    }

    /// Continues with what waits. Called after bytes have arrived, and after output was written.
    pub fn fill(&mut self) {
        while self.has_capacity()
            && let Some(stream) = self.ready.pop_front()
        {
            // A stream that was reset meanwhile has nothing to send.
            let Some(state) = self.streams.get_mut(&stream) else { continue };
            state.listed = false;
            self.send_frame(stream);
            if self.settle(stream) {
                self.drained.push(stream);
            }
        }
    }

    /// A stream whose body had to wait and has been sent, or was dropped.
    pub fn next_drained(&mut self) -> Option<StreamId> {
        self.drained.pop()
    }

    fn has_capacity(&self) -> bool {
        self.window > 0 && self.output.len() < self.limits.output_bytes_soft
    }

    /// Whether nothing waits on the stream; if something does, and only for its turn, it gets one.
    fn settle(&mut self, stream: StreamId) -> bool {
        let Some(state) = self.streams.get_mut(&stream) else { return true };
        if state.outgoing.as_ref().is_none_or(|outgoing| outgoing.is_drained()) {
            return true;
        }
        if state.window > 0 && !state.listed {
            state.listed = true;
            self.ready.push_back(stream);
        }
        false
    }

    /// Sends as much of a stream as one frame takes, and its end if that follows. False when nothing more can be
    /// sent on it now.
    fn send_frame(&mut self, stream: StreamId) -> bool {
        let Some(state) = self.streams.get_mut(&stream) else { return false };
        let Stream { outgoing: Some(outgoing), window, .. } = state else { return false };
        let waits = !outgoing.is_drained();
        if waits {
            let sent = send_piece(stream, outgoing, window, &mut self.window, &mut self.output);
            self.budget.sent_bytes(sent);
            if sent == 0 {
                return false;
            }
        }
        if !outgoing.is_drained() {
            return true;
        }
        match outgoing.end.take() {
            None => return false,
            // The last piece said so.
            Some(BodyEnd::Plain) if waits => {}
            Some(BodyEnd::Plain) => {
                frame::put_head(0, kind::DATA, flag::END_STREAM, stream.0, &mut self.output)
            }
            Some(BodyEnd::Trailers(fields)) => self.put_block(stream, true, None, pairs(&fields)),
        }
        self.end(stream);
        false
    }

    fn end(&mut self, stream: StreamId) {
        self.budget.answered();
        self.finish(stream);
    }

    /// Our side of a stream is over. The client may still end its own; the rest of its body is not needed.
    pub(super) fn finish(&mut self, stream: StreamId) {
        match self.streams.get_mut(&stream).filter(|state| state.receiving) {
            Some(state) => {
                (state.ended, state.outgoing) = (true, None);
                self.stop_extending(stream);
                self.lingering.push_back(stream);
                if self.lingering.len() > LINGERING_MAX {
                    self.cut_oldest_lingering();
                }
            }
            None => self.forget(stream),
        }
    }

    /// Unless the client has ended it meanwhile.
    fn cut_oldest_lingering(&mut self) {
        let oldest = self.lingering.pop_front();
        if let Some(oldest) = oldest.filter(|oldest| self.streams.contains_key(oldest)) {
            self.cut(oldest, ErrorCode::NoError);
        }
    }

    /// A block of fields, in as many frames as it takes.
    pub(super) fn put_block<'a>(
        &mut self,
        stream: StreamId,
        last: bool,
        status: Option<u16>,
        fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) {
        let out = &mut self.output;
        let at = out.len();
        let flags = flag::END_HEADERS | if last { flag::END_STREAM } else { 0 };
        frame::put_head(0, kind::HEADERS, flags, stream.0, out);
        self.encoder.begin(out);
        if let Some(status) = status {
            self.encoder.put_status(status, out);
        }
        fields.into_iter().for_each(|(name, value)| self.encoder.put(name, value, out));
        if out.len() - at - HEAD_BYTES <= PAYLOAD_BYTES_MAX {
            frame::close(at, out)
        } else {
            cut_block(at, flags, stream, out)
        }
    }
}

/// One frame of data, and its length: nothing when the windows do not allow it.
fn send_piece(
    stream: StreamId,
    outgoing: &mut Outgoing,
    stream_window: &mut i64,
    window: &mut i64,
    out: &mut Vec<u8>,
) -> usize {
    let allowed = (*stream_window).min(*window).clamp(0, PAYLOAD_BYTES_MAX as i64);
    let Some(piece) = (allowed > 0).then(|| outgoing.take(allowed as usize)).flatten() else { return 0 };
    let last = outgoing.is_drained() && outgoing.end == Some(BodyEnd::Plain);
    frame::put_head(piece.len(), kind::DATA, if last { flag::END_STREAM } else { 0 }, stream.0, out);
    out.extend_from_slice(&piece);
    *stream_window -= piece.len() as i64;
    *window -= piece.len() as i64;
    piece.len()
}

/// Cuts a block that is too long for one frame into several.
fn cut_block(at: usize, flags: u8, stream: StreamId, out: &mut Vec<u8>) {
    let block = out.split_off(at + HEAD_BYTES);
    out.truncate(at);
    let mut pieces = block.chunks(PAYLOAD_BYTES_MAX).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, flags & !flag::END_HEADERS);
    while let Some(piece) = pieces.next() {
        flags |= if pieces.peek().is_none() { flag::END_HEADERS } else { 0 };
        frame::put_head(piece.len(), kind, flags, stream.0, out);
        out.extend_from_slice(piece);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

fn pairs(fields: &[hpack::Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|field| (&*field.name, &*field.value))
}
