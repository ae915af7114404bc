//! One connection of a gRPC client, as cheap as the protocol allows: frames are written and read by hand, many
//! calls to one system call, nothing is spawned and nothing is boxed.
//! Calls and messages go in and gather until the next `turn`, which sends them and hands out what has arrived:
//! messages, and how calls ended. Flow control is honoured in both directions.

use crate::hpack::{Decoder, Outcome};
use crate::socket::{Socket, TlsOptions, address_of};
use bytes::{Buf, Bytes, BytesMut};
use http2::PREFACE;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const FRAME_HEAD_BYTES: usize = 9;
/// What both sides may send in one frame unless they agree otherwise.
const FRAME_BYTES_MAX: usize = 16_384;
const MESSAGE_HEAD_BYTES: usize = 5;
/// The window for the other side, in bytes: as large as can be.
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_DEFAULT: i64 = 65_535;
/// Received bytes are credited again when so many have come.
const CREDIT_BYTES: u32 = 1 << 24;
const READ_BYTES: usize = 64 * 1024;

mod frame {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
}

/// The connection is unusable.
#[derive(Debug, thiserror::Error)]
pub enum ConnError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server does not speak HTTP/2 as expected: {0}")]
    Protocol(&'static str),
}

/// A call on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u32);

#[derive(Debug)]
pub enum Event {
    Message { stream: StreamId, message: Bytes },
    End { stream: StreamId, outcome: Outcome },
}

pub struct GrpcConn {
    socket: Socket,
    authority: String,
    /// Sent with every call.
    token: Option<String>,
    input: BytesMut,
    output: Vec<u8>,
    /// How much of the output the socket has taken; if a `turn` is cancelled, the next continues.
    taken: usize,
    decoder: Decoder,
    next_stream: u32,
    /// What the other side accepts now: on the whole connection, on a fresh stream, and on streams that stay open
    /// or could not send all of their message.
    window: i64,
    stream_window: i64,
    windows: BTreeMap<u32, i64>,
    held: VecDeque<HeldMessage>,
    /// Received and not yet credited: in all, and on streams that stay open.
    received: u32,
    received_by: BTreeMap<u32, u32>,
    /// Messages of which only a part has come.
    partial: BTreeMap<u32, BytesMut>,
    /// A block of headers that goes on in the next frame.
    block: Option<(u32, bool, Vec<u8>)>,
}

/// A message, or the rest of one, that waits for the other side's window.
struct HeldMessage {
    stream: u32,
    bytes: Bytes,
    last: bool,
}

impl GrpcConn {
    pub async fn connect(
        endpoint: &str,
        tls: &TlsOptions,
        token: Option<String>,
    ) -> Result<GrpcConn, ConnError> {
        let socket = Socket::connect(endpoint, b"h2", tls).await?;
        let mut wire = GrpcConn {
            socket,
            authority: address_of(endpoint).to_owned(),
            token,
            input: BytesMut::with_capacity(READ_BYTES),
            output: PREFACE.to_vec(),
            taken: 0,
            decoder: Decoder::default(),
            next_stream: 1,
            window: WINDOW_DEFAULT,
            stream_window: WINDOW_DEFAULT,
            windows: BTreeMap::new(),
            held: VecDeque::new(),
            received: 0,
            received_by: BTreeMap::new(),
            partial: BTreeMap::new(),
            block: None,
        };
        wire.put_head(12, frame::SETTINGS, 0, 0);
        wire.put_setting(setting::ENABLE_PUSH, 0);
        wire.put_setting(setting::INITIAL_WINDOW_SIZE, WINDOW_MAX);
        wire.put_window_update(0, WINDOW_MAX - WINDOW_DEFAULT as u32);
        Ok(wire)
    }

    /// A call of one message, and no more.
    pub fn call(&mut self, path: &str, message: &impl prost::Message) -> StreamId {
        let stream = self.put_headers(path);
        self.put_message(stream, message, true);
        StreamId(stream)
    }

    /// A call whose messages follow.
    pub fn open(&mut self, path: &str) -> StreamId {
        let stream = self.put_headers(path);
        self.windows.insert(stream, self.stream_window);
        self.received_by.insert(stream, 0);
        StreamId(stream)
    }

