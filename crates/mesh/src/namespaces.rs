//! The namespaces, as the document that the cluster agrees on.
//! The number of a namespace is derived from its name, so that regions agree on it without communication. The number of
//! copies never changes, because records are placed by it. Regions exchange this document, so that a namespace created in
//! one exists in all (`versioned.rs`).

use crate::actor::RegionId;
use crate::key::REQUESTS;
use crate::placement::COPIES_MAX;
use crate::record::Kind;
use crate::versioned::{VersionedMap, VersionedValue};
use base::checksum::hash64;
use base::codec::Reader;
use base::{Code, FormatLevel};
use bytes::Bytes;

/// The namespace that is there without being created.
pub const DEFAULT: &str = "default";
/// The copies that a namespace has if nothing is said; fewer while there are fewer nodes.
pub const COPIES_DEFAULT: u8 = 3;

const VERSION: u8 = 2;
/// Without a version of each entry: the oldest formats of a cluster.
const UNVERSIONED: u8 = 1;
const NAME_BYTES_MAX: usize = 64;
const NAMESPACES_MAX: usize = 4_096;

/// What becomes of a write that has not seen what it overwrites, if the writer does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// The later one wins; the other goes to the conflict log.
    LastWriteWins = 0,
    /// Both are merged, as the type of the data has it.
    Merge = 1,
    /// The writer is told.
    Fail = 2,
}

impl Policy {
    pub const ALL: [Policy; 3] = [Policy::LastWriteWins, Policy::Merge, Policy::Fail];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub copies: u8,
    /// The type of a key that is written without one.
    pub kind: Kind,
    pub policy: Policy,
}

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace { copies: COPIES_DEFAULT, kind: Kind::Register, policy: Policy::LastWriteWins }
    }
}

impl Namespace {
    fn is_lawful(&self) -> bool {
        (1..=COPIES_MAX).contains(&usize::from(self.copies))
    }
}

impl VersionedValue for Namespace {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.copies, self.kind as u8, self.policy as u8]);
    }

    fn decode(reader: &mut Reader) -> Option<Namespace> {
        let copies = reader.u8()?;
        let kind = Kind::from_number(reader.u8()?)?;
        let policy = reader.u8()?;
        let policy = Policy::ALL.into_iter().find(|other| *other as u8 == policy)?;
        Some(Namespace { copies, kind, policy }).filter(Namespace::is_lawful)
    }
}

/// By name; the default one is among them only after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    list: VersionedMap<Namespace>,
}

/// The number of a namespace.
pub fn id_of(name: &str) -> u32 {
    match name {
        DEFAULT => 0,
        name => (hash64(name.as_bytes(), 0) as u32).clamp(1, REQUESTS - 1),
    }
}

/// Small letters, digits, dots, dashes and underscores, up to 64.
pub fn is_name(name: &str) -> bool {
    let lawful = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(lawful)
}

impl Namespaces {
    pub fn get(&self, name: &str) -> Option<Namespace> {
        match self.list.get(name) {
            None if name == DEFAULT => Some(Namespace::default()),
            found => found.copied(),
        }
    }

