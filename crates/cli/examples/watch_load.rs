//! Measures watches of a running server that speaks etcd's API, ours or etcd itself.
//! `cargo run --release -p althing --example watch_load -- ENDPOINT PID [WATCHES] [STREAMS] [PUTS]` opens the
//! watches, all of one key, then puts it so often and prints events a second, the server's CPU time per event
//! and its memory. With no puts it prints the memory of idle watches.
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{PutRequest, WatchCreateRequest, WatchRequest};
use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, fs};
use tokio::task::JoinSet;
use tonic::codegen::tokio_stream::{self, StreamExt};
use tonic::transport::{Channel, Endpoint};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The unit of `/proc/PID/stat` on Linux, everywhere that we run.
const TICK: Duration = Duration::from_millis(10);
const PUTS_AT_ONCE: usize = 16;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |idx: usize, default: usize| arguments.get(idx).map_or(Ok(default), |text| text.parse());
    let endpoint = arguments.first().ok_or("which endpoint?")?.clone();
    let pid = arguments.get(1).ok_or("which process?")?.clone();
    let (watches, streams, puts) = (number(2, 1_000)?, number(3, 10)?, number(4, 2_000)?);
    let rss_before = rss_kib(&pid)?;
    let mut readers = JoinSet::new();
    for nth in 0..streams {
        let share = watches / streams + usize::from(nth < watches % streams);
        let (ready, opened) = tokio::sync::oneshot::channel();
        let channel = connect(&endpoint).await?;
        let distinct = puts == 0;
        readers.spawn(async move { read(channel, (nth, share), distinct, share * puts, ready).await });
        opened.await?;
    }
    println!(
        "{watches} watches on {streams} streams: {} KiB more, {} KiB",
        rss_kib(&pid)? - rss_before,
        rss_kib(&pid)?
    );
    if puts == 0 {
        return Ok(());
    }
    let (start, cpu) = (Instant::now(), cpu_of(&pid)?);
    put_all(&endpoint, puts).await?;
    let put_time = start.elapsed();
    while let Some(read) = readers.join_next().await {
        read??;
    }
    let (elapsed, cpu) = (start.elapsed(), cpu_of(&pid)? - cpu);
    let events = (watches * puts) as f64;
    println!(
        "{events} events in {:.2} s: {:.0} events/s; server CPU {:.2} s: {:.2} µs per event; {:.0} puts/s; {} KiB",
        elapsed.as_secs_f64(),
        events / elapsed.as_secs_f64(),
        cpu.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / events,
        puts as f64 / put_time.as_secs_f64(),
        rss_kib(&pid)?,
    );
    Ok(())
}

async fn connect(endpoint: &str) -> Outcome<Channel> {
    Ok(Endpoint::from_shared(endpoint.to_owned())?.connect().await?)
}

/// Opens its watches, says so, and reads until it has seen as many events as it should.
async fn read(
    channel: Channel,
    (nth, share): (usize, usize),
    distinct: bool,
    events: usize,
    ready: tokio::sync::oneshot::Sender<()>,
) -> Outcome<()> {
    let create = move |watch: usize| {
        let key = if distinct { format!("key-{nth}-{watch}") } else { "key".to_owned() };
        let create = WatchCreateRequest { key: key.into(), ..Default::default() };
        WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
    };
    let requests = tokio_stream::iter((0..share).map(create)).chain(tokio_stream::pending());
    let mut responses = WatchClient::new(channel).watch(requests).await?.into_inner();
    for _ in 0..share {
        responses.next().await.ok_or("the stream ended")??;
    }
    ready.send(()).map_err(|()| "the main task has ended")?;
    let mut seen = 0;
    while seen < events {
        seen += responses.next().await.ok_or("the stream ended")??.events.len();
    }
    if distinct {
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn put_all(endpoint: &str, puts: usize) -> Outcome<()> {
    let mut writers = JoinSet::new();
    for writer in 0..PUTS_AT_ONCE {
        let mut kv = KvClient::new(connect(endpoint).await?);
        let share = puts / PUTS_AT_ONCE + usize::from(writer < puts % PUTS_AT_ONCE);
        writers.spawn(async move {
            for _ in 0..share {
                let value = vec![b'x'; 100].into();
                kv.put(PutRequest { key: "key".into(), value, ..Default::default() }).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    Ok(())
}

fn rss_kib(pid: &str) -> Outcome<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

fn cpu_of(pid: &str) -> Outcome<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    Ok(TICK * ticks)
}
