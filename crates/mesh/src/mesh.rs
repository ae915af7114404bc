//! One node of the mesh as a state machine of five parts: `membership` (who keeps what and who answers), `replica` (what this
//! node keeps), `coordinator` (operations under way), `repair` (exchanges and hints) and `remote` (the other regions).
//! `step` takes requests, frames, ticks and completions; `collect` ends a turn and returns what follows. This file dispatches.
//! What touches one part is a method of that part; what crosses them is a method of `Mesh` in the file of its operation.
//! Invariant: nothing that vouches for durable rows leaves before the rows are durable. The machine holds such effects by the
//! batch that they wait for; the caller need not.

mod coordinator;
mod feed;
mod io;
mod membership;
mod remote_regions;
mod repair;
mod replica;
mod row_pages;
mod status;
#[cfg(test)]
mod tests;

pub use io::{Destination, Input, MeshEvent, Now, Output, Params, Persist};
pub(crate) use membership::routes::Routes;
pub use remote_regions::RegionState;
pub use status::MachineStatus;

use crate::call::ListConflicts;
use crate::frame::{Envelope, Frame, OpId, StoreOutcome};
use crate::overlay::Seq;
use crate::query::ScanRange;
use crate::request::{Reply, Request};
use crate::rows::{self, Row, Rows};
use crate::topology::Topology;
use base::limits::{MESH_OPERATIONS_MAX, MESH_OVERLAY_BYTES_MAX};
use base::{Code, Instant, NodeId, ReplyToken};
use bytes::Bytes;
use coordinator::{Client, Coordinator, Operation, Pending};
use feed::FeedCaller;
use membership::Membership;
use remote_regions::RemoteRegions;
use repair::Repair;
use repair::exchange::{CompareRequest, LeavesReply};
use repair::hints::Hints;
use replica::storage::{Storage, Then};
use replica::{Replica, is_of_another_incarnation};

/// The context of a step: the clocks, the stored rows, and the output of the turn.
struct Turn<'a> {
    now: Now,
    rows: &'a dyn Rows,
    out: &'a mut Output,
}

pub struct Mesh {
    params: Params,
    membership: Membership,
    replica: Replica,
    coordinator: Coordinator,
    repair: Repair,
    remote: RemoteRegions,
}

impl Mesh {
    /// A node on its rows; `replayed` are the batches of the log that the store may lack, in order.
    pub fn new(params: Params, topology: Topology, rows: &dyn Rows, replayed: Vec<Vec<Row>>) -> Mesh {
        let storage = Storage::new(u64::from(params.actor.incarnation) << 32 ^ params.boot, replayed);
        let is_another = is_of_another_incarnation(params.actor, &storage, rows);
        let followed = storage.get(rows, rows::TOPOLOGY).0.and_then(Topology::decode);
        let membership = Membership::new(&params, followed, topology);
        let remote = RemoteRegions::load(params.actor, !is_another, &storage, rows);
        let mut mesh = Mesh {
            replica: Replica::open(&params, &membership.topology, storage, rows),
            coordinator: Coordinator::new(params.actor.incarnation, params.boot),
            repair: Repair::new(Hints::of(&membership.topology, membership.me)),
            membership,
            remote,
            params,
        };
        if is_another {
            mesh.forget_log(rows);
        }
        mesh
    }

    pub fn topology(&self) -> &Topology {
        &self.membership.topology
    }

    pub fn step(&mut self, now: Now, input: Input, rows: &dyn Rows, out: &mut Output) {
        let t = &mut Turn { now, rows, out };
        match input {
            Input::Tick => self.step_tick(t),
            Input::Received { from, envelope } => self.step_received(t, from, envelope),
            Input::Request { token, deadline, request } => self.step_request(t, token, deadline, request),
            Input::Persisted(seq) => self.step_persisted(t, seq),
            Input::Flushed(number) => self.replica.step_flushed(t, number),
            Input::DiskSpace(disk_space) => self.replica.step_disk_space(t, disk_space),
            Input::Topology(topology) => self.step_topology(t, topology),
            Input::Enrolled { wiped } => self.step_enrolled(wiped),
            Input::Lost(peer) => {
                self.membership.peers.mark_lost(peer, now.at);
                self.resend_entries_of(t, peer);
                self.end_feeds_of(t, peer);
                self.pass_over_lost(t, peer);
            }
            Input::PurgeBound(stamp) => self.repair.purge_bound = stamp,
            Input::Regions(regions) => self.step_regions(t, regions),
            Input::Handlers(handlers) => self.coordinator.step_handlers(handlers),
            Input::RemoteFrame { .. } if self.membership.readiness.is_unenrolled() => {}
            Input::RemoteFrame { region, from, envelope } => self.step_remote(t, region, from, envelope),
        }
        self.step_bounded(t);
    }

