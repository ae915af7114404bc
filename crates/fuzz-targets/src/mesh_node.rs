//! Forged frames, and clients' forged contexts, to a node of the mesh: one of three replicas, with a second region.
//! The frames are those that the node was sent before, changed; answers to what it asked; and frames made of free fields.

use crate::forged_mesh::{self, MeshFacts, NAMES, context};
use crate::input::Input;
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use mesh::{
    Actor, Envelope, Epoch, Frame, Get, Key, Kind, Member, MemberState, Mesh, NamespaceCopies, Now, Op,
    Output, Params, Region, RegionId, Regions, Request, Scan, Seq, Session, Stamp, Topology,
    rows::{Row, Rows},
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

const ME: NodeId = NodeId(1);
const PEERS: [u64; 3] = [2, 3, 4];
const STEPS_MAX: usize = 64;
const TICK_US: u64 = 50_000;
const START_MS: u64 = 1_700_000_000_000;
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
        node.request(Request::write(forged_mesh::plain(
            name,
            Kind::Register,
            Op::Put(Bytes::from_static(b"7")),
        )));
    }
    (0..20).for_each(|_| node.tick());
}

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

    fn scan_down(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let mut rows = self.rows.range::<[u8], _>((from, to));
        while rows.next_back().is_some_and(|(key, value)| visit(key, value)) {}
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
            state: MemberState::Serving,
            stale: false,
        };
        let region = RegionId::of("here");
        let members = [ME.0].into_iter().chain(PEERS[..2].iter().copied()).map(member).collect();
        let topology = Topology::new(Epoch(3), region, members, vec![NamespaceCopies { id: 0, copies: 3 }]);
        let params = Params {
            actor: Actor { region, node: ME, incarnation: 1 },
            boot,
            wiped: false,
            unenrolled: false,
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
        let now = Now { at: Instant(self.now), wall_ms: START_MS + self.now / 1_000 };
        let mut out = Output::default();
        self.mesh.step(now, input, &self.store, &mut out);
        self.mesh.collect(&mut out);
        self.perform(out);
    }

    fn perform(&mut self, out: Output) {
        self.sent.extend(out.send.into_iter().map(|(_, envelope)| envelope.frame));
        self.sent.extend(out.to_regions.into_iter().map(|(_, envelope)| envelope.frame));
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
        self.step(mesh::Input::Request { token: ReplyToken(self.tokens), deadline, request });
    }

    fn receive(&mut self, input: &mut Input<'_>, frame: Frame) {
        let from = NodeId(PEERS[input.choice(PEERS.len())]);
        let epoch = self.mesh.topology().epoch.0;
        let epoch = Epoch(if input.flag() { epoch } else { input.number(&[epoch]) });
        // As bytes, for only what can be read comes this far.
        let Some(envelope) = Envelope::decode(Envelope { epoch, frame }.encode()) else { return };
        if input.choice(4) == 0 {
            let region = RegionId::of("there");
            return self.step(mesh::Input::RemoteFrame { region, from: NodeId(90), envelope });
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
                if let Some(frame) = self
                    .sent
                    .get(at)
                    .cloned()
                    .and_then(|frame| forged_mesh::answer(input, &self.facts(), &frame))
                {
                    self.receive(input, frame);
                }
            }
            8 | 9 => {
                let frame = forged_mesh::frame(input, &self.facts());
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

    fn facts(&self) -> MeshFacts {
        MeshFacts {
            regions: [RegionId::of("here"), RegionId::of("there")],
            nodes: vec![1, 2, 3, 4],
            topology: self.mesh.topology().clone(),
            now_ms: START_MS,
        }
    }

    fn forged_request(&mut self, input: &mut Input<'_>) -> Request {
        let facts = self.facts();
        let name = NAMES[input.choice(NAMES.len())];
        if input.choice(4) == 0 {
            let key = Key::new(0, name);
            return match input.choice(3) {
                0 => Request::Read { key, r: None },
                1 => {
                    let session = Session::decode(Bytes::copy_from_slice(input.string())).unwrap_or_default();
                    let min = context(input, &facts);
                    let level = mesh::Level::LocalQuorum;
                    Request::Get(Box::new(Get { key, r: None, level, session, min }))
                }
                _ => Request::Scan(Scan {
                    namespace_id: 0,
                    start: Bytes::new(),
                    end: None,
                    limit: 3,
                    r: None,
                    view: Default::default(),
                }),
            };
        }
        let kind = Kind::ALL[input.choice(Kind::ALL.len())];
        let mut write = forged_mesh::plain(name, kind, forged_mesh::op(input));
        write.attributes.context = input.flag().then(|| context(input, &facts));
        write.expect = input.flag().then(|| context(input, &facts));
        write.attributes.request = input.flag().then(|| input.number(&[]));
        write.attributes.after = Stamp(input.number(&[]));
        write.attributes.expires_ms = input.flag().then(|| input.number(&[START_MS]));
        write.w = input.flag().then(|| input.byte());
        write.sloppy = input.flag();
        Request::write(write)
    }
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
