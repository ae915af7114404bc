//! The payload of a log entry: proposals in a row, each with the identity that detects a repetition. Proposals are
//! gathered into one entry per turn of the loop, so that raft's cost is shared by all of them. Batches can be joined
//! by joining their bytes.

use base::codec::{Reader, put_varint};
use base::{Boot, NodeId, ProposalId};
use bytes::{BufMut, Bytes};

/// One proposal as it stands in the log; the command is decoded by apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub id: ProposalId,
    /// Every proposal of this origin and boot below this number is finished and will not come again.
    pub low: u64,
    pub command: Bytes,
}

impl Proposal {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.command.len() + 32);
        out.put_u64_le(self.id.origin.0);
        put_varint(out, self.id.boot.0);
        put_varint(out, self.id.seq);
        // Lies close below `seq`: the difference is short.
        put_varint(out, self.id.seq - self.low);
        base::codec::put_bytes(out, &self.command);
    }

    fn decode(reader: &mut Reader) -> Option<Proposal> {
        let origin = NodeId(reader.u64()?);
        let boot = Boot(reader.varint()?);
        let seq = reader.varint()?;
        let low = seq.checked_sub(reader.varint()?)?;
        Some(Proposal { id: ProposalId { origin, boot, seq }, low, command: reader.bytes()? })
    }
}

/// Reads a batch to its end; `None` if any of it is malformed.
pub fn decode(batch: Bytes) -> Option<Vec<Proposal>> {
    let mut reader = Reader::new(batch);
    let mut proposals = Vec::new();
    while !reader.is_empty() {
        proposals.push(Proposal::decode(&mut reader)?);
    }
    Some(proposals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(seq: u64) -> Proposal {
        let id = ProposalId { origin: NodeId(u64::MAX), boot: Boot(3), seq };
        Proposal { id, low: seq / 2, command: Bytes::from(vec![7; seq as usize % 300]) }
    }

    #[test]
    fn joined_batches_are_one_batch() {
        let mut bytes = Vec::new();
        (1..9).for_each(|seq| proposal(seq).encode(&mut bytes));
        let mut more = Vec::new();
        (900..905).for_each(|seq| proposal(seq).encode(&mut more));
        bytes.extend(more);
        let expected: Vec<_> = (1..9).chain(900..905).map(proposal).collect();
        assert_eq!(decode(bytes.into()), Some(expected));
    }

    #[test]
    fn a_cut_batch_is_refused_whole() {
        let mut bytes = Vec::new();
        proposal(200).encode(&mut bytes);
        let bytes = Bytes::from(bytes);
        for cut in 1..bytes.len() {
            assert_eq!(decode(bytes.slice(..cut)), None);
        }
        assert_eq!(decode(Bytes::new()), Some(vec![]));
    }
}
