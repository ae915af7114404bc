//! Decides which terms of other members are believed. A term grows by one with every election, so one far ahead of
//! ours is forged, unless we were away for a very long time: then a majority of the voters reports it. One peer alone
//! cannot raise the term of a member.

use crate::mutant::Mutant;

use base::mutant::planted;
use std::collections::BTreeMap;

/// How far ahead a term may be that one peer alone reports: an election in every second for eleven days.
pub(crate) const JUMP_MAX: u64 = 1_000_000;

/// The terms that voters report, where they are further ahead than one voter is believed.
#[derive(Default)]
pub(crate) struct TermClaims {
    by_voter: BTreeMap<u64, u64>,
}

impl TermClaims {
    /// Whether a message of this term may be taken by a member that stands at `own`, with these voters.
    pub fn admit(&mut self, from: u64, term: u64, own: u64, me: u64, voters: &[u64]) -> bool {
        let believed = own.saturating_add(JUMP_MAX);
        if term <= believed || planted(Mutant::TermJumpTaken) {
            return true;
        }
        // A member without a configuration has no voters to compare with.
        if voters.is_empty() {
            return true;
        }
        self.by_voter.retain(|voter, _| voters.contains(voter));
        if voters.contains(&from) {
            self.by_voter.insert(from, term);
        }
        let others = voters.iter().filter(|voter| **voter != me).count();
        let needed = (voters.len() / 2 + 1).min(others);
        let mut claims: Vec<u64> =
            self.by_voter.values().copied().filter(|claim| *claim > believed).collect();
        claims.sort_unstable_by(|left, right| right.cmp(left));
        // Counts the voters at this term or beyond.
        let confirmed = needed.checked_sub(1).and_then(|nth| claims.get(nth));
        confirmed.is_some_and(|confirmed| term <= confirmed.saturating_add(JUMP_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: u64 = 1 << 62;

    #[test]
    fn one_voter_cannot_move_a_term_and_a_majority_can() {
        let mut claims = TermClaims::default();
        let mut admit = |from, term| claims.admit(from, term, 7, 1, &[1, 2, 3]);
        assert!(admit(2, 7 + JUMP_MAX) && !admit(2, 8 + JUMP_MAX));
        assert!(!admit(2, FAR) && !admit(9, FAR), "the ninth does not vote");
        assert!(admit(3, FAR + 5) && admit(2, FAR));
        assert!(!admit(2, FAR + 2 * JUMP_MAX), "nor does one voter move members at that term");
    }

    #[test]
    fn a_single_voter_keeps_its_term_and_a_new_member_takes_any() {
        assert!(!TermClaims::default().admit(2, FAR, 7, 1, &[1]));
        assert!(TermClaims::default().admit(2, FAR, 0, 1, &[]));
        assert!(TermClaims::default().admit(2, FAR, 7, 1, &[1, 2]), "of two, the other cannot be compared");
        let mut learner = TermClaims::default();
        assert!(!learner.admit(2, FAR, 7, 1, &[2, 3, 4]) && learner.admit(3, FAR, 7, 1, &[2, 3, 4]));
    }
}
