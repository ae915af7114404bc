//! When the machine of the mesh begins. A node that was complete continues with what it had, whether it reaches others or not.
//! A new disk is not enrolled until the cluster has recorded its incarnation: only then is it known whether the node had
//! another disk before. That knowledge is durable here before anything follows from it.

use base::NodeId;
use mesh::Topology;
use mesh::life::{Life, Standing};
use mesh::plan::Plan;
use mesh::rows::{self, Row, Rows};

#[derive(Debug)]
pub(crate) struct Startup {
    pub life: Life,
    /// Until the machine begins.
    waiting: Option<Waiting>,
    /// The machine has begun and the cluster has not written down this life yet.
    pub is_unenrolled: bool,
    /// A standing that is being written.
    writing: bool,
}

#[derive(Debug)]
struct Waiting {
    replayed: Vec<Vec<Row>>,
    /// The topology of the last life.
    kept: Option<Topology>,
}

/// What to do next.
pub(crate) enum Step {
    Wait,
    Write(Standing),
    /// With these batches of the log.
    Begin(Topology, Vec<Vec<Row>>),
}

impl Startup {
    pub fn new(life: Life, replayed: Vec<Vec<Row>>, rows: &dyn Rows) -> Startup {
        let kept = kept_topology(&replayed, rows);
        let waiting = Some(Waiting { replayed, kept });
        Startup { life, waiting, is_unenrolled: false, writing: false }
    }

    /// The topology that the disk has, until the machine begins.
    pub fn kept(&self) -> Option<&Topology> {
        self.waiting.as_ref().and_then(|waiting| waiting.kept.as_ref())
    }

    pub fn next(&mut self, plan: Option<&Plan>, me: NodeId) -> Step {
        let has_begun = self.waiting.is_none();
        if self.writing || has_begun && !self.is_unenrolled {
            return Step::Wait;
        }
        let judged = plan.and_then(|plan| self.life.judged_by(plan, me));
        if let Some(standing) = judged.filter(|_| self.life.standing == Standing::Unknown) {
            return self.write(standing);
        }
        let kept = self.kept().cloned();
        let Some(topology) = plan.map(|plan| plan.topology.clone()).or(kept) else { return Step::Wait };
        let Some(waiting) = self.waiting.take() else { return Step::Wait };
        self.is_unenrolled = self.life.standing == Standing::Unknown;
        Step::Begin(topology, waiting.replayed)
    }

    /// A node that has everything again is whole.
    pub fn catch_up(&mut self) -> Step {
        match self.life.standing == Standing::Behind && !self.writing {
            true => self.write(Standing::Whole),
            false => Step::Wait,
        }
    }

    fn write(&mut self, standing: Standing) -> Step {
        self.writing = true;
        Step::Write(standing)
    }

    /// A standing is durable. True if the node is enrolled with it.
    pub fn written(&mut self, standing: Standing) -> bool {
        (self.life.standing, self.writing) = (standing, false);
        std::mem::take(&mut self.is_unenrolled)
    }
}

fn kept_topology(replayed: &[Vec<Row>], rows: &dyn Rows) -> Option<Topology> {
    let newest = replayed.iter().flatten().rev().find(|row| row.key == rows::TOPOLOGY);
    let bytes = newest.map_or_else(|| rows.get(rows::TOPOLOGY), |row| row.value.clone());
    bytes.and_then(Topology::decode)
}
