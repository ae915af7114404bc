//! The cursor of a feed: for each region, the stamp up to which everything that the region wrote has been sent.
//! It is made of watermarks, which hold for every replica of every region; so any node of any region can go on from it.

use crate::hlc::Stamp;
use crate::record::Record;
use crate::watermarks::Watermarks;
use base::codec::Reader;
use bytes::Bytes;

const VERSION: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedCursor {
    pub marks: Watermarks,
}

impl FeedCursor {
    /// Whether the record, with all writes that it contains, was sent.
    pub fn covers(&self, record: &Record) -> bool {
        record.writers().iter().all(|region| record.header.stamp <= self.marks.of(*region))
    }

    /// Everything that was written up to here was sent, whichever region wrote it.
    pub fn least(&self) -> Stamp {
        self.marks.iter().map(|(_, stamp)| stamp).min().unwrap_or_default()
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        self.marks.encode(&mut out);
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<FeedCursor> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let marks = Watermarks::decode(&mut reader)?;
        reader.is_empty().then_some(FeedCursor { marks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RegionId;

    #[test]
    fn cursors_survive_a_round_trip_and_cut_ones_are_refused() {
        let mut cursor = FeedCursor::default();
        cursor.marks.raise(RegionId(7), Stamp(50));
        cursor.marks.raise(RegionId(9), Stamp(40));
        assert_eq!(cursor.least(), Stamp(40));
        let bytes = cursor.encode();
        assert_eq!(FeedCursor::decode(bytes.clone()), Some(cursor));
        for cut in 0..bytes.len() {
            assert_eq!(FeedCursor::decode(bytes.slice(..cut)), None);
        }
    }
}
