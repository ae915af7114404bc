//! A member's part in automatic compactions: the revisions that it still needs, the gate, and the rounds while it
//! leads. What watches and large reads need comes from the hub and the holds; backups need nothing, because they read
//! a view of the store that no compaction touches.

use super::{Apply, ApplyOutput};
use crate::compactor::{CompactionContext, CompactorOutput};
use crate::lease_clock::LeaderProposals;
use crate::peer_message::{CompactionMessage, CompactionSignal, PeerMessage};
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId, Revision};
use coord::{Command, Compact};

impl Apply {
    /// Everything from this revision on is still needed here; a reader that is too far behind needs nothing.
    pub(super) fn needed(&self, now: Instant) -> Revision {
        let coming = self.state.revision().next();
        if planted(Mutant::PinIgnored) {
            return coming;
        }
        let pinned = self.hub.oldest_needed().into_iter().chain(self.holds.oldest(now)).min();
        pinned.map_or(coming, |pinned| pinned.max(self.lag_bound(now)).min(coming))
    }

    pub(super) fn lag_bound(&self, now: Instant) -> Revision {
        let lag_max = self.params.compaction.lag_max;
        let by_age = self.lag_timeline.aged(now).unwrap_or(Revision::ZERO);
        by_age.max(Revision(self.state.revision().0.saturating_sub_unsigned(lag_max.revisions)))
    }

    pub(super) fn compact_when_due(&mut self, now: Instant, out: &mut ApplyOutput) {
        self.retention_timeline.note(now, self.state.revision());
        self.lag_timeline.note(now, self.state.revision());
        self.gate.tick(now, self.state.compacted());
        self.hub.set_gate(self.gate.floor());
        if self.compactor.may_act(now, self.has_no_space()) {
            self.with_compactor(now, out, |compactor, context, output| compactor.tick(context, output));
        }
    }

    pub(super) fn on_round(
        &mut self,
        now: Instant,
        from: NodeId,
        round: CompactionMessage,
        out: &mut ApplyOutput,
    ) {
        let signal = match round.signal {
            CompactionSignal::Ask if self.gate.enter(round.epoch) => CompactionSignal::Need(self.needed(now)),
            CompactionSignal::Notice(to) if self.gate.enter(round.epoch) => self.answer_notice(now, to),
            CompactionSignal::Ask | CompactionSignal::Notice(_) => return,
            CompactionSignal::Need(_) | CompactionSignal::Agreed | CompactionSignal::Refused => {
                return self.with_compactor(now, out, |compactor, context, output| {
                    compactor.on_message(context, from, round, output);
                });
            }
        };
        self.send(now, from, CompactionMessage { epoch: round.epoch, signal }, out);
    }

    fn answer_notice(&mut self, now: Instant, to: Revision) -> CompactionSignal {
        let needed = self.needed(now);
        let agreed = self.gate.notice(now, to, || needed);
        self.hub.set_gate(self.gate.floor());
        if agreed { CompactionSignal::Agreed } else { CompactionSignal::Refused }
    }

    /// The leader asks itself, too.
    fn send(&mut self, now: Instant, to: NodeId, round: CompactionMessage, out: &mut ApplyOutput) {
        if to == self.params.me {
            self.on_round(now, to, round, out)
        } else {
            out.peer_messages.push((to, PeerMessage::Compaction(round)))
        }
    }

    pub(super) fn has_no_space(&self) -> bool {
        self.state.alarms().any(|alarm| alarm.refuses_growth())
    }

    fn with_compactor(
        &mut self,
        now: Instant,
        out: &mut ApplyOutput,
        act: impl FnOnce(&mut crate::compactor::Compactor, &CompactionContext<'_>, &mut CompactorOutput),
    ) {
        let members = self.member_ids();
        if members.is_empty() {
            return;
        }
        let context = CompactionContext {
            now,
            members: &members,
            revision: self.state.revision(),
            compacted: self.state.compacted(),
            aged: self.retention_timeline.aged(now),
            no_space: self.has_no_space(),
        };
        let mut output = CompactorOutput::default();
        act(&mut self.compactor, &context, &mut output);
        out.compaction_rounds.extend(self.compactor.take_report());
        for (to, round) in output.peer_messages {
            self.send(now, to, round, out);
        }
        if let (Some(revision), Some(term)) = (output.compact, self.lease_clock.term()) {
            let mut bytes = Vec::new();
            Command::Compact(Compact { revision, physical: false }).encode(&mut bytes);
            out.proposals.push(LeaderProposals { term, commands: vec![bytes.into()] });
        }
    }
}
