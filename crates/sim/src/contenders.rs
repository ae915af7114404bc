//! Clients that fight for a few locks, and write under them.
//! Each has a lease that it keeps alive, asks for a lock through any member (and sometimes through two at once),
//! waits, tries, gives up or is cut off, writes under its token while it holds, and releases. Some writes are numbered,
//! sent again and delivered late. Some clients sleep beyond the end of their lease and then write as if nothing had
//! happened. Members run the product's own call machine for
//! them; whatever a client is told is put before the judge (`locked.rs`).

use crate::host::Process;
use crate::locked::{Locked, violation};
use crate::world::{Checked, Event, World};
use base::{Code, Instant, LeaseId, ProposalId, Revision, Rng, Token};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Put, Request};
use coord::{Acquire, CheckFence, Command, Fenced, FencedBy, Grant, Once, Release, RequestId, Revoke};
use node::lock_call::{self, Call, Next, Outcome};
use node::waits::{self, News};
use node::{Input, Question, WaitId, Work, apply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_millis(2_500);
const PATIENCE_US: u64 = 3_000_000;
/// How often a client looks whether its connection is still there.
const LOOK_US: u64 = 400_000;

pub struct Contenders {
    all: Vec<Contender>,
    pub judge: Locked,
    locks: u64,
    calls: u64,
    leases: i64,
    pub stopped: bool,
}

struct Contender {
    lease: Option<Lease>,
    doing: Doing,
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
enum Doing {
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
        numbered: Option<Box<Once>>,
    },
    Releasing {
        lock: Bytes,
        token: Revision,
    },
}

/// What a member does for a contender.
#[derive(Debug)]
pub enum Job {
    Command { contender: usize, turn: u64, work: Work },
    KeepAlive { contender: usize, lease: LeaseId },
    Call { contender: usize, turn: u64, acquire: Acquire, timeout: Option<u64> },
    Hurry { call: u64, is_cancel: bool },
}

/// Who waits under a token.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    Command { contender: usize, turn: u64 },
    KeepAlive { contender: usize, lease: LeaseId },
    Call(u64),
    Nobody,
}

/// A call that a member runs.
pub struct Running {
    call: Call,
    lock: Bytes,
    contender: usize,
    turn: u64,
}

/// What a member knows of the calls of its clients.
#[derive(Default)]
pub struct Calls {
    purposes: BTreeMap<Token, Purpose>,
    running: BTreeMap<u64, Running>,
    waiting: BTreeSet<u64>,
}

