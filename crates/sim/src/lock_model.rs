//! The judge of locks: a model of the lock machine, too simple to be wrong, that follows the committed log.
//! Each command is carried out on plain queues when the first member commits it, and what it must be answered is
//! kept; every answer that a client gets is compared with that, word by word, revisions included. So a lock has one
//! holder at a time, it goes round in the order of asking, and no write happens under a token that does not hold.

use crate::oracle::{Checker, Violation};
use crate::seen_proposals::SeenProposals;
use crate::world::Checked;
use base::{Code, Index, LeaseId, ProposalId, Revision};
use bytes::Bytes;
use coord::reply::{Body, FenceRefusal, LockHolder, LockReply, PutReply, Reply};
use coord::{
    Acquire, CheckFence, Command, FencingToken, Grant, IdempotentCommand, Leave, Release, RequestId, Revoke,
};
use node::batch;
use raft::Entry;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct LockModel {
    revision: i64,
    applied: Index,
    seen_proposals: SeenProposals,
    leases: BTreeMap<LeaseId, Index>,
    /// By lock, in the order of asking.
    queues: BTreeMap<Bytes, Vec<QueueEntry>>,
    fences: BTreeMap<Bytes, Revision>,
    /// The last token under which each fenced key was written.
    written: BTreeMap<Bytes, Revision>,
    /// What the last numbered write of each lease was answered.
    numbered: BTreeMap<LeaseId, (u64, LockAnswer)>,
    answers: BTreeMap<ProposalId, LockAnswer>,
    /// Every token that ever held a lock.
    held: BTreeSet<(Bytes, Revision)>,
    pub handed_over: u64,
}

type LockAnswer = Result<Reply, Code>;

struct QueueEntry {
    lease: LeaseId,
    token: Revision,
    /// The call that asked last, or, of a place that is held, all that have not left; `None` when they are no longer counted.
    calls: Option<BTreeSet<u64>>,
}

impl LockModel {
    pub fn new() -> LockModel {
        LockModel { revision: 1, ..LockModel::default() }
    }

