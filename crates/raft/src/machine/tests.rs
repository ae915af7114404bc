//! Three members in one process, stepped by hand: who waits for which disk, and who leads.

mod changes;
mod doubt;
mod forged;
mod parser;
mod quorum;
mod reads;

use super::*;
use crate::restore::LogReplay;
use base::Boot;
use std::collections::BTreeMap;

const MEMBERS: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const ELECTION_TICKS: usize = 10;

fn params(id: NodeId, voters: &[NodeId]) -> Params {
    Params {
        id,
        voters: voters.to_vec(),
        heartbeat_ticks: 1,
        election_ticks: ELECTION_TICKS,
        seed: 7,
        log_keep_entries: 0,
        append_bytes: limits::APPEND_BYTES_SOFT,
        lost: Doubt::None,
        is_new: false,
    }
}

fn member(id: NodeId, voters: &[NodeId], lost: Doubt) -> Raft {
    let params = Params { lost, ..params(id, voters) };
    let mut restoring = LogReplay::default();
    if lost == Doubt::LastFrame {
        restoring.add(Record::Boot(Boot(1)));
    }
    Raft::new(params, restoring.finish(Position::ORIGIN).unwrap())
}

/// Members whose disks obey the test: a persist completes when it is told to.
struct Cluster {
    members: BTreeMap<NodeId, Raft>,
    /// Disks that complete at once.
    prompt: Vec<NodeId>,
    unsynced: BTreeMap<NodeId, Vec<u64>>,
    in_flight: Vec<Message>,
    committed: BTreeMap<NodeId, Vec<Entry>>,
    reads: Vec<ReadReady>,
    snapshots: Vec<Message>,
    events: Vec<(NodeId, RaftEvent)>,
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            members: MEMBERS.iter().map(|id| (*id, member(*id, &MEMBERS, Doubt::None))).collect(),
            prompt: MEMBERS.to_vec(),
            unsynced: BTreeMap::new(),
            in_flight: Vec::new(),
            committed: BTreeMap::new(),
            reads: Vec::new(),
            snapshots: Vec::new(),
            events: Vec::new(),
        }
    }

    fn led_by(leader: NodeId) -> Cluster {
        let mut cluster = Cluster::new();
        cluster.step(leader, Input::Campaign);
        cluster.settle();
        assert!(cluster.members[&leader].is_leader());
        cluster
    }

    fn step(&mut self, id: NodeId, input: Input) -> bool {
        let taken = self.members.get_mut(&id).unwrap().step(input);
        self.collect(id);
        taken
    }

    fn collect(&mut self, id: NodeId) {
        let mut out = Output::default();
        self.members.get_mut(&id).unwrap().collect(&mut out);
        self.in_flight.extend(out.send);
        self.committed.entry(id).or_default().extend(out.committed);
        self.reads.extend(out.reads);
        self.snapshots.extend(out.snapshots);
        self.events.extend(out.events.into_iter().map(|note| (id, note)));
        let persists: Vec<u64> = out.persist.iter().map(|persist| persist.seq).collect();
        let waiting = self.unsynced.entry(id).or_default();
        waiting.extend(persists);
        if self.prompt.contains(&id) {
            self.sync(id);
        }
    }

    fn sync(&mut self, id: NodeId) {
        let last = self.unsynced.entry(id).or_default().drain(..).next_back();
        if let Some(last) = last {
            self.step(id, Input::Persisted(last));
        }
    }

    /// Delivers all messages until none is left.
    fn settle(&mut self) {
        while !self.in_flight.is_empty() {
            for message in std::mem::take(&mut self.in_flight) {
                self.step(message.to(), Input::Received(message));
            }
        }
    }

    fn kinds_sent_by(&self, id: NodeId) -> Vec<MessageType> {
        self.in_flight.iter().filter(|message| message.from() == id).map(Message::kind).collect()
    }

    fn tick_all(&mut self, ids: &[NodeId], ticks: usize) {
        for _ in 0..ticks {
            for id in ids {
                self.step(*id, Input::Tick);
            }
            let lost = |message: &Message| !ids.contains(&message.to());
            self.in_flight.retain(|message| !lost(message));
            self.settle_among(ids);
        }
    }

    fn settle_among(&mut self, ids: &[NodeId]) {
        while !self.in_flight.is_empty() {
            for message in std::mem::take(&mut self.in_flight) {
                if ids.contains(&message.to()) {
                    self.step(message.to(), Input::Received(message));
                }
            }
        }
    }
}

