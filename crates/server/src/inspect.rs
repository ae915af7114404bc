//! Questions of operators to the apply machine: watches, leases with their keys, what pins compaction; and the log of
//! compaction rounds. A question goes through the machine's queue and reads its state between two turns.

use crate::apply::ApplyJob;
use crate::handle::MaintenanceHandle;
use base::{Code, Instant, LeaseId, NodeId, Revision};
use coord::watch::{StreamId, WatchDescription, WatchSelection};
use node::apply::{CompactionDescription, LeaseDescription};
use node::{Apply, RoundOutcome, RoundReport};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;
use tracing::info;

pub(crate) enum Inspection {
    Watches { selection: WatchSelection, asker: oneshot::Sender<Vec<WatchDescription>> },
    StreamSizes { streams: BTreeSet<StreamId>, asker: oneshot::Sender<BTreeMap<StreamId, usize>> },
    Leases { after: LeaseId, at_most: usize, asker: oneshot::Sender<Vec<LeaseDescription>> },
    Compaction { at_most: usize, asker: oneshot::Sender<CompactionDescription> },
}

/// An asker may have gone away.
pub(crate) fn answer(machine: &Apply, now: Instant, inspection: Inspection) {
    match inspection {
        Inspection::Watches { selection, asker } => {
            drop(asker.send(machine.describe_watches(&selection)));
        }
        Inspection::StreamSizes { streams, asker } => drop(asker.send(machine.sizes_of_streams(&streams))),
        Inspection::Leases { after, at_most, asker } => {
            drop(asker.send(machine.describe_leases(after, at_most)));
        }
        Inspection::Compaction { at_most, asker } => {
            drop(asker.send(machine.describe_compaction(now, at_most)));
        }
    }
}

impl MaintenanceHandle<'_> {
    /// Watches of this member.
    pub async fn describe_watches(self, selection: WatchSelection) -> Result<Vec<WatchDescription>, Code> {
        self.inspect(|asker| Inspection::Watches { selection, asker }).await
    }

    /// How many watches each of these streams of this member has.
    pub async fn sizes_of_streams(
        self,
        streams: BTreeSet<StreamId>,
    ) -> Result<BTreeMap<StreamId, usize>, Code> {
        self.inspect(|asker| Inspection::StreamSizes { streams, asker }).await
    }

    /// The leases after this one by their ids, so many at most, as far as this member has applied.
    pub async fn describe_leases(
        self,
        after: LeaseId,
        at_most: usize,
    ) -> Result<Vec<LeaseDescription>, Code> {
        self.inspect(|asker| Inspection::Leases { after, at_most, asker }).await
    }

    /// What pins compaction on this member, so many readers at most.
    pub async fn describe_compaction(self, at_most: usize) -> Result<CompactionDescription, Code> {
        self.inspect(|asker| Inspection::Compaction { at_most, asker }).await
    }

    async fn inspect<T>(self, ask: impl FnOnce(oneshot::Sender<T>) -> Inspection) -> Result<T, Code> {
        let (asker, answer) = oneshot::channel();
        self.handle.core().coord.apply.post(ApplyJob::Inspect(ask(asker)));
        answer.await.map_err(|_| Code::Stopped)
    }
}

/// Logs how rounds of compaction end: each that compacts, and others when something about them is new.
#[derive(Default)]
pub(crate) struct RoundLog {
    last: Option<(&'static str, Option<NodeId>)>,
}

impl RoundLog {
    pub fn report(&mut self, round: &RoundReport) {
        let held_by = round.held_by();
        let summary = (round.outcome.name(), held_by.map(|(member, _)| member));
        let is_new = self.last.replace(summary) != Some(summary);
        if !is_new && round.outcome != RoundOutcome::Compacted {
            return;
        }
        let silent = match &round.outcome {
            RoundOutcome::Unanswered(members) => members.iter().map(name).collect::<Vec<_>>().join(","),
            RoundOutcome::Compacted | RoundOutcome::HeldBack => String::new(),
        };
        info!(
            outcome = round.outcome.name(),
            goal = round.goal.0,
            to = round.to.0,
            held_by = held_by.map(|(member, _)| name(&member)).unwrap_or_default(),
            needs = held_by.map_or(Revision::ZERO, |(_, needed)| needed).0,
            silent,
            "compaction round ended"
        );
    }
}

fn name(member: &NodeId) -> String {
    format!("{:x}", member.0)
}
