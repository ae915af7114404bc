//! Bytes of incomplete requests: how many the process holds, and how long a request may take to become
//! complete. Every connection charges what it holds; what would exceed the budget is refused. While the budget is nearly
//! spent requests get less time, so that slow ones release memory. See docs/adr/0051.

use crate::mutant::Mutant;
use base::mutant::planted;
use prometheus_client::metrics::gauge::Gauge;
use server::Registry;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How long a request may take to become complete, beside the time for its bytes.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same while the budget is nearly spent.
const WHOLE_TIMEOUT_SHORT: Duration = Duration::from_secs(5);
/// A client that sends more slowly is cut off in the end.
const BYTES_PER_SECOND_MIN: usize = 64 * 1024;

pub struct RequestBudget {
    bytes_max: usize,
    held: AtomicUsize,
    gauge: Gauge,
}

impl RequestBudget {
    pub const BYTES_MAX_DEFAULT: usize = 256 * 1024 * 1024;

    pub fn new(bytes_max: usize) -> Arc<RequestBudget> {
        Arc::new(RequestBudget { bytes_max, held: AtomicUsize::new(0), gauge: Gauge::default() })
    }

    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "althing_client_partial_request_bytes",
            "Bytes of requests that are not whole yet",
            self.gauge.clone(),
        );
    }

    /// Less than a quarter of the budget is left.
    pub fn is_short(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.bytes_max - self.bytes_max / 4
    }

    /// How long a request may take of which so many bytes have come.
    pub fn patience(&self, received: usize) -> Duration {
        let base = if self.is_short() { WHOLE_TIMEOUT_SHORT } else { WHOLE_TIMEOUT };
        base + Duration::from_secs((received / BYTES_PER_SECOND_MIN) as u64)
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            held.checked_add(bytes).filter(|held| *held <= self.bytes_max)
        });
        if taken.is_ok() {
            self.gauge.inc_by(bytes as i64);
        }
        taken.is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.gauge.dec_by(bytes as i64);
    }
}

/// What one connection or request holds of the budget; dropping it releases it.
pub struct HeldBytes {
    request_budget: Arc<RequestBudget>,
    bytes: usize,
}

impl HeldBytes {
    pub fn nothing(request_budget: &Arc<RequestBudget>) -> HeldBytes {
        HeldBytes { request_budget: request_budget.clone(), bytes: 0 }
    }

    /// Sets what is held now. False, and nothing changes, if the budget does not allow it.
    pub fn set(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(0) => return true,
            Some(more) if !self.request_budget.take(more) => return false,
            Some(_) => {}
            None => self.request_budget.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if !planted(Mutant::BudgetNotGivenBack) {
            self.set(0);
        }
    }
}

/// An incomplete request: what it holds, and how long it still has.
pub struct IncompleteRequest {
    held: HeldBytes,
    begun: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl IncompleteRequest {
    pub fn new(request_budget: &Arc<RequestBudget>) -> IncompleteRequest {
        IncompleteRequest { held: HeldBytes::nothing(request_budget), begun: Instant::now(), alarm: None }
    }

    /// So many bytes have arrived. False if the budget does not allow it.
    pub fn hold(&mut self, bytes: usize) -> bool {
        self.held.set(bytes)
    }

    pub fn hold_more(&mut self, bytes: usize) -> bool {
        self.held.set(self.held.bytes + bytes)
    }

    fn deadline(&self) -> Instant {
        self.begun + self.held.request_budget.patience(self.held.bytes)
    }

    /// How long it may still take.
    pub fn time_left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// Whether it takes too long; if it does not yet, the task is woken at its deadline.
    pub fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        loop {
            let deadline = self.deadline();
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if alarm.as_mut().poll(context).is_pending() {
                return false;
            }
            if Instant::now() >= deadline {
                return true;
            }
            alarm.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped_and_never_exceeds_the_budget() {
        let request_budget = RequestBudget::new(100);
        let (mut one, mut two) = (HeldBytes::nothing(&request_budget), HeldBytes::nothing(&request_budget));
        assert!(one.set(60) && two.set(40));
        assert!(!two.set(41) && two.bytes == 40);
        assert!(one.set(10) && two.set(90));
        drop(two);
        assert_eq!((request_budget.held.load(Ordering::Relaxed), request_budget.gauge.get()), (10, 10));
    }

    #[test]
    fn a_planted_bug_is_found() {
        let test = what_is_held_is_counted_until_it_is_dropped_and_never_exceeds_the_budget;
        assert!(base::mutant::is_caught(Mutant::BudgetNotGivenBack, test));
    }

    #[test]
    fn requests_get_less_time_while_the_budget_is_nearly_spent_and_more_for_what_they_bring() {
        let request_budget = RequestBudget::new(100);
        assert_eq!(request_budget.patience(0), WHOLE_TIMEOUT);
        assert_eq!(request_budget.patience(2 * BYTES_PER_SECOND_MIN), WHOLE_TIMEOUT + Duration::from_secs(2));
        let mut held = HeldBytes::nothing(&request_budget);
        assert!(held.set(76) && request_budget.is_short());
        assert_eq!(request_budget.patience(0), WHOLE_TIMEOUT_SHORT);
    }

    #[tokio::test]
    async fn a_request_has_its_time_to_arrive_and_no_more() {
        let request_budget = RequestBudget::new(100);
        let mut incomplete = IncompleteRequest::new(&request_budget);
        assert!(incomplete.hold(60) && incomplete.hold_more(40) && !incomplete.hold_more(1));
        assert_eq!(incomplete.deadline(), incomplete.begun + WHOLE_TIMEOUT_SHORT);
        assert!(incomplete.hold(10));
        assert_eq!(incomplete.deadline(), incomplete.begun + WHOLE_TIMEOUT);
        incomplete.begun -= WHOLE_TIMEOUT;
        std::future::poll_fn(|context| {
            if incomplete.is_late(context) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
        assert_eq!(incomplete.time_left(), Duration::ZERO);
    }
}