fn data(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn a_proposal_is_committed_everywhere_once() {
    let mut cluster = Cluster::led_by(NodeId(1));
    assert!(cluster.step(NodeId(1), Input::Propose(data("x"))));
    cluster.settle();
    for id in MEMBERS {
        let committed = &cluster.committed[&id];
        assert_eq!(committed.iter().filter(|entry| entry.data == "x").count(), 1, "{id}");
    }
    assert!(!cluster.step(NodeId(2), Input::Propose(data("y"))), "a follower does not order");
}

#[test]
fn a_followers_vote_for_an_entry_waits_for_its_disk_and_a_heartbeats_answer_does_not() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.prompt.retain(|id| *id != NodeId(2));
    cluster.step(NodeId(1), Input::Propose(data("x")));
    let appends = std::mem::take(&mut cluster.in_flight);
    for message in appends.into_iter().filter(|message| message.to() == NodeId(2)) {
        cluster.step(NodeId(2), Input::Received(message));
    }
    assert_eq!(cluster.kinds_sent_by(NodeId(2)), [], "nothing vouches for what is not durable");
    cluster.step(NodeId(1), Input::Tick);
    let heartbeats = std::mem::take(&mut cluster.in_flight);
    for message in heartbeats.into_iter().filter(|message| message.to() == NodeId(2)) {
        cluster.step(NodeId(2), Input::Received(message));
    }
    assert_eq!(cluster.kinds_sent_by(NodeId(2)), [MessageType::MsgHeartbeatResponse]);
    cluster.sync(NodeId(2));
    assert!(cluster.kinds_sent_by(NodeId(2)).contains(&MessageType::MsgAppendResponse));
}

#[test]
fn the_leader_commits_by_its_followers_disks_but_applies_only_what_its_own_disk_has() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.prompt.retain(|id| *id != NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("x")));
    cluster.settle();
    let has_x = |cluster: &Cluster, id: NodeId| cluster.committed[&id].iter().any(|entry| entry.data == "x");
    assert!(cluster.members[&NodeId(1)].status().committed >= cluster.members[&NodeId(1)].status().last);
    assert!(!has_x(&cluster, NodeId(1)), "not before the local disk has it");
    cluster.sync(NodeId(1));
    assert!(has_x(&cluster, NodeId(1)));
}

#[test]
fn a_single_member_does_not_commit_before_its_disk() {
    let mut raft = member(NodeId(1), &[NodeId(1)], Doubt::LastFrame);
    let mut out = Output::default();
    assert!(raft.step(Input::Campaign), "a single member does not abstain");
    raft.collect(&mut out);
    assert!(raft.step(Input::Propose(data("x"))));
    raft.collect(&mut out);
    assert!(out.committed.is_empty());
    let last = out.persist.last().unwrap().seq;
    raft.step(Input::Persisted(last));
    raft.collect(&mut out);
    assert!(out.committed.iter().any(|entry| entry.data == "x"));
}

#[test]
fn a_self_elected_leader_sends_nothing_before_its_vote_is_durable() {
    let mut raft = member(NodeId(1), &[NodeId(1)], Doubt::None);
    raft.step(Input::Configure(Config {
        voters: vec![NodeId(1)],
        learners: vec![NodeId(2)],
        ..Config::default()
    }));
    let mut out = Output::default();
    assert!(raft.step(Input::Campaign));
    raft.collect(&mut out);
    assert!(raft.is_leader());
    assert!(raft.step(Input::Propose(data("x"))));
    raft.collect(&mut out);
    assert_eq!(
        out.send.len() + out.snapshots.len(),
        0,
        "the same term could be led again with other entries"
    );
    let last = out.persist.last().unwrap().seq;
    raft.step(Input::Persisted(last));
    raft.collect(&mut out);
    assert!(out.send.iter().any(|message| message.kind() == MessageType::MsgAppend));
}

