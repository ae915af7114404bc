//! The leader's clock for leases: it renews leases, reports their remaining time, and proposes to revoke expired
//! ones. Leadership, time and the applied state go in; proposals and answers come out. It changes nothing itself: a
//! lease ends when its revoke is applied, and until then is proposed again. Once the end of a lease was proposed it
//! is never renewed; a lease never ends before its time has passed on this member's clock since the last renewal or,
//! after an election, since the election.

use crate::mutant::Mutant;
use crate::question::{AskedQuestion, AskerId, LeaderAnswer, LeaderQuestion};
use base::limits::{
    LEASE_CHECKPOINTS_MAX, LEASE_EXPIRIES_PER_SECOND_MAX, LEASE_REVOKES_IN_FLIGHT_MAX, LEASES_ENDING_MAX,
};
use base::mutant::planted;
use base::{Code, Index, Instant, LeaseId, Term};
use bytes::Bytes;
use coord::reply::{Body, EndingLease, LeaseRenewal, LeaseTime, Reply};
use coord::{Checkpoint, Command, Guard, Lease, Revoke, State};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct LeaseClockParams {
    /// What a new leader adds to every lease: for so long there may have been no leader to renew it.
    pub election: Duration,
    /// How often what is left of a long lease is recorded.
    pub checkpoint_interval: Duration,
}

/// A step of the clock beyond this counts as this much. After a longer step the process was paused, or its clock
/// jumped: keep-alives could not arrive meanwhile, and those that wait are to be processed first.
const STEP_MAX: Duration = Duration::from_millis(250);
/// A proposal that was not applied after this long is made again.
const PROPOSE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Commands for the leader of this term alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderProposals {
    pub term: Term,
    pub commands: Vec<Bytes>,
}

impl LeaderProposals {
    pub fn new(term: Term, commands: impl IntoIterator<Item = Command>) -> LeaderProposals {
        let encode = |command: Command| {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            bytes.into()
        };
        LeaderProposals { term, commands: commands.into_iter().map(encode).collect() }
    }
}

pub(crate) struct LeaseClock {
    params: LeaseClockParams,
    /// The time that was counted; `seen` is the clock's reading that it was last moved by.
    counted: Instant,
    seen: Instant,
    leading: Option<LeaderLeases>,
}

/// Lives as long as a term of leadership.
struct LeaderLeases {
    term: Term,
    timers: BTreeMap<LeaseId, Timer>,
    /// When something is to be done about a lease: its time is up, or its revoke is to be proposed again.
    agenda: BTreeSet<(Instant, LeaseId)>,
    /// When what is left of a lease is to be recorded.
    checkpoints: BTreeSet<(Instant, LeaseId)>,
    revokes_in_flight: usize,
    /// Renewals so far.
    renewals: u64,
    /// Questions that wait until a proposal about their lease is applied.
    held: BTreeMap<LeaseId, Vec<AskedQuestion>>,
}

struct Timer {
    granted: Index,
    ttl: i64,
    /// When its time is up.
    due: Instant,
    /// Its place in the agenda.
    next: Instant,
    checkpoint_at: Option<Instant>,
    /// The number of its last renewal in this term; zero before the first.
    renewal: u64,
    is_ending: bool,
    /// A checkpoint was proposed and not seen since.
    is_recording: bool,
    /// When it was last proposed to forget the checkpoint, because the lease is to be renewed.
    clearing_since: Option<Instant>,
}

#[derive(Default)]
pub(crate) struct LeaseOutput {
    pub answers: Vec<(AskerId, LeaderAnswer)>,
    pub commands: Vec<Command>,
}

impl LeaseClock {
    pub fn new(params: LeaseClockParams, now: Instant) -> LeaseClock {
        LeaseClock { params, counted: Instant::ZERO, seen: now, leading: None }
    }

    /// This member leads in `term`, or does not lead.
    pub fn set_leading(
        &mut self,
        now: Instant,
        term: Option<Term>,
        state: &State,
        lease_out: &mut LeaseOutput,
    ) {
        self.advance_clock(now);
        if let Some(before) = self.leading.take() {
            lease_out.answers.extend(before.held.values().flatten().map(|ask| (ask.asker, None)));
        }
        self.leading = term.map(|term| self.begin(term, state));
    }

    /// The state was replaced by another member's: a leader does not need a snapshot.
    pub fn forget(&mut self) {
        self.leading = None;
    }

    pub fn term(&self) -> Option<Term> {
        self.leading.as_ref().map(|leading| leading.term)
    }

