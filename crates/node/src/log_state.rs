//! How far the log of a member reaches: what a member that has lost part of its own asks all others, and its bytes.

use base::codec::{Reader, put_varint};
use base::{Index, NodeId, Position, Term};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogState {
    pub leads: bool,
    pub term: Term,
    /// The last term that the sender led since its start; zero if it led none. It has every entry of that term.
    pub led: Term,
    /// The last entry of its log.
    pub last: Position,
    /// Its configuration is that of this index, and these count in it.
    pub configured: Index,
    pub voters: Vec<NodeId>,
}

/// More voters than any cluster has.
const VOTERS_MAX: usize = 64;

impl LogState {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.leads));
        for number in [self.term.0, self.led.0, self.last.term.0, self.last.index.0, self.configured.0] {
            put_varint(out, number);
        }
        put_varint(out, self.voters.len() as u64);
        self.voters.iter().for_each(|voter| put_varint(out, voter.0));
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<LogState> {
        let leads = reader.bool()?;
        let term = Term(reader.varint()?);
        let led = Term(reader.varint()?);
        let last = Position { term: Term(reader.varint()?), index: Index(reader.varint()?) };
        let configured = Index(reader.varint()?);
        let count = reader.count().filter(|count| *count <= VOTERS_MAX)?;
        let voters = (0..count).map(|_| reader.varint().map(NodeId)).collect::<Option<Vec<_>>>()?;
        let is_plausible = last.term <= term && led <= term && configured <= last.index;
        is_plausible.then_some(LogState { leads, term, led, last, configured, voters })
    }
}
