//! The leader's compactions: rounds in which every member is asked what it still needs, given notice, and then one
//! command is proposed. Time, what members say and the applied state go in; messages to members and now and then a
//! revision to compact to come out. A round compacts to one below the oldest revision that any member needs, and
//! never beyond the retention. A silent member ends the round, unless it has been silent for so long that nothing is
//! kept for it any more.

use crate::compaction_round::{RoundOutcome, RoundReport};
use crate::peer_message::{CompactionEpoch, CompactionMessage, CompactionSignal};
use base::{Instant, NodeId, Revision, Term};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Between two rounds while there is no space: all writers wait for what the rounds free.
const URGENT_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct CompactorParams {
    /// The revisions that are never compacted automatically; `None` disables automatic compaction.
    pub keep: Option<Retention>,
    /// How far behind a watch or a large read may be before nothing is kept for it.
    pub lag_max: LagLimit,
    /// Between two rounds.
    pub interval: Duration,
    /// How long the leader waits for the answers to one question.
    pub patience: Duration,
    /// A member that has been silent for so long no longer delays compactions.
    pub grace: Duration,
}

/// The past that stays readable: all that is younger, and at least so many revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub age: Duration,
    pub revisions: u64,
    /// A compaction that would gain less is not worth it.
    pub step: u64,
}

/// Whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagLimit {
    pub age: Duration,
    pub revisions: u64,
}

/// The state of the cluster as the leader sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionContext<'a> {
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
pub(crate) struct CompactorOutput {
    pub peer_messages: Vec<(NodeId, CompactionMessage)>,
    pub compact: Option<Revision>,
}

pub(crate) struct Compactor {
    params: CompactorParams,
    term: Option<Term>,
    rounds: u64,
    /// When the last round began, or the term.
    began: Instant,
    stage: RoundStage,
    /// When each member was last heard; the beginning of the term for the others.
    heard: BTreeMap<NodeId, Instant>,
    leading_since: Instant,
    /// What the members of the round under way need, and what it was to compact to.
    needs: BTreeMap<NodeId, Revision>,
    goal: Revision,
    last_round: Option<RoundReport>,
    /// The last round has ended since this was last asked.
    has_news: bool,
}

#[derive(Debug)]
enum RoundStage {
    Resting,
    Asking { goal: Revision, needs: BTreeMap<NodeId, Revision>, until: Instant },
    Noticing { to: Revision, silent: BTreeSet<NodeId>, until: Instant, again: bool },
}

impl Compactor {
    pub fn new(params: CompactorParams) -> Compactor {
        Compactor {
            params,
            term: None,
            rounds: 0,
            began: Instant::ZERO,
            stage: RoundStage::Resting,
            heard: BTreeMap::new(),
            leading_since: Instant::ZERO,
            needs: BTreeMap::new(),
            goal: Revision::ZERO,
            last_round: None,
            has_news: false,
        }
    }

    /// How the last round of this term ended.
    pub fn last_round(&self) -> Option<&RoundReport> {
        self.last_round.as_ref()
    }

    /// The same, once.
    pub fn take_report(&mut self) -> Option<RoundReport> {
        let has_news = std::mem::take(&mut self.has_news);
        self.last_round.clone().filter(|_| has_news)
    }

    fn end_round(&mut self, to: Revision, outcome: RoundOutcome) {
        let (goal, needs) = (self.goal, std::mem::take(&mut self.needs));
        self.last_round = Some(RoundReport { goal, to, needs, outcome });
        self.has_news = true;
        self.stage = RoundStage::Resting;
    }

    /// A new leader starts a round of its own, and forgets when it heard from the members.
    pub fn set_leading(&mut self, now: Instant, term: Option<Term>) {
        self.term = term;
        self.stage = RoundStage::Resting;
        self.heard.clear();
        self.last_round = None;
        self.leading_since = now;
        self.began = now;
    }

    /// There may be something to do: computing the context is worth its cost.
    pub fn may_act(&self, now: Instant, no_space: bool) -> bool {
        let resting = matches!(self.stage, RoundStage::Resting) && !self.is_due(now, no_space);
        self.term.is_some() && self.params.keep.is_some() && !resting
    }

    fn is_due(&self, now: Instant, no_space: bool) -> bool {
        let interval = self.params.interval;
        now >= self.began.after(if no_space { interval.min(URGENT_INTERVAL) } else { interval })
    }

    pub fn tick(&mut self, context: &CompactionContext<'_>, output: &mut CompactorOutput) {
        let Some(keep) = self.params.keep.filter(|_| self.term.is_some()) else { return };
        match &self.stage {
            RoundStage::Resting if self.is_due(context.now, context.no_space) => {
                self.begin(context, keep, output)
            }
            RoundStage::Resting => {}
            RoundStage::Asking { until, .. } | RoundStage::Noticing { until, .. }
                if context.now >= *until =>
            {
                self.on_timeout(context, output);
            }
            _ => self.advance(context, output),
        }
    }

