//! Proposals that other members forwarded to this leader, to be ordered in this turn. What does not fit is dropped: its
//! origin sends it again.

use base::limits::PROPOSALS_WAITING_BYTES_MAX;
use bytes::Bytes;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct ForwardedProposals {
    batches: VecDeque<Bytes>,
    bytes: usize,
}

impl ForwardedProposals {
    pub fn fits(&self, batch: &[u8]) -> bool {
        self.bytes + batch.len() <= PROPOSALS_WAITING_BYTES_MAX
    }

    pub fn add(&mut self, batch: Bytes) {
        self.bytes += batch.len();
        self.batches.push_back(batch);
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Fills an entry up to about this size.
    pub fn take(&mut self, entry: &mut Vec<u8>, bytes_max: usize) {
        while entry.len() < bytes_max
            && let Some(batch) = self.batches.pop_front()
        {
            self.bytes -= batch.len();
            entry.extend_from_slice(&batch);
        }
    }

    pub fn clear(&mut self) {
        *self = ForwardedProposals::default();
    }
}