    /// Ends a turn: what was put in it becomes a batch, and maybe a flush.
    pub fn collect(&mut self, out: &mut Output) {
        self.write_log_head();
        self.replica.collect(out);
    }

    fn step_tick(&mut self, t: &mut Turn<'_>) {
        if self.membership.readiness.is_unenrolled() {
            return self.fire_timers(t);
        }
        if let Some(agreed_topology) = self.membership.agreed_topology.take() {
            self.replica
                .storage
                .put_row(Bytes::from_static(rows::TOPOLOGY), Some(self.membership.topology.encode()));
            self.step_topology(t, agreed_topology);
            let lost = self.membership.all_shards().filter(|shard| !self.membership.keeps(*shard)).collect();
            self.plan_exchanges(false, lost);
        }
        self.reserve_dots(t);
        self.fire_timers(t);
        self.step_startup(t);
        self.step_hints(t);
        self.step_shards(t);
        self.step_exchanges(t);
        self.tick_feed(t);
        self.step_purge(t);
        self.step_sweeps(t);
        self.step_expiries(t);
        self.step_streams(t);
        self.step_heartbeats(t);
        self.replica.step_flush(t.now.at);
    }

    fn step_request(&mut self, t: &mut Turn<'_>, token: ReplyToken, deadline: Instant, request: Request) {
        let busy = self.coordinator.operations.len() >= MESH_OPERATIONS_MAX;
        if busy || self.replica.storage.bytes() > MESH_OVERLAY_BYTES_MAX {
            return t.out.replies.push((token, Reply::Refused(Code::TooManyRequests)));
        }
        match request {
            Request::Write(write) => self.start_write(t, Client::Local(token), write, deadline),
            Request::Read { key, r } => self.start_read(t, Client::Local(token), key, r, deadline),
            Request::Query(query) => self.start_query(t, token, *query, deadline),
            Request::Get(get) => self.start_get(t, token, *get, deadline),
            Request::Batch(writes) => self.start_batch(t, token, writes, deadline),
            Request::Scan(scan) => self.start_scan(t, token, scan, deadline),
            Request::Conflicts(list) => self.start_listing(t, token, list, deadline),
            Request::Elements(read) => self.start_read_elements(t, token, *read, deadline),
            Request::Rows { from } => self.answer_rows(t, token, &from),
            Request::Feed { node, ask } => self.start_feed(t, token, node, *ask, deadline),
        }
    }

