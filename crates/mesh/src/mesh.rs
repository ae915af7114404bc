//! One node of the mesh: replica, coordinator and repair in one state machine.
//! `step` takes requests, frames, ticks and completions; `collect` ends a turn and returns what follows. Invariant: nothing
//! that vouches for durable rows leaves before the rows are durable. The machine holds such effects by the batch that they
//! wait for; the caller need not.

mod apply_remote;
mod ballot;
mod bundle;
mod claims;
mod custom;
mod exchange;
mod far_stamps;
mod forward;
mod full_disk;
mod global;
mod hints;
mod identity;
mod io;
mod listing;
mod membership;
mod purge;
mod queries;
mod reads;
mod remote_regions;
mod replica;
mod row_pages;
mod scans;
mod sessions;
mod shards;
pub mod status;
mod streams;
#[cfg(test)]
mod tests;
mod timers;
mod witness;
mod writes;

pub use io::{Destination, Input, MeshEvent, Now, Output, Params, Persist};
pub use remote_regions::RegionState;

use crate::actor::RegionId;
use crate::ballot::Ballot;
use crate::disk_space::PendingWrites;
use crate::dots::DotAllocator;
use crate::frame::{Envelope, Frame, OpId, Shard, StampVector, StoreOutcome};
use crate::handler::Handlers;
use crate::hlc::{HybridClock, Stamp};
use crate::key::Key;
use crate::moves::MoveReport;
use crate::overlay::{Overlay, Seq};
use crate::peers::PeerHealth;
use crate::record::Record;
use crate::request::{Reply, Request};
use crate::rows::{self, Batch, Row, Rows};
use crate::topology::Topology;
use crate::watermarks::Watermarks;
use ballot::Ballots;
use base::limits::{MESH_FLUSH_LOG_BYTES, MESH_OPERATIONS_MAX, MESH_OVERLAY_BYTES_MAX};
use base::{Code, IdMap, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use exchange::Exchanges;
use far_stamps::FarStamps;
use full_disk::SpaceState;
use hints::Hints;
use identity::Identity;
use membership::{Readiness, Routes};
use remote_regions::RemoteRegions;
use scans::Batches;
use shards::Shards;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use timers::Timers;
use witness::TopologyWitnesses;

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
    Local(ReplyToken),
    /// A node that forwarded the write.
    Peer(NodeId, OpId),
    /// One write of a batch: the batch, and the index in it.
    BatchPart(u64, usize),
    /// A session read: it must not return less than its session has seen.
    SessionRead(OpId),
    /// A read over several regions: this region's part.
    GlobalRead(OpId),
    /// A node of another region.
    RemoteNode(NodeId, OpId),
}

/// An effect that is held until a batch is durable.
#[derive(Debug)]
enum Then {
    Send(NodeId, Frame),
    /// This node has stored the operation's record.
    Stored(OpId, StoreOutcome),
    /// The operation's record may be sent to the other replicas.
    SendToReplicas(OpId),
    /// A read may use this node's own record.
    FetchLocal(OpId),
    /// The merged record of a read may be sent to replicas that lack it.
    Repair(OpId),
    RepairRegions(OpId),
    /// All records of an exchange are durable.
    Exchanged(OpId),
    /// What a peer vouched for is durable here too.
    Synced(Shard, StampVector, Watermarks),
    SyncedWithRegion(RegionId, Shard, Watermarks),
    /// An entry of the replication log may be sent.
    Logged(u64),
    Identity {
        dots: u64,
        floor: Stamp,
    },
    MoveReport(MoveReport),
    /// This node's answer to its own ballot.
    BallotAnswer(Frame),
    /// The base of a proposal, once the conflicts found in merging it are durable.
    Propose(OpId, Option<Box<Record>>, Ballot),
}

