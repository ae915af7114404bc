//! What is known of a client's connection: its address, user, calls, watches and leases. The connection counts here
//! as it works; the services of a call find the record of its connection by the task that they run on. Operators
//! read the records of all connections (`inspect`).

use base::LeaseId;
use coord::Caller;
use coord::watch::StreamId;
use server::{RefusalKind, RefusedAccess};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Leases that are remembered of one connection.
const LEASES_MAX: usize = 1_000;
/// Bytes of the name that a client gives itself.
const AGENT_BYTES_MAX: usize = 128;

tokio::task_local! {
    static CURRENT: Arc<ClientRecord>;
}

#[derive(Debug)]
pub struct ClientRecord {
    /// Unique in this process.
    pub id: u64,
    /// In milliseconds since 1970.
    pub connected_ms: i64,
    address: OnceLock<SocketAddr>,
    requests: AtomicU64,
    streams: AtomicUsize,
    agent: OnceLock<String>,
    known: Mutex<KnownOfClient>,
}

#[derive(Debug, Default)]
struct KnownOfClient {
    user: String,
    watch_streams: BTreeSet<StreamId>,
    leases: BTreeSet<LeaseId>,
}

/// What a record says at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSnapshot {
    pub id: u64,
    pub connected_ms: i64,
    pub address: Option<SocketAddr>,
    pub requests: u64,
    pub streams: usize,
    pub agent: String,
    pub user: String,
    pub watch_streams: BTreeSet<StreamId>,
    pub leases: BTreeSet<LeaseId>,
}

impl ClientRecord {
    pub fn new(id: u64) -> Arc<ClientRecord> {
        Arc::new(ClientRecord {
            id,
            connected_ms: unix_millis(),
            address: OnceLock::new(),
            requests: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
            agent: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    pub fn set_address(&self, address: SocketAddr) {
        // A connection has one address.
        let _ = self.address.set(address);
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }

    /// The request of this client that was refused for want of a permission.
    pub fn refused(&self, call: String) -> RefusedAccess {
        let user = self.lock().user.clone();
        let address = self.address().map(|address| address.ip());
        RefusedAccess { kind: RefusalKind::Permission(call), user, address }
    }

    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// So many calls are under way.
    pub fn set_streams(&self, streams: usize) {
        self.streams.store(streams, Ordering::Relaxed);
    }

    /// What the client calls itself; the first name counts.
    pub fn set_agent(&self, name: &[u8]) {
        if self.agent.get().is_none() {
            let name = &name[..name.len().min(AGENT_BYTES_MAX)];
            let _ = self.agent.set(String::from_utf8_lossy(name).into_owned());
        }
    }

    pub fn set_user(&self, user: &str) {
        let mut known = self.lock();
        if known.user != user {
            known.user = user.to_owned();
        }
    }

    /// The caller as auth knows it.
    pub fn set_caller(&self, caller: &Caller) {
        if let Caller::User { name, .. } = caller {
            self.set_user(name);
        }
    }

    /// The client has granted or renewed this lease.
    pub fn note_lease(&self, lease: LeaseId) {
        let mut known = self.lock();
        if known.leases.len() < LEASES_MAX {
            known.leases.insert(lease);
        }
    }

    /// A stream of watches begins, and ends with what is returned.
    pub fn begin_watches(self: &Arc<ClientRecord>, stream: StreamId) -> WatchStreamGuard {
        self.lock().watch_streams.insert(stream);
        WatchStreamGuard { client: self.clone(), stream }
    }

    pub fn snapshot(&self) -> ClientSnapshot {
        let known = self.lock();
        ClientSnapshot {
            id: self.id,
            connected_ms: self.connected_ms,
            address: self.address.get().copied(),
            requests: self.requests.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            agent: self.agent.get().cloned().unwrap_or_default(),
            user: known.user.clone(),
            watch_streams: known.watch_streams.clone(),
            leases: known.leases.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownOfClient> {
        self.known.lock().expect("no thread panics while it holds a client's record")
    }
}

/// Dropping it ends the entry of a stream of watches.
pub struct WatchStreamGuard {
    client: Arc<ClientRecord>,
    stream: StreamId,
}

impl Drop for WatchStreamGuard {
    fn drop(&mut self) {
        self.client.lock().watch_streams.remove(&self.stream);
    }
}

/// Runs a call of this client.
pub async fn serve<T>(client: Arc<ClientRecord>, call: impl Future<Output = T>) -> T {
    CURRENT.scope(client, call).await
}

/// The client of the call that this task serves, if it has one.
pub fn current() -> Option<Arc<ClientRecord>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// The address of that client.
pub fn current_ip() -> Option<IpAddr> {
    current().and_then(|client| client.address()).map(|address| address.ip())
}

/// The time of day, in milliseconds since 1970; a clock before that is as good as none.
pub fn unix_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_watches_is_known_for_as_long_as_it_lives() {
        let client = ClientRecord::new(7);
        let first = client.begin_watches(StreamId(1));
        let second = client.begin_watches(StreamId(2));
        drop(first);
        assert_eq!(client.snapshot().watch_streams, BTreeSet::from([StreamId(2)]));
        drop(second);
        assert!(client.snapshot().watch_streams.is_empty());
    }

    #[test]
    fn the_first_name_of_a_client_counts_and_is_bounded() {
        let client = ClientRecord::new(7);
        client.set_agent(&[b'x'; 1_000]);
        client.set_agent(b"other");
        assert_eq!(client.snapshot().agent, "x".repeat(AGENT_BYTES_MAX));
    }

    #[tokio::test]
    async fn a_call_finds_the_record_of_its_connection() {
        assert!(current().is_none());
        let client = ClientRecord::new(7);
        let found = serve(client, async { current().map(|client| client.id) }).await;
        assert_eq!(found, Some(7));
    }
}
