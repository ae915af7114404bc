//! The ping that is on its way to one peer, and how long it took once it is acknowledged.
//! The writer says where in its stream a ping ended; the reader of acknowledgements asks whether the peer has
//! come that far. One ping is followed at a time.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Ping {
    under_way: Mutex<Option<SentPing>>,
}

struct SentPing {
    /// Where in the stream it ends.
    end: u64,
    at: Instant,
}

impl Ping {
    /// A new stream counts from zero, and what was on its way is lost.
    pub fn reset(&self) {
        *self.lock() = None;
    }

    pub fn sent(&self, end: u64, at: Instant) {
        self.lock().get_or_insert(SentPing { end, at });
    }

    /// The peer has read the stream up to here.
    pub fn acknowledged(&self, position: u64, now: Instant) -> Option<Duration> {
        let sent = self.lock().take_if(|sent| sent.end <= position)?;
        Some(now.saturating_duration_since(sent.at))
    }

    fn lock(&self) -> MutexGuard<'_, Option<SentPing>> {
        self.under_way.lock().expect("no thread panics while it holds a ping")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_has_come_back_when_its_last_byte_is_acknowledged() {
        let ping = Ping::default();
        let start = Instant::now();
        ping.sent(100, start);
        ping.sent(200, start + Duration::from_secs(1));
        let now = start + Duration::from_secs(2);
        assert_eq!(ping.acknowledged(99, now), None);
        assert_eq!(ping.acknowledged(150, now), Some(Duration::from_secs(2)));
        assert_eq!(ping.acknowledged(200, now), None, "the second was not followed");
        ping.sent(300, start);
        ping.reset();
        assert_eq!(ping.acknowledged(300, now), None);
    }
}
