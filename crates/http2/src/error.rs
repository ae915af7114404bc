//! What can be wrong with what the other side sent, and the answer: one stream ends, or all of them.

use crate::StreamId;

/// RFC 9113, section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    NoError = 0,
    Protocol = 1,
    Internal = 2,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// A rule that the other side broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Only this stream ends.
    Stream(StreamId, ErrorCode),
    /// Nothing after it can be trusted; the text goes into the last frame.
    Connection(ErrorCode, &'static str),
}

pub fn broken<T>(code: ErrorCode, words: &'static str) -> Result<T, Violation> {
    Err(Violation::Connection(code, words))
}
