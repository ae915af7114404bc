//! Clients that hold leases, and one who forgets the past.
//! Tenants grant leases without keys (so no revision tells of them), keep them alive for a while through any
//! member, and then fall silent or revoke. The world sees the committed log, so it knows the true time at which
//! a lease ended, and no lease may end by expiry before its TTL has passed since its tenant sent the last
//! request that was acknowledged. Allowed for: 5 % of the TTL for a leader's fast clock, and as much of each
//! jump of a clock as the product says it counts. In the end no lease may be left.

use crate::oracle::{Checker, Violation};
use crate::world::{Checked, Event, World};
use base::mutant::{Mutant, planted};
use base::{Code, LeaseId, Revision, Token};
use coord::reply::{Body, Reply};
use coord::{Command, Compact, Grant, Revoke};
use node::{Input, Question, Work, batch};
use raft::Entry;
use std::collections::BTreeMap;
use std::time::Duration;

pub const TENANTS: usize = 4;
const DEADLINE: Duration = Duration::from_millis(2_500);
/// What a jump of a clock may count, and what the simulated clocks round away.
const JUMP_US: u64 = 250_000;
const ROUNDING_US: u64 = 5_000;

#[derive(Default)]
pub struct Tenants {
    holding: [Option<LeaseId>; TENANTS],
    leases: BTreeMap<LeaseId, Lease>,
    /// When a clock jumped, in true time.
    jumps: Vec<u64>,
    pub ended: u64,
}

struct Lease {
    ttl_us: u64,
    renewals_left: u64,
    /// When the last acknowledged grant or renewal was sent.
    since: Option<u64>,
    /// When it expired.
    ended: Option<u64>,
}

/// What a tenant waits for.
#[derive(Clone, Copy, Debug)]
pub struct Errand {
    id: LeaseId,
    sent: u64,
}

impl Tenants {
    pub fn clock_jumped(&mut self, now: u64) {
        self.jumps.push(now);
    }

    /// Whether what is known of a lease is lawful.
    fn check(&self, id: LeaseId) -> Checked {
        let lease = &self.leases[&id];
        let (Some(since), Some(ended)) = (lease.since, lease.ended) else { return Ok(()) };
        let jumps = self.jumps.iter().filter(|at| (since..=ended).contains(at)).count() as u64;
        let allowed = lease.ttl_us / 20 + jumps * JUMP_US + ROUNDING_US;
        if ended + allowed >= since + lease.ttl_us {
            return Ok(());
        }
        let early = since + lease.ttl_us - ended;
        let what = format!("lease {id} of {} µs ended {early} µs early, at {ended}", lease.ttl_us);
        Err(Violation { checker: Checker::Lease, what })
    }

    /// The log says that a lease has expired.
    pub fn committed(&mut self, now: u64, entry: &Entry) -> Checked {
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            let Some(Command::LeaseRevoke(Revoke { id, guard: Some(guard) })) =
                Command::decode(proposal.command)
            else {
                continue;
            };
            let believed = guard.term == entry.at.term || planted(Mutant::RevokeWithoutGuard);
            if let Some(lease) = self.leases.get_mut(&id).filter(|lease| believed && lease.ended.is_none()) {
                lease.ended = Some(now);
                self.ended += 1;
                self.check(id)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, errand: Errand, reply: &Result<Reply, Code>) -> Checked {
        let kept = match reply.as_ref().map(|reply| &reply.body) {
            Ok(Body::LeaseGranted { .. }) => true,
            Ok(Body::LeaseRenewed { ttl }) => *ttl > 0,
            _ => return Ok(()),
        };
        if !kept {
            self.holding.iter_mut().filter(|held| **held == Some(errand.id)).for_each(|held| *held = None);
            return Ok(());
        }
        let lease = self.leases.get_mut(&errand.id).expect("it was asked for");
        lease.since = Some(lease.since.unwrap_or(0).max(errand.sent));
        self.check(errand.id)
    }
}

impl World {
    /// A tenant does the next thing, and comes back for another.
    pub fn tenant(&mut self, tenant: usize) -> Checked {
        if self.clients.stopped {
            return Ok(());
        }
        let pause = self.rng.between(200_000, 1_500_000);
        self.agenda.after(pause, Event::Tenant { tenant });
        let host = self.rng.between(0, self.hosts.len() as u64) as usize;
        if self.hosts[host].process.is_none() {
            return Ok(());
        }
        let (id, work) = self.next_errand(tenant, host);
        let Some(work) = work else { return Ok(()) };
        let errand = Errand { id, sent: self.agenda.now() };
        let life = self.hosts[host].life;
        self.agenda.after(100, Event::Errand { host, life, errand, work });
        Ok(())
    }

    fn next_errand(&mut self, tenant: usize, host: usize) -> (LeaseId, Option<Work>) {
        if tenant == 0 && self.rng.chance(300_000) {
            return (LeaseId::NONE, Some(self.compaction(host)));
        }
        let Some(id) = self.tenants.holding[tenant] else {
            let id = LeaseId(self.tenants.leases.len() as i64 + 1);
            let ttl = self.rng.between(2, 9);
            let renewals_left = self.rng.between(0, 12);
            let lease = Lease { ttl_us: ttl * 1_000_000, renewals_left, since: None, ended: None };
            self.tenants.leases.insert(id, lease);
            self.tenants.holding[tenant] = Some(id);
            return (id, Some(propose(&Command::LeaseGrant(Grant { id, ttl: ttl as i64 }))));
        };
        let lease = self.tenants.leases.get_mut(&id).expect("what is held was granted");
        if lease.renewals_left > 0 {
            lease.renewals_left -= 1;
            return (id, Some(Work::Ask(Question::KeepAlive(id))));
        }
        self.tenants.holding[tenant] = None;
        let revokes = self.rng.chance(200_000);
        (id, revokes.then(|| propose(&Command::LeaseRevoke(Revoke { id, guard: None }))))
    }

    fn compaction(&mut self, host: usize) -> Work {
        let back = self.rng.between(0, 20) as i64;
        let revision = Revision(self.process(host).member.apply.revision().0 - back);
        self.truth.compactions.insert(revision);
        propose(&Command::Compact(Compact { revision, physical: self.rng.chance(500_000) }))
    }

    pub fn errand(&mut self, host: usize, errand: Errand, work: Work) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        let process = self.process(host);
        process.tokens += 1;
        let token = Token(process.tokens);
        process.errands.insert(token, errand);
        self.drive(host, Input::Request(node::Request { token, deadline, work }))
    }

    pub fn tell_tenant(&mut self, host: usize, token: Token, reply: &Result<Reply, Code>) {
        if let Some(errand) = self.process(host).errands.remove(&token)
            && let Err(violation) = self.tenants.answered(errand, reply)
        {
            self.broken.get_or_insert(violation);
        }
    }

    /// After everybody has left, nothing is left of the leases.
    pub fn check_all_ended(&self) -> Checked {
        let members = self.hosts.iter().filter_map(|host| host.process.as_ref());
        match members.map(|process| process.member.apply.lease_count()).max() {
            Some(0) | None => Ok(()),
            Some(left) => {
                let what = format!("{left} leases live on although nobody keeps them");
                Err(Violation { checker: Checker::Lease, what })
            }
        }
    }
}

fn propose(command: &Command) -> Work {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    Work::Propose(bytes.into())
}
