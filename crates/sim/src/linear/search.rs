//! The search proper: follow the plan, and at each gap try the operations of unknown fate that may fill it.
//! Answers and refusals change nothing, so they are placed as soon as they fit; only the filling of gaps
//! branches. Dead ends are remembered by what was used and the state it led to.

use super::plan::SearchPlan;
use super::{Linearization, Stuck, Verdict, explain};
use crate::history::{Outcome, agrees, leases_of};
use crate::model::{State, carry_out};
use crate::serializable::is_serializable;
use crate::show;
use base::Revision;
use std::collections::HashSet;

const UNEXPLAINED_REFUSAL: &str = "no state that this refusal can have met explains it";

pub struct Search<'a> {
    plan: &'a SearchPlan<'a>,
    /// Where each unknown operation was seen to land, if it was, by a client or by a hint.
    landed: Vec<Option<Revision>>,
    /// Gaps already entered, by (unknown operations used, refusals placed, state).
    memo: HashSet<(Bits, Bits, u64)>,
    order: Vec<usize>,
    furthest: Stuck,
    steps: u64,
    budget: u64,
}

/// One order under construction. What it has placed is the search's `order` up to `placed`.
#[derive(Clone)]
struct Path {
    state: State,
    placed: usize,
    /// The latest invocation among the operations placed so far.
    latest: u64,
    /// Which of the plan's unknown operations it has placed.
    used: Bits,
    /// Which of the plan's refusals it has placed.
    refused: Bits,
}

/// A gap, and the unknown operations (by slot in the plan) still to be tried in it, the likeliest last.
struct Choice {
    path: Path,
    candidates: Vec<usize>,
}

enum Halt {
    Done,
    Gap,
}

