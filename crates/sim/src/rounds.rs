//! The judge of automatic compactions: they end no watch that existed when its member was asked, and they make progress.
//! What members send, propose and tell their watchers goes in as it happens; the first broken promise comes out. Only
//! worlds in which nothing is ever too far behind are judged for the first, and in no world do clients compact as well.

use crate::crash_points::Point;
use crate::oracle::{Checker, Violation};
use crate::world::{Checked, World};
use base::Revision;
use coord::watch::{Response, ResponseKind, StreamId, WatchId};
use coord::{Command, Compact};
use node::apply::ApplyOutput;
use node::{CompactionMessage, CompactionSignal, PeerMessage};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct CompactionRounds {
    /// When each host last asked the members what they need.
    asked: BTreeMap<usize, u64>,
    /// When the round began that led to a compaction.
    begun: BTreeMap<Revision, u64>,
    /// The floor that each host's watches have been told of.
    told: BTreeMap<usize, Revision>,
    /// When each watch began.
    watches: BTreeMap<(StreamId, WatchId), u64>,
    /// What must have been compacted in the end, and how often the cluster had changed when it was.
    owed: Revision,
    changes: u64,
}

impl CompactionRounds {
    fn proposed(&mut self, host: usize, revision: Revision, now: u64) {
        let began = self.asked.get(&host).copied().unwrap_or(now);
        self.begun.entry(revision).and_modify(|first| *first = began.min(*first)).or_insert(began);
    }

    /// The earliest round of those that raised the floor of a host to this.
    fn first_round(&self, host: usize, floor: Revision) -> Option<u64> {
        let told = self.told.get(&host).copied().unwrap_or(Revision::ZERO);
        let raised = self.begun.iter().filter(|(revision, _)| **revision > told && **revision <= floor);
        raised.map(|(_, began)| *began).min()
    }

    /// Whether a watch was there when the round began that ended it.
    fn is_wronged(&mut self, host: usize, response: &Response, now: u64) -> bool {
        let watch = (response.stream, response.watch);
        match response.kind {
            ResponseKind::Created => drop(self.watches.insert(watch, now)),
            ResponseKind::Canceled { compacted: Some(floor) } => {
                let began = self.watches.get(&watch).copied().unwrap_or(now);
                return self.first_round(host, floor).is_some_and(|round| began < round);
            }
            _ => {}
        }
        false
    }
}

impl World {
    /// Notes what a turn of the apply thread brought about.
    pub fn note_rounds(&mut self, host: usize, floor: Revision, out: &ApplyOutput) -> Checked {
        if !self.settings.leader_compacts {
            return Ok(());
        }
        let now = self.events.now();
        if out.peer_messages.iter().any(|(_, message)| {
            matches!(
                message,
                PeerMessage::Compaction(CompactionMessage { signal: CompactionSignal::Ask, .. })
            )
        }) {
            self.rounds.asked.insert(host, now);
        }
        for command in out.proposals.iter().flat_map(|proposals| &proposals.commands) {
            if let Some(Command::Compact(Compact { revision, .. })) = Command::decode(command.clone()) {
                self.rounds.proposed(host, revision, now);
                self.real_time.compaction_asked(revision, now);
                self.truth.compactions.insert(revision);
                self.counts.rounds += 1;
                self.reach(host, Point::CompactionProposed);
            }
        }
        for response in &out.watch {
            let wronged = self.rounds.is_wronged(host, response, now);
            self.counts.overtaken += u64::from(wronged);
            if wronged && self.settings.keeps_for_all() {
                let Response { stream, watch, .. } = response;
                let what = format!("{} ended {watch:?} of {stream:?} by a compaction", self.hosts[host].id);
                return Err(Violation { checker: Checker::Watch, what });
            }
        }
        self.rounds.told.insert(host, floor);
        Ok(())
    }

    /// From now on nothing is in the way of a compaction of what there is.
    pub fn owe_compaction(&mut self) {
        self.rounds.changes = self.operators.changes;
        self.rounds.owed = Revision(self.truth.revision().0 - self.settings.kept_revisions() as i64 - 1);
    }

    pub fn check_compacted(&self) -> Checked {
        let floor = self.truth.state().floor();
        // A machine that is not there, any more or yet, is waited for until the operator removes it, or its grace is over.
        let held_up = self.has_lost_machine() || self.operators.changes != self.rounds.changes;
        if !self.settings.leader_compacts || floor >= self.rounds.owed || held_up {
            return Ok(());
        }
        let standing =
            self.member_hosts().iter().map(|host| self.standing(*host)).collect::<Vec<_>>().join("; ");
        let owed = self.rounds.owed;
        let what = format!("compacted up to {floor} and not to {owed}, with nothing in the way: {standing}");
        Err(Violation { checker: Checker::Live, what })
    }
}
