//! Forgetting what is deleted: only what every replica has had, never what is merely old.
//! A shard's mark is the stamp up to which everything that any of its replicas wrote is known to be on all of
//! them. A deleted record below the mark goes; a record below the mark that is not here is known to be deleted,
//! whoever still brings it. See docs/adr/0022.

use super::replica::due;
use super::{Mesh, Note, Turn};
use crate::frame::{Known, Shard};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::ring::Partition;
use crate::rows;
use base::NodeId;
use base::mutant::{Mutant, planted};
use bytes::Bytes;
use std::time::Duration;

/// Partitions that one tick looks at.
const PARTITIONS_PER_TICK: usize = 8;
/// How long a conflict can be looked at.
const CONFLICTS_KEEP: Duration = Duration::from_secs(7 * 86_400);
/// Rows that one look removes.
const ROWS_PER_LOOK: usize = 100;

impl Mesh {
    /// What a peer vouched for holds here as well, durably.
    pub(super) fn settle(&mut self, shard: Shard, known: &Known, mark: Stamp) {
        let me = self.params.actor;
        let state = self.shards.state(shard);
        for (actor, stamp) in known.iter().filter(|(actor, _)| *actor != me) {
            let entry = state.known.entry(*actor).or_default();
            *entry = (*stamp).max(*entry);
        }
        self.raise_mark(shard, mark);
        self.update_mark(shard);
    }

    fn raise_mark(&mut self, shard: Shard, mark: Stamp) {
        self.clock.pass(mark);
        let state = self.shards.state(shard);
        if mark > state.mark {
            state.mark = mark;
            let value = Bytes::copy_from_slice(&mark.0.to_le_bytes());
            self.put_row(rows::mark(shard.partition, shard.copies), Some(value));
        }
    }

    /// How far everybody is known to have everything.
    fn update_mark(&mut self, shard: Shard) {
        if self.topology.is_moving() {
            return;
        }
        if planted(Mutant::PurgeUnstable) {
            return self.raise_mark(shard, self.floor);
        }
        let counted = |node: &NodeId| self.topology.member(*node).is_some_and(|member| !member.stale);
        let route = self.route(shard.partition, shard.copies);
        let list: Vec<NodeId> = route.read.iter().copied().filter(counted).collect();
        let mine = self.known(shard);
        let told = &self.shards.state(shard).told;
        let said = |node: &NodeId| if *node == self.me { Some(&mine) } else { told.get(node) };
        let Some(said) = list.iter().map(said).collect::<Option<Vec<_>>>() else { return };
        // Everyone's word about everyone, each in its present life.
        let actors = said.iter().filter_map(|known| known.first()).map(|(actor, _)| *actor);
        let word = |known: &Known, actor| {
            let entry = known.iter().find(|(other, _)| *other == actor);
            entry.map_or(Stamp::ZERO, |(_, stamp)| *stamp)
        };
        let mark = actors.flat_map(|actor| said.iter().map(move |known| word(known, actor))).min();
        if let Some(mark) = mark {
            self.raise_mark(shard, mark);
        }
    }

    pub(super) fn step_purge(&mut self, t: &mut Turn<'_>) {
        if self.topology.is_moving() {
            return;
        }
        let mut removed = 0;
        for _ in 0..PARTITIONS_PER_TICK {
            let partition = self.exchanges.next_to_purge();
            removed += self.purge(t, partition);
            if partition == Partition(0) {
                self.forget_conflicts(t);
            }
        }
        if removed > 0 {
            t.out.notes.push(Note::Purged(removed));
        }
    }

    /// The log of conflicts is for people, and people had their time to look.
    fn forget_conflicts(&mut self, t: &mut Turn<'_>) {
        let old_ms = t.now.wall_ms.saturating_sub(CONFLICTS_KEEP.as_millis() as u64);
        let (from, to) = (rows::conflict(Stamp::ZERO, 0), rows::conflict(Stamp::at_ms(old_ms), 0));
        let mut found = Vec::new();
        self.overlay.scan(t.rows, &from, &to, &mut |row, _| {
            found.push(Bytes::copy_from_slice(row));
            found.len() < ROWS_PER_LOOK
        });
        found.into_iter().for_each(|row| self.put_row(row, None));
    }

    fn purge(&mut self, t: &mut Turn<'_>, partition: Partition) -> usize {
        let copies = self.topology.copies_in_use();
        let marks = copies.iter().map(|copies| self.shards.mark(Shard { partition, copies: *copies }));
        let upto = marks.max().unwrap_or_default().min(self.purge_bound);
        let (from, to) = rows::due_range(partition, upto);
        let mut found: Vec<(Stamp, Key)> = Vec::new();
        self.overlay.scan(t.rows, &from, &to, &mut |row, _| {
            found.extend(rows::due_key(row));
            found.len() < ROWS_PER_LOOK
        });
        let mut removed = 0;
        for (stamp, key) in found {
            let Some(shard) = self.shard_of(&key) else { continue };
            let local = self.load(t, &key);
            if stamp <= self.shards.mark(shard) && local.record.as_ref().and_then(due) == Some(stamp) {
                self.remove(&key, shard, &local);
                removed += 1;
            }
        }
        removed
    }
}