    /// One more message of a call that `open` began.
    pub fn send(&mut self, stream: StreamId, message: &impl prost::Message) {
        self.put_message(stream.0, message, false);
    }

    /// Sends what has gathered, then waits until something has arrived and hands it to `take`. May be cancelled at any
    /// time and called again.
    pub async fn turn(&mut self, take: &mut impl FnMut(&mut GrpcConn, Event)) -> Result<(), ConnError> {
        self.flush().await?;
        self.input.reserve(READ_BYTES);
        if self.socket.read_buf(&mut self.input).await? == 0 {
            return Err(ConnError::Closed);
        }
        while let Some((head, payload)) = self.next_frame() {
            self.take_frame(head, payload, take)?;
        }
        Ok(())
    }

    pub async fn flush(&mut self) -> Result<(), ConnError> {
        while self.taken < self.output.len() {
            self.taken += self.socket.write(&self.output[self.taken..]).await?;
        }
        self.output.clear();
        self.taken = 0;
        self.socket.flush().await?;
        Ok(())
    }

    fn next_frame(&mut self) -> Option<(FrameHead, Bytes)> {
        let head = FrameHead::parse(self.input.first_chunk::<FRAME_HEAD_BYTES>()?);
        if self.input.len() < FRAME_HEAD_BYTES + head.len {
            return None;
        }
        self.input.advance(FRAME_HEAD_BYTES);
        Some((head, self.input.split_to(head.len).freeze()))
    }

    fn take_frame(
        &mut self,
        head: FrameHead,
        payload: Bytes,
        take: &mut impl FnMut(&mut GrpcConn, Event),
    ) -> Result<(), ConnError> {
        match head.kind {
            frame::DATA => {
                self.credit(head.stream, head.len as u32);
                let payload = unpadded(head, payload, 0)?;
                self.take_data(head.stream, payload, take)?;
                if head.flags & flag::END_STREAM != 0 {
                    self.end(head.stream, Outcome::default(), take);
                }
            }
            frame::HEADERS => {
                let skipped = if head.flags & flag::PRIORITY != 0 { 5 } else { 0 };
                let block = unpadded(head, payload, skipped)?;
                let last = head.flags & flag::END_STREAM != 0;
                match head.flags & flag::END_HEADERS {
                    0 => self.block = Some((head.stream, last, block.to_vec())),
                    _ => self.take_headers(head.stream, last, block, take)?,
                }
            }
            frame::CONTINUATION => {
                let (stream, last, mut block) =
                    self.block.take().ok_or(ConnError::Protocol("CONTINUATION"))?;
                block.extend_from_slice(&payload);
                match head.flags & flag::END_HEADERS {
                    0 => self.block = Some((stream, last, block)),
                    _ => self.take_headers(stream, last, block.into(), take)?,
                }
            }
            frame::RST_STREAM => {
                let message = format!("the server reset the stream with code {}", number(&payload)?);
                self.end(head.stream, Outcome { status: None, message: Some(message) }, take);
            }
            frame::SETTINGS if head.flags & flag::ACK == 0 => self.take_settings(&payload)?,
            frame::PING if head.flags & flag::ACK == 0 => {
                self.put_head(payload.len(), frame::PING, flag::ACK, 0);
                self.output.extend_from_slice(&payload);
            }
            frame::GOAWAY => return Err(ConnError::Closed),
            frame::WINDOW_UPDATE => self.take_window_update(head.stream, number(&payload)?),
            _ => {}
        }
        Ok(())
    }

    fn take_headers(
        &mut self,
        stream: u32,
        last: bool,
        block: Bytes,
        take: &mut impl FnMut(&mut GrpcConn, Event),
    ) -> Result<(), ConnError> {
        let outcome = self.decoder.decode(block).map_err(|_| ConnError::Protocol("header fields"))?;
        if last {
            self.end(stream, outcome, take);
        }
        Ok(())
    }

    fn end(&mut self, stream: u32, outcome: Outcome, take: &mut impl FnMut(&mut GrpcConn, Event)) {
        self.windows.remove(&stream);
        self.received_by.remove(&stream);
        self.partial.remove(&stream);
        self.held.retain(|held| held.stream != stream);
        take(self, Event::End { stream: StreamId(stream), outcome });
    }

