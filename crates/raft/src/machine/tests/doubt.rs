//! Members that come back without their disks: whom they elect, and from when on they are trusted again.

use super::*;

/// Member 2 of three has lost its disk, and member 1, who leads, has brought it everything again.
fn brought_back() -> Cluster {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::Propose(data("before")));
    cluster.settle();
    cluster.members.insert(NodeId(2), member(NodeId(2), &MEMBERS, false));
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
fn who_founds_a_cluster_has_nothing_to_forget() {
    let cluster = Cluster::led_by(NodeId(1));
    assert!(cluster.members.values().all(|member| !member.is_in_doubt()));
}

#[test]
fn a_member_that_lost_its_disk_is_in_doubt_until_something_of_its_own_is_committed() {
    let mut cluster = brought_back();
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 6);
    assert!(!has_leader(&cluster, &rest), "what it was told first need not be all that it acknowledged once");
    cluster.step(NodeId(2), Input::Vouched);
    assert!(!cluster.members[&NodeId(2)].is_in_doubt());
    cluster.tick_all(&rest, ELECTION_TICKS * 3);
    assert!(has_leader(&cluster, &rest));
}

#[test]
fn a_doubt_has_time_while_somebody_leads_and_is_bounded_when_nobody_does() {
    let mut cluster = brought_back();
    cluster.tick_all(&MEMBERS, ELECTION_TICKS * 40);
    assert!(cluster.members[&NodeId(2)].is_in_doubt());
    let rest = [NodeId(2), NodeId(3)];
    cluster.tick_all(&rest, ELECTION_TICKS * 24);
    assert!(has_leader(&cluster, &rest), "the one that has it does not come back");
}

#[test]
fn a_doubt_survives_further_starts_until_it_is_over() {
    let mut out = Output::default();
    let mut doubting = |records: &[Record]| {
        let mut restoring = Restoring::default();
        records.iter().for_each(|record| restoring.add(record.clone()));
        let restored = restoring.finish(Position::ORIGIN).unwrap();
        let mut raft = Raft::new(params(NodeId(2), &MEMBERS), restored);
        let doubted = raft.is_in_doubt();
        raft.step(Input::Vouched);
        raft.collect(&mut out);
        doubted
    };
    assert!(doubting(&[]));
    let started = [Record::Doubt(true), Record::Boot(Boot(7))];
    assert!(doubting(&started), "it may have been ended before it heard of anybody");
    assert!(!doubting(&[&started[..], &[Record::Doubt(false)]].concat()));
    assert!(!doubting(&[Record::Boot(Boot(7))]), "of a release that kept no doubts");
    let recorded: Vec<&Record> = out.persist.iter().flat_map(|persist| &persist.records).collect();
    assert_eq!(recorded, [&Record::Doubt(false), &Record::Doubt(false)]);
}

#[test]
fn a_store_that_was_made_of_a_backup_has_nothing_to_forget_and_one_without_its_log_has() {
    let at = Position { term: Term(3), index: Index(40) };
    for config in [None, Some(Config { voters: MEMBERS.to_vec(), ..Config::default() })] {
        let lost_its_log = config.is_some();
        let restored = Restored { config, ..Restoring::default().finish(at).unwrap() };
        assert_eq!(Raft::new(params(NodeId(2), &MEMBERS), restored).is_in_doubt(), lost_its_log);
    }
}
