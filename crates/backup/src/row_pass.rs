//! In which order a backup reads the rows of nodes: what nodes keep for others (hints) first, of all nodes, and then the rest. A
//! hint is removed when its target has the record. Read the other way round, a record that is handed over between the two would be in
//! neither: not yet in the target's records, and no hint any more.

use bytes::Bytes;

/// Kinds of rows; see docs/formats/mesh-rows.md.
const HINT: u8 = 3;
const BEHIND_HINTS: &[u8] = &[HINT + 1];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPass {
    Hints,
    Others,
}

impl RowPass {
    /// One after the other, each of all nodes.
    pub const ALL: [RowPass; 2] = [RowPass::Hints, RowPass::Others];

    /// The row to begin at.
    pub fn begin(self) -> Bytes {
        match self {
            RowPass::Hints => Bytes::from_static(&[HINT]),
            RowPass::Others => Bytes::new(),
        }
    }

    pub fn takes(self, row: &[u8]) -> bool {
        let is_hint = row.first() == Some(&HINT);
        is_hint == (self == RowPass::Hints)
    }

    /// Where to go on behind a page, after which the node would go on at `next`; none at the end.
    pub fn after(self, next: Bytes) -> Option<Bytes> {
        let at_hints = *next.first()? == HINT;
        match self {
            RowPass::Hints => at_hints.then_some(next),
            RowPass::Others if at_hints => Some(Bytes::from_static(BEHIND_HINTS)),
            RowPass::Others => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with these rows, two of them in a page.
    fn read(rows: &[&'static [u8]], pass: RowPass) -> Vec<&'static [u8]> {
        let (mut read, mut from) = (Vec::new(), Some(pass.begin()));
        while let Some(at) = from {
            let page: Vec<&[u8]> = rows.iter().copied().filter(|row| **row >= at[..]).take(2).collect();
            read.extend(page.iter().filter(|row| pass.takes(row)));
            let next = page.get(1).map(|last| Bytes::from([last, &b"\0"[..]].concat())).unwrap_or_default();
            from = pass.after(next);
        }
        read
    }

    #[test]
    fn every_row_is_read_once_and_hints_are_read_before_the_others() {
        let hints: [&[u8]; 3] = [b"\x03a", b"\x03b", b"\x03c"];
        for (before, behind) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
            let records = [&b"\x01a"[..], b"\x01b", b"\x01c"];
            let later = [&b"\x09a"[..], b"\x0aa"];
            let others = [&records[..before], &later[..behind]].concat();
            for n_hints in 0..=hints.len() {
                let rows = [&records[..before], &hints[..n_hints], &later[..behind]].concat();
                assert_eq!(read(&rows, RowPass::ALL[0]), hints[..n_hints]);
                assert_eq!(read(&rows, RowPass::ALL[1]), others);
            }
        }
    }
}
