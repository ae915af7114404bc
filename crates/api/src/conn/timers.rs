//! The timers of one connection: when a silent client is pinged and when it is given up, and when
//! calls have reached their deadlines. One timer serves them all; it is reset when it has fired, or
//! when something is due earlier.

use http2::StreamId;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// A client that was silent for so long is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The connection is closed when a ping is not answered for so long.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How often incomplete requests are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

pub struct ConnTimers {
    begun: Instant,
    last_received: Instant,
    pinged: bool,
    /// The deadlines of calls.
    deadlines: BTreeSet<(Instant, StreamId)>,
    /// When incomplete requests are checked next.
    sweep: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

/// What has come due.
#[derive(Debug, PartialEq, Eq)]
pub enum TimerEvent {
    /// Ping the client.
    Ping,
    /// The client has not answered.
    Dead,
    /// This call has reached its deadline.
    Expired(StreamId),
    /// Check for requests that take too long to become complete.
    Sweep,
}

impl ConnTimers {
    pub fn new() -> ConnTimers {
        let now = Instant::now();
        let alarm = Box::pin(sleep_until(now + PING_INTERVAL));
        ConnTimers {
            begun: now,
            last_received: now,
            pinged: false,
            deadlines: BTreeSet::new(),
            sweep: None,
            alarm,
        }
    }

    /// When bytes of the client last arrived.
    pub fn last_received(&self) -> std::time::Instant {
        self.last_received.into_std()
    }

    /// Bytes of the client have arrived: returns the time, as the machine counts it.
    pub fn on_received(&mut self) -> base::Instant {
        self.last_received = Instant::now();
        self.pinged = false;
        base::Instant::ZERO.after(self.last_received - self.begun)
    }

    /// A call expires after so long, counted from the arrival of its bytes.
    pub fn add(&mut self, stream: StreamId, timeout: Duration) -> Option<Instant> {
        let deadline = self.last_received.checked_add(timeout)?;
        self.deadlines.insert((deadline, stream));
        if deadline < self.alarm.deadline() {
            self.alarm.as_mut().reset(deadline);
        }
        Some(deadline)
    }

    /// There is an incomplete request.
    pub fn sweep_soon(&mut self) {
        if self.sweep.is_none() {
            let at = self.last_received.max(Instant::now()) + SWEEP_INTERVAL;
            self.sweep = Some(at);
            if at < self.alarm.deadline() {
                self.alarm.as_mut().reset(at);
            }
        }
    }

    pub fn remove(&mut self, stream: StreamId, deadline: Instant) {
        self.deadlines.remove(&(deadline, stream));
    }

    /// What has come due, one after the other; `None` when the timer runs.
    pub fn next(&mut self, context: &mut Context<'_>) -> Option<TimerEvent> {
        while self.alarm.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if let Some(due) = self.due(now) {
                return Some(due);
            }
            let sign = self.ping_due();
            let next = self.deadlines.first().map_or(sign, |(deadline, _)| sign.min(*deadline));
            let next = self.sweep.map_or(next, |sweep| sweep.min(next));
            self.alarm.as_mut().reset(next);
        }
        None
    }

    fn due(&mut self, now: Instant) -> Option<TimerEvent> {
        if let Some((_, stream)) = self.deadlines.pop_first_if(|(deadline, _)| *deadline <= now) {
            return Some(TimerEvent::Expired(stream));
        }
        if self.sweep.take_if(|sweep| *sweep <= now).is_some() {
            return Some(TimerEvent::Sweep);
        }
        if self.ping_due() > now {
            return None;
        }
        if std::mem::replace(&mut self.pinged, true) {
            Some(TimerEvent::Dead)
        } else {
            Some(TimerEvent::Ping)
        }
    }

    fn ping_due(&self) -> Instant {
        self.last_received + PING_INTERVAL + if self.pinged { PING_TIMEOUT } else { Duration::ZERO }
    }
}

/// As `Vec::pop_if`, for a set.
trait PopFirstIf<T> {
    fn pop_first_if(&mut self, wanted: impl FnOnce(&T) -> bool) -> Option<T>;
}

impl<T: Ord> PopFirstIf<T> for BTreeSet<T> {
    fn pop_first_if(&mut self, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        wanted(self.first()?).then(|| self.pop_first()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::task::{Poll, Waker};

    #[tokio::test]
    async fn a_silent_client_is_pinged_and_then_given_up() {
        let mut timers = ConnTimers::new();
        let begun = timers.last_received;
        assert_eq!(timers.due(begun + PING_INTERVAL - Duration::from_millis(1)), None);
        assert_eq!(timers.due(begun + PING_INTERVAL), Some(TimerEvent::Ping));
        assert_eq!(timers.due(begun + PING_INTERVAL), None);
        assert_eq!(timers.due(begun + PING_INTERVAL + PING_TIMEOUT), Some(TimerEvent::Dead));
    }

    #[tokio::test]
    async fn requests_that_are_not_whole_are_looked_at_once_for_each_time_that_it_was_asked_for() {
        let mut timers = ConnTimers::new();
        timers.sweep_soon();
        timers.sweep_soon();
        let due = timers.sweep.unwrap();
        assert_eq!(timers.due(due - Duration::from_millis(1)), None);
        assert_eq!((timers.due(due), timers.due(due)), (Some(TimerEvent::Sweep), None));
    }

    #[tokio::test]
    async fn received_bytes_reset_the_ping_timer() {
        let mut timers = ConnTimers::new();
        assert_eq!(timers.due(timers.last_received + PING_INTERVAL), Some(TimerEvent::Ping));
        timers.on_received();
        assert_eq!(
            timers.due(timers.last_received + PING_INTERVAL + Duration::from_millis(1)),
            Some(TimerEvent::Ping)
        );
    }

    #[tokio::test]
    async fn calls_expire_in_the_order_of_their_deadlines() {
        let mut timers = ConnTimers::new();
        timers.add(StreamId(1), Duration::from_secs(3_600));
        timers.add(StreamId(3), Duration::from_millis(1));
        timers.add(StreamId(5), Duration::ZERO);
        let answered = timers.add(StreamId(7), Duration::ZERO).unwrap();
        timers.remove(StreamId(7), answered);
        for expected in [5, 3] {
            let due = poll_fn(|context| timers.next(context).map_or(Poll::Pending, Poll::Ready)).await;
            assert_eq!(due, TimerEvent::Expired(StreamId(expected)));
        }
        assert_eq!(timers.next(&mut Context::from_waker(Waker::noop())), None);
    }
}
