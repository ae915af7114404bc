//! The proposer: a node that changes or reads a key by ballots. It asks the replicas for promises and for their records,
//! computes the change (`change`), and has it accepted. Each step needs a majority of the key's replicas, of the old and of
//! the new list while the partition moves. A node whose last proposal was accepted skips the promises for the next one. A
//! refused proposer retries with a higher round after a growing pause; unanswered frames are sent again.
//!
//! The client hears of success when a majority has accepted, of a conflict when the conflicting record is settled, and of an
//! unknown outcome otherwise.

mod queue;
mod refusals;
mod rerouting;

use super::change::{ChangeOutcome, Proposal, QuorumState};
use super::requests::holds_all_since;
use crate::ballot::{Ballot, Round};
use crate::frame::{Frame, OpId, RequestNote, StoreReason, WriteOrigin};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mesh::coordinator::Coordinator;
use crate::mesh::coordinator::forward::TriedNodes;
use crate::mesh::coordinator::writes::Route;
use crate::mesh::remote_regions::RemoteRegions;
use crate::mesh::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::mutant::Mutant;
use crate::overlay::Seq;
use crate::record::Record;
use crate::request::{Missing, Reply, Write};
use crate::watermarks::Watermarks;
use crate::{Dot, home, moves};
use base::mutant::planted;
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that have not answered are asked again after so long.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The purpose of a ballot.
#[derive(Clone, Debug)]
pub(in crate::mesh) enum Goal {
    Read,
    Write(Arc<Write>),
}

#[derive(Debug)]
pub(in crate::mesh) struct ProposeOp {
    client: Client,
    pub(super) key: Key,
    pub(super) goal: Goal,
    route: Arc<Route>,
    stage: ProposeStage,
    /// The highest round that a replica was found to have promised.
    seen: Option<Round>,
    refusals: u32,
    /// The dots that were proposed and may have been accepted somewhere.
    pub(super) proposed: Vec<Dot>,
    pub(super) result: Option<Box<Record>>,
    /// The write was tried as a plain one before, under this dot.
    pub(super) plain: Option<Dot>,
    /// The stamp of a write that another node has begun and named: no attempt at it is older.
    pub(super) begun: Option<Stamp>,
    /// A proposal has left, so that it may be accepted whatever the client is told.
    has_proposed: bool,
    answered: bool,
    /// When to ask, or to try, again.
    wake_at: Instant,
}

#[derive(Debug)]
enum ProposeStage {
    /// Another change of the key is under way, or this proposal was refused a moment ago.
    Waiting,
    /// Asking what the replicas have, for a round if there is one.
    Asking { round: Option<Round>, heard: Vec<PromiseAnswer>, refused: Vec<NodeId> },
    Accepting {
        ballot: Ballot,
        record: Bytes,
        notes: Vec<RequestNote>,
        /// None if the change itself is still to be made, of this.
        reply: Option<Reply>,
        acked: Vec<NodeId>,
        refused: Vec<NodeId>,
    },
}

/// The record that a replica has of a key, and what it had promised before.
#[derive(Clone, Debug)]
pub(super) struct PromiseAnswer {
    pub from: NodeId,
    pub prior: Option<Round>,
    pub record: Option<Record>,
    pub marks: Watermarks,
    pub attempts: Option<Record>,
}

impl ProposeOp {
    fn new(client: Client, key: Key, goal: Goal) -> ProposeOp {
        ProposeOp {
            client,
            key,
            goal,
            route: Arc::default(),
            stage: ProposeStage::Waiting,
            seen: None,
            refusals: 0,
            proposed: Vec::new(),
            result: None,
            plain: None,
            begun: None,
            has_proposed: false,
            answered: false,
            wake_at: Instant::FAR_FUTURE,
        }
    }

    /// The epoch of the home that a write comes from; a read goes by what it finds.
    fn term(&self) -> u64 {
        let Goal::Write(write) = &self.goal else { return 0 };
        home_epoch(write).unwrap_or(0)
    }

    fn wanted(&self) -> Option<u8> {
        let Goal::Write(write) = &self.goal else { return None };
        write.w.map(|w| w.max(self.needed()))
    }

