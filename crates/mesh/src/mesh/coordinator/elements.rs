//! Quorum reads below the key of a collection: elements by name, a page of them, or how many there are. As many replicas as the
//! client asked for answer; their pages are merged element by element, and what a replica lacks is sent to it, as a delta of
//! its own, before the client is told: so reads are monotonic. No read loads the collection. All replicas are asked at once,
//! because the question is small. Where the replicas' headers are the same, the first one's count is exact; otherwise what
//! differs is counted below the key.

mod counting;

use crate::collection::{
    CollectionDelta, CollectionHeader, CollectionType, Direction, ElementDelta, ElementEntry, ElementPage,
    ElementRange, ElementSpan, ElementState, MergedPage, OrderedPage, ScorePaging, estimate, merge_pages,
};
use crate::context::Context;
use crate::frame::{
    CollectionAnswer, CollectionQuestion, CollectionView, ELEMENTS_MAX, Frame, OpId, QueryPurpose,
    StoreOutcome, StoreReason,
};
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::moves::majority;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::request::{ElementsPage, ElementsQuery, ElementsRead, Missing, Reply};
use crate::topology::MovePhase;
use crate::watermarks::Watermarks;
use base::mutant::planted;
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use counting::{Counting, Total};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that declined are asked again after so long.
const RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(in crate::mesh) struct ReadElementsOp {
    token: ReplyToken,
    read: ElementsRead,
    route: Arc<Route>,
    needed: usize,
    counts_next: bool,
    heard: Vec<HeardCollection>,
    declined: BTreeSet<NodeId>,
    progress: Progress,
    /// The answer, once enough were heard, and the replicas that have what is in it.
    answer: Option<Box<ElementsPage>>,
    agreed: BTreeSet<NodeId>,
}

/// How far a read has come for which one question is not enough.
#[derive(Debug, Default)]
struct Progress {
    /// Behind which it goes on.
    after: Option<Bytes>,
    /// What was counted, where the headers differ.
    counting: Option<Counting>,
    /// Elements that were read already, where not all fit into one answer.
    entries: Vec<ElementEntry>,
    /// Replicas have different orders: the elements of these names are read, and put in order.
    ordered: Option<OrderedNames>,
    /// Replicas have different ends: the last element is looked for from here on.
    tail: Option<Bytes>,
}

#[derive(Debug)]
struct OrderedNames {
    names: Vec<Bytes>,
    /// The place in the order of scores up to which they go.
    upto: Option<Bytes>,
}

/// What a replica has said of a collection.
#[derive(Clone, Debug)]
pub(in crate::mesh) struct HeardCollection {
    pub from: NodeId,
    pub record: Option<Record>,
    pub marks: Watermarks,
    pub entries: Vec<ElementEntry>,
    pub upto: Option<Bytes>,
    /// Instead of elements.
    ranges: Option<Vec<ElementRange>>,
}

impl HeardCollection {
    /// An answer that tells elements; none for another.
    pub fn new(from: NodeId, view: CollectionView, record: Option<Record>) -> Option<HeardCollection> {
        let CollectionView { marks, answer, .. } = view;
        let (CollectionAnswer::Elements { entries, upto }
        | CollectionAnswer::Ordered(OrderedPage { entries, upto })) = answer
        else {
            return None;
        };
        Some(HeardCollection { from, record, marks, entries, upto, ranges: None })
    }

    /// An answer to a question about ranges. A replica that has no collection has none to tell.
    fn of_ranges(from: NodeId, view: CollectionView, record: Option<Record>) -> HeardCollection {
        let CollectionView { marks, answer, .. } = view;
        let ranges = match answer {
            CollectionAnswer::Ranges(ranges) => Some(ranges),
            _ => None,
        };
        HeardCollection { from, record, marks, entries: Vec::new(), upto: None, ranges }
    }

    /// The ranges, if they tell of all elements of a collection of this type.
    fn exact_ranges(&self, of: CollectionType) -> Option<Vec<ElementRange>> {
        let header = self.header()?;
        header.exact_count().filter(|_| header.of == of)?;
        self.ranges.clone()
    }

    pub fn header(&self) -> Option<CollectionHeader> {
        self.record.as_ref().and_then(Record::collection_header)
    }

