//! When an alarm is proposed to be raised or cleared: at once, and again if that had no effect for a while.

use base::Instant;
use coord::AlarmCommand;
use std::time::Duration;

/// A proposal that had no effect for this long is made again.
const PROPOSE_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct AlarmProposal {
    proposed: Option<Instant>,
}

impl AlarmProposal {
    /// The wanted command if it is time to propose it; none is wanted while the alarm is as it should be.
    pub fn due(&mut self, now: Instant, wanted: Option<AlarmCommand>) -> Option<AlarmCommand> {
        let is_under_way = self.proposed.is_some_and(|at| now.since(at) < PROPOSE_AGAIN_AFTER);
        if wanted.is_some() && is_under_way {
            return None;
        }
        self.proposed = wanted.map(|_| now);
        wanted
    }
}
