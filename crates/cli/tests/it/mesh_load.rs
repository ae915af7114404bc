//! Clients of the data API that write numbers to keys of their own, for as long as they are let. A request that is not
//! answered goes to another node under the same id; an operation that has not succeeded by its deadline is counted.
//! What was acknowledged is written down, so that it can be asked for afterwards.

use crate::process::until;
use crate::rest::Rest;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const KEYS_PER_CLIENT: u64 = 25;
/// How long one node is waited for, and how long an operation may take.
const ATTEMPT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Book {
    /// Nodes that clients may ask.
    up: Mutex<BTreeMap<usize, Rest>>,
    /// By key: the last value that was acknowledged, and the last that was tried.
    keys: Mutex<BTreeMap<String, (u64, u64)>>,
    written: AtomicU64,
    /// Asked of another node after all.
    repeated: AtomicU64,
    failed: AtomicU64,
    slowest_us: AtomicU64,
    done: AtomicBool,
}

pub struct Load {
    pub book: Arc<Book>,
    writers: Vec<JoinHandle<()>>,
    began: Instant,
}

impl Book {
    pub fn enter(&self, idx: usize, node: Rest) {
        self.up.lock().unwrap().insert(idx, node);
    }

    pub fn strike(&self, idx: usize) {
        self.up.lock().unwrap().remove(&idx);
    }

    /// One client, the only writer of its keys.
    fn write(&self, client: u64) {
        for n in 1u64.. {
            if self.done.load(Ordering::Relaxed) {
                return;
            }
            let key = format!("c{client}-{}", n % KEYS_PER_CLIENT);
            self.keys.lock().unwrap().entry(key.clone()).or_default().1 = n;
            let began = Instant::now();
            if self.put(client, n, &key) {
                self.keys.lock().unwrap().entry(key).or_default().0 = n;
                self.written.fetch_add(1, Ordering::Relaxed);
                self.slowest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
            } else {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn put(&self, client: u64, n: u64, key: &str) -> bool {
        let body = format!(r#"{{"key":"{key}","value":"{n}"}}"#);
        let request = format!(
            "POST /api/v1/store/keys HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-request-id: {client}/{n}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let began = Instant::now();
        let mut attempts = 0;
        while began.elapsed() < DEADLINE {
            let up: Vec<Rest> = self.up.lock().unwrap().values().copied().collect();
            let node = up[(client + n + attempts) as usize % up.len()];
            let answer = node.try_within(request.as_bytes(), ATTEMPT);
            if answer.is_some_and(|answer| answer.status < 300) {
                return true;
            }
            attempts += 1;
            self.repeated.fetch_add(1, Ordering::Relaxed);
        }
        false
    }
}

impl Load {
    pub fn start(clients: u64, nodes: impl IntoIterator<Item = (usize, Rest)>) -> Load {
        let book = Arc::new(Book::default());
        nodes.into_iter().for_each(|(idx, node)| book.enter(idx, node));
        let writer = |client| {
            let book = book.clone();
            thread::spawn(move || book.write(client))
        };
        Load { writers: (0..clients).map(writer).collect(), book, began: Instant::now() }
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Until so many more writes are acknowledged.
    pub fn wait_for_writes(&self, more: u64) {
        let written = || self.book.written.load(Ordering::Relaxed);
        let enough = written() + more;
        until("clients are answered", || (written() >= enough).then_some(()));
    }

    /// Ends it and asks every node for everything that was acknowledged. Every operation has succeeded.
    pub fn finish(self, nodes: &[Rest]) -> String {
        self.book.done.store(true, Ordering::Relaxed);
        self.writers.into_iter().for_each(|writer| writer.join().unwrap());
        for (key, (acked, tried)) in self.book.keys.lock().unwrap().iter() {
            for (idx, node) in nodes.iter().enumerate() {
                let shown = until("the key can be read", || value_at(*node, key));
                let right = shown.is_some_and(|shown| (*acked..=*tried).contains(&shown)) || *acked == 0;
                assert!(right, "{key} at node {idx} shows {shown:?}, although {acked} was acknowledged");
            }
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, repeated, failed) =
            (count(&self.book.written), count(&self.book.repeated), count(&self.book.failed));
        let told = format!(
            "{written} writes acknowledged in {:?}, {repeated} attempts repeated elsewhere, {failed} operations \
             without success, the slowest took {:?}",
            self.began.elapsed(),
            Duration::from_micros(count(&self.book.slowest_us)),
        );
        assert_eq!(failed, 0, "{told}");
        told
    }
}

/// What a node shows, if it answers.
fn value_at(node: Rest, key: &str) -> Option<Option<u64>> {
    let answer = node.get(&format!("/api/v1/store/keys/{key}"));
    match answer.status {
        200 => Some(Some(answer.json()["value"].as_str().unwrap().parse().unwrap())),
        404 | 410 => Some(None),
        _ => None,
    }
}
