//! Which region owns which namespace, or which keys of a namespace by prefix: a document that each region agrees on for
//! itself. Regions may disagree for a while; then the epoch, which every write of an owner carries, decides: the earlier owner
//! loses. An owner is always followed by another owner, because a write under an epoch cannot be overwritten without one. In
//! a region's own document an entry is also its vote: see `steward`.

use crate::actor::RegionId;
use crate::home::Home;
use base::Code;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Where the cluster keeps it.
pub const DOCUMENT: &str = "homes";
/// What a lease may be: shorter ones would end while a region elects who leads it.
pub const LEASE_MS_MIN: u64 = 2_000;
pub const LEASE_MS_MAX: u64 = 24 * 3_600 * 1_000;
/// What the prefix of a home may take.
pub const PREFIX_BYTES_MAX: usize = 256;

const VERSION: u8 = 2;
/// Without leases, prefixes and votes.
const VERSION_OF_NAMESPACES: u8 = 1;
const HOMES_MAX: usize = 1_024;

/// The keys that one home is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub namespace: String,
    /// Empty for all of them.
    pub prefix: String,
}

impl Place {
    pub fn new(namespace: &str, prefix: &str) -> Place {
        Place { namespace: namespace.to_owned(), prefix: prefix.to_owned() }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.namespace.as_bytes());
        put_bytes(out, self.prefix.as_bytes());
    }

    pub fn decode(reader: &mut Reader) -> Option<Place> {
        let mut text = || String::from_utf8(reader.bytes()?.into()).ok();
        let (namespace, prefix) = (text()?, text()?);
        (prefix.len() <= PREFIX_BYTES_MAX).then_some(Place { namespace, prefix })
    }
}

/// Which region owns a scope, and under which lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Title {
    pub home: Home,
    /// How long a silent owner stays the owner; zero for ever, or until an operator transfers it.
    pub lease_ms: u64,
    /// Decided by a majority of regions or by an operator. Otherwise the region is only a candidate.
    pub settled: bool,
}

impl Title {
    /// Of two, the later one counts: what is decided stands above candidates of its epoch.
    pub fn rank(&self) -> (u64, bool, RegionId) {
        (self.home.epoch, self.settled, self.home.region)
    }
}

/// An operator's transfer of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub to: RegionId,
    /// Another than the next.
    pub epoch: Option<u64>,
    /// Another than it has.
    pub lease_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    titles: BTreeMap<Place, Title>,
}

impl Homes {
    pub fn get(&self, place: &Place) -> Option<Title> {
        self.titles.get(place).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Place, Title)> {
        self.titles.iter().map(|(place, title)| (place, *title))
    }

    /// The home of a key: that of the longest prefix.
    pub fn find(&self, namespace: &str, key: &[u8]) -> Option<(&Place, Title)> {
        let first = Place::new(namespace, "");
        let of_space = self.titles.range(&first..).take_while(|(place, _)| place.namespace == namespace);
        let covers = of_space.filter(|(place, _)| key.starts_with(place.prefix.as_bytes()));
        covers.max_by_key(|(place, _)| place.prefix.len()).map(|(place, title)| (place, *title))
    }

    pub fn set(&mut self, place: Place, title: Title) -> Result<(), Code> {
        if !self.titles.contains_key(&place) && self.titles.len() >= HOMES_MAX {
            return Err(Code::TooManyOps);
        }
        self.titles.insert(place, title);
        Ok(())
    }

    /// A place goes to a region, under the next epoch, or under one that is said and later than the last. The same
    /// again changes nothing.
    pub fn pass(&mut self, place: &Place, transfer: Transfer) -> Result<Title, Code> {
        let Transfer { to, epoch, lease_ms } = transfer;
        let lawful = lease_ms.is_none_or(|ms| ms == 0 || (LEASE_MS_MIN..=LEASE_MS_MAX).contains(&ms));
        if !lawful || place.prefix.len() > PREFIX_BYTES_MAX {
            return Err(Code::BadRequest);
        }
        let old = self.get(place);
        // Keys of a part were written under the epoch of the whole until now.
        let last = match old {
            Some(old) => old.home.epoch,
            None => {
                self.find(&place.namespace, place.prefix.as_bytes()).map_or(0, |(_, whole)| whole.home.epoch)
            }
        };
        let lease_ms = lease_ms.unwrap_or(old.map_or(0, |old| old.lease_ms));
        let same = |old: &Title| old.home.region == to && old.lease_ms == lease_ms && old.settled;
        let epoch = match (old.filter(same), epoch) {
            (Some(old), None) => return Ok(old),
            (Some(old), Some(epoch)) if epoch == last => return Ok(old),
            (_, Some(epoch)) if epoch > last => epoch,
            (_, None) => last.checked_add(1).ok_or(Code::NumberTooLarge)?,
            _ => return Err(Code::FencePassed),
        };
        let title = Title { home: Home { region: to, epoch }, lease_ms, settled: true };
        self.set(place.clone(), title)?;
        Ok(title)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.titles.len() as u64);
        for (place, title) in &self.titles {
            place.encode(&mut out);
            put_bytes(&mut out, &title.home.encode());
            put_varint(&mut out, title.lease_ms);
            out.push(u8::from(title.settled));
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Homes> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        let count = reader.count().filter(|count| *count <= HOMES_MAX)?;
        let one = match version {
            VERSION => decode_title,
            VERSION_OF_NAMESPACES => decode_namespace,
            _ => return None,
        };
        let titles = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some(Homes { titles })
    }
}

