//! What one seed of a world of the mesh comes to: what happened in it, and what was found. An assertion of the product
//! that fails is a finding like any other.

use base::mutant::{self, PlantedBug};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What happened, so that a world that was too quiet is noticed.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshCounts {
    pub acknowledged: u64,
    pub unknown: u64,
    pub read: u64,
    pub crashes: u64,
    pub wipes: u64,
    pub moves: u64,
    pub splits: u64,
    pub disk_errors: u64,
    pub full_disks: u64,
    pub pauses: u64,
    pub logs_damaged: u64,
    /// Losers that were noted, and regions that went for good; of worlds with several regions.
    pub conflicts: u64,
    pub evictions: u64,
}

pub struct Report {
    pub seed: u64,
    pub trace: u64,
    pub counts: MeshCounts,
    pub violation: Option<String>,
}

impl MeshCounts {
    pub fn add(&mut self, other: &MeshCounts) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.read += other.read;
        self.crashes += other.crashes;
        self.wipes += other.wipes;
        self.moves += other.moves;
        self.splits += other.splits;
        self.disk_errors += other.disk_errors;
        self.full_disks += other.full_disks;
        self.pauses += other.pauses;
        self.logs_damaged += other.logs_damaged;
        self.conflicts += other.conflicts;
        self.evictions += other.evictions;
    }
}

pub(crate) fn caught(seed: u64, planted: Option<PlantedBug>, play: impl Fn(u64) -> Report) -> Report {
    mutant::plant(planted);
    let ran = catch_unwind(AssertUnwindSafe(|| play(seed)));
    mutant::plant(None);
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Some(format!("assertion: {}", text.unwrap_or_default()));
        Report { seed, trace: 0, counts: MeshCounts::default(), violation }
    })
}
