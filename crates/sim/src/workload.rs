//! What the clients ask for: a few keys that everybody fights over, every value written once only, so that
//! whoever reads one knows which write it came from.

use base::{KeyRange, LeaseId, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};

const KEYS: u64 = 8;

pub struct Workload {
    values: u64,
    /// A revision that some answer showed, to compare with.
    seen: Revision,
}

impl Workload {
    pub fn new() -> Workload {
        Workload { values: 0, seen: Revision::EMPTY_STORE }
    }

    pub fn next(&mut self, rng: &mut Rng) -> Request {
        match rng.between(0, 100) {
            0..35 => self.put(rng),
            35..55 => {
                let key = key(rng);
                range(rng, KeyRange::single(key), false)
            }
            55..63 => range(rng, everything(), false),
            63..68 => range(rng, everything(), true),
            68..76 => delete(rng),
            76..84 => self.compare_and_set(rng),
            84..92 => self.create(rng),
            _ => self.move_together(rng),
        }
    }

    /// Learns from an answer what a client could know.
    pub fn learn(&mut self, reply: &Reply) {
        if let Body::Range(found) = &reply.body
            && let Some(kv) = found.kvs.last()
        {
            self.seen = kv.mod_revision;
        }
    }

    /// Mostly short; now and then over several sectors of the disk, so that its write can tear.
    fn value(&mut self, rng: &mut Rng) -> Bytes {
        self.values += 1;
        let mut value = format!("value-{}", self.values).into_bytes();
        if rng.chance(30_000) {
            value.resize(rng.between(4_000, 16_000) as usize, b'.');
        }
        Bytes::from(value)
    }

    fn put(&mut self, rng: &mut Rng) -> Request {
        let key = key(rng);
        let prev_kv = rng.chance(300_000);
        Request::Put(self.put_to(rng, key, prev_kv))
    }

    fn put_to(&mut self, rng: &mut Rng, key: Bytes, prev_kv: bool) -> Put {
        Put { key, value: Some(self.value(rng)), lease: Some(LeaseId::NONE), prev_kv }
    }

    fn compare_and_set(&mut self, rng: &mut Rng) -> Request {
        let key = key(rng);
        let keys = KeyRange::single(key.clone());
        let relation = *rng.pick(&[Relation::Equal, Relation::Less, Relation::Greater, Relation::NotEqual]);
        let compare = Compare { keys: keys.clone(), relation, target: Target::Mod(self.seen) };
        let put = Request::Put(self.put_to(rng, key, true));
        Request::Txn(Txn {
            compares: vec![compare],
            success: vec![put],
            failure: vec![range(rng, keys, false)],
        })
    }

    /// The idiom of locks: put only if nobody has.
    fn create(&mut self, rng: &mut Rng) -> Request {
        let key = key(rng);
        let keys = KeyRange::single(key.clone());
        let absent = Target::Create(Revision::ZERO);
        let compare = Compare { keys: keys.clone(), relation: Relation::Equal, target: absent };
        let put = Request::Put(self.put_to(rng, key, false));
        let remove = Request::Delete(Delete { keys, prev_kv: true });
        Request::Txn(Txn { compares: vec![compare], success: vec![put], failure: vec![remove] })
    }

    /// Two keys in one revision, read back inside the same transaction.
    fn move_together(&mut self, rng: &mut Rng) -> Request {
        let first = rng.between(0, KEYS);
        let second = (first + rng.between(1, KEYS)) % KEYS;
        let success = vec![
            Request::Put(self.put_to(rng, numbered(first), false)),
            Request::Put(self.put_to(rng, numbered(second), false)),
            range(rng, everything(), false),
        ];
        Request::Txn(Txn { compares: vec![], success, failure: vec![] })
    }
}

impl Default for Workload {
    fn default() -> Workload {
        Workload::new()
    }
}

fn key(rng: &mut Rng) -> Bytes {
    numbered(rng.between(0, KEYS))
}

fn numbered(number: u64) -> Bytes {
    Bytes::from(format!("key-{number}"))
}

fn everything() -> KeyRange {
    KeyRange::from_wire(Bytes::from_static(b"\0"), Bytes::from_static(b"\0"))
}

fn delete(rng: &mut Rng) -> Request {
    let key = key(rng);
    let keys = if rng.chance(200_000) {
        KeyRange::from_wire(key, numbered(KEYS - 1))
    } else {
        KeyRange::single(key)
    };
    Request::Delete(Delete { keys, prev_kv: rng.chance(500_000) })
}

fn range(rng: &mut Rng, keys: KeyRange, serializable: bool) -> Request {
    let limit = if rng.chance(200_000) { rng.between(1, KEYS) } else { 0 };
    let in_pieces = rng.chance(300_000);
    Request::Range(Range { limit, serializable, in_pieces, ..Range::of(keys) })
}
