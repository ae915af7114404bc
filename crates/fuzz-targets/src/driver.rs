//! A whole member without threads: the real machines over the real files on a disk in memory.
//! Inputs go in one at a time and everything that follows is carried out, as the server does it; what the disk is asked
//! for may be held back, so that forged frames come between a write and its sync.

use base::{Boot, Instant, NodeId, Table, Token, View};
use bytes::Bytes;
use disk::SimDisk;
use engine::Member;
use node::consensus::{Input, Output, Request, Work};
use node::{Frame, apply, member};
use raft::{Persist, Status};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::time::Duration;

const TICK_US: u64 = 10_000;
const ELECTION_TICKS: usize = 10;
/// What follows from one input comes to an end after so many turns.
const TURNS_MAX: usize = 64;

pub struct Driver {
    member: Member,
    now: Instant,
    out: Output,
    to_persist: Vec<Persist>,
    to_apply: Vec<apply::Input>,
    /// Frames that the member sent since they were last looked at.
    pub sent: Vec<(NodeId, Bytes)>,
    /// Writes wait for `sync`.
    pub holds_disk: bool,
    tokens: u64,
}

impl Driver {
    pub fn open(disk: &SimDisk, me: NodeId, voters: &[NodeId]) -> Result<Driver, engine::Error> {
        let now = Instant(1_000_000);
        let member = engine::open(Arc::new(disk.clone()), &params(me, voters), now)?;
        let mut driver = Driver {
            member,
            now,
            out: Output::default(),
            to_persist: Vec::new(),
            to_apply: Vec::new(),
            sent: Vec::new(),
            holds_disk: false,
            tokens: 0,
        };
        driver.run();
        Ok(driver)
    }

    pub fn status(&self) -> Status {
        self.member.consensus.status()
    }

    pub fn applied(&self) -> base::Position {
        self.member.apply.applied()
    }

