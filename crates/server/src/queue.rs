//! A queue into one thread, which takes everything that has gathered with one lock: work that comes while it
//! is busy is its next batch, and the busier it is the larger the batches.
//! Items go in one by one, in the order in which they come out. Memory is bounded by the senders: those that
//! carry peers' bytes say how many and wait for space first; the others are bounded by what waits in them.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Bytes of senders that declare them.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// When the taker wakes for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Now,
    /// The sender takes the queue itself, or wakes the taker later.
    BySender,
    /// When it wakes for another reason: waking it would cost more than the delay.
    Later,
}

pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// The taker waits here.
    work: Condvar,
    /// Senders of many bytes wait here.
    has_space: Condvar,
}

struct QueueState<T> {
    items: Vec<T>,
    bytes: usize,
    /// Among the items is one that must not wait.
    urgent: bool,
    /// Waking a thread costs a system call, so it is done only when the taker sleeps.
    taker_sleeps: bool,
    closed: bool,
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        let state =
            QueueState { items: Vec::new(), bytes: 0, urgent: false, taker_sleeps: false, closed: false };
        Queue { state: Mutex::new(state), work: Condvar::new(), has_space: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().expect("no thread panics while it holds a queue")
    }

    /// False when the queue is closed: then the item is dropped.
    pub fn push(&self, item: T) -> bool {
        self.push_bytes(item, 0, Wake::Now)
    }

    /// Never waits either; callers that can wait call `wait_for_space` before.
    pub fn push_bytes(&self, item: T, bytes: usize, wake: Wake) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.bytes += bytes;
        state.items.push(item);
        state.urgent |= wake != Wake::Later;
        let wakes = wake == Wake::Now && std::mem::take(&mut state.taker_sleeps);
        drop(state);
        if wakes {
            self.work.notify_one();
        }
        true
    }

    /// Whether something is queued that must not wait.
    pub fn has_urgent(&self) -> bool {
        self.lock().urgent
    }

    pub fn wake_if_urgent(&self) {
        self.wake_if(|state| state.urgent);
    }

    pub fn wake(&self) {
        self.wake_if(|_| true);
    }

    fn wake_if(&self, condition: impl Fn(&QueueState<T>) -> bool) {
        let mut state = self.lock();
        if state.taker_sleeps && condition(&state) {
            state.taker_sleeps = false;
            drop(state);
            self.work.notify_one();
        }
    }

    /// Waits while too many bytes are queued. A closed queue never blocks: it drops every item.
    pub fn wait_for_space(&self) {
        let mut state = self.lock();
        while state.bytes >= BYTES_MAX && !state.closed {
            state = self.has_space.wait(state).expect("no thread panics while it holds a queue");
        }
    }

    /// Waits until an item is queued, the taker is woken or the time has come.
    pub fn wait(&self, until: Option<Instant>) {
        let mut state = self.lock();
        state.taker_sleeps = state.items.is_empty() && !state.closed;
        while state.taker_sleeps && !state.closed {
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => state = self.work.wait(state).expect("no thread panics while it holds a queue"),
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let woken = self.work.wait_timeout(state, left);
                    state = woken.expect("no thread panics while it holds a queue").0;
                }
            }
        }
        state.taker_sleeps = false;
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes everything there is. False when the queue is closed and nothing is left in it.
    pub fn take_now(&self, into: &mut Vec<T>) -> bool {
        debug_assert!(into.is_empty(), "what was taken before has been dealt with");
        let mut state = self.lock();
        std::mem::swap(&mut state.items, into);
        state.urgent = false;
        if state.bytes > 0 {
            state.bytes = 0;
            self.has_space.notify_all();
        }
        !(state.closed && into.is_empty())
    }

    /// Waits, and takes everything.
    pub fn take(&self, into: &mut Vec<T>, until: Option<Instant>) -> bool {
        self.wait(until);
        self.take_now(into)
    }

    /// Refuses new messages; queued ones can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.has_space.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn everything_queued_is_taken_at_once_in_order() {
        let queue = Queue::new();
        (1..=3).for_each(|item| assert!(queue.push(item)));
        let mut taken = Vec::new();
        assert!(queue.take(&mut taken, None));
        assert_eq!(taken, [1, 2, 3]);
    }

    #[test]
    fn a_sleeping_taker_is_woken_and_one_in_a_hurry_goes_on_without() {
        let queue = Arc::new(Queue::new());
        let mut taken: Vec<u8> = Vec::new();
        assert!(queue.take(&mut taken, Some(Instant::now())));
        assert!(taken.is_empty());
        let pusher = thread::spawn({
            let queue = queue.clone();
            move || queue.push(7)
        });
        assert!(queue.take(&mut taken, None));
        assert_eq!(taken, [7]);
        assert!(pusher.join().unwrap());
    }

    #[test]
    fn a_deferred_item_is_taken_with_the_next_urgent_one() {
        let queue = Queue::new();
        queue.push_bytes(1, 0, Wake::Later);
        queue.push(2);
        let mut taken = Vec::new();
        assert!(queue.take(&mut taken, None));
        assert_eq!(taken, [1, 2]);
    }

    #[test]
    fn a_closed_queue_gives_out_what_it_holds_and_takes_nothing_in() {
        let queue = Queue::new();
        queue.push(1);
        queue.close();
        assert!(!queue.push(2));
        let mut taken = Vec::new();
        assert!(queue.take(&mut taken, None));
        assert_eq!(taken, [1]);
        taken.clear();
        assert!(!queue.take(&mut taken, None));
    }

    #[test]
    fn a_sender_of_many_bytes_waits_until_they_are_taken_or_the_queue_is_closed() {
        let queue = Arc::new(Queue::new());
        let waiter = |queue: &Arc<Queue<u8>>| {
            let queue = queue.clone();
            thread::spawn(move || queue.wait_for_space())
        };
        queue.push_bytes(1, BYTES_MAX, Wake::Now);
        let first = waiter(&queue);
        queue.take(&mut Vec::new(), Some(Instant::now() + Duration::from_secs(30)));
        first.join().unwrap();
        queue.push_bytes(2, BYTES_MAX, Wake::Now);
        let second = waiter(&queue);
        queue.close();
        second.join().unwrap();
    }
}