    fn begin(&self, term: Term, state: &State) -> LeaderLeases {
        let mut leading = LeaderLeases {
            term,
            timers: BTreeMap::new(),
            agenda: BTreeSet::new(),
            checkpoints: BTreeSet::new(),
            revokes_in_flight: 0,
            renewals: 0,
            held: BTreeMap::new(),
        };
        let mut owed: Vec<(i64, LeaseId, &Lease)> =
            state.leases().map(|(id, lease)| (lease.owed(), id, lease)).collect();
        owed.sort_unstable_by_key(|(owed, id, _)| (*owed, *id));
        let mut spread = ExpirySpread::default();
        for (owed, id, lease) in owed {
            let due = if planted(Mutant::TtlShortenedByElection) {
                self.counted.after(Duration::from_secs(owed as u64 / 4))
            } else {
                self.counted.after(seconds(owed)).after(self.params.election)
            };
            leading.add(id, lease, spread.place(due), self.counted.after(self.params.checkpoint_interval));
        }
        leading
    }

    fn advance_clock(&mut self, now: Instant) {
        self.counted = self.counted.after(now.since(self.seen).min(STEP_MAX));
        self.seen = self.seen.max(now);
    }

    /// A command was applied with this answer.
    pub fn on_applied(
        &mut self,
        now: Instant,
        command: &Command,
        answer: &Result<Reply, Code>,
        state: &State,
        lease_out: &mut LeaseOutput,
    ) {
        match command {
            Command::Idempotent(once) => self.on_applied(now, once.command(), answer, state, lease_out),
            Command::Authed(authed) => self.on_applied(now, authed.command(), answer, state, lease_out),
            // The answer contains the id, whether the client or a member chose it.
            Command::LeaseGrant(_) => {
                if let Ok(Reply { body: Body::LeaseGranted { id, .. }, .. }) = answer {
                    self.on_lease(now, *id, state, lease_out);
                }
            }
            Command::LeaseRevoke(revoke) => self.on_lease(now, revoke.id, state, lease_out),
            Command::LeaseCheckpoint(list) => {
                for Checkpoint { id, remaining, .. } in list {
                    let timers = self.leading.as_mut().map(|leading| &mut leading.timers);
                    if let Some(timer) = timers.and_then(|timers| timers.get_mut(id)) {
                        timer.is_recording = false;
                    }
                    if *remaining == 0 {
                        self.prolong(now, *id);
                    }
                    self.on_lease(now, *id, state, lease_out);
                }
            }
            Command::Put(_) | Command::Delete(_) | Command::Txn(_) | Command::Compact(_) => {}
            Command::LockAcquire(_) | Command::LockRelease(_) | Command::LockLeave(_) => {}
            Command::Fenced(_) | Command::FenceCheck(_) => {}
            Command::Alarm(_)
            | Command::Members(_)
            | Command::TimeMark { .. }
            | Command::Auth(_)
            | Command::Quota(_)
            | Command::Document(_) => {}
        }
    }

    /// A leader begins before it has applied all of its log. A checkpoint that is cleared there was cleared for a
    /// renewal by the earlier leader: the lease gets its whole time again.
    fn prolong(&mut self, now: Instant, id: LeaseId) {
        self.advance_clock(now);
        let Some(leading) = &mut self.leading else { return };
        let Some(timer) = leading.timers.get_mut(&id).filter(|timer| timer.renewal == 0 && !timer.is_ending)
        else {
            return;
        };
        let due = self.counted.after(seconds(timer.ttl)).after(self.params.election);
        leading.agenda.remove(&(timer.next, id));
        leading.agenda.insert((due, id));
        (timer.due, timer.next) = (due, due);
    }

    fn on_lease(&mut self, now: Instant, id: LeaseId, state: &State, lease_out: &mut LeaseOutput) {
        self.advance_clock(now);
        let counted = self.counted;
        let checkpoint_at = counted.after(self.params.checkpoint_interval);
        let Some(leading) = &mut self.leading else { return };
        let lease = state.lease(id);
        let known = leading.timers.get(&id).map(|timer| timer.granted);
        if known != lease.map(|lease| lease.granted) {
            leading.remove(id);
            if let Some(lease) = lease {
                leading.add(id, lease, counted.after(seconds(lease.ttl)), checkpoint_at);
            }
        }
        for ask in leading.held.remove(&id).unwrap_or_default() {
            self.answer(now, ask, state, lease_out);
        }
    }

