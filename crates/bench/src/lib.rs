//! `althing bench`: a load generator for servers that speak etcd v3, ours or any other, and for our data API.
//! A load and its shape go in; throughput, latencies and the servers' costs come out. It is one thread that
//! spends a fraction of what the servers spend, so that the measurement is theirs.

mod calls;
mod connection_load;
mod data;
mod fan_out;
mod histogram;
mod hpack;
mod keep_alive;
mod lock;
mod lock_by_keys;
mod options;
mod process;
mod redis;
mod report;
mod socket;
mod stats;
mod wire;

pub use options::{DataKind, Load, LockBy, Options, Protocol};
pub use report::Report;

use base::Rng;
use calls::{Caller, Keys, Kind};
use connection_load::ConnectionLoad;
use fan_out::Stream;
use lock::Lockers;
use lock_by_keys::KeyLockers;
use process::usage;
use prost::Message;
use proto::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};
use stats::{Goal, Stats};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet};
use wire::{ConnError, Event, GrpcConn};

const TOTAL_DEFAULT: u64 = 10_000;
/// How long to wait for events after the last put.
const EVENTS_WAIT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot reach {endpoint}: {broken}")]
    Connect { endpoint: String, broken: ConnError },
    #[error("cannot reach {endpoint}: {error}")]
    Reach { endpoint: String, error: std::io::Error },
    #[error("no process {0:?} to measure, or it may not be looked at")]
    NoProcess(Vec<u32>),
    #[error("{0}")]
    ConnError(#[from] ConnError),
    #[error("of {expected} events only {seen} came")]
    EventsMissing { expected: u64, seen: u64 },
    #[error("cannot log in: {0}")]
    Login(String),
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// Called with the progress of the run: from 0 to 1, and operations so far.
pub type Progress<'a> = dyn Fn(f64, u64) + 'a;

pub fn run(load: &Load, options: &Options, progress: &'static Progress<'static>) -> Result<Report, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run_load(load, options, progress))
}

async fn run_load(
    load: &Load,
    options: &Options,
    progress: &'static Progress<'static>,
) -> Result<Report, Error> {
    let started = Instant::now();
    let total = match (options.total, options.duration) {
        (None, None) => Some(TOTAL_DEFAULT),
        (total, _) => total,
    };
    let goal = Goal { total, until: options.duration.map(|duration| started + duration) };
    let stats = Rc::new(RefCell::new(Stats::new(goal)));
    let mut run = Run { options, stats: stats.clone(), token: None };
    run.token = run.log_in().await?;
    let prepared = match load {
        data @ Load::Data { .. } => Prepared::of_data(run.connect_data(data).await?),
        load => run.prepare(load).await?,
    };
    let before = usage_of(&options.server_pid)?;
    let started = Instant::now();
    let progress_task = tokio::task::spawn_local(print_progress(stats.clone(), started, progress));
    let events = run.perform(load, prepared).await?;
    progress_task.abort();
    let took = started.elapsed();
    let after = usage_of(&options.server_pid)?;
    // The progress task is the only other holder, and it has been stopped.
    let _ = progress_task.await;
    drop(run);
    let stats = Rc::into_inner(stats).expect("all tasks that share the stats have ended").into_inner();
    Ok(Report { load: load.name(), stats, took, usage: before.zip(after), events })
}

async fn print_progress(stats: Rc<RefCell<Stats>>, started: Instant, progress: &Progress<'_>) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stats = stats.borrow();
        progress(stats.progress(started, Instant::now()), stats.done());
    }
}

fn usage_of(pids: &[u32]) -> Result<Option<process::Usage>, Error> {
    match pids {
        [] => Ok(None),
        pids => usage(pids).ok_or_else(|| Error::NoProcess(pids.to_vec())).map(Some),
    }
}

struct Run<'a> {
    options: &'a Options,
    stats: Rc<RefCell<Stats>>,
    /// The token of the calling user.
    token: Option<String>,
}

/// Connections, and on them what must exist before time counts.
struct Prepared {
    wires: Vec<GrpcConn>,
    streams: Vec<(Stream, u64)>,
    data: Vec<data::Client>,
}

