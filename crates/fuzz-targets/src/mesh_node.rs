//! Forged frames, and clients' forged contexts, to a node of the mesh: one of three replicas, with a second region.
//! The frames are those that the node was sent before, changed; answers to what it asked; and frames made of free fields.

use crate::input::Input;
use base::{Instant, NodeId, Token};
use bytes::Bytes;
use mesh::frame::page::{Answer, Entry, Page};
use mesh::frame::pulse::Pulse;
use mesh::frame::{Ask, Begun, Envelope, Frame, Outcome, Shard, Why};
use mesh::key::Key;
use mesh::marks::Marks;
use mesh::overlay::Seq;
use mesh::record::{Body, Header, Kind, Record};
use mesh::request::{Get, Request, Scan, Write};
use mesh::rows::{Row, Rows};
use mesh::session::Session;
use mesh::topology::{Epoch, Member, Space, Standing, Topology};
use mesh::tree::Buckets;
use mesh::{
    Actor, Attributes, Context, Dot, Mesh, Now, Op, Output, Params, Partition, Region, RegionId, Regions,
    Stamp,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

const ME: NodeId = NodeId(1);
const PEERS: [u64; 3] = [2, 3, 4];
const STEPS_MAX: usize = 64;
const TICK_US: u64 = 50_000;
/// A frame with more bytes than this is not remembered.
const REMEMBERED_MAX: usize = 64;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut node = Node::start(Store::default(), 1);
    (0..4).for_each(|_| node.tick());
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        node.act(&mut input);
    }
    node.sync();
    // What was written down can be read again, and written over.
    let mut node = Node::start(node.store, 2);
    (0..4).for_each(|_| node.tick());
    for name in NAMES {
        node.request(Request::write(plain(name, Kind::Register, Op::Put(Bytes::from_static(b"7")))));
    }
    (0..20).for_each(|_| node.tick());
}

const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];

#[derive(Clone, Default)]
struct Store {
    rows: BTreeMap<Bytes, Bytes>,
    log: Vec<Vec<Row>>,
}

impl Rows for Store {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.rows.get(key).cloned()
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        for (key, value) in self.rows.range::<[u8], _>((from, to)) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

struct Node {
    mesh: Mesh,
    store: Store,
    now: u64,
    tokens: u64,
    /// Batches that wait for the disk, if it is slow.
    unsynced: Vec<(Seq, Vec<Row>)>,
    holds_disk: bool,
    sent: Vec<Frame>,
}

impl Node {
    fn start(store: Store, boot: u64) -> Node {
        let member = |node: u64| Member {
            node: NodeId(node),
            zone: node as u32,
            points: 16,
            standing: Standing::Serving,
            stale: false,
        };
        let region = RegionId::of("here");
        let members = [ME.0].into_iter().chain(PEERS[..2].iter().copied()).map(member).collect();
        let topology = Topology::new(Epoch(3), region, members, vec![Space { id: 0, copies: 3 }]);
        let params = Params {
            actor: Actor { region, node: ME, incarnation: 1 },
            boot,
            wiped: false,
            guest: false,
            drift_max: Duration::from_millis(500),
            timeout: Duration::from_millis(400),
            flush_every: Duration::from_millis(200),
            low_bytes: 1_000,
            least_bytes: 500,
            round_every: Duration::from_millis(300),
        };
        let mesh = Mesh::new(params, topology, &store, store.log.clone());
        let mut node = Node {
            mesh,
            store,
            now: 1_000_000 * boot,
            tokens: 0,
            unsynced: Vec::new(),
            holds_disk: false,
            sent: Vec::new(),
        };
        let regions = Regions::default().with(Region::new("here", vec![]));
        if let Ok(regions) = regions.and_then(|regions| regions.with(Region::new("there", vec![]))) {
            node.step(mesh::Input::Regions(regions));
        }
        node
    }

    fn step(&mut self, input: mesh::Input) {
        let now = Now { at: Instant(self.now), wall_ms: 1_700_000_000_000 + self.now / 1_000 };
        let mut out = Output::default();
        self.mesh.step(now, input, &self.store, &mut out);
        self.mesh.collect(&mut out);
        self.perform(out);
    }

    fn perform(&mut self, out: Output) {
        self.sent.extend(out.send.into_iter().map(|(_, envelope)| envelope.frame));
        self.sent.extend(out.abroad.into_iter().map(|(_, envelope)| envelope.frame));
        let surplus = self.sent.len().saturating_sub(REMEMBERED_MAX);
        self.sent.drain(..surplus);
        if let Some(persist) = out.persist {
            let rows = mesh::rows::decode_batch(persist.batch).expect("a node writes what it can read");
            self.unsynced.push((persist.seq, rows));
        }
        if let Some(flush) = out.flush {
            for (key, value) in flush.rows() {
                match value {
                    Some(value) => self.store.rows.insert(key.clone(), value.clone()),
                    None => self.store.rows.remove(key),
                };
            }
            self.step(mesh::Input::Flushed(flush.number));
        }
        if !self.holds_disk {
            self.sync();
        }
    }

