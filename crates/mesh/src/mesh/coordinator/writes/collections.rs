//! Writes to collections. An addition to a collection that is here needs no question. What creates one asks a majority first,
//! so that it does not create it beside a value of another type. What acts on elements (removals, values of fields, scores,
//! increments) asks for those that it names, so that it has seen every write that was acknowledged before it; an insertion
//! into a list asks for the neighbours of its place, a delete for the contexts. The change is made as a delta on the rows
//! here and what was found, durable before it leaves, and travels as a record does.

use super::WriteOp;
use super::apply::{Applied, NotApplied, Stamped, stamp_after};
use crate::actor::{Dot, RegionId};
use crate::collection::{
    self, CollectionChange, CollectionDelta, CollectionHeader, CollectionOp, CollectionRows, ElementEntry,
    ElementPage, ElementSpan, ElementState, InsertPosition, MergedPage, merge_pages,
};
use crate::context::Context;
use crate::frame::{
    CollectionQuestion, CollectionView, ELEMENTS_MAX, Frame, OpId, QueryPurpose, Shard, StoreOutcome,
    WriteOrigin,
};
use crate::mesh::coordinator::elements::HeardCollection;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::remote_regions::streams::LoggedChange;
use crate::mesh::replica::collections::empty;
use crate::mesh::{Client, Mesh, Operation, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::op::{self, Op, WriteEvent};
use crate::record::{Kind, Record};
use crate::request::{Level, Reply, Write};
use base::limits::MESH_NAME_BYTES_MAX;
use base::mutant::planted;
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that declined are asked again after so long.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// A write that asks first.
#[derive(Debug)]
pub(in crate::mesh) struct GatherOp {
    client: Client,
    write: Arc<Write>,
    origin: Option<WriteOrigin>,
    route: Arc<Route>,
    heard: Vec<HeardCollection>,
    declined: BTreeSet<NodeId>,
    /// Nodes, here and in other regions, that have not shown yet that they know collections.
    without_collections_support: BTreeSet<NodeId>,
    /// What was found of the names that were asked for before, where not all fit into one answer.
    found: FoundElements,
    after: Option<Bytes>,
}

impl GatherOp {
    fn new(client: Client, write: Arc<Write>, origin: Option<WriteOrigin>, route: Arc<Route>) -> GatherOp {
        GatherOp {
            client,
            write,
            origin,
            route,
            heard: Vec::new(),
            declined: BTreeSet::new(),
            without_collections_support: BTreeSet::new(),
            found: FoundElements::default(),
            after: None,
        }
    }

    /// How it began.
    pub fn begun(self) -> (Client, Arc<Write>, Option<WriteOrigin>) {
        (self.client, self.write, self.origin)
    }

    fn question(&self) -> CollectionQuestion {
        let page = |from: Option<&Bytes>, limit| {
            let span = ElementSpan { from: from.cloned(), to: None };
            CollectionQuestion::Page { span, limit }
        };
        match inserted_at(&self.write.op) {
            Some(InsertPosition::First) => page(None, 1),
            Some(InsertPosition::Last) => CollectionQuestion::Last,
            Some(InsertPosition::After(left)) => page(Some(left), 2),
            Some(InsertPosition::Before(right)) => page(Some(right), 1),
            None => {
                let names = acted_on(&self.write.op);
                let rest = names.range::<Bytes, _>((
                    self.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded),
                    Bound::Unbounded,
                ));
                CollectionQuestion::Names(rest.cloned().collect())
            }
        }
    }
}

/// The place of an insertion into a list.
fn inserted_at(op: &Op) -> Option<&InsertPosition> {
    match op {
        Op::Elements(ops) => match ops.as_slice() {
            [CollectionOp::Insert { place, .. }] => Some(place),
            _ => None,
        },
        _ => None,
    }
}

/// The elements that a write acts on as they are.
fn acted_on(op: &Op) -> BTreeSet<Bytes> {
    match op {
        Op::Elements(ops) => ops.iter().flat_map(CollectionOp::acts_on).cloned().collect(),
        _ => BTreeSet::new(),
    }
}

/// What a majority has of what a write is about.
#[derive(Debug, Default)]
pub(in crate::mesh) struct FoundElements {
    /// What is there of the elements that it acts on.
    states: BTreeMap<Bytes, ElementState>,
    /// Items beside which it inserts.
    neighbours: Vec<ElementEntry>,
    seen: Context,
}

