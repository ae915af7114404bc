//! Lists the conflicts of a region, the oldest or the newest first. Every node returns its conflicts behind a cursor; the
//! replies are merged by time, and a conflict that several nodes noticed appears once. A page ends where the shortest reply
//! ends, and names the nodes that did not answer.

use crate::call::ListConflicts;
use crate::conflict::{Conflict, ConflictOrder};
use crate::frame::{Frame, OpId};
use crate::mesh::coordinator::Coordinator;
use crate::mesh::replica::Replica;
use crate::mesh::{Mesh, Operation, Turn};
use crate::request::{ConflictPage, Reply};
use crate::rows;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Bytes of conflicts after which a node's page ends early; each holds two values.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

#[derive(Debug)]
pub(in crate::mesh) struct ListOp {
    token: ReplyToken,
    limit: usize,
    order: ConflictOrder,
    /// Nodes that were not heard yet.
    awaited: Vec<NodeId>,
    /// Nodes that will not be.
    missing: Vec<NodeId>,
    found: BTreeMap<Bytes, Conflict>,
    /// The first place behind which a node has more.
    upto: Option<Bytes>,
}

/// What one node has: conflicts in their order, and whether it has more.
pub(in crate::mesh) struct LocalConflicts {
    conflicts: Vec<Bytes>,
    more: bool,
}

impl Replica {
    fn conflict_page(&self, t: &Turn<'_>, list: &ListConflicts) -> LocalConflicts {
        let (mut conflicts, mut bytes, mut more) = (Vec::new(), 0, false);
        let visit = &mut |_: &[u8], value: &Bytes| {
            more = conflicts.len() >= list.limit.clamp(1, MESH_PAGE_KEYS_MAX) || bytes > PAGE_BYTES_SOFT;
            if !more {
                bytes += value.len();
                conflicts.push(value.clone());
            }
            !more
        };
        let (first, end) = rows::conflict_range();
        let after = list.after.as_ref();
        match list.order {
            ConflictOrder::Oldest => {
                let behind = |after: &Bytes| Bytes::from([after.as_ref(), b"\0"].concat()).max(first.clone());
                self.storage.scan(t.rows, &after.map_or(first.clone(), behind), &end, visit);
            }
            ConflictOrder::Newest => {
                let until = after.map_or(end.clone(), |after| after.clone().min(end).max(first.clone()));
                self.storage.scan_down(t.rows, &first, &until, visit);
            }
        }
        LocalConflicts { conflicts, more }
    }
}

impl ConflictOrder {
    /// Of two places the one that comes first.
    fn sooner(self, one: Bytes, other: Bytes) -> Bytes {
        match self {
            ConflictOrder::Oldest => one.min(other),
            ConflictOrder::Newest => one.max(other),
        }
    }

    fn sort(self, found: BTreeMap<Bytes, Conflict>) -> Vec<Conflict> {
        match self {
            ConflictOrder::Oldest => found.into_values().collect(),
            ConflictOrder::Newest => found.into_values().rev().collect(),
        }
    }
}

impl Coordinator {
    /// A node that declines does not count as an answer.
    pub(in crate::mesh) fn decline_listing(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(listing) = self.list_op(id) else { return };
        if listing.awaited.contains(&from) {
            listing.awaited.retain(|node| *node != from);
            listing.missing.push(from);
            self.try_finish_listing(t, id);
        }
    }

    fn list_op(&mut self, id: OpId) -> Option<&mut ListOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::List(listing)) => Some(listing),
            _ => None,
        }
    }

    fn try_finish_listing(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.list_op(id).is_some_and(|listing| listing.awaited.is_empty())
            && let Some(Operation::List(listing)) = self.finish(id).map(|pending| pending.operation)
        {
            answer(t, *listing);
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_listing(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        list: ListConflicts,
        deadline: Instant,
    ) {
        let list = ListConflicts { limit: list.limit.clamp(1, MESH_PAGE_KEYS_MAX), ..list };
        let nodes = self.membership.topology.members().iter().map(|member| member.node);
        let others: Vec<NodeId> = nodes.filter(|node| *node != self.membership.me).collect();
        let (awaited, missing): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|node| self.membership.peers.may_ask(*node, t.now.at));
        let page = self.replica.conflict_page(t, &list);
        let asked = awaited.clone();
        let ListConflicts { after, limit, order } = list;
        let listing = ListOp { token, limit, order, awaited, missing, found: BTreeMap::new(), upto: None };
        let id = self.coordinator.begin(t, Operation::List(Box::new(listing)), deadline);
        for node in asked {
            self.send(t, node, Frame::List { id, after: after.clone(), limit: limit as u16, order });
        }
        self.step_listed(t, self.membership.me, id, page.conflicts, page.more);
    }

    /// Whether the node serves or not: what it has noticed, it has noticed.
    pub(in crate::mesh) fn step_list(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        list: &ListConflicts,
    ) {
        let LocalConflicts { conflicts, more } = self.replica.conflict_page(t, list);
        self.send(t, from, Frame::Listed { id, conflicts, more });
    }

    pub(in crate::mesh) fn step_listed(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        conflicts: Vec<Bytes>,
        more: bool,
    ) {
        let me = self.membership.me;
        let Some(listing) = self.coordinator.list_op(id) else { return };
        if from != me && !listing.awaited.contains(&from) {
            return;
        }
        listing.awaited.retain(|node| *node != from);
        let found: Vec<Conflict> = conflicts.into_iter().filter_map(Conflict::decode).collect();
        if let Some(last) = found.last().filter(|_| more) {
            let last = last.cursor();
            let upto = listing.upto.take().unwrap_or_else(|| last.clone());
            listing.upto = Some(listing.order.sooner(upto, last));
        }
        for conflict in found {
            listing.found.entry(conflict.cursor()).or_insert(conflict);
        }
        self.coordinator.try_finish_listing(t, id);
    }

    pub(in crate::mesh) fn expire_listing(&mut self, t: &mut Turn<'_>, mut listing: ListOp) {
        listing.awaited.iter().for_each(|node| self.membership.peers.mark_unanswered(*node, t.now.at));
        listing.missing.append(&mut listing.awaited);
        answer(t, listing);
    }
}

/// Behind the frontier a node may have more, so the page ends there.
fn answer(t: &mut Turn<'_>, listing: ListOp) {
    let ListOp { token, limit, order, mut missing, found, upto, .. } = listing;
    missing.sort_unstable();
    let mut conflicts = order.sort(found);
    let is_early = |conflict: &Conflict| {
        let place = conflict.cursor();
        upto.as_ref().is_none_or(|upto| order.sooner(place.clone(), upto.clone()) == place)
    };
    let n_early = conflicts.iter().take_while(|conflict| is_early(conflict)).count();
    let is_whole = upto.is_none() && n_early <= limit;
    conflicts.truncate(n_early.min(limit));
    let next = conflicts.last().map(Conflict::cursor).filter(|_| !is_whole);
    t.out.replies.push((token, Reply::Listed(Box::new(ConflictPage { conflicts, next, missing }))));
}