#[derive(Debug)]
enum Operation {
    Write(Box<writes::WriteOp>),
    Forward(Box<forward::ForwardOp>),
    Read(Box<reads::ReadOp>),
    Scan(Box<scans::ScanOp>),
    List(Box<listing::ListOp>),
    Exchange(Box<exchange::ExchangeOp>),
    /// A record that an exchange sends to its peer.
    GiveRecord(OpId),
    Hint(hints::HintOp),
    SendToRegion(streams::RegionSendOp),
    ApplyRemote(Box<apply_remote::ApplyRemoteOp>),
    SessionRead(Box<sessions::SessionReadOp>),
    GlobalRead(Box<global::GlobalReadOp>),
    Propose(Box<ballot::ProposeOp>),
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
    clock: HybridClock,
    dots: DotAllocator,
    /// Durable: no stamp at or below it will be given, and everything given up to it is durable here.
    floor: Stamp,
    /// The same before it is durable.
    promised: Stamp,
    topology: Topology,
    routes: Routes,
    /// The topology that was agreed on when the node started.
    agreed_topology: Option<Topology>,
    overlay: Overlay,
    /// The last batch handed out, and rows for the next.
    seq: Seq,
    next_batch: Batch,
    durable: Seq,
    /// By batch.
    held: VecDeque<(Seq, Then)>,
    last_id: u64,
    operations: IdMap<OpId, Pending>,
    timers: Timers,
    batches: Batches,
    /// Writes that other nodes forwarded to this node recently.
    forwarded: BTreeMap<NodeId, forward::ForwardedNames>,
    /// Requests of which this node knows several attempts and has not all of them yet, by key.
    repeated: BTreeMap<Key, BTreeSet<u64>>,
    peers: PeerHealth,
    hints: Hints,
    shards: Shards,
    ballots: Ballots,
    exchanges: Exchanges,
    readiness: Readiness,
    witnesses: TopologyWitnesses,
    far_stamps: FarStamps,
    purge_bound: Stamp,
    remote: RemoteRegions,
    handlers: Handlers,
    /// When a flush was last due.
    flushed_at: Option<Instant>,
    /// With the end of this turn.
    flush_due: bool,
    /// Bytes of rows that went to the log and to no flush yet.
    unflushed_bytes: u64,
    space_state: SpaceState,
}

