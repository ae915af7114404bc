//! That parts of one snapshot never become parts of another.

use super::*;
use base::codec::{Reader, put_bytes, put_varint};
use base::mutant::plant;

const TO: u64 = 9;

/// What a leader announces, in the bytes of a peer stream.
fn announced(from: u64, index: u64) -> Message {
    let mut bytes = vec![5];
    for number in [TO, from, 4, 0, 0, 0, 0, 0, 0] {
        put_varint(&mut bytes, number);
    }
    bytes.push(0);
    put_bytes(&mut bytes, b"");
    for number in [0, 4, index, 2, from, TO, 0, 0] {
        put_varint(&mut bytes, number);
    }
    Message::decode(&mut Reader::new(bytes.into())).expect("a valid announcement")
}

fn begin(staging: &mut SnapshotReceiver, from: u64, id: u64, index: u64) -> u64 {
    let part = SnapshotPart::Begin(announced(from, index));
    match staging.on_part(NodeId(from), id, 0, part, Index(1)) {
        PartOutcome::Do(StagingStep::Begin { id }) => id,
        _ => panic!("a snapshot that leads further is begun"),
    }
}

fn at(index: u64) -> Position {
    Position { term: base::Term(4), index: Index(index) }
}

#[test]
fn two_leaders_that_chose_the_same_number_are_told_apart() {
    plant(None);
    assert_eq!(report_of_the_first_after_the_second_began(), None);
}

#[test]
fn by_the_senders_number_the_second_would_be_installed_half_filled() {
    plant(Some(Mutant::StagedByForeignNumber.into()));
    assert_eq!(report_of_the_first_after_the_second_began(), Some(NodeId(2)));
}

/// The sender whose snapshot counts as complete when the report of the first store arrives late.
fn report_of_the_first_after_the_second_began() -> Option<NodeId> {
    let mut staging = SnapshotReceiver::default();
    let first = begin(&mut staging, 1, 77, 10);
    assert!(matches!(
        staging.on_part(NodeId(1), 77, 1, SnapshotPart::End, Index(1)),
        PartOutcome::Do(StagingStep::Finish { id }) if id == first
    ));
    begin(&mut staging, 2, 77, 10);
    match staging.on_staged(first, Some(at(10)), None) {
        StagedOutcome::Complete(message) => Some(message.from()),
        _ => None,
    }
}

#[test]
fn a_missing_part_ends_the_attempt() {
    let mut staging = SnapshotReceiver::default();
    let stage = begin(&mut staging, 1, 77, 10);
    let rows = || SnapshotPart::Rows(Bytes::from_static(b"rows"));
    assert!(matches!(staging.on_part(NodeId(1), 77, 2, rows(), Index(1)), PartOutcome::Nothing));
    assert!(matches!(staging.on_part(NodeId(1), 77, 1, rows(), Index(1)), PartOutcome::Nothing));
    assert_eq!(staging.on_staged(stage, Some(at(10)), None), StagedOutcome::Nothing);
}

#[test]
fn rows_that_do_not_stand_where_they_were_announced_are_not_taken() {
    let mut staging = SnapshotReceiver::default();
    let stage = begin(&mut staging, 1, 77, 10);
    assert_eq!(staging.on_staged(stage, Some(at(9)), None), StagedOutcome::Forged(NodeId(1)));
}

#[test]
fn a_table_of_members_that_was_not_announced_is_not_taken() {
    let mut staging = SnapshotReceiver::default();
    let stage = begin(&mut staging, 1, 77, 10);
    let alone = Config { voters: vec![NodeId(TO)], ..Config::default() };
    assert_eq!(staging.on_staged(stage, Some(at(10)), Some(&alone)), StagedOutcome::Forged(NodeId(1)));
}

/// Whether another snapshot is begun while raft has not said what becomes of the one before.
fn begins_over_an_offer() -> bool {
    let mut staging = SnapshotReceiver::default();
    let stage = begin(&mut staging, 1, 77, 10);
    assert!(matches!(staging.on_staged(stage, Some(at(10)), None), StagedOutcome::Complete(_)));
    let part = SnapshotPart::Begin(announced(2, 12));
    let begun = matches!(staging.on_part(NodeId(2), 78, 0, part, Index(1)), PartOutcome::Do(_));
    staging.on_decided();
    let part = SnapshotPart::Begin(announced(2, 12));
    assert!(matches!(staging.on_part(NodeId(2), 78, 0, part, Index(1)), PartOutcome::Do(_)));
    begun
}

#[test]
fn what_raft_is_offered_is_not_touched_until_it_has_decided() {
    plant(None);
    assert!(!begins_over_an_offer());
    plant(Some(Mutant::StagedUnchecked.into()));
    assert!(begins_over_an_offer());
    plant(None);
}

#[test]
fn announcements_that_no_member_makes_are_refused() {
    let mut bytes = Vec::new();
    announced(1, 10).encode(&mut bytes);
    // The term of the announced position is that of a later term than the message's.
    let at = bytes.len() - 6;
    bytes[at] = 5;
    let forged = Message::decode(&mut Reader::new(bytes.into())).expect("it can be read");
    let received =
        SnapshotReceiver::default().on_part(NodeId(1), 77, 0, SnapshotPart::Begin(forged), Index(1));
    assert!(matches!(received, PartOutcome::Refused(ProtocolViolation::Fields)));
}
