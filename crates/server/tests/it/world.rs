//! The members of one test: their directories, ports and settings, and how to ask them.

use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::call::Call;
use coord::reply::Reply;
use coord::request::{Put, Range};
use server::{ClusterMember, Config, Handle, Server};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far longer than anything here takes; only a failure waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    addresses: Vec<SocketAddr>,
    pub servers: Vec<Option<Server>>,
    pub tune: fn(&mut Config),
    runtime: tokio::runtime::Runtime,
    /// Last: members that run have files in it.
    dir: TempDir,
}

impl World {
    pub fn start(size: usize, tune: fn(&mut Config)) -> World {
        World::start_in(tempfile::tempdir().unwrap(), size, tune)
    }

    /// Binds all ports before any member needs one, and starts the members.
    pub fn start_in(dir: TempDir, size: usize, tune: fn(&mut Config)) -> World {
        let listeners: Vec<_> = (0..size).map(|_| server::ports::listen().unwrap()).collect();
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut world = World { dir, addresses, servers: Vec::new(), tune, runtime };
        for (idx, listener) in listeners.into_iter().enumerate() {
            let server = Server::start_on(listener, world.config(idx)).unwrap();
            world.servers.push(Some(server));
        }
        world
    }

    pub fn config(&self, idx: usize) -> Config {
        let name = |idx: usize| format!("m{idx}");
        let member = |(idx, address): (usize, &SocketAddr)| ClusterMember {
            name: name(idx),
            peer_addr: address.to_string(),
        };
        let mut config = Config {
            name: name(idx),
            data_dir: self.dir.path().join(name(idx)),
            client_addr: "127.0.0.1:0".parse().unwrap(),
            peer_addr: self.addresses[idx],
            initial_cluster: self.addresses.iter().enumerate().map(member).collect(),
            join: None,
            cluster_token: "test".to_owned(),
            advertise_client: String::new(),
            advertise_peer: String::new(),
            heartbeat: Duration::from_millis(40),
            election: Duration::from_millis(400),
            request_timeout: Duration::from_secs(7),
            request_bytes_max: 1536 * 1024,
            txn_ops_max: 128,
            flush_interval: Duration::from_millis(100),
            flush_bytes: 8 * 1024 * 1024,
            response_bytes_max: 4 * 1024 * 1024,
            quota_bytes: 0,
            compaction: None,
            history_age: Duration::from_secs(3_600),
            history_rows_max: 1_000,
            wal_segment_bytes: 4 * 1024 * 1024,
            log_keep_entries: 5_000,
            watch_progress_interval: Duration::from_secs(600),
            client_tls: false,
            peer_security: Default::default(),
            force_new_cluster: false,
            strict_reconfig: false,
            drain_timeout: Duration::from_secs(5),
            audit: None,
            auth: Default::default(),
            mesh: server::MeshConfig::default(),
        };
        (self.tune)(&mut config);
        config
    }

    /// Starts a member that was stopped. Its port may be held for a moment by a connection that passes.
    pub fn restart(&mut self, idx: usize) {
        let listener = eventually(|| TcpListener::bind(self.addresses[idx]).ok());
        self.servers[idx] = Some(Server::start_on(listener, self.config(idx)).unwrap());
    }

    pub fn take(&mut self, idx: usize) -> Server {
        self.servers[idx].take().unwrap()
    }

    pub fn handle(&self, idx: usize) -> Handle {
        self.servers[idx].as_ref().unwrap().handle()
    }

    pub fn ask<C: Call>(&self, idx: usize, call: C) -> Result<Reply<C::Reply>, Code> {
        self.ask_through(&self.handle(idx), call)
    }

    pub fn ask_through<C: Call>(&self, handle: &Handle, call: C) -> Result<Reply<C::Reply>, Code> {
        self.runtime.block_on(handle.kv().submit(call))
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
        self.runtime.spawn(task)
    }

    pub fn join(&self, tasks: Vec<tokio::task::JoinHandle<()>>) {
        tasks.into_iter().for_each(|task| self.runtime.block_on(task).unwrap());
    }

    pub fn put(&self, idx: usize, key: &str, value: &str) -> Revision {
        self.ask(idx, put(key, value)).unwrap().revision
    }

    pub fn value(&self, idx: usize, key: &str) -> Option<Bytes> {
        let found = self.ask(idx, get(key)).unwrap().body;
        found.kvs.first().map(|kv| kv.value.clone())
    }

    /// The member that leads, as it says itself.
    pub fn leader(&self) -> usize {
        let leads = |server: &Option<Server>| {
            server.as_ref().is_some_and(|server| server.handle().status().is_leader)
        };
        eventually(|| self.servers.iter().position(leads))
    }
}

pub fn put(key: &str, value: &str) -> Put {
    Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        lease: Some(LeaseId::NONE),
        prev_kv: false,
    }
}

pub fn get(key: &str) -> Range {
    range(KeyRange::single(Bytes::copy_from_slice(key.as_bytes())))
}

pub fn range(keys: KeyRange) -> Range {
    Range::of(keys)
}

pub fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come about in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}
