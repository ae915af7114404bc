//! The calls of this member's clients that wait for their turn at a lock. Waits begin and end as the clients do;
//! applied changes go in, and out comes who holds a lock now. Only the next waiter is woken: a release among a
//! thousand waiters wakes one. A wait ends once: the caller holds the lock, or its place in the queue is gone.

use base::Revision;
use bytes::Bytes;
use coord::{Acquire, Change, ChangeKind, Command, State, lock_queue};
use std::collections::{BTreeMap, BTreeSet};

/// Names one waiting call inside one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockWaitInput {
    Begin { id: WaitId, wait: LockWait },
    End(WaitId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    pub lock: Bytes,
    /// The place in the queue, and the revision at which it was created.
    pub key: Bytes,
    pub token: Revision,
    /// A later call of the same lease may take the place over.
    pub call: u64,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The lock is held since this revision at the latest.
    Granted {
        revision: Revision,
    },
    Gone,
}

#[derive(Default)]
pub(crate) struct LockWaits {
    by_id: BTreeMap<WaitId, LockWait>,
    /// By lock, then by place.
    by_lock: BTreeMap<Bytes, BTreeMap<Bytes, BTreeSet<WaitId>>>,
    woken: u64,
}

impl LockWaits {
    pub fn step(&mut self, input: LockWaitInput, state: &State, out: &mut Vec<(WaitId, WaitOutcome)>) {
        match input {
            LockWaitInput::End(id) => drop(self.remove(id)),
            LockWaitInput::Begin { id, wait } => {
                if let Some(news) = outcome_of(&wait, state) {
                    return self.notify(id, news, out);
                }
                let places = self.by_lock.entry(wait.lock.clone()).or_default();
                places.entry(wait.key.clone()).or_default().insert(id);
                self.by_id.insert(id, wait);
            }
        }
    }

    /// A command was applied, with these changes and this state afterwards.
    pub fn observe(
        &mut self,
        command: &Command,
        changes: &[Change],
        state: &State,
        out: &mut Vec<(WaitId, WaitOutcome)>,
    ) {
        if self.by_lock.is_empty() {
            return;
        }
        if let Command::LockAcquire(acquire) = command {
            self.give_over(acquire, state, out);
        }
        let deleted = changes.iter().filter(|change| change.kind == ChangeKind::Delete);
        let mut touched = BTreeSet::new();
        for key in deleted.map(|change| &change.key) {
            for lock in lock_queue::locks_of(key) {
                let Some(places) = self.by_lock.get(&lock) else { continue };
                let gone: Vec<WaitId> = places.get(key).into_iter().flatten().copied().collect();
                gone.into_iter().for_each(|id| self.notify(id, WaitOutcome::Gone, out));
                touched.insert(lock);
            }
        }
        for lock in touched {
            self.wake(&lock, state, out);
        }
    }

    /// A place that a later call takes over is gone for the earlier calls.
    fn give_over(&mut self, acquire: &Acquire, state: &State, out: &mut Vec<(WaitId, WaitOutcome)>) {
        let Some(places) = self.by_lock.get(&acquire.name) else { return };
        let waits = places.get(&lock_queue::key_of(&acquire.name, acquire.lease)).into_iter().flatten();
        let gone: Vec<WaitId> = waits.filter(|id| !is_owner(&self.by_id[id], state)).copied().collect();
        gone.into_iter().for_each(|id| self.notify(id, WaitOutcome::Gone, out));
    }

    /// Wakes the holder of the lock, if it waits here.
    fn wake(&mut self, lock: &Bytes, state: &State, out: &mut Vec<(WaitId, WaitOutcome)>) {
        let Some(places) = self.by_lock.get(lock) else { return };
        let Some(holder) = state.lock_holder(lock) else { return };
        let next: Vec<WaitId> = places.get(&holder.key).into_iter().flatten().copied().collect();
        for id in next {
            self.notify(id, WaitOutcome::Granted { revision: state.revision() }, out);
        }
    }

    fn notify(&mut self, id: WaitId, news: WaitOutcome, out: &mut Vec<(WaitId, WaitOutcome)>) {
        self.remove(id);
        self.woken += 1;
        out.push((id, news));
    }

    fn remove(&mut self, id: WaitId) -> Option<LockWait> {
        let wait = self.by_id.remove(&id)?;
        let places = self.by_lock.get_mut(&wait.lock)?;
        if let Some(place) = places.get_mut(&wait.key) {
            place.remove(&id);
            if place.is_empty() {
                places.remove(&wait.key);
            }
        }
        if places.is_empty() {
            self.by_lock.remove(&wait.lock);
        }
        Some(wait)
    }

    /// The state was replaced by another member's, and with it whatever happened meanwhile.
    pub fn installed(&mut self, state: &State, out: &mut Vec<(WaitId, WaitOutcome)>) {
        let all: Vec<_> = self.by_id.iter().map(|(id, wait)| (*id, outcome_of(wait, state))).collect();
        for (id, news) in all {
            if let Some(news) = news {
                self.notify(id, news, out);
            }
        }
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// How many waits have ended.
    pub fn woken(&self) -> u64 {
        self.woken
    }
}

fn is_owner(wait: &LockWait, state: &State) -> bool {
    state.claim(&wait.key).is_none_or(|claim| claim.calls.may_have(wait.call))
}

fn outcome_of(wait: &LockWait, state: &State) -> Option<WaitOutcome> {
    if state.created(&wait.key) != Some(wait.token) || !is_owner(wait, state) {
        return Some(WaitOutcome::Gone);
    }
    let holder = state.lock_holder(&wait.lock);
    let holds = holder.is_some_and(|holder| holder.key == wait.key);
    holds.then(|| WaitOutcome::Granted { revision: state.revision() })
}

#[cfg(test)]
mod tests;
