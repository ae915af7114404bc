//! What this member does while it leads: it counts the time of leases, watches the quota, names the first members, and
//! proposes what follows. A proposal may be lost, so what still has to happen is proposed again.

use super::{Apply, ApplyOutput, ApplyParams};
use crate::lease_clock::{LeaderProposals, LeaseClock, LeaseOutput};
use crate::mutant::Mutant;
use crate::quota_alarm::QuotaAlarm;
use base::mutant::planted;
use base::{FormatLevel, Instant};
use bytes::Bytes;
use coord::{Command, MemberChange, SetDocument, State};

pub(super) struct LeaderDuties {
    pub lease_clock: LeaseClock,
    pub quota_alarm: QuotaAlarm,
    /// When this member last proposed the time of day.
    pub marked: Option<Instant>,
    /// When it last proposed to finish a replacement of a member.
    pub settling: Option<Instant>,
}

impl LeaderDuties {
    pub fn new(now: Instant, params: &ApplyParams) -> LeaderDuties {
        LeaderDuties {
            lease_clock: LeaseClock::new(params.leases.clone(), now),
            quota_alarm: QuotaAlarm::new(params.me, params.quota_bytes),
            marked: None,
            settling: None,
        }
    }

    pub fn is_leading(&self) -> bool {
        self.lease_clock.term().is_some()
    }

    /// Proposes the commands in one entry, if this member leads.
    pub fn propose(&self, commands: impl IntoIterator<Item = Command>, out: &mut ApplyOutput) {
        if let Some(term) = self.lease_clock.term() {
            out.proposals.push(LeaderProposals::new(term, commands));
        }
    }
}

impl Apply {
    /// Steps the lease clock, and passes on its output.
    pub(super) fn with_lease_clock(
        &mut self,
        out: &mut ApplyOutput,
        step: impl FnOnce(&mut LeaseClock, &State, &mut LeaseOutput),
    ) {
        let mut output = LeaseOutput::default();
        let term = self.leader.lease_clock.term();
        step(&mut self.leader.lease_clock, &self.state, &mut output);
        out.answers.append(&mut output.answers);
        let Some(term) = self.leader.lease_clock.term().or(term) else { return };
        for command in &output.commands {
            let Command::LeaseRevoke(revoke) = command else { continue };
            if planted(Mutant::ExpiryAppliedLocally) {
                self.state.forget_lease(revoke.id);
            }
            self.counts.leases_expired += 1;
        }
        if !output.commands.is_empty() {
            out.proposals.push(LeaderProposals::new(term, output.commands));
        }
    }

    pub(super) fn check_quota(&mut self, now: Instant, out: &mut ApplyOutput) {
        if self.leader.is_leading()
            && let Some(command) = self.leader.quota_alarm.tick(now, &self.state)
        {
            self.leader.propose([Command::Alarm(command)], out);
        }
    }

    /// The leader of a cluster without a table of members proposes its configured table until there is one: a
    /// proposal may be lost, and a repeated one has no effect. The level of the formats comes before it, in the same entry.
    pub(super) fn propose_bootstrap(&self, out: &mut ApplyOutput) {
        if !self.state.members().is_empty() || self.params.initial_members.is_empty() {
            return;
        }
        let level = SetDocument {
            name: FormatLevel::DOCUMENT.to_owned(),
            expect: 0,
            bytes: Bytes::copy_from_slice(&FormatLevel::NEWEST.encode()),
        };
        let members = MemberChange::Bootstrap(self.params.initial_members.clone());
        self.leader.propose([Command::Document(level), Command::Members(members)], out);
    }
}