    fn sync(&mut self) {
        let unsynced = std::mem::take(&mut self.unsynced);
        let Some(last) = unsynced.last().map(|(seq, _)| *seq) else { return };
        self.store.log.extend(unsynced.into_iter().map(|(_, rows)| rows));
        self.step(mesh::Input::Persisted(last));
    }

    fn tick(&mut self) {
        self.now += TICK_US;
        self.step(mesh::Input::Tick);
    }

    fn request(&mut self, request: Request) {
        self.tokens += 1;
        let deadline = Instant(self.now).after(Duration::from_millis(400));
        self.step(mesh::Input::Request { token: Token(self.tokens), deadline, request });
    }

    fn receive(&mut self, input: &mut Input<'_>, frame: Frame) {
        let from = NodeId(PEERS[input.choice(PEERS.len())]);
        let epoch = self.mesh.topology().epoch.0;
        let epoch = Epoch(if input.flag() { epoch } else { input.number(&[epoch]) });
        // As bytes, for only what can be read comes this far.
        let Some(envelope) = Envelope::decode(Envelope { epoch, frame }.encode()) else { return };
        if input.choice(4) == 0 {
            let region = RegionId::of("there");
            return self.step(mesh::Input::Abroad { region, from: NodeId(90), envelope });
        }
        self.step(mesh::Input::Received { from, envelope });
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.choice(12) {
            0 | 1 => {
                let request = self.forged_request(input);
                self.request(request);
            }
            2 => self.tick(),
            3 => (0..8).for_each(|_| self.tick()),
            4 => self.holds_disk = !self.holds_disk,
            5 => self.sync(),
            6 | 7 => {
                let at = input.choice(self.sent.len());
                if let Some(frame) = self.sent.get(at).cloned().and_then(|frame| self.answer(input, &frame)) {
                    self.receive(input, frame);
                }
            }
            8 | 9 => {
                let frame = self.forged_frame(input);
                self.receive(input, frame);
            }
            10 => {
                let bytes = Bytes::copy_from_slice(input.long_string());
                if let Some(envelope) = Envelope::decode(bytes) {
                    self.receive(input, envelope.frame);
                }
            }
            _ => self.step(mesh::Input::Lost(NodeId(PEERS[input.choice(PEERS.len())]))),
        }
    }

    fn forged_request(&mut self, input: &mut Input<'_>) -> Request {
        let name = NAMES[input.choice(NAMES.len())];
        if input.choice(4) == 0 {
            let key = Key::new(0, name);
            return match input.choice(3) {
                0 => Request::Read { key, r: None },
                1 => {
                    let session = Session::decode(Bytes::copy_from_slice(input.string())).unwrap_or_default();
                    let min = context(input);
                    let level = mesh::request::Level::LocalQuorum;
                    Request::Get(Box::new(Get { key, r: None, level, session, min }))
                }
                _ => Request::Scan(Scan { space: 0, start: Bytes::new(), end: None, limit: 3, r: None }),
            };
        }
        let kind = Kind::ALL[input.choice(Kind::ALL.len())];
        let mut write = plain(name, kind, op(input));
        write.attributes.context = input.flag().then(|| context(input));
        write.expect = input.flag().then(|| context(input));
        write.attributes.request = input.flag().then(|| input.number(&[]));
        write.attributes.after = Stamp(input.number(&[]));
        write.attributes.expires_ms = input.flag().then(|| input.number(&[1_700_000_000_000]));
        write.w = input.flag().then(|| input.byte());
        write.sloppy = input.flag();
        Request::write(write)
    }

