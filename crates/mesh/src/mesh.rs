//! One node of the mesh: replica, coordinator and repair in one state machine.
//! `step` takes requests, frames, ticks and completions; `collect` ends a turn and returns what follows. Invariant: nothing
//! that vouches for durable rows leaves before the rows are durable. The machine holds such effects by the batch that they
//! wait for; the caller need not.

mod abroad;
mod adopt;
mod alarms;
mod ballot;
mod bundle;
mod claims;
mod custom;
mod exchange;
mod far_stamps;
mod forward;
mod global;
mod hints;
mod identity;
mod listing;
mod membership;
mod purge;
mod queries;
mod reads;
mod replica;
mod room;
mod scans;
mod sessions;
mod shards;
pub mod status;
mod streams;
#[cfg(test)]
mod tests;
mod witness;
mod words;
mod writes;

pub use abroad::RegionState;
pub use words::{Destination, Input, Note, Now, Output, Params, Persist};

use crate::actor::RegionId;
use crate::ballot::Ballot;
use crate::dots::Dots;
use crate::frame::{Ask, Envelope, Frame, Known, Outcome, Shard};
use crate::handler::Handlers;
use crate::hlc::{Clock, Stamp};
use crate::key::Key;
use crate::marks::Marks;
use crate::moves::Report;
use crate::overlay::{Overlay, Seq};
use crate::peers::Peers;
use crate::record::Record;
use crate::request::{Reply, Request};
use crate::room::UnderWay;
use crate::rows::{self, Batch, Row, Rows};
use crate::topology::Topology;
use abroad::Abroad;
use alarms::Alarms;
use ballot::Ballots;
use base::limits::{MESH_FLUSH_LOG_BYTES, MESH_OPERATIONS_MAX, MESH_OVERLAY_BYTES_MAX};
use base::{Code, Docket, Instant, NodeId, Token};
use bytes::Bytes;
use exchange::Exchanges;
use far_stamps::FarStamps;
use hints::Hints;
use identity::Identity;
use membership::{Routes, Wakening};
use room::Rooming;
use scans::Batches;
use shards::Shards;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use witness::Witnesses;

/// Rows in memory that are worth a flush before its time.
const FLUSH_BYTES: usize = 64 * 1024 * 1024;

/// What a step works with: the clocks, the stored rows, and the output of the turn.
struct Turn<'a> {
    now: Now,
    rows: &'a dyn Rows,
    out: &'a mut Output,
}

/// The requester that waits for the end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Here(Token),
    /// A node that forwarded the write.
    Peer(NodeId, Ask),
    /// One write of a batch: the batch, and the index in it.
    Part(u64, usize),
    /// A session read: it must not return less than its session has seen.
    Guard(Ask),
    /// A read over several regions: this region's part.
    Region(Ask),
    /// A node of another region.
    Abroad(NodeId, Ask),
}

/// An effect that is held until a batch is durable.
#[derive(Debug)]
enum Then {
    Send(NodeId, Frame),
    /// This node has stored the operation's record.
    Stored(Ask, Outcome),
    /// The operation's record may be sent to the other replicas.
    Spread(Ask),
    /// A read may use this node's own record.
    Show(Ask),
    /// The merged record of a read may be sent to replicas that lack it.
    Repair(Ask),
    RepairRegions(Ask),
    /// All records of an exchange are durable.
    Exchanged(Ask),
    /// What a peer vouched for is durable here too.
    Settled(Shard, Known, Marks),
    SettledAbroad(RegionId, Shard, Marks),
    /// An entry of the replication log may be sent.
    Logged(u64),
    Identity {
        dots: u64,
        floor: Stamp,
    },
    Report(Report),
    /// This node's answer to its own ballot.
    Heard(Frame),
    /// The base of a proposal, once the conflicts found in merging it are durable.
    Propose(Ask, Option<Box<Record>>, Ballot),
}

#[derive(Debug)]
enum Operation {
    Write(Box<writes::Writing>),
    Forward(Box<forward::Forwarding>),
    Read(Box<reads::Reading>),
    Scan(Box<scans::Scanning>),
    List(Box<listing::Listing>),
    Exchange(Box<exchange::Exchanging>),
    /// A record that an exchange sends to its peer.
    Give(Ask),
    Hint(hints::Hinting),
    Replicate(streams::Replicating),
    Adopt(Box<adopt::Adopting>),
    Guard(Box<sessions::Guarding>),
    Global(Box<global::Globally>),
    Propose(Box<ballot::Proposing>),
}

