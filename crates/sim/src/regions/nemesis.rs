//! What goes wrong between and within regions. Regions are cut apart for long, and a sender's disk may die with its log.
//! In some worlds of three regions one goes for good and is evicted by the others.

use super::world::{World, little_skew};
use crate::stage::{Cue, MS, Stage};
use base::NodeId;

const LOSS_MAX_PER_MILLION: u64 = 60_000;

impl World {
    pub fn strike(&mut self) {
        let stage = &mut self.stage;
        if stage.is_calm {
            return;
        }
        let next = stage.rng.between(100 * MS, 900 * MS);
        stage.cue_after(next, Cue::Fault);
        let nodes = stage.nodes();
        let node = *stage.rng.pick(&nodes);
        match stage.rng.between(0, 16) {
            0 => stage.stop(node, false),
            1 | 2 => stage.stop(node, true),
            3 => stage.cut_power_soon(node),
            4 => stage.hosts[&node].disk.fail_next_sync(),
            5 | 6 => stage.lose_disk(node),
            7 => stage.cut_around(|other| other == node, false),
            8..=10 => cut_region(stage, node),
            11 => stage.heal(),
            12 => stage.worsen(LOSS_MAX_PER_MILLION),
            13 => stage.host(node).skew_ms = little_skew(&mut stage.rng),
            14 => stage.pause(node),
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
            let table = &mut self.stage.realm(region).table;
            *table = table.take().map(|table| table.without(gone).expect("it was listed"));
            self.stage.spread_documents(region);
        }
    }
}

fn cut_region(stage: &mut Stage, node: NodeId) {
    let inside = stage.nodes_of(stage.hosts[&node].region);
    stage.cut_around(|node| inside.contains(&node), false);
}
