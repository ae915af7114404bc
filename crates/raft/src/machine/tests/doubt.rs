//! Members that restart without their disks: which candidates they elect, and when their doubt ends.

use super::*;
use base::mutant::plant;

/// Member 2 of three has lost its disk, and member 1, the leader, has sent it everything again.
fn brought_back() -> Cluster {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("before")));
    cluster.settle();
    cluster.members.insert(NodeId(2), member(NodeId(2), &MEMBERS, Doubt::None));
    cluster.step(NodeId(1), Input::Propose(data("after")));
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 3);
    assert_eq!(
        cluster.members[&NodeId(2)].status().committed,
        cluster.members[&NodeId(1)].status().committed
    );
    cluster
}

fn has_leader(cluster: &Cluster, ids: &[NodeId]) -> bool {
    ids.iter().any(|id| cluster.members[id].is_leader())
}

#[test]
fn members_of_a_new_cluster_are_not_in_doubt() {
    let cluster = Cluster::led_by(NodeId(1));
    assert!(cluster.members.values().all(|member| !member.is_in_doubt()));
}

#[test]
fn a_member_that_lost_its_disk_is_in_doubt_until_something_of_its_own_is_committed() {
    let mut cluster = brought_back();
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 6);
    assert!(!has_leader(&cluster, &rest), "what it was told first need not be all that it acknowledged once");
    cluster.step(NodeId(2), Input::OwnEntryCommitted);
    assert!(!cluster.members[&NodeId(2)].is_in_doubt());
    cluster.tick_all(&rest, ELECTION_TICKS * 3);
    assert!(has_leader(&cluster, &rest));
}

#[test]
fn no_time_ends_a_doubt() {
    let mut cluster = brought_back();
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 200);
    assert!(cluster.members[&NodeId(2)].is_in_doubt());
    assert!(!has_leader(&cluster, &rest), "the member that may have more does not come back");
}

/// Whether member 2, in doubt, still follows member 1 after it was silent for so many ticks.
fn follows_after(ticks: usize) -> bool {
    let mut cluster = brought_back();
    cluster.tick_all(&[NodeId(2), NodeId(3)], ticks);
    cluster.members[&NodeId(2)].status().leader == Some(NodeId(1))
}

#[test]
fn a_member_in_doubt_notices_that_its_leader_is_silent() {
    plant(None);
    assert!(follows_after(ELECTION_TICKS / 2));
    assert!(!follows_after(ELECTION_TICKS * 2));
    plant(Some(Mutant::SilentLeaderKept.into()));
    let follows = follows_after(ELECTION_TICKS * 2);
    plant(None);
    assert!(follows, "the planted bug keeps the leader for ever");
}

#[test]
fn a_member_that_heard_from_all_others_elects_a_candidate_with_the_longest_log() {
    let mut cluster = brought_back();
    let rest = [NodeId(2), NodeId(3)];
    let floor = cluster.members[&NodeId(3)].last();
    let beyond = Position { index: floor.index.next(), ..floor };
    let term = cluster.members[&NodeId(3)].status().term;
    cluster.step(NodeId(2), Input::FloorKnown { floor: beyond, term });
    cluster.tick_all(&rest, ELECTION_TICKS * 10);
    assert!(!has_leader(&cluster, &rest), "neither has everything");
    cluster.step(NodeId(2), Input::FloorKnown { floor, term });
    cluster.tick_all(&rest, ELECTION_TICKS * 3);
    assert!(has_leader(&cluster, &rest));
}

#[test]
fn a_vote_that_may_be_forgotten_is_not_given_again() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("before")));
    cluster.settle();
    let (floor, term) = (cluster.members[&NodeId(1)].last(), cluster.members[&NodeId(1)].status().term);
    let later = Term(term.0 + 5);
    cluster.members.insert(NodeId(2), member(NodeId(2), &MEMBERS, Doubt::None));
    cluster.step(NodeId(2), Input::FloorKnown { floor, term: later });
    let request = |term: Term| {
        Message(eraftpb::Message {
            msg_type: MessageType::MsgRequestVote,
            from: 3,
            to: 2,
            term: term.0,
            log_term: floor.term.0,
            index: floor.index.0,
            ..eraftpb::Message::default()
        })
    };
    let granted = |cluster: &mut Cluster, term: Term| {
        cluster.in_flight.clear();
        cluster.step(NodeId(2), Input::Received(request(term)));
        let answer = cluster.in_flight.iter().find(|it| it.kind() == MessageType::MsgRequestVoteResponse);
        answer.is_some_and(|answer| !answer.0.reject)
    };
    assert!(!granted(&mut cluster, later));
    assert!(granted(&mut cluster, Term(later.0 + 1)));
}

