//! Forged frames to a member of a cluster: one that follows, one that leads, and one that is the only voter.
//! The steps are read from the bytes. Between forged frames the clock ticks, honest answers come, clients write, and the
//! disk may be slow.

use crate::driver::Driver;
use crate::frames::{self, RaftMessage, SNAPSHOT_BEGIN, SNAPSHOT_END, SNAPSHOT_ROWS};
use crate::input::Input;
use base::NodeId;
use bytes::Bytes;
use coord::Command;
use coord::request::Put;
use disk::SimDisk;
use node::consensus;

const ME: NodeId = NodeId(1);
const STEPS_MAX: usize = 64;
const ELECTION_ROUNDS: usize = 60;

pub fn run_frames(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let disk = SimDisk::new(1);
    let (voters, peers): (&[NodeId], &[u64]) = match input.choice(3) {
        0 => (&[ME], &[2]),
        _ => (&[ME, NodeId(2), NodeId(3)], &[2, 3]),
    };
    let mut driver = Driver::open(&disk, ME, voters).expect("an empty disk can be opened");
    if input.flag() {
        lead(&mut driver);
    }
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        step(&mut driver, &mut input, peers);
    }
    driver.sync();
    drop(driver);
    // What was written down can be read again.
    let mut driver = Driver::open(&disk, ME, voters).expect("a member comes back from its disk");
    (0..5).for_each(|_| driver.tick());
}

/// Elects the member, by honest answers to what it asks.
fn lead(driver: &mut Driver) {
    for _ in 0..ELECTION_ROUNDS {
        if driver.status().role == raft::Role::Leader && driver.applied().index.0 > 1 {
            return;
        }
        driver.tick();
        answer_all(driver);
        answer_all(driver);
    }
}

fn answer_all(driver: &mut Driver) {
    for (to, frame) in std::mem::take(&mut driver.sent) {
        if let Some(answer) = RaftMessage::read(&frame).and_then(|message| message.answer()) {
            driver.receive(to, answer.frame());
        }
    }
}

fn step(driver: &mut Driver, input: &mut Input<'_>, peers: &[u64]) {
    let status = driver.status();
    let known = [status.term.0, status.last.0, status.committed.0, driver.applied().term.0, ME.0];
    match input.choice(16) {
        0..=5 => {
            let message = frames::forged(input, ME.0, peers, &known);
            driver.receive(NodeId(message.from), message.frame());
        }
        6 => {
            let part = forged_part(input, peers, &known);
            driver.receive(NodeId(peers[input.choice(peers.len())]), part);
        }
        7 => driver.tick(),
        8 => (0..ELECTION_ROUNDS / 4).for_each(|_| driver.tick()),
        9 => answer_all(driver),
        10 => {
            let value = Bytes::copy_from_slice(input.string());
            driver.propose(put(value));
        }
        11 => driver.holds_disk = !driver.holds_disk,
        12 => driver.sync(),
        13 => driver.step(consensus::ConsensusInput::Lost(NodeId(peers[input.choice(peers.len())]))),
        14 => {
            let mut frame = vec![input.byte() % 12];
            frame.extend_from_slice(input.string());
            driver.receive(NodeId(peers[input.choice(peers.len())]), frame.into());
        }
        _ => {
            let from = NodeId(peers[input.choice(peers.len())]);
            driver.receive(from, Bytes::copy_from_slice(input.long_string()));
        }
    }
}

fn forged_part(input: &mut Input<'_>, peers: &[u64], known: &[u64]) -> Bytes {
    let (id, nth) = (input.number(&[]) % 4, u32::from(input.byte() % 4));
    match input.choice(3) {
        0 => {
            let mut message = frames::forged(input, ME.0, peers, known);
            message.kind = frames::SNAPSHOT;
            message.entries.clear();
            let mut body = Vec::new();
            message.snapshot.get_or_insert_with(|| {
                (input.number(known), input.number(known), [vec![ME.0, 2, 3], Vec::new(), Vec::new()])
            });
            message.encode(&mut body);
            frames::snapshot_part(SNAPSHOT_BEGIN, id, nth, &body)
        }
        1 => frames::snapshot_part(SNAPSHOT_ROWS, id, nth, input.long_string()),
        _ => frames::snapshot_part(SNAPSHOT_END, id, nth, &[]),
    }
}

pub fn put(value: Bytes) -> Bytes {
    let put = Put {
        key: Bytes::from_static(b"key"),
        value: Some(value),
        lease: Some(base::LeaseId(0)),
        prev_kv: false,
    };
    let mut out = Vec::new();
    Command::Put(put).encode(&mut out);
    out.into()
}

/// A member that follows, one that leads, and one alone, each with a few steps of every sort.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for start in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        for step in 0..16 {
            let mut seed = start.to_vec();
            for nth in 0..4u8 {
                seed.extend([10, 1, b'v', 9, step, nth]);
                seed.extend([64, 1, 68, 72, 64, 0, 0, 0, 0]);
            }
            seeds.push(seed);
        }
    }
    seeds
}
