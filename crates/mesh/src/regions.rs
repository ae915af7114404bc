//! The table of regions that replicate to each other: each region agrees on its own table and hands it to every node.
//! A region that is not in the table gets no frames, no data and no waiting; removing it is its eviction. Versions only grow.

use crate::actor::RegionId;
use crate::moves::majority;
use crate::request::Level;
use crate::watermarks::REGIONS_MAX;
use base::Code;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

const VERSION: u8 = 1;
const NAME_BYTES_MAX: usize = 128;
const SEEDS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    pub id: RegionId,
    pub name: String,
    /// Where some of its nodes can be reached; the shell's business.
    pub seeds: Vec<String>,
}

impl Region {
    pub fn new(name: &str, seeds: Vec<String>) -> Region {
        Region { id: RegionId::of(name), name: name.to_owned(), seeds }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// The version of the document.
    pub version: u64,
    /// By id. With the region whose table this is, or without.
    regions: Vec<Region>,
}

impl Regions {
    pub fn iter(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter()
    }

    pub fn get(&self, id: RegionId) -> Option<&Region> {
        self.find(id).ok().map(|at| &self.regions[at])
    }

    fn find(&self, id: RegionId) -> Result<usize, usize> {
        self.regions.binary_search_by_key(&id, |region| region.id)
    }

    /// All regions but `here`.
    pub fn others(&self, here: RegionId) -> impl Iterator<Item = RegionId> {
        self.regions.iter().map(|region| region.id).filter(move |id| *id != here)
    }

    /// In how many regions, with this one, a quorum must have a write or be heard by a read.
    pub fn needed(&self, level: Level, here: RegionId) -> usize {
        let regions = self.others(here).count() + 1;
        match level {
            Level::LocalOne | Level::LocalQuorum | Level::Linearizable => 1,
            Level::GlobalQuorum => majority(regions),
            Level::EachQuorum => regions,
        }
    }

    /// The next version, with a region added or its addresses replaced.
    pub fn with(&self, region: Region) -> Result<Regions, Code> {
        let lawful = !region.name.is_empty() && region.name.len() <= NAME_BYTES_MAX;
        if !lawful || region.id != RegionId::of(&region.name) || region.seeds.len() > SEEDS_MAX {
            return Err(Code::BadRegion);
        }
        let mut next = Regions { version: self.version + 1, ..self.clone() };
        match next.find(region.id) {
            Ok(at) if next.regions[at].name != region.name => return Err(Code::BadRegion),
            Ok(at) => next.regions[at] = region,
            Err(_) if next.regions.len() >= REGIONS_MAX => return Err(Code::BadRegion),
            Err(at) => next.regions.insert(at, region),
        }
        Ok(next)
    }

    /// The next version, without a region.
    pub fn without(&self, id: RegionId) -> Result<Regions, Code> {
        let at = self.find(id).map_err(|_| Code::UnknownRegion)?;
        let mut next = Regions { version: self.version + 1, ..self.clone() };
        next.regions.remove(at);
        Ok(next)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.version);
        put_varint(&mut out, self.regions.len() as u64);
        for region in &self.regions {
            put_bytes(&mut out, region.name.as_bytes());
            put_varint(&mut out, region.seeds.len() as u64);
            region.seeds.iter().for_each(|seed| put_bytes(&mut out, seed.as_bytes()));
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Regions> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let version = reader.varint()?;
        let text = |reader: &mut Reader| String::from_utf8(reader.bytes()?.to_vec()).ok();
        let mut regions = Regions::default();
        for _ in 0..reader.count()? {
            let name = text(&mut reader)?;
            let seeds = (0..reader.count()?).map(|_| text(&mut reader)).collect::<Option<Vec<_>>>()?;
            regions = regions.with(Region::new(&name, seeds)).ok()?;
        }
        regions.version = version;
        reader.is_empty().then_some(regions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Regions {
        let add = |regions: Regions, name| regions.with(Region::new(name, vec!["h:1".into()])).unwrap();
        ["eu", "us", "ap"].into_iter().fold(Regions::default(), add)
    }

    #[test]
    fn regions_come_and_go_and_survive_a_round_trip() {
        let regions = three();
        assert_eq!((regions.version, regions.iter().count()), (3, 3));
        assert_eq!(regions.others(RegionId::of("eu")).count(), 2);
        let bytes = regions.encode();
        assert_eq!(Regions::decode(bytes.clone()), Some(regions.clone()));
        (0..bytes.len()).for_each(|cut| assert_eq!(Regions::decode(bytes.slice(..cut)), None));
        let two = regions.without(RegionId::of("us")).unwrap();
        assert_eq!((two.version, two.get(RegionId::of("us"))), (4, None));
        assert_eq!(two.without(RegionId::of("us")), Err(Code::UnknownRegion));
        assert_eq!(regions.with(Region::new("", vec![])), Err(Code::BadRegion));
    }

    #[test]
    fn of_two_regions_both_are_needed_and_of_three_two() {
        let regions = three();
        assert_eq!(regions.needed(Level::GlobalQuorum, RegionId::of("eu")), 2);
        let two = regions.without(RegionId::of("us")).unwrap();
        assert_eq!(two.needed(Level::GlobalQuorum, RegionId::of("eu")), 2);
        assert_eq!(Regions::default().needed(Level::GlobalQuorum, RegionId::of("eu")), 1);
        assert_eq!(regions.needed(Level::EachQuorum, RegionId::of("eu")), 3);
        assert_eq!(regions.needed(Level::LocalQuorum, RegionId::of("eu")), 1);
    }
}
