//! What is known of one register with one writer, which numbers what it writes. A read shows what was acknowledged or
//! shown last, or something later; a delete that was acknowledged does not let anything older through. A write with an
//! attempt of unknown fate may take effect at any time, unless late writes are judged: then it never beats one that was
//! acknowledged or shown and began after each of its attempts was answered or past its deadline.

#[derive(Clone, Debug, Default)]
struct WriteState {
    deletes: bool,
    acknowledged: bool,
    /// Attempts that are under way or of unknown fate.
    open: u32,
    attempts: Vec<Attempt>,
}

/// A request that was sent for a write.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    nth: usize,
    sent: u64,
    /// When it was answered, or its deadline.
    over: u64,
}

/// Everything that was ever written to one key.
#[derive(Debug, Default)]
pub struct RegisterHistory {
    /// By number, from one.
    writes: Vec<WriteState>,
    /// What was acknowledged or shown last.
    pub floor: usize,
}

impl RegisterHistory {
    /// The number of a new write.
    pub fn add(&mut self, deletes: bool) -> usize {
        self.writes.push(WriteState { deletes, ..WriteState::default() });
        self.writes.len()
    }

    /// A request for this write is sent, for the first time or again.
    pub fn attempt(&mut self, number: usize, nth: usize, sent: u64, deadline: u64) {
        let write = &mut self.writes[number - 1];
        write.open += 1;
        write.attempts.push(Attempt { nth, sent, over: deadline });
    }

    /// An attempt is answered, whatever the answer is and whether or not its client still waits.
    pub fn answered(&mut self, number: usize, nth: usize, now: u64) {
        let attempts = self.writes[number - 1].attempts.iter_mut();
        attempts
            .filter(|attempt| attempt.nth == nth)
            .for_each(|attempt| attempt.over = attempt.over.min(now));
    }

    /// Whether every attempt at a write was over when the first one at another was sent.
    fn is_before(&self, number: usize, other: usize) -> bool {
        let over = self.writes[number - 1].attempts.iter().map(|attempt| attempt.over).max();
        let sent = self.writes[other - 1].attempts.iter().map(|attempt| attempt.sent).min();
        over.zip(sent).is_none_or(|(over, sent)| over <= sent)
    }

    pub fn acknowledge(&mut self, number: usize) {
        let write = &mut self.writes[number - 1];
        (write.acknowledged, write.open) = (true, write.open - 1);
        self.floor = self.floor.max(number);
    }

    /// It may take effect after others.
    fn is_open(&self, number: usize) -> bool {
        let write = &self.writes[number - 1];
        write.open > 0 || !write.acknowledged
    }

    /// What is known of the key now, or what is wrong. `floor` is what was known when the read began.
    pub fn judge(&self, floor: usize, shown: Option<usize>, judges_late: bool) -> Result<usize, String> {
        let is_late = |number: usize| judges_late && self.is_before(number, floor);
        let may_come_late = |number: usize| self.is_open(number) && !is_late(number);
        let Some(number) = shown else {
            let deletes = |number: &usize| self.writes[number - 1].deletes;
            let later = (floor.max(1)..=self.writes.len()).find(deletes);
            let earlier = || (1..floor).rev().find(|number| deletes(number) && may_come_late(*number));
            return match later.or_else(earlier) {
                // It may have been deleted since, or not written before.
                Some(number) => Ok(if number >= floor { self.floor.max(floor) } else { number }),
                None if floor == 0 => Ok(self.floor),
                None => Err("shows nothing, although no write has deleted it since".to_owned()),
            };
        };
        match number {
            0 => Err("shows what no client has written".to_owned()),
            number if number > self.writes.len() || self.writes[number - 1].deletes => {
                Err(format!("shows {number}, which no client has written"))
            }
            number if number >= floor => Ok(self.floor.max(number)),
            number if may_come_late(number) => Ok(number),
            number => Err(format!("shows {number}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> RegisterHistory {
        let mut history = RegisterHistory::default();
        for number in 1..=3 {
            assert_eq!(history.add(number == 2), number);
            history.attempt(number, number, number as u64 * 10, number as u64 * 10 + 5);
        }
        history
    }

    #[test]
    fn a_write_of_unknown_fate_may_come_late_unless_that_is_judged() {
        let mut history = history();
        history.acknowledge(3);
        assert_eq!(history.judge(3, Some(1), false), Ok(1));
        assert!(history.judge(3, Some(1), true).is_err());
        assert_eq!(history.judge(3, None, false), Ok(2));
        assert!(history.judge(3, None, true).is_err());
        assert_eq!(history.judge(3, Some(3), true), Ok(3));
    }

    #[test]
    fn a_write_that_is_under_way_when_a_later_one_begins_may_beat_it() {
        let mut history = history();
        history.attempt(1, 4, 12, 100);
        history.acknowledge(3);
        assert_eq!(history.judge(3, Some(1), true), Ok(1), "its second attempt is not over");
        history.answered(1, 4, 29);
        assert!(history.judge(3, Some(1), true).is_err(), "it was answered before the third began");
    }

    #[test]
    fn one_attempt_that_was_acknowledged_leaves_the_others_open() {
        let mut history = history();
        history.attempt(1, 4, 40, 45);
        history.acknowledge(1);
        history.acknowledge(3);
        assert_eq!(history.judge(3, Some(1), false), Ok(1), "the other attempt may come late");
    }

    #[test]
    fn what_was_acknowledged_does_not_come_back_from_under_a_later_one() {
        let mut history = history();
        (1..=3).for_each(|number| history.acknowledge(number));
        assert!(history.judge(3, Some(1), false).is_err());
        assert!(history.judge(3, None, false).is_err());
        assert!(history.judge(3, Some(2), false).is_err(), "the second deletes");
    }
}
