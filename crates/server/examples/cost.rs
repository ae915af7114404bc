//! The work of one operation in the pure crates, without threads, sockets and disks, to be counted by callgrind.
//! `cost put|range|watch OPERATIONS BATCH MEMBERS` starts a cluster in this process whose network and disks are perfect,
//! executes so many operations of which BATCH come together, and prints how many answers or events came out. Run
//! it with two numbers of operations: the difference is theirs alone. `cargo xtask costs` does.

use base::{
    Boot, Index, Instant, KeyRange, LeaseId, NodeId, Position, ReadView, ReplyToken, Revision, Table, Term,
};
use bytes::Bytes;
use coord::request::{self, Put, Range};
use coord::watch::{self, Create, Credit, Filters, StreamId};
use coord::{Caller, Command, Member};
use node::consensus::{ClientRequest, ClientWork, ConsensusParams};
use node::member::config_of;
use node::{Apply, Consensus, ConsensusInput, Frame, LeaseClockParams, apply, compactor};
use raft::LogReplay;
use std::collections::VecDeque;
use std::ops::Bound;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEY_BYTES: usize = 32;
const VALUE_BYTES: usize = 256;
const KEYS: u64 = 10_000;
/// Of one key, on as many streams as there are tens.
const WATCHERS: u64 = 1_000;
const LEADER: usize = 0;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Put,
    Range,
    Watch,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |nth: usize| arguments.get(nth).and_then(|text| text.parse::<u64>().ok()).filter(|n| *n > 0);
    let kind = match arguments.first().map(String::as_str) {
        Some("put") => Some(Kind::Put),
        Some("range") => Some(Kind::Range),
        Some("watch") => Some(Kind::Watch),
        _ => None,
    };
    let (Some(kind), Some(operations), Some(batch), Some(members)) = (kind, number(1), number(2), number(3))
    else {
        return say("cost put|range|watch OPERATIONS BATCH MEMBERS");
    };
    let mut cluster = Cluster::start(members);
    // The same for every number of operations, so that it falls out of the difference.
    (0..KEYS).for_each(|key| cluster.ask(propose(key)));
    cluster.run();
    if kind == Kind::Watch {
        cluster.watch();
    }
    cluster.came = 0;
    for nth in 0..operations {
        cluster.ask(match kind {
            Kind::Put => propose(nth * 7_919 % KEYS),
            Kind::Range => {
                let range = Range::of(KeyRange::single(key(nth * 7_919 % KEYS)));
                ClientWork::Read(request::Request::Range(range), Caller::Anonymous)
            }
            Kind::Watch => propose(0),
        });
        if (nth + 1) % batch == 0 {
            cluster.run();
        }
    }
    cluster.run();
    say(&cluster.came.to_string());
}

#[expect(clippy::print_stdout, reason = "a command line tool prints to its user")]
fn say(text: &str) {
    println!("{text}");
}