    /// Every one with its name, the default one included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Namespace)> {
        let default = self.list.get(DEFAULT).is_none().then(|| (DEFAULT, Namespace::default()));
        default.into_iter().chain(self.list.iter().map(|(name, namespace)| (name.as_str(), *namespace)))
    }

    /// The name of a number.
    pub fn name_of(&self, id: u32) -> Option<&str> {
        self.iter().map(|(name, _)| name).find(|name| id_of(name) == id)
    }

    /// A region creates one, or changes what may be changed of it.
    pub fn set(&mut self, name: &str, namespace: Namespace, here: RegionId) -> Result<(), Code> {
        if !is_name(name) || !namespace.is_lawful() {
            return Err(Code::BadRequest);
        }
        let differs = match self.get(name) {
            Some(old) => old.copies != namespace.copies,
            None => self.name_of(id_of(name)).is_some() || self.list.len() >= NAMESPACES_MAX,
        };
        if differs {
            return Err(Code::NamespaceDiffers);
        }
        if self.list.get(name) != Some(&namespace) {
            self.list.set(name, Some(namespace), here);
        }
        Ok(())
    }

    /// Whether there was such a namespace.
    pub fn remove(&mut self, name: &str, here: RegionId) -> bool {
        let was_there = self.list.get(name).is_some();
        if was_there {
            self.list.set(name, None, here);
        }
        was_there
    }

    /// Takes over what another region has changed later.
    pub fn merge(&mut self, other: &Namespaces) {
        self.list.merge(&other.list);
    }

    pub fn encode(&self, level: FormatLevel) -> Bytes {
        let is_old = level == FormatLevel::OLDEST;
        let mut out = vec![if is_old { UNVERSIONED } else { VERSION }];
        if is_old {
            self.list.encode_unversioned_to(&mut out);
        } else {
            self.list.encode_to(&mut out);
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Namespaces> {
        let mut reader = Reader::new(bytes);
        let list = match reader.u8()? {
            VERSION => VersionedMap::decode(&mut reader)?,
            UNVERSIONED => VersionedMap::unversioned(decode_unversioned(&mut reader)?),
            _ => return None,
        };
        let lawful = reader.is_empty() && list.iter().all(|(name, _)| is_name(name));
        lawful.then_some(Namespaces { list })
    }
}

fn decode_unversioned(reader: &mut Reader) -> Option<Vec<(String, Namespace)>> {
    let one = |reader: &mut Reader| {
        let name = String::from_utf8(reader.bytes()?.into()).ok()?;
        Some((name, Namespace::decode(reader)?))
    };
    (0..reader.count()?).map(|_| one(reader)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: RegionId = RegionId(1);

    #[test]
    fn the_default_is_there_and_others_are_created_once() {
        let mut namespaces = Namespaces::default();
        assert_eq!(namespaces.get(DEFAULT), Some(Namespace::default()));
        assert_eq!(namespaces.get("shop"), None);
        let shop = Namespace { copies: 5, policy: Policy::Fail, ..Namespace::default() };
        namespaces.set("shop", shop, HERE).unwrap();
        assert_eq!(namespaces.name_of(id_of("shop")), Some("shop"));
        assert_eq!(namespaces.iter().map(|(name, _)| name).collect::<Vec<_>>(), [DEFAULT, "shop"]);
        let fewer = Namespace { copies: 1, ..shop };
        assert_eq!(namespaces.set("shop", fewer, HERE), Err(Code::NamespaceDiffers));
        assert_eq!(namespaces.set("shop", Namespace { policy: Policy::Merge, ..shop }, HERE), Ok(()));
        assert!(namespaces.remove("shop", HERE) && !namespaces.remove("shop", HERE));
    }

    #[test]
    fn names_and_copies_are_bounded() {
        let mut namespaces = Namespaces::default();
        for name in ["", "UPPER", "a/b", "a b", &"x".repeat(65)] {
            assert_eq!(namespaces.set(name, Namespace::default(), HERE), Err(Code::BadRequest), "{name}");
        }
        for copies in [0, 6] {
            let namespace = Namespace { copies, ..Namespace::default() };
            assert_eq!(namespaces.set("a", namespace, HERE), Err(Code::BadRequest));
        }
    }

    #[test]
    fn namespaces_survive_a_round_trip_and_cut_bytes_are_refused() {
        let mut namespaces = Namespaces::default();
        namespaces.set("a.b-c_1", Namespace { kind: Kind::Siblings, ..Namespace::default() }, HERE).unwrap();
        namespaces.set("z", Namespace { policy: Policy::Merge, ..Namespace::default() }, HERE).unwrap();
        let bytes = namespaces.encode(FormatLevel::NEWEST);
        assert_eq!(Namespaces::decode(bytes.clone()), Some(namespaces));
        for cut in 0..bytes.len() {
            assert_eq!(Namespaces::decode(bytes.slice(..cut)), None);
        }
    }

    #[test]
    fn documents_without_versions_are_read() {
        let bytes = Bytes::from_static(b"\x01\x01\x04shop\x05\x00\x02");
        let shop = Namespace { copies: 5, policy: Policy::Fail, ..Namespace::default() };
        assert_eq!(Namespaces::decode(bytes).unwrap().get("shop"), Some(shop));
    }

    #[test]
    fn a_namespace_that_one_region_creates_is_there_in_the_other() {
        let (mut east, mut west) = (Namespaces::default(), Namespaces::default());
        east.set("shop", Namespace::default(), RegionId(1)).unwrap();
        west.merge(&east);
        assert_eq!(west.get("shop"), Some(Namespace::default()));
        assert!(west.remove("shop", RegionId(2)));
        east.merge(&west);
        assert_eq!((east.get("shop"), &east), (None, &west));
    }
}