    /// Answers, or keeps the question until it can be answered.
    pub fn answer(&mut self, now: Instant, ask: AskedQuestion, state: &State, lease_out: &mut LeaseOutput) {
        self.advance_clock(now);
        if ask.question.is_for_anyone() {
            return lease_out.answers.push((ask.asker, Some(state.list_leases())));
        }
        let Some(leading) = &mut self.leading else { return lease_out.answers.push((ask.asker, None)) };
        let body = match ask.question {
            LeaderQuestion::KeepAlive(id) => {
                match leading.renew(id, self.counted, state, &self.params, lease_out) {
                    Some(ttl) => Body::LeaseRenewed { ttl, renewal: leading.renewal(id) },
                    None => return leading.held.entry(id).or_default().push(ask),
                }
            }
            LeaderQuestion::TimeToLive { id, keys } => {
                Body::LeaseTime(leading.time_left(id, self.counted, state, keys))
            }
            LeaderQuestion::Ending { within_ms } => {
                Body::LeasesEnding(leading.ending(self.counted, within_ms))
            }
            LeaderQuestion::TimeLeft(id) => {
                Body::LeasesEnding(leading.left(id, self.counted).into_iter().collect())
            }
            LeaderQuestion::Leases => unreachable!("answered above"),
        };
        lease_out.answers.push((ask.asker, Some(Reply { revision: state.revision(), body })));
    }

    /// What is due by now.
    pub fn tick(&mut self, now: Instant, state: &State, lease_out: &mut LeaseOutput) {
        self.advance_clock(now);
        let Some(leading) = &mut self.leading else { return };
        leading.held.retain(|_, asks| {
            asks.retain(|ask| ask.deadline > now);
            !asks.is_empty()
        });
        leading.end_expired(self.counted, lease_out);
        leading.record_remaining(self.counted, state, &self.params, lease_out);
    }
}

impl LeaderLeases {
    fn add(&mut self, id: LeaseId, lease: &Lease, due: Instant, checkpoint_at: Instant) {
        let checkpoint_at = (checkpoint_at < due).then_some(checkpoint_at);
        self.agenda.insert((due, id));
        self.checkpoints.extend(checkpoint_at.map(|at| (at, id)));
        let timer = Timer {
            granted: lease.granted,
            ttl: lease.ttl,
            due,
            next: due,
            checkpoint_at,
            renewal: 0,
            is_ending: false,
            is_recording: false,
            clearing_since: None,
        };
        self.timers.insert(id, timer);
    }

    fn remove(&mut self, id: LeaseId) {
        let Some(timer) = self.timers.remove(&id) else { return };
        self.agenda.remove(&(timer.next, id));
        if let Some(at) = timer.checkpoint_at {
            self.checkpoints.remove(&(at, id));
        }
        self.revokes_in_flight -= usize::from(timer.is_ending);
    }

    /// The TTL that the lease has again, zero without a lease, `None` when that is not known yet: its time is
    /// up and its end not yet applied, or a checkpoint would cut the renewal short after an election.
    fn renew(
        &mut self,
        id: LeaseId,
        counted: Instant,
        state: &State,
        params: &LeaseClockParams,
        lease_out: &mut LeaseOutput,
    ) -> Option<i64> {
        let Some((timer, lease)) = self.timers.get_mut(&id).zip(state.lease(id)) else { return Some(0) };
        if timer.is_ending || timer.due <= counted {
            return None;
        }
        if lease.remaining > 0 || timer.is_recording {
            let again = |since: Instant| counted >= since.after(PROPOSE_AGAIN_AFTER);
            if timer.clearing_since.is_none_or(again) {
                timer.clearing_since = Some(counted);
                let granted = timer.granted;
                lease_out.commands.push(Command::LeaseCheckpoint(vec![Checkpoint {
                    id,
                    granted,
                    remaining: 0,
                }]));
            }
            return None;
        }
        timer.clearing_since = None;
        let due = counted.after(seconds(timer.ttl));
        self.agenda.remove(&(timer.next, id));
        self.agenda.insert((due, id));
        (timer.due, timer.next) = (due, due);
        self.renewals += 1;
        timer.renewal = self.renewals;
        let ttl = timer.ttl;
        self.checkpoint_again(id, counted.after(params.checkpoint_interval));
        Some(ttl)
    }

    fn checkpoint_again(&mut self, id: LeaseId, at: Instant) {
        let Some(timer) = self.timers.get_mut(&id) else { return };
        if let Some(before) = timer.checkpoint_at.take() {
            self.checkpoints.remove(&(before, id));
        }
        if at < timer.due {
            timer.checkpoint_at = Some(at);
            self.checkpoints.insert((at, id));
        }
    }

