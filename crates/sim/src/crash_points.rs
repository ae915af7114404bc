//! Twenty places inside compactions, snapshots and changes of the cluster at which a power cut may fall.
//! The world says when a host is at one of them; the host that a run has chosen loses its power there, before anything
//! else happens. The judges then say whether the revision went down or a live value was lost.

use crate::nemesis::ProcessEnd;
use crate::world::{Event, World};
use base::Table;
use coord::Command;
use node::apply::{ApplyOutput, Flush};
use node::{CompactionMessage, CompactionSignal, PeerMessage, StagingStep, batch};
use raft::{Entry, Persist, Record};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    RoundAsked,
    NeedTold,
    NoticeGiven,
    NoticeAgreed,
    CompactionProposed,
    CompactionCommitted,
    CompactionApplied,
    /// The power goes in the midst of the write.
    SweepWritten,
    SweepFlushed,
    SnapshotOrdered,
    StageBegun,
    StageFilled,
    StageFinished,
    SnapshotInstalled,
    /// In the store's place, and written to the log, but not synced there.
    InstallWritten,
    ChangeAppended,
    ChangeCommitted,
    ChangeApplied,
    ChangeFlushed,
    NewMemberStarted,
}

impl Point {
    pub const ALL: [Point; 20] = [
        Point::RoundAsked,
        Point::NeedTold,
        Point::NoticeGiven,
        Point::NoticeAgreed,
        Point::CompactionProposed,
        Point::CompactionCommitted,
        Point::CompactionApplied,
        Point::SweepWritten,
        Point::SweepFlushed,
        Point::SnapshotOrdered,
        Point::StageBegun,
        Point::StageFilled,
        Point::StageFinished,
        Point::SnapshotInstalled,
        Point::InstallWritten,
        Point::ChangeAppended,
        Point::ChangeCommitted,
        Point::ChangeApplied,
        Point::ChangeFlushed,
        Point::NewMemberStarted,
    ];
}

/// Whether it takes out what was compacted.
pub fn sweeps(flush: &Flush) -> bool {
    let mut takes = false;
    flush.emit(&mut |table, _, value| takes |= table == Table::Versions && value.is_none());
    takes
}

/// How often each point was reached, and where the power goes.
#[derive(Default)]
pub struct CrashPoints {
    /// The point, and every so many times that it is reached.
    pub chosen: Option<(Point, u64)>,
    reached: BTreeMap<Point, u64>,
    pub crashes: u64,
}

impl World {
    /// A host is at a point; it may lose its power right there. What it planned for later does not happen.
    pub fn reach(&mut self, host: usize, point: Point) {
        let Some((chosen, every)) = self.crash_points.chosen.filter(|_| !self.calm) else { return };
        let count = self.crash_points.reached.entry(point).or_default();
        *count += 1;
        if point != chosen || !count.is_multiple_of(every) {
            return;
        }
        self.crash_points.crashes += 1;
        match point {
            Point::SweepWritten => self.cut_power_soon(host),
            // Nothing else of this host's happens within a microsecond.
            _ => self.events.after(1, Event::PowerCut { host }),
        }
    }

    pub fn lose_power(&mut self, host: usize) {
        if !self.calm {
            self.strike(host, ProcessEnd::PowerCut);
        }
    }

    /// What a turn of the apply thread says, proposes and decides.
    pub fn reach_by_turn(&mut self, host: usize, raised: bool, out: &ApplyOutput) {
        for (_, message) in &out.peer_messages {
            let PeerMessage::Compaction(CompactionMessage { signal, .. }) = message else { continue };
            let point = match signal {
                CompactionSignal::Ask => Point::RoundAsked,
                CompactionSignal::Need(_) => Point::NeedTold,
                CompactionSignal::Notice(_) => Point::NoticeGiven,
                CompactionSignal::Agreed => Point::NoticeAgreed,
                CompactionSignal::Refused => continue,
            };
            self.reach(host, point);
        }
        if raised {
            self.reach(host, Point::CompactionApplied);
        }
        if !out.members.is_empty() {
            self.reach(host, Point::ChangeApplied);
        }
    }

    /// What is about to be written, and what a quorum has.
    pub fn reach_by_entries(&mut self, host: usize, persist: &[Persist], committed: &[Entry]) {
        let changes = |record: &Record| match record {
            Record::Entries(entries) => entries.iter().any(|entry| entry.reconfigures),
            _ => false,
        };
        if persist.iter().flat_map(|persist| &persist.records).any(changes) {
            self.reach(host, Point::ChangeAppended);
        }
        if committed.iter().any(|entry| entry.reconfigures) {
            self.reach(host, Point::ChangeCommitted);
        }
        let proposals =
            committed.iter().flat_map(|entry| batch::decode(entry.data.clone()).unwrap_or_default());
        let compacts = |proposal: batch::Proposal| {
            matches!(Command::decode(proposal.command), Some(Command::Compact(_)))
        };
        if proposals.into_iter().any(compacts) {
            self.reach(host, Point::CompactionCommitted);
        }
    }

    pub fn reach_by_stage(&mut self, host: usize, stage: &StagingStep) {
        let point = match stage {
            StagingStep::Begin { .. } => Point::StageBegun,
            StagingStep::Rows { .. } => Point::StageFilled,
            StagingStep::Finish { .. } => Point::StageFinished,
        };
        self.reach(host, point);
    }
}
