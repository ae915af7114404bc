//! Reads decisions from the fuzzer's bytes: choices, numbers near the edges, and byte strings.
//! When the bytes end every read gives zero or nothing, so that a target always comes to an end.

/// Numbers at which arithmetic and comparisons go wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    1 << 20,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 62) - 1,
    1 << 62,
    (1 << 62) + 1,
    u64::MAX - 1,
    u64::MAX,
];

pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of so many choices.
    pub fn choice(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// A small number, one near a number that means something to the machine, an edge, or any number.
    pub fn number(&mut self, known: &[u64]) -> u64 {
        match self.byte() {
            small @ 0..=63 => u64::from(small),
            near @ 64..=191 if !known.is_empty() => {
                let at = usize::from(near - 64);
                let (number, offset) = (known[at / 4 % known.len()], at % 4);
                [number, number.wrapping_add(1), number.wrapping_sub(1), number.wrapping_add(2)][offset]
            }
            edge @ 64..=239 => EDGES[usize::from(edge) % EDGES.len()],
            _ => {
                let bytes: [u8; 8] = std::array::from_fn(|_| self.byte());
                u64::from_le_bytes(bytes)
            }
        }
    }

    /// So many bytes as the next byte says.
    pub fn string(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte()).min(self.bytes.len());
        let (string, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        string
    }

    /// So many bytes as the next two bytes say.
    pub fn long_string(&mut self) -> &'a [u8] {
        let len = usize::from(u16::from_le_bytes([self.byte(), self.byte()])).min(self.bytes.len());
        let (string, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        string
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}