    pub fn page(&self) -> ElementPage {
        let Some(CollectionHeader { context, cleared, .. }) = self.header() else {
            return ElementPage::default();
        };
        ElementPage { context, cleared, entries: self.entries.clone(), upto: self.upto.clone() }
    }
}

impl ReadElementsOp {
    fn question(&self) -> CollectionQuestion {
        let Progress { after, counting, ordered, tail, .. } = &self.progress;
        if let Some(counting) = counting {
            return counting.question();
        }
        if let Some(ordered) = ordered {
            return names_after(&ordered.names, after.as_ref());
        }
        match &self.read.query {
            ElementsQuery::Named(names) => names_after(names, after.as_ref()),
            ElementsQuery::Page { after, limit } => page_after(after.as_ref(), *limit),
            ElementsQuery::Count => CollectionQuestion::Names(Vec::new()),
            ElementsQuery::Last => match (tail, after) {
                (None, _) => CollectionQuestion::Last,
                (Some(tail), None) => page_from(tail.clone()),
                (Some(_), after) => page_after(after.as_ref(), ELEMENTS_MAX),
            },
            ElementsQuery::Scores(paging) => {
                let limit = paging.limit.clamp(1, ELEMENTS_MAX);
                CollectionQuestion::Scores(ScorePaging { limit, ..paging.clone() })
            }
            ElementsQuery::Ranks { from, limit } => {
                CollectionQuestion::Ranks { from: *from, limit: (*limit).clamp(1, ELEMENTS_MAX) as u16 }
            }
        }
    }

    fn asks_ranges(&self) -> bool {
        self.progress.counting.as_ref().is_some_and(Counting::asks_ranges)
    }

    /// Where the search for the last element begins: behind it, the replica whose own last one this is has none. None if one
    /// of them has no element.
    fn tail_begin(&self) -> Option<Bytes> {
        let lasts = self.heard.iter().map(|heard| heard.entries.last().map(|entry| entry.name.clone()));
        lasts.min().flatten()
    }

    /// Whether the replicas are asked in an order of theirs, and not for elements by name.
    fn asks_in_order(&self) -> bool {
        let is_ordered = matches!(self.read.query, ElementsQuery::Scores(_) | ElementsQuery::Ranks { .. });
        is_ordered && self.progress.ordered.is_none()
    }

    /// The names that the replicas have between the bounds of the question, as far as all have told them.
    fn names_in_order(&self) -> OrderedNames {
        let ElementsQuery::Scores(paging) = &self.read.query else {
            let fullest = self.heard.iter().max_by_key(|heard| heard.header().map(|header| header.count));
            let names = fullest.iter().flat_map(|heard| &heard.entries).map(|entry| entry.name.clone());
            return OrderedNames { names: names.collect(), upto: None };
        };
        let ends = self.heard.iter().filter_map(|heard| heard.upto.clone());
        let mut upto = match paging.direction {
            Direction::Up => ends.min(),
            Direction::Down => ends.max(),
        };
        let entries = self.heard.iter().flat_map(|heard| &heard.entries);
        let within = entries
            .filter(|entry| paging.contains(entry.state.score(), &entry.name, upto.as_ref()))
            .map(|entry| (ScorePaging::place(entry), entry.name.clone()));
        let mut places: Vec<(Bytes, Bytes)> = within.collect();
        places.sort_unstable();
        if paging.direction == Direction::Down {
            places.reverse();
        }
        if places.len() > ELEMENTS_MAX {
            places.truncate(ELEMENTS_MAX);
            upto = places.last().map(|(place, _)| place.clone());
        }
        OrderedNames { names: places.into_iter().map(|(_, name)| name).collect(), upto }
    }

    /// Puts what was read by name into the order that was asked for.
    fn put_in_order(&mut self, page: &mut ElementsPage) {
        let Some(OrderedNames { names, upto }) = self.progress.ordered.take() else { return };
        let ElementsQuery::Scores(paging) = &self.read.query else {
            page.elements.sort_by_key(|entry| names.iter().position(|name| *name == entry.name));
            return;
        };
        page.elements.retain(|entry| paging.contains(entry.state.score(), &entry.name, upto.as_ref()));
        page.elements.sort_by_cached_key(ScorePaging::place);
        if paging.direction == Direction::Down {
            page.elements.reverse();
        }
        page.next = upto;
        if page.elements.len() > paging.limit {
            page.elements.truncate(paging.limit);
            page.next = page.elements.last().map(ScorePaging::place);
        }
    }

