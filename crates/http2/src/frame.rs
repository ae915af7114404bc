//! Frames on the wire (RFC 9113, sections 4 and 6): their heads in and out, and what surrounds their payload.

use crate::error::{ErrorCode, Violation, broken};
use bytes::{Buf, Bytes};

/// The preface of a client.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const HEAD_BYTES: usize = 9;
/// The payload that both sides accept by default, which we never change.
pub const PAYLOAD_BYTES_MAX: usize = 16_384;
pub const WINDOW_DEFAULT: u32 = 65_535;
pub const WINDOW_MAX: u32 = (1 << 31) - 1;
const PRIORITY_BYTES: usize = 5;

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

pub mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
    pub const MAX_HEADER_LIST_SIZE: u16 = 6;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

impl FrameHead {
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> FrameHead {
        FrameHead {
            len: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize,
            kind: bytes[3],
            flags: bytes[4],
            stream: u32::from_be_bytes([bytes[5] & 0x7f, bytes[6], bytes[7], bytes[8]]),
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The stream that this one is declared to depend on, in a frame of fields.
    pub fn depends_on(&self, payload: &[u8]) -> Option<u32> {
        if self.kind != kind::HEADERS || !self.has(flag::PRIORITY) {
            return None;
        }
        dependency(payload.get(usize::from(self.has(flag::PADDED))..)?)
    }

    /// The payload without padding and, of headers, without the priority, which is ignored.
    pub fn content(&self, mut payload: Bytes) -> Result<Bytes, Violation> {
        let padding = if !self.has(flag::PADDED) {
            0
        } else if payload.is_empty() {
            return broken(ErrorCode::FrameSize, "no length of the padding");
        } else {
            usize::from(payload.get_u8())
        };
        let priority =
            if self.kind == kind::HEADERS && self.has(flag::PRIORITY) { PRIORITY_BYTES } else { 0 };
        if payload.len() < priority {
            return broken(ErrorCode::FrameSize, "no priority");
        }
        payload.advance(priority);
        match payload.len().checked_sub(padding) {
            Some(len) => payload.truncate(len),
            None => return broken(ErrorCode::Protocol, "more padding than payload"),
        }
        Ok(payload)
    }
}

pub fn put_head(len: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    debug_assert!(len <= PAYLOAD_BYTES_MAX, "the writer cuts longer payloads");
    let len = (len as u32).to_be_bytes();
    out.extend_from_slice(&[len[1], len[2], len[3], kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Writes the length of a frame whose head was put at `at` and whose payload ends here.
pub fn close(at: usize, out: &mut [u8]) {
    let len = (out.len() - at - HEAD_BYTES) as u32;
    out[at..at + 3].copy_from_slice(&len.to_be_bytes()[1..]);
}

pub fn put_setting(id: u16, value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

pub fn put_window_update(stream: u32, more: u32, out: &mut Vec<u8>) {
    put_head(4, kind::WINDOW_UPDATE, 0, stream, out);
    out.extend_from_slice(&more.to_be_bytes());
}

pub fn put_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    put_head(4, kind::RST_STREAM, 0, stream, out);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

pub fn put_go_away(last: u32, code: ErrorCode, words: &str, out: &mut Vec<u8>) {
    put_head(8 + words.len(), kind::GOAWAY, 0, 0, out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
    out.extend_from_slice(words.as_bytes());
}

pub fn put_ping(payload: [u8; 8], flags: u8, out: &mut Vec<u8>) {
    put_head(8, kind::PING, flags, 0, out);
    out.extend_from_slice(&payload);
}

/// The stream that a priority names.
pub fn dependency(priority: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*priority.first_chunk()?) & WINDOW_MAX)
}

/// The payload of a frame that holds one number.
pub fn number(payload: &[u8]) -> Result<u32, Violation> {
    match <[u8; 4]>::try_from(payload) {
        Ok(bytes) => Ok(u32::from_be_bytes(bytes)),
        Err(_) => broken(ErrorCode::FrameSize, "a number takes four bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(kind: u8, flags: u8, payload: &'static [u8]) -> Result<Bytes, Violation> {
        let head = FrameHead { len: payload.len(), kind, flags, stream: 1 };
        head.content(Bytes::from_static(payload))
    }

    #[test]
    fn padding_and_priority_are_taken_off() {
        assert_eq!(content(kind::DATA, 0, b"data").unwrap(), "data");
        assert_eq!(content(kind::DATA, flag::PADDED, b"\x02data..").unwrap(), "data");
        assert_eq!(content(kind::DATA, flag::PADDED, b"\x00").unwrap(), "");
        let both = flag::PADDED | flag::PRIORITY;
        assert_eq!(content(kind::HEADERS, both, b"\x01ppppphead.").unwrap(), "head");
        assert_eq!(content(kind::DATA, flag::PRIORITY, b"pppppdata").unwrap(), "pppppdata");
    }

    #[test]
    fn more_padding_than_payload_ends_the_connection() {
        for (kind, flags, payload) in [
            (kind::DATA, flag::PADDED, &b""[..]),
            (kind::DATA, flag::PADDED, b"\x02."),
            (kind::HEADERS, flag::PRIORITY, b"pppp"),
            (kind::HEADERS, flag::PADDED | flag::PRIORITY, b"\x01ppppp"),
        ] {
            assert!(matches!(content(kind, flags, payload), Err(Violation::Connection(..))), "{payload:?}");
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let mut out = Vec::new();
        put_head(0x1234, kind::DATA, flag::END_STREAM, 0x7fff_fff1, &mut out);
        let head = FrameHead::parse(out.first_chunk().unwrap());
        assert_eq!(head, FrameHead { len: 0x1234, kind: kind::DATA, flags: 1, stream: 0x7fff_fff1 });
    }
}
