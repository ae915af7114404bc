//! Which region owns which namespace, or which keys of a namespace by prefix: a document that each region agrees on for
//! itself. Regions may disagree for a while; then the epoch, which every write of an owner carries, decides: the earlier owner
//! loses. An owner is always followed by another owner, because a write under an epoch cannot be overwritten without one. In
//! a region's own document an entry is also its vote: see `home_election`.

use crate::actor::RegionId;
use crate::home::Home;
use base::Code;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

/// What a lease may be: shorter ones would end while a region elects who leads it.
pub const HOME_LEASE_MS_MIN: u64 = 2_000;
pub const HOME_LEASE_MS_MAX: u64 = 24 * 3_600 * 1_000;
/// What the prefix of a home may take.
pub const HOME_PREFIX_BYTES_MAX: usize = 256;

const VERSION: u8 = 2;
/// Without leases, prefixes and votes.
const VERSION_WITHOUT_LEASES: u8 = 1;
const HOMES_MAX: usize = 1_024;

/// The keys that one home is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HomeScope {
    pub namespace: String,
    /// Empty for all of them.
    pub prefix: String,
}

impl HomeScope {
    pub fn new(namespace: &str, prefix: &str) -> HomeScope {
        HomeScope { namespace: namespace.to_owned(), prefix: prefix.to_owned() }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.namespace.as_bytes());
        put_bytes(out, self.prefix.as_bytes());
    }

    pub fn decode(reader: &mut Reader) -> Option<HomeScope> {
        let mut text = || String::from_utf8(reader.bytes()?.into()).ok();
        let (namespace, prefix) = (text()?, text()?);
        (prefix.len() <= HOME_PREFIX_BYTES_MAX).then_some(HomeScope { namespace, prefix })
    }
}

/// Which region owns a scope, and under which lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    pub home: Home,
    /// How long a silent owner stays the owner; zero for ever, or until an operator transfers it.
    pub lease_ms: u64,
    /// Decided by a majority of regions or by an operator. Otherwise the region is only a candidate.
    pub settled: bool,
}

impl Ownership {
    /// The order of two ownerships, of which the later counts: what is decided stands above candidates of its epoch.
    pub fn rank(&self) -> (u64, bool, RegionId) {
        (self.home.epoch, self.settled, self.home.region)
    }
}

/// An operator's transfer of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeTransfer {
    pub to: RegionId,
    /// The epoch, if it is not the next one.
    pub epoch: Option<u64>,
    /// A new duration of the lease, if it changes.
    pub lease_ms: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    ownerships: BTreeMap<HomeScope, Ownership>,
}

impl Homes {
    pub fn get(&self, scope: &HomeScope) -> Option<Ownership> {
        self.ownerships.get(scope).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&HomeScope, Ownership)> {
        self.ownerships.iter().map(|(scope, ownership)| (scope, *ownership))
    }

    /// The home of a key: that of the longest prefix.
    pub fn find(&self, namespace: &str, key: &[u8]) -> Option<(&HomeScope, Ownership)> {
        let first = HomeScope::new(namespace, "");
        let of_space = self.ownerships.range(&first..).take_while(|(scope, _)| scope.namespace == namespace);
        let covers = of_space.filter(|(scope, _)| key.starts_with(scope.prefix.as_bytes()));
        covers.max_by_key(|(scope, _)| scope.prefix.len()).map(|(scope, ownership)| (scope, *ownership))
    }

    pub fn set(&mut self, scope: HomeScope, ownership: Ownership) -> Result<(), Code> {
        if !self.ownerships.contains_key(&scope) && self.ownerships.len() >= HOMES_MAX {
            return Err(Code::TooManyOps);
        }
        self.ownerships.insert(scope, ownership);
        Ok(())
    }

