//! Callers that wait for an answer, by token, until the consensus thread refuses or the apply thread answers.
//! Tokens are consecutive, so the callers are in a deque and a token is an index. Every token that the
//! machines accept is answered or refused at its deadline, so the deque cannot grow for ever; a caller that
//! has gone away keeps its slot until then. A caller without a deadline moves to a map when the deque gets long.

use crate::handle::InboxReply;
use crate::reply_inbox::ReplyInbox;
use crate::slow_requests::{AnswerContext, RequestMoments};
use base::limits::{PROPOSALS_WAITING_BYTES_MAX, REQUESTS_WAITING_MAX};
use base::{Code, Instant, ReplyToken};
use coord::reply::Reply;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use tokio::sync::oneshot;

/// A caller that waits, and how many bytes of its proposal may still come into the log.
pub(crate) struct Waiter {
    pub caller: ReplyRoute,
    pub bytes: usize,
    /// The kind of the request, for reports of slow ones.
    pub kind: &'static str,
    pub posted: Instant,
    pub taken: Instant,
}

/// How a caller gets its answer: by its own channel, or by an inbox together with others.
pub(crate) enum ReplyRoute {
    Oneshot(oneshot::Sender<Result<Reply, Code>>),
    Inbox(ReplyTicket),
}

/// An answer that is owed to an inbox. If it is dropped without an answer, the inbox gets `Stopped`.
pub(crate) struct ReplyTicket {
    inbox: Option<Arc<ReplyInbox<InboxReply>>>,
    number: u64,
}

impl ReplyRoute {
    pub fn inbox(inbox: Arc<ReplyInbox<InboxReply>>, number: u64) -> ReplyRoute {
        ReplyRoute::Inbox(ReplyTicket { inbox: Some(inbox), number })
    }

    /// Hands over the answer. Returns the waker of the reader, if it must be woken.
    fn send(self, answer: Result<Reply, Code>) -> Option<Waker> {
        match self {
            ReplyRoute::Oneshot(sender) => {
                // The caller may have gone away.
                let _ = sender.send(answer);
                None
            }
            ReplyRoute::Inbox(ticket) => ticket.send(answer),
        }
    }
}

impl ReplyTicket {
    fn send(mut self, outcome: Result<Reply, Code>) -> Option<Waker> {
        let inbox = self.inbox.take()?;
        inbox.push_returning_waker(InboxReply { ticket: self.number, outcome })
    }
}

impl Drop for ReplyTicket {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox.take() {
            inbox.push(InboxReply { ticket: self.number, outcome: Err(Code::Stopped) });
        }
    }
}

/// The deque gets longer than this only when the caller at its head waits without a deadline.
const SLOTS_MAX: usize = 4 * REQUESTS_WAITING_MAX;

#[derive(Default)]
pub(crate) struct Waiters {
    /// Admitted and not yet answered; those that are still in the consensus queue included.
    waiting: AtomicUsize,
    /// The bytes of their proposals.
    bytes: AtomicUsize,
    slots: Mutex<WaiterSlots>,
}

#[derive(Default)]
struct WaiterSlots {
    /// The token of the first slot.
    first: u64,
    queue: VecDeque<Option<Waiter>>,
    /// Callers that wait without a deadline and were moved out of the deque.
    overflow: BTreeMap<u64, Waiter>,
    /// When this member's log had the proposals up to a token on the disk, by token.
    syncs: VecDeque<(u64, Instant)>,
}

/// So many syncs are remembered for requests that turn out to be slow.
const SYNCS_MAX: usize = 4_096;

/// How many of the waiting requests may be urgent ones only.
const URGENT_REQUESTS: usize = REQUESTS_WAITING_MAX / 16;
const URGENT_BYTES: usize = PROPOSALS_WAITING_BYTES_MAX / 16;

