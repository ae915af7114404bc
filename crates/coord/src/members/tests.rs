//! The table of members: what is refused in which words, and that it reads back from its row.

use super::*;

fn member(id: u64) -> Member {
    Member {
        id: NodeId(id),
        name: format!("m{id}"),
        peer_urls: vec![format!("http://m{id}:2380")],
        client_urls: vec![format!("http://m{id}:2379")],
        learner: false,
    }
}

fn founded(count: u64) -> Members {
    let mut members = Members::default();
    members.change(&MemberChange::Bootstrap((1..=count).map(member).collect())).unwrap();
    members
}

fn unstarted(id: u64) -> Member {
    Member { name: String::new(), client_urls: vec![], ..member(id) }
}

fn learner(id: u64) -> Member {
    Member { learner: true, ..unstarted(id) }
}

fn promote(id: u64) -> MemberChange {
    MemberChange::Promote { id: NodeId(id), caught_up: true }
}

#[test]
fn a_table_is_founded_once() {
    let mut members = founded(3);
    members.change(&MemberChange::Bootstrap(vec![member(9)])).unwrap();
    assert_eq!(members.voters(), [NodeId(1), NodeId(2), NodeId(3)]);
}

#[test]
fn invalid_changes_are_refused_with_etcds_messages() {
    let mut members = founded(3);
    let refused = |members: &mut Members, change: MemberChange| members.change(&change).unwrap_err();
    assert_eq!(refused(&mut members, MemberChange::Add(member(2))), Code::MemberExists);
    let same_url = Member { id: NodeId(7), ..member(2) };
    assert_eq!(refused(&mut members, MemberChange::Add(same_url)), Code::PeerUrlExists);
    assert_eq!(refused(&mut members, MemberChange::Remove(NodeId(9))), Code::MemberNotFound);
    assert_eq!(refused(&mut members, promote(9)), Code::MemberNotFound);
    assert_eq!(refused(&mut members, promote(2)), Code::MemberNotLearner);
    members.change(&MemberChange::Add(learner(4))).unwrap();
    assert_eq!(refused(&mut members, MemberChange::Add(learner(5))), Code::TooManyLearners);
    let early = MemberChange::Promote { id: NodeId(4), caught_up: false };
    assert_eq!(refused(&mut members, early), Code::LearnerNotReady);
    let taken = MemberChange::Update { id: NodeId(4), peer_urls: member(1).peer_urls };
    assert_eq!(refused(&mut members, taken), Code::PeerUrlExists);
    let unknown = MemberChange::Update { id: NodeId(9), peer_urls: vec![] };
    assert_eq!(refused(&mut members, unknown), Code::MemberNotFound);
}

#[test]
fn a_cluster_grows_only_while_those_who_started_are_a_quorum_of_it() {
    let mut members = founded(1);
    members.change(&MemberChange::Add(unstarted(2))).unwrap();
    let third = MemberChange::Add(unstarted(3));
    assert_eq!(members.change(&third), Err(Code::NotEnoughStartedMembers));
    let publish = MemberChange::Publish {
        id: NodeId(2),
        name: "m2".into(),
        client_urls: vec!["http://m2:2379".into()],
    };
    members.change(&publish).unwrap();
    members.change(&third).unwrap();
}

#[test]
fn the_last_voters_stay_and_a_removed_member_never_returns() {
    let mut members = founded(2);
    members.change(&MemberChange::Remove(NodeId(1))).unwrap();
    assert!(members.is_removed(NodeId(1)));
    assert_eq!(members.change(&MemberChange::Add(member(1))), Err(Code::MemberExists));
    assert_eq!(members.change(&MemberChange::Remove(NodeId(2))), Err(Code::NotEnoughStartedMembers));
    assert_eq!(members.voters(), [NodeId(2)]);
}

