//! A follower makes one feed of what the nodes of its region tell of their records, for any number of subscriptions.
//! A topology, answers of nodes and subscriptions go in; questions to nodes and changes for subscriptions come out, in the
//! order in which they are to be sent. Each shard is followed at one of its replicas, its source. A source that cannot be asked
//! is replaced by another replica, which sends the state since the cursor first. Invariants: the changes of a key are sent in
//! the order in which its source made them; whatever a replica has durably is sent, or something later of its key is; the
//! cursor covers a write only when it was sent, or is covered by what was sent later.

use crate::conflict::Conflict;
use crate::feed::change::{Change, ChangeKind};
use crate::feed::cursor::FeedCursor;
use crate::feed::page::{FeedAnswer, FeedAsk, FeedRange, FeedScan, ShardSet};
use crate::feed::sent::SentChanges;
use crate::frame::Shard;
use crate::key::Key;
use crate::mesh::Routes;
use crate::record::Record;
use crate::ring::Partition;
use crate::topology::{Epoch, Topology};
use base::{Instant, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long a node holds a question while there is nothing to tell.
const WAIT_MS: u64 = 500;
/// When a node that could not be asked may be a source again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubscriptionId(pub u64);

/// What a consumer wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// None for the state first.
    pub since: Option<FeedCursor>,
    pub range: FeedRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    All,
    One(SubscriptionId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChange {
    Record(Record),
    Conflict(Box<Conflict>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedOutput {
    Change {
        to: Target,
        kind: ChangeKind,
        key: Key,
        change: Box<FeedChange>,
        /// Counts the changes of this follower.
        seq: u64,
        /// It, or something later of the key, was sent under this number: subscriptions that were there have it.
        sent: Option<u64>,
        /// A page of state, and not a change that has just happened.
        is_state: bool,
    },
    /// Deletes since the cursor may be forgotten: only the whole state shows what is gone.
    Gap(Target),
    /// The subscription has been sent everything up to now.
    Ready(SubscriptionId),
    /// The cursor has moved.
    Moved,
}

#[derive(Debug)]
struct PendingScan {
    target: Target,
    scan: FeedScan,
}

#[derive(Debug, Default)]
struct Source {
    /// Its ring, and the place from which it is asked next.
    place: Option<(u64, u64)>,
    shards: ShardSet,
    scans: VecDeque<PendingScan>,
    asking: bool,
    /// Counts changes of its shards: an answer to an earlier question is not used.
    turn: u64,
    asked_turn: u64,
    /// Which of its scans it was asked about.
    asked_scan: usize,
    /// The cursor up to which the replica has sent every change.
    marks: Option<FeedCursor>,
    retry_at: Instant,
    failed: bool,
}

#[derive(Debug)]
pub struct Follower {
    me: NodeId,
    epoch: Option<Epoch>,
    /// The replicas of each shard that answer readers.
    replicas: BTreeMap<Shard, Vec<NodeId>>,
    nodes: BTreeMap<NodeId, Source>,
    source_of: BTreeMap<Shard, NodeId>,
    /// Shards have had sources: a shard that gets another, or its first, may have missed something.
    has_begun: bool,
    /// Scans of shards that have no source.
    unplaced: Vec<PendingScan>,
    subscriptions: BTreeMap<SubscriptionId, Joined>,
    last_subscription: u64,
    cursor: FeedCursor,
    sent: SentChanges,
    seq: u64,
}

#[derive(Debug)]
struct Joined {
    /// The number of the last change that was sent before.
    seq: u64,
    is_ready: bool,
}

impl Follower {
    /// A follower at this node, which is asked before others.
    pub fn new(me: NodeId) -> Follower {
        Follower {
            me,
            epoch: None,
            replicas: BTreeMap::new(),
            nodes: BTreeMap::new(),
            source_of: BTreeMap::new(),
            has_begun: false,
            unplaced: Vec::new(),
            subscriptions: BTreeMap::new(),
            last_subscription: 0,
            cursor: FeedCursor::default(),
            sent: SentChanges::default(),
            seq: 0,
        }
    }

    /// The cursor up to which every ready subscription was sent every change.
    pub fn cursor(&self) -> &FeedCursor {
        &self.cursor
    }

    pub fn n_subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether a change that is addressed to all, or to this subscription, is news for it.
    pub fn is_news(&self, id: SubscriptionId, sent: Option<u64>) -> bool {
        self.subscriptions.get(&id).is_some_and(|joined| sent.is_none_or(|sent| sent <= joined.seq))
    }

    pub fn set_topology(&mut self, topology: &Topology) {
        if self.epoch == Some(topology.epoch) {
            return;
        }
        self.epoch = Some(topology.epoch);
        let routes = Routes::of(topology);
        self.replicas.clear();
        for copies in topology.copies_in_use() {
            for partition in Partition::all() {
                let read = routes.of_shard(partition, copies).read.clone();
                self.replicas.insert(Shard { partition, copies }, read);
            }
        }
        if !self.has_begun {
            // Subscriptions of the time before are about all shards.
            let all: ShardSet = self.replicas.keys().copied().collect();
            self.unplaced.iter_mut().for_each(|scan| scan.scan.shards = all.clone());
        }
        self.assign();
    }

    pub fn subscribe(&mut self, subscription: Subscription) -> SubscriptionId {
        self.last_subscription += 1;
        let id = SubscriptionId(self.last_subscription);
        self.subscriptions.insert(id, Joined { seq: self.seq, is_ready: false });
        let Subscription { since, range } = subscription;
        let scan = |shards| PendingScan {
            target: Target::One(id),
            scan: FeedScan { since: since.clone(), range: range.clone(), shards, next: None },
        };
        for source in self.nodes.values_mut().filter(|source| !source.shards.is_empty()) {
            source.scans.push_back(scan(source.shards.clone()));
        }
        let without = self.replicas.keys().filter(|shard| !self.source_of.contains_key(shard));
        let without: ShardSet = without.copied().collect();
        if !without.is_empty() || !self.has_begun {
            self.unplaced.push(scan(without));
        }
        id
    }

    pub fn unsubscribe(&mut self, id: SubscriptionId) {
        self.subscriptions.remove(&id);
        let is_other = |scan: &PendingScan| scan.target != Target::One(id);
        for source in self.nodes.values_mut() {
            let before = source.scans.len();
            source.scans.retain(is_other);
            source.turn += u64::from(source.scans.len() != before);
        }
        self.unplaced.retain(is_other);
    }

    /// The questions that are due. State is asked for only while its subscription has space for it.
    pub fn asks(
        &mut self,
        now: Instant,
        has_space: impl Fn(SubscriptionId) -> bool,
    ) -> Vec<(NodeId, FeedAsk)> {
        let mut revived = false;
        for source in self.nodes.values_mut().filter(|source| source.failed && source.retry_at <= now) {
            source.failed = false;
            revived = true;
        }
        if revived {
            self.assign();
        }
        let due = |source: &Source| !source.asking && !source.shards.is_empty() && source.retry_at <= now;
        let due = self.nodes.iter_mut().filter(|(_, source)| due(source));
        due.map(|(node, source)| (*node, source.ask(&has_space))).collect()
    }

    /// A node did not answer, or not now.
    pub fn failed(&mut self, now: Instant, node: NodeId) {
        if let Some(source) = self.nodes.get_mut(&node) {
            (source.asking, source.failed, source.retry_at) = (false, true, now.after(AGAIN_AFTER));
            self.assign();
        }
    }

    pub fn answered(&mut self, node: NodeId, answer: FeedAnswer, out: &mut Vec<FeedOutput>) {
        let Some(source) = self.nodes.get_mut(&node) else { return };
        source.asking = false;
        if source.turn != source.asked_turn || source.shards.is_empty() {
            return;
        }
        let (FeedAnswer { changes, rows, .. }, place) = (answer.clone(), (answer.log, answer.upto));
        let had_place = source.place.replace(place).is_some();
        if answer.lost {
            // What was in the ring meanwhile is in the rows.
            if had_place {
                let scan = rescan(&self.cursor, source.shards.clone());
                source.scans.push_front(scan);
                source.marks = None;
            }
            return;
        }
        changes.into_iter().for_each(|change| self.send(Target::All, change, false, out));
        if answer.scanned {
            self.scanned(node, &answer, rows, out);
        }
        self.note_marks(node, answer, out);
    }

    /// A page of the first scan of a node.
    fn scanned(&mut self, node: NodeId, answer: &FeedAnswer, rows: Vec<Change>, out: &mut Vec<FeedOutput>) {
        let Some(source) = self.nodes.get_mut(&node) else { return };
        let Some(mut scan) = source.scans.remove(source.asked_scan) else { return };
        let (target, is_state) = (scan.target, scan.scan.since.is_none());
        if answer.next.is_some() {
            scan.scan.next = answer.next.clone();
            source.scans.push_back(scan);
        }
        if answer.gap {
            out.push(FeedOutput::Gap(target));
        }
        rows.into_iter().for_each(|change| self.send(target, change, is_state, out));
    }

    fn send(&mut self, to: Target, change: Change, is_state: bool, out: &mut Vec<FeedOutput>) {
        let Change { kind, key, value } = change;
        let read = match kind {
            ChangeKind::Conflict => Conflict::decode(value).map(|it| FeedChange::Conflict(Box::new(it))),
            _ => Record::decode(value).map(FeedChange::Record),
        };
        let Some(change) = read else { return };
        let sent = match to {
            _ if kind.has_elements_alone() => {
                self.seq += 1;
                None
            }
            Target::All => {
                self.seq += 1;
                self.sent.record(self.seq, key.bytes(), kind, &change)
            }
            Target::One(_) => self.sent.when(key.bytes(), kind, &change),
        };
        let (change, seq) = (Box::new(change), self.seq);
        out.push(FeedOutput::Change { to, kind, key, change, seq, sent, is_state });
    }

    /// The cursor moves when every source has sent everything up to there, and every shard has a source.
    fn note_marks(&mut self, node: NodeId, answer: FeedAnswer, out: &mut Vec<FeedOutput>) {
        let Some(source) = self.nodes.get_mut(&node) else { return };
        let is_behind = source.scans.iter().any(|scan| scan.target == Target::All);
        if !is_behind {
            source.marks = Some(FeedCursor { marks: answer.marks });
        }
        self.note_ready(out);
        if self.source_of.len() < self.replicas.len() {
            return;
        }
        let mut asked = self.nodes.values().filter(|source| !source.shards.is_empty());
        let Some(first) = asked.next().and_then(|source| source.marks.as_ref()) else { return };
        let mut least = first.marks.clone();
        for source in asked {
            let Some(marks) = &source.marks else { return };
            least = least.meet(&marks.marks);
        }
        let before = self.cursor.clone();
        self.cursor.marks.join(&least);
        if self.cursor != before {
            out.push(FeedOutput::Moved);
        }
    }

    fn note_ready(&mut self, out: &mut Vec<FeedOutput>) {
        let scans = self.nodes.values().flat_map(|source| &source.scans).chain(&self.unplaced);
        let waiting: Vec<Target> = scans.map(|scan| scan.target).collect();
        for (id, joined) in self.subscriptions.iter_mut().filter(|(_, joined)| !joined.is_ready) {
            if !waiting.contains(&Target::One(*id)) {
                joined.is_ready = true;
                out.push(FeedOutput::Ready(*id));
            }
        }
    }

    /// Gives every shard a source. One that has a good one keeps it.
    fn assign(&mut self) {
        let mut moved: BTreeMap<(Option<NodeId>, Option<NodeId>), ShardSet> = BTreeMap::new();
        let gone = self.source_of.keys().filter(|shard| !self.replicas.contains_key(shard));
        let gone: Vec<Shard> = gone.copied().collect();
        for (shard, replicas) in &self.replicas {
            let old = self.source_of.get(shard).copied();
            let is_good = |node: &NodeId| self.nodes.get(node).is_none_or(|source| !source.failed);
            let kept = old.filter(|old| replicas.contains(old) && is_good(old));
            let near = Some(self.me).filter(|me| replicas.contains(me) && is_good(me));
            let new = kept.or(near).or_else(|| replicas.iter().copied().find(is_good));
            if new != old {
                moved.entry((old, new)).or_default().insert(*shard);
            }
        }
        for shard in gone {
            let old = self.source_of.get(&shard).copied();
            moved.entry((old, None)).or_default().insert(shard);
        }
        for ((old, new), shards) in moved {
            self.move_shards(old, new, &shards);
        }
        for scan in &mut self.unplaced {
            let known = scan.scan.shards.iter().filter(|shard| self.replicas.contains_key(shard));
            scan.scan.shards = known.collect();
        }
        self.unplaced.retain(|scan| !scan.scan.shards.is_empty());
        self.has_begun = true;
    }

    /// Scans of the shards go along, from their beginning; and what the old source has not sent, the new one does.
    fn move_shards(&mut self, old: Option<NodeId>, new: Option<NodeId>, shards: &ShardSet) {
        let mut scans = match old.and_then(|old| self.nodes.get_mut(&old)) {
            Some(source) => source.give_up(shards),
            None => take_scans(&mut self.unplaced, shards),
        };
        for shard in shards.iter() {
            match new {
                Some(new) => drop(self.source_of.insert(shard, new)),
                None => drop(self.source_of.remove(&shard)),
            }
        }
        let Some(new) = new else {
            return self.unplaced.append(&mut scans);
        };
        let source = self.nodes.entry(new).or_default();
        if self.has_begun {
            source.scans.push_front(rescan(&self.cursor, shards.clone()));
        }
        source.scans.extend(scans);
        source.take_over(shards);
    }
}

impl Source {
    fn ask(&mut self, has_space: &impl Fn(SubscriptionId) -> bool) -> FeedAsk {
        (self.asking, self.asked_turn) = (true, self.turn);
        let (log, from) = self.place.unwrap_or_default();
        let may_go_on = |scan: &PendingScan| match scan.target {
            Target::All => true,
            Target::One(id) => has_space(id),
        };
        let at = self.scans.iter().position(may_go_on).filter(|_| self.place.is_some());
        self.asked_scan = at.unwrap_or_default();
        let scan = at.map(|at| self.scans[at].scan.clone());
        let wait_ms = if scan.is_some() { 0 } else { WAIT_MS };
        FeedAsk { log, from, shards: self.shards.clone(), scan, wait_ms }
    }

    fn take_over(&mut self, shards: &ShardSet) {
        shards.iter().for_each(|shard| self.shards.insert(shard));
        (self.turn, self.marks) = (self.turn + 1, None);
    }

    /// Its place counts no more when it is asked about nothing.
    fn give_up(&mut self, shards: &ShardSet) -> Vec<PendingScan> {
        shards.iter().for_each(|shard| self.shards.remove(shard));
        (self.turn, self.marks) = (self.turn + 1, None);
        if self.shards.is_empty() {
            self.place = None;
        }
        let mut scans: Vec<PendingScan> = self.scans.drain(..).collect();
        let taken = take_scans(&mut scans, shards);
        self.scans = scans.into();
        taken
    }
}

/// What a source sends that is followed from another place than before.
fn rescan(cursor: &FeedCursor, shards: ShardSet) -> PendingScan {
    let scan = FeedScan { since: Some(cursor.clone()), range: FeedRange::default(), shards, next: None };
    PendingScan { target: Target::All, scan }
}

/// Takes shards out of scans, and returns scans of these shards alone.
fn take_scans(scans: &mut Vec<PendingScan>, shards: &ShardSet) -> Vec<PendingScan> {
    let mut taken = Vec::new();
    for scan in scans.iter_mut() {
        let inside = |shard: &Shard| scan.scan.shards.contains(*shard);
        let inside: ShardSet = shards.iter().filter(inside).collect();
        inside.iter().for_each(|shard| scan.scan.shards.remove(shard));
        if !inside.is_empty() {
            let one = FeedScan { shards: inside, next: None, ..scan.scan.clone() };
            taken.push(PendingScan { target: scan.target, scan: one });
        }
    }
    scans.retain(|scan| !scan.scan.shards.is_empty());
    taken
}
