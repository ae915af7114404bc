//! Sends this node's report to the other nodes of its region: the whole report, periodically and soon after a change.

use crate::messages::{Message, Output};
use base::{Instant, NodeId};
use mesh::{MoveReport, NodeReport, Topology};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
/// After a change.
const SOON: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Reporter {
    pub report: NodeReport,
    due: Instant,
}

impl Reporter {
    pub fn new(report: NodeReport) -> Reporter {
        Reporter { report, due: Instant::ZERO }
    }

    /// What the machine has to say about a move.
    pub fn add(&mut self, now: Instant, reports: &[MoveReport], topology: &Topology) {
        let before = self.report.clone();
        reports.iter().for_each(|moved| self.report.add(*moved, topology));
        if self.report != before {
            self.due = self.due.min(now.after(SOON));
        }
    }

    /// With the next tick.
    pub fn report_soon(&mut self) {
        self.due = Instant::ZERO;
    }

    /// True if it was time; one that is lost is sent again.
    pub fn tick(&mut self, now: Instant, peers: &[NodeId], out: &mut Output) -> bool {
        if self.due > now {
            return false;
        }
        self.due = now.after(EVERY);
        peers.iter().for_each(|peer| self.send(*peer, out));
        true
    }

    pub fn send(&self, peer: NodeId, out: &mut Output) {
        out.messages.push((peer, Message::Report(self.report.clone())));
    }
}