impl Contenders {
    pub fn new(rng: &mut Rng, count: usize) -> Contenders {
        let idle = || Contender {
            lease: None,
            doing: Doing::Idle,
            turn: 0,
            calls: Vec::new(),
            given_up: Vec::new(),
        };
        Contenders {
            all: (0..count).map(|_| idle()).collect(),
            judge: Locked::new(),
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
        for (number, contender) in self.all.iter().enumerate() {
            if let (Doing::Locking { lock }, Some(lease)) = (&contender.doing, contender.lease) {
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
    pub fn contend(&mut self, contender: usize, turn: u64) -> Checked {
        let me = &self.contenders.all[contender];
        if me.turn != turn {
            return Ok(());
        }
        match me.doing.clone() {
            Doing::Idle if self.contenders.stopped => {
                // A client that is done leaves without revoking its lease.
                self.contenders.all[contender].lease = None;
            }
            Doing::Idle => self.begin_round(contender),
            // No answer: perhaps the grant happened, and the lease ends by itself.
            Doing::Granting => self.pass_to(contender, Doing::Idle, 1_000),
            Doing::Locking { lock } => self.look_after_call(contender, lock),
            Doing::Holding { lock, token, writes: 0 } => self.send_release(contender, lock, token),
            Doing::Holding { lock, token, writes } => self.send_write(contender, lock, token, writes),
            Doing::Writing { lock, token, writes, numbered: Some(once) } => {
                let command = Command::Once(once.as_ref().clone());
                let doing = Doing::Writing { lock, token, writes, numbered: Some(once) };
                self.pass_to(contender, doing, PATIENCE_US);
                self.send_command(contender, &command);
            }
            // No answer: the write may have happened, and may still happen.
            Doing::Writing { lock, token, writes, numbered: None } => {
                self.pass_to(contender, Doing::Holding { lock, token, writes: writes - 1 }, 1_000);
            }
            Doing::Releasing { lock, token } => self.send_release(contender, lock, token),
        }
        Ok(())
    }

    fn pass_to(&mut self, contender: usize, doing: Doing, delay: u64) {
        let me = &mut self.contenders.all[contender];
        me.turn += 1;
        me.doing = doing;
        me.given_up.extend(me.calls.drain(..).map(|(_, host, life)| (host, life)));
        let turn = me.turn;
        self.agenda.after(delay, Event::Contend { contender, turn });
    }

    fn begin_round(&mut self, contender: usize) {
        let Some(lease) = &mut self.contenders.all[contender].lease else {
            return self.ask_for_lease(contender);
        };
        let is_used_up = lease.uses == 0;
        lease.uses = lease.uses.saturating_sub(1);
        if is_used_up || self.is_in_doubt(contender) {
            return self.give_up_lease(contender);
        }
        let lock = self.rng.between(0, self.contenders.locks);
        self.send_calls(contender, Bytes::from(format!("lock-{lock}")));
    }

    fn ask_for_lease(&mut self, contender: usize) {
        self.contenders.leases += 1;
        let id = LeaseId(self.contenders.leases);
        let ttl = self.rng.between(1, 5);
        let uses = self.rng.between(1, 30);
        let me = &mut self.contenders.all[contender];
        me.lease = Some(Lease { id, ttl_us: ttl * 1_000_000, uses, numbered: 0 });
        me.given_up.clear();
        self.pass_to(contender, Doing::Granting, PATIENCE_US);
        self.send_command(contender, &Command::LeaseGrant(Grant { id, ttl: ttl as i64 }));
    }

    /// Asks for a lock, and sometimes asks twice.
    fn send_calls(&mut self, contender: usize, lock: Bytes) {
        self.pass_to(contender, Doing::Locking { lock: lock.clone() }, LOOK_US);
        let (is_try, timeout) = match self.rng.between(0, 10) {
            0 | 1 => (true, None),
            2 | 3 => (false, Some(self.rng.between(10_000, 3_000_000))),
            _ => (false, None),
        };
        let twice = if self.rng.chance(100_000) { 2 } else { 1 };
        for _ in 0..twice {
            self.send_call(contender, lock.clone(), is_try, timeout);
        }
    }

    fn send_call(&mut self, contender: usize, lock: Bytes, is_try: bool, timeout: Option<u64>) {
        let Some(host) = self.any_running_host() else { return };
        let life = self.hosts[host].life;
        self.contenders.calls += 1;
        let call = self.contenders.calls;
        let me = &mut self.contenders.all[contender];
        let Some(lease) = me.lease else { return };
        me.calls.push((call, host, life));
        let turn = me.turn;
        let acquire = Acquire {
            name: lock,
            lease: lease.id,
            value: Bytes::new(),
            holder: Bytes::from(format!("contender-{contender}")),
            since: 0,
            call,
            is_try,
            replaces_value: false,
        };
        let delay = self.rng.between(100, 1_000);
        let job = Job::Call { contender, turn, acquire, timeout };
        self.agenda.after(delay, Event::Job { host, life, job });
        if self.rng.chance(100_000) {
            let job = Job::Hurry { call, is_cancel: true };
            let delay = self.rng.between(100, 1_500_000);
            self.agenda.after(delay, Event::Job { host, life, job });
        }
    }

    /// A client whose connections have broken asks again with the same lease, or gives its lease up.
    fn look_after_call(&mut self, contender: usize, lock: Bytes) {
        if self.is_in_doubt(contender) {
            return self.give_up_lease(contender);
        }
        let hosts = &self.hosts;
        let me = &mut self.contenders.all[contender];
        me.calls.retain(|(_, host, life)| hosts[*host].life == *life);
        if !me.calls.is_empty() {
            let turn = me.turn;
            self.agenda.after(LOOK_US, Event::Contend { contender, turn });
        } else if self.contenders.stopped || self.rng.chance(300_000) {
            self.give_up_lease(contender);
        } else {
            // It may have a place in the queue already, and must not merely try.
            self.pass_to(contender, Doing::Locking { lock: lock.clone() }, LOOK_US);
            self.send_call(contender, lock, false, None);
        }
    }

    /// With a word or without one.
    fn give_up_lease(&mut self, contender: usize) {
        let lease = self.contenders.all[contender].lease.take();
        self.pass_to(contender, Doing::Idle, 10_000);
        if let Some(Lease { id, .. }) = lease
            && self.rng.chance(700_000)
        {
            self.send_command(contender, &Command::LeaseRevoke(Revoke { id, guard: None }));
        }
    }

    fn is_in_doubt(&self, contender: usize) -> bool {
        let given_up = &self.contenders.all[contender].given_up;
        given_up.iter().any(|(host, life)| self.hosts[*host].life != *life)
    }

    fn send_write(&mut self, contender: usize, lock: Bytes, token: Revision, writes: u64) {
        let fence = FencedBy { lock: lock.clone(), token };
        let key = Bytes::from([b"resource-".as_slice(), &lock].concat());
        let command = if self.rng.chance(700_000) {
            let value = Some(Bytes::from(format!("written by {token}")));
            let put = Put { key, value, lease: Some(LeaseId::NONE), prev_kv: false };
            Command::Fenced(Fenced { fence, request: Request::Put(put) })
        } else {
            Command::FenceCheck(CheckFence { resource: key, fence })
        };
        let numbered = self.number(contender, &command);
        self.pass_to(
            contender,
            Doing::Writing { lock, token, writes, numbered: numbered.clone() },
            PATIENCE_US,
        );
        let Some(once) = numbered else { return self.send_command(contender, &command) };
        let command = Command::Once(*once);
        self.send_command(contender, &command);
        // The network keeps a copy, which arrives when another client may hold the lock.
        if self.rng.chance(300_000) {
            let delay = self.rng.between(100, 3_000_000);
            self.send_command_later(contender, &command, delay);
        }
    }

    /// Some writes may be sent again: they get a number in the session of their lease.
    fn number(&mut self, contender: usize, command: &Command) -> Option<Box<Once>> {
        let is_numbered = self.rng.chance(400_000);
        let lease = self.contenders.all[contender].lease.as_mut().filter(|_| is_numbered)?;
        let seq = lease.numbered + 1;
        let once = Once::new(RequestId { session: lease.id, seq, low: seq }, command.clone())?;
        lease.numbered = seq;
        Some(Box::new(once))
    }

    fn send_release(&mut self, contender: usize, lock: Bytes, token: Revision) {
        let Some(lease) = self.contenders.all[contender].lease else {
            return self.pass_to(contender, Doing::Idle, 1_000);
        };
        let key = coord::queue::key_of(&lock, lease.id);
        self.pass_to(contender, Doing::Releasing { lock, token }, PATIENCE_US);
        self.send_command(contender, &Command::LockRelease(Release { key, token }));
    }

    fn send_command(&mut self, contender: usize, command: &Command) {
        let delay = self.rng.between(100, 1_000);
        self.send_command_later(contender, command, delay);
    }

    fn send_command_later(&mut self, contender: usize, command: &Command, delay: u64) {
        let turn = self.contenders.all[contender].turn;
        self.send_job(Job::Command { contender, turn, work: propose(command) }, delay);
    }

    fn send_job(&mut self, job: Job, delay: u64) {
        let Some(host) = self.any_running_host() else { return };
        let life = self.hosts[host].life;
        self.agenda.after(delay, Event::Job { host, life, job });
    }

    /// A lease is renewed as long as it is the contender's.
    pub fn renew(&mut self, contender: usize, lease: LeaseId) -> Checked {
        let Some(held) = self.contenders.all[contender].lease.filter(|held| held.id == lease) else {
            return Ok(());
        };
        if self.contenders.stopped && matches!(self.contenders.all[contender].doing, Doing::Idle) {
            return Ok(());
        }
        self.agenda.after(held.ttl_us / 3, Event::Renew { contender, lease });
        let delay = self.rng.between(100, 1_000);
        self.send_job(Job::KeepAlive { contender, lease }, delay);
        Ok(())
    }

    /// A member takes something on for a contender.
    pub fn take_job(&mut self, host: usize, job: Job) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        match job {
            Job::Command { contender, turn, work } => {
                self.request(host, deadline, work, Purpose::Command { contender, turn })
            }
            Job::KeepAlive { contender, lease } => {
                let work = Work::Ask(Question::KeepAlive(lease));
                self.request(host, deadline, work, Purpose::KeepAlive { contender, lease })
            }
            Job::Call { contender, turn, acquire, timeout } => {
                let (number, lock) = (acquire.call, acquire.name.clone());
                let (call, command) = Call::begin(acquire);
                let running = Running { call, lock, contender, turn };
                self.process(host).calls.running.insert(number, running);
                if let Some(timeout) = timeout {
                    let life = self.hosts[host].life;
                    let job = Job::Hurry { call: number, is_cancel: false };
                    self.agenda.after(timeout, Event::Job { host, life, job });
                }
                self.request(host, Instant::FAR_FUTURE, propose(&command), Purpose::Call(number))
            }
            Job::Hurry { call, is_cancel: true } => {
                self.cancel(host, call);
                self.run_call(host, call, lock_call::Event::Cancelled)
            }
            Job::Hurry { call, is_cancel: false } => self.run_call(host, call, lock_call::Event::TimedOut),
        }
    }

    fn request(&mut self, host: usize, deadline: Instant, work: Work, purpose: Purpose) -> Checked {
        let process = self.process(host);
        process.tokens += 1;
        let token = Token(process.tokens);
        process.calls.purposes.insert(token, purpose);
        self.drive(host, Input::Request(node::Request { token, deadline, work }))
    }

    /// The client does not wait for this call any longer.
    fn cancel(&mut self, host: usize, call: u64) {
        let Some(running) = self.process(host).calls.running.get(&call) else { return };
        let (contender, turn) = (running.contender, running.turn);
        let life = self.hosts[host].life;
        let me = &mut self.contenders.all[contender];
        me.calls.retain(|(number, ..)| *number != call);
        me.given_up.push((host, life));
        if me.turn == turn && me.calls.is_empty() {
            self.tally.cancelled += 1;
            let think = self.rng.between(1_000, 20_000);
            self.pass_to(contender, Doing::Idle, think);
        }
    }

    fn run_call(&mut self, host: usize, number: u64, event: lock_call::Event) -> Checked {
        let calls = &mut self.process(host).calls;
        let Some(running) = calls.running.get_mut(&number) else { return Ok(()) };
        match running.call.step(event) {
            Next::Stay => Ok(()),
            Next::Propose(command) => {
                self.request(host, Instant::FAR_FUTURE, propose(&command), Purpose::Call(number))
            }
            Next::Wait(wait) => {
                calls.waiting.insert(number);
                let begin = waits::Input::Begin { id: WaitId(number), wait };
                self.hand_to_apply(host, apply::Input::Lock(begin));
                Ok(())
            }
            Next::StopWaiting(command) => {
                calls.waiting.remove(&number);
                self.hand_to_apply(host, apply::Input::Lock(waits::Input::End(WaitId(number))));
                self.request(host, Instant::FAR_FUTURE, propose(&command), Purpose::Call(number))
            }
            Next::End(outcome) => {
                let running = calls.running.remove(&number).expect("it was just stepped");
                self.end_call(host, number, running, outcome)
            }
        }
    }

    fn end_call(&mut self, host: usize, number: u64, running: Running, outcome: Outcome) -> Checked {
        let Running { call, lock, contender, turn } = running;
        let me = &mut self.contenders.all[contender];
        me.calls.retain(|(other, ..)| *other != number);
        let listens = me.turn == turn;
        let is_last = me.calls.is_empty();
        match outcome {
            Outcome::Held(held) => {
                self.contenders.judge.told_held(&lock, held.token)?;
                match listens {
                    true => self.begin_to_hold(contender, lock, held.token),
                    // The client has what it wants, or wants it no more.
                    false => {
                        let undo = propose(&call.undo());
                        self.request(host, Instant::FAR_FUTURE, undo, Purpose::Nobody)?;
                    }
                }
            }
            Outcome::Refused(_) if listens && is_last => self.give_up_lease(contender),
            _ if listens && is_last => {
                let think = self.rng.between(1_000, 20_000);
                self.pass_to(contender, Doing::Idle, think);
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_to_hold(&mut self, contender: usize, lock: Bytes, token: Revision) {
        self.tally.acquired += 1;
        let writes = self.rng.between(0, 3);
        let sleeps = !self.contenders.stopped && self.rng.chance(5_000);
        let lease = self.contenders.all[contender].lease;
        let hold = match lease {
            // It sleeps beyond the end of its lease, and does not renew it meanwhile.
            Some(lease) if sleeps => {
                self.contenders.all[contender].lease = None;
                lease.ttl_us + self.rng.between(500_000, 3_000_000)
            }
            _ if self.contenders.stopped => 100,
            _ => self.rng.between(100, 5_000),
        };
        let writes = match () {
            () if sleeps => 1,
            () if self.contenders.stopped => 0,
            () => writes,
        };
        self.pass_to(contender, Doing::Holding { lock, token, writes }, hold);
    }

    /// A member answers a request that a contender, or a call of one, waits for.
    pub fn tell_contender(&mut self, host: usize, token: Token, answer: Result<Reply, Code>) -> Checked {
        let origin = self.hosts[host].id;
        let process = self.process(host);
        let Some(purpose) = process.calls.purposes.remove(&token) else { return Ok(()) };
        let id = ProposalId { origin, boot: process.member.boot, seq: token.0 };
        if !matches!(purpose, Purpose::KeepAlive { .. }) {
            self.contenders.judge.answered(id, &answer)?;
        }
        match purpose {
            Purpose::Nobody => Ok(()),
            Purpose::Call(number) => self.run_call(host, number, lock_call::Event::Answered(answer)),
            Purpose::KeepAlive { contender, lease } => {
                let me = &mut self.contenders.all[contender];
                let is_gone = matches!(answer, Ok(Reply { body: Body::LeaseRenewed { ttl: 0, .. }, .. }));
                if is_gone && me.lease.is_some_and(|held| held.id == lease) {
                    me.lease = None;
                }
                Ok(())
            }
            Purpose::Command { contender, turn } if self.contenders.all[contender].turn == turn => {
                self.hear(contender, &answer);
                Ok(())
            }
            Purpose::Command { .. } => Ok(()),
        }
    }

    fn hear(&mut self, contender: usize, answer: &Result<Reply, Code>) {
        if !matches!(answer, Err(Code::Timeout | Code::NoLeader)) {
            self.tally.answered += 1;
        }
        let body = answer.as_ref().map(|reply| &reply.body);
        match (self.contenders.all[contender].doing.clone(), body) {
            (Doing::Granting, Ok(Body::LeaseGranted { id, .. })) => {
                let renewal = Event::Renew { contender, lease: *id };
                self.agenda.after(300_000, renewal);
                self.pass_to(contender, Doing::Idle, 1_000);
            }
            (Doing::Writing { lock, token, writes, .. }, Ok(body)) => {
                self.tally.fenced += u64::from(matches!(body, Body::Fenced(_)));
                self.pass_to(contender, Doing::Holding { lock, token, writes: writes - 1 }, 500);
            }
            // Its session is over, and with it what was known of the write.
            (Doing::Writing { lock, token, writes, .. }, Err(Code::SessionUnknown)) => {
                self.pass_to(contender, Doing::Holding { lock, token, writes: writes - 1 }, 500);
            }
            // Given back, or not its own any more.
            (Doing::Releasing { .. }, Ok(_) | Err(Code::NotLockHolder)) => {
                let think = self.rng.between(1_000, 20_000);
                self.pass_to(contender, Doing::Idle, think);
            }
            // Whatever it was, it is tried again when its patience is over.
            _ => {}
        }
    }

    /// News for a call that has not stopped waiting meanwhile.
    pub fn lock_news(&mut self, host: usize, id: WaitId, news: News) -> Checked {
        match self.process(host).calls.waiting.remove(&id.0) {
            true => self.run_call(host, id.0, lock_call::Event::News(news)),
            false => Ok(()),
        }
    }
}

impl Process {
    pub fn is_for_contender(&self, token: Token) -> bool {
        self.calls.purposes.contains_key(&token)
    }
}

fn propose(command: &Command) -> Work {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    Work::Propose(bytes.into())
}
