//! A member's part in automatic compactions: the revisions that it still needs, the gate, and the rounds while it
//! leads. What watches and large reads need comes from the hub and the holds; backups need nothing, because they read
//! a view of the store that no compaction touches.

use super::{Apply, ApplyOutput};
use crate::compaction_gate::CompactionGate;
use crate::compactor::{CompactionContext, Compactor, CompactorOutput, CompactorParams};
use crate::mutant::Mutant;
use crate::peer_message::{CompactionMessage, CompactionSignal, PeerMessage};
use crate::timeline::Timeline;
use base::mutant::planted;
use base::{Instant, NodeId, ReplyToken, Revision};
use coord::reply::Reply;
use coord::{Command, Compact};
use std::time::Duration;

/// How old revisions are, what compactions agree on, and who waits for them.
pub(super) struct CompactionPart {
    /// The newest revision at the age that is retained, and at the age that no watch may lag behind.
    pub ages: Timeline,
    pub lag_ages: Timeline,
    pub gate: CompactionGate,
    pub compactor: Compactor,
    /// Compactions that were asked for by clients who wait until the store has done them.
    pub waiting: Vec<(ReplyToken, Reply)>,
}

impl CompactionPart {
    pub fn new(params: &CompactorParams) -> CompactionPart {
        CompactionPart {
            ages: Timeline::new(params.keep.map_or(Duration::ZERO, |keep| keep.age)),
            lag_ages: Timeline::new(params.lag_max.age),
            gate: CompactionGate::default(),
            compactor: Compactor::new(params.clone()),
            waiting: Vec::new(),
        }
    }

    fn note(&mut self, now: Instant, revision: Revision) {
        self.ages.note(now, revision);
        self.lag_ages.note(now, revision);
    }

    /// The store has removed what was compacted.
    pub fn answer_waiting(&mut self, out: &mut ApplyOutput) {
        out.replies.extend(self.waiting.drain(..).map(|(token, reply)| (token, Ok(reply))));
    }
}

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
        let by_age = self.retention.lag_ages.aged(now).unwrap_or(Revision::ZERO);
        by_age.max(Revision(self.state.revision().0.saturating_sub_unsigned(lag_max.revisions)))
    }

    pub(super) fn compact_when_due(&mut self, now: Instant, out: &mut ApplyOutput) {
        self.retention.note(now, self.state.revision());
        self.retention.gate.tick(now, self.state.compacted());
        self.hub.set_gate(self.retention.gate.floor());
        if self.retention.compactor.may_act(now, self.has_no_space()) {
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
            CompactionSignal::Ask if self.retention.gate.enter(round.epoch) => {
                CompactionSignal::Need(self.needed(now))
            }
            CompactionSignal::Notice(to) if self.retention.gate.enter(round.epoch) => {
                self.answer_notice(now, to)
            }
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
        let agreed = self.retention.gate.notice(now, to, || needed);
        self.hub.set_gate(self.retention.gate.floor());
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
        act: impl FnOnce(&mut Compactor, &CompactionContext<'_>, &mut CompactorOutput),
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
            aged: self.retention.ages.aged(now),
            no_space: self.has_no_space(),
        };
        let mut output = CompactorOutput::default();
        act(&mut self.retention.compactor, &context, &mut output);
        out.compaction_rounds.extend(self.retention.compactor.take_report());
        for (to, round) in output.peer_messages {
            self.send(now, to, round, out);
        }
        if let Some(revision) = output.compact {
            self.leader.propose([Command::Compact(Compact { revision, physical: false })], out);
        }
    }
}
