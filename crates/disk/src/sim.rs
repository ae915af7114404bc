//! A disk in memory that behaves as badly as a real one may, and as the seed says.
//! What was not synced is decided at `crash`: each 4 KiB sector of each pending write survives or not, so
//! writes are lost, torn and reordered; of pending creations, renamings and removals a prefix survives.
//! What was synced always survives, except where a test damages it on purpose.

mod inode;
#[cfg(test)]
mod tests;

use crate::disk::{DirLock, Disk, File};
use base::Rng;
use inode::{CrashOutcome, Inode};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle; clones share one disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

/// What happened on the disk so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub bytes_written: u64,
    pub syncs: u64,
    pub names_changed: u64,
    pub crashes: u64,
    /// Sectors of unsynced writes that a crash kept or dropped.
    pub sectors_kept: u64,
    pub sectors_lost: u64,
    pub syncs_failed: u64,
    pub space_refused: u64,
    /// How often a store that found the disk full checked again.
    pub waits_for_space: u64,
}

#[derive(Clone)]
struct State {
    rng: Rng,
    inodes: BTreeMap<u64, Inode>,
    inode_next: u64,
    /// Names as the running process sees them, and as they would be after a power cut now.
    names: BTreeMap<String, u64>,
    names_durable: BTreeMap<String, u64>,
    names_pending: Vec<NameChange>,
    /// Rises with every crash; handles opened before are dead.
    generation: u64,
    locked: bool,
    power: Power,
    sync_fails_next: bool,
    space_bytes: u64,
    /// After how many checks a waiting store finds space; `None` for never.
    space_after: Option<u32>,
    used_bytes: u64,
    counters: Counters,
}

#[derive(Clone)]
enum NameChange {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

/// A power cut that strikes in the midst of a compound operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Power {
    On,
    OnForOps(u64),
    Off,
}

/// How a mutating operation is to proceed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Whole,
    /// Under way when the power goes: its effect may or may not reach the platter, the caller gets an error.
    CutDown,
}

impl SimDisk {
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            inodes: BTreeMap::new(),
            inode_next: 1,
            names: BTreeMap::new(),
            names_durable: BTreeMap::new(),
            names_pending: Vec::new(),
            generation: 0,
            locked: false,
            power: Power::On,
            sync_fails_next: false,
            space_bytes: u64::MAX,
            space_after: None,
            used_bytes: 0,
            counters: Counters::default(),
        })))
    }

    /// Cuts the power and restores it: unsynced writes survive or not, and all handles opened before are dead. Call
    /// it before dropping a store, whose orderly close would otherwise still reach the disk.
    pub fn crash(&self) {
        self.state().crash();
    }

    /// Ends the process but not the machine (SIGKILL): handles die, while unsynced work stays as it is,
    /// visible and still at risk. Faults that were armed are disarmed, as by `crash`.
    pub fn kill(&self) {
        self.state().die();
    }

    /// The next sync of a file fails, and what it should have synced may or may not be on the disk: later
    /// syncs that succeed do not change that (fsyncgate).
    pub fn fail_next_sync(&self) {
        self.state().sync_fails_next = true;
    }

    /// The power goes after `n` more mutating operations; from then on everything fails until `crash`.
    pub fn fail_after_ops(&self, n: u64) {
        self.state().power = Power::OnForOps(n);
    }

    /// The power is gone; only `crash` brings it back.
    pub fn has_lost_power(&self) -> bool {
        self.state().power == Power::Off
    }

    /// Faults that were planned and have not struck will not.
    pub fn cancel_faults(&self) {
        let mut state = self.state();
        state.sync_fails_next = false;
        if state.power != Power::Off {
            state.power = Power::On;
        }
    }

    /// Growth beyond so many bytes in all is refused with ENOSPC.
    pub fn set_space(&self, bytes: u64) {
        self.state().space_bytes = bytes;
    }

    /// A write that waits on a full disk finds space after so many checks.
    pub fn free_space_after(&self, looks: u32) {
        self.state().space_after = Some(looks);
    }

    /// Damages one bit, chosen by the seed, of the byte at `offset`, as if the platter had rotted.
    pub fn flip_bit(&self, name: &str, offset: u64) {
        let mut state = self.state();
        let bit = state.rng.between(0, 8);
        let inode = state.names.get(name).copied().expect("the file to damage exists");
        state.inodes.get_mut(&inode).expect("a named file has an inode").flip(offset, bit as u32);
    }

    /// A file ends here from now on, durably, as if an operator had cut it.
    pub fn truncate_durably(&self, name: &str, len: u64) {
        let mut state = self.state();
        let inode = state.names.get(name).copied().expect("the file to cut exists");
        let inode = state.inodes.get_mut(&inode).expect("a named file has an inode");
        let before = inode.len();
        if len < before {
            inode.set_len(len);
            inode.sync();
            state.used_bytes -= before - len;
        }
    }

    /// A file is gone, durably, as if an operator had removed it; nothing happens if there is none.
    pub fn remove_durably(&self, name: &str) {
        let mut state = self.state();
        if state.names.remove(name).is_some() {
            state.names_durable.remove(name);
            state.names_pending.clear();
            state.sweep();
        }
    }

    /// A copy of the disk as it is, on which other things can happen.
    pub fn fork(&self) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(self.state().clone())))
    }

    pub fn counters(&self) -> Counters {
        self.state().counters
    }

    /// Bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.state().used_bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, state: &mut State, inode: u64) -> Box<dyn File> {
        state.inodes.get_mut(&inode).expect("a named file has an inode").handles += 1;
        Box::new(SimFile { disk: self.clone(), inode, generation: state.generation })
    }
}

