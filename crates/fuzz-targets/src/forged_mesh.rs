//! Forged frames of the mesh: every field is free, whatever its kind allows, and numbers are near those that the node knows.
//! Keys are a few names of their own, so that a run against a real node harms no other key.

use crate::input::Input;
use base::NodeId;
use bytes::Bytes;
use mesh::{
    Actor, Attributes, Ballot, Body, BoundedChange, BoundedOp, Buckets, ConflictOrder, Context, Dot, Epoch,
    ExchangeAnswer, ExchangeEntry, ExchangePage, Frame, Header, Key, Kind, Member, MemberState,
    NamespaceCopies, Op, OpId, Partition, Query, Record, RegionHeartbeat, RegionId, Round, Shard, Stamp,
    StampCheck, StoreOutcome, StoreReason, Topology, Watermarks, Write, WriteOrigin, Writer,
};

pub const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];

/// What the node knows that gets the frames.
pub struct MeshFacts {
    /// Its own and another one.
    pub regions: [RegionId; 2],
    pub nodes: Vec<u64>,
    pub topology: Topology,
    pub now_ms: u64,
}

/// What an answer to a frame could be, with free fields.
pub fn answer(input: &mut Input<'_>, facts: &MeshFacts, frame: &Frame) -> Option<Frame> {
    Some(match frame {
        Frame::Store { id, .. } | Frame::KeepHint { id, .. } | Frame::Replicate { id, .. } => {
            match input.choice(4) {
                0 => Frame::Declined { id: *id },
                1 => Frame::NoSpace { id: *id },
                _ => Frame::Stored { id: *id, outcome: outcome(input) },
            }
        }
        Frame::Fetch { id, .. } => {
            let record = input.flag().then(|| record(input, facts).encode());
            Frame::Fetched { id: *id, record, marks: marks(input, facts) }
        }
        Frame::RemoteRead { id, .. } => {
            Frame::RemoteReadResult { id: *id, record: Some(record(input, facts).encode()) }
        }
        Frame::Compare { id, .. } => {
            let leaves = if input.flag() { vec![input.number(&[]); mesh::TREE_LEAVES] } else { Vec::new() };
            Frame::Leaves { id: *id, leaves, known: known(input, facts), marks: marks(input, facts) }
        }
        Frame::Page(page) => Frame::Answer(Box::new(ExchangeAnswer {
            id: page.id,
            upto: input.flag().then(|| key(input)),
            records: (0..input.choice(3)).map(|_| (key(input), record(input, facts).encode())).collect(),
            wanted: (0..input.choice(3)).map(|_| key(input)).collect(),
            purged: (0..input.choice(3)).map(|_| key(input)).collect(),
        })),
        Frame::Collect { id, .. } | Frame::Gather { id, .. } | Frame::Select { id, .. } => Frame::Collected {
            id: *id,
            records: (0..input.choice(3)).map(|_| (key(input), record(input, facts).encode())).collect(),
            upto: input.flag().then(|| Bytes::copy_from_slice(input.string())),
        },
        Frame::List { id, .. } => Frame::Listed {
            id: *id,
            conflicts: (0..input.choice(3)).map(|_| Bytes::copy_from_slice(input.string())).collect(),
            more: input.flag(),
        },
        Frame::Forward { id, .. } => Frame::Declined { id: *id },
        Frame::Hello => Frame::Welcome,
        Frame::AskTopology => Frame::Topology(facts.topology.encode()),
        _ => return None,
    })
}

