//! A whole member without threads: the real machines over the real files on a disk in memory.
//! Inputs go in one at a time and everything that follows is carried out, as the server does it; what the disk is asked
//! for may be held back, so that forged frames come between a write and its sync.

use base::{Boot, Instant, NodeId, ReadView, ReplyToken, Table};
use bytes::Bytes;
use disk::SimDisk;
use engine::{LogFile, OpenedMember};
use node::consensus::{ClientRequest, ClientWork, ConsensusInput, ConsensusOutput};
use node::{Frame, apply, member};
use raft::{Persist, RaftStatus};
use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::time::Duration;

const TICK_US: u64 = 10_000;
const ELECTION_TICKS: usize = 10;
/// What follows from one input comes to an end after so many turns.
const TURNS_MAX: usize = 64;

pub struct Driver {
    member: OpenedMember,
    now: Instant,
    out: ConsensusOutput,
    to_persist: Vec<Persist>,
    to_apply: Vec<apply::ApplyInput>,
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
            out: ConsensusOutput::default(),
            to_persist: Vec::new(),
            to_apply: Vec::new(),
            sent: Vec::new(),
            holds_disk: false,
            tokens: 0,
        };
        driver.run();
        Ok(driver)
    }

    pub fn status(&self) -> RaftStatus {
        self.member.consensus.status()
    }

    pub fn applied(&self) -> base::Position {
        self.member.apply.applied()
    }

    /// What the store holds, by table and key.
    pub fn rows(&self) -> BTreeMap<(u8, Bytes), Bytes> {
        let mut rows = BTreeMap::new();
        for table in Table::ALL {
            self.member.member_store.view().scan(table, Unbounded, Unbounded, &mut |key, value| {
                rows.insert((table as u8, Bytes::copy_from_slice(key)), Bytes::copy_from_slice(value));
                true
            });
        }
        rows
    }

    pub fn tick(&mut self) {
        self.now = self.now.after(Duration::from_micros(TICK_US));
        self.to_apply.push(apply::ApplyInput::TimeOfDay((self.now.0 / 1_000) as i64));
        self.to_apply.push(apply::ApplyInput::Tick);
        self.step(ConsensusInput::Tick);
    }

    /// A frame as it comes from a peer's stream; what cannot be decoded ends there.
    pub fn receive(&mut self, from: NodeId, bytes: Bytes) {
        if let Some(frame) = Frame::decode(bytes) {
            self.step(ConsensusInput::Received { from, frame });
        }
    }

    pub fn propose(&mut self, command: Bytes) {
        self.tokens += 1;
        let deadline = self.now.after(Duration::from_secs(5));
        let request =
            ClientRequest { token: ReplyToken(self.tokens), deadline, work: ClientWork::Propose(command) };
        self.step(ConsensusInput::Request(request));
    }

    pub fn step(&mut self, input: ConsensusInput) {
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
        inputs.extend(out.leading.map(apply::ApplyInput::Leading));
        if !out.committed.is_empty() {
            inputs.push(apply::ApplyInput::Committed(out.committed));
        }
        inputs.extend(out.reads.into_iter().map(apply::ApplyInput::Read));
        inputs.extend(
            out.peer_messages
                .into_iter()
                .map(|(from, message)| apply::ApplyInput::PeerMessage { from, message }),
        );
        for stage in out.stage {
            let staged = self.member.member_store.stage(stage).expect("a disk in memory does not fail");
            if let Some(staged) = staged {
                let input = ConsensusInput::Staged { id: staged.id, at: staged.at, config: staged.config };
                self.member.consensus.step(self.now, input, &mut self.out);
            }
        }
        for order in out.snapshots {
            let to = order.to;
            let stream = self.member.member_store.snapshot(order).expect("a disk in memory does not fail");
            self.sent.extend(stream.map(|frame| (to, frame.encode())));
            self.member.consensus.step(
                self.now,
                ConsensusInput::SnapshotSent { to, ok: true },
                &mut self.out,
            );
        }
        if let Some(index) = out.released {
            self.member.member_log.release(index).expect("a disk in memory does not fail");
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
            self.member.member_store.install(at).expect("a disk in memory does not fail");
            self.member
                .apply
                .install(self.now, self.member.member_store.view())
                .expect("a staged store can be read");
        }
        self.member.member_log.write(&persists).expect("a disk in memory does not fail");
        self.member.member_log.sync().expect("a disk in memory does not fail");
        let seq = persists.last().map_or(0, |persist| persist.seq);
        self.member.consensus.step(self.now, ConsensusInput::Persisted(seq), &mut self.out);
        true
    }

    /// Whether something was applied.
    fn apply(&mut self) -> bool {
        if self.to_apply.is_empty() {
            return false;
        }
        let mut out = apply::ApplyOutput::default();
        let before = self.member.apply.applied().index;
        for input in std::mem::take(&mut self.to_apply) {
            self.member.apply.step(self.now, self.member.member_store.view(), input, &mut out);
        }
        let answers = out.answers.into_iter().map(|answer| ConsensusInput::Answered(vec![answer]));
        let messages =
            out.peer_messages.into_iter().map(|(to, message)| ConsensusInput::SendPeerMessage(to, message));
        let mut inputs: Vec<ConsensusInput> = answers.chain(messages).collect();
        inputs.extend(out.proposals.into_iter().map(ConsensusInput::LeaderProposals));
        let configs = out.members.iter().map(|(index, members)| (*index, member::config_of(members)));
        let configs: Vec<_> = configs.collect();
        let index = self.member.apply.applied().index;
        if index > before || !out.finished.is_empty() {
            inputs.push(ConsensusInput::Applied { index, finished: out.finished, configs });
        }
        if let Some(flush) = out.flush {
            self.member.member_store.flush(&flush).expect("a disk in memory does not fail");
            self.to_apply.push(apply::ApplyInput::Flushed(flush.number));
            inputs.push(ConsensusInput::Flushed(flush.at));
        }
        for input in inputs {
            self.member.consensus.step(self.now, input, &mut self.out);
        }
        true
    }
}

fn params(me: NodeId, voters: &[NodeId]) -> engine::MemberParams {
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
    engine::MemberParams {
        consensus: node::consensus::ConsensusParams { raft, retry_after: Duration::from_millis(300) },
        flush_interval: Duration::from_millis(30),
        flush_bytes: 1_024,
        range_bytes: 1_024,
        quota_bytes: 0,
        compaction: node::compactor::CompactorParams {
            keep: Some(node::compactor::Retention { age: Duration::from_millis(50), revisions: 4, step: 1 }),
            lag_max: node::compactor::LagLimit { age: Duration::from_secs(4), revisions: 1_000 },
            interval: Duration::from_millis(100),
            patience: Duration::from_millis(50),
            grace: Duration::from_secs(1),
        },
        history: coord::HistoryWindow { millis: i64::MAX, rows_max: u64::MAX },
        leases: node::LeaseClockParams {
            election: Duration::from_micros(TICK_US * ELECTION_TICKS as u64),
            checkpoint_interval: Duration::from_millis(200),
        },
        digest_secret: me.0,
        initial_members: voters.iter().map(founder).collect(),
        first_boot: Boot(1),
        wal_segment_bytes: 64 * 1_024,
        member_store: engine::MemberStoreParams {
            cache_bytes: 64 * 1_024,
            chunk_bytes: 1_024,
            unindexed_keys_max: 8,
        },
        watch: coord::watch::Params {
            progress_interval: Duration::from_secs(1),
            fragment_bytes: 1_024,
            batch_revisions: 5,
            batch_bytes: 1_024,
            watches_max: 8,
        },
    }
}
