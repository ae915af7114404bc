//! Whether this member's state is that of the others: digests of the applied state at certain indexes, compared. Own
//! digests and those that others send go in; out comes a verdict as soon as enough is known of an index. A member
//! whose digest differs from that of the majority has diverged and must not serve; without a majority some member
//! has, and it is not known which. The digest covers all entries so far, so a diverged member differs ever after.

use crate::mutant::Mutant;
use base::limits::{DIGEST_EVERY_ENTRIES, DIGESTS_KEPT_MAX};
use base::mutant::planted;
use base::{Index, NodeId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct StateDigests {
    /// By member, then by index: one member's digests evict none of another's.
    known: BTreeMap<NodeId, BTreeMap<Index, u64>>,
}

/// What the digests of one index say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DigestVerdict {
    /// All members that reported have the same digest, or too few have reported.
    Same,
    /// A majority agrees, and these members differ from it.
    Diverged(BTreeSet<NodeId>),
    /// All members have reported, and no digest has the majority.
    Undecided,
}

impl StateDigests {
    pub fn note(&mut self, member: NodeId, index: Index, hash: u64) {
        if planted(Mutant::DigestsUnread) {
            return;
        }
        let of_member = self.known.entry(member).or_default();
        of_member.insert(index, hash);
        while of_member.len() > DIGESTS_KEPT_MAX {
            of_member.pop_first();
        }
    }

    /// Whether a member that has applied so much keeps what another says of this index: no correct member sends
    /// digests of other indexes, and one far ahead would evict those that come before it.
    pub fn is_due(index: Index, applied: Index) -> bool {
        let ahead = DIGESTS_KEPT_MAX as u64 * DIGEST_EVERY_ENTRIES;
        index.0.is_multiple_of(DIGEST_EVERY_ENTRIES) && index.0 <= applied.0.saturating_add(ahead)
            || planted(Mutant::DigestsCrowdedOut)
    }

    /// The store was replaced; this member's digests of the old store mean nothing for the new one.
    pub fn forget(&mut self, member: NodeId) {
        self.known.remove(&member);
    }

    pub fn hash_of(&self, member: NodeId, index: Index) -> Option<u64> {
        self.known.get(&member)?.get(&index).copied()
    }

    /// Whether some member has another digest at this index than `me`.
    pub fn differ(&self, me: NodeId, index: Index) -> bool {
        let own = self.hash_of(me, index);
        let differs =
            |of_member: &BTreeMap<Index, u64>| of_member.get(&index).is_some_and(|hash| Some(*hash) != own);
        own.is_some() && self.known.values().any(differs)
    }

    /// Former members do not count.
    pub fn compare(&self, index: Index, members: &BTreeSet<NodeId>) -> DigestVerdict {
        let known: Vec<(NodeId, u64)> =
            members.iter().filter_map(|member| Some((*member, self.hash_of(*member, index)?))).collect();
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        known.iter().for_each(|(_, hash)| *counts.entry(*hash).or_default() += 1);
        if counts.len() < 2 {
            return DigestVerdict::Same;
        }
        match counts.iter().find(|(_, count)| **count > members.len() / 2) {
            Some((right, _)) => {
                let diverged = known.iter().filter(|(_, hash)| hash != right).map(|(member, _)| *member);
                DigestVerdict::Diverged(diverged.collect())
            }
            None if known.len() < members.len() => DigestVerdict::Same,
            None => DigestVerdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::mutant::plant;

    fn members(count: u64) -> BTreeSet<NodeId> {
        (1..=count).map(NodeId).collect()
    }

    fn judged(hashes: &[(u64, u64)], count: u64) -> DigestVerdict {
        let mut digests = StateDigests::default();
        hashes.iter().for_each(|(member, hash)| digests.note(NodeId(*member), Index(64), *hash));
        digests.compare(Index(64), &members(count))
    }

    #[test]
    fn a_member_that_differs_from_the_majority_has_diverged() {
        assert_eq!(judged(&[(1, 5), (2, 5), (3, 5)], 3), DigestVerdict::Same);
        assert_eq!(judged(&[(1, 5), (2, 6), (3, 5)], 3), DigestVerdict::Diverged([NodeId(2)].into()));
        assert_eq!(judged(&[(1, 5), (2, 6)], 3), DigestVerdict::Same, "the third has not been heard");
        assert_eq!(judged(&[(1, 5), (2, 6)], 2), DigestVerdict::Undecided);
        assert_eq!(judged(&[(1, 5), (2, 6), (3, 7)], 3), DigestVerdict::Undecided);
        assert_eq!(
            judged(&[(1, 1), (2, 5), (3, 5), (4, 5), (5, 9)], 5),
            DigestVerdict::Diverged([NodeId(1), NodeId(5)].into())
        );
        assert_eq!(judged(&[(1, 5), (9, 6)], 3), DigestVerdict::Same, "the ninth is no member");
    }

    #[test]
    fn only_the_last_indexes_are_kept_and_what_was_replaced_is_forgotten() {
        let mut digests = StateDigests::default();
        for index in 1..=100 {
            digests.note(NodeId(1), Index(index), index);
            digests.note(NodeId(2), Index(index), index);
        }
        assert!(digests.known.values().all(|of_member| of_member.len() <= DIGESTS_KEPT_MAX));
        digests.note(NodeId(3), Index(100), 7);
        assert_eq!(digests.compare(Index(100), &members(3)), DigestVerdict::Diverged([NodeId(3)].into()));
        digests.forget(NodeId(3));
        assert_eq!(digests.compare(Index(100), &members(3)), DigestVerdict::Same);
    }

    /// Member 3 differs at an index while member 2 sends digests of many others.
    fn judged_beside_a_flood() -> DigestVerdict {
        let mut digests = StateDigests::default();
        let (applied, of) = (Index(DIGEST_EVERY_ENTRIES), Index(DIGEST_EVERY_ENTRIES));
        [(1, 5), (2, 5), (3, 6)]
            .into_iter()
            .for_each(|(member, hash)| digests.note(NodeId(member), of, hash));
        for nth in 0..1_000 {
            let index = Index(u64::MAX - nth);
            if StateDigests::is_due(index, applied) {
                digests.note(NodeId(2), index, nth);
            }
        }
        digests.compare(of, &members(3))
    }

    #[test]
    fn digests_of_far_indexes_hide_no_divergence() {
        plant(None);
        assert_eq!(judged_beside_a_flood(), DigestVerdict::Diverged([NodeId(3)].into()));
        assert!(StateDigests::is_due(Index(512), Index(0)) && !StateDigests::is_due(Index(513), Index(0)));
        plant(Some(Mutant::DigestsCrowdedOut.into()));
        let judged = judged_beside_a_flood();
        plant(None);
        assert_eq!(judged, DigestVerdict::Same, "the planted bug forgets what was said of the index");
    }
}
