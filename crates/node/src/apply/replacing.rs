//! Finishes the replacement of a member: the leader proposes the end of the joint configuration until it is applied.
//! The replacement is applied by then, so a majority of the voters before and after it has it; the proposal is
//! committed by both majorities. A leader that takes over finds the replacement in the table and goes on with it.

use super::{Apply, ApplyOutput};
use crate::mutant::Mutant;
use base::Instant;
use base::mutant::planted;
use coord::{Command, MemberChange};
use std::time::Duration;

/// A proposal may be lost; a repeated one has no effect.
const FINISH_INTERVAL: Duration = Duration::from_secs(1);

impl Apply {
    /// A leader that finds an unfinished replacement, of whichever leader.
    pub(super) fn finish_found_replacement(&mut self, now: Instant, out: &mut ApplyOutput) {
        if !planted(Mutant::ReplacementNotFinished) {
            self.propose_finish(now, out);
        }
    }

    pub(super) fn propose_finish(&mut self, now: Instant, out: &mut ApplyOutput) {
        if !self.leader.is_leading() {
            return;
        }
        let Some(replacement) = self.state.members().replacement() else {
            self.leader.settling = None;
            return;
        };
        if self.leader.settling.is_some_and(|at| now.since(at) < FINISH_INTERVAL) {
            return;
        }
        self.leader.settling = Some(now);
        let finish = MemberChange::FinishReplacement { new: replacement.new };
        self.leader.propose([Command::Members(finish)], out);
    }
}