    /// Whether as many have answered as must, of both lists while the partition moves.
    fn is_met(&self, nodes: &[NodeId]) -> bool {
        if planted(Mutant::OneListDecides) {
            let old = Route { read: self.route.read.clone(), also: Vec::new() };
            return old.is_met(nodes, None);
        }
        self.route.is_met(nodes, None)
    }

    /// Whether that can still be, although some have refused.
    fn is_in_reach(&self, refused: &[NodeId]) -> bool {
        let others: Vec<NodeId> = self.route.replicas().filter(|node| !refused.contains(node)).collect();
        self.is_met(&others)
    }

    /// The request that a write is, or its name.
    pub(super) fn request(&self) -> Option<u64> {
        let Goal::Write(write) = &self.goal else { return None };
        write.attributes.once()
    }

    /// How many must answer.
    pub(super) fn needed(&self) -> u8 {
        moves::majority(self.route.read.len()) as u8
    }

    /// How many have answered what is being asked.
    fn n_answers(&self) -> usize {
        match &self.stage {
            ProposeStage::Waiting => 0,
            ProposeStage::Asking { heard, .. } => heard.len(),
            ProposeStage::Accepting { acked, .. } => acked.len(),
        }
    }

    /// The reply when too few replicas have answered: whether a proposal is accepted may be unknown.
    pub(super) fn open(&self) -> Reply {
        match &self.goal {
            Goal::Write(_) if self.has_proposed || self.plain.is_some() => self.unknown(),
            _ => {
                let (acks, needed) = (self.n_answers() as u8, self.needed());
                Reply::Unavailable { acks, needed, missing: Missing::nodes(self.silent()) }
            }
        }
    }

    /// The reply for a change that may have been carried out or not.
    pub(super) fn unknown(&self) -> Reply {
        let (acks, needed) = (self.n_answers() as u8, self.needed());
        Reply::Indeterminate { acks, needed, missing: Missing::nodes(self.silent()) }
    }

    /// The replicas that have not answered.
    fn silent(&self) -> Vec<NodeId> {
        let answered = |node: &NodeId| match &self.stage {
            ProposeStage::Waiting => true,
            ProposeStage::Asking { heard, refused, .. } => {
                refused.contains(node) || heard.iter().any(|heard| heard.from == *node)
            }
            ProposeStage::Accepting { acked, refused, .. } => acked.contains(node) || refused.contains(node),
        };
        self.route.replicas().filter(|node| !answered(node)).collect()
    }
}

impl RemoteRegions {
    /// Where there are several regions, ballots are those of the key's home.
    fn check_home(&self, write: &Write) -> Result<(), Code> {
        let attributes = &write.attributes;
        if self.others.is_empty() {
            Ok(())
        } else if home_epoch(write).is_none() {
            Err(Code::HomeNeeded)
        } else if attributes.home != Some(self.me.region) {
            Err(Code::NotHome)
        } else if attributes.level.spans_regions() {
            Err(Code::BadRequest)
        } else {
            Ok(())
        }
    }
}

impl Coordinator {
    pub(super) fn propose_op(&mut self, id: OpId) -> Option<&mut ProposeOp> {
        match self.operations.get_mut(&id).map(|pending| &mut pending.operation) {
            Some(Operation::Propose(proposing)) => Some(proposing),
            _ => None,
        }
    }

    /// Whether an answer is one to what is asked now, and not to what the same operation asked before.
    fn is_asking(&mut self, id: OpId, wanted: Option<Round>) -> bool {
        let stage = self.propose_op(id).map(|proposing| &proposing.stage);
        matches!(stage, Some(ProposeStage::Asking { round, .. }) if *round == wanted)
    }

    fn is_proposing(&mut self, id: OpId, wanted: Ballot) -> bool {
        let stage = self.propose_op(id).map(|proposing| &proposing.stage);
        matches!(stage, Some(ProposeStage::Accepting { ballot, .. }) if *ballot == wanted)
    }
}