/// Made without formatting, which would be a good part of what is counted.
fn key(nth: u64) -> Bytes {
    let mut key = [b'k'; KEY_BYTES];
    key[KEY_BYTES - 8..].copy_from_slice(&nth.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

fn propose(nth: u64) -> ClientWork {
    let put = Put {
        key: key(nth),
        value: Some(vec![7; VALUE_BYTES].into()),
        lease: Some(LeaseId::NONE),
        prev_kv: false,
    };
    let mut bytes = Vec::new();
    Command::from_request(request::Request::Put(put)).expect("a put is a command").encode(&mut bytes);
    ClientWork::Propose(bytes.into())
}

/// A store to which nothing is ever flushed: all there is lies in memory above it.
struct Nothing;

impl ReadView for Nothing {
    fn get(&self, _: Table, _: &[u8]) -> Option<Bytes> {
        None
    }

    fn scan(&self, _: Table, _: Bound<&[u8]>, _: Bound<&[u8]>, _: &mut dyn FnMut(&[u8], &[u8]) -> bool) {}
}

struct Cluster {
    members: Vec<(Consensus, Apply)>,
    /// Requests that the leader has received and not processed.
    asked: Vec<ClientWork>,
    tokens: u64,
    to_do: VecDeque<(usize, ConsensusInput)>,
    /// Answers, or events where there are watches.
    came: u64,
    watched: bool,
}

impl Cluster {
    fn start(count: u64) -> Cluster {
        let initial_members: Vec<Member> = (1..=count).map(founder).collect();
        let members = initial_members.iter().map(|member| machine(member.id, &initial_members)).collect();
        let mut cluster = Cluster {
            members,
            asked: Vec::new(),
            tokens: 0,
            to_do: VecDeque::new(),
            came: 0,
            watched: false,
        };
        cluster.to_do.push_back((LEADER, ConsensusInput::Campaign));
        cluster.run();
        assert!(cluster.members[LEADER].0.status().leader.is_some(), "no other member became a candidate");
        cluster
    }

    fn ask(&mut self, work: ClientWork) {
        self.asked.push(work);
    }

    fn watch(&mut self) {
        self.watched = true;
        let credit = Credit { responses: i64::MAX / 2, bytes: i64::MAX / 2 };
        for stream in (0..WATCHERS / 100).map(StreamId) {
            self.apply(LEADER, apply::ApplyInput::Watch(watch::Input::Open { stream, credit }));
            for _ in 0..100 {
                let create = Create {
                    caller: Caller::Anonymous,
                    stream,
                    id: None,
                    keys: KeyRange::single(key(0)),
                    start: Revision::ZERO,
                    prev_kv: false,
                    filters: Filters::default(),
                    progress_notify: false,
                    fragment: false,
                };
                self.apply(LEADER, apply::ApplyInput::Watch(watch::Input::Create(create)));
            }
        }
        self.run();
    }

    /// Runs until no message, write or answer is outstanding.
    fn run(&mut self) {
        let mut inputs = Vec::new();
        for work in std::mem::take(&mut self.asked) {
            self.tokens += 1;
            let token = ReplyToken(self.tokens);
            inputs.push(ConsensusInput::Request(ClientRequest {
                token,
                deadline: Instant::FAR_FUTURE,
                work,
            }));
        }
        self.turn(LEADER, inputs);
        while let Some((member, input)) = self.to_do.pop_front() {
            self.turn(member, vec![input]);
        }
    }

    fn turn(&mut self, member: usize, inputs: Vec<ConsensusInput>) {
        let mut out = node::consensus::ConsensusOutput::default();
        let consensus = &mut self.members[member].0;
        inputs.into_iter().for_each(|input| consensus.step(Instant::ZERO, input, &mut out));
        consensus.collect(Instant::ZERO, &mut out);
        for (to, frame) in out.send {
            self.deliver(member, to, frame);
        }
        self.to_do
            .extend(out.persist.into_iter().map(|persist| (member, ConsensusInput::Persisted(persist.seq))));
        if let Some(term) = out.leading {
            self.apply(member, apply::ApplyInput::Leading(term));
        }
        if !out.committed.is_empty() {
            self.apply(member, apply::ApplyInput::Committed(out.committed));
        }
        for batch in out.reads {
            self.apply(member, apply::ApplyInput::Read(batch));
        }
        assert!(out.refused.is_empty(), "nothing is refused: {:?}", out.refused);
    }

    /// As another process would get it: encoded and decoded.
    fn deliver(&mut self, from: usize, to: NodeId, frame: Frame) {
        let frame = Frame::decode(frame.encode()).expect("what was encoded can be decoded");
        self.to_do.push_back((to.0 as usize - 1, ConsensusInput::Received { from: id(from), frame }));
    }

    fn apply(&mut self, member: usize, input: apply::ApplyInput) {
        let mut out = apply::ApplyOutput::default();
        let machine = &mut self.members[member].1;
        machine.step(Instant::ZERO, &Nothing, input, &mut out);
        self.came += if self.watched {
            out.watch.iter().map(|response| response.event_count() as u64).sum()
        } else {
            out.replies.iter().filter(|(_, outcome)| outcome.is_ok()).count() as u64
        };
        let configs = out.members.iter().map(|(index, members)| (*index, config_of(members))).collect();
        let index: Index = machine.applied_index();
        self.to_do.push_back((member, ConsensusInput::Applied { index, finished: out.finished, configs }));
        for proposals in out.proposals {
            self.to_do.push_back((member, ConsensusInput::LeaderProposals(proposals)));
        }
    }
}

fn id(member: usize) -> NodeId {
    NodeId(member as u64 + 1)
}

fn founder(nth: u64) -> Member {
    Member {
        id: NodeId(nth),
        name: format!("m{nth}"),
        peer_urls: vec![format!("http://m{nth}")],
        client_urls: Vec::new(),
        learner: false,
    }
}

fn machine(me: NodeId, initial_members: &[Member]) -> (Consensus, Apply) {
    let params = apply::ApplyParams {
        me,
        boot: Boot(1),
        flush_interval: Duration::MAX,
        flush_bytes: usize::MAX,
        range_bytes: 1 << 20,
        watch: watch::Params {
            progress_interval: Duration::MAX,
            fragment_bytes: 1 << 20,
            batch_revisions: 1_000,
            batch_bytes: 1 << 20,
            watches_max: WATCHERS as usize,
        },
        leases: LeaseClockParams { election: Duration::MAX, checkpoint_interval: Duration::MAX },
        digest_secret: 0,
        initial_members: initial_members.to_vec(),
        quota_bytes: 0,
        history: coord::HistoryWindow::NONE,
        compaction: compactor::CompactorParams {
            keep: None,
            lag_max: compactor::LagLimit { age: Duration::MAX, revisions: u64::MAX },
            interval: Duration::MAX,
            patience: Duration::MAX,
            grace: Duration::MAX,
        },
    };
    let apply = Apply::restore(params, Instant::ZERO, &Nothing).expect("there is nothing to be damaged");
    let raft = raft::Params {
        id: me,
        voters: initial_members.iter().map(|member| member.id).collect(),
        heartbeat_ticks: 10,
        election_ticks: 100,
        seed: 1,
        log_keep_entries: 1_000,
        append_bytes: base::limits::APPEND_BYTES_SOFT,
        lost: raft::Doubt::None,
        is_new: false,
    };
    let nowhere = Position { term: Term::ZERO, index: Index(0) };
    let restored = LogReplay::default().finish(nowhere).expect("an empty log has no gap");
    let consensus = Consensus::new(ConsensusParams { raft, retry_after: Duration::MAX }, restored, Boot(1));
    (consensus, apply)
}