    fn step_received(&mut self, t: &mut Turn<'_>, from: NodeId, envelope: Envelope) {
        self.membership.peers.mark_alive(from);
        let Envelope { epoch, frame } = envelope;
        if epoch > self.membership.topology.epoch && !matches!(frame, Frame::Topology(_)) {
            self.send(t, from, Frame::AskTopology);
            // A node with an older epoch may have been given up by the others, so it must not serve these.
            match frame {
                Frame::Fetch { id, .. }
                | Frame::FetchFor { id, .. }
                | Frame::CollectionQuery { id, .. }
                | Frame::Collect { id, .. }
                | Frame::Gather { id, .. }
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
        if epoch < self.membership.topology.epoch
            && let Some(id) = frame.request_id()
        {
            self.send(t, from, Frame::Topology(self.membership.topology.encode()));
            return self.send(t, from, Frame::Declined { id });
        }
        if self.membership.readiness.is_unenrolled() && !frame.is_for_unenrolled() {
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
            Frame::CollectionQuery { id, key, purpose, question } => {
                self.step_look(t, from, id, &key, purpose, &question);
            }
            Frame::CollectionAnswer { id, view } => self.step_collection_answer(t, from, id, *view),
            Frame::Collect { id, namespace_id, start, end, limit } => {
                self.step_collect(
                    t,
                    from,
                    id,
                    ScanRange { namespace_id, start, end, limit, view: Default::default() },
                );
            }
            Frame::Gather { id, wanted } => self.step_gather(t, from, id, &wanted),
            Frame::Select { id, query } => self.step_select(t, from, id, &query),
            Frame::Collected { id, records, upto } => self.step_collected(t, from, id, records, upto),
            Frame::List { id, after, limit, order } => {
                self.step_list(t, from, id, &ListConflicts { after, limit: limit.into(), order });
            }
            Frame::Listed { id, conflicts, more } => self.step_listed(t, from, id, conflicts, more),
            Frame::Declined { id } => self.step_declined(t, from, id),
            Frame::NoSpace { id } => self.refuse_write_for_space(t, from, id),
            Frame::AskTopology => self.send(t, from, Frame::Topology(self.membership.topology.encode())),
            Frame::Topology(bytes) => {
                if let Some(topology) = Topology::decode(bytes) {
                    self.step_peer_topology(t, from, topology);
                }
            }
            Frame::Hello => self.send(t, from, Frame::Welcome),
            Frame::Welcome => self.step_welcome(t, from),
            Frame::Compare { id, shard, root, known } => {
                self.step_compare(t, from, id, CompareRequest { shard, root, known });
            }
            Frame::Leaves { id, leaves, known, marks } => {
                self.step_leaves(t, from, LeavesReply { id, epoch, leaves, known, marks });
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
            Frame::FeedAsk { id, ask } => self.serve_feed(t, FeedCaller::Peer(from, id), *ask),
            Frame::FeedAnswer { id, answer } => self.step_feed_answer(t, from, id, answer),
            // Frames between regions only.
            Frame::Replicate { .. }
            | Frame::RemoteRead { .. }
            | Frame::RemoteReadResult { .. }
            | Frame::Heartbeat(_) => {}
        }
    }

    fn step_persisted(&mut self, t: &mut Turn<'_>, seq: Seq) {
        self.replica.storage.persisted(seq);
        while let Some(then) = self.replica.storage.release() {
            self.perform(t, then);
        }
        self.pump_all(t);
        self.step_feed(t);
    }

    fn perform(&mut self, t: &mut Turn<'_>, then: Then) {
        match then {
            Then::Send(to, frame) => self.send(t, to, frame),
            Then::Stored(id, outcome) => self.step_stored(t, self.membership.me, id, outcome),
            Then::SendToReplicas(id) => self.send_to_replicas(t, id),
            Then::FetchLocal(id) => self.fetch_here(t, id),
            Then::GatherHere(id) => self.gather_here(t, id),
            Then::Repair(id) => self.repair(t, id),
            Then::RepairRegions(id) => self.repair_regions(t, id),
            Then::Exchanged(id) => self.step_exchanged(t, id),
            Then::Synced(from, shard, known, marks) => self.record_synced_by(from, shard, known, &marks),
            Then::Logged(seq) => self.remote.durable = self.remote.durable.max(seq),
            Then::Identity { dots, floor } => {
                self.replica.dots.reserved(dots);
                self.replica.floor = floor;
            }
            Then::MoveReport(report) => t.out.reports.push(report),
            Then::BallotAnswer(frame) => self.step_ballot_answer(t, self.membership.me, frame),
            Then::SendFeed(caller, answer) => self.send_feed(t, caller, answer),
            Then::QueryCollectionHere(id, key, question) => {
                self.query_collection_here(t, id, &key, &question)
            }
            Then::Propose(id, record, ballot) => self.propose_joined(t, id, record, ballot),
        }
    }

    /// Performs an effect once a batch is durable, which may be now.
    fn after(&mut self, t: &mut Turn<'_>, seq: Seq, then: Then) {
        if self.replica.storage.is_durable(seq) {
            return self.perform(t, then);
        }
        self.replica.storage.hold(seq, then);
    }

    fn send(&mut self, t: &mut Turn<'_>, to: NodeId, frame: Frame) {
        let envelope = Envelope { epoch: self.membership.topology.epoch, frame };
        match self.remote.region_of(to) {
            Some(region) => t.out.to_regions.push((Destination::Node { region, node: to }, envelope)),
            None => t.out.send.push((to, envelope)),
        }
    }

    fn reply(&mut self, t: &mut Turn<'_>, client: Client, reply: Reply) {
        match client {
            Client::Local(token) => {
                let reply = self.coordinator.present(t, reply);
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
                let reply = self.coordinator.present(t, reply);
                if let Some((token, replies)) = self.coordinator.batches.finish(batch, idx, reply) {
                    t.out.replies.push((token, Reply::Batch(replies)));
                }
            }
            Client::Unasked => {}
            Client::SessionRead(id) => self.session_read_done(t, id, reply),
            Client::GlobalRead(id) => self.global_read_local(t, id, reply),
            Client::ScanRead(id, at) => self.scan_read_done(t, id, at, reply),
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

    /// Records how long a peer took to answer an operation.
    fn record_rtt(&mut self, t: &Turn<'_>, from: NodeId, id: OpId) {
        if let Some(pending) = self.coordinator.operations.get(&id)
            && from != self.membership.me
        {
            self.membership.peers.record_rtt(from, t.now.at.since(pending.started));
        }
    }

    fn fire_timers(&mut self, t: &mut Turn<'_>) {
        while let Some(id) = self.coordinator.timers.pop_due(t.now.at) {
            match self.coordinator.operations.get(&id) {
                Some(pending) if pending.deadline <= t.now.at => self.expire(t, id),
                Some(Pending { operation: Operation::Read(_), .. }) => self.hedge(t, id),
                Some(Pending { operation: Operation::Scan(_), .. }) => self.ask_again(t, id),
                Some(Pending { operation: Operation::SessionRead(_), .. }) => self.wake_session_read(t, id),
                Some(Pending { operation: Operation::Forward(_), .. }) => self.retry_forward(t, id),
                Some(Pending { operation: Operation::Write(_), .. }) => self.resend_write(t, id),
                Some(Pending { operation: Operation::Propose(_), .. }) => self.retry_proposal(t, id),
                Some(Pending { operation: Operation::ReadElements(_), .. }) => self.retry_elements(t, id),
                Some(Pending { operation: Operation::Gather(_), .. }) => self.retry_gathering(t, id),
                Some(Pending { operation: Operation::Walk(_), .. }) => self.resume_walk(t, id),
                _ => {}
            }
        }
    }

    fn expire(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(pending) = self.coordinator.finish(id) else { return };
        match pending.operation {
            Operation::Write(writing) => self.expire_write(t, *writing),
            Operation::Forward(forwarding) => self.expire_forward(t, *forwarding),
            Operation::Read(reading) => self.expire_read(t, *reading),
            Operation::Scan(scanning) => self.expire_scan(t, *scanning, pending.deadline),
            Operation::List(listing) => self.expire_listing(t, *listing),
            Operation::Exchange(exchanging) => self.expire_exchange(t, *exchanging),
            Operation::GiveRecord(exchange) => self.expire(t, exchange),
            Operation::Hint(hint_op) => self.expire_hint(t, hint_op),
            Operation::SendToRegion(region_send_op) => self.expire_region_send(t, region_send_op),
            Operation::ApplyRemote(apply_remote_op) => self.expire_apply_remote(t, *apply_remote_op),
            Operation::SessionRead(guarding) => self.expire_session_read(t, id, *guarding),
            Operation::GlobalRead(globally) => self.expire_global_read(t, *globally),
            Operation::Propose(proposing) => self.expire_proposing(t, id, *proposing),
            Operation::Feed(op) => self.end_feed(t, &op),
            Operation::ReadElements(reading) => self.expire_elements(t, &reading),
            Operation::Gather(gathering) => self.expire_gathering(t, &gathering),
            Operation::Walk(walk) => self.walk_ended(t, id, *walk, false),
        }
    }

    fn step_declined(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.decline_write(t, from, id),
            Some(Operation::Read(_)) => self.decline_read(t, from, id),
            Some(Operation::Forward(_)) => self.decline_forward(t, from, id),
            Some(Operation::Scan(_)) => self.decline_scan(t, from, id),
            Some(Operation::List(_)) => self.coordinator.decline_listing(t, from, id),
            Some(Operation::Exchange(_) | Operation::GiveRecord(_)) => self.expire(t, id),
            Some(Operation::Hint(_)) => self.decline_hint(t, id),
            Some(Operation::SendToRegion(_)) => self.decline_region_send(t, id),
            Some(Operation::SessionRead(_)) => self.decline_session_read(t, from, id),
            Some(Operation::Propose(_)) => self.coordinator.decline_proposing(t, id),
            Some(Operation::Feed(_)) => self.decline_feed(t, id),
            Some(Operation::ReadElements(_)) => self.decline_elements(t, from, id),
            Some(Operation::Gather(_)) => self.decline_gathering(t, from, id),
            Some(Operation::Walk(_)) => self.expire(t, id),
            // Others may answer yet.
            Some(Operation::ApplyRemote(_) | Operation::GlobalRead(_)) | None => {}
        }
    }

    /// A node has stored an operation's record, or refused it.
    fn step_stored(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId, outcome: StoreOutcome) {
        self.record_rtt(t, from, id);
        match self.coordinator.operations.get(&id).map(|pending| &pending.operation) {
            Some(Operation::Write(_)) => self.write_stored(t, from, id, outcome),
            Some(Operation::Read(_)) => self.read_stored(t, from, id),
            Some(Operation::GiveRecord(_)) => self.exchange_stored(t, id),
            Some(Operation::Hint(_)) => self.hint_stored(t, id),
            Some(Operation::ReadElements(_)) => self.elements_stored(t, from, id, outcome),
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