#[test]
fn a_learner_that_has_caught_up_gets_its_vote() {
    let mut members = founded(3);
    members.change(&MemberChange::Add(learner(4))).unwrap();
    assert_eq!(members.learners(), [NodeId(4)]);
    members.change(&promote(4)).unwrap();
    assert_eq!(members.learners(), []);
    assert_eq!(members.voters().len(), 4);
}

#[test]
fn the_row_reads_back_and_a_cut_row_is_refused() {
    let mut members = founded(3);
    members.change(&MemberChange::Add(learner(u64::MAX))).unwrap();
    members.change(&MemberChange::Remove(NodeId(2))).unwrap();
    let row = Bytes::from(members.encode());
    assert_eq!(Members::decode(row.clone()), Some(members));
    for cut in 0..row.len() {
        assert_eq!(Members::decode(row.slice(..cut)), None, "{cut}");
    }
}

#[test]
fn a_removed_member_may_go_when_a_majority_of_voters_knows() {
    let mut members = founded(4);
    members.change(&MemberChange::Remove(NodeId(4))).unwrap();
    members.change(&MemberChange::Add(learner(5))).unwrap();
    let can =
        |know: &[u64]| members.can_release_removed(NodeId(4), &know.iter().map(|id| NodeId(*id)).collect());
    assert!(!can(&[]) && !can(&[1]), "two of three may not know");
    assert!(!can(&[1, 4, 5]), "neither it nor a learner counts");
    assert!(can(&[1, 3]) && can(&[1, 2, 3]));
    let mut pair = founded(2);
    pair.change(&MemberChange::Remove(NodeId(2))).unwrap();
    assert!(!pair.can_release_removed(NodeId(2), &BTreeSet::new()));
    assert!(pair.can_release_removed(NodeId(2), &BTreeSet::from([NodeId(1)])));
}

fn replace(old: u64, new: u64) -> MemberChange {
    MemberChange::Replace { old: NodeId(old), new: unstarted(new) }
}

#[test]
fn a_replacement_counts_twice_until_it_is_settled() {
    let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    let mut members = founded(3);
    members.change(&replace(3, 4)).unwrap();
    assert_eq!((members.voters(), members.outgoing()), (ids(&[1, 2, 4]), ids(&[1, 2, 3])));
    assert!(!members.is_removed(NodeId(3)), "its vote still counts");
    assert_eq!(Members::decode(members.encode().into()), Some(members.clone()));
    for meanwhile in [replace(2, 5), MemberChange::Remove(NodeId(1)), MemberChange::Add(unstarted(5))] {
        assert_eq!(members.change(&meanwhile), Err(Code::UnhealthyCluster));
    }
    members.change(&MemberChange::FinishReplacement { new: NodeId(9) }).unwrap();
    assert!(members.replacement().is_some(), "that was another one");
    members.change(&MemberChange::FinishReplacement { new: NodeId(4) }).unwrap();
    assert_eq!((members.voters(), members.outgoing()), (ids(&[1, 2, 4]), ids(&[])));
    assert!(members.is_removed(NodeId(3)));
    members.change(&MemberChange::FinishReplacement { new: NodeId(4) }).unwrap();
    assert_eq!(Members::decode(members.encode().into()), Some(members));
}

#[test]
fn a_replacement_needs_both_majorities_among_those_who_stay() {
    assert_eq!(founded(1).change(&replace(1, 4)), Err(Code::NotEnoughStartedMembers));
    assert_eq!(founded(2).change(&replace(2, 4)), Err(Code::NotEnoughStartedMembers));
    let mut members = founded(3);
    assert_eq!(members.change(&replace(7, 4)), Err(Code::MemberNotFound));
    assert_eq!(members.change(&replace(3, 2)), Err(Code::MemberExists));
    let same_place = Member { peer_urls: member(3).peer_urls, ..unstarted(4) };
    let change = MemberChange::Replace { old: NodeId(3), new: same_place };
    assert_eq!(members.change(&change), Err(Code::PeerUrlExists));
}
