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
/// And is given up when no answer comes.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How often incomplete requests are checked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

pub struct Clock {
    begun: Instant,
    heard: Instant,
    asked: bool,
    /// The deadlines of calls.
    deadlines: BTreeSet<(Instant, StreamId)>,
    /// When incomplete requests are checked next.
    sweep: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

/// What has come due.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// Ping the client.
    Ping,
    /// The client has not answered.
    Dead,
    /// This call has reached its deadline.
    Expired(StreamId),
    /// Check for requests that take too long to become complete.
    Sweep,
}

impl Clock {
    pub fn new() -> Clock {
        let now = Instant::now();
        let alarm = Box::pin(sleep_until(now + PING_INTERVAL));
        Clock { begun: now, heard: now, asked: false, deadlines: BTreeSet::new(), sweep: None, alarm }
    }

    /// When bytes of the client last arrived.
    pub fn heard(&self) -> std::time::Instant {
        self.heard.into_std()
    }

    /// Bytes of the client have arrived: returns the time, as the machine counts it.
    pub fn hear(&mut self) -> base::Instant {
        self.heard = Instant::now();
        self.asked = false;
        base::Instant::ZERO.after(self.heard - self.begun)
    }

    /// A call expires after so long, counted from the arrival of its bytes.
    pub fn add(&mut self, stream: StreamId, timeout: Duration) -> Option<Instant> {
        let deadline = self.heard.checked_add(timeout)?;
        self.deadlines.insert((deadline, stream));
        if deadline < self.alarm.deadline() {
            self.alarm.as_mut().reset(deadline);
        }
        Some(deadline)
    }

    /// There is an incomplete request.
    pub fn sweep_soon(&mut self) {
        if self.sweep.is_none() {
            let at = self.heard.max(Instant::now()) + SWEEP_INTERVAL;
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
    pub fn next(&mut self, context: &mut Context<'_>) -> Option<Due> {
        while self.alarm.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if let Some(due) = self.due(now) {
                return Some(due);
            }
            let sign = self.sign_due();
            let next = self.deadlines.first().map_or(sign, |(deadline, _)| sign.min(*deadline));
            let next = self.sweep.map_or(next, |sweep| sweep.min(next));
            self.alarm.as_mut().reset(next);
        }
        None
    }

    fn due(&mut self, now: Instant) -> Option<Due> {
        if let Some((_, stream)) = self.deadlines.pop_first_if(|(deadline, _)| *deadline <= now) {
            return Some(Due::Expired(stream));
        }
        if self.sweep.take_if(|sweep| *sweep <= now).is_some() {
            return Some(Due::Sweep);
        }
        if self.sign_due() > now {
            return None;
        }
        match std::mem::replace(&mut self.asked, true) {
            false => Some(Due::Ping),
            true => Some(Due::Dead),
        }
    }

    fn sign_due(&self) -> Instant {
        self.heard + PING_INTERVAL + if self.asked { PING_TIMEOUT } else { Duration::ZERO }
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
    async fn a_silent_client_is_asked_and_then_given_up() {
        let mut clock = Clock::new();
        let begun = clock.heard;
        assert_eq!(clock.due(begun + PING_INTERVAL - Duration::from_millis(1)), None);
        assert_eq!(clock.due(begun + PING_INTERVAL), Some(Due::Ping));
        assert_eq!(clock.due(begun + PING_INTERVAL), None);
        assert_eq!(clock.due(begun + PING_INTERVAL + PING_TIMEOUT), Some(Due::Dead));
    }

    #[tokio::test]
    async fn requests_that_are_not_whole_are_looked_at_once_for_each_time_that_it_was_asked_for() {
        let mut clock = Clock::new();
        clock.sweep_soon();
        clock.sweep_soon();
        let due = clock.sweep.unwrap();
        assert_eq!(clock.due(due - Duration::from_millis(1)), None);
        assert_eq!((clock.due(due), clock.due(due)), (Some(Due::Sweep), None));
    }

    #[tokio::test]
    async fn a_sign_of_life_begins_everything_anew() {
        let mut clock = Clock::new();
        assert_eq!(clock.due(clock.heard + PING_INTERVAL), Some(Due::Ping));
        clock.hear();
        assert_eq!(clock.due(clock.heard + PING_INTERVAL + Duration::from_millis(1)), Some(Due::Ping));
    }

    #[tokio::test]
    async fn calls_expire_in_the_order_of_their_deadlines() {
        let mut clock = Clock::new();
        clock.add(StreamId(1), Duration::from_secs(3_600));
        clock.add(StreamId(3), Duration::from_millis(1));
        clock.add(StreamId(5), Duration::ZERO);
        let answered = clock.add(StreamId(7), Duration::ZERO).unwrap();
        clock.remove(StreamId(7), answered);
        for expected in [5, 3] {
            let due = poll_fn(|context| clock.next(context).map_or(Poll::Pending, Poll::Ready)).await;
            assert_eq!(due, Due::Expired(StreamId(expected)));
        }
        assert_eq!(clock.next(&mut Context::from_waker(Waker::noop())), None);
    }
}