impl<'a> Search<'a> {
    pub fn new(
        plan: &'a SearchPlan<'a>,
        budget: u64,
        hint: &dyn Fn(usize) -> Option<Revision>,
    ) -> Search<'a> {
        let landed = |at: &usize| hint(*at).or_else(|| plan.facts.landed(&plan.history[*at].request));
        Search {
            plan,
            landed: plan.unknown.iter().map(landed).collect(),
            memo: HashSet::new(),
            order: Vec::new(),
            furthest: Stuck::default(),
            steps: 0,
            budget,
        }
    }

    pub fn run(mut self) -> Verdict {
        let mut path = Path {
            state: State::with_leases(leases_of(self.plan.history)),
            placed: 0,
            latest: 0,
            used: Bits::none(self.plan.unknown.len()),
            refused: Bits::none(self.plan.refusals.len()),
        };
        let mut choices: Vec<Choice> = Vec::new();
        loop {
            match self.advance(&mut path) {
                Ok(Halt::Done) => {
                    let (order, steps) = (self.order, self.steps);
                    return Verdict::Lawful(Linearization { order, state: path.state, steps });
                }
                Ok(Halt::Gap) => choices.extend(self.enter_gap(path)),
                Err(stuck) => self.give_up(stuck),
            }
            match self.fill_gap(&mut choices) {
                Some(next) => path = next,
                None => return self.fail(!choices.is_empty()),
            }
        }
    }

    fn fail(self, untried: bool) -> Verdict {
        let violation = explain(self.plan.history, self.furthest);
        if untried { Verdict::Undecided(violation) } else { Verdict::Violation(violation) }
    }

    /// Keeps the reason that lies furthest: the attempt that explained most of the history.
    fn give_up(&mut self, stuck: Stuck) {
        if stuck.revision >= self.furthest.revision {
            self.furthest = stuck;
        }
    }

    /// Places everything that the plan forces, up to the next gap or the end.
    fn advance(&mut self, path: &mut Path) -> Result<Halt, Stuck> {
        loop {
            let group = self.order.len();
            let next = path.state.revision().next();
            let refused = self.place_refusals(path)?;
            self.place_answers(path)?;
            self.place_vague(path)?;
            path.latest = path.latest.max(refused);
            let history = self.plan.history;
            self.order[group..].sort_by_key(|at| history[*at].invoked);
            path.placed = self.order.len();
            if next > self.plan.last && path.refused.count() == self.plan.refusals.len() {
                return Ok(Halt::Done);
            }
            let Some(write) = self.plan.write(next) else { return Ok(Halt::Gap) };
            let after = self.follow(write, &path.state, next)?;
            self.place_write(path, write, after);
        }
    }

    fn place_write(&mut self, path: &mut Path, at: usize, after: State) {
        self.order.push(at);
        path.placed = self.order.len();
        path.latest = path.latest.max(self.plan.history[at].invoked);
        path.state = after;
    }

    fn place_answers(&mut self, path: &mut Path) -> Result<(), Stuck> {
        for at in self.plan.answers(path.state.revision()).iter().copied() {
            self.follow(at, &path.state, path.state.revision())?;
            self.order.push(at);
            let operation = &self.plan.history[at];
            if !is_serializable(&operation.request) {
                path.latest = path.latest.max(operation.invoked);
            }
        }
        Ok(())
    }

    /// Those that were told this revision without saying whether they made it, and did not.
    fn place_vague(&mut self, path: &mut Path) -> Result<(), Stuck> {
        let revision = path.state.revision();
        for slot in self.plan.vague(revision).iter().copied() {
            if path.used.has(slot) {
                continue;
            }
            let at = self.plan.unknown[slot];
            path.state = self.follow(at, &path.state, revision)?;
            path.used.set(slot);
            self.order.push(at);
            path.latest = path.latest.max(self.plan.history[at].invoked);
        }
        Ok(())
    }

    /// The state after an acknowledged operation, if the model answers as the store did.
    fn follow(&mut self, at: usize, state: &State, revision: Revision) -> Result<State, Stuck> {
        self.steps += 1;
        let operation = &self.plan.history[at];
        let told = operation.reply().expect("only acknowledged operations are placed by revision");
        let right = match carry_out(state, &operation.request) {
            Ok((after, reply)) if agrees(told, &reply) => return Ok(after),
            Ok((_, reply)) => show::reply(&reply),
            Err(code) => format!("refused: {code}"),
        };
        let reason = format!("told {}; right would be {right}", show::reply(told));
        Err(Stuck { revision, blamed: vec![at], reason })
    }

    /// Places the refusals that the present state explains, and gives the latest of their invocations. All
    /// that was placed before must not have been invoked after they returned, and the other way about.
    fn place_refusals(&mut self, path: &mut Path) -> Result<u64, Stuck> {
        let revision = path.state.revision();
        let mut returned_later = self.plan.earliest_return(revision.next());
        let mut latest = 0;
        for (slot, at) in self.plan.refusals.iter().copied().enumerate() {
            let operation = &self.plan.history[at];
            if path.refused.has(slot) {
                continue;
            }
            if operation.deadline() < path.latest {
                let reason = UNEXPLAINED_REFUSAL.to_owned();
                return Err(Stuck { revision, blamed: vec![at], reason });
            }
            if operation.invoked <= returned_later && self.refuses(at, &path.state) {
                path.refused.set(slot);
                self.order.push(at);
                latest = latest.max(operation.invoked);
            } else {
                returned_later = returned_later.min(operation.deadline());
            }
        }
        Ok(latest)
    }

    fn refuses(&mut self, at: usize, state: &State) -> bool {
        self.steps += 1;
        let operation = &self.plan.history[at];
        let refusal = carry_out(state, &operation.request).err();
        refusal.map(Outcome::Refused).as_ref() == Some(&operation.outcome)
    }

    /// What may fill the gap after this path, unless the same gap was entered before.
    fn enter_gap(&mut self, path: Path) -> Option<Choice> {
        let revision = path.state.revision().next();
        let left = (self.plan.unknown.len() - path.used.count()) as i64;
        if self.plan.gaps(path.state.revision(), self.plan.last) > left {
            self.give_up(Stuck {
                revision,
                blamed: Vec::new(),
                reason: "more revisions are unaccounted for than operations of unknown fate are left"
                    .to_owned(),
            });
            return None;
        }
        if !self.memo.insert((path.used.clone(), path.refused.clone(), path.state.hash())) {
            return None;
        }
        let invoked_by = self.plan.earliest_return(revision);
        let mut candidates: Vec<usize> = (0..self.plan.unknown.len())
            .filter(|slot| !path.used.has(*slot))
            .filter(|slot| self.may_make(self.plan.unknown[*slot], revision))
            .filter(|slot| self.plan.history[self.plan.unknown[*slot]].invoked <= invoked_by)
            .collect();
        // Best is one that was seen to land here, worst one seen elsewhere; between equals, the youngest.
        candidates.sort_by_key(|slot| match self.landed[*slot] {
            Some(landed) if landed == revision => 2,
            None => 1,
            Some(_) => 0,
        });
        self.give_up(self.empty_gap(&path));
        Some(Choice { path, candidates })
    }

    /// An operation that was answered with a revision made that revision or none.
    fn may_make(&self, at: usize, revision: Revision) -> bool {
        self.plan.history[at].reply().is_none_or(|told| told.revision == revision)
    }

    /// What to say if nothing fills the gap after this path.
    fn empty_gap(&self, path: &Path) -> Stuck {
        let revision = path.state.revision().next();
        if revision <= self.plan.last {
            let reason = "no answer names this revision, and no operation of unknown fate fits";
            return Stuck { revision, blamed: Vec::new(), reason: reason.to_owned() };
        }
        let waiting = self.plan.refusals.iter().enumerate().filter(|(slot, _)| !path.refused.has(*slot));
        let blamed = waiting.map(|(_, at)| *at).collect();
        Stuck { revision, blamed, reason: UNEXPLAINED_REFUSAL.to_owned() }
    }

    /// The next way to fill the latest gap that has one left. `None` when there is none, or no budget.
    fn fill_gap(&mut self, choices: &mut Vec<Choice>) -> Option<Path> {
        while let Some(choice) = choices.last_mut() {
            while let Some(slot) = choice.candidates.pop() {
                if self.steps >= self.budget {
                    return None;
                }
                self.order.truncate(choice.path.placed);
                if let Some(path) = self.try_filling(&choice.path, slot) {
                    return Some(path);
                }
            }
            choices.pop();
        }
        None
    }

    fn try_filling(&mut self, path: &Path, slot: usize) -> Option<Path> {
        self.steps += 1;
        let at = self.plan.unknown[slot];
        let (after, _) = carry_out(&path.state, &self.plan.history[at].request).ok()?;
        let effective = after.revision() > path.state.revision();
        if !effective || !self.plan.facts.agree(&after, |from, until| self.plan.gaps(from, until)) {
            return None;
        }
        let mut path = path.clone();
        path.used.set(slot);
        self.place_write(&mut path, at, after);
        Some(path)
    }
}

/// A set of small numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Bits(Vec<u64>);

impl Bits {
    fn none(of: usize) -> Bits {
        Bits(vec![0; of.div_ceil(64)])
    }

    fn has(&self, bit: usize) -> bool {
        self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    fn set(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}
