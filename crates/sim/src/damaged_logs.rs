//! Logs of single members that are damaged while their process is down: a bit of the last or of an earlier frame, of a
//! header, a segment cut short, files that are gone.
//! One member at a time, as with disks that are lost: so every acknowledged write has an intact copy on a majority, and
//! must be served. A member that refuses to start on what is left is replaced by an empty one, as its message says.

use crate::nemesis::ProcessEnd;
use crate::world::World;
use base::Rng;
use disk::wal::{self, FrameLocation};
use disk::{Disk, SimDisk};

/// What becomes of the files of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit of the newest frame with records.
    LastFrame,
    /// A bit somewhere before it, in the same segment.
    EarlierFrame,
    /// A bit of the newest segment's header.
    Header,
    /// The newest segment ends within the newest frame with records, or before.
    CutShort,
    NewestSegmentGone,
    ManifestGone,
    AllGone,
}

const ALL: [Damage; 9] = [
    Damage::LastFrame,
    Damage::LastFrame,
    Damage::LastFrame,
    Damage::EarlierFrame,
    Damage::Header,
    Damage::CutShort,
    Damage::NewestSegmentGone,
    Damage::ManifestGone,
    Damage::AllGone,
];

impl Damage {
    pub fn any(rng: &mut Rng) -> Damage {
        *rng.pick(&ALL)
    }

    pub fn apply(self, rng: &mut Rng, disk: &SimDisk, newest: &FrameLocation) {
        let FrameLocation { file, offset, len } = newest;
        match self {
            Damage::LastFrame => disk.flip_bit(file, rng.between(*offset, offset + len)),
            Damage::EarlierFrame => disk.flip_bit(file, rng.between(wal::HEADER_BYTES, *offset)),
            Damage::Header => disk.flip_bit(file, rng.between(0, wal::HEADER_BYTES)),
            Damage::CutShort => {
                // Where a frame begins there is nothing to see of it.
                let anywhere = rng.between(0, offset + len);
                let at = if rng.chance(700_000) { *offset } else { anywhere };
                disk.truncate_durably(file, at);
            }
            Damage::NewestSegmentGone => disk.remove_durably(file),
            Damage::ManifestGone => disk.remove_durably(wal::MANIFEST_NAME),
            Damage::AllGone => {
                let names = disk.list().unwrap_or_default();
                names
                    .iter()
                    .filter(|name| name.starts_with("wal-"))
                    .for_each(|name| disk.remove_durably(name));
            }
        }
    }
}

impl World {
    pub fn damage_any_log(&mut self, host: usize) {
        if self.may_lose_disk(host) {
            self.damage_log(host);
        }
    }

    /// The machine loses its power, and comes back with a log that is not what it was.
    pub fn damage_log(&mut self, host: usize) {
        let damage = Damage::any(&mut self.rng);
        self.counts.faults += 1;
        self.counts.disks_lost += 1;
        self.stop(host, ProcessEnd::PowerCut);
        let disk = self.hosts[host].disk.clone();
        let Ok(recovery) = wal::inspect(&disk.fork(), &mut |_| {}) else { return };
        let Some(newest) = recovery.newest else { return };
        self.hosts[host].damaged = true;
        // In the product the clock goes on, and starts are counted from it.
        self.hosts[host].disks += 1;
        self.counts.logs_damaged += 1;
        damage.apply(&mut self.rng, &disk, &newest);
    }

    /// The operator does what the message says.
    pub fn replace_damaged(&mut self, host: usize) {
        self.counts.damage_refused += 1;
        self.hosts[host].damaged = false;
        self.replace_disk(host);
    }
}
