//! How long a dialler waits between attempts: a sleep that can be cut short, and a growing, jittered span.
//! An interrupt that comes before the sleep ends the next sleep, so none is missed.

use super::Timing;
use base::Rng;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

pub(super) struct InterruptibleSleep {
    cut: Mutex<bool>,
    wake: Condvar,
}

impl InterruptibleSleep {
    pub fn new() -> InterruptibleSleep {
        InterruptibleSleep { cut: Mutex::new(false), wake: Condvar::new() }
    }

    pub fn sleep(&self, span: Duration) {
        let until = Instant::now() + span;
        let mut cut = self.cut.lock().expect("nothing panics in here");
        while !std::mem::take(&mut *cut) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            cut = self.wake.wait_timeout(cut, left).expect("nothing panics in here").0;
        }
    }

    pub fn interrupt(&self) {
        *self.cut.lock().expect("nothing panics in here") = true;
        self.wake.notify_all();
    }
}

pub(super) struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
    rng: Rng,
}

impl Backoff {
    pub fn new(timing: &Timing, seed: u64) -> Backoff {
        Backoff {
            first: timing.retry_first,
            max: timing.retry_max,
            next: timing.retry_first,
            rng: Rng::new(seed),
        }
    }

    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Between three quarters of the span and the whole, so that two members do not dial in step for ever.
    pub fn next(&mut self) -> Duration {
        let span = self.next;
        self.next = (span * 2).min(self.max);
        let micros = (span.as_micros() as u64).max(1);
        Duration::from_micros(self.rng.between(micros * 3 / 4, micros + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_double_up_to_the_bound_and_start_again_after_a_reset() {
        let timing = Timing::default();
        let mut backoff = Backoff::new(&timing, 1);
        for milliseconds in [10, 20, 40, 80, 160, 320, 500, 500, 500] {
            let span = backoff.next();
            let whole = Duration::from_millis(milliseconds);
            assert!(span <= whole && span >= whole * 3 / 4, "{span:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= timing.retry_first);
    }

    #[test]
    fn a_cut_before_the_sleep_is_not_missed() {
        let pause = InterruptibleSleep::new();
        pause.interrupt();
        let start = Instant::now();
        pause.sleep(Duration::from_secs(3600));
        assert!(start.elapsed() < Duration::from_secs(600));
    }
}
