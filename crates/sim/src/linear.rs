//! Is there one order of a history's operations that explains every answer and respects real time?
//! A Wing-Gong-Lowe search with a memo over the whole state machine. The revisions in the answers leave it
//! little to search: an acknowledged mutation that made revision r follows the one that made r - 1, a read
//! answered at r belongs to the state at r, and so only the revisions that no answer names (the gaps) have
//! to be found among the operations of unknown fate. A serializable read takes its place by its revision
//! alone. The verdict must never be `Lawful` for a history that no such order explains.

mod plan;
mod search;

use crate::history::{Operation, Outcome, may_change};
use crate::model::State;
use base::Revision;
use plan::SearchPlan;
use search::Search;
use std::fmt;

/// Steps of the model for each operation of the history, far more than a lawful history ever takes.
const STEPS_PER_OPERATION: u64 = 200;
/// For histories so short that the product says little.
const STEPS_AT_LEAST: u64 = 20_000;
/// Operations are told whose revision is this near to the place at which the search got stuck.
const WINDOW_REVISIONS: i64 = 2;
/// Operations of unknown fate told beside them.
const WINDOW_UNKNOWN: usize = 8;

#[derive(Debug)]
pub enum Verdict {
    Lawful(Linearization),
    Violation(Violation),
    /// The budget ran out; the violation is the furthest point the search came to. Counts as a failure.
    Undecided(Violation),
}

/// An order that explains the history.
#[derive(Debug)]
pub struct Linearization {
    /// Positions in the history, in order; operations that need not have happened are left out.
    pub order: Vec<usize>,
    /// The state after the last of them; `State::at` gives those before.
    pub state: State,
    /// Steps of the model that the search took.
    pub steps: u64,
}

/// Where the furthest attempt got stuck, and what surrounds that place.
#[derive(Clone, Debug)]
pub struct Violation {
    pub revision: Revision,
    pub reason: String,
    /// One line for each operation, those to blame first.
    pub window: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at revision {}: {}", self.revision, self.reason)?;
        self.window.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Judges a whole history, from an empty store on.
pub fn check(history: &[Operation]) -> Verdict {
    check_within(history, STEPS_AT_LEAST + history.len() as u64 * STEPS_PER_OPERATION)
}

/// The same with hints where operations of unknown fate took effect. Hints decide only what is tried first: the verdict rests
/// on the history alone.
pub fn check_hinted(history: &[Operation], landed: &dyn Fn(usize) -> Option<Revision>) -> Verdict {
    judge(history, STEPS_AT_LEAST + history.len() as u64 * STEPS_PER_OPERATION, landed)
}

/// The same with a budget of model steps.
pub fn check_within(history: &[Operation], budget: u64) -> Verdict {
    judge(history, budget, &|_| None)
}

fn judge(history: &[Operation], budget: u64, landed: &dyn Fn(usize) -> Option<Revision>) -> Verdict {
    match SearchPlan::new(history) {
        Err(stuck) => Verdict::Violation(explain(history, stuck)),
        Ok(plan) => Search::new(&plan, budget, landed).run(),
    }
}

/// Why an order could not be continued.
#[derive(Clone, Default)]
struct Stuck {
    revision: Revision,
    /// Positions of the operations that do not fit.
    blamed: Vec<usize>,
    reason: String,
}

/// Tells what happened around the place, which is where a person starts to read.
fn explain(history: &[Operation], stuck: Stuck) -> Violation {
    let near = |operation: &Operation| {
        let distance = |reply: &coord::reply::Reply| (reply.revision.0 - stuck.revision.0).abs();
        operation.reply().is_some_and(|reply| distance(reply) <= WINDOW_REVISIONS)
    };
    let line = |at: usize, mark: &str| format!("{mark} #{at} {}", history[at]);
    let mut window: Vec<String> = stuck.blamed.iter().map(|at| line(*at, ">")).collect();
    let mut around: Vec<usize> =
        (0..history.len()).filter(|at| near(&history[*at]) && !stuck.blamed.contains(at)).collect();
    around.sort_by_key(|at| (history[*at].reply().map(|reply| reply.revision), history[*at].invoked));
    window.extend(around.iter().map(|at| line(*at, " ")));
    let end = around.iter().chain(&stuck.blamed).map(|at| history[*at].deadline()).max().unwrap_or(u64::MAX);
    let mut unknown: Vec<usize> = (0..history.len())
        .filter(|at| history[*at].outcome == Outcome::Unknown && may_change(&history[*at].request))
        .filter(|at| history[*at].invoked <= end)
        .filter(|at| !stuck.blamed.contains(at))
        .collect();
    unknown.sort_by_key(|at| std::cmp::Reverse(history[*at].invoked));
    window.extend(unknown.iter().take(WINDOW_UNKNOWN).map(|at| line(*at, "?")));
    Violation { revision: stuck.revision, reason: stuck.reason, window }
}

#[cfg(test)]
mod naive;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