impl State {
    fn crash(&mut self) {
        let survivors = self.rng.between(0, self.names_pending.len() as u64 + 1) as usize;
        for change in self.names_pending.drain(..).take(survivors) {
            apply_change(&mut self.names_durable, change);
        }
        self.names = self.names_durable.clone();
        let State { inodes, names, rng, counters, .. } = self;
        inodes.retain(|id, _| names.values().any(|named| named == id));
        for inode in inodes.values_mut() {
            let outcome = CrashOutcome::draw(rng);
            inode.crash(outcome, rng, counters);
            inode.handles = 0;
        }
        self.used_bytes = self.inodes.values().map(Inode::len).sum();
        self.counters.crashes += 1;
        self.die();
    }

    fn die(&mut self) {
        self.generation += 1;
        self.locked = false;
        self.sync_fails_next = false;
        self.power = Power::On;
        for inode in self.inodes.values_mut() {
            inode.handles = 0;
        }
    }

    fn read_step(&mut self) -> io::Result<()> {
        if self.power == Power::Off {
            return Err(no_power());
        }
        self.counters.reads += 1;
        Ok(())
    }

    fn write_step(&mut self) -> io::Result<Step> {
        match self.power {
            Power::On => Ok(Step::Whole),
            Power::Off => Err(no_power()),
            Power::OnForOps(0) => {
                self.power = Power::Off;
                Ok(Step::CutDown)
            }
            Power::OnForOps(left) => {
                self.power = Power::OnForOps(left - 1);
                Ok(Step::Whole)
            }
        }
    }

    fn change_names(&mut self, step: Step, change: NameChange) -> io::Result<()> {
        self.counters.names_changed += 1;
        apply_change(&mut self.names, change.clone());
        self.names_pending.push(change);
        step.finish()
    }

