//! An actor: a machine with its queue and a thread, which takes everything that has gathered as one turn. Waking that
//! thread takes longer than a turn does under light load, so a thread that posts a message may run the turn
//! instead: `attend`.
//! Turns never overlap, and messages are taken in order, because only the thread that has locked the
//! machine takes them. No message is forgotten: a thread that unlocks the machine checks once more, or wakes the
//! actor's thread.

use crate::fatal::AbortOnPanic;
use crate::queue::Queue;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// How many turns a helping thread runs before the actor's thread has to continue.
const VISIT_TURNS_MAX: usize = 8;

pub(crate) trait Machine {
    type Mail;

    /// Processes all messages.
    fn turn(&mut self, mail: &mut Vec<Self::Mail>) -> Next;
}

/// When the next turn is due if no message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    /// Never earlier than the previous turn has said.
    At(Instant),
    /// The machine has ended.
    Over,
}

pub(crate) struct Seat<M: Machine> {
    pub queue: Queue<M::Mail>,
    /// None before the thread starts and after the last turn.
    taken: Mutex<Option<Occupant<M>>>,
}

struct Occupant<M: Machine> {
    machine: M,
    /// The buffer of the last turn, reused.
    mail: Vec<M::Mail>,
}

impl<M: Machine> Seat<M> {
    pub fn new() -> Seat<M> {
        Seat { queue: Queue::new(), taken: Mutex::new(None) }
    }

    /// The body of the actor's own thread. After each of its turns it calls `hand_on`, which wakes other actors.
    pub fn run(&self, machine: M, hand_on: impl Fn()) {
        *self.lock() = Some(Occupant { machine, mail: Vec::new() });
        let mut next = Next::Now;
        while next != Next::Over {
            if let Next::At(time) = next {
                self.queue.wait(Some(time));
            }
            next = take_turn(&self.queue, &mut self.lock());
            hand_on();
        }
    }

    /// Runs the queued turn on this thread, unless another thread runs one: that thread takes these messages as well.
    pub fn attend(&self) {
        for _ in 0..VISIT_TURNS_MAX {
            let Ok(mut seat) = self.taken.try_lock() else { return };
            if !self.queue.has_news() {
                return;
            }
            let next = {
                let _guard = AbortOnPanic;
                take_turn(&self.queue, &mut seat)
            };
            // Before the queue is checked again: a later sender finds the machine unlocked.
            drop(seat);
            match next {
                Next::At(_) if !self.queue.has_news() => return,
                Next::At(_) => {}
                Next::Now | Next::Over => break,
            }
        }
        self.queue.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Occupant<M>>> {
        self.taken.lock().expect("a panic in a turn ends the process")
    }
}

fn take_turn<M: Machine>(queue: &Queue<M::Mail>, seat: &mut Option<Occupant<M>>) -> Next {
    let Some(Occupant { machine, mail }) = seat else { return Next::Over };
    let next = if queue.take_now(mail) { machine.turn(mail) } else { Next::Over };
    mail.clear();
    if next == Next::Over {
        *seat = None;
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// Sums what it is sent, and is over at zero.
    struct Sum {
        total: Arc<AtomicU64>,
        ended: bool,
    }

    impl Machine for Sum {
        type Mail = u64;

        fn turn(&mut self, mail: &mut Vec<u64>) -> Next {
            assert!(!self.ended, "nothing comes after the end");
            for number in mail.drain(..) {
                // Not atomic on purpose: turns that overlap would lose some.
                self.total.store(self.total.load(Ordering::Relaxed) + number, Ordering::Relaxed);
                self.ended |= number == 0;
            }
            let far = Instant::now() + std::time::Duration::from_secs(60);
            if self.ended { Next::Over } else { Next::At(far) }
        }
    }

    #[test]
    fn everything_is_dealt_with_once_by_whoever_comes_and_the_thread_ends() {
        let (seat, total) = (Arc::new(Seat::new()), Arc::new(AtomicU64::new(0)));
        let own = thread::spawn({
            let (seat, total) = (seat.clone(), total.clone());
            move || seat.run(Sum { total, ended: false }, || {})
        });
        let visitor = |thread: u64| {
            let seat = seat.clone();
            thread::spawn(move || {
                for number in 1..=10_000 {
                    if (number + thread).is_multiple_of(3) {
                        seat.queue.push(number);
                    } else {
                        seat.queue.push_unwoken(number, 0);
                        seat.attend();
                    }
                }
            })
        };
        let visitors: Vec<_> = (0..3).map(visitor).collect();
        visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
        // The helping threads have left nothing behind, or the actor's thread is running: the end comes after all of it.
        seat.queue.push_unwoken(0, 0);
        seat.attend();
        own.join().unwrap();
        assert_eq!(total.load(Ordering::Relaxed), 3 * 10_000 * 10_001 / 2);
    }

    #[test]
    fn a_visitor_finds_nobody_before_the_thread_has_begun() {
        let (seat, total) = (Seat::new(), Arc::new(AtomicU64::new(0)));
        seat.queue.push_unwoken(7, 0);
        seat.queue.push_unwoken(0, 0);
        seat.attend();
        seat.run(Sum { total: total.clone(), ended: false }, || {});
        assert_eq!(total.load(Ordering::Relaxed), 7);
    }
}