    /// What the store holds, by table and key.
    pub fn rows(&self) -> BTreeMap<(u8, Bytes), Bytes> {
        let mut rows = BTreeMap::new();
        for table in Table::ALL {
            self.member.vault.view().scan(table, Unbounded, Unbounded, &mut |key, value| {
                rows.insert((table as u8, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
                true
            });
        }
        rows
    }

    pub fn tick(&mut self) {
        self.now = self.now.after(Duration::from_micros(TICK_US));
        self.to_apply.push(apply::Input::TimeOfDay((self.now.0 / 1_000) as i64));
        self.to_apply.push(apply::Input::Tick);
        self.step(Input::Tick);
    }

    /// A frame as it comes from a peer's stream; what cannot be decoded ends there.
    pub fn receive(&mut self, from: NodeId, bytes: Bytes) {
        if let Some(frame) = Frame::decode(bytes) {
            self.step(Input::Received { from, frame });
        }
    }

    pub fn propose(&mut self, command: Bytes) {
        self.tokens += 1;
        let deadline = self.now.after(Duration::from_secs(5));
        let request = Request { token: Token(self.tokens), deadline, work: Work::Propose(command) };
        self.step(Input::Request(request));
    }

    pub fn step(&mut self, input: Input) {
        self.member.consensus.step(self.now, input, &mut self.out);
        self.run();
    }

    /// Makes durable what was held back.
    pub fn sync(&mut self) {
        let held = std::mem::replace(&mut self.holds_disk, false);
        self.run();
        self.holds_disk = held;
    }

    fn run(&mut self) {
        for _ in 0..TURNS_MAX {
            self.member.consensus.collect(self.now, &mut self.out);
            self.perform();
            if !self.persist() & !self.apply() {
                return;
            }
        }
    }

    fn perform(&mut self) {
        let out = std::mem::take(&mut self.out);
        self.sent.extend(out.send.into_iter().map(|(to, frame)| (to, frame.encode())));
        let inputs = &mut self.to_apply;
        inputs.extend(out.leading.map(apply::Input::Leading));
        if !out.committed.is_empty() {
            inputs.push(apply::Input::Committed(out.committed));
        }
        inputs.extend(out.reads.into_iter().map(apply::Input::Read));
        inputs.extend(out.words.into_iter().map(|(from, word)| apply::Input::Word { from, word }));
        for stage in out.stage {
            let staged = self.member.vault.stage(stage).expect("a disk in memory does not fail");
            if let Some(staged) = staged {
                let input = Input::Staged { id: staged.id, at: staged.at, config: staged.config };
                self.member.consensus.step(self.now, input, &mut self.out);
            }
        }
        for order in out.snapshots {
            let to = order.to;
            let stream = self.member.vault.snapshot(order).expect("a disk in memory does not fail");
            self.sent.extend(stream.map(|frame| (to, frame.encode())));
            self.member.consensus.step(self.now, Input::SnapshotSent { to, ok: true }, &mut self.out);
        }
        if let Some(index) = out.released {
            self.member.journal.release(index).expect("a disk in memory does not fail");
        }
        self.to_persist.extend(out.persist);
    }

    /// Whether something was made durable.
    fn persist(&mut self) -> bool {
        if self.holds_disk || self.to_persist.is_empty() {
            return false;
        }
        let persists = std::mem::take(&mut self.to_persist);
        for at in persists.iter().filter_map(|persist| persist.install) {
            self.member.vault.install(at).expect("a disk in memory does not fail");
            self.member
                .apply
                .install(self.now, self.member.vault.view())
                .expect("a staged store can be read");
        }
        self.member.journal.write(&persists).expect("a disk in memory does not fail");
        self.member.journal.sync().expect("a disk in memory does not fail");
        let seq = persists.last().map_or(0, |persist| persist.seq);
        self.member.consensus.step(self.now, Input::Persisted(seq), &mut self.out);
        true
    }

    /// Whether something was applied.
    fn apply(&mut self) -> bool {
        if self.to_apply.is_empty() {
            return false;
        }
        let mut out = apply::Output::default();
        let before = self.member.apply.applied().index;
        for input in std::mem::take(&mut self.to_apply) {
            self.member.apply.step(self.now, self.member.vault.view(), input, &mut out);
        }
        let answers = out.answers.into_iter().map(|(asker, answer)| Input::Answered(asker, answer));
        let words = out.words.into_iter().map(|(to, word)| Input::Say(to, word));
        let mut inputs: Vec<Input> = answers.chain(words).collect();
        inputs.extend(out.proposals.into_iter().map(Input::Lessor));
        let configs = out.members.iter().map(|(index, members)| (*index, member::config_of(members)));
        let configs: Vec<_> = configs.collect();
        let index = self.member.apply.applied().index;
        if index > before || !out.finished.is_empty() {
            inputs.push(Input::Applied { index, finished: out.finished, configs });
        }
        if let Some(flush) = out.flush {
            self.member.vault.flush(&flush).expect("a disk in memory does not fail");
            self.to_apply.push(apply::Input::Flushed(flush.number));
            inputs.push(Input::Flushed(flush.at));
        }
        for input in inputs {
            self.member.consensus.step(self.now, input, &mut self.out);
        }
        true
    }
}

fn params(me: NodeId, voters: &[NodeId]) -> engine::Params {
    let founder = |id: &NodeId| coord::Member {
        id: *id,
        name: format!("n{}", id.0),
        peer_urls: vec![format!("http://127.0.0.1:{}", 10_000 + id.0)],
        client_urls: Vec::new(),
        learner: false,
    };
    let raft = raft::Params {
        id: me,
        voters: voters.to_vec(),
        heartbeat_ticks: 1,
        election_ticks: ELECTION_TICKS,
        seed: 1,
        log_keep_entries: 4,
        append_bytes: 4_096,
        lost: raft::Doubt::None,
        is_new: true,
    };
    engine::Params {
        consensus: node::consensus::Params { raft, retry_after: Duration::from_millis(300) },
        flush_interval: Duration::from_millis(30),
        flush_bytes: 1_024,
        range_bytes: 1_024,
        quota_bytes: 0,
        compaction: node::compactor::Params {
            keep: Some(node::compactor::Keep { age: Duration::from_millis(50), revisions: 4, step: 1 }),
            lag_max: node::compactor::Lag { age: Duration::from_secs(4), revisions: 1_000 },
            interval: Duration::from_millis(100),
            patience: Duration::from_millis(50),
            grace: Duration::from_secs(1),
        },
        history: coord::Window { millis: i64::MAX, rows_max: u64::MAX },
        leases: node::leases::Params {
            election: Duration::from_micros(TICK_US * ELECTION_TICKS as u64),
            checkpoint_interval: Duration::from_millis(200),
        },
        founders: voters.iter().map(founder).collect(),
        first_boot: Boot(1),
        wal_segment_bytes: 64 * 1_024,
        vault: engine::VaultParams { cache_bytes: 64 * 1_024, chunk_bytes: 1_024, unindexed_keys_max: 8 },
        watch: coord::watch::Params {
            progress_interval: Duration::from_secs(1),
            fragment_bytes: 1_024,
            batch_revisions: 5,
            batch_bytes: 1_024,
            watches_max: 8,
        },
    }
}
