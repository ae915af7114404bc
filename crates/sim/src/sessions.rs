//! Clients that repeat a request until they know what became of it.
//! Every other client keeps a session: a lease, under whose id its mutations are numbered. When such a client hears
//! nothing in time, or its member dies, it sends the same request under the same number to any member; in the history
//! that is one operation. A session that is lost ends this: then what became of the request is unknown for good.

use crate::history::{ModelRequest, Outcome};
use crate::lease_holders::SideRequest;
use crate::world::{Checked, Event, World};
use base::{Code, LeaseId};
use coord::reply::{Body, Reply};
use coord::{Command, Grant, RequestId};
use node::{ClientWork, LeaderQuestion};
use std::collections::BTreeMap;

/// After so many times a client stops asking.
const ATTEMPTS_MAX: u32 = 8;

#[derive(Default)]
pub struct Sessions {
    by_client: BTreeMap<usize, Session>,
    /// Under which id an operation goes, however often it is sent.
    ids: BTreeMap<usize, RequestId>,
    /// How often the operations under way that may be sent again were so.
    attempts: BTreeMap<usize, u32>,
}

struct Session {
    lease: LeaseId,
    /// The member has said that it is granted.
    granted: bool,
    last_seq: u64,
}

pub fn is_careful(client: usize) -> bool {
    client.is_multiple_of(2)
}

impl Sessions {
    pub fn id_of(&self, operation: usize) -> Option<RequestId> {
        self.ids.get(&operation).copied()
    }

    pub fn attempt_of(&self, operation: usize) -> u32 {
        self.attempts.get(&operation).copied().unwrap_or(0)
    }

    /// It is over, or asking again would not help.
    pub fn give_up(&mut self, operation: usize) {
        self.attempts.remove(&operation);
    }

    /// What an answer means for a request that was sent more than once: some refusals are about this attempt alone.
    pub fn outcome_of(&self, operation: usize, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Refused(Code::TooManyRequests | Code::SessionUnknown | Code::RequestForgotten)
                if self.attempt_of(operation) > 0 =>
            {
                Outcome::Unknown
            }
            outcome => outcome,
        }
    }

    /// An answer about a lease that may be a client's session.
    pub fn heard(&mut self, lease: LeaseId, answer: &Result<Reply, Code>) {
        match answer.as_ref().map(|reply| &reply.body) {
            Ok(Body::LeaseGranted { .. }) => {
                let session = self.by_client.values_mut().find(|session| session.lease == lease);
                session.into_iter().for_each(|session| session.granted = true);
            }
            Ok(Body::LeaseRenewed { ttl: 0, .. }) => self.lost(lease),
            _ => {}
        }
    }

    pub fn lost(&mut self, lease: LeaseId) {
        self.by_client.retain(|_, session| session.lease != lease);
    }
}

impl World {
    /// A careful client renews its session, or begins one.
    pub fn keep_session(&mut self, client: usize) -> Checked {
        if self.clients.stopped {
            return Ok(());
        }
        let pause = self.rng.between(300_000, 2_500_000);
        self.events.after(pause, Event::Session { client });
        let Some(host) = self.any_running_host() else { return Ok(()) };
        let (lease, work) = match self.sessions.by_client.get(&client) {
            Some(session) if session.granted => {
                (session.lease, ClientWork::LeaderQuestion(LeaderQuestion::KeepAlive(session.lease)))
            }
            // If nothing was heard of a grant, another lease is taken: an id is never used twice.
            _ => {
                let ttl = self.rng.between(4, 9);
                let lease = self.lease_holders.begin_lease(ttl, 0);
                self.real_time.grant_asked(lease, self.events.now());
                self.sessions.by_client.insert(client, Session { lease, granted: false, last_seq: 0 });
                let grant = Grant { id: lease, ttl: ttl as i64 };
                (lease, crate::lease_holders::propose(&Command::LeaseGrant(grant)))
            }
        };
        let side_request = SideRequest::about(lease, self.events.now());
        let pid = self.hosts[host].pid;
        self.events.after(100, Event::SideRequest { host, pid, side_request, work });
        Ok(())
    }

    pub fn any_running_host(&mut self) -> Option<usize> {
        let host = self.any_host();
        self.hosts[host].process.is_some().then_some(host)
    }

    /// Numbers an operation if its client has a session and it may change something.
    pub fn identify(&mut self, client: usize, operation: usize) {
        let ModelRequest::Kv(request) = &self.clients.history[operation].request else { return };
        if request.is_read_only() {
            return;
        }
        let Some(session) = self.sessions.by_client.get_mut(&client).filter(|session| session.granted) else {
            return;
        };
        session.last_seq += 1;
        let (lease, seq) = (session.lease, session.last_seq);
        // It may be slow to say that it has its answers.
        let low = seq - self.rng.between(0, 4).min(seq - 1);
        self.sessions.ids.insert(operation, RequestId { session: lease, seq, low });
        self.sessions.attempts.insert(operation, 0);
    }

    /// Sends an operation of unknown outcome again, if it is one that can be; false when it is given up.
    pub fn try_again(&mut self, operation: usize) -> bool {
        if self.clients.stopped || !self.clients.is_under_way(operation) {
            return false;
        }
        let Some(attempt) = self.sessions.attempts.get_mut(&operation) else { return false };
        if *attempt + 1 >= ATTEMPTS_MAX {
            return false;
        }
        *attempt += 1;
        self.counts.retries += 1;
        let pause = self.rng.between(1_000, 600_000);
        self.events.after(pause, Event::Retry { operation });
        true
    }

    pub fn retry(&mut self, operation: usize) -> Checked {
        if !self.clients.is_under_way(operation) {
            return Ok(());
        }
        match self.any_running_host() {
            Some(host) => self.send_operation(host, operation),
            None => self.events.after(100_000, Event::Retry { operation }),
        }
        Ok(())
    }
}
