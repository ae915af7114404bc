//! When the machine of the mesh begins. A node that was complete continues with what it had, whether it reaches others or not.
//! A new disk is not enrolled until the cluster has recorded its incarnation: only then is it known whether the node had
//! another disk before. That knowledge is durable here before anything follows from it.

use base::NodeId;
use mesh::{
    CatchUp, Incarnation, MeshPlan, Topology,
    rows::{self, Row, Rows},
};

#[derive(Debug)]
pub(crate) struct Startup {
    pub incarnation: Incarnation,
    /// Until the machine begins.
    waiting: Option<WaitingStart>,
    /// The machine has begun and the cluster has not written down this incarnation yet.
    pub is_unenrolled: bool,
    /// A standing that is being written.
    writing: bool,
}

#[derive(Debug)]
struct WaitingStart {
    replayed: Vec<Vec<Row>>,
    /// The topology of the last incarnation.
    kept: Option<Topology>,
}

/// What to do next.
pub(crate) enum StartupStep {
    Wait,
    Write(CatchUp),
    /// With these batches of the log.
    Begin(Topology, Vec<Vec<Row>>),
}

impl Startup {
    pub fn new(incarnation: Incarnation, replayed: Vec<Vec<Row>>, rows: &dyn Rows) -> Startup {
        let kept = kept_topology(&replayed, rows);
        let waiting = Some(WaitingStart { replayed, kept });
        Startup { incarnation, waiting, is_unenrolled: false, writing: false }
    }

    /// The topology that the disk has, until the machine begins.
    pub fn kept(&self) -> Option<&Topology> {
        self.waiting.as_ref().and_then(|waiting| waiting.kept.as_ref())
    }

    pub fn next(&mut self, plan: Option<&MeshPlan>, me: NodeId) -> StartupStep {
        let has_begun = self.waiting.is_none();
        if self.writing || has_begun && !self.is_unenrolled {
            return StartupStep::Wait;
        }
        let judged = plan.and_then(|plan| self.incarnation.catch_up_in(plan, me));
        if let Some(catch_up) = judged.filter(|_| self.incarnation.catch_up == CatchUp::Unknown) {
            return self.write(catch_up);
        }
        let kept = self.kept().cloned();
        let Some(topology) = plan.map(|plan| plan.topology.clone()).or(kept) else {
            return StartupStep::Wait;
        };
        let Some(waiting) = self.waiting.take() else { return StartupStep::Wait };
        self.is_unenrolled = self.incarnation.catch_up == CatchUp::Unknown;
        StartupStep::Begin(topology, waiting.replayed)
    }

    /// A node that has everything again is whole.
    pub fn catch_up(&mut self) -> StartupStep {
        if self.incarnation.catch_up == CatchUp::Behind && !self.writing {
            self.write(CatchUp::Complete)
        } else {
            StartupStep::Wait
        }
    }

    fn write(&mut self, catch_up: CatchUp) -> StartupStep {
        self.writing = true;
        StartupStep::Write(catch_up)
    }

    /// A standing is durable. True if the node is enrolled with it.
    pub fn written(&mut self, catch_up: CatchUp) -> bool {
        (self.incarnation.catch_up, self.writing) = (catch_up, false);
        std::mem::take(&mut self.is_unenrolled)
    }
}

fn kept_topology(replayed: &[Vec<Row>], rows: &dyn Rows) -> Option<Topology> {
    let newest = replayed.iter().flatten().rev().find(|row| row.key == rows::TOPOLOGY);
    let bytes = newest.map_or_else(|| rows.get(rows::TOPOLOGY), |row| row.value.clone());
    bytes.and_then(Topology::decode)
}
