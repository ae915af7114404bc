//! The level of the formats that a cluster writes. Release 0.1.0 writes level 0. A later release that takes over a cluster
//! keeps to its level, so that the way back stays open, until an operator raises the level (`althing upgrade finalize`).
//! New clusters begin at the newest one. The level is a document of the cluster; without the document it is the oldest.

/// Later levels are larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormatLevel(pub u8);

/// The layout of the document.
const FORMAT: u8 = 1;

impl FormatLevel {
    /// What release 0.1.0 writes and reads.
    pub const OLDEST: FormatLevel = FormatLevel(0);
    /// The highest level that this release writes and reads.
    pub const NEWEST: FormatLevel = FormatLevel(1);
    /// The name of the document.
    pub const DOCUMENT: &str = "cluster/format-level";

    /// As the document holds it.
    pub fn encode(self) -> [u8; 2] {
        [FORMAT, self.0]
    }

    /// None for what is no document of a level.
    pub fn decode(bytes: &[u8]) -> Option<FormatLevel> {
        match bytes {
            [FORMAT, level] => Some(FormatLevel(*level)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_survives_a_round_trip_and_other_bytes_are_refused() {
        assert_eq!(FormatLevel::decode(&FormatLevel::NEWEST.encode()), Some(FormatLevel::NEWEST));
        for bytes in [&[][..], &[FORMAT], &[FORMAT, 1, 0], &[9, 1]] {
            assert_eq!(FormatLevel::decode(bytes), None, "{bytes:?}");
        }
    }
}