/// A value of a field or an item is not longer: a page holds several.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// Why a write to a collection cannot be done. What it would need is not there yet, and it is not done without.
pub(super) fn check(write: &Write) -> Result<(), Code> {
    let is_for_collections = match &write.op {
        Op::Elements(ops) => check_ops(ops)?,
        op => *op == Op::Delete,
    };
    if !is_for_collections || write.kind.collection().is_none() {
        return Err(Code::WrongType);
    }
    check_plain(write)
}

/// Whether a write to a collection asks for nothing that collections do not take yet.
fn check_plain(write: &Write) -> Result<(), Code> {
    let attributes = &write.attributes;
    let is_plain = write.expect.is_none()
        && attributes.level != Level::Linearizable
        && attributes.context.is_none()
        && attributes.expires_ms.is_none()
        && attributes.fence.is_none()
        && attributes.request.is_none()
        && attributes.handler.is_none()
        && !write.sloppy;
    if is_plain { Ok(()) } else { Err(Code::NotForCollections) }
}

/// Whether these are operations of clients. An insertion stands alone, and no operation is too large.
fn check_ops(ops: &[CollectionOp]) -> Result<bool, Code> {
    let n_elements: usize = ops.iter().map(|op| op.dots().max(op.acts_on().len())).sum();
    if n_elements > ELEMENTS_MAX || ops.len() > ELEMENTS_MAX {
        return Err(Code::TooManyOps);
    }
    for op in ops {
        let added = match op {
            CollectionOp::Add(elements) => elements.as_slice(),
            _ => &[],
        };
        let values = match op {
            CollectionOp::Insert { values, .. } => values.as_slice(),
            CollectionOp::SetField { value, .. } | CollectionOp::Replace { value, .. } => {
                std::slice::from_ref(value)
            }
            _ => &[],
        };
        let is_long = op.acts_on().iter().chain(added).any(|name| name.len() > MESH_NAME_BYTES_MAX);
        if is_long || values.iter().any(|value| value.len() > VALUE_BYTES_MAX) {
            return Err(Code::RequestTooLarge);
        }
    }
    let is_alone = |op: &CollectionOp| ops.len() == 1 || !matches!(op, CollectionOp::Insert { .. });
    let is_whole = |op: &CollectionOp| matches!(op, CollectionOp::Clear | CollectionOp::Expire(_));
    Ok(!ops.is_empty() && ops.iter().all(|op| is_alone(op) && !is_whole(op)))
}

/// Whether a write has to know what others have.
fn asks(op: &Op) -> bool {
    !matches!(op, Op::Elements(_)) || inserted_at(op).is_some() || !acted_on(op).is_empty()
}

impl Mesh {
    /// A delete names no type.
    pub(super) fn is_for_collection(&self, t: &Turn<'_>, write: &Write) -> bool {
        let is_here = || self.replica.load(t, &write.key).record.is_some_and(|record| record.is_collection());
        write.kind.collection().is_some() || write.op == Op::Delete && is_here()
    }

