//! The judge of a ring: all nodes answer, all replicas hold the same, and no clock ran ahead because of another.

use super::world::World;
use crate::mesh_cluster::{ClusterWorld, DRIFT_MAX, MS, PATIENCE, ROUND, WorldEvent};
use base::NodeId;

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
        self.judge_clocks(&nodes).or_else(|| self.judge_convergence())
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