    /// What an answer to a frame could be, with free fields.
    fn answer(&self, input: &mut Input<'_>, frame: &Frame) -> Option<Frame> {
        Some(match frame {
            Frame::Store { ask, .. } | Frame::Keep { ask, .. } | Frame::Replicate { ask, .. } => {
                match input.choice(4) {
                    0 => Frame::Declined { ask: *ask },
                    1 => Frame::NoRoom { ask: *ask },
                    _ => Frame::Stored { ask: *ask, outcome: outcome(input) },
                }
            }
            Frame::Fetch { ask, .. } => {
                let record = input.flag().then(|| record(input).encode());
                Frame::Fetched { ask: *ask, record, marks: marks(input) }
            }
            Frame::Seek { ask, .. } => Frame::Sought { ask: *ask, record: Some(record(input).encode()) },
            Frame::Compare { ask, .. } => {
                let leaves =
                    if input.flag() { vec![input.number(&[]); mesh::tree::LEAVES] } else { Vec::new() };
                Frame::Leaves { ask: *ask, leaves, known: known(input), marks: marks(input) }
            }
            Frame::Page(page) => Frame::Answer(Box::new(Answer {
                ask: page.ask,
                upto: input.flag().then(|| key(input)),
                records: (0..input.choice(3)).map(|_| (key(input), record(input).encode())).collect(),
                wanted: (0..input.choice(3)).map(|_| key(input)).collect(),
                purged: (0..input.choice(3)).map(|_| key(input)).collect(),
            })),
            Frame::Collect { ask, .. } | Frame::Select { ask, .. } => Frame::Collected {
                ask: *ask,
                records: (0..input.choice(3)).map(|_| (key(input), record(input).encode())).collect(),
                upto: input.flag().then(|| Bytes::copy_from_slice(input.string())),
            },
            Frame::List { ask, .. } => Frame::Listed {
                ask: *ask,
                conflicts: (0..input.choice(3)).map(|_| Bytes::copy_from_slice(input.string())).collect(),
                more: input.flag(),
            },
            Frame::Forward { ask, .. } => Frame::Declined { ask: *ask },
            Frame::Hello => Frame::Welcome,
            Frame::Which => Frame::Topology(self.mesh.topology().encode()),
            _ => return None,
        })
    }

    fn forged_frame(&self, input: &mut Input<'_>) -> Frame {
        let ask = Ask(input.number(&[1 << 40, (1 << 40) + 8]));
        let shard = Shard { partition: Partition(input.byte()), copies: input.byte() % 5 };
        match input.choice(16) {
            0 => Frame::Store { ask, key: key(input), record: record(input).encode(), why: Why::Write },
            1 => Frame::Store { ask, key: key(input), record: record(input).encode(), why: Why::Repair },
            2 => Frame::Keep {
                ask,
                target: NodeId(input.number(&PEERS)),
                key: key(input),
                record: record(input).encode(),
            },
            3 => Frame::Stored { ask, outcome: outcome(input) },
            4 => Frame::Fetch { ask, key: key(input) },
            5 => Frame::Compare { ask, shard, root: input.number(&[]), known: known(input) },
            6 => Frame::Page(Box::new(Page {
                ask,
                shard,
                buckets: Buckets::from_words([input.number(&[]); mesh::tree::LEAVES / 64]),
                marks: marks(input),
                after: input.flag().then(|| key(input)),
                upto: input.flag().then(|| key(input)),
                entries: (0..input.choice(3)).map(|_| entry(input)).collect(),
            })),
            7 => Frame::Settled { shard, known: known(input), marks: marks(input) },
            8 => Frame::Topology(self.forged_topology(input)),
            9 => {
                let stamp = Stamp(input.number(&[Stamp::at_ms(1_700_000_001_000).0]));
                let (remaining_ms, restamps) = (input.number(&[]), input.byte());
                let begun = input.flag().then_some(Begun { stamp, remaining_ms, restamps });
                Frame::Forward { ask, begun, write: std::sync::Arc::new(forged_write(input)) }
            }
            10 => Frame::Pulse(Box::new(Pulse {
                actor: actor(input),
                at_ms: input.number(&[1_700_000_000_000]),
                position: input.number(&[]),
                last: input.number(&[]),
                waiting: Stamp(input.number(&[])),
                digest: input.number(&[]),
            })),
            11 => Frame::Replicate { ask, entry: log_entry(input) },
            12 => Frame::Collect {
                ask,
                space: u32::from(input.byte() % 2),
                start: Bytes::copy_from_slice(input.string()),
                end: input.flag().then(|| Bytes::copy_from_slice(input.string())),
                limit: u16::from(input.byte()),
            },
            13 => Frame::List {
                ask,
                after: input.flag().then(|| Bytes::copy_from_slice(input.string())),
                limit: 3,
            },
            14 => Frame::Declined { ask },
            _ => Frame::Hello,
        }
    }

    fn forged_topology(&self, input: &mut Input<'_>) -> Bytes {
        let own = self.mesh.topology();
        let epoch = Epoch(input.number(&[own.epoch.0]));
        match input.choice(3) {
            0 => Bytes::copy_from_slice(input.string()),
            1 => {
                let member = |input: &mut Input<'_>| Member {
                    node: NodeId(input.number(&[1, 2, 3, 4])),
                    zone: u32::from(input.byte()),
                    points: u32::from(input.byte()),
                    standing: Standing::Serving,
                    stale: input.flag(),
                };
                let members = (0..input.choice(5)).map(|_| member(input)).collect();
                let spaces = (0..input.choice(3))
                    .map(|id| Space { id: id as u32, copies: input.byte() % 6 })
                    .collect();
                let region = if input.flag() { own.region } else { RegionId(input.number(&[]) as u32) };
                Topology::new(epoch, region, members, spaces).encode()
            }
            _ => Topology::new(epoch, own.region, own.members().to_vec(), own.spaces().to_vec()).encode(),
        }
    }
}

