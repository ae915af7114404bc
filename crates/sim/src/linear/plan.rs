//! What the revisions say about the order, before anything is searched.
//! A history goes in; acknowledged operations come out by revision, and everything whose place is open beside
//! them. Two mutations of one revision, or an order by revision that real time forbids, end it here.

use super::Stuck;
use crate::facts::Facts;
use crate::history::{Operation, Outcome, is_vague, may_change, tells_of_the_state};
use crate::serializable::is_serializable;
use base::Revision;
use std::collections::{BTreeMap, BTreeSet};

pub struct SearchPlan<'a> {
    pub history: &'a [Operation],
    pub facts: Facts,
    /// Revision → the operation that was told to have made it.
    writes: BTreeMap<Revision, usize>,
    /// The keys of `writes`, to be counted quickly.
    made: Vec<Revision>,
    /// Revision → the operations answered there without effect, by invocation.
    answers: BTreeMap<Revision, Vec<usize>>,
    /// Refusals that tell of the state, by invocation: they carry no revision.
    pub refusals: Vec<usize>,
    /// Mutations that may have happened, by invocation; and those that did, but may have made a revision or not.
    pub unknown: Vec<usize>,
    /// Revision → the slots in `unknown` of the latter, by the revision that they were told.
    vague: BTreeMap<Revision, Vec<usize>>,
    /// Revision → the earliest return among all that is placed there or later.
    earliest_return: BTreeMap<Revision, u64>,
    /// The highest revision that an answer names.
    pub last: Revision,
}

