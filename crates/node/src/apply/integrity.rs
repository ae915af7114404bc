//! Compares the states of members: each member sends the digest of its state every so many entries, and compares
//! those of the others. A member that has diverged reports it once and is fenced: it applies, answers and flushes
//! nothing more. The leader raises an alarm for it, which is cleared when it is no longer a member.

use super::{Apply, Output};
use crate::digests::{Digests, Verdict};
use crate::leases::Proposals;
use crate::word::{Digest, Word};
use base::limits::DIGEST_EVERY_ENTRIES;
use base::{Index, NodeId};
use coord::{Alarm, AlarmCommand, AlarmKind, Command};
use std::collections::BTreeSet;

impl Apply {
    /// This member's state has diverged.
    pub fn is_astray(&self) -> bool {
        self.astray
    }

    /// Called after an entry was applied.
    pub(super) fn digest_when_due(&mut self, out: &mut Output) {
        let index = self.applied.index;
        if !index.0.is_multiple_of(DIGEST_EVERY_ENTRIES) {
            return;
        }
        let (me, hash) = (self.params.me, self.state.hash());
        let members = self.member_ids();
        let others = members.iter().filter(|member| **member != me);
        out.words.extend(others.map(|other| (*other, Word::Digest(Digest { index, hash }))));
        self.digests.note(me, index, hash);
        self.judge_digests(index, &members, out);
    }

    pub(super) fn on_digest(&mut self, from: NodeId, digest: Digest, out: &mut Output) {
        if !Digests::is_due(digest.index, self.applied.index) {
            return;
        }
        self.digests.note(from, digest.index, digest.hash);
        let members = self.member_ids();
        self.judge_digests(digest.index, &members, out);
    }

    fn judge_digests(&mut self, index: Index, members: &BTreeSet<NodeId>, out: &mut Output) {
        let suspects = match self.digests.judge(index, members) {
            Verdict::Same => return,
            Verdict::Astray(astray) => {
                self.astray |= astray.contains(&self.params.me);
                astray
            }
            Verdict::Undecided => {
                members.iter().copied().filter(|member| *member != self.params.me).collect()
            }
        };
        if !self.astray {
            suspects.into_iter().for_each(|member| self.raise_corrupt(member, out));
        }
    }

    /// Called by the leader; after a lost proposal the next digest shows the divergence again.
    fn raise_corrupt(&self, member: NodeId, out: &mut Output) {
        let alarm = Alarm { kind: AlarmKind::Corrupt, member, automatic: true };
        if !self.state.alarms().any(|raised| (raised.kind, raised.member) == (alarm.kind, member)) {
            self.propose_alarm(AlarmCommand::Raise(alarm), out);
        }
    }

    /// A member that was replaced leaves no alarm behind.
    pub(super) fn clear_corrupt(&self, out: &mut Output) {
        let gone = |alarm: &Alarm| {
            alarm.kind == AlarmKind::Corrupt && self.state.members().get(alarm.member).is_none()
        };
        if let Some(alarm) = self.state.alarms().find(gone) {
            self.propose_alarm(AlarmCommand::Clear(alarm), out);
        }
    }

    fn propose_alarm(&self, command: AlarmCommand, out: &mut Output) {
        let Some(term) = self.lessor.term() else { return };
        let mut bytes = Vec::new();
        Command::Alarm(command).encode(&mut bytes);
        out.proposals.push(Proposals { term, commands: vec![bytes.into()] });
    }

    pub(super) fn member_ids(&self) -> BTreeSet<NodeId> {
        self.state.members().iter().map(|member| member.id).collect()
    }
}

#[cfg(test)]
mod tests;