fn decode_title(reader: &mut Reader) -> Option<(Place, Title)> {
    let place = Place::decode(reader)?;
    let (home, lease_ms) = (Home::decode(reader.bytes()?)?, reader.varint()?);
    let settled = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    (lease_ms <= LEASE_MS_MAX).then_some((place, Title { home, lease_ms, settled }))
}

fn decode_namespace(reader: &mut Reader) -> Option<(Place, Title)> {
    let namespace = String::from_utf8(reader.bytes()?.into()).ok()?;
    let home = Home::decode(reader.bytes()?)?;
    Some((Place::new(&namespace, ""), Title { home, lease_ms: 0, settled: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(region: &str) -> Transfer {
        Transfer { to: RegionId::of(region), epoch: None, lease_ms: None }
    }

    fn epoch(title: Result<Title, Code>) -> Result<u64, Code> {
        title.map(|title| title.home.epoch)
    }

    #[test]
    fn epochs_only_grow_and_the_same_owner_keeps_its_own() {
        let (mut homes, shop) = (Homes::default(), Place::new("shop", ""));
        assert_eq!(epoch(homes.pass(&shop, to("eu"))), Ok(1));
        assert_eq!(epoch(homes.pass(&shop, to("eu"))), Ok(1));
        assert_eq!(epoch(homes.pass(&shop, to("us"))), Ok(2));
        assert_eq!(homes.pass(&shop, Transfer { epoch: Some(2), ..to("eu") }), Err(Code::FencePassed));
        assert_eq!(epoch(homes.pass(&shop, Transfer { epoch: Some(7), ..to("eu") })), Ok(7));
        let leased = Transfer { lease_ms: Some(LEASE_MS_MIN), ..to("eu") };
        assert_eq!(epoch(homes.pass(&shop, leased)), Ok(8), "other terms are another epoch");
        assert_eq!(homes.pass(&shop, to("eu")).map(|title| title.lease_ms), Ok(LEASE_MS_MIN));
        assert_eq!(homes.pass(&shop, Transfer { lease_ms: Some(1), ..to("eu") }), Err(Code::BadRequest));
        let bytes = homes.encode();
        assert_eq!(Homes::decode(bytes.clone()), Some(homes));
        (0..bytes.len()).for_each(|cut| assert_eq!(Homes::decode(bytes.slice(..cut)), None));
    }

    #[test]
    fn the_longest_prefix_decides_and_begins_above_what_it_is_part_of() {
        let mut homes = Homes::default();
        homes.pass(&Place::new("shop", ""), Transfer { epoch: Some(5), ..to("eu") }).unwrap();
        let part = Place::new("shop", "us/");
        assert_eq!(epoch(homes.pass(&part, to("us"))), Ok(6));
        let region = |key: &str| homes.find("shop", key.as_bytes()).map(|(_, title)| title.home.region);
        assert_eq!(region("us/1"), Some(RegionId::of("us")));
        assert_eq!(region("u"), Some(RegionId::of("eu")));
        assert_eq!(homes.find("shops", b"us/1"), None);
    }

    #[test]
    fn what_was_written_without_leases_is_still_read() {
        let mut old = vec![VERSION_OF_NAMESPACES];
        put_varint(&mut old, 1);
        put_bytes(&mut old, b"shop");
        put_bytes(&mut old, &Home { region: RegionId(7), epoch: 3 }.encode());
        let homes = Homes::decode(old.into()).unwrap();
        let title = homes.get(&Place::new("shop", "")).unwrap();
        assert_eq!((title.home.epoch, title.lease_ms, title.settled), (3, 0, true));
    }
}