/// Any frame, with free fields.
pub fn frame(input: &mut Input<'_>, facts: &MeshFacts) -> Frame {
    let id = OpId(input.number(&[1 << 40, (1 << 40) + 8]));
    let shard = Shard { partition: Partition(input.byte()), copies: input.byte() % 5 };
    match input.choice(26) {
        0 => Frame::Store {
            id,
            key: key(input),
            record: record(input, facts).encode(),
            reason: StoreReason::Write,
        },
        1 => Frame::Store {
            id,
            key: key(input),
            record: record(input, facts).encode(),
            reason: StoreReason::Repair,
        },
        2 => Frame::KeepHint {
            id,
            target: NodeId(input.number(&facts.nodes)),
            key: key(input),
            record: record(input, facts).encode(),
        },
        3 => Frame::Stored { id, outcome: outcome(input) },
        4 => Frame::Fetch { id, key: key(input) },
        5 => Frame::Compare { id, shard, root: input.number(&[]), known: known(input, facts) },
        6 => Frame::Page(Box::new(ExchangePage {
            id,
            shard,
            buckets: Buckets::from_words([input.number(&[]); mesh::TREE_LEAVES / 64]),
            marks: marks(input, facts),
            after: input.flag().then(|| key(input)),
            upto: input.flag().then(|| key(input)),
            entries: (0..input.choice(3)).map(|_| entry(input)).collect(),
        })),
        7 => Frame::Synced { shard, known: known(input, facts), marks: marks(input, facts) },
        8 => Frame::Topology(topology(input, facts)),
        9 => {
            let stamp = Stamp(input.number(&[Stamp::at_ms(facts.now_ms + 1_000).0]));
            let (remaining_ms, check) = (input.number(&[]), stamp_check(input));
            let operation = input.flag().then(|| input.number(&[]));
            let origin = input.flag().then_some(WriteOrigin { stamp, remaining_ms, check, operation });
            Frame::Forward { id, origin, write: std::sync::Arc::new(write(input, facts)) }
        }
        10 => Frame::Heartbeat(Box::new(RegionHeartbeat {
            actor: actor(input, facts),
            at_ms: input.number(&[facts.now_ms]),
            position: input.number(&[]),
            last: input.number(&[]),
            waiting: Stamp(input.number(&[])),
            digest: input.number(&[]),
        })),
        11 => Frame::Replicate { id, entry: log_entry(input, facts) },
        12 => Frame::Collect {
            id,
            namespace_id: u32::from(input.byte() % 2),
            start: Bytes::copy_from_slice(input.string()),
            end: input.flag().then(|| Bytes::copy_from_slice(input.string())),
            limit: u16::from(input.byte()),
        },
        13 => {
            let after = input.flag().then(|| Bytes::copy_from_slice(input.string()));
            let order = if id.0.is_multiple_of(2) { ConflictOrder::Oldest } else { ConflictOrder::Newest };
            Frame::List { id, after, limit: 3, order }
        }
        14 => Frame::Declined { id },
        15 => Frame::Hello,
        16 => {
            let round = optional_round(input, facts);
            let request = input.flag().then(|| input.number(&[]));
            Frame::Prepare { id, key: key(input), round, request }
        }
        17 => Frame::Promised {
            id,
            round: optional_round(input, facts),
            granted: input.flag(),
            prior: optional_round(input, facts),
            record: input.flag().then(|| record(input, facts).encode()),
            marks: marks(input, facts),
            attempts: input.flag().then(|| Bytes::copy_from_slice(input.string())),
        },
        18 => Frame::Accept {
            id,
            key: key(input),
            record: balloted(input, facts).encode(),
            notes: (0..input.choice(3))
                .map(|_| (input.number(&[]), Bytes::copy_from_slice(input.string())))
                .collect(),
        },
        19 => Frame::Accepted { id, ballot: ballot(input, facts), passed: optional_round(input, facts) },
        20 => Frame::FetchFor { id, key: key(input), request: input.number(&[]) },
        21 => Frame::FetchedFor {
            id,
            record: input.flag().then(|| record(input, facts).encode()),
            attempts: input.flag().then(|| Bytes::copy_from_slice(input.string())),
        },
        22 => Frame::Behind { id, stamp: Stamp(input.number(&[])), check: stamp_check(input) },
        23 => Frame::RemoteRead { id, key: key(input), session: Bytes::copy_from_slice(input.string()) },
        24 => Frame::Select { id, query: Box::new(query(input, facts)) },
        _ => {
            let asked = Frame::Compare { id, shard, root: 0, known: Vec::new() };
            answer(input, facts, &asked).unwrap_or(Frame::Welcome)
        }
    }
}

