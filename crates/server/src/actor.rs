//! An actor: a machine with its queue and a thread, which takes everything that has gathered as one turn. Waking that
//! thread takes longer than a turn does under light load, so a thread that posts a message may run the turn
//! instead: `post_and_help`.
//! Turns never overlap, and messages are taken in order, because only the thread that has locked the
//! machine takes them. No message is forgotten: a thread that unlocks the machine checks once more, or wakes the
//! actor's thread.

use crate::fatal::AbortOnPanic;
use crate::queue::{Queue, Wake};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// How many turns a helping thread runs before the actor's thread has to continue.
const HELP_TURNS_MAX: usize = 8;

pub(crate) trait Machine {
    type Message: ActorMessage;

    /// Processes all messages.
    fn turn(&mut self, messages: &mut Vec<Self::Message>) -> NextTurn;
}

/// How a message is queued.
pub(crate) trait ActorMessage {
    /// The bytes that it takes of the queue's space.
    fn bytes(&self) -> usize {
        0
    }

    /// When the actor's thread wakes for it.
    fn wake(&self) -> Wake {
        Wake::Now
    }
}

/// When the next turn is due if no message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTurn {
    Now,
    /// Never earlier than the previous turn has said.
    At(Instant),
    /// The machine has ended.
    Ended,
}

pub(crate) struct Actor<M: Machine> {
    queue: Queue<M::Message>,
    /// None before the thread starts and after the last turn.
    state: Mutex<Option<ActorState<M>>>,
}

struct ActorState<M: Machine> {
    machine: M,
    /// The buffer of the last turn, reused.
    messages: Vec<M::Message>,
}

impl<M: Machine> Actor<M> {
    pub fn new() -> Actor<M> {
        Actor { queue: Queue::new(), state: Mutex::new(None) }
    }

    /// Posts a message to the actor's thread. False while it ends: then the message is dropped.
    pub fn post(&self, message: impl Into<M::Message>) -> bool {
        let message = message.into();
        let (bytes, wake) = (message.bytes(), message.wake());
        self.queue.push_bytes(message, bytes, wake)
    }

    /// Posts a message, and runs its turn on this thread: waking the actor's thread costs more than the turn. See ADR 37.
    pub fn post_and_help(&self, message: M::Message) -> bool {
        let bytes = message.bytes();
        let heard = self.queue.push_bytes(message, bytes, Wake::BySender);
        self.help();
        heard
    }

    /// For senders of many bytes: waits while too many are queued.
    pub fn wait_for_space(&self) {
        self.queue.wait_for_space();
    }

    /// Wakes the actor's thread if messages were posted whose sender was to wake it.
    pub fn wake_if_urgent(&self) {
        self.queue.wake_if_urgent();
    }

    /// In a turn: waits for more messages.
    pub fn take_more(&self, into: &mut Vec<M::Message>) {
        self.queue.take(into, None);
    }

    /// Closes the queue: the next turn takes what is queued, and is the last.
    pub fn close(&self) {
        self.queue.close();
    }

    /// The body of the actor's own thread. After each of its turns it calls `after_turn`, which wakes other actors.
    pub fn run(&self, machine: M, after_turn: impl Fn()) {
        *self.lock() = Some(ActorState { machine, messages: Vec::new() });
        let mut next = NextTurn::Now;
        while next != NextTurn::Ended {
            if let NextTurn::At(time) = next {
                self.queue.wait(Some(time));
            }
            next = take_turn(&self.queue, &mut self.lock());
            after_turn();
        }
    }

    /// Runs the queued turn on this thread, unless another thread runs one: that thread takes these messages as well.
    pub fn help(&self) {
        for _ in 0..HELP_TURNS_MAX {
            let Ok(mut actor) = self.state.try_lock() else { return };
            if !self.queue.has_urgent() {
                return;
            }
            let next = {
                let _guard = AbortOnPanic;
                take_turn(&self.queue, &mut actor)
            };
            // Before the queue is checked again: a later sender finds the machine unlocked.
            drop(actor);
            match next {
                NextTurn::At(_) if !self.queue.has_urgent() => return,
                NextTurn::At(_) => {}
                NextTurn::Now | NextTurn::Ended => break,
            }
        }
        self.queue.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Option<ActorState<M>>> {
        self.state.lock().expect("a panic in a turn ends the process")
    }
}

fn take_turn<M: Machine>(queue: &Queue<M::Message>, actor: &mut Option<ActorState<M>>) -> NextTurn {
    let Some(ActorState { machine, messages }) = actor else { return NextTurn::Ended };
    let next = if queue.take_now(messages) { machine.turn(messages) } else { NextTurn::Ended };
    messages.clear();
    if next == NextTurn::Ended {
        *actor = None;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    impl ActorMessage for u64 {}

    /// Sums what it is sent, and is over at zero.
    struct Sum {
        total: Arc<AtomicU64>,
        ended: bool,
    }

    impl Machine for Sum {
        type Message = u64;

        fn turn(&mut self, messages: &mut Vec<u64>) -> NextTurn {
            assert!(!self.ended, "nothing comes after the end");
            for number in messages.drain(..) {
                // Not atomic on purpose: turns that overlap would lose some.
                self.total.store(self.total.load(Ordering::Relaxed) + number, Ordering::Relaxed);
                self.ended |= number == 0;
            }
            let far = Instant::now() + std::time::Duration::from_secs(60);
            if self.ended { NextTurn::Ended } else { NextTurn::At(far) }
        }
    }

    #[test]
    fn every_message_is_processed_once_and_the_thread_ends() {
        let (actor, total) = (Arc::new(Actor::new()), Arc::new(AtomicU64::new(0)));
        let own = thread::spawn({
            let (actor, total) = (actor.clone(), total.clone());
            move || actor.run(Sum { total, ended: false }, || {})
        });
        let visitor = |thread: u64| {
            let actor = actor.clone();
            thread::spawn(move || {
                for number in 1..=10_000 {
                    if (number + thread).is_multiple_of(3) {
                        actor.post(number);
                    } else {
                        actor.post_and_help(number);
                    }
                }
            })
        };
        let visitors: Vec<_> = (0..3).map(visitor).collect();
        visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
        // The helping threads have left nothing behind, or the actor's thread is running: the end comes after all of it.
        actor.post_and_help(0);
        own.join().unwrap();
        assert_eq!(total.load(Ordering::Relaxed), 3 * 10_000 * 10_001 / 2);
    }

    #[test]
    fn nothing_runs_before_the_thread_has_begun() {
        let (actor, total) = (Actor::new(), Arc::new(AtomicU64::new(0)));
        actor.post_and_help(7);
        actor.post_and_help(0);
        actor.run(Sum { total: total.clone(), ended: false }, || {});
        assert_eq!(total.load(Ordering::Relaxed), 7);
    }
}
