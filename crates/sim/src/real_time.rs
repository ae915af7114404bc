//! What depends on leases and on compaction, judged by real time alone.
//! A lease is granted once and ends once, and the oldest readable revision only rises: for such registers the order
//! of events follows from when they were asked for and answered, and no search is needed. A refusal for the want of
//! a lease, or because something was compacted, must have a reason that can have been there by then; and what
//! succeeded must not have had such a reason for certain.

use crate::history::{ModelRequest, Operation, Outcome, gather_leases};
use crate::oracle::{Checker, Violation};
use crate::serializable::is_serializable;
use base::{Code, LeaseId, Revision};
use coord::request::Request;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct RealTimeFacts {
    leases: BTreeMap<LeaseId, LeaseTimes>,
    compactions: Vec<Compaction>,
}

/// Times at which something can have happened at the earliest, and had happened at the latest.
#[derive(Clone, Copy, Default)]
struct LeaseTimes {
    grant_asked: u64,
    granted: Option<u64>,
    end_possible: Option<u64>,
}

struct Compaction {
    revision: Revision,
    asked: u64,
    done: Option<u64>,
}

impl RealTimeFacts {
    pub fn grant_asked(&mut self, id: LeaseId, now: u64) {
        self.leases.insert(id, LeaseTimes { grant_asked: now, ..LeaseTimes::default() });
    }

    pub fn granted(&mut self, id: LeaseId, now: u64) {
        if let Some(pid) = self.leases.get_mut(&id) {
            pid.granted.get_or_insert(now);
        }
    }

    /// A revoke was sent, or an expiry was committed.
    pub fn end_possible(&mut self, id: LeaseId, now: u64) {
        if let Some(pid) = self.leases.get_mut(&id) {
            pid.end_possible.get_or_insert(now);
        }
    }

    pub fn compaction_asked(&mut self, revision: Revision, now: u64) -> usize {
        self.compactions.push(Compaction { revision, asked: now, done: None });
        self.compactions.len() - 1
    }

    pub fn compacted(&mut self, compaction: usize, now: u64) {
        self.compactions[compaction].done = Some(now);
    }

    pub fn check(&self, history: &[Operation]) -> Result<(), Violation> {
        for operation in history {
            let ModelRequest::Kv(request) = &operation.request else { continue };
            let judged = match operation.outcome {
                Outcome::Refused(Code::LeaseNotFound) => self.lease_missing(operation, request),
                Outcome::Refused(Code::Compacted) => self.was_compacted(operation, request),
                Outcome::Done(_) => self.was_possible(operation, request),
                _ => None,
            };
            if let Some(why) = judged {
                let what = format!("{why}\n  > {operation}");
                return Err(Violation { checker: Checker::Register, what });
            }
        }
        Ok(())
    }

    fn lease_missing(&self, operation: &Operation, request: &Request) -> Option<String> {
        let surely_there = |id: &LeaseId| {
            self.leases.get(id).is_some_and(|pid| {
                pid.granted.is_some_and(|granted| granted < operation.invoked)
                    && pid.end_possible.is_none_or(|end| end > operation.deadline())
            })
        };
        let all = leases_in(request).iter().all(surely_there);
        all.then(|| "refused for the want of a lease that was there".to_owned())
    }

    fn was_compacted(&self, operation: &Operation, request: &Request) -> Option<String> {
        let oldest = past_revisions(request, true).into_iter().min()?;
        let reason = self
            .compactions
            .iter()
            .any(|compaction| compaction.revision > oldest && compaction.asked <= operation.deadline());
        (!reason).then(|| format!("revision {oldest} was refused, and no client had compacted it"))
    }

    fn was_possible(&self, operation: &Operation, request: &Request) -> Option<String> {
        let too_early =
            |id: &&LeaseId| self.leases.get(id).is_none_or(|pid| pid.grant_asked > operation.deadline());
        let leases = leases_in(request);
        if let (Request::Put(_), Some(id)) = (request, leases.iter().find(too_early)) {
            return Some(format!("lease {id} was used before a client asked for it"));
        }
        if is_serializable(&operation.request) {
            return None;
        }
        let oldest = past_revisions(request, false).into_iter().min()?;
        let gone = self.compactions.iter().find(|compaction| {
            compaction.revision > oldest && compaction.done.is_some_and(|done| done < operation.invoked)
        });
        gone.map(|gone| format!("revision {oldest} was read after it was compacted at {}", gone.revision))
    }
}

fn leases_in(request: &Request) -> BTreeSet<LeaseId> {
    let mut named = BTreeSet::new();
    gather_leases(request, &mut named);
    named
}

/// The past revisions that a request reads; of a transaction only when whichever branch counts.
fn past_revisions(request: &Request, in_transactions: bool) -> Vec<Revision> {
    match request {
        Request::Range(range) if range.revision > Revision::ZERO => vec![range.revision],
        Request::Txn(txn) if in_transactions => {
            let operations = txn.success.iter().chain(&txn.failure);
            operations.flat_map(|request| past_revisions(request, true)).collect()
        }
        // Without compares the first branch was taken.
        Request::Txn(txn) if txn.compares.is_empty() => {
            txn.success.iter().flat_map(|request| past_revisions(request, false)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::{done, found, one, put, range, refused, was};
    use coord::request::{Put, Range};

    const LEASE: LeaseId = LeaseId(5);

    fn leased() -> Request {
        Request::Put(Put { lease: Some(LEASE), ..put("a", "1") })
    }

    fn past(revision: i64) -> Request {
        Request::Range(Range { revision: Revision(revision), ..range(one("a")) })
    }

    fn lived() -> RealTimeFacts {
        let mut real_time = RealTimeFacts::default();
        real_time.grant_asked(LEASE, 10);
        real_time.granted(LEASE, 20);
        real_time.end_possible(LEASE, 50);
        real_time
    }

    fn accepts(real_time: &RealTimeFacts, operation: Operation) -> bool {
        real_time.check(&[operation]).is_ok()
    }

    #[test]
    fn a_lease_may_be_missed_only_while_it_may_not_be_there() {
        let real_time = lived();
        let missed = |from, to| accepts(&real_time, refused(from, to, leased(), Code::LeaseNotFound));
        assert!(missed(5, 9) && missed(15, 30) && missed(30, 50) && missed(60, 70));
        assert!(!missed(21, 49));
    }

    #[test]
    fn a_lease_is_not_used_before_it_was_requested() {
        let real_time = lived();
        assert!(accepts(&real_time, done(5, 11, leased(), 2, was(None))));
        assert!(!accepts(&real_time, done(5, 9, leased(), 2, was(None))));
    }

    #[test]
    fn the_past_is_refused_after_a_compaction_was_asked_for_and_not_read_after_it_was_done() {
        let mut real_time = RealTimeFacts::default();
        let compaction = real_time.compaction_asked(Revision(7), 20);
        real_time.compacted(compaction, 40);
        let gone = |from, to, at| accepts(&real_time, refused(from, to, past(at), Code::Compacted));
        assert!(gone(10, 30, 6) && !gone(10, 19, 6) && !gone(10, 30, 7));
        let read = |from, to, at| accepts(&real_time, done(from, to, past(at), 9, found(vec![])));
        assert!(read(10, 30, 6) && read(30, 60, 6) && read(50, 60, 7));
        assert!(!read(41, 60, 6));
    }
}