    fn is_met(&self, is_among: impl Fn(NodeId) -> bool) -> bool {
        let count = |list: &[NodeId]| list.iter().filter(|node| is_among(**node)).count();
        let Route { read, also } = &*self.route;
        count(read) >= self.needed && (!self.counts_next || count(also) >= majority(also.len()))
    }

    /// Takes a page into account. False if more has to be asked.
    fn take(&mut self, page: &mut ElementsPage) -> bool {
        let by_name = matches!(self.read.query, ElementsQuery::Named(_)) || self.progress.ordered.is_some();
        let progress = &mut self.progress;
        if let Some(counting) = &mut progress.counting {
            counting.take_page(&std::mem::take(&mut page.elements), page.next.take());
            return counting.total().map(|total| show_total(page, total)).is_some();
        }
        if progress.tail.is_some() {
            progress.entries =
                page.elements.pop().map_or(std::mem::take(&mut progress.entries), |last| vec![last]);
        } else if by_name {
            progress.entries.append(&mut page.elements);
        } else {
            return true;
        }
        progress.after = page.next.take();
        if progress.after.is_some() {
            return false;
        }
        page.elements = std::mem::take(&mut progress.entries);
        self.put_in_order(page);
        true
    }
}

/// Some names, behind one, as a question.
fn names_after(names: &[Bytes], after: Option<&Bytes>) -> CollectionQuestion {
    let names: BTreeSet<&Bytes> =
        names.iter().filter(|name| after.is_none_or(|after| *name > after)).collect();
    CollectionQuestion::Names(names.into_iter().cloned().collect())
}

fn page_from(from: Bytes) -> CollectionQuestion {
    let span = ElementSpan { from: Some(from), to: None };
    CollectionQuestion::Page { span, limit: ELEMENTS_MAX as u16 }
}

fn show_total(page: &mut ElementsPage, Total { count, estimate }: Total) {
    (page.count, page.estimate) = (count, estimate);
}

fn page_after(after: Option<&Bytes>, limit: usize) -> CollectionQuestion {
    let from = after.map(|after| [after.as_ref(), b"\0"].concat().into());
    let limit = limit.clamp(1, ELEMENTS_MAX) as u16;
    CollectionQuestion::Page { span: ElementSpan { from, to: None }, limit }
}

impl Coordinator {
    fn elements_op(&mut self, id: OpId) -> Option<&mut ReadElementsOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::ReadElements(reading)) => Some(reading),
            _ => None,
        }
    }
}

impl Mesh {
    pub(in crate::mesh) fn start_read_elements(
        &mut self,
        t: &mut Turn<'_>,
        token: ReplyToken,
        read: ElementsRead,
        deadline: Instant,
    ) {
        let refuse = |t: &mut Turn<'_>, code| t.out.replies.push((token, Reply::Refused(code)));
        let Some(copies) = self.membership.topology.copies(read.key.namespace_id()) else {
            return refuse(t, Code::UnknownSpace);
        };
        let route = self.membership.route(read.key.partition(), copies).clone();
        let needed = read.r.map_or(majority(route.read.len()), usize::from);
        if needed == 0 || needed > route.read.len() {
            return refuse(t, Code::BadQuorum);
        }
        if matches!(&read.query, ElementsQuery::Named(names) if names.len() > ELEMENTS_MAX) {
            return refuse(t, Code::TooManyOps);
        }
        let is_pending = self.membership.topology.phase(read.key.partition()) == MovePhase::Pending;
        let counts_next = is_pending && !route.also.is_empty() && needed >= majority(route.read.len());
        let reading = ReadElementsOp {
            token,
            read,
            route,
            needed,
            counts_next,
            heard: Vec::new(),
            declined: BTreeSet::new(),
            progress: Progress::default(),
            answer: None,
            agreed: BTreeSet::new(),
        };
        let id = self.coordinator.begin(t, Operation::ReadElements(Box::new(reading)), deadline);
        self.ask_elements(t, id, None);
    }

    /// Asks all replicas, or those that declined.
    fn ask_elements(&mut self, t: &mut Turn<'_>, id: OpId, only: Option<BTreeSet<NodeId>>) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let (key, question) = (reading.read.key.clone(), reading.question());
        let mut list = reading.route.read.clone();
        if reading.counts_next {
            list.extend(reading.route.also.iter().copied());
        }
        list.sort_unstable();
        list.dedup();
        list.retain(|node| only.as_ref().is_none_or(|only| only.contains(node)));
        self.query_collection(t, id, &key, &question, &list);
    }