fn topology(input: &mut Input<'_>, facts: &MeshFacts) -> Bytes {
    let own = &facts.topology;
    let epoch = Epoch(input.number(&[own.epoch.0]));
    match input.choice(3) {
        0 => Bytes::copy_from_slice(input.string()),
        1 => {
            let member = |input: &mut Input<'_>| Member {
                node: NodeId(input.number(&facts.nodes)),
                zone: u32::from(input.byte()),
                points: u32::from(input.byte()),
                state: MemberState::Serving,
                stale: input.flag(),
            };
            let members = (0..input.choice(5)).map(|_| member(input)).collect();
            let namespace_copies = (0..input.choice(3))
                .map(|id| NamespaceCopies { id: id as u32, copies: input.byte() % 6 })
                .collect();
            let region = if input.flag() { own.region } else { RegionId(input.number(&[]) as u32) };
            Topology::new(epoch, region, members, namespace_copies).encode()
        }
        _ => {
            Topology::new(epoch, own.region, own.members().to_vec(), own.namespace_copies().to_vec()).encode()
        }
    }
}

pub fn plain(name: &[u8], kind: Kind, op: Op) -> Write {
    let attributes = Attributes::default();
    Write { key: Key::new(0, name), kind, op, attributes, expect: None, w: None, sloppy: false }
}

fn write(input: &mut Input<'_>, facts: &MeshFacts) -> Write {
    let kind = Kind::ALL[input.choice(Kind::ALL.len())];
    let mut write = plain(NAMES[input.choice(NAMES.len())], kind, op(input));
    write.attributes.context = input.flag().then(|| context(input, facts));
    write.expect = input.flag().then(|| context(input, facts));
    write.attributes.after = Stamp(input.number(&[]));
    write
}

pub fn op(input: &mut Input<'_>) -> Op {
    let value = Bytes::copy_from_slice(input.string());
    let amount = i128::from(input.number(&[])) << (input.byte() % 64);
    match input.choice(7) {
        0 => Op::Put(value),
        1 => Op::Delete,
        2 => Op::Add(amount),
        3 => Op::Assign(-amount),
        4 => Op::Insert(value),
        5 => Op::Remove(value),
        _ => Op::Bounded(bounded(input)),
    }
}

fn bounded(input: &mut Input<'_>) -> BoundedOp {
    let amount = input.number(&[]);
    let to = Actor { node: NodeId(u64::from(input.byte())), ..Actor::default() };
    let change = match input.choice(5) {
        0 => BoundedChange::Add(amount),
        1 => BoundedChange::Subtract(amount),
        2 => BoundedChange::Reserve(amount),
        3 => BoundedChange::Give { to, amount },
        _ => BoundedChange::Want(amount),
    };
    BoundedOp { change, bound: input.flag().then_some(-9) }
}

fn actor(input: &mut Input<'_>, facts: &MeshFacts) -> Actor {
    let region = facts.regions[input.choice(2)];
    Actor {
        region,
        node: NodeId(facts.nodes[input.choice(facts.nodes.len())]),
        incarnation: u32::from(input.byte() % 2),
    }
}

fn dot(input: &mut Input<'_>, facts: &MeshFacts) -> Dot {
    Dot { actor: actor(input, facts), counter: input.number(&[65_536, 65_537]).max(1) }
}

pub fn context(input: &mut Input<'_>, facts: &MeshFacts) -> Context {
    let mut context = Context::default();
    (0..1 + input.choice(3)).for_each(|_| context.join(&Context::of_dot(dot(input, facts))));
    context
}

fn record(input: &mut Input<'_>, facts: &MeshFacts) -> Record {
    if input.choice(4) == 0
        && let Some(record) = Record::decode(Bytes::copy_from_slice(input.string()))
    {
        return record;
    }
    let kind = Kind::ALL[input.choice(Kind::ALL.len())];
    let dot = dot(input, facts);
    let stamp = Stamp(input.number(&[Stamp::at_ms(facts.now_ms + 1_000).0]));
    let event = mesh::WriteEvent { dot, stamp, wall_ms: input.number(&[facts.now_ms]) };
    let attributes =
        Attributes { expires_ms: input.flag().then(|| input.number(&[])), ..Attributes::default() };
    // A lawful one where the operation suits the kind, with a forged context; an empty one otherwise.
    let made = mesh::apply_op(None, kind, &op(input), &attributes, event);
    let mut record = made.map_or_else(|_| empty(kind, dot, stamp), |written| written.full);
    record.era = u32::from(input.byte() % 3);
    record.context.join(&context(input, facts));
    record
}

