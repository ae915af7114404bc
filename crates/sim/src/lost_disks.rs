//! Disks that are lost, and members that come back under their old ids with nothing.
//! One disk at a time: the next may go when what the last one held is held again by a member that is trusted again. So a
//! majority of disks has everything that was acknowledged, and nothing of it may be lost.

use crate::nemesis::ProcessEnd;
use crate::world::{Event, World};
use coord::Members;
use disk::SimDisk;

/// Before that the cluster is being founded, and frames of that are still under way.
const FOUNDED_US: u64 = 5_000_000;

/// What is lost of a member's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Disk,
    Log,
}

impl World {
    pub fn lose_any_disk(&mut self, host: usize) {
        if self.may_lose_disk(host) {
            self.lose_disk(host);
        }
    }

    /// Some followers are cut off, so that what is acknowledged is on the disk that will be lost and on as few others as
    /// can be.
    pub fn lay_ambush(&mut self, loss: Loss) {
        let Some(leader) = self.leader() else { return };
        let voters = self.operators.voters();
        let votes = |host: &usize| voters.contains(&self.hosts[*host].id);
        let mut followers: Vec<usize> =
            (0..self.hosts.len()).filter(|host| votes(host) && *host != leader).collect();
        if followers.is_empty() {
            return;
        }
        let lost = followers.swap_remove(self.rng.between(0, followers.len() as u64) as usize);
        if !self.may_lose_disk(lost) {
            return;
        }
        let behind = side_of(&followers[..(voters.len() - 1) / 2]);
        self.network.part(behind);
        let delay = self.rng.between(50_000, 900_000);
        self.events.after(delay, Event::Ambush { lost, behind, disks: self.counts.disks_lost, loss });
    }

    /// The disk goes; soon its member is alone with those who were cut off, and together they are a majority.
    pub fn ambush(&mut self, lost: usize, behind: u64, disks: u64, loss: Loss) {
        if self.calm || self.counts.disks_lost != disks || self.hosts[lost].process.is_none() {
            return;
        }
        match loss {
            Loss::Disk => self.lose_disk(lost),
            Loss::Log => self.damage_log(lost),
        }
        let back = self.rng.between(5_000, 50_000);
        self.events.after(back, Event::Restart { host: lost });
        let parted = self.rng.between(1_000, 400_000);
        self.events.after(parted, Event::Part { side: behind | side_of(&[lost]) });
        if self.rng.chance(300_000) {
            self.events.after(parted + self.rng.between(0, 200_000), Event::Strike { host: lost });
            self.events.after(parted + 250_000, Event::Restart { host: lost });
        }
    }

    pub fn part(&mut self, side: u64) {
        if !self.calm {
            self.network.heal();
            self.network.part(side);
            self.heal_later();
        }
    }

    pub fn may_lose_disk(&self, host: usize) -> bool {
        let voters = self.operators.voters();
        self.events.now() > FOUNDED_US
            && voters.len() >= 3
            && voters.contains(&self.hosts[host].id)
            && self.are_all_disks_up_to_date()
            && !self.has_doubting_member()
    }

    fn lose_disk(&mut self, host: usize) {
        self.counts.faults += 1;
        self.counts.disks_lost += 1;
        self.stop(host, ProcessEnd::PowerCut);
        self.replace_disk(host);
    }

    pub fn replace_disk(&mut self, host: usize) {
        let disk = SimDisk::new(self.rng.next_u64());
        let machine = &mut self.hosts[host];
        machine.disk = disk;
        machine.flushed_members = Members::default();
        machine.disks += 1;
    }
}

fn side_of(hosts: &[usize]) -> u64 {
    hosts.iter().fold(0, |side, host| side | 1 << host)
}
