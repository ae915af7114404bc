//! Which nodes keep a partition under one topology, computed once.

use crate::mesh::coordinator::writes::Route;
use crate::ring::Partition;
use crate::topology::{MovePhase, Topology};
use std::sync::Arc;

/// The replicas of every partition under one topology, computed once.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// For each number of copies in use, by partition.
    by_copies: Vec<(u8, Vec<Arc<Route>>)>,
    no_replicas: Arc<Route>,
}

impl Routes {
    pub fn of(topology: &Topology) -> Routes {
        let placement = topology.placement();
        let route = |partition: Partition, copies: u8| {
            let now = placement.now.of(partition, copies.into());
            let next = placement.next.of(partition, copies.into());
            let (read, also) = match topology.phase(partition) {
                MovePhase::Still => (now, now),
                MovePhase::Pending => (now, next),
                MovePhase::Switched => (next, now),
                MovePhase::Moved => (next, next),
            };
            let differs = !read.iter().all(|node| also.contains(node)) || read.len() != also.len();
            Arc::new(Route { read: read.to_vec(), also: if differs { also.to_vec() } else { Vec::new() } })
        };
        let routes = |copies| Partition::all().map(|partition| route(partition, copies)).collect();
        let by_copies = topology.copies_in_use().into_iter().map(|copies| (copies, routes(copies)));
        Routes { by_copies: by_copies.collect(), no_replicas: Arc::default() }
    }

    /// Empty for a number of copies that no namespace has.
    pub fn of_shard(&self, partition: Partition, copies: u8) -> &Arc<Route> {
        let mut found = self.by_copies.iter().filter(|(other, _)| *other == copies);
        found.next().map_or(&self.no_replicas, |(_, routes)| &routes[partition.idx()])
    }
}
