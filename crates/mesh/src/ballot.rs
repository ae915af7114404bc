//! The order of decisions on one key, after CASPaxos: a *round* is what a node asks the replicas of a key to promise,
//! a *ballot* is one proposal within a round. Replicas accept no proposal of a lower round than they have promised, so
//! of all who change a key at once one is decided first and the others see it. A node that holds the promises of a
//! round makes further proposals in it without asking again: its next turn.
//!
//! The topology's epoch comes before the number: a replica that follows an epoch refuses rounds of earlier ones. So no
//! promise has to move with a partition, and a replica that lost its disk, whose return begins an epoch, has forgotten
//! no promise that still matters. The home's term comes before all, because epochs of two regions cannot be compared.

use crate::topology::Epoch;
use base::NodeId;
use base::codec::{Reader, put_varint};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// The epoch of the key's home region; zero where the key has none.
    pub term: u64,
    /// The topology under which the promises are asked for.
    pub epoch: Epoch,
    pub number: u64,
    pub node: NodeId,
    /// What the node asks for, by a number that it never uses again, so that no two of its rounds are the same.
    pub operation: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    pub round: Round,
    pub turn: u64,
}

/// The most by which a round may lie above what a replica has heard of: further than repeated rounds reach, and so
/// little that numbers never run out.
const JUMP_MAX: u64 = 1 << 32;

impl Round {
    /// Whether it can be: numbers are taken one after the other within a term and an epoch.
    pub fn may_follow(self, known: Option<Round>) -> bool {
        let known = known.filter(|known| (known.term, known.epoch) == (self.term, self.epoch));
        self.number <= known.map_or(0, |known| known.number).saturating_add(JUMP_MAX)
    }

    pub fn first_ballot(self) -> Ballot {
        Ballot { round: self, turn: 0 }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let Round { term, epoch, number, node, operation } = self;
        [*term, epoch.0, *number, node.0, *operation].into_iter().for_each(|part| put_varint(out, part));
    }

    pub fn decode(reader: &mut Reader) -> Option<Round> {
        Some(Round {
            term: reader.varint()?,
            epoch: Epoch(reader.varint()?),
            number: reader.varint()?,
            node: NodeId(reader.varint()?),
            operation: reader.varint()?,
        })
    }

    /// As the value of a row.
    pub fn to_bytes(self) -> Bytes {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.into()
    }

    pub fn from_bytes(bytes: Bytes) -> Option<Round> {
        let mut reader = Reader::new(bytes);
        let round = Round::decode(&mut reader)?;
        reader.is_empty().then_some(round)
    }
}

impl Ballot {
    /// The same node's next proposal, under the promises that it has. None when turns are used up.
    pub fn next_turn(self) -> Option<Ballot> {
        Some(Ballot { turn: self.turn.checked_add(1)?, ..self })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.round.encode(out);
        put_varint(out, self.turn);
    }

    pub fn decode(reader: &mut Reader) -> Option<Ballot> {
        Some(Ballot { round: Round::decode(reader)?, turn: reader.varint()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(term: u64, epoch: u64, number: u64, node: u64) -> Round {
        Round { term, epoch: Epoch(epoch), number, node: NodeId(node), operation: 1 }
    }

    #[test]
    fn terms_come_before_epochs_and_epochs_before_numbers() {
        assert!(round(2, 1, 1, 1) > round(1, 9, 9, 9));
        assert!(round(1, 2, 1, 1) > round(1, 1, 9, 9));
        assert!(round(1, 1, 2, 1) > round(1, 1, 1, 9));
        let first = round(0, 1, 1, 1).first_ballot();
        let second = first.next_turn().unwrap();
        assert!(first < second && second < round(0, 1, 1, 2).first_ballot());
    }

    #[test]
    fn ballots_survive_a_round_trip_and_cut_bytes_are_refused() {
        let ballot = Ballot { round: round(3, 77, 1_000, 5), turn: 300 };
        let mut bytes = Vec::new();
        ballot.encode(&mut bytes);
        assert_eq!(Ballot::decode(&mut Reader::new(bytes.clone().into())), Some(ballot));
        for cut in 0..bytes.len() {
            assert_eq!(Ballot::decode(&mut Reader::new(Bytes::copy_from_slice(&bytes[..cut]))), None);
        }
        let row = ballot.round.to_bytes();
        assert_eq!(Round::from_bytes(row), Some(ballot.round));
        assert_eq!(Round::from_bytes(bytes.into()), None, "nothing may follow");
    }

    #[test]
    fn a_round_number_that_no_proposer_can_reach_is_refused() {
        assert!(round(1, 1, 9, 1).may_follow(None) && !round(1, 1, u64::MAX, 1).may_follow(None));
        let known = Some(round(1, 1, JUMP_MAX, 1));
        assert!(
            round(1, 1, JUMP_MAX + 1, 2).may_follow(known) && !round(1, 1, 3 * JUMP_MAX, 2).may_follow(known)
        );
        assert!(!round(1, 2, 3 * JUMP_MAX, 2).may_follow(known), "each epoch counts from zero");
    }
}
