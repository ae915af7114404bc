//! Measures the peer transport over loopback: frames a second and CPU time per frame, both ends in one process.
//! `cargo run --release -p server --example peer_speed` prints one line per batch size.
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

use base::{ClusterId, NodeId};
use bytes::Bytes;
use server::peer::{Event, Params, Peers, Timing};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

const FRAME_BYTES: usize = 256;
const SPAN: Duration = Duration::from_secs(4);
/// The unit of `/proc/self/stat` on Linux, everywhere that we run.
const TICK: Duration = Duration::from_millis(10);

fn main() -> io::Result<()> {
    for batch in [1, 100] {
        measure(batch, false)?;
    }
    measure(1, true)
}

/// Sends as fast as the queue takes, or, in step, each batch after the former has arrived.
fn measure(batch: usize, in_step: bool) -> io::Result<()> {
    let received = Arc::new(AtomicU64::new(0));
    let (a, b) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (at_a, at_b) = (a.local_addr()?, b.local_addr()?);
    let member = |me, listen, peer, address: std::net::SocketAddr| {
        let count = received.clone();
        let params = Params {
            cluster: ClusterId(1),
            me: NodeId(me),
            listen,
            peers: vec![(NodeId(peer), address.to_string())],
            timing: Timing::default(),
        };
        let deliver = move |event| {
            if let Event::Frames { frames, .. } = event {
                count.fetch_add(frames.len() as u64, Ordering::Release);
            }
        };
        Peers::start(params, Arc::new(deliver))
    };
    let (sender, receiver) = (member(1, a, 2, at_b)?, member(2, b, 1, at_a)?);
    while !sender.connected(NodeId(2)) {
        thread::yield_now();
    }
    let frames = vec![Bytes::from(vec![7; FRAME_BYTES]); batch];
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let mut sent = 0;
    while start.elapsed() < SPAN {
        if sender.send(NodeId(2), frames.clone()) {
            sent += batch as u64;
        } else {
            thread::yield_now();
        }
        while in_step && received.load(Ordering::Acquire) < sent {
            thread::yield_now();
        }
    }
    while received.load(Ordering::Acquire) < sent {
        thread::yield_now();
    }
    let (span, cpu) = (start.elapsed(), cpu_time()? - cpu);
    println!(
        "batch {batch:>3}{}: {:>9.0} frames/s, {:>6.3} CPU-us per frame, {:.2} us per batch",
        if in_step { " in step" } else { "        " },
        sent as f64 / span.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / sent as f64,
        span.as_secs_f64() * 1e6 * batch as f64 / sent as f64,
    );
    sender.stop();
    receiver.stop();
    Ok(())
}

/// User and system time of this process.
fn cpu_time() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u32 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    Ok(TICK * ticks)
}