/// Whether a request is admitted while so many others wait that ordinary ones are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    Ordinary,
    /// Health probes, member changes, renewals of leases, and the member's own requests.
    Urgent,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaiterSlots> {
        self.slots.lock().expect("no thread panics while it holds the waiters")
    }

    /// Admits one more, which proposes so many bytes, unless too many wait.
    pub fn admit(&self, bytes: usize, priority: Priority) -> bool {
        let (count_max, bytes_max) = match priority {
            Priority::Ordinary => {
                (REQUESTS_WAITING_MAX - URGENT_REQUESTS, PROPOSALS_WAITING_BYTES_MAX - URGENT_BYTES)
            }
            Priority::Urgent => (REQUESTS_WAITING_MAX, PROPOSALS_WAITING_BYTES_MAX),
        };
        let count = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let admitted = count < count_max && (bytes == 0 || waiting_bytes + bytes <= bytes_max);
        if !admitted {
            self.dismiss(1, bytes);
        }
        admitted
    }

    /// These were admitted and are answered.
    pub fn dismiss(&self, count: usize, bytes: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that were proposed and may not be in the log yet.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn count(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Assigns the callers the tokens from `first` on, which follow the last ones assigned.
    pub fn register(&self, first: ReplyToken, arrived: &mut Vec<Waiter>) {
        if arrived.is_empty() {
            return;
        }
        let mut slots = self.lock();
        if slots.queue.is_empty() {
            slots.first = first.0;
        }
        assert_eq!(slots.first + slots.queue.len() as u64, first.0, "tokens are consecutive");
        slots.queue.extend(arrived.drain(..).map(Some));
        slots.move_to_overflow();
    }

    /// The proposals up to this token are on the disk of this member.
    pub fn synced(&self, last: ReplyToken, now: Instant) {
        let mut slots = self.lock();
        if slots.syncs.len() == SYNCS_MAX {
            slots.syncs.pop_front();
        }
        slots.syncs.push_back((last.0, now));
    }

    /// Delivers answers. Those whose caller was refused before are dropped.
    pub fn deliver(
        &self,
        answers: impl Iterator<Item = (ReplyToken, Result<Reply, Code>)>,
        context: &AnswerContext<'_>,
    ) {
        // Callers are woken after the lock is released.
        let FoundCallers { found, slow } = self.find(answers, context);
        self.dismiss(found.len(), found.iter().map(|(waiter, _)| waiter.bytes).sum());
        // And after all answers are delivered, so that one wake-up is enough.
        let readers: Vec<Waker> =
            found.into_iter().filter_map(|(waiter, answer)| waiter.caller.send(answer)).collect();
        readers.into_iter().for_each(Waker::wake);
        for SlowAnswer { kind, bytes, refusal, moments } in slow {
            context.slow.note(kind, bytes, refusal, &moments);
        }
    }

    fn find(
        &self,
        answers: impl Iterator<Item = (ReplyToken, Result<Reply, Code>)>,
        context: &AnswerContext<'_>,
    ) -> FoundCallers {
        let mut slots = self.lock();
        let mut callers = FoundCallers::default();
        for (nth, (token, answer)) in answers.enumerate() {
            let Some(waiter) = slots.take(token) else { continue };
            if context.slow.is_slow(context.now.since(waiter.posted)) {
                let synced = slots.synced_at(token);
                callers.slow.push(SlowAnswer::of(&waiter, &answer, synced, nth, context));
            }
            callers.found.push((waiter, answer));
        }
        slots.drop_answered_head();
        callers
    }

    /// The end: callers that still wait get an error.
    pub fn clear(&self) {
        let mut slots = self.lock();
        let queue = std::mem::take(&mut slots.queue);
        let overflow = std::mem::take(&mut slots.overflow);
        drop(slots);
        let (mut count, mut bytes) = (0, 0);
        for waiter in queue.iter().flatten().chain(overflow.values()) {
            count += 1;
            bytes += waiter.bytes;
        }
        self.dismiss(count, bytes);
    }
}

/// The callers of answers, and what is known of those that waited long.
#[derive(Default)]
struct FoundCallers {
    found: Vec<(Waiter, Result<Reply, Code>)>,
    slow: Vec<SlowAnswer>,
}

struct SlowAnswer {
    kind: &'static str,
    bytes: usize,
    refusal: Option<Code>,
    moments: RequestMoments,
}

impl SlowAnswer {
    fn of(
        waiter: &Waiter,
        answer: &Result<Reply, Code>,
        synced: Option<Instant>,
        nth: usize,
        context: &AnswerContext<'_>,
    ) -> SlowAnswer {
        let applied = context.moments.iter().find(|moments| nth < moments.upto);
        let moments = RequestMoments {
            posted: waiter.posted,
            taken: waiter.taken,
            synced,
            committed: applied.map(|moments| moments.committed),
            applied: applied.map(|moments| moments.applied),
            answered: context.now,
        };
        SlowAnswer {
            kind: waiter.kind,
            bytes: waiter.bytes,
            refusal: answer.as_ref().err().copied(),
            moments,
        }
    }
}

impl WaiterSlots {
    fn synced_at(&self, token: ReplyToken) -> Option<Instant> {
        let first = self.syncs.partition_point(|(last, _)| *last < token.0);
        self.syncs.get(first).map(|(_, at)| *at)
    }

    fn take(&mut self, token: ReplyToken) -> Option<Waiter> {
        let Some(idx) = token.0.checked_sub(self.first) else { return self.overflow.remove(&token.0) };
        self.queue.get_mut(usize::try_from(idx).ok()?)?.take()
    }

    fn move_to_overflow(&mut self) {
        while self.queue.len() > SLOTS_MAX {
            let place = self.queue.pop_front().flatten();
            self.overflow.extend(place.map(|waiter| (self.first, waiter)));
            self.first += 1;
        }
    }

    fn drop_answered_head(&mut self) {
        while self.queue.pop_front_if(|place| place.is_none()).is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Priority::{Ordinary, Urgent};
    use super::*;
    use crate::registry::Registry;
    use crate::slow_requests::{AnswerMoments, SlowRequests};
    use std::time::Duration;

    const BYTES: usize = 100;

    fn waiter(caller: ReplyRoute) -> Waiter {
        Waiter { caller, bytes: BYTES, kind: "put", posted: Instant::ZERO, taken: Instant::ZERO }
    }

    fn three() -> (Waiters, Vec<oneshot::Receiver<Result<Reply, Code>>>) {
        let waiters = Waiters::default();
        let (callers, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let mut callers = callers.into_iter().map(|sender| waiter(ReplyRoute::Oneshot(sender))).collect();
        assert!((0..3).all(|_| waiters.admit(BYTES, Ordinary)));
        waiters.register(ReplyToken(1), &mut callers);
        (waiters, receivers)
    }

    fn refuse(waiters: &Waiters, token: u64) {
        let slow = SlowRequests::registered(&mut Registry::default());
        let context = AnswerContext { moments: &[], now: Instant::ZERO, slow: &slow };
        waiters.deliver([(ReplyToken(token), Err(Code::Timeout))].into_iter(), &context);
    }

    #[test]
    fn answers_find_their_callers_in_any_order_and_once() {
        let (waiters, mut receivers) = three();
        for token in [2, 2, 3, 1, 9, 0] {
            refuse(&waiters, token);
        }
        assert!(receivers.iter_mut().all(|receiver| receiver.try_recv() == Ok(Err(Code::Timeout))));
        assert_eq!(waiters.count(), 0);
        assert!(waiters.lock().queue.is_empty());
    }

    #[test]
    fn a_caller_that_went_away_leaves_nothing_behind() {
        let (waiters, receivers) = three();
        drop(receivers);
        (1..=3).for_each(|token| refuse(&waiters, token));
        assert_eq!(waiters.count(), 0);
        assert!(waiters.lock().queue.is_empty());
    }

    #[test]
    fn at_the_end_every_caller_gets_an_error() {
        let (waiters, mut receivers) = three();
        refuse(&waiters, 2);
        assert_eq!(waiters.bytes(), 2 * BYTES, "those who wait may still come into the log");
        waiters.clear();
        assert_eq!((waiters.count(), waiters.bytes()), (0, 0));
        assert!(receivers[0].try_recv().is_err());
    }

    #[test]
    fn a_caller_without_a_deadline_does_not_hold_up_the_slots() {
        let (waiters, mut receivers) = three();
        refuse(&waiters, 2);
        for token in 4..4 + 2 * SLOTS_MAX as u64 {
            let (caller, _) = oneshot::channel();
            assert!(waiters.admit(BYTES, Ordinary));
            waiters.register(ReplyToken(token), &mut vec![waiter(ReplyRoute::Oneshot(caller))]);
            refuse(&waiters, token);
        }
        assert!(waiters.lock().queue.len() <= SLOTS_MAX);
        assert!(receivers[0].try_recv().is_err());
        refuse(&waiters, 1);
        refuse(&waiters, 3);
        assert_eq!(receivers[0].try_recv(), Ok(Err(Code::Timeout)));
        assert_eq!(receivers[2].try_recv(), Ok(Err(Code::Timeout)));
        assert!(waiters.lock().overflow.is_empty());
    }

    #[test]
    fn of_a_slow_request_it_is_told_where_the_time_went() {
        let mut slow = SlowRequests::registered(&mut Registry::default());
        slow.set_threshold(Duration::from_micros(100));
        let waiters = Waiters::default();
        let (caller, _receiver) = oneshot::channel();
        assert!(waiters.admit(BYTES, Ordinary));
        let taken = Waiter { posted: Instant(10), taken: Instant(20), ..waiter(ReplyRoute::Oneshot(caller)) };
        waiters.register(ReplyToken(5), &mut vec![taken]);
        waiters.synced(ReplyToken(4), Instant(15));
        waiters.synced(ReplyToken(6), Instant(60));
        let moments = [AnswerMoments { upto: 1, committed: Instant(100), applied: Instant(105) }];
        let context = AnswerContext { moments: &moments, now: Instant(111), slow: &slow };
        waiters.deliver([(ReplyToken(5), Err(Code::NoSpace))].into_iter(), &context);
        let told = slow.list();
        let phases = told[0].phases.by_name().map(|(_, took)| took.as_micros());
        assert_eq!((told[0].refusal, phases), (Some(Code::NoSpace), [10, 40, 40, 5, 6]));
    }

    #[test]
    fn an_inbox_gets_each_of_its_tickets_once() {
        let waiters = Waiters::default();
        let inbox = Arc::new(ReplyInbox::default());
        assert!((0..3).all(|_| waiters.admit(BYTES, Ordinary)));
        let mut callers = (10..13).map(|number| waiter(ReplyRoute::inbox(inbox.clone(), number))).collect();
        waiters.register(ReplyToken(1), &mut callers);
        [2, 1, 2].into_iter().for_each(|token| refuse(&waiters, token));
        waiters.clear();
        let mut answers = Vec::new();
        inbox.take(&mut answers, &std::task::Context::from_waker(Waker::noop()));
        let heard: Vec<_> = answers.iter().map(|answer| (answer.ticket, answer.outcome.clone())).collect();
        let (timeout, stopped) = (Err(Code::Timeout), Err(Code::Stopped));
        assert_eq!(heard, [(11, timeout.clone()), (10, timeout), (12, stopped)]);
    }

    #[test]
    fn more_than_the_limit_are_not_admitted() {
        let waiters = Waiters::default();
        assert!((0..REQUESTS_WAITING_MAX - URGENT_REQUESTS).all(|_| waiters.admit(0, Ordinary)));
        assert!(!waiters.admit(BYTES, Ordinary));
        waiters.dismiss(1, 0);
        assert!(waiters.admit(BYTES, Ordinary));
        assert_eq!(waiters.bytes(), BYTES, "a refused request counts for nothing");
    }

    #[test]
    fn urgent_requests_are_admitted_when_ordinary_ones_are_not() {
        let waiters = Waiters::default();
        assert!((0..REQUESTS_WAITING_MAX - URGENT_REQUESTS).all(|_| waiters.admit(0, Ordinary)));
        assert!(!waiters.admit(0, Ordinary));
        assert!((0..URGENT_REQUESTS).all(|_| waiters.admit(0, Urgent)));
        assert!(!waiters.admit(0, Urgent));

        let waiters = Waiters::default();
        assert!(waiters.admit(PROPOSALS_WAITING_BYTES_MAX - URGENT_BYTES, Ordinary));
        assert!(!waiters.admit(1, Ordinary) && waiters.admit(0, Ordinary), "what proposes nothing is taken");
        assert!(waiters.admit(URGENT_BYTES, Urgent) && !waiters.admit(1, Urgent));
    }
}
