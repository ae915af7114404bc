//! Lists the conflicts of a region. Every node returns its conflicts after a cursor; the replies are merged by time, and a
//! conflict that several nodes noticed appears once. A page ends where the shortest reply ends, and names the nodes that did
//! not answer.

use super::{Mesh, Operation, Turn};
use crate::conflict::Conflict;
use crate::frame::{Ask, Frame};
use crate::request::{Listed, Reply};
use crate::rows;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Instant, NodeId, Token};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Bytes of conflicts after which a node's page ends early; each holds two values.
const PAGE_BYTES_SOFT: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Listing {
    token: Token,
    limit: usize,
    /// Nodes that were not heard yet.
    awaited: Vec<NodeId>,
    /// Nodes that will not be.
    missing: Vec<NodeId>,
    found: BTreeMap<Bytes, Conflict>,
    /// The first place behind which a node has more.
    upto: Option<Bytes>,
}

/// What one node has: conflicts in their order, and whether it has more.
pub(super) struct Page {
    conflicts: Vec<Bytes>,
    more: bool,
}

impl Mesh {
    pub(super) fn start_listing(
        &mut self,
        t: &mut Turn<'_>,
        token: Token,
        after: Option<Bytes>,
        limit: usize,
        deadline: Instant,
    ) {
        let limit = limit.clamp(1, MESH_PAGE_KEYS_MAX);
        let nodes = self.topology.members().iter().map(|member| member.node);
        let others: Vec<NodeId> = nodes.filter(|node| *node != self.me).collect();
        let (awaited, missing): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|node| self.peers.may_ask(*node, t.now.at));
        let page = self.conflict_page(t, after.as_ref(), limit);
        let asked = awaited.clone();
        let listing = Listing { token, limit, awaited, missing, found: BTreeMap::new(), upto: None };
        let ask = self.begin(t, Operation::List(Box::new(listing)), deadline);
        for node in asked {
            self.send(t, node, Frame::List { ask, after: after.clone(), limit: limit as u16 });
        }
        self.step_listed(t, self.me, ask, page.conflicts, page.more);
    }

    /// Whether the node serves or not: what it has noticed, it has noticed.
    pub(super) fn step_list(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        after: Option<&Bytes>,
        limit: u16,
    ) {
        let Page { conflicts, more } = self.conflict_page(t, after, limit.into());
        self.send(t, from, Frame::Listed { ask, conflicts, more });
    }

    fn conflict_page(&self, t: &Turn<'_>, after: Option<&Bytes>, limit: usize) -> Page {
        let (first, end) = rows::conflict_range();
        let from = after.map_or(first.clone(), |after| Bytes::from([after.as_ref(), b"\0"].concat()));
        let (mut conflicts, mut bytes, mut more) = (Vec::new(), 0, false);
        self.overlay.scan(t.rows, &from.max(first), &end, &mut |_, value| {
            more = conflicts.len() >= limit.clamp(1, MESH_PAGE_KEYS_MAX) || bytes > PAGE_BYTES_SOFT;
            if !more {
                bytes += value.len();
                conflicts.push(value.clone());
            }
            !more
        });
        Page { conflicts, more }
    }

    pub(super) fn step_listed(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        ask: Ask,
        conflicts: Vec<Bytes>,
        more: bool,
    ) {
        let me = self.me;
        let Some(listing) = self.listing(ask) else { return };
        if from != me && !listing.awaited.contains(&from) {
            return;
        }
        listing.awaited.retain(|node| *node != from);
        let found: Vec<Conflict> = conflicts.into_iter().filter_map(Conflict::decode).collect();
        if let Some(last) = found.last().filter(|_| more) {
            let last = last.place();
            listing.upto = Some(listing.upto.take().map_or(last.clone(), |upto| upto.min(last)));
        }
        for conflict in found {
            listing.found.entry(conflict.place()).or_insert(conflict);
        }
        self.settle_listing(t, ask);
    }

    /// A node that has nothing to say is not heard.
    pub(super) fn decline_listing(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        let Some(listing) = self.listing(ask) else { return };
        if listing.awaited.contains(&from) {
            listing.awaited.retain(|node| *node != from);
            listing.missing.push(from);
            self.settle_listing(t, ask);
        }
    }

    fn listing(&mut self, ask: Ask) -> Option<&mut Listing> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::List(listing)) => Some(listing),
            _ => None,
        }
    }

    fn settle_listing(&mut self, t: &mut Turn<'_>, ask: Ask) {
        if self.listing(ask).is_some_and(|listing| listing.awaited.is_empty())
            && let Some(Operation::List(listing)) = self.finish(ask).map(|pending| pending.operation)
        {
            answer(t, *listing);
        }
    }

    pub(super) fn expire_listing(&mut self, t: &mut Turn<'_>, mut listing: Listing) {
        listing.awaited.iter().for_each(|node| self.peers.silent(*node, t.now.at));
        listing.missing.append(&mut listing.awaited);
        answer(t, listing);
    }
}

/// Behind the frontier a node may have more, so the page ends there.
fn answer(t: &mut Turn<'_>, listing: Listing) {
    let Listing { token, limit, mut missing, found, upto, .. } = listing;
    missing.sort_unstable();
    let early = |place: &Bytes| upto.as_ref().is_none_or(|upto| place <= upto);
    let n_early = found.keys().filter(|place| early(place)).count();
    let is_whole = upto.is_none() && n_early <= limit;
    let conflicts: Vec<Conflict> = found.into_values().take(n_early.min(limit)).collect();
    let next = conflicts.last().map(Conflict::place).filter(|_| !is_whole);
    t.out.replies.push((token, Reply::Listed(Box::new(Listed { conflicts, next, missing }))));
}
