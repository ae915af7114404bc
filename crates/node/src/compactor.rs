//! The leader's compactions: rounds in which every member is asked what it still needs, given notice, and then one
//! command is proposed. Time, what members say and the applied state go in; messages to members and now and then a
//! revision to compact to come out. A round compacts to one below the oldest revision that any member needs, and
//! never beyond the retention. A silent member ends the round, unless it has been silent for so long that nothing is
//! kept for it any more.

use crate::word::{Epoch, Round, Said};
use base::{Instant, NodeId, Revision, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two rounds while there is no space: all writers wait for what the rounds free.
const URGENT_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct Params {
    /// The revisions that are never compacted automatically; `None` disables automatic compaction.
    pub keep: Option<Keep>,
    /// How far behind a watch or a large read may be before nothing is kept for it.
    pub lag_max: Lag,
    /// Between two rounds.
    pub interval: Duration,
    /// How long the leader waits for the answers to one question.
    pub patience: Duration,
    /// A member that has been silent for so long no longer delays compactions.
    pub grace: Duration,
}

/// The past that stays readable: all that is younger, and at least so many revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub age: Duration,
    pub revisions: u64,
    /// A compaction that would gain less is not worth it.
    pub step: u64,
}

/// Whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    pub age: Duration,
    pub revisions: u64,
}

/// The state of the cluster as the leader sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub now: Instant,
    pub members: &'a BTreeSet<NodeId>,
    pub revision: Revision,
    pub compacted: Revision,
    /// The newest revision at the retention age; `None` if it is not known.
    pub aged: Option<Revision>,
    /// Space is more urgent than the past.
    pub no_space: bool,
}

/// The output of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    pub words: Vec<(NodeId, Round)>,
    pub compact: Option<Revision>,
}

pub(crate) struct Compactor {
    params: Params,
    term: Option<Term>,
    rounds: u64,
    /// When the last round began, or the term.
    began: Instant,
    stage: Stage,
    /// When each member was last heard; the beginning of the term for the others.
    heard: BTreeMap<NodeId, Instant>,
    leading_since: Instant,
}

#[derive(Debug)]
enum Stage {
    Resting,
    Asking { goal: Revision, needs: BTreeMap<NodeId, Revision>, until: Instant },
    Noticing { to: Revision, silent: BTreeSet<NodeId>, until: Instant, again: bool },
}

impl Compactor {
    pub fn new(params: Params) -> Compactor {
        Compactor {
            params,
            term: None,
            rounds: 0,
            began: Instant::ZERO,
            stage: Stage::Resting,
            heard: BTreeMap::new(),
            leading_since: Instant::ZERO,
        }
    }

    /// A new leader starts a round of its own, and forgets when it heard from the members.
    pub fn set_leading(&mut self, now: Instant, term: Option<Term>) {
        self.term = term;
        self.stage = Stage::Resting;
        self.heard.clear();
        self.leading_since = now;
        self.began = now;
    }

    /// There may be something to do: computing the context is worth its cost.
    pub fn is_awake(&self, now: Instant, no_space: bool) -> bool {
        let resting = matches!(self.stage, Stage::Resting) && !self.is_due(now, no_space);
        self.term.is_some() && self.params.keep.is_some() && !resting
    }

    fn is_due(&self, now: Instant, no_space: bool) -> bool {
        let interval = self.params.interval;
        now >= self.began.after(if no_space { interval.min(URGENT_INTERVAL) } else { interval })
    }

    pub fn tick(&mut self, sight: &Sight<'_>, steps: &mut Steps) {
        let Some(keep) = self.params.keep.filter(|_| self.term.is_some()) else { return };
        match &self.stage {
            Stage::Resting if self.is_due(sight.now, sight.no_space) => self.begin(sight, keep, steps),
            Stage::Resting => {}
            Stage::Asking { until, .. } | Stage::Noticing { until, .. } if sight.now >= *until => {
                self.run_out(sight, steps);
            }
            _ => self.go_on(sight, steps),
        }
    }

