//! Clients that put, get, delete and compare-and-set a few keys, each time through some member that is up.

use super::cluster::{Book, Cluster};
use super::journal::Journal;
use base::{KeyRange, LeaseId, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, RangeReply, Reply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};
use sim::durable::read_everything;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

const CLIENTS: u64 = 8;
const KEYS: u64 = 8;
/// Of a hundred operations, so many are followed by a pause, so that the load has some holes.
const PAUSES_PERCENT: u64 = 10;
const PAUSE: Duration = Duration::from_millis(3);

pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(cluster: &Cluster, journal: &Arc<Journal>, seed: u64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |id| {
            let client =
                Client { id, rng: Rng::new(base::rng::mix(seed) ^ id), seen: BTreeMap::new(), count: 0 };
            cluster.runtime.spawn(client.run(cluster.book.clone(), journal.clone(), stop.clone()))
        };
        Load { clients: (0..CLIENTS).map(client).collect(), stop }
    }

    /// Lets every client finish what it is doing.
    pub fn stop(self, cluster: &Cluster) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            cluster.block_on(client).unwrap();
        }
    }
}

struct Client {
    id: u64,
    rng: Rng,
    /// The value of each key when last looked at, so that comparing has a chance.
    seen: BTreeMap<String, Bytes>,
    /// Makes every value the only one of its kind.
    count: u64,
}

impl Client {
    async fn run(mut self, book: Arc<Book>, journal: Arc<Journal>, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            let Some(mut etcd) = book.pick(&mut self.rng) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let key = format!("key{}", self.rng.between(0, KEYS));
            let request = self.draw(&key);
            if let Some(reply) = journal.call(self.id, &mut etcd, request).await {
                self.learn(&key, &reply);
            }
            self.pause(&journal).await;
        }
    }

    async fn pause(&mut self, journal: &Journal) {
        if self.rng.between(0, 100) < PAUSES_PERCENT {
            tokio::time::sleep(PAUSE).await;
        }
        journal.let_time_pass().await;
    }

    fn draw(&mut self, key: &str) -> Request {
        match self.rng.between(0, 100) {
            0..35 => self.put(key),
            35..65 => get(key),
            65..70 => read_everything(),
            70..80 => Request::Delete(Delete { keys: one(key), prev_kv: true }),
            _ => self.compare_and_set(key),
        }
    }

    fn put(&mut self, key: &str) -> Request {
        self.count += 1;
        unique_put(key, self.id, self.count)
    }

    /// Replaces the value last seen, or creates the key if none was.
    fn compare_and_set(&mut self, key: &str) -> Request {
        let target = match self.seen.get(key) {
            Some(value) => Target::Value(value.clone()),
            None => Target::Create(Revision::ZERO),
        };
        let compare = Compare { keys: one(key), relation: Relation::Equal, target };
        let success = vec![self.put(key), get(key)];
        Request::Txn(Txn { compares: vec![compare], success, failure: vec![get(key)] })
    }

    fn learn(&mut self, key: &str, reply: &Reply) {
        let ranges = match &reply.body {
            Body::Txn(txn) => &txn.bodies[..],
            body => std::slice::from_ref(body),
        };
        for range in ranges {
            let Body::Range(RangeReply { kvs, .. }) = range else { continue };
            self.seen.remove(key);
            self.seen
                .extend(kvs.iter().map(|kv| (String::from_utf8_lossy(&kv.key).into(), kv.value.clone())));
        }
    }
}

/// A put of a value that no other put has.
pub fn unique_put(key: &str, client: u64, count: u64) -> Request {
    Request::Put(Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Some(format!("{client}/{count}").into()),
        lease: Some(LeaseId::NONE),
        prev_kv: false,
    })
}

fn get(key: &str) -> Request {
    let Request::Range(everything) = read_everything() else { unreachable!("it reads") };
    Request::Range(Range { keys: one(key), ..everything })
}

fn one(key: &str) -> KeyRange {
    KeyRange::single(Bytes::copy_from_slice(key.as_bytes()))
}
