//! The frames of WebSocket (RFC 6455): bytes of a client in, what they mean out; and the frames that we send.
//! A message is handed on piece by piece as it comes, so nothing is gathered but a control frame, which is small. What
//! Breaches of the protocol become the code that the connection is closed with.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Codes with which a connection ends.
pub const NORMAL: u16 = 1000;
pub const AWAY: u16 = 1001;
pub const BROKEN: u16 = 1002;
pub const TRY_LATER: u16 = 1013;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTROL: u8 = 0x08;
const CONTROL_BYTES_MAX: u64 = 125;

const CONTINUED: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;

#[derive(Debug, PartialEq, Eq)]
pub enum SocketEvent {
    /// A part of a message, text or not.
    Part(Bytes),
    /// The message is whole.
    End,
    Ping(Bytes),
    Pong,
    Close,
}

/// Reads what a client sends.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    frame: Option<Frame>,
    /// A message has begun and more of it is to come.
    in_message: bool,
}

#[derive(Debug)]
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    /// Bytes of the payload that were taken, and that are still to come.
    taken: usize,
    left: u64,
}

impl FrameDecoder {
    /// The next event, if enough has arrived; or the close code for a breach of the protocol.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Option<SocketEvent>, u16> {
        loop {
            let Some(mut frame) = self.frame.take() else {
                match self.begin(input)? {
                    Some(frame) => self.frame = Some(frame),
                    None => return Ok(None),
                }
                continue;
            };
            if frame.opcode & CONTROL != 0 {
                if (input.len() as u64) < frame.left {
                    self.frame = Some(frame);
                    return Ok(None);
                }
                return Ok(Some(frame.control(input)));
            }
            if frame.left == 0 {
                if frame.last {
                    self.in_message = false;
                    return Ok(Some(SocketEvent::End));
                }
                continue;
            }
            let part = frame.take(input);
            self.frame = Some(frame);
            return Ok((!part.is_empty()).then_some(SocketEvent::Part(part)));
        }
    }

    /// The head of a frame, once it is there whole.
    fn begin(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, u16> {
        let [first, second, ..] = input[..] else { return Ok(None) };
        let (opcode, last, is_control) = (first & 0x0f, first & FIN != 0, first & CONTROL != 0);
        let known = match opcode {
            CONTINUED => self.in_message,
            TEXT | BINARY => !self.in_message,
            CLOSE | PING | PONG => last,
            _ => false,
        };
        // A client that does not mask may be a proxy that was tricked into sending for another.
        if !known || first & RESERVED != 0 || second & MASKED == 0 {
            return Err(BROKEN);
        }
        let (extended, short) = match second & !MASKED {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        if is_control && (extended > 0 || short > CONTROL_BYTES_MAX) {
            return Err(BROKEN);
        }
        if input.len() < 2 + extended + 4 {
            return Ok(None);
        }
        input.advance(2);
        let left = if extended > 0 { input.get_uint(extended) } else { short };
        let mut mask = [0; 4];
        input.copy_to_slice(&mut mask);
        self.in_message |= !is_control;
        Ok(Some(Frame { opcode, last, mask, taken: 0, left }))
    }
}

impl Frame {
    /// Takes the part of the payload that has arrived.
    fn take(&mut self, input: &mut BytesMut) -> Bytes {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        let mut part = input.split_to(len);
        for (at, byte) in part.iter_mut().enumerate() {
            *byte ^= self.mask[(self.taken + at) % 4];
        }
        self.taken += len;
        self.left -= len as u64;
        part.freeze()
    }

    fn control(mut self, input: &mut BytesMut) -> SocketEvent {
        let payload = self.take(input);
        match self.opcode {
            PING => SocketEvent::Ping(payload),
            PONG => SocketEvent::Pong,
            _ => SocketEvent::Close,
        }
    }
}

/// A frame with a part of a message, which may be its first part, its last, or both.
pub fn text(part: &[u8], first: bool, last: bool) -> Vec<u8> {
    frame(if first { TEXT } else { CONTINUED } | if last { FIN } else { 0 }, part)
}

pub fn ping() -> Vec<u8> {
    frame(FIN | PING, b"")
}

pub fn pong(payload: &[u8]) -> Vec<u8> {
    frame(FIN | PONG, payload)
}

pub fn close(code: u16) -> Vec<u8> {
    frame(FIN | CLOSE, &code.to_be_bytes())
}

/// A server does not mask.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 10);
    out.put_u8(first);
    match payload.len() {
        len @ 0..126 => out.put_u8(len as u8),
        len @ 126..0x1_0000 => {
            out.put_u8(126);
            out.put_u16(len as u16);
        }
        len => {
            out.put_u8(127);
            out.put_u64(len as u64);
        }
    }
    out.put_slice(payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = frame(first, b"");
        out[1] = MASKED
            | match payload.len() {
                len @ 0..126 => len as u8,
                _ => 126,
            };
        if payload.len() >= 126 {
            out.put_u16(payload.len() as u16);
        }
        let mask = [1, 2, 3, 4];
        out.put_slice(&mask);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        out
    }

    /// What comes out of these bytes when they come in pieces of this size; parts of a message are joined.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<SocketEvent>, u16> {
        let (mut decoder, mut input, mut events) = (FrameDecoder::default(), BytesMut::new(), Vec::new());
        let mut gathered = Vec::new();
        for piece in bytes.chunks(piece) {
            input.extend_from_slice(piece);
            while let Some(event) = decoder.next(&mut input)? {
                match event {
                    SocketEvent::Part(part) => gathered.extend_from_slice(&part),
                    SocketEvent::End => events.push(SocketEvent::Part(std::mem::take(&mut gathered).into())),
                    other => events.push(other),
                }
            }
        }
        Ok(events)
    }

    #[test]
    fn messages_come_out_however_the_bytes_are_cut() {
        let long = vec![b'x'; 300];
        let bytes = [
            masked(FIN | TEXT, b"{}"),
            masked(TEXT, b"{\"a\":"),
            masked(FIN | PING, b"here?"),
            masked(CONTINUED, b""),
            masked(FIN | CONTINUED, &long),
            masked(FIN | BINARY, b""),
            masked(FIN | PONG, b""),
            masked(FIN | CLOSE, &NORMAL.to_be_bytes()),
        ]
        .concat();
        let expected = [
            SocketEvent::Part(Bytes::from_static(b"{}")),
            SocketEvent::Ping(Bytes::from_static(b"here?")),
            SocketEvent::Part([&b"{\"a\":"[..], &long].concat().into()),
            SocketEvent::Part(Bytes::new()),
            SocketEvent::Pong,
            SocketEvent::Close,
        ];
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(read(&bytes, piece).as_deref(), Ok(&expected[..]), "in pieces of {piece}");
        }
    }

    #[test]
    fn a_breach_of_the_protocol_closes_with_its_code() {
        let mut unmasked = masked(FIN | TEXT, b"{}");
        unmasked[1] &= !MASKED;
        for (what, bytes) in [
            ("no mask", unmasked),
            ("a reserved bit", masked(FIN | TEXT | 0x40, b"{}")),
            ("an unknown opcode", masked(FIN | 0x3, b"")),
            ("an unknown control opcode", masked(FIN | 0xb, b"")),
            ("a control frame in pieces", masked(PING, b"")),
            ("a long control frame", masked(FIN | PING, &[0; 126])),
            ("the rest of nothing", masked(FIN | CONTINUED, b"")),
            ("a message within a message", [masked(TEXT, b"{"), masked(TEXT, b"{")].concat()),
        ] {
            assert_eq!(read(&bytes, 1000), Err(BROKEN), "{what}");
        }
    }

    #[test]
    fn a_length_beyond_all_memory_costs_nothing() {
        let mut bytes = vec![FIN | TEXT, MASKED | 127];
        bytes.put_u64(u64::MAX);
        bytes.put_slice(&[0, 0, 0, 0, b'{']);
        let (mut decoder, mut input) = (FrameDecoder::default(), BytesMut::from(&bytes[..]));
        assert_eq!(decoder.next(&mut input), Ok(Some(SocketEvent::Part(Bytes::from_static(b"{")))));
        assert_eq!(decoder.next(&mut input), Ok(None));
    }

    #[test]
    fn what_is_sent_tells_its_length() {
        assert_eq!(text(b"ok", true, true), [0x81, 2, b'o', b'k']);
        assert_eq!(text(b"", false, true), [0x80, 0]);
        assert_eq!(text(&[b'x'; 200], true, false)[..4], [0x01, 126, 0, 200]);
        assert_eq!(text(&[b'x'; 70_000], false, false)[..10], [0x00, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
        assert_eq!(close(NORMAL), [0x88, 2, 0x03, 0xe8]);
        assert_eq!((ping(), pong(b"x")), (vec![0x89, 0], vec![0x8a, 1, b'x']));
    }
}
