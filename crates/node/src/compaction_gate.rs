//! The compaction gate: it keeps reads and watches from starting below a compaction that is being prepared. A notice
//! raises it and is then judged by what the member needs: if something lies below, the gate goes back to where it was
//! and the notice is refused. It falls by itself when the compaction does not come. Safety does not depend on it,
//! because only the log compacts; it keeps a new watch from being cancelled at once.

use crate::peer_message::CompactionEpoch;
use base::{Instant, Revision};
use std::time::Duration;

/// How long a raised gate waits for its compaction.
pub const GATE_LIFETIME: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct CompactionGate {
    /// The latest round that this member knows.
    epoch: CompactionEpoch,
    raised: Option<RaisedGate>,
}

#[derive(Clone, Copy, Debug)]
struct RaisedGate {
    to: Revision,
    until: Instant,
}

impl CompactionGate {
    /// False for a round that a later one has replaced.
    pub fn enter(&mut self, epoch: CompactionEpoch) -> bool {
        let current = epoch >= self.epoch;
        self.epoch = self.epoch.max(epoch);
        current
    }

    /// Raises the gate, looks at what is needed, and takes it back if that lies below. Returns whether it is up.
    pub fn notice(&mut self, now: Instant, to: Revision, needed: impl FnOnce() -> Revision) -> bool {
        let before = self.raised;
        self.raised = Some(RaisedGate { to, until: now.after(GATE_LIFETIME) });
        let agreed = needed() > to;
        if !agreed {
            self.raised = before;
        }
        agreed
    }

    /// Lets a gate fall whose compaction has come, or does not come.
    pub fn tick(&mut self, now: Instant, compacted: Revision) {
        self.raised.take_if(|raised| raised.until <= now || raised.to <= compacted);
    }

    /// No read or watch may start below this revision.
    pub fn floor(&self) -> Revision {
        self.raised.map_or(Revision::ZERO, |raised| raised.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Term;

    fn epoch(term: u64, nth: u64) -> CompactionEpoch {
        CompactionEpoch { term: Term(term), nth }
    }

    #[test]
    fn a_notice_below_which_something_is_needed_leaves_the_gate_where_it_was() {
        let mut gate = CompactionGate::default();
        assert!(gate.notice(Instant::ZERO, Revision(10), || Revision(11)));
        assert!(!gate.notice(Instant::ZERO, Revision(20), || Revision(20)));
        assert_eq!(gate.floor(), Revision(10));
    }

    #[test]
    fn a_gate_falls_when_its_compaction_comes_or_does_not_come() {
        let mut gate = CompactionGate::default();
        assert!(gate.notice(Instant::ZERO, Revision(10), || Revision(11)));
        gate.tick(Instant::ZERO.after(GATE_LIFETIME - Duration::from_micros(1)), Revision(9));
        assert_eq!(gate.floor(), Revision(10));
        gate.tick(Instant::ZERO.after(GATE_LIFETIME), Revision(9));
        assert_eq!(gate.floor(), Revision::ZERO);
        assert!(gate.notice(Instant::ZERO, Revision(10), || Revision(11)));
        gate.tick(Instant::ZERO, Revision(10));
        assert_eq!(gate.floor(), Revision::ZERO);
    }

    #[test]
    fn a_round_that_was_overtaken_is_not_entered() {
        let mut gate = CompactionGate::default();
        assert!(gate.enter(epoch(3, 1)) && gate.enter(epoch(3, 1)) && gate.enter(epoch(3, 2)));
        assert!(!gate.enter(epoch(3, 1)));
        assert!(gate.enter(epoch(4, 1)) && !gate.enter(epoch(3, 9)));
    }
}
