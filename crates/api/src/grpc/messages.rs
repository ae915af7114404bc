//! Counts the messages in the bytes of a gRPC stream, however they are cut into frames.
//! Bytes go in, the number of messages that begin in them comes out. Only the heads are looked at.

/// A mark of compression and the length of what follows.
const HEAD_BYTES: usize = 5;

#[derive(Debug, Default)]
pub struct Messages {
    /// The head that is being read.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// What is left of the message behind the last head.
    body_left: u64,
}

impl Messages {
    pub fn begun_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut begun = 0;
        while !bytes.is_empty() {
            let skipped = bytes.len().min(usize::try_from(self.body_left).unwrap_or(usize::MAX));
            self.body_left -= skipped as u64;
            let wanted = (HEAD_BYTES - self.head_bytes).min(bytes.len() - skipped);
            let head = &bytes[skipped..skipped + wanted];
            self.head[self.head_bytes..self.head_bytes + wanted].copy_from_slice(head);
            self.head_bytes += wanted;
            bytes = &bytes[skipped + wanted..];
            if self.head_bytes == HEAD_BYTES {
                let [_, len @ ..] = self.head;
                self.body_left = u64::from(u32::from_be_bytes(len));
                self.head_bytes = 0;
                begun += 1;
            }
        }
        begun
    }

    /// Where the message ends that is being read, if that is within these bytes; what follows is left for the next
    /// call.
    pub fn first_end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = 0;
        while taken < bytes.len() || (self.head_bytes == HEAD_BYTES && self.body_left == 0) {
            if self.head_bytes < HEAD_BYTES {
                let wanted = (HEAD_BYTES - self.head_bytes).min(bytes.len() - taken);
                self.head[self.head_bytes..self.head_bytes + wanted]
                    .copy_from_slice(&bytes[taken..taken + wanted]);
                self.head_bytes += wanted;
                taken += wanted;
                let [_, len @ ..] = self.head;
                self.body_left = u64::from(u32::from_be_bytes(len));
                continue;
            }
            let skipped = (bytes.len() - taken).min(usize::try_from(self.body_left).unwrap_or(usize::MAX));
            self.body_left -= skipped as u64;
            taken += skipped;
            if self.body_left == 0 {
                self.head_bytes = 0;
                return Some(taken);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_once_however_they_are_cut() {
        let mut stream = Vec::new();
        for len in [0u32, 3, 300] {
            stream.push(0);
            stream.extend(len.to_be_bytes());
            stream.extend(vec![7; len as usize]);
        }
        for cut in [1, 2, 4, 5, 6, 7, 100, stream.len()] {
            let mut messages = Messages::default();
            let begun: u64 = stream.chunks(cut).map(|part| messages.begun_in(part)).sum();
            assert_eq!(begun, 3, "cut at {cut}");
        }
    }

    #[test]
    fn the_end_of_each_message_is_found_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for len in [0u32, 3, 0, 300] {
            stream.push(0);
            stream.extend(len.to_be_bytes());
            stream.extend(vec![7; len as usize]);
        }
        for cut in [1, 2, 4, 5, 6, 7, 100, stream.len()] {
            let mut messages = Messages::default();
            let (mut ends, mut at) = (Vec::new(), 0);
            for mut part in stream.chunks(cut) {
                while let Some(len) = messages.first_end_in(part) {
                    at += len;
                    ends.push(at);
                    part = &part[len..];
                }
                at += part.len();
            }
            assert_eq!(ends, [5, 13, 18, 323], "cut at {cut}");
        }
    }
}