    pub fn hear(&mut self, sight: &Sight<'_>, from: NodeId, word: Round, steps: &mut Steps) {
        self.heard.insert(from, sight.now);
        if Some(word.epoch) != self.epoch() {
            return;
        }
        match (&mut self.stage, word.said) {
            (Stage::Asking { needs, .. }, Said::Need(revision)) => drop(needs.insert(from, revision)),
            (Stage::Noticing { silent, .. }, Said::Agreed) => drop(silent.remove(&from)),
            _ => return,
        }
        self.go_on(sight, steps);
    }

    fn epoch(&self) -> Option<Epoch> {
        self.term.map(|term| Epoch { term, nth: self.rounds })
    }

    fn say(&self, to: NodeId, said: Said, steps: &mut Steps) {
        if let Some(epoch) = self.epoch() {
            steps.words.push((to, Round { epoch, said }));
        }
    }

    fn begin(&mut self, sight: &Sight<'_>, keep: Keep, steps: &mut Steps) {
        self.began = sight.now;
        let Some(goal) = goal(sight, keep).filter(|goal| is_worth_it(sight, keep, *goal)) else { return };
        self.rounds += 1;
        let until = sight.now.after(self.params.patience);
        self.stage = Stage::Asking { goal, needs: BTreeMap::new(), until };
        sight.members.iter().for_each(|member| self.say(*member, Said::Ask, steps));
    }

    /// Nothing is kept any longer for a member that has not been heard for so long.
    fn is_given_up(&self, now: Instant, member: NodeId) -> bool {
        let heard = self.heard.get(&member).copied().unwrap_or(self.leading_since);
        now.since(heard) >= self.params.grace
    }

    /// Takes the next step, if all members have answered that the round waits for.
    fn go_on(&mut self, sight: &Sight<'_>, steps: &mut Steps) {
        match &self.stage {
            Stage::Resting => {}
            Stage::Asking { goal, needs, .. } => {
                let missing = |member: &&NodeId| !needs.contains_key(member);
                let waits = |member: &NodeId| !self.is_given_up(sight.now, *member);
                if !sight.members.iter().filter(missing).any(waits) {
                    let least = needs.values().min().copied();
                    let to = least.map_or(*goal, |least| Revision(least.0 - 1).min(*goal));
                    let told = needs.keys().copied().collect();
                    self.give_notice(sight, to, told, steps);
                }
            }
            Stage::Noticing { to, silent, .. } => {
                if silent.iter().all(|member| self.is_given_up(sight.now, *member)) {
                    steps.compact = Some(*to);
                    self.stage = Stage::Resting;
                }
            }
        }
    }

    fn give_notice(&mut self, sight: &Sight<'_>, to: Revision, silent: BTreeSet<NodeId>, steps: &mut Steps) {
        let worth_it = self.params.keep.is_some_and(|keep| is_worth_it(sight, keep, to));
        if !worth_it {
            self.stage = Stage::Resting;
            return;
        }
        silent.iter().for_each(|member| self.say(*member, Said::Notice(to), steps));
        let until = sight.now.after(self.params.patience);
        self.stage = Stage::Noticing { to, silent, until, again: false };
    }

    /// A member has not answered, or has refused: a notice is given once more, then the round ends.
    fn run_out(&mut self, sight: &Sight<'_>, steps: &mut Steps) {
        self.go_on(sight, steps);
        match std::mem::replace(&mut self.stage, Stage::Resting) {
            Stage::Noticing { to, silent, until, again: false } if until <= sight.now => {
                silent.iter().for_each(|member| self.say(*member, Said::Notice(to), steps));
                let until = sight.now.after(self.params.patience);
                self.stage = Stage::Noticing { to, silent, until, again: true };
            }
            under_way @ Stage::Noticing { until, .. } if until > sight.now => self.stage = under_way,
            _ => {}
        }
    }
}

/// The highest revision that a round may compact to.
fn goal(sight: &Sight<'_>, keep: Keep) -> Option<Revision> {
    if sight.no_space {
        return Some(sight.revision);
    }
    let by_count = Revision(sight.revision.0.saturating_sub_unsigned(keep.revisions));
    Some(sight.aged?.min(by_count))
}

/// While space is low, every compaction is worth it.
fn is_worth_it(sight: &Sight<'_>, keep: Keep, to: Revision) -> bool {
    let step = if sight.no_space { 1 } else { keep.step.max(1) };
    to > Revision::EMPTY_STORE && to.0.saturating_sub(sight.compacted.0) >= step as i64
}

#[cfg(test)]
mod tests;