#[derive(Debug)]
struct Pending {
    operation: Operation,
    started: Instant,
    deadline: Instant,
}

pub struct Mesh {
    params: Params,
    me: NodeId,
    clock: Clock,
    dots: Dots,
    /// Durable: no stamp at or below it will be given, and everything given up to it is durable here.
    floor: Stamp,
    /// The same before it is durable.
    promised: Stamp,
    topology: Topology,
    routes: Routes,
    /// The topology that was agreed on when the node started.
    handed: Option<Topology>,
    overlay: Overlay,
    /// The last batch handed out, and rows for the next.
    seq: Seq,
    gathering: Batch,
    durable: Seq,
    /// By batch.
    held: VecDeque<(Seq, Then)>,
    asks: u64,
    operations: Docket<Ask, Pending>,
    alarms: Alarms,
    batches: Batches,
    /// Writes that other nodes forwarded to this node recently.
    forwarded: BTreeMap<NodeId, forward::ForwardedNames>,
    /// Requests of which this node knows several attempts and has not all of them yet, by key.
    repeated: BTreeMap<Key, BTreeSet<u64>>,
    peers: Peers,
    hints: Hints,
    shards: Shards,
    ballots: Ballots,
    exchanges: Exchanges,
    wakening: Wakening,
    witnesses: Witnesses,
    far_stamps: FarStamps,
    purge_bound: Stamp,
    abroad: Abroad,
    handlers: Handlers,
    /// When a flush was last due.
    flushed_at: Option<Instant>,
    /// With the end of this turn.
    flush_due: bool,
    /// Bytes of rows that went to the log and to no flush yet.
    unflushed_bytes: u64,
    rooming: Rooming,
}

impl Mesh {
    /// A node on its rows; `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(params: Params, topology: Topology, rows: &dyn Rows, replayed: Vec<Vec<Row>>) -> Mesh {
        let mut overlay = Overlay::new(u64::from(params.actor.incarnation) << 32 ^ params.boot);
        replayed.into_iter().flatten().for_each(|row| overlay.put(row, Seq(0)));
        let identity = overlay.get(rows, rows::IDENTITY).0.and_then(Identity::decode);
        let identity = identity.filter(|identity| identity.incarnation == params.actor.incarnation);
        let (dots, floor) = identity.map_or((0, Stamp::ZERO), |identity| (identity.dots, identity.floor));
        // The node starts with the topology that it followed last; a newer one comes by the usual ways.
        let kept = overlay.get(rows, rows::TOPOLOGY).0.and_then(Topology::decode);
        let handed = Some(topology.clone());
        let topology = kept.unwrap_or(topology);
        let me = params.actor.node;
        let shards = Shards::load(&topology, &overlay, rows);
        let ballots = Ballots::load(&topology, &overlay, rows);
        let abroad = Abroad::load(params.actor, &overlay, rows);
        Mesh {
            me,
            clock: Clock::new(floor, params.drift_max),
            dots: Dots::resume(dots),
            floor,
            promised: floor,
            routes: Routes::of(&topology),
            hints: Hints::of(&topology, me),
            wakening: Wakening::new(params.guest, params.wiped),
            witnesses: Witnesses::default(),
            far_stamps: FarStamps::default(),
            handed,
            topology,
            overlay,
            seq: Seq(0),
            gathering: Batch::default(),
            durable: Seq(0),
            held: VecDeque::new(),
            asks: params.boot << 40,
            operations: Docket::default(),
            alarms: Alarms::default(),
            batches: Batches::default(),
            forwarded: BTreeMap::new(),
            repeated: BTreeMap::new(),
            peers: Peers::default(),
            shards,
            ballots,
            exchanges: Exchanges::default(),
            purge_bound: Stamp::MAX,
            abroad,
            handlers: Handlers::default(),
            flushed_at: None,
            flush_due: false,
            unflushed_bytes: 0,
            rooming: Rooming::default(),
            params,
        }
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn step(&mut self, now: Now, input: Input, rows: &dyn Rows, out: &mut Output) {
        let t = &mut Turn { now, rows, out };
        match input {
            Input::Tick => self.step_tick(t),
            Input::Received { from, envelope } => self.step_received(t, from, envelope),
            Input::Request { token, deadline, request } => self.step_request(t, token, deadline, request),
            Input::Persisted(seq) => self.step_persisted(t, seq),
            Input::Flushed(number) => {
                t.out.spent = self.overlay.flushed(number);
                self.rooming.flushing = UnderWay::default();
            }
            Input::Room(room) => self.step_room(t, room),
            Input::Topology(topology) => self.step_topology(t, topology),
            Input::Enrolled { wiped } => self.step_enrolled(wiped),
            Input::Lost(peer) => {
                self.peers.silent(peer, now.at);
                self.lose_entries(t, peer);
            }
            Input::PurgeBound(stamp) => self.purge_bound = stamp,
            Input::Regions(regions) => self.step_regions(t, regions),
            Input::Handlers(handlers) => self.step_handlers(handlers),
            Input::Abroad { .. } if self.wakening.is_guest() => {}
            Input::Abroad { region, from, envelope } => self.step_abroad(t, region, from, envelope),
        }
    }

