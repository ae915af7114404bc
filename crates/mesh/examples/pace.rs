//! How much work the machine itself is: nodes in one process, a network that delivers at once, a disk that is
//! always in sync. `pace NODES KEYS` writes that many keys of 100 bytes and reads each once; time it from outside.
//! Rows are kept in a map in memory, so what it takes beside them is the machine's.

use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use mesh::{
    Actor, Attributes, Envelope, Epoch, Input, Key, Kind, Member, MemberState, Mesh, NamespaceCopies, Now,
    Op, Output, Params, RegionId, Reply, Request, Topology, Write, rows::Rows,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

#[derive(Default)]
struct MemoryRows(BTreeMap<Bytes, Bytes>);

impl Rows for MemoryRows {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key).cloned()
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let mut rows = self.0.range::<[u8], _>((from, to));
        while rows.next().is_some_and(|(key, value)| visit(key, value)) {}
    }

    fn scan_down(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let mut rows = self.0.range::<[u8], _>((from, to));
        while rows.next_back().is_some_and(|(key, value)| visit(key, value)) {}
    }
}

struct Cluster {
    nodes: Vec<(Mesh, MemoryRows)>,
    now: Now,
    frames: VecDeque<(NodeId, NodeId, Envelope)>,
    answered: usize,
    failed: usize,
}

impl Cluster {
    fn step(&mut self, to: NodeId, input: Input) {
        let mut input = Some(input);
        let (mesh, rows) = &mut self.nodes[to.0 as usize - 1];
        while let Some(next) = input.take() {
            let mut out = Output::default();
            mesh.step(self.now, next, rows, &mut out);
            mesh.collect(&mut out);
            self.frames.extend(out.send.into_iter().map(|(peer, envelope)| (to, peer, envelope)));
            for (_, reply) in out.replies {
                self.answered += 1;
                self.failed += usize::from(!matches!(reply, Reply::Written(_) | Reply::Found(Some(_))));
            }
            if let Some(flush) = out.flush {
                rows.0.extend(flush.rows().filter_map(|(key, value)| Some((key.clone(), value?.clone()))));
                let mut after = Output::default();
                mesh.step(self.now, Input::Flushed(flush.number), rows, &mut after);
            }
            input = out.persist.map(|persist| Input::Persisted(persist.seq));
        }
    }

    fn settle(&mut self) {
        while let Some((from, to, envelope)) = self.frames.pop_front() {
            self.step(to, Input::Received { from, envelope });
        }
    }

    fn tick(&mut self) {
        self.now.at = self.now.at.after(Duration::from_millis(10));
        self.now.wall_ms += 10;
        (1..=self.nodes.len() as u64).for_each(|node| self.step(NodeId(node), Input::Tick));
        self.settle();
    }

    fn ask(&mut self, n: u64, request: Request) {
        let node = NodeId(n % self.nodes.len() as u64 + 1);
        let deadline = self.now.at.after(Duration::from_secs(1));
        self.step(node, Input::Request { token: ReplyToken(n), deadline, request });
        self.settle();
        if n.is_multiple_of(500) {
            self.tick();
        }
    }
}

fn start(n: u64) -> Cluster {
    let member = |node| Member {
        node: NodeId(node),
        zone: node as u32,
        points: 64,
        state: MemberState::Serving,
        stale: false,
    };
    let namespace_copies = vec![NamespaceCopies { id: 0, copies: 3 }];
    let topology = Topology::new(Epoch(1), RegionId(0), (1..=n).map(member).collect(), namespace_copies);
    let params = |node| Params {
        actor: Actor { region: RegionId(0), node: NodeId(node), incarnation: 1 },
        boot: 1,
        wiped: false,
        unenrolled: false,
        drift_max: Duration::from_millis(500),
        timeout: Duration::from_secs(1),
        flush_every: Duration::from_millis(100),
        low_bytes: 0,
        least_bytes: 0,
        round_every: Duration::from_secs(10),
    };
    let node = |id| {
        (Mesh::new(params(id), topology.clone(), &MemoryRows::default(), Vec::new()), MemoryRows::default())
    };
    let now = Now { at: Instant(1), wall_ms: 1_700_000_000_000 };
    let nodes = (1..=n).map(node).collect();
    Cluster { nodes, now, frames: VecDeque::new(), answered: 0, failed: 0 }
}

#[expect(clippy::print_stdout, reason = "a tool prints its result")]
fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let [nodes, keys] = numbers[..] else { return println!("usage: pace NODES KEYS") };
    let mut cluster = start(nodes);
    (0..50).for_each(|_| cluster.tick());
    let key = |n: u64| Key::new(0, format!("key:{n:012}").as_bytes());
    for n in 0..keys {
        let op = Op::Put(Bytes::from(vec![n as u8; 100]));
        let attributes = Attributes::default();
        let write =
            Write { key: key(n), kind: Kind::Register, op, attributes, expect: None, w: None, sloppy: false };
        cluster.ask(n, Request::write(write));
    }
    println!("{} written, {} failed", cluster.answered, cluster.failed);
    (0..keys).for_each(|n| cluster.ask(n, Request::Read { key: key(n), r: None }));
    println!("{} answered, {} failed", cluster.answered, cluster.failed);
}
