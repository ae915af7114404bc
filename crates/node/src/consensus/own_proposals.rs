//! What this member proposes by itself: as leader what `Apply` asks for, and in doubt an entry of its own. Every such
//! proposal has a name of this member and start; changes of the configuration are counted apart, so that `changes` can order
//! them one at a time.

use crate::batch::Proposal;
use crate::member::{config_change_origin, leader_origin};
use base::{Boot, NodeId, ProposalId};
use bytes::Bytes;

pub(super) struct OwnProposals {
    me: NodeId,
    boot: Boot,
    waiting: Vec<Bytes>,
    /// How many have a name.
    named: u64,
    named_changes: u64,
}

impl OwnProposals {
    pub fn new(me: NodeId, boot: Boot) -> OwnProposals {
        OwnProposals { me, boot, waiting: Vec::new(), named: 0, named_changes: 0 }
    }

    pub fn add(&mut self, commands: Vec<Bytes>) {
        self.waiting.extend(commands);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Names what waits, and adds it to a batch.
    pub fn take(&mut self, batch: &mut Vec<u8>) {
        for command in std::mem::take(&mut self.waiting) {
            self.name(command, batch);
        }
    }

    pub fn name(&mut self, command: Bytes, batch: &mut Vec<u8>) {
        self.named += 1;
        let id = ProposalId { origin: leader_origin(self.me), boot: self.boot, seq: self.named };
        Proposal { id, low: self.named, command }.encode(batch);
    }

    /// A change of the configuration, as a batch of its own.
    pub fn name_change(&mut self, command: Bytes) -> Bytes {
        self.named_changes += 1;
        let id =
            ProposalId { origin: config_change_origin(self.me), boot: self.boot, seq: self.named_changes };
        let mut batch = Vec::new();
        Proposal { id, low: self.named_changes, command }.encode(&mut batch);
        batch.into()
    }
}
