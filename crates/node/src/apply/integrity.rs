//! Compares the states of members: each member sends the digest of its state every so many entries. One that differs
//! is only a reason to ask: everyone who reaches the peer port can send digests under the names of members. So the
//! members are asked at their addresses, with nonces, and what they answer decides. A member that has diverged is fenced:
//! it applies, answers and flushes nothing more. The leader raises an alarm for it, which is cleared when it is no longer
//! a member.

use super::{Apply, ApplyOutput};
use crate::digests::{DigestVerdict, StateDigests};
use crate::mutant::Mutant;
use crate::peer_message::{PeerMessage, StateDigest};
use base::checksum::hash64;
use base::limits::DIGEST_EVERY_ENTRIES;
use base::mutant::planted;
use base::{Index, Instant, NodeId};
use coord::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin, Command};
use std::collections::BTreeSet;
use std::time::Duration;

/// Members that have not answered are asked again after so long.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The digests of all members, and what they have shown.
#[derive(Default)]
pub(super) struct IntegrityCheck {
    /// What came unasked.
    claimed: StateDigests,
    /// This member's own, and what the others have answered.
    answered: StateDigests,
    /// The last index of which a claim differed, and when the others were asked.
    asked: Option<(Index, Instant)>,
    /// This member's state has diverged: it does nothing more.
    pub diverged: bool,
}

impl IntegrityCheck {
    /// Forgets this member's own digests: its state was replaced.
    pub fn installed(&mut self, me: NodeId) {
        self.claimed.forget(me);
        self.answered.forget(me);
        self.asked = None;
    }
}

impl Apply {
    /// This member's state has diverged.
    pub fn is_diverged(&self) -> bool {
        self.integrity.diverged
    }

    /// Called after an entry was applied.
    pub(super) fn digest_when_due(&mut self, now: Instant, out: &mut ApplyOutput) {
        let index = self.applied.index;
        if !index.0.is_multiple_of(DIGEST_EVERY_ENTRIES) {
            return;
        }
        let (me, hash) = (self.params.me, self.state.hash());
        let members = self.member_ids();
        let others = members.iter().filter(|member| **member != me);
        out.peer_messages
            .extend(others.map(|other| (*other, PeerMessage::Digest(StateDigest { index, hash }))));
        self.integrity.claimed.note(me, index, hash);
        self.integrity.answered.note(me, index, hash);
        self.compare_claims(now, index, out);
    }

    pub(super) fn on_digest(
        &mut self,
        now: Instant,
        from: NodeId,
        digest: StateDigest,
        out: &mut ApplyOutput,
    ) {
        if from == self.params.me || !StateDigests::is_due(digest.index, self.applied.index) {
            return;
        }
        self.integrity.claimed.note(from, digest.index, digest.hash);
        self.compare_claims(now, digest.index, out);
    }

    fn compare_claims(&mut self, now: Instant, index: Index, out: &mut ApplyOutput) {
        if planted(Mutant::DigestsUnasked) {
            let members = self.member_ids();
            let verdict = self.integrity.claimed.compare(index, &members);
            return self.judge(verdict, &members, out);
        }
        let is_older = self.integrity.asked.is_some_and(|(asked, _)| index <= asked);
        if !is_older && self.integrity.claimed.differ(self.params.me, index) {
            self.ask_for_digests(now, index, out);
        }
    }

    /// A question goes to the address of the member that it is for, so another process that speaks in its name does not
    /// see the nonce.
    fn ask_for_digests(&mut self, now: Instant, index: Index, out: &mut ApplyOutput) {
        self.integrity.asked = Some((index, now));
        for member in self.member_ids() {
            if self.integrity.answered.hash_of(member, index).is_none() {
                let nonce = self.digest_nonce(member, index);
                out.peer_messages.push((member, PeerMessage::DigestQuestion { index, nonce }));
            }
        }
    }

    /// Questions and answers may be lost, and a member may not have applied the index yet.
    pub(super) fn ask_for_digests_again(&mut self, now: Instant, out: &mut ApplyOutput) {
        let asked = self.integrity.asked.filter(|(_, at)| now >= at.after(ASK_AGAIN_AFTER));
        if let Some((index, _)) = asked
            && self.integrity.answered.hash_of(self.params.me, index).is_some()
        {
            self.ask_for_digests(now, index, out);
        }
    }

    fn digest_nonce(&self, member: NodeId, index: Index) -> u64 {
        let bytes = [member.0.to_le_bytes(), index.0.to_le_bytes()].concat();
        hash64(&bytes, self.params.digest_secret)
    }

    pub(super) fn on_digest_question(
        &mut self,
        from: NodeId,
        index: Index,
        nonce: u64,
        out: &mut ApplyOutput,
    ) {
        if let Some(hash) = self.integrity.answered.hash_of(self.params.me, index) {
            let digest = StateDigest { index, hash };
            out.peer_messages.push((from, PeerMessage::DigestAnswer { nonce, digest }));
        }
    }

    pub(super) fn on_digest_answer(
        &mut self,
        from: NodeId,
        nonce: u64,
        digest: StateDigest,
        out: &mut ApplyOutput,
    ) {
        let StateDigest { index, hash } = digest;
        if from == self.params.me || nonce != self.digest_nonce(from, index) {
            return;
        }
        self.integrity.answered.note(from, index, hash);
        let members = self.member_ids();
        let verdict = self.integrity.answered.compare(index, &members);
        self.judge(verdict, &members, out);
    }

    fn judge(&mut self, verdict: DigestVerdict, members: &BTreeSet<NodeId>, out: &mut ApplyOutput) {
        let suspects = match verdict {
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