    /// A delete names no type, and this replica has missed that the key holds a collection: the delete begins again, as one of
    /// a collection.
    pub(super) fn delete_missed_collection(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.coordinator.finish(id) else { return };
        let Operation::Write(writing) = pending.operation else { return };
        if let Some(result) = &writing.result {
            self.remote.awaited.remove(&result.header.dot.counter);
        }
        let WriteOp { client, write, origin, route, .. } = *writing;
        if let Err(code) = check_plain(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        let gathering = GatherOp::new(client, write, origin, route);
        self.begin_gathering_elements(t, gathering, pending.deadline);
    }

    /// Carries out a write to a collection on this replica.
    pub(super) fn coordinate_collection(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        origin: Option<WriteOrigin>,
        route: Arc<Route>,
        deadline: Instant,
    ) {
        if let Err(code) = check_plain(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        let local = self.replica.load(t, &write.key);
        let is_here = local.record.as_ref().is_some_and(Record::is_collection);
        if is_here && (!asks(&write.op) || planted(Mutant::RemovalUnasked)) {
            return self.begin_write(t, WriteOp::new(client, write, origin, route), deadline);
        }
        let without_collections_support =
            if is_here { BTreeSet::new() } else { self.without_collections_support(t, &write) };
        let gathering =
            GatherOp { without_collections_support, ..GatherOp::new(client, write, origin, route) };
        self.begin_gathering_elements(t, gathering, deadline);
    }

    /// Asks the nodes that have not shown yet that they know more than those of 0.1.0, before something is created that those could
    /// not keep.
    pub(super) fn ask_before_creating(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        origin: Option<WriteOrigin>,
        route: Arc<Route>,
        deadline: Instant,
    ) {
        let silent = self.without_collections_support(t, &write);
        let gathering =
            GatherOp { without_collections_support: silent, ..GatherOp::new(client, write, origin, route) };
        self.begin_gathering_elements(t, gathering, deadline);
    }

    fn begin_gathering_elements(&mut self, t: &mut Turn<'_>, gathering: GatherOp, deadline: Instant) {
        let (key, question) = (gathering.write.key.clone(), gathering.question());
        let (list, elsewhere) = (gathering.route.read.clone(), gathering.without_collections_support.clone());
        let id = self.coordinator.begin(t, Operation::Gather(Box::new(gathering)), deadline);
        for node in elsewhere.into_iter().filter(|node| !list.contains(node)) {
            let (key, purpose) = (key.clone(), QueryPurpose::Read);
            self.send(
                t,
                node,
                Frame::CollectionQuery { id, key, purpose, question: CollectionQuestion::Names(Vec::new()) },
            );
        }
        self.query_collection(t, id, &key, &question, &list);
    }

    /// The nodes that must show that they know collections before one is created: all replicas of the key, and one of each other region.
    pub(super) fn without_collections_support(&mut self, t: &Turn<'_>, write: &Write) -> BTreeSet<NodeId> {
        let Some(shard) = self.membership.shard_of(&write.key) else { return BTreeSet::new() };
        let route = self.membership.route(shard.partition, shard.copies).clone();
        let mut nodes: BTreeSet<NodeId> =
            route.replicas().filter(|node| *node != self.membership.me).collect();
        for region in self.remote.regions().collect::<Vec<RegionId>>() {
            nodes.extend(self.peer_in_region(t.now.at, region, shard));
        }
        nodes.retain(|node| !self.replica.collections.supported_by.contains(node));
        nodes
    }

    fn gather_op(&mut self, id: OpId) -> Option<&mut GatherOp> {
        match self.coordinator.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Gather(gathering)) => Some(gathering),
            _ => None,
        }
    }

    pub(in crate::mesh) fn gather_answered(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        view: CollectionView,
        record: Option<Record>,
    ) {
        let Some(gathering) = self.gather_op(id) else { return };
        gathering.without_collections_support.remove(&from);
        let is_replica = gathering.route.read.contains(&from);
        if is_replica && !gathering.heard.iter().any(|heard| heard.from == from) {
            gathering.heard.extend(HeardCollection::new(from, view, record));
        }
        let is_enough = gathering.heard.len() >= majority(gathering.route.read.len());
        if is_enough && gathering.without_collections_support.is_empty() {
            self.finish_gathering(t, id);
        }
    }

    fn finish_gathering(&mut self, t: &mut Turn<'_>, id: OpId) {
        if self.coordinator.is_past_deadline(t, id) {
            return self.expire(t, id);
        }
        let Some(pending) = self.coordinator.finish(id) else { return };
        let Operation::Gather(mut gathering) = pending.operation else { return };
        let heard = std::mem::take(&mut gathering.heard);
        let is_gone = |record: &Record| heard.iter().any(|heard| heard.marks.cover(record));
        let is_other = |record: &&Record| {
            let is_other = !record.is_collection() && record.kind != gathering.write.kind;
            is_other && (record.is_live(t.now.wall_ms) || record.ballot().is_some())
        };
        let mut records = heard.iter().filter_map(|heard| heard.record.as_ref()).filter(|one| !is_gone(one));
        if records.any(|record| is_other(&record)) {
            return self.reply(t, gathering.client, Reply::Refused(Code::WrongType));
        }
        if gathering.write.kind == Kind::BoundedCounter {
            let GatherOp { client, write, origin, .. } = *gathering;
            return self.coordinate(t, client, write, origin, pending.deadline);
        }
        if !self.names_type(t, &mut gathering.write, &heard) {
            return self.reply(t, gathering.client, Reply::Refused(Code::WrongType));
        }
        let upto = gathering.found.take(&heard, inserted_at(&gathering.write.op).is_some());
        if self.replica.is_forged(&gathering.found.seen) {
            return self.reply(t, gathering.client, Reply::Refused(Code::UnknownContext));
        }
        if upto.is_some() {
            // Not all fit into one answer.
            (gathering.after, gathering.declined) = (upto, BTreeSet::new());
            let (key, question) = (gathering.write.key.clone(), gathering.question());
            let list = gathering.route.read.clone();
            let id = self.coordinator.begin(t, Operation::Gather(gathering), pending.deadline);
            return self.query_collection(t, id, &key, &question, &list);
        }
        let GatherOp { client, write, origin, route, found, .. } = *gathering;
        let writing = WriteOp { found: Some(Box::new(found)), ..WriteOp::new(client, write, origin, route) };
        self.begin_write(t, writing, pending.deadline);
    }

