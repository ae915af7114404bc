//! The members of one test: their directories, ports and settings, and how to ask them.

use crate::config::config;
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::call::Call;
use coord::reply::Reply;
use coord::request::{Put, Range};
use server::{Config, Handle, Server};
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
        let mut config = config(self.dir.path(), idx, &self.addresses);
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
