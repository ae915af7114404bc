//! Clients that hold leases, and one who forgets the past.
//! Tenants grant leases, to which other clients attach keys, keep them alive for a while through any member, and then
//! fall silent or revoke. The world sees the committed log, so it knows the true time at which
//! a lease ended, and no lease may end by expiry before its TTL has passed since its tenant sent the last
//! request that was acknowledged. Allowed for: 5 % of the TTL for a leader's fast clock, and as much of each
//! jump of a clock as the product says it counts. In the end no lease may be left.

use crate::history::{ModelRequest, Operation, Outcome};
use crate::host::outcome_of;
use crate::oracle::{Checker, Violation};
use crate::world::{Checked, Event, World};
use base::mutant::planted;
use base::{Code, LeaseId, ReplyToken, Revision, Term};
use coord::reply::{Body, Reply};
use coord::{Command, Compact, Grant, Revoke};
use node::{ClientWork, ConsensusInput, LeaderQuestion, batch};
use raft::Entry;
use std::collections::BTreeMap;
use std::time::Duration;

pub const LEASE_HOLDERS: usize = 4;
const DEADLINE: Duration = Duration::from_millis(2_500);
/// What a jump of a clock may count, and what the simulated clocks round away.
const JUMP_US: u64 = 250_000;
const ROUNDING_US: u64 = 5_000;
/// A renewal that was sent may still be answered by the leader until its asker stops asking for it.
const RENEWAL_ON_THE_WAY_US: u64 = 3_500_000;
/// What a new leader adds to every lease.
const ELECTION_US: u64 = 1_000_000;
/// From the end of a lease's time until that is committed: a tick, the way through the log, and one repetition.
const PROPOSAL_US: u64 = 2_500_000;
/// The client number of operations that end leases.
const LEASE_ENDER: u64 = 1_000;

#[derive(Default)]
pub struct LeaseHolders {
    holding: [Option<LeaseId>; LEASE_HOLDERS],
    leases: BTreeMap<LeaseId, Lease>,
    /// When a clock jumped, in true time.
    jumps: Vec<u64>,
    /// The newest term of which an entry was committed, and when the first of them was.
    first_commit: (Term, u64),
    pub ended: u64,
}

struct Lease {
    ttl_us: u64,
    renewals_left: u64,
    /// When the last acknowledged grant or renewal was sent.
    since: Option<u64>,
    /// When it expired.
    ended: Option<u64>,
    /// When it was last asked for or renewed, whatever became of that.
    touched: u64,
}

/// What a tenant waits for.
#[derive(Clone, Copy, Debug)]
pub struct SideRequest {
    id: LeaseId,
    sent: u64,
    what: SideRequestKind,
}

#[derive(Clone, Copy, Debug)]
enum SideRequestKind {
    Lease,
    /// A revoke, which is an operation of the history.
    Revoke(usize),
    /// A compaction, by its number in the registers.
    Compaction(usize),
    /// A change of the cluster.
    Change,
    /// A document that a clerk replaces, by the clerk's number.
    Document(usize),
    /// Something that a guest or the administrator asked for, by its number.
    AuthUser(usize),
}

impl SideRequest {
    /// A grant or a renewal.
    pub fn about(id: LeaseId, sent: u64) -> SideRequest {
        SideRequest { id, sent, what: SideRequestKind::Lease }
    }

    /// A change of the cluster.
    pub fn of_operator(sent: u64) -> SideRequest {
        SideRequest { id: LeaseId::NONE, sent, what: SideRequestKind::Change }
    }

    pub fn of_auth_user(sent: u64, number: usize) -> SideRequest {
        SideRequest { id: LeaseId::NONE, sent, what: SideRequestKind::AuthUser(number) }
    }

    pub fn of_document_writer(sent: u64, number: usize) -> SideRequest {
        SideRequest { id: LeaseId::NONE, sent, what: SideRequestKind::Document(number) }
    }
}

impl LeaseHolders {
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

    /// A new lease, under an id that no other had.
    pub fn begin_lease(&mut self, ttl: u64, renewals_left: u64) -> LeaseId {
        let id = LeaseId(self.leases.len() as i64 + 1);
        let ttl_us = ttl * 1_000_000;
        self.leases.insert(id, Lease { ttl_us, renewals_left, since: None, ended: None, touched: 0 });
        id
    }

