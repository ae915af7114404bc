//! Writes to bounded counters. An addition is carried out as any other. What needs rights asks a majority first, so that it knows
//! what was acknowledged here. If the counter is too low, it is refused. If others own what this node lacks, the node says in the
//! record that it wants more, the write waits, and owners that hear of it give: in this region within a round, in others once the
//! record has arrived there. A gift is durable where it is given before it leaves. A write that waits has changed nothing.

use super::{Mesh, Route, Turn, WriteOp, WriteStage};
use crate::actor::Actor;
use crate::collection::BoundedCounter;
use crate::frame::{OpId, WriteOrigin};
use crate::key::Key;
use crate::mesh::{Client, Operation};
use crate::mutant::Mutant;
use crate::op::{Attributes, BoundedChange, BoundedOp, Op};
use crate::record::Kind;
use crate::request::{Level, Reply, Write};
use base::mutant::planted;
use base::{Code, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::apply::Stamped;

/// A write that waits for rights is refused after so long: their owners are away.
const RIGHTS_WAIT: Duration = Duration::from_secs(2);
/// A node that wants rights asks for a part of all, so that it need not ask again for its next write.
const SHARE: u64 = 8;

/// Writes that wait for rights, by key.
#[derive(Debug, Default)]
pub(in crate::mesh) struct AwaitedRights(BTreeMap<Key, BTreeSet<OpId>>);

impl AwaitedRights {
    fn add(&mut self, key: &Key, id: OpId) {
        self.0.entry(key.clone()).or_default().insert(id);
    }

    pub fn remove(&mut self, key: &Key, id: OpId) {
        if let Some(ids) = self.0.get_mut(key) {
            ids.remove(&id);
        }
        self.0.retain(|_, ids| !ids.is_empty());
    }

    fn of(&self, key: &Key) -> Vec<OpId> {
        self.0.get(key).into_iter().flatten().copied().collect()
    }
}

/// Whether a node may carry a write out.
enum Rights {
    Enough,
    /// The counter is too low.
    Never,
    /// Others own them: so many are missing, and so many there are in all.
    Elsewhere {
        short: u64,
        above: u64,
    },
}

/// Why a write to a bounded counter cannot be done.
pub(super) fn check(write: &Write) -> Result<(), Code> {
    let is_for_bounded = matches!(write.op, Op::Bounded(_) | Op::Delete | Op::Restore(_));
    if !is_for_bounded || write.kind != Kind::BoundedCounter {
        return Err(Code::WrongType);
    }
    let attributes = &write.attributes;
    let is_plain = write.expect.is_none()
        && attributes.level != Level::Linearizable
        && attributes.context.is_none()
        && attributes.expires_ms.is_none()
        && attributes.fence.is_none()
        && attributes.handler.is_none()
        && !write.sloppy;
    if is_plain { Ok(()) } else { Err(Code::NotForBoundedCounters) }
}

fn rights_needed(write: &Write) -> u64 {
    match &write.op {
        Op::Bounded(op) => op.rights_needed(),
        _ => 0,
    }
}

impl Mesh {
    /// Carries out a write to a bounded counter on this replica.
    pub(super) fn coordinate_bounded(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        origin: Option<WriteOrigin>,
        route: Arc<Route>,
        deadline: Instant,
    ) {
        let is_here = self.bounded_here(t, &write.key).is_some();
        let was_here = self.replica.load(t, &write.key).record.is_some_and(|old| old.kind == write.kind);
        if !was_here && !self.without_collections_support(t, &write).is_empty() {
            // A node of 0.1.0 could not keep it.
            return self.ask_before_creating(t, client, write, origin, route, deadline);
        }
        let must_know = !is_here && !planted(Mutant::BoundUnasked)
            || write.attributes.once().is_some()
            || !matches!(self.rights_of(t, &write), Rights::Enough);
        let mut writing = WriteOp::new(client, write, origin, route);
        if must_know {
            writing.stage = self.replica.begin_gathering(t, origin);
            let id = self.coordinator.begin(t, Operation::Write(Box::new(writing)), deadline);
            return self.gather(t, id);
        }
        self.begin_write(t, writing, deadline);
    }

    pub(in crate::mesh) fn bounded_here(&self, t: &Turn<'_>, key: &Key) -> Option<BoundedCounter> {
        let record = self.replica.load(t, key).record?;
        record.bounded().filter(|_| !record.is_expired(t.now.wall_ms)).cloned()
    }

    fn rights_of(&self, t: &Turn<'_>, write: &Write) -> Rights {
        let needed = rights_needed(write);
        let counter = self.bounded_here(t, &write.key).unwrap_or_else(BoundedCounter::vacant);
        let (own, above) = (counter.rights(self.params.actor), counter.above());
        if own >= needed || planted(Mutant::RightsUnchecked) {
            Rights::Enough
        } else if above < needed {
            Rights::Never
        } else {
            Rights::Elsewhere { short: needed - own, above }
        }
    }

    /// Whether a write that knows what a majority has cannot be carried out yet: it waits from here on, or was refused.
    pub(super) fn awaits_rights(&mut self, t: &mut Turn<'_>, id: OpId) -> bool {
        let Some(writing) = self.coordinator.write_op(id) else { return false };
        let write = writing.write.clone();
        if write.kind != Kind::BoundedCounter || self.was_done(t, &write) {
            return false;
        }
        match self.rights_of(t, &write) {
            Rights::Enough => false,
            Rights::Never => {
                self.refuse_for_rights(t, id, Code::BelowBound);
                true
            }
            Rights::Elsewhere { short, above } => {
                let until = t.now.at.after(RIGHTS_WAIT);
                if let Some(writing) = self.coordinator.write_op(id)
                    && !matches!(writing.stage, WriteStage::AwaitingRights { .. })
                {
                    writing.stage = WriteStage::AwaitingRights { id, until };
                    self.coordinator.rights.add(&write.key, id);
                    self.coordinator.timers.set(until, id);
                }
                self.want(t, &write.key, short, above);
                true
            }
        }
    }

    /// Whether it is a request that was carried out before: then it needs no rights any more.
    fn was_done(&self, t: &Turn<'_>, write: &Write) -> bool {
        let Some(shard) = self.membership.shard_of(&write.key) else { return false };
        let (local, remembered) = (self.replica.load(t, &write.key), self.replica.remembered(t, write));
        let applied = self.replica.was_applied(t, write, shard, &local, remembered.as_ref(), Stamped::Now);
        // A refusal is told where the write is applied.
        applied != Ok(false)
    }

    fn refuse_for_rights(&mut self, t: &mut Turn<'_>, id: OpId, code: Code) {
        let Some(pending) = self.coordinator.finish(id) else { return };
        if let Operation::Write(writing) = pending.operation {
            self.coordinator.rights.remove(&writing.write.key, id);
            self.reply(t, writing.client, Reply::Refused(code));
        }
    }

    /// The timer of a write that waits for rights. Whether it was one.
    pub(super) fn rights_are_late(&mut self, t: &mut Turn<'_>, id: OpId) -> bool {
        let Some(writing) = self.coordinator.write_op(id) else { return false };
        let WriteStage::AwaitingRights { until, .. } = writing.stage else { return false };
        if until <= t.now.at {
            self.refuse_for_rights(t, id, Code::RightsElsewhere);
        }
        true
    }

    /// Says in the record that this node wants more, unless it says so already.
    fn want(&mut self, t: &mut Turn<'_>, key: &Key, short: u64, above: u64) {
        let unmet = self.bounded_here(t, key).map_or(0, |counter| counter.unmet(self.params.actor));
        if unmet < short {
            self.change_own(t, key, BoundedChange::Want(short.max(above / SHARE)));
        }
    }

    /// A change of this node's own parts of a counter, for no client.
    fn change_own(&mut self, t: &mut Turn<'_>, key: &Key, change: BoundedChange) {
        let Some(copies) = self.membership.topology.copies(key.namespace_id()) else { return };
        let route = self.membership.route(key.partition(), copies).clone();
        let write = Arc::new(Write {
            key: key.clone(),
            kind: Kind::BoundedCounter,
            op: Op::Bounded(BoundedOp { change, bound: None }),
            attributes: Attributes::default(),
            expect: None,
            w: None,
            sloppy: false,
        });
        if self.replica.may_begin(t, &write) && !self.replica.dots.is_exhausted() {
            let deadline = t.now.at.after(self.params.timeout);
            self.begin_write(t, WriteOp::new(Client::Unasked, write, None, route), deadline);
        }
    }

    /// Bounded counters have changed here: writes that wait for rights may go on, and others may want some of this node's.
    pub(in crate::mesh) fn step_bounded(&mut self, t: &mut Turn<'_>) {
        while let Some(key) = self.replica.bounded_changed.pop_first() {
            let copies = self.membership.topology.copies(key.namespace_id()).unwrap_or(0);
            let route = self.membership.route(key.partition(), copies).clone();
            if !route.read.contains(&self.membership.me) || !self.membership.is_serving() {
                continue;
            }
            for id in self.coordinator.rights.of(&key) {
                self.go_on_with_rights(t, &key, id);
            }
            for (to, amount) in self.gifts(t, &key) {
                self.change_own(t, &key, BoundedChange::Give { to, amount });
            }
        }
    }

    fn go_on_with_rights(&mut self, t: &mut Turn<'_>, key: &Key, id: OpId) {
        let origin = match self.coordinator.write_op(id) {
            Some(writing) if matches!(writing.stage, WriteStage::AwaitingRights { .. }) => writing.origin,
            _ => return self.coordinator.rights.remove(key, id),
        };
        if self.coordinator.is_past_deadline(t, id) || self.awaits_rights(t, id) {
            return;
        }
        self.coordinator.rights.remove(key, id);
        self.apply_and_replicate(t, id, origin.map_or(Stamped::Now, Stamped::ByOrigin));
    }

    /// What this node gives to whom. Of two nodes that wait for each other's rights the greater one gives, so that one of them has
    /// enough.
    fn gifts(&self, t: &Turn<'_>, key: &Key) -> Vec<(Actor, u64)> {
        let Some(counter) = self.bounded_here(t, key) else { return Vec::new() };
        let (me, is_waiting) = (self.params.actor, !self.coordinator.rights.of(key).is_empty());
        let mut rights = counter.rights(me);
        let wants = counter.wants().filter(|(to, _)| *to != me && !(is_waiting && *to > me));
        let mut gifts = Vec::new();
        for (to, unmet) in wants.filter(|_| !planted(Mutant::WantsUnheard)) {
            let amount = unmet.min(rights);
            rights -= amount;
            gifts.extend((amount > 0).then_some((to, amount)));
        }
        gifts
    }
}
