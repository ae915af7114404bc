//! How much of a request's body has arrived: how much of it belongs to complete messages, how much its handler has read,
//! and since when it waits for the rest. What is complete and read is credited to the client; the rest is held.

use std::time::Instant;

/// The flag and the length in front of a message.
const PREFIX_BYTES: usize = 5;

pub struct BodyProgress {
    shape: BodyShape,
    received: usize,
    /// Messages up to here are complete.
    whole: usize,
    read: usize,
    credited: usize,
    /// When the incomplete message began.
    since: Instant,
    ended: bool,
}

/// What a body is made of.
enum BodyShape {
    /// Messages of gRPC: of a call that takes many, or one.
    Grpc { many: bool, prefix: MessagePrefix, left: usize },
    /// Text that is read as it comes.
    Open,
    /// One message that ends with the body.
    One,
}

/// As much of a message's prefix as has come.
#[derive(Default)]
struct MessagePrefix {
    bytes: [u8; PREFIX_BYTES],
    len: usize,
}

impl BodyProgress {
    /// The progress of a body, by whether it is gRPC's and whether its call takes many messages.
    pub fn new(is_grpc: bool, many: bool, now: Instant) -> BodyProgress {
        let shape = match (is_grpc, many) {
            (true, many) => BodyShape::Grpc { many, prefix: MessagePrefix::default(), left: 0 },
            (false, true) => BodyShape::Open,
            (false, false) => BodyShape::One,
        };
        BodyProgress { shape, received: 0, whole: 0, read: 0, credited: 0, since: now, ended: false }
    }

    pub fn is_grpc(&self) -> bool {
        matches!(self.shape, BodyShape::Grpc { .. })
    }

    pub fn receive(&mut self, data: &[u8], now: Instant) {
        if self.whole == self.received {
            self.since = now;
        }
        let before = self.received;
        self.received += data.len();
        match &mut self.shape {
            BodyShape::Grpc { prefix, left, .. } => {
                if let Some(end) = last_end(prefix, left, data) {
                    self.whole = before + end;
                    self.since = now;
                }
            }
            BodyShape::Open => self.whole = self.received,
            BodyShape::One => {}
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.ended = true;
        self.whole = self.received;
    }

    /// The handler has read so much more.
    pub fn read(&mut self, bytes: usize) {
        self.read += bytes;
    }

    /// What has become complete and read since the last call.
    pub fn credit(&mut self) -> usize {
        let more = self.whole.min(self.read) - self.credited;
        self.credited += more;
        more
    }

    /// The bytes of the incomplete message, and since when the rest is waited for.
    pub fn partial(&self) -> Option<(usize, Instant)> {
        let bytes = self.received - self.whole;
        let waits = match &self.shape {
            BodyShape::Grpc { many, .. } => bytes > 0 || (!many && self.whole == 0),
            BodyShape::Open => false,
            BodyShape::One => true,
        };
        (waits && !self.ended).then_some((bytes, self.since))
    }
}

/// Where the last message that ends in `data` ends.
fn last_end(prefix: &mut MessagePrefix, left: &mut usize, data: &[u8]) -> Option<usize> {
    let (mut at, mut end) = (0, None);
    while at < data.len() {
        if prefix.len < PREFIX_BYTES {
            let more = (PREFIX_BYTES - prefix.len).min(data.len() - at);
            prefix.bytes[prefix.len..prefix.len + more].copy_from_slice(&data[at..at + more]);
            (prefix.len, at) = (prefix.len + more, at + more);
            let [_, length @ ..] = prefix.bytes;
            *left = u32::from_be_bytes(length) as usize;
        } else {
            let more = (*left).min(data.len() - at);
            (*left, at) = (*left - more, at + more);
        }
        if prefix.len == PREFIX_BYTES && *left == 0 {
            (prefix.len, end) = (0, Some(at));
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: u8) -> Vec<u8> {
        [&[0, 0, 0, 0, len][..], &vec![7; usize::from(len)]].concat()
    }

    #[test]
    fn messages_are_whole_however_they_are_cut() {
        let stream = [message(3), message(0), message(10)].concat();
        for step in 1..stream.len() {
            let mut progress = BodyProgress::new(true, true, Instant::now());
            for piece in stream.chunks(step) {
                progress.receive(piece, Instant::now());
            }
            assert_eq!((progress.whole, progress.partial()), (stream.len(), None), "{step}");
        }
    }

    #[test]
    fn what_is_whole_and_read_is_credited_once() {
        let mut progress = BodyProgress::new(true, true, Instant::now());
        progress.receive(&[message(3), vec![0, 0]].concat(), Instant::now());
        assert_eq!(progress.credit(), 0);
        progress.read(10);
        assert_eq!((progress.credit(), progress.credit()), (8, 0));
        assert_eq!(progress.partial().unwrap().0, 2);
        progress.end();
        assert_eq!((progress.credit(), progress.partial()), (2, None));
    }

    #[test]
    fn a_call_of_one_message_waits_from_its_head_on_and_a_stream_does_not() {
        let now = Instant::now();
        assert_eq!(BodyProgress::new(true, false, now).partial(), Some((0, now)));
        assert_eq!(BodyProgress::new(false, false, now).partial(), Some((0, now)));
        assert_eq!(BodyProgress::new(true, true, now).partial(), None);
        let mut text = BodyProgress::new(false, true, now);
        text.receive(b"{", now);
        text.read(1);
        assert_eq!((text.partial(), text.credit()), (None, 1));
    }
}
