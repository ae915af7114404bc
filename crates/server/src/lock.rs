//! Lock calls: the shell around `node::lock_call`, which decides what happens next.
//! Each call is a task of its own that continues after its client has left, until its key in the queue is gone or
//! reported; a client leaves by dropping the future. Time, channels and the number of calls are handled here, and
//! a lock that was granted to a client that has left is released.

use crate::apply::Mail;
use crate::handle::Handle;
use base::limits::LOCK_CALLS_WAITING_MAX;
use base::{Code, Instant, LeaseId};
use bytes::Bytes;
use coord::reply::{Body, LeaseTime, LockReply, Reply};
use coord::request::Request;
use coord::{Acquire, CheckFence, Claim, Command, Fenced, FencedBy, Release};
use node::lock_call::{Call, Event, Held, Next, Outcome};
use node::waits::News;
use node::{Question, Wait, WaitId};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// How long to wait before a refused command is proposed again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct LockCalls {
    /// How many there were.
    begun: AtomicU64,
    /// How many there are.
    running: AtomicUsize,
}

/// A client's lock request.
#[derive(Clone, Debug)]
pub struct LockAsk {
    pub name: Bytes,
    pub lease: LeaseId,
    pub value: Bytes,
    pub holder: Bytes,
    pub replaces_value: bool,
    pub patience: Patience,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until the lease ends or the client leaves.
    Endless,
    AtMost(Duration),
    /// Only if no other client holds it.
    Try,
}

#[derive(Debug)]
pub enum Locked {
    Held(Grant),
    NotHeld(LockReply),
}

/// A lock that is held. Unless the client takes it, it is released.
#[derive(Debug)]
pub struct Grant {
    held: Held,
    give_back: Option<GiveBack>,
}

struct GiveBack {
    handle: Handle,
    command: Command,
}

impl std::fmt::Debug for GiveBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.command.fmt(f)
    }
}

impl Grant {
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The client receives the lock now, so dropping this does not release it.
    pub fn tell(mut self) -> Held {
        self.give_back = None;
        self.held.clone()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(GiveBack { handle, command }) = self.give_back.take() {
            tokio::spawn(async move { handle.insist(command).await });
        }
    }
}

impl Handle {
    /// Takes a lock or waits for it. Dropping the future leaves the queue.
    pub async fn lock(&self, ask: LockAsk) -> Result<Locked, Code> {
        let lock = |handle: Handle| {
            let ask = ask.clone();
            async move { handle.lock_as_admitted(ask).await }
        };
        self.admitted(lock).await
    }

    async fn lock_as_admitted(&self, ask: LockAsk) -> Result<Locked, Code> {
        let calls = &self.shared.lock_calls;
        if self.is_draining() {
            return Err(Code::Stopped);
        }
        if calls.running.load(Ordering::Relaxed) >= LOCK_CALLS_WAITING_MAX {
            return Err(Code::TooManyRequests);
        }
        let (client, outcome) = oneshot::channel();
        let nth = calls.begun.fetch_add(1, Ordering::Relaxed);
        let lease = ask.lease;
        tokio::spawn(Task::begin(self.clone(), nth, ask, client).run());
        match outcome.await.unwrap_or(Err(Code::Stopped)) {
            Err(Code::LockLost) if self.has_ended(lease).await => Err(Code::LeaseNotFound),
            outcome => outcome,
        }
    }

    async fn has_ended(&self, lease: LeaseId) -> bool {
        matches!(self.lease_time(lease).await, Ok(time) if time.ttl < 0)
    }

    /// The remaining time of a lease, from the leader.
    pub async fn lease_time(&self, id: LeaseId) -> Result<LeaseTime, Code> {
        match self.ask(Question::TimeToLive { id, keys: false }).await?.body {
            Body::LeaseTime(time) => Ok(time),
            other => unreachable!("a question for time is answered by time, not {other:?}"),
        }
    }

    pub async fn release(&self, release: Release) -> Result<Reply, Code> {
        self.carry_out(&Command::LockRelease(release)).await
    }

    /// Checks a token for a resource outside the cluster.
    pub async fn check_fence(&self, check: CheckFence) -> Result<Reply, Code> {
        self.carry_out(&Command::FenceCheck(check)).await
    }

    /// Submits a write that happens only while its fence holds.
    pub async fn submit_fenced(&self, fence: FencedBy, request: Request) -> Result<Reply, Code> {
        self.carry_out(&Command::Fenced(Fenced { fence, request })).await
    }

    /// The owners of positions in queues, as far as this member knows.
    pub async fn claims(&self, keys: Vec<Bytes>) -> Result<Vec<Option<Claim>>, Code> {
        let (asker, claims) = oneshot::channel();
        self.shared.core.apply.queue.push(Mail::Claims { keys, asker });
        claims.await.map_err(|_| Code::Stopped)
    }

