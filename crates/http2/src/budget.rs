//! How much of what costs the server more than the client one connection may send: pings, settings, empty frames,
//! streams that are opened and reset. What is charged is forgiven as time passes and with every answer, so a busy
//! honest client never notices; one that sends nothing else runs out.

use base::Instant;

/// Charges beyond this end the connection.
const LEVEL_MAX: u64 = 10_000;
/// Forgiven in a second.
const PER_SECOND: u64 = 1_000;
/// Forgiven with an answer: clients that measure the network send a ping with each.
const PER_ANSWER: u64 = 10;

#[derive(Debug, Default)]
pub struct Budget {
    level: u64,
    /// Until when the passing of time has been counted.
    counted: Instant,
}

impl Budget {
    pub fn advance(&mut self, now: Instant) {
        let micros = now.since(self.counted).as_micros() as u64;
        let forgiven = micros.saturating_mul(PER_SECOND) / 1_000_000;
        // Less than a whole charge is left to gather.
        if forgiven > 0 {
            self.counted = now;
            self.level = self.level.saturating_sub(forgiven);
        }
    }

    /// False when there was too much of it.
    pub fn charge(&mut self, cost: u64) -> bool {
        self.level += cost;
        self.level <= LEVEL_MAX
    }

    pub fn answered(&mut self) {
        self.level = self.level.saturating_sub(PER_ANSWER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_spent_comes_back_with_time_and_with_answers() {
        let mut budget = Budget::default();
        assert!(budget.charge(LEVEL_MAX));
        assert!(!budget.charge(1));
        budget.answered();
        assert!(budget.charge(PER_ANSWER - 1));
        assert!(!budget.charge(1));
        budget.advance(Instant::ZERO.after(Duration::from_millis(2)));
        assert!(budget.charge(1));
        assert!(!budget.charge(1));
    }

    #[test]
    fn time_in_small_steps_is_not_lost() {
        let mut budget = Budget::default();
        assert!(budget.charge(LEVEL_MAX));
        (0..=2_000).for_each(|micros| budget.advance(Instant(micros)));
        assert!(budget.charge(2));
        assert!(!budget.charge(1));
    }
}
