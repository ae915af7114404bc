//! Watermarks of a shard: for each region the stamp up to which everything that the region wrote is, or was, on every replica
//! in this region. A record that is missing although it lies below the watermarks of all its writers was deleted everywhere.
//! Watermarks only grow.

use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::mutant::Mutant;
use crate::record::Record;
use base::codec::{Reader, put_varint};
use base::mutant::planted;

/// More regions than any deployment has.
pub const REGIONS_MAX: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// By region.
    marks: Vec<(RegionId, Stamp)>,
}

impl Watermarks {
    pub fn of(&self, region: RegionId) -> Stamp {
        self.find(region).map_or(Stamp::ZERO, |at| self.marks[at].1)
    }

    fn find(&self, region: RegionId) -> Result<usize, usize> {
        self.marks.binary_search_by_key(&region, |(other, _)| *other)
    }

    /// Whether that was news.
    pub fn raise(&mut self, region: RegionId, stamp: Stamp) -> bool {
        match self.find(region) {
            Ok(at) if self.marks[at].1 >= stamp => false,
            Ok(at) => {
                self.marks[at].1 = stamp;
                true
            }
            Err(_) if stamp == Stamp::ZERO || self.marks.len() >= REGIONS_MAX => false,
            Err(at) => {
                self.marks.insert(at, (region, stamp));
                true
            }
        }
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(RegionId, Stamp) -> bool) {
        self.marks.retain(|(region, stamp)| keeps(*region, *stamp));
    }

    pub fn iter(&self) -> impl Iterator<Item = (RegionId, Stamp)> {
        self.marks.iter().copied()
    }

    /// Whether the record, with everything that went into it, lies below the marks.
    pub fn cover(&self, record: &Record) -> bool {
        // Nearly always there are none, and a record has a writer.
        !self.marks.is_empty() && self.cover_writers(record.header.stamp, &record.writers())
    }

    pub fn cover_writers(&self, stamp: Stamp, writers: &[RegionId]) -> bool {
        writers.iter().all(|region| stamp <= self.of(*region)) && !planted(Mutant::PurgedReturns)
    }

    /// Raises each watermark to that of `other`.
    pub fn join(&mut self, other: &Watermarks) {
        for (region, stamp) in other.iter() {
            self.raise(region, stamp);
        }
    }

    /// What both say.
    pub fn meet(&self, other: &Watermarks) -> Watermarks {
        let mut both = Watermarks::default();
        for (region, stamp) in self.iter() {
            both.raise(region, stamp.min(other.of(region)));
        }
        both
    }

    /// The least watermark of these regions: no older write comes from them any more.
    pub fn least(&self, regions: impl Iterator<Item = RegionId>) -> Stamp {
        regions.map(|region| self.of(region)).min().unwrap_or_default()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.marks.len() as u64);
        for (region, stamp) in &self.marks {
            put_varint(out, u64::from(region.0));
            put_varint(out, stamp.0);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<Watermarks> {
        let mut marks = Watermarks::default();
        for _ in 0..Some(reader.count()?).filter(|count| *count <= REGIONS_MAX)? {
            let region = RegionId(u32::try_from(reader.varint()?).ok()?);
            marks.raise(region, Stamp(reader.varint()?));
        }
        Some(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn marks_only_grow_and_survive_a_round_trip() {
        let mut marks = Watermarks::default();
        assert!(marks.raise(RegionId(7), Stamp(5)) && marks.raise(RegionId(3), Stamp(9)));
        assert!(!marks.raise(RegionId(7), Stamp(5)) && !marks.raise(RegionId(7), Stamp(4)));
        assert_eq!(marks.least([RegionId(3), RegionId(7)].into_iter()), Stamp(5));
        assert_eq!(marks.least([RegionId(3), RegionId(4)].into_iter()), Stamp::ZERO, "never heard of");
        let mut out = Vec::new();
        marks.encode(&mut out);
        assert_eq!(Watermarks::decode(&mut Reader::new(Bytes::from(out))), Some(marks));
    }
}