    fn take_data(
        &mut self,
        stream: u32,
        payload: Bytes,
        take: &mut impl FnMut(&mut GrpcConn, Event),
    ) -> Result<(), ConnError> {
        let mut data = match self.partial.remove(&stream) {
            Some(mut begun) => {
                begun.extend_from_slice(&payload);
                begun.freeze()
            }
            None => payload,
        };
        while let Some(head) = data.first_chunk::<MESSAGE_HEAD_BYTES>() {
            if head[0] != 0 {
                return Err(ConnError::Protocol("a compressed message"));
            }
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if data.len() < MESSAGE_HEAD_BYTES + len {
                break;
            }
            data.advance(MESSAGE_HEAD_BYTES);
            let message = data.split_to(len);
            take(self, Event::Message { stream: StreamId(stream), message });
        }
        if !data.is_empty() {
            self.partial.insert(stream, BytesMut::from(data));
        }
        Ok(())
    }

    fn credit(&mut self, stream: u32, bytes: u32) {
        self.received += bytes;
        if self.received >= CREDIT_BYTES {
            let bytes = std::mem::take(&mut self.received);
            self.put_window_update(0, bytes);
        }
        let Some(by_stream) = self.received_by.get_mut(&stream) else { return };
        *by_stream += bytes;
        if *by_stream >= CREDIT_BYTES {
            let bytes = std::mem::take(by_stream);
            self.put_window_update(stream, bytes);
        }
    }

    fn take_settings(&mut self, payload: &[u8]) -> Result<(), ConnError> {
        for pair in payload.chunks_exact(6) {
            let value = number(&pair[2..])?;
            match u16::from_be_bytes([pair[0], pair[1]]) {
                setting::HEADER_TABLE_SIZE if value < HEADER_TABLE_BYTES_NEEDED => {
                    return Err(ConnError::Protocol("it keeps no table of header fields"));
                }
                setting::INITIAL_WINDOW_SIZE => {
                    let grown = i64::from(value) - self.stream_window;
                    self.stream_window += grown;
                    self.windows.values_mut().for_each(|window| *window += grown);
                }
                _ => {}
            }
        }
        self.put_head(0, frame::SETTINGS, flag::ACK, 0);
        self.release();
        Ok(())
    }

    fn take_window_update(&mut self, stream: u32, more: u32) {
        match stream {
            0 => self.window += i64::from(more),
            _ => {
                if let Some(window) = self.windows.get_mut(&stream) {
                    *window += i64::from(more);
                }
            }
        }
        self.release();
    }

    /// Sends what waited, as far as the windows allow.
    fn release(&mut self) {
        let mut waiting = std::mem::take(&mut self.held);
        while let Some(held) = waiting.pop_front() {
            self.put_data(held);
        }
    }

    fn put_message(&mut self, stream: u32, message: &impl prost::Message, last: bool) {
        let len = message.encoded_len();
        let whole = (MESSAGE_HEAD_BYTES + len) as i64;
        let stream_window = self.windows.get(&stream).copied().unwrap_or(self.stream_window);
        let fits = self.held.is_empty() && whole <= self.window.min(stream_window);
        if fits && whole <= FRAME_BYTES_MAX as i64 {
            self.put_head(whole as usize, frame::DATA, u8::from(last), stream);
            put_message(message, len, &mut self.output);
            self.spend(stream, whole);
            return;
        }
        let mut bytes = Vec::with_capacity(whole as usize);
        put_message(message, len, &mut bytes);
        self.windows.entry(stream).or_insert(self.stream_window);
        self.put_data(HeldMessage { stream, bytes: bytes.into(), last });
    }

    fn put_data(&mut self, mut held: HeldMessage) {
        while !held.bytes.is_empty() {
            let window = self.windows.get(&held.stream).copied().unwrap_or(self.stream_window);
            let allowed = self.window.min(window).min(FRAME_BYTES_MAX as i64);
            let earlier = self.held.iter().any(|other| other.stream == held.stream);
            if allowed <= 0 || earlier {
                self.held.push_back(held);
                return;
            }
            let piece = held.bytes.split_to(held.bytes.len().min(allowed as usize));
            let last = held.last && held.bytes.is_empty();
            self.put_head(piece.len(), frame::DATA, u8::from(last), held.stream);
            self.output.extend_from_slice(&piece);
            self.spend(held.stream, piece.len() as i64);
        }
    }