    fn touch(&mut self, id: LeaseId, now: u64) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.touched = now;
        }
    }

    /// The log says that a lease has expired; false if that was known.
    fn expired(&mut self, id: LeaseId, now: u64) -> bool {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.ended.is_none()) else {
            return false;
        };
        lease.ended = Some(now);
        self.ended += 1;
        true
    }

    fn committed(&mut self, term: Term, now: u64) {
        if term > self.first_commit.0 {
            self.first_commit = (term, now);
        }
    }

    /// A lease that no client renews ends by then, if all has been calm since `quiet_since` and this was the last
    /// election. A new leader learns of the grants that it has not applied yet when it commits its first entry, which is
    /// behind them: with a long log and slow disks that takes seconds.
    fn check_not_late(&self, id: LeaseId, quiet_since: u64) -> Checked {
        let lease = &self.leases[&id];
        let last_renewal = lease.touched + RENEWAL_ON_THE_WAY_US;
        let by_its_leader = (lease.ttl_us + ELECTION_US) * 100 / 95;
        let known_since = quiet_since.max(self.first_commit.1);
        let bound = last_renewal.max(known_since) + by_its_leader + PROPOSAL_US;
        match lease.ended {
            Some(ended) if ended > bound => {
                let late = ended - bound;
                let what = format!("lease {id} of {} µs ended {late} µs too late, at {ended}", lease.ttl_us);
                Err(Violation { checker: Checker::Lease, what })
            }
            _ => Ok(()),
        }
    }

    fn answered(&mut self, side_request: SideRequest, reply: &Result<Reply, Code>) -> Checked {
        let kept = match reply.as_ref().map(|reply| &reply.body) {
            Ok(Body::LeaseGranted { .. }) => true,
            Ok(Body::LeaseRenewed { ttl, .. }) => *ttl > 0,
            _ => return Ok(()),
        };
        if !kept {
            self.holding
                .iter_mut()
                .filter(|held| **held == Some(side_request.id))
                .for_each(|held| *held = None);
            return Ok(());
        }
        let lease = self.leases.get_mut(&side_request.id).expect("it was asked for");
        lease.since = Some(lease.since.unwrap_or(0).max(side_request.sent));
        self.check(side_request.id)
    }
}

impl World {
    /// A tenant does the next thing, and comes back for another.
    pub fn lease_holder(&mut self, lease_holder: usize) -> Checked {
        if self.clients.stopped {
            return Ok(());
        }
        let pause = self.rng.between(200_000, 1_500_000);
        self.events.after(pause, Event::LeaseHolder { lease_holder });
        let host = self.any_host();
        if self.hosts[host].process.is_none() {
            return Ok(());
        }
        let Some((side_request, work)) = self.next_side_request(lease_holder, host) else { return Ok(()) };
        let pid = self.hosts[host].pid;
        self.events.after(100, Event::SideRequest { host, pid, side_request, work });
        Ok(())
    }

    fn next_side_request(&mut self, lease_holder: usize, host: usize) -> Option<(SideRequest, ClientWork)> {
        let now = self.events.now();
        let bias = self.settings.bias;
        if lease_holder == 0 && !self.settings.leader_compacts && self.rng.chance(bias.compactions) {
            return Some(self.compaction(host));
        }
        let Some(id) = self.lease_holders.holding[lease_holder] else {
            let ttl = self.rng.between(bias.ttl_seconds.0, bias.ttl_seconds.1);
            let renewals = self.rng.between(bias.renewals.0, bias.renewals.1);
            let id = self.lease_holders.begin_lease(ttl, renewals);
            self.lease_holders.holding[lease_holder] = Some(id);
            self.real_time.grant_asked(id, now);
            return Some((
                SideRequest::about(id, now),
                propose(&Command::LeaseGrant(Grant { id, ttl: ttl as i64 })),
            ));
        };
        let lease = self.lease_holders.leases.get_mut(&id).expect("what is held was granted");
        if lease.renewals_left > 0 {
            lease.renewals_left -= 1;
            return Some((
                SideRequest::about(id, now),
                ClientWork::LeaderQuestion(LeaderQuestion::KeepAlive(id)),
            ));
        }
        self.lease_holders.holding[lease_holder] = None;
        self.rng.chance(300_000).then(|| self.revocation(id))
    }

    fn revocation(&mut self, id: LeaseId) -> (SideRequest, ClientWork) {
        let sent = self.events.now();
        let operation = self.note_end(id);
        let work = propose(&Command::LeaseRevoke(Revoke { id, guard: None }));
        (SideRequest { id, sent, what: SideRequestKind::Revoke(operation) }, work)
    }

