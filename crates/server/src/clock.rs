//! The one monotonic clock of a member: the pure machines get its readings as values.
//! It counts from the start of the process and never goes back.

use base::Instant;
use std::time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: time::Instant,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: time::Instant::now() }
    }

    pub fn now(&self) -> Instant {
        Instant::ZERO.after(self.start.elapsed())
    }

    /// The same moment as the operating system names it, for waiting.
    pub fn to_system(self, instant: Instant) -> time::Instant {
        self.start + instant.since(Instant::ZERO)
    }
}
