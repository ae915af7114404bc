//! Leaders that hear no majority, and members that have just started: the number of ticks until there is a leader.

use super::*;
use crate::mutant::Mutant;
use base::mutant::plant;

/// Ticks until another member leads, while no message reaches the leader, member 1.
fn ticks_until_replaced(cluster: &mut Cluster) -> usize {
    let rest = [NodeId(2), NodeId(3)];
    for ticks in 1..ELECTION_TICKS * 10 {
        for id in MEMBERS {
            cluster.step(id, Input::Tick);
        }
        cluster.settle_among(&rest);
        let told: Vec<_> = std::mem::take(&mut cluster.events);
        if told.iter().any(|(id, note)| *id == NodeId(1) && matches!(note, RaftEvent::SteppedDown(_))) {
            for id in rest {
                cluster.step(id, Input::Lost(NodeId(1)));
            }
        }
        if rest.iter().any(|id| cluster.members[id].is_leader()) {
            return ticks;
        }
    }
    panic!("there is no leader");
}

#[test]
fn a_leader_that_can_send_and_not_receive_is_followed_within_two_election_timeouts() {
    for early in 0..ELECTION_TICKS {
        let mut cluster = Cluster::led_by(NodeId(1));
        cluster.tick_all(&MEMBERS, early);
        let ticks = ticks_until_replaced(&mut cluster);
        assert!(ticks <= 2 * ELECTION_TICKS, "{ticks} ticks");
        assert!(!cluster.members[&NodeId(1)].is_leader());
    }
    plant(Some(Mutant::DeafLeaderStays.into()));
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.tick_all(&MEMBERS, ELECTION_TICKS / 2);
    let ticks = ticks_until_replaced(&mut cluster);
    plant(None);
    assert!(ticks > 2 * ELECTION_TICKS, "the planted bug takes longer: {ticks} ticks");
}

#[test]
fn a_leader_that_is_heard_by_a_majority_goes_on() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.tick_all(&[NodeId(1), NodeId(3)], ELECTION_TICKS * 20);
    assert!(cluster.members[&NodeId(1)].is_leader());
    assert_eq!(cluster.members[&NodeId(1)].status().term, Term(1));
}

#[test]
fn members_that_start_together_elect_before_a_whole_election_timeout_has_passed() {
    let mut cluster = Cluster::new();
    cluster.tick_all(&MEMBERS, ELECTION_TICKS - 1);
    assert!(MEMBERS.iter().any(|id| cluster.members[id].is_leader()));
}
