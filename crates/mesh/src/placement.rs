//! Which nodes keep a partition, in order of preference: from a set of nodes with zones, the same lists on every
//! node that looks. Each rank is dealt to all partitions before the next: every partition walks clockwise from
//! its start to the first node that it does not have yet, in a zone that it does not have yet, and that has not
//! had its fill. So every prefix of the lists is balanced, whatever number of copies a namespace wants, and a node
//! that comes or goes moves little more than its share. See docs/adr/0020.

use crate::ring::{PARTITIONS, Partition, position};
use base::NodeId;

/// The longest list that is dealt; no namespace may want more copies.
pub const COPIES_MAX: usize = 5;

/// A node takes up to this many hundredths of its even share of each rank.
const FILL_PERCENT: usize = 110;

/// What placement has to know of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingNode {
    pub node: NodeId,
    /// Nodes that fail together share a zone.
    pub zone: u32,
    /// How many points it has on the ring.
    pub points: u32,
}

/// The preference list of every partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferenceLists {
    lists: Vec<[NodeId; COPIES_MAX]>,
    len: usize,
}

impl PreferenceLists {
    /// Up to `copies` nodes for a partition, fewer when there are fewer nodes.
    pub fn of(&self, partition: Partition, copies: usize) -> &[NodeId] {
        match self.lists.get(partition.idx()) {
            Some(list) => &list[..copies.min(self.len)],
            None => &[],
        }
    }

    pub fn build(nodes: &[RingNode]) -> PreferenceLists {
        let mut builder = PlacementBuilder::new(nodes);
        let len = nodes.len().min(COPIES_MAX);
        for rank in 0..len {
            let cap = ((rank + 1) * PARTITIONS * FILL_PERCENT).div_ceil(100 * nodes.len());
            for partition in Partition::all() {
                let chosen = builder.choose(partition, rank, cap);
                builder.assign(partition, rank, chosen);
            }
        }
        PreferenceLists { lists: if len == 0 { Vec::new() } else { builder.node_ids(len) }, len }
    }
}

struct PlacementBuilder<'a> {
    nodes: &'a [RingNode],
    /// Position and index of the node, in ring order.
    points: Vec<(u64, u16)>,
    /// Indexes of the nodes that each partition has so far.
    assigned: Vec<[u16; COPIES_MAX]>,
    load: Vec<usize>,
    n_zones: usize,
}

/// How well a node suits a partition; the first is best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    NewZone,
    /// Apart is more important than even.
    NewZoneFull,
    SameZone,
    SameZoneFull,
}

impl<'a> PlacementBuilder<'a> {
    fn new(nodes: &'a [RingNode]) -> PlacementBuilder<'a> {
        let mut points = Vec::new();
        for (idx, node) in nodes.iter().enumerate() {
            let idx = u16::try_from(idx).expect("a topology has fewer nodes than that");
            points.extend((0..node.points.max(1)).map(|number| (position(node.node, number), idx)));
        }
        points.sort_unstable();
        let mut zones: Vec<u32> = nodes.iter().map(|node| node.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let (assigned, load) = (vec![[0; COPIES_MAX]; PARTITIONS], vec![0; nodes.len()]);
        PlacementBuilder { nodes, points, assigned, load, n_zones: zones.len() }
    }

    /// The first of the best fit, clockwise from the partition's start.
    fn choose(&self, partition: Partition, rank: usize, cap: usize) -> u16 {
        let has = &self.assigned[partition.idx()][..rank];
        let from = self.points.partition_point(|(position, _)| *position < partition.start());
        let mut best: Option<(Fit, u16)> = None;
        for (_, idx) in self.points[from..].iter().chain(&self.points[..from]) {
            if has.contains(idx) {
                continue;
            }
            let fit = self.fit(*idx, has, cap);
            if best.is_none_or(|(other, _)| fit < other) {
                best = Some((fit, *idx));
            }
            if fit == self.best_fit(rank) {
                break;
            }
        }
        best.expect("there are more nodes than ranks dealt").1
    }

    fn best_fit(&self, rank: usize) -> Fit {
        if rank < self.n_zones { Fit::NewZone } else { Fit::SameZone }
    }

    fn fit(&self, idx: u16, has: &[u16], cap: usize) -> Fit {
        let zone = |idx: u16| self.nodes[usize::from(idx)].zone;
        let new_zone = !has.iter().any(|other| zone(*other) == zone(idx));
        let full = self.load[usize::from(idx)] >= cap;
        match (new_zone, full) {
            (true, false) => Fit::NewZone,
            (true, true) => Fit::NewZoneFull,
            (false, false) => Fit::SameZone,
            (false, true) => Fit::SameZoneFull,
        }
    }

    fn assign(&mut self, partition: Partition, rank: usize, idx: u16) {
        self.assigned[partition.idx()][rank] = idx;
        self.load[usize::from(idx)] += 1;
    }

    fn node_ids(self, len: usize) -> Vec<[NodeId; COPIES_MAX]> {
        let ids = |assigned: &[u16; COPIES_MAX]| {
            let mut list = [NodeId::default(); COPIES_MAX];
            for (id, idx) in list.iter_mut().zip(&assigned[..len]) {
                *id = self.nodes[usize::from(*idx)].node;
            }
            list
        };
        self.assigned.iter().map(ids).collect()
    }
}

/// Where a partition lies now, and where it is going.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Asked, and counted for reads and writes.
    pub now: PreferenceLists,
    /// Counted for writes as well, as long as the partition has not moved there.
    pub next: PreferenceLists,
}

#[cfg(test)]
mod tests;