    /// Proposes until the command is applied, across leader changes; only the end of this member ends it.
    async fn insist(&self, command: Command) -> Result<Reply, Code> {
        loop {
            match self.wait_until(Instant::FAR_FUTURE, self.propose(&command)?).await {
                Err(Code::TooManyRequests) => sleep(AGAIN_AFTER).await,
                answer => return answer,
            }
        }
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Reply, Code>> + Send>>;

/// One call, from its request to its end.
struct Task {
    handle: Handle,
    call: Call,
    id: WaitId,
    client: Option<oneshot::Sender<Result<Locked, Code>>>,
    /// The command under way.
    answer: Option<Answer>,
    news: Option<oneshot::Receiver<News>>,
    /// When the client's patience ends.
    timeout: Option<Pin<Box<Sleep>>>,
    /// When the client learns that its command has no answer yet.
    overdue: Pin<Box<Sleep>>,
    is_cancelled: bool,
}

/// What a task waits for.
enum Happened {
    Event(Event),
    Overdue,
    Stopped,
}

impl Task {
    fn begin(handle: Handle, nth: u64, ask: LockAsk, client: oneshot::Sender<Result<Locked, Code>>) -> Task {
        handle.shared.lock_calls.running.fetch_add(1, Ordering::Relaxed);
        let LockAsk { name, lease, value, holder, replaces_value, patience } = ask;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let call = handle.call_id(nth);
        let is_try = patience == Patience::Try;
        let acquire = Acquire { name, lease, value, holder, since, call, is_try, replaces_value };
        let (call, command) = Call::begin(acquire);
        let mut task = Task {
            call,
            id: WaitId(nth),
            client: Some(client),
            answer: None,
            news: None,
            timeout: match patience {
                Patience::AtMost(timeout) => Some(Box::pin(sleep(timeout))),
                Patience::Endless | Patience::Try => None,
            },
            overdue: Box::pin(sleep(handle.shared.request_timeout)),
            is_cancelled: false,
            handle,
        };
        // A request beyond the limit is refused: nothing has happened yet.
        let handle = task.handle.clone();
        task.answer =
            Some(Box::pin(
                async move { handle.wait_until(Instant::FAR_FUTURE, handle.propose(&command)?).await },
            ));
        task
    }

    async fn run(mut self) {
        loop {
            let next = match self.next_happening().await {
                Happened::Stopped => return self.tell(Err(Code::Stopped)),
                Happened::Event(event) => self.call.step(event),
                Happened::Overdue => {
                    self.tell(Err(Code::Timeout));
                    Next::Stay
                }
            };
            match next {
                Next::Stay => {}
                Next::Propose(command) => self.propose(command),
                Next::Wait(wait) => self.wait(wait),
                Next::StopWaiting(command) => {
                    self.news = None;
                    self.handle.shared.core.apply.queue.push(Mail::LockEnd(self.id));
                    self.propose(command);
                }
                Next::End(outcome) => return self.end(outcome),
            }
        }
    }

    async fn next_happening(&mut self) -> Happened {
        let Task { answer, news, timeout, overdue, client, is_cancelled, .. } = self;
        let has_client = client.is_some();
        tokio::select! {
            answered = async { answer.as_mut().expect("it is there").await }, if answer.is_some() => {
                *answer = None;
                Happened::Event(Event::Answered(answered))
            }
            heard = async { news.as_mut().expect("it is there").await }, if news.is_some() => {
                *news = None;
                heard.map_or(Happened::Stopped, |news| Happened::Event(Event::News(news)))
            }
            () = async { timeout.as_mut().expect("it is there").await }, if timeout.is_some() => {
                *timeout = None;
                Happened::Event(Event::TimedOut)
            }
            () = async { client.as_mut().expect("it is there").closed().await }, if has_client => {
                (*client, *is_cancelled) = (None, true);
                Happened::Event(Event::Cancelled)
            }
            () = async {}, if !has_client && !*is_cancelled => {
                *is_cancelled = true;
                Happened::Event(Event::Cancelled)
            }
            () = overdue, if has_client && answer.is_some() => Happened::Overdue,
        }
    }

    /// What was begun must be ended, so from here on the command is proposed until it is applied.
    fn propose(&mut self, command: Command) {
        let handle = self.handle.clone();
        self.overdue = Box::pin(sleep(handle.shared.request_timeout));
        self.answer = Some(Box::pin(async move { handle.insist(command).await }));
    }

    fn wait(&mut self, wait: Wait) {
        let (listener, news) = oneshot::channel();
        self.news = Some(news);
        self.handle.shared.core.apply.queue.push(Mail::LockWait { id: self.id, wait, listener });
    }

    fn end(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Held(held) => {
                let give_back = GiveBack { handle: self.handle.clone(), command: self.call.undo() };
                self.tell(Ok(Locked::Held(Grant { held, give_back: Some(give_back) })));
            }
            Outcome::NotHeld(reply) => self.tell(Ok(Locked::NotHeld(reply))),
            Outcome::Refused(code) => self.tell(Err(code)),
            Outcome::Abandoned => {}
        }
    }

    /// A grant that no client takes releases itself.
    fn tell(&mut self, outcome: Result<Locked, Code>) {
        if let Some(client) = self.client.take() {
            let _ = client.send(outcome);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.shared.lock_calls.running.fetch_sub(1, Ordering::Relaxed);
    }
}