impl Prepared {
    fn of_data(data: Vec<data::Client>) -> Prepared {
        Prepared { wires: Vec::new(), streams: Vec::new(), data }
    }
}

impl Run<'_> {
    async fn prepare(&self, load: &Load) -> Result<Prepared, Error> {
        let connections = self.options.connections.min(self.options.clients);
        let mut wires = Vec::new();
        for nth in 0..connections {
            wires.push(self.connect(nth).await?);
        }
        let (watchers, n_streams) = match load {
            Load::Watch { watchers, streams } => (*watchers, *streams.min(watchers)),
            Load::WatchLatency => (1, 1),
            _ => (0, 0),
        };
        let mut streams = Vec::new();
        let key = calls::key(0, self.options.key_size as usize);
        for nth in 0..n_streams {
            let watches = share(watchers, n_streams, nth);
            streams.push((Stream::open(self.connect(nth).await?, &key, watches as usize).await?, watches));
        }
        Ok(Prepared { wires, streams, data: Vec::new() })
    }

    async fn connect(&self, nth: u64) -> Result<GrpcConn, Error> {
        let endpoints = &self.options.endpoints;
        let endpoint = &endpoints[nth as usize % endpoints.len()];
        let broken = |broken| Error::Connect { endpoint: endpoint.clone(), broken };
        GrpcConn::connect(endpoint, &self.options.tls, self.token.clone()).await.map_err(broken)
    }

    /// The token that is given, or that of --user.
    async fn log_in(&self) -> Result<Option<String>, Error> {
        if let Some(token) = self.options.token() {
            return Ok(Some(token));
        }
        let Some((name, password)) = self.options.login()? else { return Ok(None) };
        let mut wire = self.connect(0).await?;
        wire.call("/etcdserverpb.Auth/Authenticate", &AuthenticateRequest { name, password });
        let (mut token, mut ended) = (None, None);
        while ended.is_none() {
            wire.turn(&mut |_, event| match event {
                Event::Message { message, .. } => token = AuthenticateResponse::decode(message).ok(),
                Event::End { outcome, .. } => ended = Some(outcome),
            })
            .await?;
        }
        match token {
            Some(answer) => Ok(Some(answer.token)),
            None => Err(Error::Login(ended.and_then(|outcome| outcome.message).unwrap_or_default())),
        }
    }

    /// Returns the number of events, for loads that count them.
    async fn perform(&self, load: &Load, prepared: Prepared) -> Result<Option<u64>, Error> {
        let Prepared { mut wires, mut streams, data } = prepared;
        match load {
            Load::Data { .. } => self.ask_data(data).await,
            Load::Watch { .. } => return self.fan_out(wires, streams).await.map(Some),
            Load::WatchLatency => {
                let (putter, (watcher, _)) = (wires.swap_remove(0), streams.swap_remove(0));
                fan_out::latency(putter, watcher, self.one_key(), self.stats.clone()).await?;
            }
            Load::LeaseKeepAlive => {
                let run = |wire, clients, _| keep_alive::run(wire, clients, self.stats.clone());
                self.on_each(wires, run).await?;
            }
            Load::Lock { locks, by } => {
                let rng = |nth| Rng::new(self.options.seed.wrapping_add(nth));
                match by {
                    LockBy::Service => {
                        let run = |wire, clients, nth| {
                            let (rng, stats) = (rng(nth), self.stats.clone());
                            Lockers { wire, clients, locks: *locks, rng, stats }.run()
                        };
                        self.on_each(wires, run).await?;
                    }
                    LockBy::Keys => {
                        let run = |wire, clients, nth| {
                            let (rng, stats) = (rng(nth), self.stats.clone());
                            KeyLockers { wire, clients, locks: *locks, rng, stats }.run()
                        };
                        self.on_each(wires, run).await?;
                    }
                }
            }
            load => self.call_all(load.kind().expect("every other load is made of calls"), wires).await,
        }
        Ok(None)
    }

    async fn connect_data(&self, load: &Load) -> Result<Vec<data::Client>, Error> {
        let Load::Data { kind, http_endpoints, protocol, r, headers, session } = load else {
            return Ok(Vec::new());
        };
        let Options { clients, value_size, seed, .. } = *self.options;
        let mut connected = Vec::new();
        for nth in 0..clients {
            let endpoint = &http_endpoints[nth as usize % http_endpoints.len()];
            let shape = data::DataLoad {
                protocol: *protocol,
                kind: *kind,
                r: *r,
                keys: self.options.keys(),
                value_size: value_size as usize,
                seed,
                nth,
                of: clients,
                token: self.token.clone(),
                headers: headers.clone(),
                session: *session,
            };
            let client = data::Client::connect(endpoint, shape, &self.options.tls).await;
            connected.push(client.map_err(|error| Error::Reach { endpoint: endpoint.clone(), error })?);
        }
        Ok(connected)
    }

    async fn ask_data(&self, clients: Vec<data::Client>) {
        let n = clients.len() as f64;
        let interval = self.options.rate.map(|rate| Duration::from_secs_f64(n / rate as f64));
        let mut tasks = JoinSet::new();
        for client in clients {
            tasks.spawn_local(client.run(interval, self.stats.clone()));
        }
        tasks.join_all().await;
    }

    /// Runs one task on each connection, with its share of the clients and its number.
    async fn on_each<F>(
        &self,
        wires: Vec<GrpcConn>,
        run: impl Fn(GrpcConn, usize, u64) -> F,
    ) -> Result<(), ConnError>
    where
        F: Future<Output = Result<(), ConnError>> + 'static,
    {
        let n_wires = wires.len() as u64;
        let mut tasks = JoinSet::new();
        for (nth, wire) in (0..).zip(wires) {
            let clients = share(self.options.clients, n_wires, nth) as usize;
            tasks.spawn_local(run(wire, clients, nth));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a connection's task does not panic")?;
        }
        Ok(())
    }

    async fn call_all(&self, kind: Kind, wires: Vec<GrpcConn>) {
        let n_wires = wires.len() as u64;
        let keys = self.options.keys();
        let mut workers = JoinSet::new();
        for (nth, wire) in (0..).zip(wires) {
            let value_size = self.options.value_size as usize;
            let caller = Caller::new(kind, keys, value_size, self.options.seed, nth, n_wires);
            let interval =
                self.options.rate.map(|rate| Duration::from_secs_f64(n_wires as f64 / rate as f64));
            let clients = share(self.options.clients, n_wires, nth) as usize;
            workers.spawn_local(
                ConnectionLoad { wire, caller, clients, interval, stats: self.stats.clone() }.run(),
            );
        }
        workers.join_all().await;
    }

    async fn fan_out(&self, wires: Vec<GrpcConn>, streams: Vec<(Stream, u64)>) -> Result<u64, Error> {
        let puts = self.options.total.unwrap_or(TOTAL_DEFAULT);
        let events = Rc::new(Cell::new(0));
        let mut takers = JoinSet::new();
        let mut expected = 0;
        for (stream, watches) in streams {
            expected += watches * puts;
            let events = events.clone();
            takers.spawn_local(async move { stream.take(watches * puts, &events).await });
        }
        let n_wires = wires.len() as u64;
        let mut workers = JoinSet::new();
        for (nth, wire) in (0..).zip(wires) {
            let clients = share(self.options.clients, n_wires, nth) as usize;
            let stats = self.stats.clone();
            workers.spawn_local(
                ConnectionLoad { wire, caller: self.one_key(), clients, interval: None, stats }.run(),
            );
        }
        workers.join_all().await;
        let all = async {
            while let Some(ended) = takers.join_next().await {
                ended.expect("a stream's task does not panic")?;
            }
            Ok::<(), ConnError>(())
        };
        match tokio::time::timeout(EVENTS_WAIT, all).await {
            Ok(ended) => ended?,
            Err(_) => return Err(Error::EventsMissing { expected, seen: events.get() }),
        }
        Ok(events.get())
    }

    /// The watched key, whatever the key space.
    fn one_key(&self) -> Caller {
        let keys = Keys { size: self.options.key_size as usize, space: 1, sequential: true };
        Caller::new(Kind::Put, keys, self.options.value_size as usize, self.options.seed, 0, 1)
    }
}

/// The `nth` of `of` nearly equal parts.
fn share(whole: u64, of: u64, nth: u64) -> u64 {
    whole / of + u64::from(nth < whole % of)
}
