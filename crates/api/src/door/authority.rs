//! Mends the requests of clients that put a URL where only its authority belongs, as those of etcd 3.4 do when they
//! speak to a single member (`etcdctl endpoint status --cluster`); the HTTP/2 library would reset their streams.
//! Bytes of a connection go in and come out in order and in the same number: `http://` in `:authority` becomes
//! something of equal length before an `@`, where it does no harm. Whoever begins correctly is not looked at again.

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Of a frame: three bytes of length, then type, flags and stream.
const HEAD_BYTES: usize = 9;
/// The longest frame that anybody may send us.
const FRAME_BYTES_MAX: usize = 16 * 1024;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x08;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;
/// The place of `:authority` in the static table.
const AUTHORITY: usize = 1;

/// Huffman's code of `http://`, letter by letter, and of `HTTP@`, which has as many bits.
#[expect(clippy::unusual_byte_groupings, reason = "a group is a letter")]
const PLAIN: Exchange = Exchange {
    bits: 41,
    from: 0b100111_01001_01001_101011_1011100_011000_011000,
    to: 0b1100011_1101111_1101111_1101011_1111111111010,
};
/// The same of `https://` and `HTTPs@`.
#[expect(clippy::unusual_byte_groupings, reason = "a group is a letter")]
const SECURE: Exchange = Exchange {
    bits: 46,
    from: 0b100111_01001_01001_101011_01000_1011100_011000_011000,
    to: 0b1100011_1101111_1101111_1101011_01000_1111111111010,
};
/// Long enough for either.
const EXCHANGE_BYTES: usize = 6;

struct Exchange {
    bits: usize,
    from: u64,
    to: u64,
}

/// What of the connection is being read.
enum Part {
    Preface {
        heard: usize,
    },
    Head,
    /// The rest of a frame that is none of our business.
    Other {
        left: usize,
    },
    Headers {
        bytes: usize,
    },
}

pub struct Mender {
    part: Part,
    /// A frame that is not complete yet.
    held: Vec<u8>,
    /// Something was mended, so that more may have to be.
    mended: bool,
    finished: bool,
}

impl Mender {
    pub fn new() -> Mender {
        Mender { part: Part::Preface { heard: 0 }, held: vec![], mended: false, finished: false }
    }

    /// There is nothing to be mended in this connection, and nothing is held back.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes bytes as they came; what may be handed on goes to `out`.
    pub fn pass(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() && !self.finished {
            let taken = match self.part {
                Part::Preface { heard } => self.preface(heard, bytes, out),
                Part::Head => self.head(bytes, out),
                Part::Other { left } => {
                    let taken = left.min(bytes.len());
                    out.extend_from_slice(&bytes[..taken]);
                    self.part = if taken == left { Part::Head } else { Part::Other { left: left - taken } };
                    taken
                }
                Part::Headers { bytes: whole } => self.headers(whole, bytes, out),
            };
            bytes = &bytes[taken..];
        }
        out.extend_from_slice(bytes);
    }

    fn preface(&mut self, heard: usize, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let due = &PREFACE[heard..];
        let taken = due.len().min(bytes.len());
        if bytes[..taken] != due[..taken] {
            self.finished = true;
            return 0;
        }
        out.extend_from_slice(&bytes[..taken]);
        let heard = heard + taken;
        self.part = if heard == PREFACE.len() { Part::Head } else { Part::Preface { heard } };
        taken
    }

    fn head(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let taken = self.hold(HEAD_BYTES, bytes);
        if let [high, middle, low, kind, ..] = self.held[..]
            && self.held.len() == HEAD_BYTES
        {
            let left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            self.part = match kind {
                HEADERS if (1..=FRAME_BYTES_MAX).contains(&left) => {
                    Part::Headers { bytes: HEAD_BYTES + left }
                }
                _ => {
                    out.append(&mut self.held);
                    if left == 0 { Part::Head } else { Part::Other { left } }
                }
            };
        }
        taken
    }

    fn headers(&mut self, whole: usize, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let taken = self.hold(whole, bytes);
        if self.held.len() == whole {
            let mended = mend(&mut self.held).is_some();
            self.mended |= mended;
            self.finished = !self.mended;
            out.append(&mut self.held);
            self.part = Part::Head;
        }
        taken
    }

    /// Holds back up to so many bytes in all; tells how many it took.
    fn hold(&mut self, whole: usize, bytes: &[u8]) -> usize {
        let taken = (whole - self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..taken]);
        taken
    }
}

/// None when there was nothing to mend, or nothing that can be understood.
fn mend(frame: &mut [u8]) -> Option<()> {
    let flags = frame[4];
    let mut at = HEAD_BYTES;
    let mut end = frame.len();
    if flags & PADDED != 0 {
        end = end.checked_sub(usize::from(*frame.get(at)?))?;
        at += 1;
    }
    if flags & PRIORITY != 0 {
        at += PRIORITY_BYTES;
    }
    let block = frame.get_mut(at..end)?;
    let (from, to, coded) = authority(block)?;
    exchange(&mut block[from..to], coded)
}

/// Where the literal value of `:authority` lies in a block of headers, and whether it is in Huffman's code.
fn authority(block: &[u8]) -> Option<(usize, usize, bool)> {
    let mut at = 0;
    while let Some(first) = block.get(at) {
        let prefix = match first {
            0x80.. => {
                integer(block, &mut at, 7)?;
                continue;
            }
            0x40.. => 6,
            0x20.. => {
                integer(block, &mut at, 5)?;
                continue;
            }
            _ => 4,
        };
        let name = integer(block, &mut at, prefix)?;
        if name == 0 {
            skip_string(block, &mut at)?;
        }
        let coded = block.get(at)? & 0x80 != 0;
        let end = skip_string(block, &mut at)?;
        if name == AUTHORITY {
            return Some((end.start, end.end, coded));
        }
    }
    None
}

/// An integer whose first `prefix` bits lie in the first byte (RFC 7541, 5.1).
fn integer(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let mask = (1_usize << prefix) - 1;
    let mut number = usize::from(*block.get(*at)?) & mask;
    *at += 1;
    if number < mask {
        return Some(number);
    }
    for shift in [0, 7, 14] {
        let byte = *block.get(*at)?;
        *at += 1;
        number += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn skip_string(block: &[u8], at: &mut usize) -> Option<std::ops::Range<usize>> {
    let bytes = integer(block, at, 7)?;
    let range = *at..at.checked_add(bytes)?;
    block.get(range.clone())?;
    *at = range.end;
    Some(range)
}

fn exchange(value: &mut [u8], coded: bool) -> Option<()> {
    if !coded {
        let known: [(&[u8], &[u8]); 2] = [(b"http://", b"http--@"), (b"https://", b"https--@")];
        let (wrong, right) = known.into_iter().find(|(wrong, _)| value.starts_with(wrong))?;
        value[..wrong.len()].copy_from_slice(right);
        return Some(());
    }
    let start = value.get_mut(..EXCHANGE_BYTES)?;
    let mut number = start.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let wrong = |one: &&Exchange| number >> (8 * EXCHANGE_BYTES - one.bits) == one.from;
    let found = [&PLAIN, &SECURE].into_iter().find(wrong)?;
    let kept = 8 * EXCHANGE_BYTES - found.bits;
    number = found.to << kept | number & ((1 << kept) - 1);
    start.copy_from_slice(&number.to_be_bytes()[8 - EXCHANGE_BYTES..]);
    Some(())
}

#[cfg(test)]
mod tests;