    /// A delete that names no type gets that of the collection which others have, if this replica has none. False if they have
    /// none either.
    fn names_type(&self, t: &Turn<'_>, write: &mut Arc<Write>, heard: &[HeardCollection]) -> bool {
        if write.kind.collection().is_some() || self.is_for_collection(t, write) {
            return true;
        }
        let records = heard.iter().filter_map(|heard| heard.record.as_ref());
        let greatest = records.filter(|record| record.is_collection()).max_by(|a, b| a.rank(b));
        let Some(kind) = greatest.map(|record| record.kind) else { return false };
        *write = Arc::new(Write { kind, ..Write::clone(write) });
        true
    }

    pub(in crate::mesh) fn decline_gathering(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(gathering) = self.gather_op(id) else { return };
        // A node that declines knows the question.
        gathering.without_collections_support.remove(&from);
        gathering.declined.insert(from);
        self.replica.collections.supported_by.insert(from);
        self.coordinator.timers.set(t.now.at.after(RETRY_AFTER), id);
    }

    pub(in crate::mesh) fn retry_gathering(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(gathering) = self.gather_op(id) else { return };
        let declined = std::mem::take(&mut gathering.declined);
        let (key, question) = (gathering.write.key.clone(), gathering.question());
        let list: Vec<NodeId> =
            gathering.route.read.iter().copied().filter(|node| declined.contains(node)).collect();
        self.query_collection(t, id, &key, &question, &list);
    }

    /// Nothing was begun yet.
    pub(in crate::mesh) fn expire_gathering(&mut self, t: &mut Turn<'_>, gathering: &GatherOp) {
        let heard = |node: &NodeId| gathering.heard.iter().any(|heard| heard.from == *node);
        for node in gathering.route.read.iter().filter(|node| **node != self.membership.me && !heard(node)) {
            self.membership.peers.mark_unanswered(*node, t.now.at);
        }
        self.reply(t, gathering.client, Reply::Refused(Code::Timeout));
    }

