//! Replies that gather for one reader, which is woken once however many come together: a client connection has one
//! for all of its calls.
//! Replies go in from any thread and come out in that order. The reader takes all there are, or leaves its waker.
//! The senders bound their number: one reply for each request.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Waker};

pub struct ReplyInbox<T> {
    state: Mutex<InboxState<T>>,
}

struct InboxState<T> {
    letters: Vec<T>,
    /// The waker of a reader that has found nothing.
    reader: Option<Waker>,
}

impl<T> Default for ReplyInbox<T> {
    fn default() -> ReplyInbox<T> {
        ReplyInbox { state: Mutex::new(InboxState { letters: Vec::new(), reader: None }) }
    }
}

impl<T> ReplyInbox<T> {
    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().expect("no thread panics while it holds a mailbox")
    }

    /// Adds a reply, and wakes the reader.
    pub fn push(&self, reply: T) {
        if let Some(reader) = self.push_returning_waker(reply) {
            reader.wake();
        }
    }

    /// Adds a reply. A sender of several wakes the reader after the last.
    #[must_use]
    pub fn push_returning_waker(&self, reply: T) -> Option<Waker> {
        let mut state = self.lock();
        state.letters.push(reply);
        state.reader.take()
    }

    /// The reader is awake, and need not be woken before its next `take`.
    pub fn mark_awake(&self) {
        self.lock().reader = None;
    }

    /// Takes everything out. If there is nothing, the reader is woken when there is.
    pub fn take(&self, into: &mut Vec<T>, context: &Context<'_>) {
        debug_assert!(into.is_empty(), "what was taken before has been dealt with");
        let mut state = self.lock();
        std::mem::swap(&mut state.letters, into);
        if into.is_empty() && !state.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            state.reader = Some(context.waker().clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_reader_is_woken_once_for_all_that_come_and_only_if_it_found_nothing() {
        let woken = Arc::new(WakeCounter::default());
        let waker = Waker::from(woken.clone());
        let context = Context::from_waker(&waker);
        let (inbox, mut letters) = (ReplyInbox::default(), Vec::new());
        inbox.push(1);
        inbox.take(&mut letters, &context);
        inbox.push(2);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);

        letters.clear();
        inbox.take(&mut letters, &context);
        assert_eq!(letters, [2]);
        letters.clear();
        inbox.take(&mut letters, &context);
        inbox.take(&mut letters, &context);
        (3..6).for_each(|reply| inbox.push(reply));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        inbox.take(&mut letters, &context);
        assert_eq!(letters, [3, 4, 5]);

        letters.clear();
        inbox.take(&mut letters, &context);
        inbox.mark_awake();
        inbox.push(6);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "it looks of its own accord");
        inbox.take(&mut letters, &context);
        assert_eq!(letters, [6]);
    }
}
