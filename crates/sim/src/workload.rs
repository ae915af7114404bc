//! The requests of the clients: a few contended keys, every value written once only, so that a read value identifies its
//! write.

use crate::scenario::Mix;
use base::{KeyRange, LeaseId, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};

const KEYS: u64 = 8;
/// How many leases are remembered.
const LEASES: usize = 6;

pub struct Workload {
    values: u64,
    /// A revision that some answer showed, to compare with.
    seen: Revision,
    /// Leases that were granted lately and may live.
    pub leases: Vec<LeaseId>,
}

impl Workload {
    pub fn new() -> Workload {
        Workload { values: 0, seen: Revision::EMPTY_STORE, leases: Vec::new() }
    }

    pub fn next(&mut self, rng: &mut Rng, mix: Mix) -> Request {
        if mix == Mix::Usual || rng.chance(400_000) {
            return self.usual(rng);
        }
        match mix {
            Mix::Usual => unreachable!("it was just ruled out"),
            Mix::Deletes if rng.chance(500_000) => delete(rng),
            Mix::Deletes => self.put(rng),
            Mix::SameKeys => self.same_key_again(rng),
            Mix::LookingBack => self.put_and_look_back(rng),
        }
    }

    fn usual(&mut self, rng: &mut Rng) -> Request {
        match rng.between(0, 100) {
            0..35 => self.put(rng),
            35..55 => {
                let key = key(rng);
                range(rng, KeyRange::single(key), false)
            }
            55..60 => range(rng, everything(), false),
            60..65 => range(rng, everything(), true),
            65..68 => self.past_range(rng),
            68..76 => delete(rng),
            76..84 => self.compare_and_set(rng),
            84..91 => self.create(rng),
            91..93 => self.put_and_look_back(rng),
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
        let leased = !self.leases.is_empty() && rng.chance(250_000);
        let lease = if leased { *rng.pick(&self.leases) } else { LeaseId::NONE };
        Put { key, value: Some(self.value(rng)), lease: Some(lease), prev_kv }
    }

    /// A lease to put keys under; the oldest are forgotten.
    pub fn add_lease(&mut self, id: LeaseId) {
        self.leases.push(id);
        if self.leases.len() > LEASES {
            self.leases.remove(0);
        }
    }

    /// A revision that may be gone, or not yet there.
    fn past(&self, rng: &mut Rng) -> Revision {
        Revision((self.seen.0 + 5 - rng.between(0, 40) as i64).max(1))
    }

    fn past_range(&mut self, rng: &mut Rng) -> Request {
        let revision = self.past(rng);
        let serializable = rng.chance(300_000);
        Request::Range(Range { revision, serializable, ..Range::of(everything()) })
    }

    /// A write that is refused together with its look into the past.
    fn put_and_look_back(&mut self, rng: &mut Rng) -> Request {
        let key = key(rng);
        let put = Request::Put(self.put_to(rng, key, false));
        let back = Request::Range(Range { revision: self.past(rng), ..Range::of(everything()) });
        let success = if rng.chance(500_000) { vec![put, back] } else { vec![back, put] };
        Request::Txn(Txn { compares: vec![], success, failure: vec![] })
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

    /// The idiom of locks: put only if the key is absent.
    fn create(&mut self, rng: &mut Rng) -> Request {
        let key = key(rng);
        let keys = KeyRange::single(key.clone());
        let absent = Target::Create(Revision::ZERO);
        let compare = Compare { keys: keys.clone(), relation: Relation::Equal, target: absent };
        let put = Request::Put(self.put_to(rng, key, false));
        let remove = Request::Delete(Delete { keys, prev_kv: true });
        Request::Txn(Txn { compares: vec![compare], success: vec![put], failure: vec![remove] })
    }

    /// One key, named in compares, both branches, ranges and a transaction within.
    fn same_key_again(&mut self, rng: &mut Rng) -> Request {
        let name = key(rng);
        let keys = || KeyRange::single(name.clone());
        let look = || Request::Range(Range::of(keys()));
        let compare = Compare { keys: keys(), relation: Relation::Less, target: Target::Mod(self.seen) };
        let put = Request::Put(self.put_to(rng, name.clone(), true));
        let other = Request::Put(self.put_to(rng, name.clone(), false));
        let inner = Txn { compares: vec![compare.clone()], success: vec![look(), put], failure: vec![other] };
        let last = Request::Put(self.put_to(rng, name.clone(), false));
        Request::Txn(Txn {
            compares: vec![compare.clone(), compare],
            success: vec![look(), Request::Txn(inner), look()],
            failure: vec![look(), last, look()],
        })
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
