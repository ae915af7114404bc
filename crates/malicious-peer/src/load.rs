//! Clients that write on both planes while the members are lied to. What fails is tried again with the next key.

use crate::cluster::{Endpoints, Member};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two writes: enough to keep both planes at work.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Load {
    shared: Arc<LoadState>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct LoadState {
    done: AtomicBool,
    written: AtomicU64,
}

impl Load {
    pub fn start(members: &[Member]) -> Load {
        let shared: Arc<LoadState> = Arc::default();
        let client = |endpoints: Endpoints| {
            let shared = shared.clone();
            thread::spawn(move || write(&shared, endpoints))
        };
        let threads = members.iter().map(|member| client(member.endpoints)).collect();
        Load { shared, threads }
    }

    /// How much was acknowledged.
    pub fn stop(self) -> u64 {
        self.shared.done.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        self.shared.written.load(Ordering::Relaxed)
    }
}

fn write(shared: &LoadState, endpoints: Endpoints) {
    for nth in 0.. {
        if shared.done.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("busy-{}", nth % 100);
        let written = [endpoints.put(&key, "1"), endpoints.put_data(&key, "1")];
        let count = written.into_iter().filter(|written| *written).count();
        shared.written.fetch_add(count as u64, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
}