/// A restarted member with unapplied configuration changes in its log at these indexes.
fn back_with_changes(changes: &[u64]) -> Raft {
    let mut restoring = LogReplay::default();
    let entry = |index| Entry {
        at: Position { term: Term(1), index: Index(index) },
        data: data("x"),
        reconfigures: changes.contains(&index),
    };
    restoring.add(Record::Boot(Boot(1)));
    restoring.add(Record::Vote { term: Term(1), vote: Some(NodeId(1)), commit: Index(1) });
    restoring.add(Record::Entries((1..=5).map(entry).collect()));
    Raft::new(params(NodeId(1), &MEMBERS), restoring.finish(Position::ORIGIN).unwrap())
}

#[test]
fn a_restarted_member_applies_the_first_of_two_changes_before_it_campaigns() {
    let mut raft = back_with_changes(&[2, 4]);
    let mut out = Output::default();
    raft.collect(&mut out);
    let committed: Vec<u64> = out.committed.iter().map(|entry| entry.at.index.0).collect();
    assert_eq!(committed, [1, 2]);
    let stands = |raft: &mut Raft| {
        raft.step(Input::Campaign);
        raft.status().role == Role::Candidate
    };
    assert!(!stands(&mut raft), "the first change is committed and not applied");
    raft.step(Input::Configure(Config { voters: MEMBERS[..2].to_vec(), ..Config::default() }));
    raft.step(Input::Applied(Index(2)));
    assert!(stands(&mut raft), "the second is not known to be committed");
}

#[test]
fn an_unknown_change_prevents_no_candidacy() {
    let mut raft = back_with_changes(&[4]);
    raft.step(Input::Campaign);
    assert_eq!(raft.status().role, Role::Candidate);
}

#[test]
fn that_the_cluster_was_changed_is_durable_by_itself() {
    let mut raft = member(NodeId(1), &MEMBERS, Doubt::None);
    let mut out = Output::default();
    raft.step(Input::Configure(Config { voters: MEMBERS[..2].to_vec(), learners: vec![], outgoing: vec![] }));
    raft.collect(&mut out);
    let records = out.persist.iter().flat_map(|persist| &persist.records);
    assert_eq!(records.filter(|record| matches!(record, Record::Vote { .. })).count(), 1);
}

#[test]
fn reads_are_confirmed_by_a_quorum_through_leader_and_follower() {
    let mut cluster = Cluster::led_by(NodeId(1));
    for (id, context) in [(NodeId(1), data("of the leader")), (NodeId(2), data("of a follower"))] {
        cluster.step(id, Input::ReadIndex(context.clone()));
        assert!(cluster.reads.is_empty(), "no quorum has confirmed yet");
        cluster.settle();
        let committed = cluster.members[&NodeId(1)].status().committed;
        assert_eq!(cluster.reads.drain(..).next(), Some(ReadReady { context, index: committed }));
    }
}

#[test]
fn followers_that_see_the_leader_vanish_elect_another_without_waiting_out_the_timeout() {
    let mut cluster = Cluster::led_by(NodeId(1));
    let rest = [NodeId(2), NodeId(3)];
    for id in rest {
        cluster.step(id, Input::Lost(NodeId(1)));
    }
    cluster.tick_all(&rest, ELECTION_TICKS / 2);
    assert!(rest.iter().any(|id| cluster.members[id].is_leader()));
}

#[test]
fn one_broken_connection_does_not_unseat_a_leader_that_others_hear() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(2), Input::Lost(NodeId(1)));
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 3);
    assert!(cluster.members[&NodeId(1)].is_leader());
    assert_eq!(cluster.members[&NodeId(1)].status().term, Term(1));
}

#[test]
fn a_member_that_lost_its_disk_does_not_elect_one_that_lacks_what_it_vouched_for() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("acknowledged by 1 and 2")));
    cluster.settle_among(&[NodeId(1), NodeId(2)]);
    cluster.members.insert(NodeId(2), member(NodeId(2), &MEMBERS, Doubt::None));
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 6);
    assert!(!rest.iter().any(|id| cluster.members[id].is_leader()), "member 2, which has it, must come back");
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 4);
    assert!(cluster.members[&NodeId(1)].is_leader());
    assert!(cluster.committed[&NodeId(2)].iter().any(|entry| entry.data == "acknowledged by 1 and 2"));
}

