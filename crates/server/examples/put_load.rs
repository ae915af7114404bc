//! Measures puts through a whole member in this process: many callers, each with one put under way.
//! `cargo run --release -p server --example put_load -- DIR [CALLERS] [SECONDS] [MEMBERS]` prints puts a
//! second and CPU time per put; DIR says which disk (a directory in memory shows the code alone).
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

#[path = "../tests/it/config.rs"]
mod settings;

use base::LeaseId;
use base::rng::mix;
use bytes::Bytes;
use coord::request::Put;
use server::{Config, Handle, Server};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VALUE_BYTES: usize = 256;
const KEYS: u64 = 100_000;
/// The unit of `/proc/self/stat` on Linux, everywhere that we run.
const TICK: Duration = Duration::from_millis(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number =
        |idx: usize, default: u64| arguments.get(idx).map_or(Ok(default), |text| text.parse::<u64>());
    let dir = arguments.first().ok_or("which directory?")?;
    let (callers, seconds, members) = (number(1, 1_000)?, number(2, 5)?, number(3, 1)?);
    let root = Path::new(dir).join(format!("put-load-{}", std::process::id()));
    let servers = start(&root, members as usize)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(measure(&servers, callers, Duration::from_secs(seconds)));
    servers.into_iter().for_each(Server::stop);
    fs::remove_dir_all(&root)?;
    Ok(result?)
}

fn start(root: &Path, members: usize) -> Result<Vec<Server>, Box<dyn std::error::Error>> {
    let listeners: Vec<TcpListener> =
        (0..members).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<_>>()?;
    let addresses: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>()?;
    let mut servers = Vec::new();
    for (idx, listener) in listeners.into_iter().enumerate() {
        servers.push(Server::start_on(listener, config(root, idx, &addresses))?);
    }
    Ok(servers)
}

fn config(root: &Path, idx: usize, addresses: &[SocketAddr]) -> Config {
    Config {
        heartbeat: Duration::from_millis(100),
        election: Duration::from_secs(1),
        flush_interval: Duration::from_secs(1),
        flush_bytes: 16 * 1024 * 1024,
        wal_segment_bytes: 64 * 1024 * 1024,
        ..settings::config(root, idx, addresses)
    }
}

async fn measure(servers: &[Server], callers: u64, span: Duration) -> io::Result<()> {
    let leader = loop {
        if let Some(leader) = servers.iter().map(Server::handle).find(|handle| handle.status().is_leader) {
            break leader;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let next = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let tasks: Vec<_> =
        (0..callers).map(|_| tokio::spawn(put_until(leader.clone(), next.clone(), start + span))).collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await?);
    }
    let (span, cpu) = (start.elapsed(), cpu_time()? - cpu);
    latencies.sort_unstable();
    let puts = latencies.len() as f64;
    let at = |part: f64| latencies[((puts - 1.0) * part) as usize] as f64 / 1e3;
    println!(
        "{} members, {callers} callers: {:.0} puts/s, {:.2} CPU-us per put, p50 {:.2} ms, p99 {:.2} ms",
        servers.len(),
        puts / span.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / puts,
        at(0.5),
        at(0.99),
    );
    Ok(())
}

/// Puts one after the other; returns how many microseconds each took.
async fn put_until(handle: Handle, next: Arc<AtomicU64>, end: Instant) -> Vec<u32> {
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    let mut latencies = Vec::new();
    loop {
        let start = Instant::now();
        if start >= end {
            return latencies;
        }
        // In no order, as keys come.
        let number = mix(next.fetch_add(1, Ordering::Relaxed)) % KEYS;
        let put = Put {
            key: Bytes::from(format!("key-{number:08}")),
            value: Some(value.clone()),
            lease: Some(LeaseId::NONE),
            prev_kv: false,
        };
        if handle.kv().submit(put).await.is_ok() {
            latencies.push(start.elapsed().as_micros() as u32);
        }
    }
}

/// User and system time of this process.
fn cpu_time() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u32 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    Ok(TICK * ticks)
}
