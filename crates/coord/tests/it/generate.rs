//! Random requests over few keys, so that they meet each other often. Some keys hold zero bytes and 0xFF, and
//! some are prefixes of others.

use base::{Index, KeyRange, LeaseId, RangeEnd, Revision, Rng, Term};
use bytes::Bytes;
use coord::request::{
    Bounds, Compare, Delete, Order, Put, Range, Relation, Request, Sort, SortTarget, Target, Txn,
};
use coord::{
    Acquire, CheckFence, Checkpoint, Command, Compact, Fenced, FencingToken, Grant, Guard, Leave, Release,
    Revoke,
};

const KEYS: [&[u8]; 10] = [b"a", b"a\0", b"a\0\0", b"a\0b", b"aa", b"b", b"b\xff", b"b\xff\xff", b"c", b"\0"];
const VALUES: [&[u8]; 5] = [b"", b"x", b"y", b"xx", b"\0\0\0"];

pub fn key(rng: &mut Rng) -> Bytes {
    Bytes::from_static(KEYS[rng.between(0, KEYS.len() as u64) as usize])
}

fn value(rng: &mut Rng) -> Bytes {
    Bytes::from_static(VALUES[rng.between(0, VALUES.len() as u64) as usize])
}

fn half(rng: &mut Rng) -> bool {
    rng.chance(500_000)
}

fn rarely(rng: &mut Rng) -> bool {
    rng.chance(60_000)
}

pub fn keys(rng: &mut Rng) -> KeyRange {
    let end = match rng.between(0, 10) {
        0..6 => RangeEnd::Single,
        6..9 => RangeEnd::Before(key(rng)),
        _ => RangeEnd::Open,
    };
    KeyRange { start: key(rng), end }
}

/// About the revisions that exist, with some beyond both ends.
fn revision(rng: &mut Rng, newest: i64) -> Revision {
    if half(rng) { Revision::ZERO } else { Revision(rng.between(0, newest as u64 + 4) as i64 - 1) }
}

fn bounds(rng: &mut Rng, newest: i64) -> Bounds {
    if rng.chance(700_000) {
        Bounds::default()
    } else {
        Bounds { min: revision(rng, newest), max: revision(rng, newest) }
    }
}

fn sort(rng: &mut Rng) -> Option<Sort> {
    let targets =
        [SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
    let orders = [Order::Ascending, Order::Descending, Order::Unspecified];
    half(rng).then(|| Sort { target: *rng.pick(&targets), order: *rng.pick(&orders) })
}

pub fn range(rng: &mut Rng, newest: i64) -> Range {
    let mut keys = keys(rng);
    if half(rng) {
        keys.end = RangeEnd::Open;
    }
    Range {
        keys,
        revision: revision(rng, newest),
        limit: rng.between(0, 5),
        sort: sort(rng),
        serializable: half(rng),
        keys_only: rng.chance(200_000),
        count_only: rng.chance(100_000),
        mod_revisions: bounds(rng, newest),
        create_revisions: bounds(rng, newest),
        in_pieces: false,
    }
}

fn put(rng: &mut Rng) -> Put {
    Put {
        key: key(rng),
        value: (!rarely(rng)).then(|| value(rng)),
        lease: match rng.between(0, 20) {
            0 => None,
            1 => Some(LeaseId(9)),
            2..8 => Some(LeaseId(rng.between(1, 4) as i64)),
            _ => Some(LeaseId::NONE),
        },
        prev_kv: half(rng),
    }
}

fn delete(rng: &mut Rng) -> Delete {
    Delete { keys: keys(rng), prev_kv: half(rng) }
}

fn compare(rng: &mut Rng, newest: i64) -> Compare {
    let relations = [Relation::Equal, Relation::Greater, Relation::Less, Relation::NotEqual];
    let target = match rng.between(0, 5) {
        0 => Target::Version(rng.between(0, 4) as i64),
        1 => Target::Create(revision(rng, newest)),
        2 => Target::Mod(revision(rng, newest)),
        3 => Target::Value(value(rng)),
        _ => Target::Lease(LeaseId(rng.between(0, 4) as i64)),
    };
    Compare { keys: keys(rng), relation: *rng.pick(&relations), target }
}

pub fn txn(rng: &mut Rng, newest: i64, depth: usize) -> Txn {
    let branch = |rng: &mut Rng| -> Vec<Request> {
        (0..rng.between(0, 4)).map(|_| operation(rng, newest, depth)).collect()
    };
    Txn {
        compares: (0..rng.between(0, 3)).map(|_| compare(rng, newest)).collect(),
        success: branch(rng),
        failure: branch(rng),
    }
}

fn operation(rng: &mut Rng, newest: i64, depth: usize) -> Request {
    match rng.between(0, 10) {
        0..4 => Request::Put(put(rng)),
        4..6 => Request::Delete(delete(rng)),
        6 | 7 if depth > 0 => Request::Txn(txn(rng, newest, depth - 1)),
        _ => Request::Range(if half(rng) {
            Range { revision: Revision::ZERO, ..range(rng, newest) }
        } else {
            range(rng, newest)
        }),
    }
}

pub fn request(rng: &mut Rng, newest: i64) -> Request {
    match rng.between(0, 10) {
        0..4 => Request::Put(put(rng)),
        4 => Request::Delete(delete(rng)),
        5 | 6 => Request::Range(range(rng, newest)),
        _ => Request::Txn(txn(rng, newest, 3)),
    }
}

/// What is no request: leases come and go, and the past is forgotten.
pub fn command(rng: &mut Rng, newest: i64) -> Command {
    let id = LeaseId(rng.between(1, 4) as i64);
    match rng.between(0, 10) {
        0..4 => Command::LeaseGrant(Grant { id, ttl: rng.between(1, 100) as i64 }),
        4 | 5 => Command::LeaseRevoke(Revoke { id, guard: None }),
        6 => {
            let granted = Index(rng.between(1, newest as u64 + 2));
            let term = Term(rng.between(2, 5));
            Command::LeaseRevoke(Revoke { id, guard: Some(Guard { term, granted }) })
        }
        7 => Command::LeaseCheckpoint(vec![Checkpoint {
            id,
            granted: Index(rng.between(1, newest as u64 + 2)),
            remaining: rng.between(0, 120) as i64,
        }]),
        _ => {
            let revision = Revision(rng.between(0, newest as u64 + 3) as i64);
            Command::Compact(Compact { revision, physical: half(rng) })
        }
    }
}

/// What the lock machine understands, over a few names and leases.
pub fn lock_command(rng: &mut Rng) -> Command {
    let name = Bytes::from(*rng.pick(&["a", "a/b", "lock"]));
    let lease = LeaseId(rng.between(1, 4) as i64);
    let key = coord::lock_queue::key_of(&name, lease);
    let call = rng.between(1, 9);
    let token = Revision(rng.between(0, 40) as i64);
    let fence = FencingToken { lock: name.clone(), token };
    match rng.between(0, 10) {
        0..4 => Command::LockAcquire(Acquire {
            name,
            lease,
            value: value(rng),
            holder: Bytes::from_static(b"stranger"),
            since: rng.between(0, 1 << 40) as i64,
            call,
            is_try: half(rng),
            replaces_value: half(rng),
        }),
        4 | 5 => Command::LockRelease(Release { key, token }),
        6 | 7 => Command::LockLeave(Leave { key, call, keeps_held: half(rng) }),
        8 => Command::FenceCheck(CheckFence { resource: Bytes::from_static(b"disk"), fence }),
        _ => Command::Fenced(Fenced { fence, request: Request::Put(put(rng)) }),
    }
}
