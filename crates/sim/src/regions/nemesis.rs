//! What goes wrong between and within regions. Regions are cut apart for long, and a sender's disk may die with its log.
//! In some worlds of three regions one goes for good and is evicted by the others.

use super::world::{World, little_skew, place};
use crate::stage::{Cue, MS, Stage};
use base::NodeId;
use mesh::namespaces::{self, Namespace, Namespaces};
use mesh::{Regions, regions};

const NAMESPACE_CHANGES_PER_MILLION: u64 = 100_000;
const LOSS_MAX_PER_MILLION: u64 = 60_000;
/// The fault during which another region is to take over a home, and how long nothing else goes wrong then.
const CUT_OFF_OWNER: u64 = 18;
const CUT_OFF_FOR: u64 = 7_000 * MS;

impl World {
    pub fn strike(&mut self) {
        let stage = &mut self.stage;
        if stage.is_calm {
            return;
        }
        let fault = stage.rng.between(0, 20);
        let next = match fault {
            CUT_OFF_OWNER => CUT_OFF_FOR,
            _ => stage.rng.between(100 * MS, 900 * MS),
        };
        stage.cue_after(next, Cue::Fault);
        if stage.rng.chance(NAMESPACE_CHANGES_PER_MILLION) {
            change_namespaces(stage);
        }
        let nodes = stage.nodes();
        let node = *stage.rng.pick(&nodes);
        match fault {
            0 => stage.stop(node, false),
            1 | 2 => stage.stop(node, true),
            3 => stage.cut_power_soon(node),
            4 => stage.cut_power_after_start(node),
            5 => stage.hosts[&node].disk.fail_next_sync(),
            6 | 7 => stage.lose_disk(node),
            8 => cut_off(stage, &[node]),
            9..=11 => {
                let region = stage.nodes_of(stage.hosts[&node].region);
                cut_off(stage, &region);
            }
            12 => stage.heal(),
            13 => stage.worsen(LOSS_MAX_PER_MILLION),
            14 => stage.host(node).skew_ms = little_skew(&mut stage.rng),
            15 => stage.pause(node),
            16 | 17 => stage.fill_disk(node),
            CUT_OFF_OWNER => cut_off_owner(stage),
            _ => {
                let region = stage.hosts[&node].region;
                stage.realm(region).leader = node;
            }
        }
    }

    /// Its machines are gone, and the others are told so.
    pub fn evict(&mut self) {
        let regions = self.regions();
        if self.stage.is_calm || regions.len() < 3 {
            return;
        }
        let gone = *self.stage.rng.pick(&regions);
        self.stage.tally.evictions += 1;
        self.gone = Some(gone);
        for node in self.stage.nodes_of(gone) {
            if self.stage.hosts[&node].process.is_some() {
                self.stage.end(node, true);
            }
            self.stage.hosts.remove(&node);
        }
        self.stage.realms.remove(&gone);
        self.clients.begin_sessions_anew();
        for region in self.regions() {
            let realm = self.stage.realm(region);
            let Some(table) = realm.document(regions::DOCUMENT).cloned() else { continue };
            let listed = Regions::decode(table.bytes).expect("a table can be read");
            // Where it is not listed any more, it was evicted before the others had it in their tables.
            let Ok(without) = listed.without(gone) else { continue };
            realm.replace(regions::DOCUMENT, table.version, without.encode());
            self.stage.spread_documents(region);
        }
    }
}

/// Somewhere a namespace is created or removed, without regard to what other regions do at the time.
fn change_namespaces(stage: &mut Stage) {
    let regions: Vec<_> = stage.realms.keys().copied().collect();
    let region = *stage.rng.pick(&regions);
    let name = ["shop", "bank"][stage.rng.between(0, 2) as usize];
    let document = stage.realm(region).document(namespaces::DOCUMENT).cloned();
    let version = document.as_ref().map_or(0, |document| document.version);
    let known = document.map(|document| Namespaces::decode(document.bytes).expect("it can be read"));
    let mut all = known.unwrap_or_default();
    if !all.remove(name, region) {
        all.set(name, Namespace::default(), region).expect("a lawful name");
    }
    stage.realm(region).replace(namespaces::DOCUMENT, version, all.encode());
    stage.spread_documents(region);
}

/// The region with a home is cut off for so long that another takes over, and one of its processes is stopped meanwhile.
fn cut_off_owner(stage: &mut Stage) {
    let Some(owner) = stage.owner(&place()) else { return };
    stage.heal();
    let nodes = stage.nodes_of(owner);
    stage.cut_around(|node| nodes.contains(&node), false);
    let (node, span) = (*stage.rng.pick(&nodes), stage.rng.between(5_000 * MS, CUT_OFF_FOR));
    stage.pause_for(node, span);
}

/// Sometimes they still hear the others.
fn cut_off(stage: &mut Stage, inside: &[NodeId]) {
    let one_way = stage.rng.chance(250_000);
    stage.cut_around(|node| inside.contains(&node), one_way);
}