impl Mesh {
    /// A node on its rows; `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(params: Params, topology: Topology, rows: &dyn Rows, replayed: Vec<Vec<Row>>) -> Mesh {
        let mut overlay = Overlay::new(u64::from(params.actor.incarnation) << 32 ^ params.boot);
        replayed.into_iter().flatten().for_each(|row| overlay.put(row, Seq(0)));
        let identity = overlay.get(rows, rows::IDENTITY).0.and_then(Identity::decode);
        let is_own = |identity: &Identity| identity.incarnation == params.actor.incarnation;
        let is_another_life = identity.as_ref().is_some_and(|identity| !is_own(identity));
        let identity = identity.filter(is_own);
        let (dots, floor) = identity.map_or((0, Stamp::ZERO), |identity| (identity.dots, identity.floor));
        // The node starts with the topology that it followed last; a newer one comes by the usual ways.
        let kept = overlay.get(rows, rows::TOPOLOGY).0.and_then(Topology::decode);
        let agreed_topology = Some(topology.clone());
        let topology = kept.unwrap_or(topology);
        let me = params.actor.node;
        let shards = Shards::load(&topology, &overlay, rows);
        let ballots = Ballots::load(&topology, &overlay, rows);
        let remote = RemoteRegions::load(params.actor, !is_another_life, &overlay, rows);
        let mut mesh = Mesh {
            me,
            clock: HybridClock::new(floor, params.drift_max),
            dots: DotAllocator::resume(dots),
            floor,
            promised: floor,
            routes: Routes::of(&topology),
            hints: Hints::of(&topology, me),
            readiness: Readiness::new(params.unenrolled, params.wiped),
            witnesses: TopologyWitnesses::default(),
            far_stamps: FarStamps::default(),
            agreed_topology,
            topology,
            overlay,
            seq: Seq(0),
            next_batch: Batch::default(),
            durable: Seq(0),
            held: VecDeque::new(),
            last_id: params.boot << 40,
            operations: IdMap::default(),
            timers: Timers::default(),
            batches: Batches::default(),
            forwarded: BTreeMap::new(),
            repeated: BTreeMap::new(),
            peers: PeerHealth::default(),
            shards,
            ballots,
            exchanges: Exchanges::default(),
            purge_bound: Stamp::MAX,
            remote,
            handlers: Handlers::default(),
            flushed_at: None,
            flush_due: false,
            unflushed_bytes: 0,
            space_state: SpaceState::default(),
            params,
        };
        if is_another_life {
            mesh.forget_log(rows);
        }
        mesh
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
                self.space_state.flushing = PendingWrites::default();
            }
            Input::DiskSpace(disk_space) => self.step_disk_space(t, disk_space),
            Input::Topology(topology) => self.step_topology(t, topology),
            Input::Enrolled { wiped } => self.step_enrolled(wiped),
            Input::Lost(peer) => {
                self.peers.mark_unanswered(peer, now.at);
                self.resend_entries_of(t, peer);
            }
            Input::PurgeBound(stamp) => self.purge_bound = stamp,
            Input::Regions(regions) => self.step_regions(t, regions),
            Input::Handlers(handlers) => self.step_handlers(handlers),
            Input::RemoteFrame { .. } if self.readiness.is_unenrolled() => {}
            Input::RemoteFrame { region, from, envelope } => self.step_remote(t, region, from, envelope),
        }
    }

    /// Ends a turn: rows gathered in it become one batch. A flush is cut here, so that it holds whole batches and its
    /// bound is the last of them: what comes later is not in it, and must stay in the log.
    pub fn collect(&mut self, out: &mut Output) {
        self.write_log_head();
        if !self.next_batch.is_empty() {
            self.seq = self.next_seq();
            out.persist = Some(Persist { seq: self.seq, batch: self.next_batch.take() });
        }
        let worth_while = self.overlay.bytes() > 0 || self.is_settling();
        if std::mem::take(&mut self.flush_due) && worth_while && !self.overlay.is_flushing() {
            out.flush = Some(self.overlay.freeze(self.seq));
            self.note_flush();
        }
    }

    fn step_tick(&mut self, t: &mut Turn<'_>) {
        if self.readiness.is_unenrolled() {
            return self.fire_timers(t);
        }
        if let Some(agreed_topology) = self.agreed_topology.take() {
            self.put_row(Bytes::from_static(rows::TOPOLOGY), Some(self.topology.encode()));
            self.step_topology(t, agreed_topology);
            let lost = self.all_shards().filter(|shard| !self.keeps(*shard)).collect();
            self.plan_exchanges(false, lost);
        }
        self.reserve_dots(t);
        self.fire_timers(t);
        self.step_startup(t);
        self.step_hints(t);
        self.step_shards(t);
        self.step_exchanges(t);
        self.step_purge(t);
        self.step_streams(t);
        self.step_heartbeats(t);
        let full = self.overlay.bytes() > FLUSH_BYTES || self.unflushed_bytes > MESH_FLUSH_LOG_BYTES;
        let is_time = self.flushed_at.is_none_or(|at| t.now.at >= at.after(self.flush_every()));
        if is_time || full || self.is_crowded() {
            self.flushed_at = Some(t.now.at);
            self.flush_due = true;
        }
    }

    fn step_request(&mut self, t: &mut Turn<'_>, token: ReplyToken, deadline: Instant, request: Request) {
        let busy = self.operations.len() >= MESH_OPERATIONS_MAX;
        if busy || self.overlay.bytes() > MESH_OVERLAY_BYTES_MAX {
            return t.out.replies.push((token, Reply::Refused(Code::TooManyRequests)));
        }
        match request {
            Request::Write(write) => self.start_write(t, Client::Local(token), write, deadline),
            Request::Read { key, r } => self.start_read(t, Client::Local(token), key, r, deadline),
            Request::Query(query) => self.start_query(t, token, *query, deadline),
            Request::Get(get) => self.start_get(t, token, *get, deadline),
            Request::Batch(writes) => self.start_batch(t, token, writes, deadline),
            Request::Scan(scan) => self.start_scan(t, token, scan, deadline),
            Request::Conflicts { after, limit } => self.start_listing(t, token, after, limit, deadline),
            Request::Rows { from } => self.answer_rows(t, token, &from),
        }
    }

    fn step_received(&mut self, t: &mut Turn<'_>, from: NodeId, envelope: Envelope) {
        self.peers.mark_alive(from);
        let Envelope { epoch, frame } = envelope;
        if epoch > self.topology.epoch && !matches!(frame, Frame::Topology(_)) {
            self.send(t, from, Frame::AskTopology);
            // A node with an older epoch may have been given up by the others, so it must not serve these.
            match frame {
                Frame::Fetch { id, .. }
                | Frame::FetchFor { id, .. }
                | Frame::Collect { id, .. }
                | Frame::Select { id, .. }
                | Frame::Prepare { id, .. }
                | Frame::Accept { id, .. }
                | Frame::Forward { id, .. } => {
                    return self.send(t, from, Frame::Declined { id });
                }
                Frame::Welcome => return,
                _ => {}
            }
        }
        if epoch < self.topology.epoch
            && let Some(id) = frame.request_id()
        {
            self.send(t, from, Frame::Topology(self.topology.encode()));
            return self.send(t, from, Frame::Declined { id });
        }
        if self.readiness.is_unenrolled() && !frame.is_for_unenrolled() {
            return frame.request_id().into_iter().for_each(|id| self.send(t, from, Frame::Declined { id }));
        }
        match self.without_far_stamps(t, from, frame) {
            Frame::Forward { id, origin, write } => self.step_forward(t, from, id, origin, write),
            Frame::Behind { id, stamp, check } => self.step_behind(t, from, id, stamp, check),
            Frame::Forwarded { id, reply, reached } => self.step_forwarded(t, from, id, *reply, reached),
            Frame::Store { id, key, record, reason } => self.step_store(t, from, id, key, record, reason),
            Frame::KeepHint { id, target, key, record } => {
                self.step_keep_hint(t, from, id, target, key, record)
            }
            Frame::Stored { id, outcome } => self.step_stored(t, from, id, outcome),
            Frame::Fetch { id, key } => self.step_fetch(t, from, id, key),
            Frame::FetchFor { id, key, request } => self.step_fetch_for(t, from, id, key, request),
            Frame::FetchedFor { id, record, attempts } => {
                self.step_fetched_for(t, from, id, record, attempts);
            }
            Frame::Fetched { id, record, marks } => self.step_fetched(t, from, id, record, marks),
            Frame::Collect { id, namespace_id, start, end, limit } => {
                self.step_collect(t, from, id, scans::ScanRange { namespace_id, start, end, limit });
            }
            Frame::Select { id, query } => self.step_select(t, from, id, &query),
            Frame::Collected { id, records, upto } => self.step_collected(t, from, id, records, upto),
            Frame::List { id, after, limit } => self.step_list(t, from, id, after.as_ref(), limit),
            Frame::Listed { id, conflicts, more } => self.step_listed(t, from, id, conflicts, more),
            Frame::Declined { id } => self.step_declined(t, from, id),
            Frame::NoSpace { id } => self.refuse_write_for_space(t, from, id),
            Frame::AskTopology => self.send(t, from, Frame::Topology(self.topology.encode())),
            Frame::Topology(bytes) => {
                if let Some(topology) = Topology::decode(bytes) {
                    self.step_peer_topology(t, from, topology);
                }
            }
            Frame::Hello => self.send(t, from, Frame::Welcome),
            Frame::Welcome => self.step_welcome(t, from),
            Frame::Compare { id, shard, root, known } => {
                self.step_compare(t, from, id, exchange::CompareRequest { shard, root, known });
            }
            Frame::Leaves { id, leaves, known, marks } => {
                self.step_leaves(t, from, exchange::LeavesReply { id, epoch, leaves, known, marks });
            }
            Frame::Page(page) => self.step_page(t, from, *page),
            Frame::Answer(answer) => self.step_answer(t, from, *answer),
            Frame::Synced { shard, known, marks } => self.step_synced(t, from, shard, known, marks),
            Frame::Prepare { id, key, round, request } => {
                self.step_prepare(t, from, id, &key, round, request);
            }
            Frame::Accept { id, key, record, notes } => {
                self.step_accept(t, from, id, &key, record, &notes);
            }
            frame @ (Frame::Promised { .. } | Frame::Accepted { .. }) => {
                self.step_ballot_answer(t, from, frame);
            }
            // Frames between regions only.
            Frame::Replicate { .. }
            | Frame::RemoteRead { .. }
            | Frame::RemoteReadResult { .. }
            | Frame::Heartbeat(_) => {}
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
            Then::Stored(id, outcome) => self.step_stored(t, self.me, id, outcome),
            Then::SendToReplicas(id) => self.send_to_replicas(t, id),
            Then::FetchLocal(id) => self.fetch_here(t, id),
            Then::Repair(id) => self.repair(t, id),
            Then::RepairRegions(id) => self.repair_regions(t, id),
            Then::Exchanged(id) => self.step_exchanged(t, id),
            Then::Synced(shard, known, marks) => self.record_synced(shard, &known, &marks),
            Then::SyncedWithRegion(region, shard, marks) => self.record_region_synced(region, shard, &marks),
            Then::Logged(seq) => self.remote.durable = self.remote.durable.max(seq),
            Then::Identity { dots, floor } => {
                self.dots.reserved(dots);
                self.floor = floor;
            }
            Then::MoveReport(report) => t.out.reports.push(report),
            Then::BallotAnswer(frame) => self.step_ballot_answer(t, self.me, frame),
            Then::Propose(id, record, ballot) => self.propose_joined(t, id, record, ballot),
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
        if self.next_batch.is_empty() { self.seq } else { self.next_seq() }
    }

    fn put_row(&mut self, key: Bytes, value: Option<Bytes>) {
        self.unflushed_bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
        self.next_batch.put(&key, value.as_deref());
        self.overlay.put(Row { key, value }, self.next_seq());
    }

    fn send(&mut self, t: &mut Turn<'_>, to: NodeId, frame: Frame) {
        let envelope = Envelope { epoch: self.topology.epoch, frame };
        match self.remote.region_of(to) {
            Some(region) => t.out.to_regions.push((Destination::Node { region, node: to }, envelope)),
            None => t.out.send.push((to, envelope)),
        }
    }

    fn reply(&mut self, t: &mut Turn<'_>, client: Client, reply: Reply) {
        match client {
            Client::Local(token) => {
                let reply = self.present(t, reply);
                t.out.replies.push((token, reply));
            }
            Client::Peer(node, id) => {
                let reached = match &reply {
                    Reply::Written(record) => self.remote.reached(record.header.dot),
                    _ => Vec::new(),
                };
                self.send(t, node, Frame::Forwarded { id, reply: Box::new(reply), reached });
            }
            Client::BatchPart(batch, idx) => {
                let reply = self.present(t, reply);
                if let Some((token, replies)) = self.batches.finish(batch, idx, reply) {
                    t.out.replies.push((token, Reply::Batch(replies)));
                }
            }
            Client::SessionRead(id) => self.session_read_done(t, id, reply),
            Client::GlobalRead(id) => self.global_read_local(t, id, reply),
            Client::RemoteNode(node, id) => {
                let frame = match reply {
                    Reply::Found(record) => {
                        Frame::RemoteReadResult { id, record: record.map(|record| record.encode()) }
                    }
                    _ => Frame::Declined { id },
                };
                self.send(t, node, frame);
            }
        }
    }

    fn begin(&mut self, t: &Turn<'_>, operation: Operation, deadline: Instant) -> OpId {
        self.last_id += 1;
        let id = OpId(self.last_id);
        self.operations.insert(id, Pending { operation, started: t.now.at, deadline });
        self.timers.set(deadline, id);
        if self.timers.are_mostly_stale(self.operations.len()) {
            self.timers.retain(|id| self.operations.contains(&id));
        }
        id
    }

    fn finish(&mut self, id: OpId) -> Option<Pending> {
        self.operations.remove(&id)
    }

    /// Records how long a peer took to answer an operation.
    fn record_rtt(&mut self, t: &Turn<'_>, from: NodeId, id: OpId) {
        if let Some(pending) = self.operations.get(&id)
            && from != self.me
        {
            self.peers.record_rtt(from, t.now.at.since(pending.started));
        }
    }

    fn fire_timers(&mut self, t: &mut Turn<'_>) {
        while let Some(id) = self.timers.pop_due(t.now.at) {
            match self.operations.get(&id) {
                Some(pending) if pending.deadline <= t.now.at => self.expire(t, id),
                Some(Pending { operation: Operation::Read(_), .. }) => self.hedge(t, id),
                Some(Pending { operation: Operation::SessionRead(_), .. }) => self.wake_session_read(t, id),
                Some(Pending { operation: Operation::Forward(_), .. }) => self.retry_forward(t, id),
                Some(Pending { operation: Operation::Write(_), .. }) => self.resend_write(t, id),
                Some(Pending { operation: Operation::Propose(_), .. }) => self.retry_proposal(t, id),
                _ => {}
            }
        }
    }

    fn expire(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.finish(id) else { return };
        match pending.operation {
            Operation::Write(writing) => self.expire_write(t, *writing),
            Operation::Forward(forwarding) => self.expire_forward(t, *forwarding),
            Operation::Read(reading) => self.expire_read(t, *reading),
            Operation::Scan(scanning) => self.expire_scan(t, *scanning),
            Operation::List(listing) => self.expire_listing(t, *listing),
            Operation::Exchange(exchanging) => self.expire_exchange(t, *exchanging),
            Operation::GiveRecord(exchange) => self.expire(t, exchange),
            Operation::Hint(hint_op) => self.expire_hint(t, hint_op),
            Operation::SendToRegion(region_send_op) => self.expire_region_send(t, region_send_op),
            Operation::ApplyRemote(apply_remote_op) => self.expire_apply_remote(t, *apply_remote_op),
            Operation::SessionRead(guarding) => self.expire_session_read(t, id, *guarding),
            Operation::GlobalRead(globally) => self.expire_global_read(t, *globally),
            Operation::Propose(proposing) => self.expire_proposing(t, id, *proposing),
        }
    }

    fn step_declined(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        match self.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.decline_write(t, from, id),
            Some(Operation::Read(_)) => self.decline_read(t, from, id),
            Some(Operation::Forward(_)) => self.decline_forward(t, from, id),
            Some(Operation::Scan(_)) => self.decline_scan(t, from, id),
            Some(Operation::List(_)) => self.decline_listing(t, from, id),
            Some(Operation::Exchange(_) | Operation::GiveRecord(_)) => self.expire(t, id),
            Some(Operation::Hint(_)) => self.decline_hint(t, id),
            Some(Operation::SendToRegion(_)) => self.decline_region_send(t, id),
            Some(Operation::SessionRead(_)) => self.decline_session_read(t, from, id),
            Some(Operation::Propose(_)) => self.decline_proposing(t, id),
            // Others may answer yet.
            Some(Operation::ApplyRemote(_) | Operation::GlobalRead(_)) | None => {}
        }
    }

    /// A node has stored an operation's record, or refused it.
    fn step_stored(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, outcome: StoreOutcome) {
        self.record_rtt(t, from, id);
        match self.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.write_stored(t, from, id, outcome),
            Some(Operation::Read(_)) => self.read_stored(t, from, id),
            Some(Operation::GiveRecord(_)) => self.exchange_stored(t, id),
            Some(Operation::Hint(_)) => self.hint_stored(t, id),
            Some(Operation::SendToRegion(_)) => self.region_send_stored(t, id, outcome),
            Some(Operation::ApplyRemote(_)) => self.remote_apply_stored(t, from, id, outcome),
            Some(Operation::GlobalRead(_)) => {
                if let Some(region) = self.remote.region_of(from) {
                    self.global_read_stored(t, region, id);
                }
            }
            _ => {}
        }
    }
}