    /// From now on a lease may end: an operation whose outcome is unknown until a client hears of it.
    fn note_end(&mut self, id: LeaseId) -> usize {
        let invoked = self.events.now();
        self.real_time.end_possible(id, invoked);
        let request = ModelRequest::EndLease(id);
        let outcome = Outcome::Unknown;
        let client = LEASE_ENDER;
        self.clients.history.push(Operation { client, invoked, returned: None, request, outcome });
        self.clients.history.len() - 1
    }

    fn compaction(&mut self, host: usize) -> (SideRequest, ClientWork) {
        let sent = self.events.now();
        let back = self.rng.between(0, 20) as i64;
        let newest_delete = self.truth.deletes.last().copied().filter(|_| self.settings.bias.compact_deletes);
        let back = Revision(self.process(host).member.apply.revision().0 - back);
        let revision = newest_delete.unwrap_or(back);
        self.truth.compactions.insert(revision);
        let what = SideRequestKind::Compaction(self.real_time.compaction_asked(revision, sent));
        let physical = self.rng.chance(500_000);
        (
            SideRequest { id: LeaseId::NONE, sent, what },
            propose(&Command::Compact(Compact { revision, physical })),
        )
    }

    /// The log may say that leases have expired.
    pub fn lease_ends(&mut self, entry: &Entry) -> Checked {
        let now = self.events.now();
        self.lease_holders.committed(entry.at.term, now);
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            let Some(Command::LeaseRevoke(Revoke { id, guard: Some(guard) })) =
                Command::decode(proposal.command)
            else {
                continue;
            };
            let believed = guard.term == entry.at.term || planted(coord::Mutant::RevokeWithoutGuard);
            if believed && self.lease_holders.expired(id, now) {
                self.counts.expired += 1;
                self.note_end(id);
                self.lease_holders.check(id)?;
                if self.calm {
                    self.lease_holders.check_not_late(id, self.quiet_since)?;
                }
            }
        }
        Ok(())
    }

    pub fn side_request(&mut self, host: usize, side_request: SideRequest, work: ClientWork) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        let process = self.process(host);
        process.tokens += 1;
        let token = ReplyToken(process.tokens);
        process.side_requests.insert(token, side_request);
        if matches!(side_request.what, SideRequestKind::Lease) {
            self.lease_holders.touch(side_request.id, side_request.sent);
        }
        self.drive(host, ConsensusInput::Request(node::ClientRequest { token, deadline, work }))
    }

    pub fn answer_side_request(&mut self, host: usize, token: ReplyToken, reply: &Result<Reply, Code>) {
        let Some(side_request) = self.process(host).side_requests.remove(&token) else { return };
        let now = self.events.now();
        match side_request.what {
            SideRequestKind::Lease => self.sessions.heard(side_request.id, reply),
            SideRequestKind::Revoke(operation) => {
                let operation = &mut self.clients.history[operation];
                operation.outcome = outcome_of(reply.clone());
                operation.returned = (operation.outcome != Outcome::Unknown).then_some(now);
            }
            SideRequestKind::Compaction(number) if reply.is_ok() => self.real_time.compacted(number, now),
            SideRequestKind::Compaction(_) => {}
            SideRequestKind::Document(number) => self.document_writers.answered(number, reply),
            SideRequestKind::AuthUser(number) => {
                if let Err(violation) = self.answer_auth_user(number, reply) {
                    self.broken.get_or_insert(violation);
                }
            }
            SideRequestKind::Change => self.operators.answered(outcome_of(reply.clone()) != Outcome::Unknown),
        }
        if let Ok(Reply { body: Body::LeaseGranted { id, .. }, .. }) = reply {
            self.real_time.granted(*id, now);
            self.clients.workload.add_lease(*id);
        }
        if let Err(violation) = self.lease_holders.answered(side_request, reply) {
            self.broken.get_or_insert(violation);
        }
    }

    /// After all clients have left, no lease is left.
    pub fn check_all_ended(&self) -> Checked {
        let members = self.hosts.iter().filter_map(|host| host.process.as_ref());
        match members.map(|process| process.member.apply.lease_count()).max() {
            Some(0) | None => Ok(()),
            Some(left) => {
                let all =
                    (0..self.hosts.len()).map(|host| self.standing(host)).collect::<Vec<_>>().join("; ");
                let what = format!(
                    "{left} leases live on although no client keeps them, at {} and quiet since {}: {all}",
                    self.events.now(),
                    self.quiet_since
                );
                Err(Violation { checker: Checker::Lease, what })
            }
        }
    }
}

pub fn propose(command: &Command) -> ClientWork {
    let mut bytes = Vec::new();
    command.encode(&mut bytes);
    ClientWork::Propose(bytes.into())
}