    /// A place goes to a region, under the next epoch, or under one that is said and later than the last. The same
    /// again changes nothing.
    pub fn transfer(&mut self, scope: &HomeScope, transfer: HomeTransfer) -> Result<Ownership, Code> {
        let HomeTransfer { to, epoch, lease_ms } = transfer;
        let lawful =
            lease_ms.is_none_or(|ms| ms == 0 || (HOME_LEASE_MS_MIN..=HOME_LEASE_MS_MAX).contains(&ms));
        if !lawful || scope.prefix.len() > HOME_PREFIX_BYTES_MAX {
            return Err(Code::BadRequest);
        }
        let old = self.get(scope);
        // Keys of a part were written under the epoch of the whole until now.
        let last = match old {
            Some(old) => old.home.epoch,
            None => {
                self.find(&scope.namespace, scope.prefix.as_bytes()).map_or(0, |(_, whole)| whole.home.epoch)
            }
        };
        let lease_ms = lease_ms.unwrap_or(old.map_or(0, |old| old.lease_ms));
        let same = |old: &Ownership| old.home.region == to && old.lease_ms == lease_ms && old.settled;
        let epoch = match (old.filter(same), epoch) {
            (Some(old), None) => return Ok(old),
            (Some(old), Some(epoch)) if epoch == last => return Ok(old),
            (_, Some(epoch)) if epoch > last => epoch,
            (_, None) => last.checked_add(1).ok_or(Code::NumberTooLarge)?,
            _ => return Err(Code::FencePassed),
        };
        let ownership = Ownership { home: Home { region: to, epoch }, lease_ms, settled: true };
        self.set(scope.clone(), ownership)?;
        Ok(ownership)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.ownerships.len() as u64);
        for (scope, ownership) in &self.ownerships {
            scope.encode(&mut out);
            put_bytes(&mut out, &ownership.home.encode());
            put_varint(&mut out, ownership.lease_ms);
            out.push(u8::from(ownership.settled));
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Homes> {
        let mut reader = Reader::new(bytes);
        let version = reader.u8()?;
        let count = reader.count().filter(|count| *count <= HOMES_MAX)?;
        let one = match version {
            VERSION => decode_ownership,
            VERSION_WITHOUT_LEASES => decode_namespace,
            _ => return None,
        };
        let ownerships = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some(Homes { ownerships })
    }
}

fn decode_ownership(reader: &mut Reader) -> Option<(HomeScope, Ownership)> {
    let scope = HomeScope::decode(reader)?;
    let (home, lease_ms) = (Home::decode(reader.bytes()?)?, reader.varint()?);
    let settled = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    (lease_ms <= HOME_LEASE_MS_MAX).then_some((scope, Ownership { home, lease_ms, settled }))
}

fn decode_namespace(reader: &mut Reader) -> Option<(HomeScope, Ownership)> {
    let namespace = String::from_utf8(reader.bytes()?.into()).ok()?;
    let home = Home::decode(reader.bytes()?)?;
    Some((HomeScope::new(&namespace, ""), Ownership { home, lease_ms: 0, settled: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(region: &str) -> HomeTransfer {
        HomeTransfer { to: RegionId::of(region), epoch: None, lease_ms: None }
    }

    fn epoch(ownership: Result<Ownership, Code>) -> Result<u64, Code> {
        ownership.map(|ownership| ownership.home.epoch)
    }

    #[test]
    fn epochs_only_grow_and_the_same_owner_keeps_its_own() {
        let (mut homes, shop) = (Homes::default(), HomeScope::new("shop", ""));
        assert_eq!(epoch(homes.transfer(&shop, to("eu"))), Ok(1));
        assert_eq!(epoch(homes.transfer(&shop, to("eu"))), Ok(1));
        assert_eq!(epoch(homes.transfer(&shop, to("us"))), Ok(2));
        assert_eq!(
            homes.transfer(&shop, HomeTransfer { epoch: Some(2), ..to("eu") }),
            Err(Code::FencePassed)
        );
        assert_eq!(epoch(homes.transfer(&shop, HomeTransfer { epoch: Some(7), ..to("eu") })), Ok(7));
        let leased = HomeTransfer { lease_ms: Some(HOME_LEASE_MS_MIN), ..to("eu") };
        assert_eq!(epoch(homes.transfer(&shop, leased)), Ok(8), "other terms are another epoch");
        assert_eq!(
            homes.transfer(&shop, to("eu")).map(|ownership| ownership.lease_ms),
            Ok(HOME_LEASE_MS_MIN)
        );
        assert_eq!(
            homes.transfer(&shop, HomeTransfer { lease_ms: Some(1), ..to("eu") }),
            Err(Code::BadRequest)
        );
        let bytes = homes.encode();
        assert_eq!(Homes::decode(bytes.clone()), Some(homes));
        (0..bytes.len()).for_each(|cut| assert_eq!(Homes::decode(bytes.slice(..cut)), None));
    }

    #[test]
    fn the_longest_prefix_decides_and_begins_above_what_it_is_part_of() {
        let mut homes = Homes::default();
        homes.transfer(&HomeScope::new("shop", ""), HomeTransfer { epoch: Some(5), ..to("eu") }).unwrap();
        let part = HomeScope::new("shop", "us/");
        assert_eq!(epoch(homes.transfer(&part, to("us"))), Ok(6));
        let region =
            |key: &str| homes.find("shop", key.as_bytes()).map(|(_, ownership)| ownership.home.region);
        assert_eq!(region("us/1"), Some(RegionId::of("us")));
        assert_eq!(region("u"), Some(RegionId::of("eu")));
        assert_eq!(homes.find("shops", b"us/1"), None);
    }

    #[test]
    fn what_was_written_without_leases_is_still_read() {
        let mut old = vec![VERSION_WITHOUT_LEASES];
        put_varint(&mut old, 1);
        put_bytes(&mut old, b"shop");
        put_bytes(&mut old, &Home { region: RegionId(7), epoch: 3 }.encode());
        let homes = Homes::decode(old.into()).unwrap();
        let ownership = homes.get(&HomeScope::new("shop", "")).unwrap();
        assert_eq!((ownership.home.epoch, ownership.lease_ms, ownership.settled), (3, 0, true));
    }
}