    pub fn committed(&mut self, entry: &Entry) -> Checked {
        if entry.at.index <= self.applied {
            return Ok(());
        }
        self.applied = entry.at.index;
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            if !self.seen_proposals.is_new(proposal.id, proposal.low) {
                continue;
            }
            let Some(command) = Command::decode(proposal.command) else { continue };
            let answer = match &command {
                Command::Idempotent(once) => self.carry_out_once(entry, once),
                command => self.answer(entry, command),
            };
            self.answers.insert(proposal.id, answer);
            self.note_holders()?;
        }
        Ok(())
    }

    /// A client was answered. Refusals that do not come from the state tell nothing.
    pub fn answered(&mut self, id: ProposalId, answer: &LockAnswer) -> Checked {
        if let Err(Code::TooManyRequests | Code::Timeout | Code::NoLeader | Code::Stopped) = answer {
            return Ok(());
        }
        match self.answers.remove(&id) {
            Some(expected) if expected == *answer => Ok(()),
            expected => Err(violation(format!("{id:?} was answered {answer:?}, but {expected:?} is true"))),
        }
    }

    /// A client was told that it holds a lock.
    pub fn told_held(&self, lock: &Bytes, token: Revision) -> Checked {
        if self.held.contains(&(lock.clone(), token)) {
            Ok(())
        } else {
            Err(violation(format!("{lock:?} was granted to {token}, which never held it")))
        }
    }

    /// The leases in the queue of a lock, the holder first.
    pub fn queue(&self, lock: &Bytes) -> Vec<LeaseId> {
        self.queues.get(lock).into_iter().flatten().map(|entry| entry.lease).collect()
    }

    /// In the end no client waits and nothing is held.
    pub fn check_empty(&self) -> Checked {
        match self.queues.iter().find(|(_, queue)| !queue.is_empty()) {
            None => Ok(()),
            Some((lock, queue)) => {
                let leases: Vec<i64> = queue.iter().map(|entry| entry.lease.0).collect();
                Err(violation(format!("{lock:?} is stuck with the leases {leases:?}")))
            }
        }
    }

    fn note_holders(&mut self) -> Checked {
        for (lock, queue) in &self.queues {
            let Some(first) = queue.first() else { continue };
            let later = (lock.clone(), first.token.next())..=(lock.clone(), Revision(i64::MAX));
            if let Some((_, last)) = self.held.range(later).next() {
                return Err(violation(format!("{lock:?} went back from {last} to {}", first.token)));
            }
            self.handed_over += u64::from(self.held.insert((lock.clone(), first.token)));
        }
        Ok(())
    }

    /// A write that has a number happens once; a client that has sent the next one will not ask for it again.
    fn carry_out_once(&mut self, entry: &Entry, once: &IdempotentCommand) -> LockAnswer {
        let RequestId { session, seq, .. } = once.id;
        if !self.leases.contains_key(&session) {
            return Err(Code::SessionUnknown);
        }
        match self.numbered.get(&session) {
            Some((last, answer)) if *last == seq => answer.clone(),
            Some((last, _)) if *last > seq => Err(Code::RequestForgotten),
            _ => {
                let answer = self.answer(entry, once.command());
                self.numbered.insert(session, (seq, answer.clone()));
                answer
            }
        }
    }

    fn answer(&mut self, entry: &Entry, command: &Command) -> LockAnswer {
        let body = self.carry_out(entry, command)?;
        Ok(Reply { revision: Revision(self.revision), body })
    }

    fn carry_out(&mut self, entry: &Entry, command: &Command) -> Result<Body, Code> {
        match command {
            Command::LeaseGrant(Grant { id, ttl }) => {
                if self.leases.contains_key(id) {
                    return Err(Code::LeaseExists);
                }
                self.leases.insert(*id, entry.at.index);
                Ok(Body::LeaseGranted { id: *id, ttl: *ttl })
            }
            Command::LeaseRevoke(revoke) => self.revoke(entry, revoke),
            Command::LockAcquire(acquire) => self.acquire(acquire),
            Command::LockRelease(release) => self.release(release),
            Command::LockLeave(leave) => Ok(self.leave(leave)),
            Command::Fenced(fenced) => Ok(self.write(&fenced.fence)),
            Command::FenceCheck(check) => self.check(check),
            _ => Ok(Body::LeaseCheckpointed),
        }
    }

    fn revoke(&mut self, entry: &Entry, revoke: &Revoke) -> Result<Body, Code> {
        let granted = *self.leases.get(&revoke.id).ok_or(Code::LeaseNotFound)?;
        let lawful = |guard: &coord::Guard| guard.term == entry.at.term && guard.granted == granted;
        if !revoke.guard.as_ref().is_none_or(lawful) {
            return Err(Code::LeaseNotFound);
        }
        self.leases.remove(&revoke.id);
        self.numbered.remove(&revoke.id);
        let entries = self.queues.values().flatten().filter(|entry| entry.lease == revoke.id).count();
        self.queues.values_mut().for_each(|queue| queue.retain(|entry| entry.lease != revoke.id));
        self.revision += i64::from(entries > 0);
        Ok(Body::LeaseRevoked)
    }

    fn acquire(&mut self, acquire: &Acquire) -> Result<Body, Code> {
        if !self.leases.contains_key(&acquire.lease) {
            return Err(Code::LeaseNotFound);
        }
        let next = Revision(self.revision + 1);
        let queue = self.queues.entry(acquire.name.clone()).or_default();
        let holder = queue.first().map(|entry| holder(&acquire.name, entry));
        let mine = queue.iter().position(|entry| entry.lease == acquire.lease);
        let ahead = mine.unwrap_or(queue.len());
        let key = key(&acquire.name, acquire.lease);
        let acquired = ahead == 0;
        let reply = |token| Body::Lock(LockReply { key, token, acquired, ahead: ahead as u64, holder });
        match mine {
            Some(at) => {
                let entry = &mut queue[at];
                if (acquired || !acquire.is_try)
                    && let Some(calls) = &mut entry.calls
                {
                    if !acquired {
                        calls.clear();
                    }
                    calls.insert(acquire.call);
                    if calls.len() > 16 {
                        entry.calls = None;
                    }
                }
                Ok(reply(entry.token))
            }
            None if acquire.is_try && !acquired => Ok(reply(Revision::ZERO)),
            None => {
                let calls = Some(BTreeSet::from([acquire.call]));
                queue.push(QueueEntry { lease: acquire.lease, token: next, calls });
                self.revision += 1;
                Ok(reply(next))
            }
        }
    }

    fn release(&mut self, release: &Release) -> Result<Body, Code> {
        for (lock, queue) in &mut self.queues {
            let holds = |entry: &&QueueEntry| {
                key(lock, entry.lease) == release.key
                    && (release.token == Revision::ZERO || release.token == entry.token)
            };
            if queue.first().as_ref().is_some_and(holds) {
                queue.remove(0);
                self.revision += 1;
                return Ok(Body::Unlocked);
            }
        }
        Err(Code::NotLockHolder)
    }

    fn leave(&mut self, leave: &Leave) -> Body {
        for (lock, queue) in &mut self.queues {
            let Some(at) = queue.iter().position(|entry| key(lock, entry.lease) == leave.key) else {
                continue;
            };
            let token = queue[at].token;
            let Some(calls) = &mut queue[at].calls else { continue };
            if !calls.contains(&leave.call) {
                continue;
            }
            if at == 0 && leave.keeps_held {
                return Body::Left { holding: Some(token) };
            }
            calls.remove(&leave.call);
            if calls.is_empty() {
                queue.remove(at);
                self.revision += 1;
            }
        }
        Body::Left { holding: None }
    }

    fn holding(&self, lock: &Bytes) -> Revision {
        self.queues.get(lock).and_then(|queue| queue.first()).map_or(Revision::ZERO, |entry| entry.token)
    }

    fn write(&mut self, fence: &FencingToken) -> Body {
        let last = self.holding(&fence.lock);
        if last == Revision::ZERO || last != fence.token {
            return Body::Fenced(FenceRefusal { lock: fence.lock.clone(), given: fence.token, last });
        }
        let before = self.written.insert(fence.lock.clone(), fence.token);
        assert!(
            before.is_none_or(|before| before <= fence.token),
            "the model lets no client write out of order"
        );
        self.revision += 1;
        Body::Put(PutReply::default())
    }

    fn check(&mut self, check: &CheckFence) -> Result<Body, Code> {
        let token = check.fence.token;
        if token.0 <= 0 || token.0 > self.revision {
            return Err(Code::UnknownToken);
        }
        let last = self.fences.get(&check.resource).copied().unwrap_or_default();
        if token < last {
            let lock = check.fence.lock.clone();
            return Ok(Body::Fenced(FenceRefusal { lock, given: token, last }));
        }
        self.fences.insert(check.resource.clone(), token);
        Ok(Body::FencePassed { last: token })
    }
}

fn key(lock: &Bytes, lease: LeaseId) -> Bytes {
    Bytes::from([lock.as_ref(), b"/", format!("{:x}", lease.0).as_bytes()].concat())
}

fn holder(lock: &Bytes, entry: &QueueEntry) -> LockHolder {
    LockHolder { key: key(lock, entry.lease), token: entry.token }
}

pub fn violation(what: String) -> Violation {
    Violation { checker: Checker::Lock, what }
}