    fn spend(&mut self, stream: u32, bytes: i64) {
        self.window -= bytes;
        if let Some(window) = self.windows.get_mut(&stream) {
            *window -= bytes;
        }
    }

    /// The first call on a connection puts the fields that all calls share into the other side's table.
    fn put_headers(&mut self, path: &str) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let head_at = self.output.len();
        self.put_head(0, frame::HEADERS, flag::END_HEADERS, stream);
        // POST, http, and the path as it is.
        self.output.extend_from_slice(&[0x83, 0x86, 0x04]);
        put_text(path.as_bytes(), &mut self.output);
        if stream == 1 {
            self.output.push(0x41);
            put_text(self.authority.as_bytes(), &mut self.output);
            self.output.push(0x40);
            put_text(b"te", &mut self.output);
            put_text(b"trailers", &mut self.output);
            self.output.push(0x5f);
            put_text(b"application/grpc", &mut self.output);
            if let Some(token) = &self.token {
                self.output.push(0x40);
                put_text(b"token", &mut self.output);
                put_text(token.as_bytes(), &mut self.output);
            }
        } else {
            let shared = 3 + u8::from(self.token.is_some());
            self.output.extend((0..shared).map(|nth| 0x80 | (61 + shared - nth)));
        }
        let len = self.output.len() - head_at - FRAME_HEAD_BYTES;
        self.output[head_at + 1..head_at + 3].copy_from_slice(&(len as u16).to_be_bytes());
        stream
    }

    fn put_head(&mut self, len: usize, kind: u8, flags: u8, stream: u32) {
        let len = (len as u32).to_be_bytes();
        self.output.extend_from_slice(&[len[1], len[2], len[3], kind, flags]);
        self.output.extend_from_slice(&stream.to_be_bytes());
    }

    fn put_setting(&mut self, id: u16, value: u32) {
        self.output.extend_from_slice(&id.to_be_bytes());
        self.output.extend_from_slice(&value.to_be_bytes());
    }

    fn put_window_update(&mut self, stream: u32, more: u32) {
        self.put_head(4, frame::WINDOW_UPDATE, 0, stream);
        self.output.extend_from_slice(&more.to_be_bytes());
    }
}

/// The fields that calls share must fit.
const HEADER_TABLE_BYTES_NEEDED: u32 = 4_096;

#[derive(Clone, Copy, Debug)]
struct FrameHead {
    len: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHead {
    fn parse(bytes: &[u8; FRAME_HEAD_BYTES]) -> FrameHead {
        FrameHead {
            len: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize,
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5] & 0x7f, bytes[6], bytes[7], bytes[8]]),
        }
    }
}

/// What remains of a payload without its padding and the first `skipped` bytes.
fn unpadded(head: FrameHead, mut payload: Bytes, skipped: usize) -> Result<Bytes, ConnError> {
    let padding = match head.flags & flag::PADDED {
        0 => 0,
        _ if payload.is_empty() => return Err(ConnError::Protocol("padding")),
        _ => usize::from(payload.get_u8()),
    };
    if payload.len() < padding + skipped {
        return Err(ConnError::Protocol("padding"));
    }
    payload.advance(skipped);
    payload.truncate(payload.len() - padding);
    Ok(payload)
}

fn number(bytes: &[u8]) -> Result<u32, ConnError> {
    let bytes = bytes.first_chunk::<4>().ok_or(ConnError::Protocol("a frame that is too short"))?;
    Ok(u32::from_be_bytes(*bytes))
}

fn put_message(message: &impl prost::Message, len: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(len as u32).to_be_bytes());
    message.encode_raw(out);
}

/// A plain string of the header block (RFC 7541, section 5).
fn put_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len().checked_sub(127) {
        None => out.push(text.len() as u8),
        Some(mut rest) => {
            out.push(127);
            while rest >= 128 {
                out.push(0x80 | rest as u8);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
    }
    out.extend_from_slice(text);
}