#[test]
fn a_member_that_lost_its_disk_is_brought_back_by_the_leader_that_it_had() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("before")));
    cluster.settle_among(&MEMBERS);
    cluster.members.insert(NodeId(2), member(NodeId(2), &MEMBERS, Doubt::None));
    cluster.committed.remove(&NodeId(2));
    let before = cluster.members[&NodeId(1)].status();
    cluster.step(NodeId(1), Input::Propose(data("after")));
    cluster.settle_among(&MEMBERS);
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 10);
    let status = cluster.members[&NodeId(1)].status();
    assert_eq!((status.role, status.term), (before.role, before.term), "it has led all the time");
    let brought: Vec<Bytes> = cluster.committed[&NodeId(2)].iter().map(|entry| entry.data.clone()).collect();
    assert!(brought.contains(&data("before")) && brought.contains(&data("after")), "{brought:?}");
}

#[test]
fn a_member_with_a_new_id_votes_at_once() {
    let with_entries = || {
        let mut restoring = LogReplay::default();
        let at = Position { term: Term(1), index: Index(1) };
        restoring.add(Record::Boot(Boot(1)));
        restoring.add(Record::Entries(vec![Entry { at, data: data("x"), reconfigures: false }]));
        restoring.finish(Position::ORIGIN).unwrap()
    };
    for is_new in [true, false] {
        let pair = [NodeId(1), NodeId(2)];
        let mut cluster = Cluster::new();
        cluster.members.insert(NodeId(1), Raft::new(params(NodeId(1), &pair), with_entries()));
        let empty = LogReplay::default().finish(Position::ORIGIN).unwrap();
        let joins = Params { is_new, ..params(NodeId(2), &[]) };
        cluster.members.insert(NodeId(2), Raft::new(joins, empty));
        cluster.tick_all(&pair, ELECTION_TICKS * 3);
        assert_eq!(cluster.members[&NodeId(1)].is_leader(), is_new);
    }
}

#[test]
fn leadership_can_be_handed_over() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Transfer(NodeId(3)));
    cluster.settle();
    assert!(cluster.members[&NodeId(3)].is_leader());
}

#[test]
fn a_follower_behind_the_cut_is_sent_a_snapshot() {
    let mut cluster = Cluster::led_by(NodeId(1));
    for _ in 0..20 {
        cluster.step(NodeId(1), Input::Propose(data("x")));
        cluster.settle_among(&[NodeId(1), NodeId(2)]);
    }
    let at = cluster.committed[&NodeId(1)].last().unwrap().at;
    cluster.step(NodeId(1), Input::Applied(at.index));
    cluster.step(NodeId(1), Input::Flushed(at));
    cluster.tick_all(&MEMBERS, 3);
    let announced = cluster.snapshots.first().and_then(Message::snapshot_at);
    assert_eq!(announced, Some(at), "the log no longer reaches back to member 3");
}

#[test]
fn forged_messages_do_no_harm() {
    let mut cluster = Cluster::led_by(NodeId(1));
    let mut rng = base::Rng::new(5);
    let kinds = [
        MessageType::MsgHeartbeat,
        MessageType::MsgAppend,
        MessageType::MsgAppendResponse,
        MessageType::MsgRequestVote,
        MessageType::MsgHeartbeatResponse,
        MessageType::MsgRequestPreVote,
        MessageType::MsgTimeoutNow,
    ];
    for _ in 0..20_000 {
        let number = |rng: &mut base::Rng| *rng.pick(&[0, 1, 2, 3, 50, 1 << 40, 1 << 62]);
        let message = eraftpb::Message {
            msg_type: *rng.pick(&kinds),
            from: rng.between(0, 6),
            to: rng.between(0, 6),
            term: number(&mut rng) % (1 << 41),
            log_term: number(&mut rng),
            index: number(&mut rng),
            commit: number(&mut rng),
            commit_term: number(&mut rng),
            reject_hint: number(&mut rng),
            reject: rng.chance(500_000),
            ..eraftpb::Message::default()
        };
        let id = *rng.pick(&MEMBERS);
        cluster.step(id, Input::Received(Message(message)));
        cluster.in_flight.clear();
    }
}