    /// Asks some replicas what they have below a key; this node answers itself when what it has is durable.
    pub(in crate::mesh) fn query_collection(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        key: &Key,
        question: &CollectionQuestion,
        nodes: &[NodeId],
    ) {
        for node in nodes {
            let (purpose, question) = (QueryPurpose::Read, question.clone());
            if *node != self.membership.me {
                self.send(t, *node, Frame::CollectionQuery { id, key: key.clone(), purpose, question });
                continue;
            }
            if !self.membership.is_serving() {
                self.step_declined(t, *node, id);
                continue;
            }
            let local = self.replica.load(t, key);
            self.after(t, local.seq, Then::QueryCollectionHere(id, key.clone(), question));
        }
    }

    /// What this node has, which is durable.
    pub(in crate::mesh) fn query_collection_here(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        key: &Key,
        question: &CollectionQuestion,
    ) {
        let local = self.replica.load(t, key);
        if !self.replica.storage.is_durable(local.seq) {
            return self.after(t, local.seq, Then::QueryCollectionHere(id, key.clone(), question.clone()));
        }
        let Some(shard) = self.membership.shard_of(key).filter(|_| self.membership.is_serving()) else {
            return self.step_declined(t, self.membership.me, id);
        };
        let answer = self.replica.answer_question(t, key, &local, question);
        let marks =
            if local.record.is_none() { self.replica.shards.marks(shard) } else { Watermarks::default() };
        self.step_collection_answer(
            t,
            self.membership.me,
            id,
            CollectionView { record: local.bytes, marks, answer },
        );
    }

