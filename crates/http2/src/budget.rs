//! The budget of one connection for frames that cost the server more than the client: pings, settings, window updates, empty
//! frames, streams that are opened and reset. Charges decay with time, with every answer and with what
//! is sent, so a busy honest client never notices; one that sends nothing else runs out.

use crate::mutant::Mutant;
use base::Instant;
use base::mutant::planted;

/// Charges beyond this end the connection.
const LEVEL_MAX: u64 = 10_000;
/// Forgiven in a second.
const PER_SECOND: u64 = 1_000;
/// Forgiven with an answer: clients that measure the network send a ping with each.
const PER_ANSWER: u64 = 10;
/// Forgiven with a part of an answer: a stream of messages is one answer that does not end.
const PER_PART: u64 = 2;
/// One is forgiven for so many bytes of bodies: clients say with every 16 KiB or so that they take more.
const BYTES_PER_CHARGE: u64 = 4 * 1024;

#[derive(Debug, Default)]
pub struct Budget {
    level: u64,
    /// Until when the passing of time has been counted.
    counted: Instant,
    /// Bytes that were sent and have forgiven nothing yet.
    sent: u64,
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

    /// False when the budget is exceeded.
    pub fn charge(&mut self, cost: u64) -> bool {
        self.level += cost;
        self.level <= LEVEL_MAX || planted(Mutant::FramesUncharged)
    }

    pub fn answered(&mut self) {
        self.level = self.level.saturating_sub(PER_ANSWER);
    }

    pub fn sent_part(&mut self) {
        self.level = self.level.saturating_sub(PER_PART);
    }

    pub fn sent_bytes(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.level = self.level.saturating_sub(self.sent / BYTES_PER_CHARGE);
        self.sent %= BYTES_PER_CHARGE;
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
    fn a_planted_bug_is_found() {
        let test = what_is_spent_comes_back_with_time_and_with_answers;
        assert!(base::mutant::is_caught(Mutant::FramesUncharged, test));
    }

    #[test]
    fn what_is_sent_forgives_what_its_receiver_says_about_it() {
        let mut budget = Budget::default();
        assert!(budget.charge(LEVEL_MAX));
        (0..8).for_each(|_| budget.sent_bytes(1_024));
        assert!(budget.charge(2));
        budget.sent_part();
        assert!(budget.charge(PER_PART));
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
