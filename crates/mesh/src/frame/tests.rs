use super::*;
use crate::actor::{Actor, RegionId};
use crate::ballot::Round;
use crate::context::Context;
use crate::op::{Attributes, BoundedChange, BoundedOp, Op};
use crate::record::{Fence, Kind};
use crate::request::Level;
use crate::request::{Missing, ScanView};
use crate::tree::Buckets;
use base::{Code, NodeId};
use proptest::prelude::*;

fn frames() -> Vec<Frame> {
    let id = OpId(u64::MAX);
    let key = Key::new(1, b"k");
    let actor = Actor { region: RegionId(9), node: NodeId(3), incarnation: 2 };
    let dot = crate::actor::Dot { actor, counter: 4 };
    let shard = Shard { partition: Partition(7), copies: 3 };
    let known = vec![(Writer::Actor(actor), Stamp(77)), (Writer::Region(RegionId(9)), Stamp(78))];
    let mut marks = Watermarks::default();
    marks.raise(RegionId(9), Stamp(5));
    let attributes = Attributes {
        context: Some(Context::of_dot(dot)),
        expires_ms: Some(5),
        fence: Some(Fence { lock: Bytes::from_static(b"l"), token: 3 }),
        home: Some(RegionId(1)),
        metadata: vec![(Bytes::from_static(b"n"), Bytes::from_static(b"v"))],
        schema: 2,
        handler: Some(Bytes::from_static(b"max")),
        operation: None,
        request: Some(11),
        level: Level::GlobalQuorum,
        after: Stamp(6),
    };
    let write = |op| Write {
        key: key.clone(),
        kind: Kind::Numeric,
        op,
        attributes: attributes.clone(),
        expect: Some(Context::of_dot(dot)),
        w: Some(2),
        sloppy: true,
    };
    let value = Bytes::from_static(b"value");
    let page = ExchangePage {
        id,
        shard,
        buckets: Buckets::from_words([3; TREE_LEAVES / 64]),
        marks: marks.clone(),
        after: None,
        upto: Some(key.clone()),
        entries: vec![ExchangeEntry {
            key: key.clone(),
            digest: 8,
            stamp: Stamp(9),
            writers: vec![RegionId(1)],
        }],
    };
    let answer = ExchangeAnswer {
        id,
        upto: None,
        records: vec![(key.clone(), value.clone())],
        wanted: vec![key.clone()],
        purged: vec![key.clone(), key.clone()],
    };
    let bounded = |change| Op::Bounded(BoundedOp { change, bound: Some(-3) });
    let ops = [
        Op::Put(value.clone()),
        Op::Delete,
        Op::Add(-4),
        Op::Assign(4),
        Op::Insert(value.clone()),
        bounded(BoundedChange::Add(1)),
        bounded(BoundedChange::Subtract(2)),
        bounded(BoundedChange::Reserve(3)),
        bounded(BoundedChange::Give { to: Actor::default(), amount: 4 }),
        bounded(BoundedChange::Want(5)),
    ];
    let mut frames: Vec<Frame> =
        ops.into_iter().map(|op| Frame::Forward { id, origin: None, write: Arc::new(write(op)) }).collect();
    let missing = Missing { nodes: vec![NodeId(3)], regions: vec![RegionId::of("r")] };
    let replies = [
        Reply::Indeterminate { acks: 1, needed: 2, missing: Missing::default() },
        Reply::Indeterminate { acks: 1, needed: 2, missing },
        Reply::Unavailable { acks: 1, needed: 2, missing: Missing::default() },
        Reply::Refused(Code::FencePassed),
    ];
    for operation in [None, Some(u64::MAX)] {
        let origin =
            WriteOrigin { stamp: Stamp(7), remaining_ms: 4_000, check: StampCheck::Replica, operation };
        frames.push(Frame::Forward { id, origin: Some(origin), write: Arc::new(write(Op::Delete)) });
    }
    frames.push(Frame::FetchFor { id, key: key.clone(), request: 77 });
    frames.push(Frame::FetchedFor { id, record: None, attempts: Some(value.clone()) });
    frames.push(Frame::Behind { id, stamp: Stamp(8), check: StampCheck::Quorum });
    frames.extend(replies.map(|reply| Frame::Forwarded { id, reply: Box::new(reply), reached: vec![] }));
    let round = Round { term: 1, epoch: Epoch(300), number: 7, node: NodeId(2), operation: 3 };
    let promised = |record: Option<Bytes>, prior: Option<Round>| {
        let (round, marks) = (Some(round), marks.clone());
        let attempts = record.clone();
        Frame::Promised { id, round, granted: prior.is_none(), prior, record, marks, attempts }
    };
    frames.extend([
        Frame::Prepare { id, key: key.clone(), round: None, request: None },
        Frame::Prepare { id, key: key.clone(), round: Some(round), request: Some(77) },
        promised(None, Some(round)),
        promised(Some(value.clone()), None),
        Frame::Accept { id, key: key.clone(), record: value.clone(), notes: vec![(77, value.clone())] },
        Frame::Accepted { id, ballot: round.first_ballot(), passed: Some(round) },
        Frame::Stored { id, outcome: StoreOutcome::KeyDecided },
        Frame::Stored { id, outcome: StoreOutcome::Refilling },
    ]);
    frames.extend([
        Frame::Store { id, key: key.clone(), record: value.clone(), reason: StoreReason::Repair },
        Frame::KeepHint { id, target: NodeId(4), key: key.clone(), record: value.clone() },
        Frame::Stored { id, outcome: StoreOutcome::Superseded(Stamp(5)) },
        Frame::Stored { id, outcome: StoreOutcome::Purged },
        Frame::Stored { id, outcome: StoreOutcome::WrongType },
        Frame::Fetch { id, key: key.clone() },
        Frame::Fetched { id, record: Some(value.clone()), marks: marks.clone() },
        Frame::Collect { id, namespace_id: 4, start: Bytes::new(), end: Some(value.clone()), limit: 100 },
        Frame::Gather { id, wanted: Box::new(gather(&value)) },
        Frame::Collected { id, records: vec![(key, value.clone())], upto: None },
        Frame::Declined { id },
        Frame::NoSpace { id },
        Frame::AskTopology,
        Frame::Topology(value),
        Frame::Hello,
        Frame::Welcome,
        Frame::Compare { id, shard, root: 4, known: known.clone() },
        Frame::Leaves { id, leaves: vec![7; TREE_LEAVES], known: known.clone(), marks: marks.clone() },
        Frame::Leaves { id, leaves: vec![], known: known.clone(), marks: marks.clone() },
        Frame::Page(Box::new(page)),
        Frame::Answer(Box::new(answer)),
        Frame::Synced { shard, known, marks },
        Frame::Replicate { id, entry: Bytes::from_static(b"entry") },
        Frame::RemoteRead { id, key: Key::new(1, b"k"), session: Bytes::from_static(b"s") },
        Frame::RemoteReadResult { id, record: None },
        Frame::List { id, after: None, limit: 7, order: ConflictOrder::Oldest },
        Frame::List { id, after: Some(Bytes::from_static(b"x")), limit: 7, order: ConflictOrder::Newest },
        Frame::Select {
            id,
            query: Box::new(Query { home: Some(RegionId(4)), limit: 7, ..Query::default() }),
        },
        Frame::Select {
            id,
            query: Box::new(Query {
                kind: Some(Kind::Set),
                since: Some(Stamp(4)),
                after: Some(Bytes::from_static(b"place")),
                ..Query::default()
            }),
        },
        Frame::Heartbeat(Box::new(RegionHeartbeat {
            actor,
            at_ms: 5,
            position: 6,
            last: 7,
            waiting: Stamp(8),
            digest: 9,
        })),
    ]);
    frames
}

