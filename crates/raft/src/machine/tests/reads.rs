//! Rounds of the read index: which questions share one, and which must not.

use super::*;
use crate::mutant::Mutant;
use base::mutant::plant;

/// How many heartbeats of the leader are on their way.
fn heartbeats(cluster: &Cluster) -> usize {
    let kinds = cluster.kinds_sent_by(NodeId(1));
    kinds.into_iter().filter(|kind| *kind == MessageType::MsgHeartbeat).count()
}

fn contexts(cluster: &mut Cluster) -> Vec<Bytes> {
    let mut contexts: Vec<Bytes> = cluster.reads.drain(..).map(|read| read.context).collect();
    contexts.sort();
    contexts
}

/// A round whose heartbeats arrive after three more questions have come to the leader, and what that round answers.
fn late_questions() -> (Cluster, Vec<Bytes>) {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::ReadIndex(data("1")));
    let round = std::mem::take(&mut cluster.in_flight);
    assert_eq!(round.len(), 2);
    for (id, context) in [(NodeId(2), "2"), (NodeId(3), "3"), (NodeId(1), "4")] {
        cluster.step(id, Input::ReadIndex(data(context)));
    }
    cluster.settle();
    assert!(cluster.reads.is_empty(), "one round is under way, and none of its heartbeats has arrived");
    for message in round {
        cluster.step(message.to(), Input::Received(message));
    }
    for message in std::mem::take(&mut cluster.in_flight) {
        cluster.step(NodeId(1), Input::Received(message));
    }
    // The answers to followers are on their way, with the heartbeats of the next round.
    let (heartbeats, answers) = std::mem::take(&mut cluster.in_flight)
        .into_iter()
        .partition(|message| message.kind() == MessageType::MsgHeartbeat);
    cluster.in_flight = answers;
    cluster.settle();
    cluster.in_flight = heartbeats;
    let answered = contexts(&mut cluster);
    (cluster, answered)
}

#[test]
fn questions_that_come_during_a_read_round_share_the_next_one() {
    let (mut cluster, answered) = late_questions();
    assert_eq!(answered, [data("1")], "the others came after its heartbeats had left");
    assert_eq!(heartbeats(&cluster), 2, "one round for three questions");
    cluster.settle();
    assert_eq!(contexts(&mut cluster), [data("2"), data("3"), data("4")]);
    plant(Some(Mutant::ReadJoinsRound.into()));
    let (_, answered) = late_questions();
    plant(None);
    assert!(answered.len() > 1, "the planted bug answers them by the round before");
}

#[test]
fn a_read_round_whose_heartbeats_are_lost_ends_with_those_of_the_next_tick() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.step(NodeId(1), Input::ReadIndex(data("lost")));
    cluster.in_flight.clear();
    cluster.step(NodeId(2), Input::ReadIndex(data("behind it")));
    cluster.settle();
    assert!(cluster.reads.is_empty());
    cluster.step(NodeId(1), Input::Tick);
    cluster.settle();
    assert_eq!(cluster.reads.len(), 2);
}
