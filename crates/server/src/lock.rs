//! Lock calls: the shell around `node::lock_call`, which decides what happens next.
//! Each call is a task of its own that continues after its client has left, until its key in the queue is gone or
//! reported; a client leaves by dropping the future. Time, channels and the number of calls are handled here, and
//! a lock that was granted to a client that has left is released.

use crate::apply::ApplyJob;
use crate::handle::Handle;
use base::limits::LOCK_CALLS_WAITING_MAX;
use base::{Code, Instant, LeaseId};
use bytes::Bytes;
use coord::call::{FenceOutcome, PassedFence};
use coord::reply::{LockReply, Reply};
use coord::{Acquire, CheckFence, Command, LockClaim, Release};
use node::lock_call::{HeldLock, LockCall, LockCallEvent, LockCallOutcome, LockCallStep};
use node::lock_waits::WaitOutcome;
use node::{LockWait, WaitId};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// How long to wait before a refused command is proposed again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct LockCalls {
    /// How many there were.
    begun: AtomicU64,
    /// How many there are.
    running: AtomicUsize,
}

/// A client's lock request.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    pub name: Bytes,
    pub lease: LeaseId,
    pub value: Bytes,
    pub holder: Bytes,
    pub replaces_value: bool,
    pub wait_limit: LockWaitLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWaitLimit {
    /// Until the lease ends or the client leaves.
    Unbounded,
    AtMost(Duration),
    /// Only if no other client holds it.
    DoNotWait,
}

#[derive(Debug)]
pub enum LockOutcome {
    Held(LockGrant),
    NotHeld(LockReply),
}

/// A lock that is held. Unless the client takes it, it is released.
#[derive(Debug)]
pub struct LockGrant {
    held: HeldLock,
    give_back: Option<ReleaseOnDrop>,
}

struct ReleaseOnDrop {
    handle: Handle,
    command: Command,
}

impl std::fmt::Debug for ReleaseOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.command.fmt(f)
    }
}

impl LockGrant {
    pub fn held(&self) -> &HeldLock {
        &self.held
    }

    /// The client receives the lock now, so dropping this does not release it.
    pub fn confirm(mut self) -> HeldLock {
        self.give_back = None;
        self.held.clone()
    }
}

impl Drop for LockGrant {
    fn drop(&mut self) {
        if let Some(ReleaseOnDrop { handle, command }) = self.give_back.take() {
            tokio::spawn(async move { handle.locks().propose_until_applied(command).await });
        }
    }
}

/// Locks with fencing tokens.
#[derive(Clone, Copy)]
pub struct LockHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl LockHandle<'_> {
    /// Takes a lock or waits for it. Dropping the future leaves the queue.
    pub async fn acquire(self, ask: AcquireRequest) -> Result<LockOutcome, Code> {
        let lock = |handle: Handle| {
            let ask = ask.clone();
            async move { handle.locks().acquire_as_admitted(ask).await }
        };
        self.handle.auth().admitted(lock).await
    }

    async fn acquire_as_admitted(self, ask: AcquireRequest) -> Result<LockOutcome, Code> {
        let calls = &self.handle.shared.lock_calls;
        if self.handle.is_draining() {
            return Err(Code::Stopped);
        }
        if calls.running.load(Ordering::Relaxed) >= LOCK_CALLS_WAITING_MAX {
            return Err(Code::TooManyRequests);
        }
        let (client, outcome) = oneshot::channel();
        let nth = calls.begun.fetch_add(1, Ordering::Relaxed);
        let lease = ask.lease;
        tokio::spawn(LockTask::begin(self.handle.clone(), nth, ask, client).run());
        match outcome.await.unwrap_or(Err(Code::Stopped)) {
            Err(Code::LockLost) if self.has_ended(lease).await => Err(Code::LeaseNotFound),
            outcome => outcome,
        }
    }

    async fn has_ended(self, lease: LeaseId) -> bool {
        matches!(self.handle.leases().time_to_live(lease).await, Ok(time) if time.body.ttl < 0)
    }

    pub async fn release(self, release: Release) -> Result<Reply<()>, Code> {
        self.handle.propose_and_wait(&Command::LockRelease(release)).await
    }

    /// Checks a token for a resource outside the cluster.
    pub async fn check_fence(self, check: CheckFence) -> Result<Reply<FenceOutcome<PassedFence>>, Code> {
        self.handle.propose_and_wait(&Command::FenceCheck(check)).await
    }

    /// The owners of positions in queues, as far as this member knows.
    pub async fn claims(self, keys: Vec<Bytes>) -> Result<Vec<Option<LockClaim>>, Code> {
        let (asker, claims) = oneshot::channel();
        self.handle.core().coord.apply.post(ApplyJob::Claims { keys, asker });
        claims.await.map_err(|_| Code::Stopped)
    }

    /// Keys of taken positions in queues that begin so, in their order, as far as this member knows. Only clients that lock
    /// by the lock API are found. They begin behind `after`, unless that is empty.
    pub async fn places(self, prefix: Bytes, after: Bytes, limit: usize) -> Result<Vec<Bytes>, Code> {
        let (asker, places) = oneshot::channel();
        self.handle.core().coord.apply.post(ApplyJob::LockPlaces { prefix, after, limit, asker });
        places.await.map_err(|_| Code::Stopped)
    }

    /// Proposes until the command is applied, across leader changes; only the end of this member ends it.
    async fn propose_until_applied(self, command: Command) -> Result<Reply, Code> {
        loop {
            match self.handle.wait_until(Instant::FAR_FUTURE, self.handle.propose(&command)?).await {
                Err(Code::TooManyRequests) => sleep(RETRY_AFTER).await,
                answer => return answer,
            }
        }
    }
}