    /// Ends a turn: rows gathered in it become one batch. A flush is cut here, so that it holds whole batches and its
    /// bound is the last of them: what comes later is not in it, and must stay in the log.
    pub fn collect(&mut self, out: &mut Output) {
        self.write_log_head();
        if !self.gathering.is_empty() {
            self.seq = self.next_seq();
            out.persist = Some(Persist { seq: self.seq, batch: self.gathering.take() });
        }
        let worth_while = self.overlay.bytes() > 0 || self.is_settling();
        if std::mem::take(&mut self.flush_due) && worth_while && !self.overlay.is_flushing() {
            out.flush = Some(self.overlay.freeze(self.seq));
            self.note_flush();
        }
    }

    fn step_tick(&mut self, t: &mut Turn<'_>) {
        if self.wakening.is_guest() {
            return self.ring_alarms(t);
        }
        if let Some(handed) = self.handed.take() {
            self.put_row(Bytes::from_static(rows::TOPOLOGY), Some(self.topology.encode()));
            self.step_topology(t, handed);
            let lost = self.all_shards().filter(|shard| !self.keeps(*shard)).collect();
            self.plan_exchanges(false, lost);
        }
        self.reserve(t);
        self.ring_alarms(t);
        self.step_waking(t);
        self.step_hints(t);
        self.step_shards(t);
        self.step_exchanges(t);
        self.step_purge(t);
        self.step_streams(t);
        self.step_pulses(t);
        let full = self.overlay.bytes() > FLUSH_BYTES || self.unflushed_bytes > MESH_FLUSH_LOG_BYTES;
        let is_time = self.flushed_at.is_none_or(|at| t.now.at >= at.after(self.flush_every()));
        if is_time || full || self.is_crowded() {
            self.flushed_at = Some(t.now.at);
            self.flush_due = true;
        }
    }

    fn step_request(&mut self, t: &mut Turn<'_>, token: Token, deadline: Instant, request: Request) {
        let busy = self.operations.len() >= MESH_OPERATIONS_MAX;
        if busy || self.overlay.bytes() > MESH_OVERLAY_BYTES_MAX {
            return t.out.replies.push((token, Reply::Refused(Code::TooManyRequests)));
        }
        match request {
            Request::Write(write) => self.start_write(t, Client::Here(token), write, deadline),
            Request::Read { key, r } => self.start_read(t, Client::Here(token), key, r, deadline),
            Request::Query(query) => self.start_query(t, token, *query, deadline),
            Request::Get(get) => self.start_get(t, token, *get, deadline),
            Request::Batch(writes) => self.start_batch(t, token, writes, deadline),
            Request::Scan(scan) => self.start_scan(t, token, scan, deadline),
            Request::Conflicts { after, limit } => self.start_listing(t, token, after, limit, deadline),
        }
    }

