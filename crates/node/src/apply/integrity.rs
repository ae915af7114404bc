//! Compares the states of members: each member sends the digest of its state every so many entries, and compares
//! those of the others. A member that has diverged reports it once and is fenced: it applies, answers and flushes
//! nothing more. The leader raises an alarm for it, which is cleared when it is no longer a member.

use super::{Apply, ApplyOutput};
use crate::digests::{DigestVerdict, StateDigests};
use crate::peer_message::{PeerMessage, StateDigest};
use base::limits::DIGEST_EVERY_ENTRIES;
use base::{Index, NodeId};
use coord::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin, Command};
use std::collections::BTreeSet;

/// The digests of all members, and what they have shown.
#[derive(Default)]
pub(super) struct IntegrityCheck {
    digests: StateDigests,
    /// This member's state has diverged: it does nothing more.
    pub diverged: bool,
}

impl IntegrityCheck {
    /// Forgets this member's own digests: its state was replaced.
    pub fn installed(&mut self, me: NodeId) {
        self.digests.forget(me);
    }
}

impl Apply {
    /// This member's state has diverged.
    pub fn is_diverged(&self) -> bool {
        self.integrity.diverged
    }

    /// Called after an entry was applied.
    pub(super) fn digest_when_due(&mut self, out: &mut ApplyOutput) {
        let index = self.applied.index;
        if !index.0.is_multiple_of(DIGEST_EVERY_ENTRIES) {
            return;
        }
        let (me, hash) = (self.params.me, self.state.hash());
        let members = self.member_ids();
        let others = members.iter().filter(|member| **member != me);
        out.peer_messages
            .extend(others.map(|other| (*other, PeerMessage::Digest(StateDigest { index, hash }))));
        self.integrity.digests.note(me, index, hash);
        self.compare_digests(index, &members, out);
    }

    pub(super) fn on_digest(&mut self, from: NodeId, digest: StateDigest, out: &mut ApplyOutput) {
        if !StateDigests::is_due(digest.index, self.applied.index) {
            return;
        }
        self.integrity.digests.note(from, digest.index, digest.hash);
        let members = self.member_ids();
        self.compare_digests(digest.index, &members, out);
    }

    fn compare_digests(&mut self, index: Index, members: &BTreeSet<NodeId>, out: &mut ApplyOutput) {
        let suspects = match self.integrity.digests.compare(index, members) {
            DigestVerdict::Same => return,
            DigestVerdict::Diverged(diverged) => {
                self.integrity.diverged |= diverged.contains(&self.params.me);
                diverged
            }
            DigestVerdict::Undecided => {
                members.iter().copied().filter(|member| *member != self.params.me).collect()
            }
        };
        if !self.integrity.diverged {
            suspects.into_iter().for_each(|member| self.raise_corrupt(member, out));
        }
    }

    /// Called by the leader; after a lost proposal the next digest shows the divergence again.
    fn raise_corrupt(&self, member: NodeId, out: &mut ApplyOutput) {
        let alarm = Alarm { kind: AlarmKind::Corrupt, member, origin: AlarmOrigin::Leader };
        if !self.state.alarms().any(|raised| (raised.kind, raised.member) == (alarm.kind, member)) {
            self.leader.propose([Command::Alarm(AlarmCommand::Raise(alarm))], out);
        }
    }

    /// A member that was replaced leaves no alarm behind.
    pub(super) fn clear_corrupt(&self, out: &mut ApplyOutput) {
        let gone = |alarm: &Alarm| {
            alarm.kind == AlarmKind::Corrupt
                && alarm.origin == AlarmOrigin::Leader
                && self.state.members().get(alarm.member).is_none()
        };
        if let Some(alarm) = self.state.alarms().find(gone) {
            self.leader.propose([Command::Alarm(AlarmCommand::Clear(alarm))], out);
        }
    }

    pub(super) fn member_ids(&self) -> BTreeSet<NodeId> {
        self.state.members().iter().map(|member| member.id).collect()
    }
}

#[cfg(test)]
mod tests;
