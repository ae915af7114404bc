//! Measures the peer transport over loopback: frames a second and CPU time per frame, both ends in one process.
//! `cargo run --release -p server --example peer_speed` prints one line per batch size.
#![allow(clippy::print_stdout, reason = "the figures are what this program is for")]

use base::{ClusterId, NodeId};
use bytes::Bytes;
use server::peer::{OnQuestion, PeerAuth, PeerEvent, PeerParams, Peers, SharedPeerAuth, Timing};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

const FRAME_BYTES: usize = 256;
const SPAN: Duration = Duration::from_secs(4);
/// The unit of `/proc/self/stat` on Linux, everywhere that we run.
const TICK: Duration = Duration::from_millis(10);

fn main() -> io::Result<()> {
    for in_step in [false, true] {
        for batch in [1, 100] {
            measure(batch, in_step)?;
        }
    }
    Ok(())
}

/// Sends as fast as the queue takes or, in step, each batch when the former has arrived, so that each is an
/// envelope of its own that wakes three threads.
fn measure(batch: usize, in_step: bool) -> io::Result<()> {
    let (arrived, arrivals) = mpsc::channel();
    let (a, b) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (at_a, at_b) = (a.local_addr()?, b.local_addr()?);
    let sender = start(NodeId(1), a, NodeId(2), at_b, |_| {})?;
    let receiver = start(NodeId(2), b, NodeId(1), at_a, move |event| {
        if let PeerEvent::Frames { frames, .. } = event {
            let _ = arrived.send(frames.len() as u64);
        }
    })?;
    while !sender.connected(NodeId(2)) {
        thread::yield_now();
    }
    let frames = vec![Bytes::from(vec![7; FRAME_BYTES]); batch];
    let (start, cpu) = (Instant::now(), cpu_time()?);
    let (mut sent, mut received) = (0, 0);
    while start.elapsed() < SPAN || received < sent {
        let queued = start.elapsed() < SPAN && sender.send(NodeId(2), frames.clone());
        sent += if queued { batch as u64 } else { 0 };
        if in_step || !queued {
            received += arrivals.recv().unwrap_or(0);
        }
        received += arrivals.try_iter().sum::<u64>();
    }
    let (span, cpu) = (start.elapsed(), cpu_time()? - cpu);
    println!(
        "batches of {batch:>3}, {}: {:>9.0} frames/s, {:>6.2} us and {:>6.2} CPU-us a batch, {:>6.3} CPU-us a frame",
        if in_step { "in step" } else { "at once" },
        sent as f64 / span.as_secs_f64(),
        span.as_secs_f64() * 1e6 * batch as f64 / sent as f64,
        cpu.as_secs_f64() * 1e6 * batch as f64 / sent as f64,
        cpu.as_secs_f64() * 1e6 / sent as f64,
    );
    sender.stop();
    receiver.stop();
    Ok(())
}

fn start(
    me: NodeId,
    listen: TcpListener,
    peer: NodeId,
    address: SocketAddr,
    deliver: impl Fn(PeerEvent) + Send + Sync + 'static,
) -> io::Result<Peers> {
    let peers = vec![(peer, address.to_string())];
    let timing = Timing::default();
    let on_round_trip = Arc::new(|_, _| {});
    let on_question: OnQuestion = Arc::new(|question, _| question);
    let params = PeerParams {
        cluster: ClusterId(1),
        me,
        listen: Some(listen),
        peers,
        timing,
        security: Arc::new(SharedPeerAuth::new(PeerAuth::open())),
        on_round_trip,
        on_question,
        trusts_this_machine: true,
        audit: None,
    };
    let deliver = move |event| {
        deliver(event);
        Ok(())
    };
    Peers::start(params, Arc::new(deliver))
}

/// User and system time of this process.
fn cpu_time() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: u32 =
        after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    Ok(TICK * ticks)
}
