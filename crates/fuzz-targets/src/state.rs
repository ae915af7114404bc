//! The state machine: any commands applied one after the other by a real member, and any rows of a store read back.

use crate::driver::Driver;
use crate::input::Input;
use crate::member;
use base::{LeaseId, NodeId, ReadView, Revision, Table};
use bytes::Bytes;
use coord::{Command, State};
use disk::SimDisk;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::LazyLock;

const ME: NodeId = NodeId(1);
const COMMANDS_MAX: usize = 24;

fn leading(disk: &SimDisk) -> Driver {
    let mut driver = Driver::open(disk, ME, &[ME]).expect("an empty disk can be opened");
    (0..60).for_each(|_| driver.tick());
    driver
}

/// Commands as they stand in the log, each with its length before it.
pub fn commands(bytes: &[u8]) {
    let disk = SimDisk::new(3);
    let mut driver = leading(&disk);
    let mut input = Input::new(bytes);
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() {
            break;
        }
        driver.propose(Bytes::copy_from_slice(input.string()));
        driver.tick();
    }
    (0..10).for_each(|_| driver.tick());
    drop(driver);
    let mut driver = Driver::open(&disk, ME, &[ME]).expect("a member comes back from its disk");
    (0..5).for_each(|_| driver.tick());
}

fn encoded(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode(&mut out);
    out
}

fn known_commands() -> Vec<Vec<u8>> {
    let grant = coord::Grant { id: LeaseId(7), ttl: 60 };
    let compact = coord::Compact { revision: Revision(2), physical: false };
    let mut all: Vec<Vec<u8>> = [
        Command::LeaseGrant(grant),
        Command::LeaseCheckpoint(Vec::new()),
        Command::Compact(compact),
        Command::TimeMark { millis: 1_700_000_000_000 },
        Command::Quota(Some(1 << 20)),
    ]
    .iter()
    .map(encoded)
    .collect();
    all.push(member::put(Bytes::from_static(b"value")).to_vec());
    all
}

pub fn command_seeds() -> Vec<Vec<u8>> {
    let with_length = |command: &Vec<u8>| [&[command.len() as u8][..], command].concat();
    let known = known_commands();
    let mut seeds: Vec<Vec<u8>> = known.iter().map(with_length).collect();
    seeds.push(known.iter().flat_map(with_length).collect());
    // The first bytes are the layout and the kind: one of each, with nothing behind it.
    let layout = known[0][0];
    seeds.extend((0..48u8).map(|kind| vec![6, layout, kind, 1, 1, 1, 1]));
    seeds
}

/// Rows of a store that was written by a member.
static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let disk = SimDisk::new(5);
    let mut driver = leading(&disk);
    for nth in 0..12 {
        driver.propose(member::put(vec![nth; 20].into()));
        driver.propose(known_commands()[usize::from(nth) % 6].clone().into());
        (0..4).for_each(|_| driver.tick());
    }
    Rows { rows: driver.rows() }
});

#[derive(Clone)]
struct Rows {
    rows: BTreeMap<(u8, Bytes), Bytes>,
}

impl ReadView for Rows {
    fn get(&self, table: Table, key: &[u8]) -> Option<Bytes> {
        self.rows.get(&(table as u8, Bytes::copy_from_slice(key))).cloned()
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        let rows = self.rows.iter().filter(|((of, key), _)| {
            *of == table as u8 && std::ops::RangeBounds::<[u8]>::contains(&(from, to), &key[..])
        });
        for ((_, key), value) in rows {
            if !visit(key, value) {
                return;
            }
        }
    }
}

/// Rows that were changed, taken away or added: the state is read, or what is wrong is said.
pub fn rows(bytes: &[u8]) {
    let mut rows = ROWS.clone();
    let keys: Vec<(u8, Bytes)> = rows.rows.keys().cloned().collect();
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let (at, how) = (usize::from(input.byte()) % keys.len(), input.choice(4));
        let (table, key) = keys[at].clone();
        let Some(value) = rows.rows.remove(&(table, key.clone())) else { continue };
        let (key, value) = match how {
            0 => continue,
            1 => (changed(&key, &mut input), value),
            2 => (key, Bytes::copy_from_slice(input.string())),
            _ => (key, changed(&value, &mut input)),
        };
        rows.rows.insert((table, key), value);
    }
    if let Ok(Some(state)) = State::load(&rows) {
        let _ = (state.hash(), state.key_count(), state.list_leases());
    }
}

fn changed(bytes: &Bytes, input: &mut Input<'_>) -> Bytes {
    let mut bytes = bytes.to_vec();
    let at = usize::from(input.byte());
    match bytes.get_mut(at) {
        Some(byte) => *byte = input.byte(),
        None => bytes.push(input.byte()),
    }
    bytes.into()
}

pub fn row_seeds() -> Vec<Vec<u8>> {
    (0..64u8).map(|nth| vec![nth * 4, nth % 4, nth / 4, 255]).collect()
}
