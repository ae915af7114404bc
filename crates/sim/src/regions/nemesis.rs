//! What goes wrong between and within regions. Regions are cut apart for long, and a sender's disk may die with its log.
//! In some worlds of three regions one goes for good and is evicted by the others.

use super::world::{World, home_scope, little_skew};
use crate::mesh_cluster::{MS, MeshCluster, WorldEvent};
use base::{FormatLevel, NodeId};
use mesh::{
    Regions, documents,
    namespaces::{Namespace, Namespaces},
};

const NAMESPACE_CHANGES_PER_MILLION: u64 = 100_000;
const LOSS_MAX_PER_MILLION: u64 = 60_000;
/// The fault during which another region is to take over a home, and how long nothing else goes wrong then.
const CUT_OFF_OWNER: u64 = 18;
const CUT_OFF_FOR: u64 = 7_000 * MS;

impl World {
    pub fn strike(&mut self) {
        let cluster = &mut self.cluster;
        if cluster.is_calm {
            return;
        }
        let fault = cluster.rng.between(0, 20);
        let next = match fault {
            CUT_OFF_OWNER => CUT_OFF_FOR,
            _ => cluster.rng.between(100 * MS, 900 * MS),
        };
        cluster.schedule(next, WorldEvent::Fault);
        if cluster.rng.chance(NAMESPACE_CHANGES_PER_MILLION) {
            change_namespaces(cluster);
        }
        let nodes = cluster.nodes();
        let node = *cluster.rng.pick(&nodes);
        match fault {
            0 => cluster.stop(node, false),
            1 | 2 => cluster.stop(node, true),
            3 => cluster.cut_power_soon(node),
            4 => cluster.cut_power_after_start(node),
            5 => cluster.hosts[&node].disk.fail_next_sync(),
            6 | 7 => cluster.lose_disk(node),
            8 => cut_off(cluster, &[node]),
            9..=11 => {
                let region = cluster.nodes_of(cluster.hosts[&node].region);
                cut_off(cluster, &region);
            }
            12 => cluster.heal(),
            13 => cluster.worsen(LOSS_MAX_PER_MILLION),
            14 => cluster.host(node).skew_ms = little_skew(&mut cluster.rng),
            15 => cluster.pause(node),
            16 | 17 => cluster.fill_disk(node),
            CUT_OFF_OWNER => cut_off_owner(cluster),
            _ => {
                let region = cluster.hosts[&node].region;
                cluster.region_coord(region).leader = node;
            }
        }
    }

    /// Its machines are gone, and the others are told so.
    pub fn evict(&mut self) {
        let regions = self.regions();
        if self.cluster.is_calm || regions.len() < 3 {
            return;
        }
        let gone = *self.cluster.rng.pick(&regions);
        self.cluster.counts.evictions += 1;
        self.gone = Some(gone);
        for node in self.cluster.nodes_of(gone) {
            if self.cluster.hosts[&node].process.is_some() {
                self.cluster.end(node, true);
            }
            self.cluster.hosts.remove(&node);
        }
        self.cluster.region_coords.remove(&gone);
        self.clients.begin_new_sessions();
        for region in self.regions() {
            let region_coord = self.cluster.region_coord(region);
            let Some(table) = region_coord.document(documents::REGIONS).cloned() else { continue };
            let listed = Regions::decode(table.bytes).expect("a table can be read");
            // Where it is not listed any more, it was evicted before the others had it in their tables.
            let Ok(without) = listed.without(gone) else { continue };
            region_coord.replace(documents::REGIONS, table.version, without.encode());
            self.cluster.spread_documents(region);
        }
    }
}

/// Somewhere a namespace is created or removed, without regard to what other regions do at the time.
fn change_namespaces(cluster: &mut MeshCluster) {
    let regions: Vec<_> = cluster.region_coords.keys().copied().collect();
    let region = *cluster.rng.pick(&regions);
    let name = ["shop", "bank"][cluster.rng.between(0, 2) as usize];
    let document = cluster.region_coord(region).document(documents::NAMESPACES).cloned();
    let version = document.as_ref().map_or(0, |document| document.version);
    let known = document.map(|document| Namespaces::decode(document.bytes).expect("it can be read"));
    let mut all = known.unwrap_or_default();
    if !all.remove(name, region) {
        all.set(name, Namespace::default(), region).expect("a lawful name");
    }
    cluster.region_coord(region).replace(documents::NAMESPACES, version, all.encode(FormatLevel::NEWEST));
    cluster.spread_documents(region);
}

/// The region with a home is cut off for so long that another takes over, and one of its processes is stopped meanwhile.
fn cut_off_owner(cluster: &mut MeshCluster) {
    let Some(owner) = cluster.owner(&home_scope()) else { return };
    cluster.heal();
    let nodes = cluster.nodes_of(owner);
    cluster.cut_around(|node| nodes.contains(&node), false);
    let (node, span) = (*cluster.rng.pick(&nodes), cluster.rng.between(5_000 * MS, CUT_OFF_FOR));
    cluster.pause_for(node, span);
}

/// Sometimes they still hear the others.
fn cut_off(cluster: &mut MeshCluster, inside: &[NodeId]) {
    let one_way = cluster.rng.chance(250_000);
    cluster.cut_around(|node| inside.contains(&node), one_way);
}