fn plain(name: &[u8], kind: Kind, op: Op) -> Write {
    let attributes = Attributes::default();
    Write { key: Key::new(0, name), kind, op, attributes, expect: None, w: None, sloppy: false }
}

fn forged_write(input: &mut Input<'_>) -> Write {
    let kind = Kind::ALL[input.choice(Kind::ALL.len())];
    let mut write = plain(NAMES[input.choice(NAMES.len())], kind, op(input));
    write.attributes.context = input.flag().then(|| context(input));
    write.expect = input.flag().then(|| context(input));
    write.attributes.after = Stamp(input.number(&[]));
    write
}

fn op(input: &mut Input<'_>) -> Op {
    let value = Bytes::copy_from_slice(input.string());
    let amount = i128::from(input.number(&[])) << (input.byte() % 64);
    match input.choice(6) {
        0 => Op::Put(value),
        1 => Op::Delete,
        2 => Op::Add(amount),
        3 => Op::Assign(-amount),
        4 => Op::Insert(value),
        _ => Op::Remove(value),
    }
}

fn actor(input: &mut Input<'_>) -> Actor {
    let region = RegionId::of(if input.flag() { "here" } else { "there" });
    Actor { region, node: NodeId(1 + u64::from(input.byte() % 4)), incarnation: u32::from(input.byte() % 2) }
}

fn dot(input: &mut Input<'_>) -> Dot {
    Dot { actor: actor(input), counter: input.number(&[65_536, 65_537]).max(1) }
}

fn context(input: &mut Input<'_>) -> Context {
    let mut context = Context::default();
    (0..1 + input.choice(3)).for_each(|_| context.join(&Context::of_dot(dot(input))));
    context
}

fn record(input: &mut Input<'_>) -> Record {
    if input.choice(4) == 0
        && let Some(record) = Record::decode(Bytes::copy_from_slice(input.string()))
    {
        return record;
    }
    let kind = Kind::ALL[input.choice(Kind::ALL.len())];
    let dot = dot(input);
    let stamp = Stamp(input.number(&[Stamp::at_ms(1_700_000_001_000).0]));
    let birth = mesh::op::Birth { dot, stamp, wall_ms: input.number(&[1_700_000_000_000]) };
    let attributes =
        Attributes { expires_ms: input.flag().then(|| input.number(&[])), ..Attributes::default() };
    // A lawful one where the operation suits the kind, with a forged context; an empty one otherwise.
    let made = mesh::op::apply(None, kind, &op(input), &attributes, birth);
    let mut record = made.map_or_else(|_| empty(kind, dot, stamp), |written| written.full);
    record.era = u32::from(input.byte() % 3);
    record.context.join(&context(input));
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

fn outcome(input: &mut Input<'_>) -> Outcome {
    match input.choice(5) {
        0 => Outcome::Held,
        1 => Outcome::Beaten(Stamp(input.number(&[]))),
        2 => Outcome::Passed,
        3 => Outcome::Purged,
        _ => Outcome::Misfit,
    }
}

fn marks(input: &mut Input<'_>) -> Marks {
    let mut marks = Marks::default();
    for _ in 0..input.choice(3) {
        let region = RegionId::of(if input.flag() { "here" } else { "there" });
        marks.raise(region, Stamp(input.number(&[])));
    }
    marks
}

fn known(input: &mut Input<'_>) -> Vec<(Actor, Stamp)> {
    (0..input.choice(3)).map(|_| (actor(input), Stamp(input.number(&[])))).collect()
}

fn entry(input: &mut Input<'_>) -> Entry {
    Entry { key: key(input), digest: input.number(&[]), stamp: Stamp(input.number(&[])), writers: Vec::new() }
}

fn log_entry(input: &mut Input<'_>) -> Bytes {
    let entry = mesh::log::Entry {
        seq: input.number(&[]),
        prev: input.number(&[]),
        operation: mesh::log::Operation::Update,
        key: key(input),
        old: context(input),
        stamp: Stamp(input.number(&[])),
        at_ms: input.number(&[1_700_000_000_000]),
        record: record(input).encode(),
    };
    entry.encode()
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for step in 0..12u8 {
        for nth in 0..16u8 {
            let mut seed = vec![0, 0, 1, 0, 0, 0, 1, b'7', 5, 0, 0, 0, 0, 0, 0, 0, 0];
            for _ in 0..4 {
                seed.extend([step, nth, 0, 1, 0, 2, 3, 0, 1, 1, 200, 7, 1, 3, 9, 8]);
                seed.extend([6, 0, 2, 0, 0, 0, 3]);
            }
            seeds.push(seed);
        }
    }
    seeds
}
