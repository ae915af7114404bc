//! Messages that no correct member sends: they are refused with a reason, and the machine goes on.

use super::*;
use base::codec::Reader;
use base::mutant::plant;
use raft_rs::eraftpb::ConfState;
use std::panic::{AssertUnwindSafe, catch_unwind};

const FAR: u64 = 1 << 62;

fn message(kind: MessageType, from: u64, term: u64) -> eraftpb::Message {
    eraftpb::Message { msg_type: kind, to: 2, from, term, ..Default::default() }
}

/// Why member 2 of a cluster led by member 1 refuses a message, if it does.
fn refusal(cluster: &mut Cluster, forged: eraftpb::Message) -> Option<ProtocolViolation> {
    let raft = cluster.members.get_mut(&NodeId(2)).unwrap();
    raft.step(Input::Received(Message(forged)));
    let mut out = Output::default();
    raft.collect(&mut out);
    out.refused.first().map(|(_, refusal)| *refusal)
}

fn beyond_the_log() -> eraftpb::Message {
    let mut append = message(MessageType::MsgAppend, 1, 1);
    (append.index, append.commit) = (1_000, 1_000);
    append
}

#[test]
fn an_append_beyond_the_log_is_refused() {
    plant(None);
    let mut cluster = Cluster::led_by(NodeId(1));
    assert_eq!(refusal(&mut cluster, beyond_the_log()), Some(ProtocolViolation::Log));
    plant(Some(Mutant::AppendNotValidated.into()));
    let caught = catch_unwind(AssertUnwindSafe(|| refusal(&mut cluster, beyond_the_log())));
    plant(None);
    assert!(caught.is_err(), "the library ends the process on it");
}

#[test]
fn a_term_that_no_elections_can_have_reached_is_refused_from_one_peer_and_taken_from_a_majority() {
    plant(None);
    let mut cluster = Cluster::led_by(NodeId(1));
    let term = |cluster: &Cluster| cluster.members[&NodeId(2)].status().term.0;
    let before = term(&cluster);
    let heartbeat = |from, term| message(MessageType::MsgHeartbeat, from, term);
    assert_eq!(refusal(&mut cluster, heartbeat(3, FAR)), Some(ProtocolViolation::TermJump));
    assert_eq!(term(&cluster), before);
    assert_eq!(refusal(&mut cluster, heartbeat(1, FAR)), None, "two of three report this term");
    assert_eq!(term(&cluster), FAR);
    plant(Some(Mutant::TermJumpTaken.into()));
    let mut cluster = Cluster::led_by(NodeId(1));
    refusal(&mut cluster, heartbeat(3, FAR));
    plant(None);
    assert_eq!(term(&cluster), FAR, "the planted bug lets one peer move a member for ever");
}

#[test]
fn members_that_stand_at_an_impossible_term_elect_again() {
    plant(None);
    let mut cluster = Cluster::new();
    for id in MEMBERS {
        let mut restoring = LogReplay::default();
        restoring.add(Record::Boot(Boot(1)));
        restoring.add(Record::Vote { term: Term(FAR), vote: None, commit: Index::ZERO });
        let restored = restoring.finish(Position::ORIGIN).unwrap();
        cluster.members.insert(id, Raft::new(params(id, &MEMBERS), restored));
    }
    cluster.step(NodeId(1), Input::Campaign);
    for _ in 0..8 {
        for sent in std::mem::take(&mut cluster.in_flight) {
            let mut bytes = Vec::new();
            sent.encode(&mut bytes);
            let read = Message::decode(&mut Reader::new(bytes.into())).expect("it can be read by the others");
            cluster.step(read.to(), Input::Received(read));
        }
    }
    assert!(cluster.members[&NodeId(1)].is_leader());
    assert!(cluster.members[&NodeId(2)].status().term.0 > FAR);
}

fn announcement(index: u64, voters: &[u64], learners: &[u64]) -> eraftpb::Message {
    let mut snapshot = message(MessageType::MsgSnapshot, 1, 1);
    let meta = snapshot.mut_snapshot().mut_metadata();
    (meta.term, meta.index) = (1, index);
    *meta.mut_conf_state() = ConfState::from((voters.to_vec(), learners.to_vec()));
    snapshot
}

#[test]
fn a_snapshot_with_an_impossible_configuration_or_over_what_is_committed_is_refused() {
    plant(None);
    let mut cluster = Cluster::led_by(NodeId(1));
    let unlawful: [(&[u64], &[u64]); 4] =
        [(&[], &[2]), (&[1, 2], &[2]), (&[1, 2, 2], &[]), (&[0, 1, 2], &[])];
    for (voters, learners) in unlawful {
        let forged = announcement(90, voters, learners);
        assert_eq!(
            refusal(&mut cluster, forged),
            Some(ProtocolViolation::Configuration),
            "{voters:?} {learners:?}"
        );
    }
    let committed = cluster.members[&NodeId(2)].status().committed.0;
    let mut rewriting = announcement(committed, &[1, 2], &[]);
    rewriting.term = 9;
    rewriting.mut_snapshot().mut_metadata().term = 9;
    assert_eq!(refusal(&mut cluster, rewriting), Some(ProtocolViolation::Snapshot));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    plant(None);
    let mut cluster = Cluster::led_by(NodeId(1));
    let mut future = message(MessageType::MsgAppend, 1, 1);
    future.log_term = 2;
    let mut asks = message(MessageType::MsgAppendResponse, 1, 1);
    (asks.reject, asks.request_snapshot) = (true, 7);
    let mut unborn = message(MessageType::MsgAppend, 1, 1);
    unborn.entries = vec![eraftpb::Entry { index: 1, ..Default::default() }].into();
    for forged in [future, asks, unborn] {
        assert_eq!(refusal(&mut cluster, forged), Some(ProtocolViolation::Fields));
    }
}

#[test]
fn an_unrequested_vote_elects_no_candidate() {
    plant(None);
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.prompt.retain(|id| *id != NodeId(2));
    cluster.step(NodeId(1), Input::Propose(data("x")));
    cluster.settle();
    // Member 2 has the entry and not on its disk; a forged order makes it stand.
    let term = cluster.members[&NodeId(2)].status().term.0;
    cluster.step(NodeId(2), Input::Received(Message(message(MessageType::MsgTimeoutNow, 1, term))));
    let vote = message(MessageType::MsgRequestVoteResponse, 3, term + 1);
    assert_eq!(refusal(&mut cluster, vote), None, "it may be honest, and comes too early");
    assert!(!cluster.members[&NodeId(2)].is_leader());
}
