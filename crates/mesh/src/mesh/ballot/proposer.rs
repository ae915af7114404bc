//! The proposer: a node that changes or reads a key by ballots. It asks the replicas for promises and for their records,
//! computes the change (`change`), and has it accepted. Each step needs a majority of the key's replicas, of the old and of
//! the new list while the partition moves. A node whose last proposal was accepted skips the promises for the next one. A
//! refused proposer retries with a higher round after a growing pause; unanswered frames are sent again.
//!
//! The client hears of success when a majority has accepted, of a conflict when the conflicting record is settled, and of an
//! unknown outcome otherwise.

mod queue;
mod rerouting;

use super::change::{Basis, Proposal, Verdict};
use crate::ballot::{Ballot, Round};
use crate::frame::{Ask, Frame, RequestNote, Why};
use crate::key::Key;
use crate::marks::Marks;
use crate::mesh::forward::{Obstacle, Tried};
use crate::mesh::writes::Route;
use crate::mesh::{Client, Mesh, Operation, Pending, Then, Turn};
use crate::overlay::Seq;
use crate::record::Record;
use crate::request::{Missing, Reply, Write};
use crate::{Dot, home, moves};
use base::mutant::{Mutant, planted};
use base::{Code, Instant, NodeId};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// Replicas that have not answered are asked again after so long.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Replicas that declined are asked again after so long, then after twice as long, and so on.
const DECLINED_ASK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A refused proposer waits at least so long, twice as long after the next refusal, and so on, within a bound.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_DOUBLINGS_MAX: u32 = 6;

/// What a ballot is for.
#[derive(Clone, Debug)]
pub(in crate::mesh) enum Goal {
    Read,
    Write(Arc<Write>),
}

#[derive(Debug)]
pub(in crate::mesh) struct Proposing {
    client: Client,
    pub(super) key: Key,
    pub(super) goal: Goal,
    route: Arc<Route>,
    stage: Stage,
    /// The highest round that a replica was found to have promised.
    seen: Option<Round>,
    refusals: u32,
    /// What was proposed and may have been accepted somewhere.
    pub(super) proposed: Vec<Dot>,
    pub(super) result: Option<Box<Record>>,
    /// The write was tried as a plain one before, under this dot.
    pub(super) plain: Option<Dot>,
    /// A proposal has left, so that it may be accepted whatever the client is told.
    has_proposed: bool,
    answered: bool,
    /// When to ask, or to try, again.
    wake_at: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Another change of the key is under way, or it was refused a moment ago.
    Waiting,
    /// Asking what the replicas have, for a round if there is one.
    Asking { round: Option<Round>, heard: Vec<Heard>, refused: Vec<NodeId> },
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

/// What a replica has of a key, and what it had promised before.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub from: NodeId,
    pub prior: Option<Round>,
    pub record: Option<Record>,
    pub marks: Marks,
    pub attempts: Option<Record>,
}

