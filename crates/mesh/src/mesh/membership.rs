//! The topology that this node follows, whether it serves, and which nodes keep a key.
//! A newer topology is followed from any source; requests under an older epoch are declined from then on. A node that has
//! started serves once a majority of the replicas of each of its partitions has answered, because only then does it know
//! whether it was away for too long. A node that was away for too long serves once it has caught up.

mod far_stamps;
mod following;
pub mod routes;
pub mod witness;

use crate::frame::{Shard, StoreOutcome};
use crate::key::Key;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::io::Params;
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::peers::PeerHealth;
use crate::ring::Partition;
use crate::topology::{MovePhase, Topology};
use base::mutant::planted;
use base::{Instant, NodeId};
use far_stamps::FarStamps;
use routes::Routes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use witness::TopologyWitnesses;

const HELLO_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(in crate::mesh) struct Readiness {
    /// The node does not know yet which of its incarnations the others count on.
    unenrolled: bool,
    is_ready: bool,
    /// The node has lost its disk and has not caught up yet.
    wiped: bool,
    heard: BTreeSet<NodeId>,
    hello_at: Instant,
}

/// The nodes that keep each partition, those that answer, and whether this node serves.
pub(in crate::mesh) struct Membership {
    pub me: NodeId,
    pub topology: Topology,
    routes: Routes,
    /// The topology that was agreed on when the node started.
    pub agreed_topology: Option<Topology>,
    pub readiness: Readiness,
    witnesses: TopologyWitnesses,
    far_stamps: FarStamps,
    pub peers: PeerHealth,
}

impl Readiness {
    pub fn new(unenrolled: bool, wiped: bool) -> Readiness {
        Readiness { unenrolled, wiped, ..Readiness::default() }
    }

    pub fn is_unenrolled(&self) -> bool {
        self.unenrolled
    }

    pub fn is_wiped(&self) -> bool {
        self.wiped
    }

    pub fn caught_up(&mut self) {
        self.wiped = false;
    }
}

impl Membership {
    /// The node starts with the topology that it followed last, if there is one; the agreed one is followed then.
    pub fn new(params: &Params, followed: Option<Topology>, agreed: Topology) -> Membership {
        let topology = followed.unwrap_or_else(|| agreed.clone());
        Membership {
            me: params.actor.node,
            routes: Routes::of(&topology),
            topology,
            agreed_topology: Some(agreed),
            readiness: Readiness::new(params.unenrolled, params.wiped),
            witnesses: TopologyWitnesses::default(),
            far_stamps: FarStamps::default(),
            peers: PeerHealth::default(),
        }
    }

    /// None for a namespace that this node has not heard of.
    pub(in crate::mesh) fn shard_of(&self, key: &Key) -> Option<Shard> {
        Some(Shard { partition: key.partition(), copies: self.topology.copies(key.kept_by())? })
    }

    /// What the node that wanted something stored is told. A replica that has lost what it acknowledged before does not know
    /// what the record has lost against.
    pub(in crate::mesh) fn reported_outcome(&self, outcome: StoreOutcome) -> StoreOutcome {
        let is_kept = matches!(outcome, StoreOutcome::Applied | StoreOutcome::Superseded(_));
        let forgot = self.readiness.is_wiped() && !planted(Mutant::RefillingAcknowledged);
        if is_kept && forgot { StoreOutcome::Refilling } else { outcome }
    }

    pub(in crate::mesh) fn route(&self, partition: Partition, copies: u8) -> &Arc<Route> {
        self.routes.of_shard(partition, copies)
    }

    pub(in crate::mesh) fn keeps(&self, shard: Shard) -> bool {
        self.route(shard.partition, shard.copies).replicas().any(|node| node == self.me)
    }

    /// Whether this node is in the new list of a shard that has not moved yet, and not in the old one.
    pub(in crate::mesh) fn is_newcomer(&self, shard: Shard) -> bool {
        let route = self.route(shard.partition, shard.copies);
        let pending = self.topology.phase(shard.partition) == MovePhase::Pending;
        pending && !route.read.contains(&self.me) && route.also.contains(&self.me)
    }

    /// Gives dots and answers readers.
    pub(in crate::mesh) fn is_serving(&self) -> bool {
        self.readiness.is_ready && !self.readiness.unenrolled && !self.readiness.wiped && !self.is_stale()
    }

    pub(in crate::mesh) fn is_stale(&self) -> bool {
        self.topology.member(self.me).is_some_and(|member| member.stale)
    }

    fn has_heard_majorities(&self) -> bool {
        let heard = |node: &&NodeId| **node == self.me || self.readiness.heard.contains(node);
        self.topology.copies_in_use().into_iter().all(|copies| {
            Partition::all().all(|partition| {
                let route = self.route(partition, copies);
                let list = &route.read;
                !list.contains(&self.me) || list.iter().filter(heard).count() >= majority(list.len())
            })
        })
    }

    pub(in crate::mesh) fn all_shards(&self) -> impl Iterator<Item = Shard> + use<> {
        all_shards(&self.topology)
    }

    /// The nodes that keep the partitions of a namespace, in their order.
    pub(in crate::mesh) fn lists(&self, namespace_id: u32) -> Vec<Arc<Route>> {
        let copies = self.topology.copies(namespace_id).unwrap_or(0);
        Partition::all().map(|partition| self.route(partition, copies).clone()).collect()
    }

    pub(in crate::mesh) fn keeps_key(&self, key: &Key) -> bool {
        self.shard_of(key).is_some_and(|shard| self.keeps(shard))
    }

    pub(in crate::mesh) fn route_of(&self, key: &Key) -> Arc<Route> {
        let copies = self.topology.copies(key.namespace_id()).unwrap_or(0);
        self.route(key.partition(), copies).clone()
    }

    /// Keeps a shard and is not about to lose or to get it.
    pub(in crate::mesh) fn is_settled(&self, shard: Shard) -> bool {
        self.route(shard.partition, shard.copies).read.contains(&self.me)
    }
}

fn all_shards(topology: &Topology) -> impl Iterator<Item = Shard> + use<> {
    let copies = topology.copies_in_use();
    Partition::all()
        .flat_map(move |partition| copies.clone().into_iter().map(move |copies| Shard { partition, copies }))
}
