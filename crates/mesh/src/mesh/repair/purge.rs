//! Removes tombstones: only those that every replica has had, never those that are merely old.
//! The watermarks of a shard are the stamps up to which everything that a region wrote is on all replicas of this region. A
//! tombstone below all watermarks of all regions is removed. A record below the watermarks of its writers that is missing
//! here was deleted everywhere, even if some node still sends it. See docs/adr/0022 and 0019.

use crate::actor::RegionId;
use crate::frame::{Shard, StampVector, Writer};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::replica::Replica;
use crate::mesh::replica::records::due;
use crate::mesh::{Mesh, MeshEvent, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::ring::Partition;
use crate::rows;
use crate::watermarks::Watermarks;
use base::NodeId;
use base::mutant::planted;
use bytes::Bytes;
use std::time::Duration;

/// Partitions that one tick looks at.
const PARTITIONS_PER_TICK: usize = 8;
/// How long a conflict can be looked at.
const CONFLICTS_KEEP: Duration = Duration::from_secs(7 * 86_400);
/// Rows that one look removes.
const ROWS_PER_LOOK: usize = 100;

impl Replica {
    /// Conflicts are for people to inspect, and are dropped after a week.
    fn forget_conflicts(&mut self, t: &mut Turn<'_>) {
        let old_ms = t.now.wall_ms.saturating_sub(CONFLICTS_KEEP.as_millis() as u64);
        let (from, to) = (rows::conflict(Stamp::ZERO, 0), rows::conflict(Stamp::at_ms(old_ms), 0));
        let mut found = Vec::new();
        self.storage.scan(t.rows, &from, &to, &mut |row, _| {
            found.push(Bytes::copy_from_slice(row));
            found.len() < ROWS_PER_LOOK
        });
        found.into_iter().for_each(|row| self.storage.put_row(row, None));
    }
}

impl Mesh {
    /// What a peer vouched for holds here as well, durably.
    pub(in crate::mesh) fn record_synced(&mut self, shard: Shard, known: &StampVector, marks: &Watermarks) {
        self.replica.learn(shard, known.iter().copied());
        self.replica.raise_marks(shard, marks.iter());
        self.update_marks(shard);
    }

    /// What another region's replica had is here as well, durably: everything that its marks vouch for.
    pub(in crate::mesh) fn record_region_synced(
        &mut self,
        region: RegionId,
        shard: Shard,
        marks: &Watermarks,
    ) {
        let here = self.params.actor.region;
        let told = marks.iter().filter(|(region, _)| *region != here);
        self.replica.learn(shard, told.map(|(region, stamp)| (Writer::Region(region), stamp)));
        self.replica.shards.state(shard).region_marks.entry(region).or_default().join(marks);
        self.update_marks(shard);
        self.close_gap(region);
    }

    /// Raises the marks: up to which stamp every replica of this region has all writes, of each region.
    fn update_marks(&mut self, shard: Shard) {
        if self.membership.topology.is_moving() {
            return;
        }
        let here = self.params.actor.region;
        if planted(Mutant::PurgeUnstable) {
            return self.replica.raise_marks(shard, [(here, self.replica.floor)].into_iter());
        }
        let counted =
            |node: &NodeId| self.membership.topology.member(*node).is_some_and(|member| !member.stale);
        let route = self.membership.route(shard.partition, shard.copies);
        let list: Vec<NodeId> = route.read.iter().copied().filter(counted).collect();
        // One replica alone vouches for nothing: its clock may be far ahead, and the others would not believe its mark.
        if list.len() < majority(route.read.len()) && !planted(Mutant::MarkOfOneReplica) {
            return;
        }
        let mine = self.known(shard);
        let told = &self.replica.shards.state(shard).told;
        let said = |node: &NodeId| if *node == self.membership.me { Some(&mine) } else { told.get(node) };
        let Some(said) = list.iter().map(said).collect::<Option<Vec<_>>>() else { return };
        // What all replicas vouch for about each writer, nodes in their present incarnations.
        let vouched = |writer: Writer| {
            let latest =
                |known: &&StampVector| known.iter().find(|(other, _)| *other == writer).map(|entry| entry.1);
            said.iter().map(|known| latest(known).unwrap_or_default()).min().unwrap_or_default()
        };
        let replicas = said.iter().filter_map(|known| known.first()).map(|(writer, _)| *writer);
        let ours = replicas.map(vouched).min().unwrap_or_default();
        let others = self.remote.regions().map(|region| (region, vouched(Writer::Region(region))));
        let marks: Vec<(RegionId, Stamp)> = others.chain([(here, ours)]).collect();
        self.replica.raise_marks(shard, marks.into_iter());
    }

    /// Up to here every write is on every replica of every region: it may be forgotten.
    fn purge_bound(&self, shard: Shard) -> Stamp {
        let here = self.params.actor.region;
        let regions = || self.remote.regions().chain([here]);
        let mine = self.replica.shards.marks(shard).least(regions());
        if planted(Mutant::PurgedBeforeRemoteRegions) {
            return self.replica.shards.marks(shard).of(here);
        }
        let theirs = self.remote.regions().map(|region| {
            let marks = self.replica.shards.marks_of_region(shard, region);
            marks.map_or(Stamp::ZERO, |marks| marks.least(regions()))
        });
        theirs.fold(mine, Stamp::min).min(self.repair.purge_bound)
    }

    pub(in crate::mesh) fn step_purge(&mut self, t: &mut Turn<'_>) {
        if self.membership.topology.is_moving() {
            return;
        }
        let mut removed = 0;
        for _ in 0..PARTITIONS_PER_TICK {
            let partition = self.repair.exchanges.next_to_purge();
            removed += self.purge(t, partition);
            if partition == Partition(0) {
                self.replica.forget_conflicts(t);
            }
        }
        if removed > 0 {
            t.out.events.push(MeshEvent::Purged(removed));
        }
    }

    fn purge(&mut self, t: &mut Turn<'_>, partition: Partition) -> usize {
        let copies = self.membership.topology.copies_in_use();
        let bounds = copies.iter().map(|copies| self.purge_bound(Shard { partition, copies: *copies }));
        let upto = bounds.max().unwrap_or_default();
        let (from, to) = rows::due_range(partition, upto);
        let mut found: Vec<(Stamp, Key)> = Vec::new();
        self.replica.storage.scan(t.rows, &from, &to, &mut |row, _| {
            found.extend(rows::due_key(row));
            found.len() < ROWS_PER_LOOK
        });
        let mut removed = 0;
        for (stamp, key) in found {
            let Some(shard) = self.membership.shard_of(&key) else { continue };
            let local = self.replica.load(t, &key);
            let record = local.record.as_ref();
            let is_swept =
                record.and_then(Record::collection_header).is_none_or(|header| header.sweep.is_none());
            if is_swept
                && stamp <= self.purge_bound(shard)
                && record.and_then(due) == Some(stamp)
                && self.remove(t, &key, shard, &local)
            {
                self.replica.note_due(&key, shard, &local);
                removed += 1;
            }
        }
        removed
    }
}