    pub(in crate::mesh) fn elements_answered(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        view: CollectionView,
        record: Option<Record>,
    ) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let is_known = reading.heard.iter().any(|heard| heard.from == from);
        if reading.answer.is_some() || is_known || !reading.route.contains(from) {
            return;
        }
        let heard = if reading.asks_ranges() {
            Some(HeardCollection::of_ranges(from, view, record))
        } else {
            HeardCollection::new(from, view, record)
        };
        reading.heard.extend(heard);
        if reading.is_met(|node| reading.heard.iter().any(|heard| heard.from == node)) {
            self.merge_elements(t, id);
        }
    }

    /// Enough were heard.
    fn merge_elements(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        // A collection that one replica knows to be deleted everywhere does not count, even if another still has it.
        let heard = reading.heard.clone();
        let is_gone = |record: &Record| heard.iter().any(|heard| heard.marks.cover(record));
        let records =
            || heard.iter().filter_map(|heard| heard.record.as_ref()).filter(|record| !is_gone(record));
        if records().any(|record| !record.is_collection() && record.is_live(t.now.wall_ms)) {
            return self.refuse_elements(t, id, Code::WrongType);
        }
        let greatest = records().filter(|record| record.is_collection()).max_by(|a, b| a.rank(b)).cloned();
        let Some(greatest) = greatest else { return self.answer_elements(t, id, Box::default()) };
        let same = same_header(&heard);
        if matches!(reading.read.query, ElementsQuery::Count) {
            if let Some(header) = same {
                let (count, estimate) = (Some(header.count), Some(estimate(&header.ranks)));
                let page =
                    ElementsPage { record: Some(Box::new(greatest)), count, estimate, ..Default::default() };
                return self.answer_elements(t, id, Box::new(page));
            }
            if reading.progress.counting.is_none() || reading.asks_ranges() {
                return self.count_ranges(t, id, greatest);
            }
        }
        if matches!(reading.read.query, ElementsQuery::Last) && reading.progress.tail.is_none() {
            let elements = match (&same, reading.tail_begin()) {
                (None, Some(tail)) => {
                    reading.progress.tail = Some(tail);
                    return self.ask_elements_again(t, id);
                }
                (Some(_), _) => heard[0].entries.clone(),
                (None, None) => Vec::new(),
            };
            let count = same.map(|header| header.count);
            let page =
                ElementsPage { record: Some(Box::new(greatest)), elements, count, ..Default::default() };
            return self.answer_elements(t, id, Box::new(page));
        }
        if reading.asks_in_order() {
            if let (Some(header), Some(first)) = (&same, reading.heard.first()) {
                let (elements, next) = (first.entries.clone(), first.upto.clone());
                let (record, count) = (Some(Box::new(greatest)), Some(header.count));
                let mut page = ElementsPage { record, elements, next, count, estimate: None };
                page.elements.retain(|entry| !entry.state.is_expired(t.now.wall_ms));
                return self.answer_elements(t, id, Box::new(page));
            }
            reading.progress.ordered = Some(reading.names_in_order());
            return self.ask_elements_again(t, id);
        }
        let pages: Vec<ElementPage> = heard.iter().map(HeardCollection::page).collect();
        let merged = merge_pages(&pages);
        let is_shown = |entry: &&ElementEntry| !entry.state.is_expired(t.now.wall_ms);
        let elements = merged.entries.iter().filter(is_shown).cloned().collect();
        let page = ElementsPage {
            record: Some(Box::new(greatest.clone())),
            elements,
            next: merged.upto.clone(),
            count: same.map(|header| header.count),
            estimate: None,
        };
        if planted(Mutant::ElementsNotRepaired) {
            return self.finish_elements(t, id, Box::new(page));
        }
        let stale: BTreeSet<usize> = merged.stale.iter().map(|stale| stale.page).collect();
        reading.agreed =
            (0..heard.len()).filter(|nth| !stale.contains(nth)).map(|nth| heard[nth].from).collect();
        reading.answer = Some(Box::new(page));
        for nth in stale {
            let delta = repair_of(&pages, &merged, nth, &greatest);
            self.repair_elements(t, id, heard[nth].from, &delta);
        }
        self.try_finish_elements(t, id);
    }

    /// Counts the ranges in which all replicas have the same, and asks for what is in the others.
    fn count_ranges(&mut self, t: &mut Turn<'_>, id: OpId, greatest: Record) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let of = greatest.collection_header().expect("it is the header of a collection").of;
        match &mut reading.progress.counting {
            None => reading.progress.counting = Some(Counting::new(of.kind)),
            Some(counting) => {
                counting.take_ranges(reading.heard.iter().map(|heard| heard.exact_ranges(of)).collect());
                if let Some(total) = counting.total() {
                    let mut page =
                        ElementsPage { record: Some(Box::new(greatest)), ..ElementsPage::default() };
                    show_total(&mut page, total);
                    return self.answer_elements(t, id, Box::new(page));
                }
            }
        }
        self.ask_elements_again(t, id);
    }

    fn repair_elements(&mut self, t: &mut Turn<'_>, id: OpId, node: NodeId, delta: &Record) {
        let Some(key) = self.coordinator.elements_op(id).map(|reading| reading.read.key.clone()) else {
            return;
        };
        let Some(shard) = self.membership.shard_of(&key) else { return };
        let record = delta.encode();
        if node != self.membership.me {
            return self.send(t, node, Frame::Store { id, key, record, reason: StoreReason::Repair });
        }
        if self.replica.may_take(t, &key, delta, record.len()) {
            let (outcome, seq) = self.replica.absorb(t, &key, shard, delta, StoreReason::Repair);
            self.after(t, seq, Then::Stored(id, outcome));
        }
    }

    pub(in crate::mesh) fn elements_stored(
        &mut self,
        t: &mut Turn<'_>,
        from: NodeId,
        id: OpId,
        outcome: StoreOutcome,
    ) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        if outcome == StoreOutcome::Applied && reading.answer.is_some() {
            reading.agreed.insert(from);
        } else {
            // It cannot take the repair now: all begins again in a moment.
            self.coordinator.timers.set(t.now.at.after(RETRY_AFTER), id);
        }
        self.try_finish_elements(t, id);
    }

    fn try_finish_elements(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        if !reading.is_met(|node| reading.agreed.contains(&node)) {
            return;
        }
        let Some(page) = reading.answer.take() else { return };
        self.finish_elements(t, id, page);
    }

    /// The replicas have what a page shows.
    fn finish_elements(&mut self, t: &mut Turn<'_>, id: OpId, mut page: Box<ElementsPage>) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        if !reading.take(&mut page) {
            return self.ask_elements_again(t, id);
        }
        self.answer_elements(t, id, page);
    }

    /// Asks all replicas again, under a new name: late answers to the question before are not taken for answers to this one.
    fn ask_elements_again(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::ReadElements(mut reading), deadline, .. }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        (reading.heard, reading.answer) = (Vec::new(), None);
        (reading.agreed, reading.declined) = (BTreeSet::new(), BTreeSet::new());
        let id = self.coordinator.begin(t, Operation::ReadElements(reading), deadline);
        self.ask_elements(t, id, None);
    }

    fn answer_elements(&mut self, t: &mut Turn<'_>, id: OpId, page: Box<ElementsPage>) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let token = reading.token;
        self.coordinator.finish(id);
        t.out.replies.push((token, Reply::Elements(page)));
    }

    fn refuse_elements(&mut self, t: &mut Turn<'_>, id: OpId, code: Code) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let token = reading.token;
        self.coordinator.finish(id);
        t.out.replies.push((token, Reply::Refused(code)));
    }

    pub(in crate::mesh) fn decline_elements(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        reading.declined.insert(from);
        self.coordinator.timers.set(t.now.at.after(RETRY_AFTER), id);
    }

    /// Asks those who declined again. Where a repair was declined, all begins again.
    pub(in crate::mesh) fn retry_elements(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(reading) = self.coordinator.elements_op(id) else { return };
        let declined = std::mem::take(&mut reading.declined);
        if reading.answer.is_some() {
            return self.ask_elements_again(t, id);
        }
        self.ask_elements(t, id, Some(declined));
    }

    pub(in crate::mesh) fn expire_elements(&mut self, t: &mut Turn<'_>, reading: &ReadElementsOp) {
        let heard = |node: &NodeId| reading.heard.iter().any(|heard| heard.from == *node);
        let silent: Vec<NodeId> = reading.route.replicas().filter(|node| !heard(node)).collect();
        for node in silent.iter().filter(|node| **node != self.membership.me) {
            self.membership.peers.mark_unanswered(*node, t.now.at);
        }
        let (acks, needed) = (reading.heard.len() as u8, reading.needed as u8);
        let reply = Reply::Unavailable { acks, needed, missing: Missing::nodes(silent) };
        t.out.replies.push((reading.token, reply));
    }

    /// After a change of topology what waits for replicas of a collection begins again: the quorums may be other ones.
    pub(in crate::mesh) fn reroute_collections(&mut self, t: &mut Turn<'_>) {
        let is_one = |pending: &Pending| {
            matches!(pending.operation, Operation::ReadElements(_) | Operation::Gather(_))
        };
        let found = self.coordinator.operations.iter().filter(|(_, pending)| is_one(pending));
        for id in found.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(Pending { operation, deadline, .. }) = self.coordinator.finish(id) else { continue };
            match operation {
                Operation::ReadElements(reading) => {
                    let ReadElementsOp { token, read, .. } = *reading;
                    self.start_read_elements(t, token, read, deadline);
                }
                Operation::Gather(gathering) => {
                    let (client, write, origin): (Client, _, _) = gathering.begun();
                    self.coordinate(t, client, write, origin, deadline);
                }
                _ => {}
            }
        }
    }
}

/// The header, if all replicas have the same one and it has an exact count.
fn same_header(heard: &[HeardCollection]) -> Option<CollectionHeader> {
    let (first, others) = heard.split_first()?;
    let header = first.header().filter(|header| header.exact_count().is_some())?;
    let is_same = |other: &HeardCollection| other.header().is_some_and(|other| other.is_same(&header));
    others.iter().all(is_same).then_some(header)
}

/// What one replica lacks of the merged page, as a delta.
fn repair_of(pages: &[ElementPage], merged: &MergedPage, nth: usize, base: &Record) -> Record {
    let mut seen = Context::default();
    let mut elements = Vec::new();
    for stale in merged.stale.iter().filter(|stale| stale.page == nth) {
        let name = stale.name.clone();
        seen.join(&ElementPage::dots_of(pages, &name));
        let found = merged.entries.iter().chain(&merged.hidden).find(|entry| entry.name == name);
        let state = found.map_or_else(ElementState::default, |entry| entry.state.clone());
        elements.push(ElementDelta { name, state });
    }
    let of = base.collection_header().expect("it is the header of a collection").of;
    let (cleared, expiry) = (Context::default(), Vec::new());
    base.clone().with_delta(CollectionDelta { of, context: seen, cleared, expiry, elements })
}
