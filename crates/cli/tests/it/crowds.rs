//! Many clients at once on one member: everything is read a hundred times over, and ten thousand watches all hear of
//! their change, in memory that does not grow with them.
//! Small by default; `CROWD_KEYS=200000 CROWD_READERS=100 CROWD_WATCHES=10000` is the full size. What was seen is told on
//! standard error.

use crate::etcd::put;
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use bytes::Bytes;
use prost::Message;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{RangeRequest, WatchCreateRequest, WatchRequest};
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::codegen::tokio_stream::{self, StreamExt};
use tonic::transport::{Channel, Endpoint};

const VALUE_BYTES: usize = 1_000;
const GROWTH_BYTES_MAX: u64 = 150 << 20;
/// A hundred times two hundred megabytes take their time on a machine that has others to serve.
const FULL_PATIENCE: Duration = Duration::from_secs(1_200);

fn size(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn connect(member: &Member) -> Channel {
    Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap()
}

async fn fill(member: &Member, keys: usize) {
    const WRITERS: usize = 64;
    let mut writers = JoinSet::new();
    let channel = connect(member).await;
    for first in 0..WRITERS {
        let mut kv = KvClient::new(channel.clone());
        writers.spawn(async move {
            for nth in (first..keys).step_by(WRITERS) {
                kv.put(put(format!("key-{nth:08}"), vec![b'x'; VALUE_BYTES])).await.unwrap();
            }
        });
    }
    while writers.join_next().await.transpose().unwrap().is_some() {}
}

/// Asks for everything and throws it away as it comes. The bytes of the answer and its status come out.
async fn read_everything(member: std::net::SocketAddr) -> (usize, String) {
    let socket = TcpStream::connect(member).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let message =
        RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }.encode_to_vec();
    let request = http::Request::post(format!("http://{member}/etcdserverpb.KV/Range"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut body) = sender.send_request(request, false).unwrap();
    let prefix = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
    body.send_data(Bytes::from([prefix, message].concat()), true).unwrap();
    let mut answer = response.await.unwrap().into_body();
    let mut read = 0;
    while let Some(part) = answer.data().await {
        let part = part.unwrap();
        read += part.len();
        answer.flow_control().release_capacity(part.len()).unwrap();
    }
    let trailers = answer.trailers().await.unwrap().unwrap_or_default();
    (read, format!("{:?} {:?}", trailers.get("grpc-status"), trailers.get("grpc-message")))
}

#[test]
fn everything_is_read_by_many_at_once_in_bounded_memory() {
    let (keys, readers) = (size("CROWD_KEYS", 2_000), size("CROWD_READERS", 20));
    let member = Plan::single().start_ready();
    block_on(async {
        fill(&member, keys).await;
        // What is not flushed yet, and what the first reader makes the member remember, is no growth by readers.
        assert!(read_everything(member.client).await.0 > keys * VALUE_BYTES);
        let before = member.rss_bytes();
        member.forget_peak_rss();
        let begun = Instant::now();
        let mut reading = JoinSet::new();
        for _ in 0..readers {
            reading.spawn(read_everything(member.client));
        }
        let answers = tokio::time::timeout(FULL_PATIENCE, reading.join_all()).await.unwrap();
        for (bytes, status) in &answers {
            assert_eq!(status, "Some(\"0\") Some(\"\")");
            assert!(*bytes > keys * VALUE_BYTES && *bytes == answers[0].0, "{bytes}");
        }
        let growth = member.peak_rss_bytes().saturating_sub(before);
        let seconds = begun.elapsed().as_secs_f64();
        tell(&format!(
            "{readers} reads of {} bytes in {seconds:.1} s: {} MiB before, {} MiB more at the peak",
            answers[0].0,
            before >> 20,
            growth >> 20
        ));
        assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more");
    });
}

/// Opens watches of these keys on one stream, and waits until each of them has told of a change.
async fn watch(channel: Channel, keys: Vec<String>, begun: tokio::sync::mpsc::Sender<()>) {
    let count = keys.len();
    let create = |key: String| {
        let create = WatchCreateRequest { key: key.into(), ..Default::default() };
        WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
    };
    let requests = tokio_stream::iter(keys.into_iter().map(create)).chain(tokio_stream::pending());
    let mut responses = WatchClient::new(channel).watch(requests).await.unwrap().into_inner();
    for _ in 0..count {
        assert!(responses.next().await.unwrap().unwrap().created);
    }
    begun.send(()).await.unwrap();
    let mut heard = std::collections::BTreeSet::new();
    while heard.len() < count {
        let response = responses.next().await.unwrap().unwrap();
        assert!(!response.canceled);
        heard.insert(response.watch_id);
    }
}

/// Watches on so many connections and streams, one key each, and a put to every key.
fn watched(watches: usize, connections: usize, streams: usize) {
    let member = Plan::single().start_ready();
    block_on(async {
        let before = member.rss_bytes();
        let start = Instant::now();
        let (begun, mut told) = tokio::sync::mpsc::channel(streams);
        let mut watching = JoinSet::new();
        let per_stream = watches / streams;
        let mut channels = Vec::new();
        for _ in 0..connections {
            channels.push(connect(&member).await);
        }
        for stream in 0..streams {
            let first = stream * per_stream;
            let keys = (first..first + per_stream).map(|nth| format!("key-{nth:08}")).collect();
            watching.spawn(watch(channels[stream % connections].clone(), keys, begun.clone()));
        }
        for _ in 0..streams {
            tokio::time::timeout(PATIENCE * 5, told.recv()).await.unwrap().unwrap();
        }
        let (opened, idle) = (start.elapsed(), member.rss_bytes());
        fill(&member, watches).await;
        tokio::time::timeout(FULL_PATIENCE, watching.join_all()).await.unwrap();
        tell(&format!(
            "{watches} watches on {streams} streams of {connections} connections: open after {:.1} s with {} MiB more, \
             all told after {:.1} s, {} MiB more at the peak",
            opened.as_secs_f64(),
            idle.saturating_sub(before) >> 20,
            start.elapsed().as_secs_f64(),
            member.peak_rss_bytes().saturating_sub(before) >> 20
        ));
    });
}

#[test]
fn every_watch_of_a_crowd_hears_of_its_change() {
    let watches = size("CROWD_WATCHES", 1_000);
    watched(watches, 10.min(watches), 100);
    watched(watches, 100.min(watches), watches);
}