    fn named(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Forgets files that no name, now or after a power cut, and no handle leads to.
    fn sweep(&mut self) {
        let State { inodes, names, names_durable, used_bytes, .. } = self;
        inodes.retain(|id, inode| {
            let kept = inode.handles > 0
                || names.values().any(|named| named == id)
                || names_durable.values().any(|named| named == id);
            if !kept {
                *used_bytes -= inode.len();
            }
            kept
        });
    }

    fn grow(&mut self, from: u64, to: u64) -> io::Result<()> {
        let used = self.used_bytes - from + to;
        if to > from && used > self.space_bytes {
            self.counters.space_refused += 1;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.used_bytes = used;
        Ok(())
    }
}

impl Step {
    fn finish(self) -> io::Result<()> {
        match self {
            Step::Whole => Ok(()),
            Step::CutDown => Err(no_power()),
        }
    }
}

fn apply_change(names: &mut BTreeMap<String, u64>, change: NameChange) {
    match change {
        NameChange::Create(name, inode) => {
            names.insert(name, inode);
        }
        NameChange::Rename(from, to) => {
            let inode = names.remove(&from).expect("changes are applied in the order they were accepted");
            names.insert(to, inode);
        }
        NameChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

fn no_power() -> io::Error {
    io::Error::other("the simulated power is off")
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        state.read_step()?;
        let inode = state.named(name)?;
        Ok(self.handle(&mut state, inode))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        let step = state.write_step()?;
        if state.names.contains_key(name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        let inode = state.inode_next;
        state.inode_next += 1;
        state.inodes.insert(inode, Inode::default());
        state.change_names(step, NameChange::Create(name.to_string(), inode))?;
        Ok(self.handle(&mut state, inode))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        let mut state = self.state();
        state.read_step()?;
        Ok(state.names.contains_key(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let step = state.write_step()?;
        state.named(from)?;
        state.change_names(step, NameChange::Rename(from.to_string(), to.to_string()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let step = state.write_step()?;
        state.named(name)?;
        state.change_names(step, NameChange::Remove(name.to_string()))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.read_step()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let step = state.write_step()?;
        step.finish()?;
        state.counters.syncs += 1;
        if !state.names_pending.is_empty() {
            state.names_pending.clear();
            state.names_durable = state.names.clone();
            state.sweep();
        }
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.state();
        Ok(state.space_bytes.saturating_sub(state.used_bytes))
    }

    fn lock(&self) -> io::Result<Box<dyn DirLock>> {
        let mut state = self.state();
        state.read_step()?;
        if state.locked {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        state.locked = true;
        Ok(Box::new(SimLock { disk: self.clone(), generation: state.generation }))
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    generation: u64,
}

impl SimFile {
    /// Runs `act` on a disk that has power and on a handle opened since the last crash.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        if state.generation != self.generation {
            return Err(io::Error::other("the file was opened before the crash"));
        }
        act(&mut state)
    }
}

impl State {
    fn inode(&mut self, inode: u64) -> &mut Inode {
        self.inodes.get_mut(&inode).expect("a file with a handle is kept")
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|state| {
            state.read_step()?;
            state.inode(self.inode).read(offset, out)
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|state| {
            let step = state.write_step()?;
            let len = state.inode(self.inode).len();
            state.grow(len, len.max(offset + bytes.len() as u64))?;
            state.counters.writes += 1;
            state.counters.bytes_written += bytes.len() as u64;
            state.inode(self.inode).write(offset, bytes);
            step.finish()
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|state| {
            state.write_step()?.finish()?;
            state.counters.syncs += 1;
            if std::mem::take(&mut state.sync_fails_next) {
                state.counters.syncs_failed += 1;
                state.inode(self.inode).sync_failed();
                return Err(io::Error::other("the simulated sync failed (EIO)"));
            }
            state.inode(self.inode).sync();
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state| {
            state.read_step()?;
            Ok(state.inode(self.inode).len())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state| {
            let step = state.write_step()?;
            let old = state.inode(self.inode).len();
            state.grow(old, len)?;
            state.inode(self.inode).set_len(len);
            step.finish()
        })
    }

    fn await_space(&self, tried: u32) -> bool {
        let state = &mut *self.disk.state();
        let Some(looks) = state.space_after.filter(|_| state.generation == self.generation) else {
            return false;
        };
        state.counters.waits_for_space += 1;
        if tried >= looks {
            state.space_after = None;
            state.space_bytes = u64::MAX;
        }
        true
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.inode(self.inode).handles -= 1;
        }
    }
}

struct SimLock {
    disk: SimDisk,
    generation: u64,
}

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.locked = false;
        }
    }
}
