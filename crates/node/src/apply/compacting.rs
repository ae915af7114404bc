//! A member's part in automatic compactions: the revisions that it still needs, the gate, and the rounds while it
//! leads. What watches and large reads need comes from the hub and the holds; backups need nothing, because they read
//! a view of the store that no compaction touches.

use super::{Apply, Output};
use crate::compactor::{Sight, Steps};
use crate::leases::Proposals;
use crate::word::{Round, Said, Word};
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId, Revision};
use coord::{AlarmKind, Command, Compact};

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

    fn lag_bound(&self, now: Instant) -> Revision {
        let lag_max = self.params.compaction.lag_max;
        let by_age = self.lagging.aged(now).unwrap_or(Revision::ZERO);
        by_age.max(Revision(self.state.revision().0.saturating_sub_unsigned(lag_max.revisions)))
    }

    pub(super) fn compact_when_due(&mut self, now: Instant, out: &mut Output) {
        self.kept.note(now, self.state.revision());
        self.lagging.note(now, self.state.revision());
        self.gate.tick(now, self.state.compacted());
        self.hub.set_gate(self.gate.floor());
        if self.compactor.is_awake(now, self.has_no_space()) {
            self.with_compactor(now, out, |compactor, sight, steps| compactor.tick(sight, steps));
        }
    }

    pub(super) fn on_round(&mut self, now: Instant, from: NodeId, round: Round, out: &mut Output) {
        let said = match round.said {
            Said::Ask if self.gate.enter(round.epoch) => Said::Need(self.needed(now)),
            Said::Notice(to) if self.gate.enter(round.epoch) => self.answer_notice(now, to),
            Said::Ask | Said::Notice(_) => return,
            Said::Need(_) | Said::Agreed | Said::Refused => {
                return self.with_compactor(now, out, |compactor, sight, steps| {
                    compactor.hear(sight, from, round, steps);
                });
            }
        };
        self.say(now, from, Round { epoch: round.epoch, said }, out);
    }

    fn answer_notice(&mut self, now: Instant, to: Revision) -> Said {
        let needed = self.needed(now);
        let agreed = self.gate.notice(now, to, || needed);
        self.hub.set_gate(self.gate.floor());
        if agreed { Said::Agreed } else { Said::Refused }
    }

    /// The leader asks itself, too.
    fn say(&mut self, now: Instant, to: NodeId, round: Round, out: &mut Output) {
        if to == self.params.me {
            self.on_round(now, to, round, out)
        } else {
            out.words.push((to, Word::Round(round)))
        }
    }

    pub(super) fn has_no_space(&self) -> bool {
        self.state.alarms().any(|alarm| alarm.kind == AlarmKind::NoSpace)
    }

    fn with_compactor(
        &mut self,
        now: Instant,
        out: &mut Output,
        act: impl FnOnce(&mut crate::compactor::Compactor, &Sight<'_>, &mut Steps),
    ) {
        let members = self.member_ids();
        if members.is_empty() {
            return;
        }
        let sight = Sight {
            now,
            members: &members,
            revision: self.state.revision(),
            compacted: self.state.compacted(),
            aged: self.kept.aged(now),
            no_space: self.has_no_space(),
        };
        let mut steps = Steps::default();
        act(&mut self.compactor, &sight, &mut steps);
        for (to, round) in steps.words {
            self.say(now, to, round, out);
        }
        if let (Some(revision), Some(term)) = (steps.compact, self.lessor.term()) {
            let mut bytes = Vec::new();
            Command::Compact(Compact { revision, physical: false }).encode(&mut bytes);
            out.proposals.push(Proposals { term, commands: vec![bytes.into()] });
        }
    }
}
