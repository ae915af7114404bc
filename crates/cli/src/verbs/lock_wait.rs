//! What a person sees while `althing lock` waits on a terminal: the place in the queue, the holder, and since when. The
//! lock is looked at once a second, and a line is printed when something has changed.

use crate::client::{Client, duration};
use proto::lock::Lock;
use std::convert::Infallible;
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const INTERVAL: Duration = Duration::from_secs(1);

pub struct WaitProgress<'a> {
    pub client: &'a Client,
    pub name: &'a str,
    /// The lease under which this process waits, once it has one.
    pub lease: &'a OnceLock<i64>,
}

impl WaitProgress<'_> {
    pub async fn print(&self) -> Infallible {
        let mut last = String::new();
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Ok(found) = self.client.inspect_lock(self.name).await else { continue };
            let Some((summary, detail)) = found.lock.as_ref().and_then(|lock| self.describe(lock)) else {
                continue;
            };
            if summary != last {
                // The wait matters more than what is seen of it.
                let _ = writeln!(std::io::stderr(), "{summary}{detail}");
                last = summary;
            }
        }
    }

    /// What is printed when it changes, and what is added to it.
    fn describe(&self, lock: &Lock) -> Option<(String, String)> {
        let lease = self.lease.get()?;
        let place = lock.queue.iter().position(|waiter| waiter.lease_id == *lease)? + 1;
        let (name, waiting) = (self.name, lock.queue.len());
        if lock.is_foreign {
            let key = &lock.key;
            let what =
                format!("waiting for lock {name:?}: blocked by the key {key:?}, which is no entry of it");
            return Some((what, String::new()));
        }
        let summary =
            format!("waiting for lock {name:?}: place {place} of {waiting}, held by {:?}", lock.holder_id);
        let since = match lock.since_unix_ms {
            0 => String::new(),
            since => format!(", who asked for it {} ago", duration::render(Duration::from_secs(age(since)))),
        };
        Some((summary, since))
    }
}

fn age(since_unix_ms: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64);
    u64::try_from((now - since_unix_ms) / 1_000).unwrap_or(0)
}