    /// Makes the delta of a write on the rows here, and merges it.
    pub(super) fn apply_to_collection(
        &mut self,
        t: &mut Turn<'_>,
        write: &Write,
        shard: Shard,
        stamped: Stamped,
        found: &FoundElements,
    ) -> Result<Applied, NotApplied> {
        let local = self.replica.load(t, &write.key);
        if local
            .record
            .as_ref()
            .is_some_and(|record| !record.is_collection() && record.is_live(t.now.wall_ms))
        {
            return Err(Code::WrongType.into());
        }
        let after = stamp_after(t, &write.attributes);
        if let Stamped::ByOrigin(origin) = stamped {
            self.replica.check_origin(write, shard, &local, origin, after)?;
        }
        let mine = local.record.clone().filter(Record::is_collection);
        let mine = mine.unwrap_or_else(|| empty(write.kind, t.now.wall_ms));
        let header = mine.collection_header().expect("it is a collection");
        let none = Vec::new();
        let ops = match &write.op {
            Op::Elements(ops) => ops,
            _ => &none,
        };
        if *ops != none && mine.kind != write.kind {
            return Err(Code::WrongType.into());
        }
        let n_dots = ops.iter().map(CollectionOp::dots).sum::<usize>().max(1) as u64;
        let first = self.replica.dots.take_many(n_dots).ok_or(Code::NotInStep)?;
        let stamp = match stamped {
            Stamped::ByOrigin(origin) => origin.stamp,
            _ => self.replica.clock.tick(t.now.wall_ms),
        };
        let rows = self.replica.rows_of(t, &write.key);
        let acted_on = found.joined(&header, &rows, acted_on(&write.op));
        let latest = acted_on.iter().map(|entry| entry.state.latest().next()).max().unwrap_or_default();
        let stamp = stamp.max(after).max(mine.header.stamp.next()).max(latest);
        let actor = self.params.actor;
        let event = WriteEvent { dot: Dot { actor, counter: first }, stamp, wall_ms: t.now.wall_ms };
        let delta = if write.op == Op::Delete {
            let mut seen = header.clone();
            seen.context.join(&found.seen);
            collection::apply(&seen, &rows, &[CollectionOp::Clear], event)?
        } else {
            let beside: Vec<ElementEntry> = acted_on.iter().chain(&found.neighbours).cloned().collect();
            collection::apply_found(&header, &rows, ops, event, &beside)?
        };
        let change = collection::merge_own(&header, &rows, &delta).map_err(|_| Code::NotInStep)?;
        let changed = changed_by(ops, &acted_on, &delta, &change);
        let last = WriteEvent { dot: Dot { actor, counter: delta.context.newest(actor) }, ..event };
        let head = op::header(&mine.header, &write.op, &write.attributes, last);
        let record = Record { header: head, recent: Vec::new(), ..mine }.with_collection(change.header);
        let sent = record.clone().with_delta(delta).encode();
        let seq = self.replica.save_collection(t, &write.key, shard, &local, &record, change.rows);
        self.append(
            t,
            &LoggedChange { key: &write.key, before: local.record.as_ref(), after: &record, delta: &sent },
        );
        let record = record.with_changed(changed);
        Ok(Applied { sent, attempts: None, record, outcome: StoreOutcome::Applied, seq })
    }
}

impl FoundElements {
    /// Takes in what a majority has said. Where it goes on, if the answers could not hold all.
    fn take(&mut self, heard: &[HeardCollection], is_insertion: bool) -> Option<Bytes> {
        let pages: Vec<ElementPage> = heard.iter().map(HeardCollection::page).collect();
        pages.iter().for_each(|page| self.seen.join(&page.context));
        if is_insertion {
            // Any item will do as a neighbour, one that is being removed too.
            let entries = pages.into_iter().flat_map(|page| page.entries);
            self.neighbours.extend(entries.filter(|entry| entry.state.is_visible()));
            return None;
        }
        let MergedPage { entries, hidden, upto, .. } = merge_pages(&pages);
        let entries = entries.into_iter().chain(hidden);
        self.states.extend(entries.map(|entry| (entry.name, entry.state)));
        upto
    }

    /// Elements as a majority and this replica have them.
    fn joined(
        &self,
        header: &CollectionHeader,
        rows: &dyn CollectionRows,
        names: BTreeSet<Bytes>,
    ) -> Vec<ElementEntry> {
        let here = |name: &Bytes| {
            let found = collection::named(header, rows, std::slice::from_ref(name)).entries.pop();
            found.map_or_else(ElementState::default, |entry| entry.state)
        };
        let nothing = ElementState::default();
        let join = |name: Bytes| {
            let there = self.states.get(&name).unwrap_or(&nothing);
            let state = ElementState::join((&here(&name), &header.context), (there, &self.seen));
            ElementEntry { name, state }
        };
        names.into_iter().map(join).collect()
    }
}

/// What the client of some operations is told: the elements that were removed as they were, sums and scores as they are now,
/// and new items.
fn changed_by(
    ops: &[CollectionOp],
    before: &[ElementEntry],
    delta: &CollectionDelta,
    change: &CollectionChange,
) -> Vec<ElementEntry> {
    let mut told = BTreeMap::new();
    for op in ops {
        match op {
            CollectionOp::Remove(names) => {
                let is_removed =
                    |entry: &&ElementEntry| entry.state.is_visible() && names.contains(&entry.name);
                let removed = before.iter().filter(is_removed);
                told.extend(removed.map(|entry| (entry.name.clone(), entry.state.clone())));
            }
            CollectionOp::Increment { name, .. } => {
                told.extend(change.element(name).map(|state| (name.clone(), state)));
            }
            CollectionOp::Insert { .. } => {
                let items = delta.elements.iter();
                told.extend(items.map(|item| (item.name.clone(), item.state.clone())));
            }
            _ => {}
        }
    }
    told.into_iter().map(|(name, state)| ElementEntry { name, state }).collect()
}
