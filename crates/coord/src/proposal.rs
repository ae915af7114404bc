//! A command on its way through the log, and its place there.
//! The identity travels with the command, because the log may deliver the same proposal twice and only the
//! state machine can tell.

use crate::command::Command;
use base::codec::{self, Reader};
use base::{Boot, NodeId, ProposalId};
use bytes::Bytes;

pub use base::Position;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub id: ProposalId,
    /// Every seq of this origin and boot below it is finished and will not come again.
    pub low: u64,
    pub command: Command,
}

impl Proposal {
    /// Identity first, then the command with its own version byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        codec::put_varint(out, self.id.origin.0);
        codec::put_varint(out, self.id.boot.0);
        codec::put_varint(out, self.id.seq);
        codec::put_varint(out, self.low);
        self.command.encode(out);
    }

    pub fn decode(bytes: Bytes) -> Option<Proposal> {
        let mut reader = Reader::new(bytes);
        let id = ProposalId {
            origin: NodeId(reader.varint()?),
            boot: Boot(reader.varint()?),
            seq: reader.varint()?,
        };
        let low = reader.varint()?;
        Some(Proposal { id, low, command: Command::decode(reader.rest())? })
    }
}
