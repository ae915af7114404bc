//! Which stamps a peer may vouch for. Peers say up to which stamp they have everything, and up to which stamp every replica has
//! it: what is missing below such a mark counts as deleted everywhere, and this node's clock moves behind it. A stamp that no
//! clock can have reached yet is therefore not taken from one peer alone: the clock would stand at its end, and every new key
//! would count as deleted, for ever. Two nodes that say so are believed, and one where this node has nothing of its own yet and
//! there is no second.

use crate::frame::{Frame, StampVector};
use crate::hlc::Stamp;
use crate::mesh::membership::Membership;
use crate::mesh::{Mesh, MeshEvent, Turn};
use crate::mutant::Mutant;
use crate::watermarks::Watermarks;
use base::NodeId;
use base::mutant::planted;
use std::collections::BTreeMap;

/// So many nodes of the region must have vouched for a stamp that is far ahead.
const NEEDED: usize = 2;

/// The latest stamp far ahead that each node of this region has vouched for.
#[derive(Debug, Default)]
pub(in crate::mesh) struct FarStamps {
    latest_by_node: BTreeMap<NodeId, Stamp>,
}

impl FarStamps {
    fn record(&mut self, from: NodeId, stamp: Stamp) {
        let latest = self.latest_by_node.entry(from).or_default();
        *latest = stamp.max(*latest);
    }

    /// How many nodes have vouched for a stamp at least as late.
    fn count(&self, stamp: Stamp) -> usize {
        self.latest_by_node.values().filter(|latest| **latest >= stamp).count()
    }
}

impl Membership {
    /// How late a stamp of this peer may be, now that it has sent one that is far ahead.
    fn confirmed_bound(&mut self, from: NodeId, stamp: Stamp, bound: Stamp) -> Stamp {
        if self.topology.member(from).is_none() {
            return bound;
        }
        self.far_stamps.record(from, stamp);
        let n_others = self.topology.members().len().saturating_sub(1);
        let needed = if self.has_nothing_yet() { n_others.clamp(1, NEEDED) } else { NEEDED };
        let latest = self.far_stamps.latest_by_node.values().copied();
        let confirmed = latest.filter(|latest| self.far_stamps.count(*latest) >= needed).max();
        confirmed.map_or(bound, |confirmed| confirmed.max(bound))
    }

    /// Marks are computed without this node until it has caught up: only then may they be beyond its own clock.
    fn has_nothing_yet(&self) -> bool {
        self.readiness.is_wiped() || self.is_stale() || self.topology.is_moving()
    }
}

impl Mesh {
    /// The frame without stamps that are too late to be true.
    pub(in crate::mesh) fn without_far_stamps(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        mut frame: Frame,
    ) -> Frame {
        let (known, marks) = match &mut frame {
            Frame::Compare { known, .. } => (Some(known), None),
            Frame::Leaves { known, marks, .. } | Frame::Synced { known, marks, .. } => {
                (Some(known), Some(marks))
            }
            Frame::Page(page) => (None, Some(&mut page.marks)),
            Frame::Fetched { marks, .. } | Frame::Promised { marks, .. } => (None, Some(marks)),
            _ => return frame,
        };
        let bound = self.replica.clock.bound(t.now.wall_ms);
        let latest = latest_in(known.as_deref(), marks.as_deref());
        if latest <= bound || planted(Mutant::FarStampTaken) {
            return frame;
        }
        let bound = self.membership.confirmed_bound(from, latest, bound);
        // What a peer has is known less far; a mark that is wrong is none.
        known.into_iter().flatten().for_each(|(_, stamp)| *stamp = bound.min(*stamp));
        marks.into_iter().for_each(|marks| marks.retain(|_, stamp| stamp <= bound));
        if latest > bound {
            t.out.events.push(MeshEvent::FarStamp { from, stamp: latest });
        }
        frame
    }
}

fn latest_in(known: Option<&StampVector>, marks: Option<&Watermarks>) -> Stamp {
    let known = known.into_iter().flatten().map(|(_, stamp)| *stamp);
    let marks = marks.into_iter().flat_map(|marks| marks.iter().map(|(_, stamp)| stamp));
    known.chain(marks).max().unwrap_or_default()
}
