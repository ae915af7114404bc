//! A map by name that every region changes on its own and that regions merge later.
//! Each entry carries the version of its last change, also when that change removed it. A merge takes the later change of
//! every entry, so regions that have exchanged their maps hold the same map, in any order. Of two concurrent changes with the
//! same version number, the change of the region with the larger id wins.

use crate::actor::RegionId;
use base::codec::{Reader, put_bytes, put_varint};
use std::collections::BTreeMap;

/// Removed entries that are remembered; the ones changed longest ago are forgotten first.
const REMOVED_MAX: usize = 1_024;

/// What an entry holds, with its bytes.
pub trait VersionedValue: Clone + PartialEq {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(reader: &mut Reader) -> Option<Self>;
}

/// How often an entry was changed, and where last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    number: u64,
    region: RegionId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct VersionedEntry<T> {
    version: Version,
    /// None for an entry that was removed.
    value: Option<T>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedMap<T> {
    entries: BTreeMap<String, VersionedEntry<T>>,
}

impl<T> Default for VersionedMap<T> {
    fn default() -> VersionedMap<T> {
        VersionedMap { entries: BTreeMap::new() }
    }
}

impl<T: VersionedValue> VersionedMap<T> {
    /// The map of a document that had no versions: any change is later.
    pub fn unversioned(values: impl IntoIterator<Item = (String, T)>) -> VersionedMap<T> {
        let entry =
            |(name, value)| (name, VersionedEntry { version: Version::default(), value: Some(value) });
        VersionedMap { entries: values.into_iter().map(entry).collect() }
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        self.entries.get(name)?.value.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.entries.iter().filter_map(|(name, entry)| Some((name, entry.value.as_ref()?)))
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// A region changes an entry, or removes it.
    pub fn set(&mut self, name: &str, value: Option<T>, here: RegionId) {
        let number = self.entries.get(name).map_or(0, |entry| entry.version.number) + 1;
        let entry = VersionedEntry { version: Version { number, region: here }, value };
        self.entries.insert(name.to_owned(), entry);
        self.forget_removed();
    }

    /// Takes over every entry that was changed later in the other map.
    pub fn merge(&mut self, other: &VersionedMap<T>) {
        for (name, theirs) in &other.entries {
            let is_later = self.entries.get(name).is_none_or(|ours| rank(theirs) > rank(ours));
            if is_later {
                self.entries.insert(name.clone(), theirs.clone());
            }
        }
        self.forget_removed();
    }

    fn forget_removed(&mut self) {
        let removed = || self.entries.iter().filter(|(_, entry)| entry.value.is_none());
        let Some(excess) = removed().count().checked_sub(REMOVED_MAX).filter(|excess| *excess > 0) else {
            return;
        };
        let mut oldest: Vec<_> = removed().map(|(name, entry)| (entry.version, name.clone())).collect();
        oldest.sort_unstable();
        for (_, name) in oldest.into_iter().take(excess) {
            self.entries.remove(&name);
        }
    }

    pub fn encode_to(&self, out: &mut Vec<u8>) {
        put_varint(out, self.entries.len() as u64);
        for (name, VersionedEntry { version, value }) in &self.entries {
            put_bytes(out, name.as_bytes());
            put_varint(out, version.number);
            put_varint(out, u64::from(version.region.0));
            out.push(u8::from(value.is_some()));
            if let Some(value) = value {
                value.encode(out);
            }
        }
    }

    /// As a document that has no versions: what is there, and nothing of what was removed.
    pub fn encode_unversioned_to(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        for (name, value) in self.iter() {
            put_bytes(out, name.as_bytes());
            value.encode(out);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<VersionedMap<T>> {
        let mut entries = BTreeMap::new();
        for _ in 0..reader.count()? {
            let name = String::from_utf8(reader.bytes()?.into()).ok()?;
            // A change adds one, and must be able to.
            let number = reader.varint().filter(|number| *number < u64::MAX / 2)?;
            let region = RegionId(u32::try_from(reader.varint()?).ok()?);
            let value = if reader.bool()? { Some(T::decode(reader)?) } else { None };
            entries.insert(name, VersionedEntry { version: Version { number, region }, value });
        }
        Some(VersionedMap { entries })
    }
}

/// Later changes rank higher. Values without a version, which two regions may have set to different things, are ordered
/// by their bytes.
fn rank<T: VersionedValue>(entry: &VersionedEntry<T>) -> (Version, Option<Vec<u8>>) {
    let bytes = entry.value.as_ref().map(|value| {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        bytes
    });
    (entry.version, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    impl VersionedValue for u8 {
        fn encode(&self, out: &mut Vec<u8>) {
            out.push(*self);
        }

        fn decode(reader: &mut Reader) -> Option<u8> {
            reader.u8()
        }
    }

    const EAST: RegionId = RegionId(1);
    const WEST: RegionId = RegionId(2);

    fn merged(mut left: VersionedMap<u8>, right: &VersionedMap<u8>) -> VersionedMap<u8> {
        left.merge(right);
        left
    }

    fn encoded(map: &VersionedMap<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        map.encode_to(&mut out);
        out
    }

    #[test]
    fn the_later_change_wins_also_if_it_removes() {
        let mut east = VersionedMap::default();
        east.set("a", Some(1), EAST);
        let mut west = east.clone();
        west.set("a", None, WEST);
        west.set("b", Some(7), WEST);
        east.merge(&west);
        assert_eq!((east.get("a"), east.get("b"), east.len()), (None, Some(&7), 1));
        east.set("a", Some(3), EAST);
        assert_eq!(merged(west, &east), east);
    }

    #[test]
    fn of_changes_made_apart_one_wins_everywhere() {
        let mut east = VersionedMap::unversioned([("a".to_owned(), 1)]);
        let mut west = VersionedMap::unversioned([("a".to_owned(), 2)]);
        assert_eq!(merged(east.clone(), &west), merged(west.clone(), &east));
        east.set("a", Some(9), EAST);
        west.set("a", Some(4), WEST);
        assert_eq!(merged(east.clone(), &west), merged(west.clone(), &east));
        assert_eq!(merged(east, &west).get("a"), Some(&4));
    }

    #[test]
    fn regions_that_exchange_their_maps_in_any_order_hold_the_same() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut maps = [VersionedMap::default(), VersionedMap::default(), VersionedMap::default()];
            for _ in 0..40 {
                let at = rng.between(0, 3) as usize;
                let name = ["a", "b", "c"][rng.between(0, 3) as usize];
                match rng.between(0, 3) {
                    0 => maps[at].set(name, None, RegionId(at as u32)),
                    1 => maps[at].set(name, Some(rng.next_u64() as u8), RegionId(at as u32)),
                    _ => {
                        let other = maps[rng.between(0, 3) as usize].clone();
                        maps[at].merge(&other);
                    }
                }
            }
            let [a, b, c] = maps;
            let left = merged(merged(a.clone(), &b), &c);
            assert_eq!(left, merged(merged(c, &a), &b), "seed {seed}");
            assert_eq!(merged(left.clone(), &left), left);
        }
    }

    #[test]
    fn maps_survive_a_round_trip_and_cut_bytes_are_refused() {
        let mut map = VersionedMap::default();
        map.set("a", Some(1), EAST);
        map.set("b", None, WEST);
        let bytes = encoded(&map);
        assert_eq!(VersionedMap::decode(&mut Reader::new(bytes.clone().into())), Some(map));
        for cut in 0..bytes.len() {
            let mut reader = Reader::new(bytes[..cut].to_vec().into());
            assert_eq!(VersionedMap::<u8>::decode(&mut reader), None);
        }
    }

    #[test]
    fn removed_entries_are_remembered_up_to_a_bound() {
        let mut map = VersionedMap::default();
        for nth in 0..2 * REMOVED_MAX {
            map.set(&nth.to_string(), Some(1), EAST);
            map.set(&nth.to_string(), None, EAST);
        }
        assert_eq!((map.entries.len(), map.len()), (REMOVED_MAX, 0));
    }
}