impl Mesh {
    /// A write that must be decided once. The first replica of the list that is up proposes, so that it is usually the one
    /// that has the promises already.
    pub(in crate::mesh) fn start_decided_write(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        origin: Option<WriteOrigin>,
        route: &Route,
        deadline: Instant,
    ) {
        if let Err(code) = self.remote.check_home(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        let may_propose = route.read.contains(&self.membership.me)
            && self.membership.is_serving()
            && !self.replica.dots.is_exhausted();
        let is_up = |node: &&NodeId| {
            if **node == self.membership.me {
                may_propose
            } else {
                !self.membership.peers.is_slow_or_down(**node)
            }
        };
        let first = route.read.iter().find(is_up);
        let is_mine = first == Some(&self.membership.me) || matches!(client, Client::Peer(..));
        if !may_propose || !is_mine {
            return self.pass_on(t, client, write, TriedNodes::default(), deadline);
        }
        if !self.replica.may_begin(t, &write) {
            return self.pass_on_full_disk(t, client, write, deadline);
        }
        let begun = origin.filter(|origin| origin.operation.is_some()).map(|origin| origin.stamp);
        let proposing = ProposeOp { begun, ..ProposeOp::new(client, write.key.clone(), Goal::Write(write)) };
        self.begin_proposing(t, proposing, deadline);
    }

    /// A write that began as a plain one finds that its key is decided by ballots. `plain` is what it has stored already.
    pub(in crate::mesh) fn decide_by_ballot(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        plain: Option<Dot>,
        deadline: Instant,
    ) {
        if let Err(code) = self.remote.check_home(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        let proposing = ProposeOp { plain, ..ProposeOp::new(client, write.key.clone(), Goal::Write(write)) };
        self.begin_proposing(t, proposing, deadline);
    }

    /// A read that shows nothing older than what was decided when it began. Any node that serves may ask.
    pub(in crate::mesh) fn start_decided_read(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        deadline: Instant,
    ) {
        if self.membership.topology.copies(key.namespace_id()).is_none() {
            return self.reply(t, client, Reply::Refused(Code::UnknownSpace));
        }
        if self.bounded_here(t, &key).is_some() {
            return self.reply(t, client, Reply::Refused(Code::NotForBoundedCounters));
        }
        self.begin_proposing(t, ProposeOp::new(client, key, Goal::Read), deadline);
    }

    fn begin_proposing(&mut self, t: &mut Turn<'_>, proposing: ProposeOp, deadline: Instant) {
        let (is_read, key) = (matches!(proposing.goal, Goal::Read), proposing.key.clone());
        let id = self.coordinator.begin(t, Operation::Propose(Box::new(proposing)), deadline);
        if is_read {
            return self.ask_replicas(t, id, None);
        }
        let queue = self.coordinator.proposals.queues.entry(key).or_default();
        queue.push_back(id);
        if queue.len() == 1 {
            self.propose(t, id);
        }
    }

    /// Begins, or begins again: with the next turn where this node has the promises, else by asking for them.
    fn propose(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let is_first = !proposing.has_proposed && proposing.refusals == 0;
        // Whether a request was carried out long ago only a majority knows.
        let (is_request, begun) = (proposing.request().is_some(), proposing.begun);
        let is_known = |record: &Record| begun.is_some_and(|begun| holds_all_since(record, begun));
        let key = proposing.key.clone();
        let route = self.membership.route_of(&key);
        let next_turn = self.next_turn(t, &key).filter(|(_, record)| !is_request || is_known(record));
        if let Some((ballot, record)) = next_turn.filter(|_| is_first) {
            if let Some(proposing) = self.coordinator.propose_op(id) {
                proposing.route = route;
            }
            // Others may have changed the key without this node: a reply that is not a change waits until a majority has
            // accepted the record under the next turn.
            let is_settled = planted(Mutant::StaleTurnAnswers);
            return self.go_on(t, id, QuorumState { record: Some(record), is_settled }, ballot);
        }
        match self.next_round(t, id) {
            Some(round) => self.ask_replicas(t, id, Some(round)),
            None => self.expire(t, id),
        }
    }

    /// The ballot that this node may propose without asking, and what it follows on.
    fn next_turn(&self, t: &Turn<'_>, key: &Key) -> Option<(Ballot, Record)> {
        let last = *self.coordinator.proposals.leads.get(key)?;
        let shard = self.membership.shard_of(key)?;
        let local = self.replica.load(t, key);
        let promise_state = self.replica.promise_state(t, key, shard, &local);
        let record = local.record.filter(|record| record.ballot() == Some(last))?;
        let holds =
            promise_state.promised == Some(last.round) && last.round.epoch == self.membership.topology.epoch;
        Some((last.next_turn().filter(|_| holds)?, record))
    }

    /// Higher than everything that this node has heard of.
    fn next_round(&mut self, t: &Turn<'_>, id: OpId) -> Option<Round> {
        let (key, seen, term) =
            self.coordinator.propose_op(id).map(|one| (one.key.clone(), one.seen, one.term()))?;
        let shard = self.membership.shard_of(&key)?;
        let local = self.replica.load(t, &key);
        let seen = seen.max(self.replica.promise_state(t, &key, shard, &local).highest()).unwrap_or_default();
        let (term, epoch) = (term.max(seen.term), self.membership.topology.epoch);
        let is_new = (term, epoch) > (seen.term, seen.epoch);
        let number = if is_new { 1 } else { seen.number.checked_add(1)? };
        Some(Round { term, epoch, number, node: self.membership.me, operation: id.0 })
    }

    fn ask_replicas(&mut self, t: &mut Turn<'_>, id: OpId, round: Option<Round>) {
        let Some(key) = self.coordinator.propose_op(id).map(|proposing| proposing.key.clone()) else {
            return;
        };
        let route = self.membership.route_of(&key);
        if let Some(proposing) = self.coordinator.propose_op(id) {
            proposing.route = route;
            proposing.stage = ProposeStage::Asking { round, heard: Vec::new(), refused: Vec::new() };
        }
        self.send_ballot(t, id);
    }

    /// Sends to every replica that has not answered, to this node last: its answer may come at once.
    fn send_ballot(&mut self, t: &mut Turn<'_>, id: OpId) {
        let me = self.membership.me;
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let (key, mut nodes) = (proposing.key.clone(), proposing.silent());
        nodes.sort_by_key(|node| *node == me);
        enum Question {
            Prepare(Option<Round>),
            Accept(Bytes, Vec<RequestNote>),
        }
        let request = proposing.request();
        let question = match &proposing.stage {
            ProposeStage::Waiting => return,
            ProposeStage::Asking { round, .. } => Question::Prepare(*round),
            ProposeStage::Accepting { record, notes, .. } => Question::Accept(record.clone(), notes.clone()),
        };
        proposing.wake_at = t.now.at.after(ASK_AGAIN_AFTER);
        let wake_at = proposing.wake_at;
        self.coordinator.timers.set(wake_at, id);
        for node in nodes {
            let key = key.clone();
            match &question {
                Question::Prepare(round) if node == me => self.step_prepare(t, me, id, &key, *round, request),
                // This node has remembered the requests already.
                Question::Accept(record, _) if node == me => {
                    self.step_accept(t, me, id, &key, record.clone(), &[]);
                }
                Question::Prepare(round) => {
                    self.send(t, node, Frame::Prepare { id, key, round: *round, request });
                }
                Question::Accept(record, notes) => {
                    let (record, notes) = (record.clone(), notes.clone());
                    self.send(t, node, Frame::Accept { id, key, record, notes });
                }
            }
        }
    }

    /// An answer to a ballot, of another node or of this one.
    pub(in crate::mesh) fn step_ballot_answer(&mut self, t: &mut Turn<'_>, from: NodeId, frame: Frame) {
        match frame {
            Frame::Promised { id, round, granted, prior, record, marks, attempts } => {
                if !self.coordinator.is_asking(id, round) {
                    return;
                }
                self.record_rtt(t, from, id);
                let decode = |bytes: Option<Bytes>| match bytes {
                    Some(bytes) => Record::decode(bytes).map(Some),
                    None => Some(None),
                };
                let (Some(record), Some(attempts)) = (decode(record), decode(attempts)) else { return };
                let heard = PromiseAnswer { from, prior, record, marks, attempts };
                if granted { self.promised(t, id, heard) } else { self.refused(t, from, id, prior) }
            }
            Frame::Accepted { id, ballot, passed } if self.coordinator.is_proposing(id, ballot) => {
                self.record_rtt(t, from, id);
                match passed {
                    None => self.accepted(t, from, id),
                    passed => self.refused(t, from, id, passed),
                }
            }
            Frame::Declined { id } => self.coordinator.decline_proposing(t, id),
            _ => {}
        }
    }

    fn promised(&mut self, t: &mut Turn<'_>, id: OpId, answer: PromiseAnswer) {
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let is_replica = proposing.route.contains(answer.from);
        let ProposeStage::Asking { round, heard, .. } = &mut proposing.stage else { return };
        if !is_replica || heard.iter().any(|other| other.from == answer.from) {
            return;
        }
        let round = *round;
        proposing.seen = proposing.seen.max(answer.prior);
        let ProposeStage::Asking { heard, .. } = &mut proposing.stage else { return };
        heard.push(answer);
        let nodes: Vec<NodeId> = heard.iter().map(|heard| heard.from).collect();
        if !proposing.is_met(&nodes) {
            return;
        }
        let ProposeStage::Asking { heard, .. } = &mut proposing.stage else { return };
        let heard = std::mem::take(heard);
        proposing.stage = ProposeStage::Waiting;
        let is_settled = QuorumState::is_settled(&heard);
        if round.is_none() && !is_settled {
            let round = self.next_round(t, id).filter(|_| self.membership.is_serving());
            return match round {
                Some(_) => self.ask_replicas(t, id, round),
                None => self.answer_proposing(t, id, Reply::Refused(Code::NotInStep)),
            };
        }
        let key = self.coordinator.propose_op(id).map(|proposing| proposing.key.clone());
        let Some(key) = key else { return };
        let attempts = heard.iter().filter_map(|heard| heard.attempts.as_ref());
        self.absorb_attempts(t, id, &key, attempts);
        let mine =
            self.replica.load(t, &key).record.filter(|_| self.membership.keeps_key(&key) && !is_settled);
        let records = heard.iter().filter_map(|heard| heard.record.clone()).chain(mine);
        let (record, seq) = self.replica.join(t, &key, records.collect::<Vec<_>>().into_iter());
        let gone = |record: &Record| heard.iter().any(|heard| heard.marks.cover(record));
        let record = record.filter(|record| !gone(record));
        let ballot = round.unwrap_or_default().first_ballot();
        if seq > Seq(0) {
            // Conflicts found in the merge are durable before a replica gets the record that hides them.
            let then = Then::Propose(id, record.map(Box::new), ballot);
            return self.after(t, seq, then);
        }
        self.go_on(t, id, QuorumState { record, is_settled }, ballot);
    }

    /// Proposes the joined record: the loser of the join, if there is one, is durable.
    pub(in crate::mesh) fn propose_joined(
        &mut self,
        t: &mut Turn<'_>,
        id: OpId,
        record: Option<Box<Record>>,
        ballot: Ballot,
    ) {
        let waits = |proposing: &&mut ProposeOp| matches!(proposing.stage, ProposeStage::Waiting);
        if self.coordinator.propose_op(id).filter(waits).is_some()
            && ballot.round.epoch == self.membership.topology.epoch
        {
            let record = record.map(|record| *record);
            self.go_on(t, id, QuorumState { record, is_settled: false }, ballot);
        }
    }

    /// Enough replicas have answered: replies to the client, or proposes.
    fn go_on(&mut self, t: &mut Turn<'_>, id: OpId, quorum_state: QuorumState, ballot: Ballot) {
        if self.coordinator.operations.get(&id).is_some_and(|pending| pending.deadline <= t.now.at) {
            // The client is not waiting any more: nothing is begun.
            return self.expire(t, id);
        }
        let Some(Pending { operation: Operation::Propose(proposing), started, deadline }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        let verdict = self.check(t, &proposing, quorum_state, ballot);
        let operation = Operation::Propose(proposing);
        self.coordinator.operations.insert(id, Pending { operation, started, deadline });
        match verdict {
            ChangeOutcome::Reply(reply) => self.answer_proposing(t, id, reply),
            ChangeOutcome::Propose(proposal) => self.send_proposal(t, id, *proposal, ballot),
        }
    }

    fn send_proposal(&mut self, t: &mut Turn<'_>, id: OpId, proposal: Proposal, ballot: Ballot) {
        let Proposal { record, reply, dot, notes } = proposal;
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        proposing.has_proposed = true;
        let key = proposing.key.clone();
        if let Some(dot) = dot {
            proposing.proposed.push(dot);
            proposing.result = Some(Box::new(record.clone()));
        }
        proposing.stage = ProposeStage::Accepting {
            ballot,
            record: record.encode(),
            notes,
            reply,
            acked: Vec::new(),
            refused: Vec::new(),
        };
        // This node has what it has written, whatever it has promised to others meanwhile: they rely on that when they
        // compare. It counts as accepted only if its own promise allows it.
        if let Some(shard) =
            self.membership.shard_of(&key).filter(|shard| dot.is_some() && self.membership.keeps(*shard))
        {
            self.replica.absorb(t, &key, shard, &record, StoreReason::Repair);
        }
        self.send_ballot(t, id);
    }

    fn accepted(&mut self, t: &mut Turn<'_>, from: NodeId, id: OpId) {
        let me = self.membership.me;
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        let wanted = proposing.wanted();
        let is_replica = proposing.route.contains(from);
        let ProposeStage::Accepting { acked, ballot, .. } = &mut proposing.stage else { return };
        if !is_replica || acked.contains(&from) {
            return;
        }
        acked.push(from);
        let (acked, ballot) = (acked.clone(), *ballot);
        let as_many = wanted.is_none() || proposing.route.is_met(&acked, wanted);
        let enough = proposing.is_met(&acked) && as_many;
        let leads = proposing.route.read.contains(&me);
        let key = proposing.key.clone();
        if enough && !proposing.answered {
            let ProposeStage::Accepting { reply, .. } = &mut proposing.stage else { return };
            let reply = reply.take();
            if leads {
                self.coordinator.proposals.lead(&key, ballot);
            }
            match reply {
                Some(reply) => self.answer_proposing(t, id, reply),
                // The record that the change builds on is decided now.
                None => return self.propose(t, id),
            }
        }
        if self
            .coordinator
            .propose_op(id)
            .is_some_and(|proposing| proposing.answered && proposing.silent().is_empty())
        {
            self.coordinator.finish(id);
        }
    }

    fn answer_proposing(&mut self, t: &mut Turn<'_>, id: OpId, reply: Reply) {
        let Some(proposing) = self.coordinator.propose_op(id) else { return };
        proposing.answered = true;
        let (client, key) = (proposing.client, proposing.key.clone());
        let is_over = !matches!(proposing.stage, ProposeStage::Accepting { .. });
        if is_over {
            self.coordinator.finish(id);
        }
        self.reply(t, client, reply);
        self.start_next_in_queue(t, &key, id);
    }

    pub(in crate::mesh) fn expire_proposing(&mut self, t: &mut Turn<'_>, id: OpId, proposing: ProposeOp) {
        let me = self.membership.me;
        let has_record =
            matches!(proposing.stage, ProposeStage::Accepting { .. }) && proposing.route.contains(me);
        for node in proposing.silent().into_iter().filter(|node| *node != me) {
            self.membership.peers.mark_unanswered(node, t.now.at);
            if has_record {
                self.hint(t, node, &proposing.key);
            }
        }
        if !proposing.answered {
            self.coordinator.proposals.leads.remove(&proposing.key);
            self.reply(t, proposing.client, proposing.open());
        }
        self.start_next_in_queue(t, &proposing.key, id);
    }
}

/// The epoch of the key's home, which every write of the home carries.
fn home_epoch(write: &Write) -> Option<u64> {
    let fence = write.attributes.fence.as_ref().filter(|fence| fence.lock == home::LOCK);
    fence.filter(|_| write.attributes.home.is_some()).map(|fence| fence.token)
}