fn empty(kind: Kind, dot: Dot, stamp: Stamp) -> Record {
    let header = Header { dot, stamp, tombstone: true, ..Header::default() };
    let body: Body = kind.empty_body();
    Record { era: 0, kind, header, body, context: Context::of_dot(dot), created_ms: 0, recent: Vec::new() }
}

fn key(input: &mut Input<'_>) -> Key {
    Key::new(u32::from(input.byte() % 2), NAMES[input.choice(NAMES.len())])
}

fn stamp_check(input: &mut Input<'_>) -> StampCheck {
    match input.byte() {
        0 => StampCheck::None,
        1 => StampCheck::Replica,
        _ => StampCheck::Quorum,
    }
}

fn outcome(input: &mut Input<'_>) -> StoreOutcome {
    match input.choice(5) {
        0 => StoreOutcome::Applied,
        1 => StoreOutcome::Superseded(Stamp(input.number(&[]))),
        2 => StoreOutcome::Fenced,
        3 => StoreOutcome::Purged,
        _ => StoreOutcome::WrongType,
    }
}

fn marks(input: &mut Input<'_>, facts: &MeshFacts) -> Watermarks {
    let mut marks = Watermarks::default();
    for _ in 0..input.choice(3) {
        let region = facts.regions[input.choice(2)];
        marks.raise(region, Stamp(input.number(&[])));
    }
    marks
}

fn known(input: &mut Input<'_>, facts: &MeshFacts) -> Vec<(Writer, Stamp)> {
    let writer = |input: &mut Input<'_>| match input.choice(4) {
        0 => Writer::Region(actor(input, facts).region),
        _ => Writer::Actor(actor(input, facts)),
    };
    (0..input.choice(3)).map(|_| (writer(input), Stamp(input.number(&[])))).collect()
}

fn entry(input: &mut Input<'_>) -> ExchangeEntry {
    ExchangeEntry {
        key: key(input),
        digest: input.number(&[]),
        stamp: Stamp(input.number(&[])),
        writers: Vec::new(),
    }
}

fn log_entry(input: &mut Input<'_>, facts: &MeshFacts) -> Bytes {
    let entry = mesh::LogEntry {
        seq: input.number(&[]),
        prev: input.number(&[]),
        operation: mesh::LogOperation::Update,
        key: key(input),
        old: context(input, facts),
        stamp: Stamp(input.number(&[])),
        at_ms: input.number(&[facts.now_ms]),
        record: record(input, facts).encode(),
    };
    entry.encode()
}

fn round(input: &mut Input<'_>, facts: &MeshFacts) -> Round {
    Round {
        term: input.number(&[]),
        epoch: Epoch(input.number(&[facts.topology.epoch.0])),
        number: input.number(&[]),
        node: NodeId(input.number(&facts.nodes)),
        operation: input.number(&[]),
    }
}

fn optional_round(input: &mut Input<'_>, facts: &MeshFacts) -> Option<Round> {
    input.flag().then(|| round(input, facts))
}

fn ballot(input: &mut Input<'_>, facts: &MeshFacts) -> Ballot {
    Ballot { round: round(input, facts), turn: input.number(&[]) }
}

fn balloted(input: &mut Input<'_>, facts: &MeshFacts) -> Record {
    let record = record(input, facts);
    if input.flag() { record.with_ballot(ballot(input, facts)) } else { record }
}

fn query(input: &mut Input<'_>, facts: &MeshFacts) -> Query {
    Query {
        namespace_id: u32::from(input.byte() % 2),
        kind: input.flag().then(|| Kind::ALL[input.choice(Kind::ALL.len())]),
        home: input.flag().then(|| facts.regions[input.choice(2)]),
        since: input.flag().then(|| Stamp(input.number(&[Stamp::at_ms(facts.now_ms).0]))),
        until: None,
        after: input.flag().then(|| Bytes::copy_from_slice(input.string())),
        limit: u16::from(input.byte()),
    }
}