/// Member 2 comes back with everything but the last entry, which it may have acknowledged.
fn torn(last: Doubt) -> (Cluster, Position) {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("kept")));
    cluster.settle();
    let kept = cluster.members[&NodeId(2)].last();
    let mut restoring = LogReplay::default();
    restoring.add(Record::Boot(Boot(1)));
    restoring.add(Record::Vote { term: kept.term, vote: Some(NodeId(1)), commit: Index(0) });
    let entries = cluster.committed[&NodeId(2)].clone();
    restoring.add(Record::Entries(entries));
    let params = Params { lost: last, ..params(NodeId(2), &MEMBERS) };
    let raft = Raft::new(params, restoring.finish(Position::ORIGIN).unwrap());
    assert_eq!(raft.last(), kept);
    cluster.members.insert(NodeId(2), raft);
    (cluster, kept)
}

#[test]
fn a_member_in_doubt_of_its_last_frame_elects_no_candidate_that_may_lack_it() {
    let (mut cluster, _) = torn(Doubt::LastFrame);
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 100);
    assert!(!has_leader(&cluster, &rest));
    assert_eq!(cluster.members[&NodeId(2)].doubted_term(), Some(Term(1)));
    let (mut cluster, _) = torn(Doubt::None);
    cluster.tick_all(&rest, ELECTION_TICKS * 3);
    assert!(has_leader(&cluster, &rest));
}

#[test]
fn an_entry_of_a_later_term_ends_the_doubt_of_the_last_frame() {
    let (mut cluster, _) = torn(Doubt::LastFrame);
    // Member 3 is elected by 1 and 3, and brings its own entries.
    cluster.step(NodeId(1), Input::Transfer(NodeId(3)));
    cluster.settle();
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 3);
    assert!(!cluster.members[&NodeId(2)].is_in_doubt());
    let rest = [NodeId(1), NodeId(2)];
    cluster.tick_all(&rest, ELECTION_TICKS * 4);
    assert!(has_leader(&cluster, &rest));
}

#[test]
fn a_doubt_survives_further_starts_until_it_is_over() {
    let mut out = Output::default();
    let mut doubting = |records: &[Record]| {
        let mut restoring = LogReplay::default();
        records.iter().for_each(|record| restoring.add(record.clone()));
        let restored = restoring.finish(Position::ORIGIN).unwrap();
        let mut raft = Raft::new(params(NodeId(2), &MEMBERS), restored);
        let doubted = raft.is_in_doubt();
        raft.step(Input::OwnEntryCommitted);
        raft.collect(&mut out);
        doubted
    };
    assert!(doubting(&[]));
    let started = [Record::Doubt(Doubt::Everything), Record::Boot(Boot(7))];
    assert!(doubting(&started), "it may have stopped before it heard from another member");
    assert!(!doubting(&[&started[..], &[Record::Doubt(Doubt::None)]].concat()));
    assert!(!doubting(&[Record::Boot(Boot(7))]), "a log of a release without doubt records");
    let recorded: Vec<&Record> = out.persist.iter().flat_map(|persist| &persist.records).collect();
    assert_eq!(recorded, [&Record::Doubt(Doubt::None), &Record::Doubt(Doubt::None)]);
}

#[test]
fn a_store_that_was_made_of_a_backup_has_nothing_to_forget_and_one_without_its_log_has() {
    let at = Position { term: Term(3), index: Index(40) };
    for config in [None, Some(Config { voters: MEMBERS.to_vec(), ..Config::default() })] {
        let lost_its_log = config.is_some();
        let restored = RestoredState { config, ..LogReplay::default().finish(at).unwrap() };
        assert_eq!(Raft::new(params(NodeId(2), &MEMBERS), restored).is_in_doubt(), lost_its_log);
    }
}
