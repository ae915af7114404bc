//! The judge of a ring: all nodes answer, all replicas hold the same, and no clock ran ahead because of another.

use super::world::World;
use crate::mesh_cluster::{ClusterWorld, DRIFT_MAX, MS, PATIENCE, ROUND, WorldEvent};
use base::NodeId;
use mesh::Request;

/// Requests of each kind that are refused.
const REFUSALS: usize = 15;
/// Far below the deadline of a request.
const REFUSED_WITHIN_MS: u64 = 150;

impl World {
    /// Reads every key through every node; then all replicas must hold the same, and no clock may run ahead.
    pub fn judge_end(&mut self) -> Option<String> {
        self.cluster.drop_world_events(|on_world_event| {
            matches!(on_world_event, WorldEvent::Client(_) | WorldEvent::Fault)
        });
        self.run(2 * PATIENCE);
        let nodes = self.cluster.nodes();
        for key in self.clients.final_reads() {
            for node in &nodes {
                let (nth, request) = self.clients.read_finally(&key);
                self.ask(*node, nth, request);
                if let Some(wrong) = self.wait_for(nth) {
                    return Some(wrong);
                }
            }
        }
        let wrong = self.judge_clocks(&nodes).or_else(|| self.judge_convergence());
        wrong.or_else(|| if self.scenario.judges_answer_times { self.judge_refusals(&nodes) } else { None })
    }

    /// All nodes but one stand still, and it has noticed: reads are refused as fast as writes.
    fn judge_refusals(&mut self, nodes: &[NodeId]) -> Option<String> {
        let (asked, others) = nodes.split_first()?;
        others.iter().for_each(|node| self.cluster.pause_for(*node, 60_000 * MS));
        let name = "refused";
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..REFUSALS {
            let (nth, request) = self.clients.write_finally(name);
            writes.push(self.time_of(*asked, nth, request));
            let (nth, request) = self.clients.read_finally(name);
            reads.push(self.time_of(*asked, nth, request));
        }
        // The first ones notice, and now and then one tries a node that is down.
        let median = |times: &mut Vec<u64>| {
            times.sort_unstable();
            times[times.len() / 2] / MS
        };
        let (read, write) = (median(&mut reads), median(&mut writes));
        (read.max(write) > REFUSED_WITHIN_MS)
            .then(|| format!("answers: without a quorum reads take {read} ms and writes {write} ms"))
    }

    /// How long an answer takes.
    fn time_of(&mut self, node: NodeId, nth: usize, request: Request) -> u64 {
        let began = self.cluster.now;
        self.ask(node, nth, request);
        while !self.clients.operations[nth].done {
            self.run(MS);
        }
        self.cluster.now - began
    }

    /// Within three rounds after the last write all replicas hold the same. What is forgotten goes from one after the other.
    fn judge_convergence(&mut self) -> Option<String> {
        let end = self.cluster.now + 3 * ROUND.as_micros() as u64;
        loop {
            let differs = self.judge_replicas();
            if differs.is_none() || self.cluster.now >= end || self.cluster.violation.is_some() {
                return self.cluster.violation.take().or(differs);
            }
            self.run(20 * MS);
        }
    }

    fn wait_for(&mut self, nth: usize) -> Option<String> {
        let (read, written) = (self.cluster.counts.read, self.cluster.counts.acknowledged);
        for _ in 0..600 {
            if self.cluster.violation.is_some() {
                return self.cluster.violation.take();
            }
            if self.clients.operations[nth].done {
                let answered = self.cluster.counts.read + self.cluster.counts.acknowledged > read + written;
                return (!answered).then(|| "liveness: a request is refused in a calm".to_owned());
            }
            self.run(MS);
        }
        Some("liveness: a request is not answered in a calm".to_owned())
    }

    /// A node that was never ahead gives stamps of its own time to keys that are new.
    fn judge_clocks(&mut self, nodes: &[NodeId]) -> Option<String> {
        for node in
            nodes.iter().filter(|node| !self.cluster.hosts[node].was_ahead).copied().collect::<Vec<_>>()
        {
            let (nth, request) = self.clients.write_finally(&format!("new/{}", node.0));
            self.ask(node, nth, request);
            if let Some(wrong) = self.wait_for(nth) {
                return Some(wrong);
            }
        }
        let bound_ms = self.cluster.true_ms() + 2 * DRIFT_MAX.as_millis() as u64;
        let ahead = |node: &&NodeId| {
            let host = &self.cluster.hosts[node];
            !host.was_ahead && host.machine().is_some_and(|machine| machine.clock_ms() > bound_ms)
        };
        let led_astray = nodes.iter().find(ahead)?;
        Some(format!("clocks: node {} gives stamps of the future, though its clock is right", led_astray.0))
    }

    fn judge_replicas(&mut self) -> Option<String> {
        let Some(plan) = self.region_coord().plan() else {
            return Some("liveness: there is no ring".to_owned());
        };
        // A node that has left, and lost its disk since, is not enrolled and holds nothing.
        self.cluster.differ(|node| plan.topology.member(node).is_some())
    }
}