    fn step_received(&mut self, t: &mut Turn<'_>, from: NodeId, envelope: Envelope) {
        self.peers.heard(from);
        let Envelope { epoch, frame } = envelope;
        if epoch > self.topology.epoch && !matches!(frame, Frame::Topology(_)) {
            self.send(t, from, Frame::Which);
            // A node with an older epoch may have been given up by the others, so it must not serve these.
            match frame {
                Frame::Fetch { ask, .. }
                | Frame::FetchFor { ask, .. }
                | Frame::Collect { ask, .. }
                | Frame::Select { ask, .. }
                | Frame::Prepare { ask, .. }
                | Frame::Accept { ask, .. }
                | Frame::Forward { ask, .. } => {
                    return self.send(t, from, Frame::Declined { ask });
                }
                Frame::Welcome => return,
                _ => {}
            }
        }
        if epoch < self.topology.epoch
            && let Some(ask) = frame.question()
        {
            self.send(t, from, Frame::Topology(self.topology.encode()));
            return self.send(t, from, Frame::Declined { ask });
        }
        if self.wakening.is_guest() && !frame.is_for_a_guest() {
            return frame.question().into_iter().for_each(|ask| self.send(t, from, Frame::Declined { ask }));
        }
        match self.without_far_stamps(t, from, frame) {
            Frame::Forward { ask, begun, write } => self.step_forward(t, from, ask, begun, write),
            Frame::Behind { ask, stamp, check } => self.step_behind(t, from, ask, stamp, check),
            Frame::Forwarded { ask, reply, reached } => self.step_forwarded(t, from, ask, *reply, reached),
            Frame::Store { ask, key, record, why } => self.step_store(t, from, ask, key, record, why),
            Frame::Keep { ask, target, key, record } => self.step_keep(t, from, ask, target, key, record),
            Frame::Stored { ask, outcome } => self.step_stored(t, from, ask, outcome),
            Frame::Fetch { ask, key } => self.step_fetch(t, from, ask, key),
            Frame::FetchFor { ask, key, request } => self.step_fetch_for(t, from, ask, key, request),
            Frame::FetchedFor { ask, record, attempts } => {
                self.step_fetched_for(t, from, ask, record, attempts);
            }
            Frame::Fetched { ask, record, marks } => self.step_fetched(t, from, ask, record, marks),
            Frame::Collect { ask, space, start, end, limit } => {
                self.step_collect(t, from, ask, scans::Wanted { space, start, end, limit });
            }
            Frame::Select { ask, query } => self.step_select(t, from, ask, &query),
            Frame::Collected { ask, records, upto } => self.step_collected(t, from, ask, records, upto),
            Frame::List { ask, after, limit } => self.step_list(t, from, ask, after.as_ref(), limit),
            Frame::Listed { ask, conflicts, more } => self.step_listed(t, from, ask, conflicts, more),
            Frame::Declined { ask } => self.step_declined(t, from, ask),
            Frame::NoRoom { ask } => self.deny_write(t, from, ask),
            Frame::Which => self.send(t, from, Frame::Topology(self.topology.encode())),
            Frame::Topology(bytes) => {
                if let Some(topology) = Topology::decode(bytes) {
                    self.step_told_topology(t, from, topology);
                }
            }
            Frame::Hello => self.send(t, from, Frame::Welcome),
            Frame::Welcome => self.step_welcome(t, from),
            Frame::Compare { ask, shard, root, known } => {
                self.step_compare(t, from, ask, exchange::Side { shard, root, known });
            }
            Frame::Leaves { ask, leaves, known, marks } => {
                self.step_leaves(t, from, exchange::Opening { ask, epoch, leaves, known, marks });
            }
            Frame::Page(page) => self.step_page(t, from, *page),
            Frame::Answer(answer) => self.step_answer(t, from, *answer),
            Frame::Settled { shard, known, marks } => self.step_settled(t, from, shard, known, marks),
            Frame::Prepare { ask, key, round, request } => {
                self.step_prepare(t, from, ask, &key, round, request);
            }
            Frame::Accept { ask, key, record, notes } => {
                self.step_accept(t, from, ask, &key, record, &notes);
            }
            frame @ (Frame::Promised { .. } | Frame::Accepted { .. }) => {
                self.step_ballot_answer(t, from, frame);
            }
            // Frames between regions only.
            Frame::Replicate { .. } | Frame::Seek { .. } | Frame::Sought { .. } | Frame::Pulse(_) => {}
        }
    }