impl<'a> SearchPlan<'a> {
    pub fn new(history: &'a [Operation]) -> Result<SearchPlan<'a>, Stuck> {
        let mut plan = SearchPlan {
            history,
            facts: Facts::gather(history),
            writes: BTreeMap::new(),
            made: Vec::new(),
            answers: BTreeMap::new(),
            refusals: Vec::new(),
            unknown: Vec::new(),
            vague: BTreeMap::new(),
            earliest_return: BTreeMap::new(),
            last: Revision::EMPTY_STORE,
        };
        plan.sort_operations()?;
        plan.respect_real_time()?;
        plan.look_ahead();
        Ok(plan)
    }

    pub fn write(&self, revision: Revision) -> Option<usize> {
        self.writes.get(&revision).copied()
    }

    pub fn answers(&self, revision: Revision) -> &[usize] {
        self.answers.get(&revision).map_or(&[], Vec::as_slice)
    }

    pub fn vague(&self, revision: Revision) -> &[usize] {
        self.vague.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// The earliest return among what is placed at this revision or later: what is placed before it must
    /// not have been invoked after that.
    pub fn earliest_return(&self, from: Revision) -> u64 {
        self.earliest_return.range(from..).next().map_or(u64::MAX, |(_, earliest)| *earliest)
    }

    /// Revisions in `(after, until]` that no client was told to have made.
    pub fn gaps(&self, after: Revision, until: Revision) -> i64 {
        if until <= after {
            return 0;
        }
        let made = |upto: Revision| self.made.partition_point(|revision| *revision <= upto) as i64;
        until.0 - after.0 - (made(until) - made(after))
    }

    fn sort_operations(&mut self) -> Result<(), Stuck> {
        let history = self.history;
        let mut by_invocation: Vec<usize> = (0..history.len()).collect();
        by_invocation.sort_by_key(|at| history[*at].invoked);
        for at in by_invocation {
            let operation = &history[at];
            match &operation.outcome {
                Outcome::Done(reply) if is_vague(&reply.body) => {
                    self.check_possible(at, reply.revision, Revision::EMPTY_STORE)?;
                    self.vague.entry(reply.revision).or_default().push(self.unknown.len());
                    self.unknown.push(at);
                }
                Outcome::Done(reply) => self.place(at, reply.revision)?,
                Outcome::Unknown if may_change(&operation.request) => self.unknown.push(at),
                // A member that lags refuses a serializable read lawfully, as of some older state.
                Outcome::Refused(code)
                    if tells_of_the_state(*code) && !is_serializable(&operation.request) =>
                {
                    self.refusals.push(at);
                }
                Outcome::Unknown | Outcome::Refused(_) => {}
            }
        }
        Ok(())
    }

    fn check_possible(&mut self, at: usize, revision: Revision, lowest: Revision) -> Result<(), Stuck> {
        if revision < lowest {
            let reason = "no store can have answered with this revision".to_owned();
            return Err(Stuck { revision, blamed: vec![at], reason });
        }
        self.last = self.last.max(revision);
        Ok(())
    }

    fn place(&mut self, at: usize, revision: Revision) -> Result<(), Stuck> {
        let makes = self.history[at].made_revision().is_some();
        let lowest = if makes { Revision::EMPTY_STORE.next() } else { Revision::EMPTY_STORE };
        self.check_possible(at, revision, lowest)?;
        if !makes {
            self.answers.entry(revision).or_default().push(at);
        } else if let Some(other) = self.writes.insert(revision, at) {
            let reason = "two mutations were told that they made this revision".to_owned();
            return Err(Stuck { revision, blamed: vec![other, at], reason });
        }
        Ok(())
    }

    /// The revisions alone order all acknowledged operations. None may come after one that was invoked
    /// after it had returned. A serializable read owes this only to the mutations whose effect it shows.
    fn respect_real_time(&self) -> Result<(), Stuck> {
        let told = self.writes.keys().chain(self.answers.keys()).chain(self.vague.keys());
        let revisions: BTreeSet<Revision> = told.copied().collect();
        let (mut of_any, mut of_mutations) = (None, None);
        for revision in revisions {
            if let Some(write) = self.write(revision) {
                self.may_follow(write, of_any, revision)?;
                of_any = self.later_invoked(of_any, write);
                of_mutations = self.later_invoked(of_mutations, write);
            }
            for answer in self.told_at(revision) {
                if is_serializable(&self.history[answer].request) {
                    self.may_follow(answer, of_mutations, revision)?;
                } else {
                    self.may_follow(answer, of_any, revision)?;
                    of_any = self.later_invoked(of_any, answer);
                }
            }
        }
        Ok(())
    }

    /// Answers without effect, and vague ones: should one of these have made the revision, the search places
    /// it first.
    fn told_at(&self, revision: Revision) -> Vec<usize> {
        let vague = self.vague(revision).iter().map(|slot| self.unknown[*slot]);
        let mut told: Vec<usize> = self.answers(revision).iter().copied().chain(vague).collect();
        told.sort_by_key(|at| self.history[*at].invoked);
        told
    }

    fn later_invoked(&self, left: Option<usize>, right: usize) -> Option<usize> {
        left.filter(|left| self.history[*left].invoked >= self.history[right].invoked).or(Some(right))
    }

    fn may_follow(&self, at: usize, earlier: Option<usize>, revision: Revision) -> Result<(), Stuck> {
        match earlier {
            Some(earlier) if self.history[at].deadline() < self.history[earlier].invoked => Err(Stuck {
                revision,
                blamed: vec![at, earlier],
                reason: "by revision the second comes before the first, yet it was invoked after the first \
                         had returned"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn look_ahead(&mut self) {
        self.made = self.writes.keys().copied().collect();
        let answers = self.answers.iter().flat_map(|(revision, all)| all.iter().map(|at| (*revision, *at)));
        let vague = self
            .vague
            .iter()
            .flat_map(|(revision, all)| all.iter().map(|slot| (*revision, self.unknown[*slot])));
        let writes = self.writes.iter().map(|(revision, at)| (*revision, *at));
        for (revision, at) in answers.chain(vague).chain(writes) {
            let earliest = self.earliest_return.entry(revision).or_insert(u64::MAX);
            *earliest = (*earliest).min(self.history[at].deadline());
        }
        let mut earliest = u64::MAX;
        for own in self.earliest_return.values_mut().rev() {
            earliest = earliest.min(*own);
            *own = earliest;
        }
    }
}
