//! The nemesis: breaks processes, disks, clocks and links, one or many at a time.
//! Every fault is drawn from the seed, undone after a while, and counted.

use crate::history::Outcome;
use crate::lost_disks::Loss;
use crate::world::{Checked, Event, World};
use node::ConsensusInput;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// SIGKILL: the kernel keeps what was written, synced or not.
    Killed,
    /// The machine loses power: what was not synced is lost, torn or reordered.
    PowerCut,
    /// The process stopped itself because its disk failed; then the machine may go down with it.
    DiskError,
}

/// What can be broken, in one go.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Kill,
    PowerCut,
    Blackout,
    Split,
    OneWay,
    IsolateLeader,
    IsolateFollower,
    Pause,
    PauseLeader,
    FailSync,
    FillDisk,
    CutPowerSoon,
    JumpClock,
    SlowDisks,
    Flicker,
    Transfer,
    /// A disk is lost, and its member comes back with an empty one.
    LoseDisk,
    /// So is one that others have counted on, and those who would miss it are cut off.
    Ambush,
    /// Part of a log is damaged or gone, and its member comes back with what is left.
    DamageLog,
    /// The same, of a member that others have counted on, and those who would miss it are cut off.
    DamageLogInAmbush,
}

/// All of them, by how often they come.
pub const STORM: &[(u64, Fault)] = &[
    (14, Fault::Kill),
    (14, Fault::PowerCut),
    (4, Fault::Blackout),
    (12, Fault::Split),
    (8, Fault::OneWay),
    (6, Fault::IsolateLeader),
    (10, Fault::Pause),
    (6, Fault::FailSync),
    (6, Fault::FillDisk),
    (8, Fault::CutPowerSoon),
    (3, Fault::JumpClock),
    (4, Fault::SlowDisks),
    (3, Fault::Flicker),
    (2, Fault::Transfer),
];

impl World {
    pub fn nemesis(&mut self) -> Checked {
        if self.calm {
            return Ok(());
        }
        let (shortest, longest) = self.settings.bias.fault_pause;
        let pause = self.rng.between(shortest, longest);
        self.events.after(pause, Event::Nemesis);
        let host = self.rng.between(0, self.hosts.len() as u64) as usize;
        match self.next_fault() {
            Fault::Kill => self.strike(host, ProcessEnd::Killed),
            Fault::PowerCut => self.strike(host, ProcessEnd::PowerCut),
            Fault::Blackout => self.strike_all(),
            Fault::Split => self.split(),
            Fault::OneWay => self.cut_one_way(),
            Fault::IsolateLeader => self.isolate_leader(),
            Fault::IsolateFollower => self.isolate_follower(host),
            Fault::Pause => self.pause(host),
            Fault::PauseLeader => self.pause(self.leader().unwrap_or(host)),
            Fault::FailSync => self.fail_sync(host),
            Fault::FillDisk => self.fill_disk(host),
            Fault::CutPowerSoon => self.cut_power_soon(host),
            Fault::JumpClock => self.jump_clock(host),
            Fault::SlowDisks => self.slow_disks(),
            Fault::Flicker => self.flicker(),
            Fault::Transfer => return self.transfer_leadership(),
            Fault::LoseDisk => self.lose_any_disk(host),
            Fault::Ambush => self.lay_ambush(Loss::Disk),
            Fault::DamageLog => self.damage_any_log(host),
            Fault::DamageLogInAmbush => self.lay_ambush(Loss::Log),
        }
        Ok(())
    }

    fn next_fault(&mut self) -> Fault {
        let faults = self.settings.bias.faults;
        let mut draw = self.rng.between(0, faults.iter().map(|(weight, _)| weight).sum());
        for (weight, fault) in faults {
            if draw < *weight {
                return *fault;
            }
            draw -= weight;
        }
        unreachable!("what is drawn lies below the sum of the weights")
    }

    pub fn strike(&mut self, host: usize, end: ProcessEnd) {
        if self.hosts[host].process.is_some() {
            self.counts.faults += 1;
            self.stop(host, end);
        }
    }

    /// The members that would elect a new leader go down and come back while they vote.
    fn flicker(&mut self) {
        self.isolate_leader();
        for _ in 0..2 * self.hosts.len() {
            let host = self.rng.between(0, self.hosts.len() as u64) as usize;
            let delay = self.rng.between(800_000, 2_500_000);
            self.events.after(delay, Event::Strike { host });
        }
    }

    /// The whole cluster loses power at once.
    pub fn strike_all(&mut self) {
        for host in 0..self.hosts.len() {
            self.strike(host, ProcessEnd::PowerCut);
        }
    }