impl Proposing {
    fn new(client: Client, key: Key, goal: Goal, plain: Option<Dot>) -> Proposing {
        Proposing {
            client,
            key,
            goal,
            route: Arc::default(),
            stage: Stage::Waiting,
            seen: None,
            refusals: 0,
            proposed: Vec::new(),
            result: None,
            plain,
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
        let others: Vec<NodeId> = self.route.everyone().filter(|node| !refused.contains(node)).collect();
        self.is_met(&others)
    }

    /// The request that a write is, if it has an id.
    pub(super) fn request(&self) -> Option<u64> {
        let Goal::Write(write) = &self.goal else { return None };
        write.attributes.request
    }

    /// How many must answer.
    pub(super) fn needed(&self) -> u8 {
        moves::majority(self.route.read.len()) as u8
    }

    /// How many have answered what is being asked.
    fn n_answers(&self) -> usize {
        match &self.stage {
            Stage::Waiting => 0,
            Stage::Asking { heard, .. } => heard.len(),
            Stage::Accepting { acked, .. } => acked.len(),
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

    /// It may have been carried out, and it may not.
    pub(super) fn unknown(&self) -> Reply {
        let (acks, needed) = (self.n_answers() as u8, self.needed());
        Reply::Indeterminate { acks, needed, missing: Missing::nodes(self.silent()) }
    }

    /// The replicas that have not answered.
    fn silent(&self) -> Vec<NodeId> {
        let answered = |node: &NodeId| match &self.stage {
            Stage::Waiting => true,
            Stage::Asking { heard, refused, .. } => {
                refused.contains(node) || heard.iter().any(|heard| heard.from == *node)
            }
            Stage::Accepting { acked, refused, .. } => acked.contains(node) || refused.contains(node),
        };
        self.route.everyone().filter(|node| !answered(node)).collect()
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
        route: &Route,
        deadline: Instant,
    ) {
        if let Err(code) = self.check_home(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        let may_propose = route.read.contains(&self.me) && self.is_serving() && !self.dots.is_dry();
        let is_up = |node: &&NodeId| match **node == self.me {
            true => may_propose,
            false => !self.peers.is_slow_or_down(**node),
        };
        let first = route.read.iter().find(is_up);
        let is_mine = first == Some(&self.me) || matches!(client, Client::Peer(..));
        if !may_propose || !is_mine {
            return self.pass_on(t, client, write, Tried::default(), deadline);
        }
        if !self.may_begin(t, &write) {
            return self.pass_on(t, client, write, Tried::by(self.me, Obstacle::FullDisk), deadline);
        }
        self.begin_proposing(t, client, write.key.clone(), Goal::Write(write), None, deadline);
    }

    /// A write that began as a plain one finds that its key is decided by ballots. `plain` is what it has stored already.
    pub(in crate::mesh) fn decide_instead(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        write: Arc<Write>,
        plain: Option<Dot>,
        deadline: Instant,
    ) {
        if let Err(code) = self.check_home(&write) {
            return self.reply(t, client, Reply::Refused(code));
        }
        self.begin_proposing(t, client, write.key.clone(), Goal::Write(write), plain, deadline);
    }

    /// Where there are several regions, ballots are those of the key's home.
    fn check_home(&self, write: &Write) -> Result<(), Code> {
        let attributes = &write.attributes;
        match () {
            _ if self.abroad.others.is_empty() => Ok(()),
            _ if home_epoch(write).is_none() => Err(Code::HomeNeeded),
            _ if attributes.home != Some(self.params.actor.region) => Err(Code::NotHome),
            _ if attributes.level.is_abroad() => Err(Code::BadRequest),
            _ => Ok(()),
        }
    }

    /// A read that shows nothing older than what was decided when it began. Any node that serves may ask.
    pub(in crate::mesh) fn start_decided_read(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        deadline: Instant,
    ) {
        if self.topology.copies(key.space()).is_none() {
            return self.reply(t, client, Reply::Refused(Code::UnknownSpace));
        }
        self.begin_proposing(t, client, key, Goal::Read, None, deadline);
    }

    fn begin_proposing(
        &mut self,
        t: &mut Turn<'_>,
        client: Client,
        key: Key,
        goal: Goal,
        plain: Option<Dot>,
        deadline: Instant,
    ) {
        let is_read = matches!(goal, Goal::Read);
        let proposing = Proposing::new(client, key.clone(), goal, plain);
        let ask = self.begin(t, Operation::Propose(Box::new(proposing)), deadline);
        if is_read {
            return self.ask_replicas(t, ask, None);
        }
        let queue = self.ballots.queues.entry(key).or_default();
        queue.push_back(ask);
        if queue.len() == 1 {
            self.propose(t, ask);
        }
    }

    pub(super) fn proposing(&mut self, ask: Ask) -> Option<&mut Proposing> {
        match self.operations.get_mut(&ask).map(|pending| &mut pending.operation) {
            Some(Operation::Propose(proposing)) => Some(proposing),
            _ => None,
        }
    }

    /// Begins, or begins again: with the next turn where this node has the promises, else by asking for them.
    fn propose(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(proposing) = self.proposing(ask) else { return };
        // Whether a request was carried out long ago only a majority knows.
        let is_first = !proposing.has_proposed && proposing.refusals == 0 && proposing.request().is_none();
        let key = proposing.key.clone();
        let route = self.route_of(&key);
        if let Some((ballot, record)) = self.next_turn(t, &key).filter(|_| is_first) {
            if let Some(proposing) = self.proposing(ask) {
                proposing.route = route;
            }
            return self.go_on(t, ask, Basis { record: Some(record), is_settled: true }, ballot);
        }
        match self.next_round(t, ask) {
            Some(round) => self.ask_replicas(t, ask, Some(round)),
            None => self.expire(t, ask),
        }
    }

    fn route_of(&self, key: &Key) -> Arc<Route> {
        let copies = self.topology.copies(key.space()).unwrap_or(0);
        self.route(key.partition(), copies).clone()
    }

    /// The ballot that this node may propose without asking, and what it follows on.
    fn next_turn(&self, t: &Turn<'_>, key: &Key) -> Option<(Ballot, Record)> {
        let last = *self.ballots.leads.get(key)?;
        let shard = self.shard_of(key)?;
        let local = self.load(t, key);
        let said = self.said(t, key, shard, &local);
        let record = local.record.filter(|record| record.ballot() == Some(last))?;
        let holds = said.promised == Some(last.round) && last.round.epoch == self.topology.epoch;
        Some((last.next_turn().filter(|_| holds)?, record))
    }

    /// Higher than everything that this node has heard of.
    fn next_round(&mut self, t: &Turn<'_>, ask: Ask) -> Option<Round> {
        let (key, seen, term) = self.proposing(ask).map(|one| (one.key.clone(), one.seen, one.term()))?;
        let shard = self.shard_of(&key)?;
        let local = self.load(t, &key);
        let seen = seen.max(self.said(t, &key, shard, &local).highest()).unwrap_or_default();
        let (term, epoch) = (term.max(seen.term), self.topology.epoch);
        let is_new = (term, epoch) > (seen.term, seen.epoch);
        let number = if is_new { 1 } else { seen.number.checked_add(1)? };
        Some(Round { term, epoch, number, node: self.me, operation: ask.0 })
    }

    fn ask_replicas(&mut self, t: &mut Turn<'_>, ask: Ask, round: Option<Round>) {
        let Some(key) = self.proposing(ask).map(|proposing| proposing.key.clone()) else { return };
        let route = self.route_of(&key);
        if let Some(proposing) = self.proposing(ask) {
            proposing.route = route;
            proposing.stage = Stage::Asking { round, heard: Vec::new(), refused: Vec::new() };
        }
        self.send_ballot(t, ask);
    }

    /// Sends to every replica that has not answered, to this node last: its answer may come at once.
    fn send_ballot(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let me = self.me;
        let Some(proposing) = self.proposing(ask) else { return };
        let (key, mut nodes) = (proposing.key.clone(), proposing.silent());
        nodes.sort_by_key(|node| *node == me);
        enum Question {
            Prepare(Option<Round>),
            Accept(Bytes, Vec<RequestNote>),
        }
        let request = proposing.request();
        let question = match &proposing.stage {
            Stage::Waiting => return,
            Stage::Asking { round, .. } => Question::Prepare(*round),
            Stage::Accepting { record, notes, .. } => Question::Accept(record.clone(), notes.clone()),
        };
        proposing.wake_at = t.now.at.after(ASK_AGAIN_AFTER);
        let wake_at = proposing.wake_at;
        self.alarms.set(wake_at, ask);
        for node in nodes {
            let key = key.clone();
            match &question {
                Question::Prepare(round) if node == me => {
                    self.step_prepare(t, me, ask, &key, *round, request)
                }
                // What it is to remember it has remembered already.
                Question::Accept(record, _) if node == me => {
                    self.step_accept(t, me, ask, &key, record.clone(), &[]);
                }
                Question::Prepare(round) => {
                    self.send(t, node, Frame::Prepare { ask, key, round: *round, request });
                }
                Question::Accept(record, notes) => {
                    let (record, notes) = (record.clone(), notes.clone());
                    self.send(t, node, Frame::Accept { ask, key, record, notes });
                }
            }
        }
    }

    /// An answer to a ballot, of another node or of this one.
    pub(in crate::mesh) fn step_ballot_answer(&mut self, t: &mut Turn<'_>, from: NodeId, frame: Frame) {
        match frame {
            Frame::Promised { ask, round, granted, prior, record, marks, attempts } => {
                if !self.is_asking(ask, round) {
                    return;
                }
                self.time(t, from, ask);
                let decode = |bytes: Option<Bytes>| match bytes {
                    Some(bytes) => Record::decode(bytes).map(Some),
                    None => Some(None),
                };
                let (Some(record), Some(attempts)) = (decode(record), decode(attempts)) else { return };
                let heard = Heard { from, prior, record, marks, attempts };
                if granted { self.promised(t, ask, heard) } else { self.refused(t, from, ask, prior) }
            }
            Frame::Accepted { ask, ballot, passed } if self.is_proposing(ask, ballot) => {
                self.time(t, from, ask);
                match passed {
                    None => self.accepted(t, from, ask),
                    passed => self.refused(t, from, ask, passed),
                }
            }
            Frame::Declined { ask } => self.decline_proposing(t, ask),
            _ => {}
        }
    }

    /// A replica is not in step, does not serve yet or has no room: in a moment it may answer.
    pub(in crate::mesh) fn decline_proposing(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let Some(pending) = self.operations.get(&ask) else { return };
        let at = t.now.at.after(t.now.at.since(pending.started).max(DECLINED_ASK_AGAIN_AFTER));
        if let Some(proposing) = self.proposing(ask).filter(|proposing| at < proposing.wake_at) {
            proposing.wake_at = at;
            self.alarms.set(at, ask);
        }
    }

    /// Whether an answer is one to what is asked now, and not to what the same operation asked before.
    fn is_asking(&mut self, ask: Ask, wanted: Option<Round>) -> bool {
        let stage = self.proposing(ask).map(|proposing| &proposing.stage);
        matches!(stage, Some(Stage::Asking { round, .. }) if *round == wanted)
    }

    fn is_proposing(&mut self, ask: Ask, wanted: Ballot) -> bool {
        let stage = self.proposing(ask).map(|proposing| &proposing.stage);
        matches!(stage, Some(Stage::Accepting { ballot, .. }) if *ballot == wanted)
    }

    fn promised(&mut self, t: &mut Turn<'_>, ask: Ask, answer: Heard) {
        let Some(proposing) = self.proposing(ask) else { return };
        let is_replica = proposing.route.contains(answer.from);
        let Stage::Asking { round, heard, .. } = &mut proposing.stage else { return };
        if !is_replica || heard.iter().any(|other| other.from == answer.from) {
            return;
        }
        let round = *round;
        proposing.seen = proposing.seen.max(answer.prior);
        let Stage::Asking { heard, .. } = &mut proposing.stage else { return };
        heard.push(answer);
        let nodes: Vec<NodeId> = heard.iter().map(|heard| heard.from).collect();
        if !proposing.is_met(&nodes) {
            return;
        }
        let Stage::Asking { heard, .. } = &mut proposing.stage else { return };
        let heard = std::mem::take(heard);
        proposing.stage = Stage::Waiting;
        let is_settled = Basis::is_settled(&heard);
        if round.is_none() && !is_settled {
            let round = self.next_round(t, ask).filter(|_| self.is_serving());
            return match round {
                Some(_) => self.ask_replicas(t, ask, round),
                None => self.answer_proposing(t, ask, Reply::Refused(Code::NotInStep)),
            };
        }
        let key = self.proposing(ask).map(|proposing| proposing.key.clone());
        let Some(key) = key else { return };
        let attempts = heard.iter().filter_map(|heard| heard.attempts.as_ref());
        self.remember_heard(t, ask, &key, attempts);
        let mine = self.load(t, &key).record.filter(|_| self.keeps_key(&key) && !is_settled);
        let records = heard.iter().filter_map(|heard| heard.record.clone()).chain(mine);
        let (record, seq) = self.join(t, &key, records.collect::<Vec<_>>().into_iter());
        let gone = |record: &Record| heard.iter().any(|heard| heard.marks.cover(record));
        let record = record.filter(|record| !gone(record));
        let ballot = round.unwrap_or_default().first_ballot();
        if seq > Seq(0) {
            // Conflicts found in the merge are durable before a replica gets the record that hides them.
            let then = Then::Propose(ask, record.map(Box::new), ballot);
            return self.after(t, seq, then);
        }
        self.go_on(t, ask, Basis { record, is_settled }, ballot);
    }

    /// What was joined is durable, as far as something was lost in it.
    pub(in crate::mesh) fn propose_joined(
        &mut self,
        t: &mut Turn<'_>,
        ask: Ask,
        record: Option<Box<Record>>,
        ballot: Ballot,
    ) {
        let waits = |proposing: &&mut Proposing| matches!(proposing.stage, Stage::Waiting);
        if self.proposing(ask).filter(waits).is_some() && ballot.round.epoch == self.topology.epoch {
            let record = record.map(|record| *record);
            self.go_on(t, ask, Basis { record, is_settled: false }, ballot);
        }
    }

    fn keeps_key(&self, key: &Key) -> bool {
        self.shard_of(key).is_some_and(|shard| self.keeps(shard))
    }

    /// Enough replicas have answered: replies to the client, or proposes.
    fn go_on(&mut self, t: &mut Turn<'_>, ask: Ask, basis: Basis, ballot: Ballot) {
        if self.operations.get(&ask).is_some_and(|pending| pending.deadline <= t.now.at) {
            // The client is not waiting any more: nothing is begun.
            return self.expire(t, ask);
        }
        let Some(Pending { operation: Operation::Propose(proposing), started, deadline }) = self.finish(ask)
        else {
            return;
        };
        let verdict = self.judge(t, &proposing, basis, ballot);
        let operation = Operation::Propose(proposing);
        self.operations.insert(ask, Pending { operation, started, deadline });
        match verdict {
            Verdict::Tell(reply) => self.answer_proposing(t, ask, reply),
            Verdict::Propose(proposal) => self.send_proposal(t, ask, *proposal, ballot),
        }
    }

    fn send_proposal(&mut self, t: &mut Turn<'_>, ask: Ask, proposal: Proposal, ballot: Ballot) {
        let Proposal { record, reply, dot, notes } = proposal;
        let Some(proposing) = self.proposing(ask) else { return };
        proposing.has_proposed = true;
        let key = proposing.key.clone();
        if let Some(dot) = dot {
            proposing.proposed.push(dot);
            proposing.result = Some(Box::new(record.clone()));
        }
        proposing.stage = Stage::Accepting {
            ballot,
            record: record.encode(),
            notes,
            reply,
            acked: Vec::new(),
            refused: Vec::new(),
        };
        // This node has what it has written, whatever it has promised to others meanwhile: they rely on that when they
        // compare. It counts as accepted only if its own promise allows it.
        if let Some(shard) = self.shard_of(&key).filter(|shard| dot.is_some() && self.keeps(*shard)) {
            self.absorb(t, &key, shard, &record, Why::Repair);
        }
        self.send_ballot(t, ask);
    }

    fn accepted(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask) {
        let me = self.me;
        let Some(proposing) = self.proposing(ask) else { return };
        let wanted = proposing.wanted();
        let is_replica = proposing.route.contains(from);
        let Stage::Accepting { acked, ballot, .. } = &mut proposing.stage else { return };
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
            let Stage::Accepting { reply, .. } = &mut proposing.stage else { return };
            let reply = reply.take();
            if leads {
                self.ballots.lead(&key, ballot);
            }
            match reply {
                Some(reply) => self.answer_proposing(t, ask, reply),
                // What the change is made of is decided now.
                None => return self.propose(t, ask),
            }
        }
        if self.proposing(ask).is_some_and(|proposing| proposing.answered && proposing.silent().is_empty()) {
            self.finish(ask);
        }
    }

    /// A replica has promised a higher round.
    fn refused(&mut self, t: &mut Turn<'_>, from: NodeId, ask: Ask, passed: Option<Round>) {
        let me = self.me;
        let Some(proposing) = self.proposing(ask) else { return };
        let is_replica = proposing.route.contains(from);
        let (Stage::Asking { refused, .. } | Stage::Accepting { refused, .. }) = &mut proposing.stage else {
            return;
        };
        if !is_replica || refused.contains(&from) {
            return;
        }
        refused.push(from);
        let refused = refused.clone();
        proposing.seen = proposing.seen.max(passed);
        let (key, in_reach) = (proposing.key.clone(), proposing.is_in_reach(&refused));
        self.ballots.leads.remove(&key);
        let Some(proposing) = self.proposing(ask) else { return };
        if proposing.answered || in_reach {
            return;
        }
        proposing.stage = Stage::Waiting;
        proposing.refusals += 1;
        let at = t.now.at.after(pause(me, ask, proposing.refusals));
        proposing.wake_at = at;
        self.alarms.set(at, ask);
    }

    /// Asks again, or tries again.
    pub(in crate::mesh) fn ring_proposing(&mut self, t: &mut Turn<'_>, ask: Ask) {
        let is_due = |proposing: &&mut Proposing| !proposing.answered && proposing.wake_at <= t.now.at;
        let Some(proposing) = self.proposing(ask).filter(is_due) else { return };
        let (is_waiting, key) = (matches!(proposing.stage, Stage::Waiting), proposing.key.clone());
        let is_read = matches!(proposing.goal, Goal::Read);
        let is_first = is_read || self.ballots.queues.get(&key).and_then(|queue| queue.front()) == Some(&ask);
        match is_waiting {
            true if is_first => self.propose(t, ask),
            true => {}
            false => self.send_ballot(t, ask),
        }
    }

    fn answer_proposing(&mut self, t: &mut Turn<'_>, ask: Ask, reply: Reply) {
        let Some(proposing) = self.proposing(ask) else { return };
        proposing.answered = true;
        let (client, key) = (proposing.client, proposing.key.clone());
        let is_over = !matches!(proposing.stage, Stage::Accepting { .. });
        if is_over {
            self.finish(ask);
        }
        self.reply(t, client, reply);
        self.next_in_queue(t, &key, ask);
    }

    pub(in crate::mesh) fn expire_proposing(&mut self, t: &mut Turn<'_>, ask: Ask, proposing: Proposing) {
        let me = self.me;
        let has_record = matches!(proposing.stage, Stage::Accepting { .. }) && proposing.route.contains(me);
        for node in proposing.silent().into_iter().filter(|node| *node != me) {
            self.peers.silent(node, t.now.at);
            if has_record {
                self.hint(t, node, &proposing.key);
            }
        }
        if !proposing.answered {
            self.ballots.leads.remove(&proposing.key);
            self.reply(t, proposing.client, proposing.open());
        }
        self.next_in_queue(t, &proposing.key, ask);
    }
}

/// The epoch of the key's home, which every write of the home carries.
fn home_epoch(write: &Write) -> Option<u64> {
    let fence = write.attributes.fence.as_ref().filter(|fence| fence.lock == home::LOCK);
    fence.filter(|_| write.attributes.home.is_some()).map(|fence| fence.token)
}

/// Longer with every refusal, and not the same on two nodes.
fn pause(node: NodeId, ask: Ask, refusals: u32) -> Duration {
    let most = PAUSE_MIN * 2u32.pow(refusals.min(PAUSE_DOUBLINGS_MAX));
    let chance = base::rng::mix(node.0 ^ base::rng::mix(ask.0 ^ u64::from(refusals) << 32));
    PAUSE_MIN + most.mul_f64((chance % 1_000) as f64 / 1_000.0)
}
