//! One call for a lock, from the request to the end: ask, wait, give up in an orderly way. What happened goes in,
//! what to do next comes out; the caller has the clock and the client connection. It never ends with a place in the
//! queue that its client does not know of: a cancelled call first learns the outcome of its request, and then leaves
//! the queue. Only the death of the member can prevent that, and then the lease ends it.

use crate::lock_waits::{LockWait, WaitOutcome};
use base::{Code, Revision};
use bytes::Bytes;
use coord::reply::{Body, LockReply, Reply};
use coord::{Acquire, Command, Leave, lock_queue};

pub struct LockCall {
    acquire: Acquire,
    key: Bytes,
    stage: LockCallStage,
    /// The client has disconnected.
    is_cancelled: bool,
    /// The client does not want to wait any longer.
    is_late: bool,
}

enum LockCallStage {
    /// The acquire is on its way, and is so until it is applied.
    Asking,
    Waiting(LockReply),
    /// The leave is.
    Leaving(LockReply),
    Over,
}

/// The event that the call has waited for.
#[derive(Debug)]
pub enum LockCallEvent {
    /// The command of the last `LockCallStep::Propose` was answered.
    Answered(Result<Reply, Code>),
    /// The last `LockCallStep::Wait` has ended.
    WaitEnded(WaitOutcome),
    /// The client's patience is over.
    TimedOut,
    Cancelled,
}

/// The next step of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockCallStep {
    /// Wait: a command or a wait is under way.
    Stay,
    /// Propose until it is applied, under whichever leader. After a refusal for lack of space, retry a little later.
    Propose(Command),
    Wait(LockWait),
    /// Stop waiting, if the wait has not ended by itself, and propose this instead.
    StopWaiting(Command),
    End(LockCallOutcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockCallOutcome {
    Held(HeldLock),
    /// Another client holds it, and the call has no place in the queue.
    NotHeld(LockReply),
    Refused(Code),
    /// The client has disconnected.
    Abandoned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    pub key: Bytes,
    pub token: Revision,
    /// The state's when the lock was known to be held.
    pub revision: Revision,
    /// Whether it had to wait.
    pub waited: bool,
}

impl LockCall {
    pub fn begin(acquire: Acquire) -> (LockCall, Command) {
        let key = lock_queue::key_of(&acquire.name, acquire.lease);
        let command = Command::LockAcquire(acquire.clone());
        (
            LockCall { acquire, key, stage: LockCallStage::Asking, is_cancelled: false, is_late: false },
            command,
        )
    }

    /// The command by which a client that never heard of its lock gives it back.
    pub fn undo(&self) -> Command {
        self.leave(false)
    }

    pub fn step(&mut self, event: LockCallEvent) -> LockCallStep {
        match event {
            LockCallEvent::Answered(answer) => self.on_answer(answer),
            LockCallEvent::WaitEnded(news) => self.on_wait_ended(news),
            LockCallEvent::TimedOut => {
                self.is_late = true;
                self.on_stop(true)
            }
            LockCallEvent::Cancelled => {
                self.is_cancelled = true;
                self.on_stop(false)
            }
        }
    }

    fn on_answer(&mut self, answer: Result<Reply, Code>) -> LockCallStep {
        match (std::mem::replace(&mut self.stage, LockCallStage::Over), answer) {
            (LockCallStage::Asking, Ok(Reply { body: Body::Lock(lock), revision })) => {
                self.on_lock(lock, revision)
            }
            (LockCallStage::Leaving(_), Ok(Reply { body: Body::Left { .. }, .. })) if self.is_cancelled => {
                // The call was asked to leave unless it held the lock; now it leaves for good.
                LockCallStep::Propose(self.leave(false))
            }
            (LockCallStage::Leaving(lock), Ok(Reply { body: Body::Left { holding }, revision })) => {
                match holding {
                    Some(_) => self.hold(&lock, revision, true),
                    None => LockCallStep::End(LockCallOutcome::NotHeld(LockReply {
                        token: Revision::ZERO,
                        ..lock
                    })),
                }
            }
            // The command may be applied and its answer lost with a snapshot; asking again does no harm.
            (LockCallStage::Asking, Err(Code::Timeout)) => {
                self.stage = LockCallStage::Asking;
                LockCallStep::Propose(Command::LockAcquire(self.acquire.clone()))
            }
            (LockCallStage::Leaving(lock), Err(Code::TooManyRequests | Code::Timeout)) => {
                self.stage = LockCallStage::Leaving(lock);
                LockCallStep::Propose(self.leave(!self.is_cancelled))
            }
            (LockCallStage::Over, Err(Code::TooManyRequests | Code::Timeout)) => {
                LockCallStep::Propose(self.leave(false))
            }
            (LockCallStage::Over, _) => LockCallStep::End(LockCallOutcome::Abandoned),
            (_, Ok(other)) => unreachable!("a lock command is not answered by {other:?}"),
            (_, Err(code)) => LockCallStep::End(LockCallOutcome::Refused(code)),
        }
    }

    fn on_lock(&mut self, lock: LockReply, revision: Revision) -> LockCallStep {
        let has_place = lock.acquired || !self.acquire.is_try;
        if self.is_cancelled && has_place {
            LockCallStep::Propose(self.leave(false))
        } else if self.is_cancelled {
            LockCallStep::End(LockCallOutcome::Abandoned)
        } else if lock.acquired {
            self.hold(&lock, revision, false)
        } else if self.acquire.is_try {
            LockCallStep::End(LockCallOutcome::NotHeld(lock))
        } else if self.is_late {
            self.stage = LockCallStage::Leaving(lock);
            LockCallStep::Propose(self.leave(true))
        } else {
            let (name, key) = (self.acquire.name.clone(), self.key.clone());
            let wait = LockWait { lock: name, key, token: lock.token, call: self.acquire.call };
            self.stage = LockCallStage::Waiting(lock);
            LockCallStep::Wait(wait)
        }
    }

    fn on_wait_ended(&mut self, news: WaitOutcome) -> LockCallStep {
        let LockCallStage::Waiting(lock) = std::mem::replace(&mut self.stage, LockCallStage::Over) else {
            unreachable!("a stopped wait reports no outcome");
        };
        match news {
            WaitOutcome::Granted { revision } => self.hold(&lock, revision, true),
            WaitOutcome::Gone => LockCallStep::End(LockCallOutcome::Refused(Code::LockLost)),
        }
    }

    /// Stops after the request that is under way.
    fn on_stop(&mut self, keeps_held: bool) -> LockCallStep {
        match std::mem::replace(&mut self.stage, LockCallStage::Over) {
            LockCallStage::Waiting(lock) if keeps_held => {
                self.stage = LockCallStage::Leaving(lock);
                LockCallStep::StopWaiting(self.leave(true))
            }
            LockCallStage::Waiting(_) => LockCallStep::StopWaiting(self.leave(false)),
            stage => {
                self.stage = stage;
                LockCallStep::Stay
            }
        }
    }

    fn hold(&self, lock: &LockReply, revision: Revision, waited: bool) -> LockCallStep {
        LockCallStep::End(LockCallOutcome::Held(HeldLock {
            key: self.key.clone(),
            token: lock.token,
            revision,
            waited,
        }))
    }

    fn leave(&self, keeps_held: bool) -> Command {
        Command::LockLeave(Leave { key: self.key.clone(), call: self.acquire.call, keeps_held })
    }
}

#[cfg(test)]
mod tests;