#[test]
fn frames_survive_a_round_trip_and_cut_ones_are_refused() {
    for frame in frames() {
        let envelope = Envelope { epoch: Epoch(300), frame };
        let bytes = envelope.encode();
        assert_eq!(Envelope::decode(bytes.clone()), Some(envelope.clone()));
        for cut in 0..bytes.len().min(400) {
            assert_eq!(Envelope::decode(bytes.slice(..cut)), None, "{envelope:?}");
        }
    }
}

proptest! {
    #[test]
    fn whatever_bytes_come_reading_a_frame_does_not_panic(bytes: Vec<u8>) {
        let _ = Envelope::decode(Bytes::from(bytes));
    }
}

fn gather(name: &Bytes) -> ScanRange {
    let view = ScanView { keys_only: true, reverse: true };
    ScanRange { namespace_id: 4, start: name.clone(), end: Some(name.clone()), limit: 100, view }
}

#[test]
fn a_view_that_is_not_known_is_no_frame() {
    let name = Bytes::from_static(b"n");
    let frame = Frame::Gather { id: OpId(1), wanted: Box::new(gather(&name)) };
    let mut bytes = Envelope { epoch: Epoch(1), frame }.encode().to_vec();
    assert_eq!(bytes.pop(), Some(3));
    bytes.push(4);
    assert_eq!(Envelope::read(bytes.into()), Err(FrameError::Malformed));
}