type CommandFuture = Pin<Box<dyn Future<Output = Result<Reply, Code>> + Send>>;

/// One call, from its request to its end.
struct LockTask {
    handle: Handle,
    call: LockCall,
    id: WaitId,
    client: Option<oneshot::Sender<Result<LockOutcome, Code>>>,
    /// The command under way.
    answer: Option<CommandFuture>,
    news: Option<oneshot::Receiver<WaitOutcome>>,
    /// When the client's patience ends.
    timeout: Option<Pin<Box<Sleep>>>,
    /// When the client learns that its command has no answer yet.
    overdue: Pin<Box<Sleep>>,
    is_cancelled: bool,
}

/// The events that a task waits for.
enum LockTaskEvent {
    LockCallEvent(LockCallEvent),
    Overdue,
    Stopped,
}

impl LockTask {
    fn begin(
        handle: Handle,
        nth: u64,
        ask: AcquireRequest,
        client: oneshot::Sender<Result<LockOutcome, Code>>,
    ) -> LockTask {
        handle.shared.lock_calls.running.fetch_add(1, Ordering::Relaxed);
        let AcquireRequest { name, lease, value, holder, replaces_value, wait_limit } = ask;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let call = node::member::call_id(handle.identity().member, handle.shared.params.boot, nth);
        let is_try = wait_limit == LockWaitLimit::DoNotWait;
        let acquire = Acquire { name, lease, value, holder, since, call, is_try, replaces_value };
        let (call, command) = LockCall::begin(acquire);
        let mut task = LockTask {
            call,
            id: WaitId(nth),
            client: Some(client),
            answer: None,
            news: None,
            timeout: match wait_limit {
                LockWaitLimit::AtMost(timeout) => Some(Box::pin(sleep(timeout))),
                LockWaitLimit::Unbounded | LockWaitLimit::DoNotWait => None,
            },
            overdue: Box::pin(sleep(handle.request_timeout())),
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
            let next = match self.next_event().await {
                LockTaskEvent::Stopped => return self.reply(Err(Code::Stopped)),
                LockTaskEvent::LockCallEvent(event) => self.call.step(event),
                LockTaskEvent::Overdue => {
                    self.reply(Err(Code::Timeout));
                    LockCallStep::Stay
                }
            };
            match next {
                LockCallStep::Stay => {}
                LockCallStep::Propose(command) => self.propose(command),
                LockCallStep::Wait(wait) => self.wait(wait),
                LockCallStep::StopWaiting(command) => {
                    self.news = None;
                    self.handle.shared.core.coord.apply.post(ApplyJob::LockEnd(self.id));
                    self.propose(command);
                }
                LockCallStep::End(outcome) => return self.end(outcome),
            }
        }
    }

    async fn next_event(&mut self) -> LockTaskEvent {
        let LockTask { answer, news, timeout, overdue, client, is_cancelled, .. } = self;
        let has_client = client.is_some();
        tokio::select! {
            answered = async { answer.as_mut().expect("it is there").await }, if answer.is_some() => {
                *answer = None;
                LockTaskEvent::LockCallEvent(LockCallEvent::Answered(answered))
            }
            heard = async { news.as_mut().expect("it is there").await }, if news.is_some() => {
                *news = None;
                heard.map_or(LockTaskEvent::Stopped, |news| LockTaskEvent::LockCallEvent(LockCallEvent::WaitEnded(news)))
            }
            () = async { timeout.as_mut().expect("it is there").await }, if timeout.is_some() => {
                *timeout = None;
                LockTaskEvent::LockCallEvent(LockCallEvent::TimedOut)
            }
            () = async { client.as_mut().expect("it is there").closed().await }, if has_client => {
                (*client, *is_cancelled) = (None, true);
                LockTaskEvent::LockCallEvent(LockCallEvent::Cancelled)
            }
            () = async {}, if !has_client && !*is_cancelled => {
                *is_cancelled = true;
                LockTaskEvent::LockCallEvent(LockCallEvent::Cancelled)
            }
            () = overdue, if has_client && answer.is_some() => LockTaskEvent::Overdue,
        }
    }

    /// Proposes the command until it is applied: an operation that was begun must end.
    fn propose(&mut self, command: Command) {
        let handle = self.handle.clone();
        self.overdue = Box::pin(sleep(handle.request_timeout()));
        self.answer = Some(Box::pin(async move { handle.locks().propose_until_applied(command).await }));
    }

    fn wait(&mut self, wait: LockWait) {
        let (listener, news) = oneshot::channel();
        self.news = Some(news);
        self.handle.shared.core.coord.apply.post(ApplyJob::LockWait { id: self.id, wait, listener });
    }

    fn end(&mut self, outcome: LockCallOutcome) {
        match outcome {
            LockCallOutcome::Held(held) => {
                let give_back = ReleaseOnDrop { handle: self.handle.clone(), command: self.call.undo() };
                self.reply(Ok(LockOutcome::Held(LockGrant { held, give_back: Some(give_back) })));
            }
            LockCallOutcome::NotHeld(reply) => self.reply(Ok(LockOutcome::NotHeld(reply))),
            LockCallOutcome::Refused(code) => self.reply(Err(code)),
            LockCallOutcome::Abandoned => {}
        }
    }

    /// A grant that no client takes releases itself.
    fn reply(&mut self, outcome: Result<LockOutcome, Code>) {
        if let Some(client) = self.client.take() {
            let _ = client.send(outcome);
        }
    }
}

impl Drop for LockTask {
    fn drop(&mut self) {
        self.handle.shared.lock_calls.running.fetch_sub(1, Ordering::Relaxed);
    }
}
