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
    replies: Vec<T>,
    /// The waker of a reader that has found nothing.
    reader: Option<Waker>,
}

impl<T> Default for ReplyInbox<T> {
    fn default() -> ReplyInbox<T> {
        ReplyInbox { state: Mutex::new(InboxState { replies: Vec::new(), reader: None }) }
    }
}

impl<T> ReplyInbox<T> {
    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().expect("no thread panics while it holds an inbox")
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
        state.replies.push(reply);
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
        std::mem::swap(&mut state.replies, into);
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
        let (inbox, mut replies) = (ReplyInbox::default(), Vec::new());
        inbox.push(1);
        inbox.take(&mut replies, &context);
        inbox.push(2);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);

        replies.clear();
        inbox.take(&mut replies, &context);
        assert_eq!(replies, [2]);
        replies.clear();
        inbox.take(&mut replies, &context);
        inbox.take(&mut replies, &context);
        (3..6).for_each(|reply| inbox.push(reply));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        inbox.take(&mut replies, &context);
        assert_eq!(replies, [3, 4, 5]);

        replies.clear();
        inbox.take(&mut replies, &context);
        inbox.mark_awake();
        inbox.push(6);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "it looks of its own accord");
        inbox.take(&mut replies, &context);
        assert_eq!(replies, [6]);
    }
}
