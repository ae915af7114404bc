//! Which region owns which namespace, where one does: a value that each region agrees on for itself.
//! Regions may be of different minds for a while; the epoch, which goes into every write of an owner, decides then: who
//! owned the namespace before loses. An owner is followed by another and never by nobody, for what was written under an
//! epoch is not overwritten without one.

use crate::actor::RegionId;
use crate::home::Home;
use base::Code;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Where the cluster keeps it.
pub const DOCUMENT: &str = "homes";
const VERSION: u8 = 1;
const HOMES_MAX: usize = 4_096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    /// By the name of the namespace.
    homes: BTreeMap<String, Home>,
}

impl Homes {
    pub fn get(&self, namespace: &str) -> Option<Home> {
        self.homes.get(namespace).copied()
    }

    /// A namespace goes to a region, under the next epoch, or under one that is said and later than the last.
    pub fn pass(&mut self, namespace: &str, to: RegionId, epoch: Option<u64>) -> Result<Home, Code> {
        let old = self.get(namespace);
        let next = match (old, epoch) {
            (None, None) => Home::first(to),
            (Some(old), None) if old.region == to => old,
            (Some(old), None) => old.pass_to(to)?,
            (Some(old), Some(epoch)) if epoch == old.epoch && old.region == to => old,
            (old, Some(epoch)) if epoch > old.map_or(0, |old| old.epoch) => Home { region: to, epoch },
            _ => return Err(Code::FencePassed),
        };
        if old.is_none() && self.homes.len() >= HOMES_MAX {
            return Err(Code::TooManyOps);
        }
        self.homes.insert(namespace.to_owned(), next);
        Ok(next)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.homes.len() as u64);
        for (namespace, home) in &self.homes {
            put_bytes(&mut out, namespace.as_bytes());
            put_bytes(&mut out, &home.encode());
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Homes> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let count = reader.count().filter(|count| *count <= HOMES_MAX)?;
        let one = |reader: &mut Reader| {
            let namespace = String::from_utf8(reader.bytes()?.into()).ok()?;
            Some((namespace, Home::decode(reader.bytes()?)?))
        };
        let homes = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
        reader.is_empty().then_some(Homes { homes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_only_grow_and_the_same_owner_keeps_its_own() {
        let (eu, us) = (RegionId::of("eu"), RegionId::of("us"));
        let mut homes = Homes::default();
        assert_eq!(homes.pass("shop", eu, None).map(|home| home.epoch), Ok(1));
        assert_eq!(homes.pass("shop", eu, None).map(|home| home.epoch), Ok(1));
        assert_eq!(homes.pass("shop", us, None).map(|home| home.epoch), Ok(2));
        assert_eq!(homes.pass("shop", eu, Some(2)), Err(Code::FencePassed));
        assert_eq!(homes.pass("shop", eu, Some(7)).map(|home| home.epoch), Ok(7));
        let bytes = homes.encode();
        assert_eq!(Homes::decode(bytes.clone()), Some(homes));
        (0..bytes.len()).for_each(|cut| assert_eq!(Homes::decode(bytes.slice(..cut)), None));
    }
}