    fn step_persisted(&mut self, t: &mut Turn<'_>, seq: Seq) {
        self.durable = self.durable.max(seq);
        while let Some((_, then)) = self.held.pop_front_if(|(seq, _)| *seq <= self.durable) {
            self.perform(t, then);
        }
        self.pump_all(t);
    }

    fn perform(&mut self, t: &mut Turn<'_>, then: Then) {
        match then {
            Then::Send(to, frame) => self.send(t, to, frame),
            Then::Stored(ask, outcome) => self.step_stored(t, self.me, ask, outcome),
            Then::Spread(ask) => self.spread(t, ask),
            Then::Show(ask) => self.fetch_here(t, ask),
            Then::Repair(ask) => self.repair(t, ask),
            Then::RepairRegions(ask) => self.repair_regions(t, ask),
            Then::Exchanged(ask) => self.step_exchanged(t, ask),
            Then::Settled(shard, known, marks) => self.settle(shard, &known, &marks),
            Then::SettledAbroad(region, shard, marks) => self.settle_abroad(region, shard, &marks),
            Then::Logged(seq) => self.abroad.durable = self.abroad.durable.max(seq),
            Then::Identity { dots, floor } => {
                self.dots.reserved(dots);
                self.floor = floor;
            }
            Then::Report(report) => t.out.reports.push(report),
            Then::Heard(frame) => self.step_ballot_answer(t, self.me, frame),
            Then::Propose(ask, record, ballot) => self.propose_joined(t, ask, record, ballot),
        }
    }

    /// Performs an effect once a batch is durable, which may be now.
    fn after(&mut self, t: &mut Turn<'_>, seq: Seq, then: Then) {
        if seq <= self.durable {
            return self.perform(t, then);
        }
        let at = self.held.partition_point(|(other, _)| *other <= seq);
        self.held.insert(at, (seq, then));
    }

    /// The batch that rows written now belong to.
    fn next_seq(&self) -> Seq {
        Seq(self.seq.0 + 1)
    }

    /// The batch with which everything written so far is durable.
    fn horizon(&self) -> Seq {
        if self.gathering.is_empty() { self.seq } else { self.next_seq() }
    }

    fn put_row(&mut self, key: Bytes, value: Option<Bytes>) {
        self.unflushed_bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
        self.gathering.put(&key, value.as_deref());
        self.overlay.put(Row { key, value }, self.next_seq());
    }

    fn send(&mut self, t: &mut Turn<'_>, to: NodeId, frame: Frame) {
        let envelope = Envelope { epoch: self.topology.epoch, frame };
        match self.abroad.home(to) {
            Some(region) => t.out.abroad.push((Destination::Node { region, node: to }, envelope)),
            None => t.out.send.push((to, envelope)),
        }
    }

    fn reply(&mut self, t: &mut Turn<'_>, client: Client, reply: Reply) {
        match client {
            Client::Here(token) => {
                let reply = self.present(t, reply);
                t.out.replies.push((token, reply));
            }
            Client::Peer(node, ask) => {
                let reached = match &reply {
                    Reply::Written(record) => self.abroad.reached(record.header.dot),
                    _ => Vec::new(),
                };
                self.send(t, node, Frame::Forwarded { ask, reply: Box::new(reply), reached });
            }
            Client::Part(batch, idx) => {
                let reply = self.present(t, reply);
                if let Some((token, replies)) = self.batches.finish(batch, idx, reply) {
                    t.out.replies.push((token, Reply::Batch(replies)));
                }
            }
            Client::Guard(ask) => self.guarded(t, ask, reply),
            Client::Region(ask) => self.global_here(t, ask, reply),
            Client::Abroad(node, ask) => {
                let frame = match reply {
                    Reply::Found(record) => {
                        Frame::Sought { ask, record: record.map(|record| record.encode()) }
                    }
                    _ => Frame::Declined { ask },
                };
                self.send(t, node, frame);
            }
        }
    }

    fn begin(&mut self, t: &Turn<'_>, operation: Operation, deadline: Instant) -> Ask {
        self.asks += 1;
        let ask = Ask(self.asks);
        self.operations.insert(ask, Pending { operation, started: t.now.at, deadline });
        self.alarms.set(deadline, ask);
        if self.alarms.are_mostly_spent(self.operations.len()) {
            self.alarms.keep(|ask| self.operations.contains(&ask));
        }
        ask
    }