    /// Ends a process and plans its return.
    pub fn stop(&mut self, host: usize, end: ProcessEnd) {
        let Some(process) = self.hosts[host].process.take() else { return };
        self.counts.deaths += 1;
        let machine_too = match end {
            ProcessEnd::Killed => false,
            ProcessEnd::PowerCut => true,
            ProcessEnd::DiskError => self.hosts[host].disk.has_lost_power() || self.rng.chance(500_000),
        };
        let machine = &mut self.hosts[host];
        machine.pid += 1;
        machine.paused = false;
        if machine_too {
            machine.disk.crash()
        } else {
            machine.disk.kill()
        }
        let waiting = process.waiting.clone();
        drop(process);
        for operation in waiting.into_values() {
            self.settle(operation, Outcome::Unknown);
        }
        self.lose_watchers(host);
        let gone = self.hosts[host].id;
        for other in 0..self.hosts.len() {
            // A kernel that lives on closes the dead process's connections at once.
            if other != host && !machine_too && self.hosts[other].process.is_some() {
                let pid = self.hosts[other].pid;
                let delay = self.rng.between(100, 5_000);
                self.events
                    .after(delay, Event::Report { host: other, pid, input: ConsensusInput::Lost(gone) });
            }
        }
        // Some supervisors start a process again at once.
        let longest = if self.calm || self.rng.chance(300_000) { 100_000 } else { 5_000_000 };
        let delay = self.rng.between(5_000, longest);
        self.events.after(delay, Event::Restart { host });
    }

    fn split(&mut self) {
        self.counts.faults += 1;
        self.network.split(&mut self.rng);
        self.heal_later();
    }

    fn cut_one_way(&mut self) {
        self.counts.faults += 1;
        self.network.cut_one_way(&mut self.rng);
        self.heal_later();
    }

    fn isolate_leader(&mut self) {
        if let Some(leader) = self.leader() {
            self.counts.faults += 1;
            self.network.isolate(leader);
            self.heal_later();
        }
    }

    fn isolate_follower(&mut self, host: usize) {
        if self.leader() != Some(host) {
            self.counts.faults += 1;
            self.network.isolate(host);
            self.heal_later();
        }
    }

    pub fn heal_later(&mut self) {
        let delay = self.rng.between(300_000, 8_000_000);
        self.events.after(delay, Event::Heal);
    }

    fn pause(&mut self, host: usize) {
        let machine = &mut self.hosts[host];
        if machine.process.is_some() && !machine.paused {
            self.counts.faults += 1;
            machine.paused = true;
            let delay = self.rng.between(50_000, 6_000_000);
            self.events.after(delay, Event::Resume { host });
        }
    }

    fn fail_sync(&mut self, host: usize) {
        self.counts.faults += 1;
        self.hosts[host].disk.fail_next_sync();
    }

    /// Every disk takes long over its syncs for a while; then, sometimes, the lights go out.
    fn slow_disks(&mut self) {
        self.counts.faults += 1;
        let until = self.events.now() + self.rng.between(500_000, 4_000_000);
        self.hosts.iter_mut().for_each(|host| host.slow_until = until);
        if self.rng.chance(500_000) {
            self.events.after(self.rng.between(100_000, 2_000_000), Event::Blackout);
        }
    }

    fn fill_disk(&mut self, host: usize) {
        self.counts.faults += 1;
        let machine = &mut self.hosts[host];
        machine.disk.set_space(0);
        // Both the store and the log wait for space, and give up if there is none in time.
        if self.rng.chance(500_000) {
            machine.disk.free_space_after(self.rng.between(1, 5) as u32);
        }
        let delay = self.rng.between(100_000, 5_000_000);
        self.events.after(delay, Event::SpaceReturns { host });
    }

    /// The power goes in the midst of whatever the disk does next.
    pub fn cut_power_soon(&mut self, host: usize) {
        if self.hosts[host].process.is_some() {
            self.counts.faults += 1;
            let operations = self.rng.between(0, 40);
            self.hosts[host].disk.fail_after_ops(operations);
        }
    }

    fn jump_clock(&mut self, host: usize) {
        self.counts.faults += 1;
        let now = self.events.now();
        self.lease_holders.clock_jumped(now);
        self.hosts[host].clock.ahead += self.rng.between(10_000, 10_000_000);
    }

    fn transfer_leadership(&mut self) -> Checked {
        let Some(leader) = self.leader() else { return Ok(()) };
        if self.hosts[leader].paused {
            return Ok(());
        }
        self.counts.faults += 1;
        let to = *self.rng.pick(&self.hosts.iter().map(|host| host.id).collect::<Vec<_>>());
        self.drive(leader, ConsensusInput::Transfer(to))
    }

    /// Faults stop: links heal, clocks run, disks have space, all members start again.
    pub fn calm_down(&mut self) {
        self.calm = true;
        self.quiet_since = self.events.now();
        self.network.calm_down();
        for host in 0..self.hosts.len() {
            let machine = &mut self.hosts[host];
            machine.paused = false;
            machine.slow_until = 0;
            machine.disk.set_space(u64::MAX);
            machine.disk.cancel_faults();
            self.events.after(1, Event::Restart { host });
        }
    }
}