    pub fn on_message(
        &mut self,
        context: &CompactionContext<'_>,
        from: NodeId,
        message: CompactionMessage,
        output: &mut CompactorOutput,
    ) {
        self.heard.insert(from, context.now);
        if Some(message.epoch) != self.epoch() {
            return;
        }
        match (&mut self.stage, message.signal) {
            (RoundStage::Asking { needs, .. }, CompactionSignal::Need(revision)) => {
                needs.insert(from, revision);
            }
            (RoundStage::Noticing { silent, .. }, CompactionSignal::Agreed) => {
                silent.remove(&from);
            }
            _ => return,
        }
        self.advance(context, output);
    }

    fn epoch(&self) -> Option<CompactionEpoch> {
        self.term.map(|term| CompactionEpoch { term, nth: self.rounds })
    }

    fn send(&self, to: NodeId, signal: CompactionSignal, output: &mut CompactorOutput) {
        if let Some(epoch) = self.epoch() {
            output.peer_messages.push((to, CompactionMessage { epoch, signal }));
        }
    }

    fn begin(&mut self, context: &CompactionContext<'_>, keep: Retention, output: &mut CompactorOutput) {
        self.began = context.now;
        let Some(goal) = goal(context, keep).filter(|goal| is_worth_it(context, keep, *goal)) else { return };
        self.rounds += 1;
        let until = context.now.after(self.params.patience);
        self.goal = goal;
        self.stage = RoundStage::Asking { goal, needs: BTreeMap::new(), until };
        context.members.iter().for_each(|member| self.send(*member, CompactionSignal::Ask, output));
    }

    /// Whether the member was silent for so long that no revision is kept for it any more.
    fn is_given_up(&self, now: Instant, member: NodeId) -> bool {
        let heard = self.heard.get(&member).copied().unwrap_or(self.leading_since);
        now.since(heard) >= self.params.grace
    }

    /// Takes the next step, if all members have answered that the round waits for.
    fn advance(&mut self, context: &CompactionContext<'_>, output: &mut CompactorOutput) {
        match &self.stage {
            RoundStage::Resting => {}
            RoundStage::Asking { goal, needs, .. } => {
                let missing = |member: &&NodeId| !needs.contains_key(member);
                let waits = |member: &NodeId| !self.is_given_up(context.now, *member);
                if !context.members.iter().filter(missing).any(waits) {
                    let least = needs.values().min().copied();
                    let to = least.map_or(*goal, |least| Revision(least.0 - 1).min(*goal));
                    let told = needs.keys().copied().collect();
                    self.needs = needs.clone();
                    self.give_notice(context, to, told, output);
                }
            }
            RoundStage::Noticing { to, silent, .. } => {
                if silent.iter().all(|member| self.is_given_up(context.now, *member)) {
                    let to = *to;
                    output.compact = Some(to);
                    self.end_round(to, RoundOutcome::Compacted);
                }
            }
        }
    }

    fn give_notice(
        &mut self,
        context: &CompactionContext<'_>,
        to: Revision,
        silent: BTreeSet<NodeId>,
        output: &mut CompactorOutput,
    ) {
        let worth_it = self.params.keep.is_some_and(|keep| is_worth_it(context, keep, to));
        if !worth_it {
            return self.end_round(to, RoundOutcome::HeldBack);
        }
        silent.iter().for_each(|member| self.send(*member, CompactionSignal::Notice(to), output));
        let until = context.now.after(self.params.patience);
        self.stage = RoundStage::Noticing { to, silent, until, again: false };
    }

    /// A member has not answered, or has refused: a notice is given once more, then the round ends.
    fn on_timeout(&mut self, context: &CompactionContext<'_>, output: &mut CompactorOutput) {
        self.advance(context, output);
        match std::mem::replace(&mut self.stage, RoundStage::Resting) {
            RoundStage::Noticing { to, silent, until, again: false } if until <= context.now => {
                silent.iter().for_each(|member| self.send(*member, CompactionSignal::Notice(to), output));
                let until = context.now.after(self.params.patience);
                self.stage = RoundStage::Noticing { to, silent, until, again: true };
            }
            under_way @ RoundStage::Noticing { until, .. } if until > context.now => self.stage = under_way,
            RoundStage::Noticing { to, silent, .. } => self.end_round(to, RoundOutcome::Unanswered(silent)),
            RoundStage::Asking { goal, needs, .. } => {
                let silent = context.members.iter().filter(|member| !needs.contains_key(member));
                let silent = silent.copied().collect();
                self.needs = needs;
                self.end_round(goal, RoundOutcome::Unanswered(silent));
            }
            RoundStage::Resting => {}
        }
    }
}

/// The highest revision that a round may compact to.
fn goal(context: &CompactionContext<'_>, keep: Retention) -> Option<Revision> {
    if context.no_space {
        return Some(context.revision);
    }
    let by_count = Revision(context.revision.0.saturating_sub_unsigned(keep.revisions));
    Some(context.aged?.min(by_count))
}

/// While space is low, every compaction is worth it.
fn is_worth_it(context: &CompactionContext<'_>, keep: Retention, to: Revision) -> bool {
    let step = if context.no_space { 1 } else { keep.step.max(1) };
    to > Revision::EMPTY_STORE && to.0.saturating_sub(context.compacted.0) >= step as i64
}

#[cfg(test)]
mod tests;
