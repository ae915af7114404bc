//! Clients that fight for a few locks, and write under them.
//! Each has a lease that it keeps alive, asks for a lock through any member (and sometimes through two at once),
//! waits, tries, gives up or is cut off, writes under its token while it holds, and releases. Some writes are numbered,
//! sent again and delivered late. Some clients sleep beyond the end of their lease and then write as if nothing had
//! happened. Members run the product's own call machine for them; whatever a client is told is put before the judge
//! (`lock_model.rs`).

use crate::host::Process;
use crate::lock_model::{LockModel, violation};
use crate::world::{Checked, Event, World};
use base::{Code, Instant, LeaseId, ProposalId, ReplyToken, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Put, Request};
use coord::{
    Acquire, CheckFence, Command, Fenced, FencingToken, Grant, IdempotentCommand, Release, RequestId, Revoke,
};
use node::lock_call::{self, LockCall, LockCallOutcome, LockCallStep};
use node::lock_waits::{self, WaitOutcome};
use node::{ClientWork, ConsensusInput, LeaderQuestion, WaitId, apply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(2_500);
const PATIENCE_US: u64 = 3_000_000;
/// How often a client looks whether its connection is still there.
const LOOK_US: u64 = 400_000;

pub struct LockClients {
    all: Vec<LockClient>,
    pub judge: LockModel,
    locks: u64,
    calls: u64,
    leases: i64,
    pub stopped: bool,
}

struct LockClient {
    lease: Option<Lease>,
    doing: LockClientState,
    /// Counts what it did; what was planned for an earlier turn means nothing.
    turn: u64,
    /// The calls that it waits for, and where they are.
    calls: Vec<(u64, usize, u32)>,
    /// Where calls under the present lease were given up. If such a connection breaks, it is unknown whether they
    /// have left their queues.
    given_up: Vec<(usize, u32)>,
}

#[derive(Clone, Copy)]
struct Lease {
    id: LeaseId,
    ttl_us: u64,
    /// So many locks are taken with it at most.
    uses: u64,
    /// Writes that were numbered under it.
    numbered: u64,
}

#[derive(Clone, Debug)]
enum LockClientState {
    Idle,
    Granting,
    Locking {
        lock: Bytes,
    },
    Holding {
        lock: Bytes,
        token: Revision,
        writes: u64,
    },
    /// A write that has a number is sent again until it is answered.
    Writing {
        lock: Bytes,
        token: Revision,
        writes: u64,
        numbered: Option<Box<IdempotentCommand>>,
    },
    Releasing {
        lock: Bytes,
        token: Revision,
    },
}

/// What a member does for a contender.
#[derive(Debug)]
pub enum Job {
    Command { lock_client: usize, turn: u64, work: ClientWork },
    KeepAlive { lock_client: usize, lease: LeaseId },
    LockCall { lock_client: usize, turn: u64, acquire: Acquire, timeout: Option<u64> },
    EndCall { call: u64, is_cancel: bool },
}

/// Who waits under a token.
#[derive(Clone, Copy, Debug)]
pub enum TokenPurpose {
    Command { lock_client: usize, turn: u64 },
    KeepAlive { lock_client: usize, lease: LeaseId },
    LockCall(u64),
    Discarded,
}

/// A call that a member runs.
pub struct RunningCall {
    call: LockCall,
    lock: Bytes,
    lock_client: usize,
    turn: u64,
}

/// What a member knows of the calls of its clients.
#[derive(Default)]
pub struct Calls {
    purposes: BTreeMap<ReplyToken, TokenPurpose>,
    running: BTreeMap<u64, RunningCall>,
    waiting: BTreeSet<u64>,
}

impl LockClients {
    pub fn new(rng: &mut Rng, count: usize) -> LockClients {
        let idle = || LockClient {
            lease: None,
            doing: LockClientState::Idle,
            turn: 0,
            calls: Vec::new(),
            given_up: Vec::new(),
        };
        LockClients {
            all: (0..count).map(|_| idle()).collect(),
            judge: LockModel::new(),
            locks: rng.between(1, 5),
            calls: 0,
            leases: 0,
            stopped: false,
        }
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// After all clients had time to finish: a client that still waits was forgotten.
    pub fn check_over(&self) -> Checked {
        for (number, lock_client) in self.all.iter().enumerate() {
            if let (LockClientState::Locking { lock }, Some(lease)) = (&lock_client.doing, lock_client.lease)
            {
                let queue = self.judge.queue(lock);
                let id = lease.id;
                let what = format!(
                    "contender {number} of lease {id} still waits for {lock:?}, where stand {queue:?}"
                );
                return Err(violation(what));
            }
        }
        self.judge.check_empty()
    }
}

impl World {
    /// A contender does the next thing.
    pub fn lock_step(&mut self, lock_client: usize, turn: u64) -> Checked {
        let me = &self.lock_clients.all[lock_client];
        if me.turn != turn {
            return Ok(());
        }
        match me.doing.clone() {
            LockClientState::Idle if self.lock_clients.stopped => {
                // A client that is done leaves without revoking its lease.
                self.lock_clients.all[lock_client].lease = None;
            }
            LockClientState::Idle => self.begin_round(lock_client),
            // No answer: perhaps the grant happened, and the lease ends by itself.
            LockClientState::Granting => self.pass_to(lock_client, LockClientState::Idle, 1_000),
            LockClientState::Locking { lock } => self.look_after_call(lock_client, lock),
            LockClientState::Holding { lock, token, writes: 0 } => {
                self.send_release(lock_client, lock, token)
            }
            LockClientState::Holding { lock, token, writes } => {
                self.send_write(lock_client, lock, token, writes)
            }
            LockClientState::Writing { lock, token, writes, numbered: Some(once) } => {
                let command = Command::Idempotent(once.as_ref().clone());
                let doing = LockClientState::Writing { lock, token, writes, numbered: Some(once) };
                self.pass_to(lock_client, doing, PATIENCE_US);
                self.send_command(lock_client, &command);
            }
            // No answer: the write may have happened, and may still happen.
            LockClientState::Writing { lock, token, writes, numbered: None } => {
                self.pass_to(
                    lock_client,
                    LockClientState::Holding { lock, token, writes: writes - 1 },
                    1_000,
                );
            }
            LockClientState::Releasing { lock, token } => self.send_release(lock_client, lock, token),
        }
        Ok(())
    }

    fn pass_to(&mut self, lock_client: usize, doing: LockClientState, delay: u64) {
        let me = &mut self.lock_clients.all[lock_client];
        me.turn += 1;
        me.doing = doing;
        me.given_up.extend(me.calls.drain(..).map(|(_, host, pid)| (host, pid)));
        let turn = me.turn;
        self.events.after(delay, Event::LockStep { lock_client, turn });
    }

    fn begin_round(&mut self, lock_client: usize) {
        let Some(lease) = &mut self.lock_clients.all[lock_client].lease else {
            return self.ask_for_lease(lock_client);
        };
        let is_used_up = lease.uses == 0;
        lease.uses = lease.uses.saturating_sub(1);
        if is_used_up || self.is_in_doubt(lock_client) {
            return self.give_up_lease(lock_client);
        }
        let lock = self.rng.between(0, self.lock_clients.locks);
        self.send_calls(lock_client, Bytes::from(format!("lock-{lock}")));
    }

    fn ask_for_lease(&mut self, lock_client: usize) {
        self.lock_clients.leases += 1;
        let id = LeaseId(self.lock_clients.leases);
        let ttl = self.rng.between(1, 5);
        let uses = self.rng.between(1, 30);
        let me = &mut self.lock_clients.all[lock_client];
        me.lease = Some(Lease { id, ttl_us: ttl * 1_000_000, uses, numbered: 0 });
        me.given_up.clear();
        self.pass_to(lock_client, LockClientState::Granting, PATIENCE_US);
        self.send_command(lock_client, &Command::LeaseGrant(Grant { id, ttl: ttl as i64 }));
    }

    /// Asks for a lock, and sometimes asks twice.
    fn send_calls(&mut self, lock_client: usize, lock: Bytes) {
        self.pass_to(lock_client, LockClientState::Locking { lock: lock.clone() }, LOOK_US);
        let (is_try, timeout) = match self.rng.between(0, 10) {
            0 | 1 => (true, None),
            2 | 3 => (false, Some(self.rng.between(10_000, 3_000_000))),
            _ => (false, None),
        };
        let twice = if self.rng.chance(100_000) { 2 } else { 1 };
        for _ in 0..twice {
            self.send_call(lock_client, lock.clone(), is_try, timeout);
        }
    }

    fn send_call(&mut self, lock_client: usize, lock: Bytes, is_try: bool, timeout: Option<u64>) {
        let Some(host) = self.any_running_host() else { return };
        let pid = self.hosts[host].pid;
        self.lock_clients.calls += 1;
        let call = self.lock_clients.calls;
        let me = &mut self.lock_clients.all[lock_client];
        let Some(lease) = me.lease else { return };
        me.calls.push((call, host, pid));
        let turn = me.turn;
        let acquire = Acquire {
            name: lock,
            lease: lease.id,
            value: Bytes::new(),
            holder: Bytes::from(format!("contender-{lock_client}")),
            since: 0,
            call,
            is_try,
            replaces_value: false,
        };
        let delay = self.rng.between(100, 1_000);
        let job = Job::LockCall { lock_client, turn, acquire, timeout };
        self.events.after(delay, Event::Job { host, pid, job });
        if self.rng.chance(100_000) {
            let job = Job::EndCall { call, is_cancel: true };
            let delay = self.rng.between(100, 1_500_000);
            self.events.after(delay, Event::Job { host, pid, job });
        }
    }

    /// A client whose connections have broken asks again with the same lease, or gives its lease up.
    fn look_after_call(&mut self, lock_client: usize, lock: Bytes) {
        if self.is_in_doubt(lock_client) {
            return self.give_up_lease(lock_client);
        }
        let hosts = &self.hosts;
        let me = &mut self.lock_clients.all[lock_client];
        me.calls.retain(|(_, host, pid)| hosts[*host].pid == *pid);
        if !me.calls.is_empty() {
            let turn = me.turn;
            self.events.after(LOOK_US, Event::LockStep { lock_client, turn });
        } else if self.lock_clients.stopped || self.rng.chance(300_000) {
            self.give_up_lease(lock_client);
        } else {
            // It may have a place in the queue already, and must not merely try.
            self.pass_to(lock_client, LockClientState::Locking { lock: lock.clone() }, LOOK_US);
            self.send_call(lock_client, lock, false, None);
        }
    }

    /// With a word or without one.
    fn give_up_lease(&mut self, lock_client: usize) {
        let lease = self.lock_clients.all[lock_client].lease.take();
        self.pass_to(lock_client, LockClientState::Idle, 10_000);
        if let Some(Lease { id, .. }) = lease
            && self.rng.chance(700_000)
        {
            self.send_command(lock_client, &Command::LeaseRevoke(Revoke { id, guard: None }));
        }
    }

    fn is_in_doubt(&self, lock_client: usize) -> bool {
        let given_up = &self.lock_clients.all[lock_client].given_up;
        given_up.iter().any(|(host, pid)| self.hosts[*host].pid != *pid)
    }

    fn send_write(&mut self, lock_client: usize, lock: Bytes, token: Revision, writes: u64) {
        let fence = FencingToken { lock: lock.clone(), token };
        let key = Bytes::from([b"resource-".as_slice(), &lock].concat());
        let command = if self.rng.chance(700_000) {
            let value = Some(Bytes::from(format!("written by {token}")));
            let put = Put { key, value, lease: Some(LeaseId::NONE), prev_kv: false };
            Command::Fenced(Fenced { fence, request: Request::Put(put) })
        } else {
            Command::FenceCheck(CheckFence { resource: key, fence })
        };
        let numbered = self.number(lock_client, &command);
        self.pass_to(
            lock_client,
            LockClientState::Writing { lock, token, writes, numbered: numbered.clone() },
            PATIENCE_US,
        );
        let Some(once) = numbered else { return self.send_command(lock_client, &command) };
        let command = Command::Idempotent(*once);
        self.send_command(lock_client, &command);
        // The network keeps a copy, which arrives when another client may hold the lock.
        if self.rng.chance(300_000) {
            let delay = self.rng.between(100, 3_000_000);
            self.send_command_later(lock_client, &command, delay);
        }
    }

    /// Some writes may be sent again: they get a number in the session of their lease.
    fn number(&mut self, lock_client: usize, command: &Command) -> Option<Box<IdempotentCommand>> {
        let is_numbered = self.rng.chance(400_000);
        let lease = self.lock_clients.all[lock_client].lease.as_mut().filter(|_| is_numbered)?;
        let seq = lease.numbered + 1;
        let once = IdempotentCommand::new(RequestId { session: lease.id, seq, low: seq }, command.clone())?;
        lease.numbered = seq;
        Some(Box::new(once))
    }

    fn send_release(&mut self, lock_client: usize, lock: Bytes, token: Revision) {
        let Some(lease) = self.lock_clients.all[lock_client].lease else {
            return self.pass_to(lock_client, LockClientState::Idle, 1_000);
        };
        let key = coord::lock_queue::key_of(&lock, lease.id);
        self.pass_to(lock_client, LockClientState::Releasing { lock, token }, PATIENCE_US);
        self.send_command(lock_client, &Command::LockRelease(Release { key, token }));
    }

    fn send_command(&mut self, lock_client: usize, command: &Command) {
        let delay = self.rng.between(100, 1_000);
        self.send_command_later(lock_client, command, delay);
    }

    fn send_command_later(&mut self, lock_client: usize, command: &Command, delay: u64) {
        let turn = self.lock_clients.all[lock_client].turn;
        self.send_job(Job::Command { lock_client, turn, work: propose(command) }, delay);
    }

    fn send_job(&mut self, job: Job, delay: u64) {
        let Some(host) = self.any_running_host() else { return };
        let pid = self.hosts[host].pid;
        self.events.after(delay, Event::Job { host, pid, job });
    }

    /// A lease is renewed as long as it is the contender's.
    pub fn renew(&mut self, lock_client: usize, lease: LeaseId) -> Checked {
        let Some(held) = self.lock_clients.all[lock_client].lease.filter(|held| held.id == lease) else {
            return Ok(());
        };
        if self.lock_clients.stopped
            && matches!(self.lock_clients.all[lock_client].doing, LockClientState::Idle)
        {
            return Ok(());
        }
        self.events.after(held.ttl_us / 3, Event::Renew { lock_client, lease });
        let delay = self.rng.between(100, 1_000);
        self.send_job(Job::KeepAlive { lock_client, lease }, delay);
        Ok(())
    }

    /// A member takes something on for a contender.
    pub fn take_job(&mut self, host: usize, job: Job) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        match job {
            Job::Command { lock_client, turn, work } => {
                self.request(host, deadline, work, TokenPurpose::Command { lock_client, turn })
            }
            Job::KeepAlive { lock_client, lease } => {
                let work = ClientWork::LeaderQuestion(LeaderQuestion::KeepAlive(lease));
                self.request(host, deadline, work, TokenPurpose::KeepAlive { lock_client, lease })
            }
            Job::LockCall { lock_client, turn, acquire, timeout } => {
                let (number, lock) = (acquire.call, acquire.name.clone());
                let (call, command) = LockCall::begin(acquire);
                let running = RunningCall { call, lock, lock_client, turn };
                self.process(host).calls.running.insert(number, running);
                if let Some(timeout) = timeout {
                    let pid = self.hosts[host].pid;
                    let job = Job::EndCall { call: number, is_cancel: false };
                    self.events.after(timeout, Event::Job { host, pid, job });
                }
                self.request(host, Instant::FAR_FUTURE, propose(&command), TokenPurpose::LockCall(number))
            }
            Job::EndCall { call, is_cancel: true } => {
                self.cancel(host, call);
                self.run_call(host, call, lock_call::LockCallEvent::Cancelled)
            }
            Job::EndCall { call, is_cancel: false } => {
                self.run_call(host, call, lock_call::LockCallEvent::TimedOut)
            }
        }
    }

    fn request(
        &mut self,
        host: usize,
        deadline: Instant,
        work: ClientWork,
        purpose: TokenPurpose,
    ) -> Checked {
        let process = self.process(host);
        process.tokens += 1;
        let token = ReplyToken(process.tokens);
        process.calls.purposes.insert(token, purpose);
        self.drive(host, ConsensusInput::Request(node::ClientRequest { token, deadline, work }))
    }

    /// The client does not wait for this call any longer.
    fn cancel(&mut self, host: usize, call: u64) {
        let Some(running) = self.process(host).calls.running.get(&call) else { return };
        let (lock_client, turn) = (running.lock_client, running.turn);
        let pid = self.hosts[host].pid;
        let me = &mut self.lock_clients.all[lock_client];
        me.calls.retain(|(number, ..)| *number != call);
        me.given_up.push((host, pid));
        if me.turn == turn && me.calls.is_empty() {
            self.counts.cancelled += 1;
            let think = self.rng.between(1_000, 20_000);
            self.pass_to(lock_client, LockClientState::Idle, think);
        }
    }

    fn run_call(&mut self, host: usize, number: u64, event: lock_call::LockCallEvent) -> Checked {
        let calls = &mut self.process(host).calls;
        let Some(running) = calls.running.get_mut(&number) else { return Ok(()) };
        match running.call.step(event) {
            LockCallStep::Stay => Ok(()),
            LockCallStep::Propose(command) => {
                self.request(host, Instant::FAR_FUTURE, propose(&command), TokenPurpose::LockCall(number))
            }
            LockCallStep::Wait(wait) => {
                calls.waiting.insert(number);
                let begin = lock_waits::LockWaitInput::Begin { id: WaitId(number), wait };
                self.hand_to_apply(host, apply::ApplyInput::Lock(begin));
                Ok(())
            }
            LockCallStep::StopWaiting(command) => {
                calls.waiting.remove(&number);
                self.hand_to_apply(
                    host,
                    apply::ApplyInput::Lock(lock_waits::LockWaitInput::End(WaitId(number))),
                );
                self.request(host, Instant::FAR_FUTURE, propose(&command), TokenPurpose::LockCall(number))
            }
            LockCallStep::End(outcome) => {
                let running = calls.running.remove(&number).expect("it was just stepped");
                self.end_call(host, number, running, outcome)
            }
        }
    }

    fn end_call(
        &mut self,
        host: usize,
        number: u64,
        running: RunningCall,
        outcome: LockCallOutcome,
    ) -> Checked {
        let RunningCall { call, lock, lock_client, turn } = running;
        let me = &mut self.lock_clients.all[lock_client];
        me.calls.retain(|(other, ..)| *other != number);
        let listens = me.turn == turn;
        let is_last = me.calls.is_empty();
        match outcome {
            LockCallOutcome::Held(held) => {
                self.lock_clients.judge.told_held(&lock, held.token)?;
                if listens {
                    self.begin_to_hold(lock_client, lock, held.token);
                } else {
                    // The client has what it wants, or wants it no more.
                    let undo = propose(&call.undo());
                    self.request(host, Instant::FAR_FUTURE, undo, TokenPurpose::Discarded)?;
                }
            }
            LockCallOutcome::Refused(_) if listens && is_last => self.give_up_lease(lock_client),
            _ if listens && is_last => {
                let think = self.rng.between(1_000, 20_000);
                self.pass_to(lock_client, LockClientState::Idle, think);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_to_hold(&mut self, lock_client: usize, lock: Bytes, token: Revision) {
        self.counts.acquired += 1;
        let writes = self.rng.between(0, 3);
        let sleeps = !self.lock_clients.stopped && self.rng.chance(5_000);
        let lease = self.lock_clients.all[lock_client].lease;
        let hold = match lease {
            // It sleeps beyond the end of its lease, and does not renew it meanwhile.
            Some(lease) if sleeps => {
                self.lock_clients.all[lock_client].lease = None;
                lease.ttl_us + self.rng.between(500_000, 3_000_000)
            }
            _ if self.lock_clients.stopped => 100,
            _ => self.rng.between(100, 5_000),
        };
        let writes = if sleeps {
            1
        } else if self.lock_clients.stopped {
            0
        } else {
            writes
        };
        self.pass_to(lock_client, LockClientState::Holding { lock, token, writes }, hold);
    }

    /// A member answers a request that a contender, or a call of one, waits for.
    pub fn answer_lock_client(
        &mut self,
        host: usize,
        token: ReplyToken,
        answer: Result<Reply, Code>,
    ) -> Checked {
        let origin = self.hosts[host].id;
        let process = self.process(host);
        let Some(purpose) = process.calls.purposes.remove(&token) else { return Ok(()) };
        let id = ProposalId { origin, boot: process.member.boot, seq: token.0 };
        if !matches!(purpose, TokenPurpose::KeepAlive { .. }) {
            self.lock_clients.judge.answered(id, &answer)?;
        }
        match purpose {
            TokenPurpose::Discarded => Ok(()),
            TokenPurpose::LockCall(number) => {
                self.run_call(host, number, lock_call::LockCallEvent::Answered(answer))
            }
            TokenPurpose::KeepAlive { lock_client, lease } => {
                let me = &mut self.lock_clients.all[lock_client];
                let is_gone = matches!(answer, Ok(Reply { body: Body::LeaseRenewed { ttl: 0, .. }, .. }));
                if is_gone && me.lease.is_some_and(|held| held.id == lease) {
                    me.lease = None;
                }
                Ok(())
            }
            TokenPurpose::Command { lock_client, turn }
                if self.lock_clients.all[lock_client].turn == turn =>
            {
                self.hear(lock_client, &answer);
                Ok(())
            }
            TokenPurpose::Command { .. } => Ok(()),
        }
    }

    fn hear(&mut self, lock_client: usize, answer: &Result<Reply, Code>) {
        if !matches!(answer, Err(Code::Timeout | Code::NoLeader)) {
            self.counts.answered += 1;
        }
        let body = answer.as_ref().map(|reply| &reply.body);
        match (self.lock_clients.all[lock_client].doing.clone(), body) {
            (LockClientState::Granting, Ok(Body::LeaseGranted { id, .. })) => {
                let renewal = Event::Renew { lock_client, lease: *id };
                self.events.after(300_000, renewal);
                self.pass_to(lock_client, LockClientState::Idle, 1_000);
            }
            (LockClientState::Writing { lock, token, writes, .. }, Ok(body)) => {
                self.counts.fenced += u64::from(matches!(body, Body::Fenced(_)));
                self.pass_to(lock_client, LockClientState::Holding { lock, token, writes: writes - 1 }, 500);
            }
            // Its session is over, and with it what was known of the write.
            (LockClientState::Writing { lock, token, writes, .. }, Err(Code::SessionUnknown)) => {
                self.pass_to(lock_client, LockClientState::Holding { lock, token, writes: writes - 1 }, 500);
            }
            // Given back, or not its own any more.
            (LockClientState::Releasing { .. }, Ok(_) | Err(Code::NotLockHolder)) => {
                let think = self.rng.between(1_000, 20_000);
                self.pass_to(lock_client, LockClientState::Idle, think);
            }
            // Whatever it was, it is tried again when its patience is over.
            _ => {}
        }
    }

    /// WaitOutcome for a call that has not stopped waiting meanwhile.
    pub fn lock_news(&mut self, host: usize, id: WaitId, news: WaitOutcome) -> Checked {
        if self.process(host).calls.waiting.remove(&id.0) {
            self.run_call(host, id.0, lock_call::LockCallEvent::WaitEnded(news))
        } else {
            Ok(())
        }
    }
}

impl Process {
    pub fn is_for_lock_client(&self, token: ReplyToken) -> bool {
        self.calls.purposes.contains_key(&token)
    }
}

fn propose(command: &Command) -> ClientWork {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    ClientWork::Propose(bytes.into())
}
