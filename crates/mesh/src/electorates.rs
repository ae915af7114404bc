//! The regions that elect the owners of homes. Each region keeps, as a document of its own, every electorate that some
//! region may still go by: a table of regions that has changed is added before the region speaks of it, and the earlier ones
//! are dropped when every region of the new table has said that it has added it. An owner needs its confirmations in each
//! electorate, and a candidate its votes, so two regions that know different tables never elect two owners (ADR 63).

use crate::actor::RegionId;
use crate::moves::majority;
use crate::watermarks::REGIONS_MAX;
use base::Instant;
use base::checksum::hash64;
use base::codec::{Reader, put_varint};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

const VERSION: u8 = 1;
/// Changes of the table that may be on their way at a time; later ones wait.
const ELECTORATES_MAX: usize = 8;

pub type Electorate = BTreeSet<RegionId>;

/// Oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Electorates {
    all: Vec<Electorate>,
}

impl Electorates {
    /// All regions of the table go by it.
    pub fn agreed(table: Electorate) -> Electorates {
        Electorates { all: vec![table] }
    }

    pub fn newest(&self) -> Option<&Electorate> {
        self.all.last()
    }

    /// The electorates with one more table. None if the table is among them, or they are full.
    pub fn with(&self, table: &Electorate) -> Option<Electorates> {
        let is_new = self.newest() != Some(table) && self.all.len() < ELECTORATES_MAX;
        is_new.then(|| Electorates { all: self.all.iter().chain([table]).cloned().collect() })
    }

    /// Whether these votes make an owner. Regions that were evicted neither vote nor count.
    pub fn elects(&self, votes: &Electorate, table: &Electorate) -> bool {
        let elects = |electorate: &Electorate| {
            let present: Electorate = electorate.intersection(table).copied().collect();
            present.intersection(votes).count() >= majority(present.len())
        };
        !self.all.is_empty() && self.all.iter().all(elects)
    }

    /// Since when so many regions have confirmed the owner that no majority of any electorate is without one of them.
    /// Evicted regions count: they may have voted for another before they went.
    pub fn held_since(&self, confirmed: &BTreeMap<RegionId, Instant>) -> Option<Instant> {
        let since = |electorate: &Electorate| {
            let needed = electorate.len() - majority(electorate.len()) + 1;
            let mut at: Vec<Instant> =
                electorate.iter().filter_map(|region| confirmed.get(region)).copied().collect();
            at.sort_unstable_by(|one, other| other.cmp(one));
            at.get(needed - 1).copied()
        };
        self.all.iter().map(since).collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.all.len() as u64);
        for electorate in &self.all {
            encode_regions(electorate, &mut out);
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Electorates> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let count = reader.count().filter(|count| *count <= ELECTORATES_MAX)?;
        let all = (0..count).map(|_| decode_regions(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some(Electorates { all })
    }
}

/// Names an electorate between regions.
pub fn electorate_id(electorate: &Electorate) -> u64 {
    let mut out = Vec::new();
    encode_regions(electorate, &mut out);
    hash64(&out, 0)
}

fn encode_regions(electorate: &Electorate, out: &mut Vec<u8>) {
    put_varint(out, electorate.len() as u64);
    electorate.iter().for_each(|region| put_varint(out, u64::from(region.0)));
}

fn decode_regions(reader: &mut Reader) -> Option<Electorate> {
    let count = reader.count().filter(|count| (1..=REGIONS_MAX).contains(count))?;
    let region = |reader: &mut Reader| Some(RegionId(u32::try_from(reader.varint()?).ok()?));
    let electorate = (0..count).map(|_| region(reader)).collect::<Option<Electorate>>()?;
    (electorate.len() == count).then_some(electorate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(ids: &[u32]) -> Electorate {
        ids.iter().map(|id| RegionId(*id)).collect()
    }

    #[test]
    fn an_owner_counts_those_that_may_have_voted_for_another_before_they_were_evicted() {
        let (three, two) = (regions(&[1, 2, 3]), regions(&[1, 2]));
        let changing = Electorates::agreed(three).with(&two).unwrap();
        assert_eq!(changing.with(&two), None);
        let alone = BTreeMap::from([(RegionId(1), Instant(9))]);
        assert_eq!(changing.held_since(&alone), None, "2 may be elected by 3's vote");
        let both = BTreeMap::from([(RegionId(1), Instant(9)), (RegionId(2), Instant(5))]);
        assert_eq!(changing.held_since(&both), Some(Instant(5)));
        assert_eq!(Electorates::agreed(two.clone()).held_since(&alone), Some(Instant(9)));
        assert!(!changing.elects(&regions(&[2]), &two) && changing.elects(&two, &two));
        assert!(changing.elects(&regions(&[2]), &regions(&[2])), "the others are gone");
    }

    #[test]
    fn a_region_that_joins_elects_nothing_before_all_know_of_it() {
        let (two, three) = (regions(&[1, 2]), regions(&[1, 2, 3]));
        let changing = Electorates::agreed(two).with(&three).unwrap();
        assert!(!changing.elects(&regions(&[2, 3]), &three), "1 may rely on 2's vote");
        assert!(!Electorates::default().elects(&three, &three));
        assert!(Electorates::agreed(three.clone()).elects(&regions(&[2, 3]), &three));
    }

    #[test]
    fn electorates_survive_a_round_trip_and_cut_bytes_are_refused() {
        let electorates = Electorates::agreed(regions(&[1, 2])).with(&regions(&[1, 2, 700])).unwrap();
        let bytes = electorates.encode();
        assert_eq!(Electorates::decode(bytes.clone()), Some(electorates));
        (0..bytes.len()).for_each(|cut| assert_eq!(Electorates::decode(bytes.slice(..cut)), None));
    }
}
