//! One call for a lock, from the request to the end: ask, wait, give up in an orderly way. What happened goes in,
//! what to do next comes out; the caller has the clock and the client connection. It never ends with a place in the
//! queue that its client does not know of: a cancelled call first learns the outcome of its request, and then leaves
//! the queue. Only the death of the member can prevent that, and then the lease ends it.

use crate::waits::{News, Wait};
use base::{Code, Revision};
use bytes::Bytes;
use coord::reply::{Body, LockReply, Reply};
use coord::{Acquire, Command, Leave, queue};

pub struct Call {
    acquire: Acquire,
    key: Bytes,
    stage: Stage,
    /// The client has disconnected.
    is_cancelled: bool,
    /// The client does not want to wait any longer.
    is_late: bool,
}

enum Stage {
    /// The acquire is on its way, and is so until it is applied.
    Asking,
    Waiting(LockReply),
    /// The leave is.
    Leaving(LockReply),
    Over,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The command of the last `Next::Propose` was answered.
    Answered(Result<Reply, Code>),
    /// The last `Next::Wait` has ended.
    News(News),
    /// The client's patience is over.
    TimedOut,
    Cancelled,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait: a command or a wait is under way.
    Stay,
    /// Propose until it is applied, under whichever leader. After a refusal for lack of space, retry a little later.
    Propose(Command),
    Wait(Wait),
    /// Stop waiting, if the wait has not ended by itself, and propose this instead.
    StopWaiting(Command),
    End(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Held(Held),
    /// Another client holds it, and the call has no place in the queue.
    NotHeld(LockReply),
    Refused(Code),
    /// The client has disconnected.
    Abandoned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub key: Bytes,
    pub token: Revision,
    /// The state's when the lock was known to be held.
    pub revision: Revision,
    /// Whether it had to wait.
    pub waited: bool,
}

impl Call {
    pub fn begin(acquire: Acquire) -> (Call, Command) {
        let key = queue::key_of(&acquire.name, acquire.lease);
        let command = Command::LockAcquire(acquire.clone());
        (Call { acquire, key, stage: Stage::Asking, is_cancelled: false, is_late: false }, command)
    }

    /// The command by which a client that never heard of its lock gives it back.
    pub fn undo(&self) -> Command {
        self.leave(false)
    }

    pub fn step(&mut self, event: Event) -> Next {
        match event {
            Event::Answered(answer) => self.on_answer(answer),
            Event::News(news) => self.on_news(news),
            Event::TimedOut => {
                self.is_late = true;
                self.on_hurry(true)
            }
            Event::Cancelled => {
                self.is_cancelled = true;
                self.on_hurry(false)
            }
        }
    }

    fn on_answer(&mut self, answer: Result<Reply, Code>) -> Next {
        match (std::mem::replace(&mut self.stage, Stage::Over), answer) {
            (Stage::Asking, Ok(Reply { body: Body::Lock(lock), revision })) => self.on_lock(lock, revision),
            (Stage::Leaving(_), Ok(Reply { body: Body::Left { .. }, .. })) if self.is_cancelled => {
                // It was asked to leave unless it held the lock; now it leaves for good.
                Next::Propose(self.leave(false))
            }
            (Stage::Leaving(lock), Ok(Reply { body: Body::Left { holding }, revision })) => match holding {
                Some(_) => self.hold(&lock, revision, true),
                None => Next::End(Outcome::NotHeld(LockReply { token: Revision::ZERO, ..lock })),
            },
            // It was applied and its answer lost with a snapshot; to ask again does no harm.
            (Stage::Asking, Err(Code::Timeout)) => {
                self.stage = Stage::Asking;
                Next::Propose(Command::LockAcquire(self.acquire.clone()))
            }
            (Stage::Leaving(lock), Err(Code::TooManyRequests | Code::Timeout)) => {
                self.stage = Stage::Leaving(lock);
                Next::Propose(self.leave(!self.is_cancelled))
            }
            (Stage::Over, Err(Code::TooManyRequests | Code::Timeout)) => Next::Propose(self.leave(false)),
            (Stage::Over, _) => Next::End(Outcome::Abandoned),
            (_, Ok(other)) => unreachable!("a lock command is not answered by {other:?}"),
            (_, Err(code)) => Next::End(Outcome::Refused(code)),
        }
    }

    fn on_lock(&mut self, lock: LockReply, revision: Revision) -> Next {
        let has_place = lock.acquired || !self.acquire.is_try;
        match () {
            () if self.is_cancelled && has_place => Next::Propose(self.leave(false)),
            () if self.is_cancelled => Next::End(Outcome::Abandoned),
            () if lock.acquired => self.hold(&lock, revision, false),
            () if self.acquire.is_try => Next::End(Outcome::NotHeld(lock)),
            () if self.is_late => {
                self.stage = Stage::Leaving(lock);
                Next::Propose(self.leave(true))
            }
            () => {
                let (name, key) = (self.acquire.name.clone(), self.key.clone());
                let wait = Wait { lock: name, key, token: lock.token, call: self.acquire.call };
                self.stage = Stage::Waiting(lock);
                Next::Wait(wait)
            }
        }
    }

    fn on_news(&mut self, news: News) -> Next {
        let Stage::Waiting(lock) = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("a stopped wait reports no outcome");
        };
        match news {
            News::Granted { revision } => self.hold(&lock, revision, true),
            News::Gone => Next::End(Outcome::Refused(Code::LockLost)),
        }
    }

    /// What is under way is finished first.
    fn on_hurry(&mut self, keeps_held: bool) -> Next {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Waiting(lock) if keeps_held => {
                self.stage = Stage::Leaving(lock);
                Next::StopWaiting(self.leave(true))
            }
            Stage::Waiting(_) => Next::StopWaiting(self.leave(false)),
            stage => {
                self.stage = stage;
                Next::Stay
            }
        }
    }

    fn hold(&self, lock: &LockReply, revision: Revision, waited: bool) -> Next {
        Next::End(Outcome::Held(Held { key: self.key.clone(), token: lock.token, revision, waited }))
    }

    fn leave(&self, keeps_held: bool) -> Command {
        Command::LockLeave(Leave { key: self.key.clone(), call: self.acquire.call, keeps_held })
    }
}

#[cfg(test)]
mod tests;