    fn finish(&mut self, ask: Ask) -> Option<Pending> {
        self.operations.remove(&ask)
    }

    /// Records how long a peer took to answer an operation.
    fn time(&mut self, t: &Turn<'_>, from: NodeId, ask: Ask) {
        if let Some(pending) = self.operations.get(&ask)
            && from != self.me
        {
            self.peers.answered(from, t.now.at.since(pending.started));
        }
    }

    fn ring_alarms(&mut self, t: &mut Turn<'_>) {
        while let Some(ask) = self.alarms.ring(t.now.at) {
            match self.operations.get(&ask) {
                Some(pending) if pending.deadline <= t.now.at => self.expire(t, ask),
                Some(Pending { operation: Operation::Read(_), .. }) => self.hedge(t, ask),
                Some(Pending { operation: Operation::Guard(_), .. }) => self.nudge(t, ask),
                Some(Pending { operation: Operation::Forward(_), .. }) => self.look_after_forward(t, ask),
                Some(Pending { operation: Operation::Write(_), .. }) => self.ask_again(t, ask),
                Some(Pending { operation: Operation::Propose(_), .. }) => self.ring_proposing(t, ask),
                _ => {}
            }
        }
    }

    fn expire(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(pending) = self.finish(ask) else { return };
        match pending.operation {
            Operation::Write(writing) => self.expire_write(t, *writing),
            Operation::Forward(forwarding) => self.expire_forward(t, *forwarding),
            Operation::Read(reading) => self.expire_read(t, *reading),
            Operation::Scan(scanning) => self.expire_scan(t, *scanning),
            Operation::List(listing) => self.expire_listing(t, *listing),
            Operation::Exchange(exchanging) => self.expire_exchange(t, *exchanging),
            Operation::Give(exchange) => self.expire(t, exchange),
            Operation::Hint(hinting) => self.expire_hint(t, hinting),
            Operation::Replicate(replicating) => self.expire_replicate(t, replicating),
            Operation::Adopt(adopting) => self.expire_adopt(t, *adopting),
            Operation::Guard(guarding) => self.expire_guard(t, ask, *guarding),
            Operation::Global(globally) => self.expire_global(t, *globally),
            Operation::Propose(proposing) => self.expire_proposing(t, ask, *proposing),
        }
    }

    fn step_declined(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        match self.operations.get(&ask).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.decline_write(t, from, ask),
            Some(Operation::Read(_)) => self.decline_read(t, from, ask),
            Some(Operation::Forward(_)) => self.decline_forward(t, from, ask),
            Some(Operation::Scan(_)) => self.decline_scan(t, from, ask),
            Some(Operation::List(_)) => self.decline_listing(t, from, ask),
            Some(Operation::Exchange(_) | Operation::Give(_)) => self.expire(t, ask),
            Some(Operation::Hint(_)) => self.decline_hint(t, ask),
            Some(Operation::Replicate(_)) => self.decline_replicate(t, ask),
            Some(Operation::Guard(_)) => self.decline_guard(t, from, ask),
            Some(Operation::Propose(_)) => self.decline_proposing(t, ask),
            // Others may answer yet.
            Some(Operation::Adopt(_) | Operation::Global(_)) | None => {}
        }
    }

    /// A node has stored an operation's record, or refused it.
    fn step_stored(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, outcome: Outcome) {
        self.time(t, from, ask);
        match self.operations.get(&ask).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.write_stored(t, from, ask, outcome),
            Some(Operation::Read(_)) => self.read_stored(t, from, ask),
            Some(Operation::Give(_)) => self.exchange_stored(t, ask),
            Some(Operation::Hint(_)) => self.hint_stored(t, ask),
            Some(Operation::Replicate(_)) => self.replicate_stored(t, ask, outcome),
            Some(Operation::Adopt(_)) => self.adopt_stored(t, from, ask, outcome),
            Some(Operation::Global(_)) => {
                if let Some(region) = self.abroad.home(from) {
                    self.global_stored(t, region, ask);
                }
            }
            _ => {}
        }
    }
}
