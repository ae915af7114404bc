//! The key of a row in memory, with its first bytes beside it as numbers. The map of rows compares keys all the time,
//! and each key lies somewhere else in memory: what is told apart by its beginning is told apart without going there.
//! Places sort exactly as the bytes of their keys do.

use bytes::Bytes;
use std::borrow::Borrow;
use std::cmp::Ordering;

/// The beginning of a key in the order of its bytes; a shorter one is filled up with zeros.
type Head = [u64; 3];

const WORD_BYTES: usize = size_of::<u64>();
const HEAD_BYTES: usize = size_of::<Head>();

#[derive(Clone, Debug)]
pub(super) struct Place {
    head: Head,
    key: Bytes,
}

/// The same for a key that is only looked up.
pub(super) struct Sought<'a> {
    head: Head,
    key: &'a [u8],
}

/// What both have.
pub(super) trait Placed {
    fn head(&self) -> Head;
    fn bytes(&self) -> &[u8];
}

impl Place {
    pub fn of(key: Bytes) -> Place {
        Place { head: head(&key), key }
    }

    pub fn key(&self) -> &Bytes {
        &self.key
    }
}

impl<'a> Sought<'a> {
    pub fn of(key: &'a [u8]) -> Sought<'a> {
        Sought { head: head(key), key }
    }
}

fn head(key: &[u8]) -> Head {
    let mut bytes = [0; HEAD_BYTES];
    let len = key.len().min(HEAD_BYTES);
    bytes[..len].copy_from_slice(&key[..len]);
    let word = |nth: usize| {
        let word = &bytes[nth * WORD_BYTES..][..WORD_BYTES];
        u64::from_be_bytes(word.try_into().expect("a word has its length"))
    };
    [word(0), word(1), word(2)]
}

/// A key that another begins with goes before it: where it ends, the other has a zero or something larger. If all that
/// follows within the head are zeros, the heads are the same, and the keys themselves decide.
fn compare(left: &(impl Placed + ?Sized), right: &(impl Placed + ?Sized)) -> Ordering {
    left.head().cmp(&right.head()).then_with(|| left.bytes().cmp(right.bytes()))
}

impl Placed for Place {
    fn head(&self) -> Head {
        self.head
    }

    fn bytes(&self) -> &[u8] {
        &self.key
    }
}

impl Placed for Sought<'_> {
    fn head(&self) -> Head {
        self.head
    }

    fn bytes(&self) -> &[u8] {
        self.key
    }
}

impl<'a> Borrow<dyn Placed + 'a> for Place {
    fn borrow(&self) -> &(dyn Placed + 'a) {
        self
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

impl Ord for dyn Placed + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for dyn Placed + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Placed + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Placed + '_ {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Few different bytes, many of them zeros, around the length of a head: where a mistake would show.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![3 => Just(0), 1 => Just(1), 1 => Just(255)];
        prop_oneof![vec(byte.clone(), 0..4), vec(byte, HEAD_BYTES - 2..HEAD_BYTES + 3)]
    }

    proptest! {
        #[test]
        fn places_sort_as_their_keys_do(left in key(), right in key()) {
            let place = |key: &[u8]| Place::of(Bytes::copy_from_slice(key));
            prop_assert_eq!(place(&left).cmp(&place(&right)), left.cmp(&right));
            let (one, other): (&dyn Placed, &dyn Placed) = (&Sought::of(&left), &place(&right));
            prop_assert_eq!(one.cmp(other), left.cmp(&right));
        }
    }
}