    fn time_left(&self, id: LeaseId, counted: Instant, state: &State, keys: bool) -> LeaseTime {
        let Some((timer, lease)) = self.timers.get(&id).zip(state.lease(id)) else {
            return LeaseTime { ttl: -1, granted: 0, keys: Vec::new(), renewal: LeaseRenewal::default() };
        };
        let keys = lease.keys().filter(|_| keys).map(Bytes::copy_from_slice).collect();
        let ttl = timer.due.since(counted).as_secs() as i64;
        LeaseTime { ttl, granted: lease.ttl, keys, renewal: self.renewal(id) }
    }

    fn renewal(&self, id: LeaseId) -> LeaseRenewal {
        LeaseRenewal { term: self.term, nth: self.timers.get(&id).map_or(0, |timer| timer.renewal) }
    }

    /// A lease whose end was proposed is among them until it has ended; the agenda has it when that is proposed again.
    fn ending(&self, counted: Instant, within_ms: u64) -> Vec<EndingLease> {
        let until = counted.after(Duration::from_millis(within_ms));
        let horizon = until.max(counted.after(PROPOSE_AGAIN_AFTER));
        let near = self.agenda.iter().take_while(|(at, _)| *at <= horizon);
        near.filter_map(|(_, id)| {
            self.timers.get(id).filter(|timer| timer.is_ending || timer.due <= until)?;
            self.left(*id, counted)
        })
        .take(LEASES_ENDING_MAX)
        .collect()
    }

    fn left(&self, id: LeaseId, counted: Instant) -> Option<EndingLease> {
        let timer = self.timers.get(&id)?;
        Some(EndingLease { id, left_ms: timer.due.since(counted).as_millis() as u64 })
    }

    fn end_expired(&mut self, counted: Instant, lease_out: &mut LeaseOutput) {
        while let Some((_, id)) = self.agenda.first().copied().filter(|(at, _)| *at <= counted) {
            let timer = self.timers.get_mut(&id).expect("what is on the agenda has a timer");
            if !timer.is_ending && self.revokes_in_flight >= LEASE_REVOKES_IN_FLIGHT_MAX {
                break;
            }
            self.revokes_in_flight += usize::from(!timer.is_ending);
            timer.is_ending = true;
            self.agenda.remove(&(timer.next, id));
            timer.next = if planted(Mutant::RevokeProposedOnce) {
                Instant::FAR_FUTURE
            } else {
                counted.after(PROPOSE_AGAIN_AFTER)
            };
            self.agenda.insert((timer.next, id));
            let guard = Some(Guard { term: self.term, granted: timer.granted });
            lease_out.commands.push(Command::LeaseRevoke(Revoke { id, guard }));
        }
    }

    fn record_remaining(
        &mut self,
        counted: Instant,
        state: &State,
        params: &LeaseClockParams,
        lease_out: &mut LeaseOutput,
    ) {
        let mut list = Vec::new();
        while list.len() < LEASE_CHECKPOINTS_MAX
            && let Some((_, id)) = self.checkpoints.first().copied().filter(|(at, _)| *at <= counted)
        {
            let timer = self.timers.get_mut(&id).expect("what is to be recorded has a timer");
            // Whole seconds and never too few; a lease that is being renewed is left alone.
            let remaining = timer.due.since(counted).as_secs() as i64 + 1;
            if timer.clearing_since.is_none() && remaining <= timer.ttl && state.lease(id).is_some() {
                timer.is_recording = true;
                list.push(Checkpoint { id, granted: timer.granted, remaining });
            }
            self.checkpoint_again(id, counted.after(params.checkpoint_interval));
        }
        if !list.is_empty() {
            lease_out.commands.push(Command::LeaseCheckpoint(list));
        }
    }
}

/// Spreads the expiry of leases that would all end in the same second after an election.
#[derive(Default)]
struct ExpirySpread {
    second: u64,
    taken: u64,
}

impl ExpirySpread {
    /// Dues come in rising order.
    fn place(&mut self, due: Instant) -> Instant {
        let second = due.0 / 1_000_000;
        if second > self.second {
            (self.second, self.taken) = (second, 0);
        } else if self.taken >= LEASE_EXPIRIES_PER_SECOND_MAX {
            (self.second, self.taken) = (self.second + 1, 0);
        }
        self.taken += 1;
        due.max(Instant(self.second * 1_000_000))
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

#[cfg(test)]
mod tests;
