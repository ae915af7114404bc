//! What clients may take of a member: descriptors, connections, memory for requests that are not whole, and time.
//! Whatever they take, the log goes on and others are served.

use crate::both_ways::{Way, both_ways};
use crate::etcd::put;
use crate::membership::joiner;
use crate::process::{Member, PATIENCE, Plan, connect_from, until};
use crate::rest::Rest;
use crate::tour::block_on;
use proto::etcdserverpb::RangeRequest;
use proto::etcdserverpb::kv_client::KvClient;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

/// The same process under a limit on open files that it cannot raise.
fn spawn_with_files(plan: &Plan, files: usize) -> Child {
    let member = plan.command();
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")])
        .arg(member.get_program())
        .args(member.get_args())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn say(address: SocketAddr, words: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    // The other side may have closed it already.
    let _ = stream.write_all(words);
    stream
}

/// Whether the other side closes it before the time is up; what it says before that does not matter.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// Asks on connections of its own until it is answered: an idle one may have to be closed first.
fn answers(address: SocketAddr, target: &str) {
    until("a new connection is served", || {
        let mut stream = say(
            address,
            format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
        );
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    });
}

#[test]
fn connections_never_take_the_last_descriptor() {
    // One after the other: this process has a limit, too.
    never_take_the_last_descriptor(Way::InClear);
    never_take_the_last_descriptor(Way::InsideTls);
}

fn never_take_the_last_descriptor(way: Way) {
    const FILES: usize = 256;
    let plan = way.plan(Plan::single().with(&["--wal-segment-bytes", "1048576"]));
    let member = Member::from_child(spawn_with_files(&plan, FILES));
    // Idle ones say nothing, and so begin no TLS.
    let ports = [member.client, member.rest.unwrap()];
    let mut member = way.reach(member);
    member.wait_ready();
    let rest = member.rest.unwrap();
    Rest::of(&member).wait_for_ring(1);
    let idle: Vec<TcpStream> = (0..FILES).flat_map(|_| ports.map(connect)).collect();
    answers(member.client, "/health");
    answers(rest, "/health");
    assert!(member.open_files() < FILES - 16, "{} descriptors of {FILES}", member.open_files());
    // Several segments of the log are begun while all places are taken.
    block_on(async {
        let channel = Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap();
        let mut kv = KvClient::new(channel);
        for nth in 0..40 {
            kv.put(put(format!("key-{nth}"), vec![7; 100_000])).await.unwrap();
        }
    });
    answers(rest, "/health");
    assert!(member.is_running());
    assert!(member.metric("althing_client_connections_closed_idle_total") > 0.0);
    drop(idle);
}

/// A connection with a request under way: a watch that stays open.
fn watch(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    let body = r#"{"create_request":{"key":"YQ=="}}"#;
    let head =
        format!("POST /v3/watch HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    let mut answer = Vec::new();
    while !answer.windows(9).any(|part| part == b"\"created\"") {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the watch has begun: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..read]);
    }
    stream
}

#[test]
fn idle_connections_make_place_and_busy_ones_do_not() {
    both_ways(make_place_if_idle);
}

fn make_place_if_idle(way: Way) {
    let member = way.start_ready(&Plan::single().with(&["--connections-max", "16"]));
    let idle: Vec<TcpStream> = (0..16).map(|_| connect(member.client)).collect();
    answers(member.client, "/health");
    drop(idle);
    // What was closed is known a moment later.
    let mut watches = Vec::new();
    until("this machine has taken its share", || {
        watches.push(watch(member.client));
        (watches.len() == 14).then_some(())
    });
    // Probes are answered still; everything else is refused.
    let ask = |target: &str| member.http("GET", target);
    assert_eq!((ask("/health").status, ask("/nothing").status), (200, 429));
    let refused =
        say(member.client, b"POST /v3/kv/range HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    assert!(is_closed(refused));
    for watch in &mut watches {
        watch.set_nonblocking(true).unwrap();
        let waits =
            watch.read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(waits, "a watch was closed");
    }
    drop(watches.pop());
    answers(member.client, "/health");
}

#[test]
fn a_head_with_bare_line_feeds_is_refused_on_every_port() {
    both_ways(refuse_bare_line_feeds);
}

fn refuse_bare_line_feeds(way: Way) {
    let member = way.start_ready(&Plan::single());
    for address in [member.client, member.rest.unwrap()] {
        for head in ["GET /version HTTP/1.1\nhost: a\n\n", "GET /version HTTP/1.1\r\nhost: a\n\r\n"] {
            let mut answer = String::new();
            say(address, head.as_bytes()).read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        }
        let mut answer = Vec::new();
        say(address, b"INVALID CONNECTION PREFACE\r\n\r\n").read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"", "what is no protocol gets no answer");
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The head of a put, which goes on.
fn put_head(stream: u32) -> Vec<u8> {
    let mut fields = vec![0x83, 0x86];
    for (name, value) in
        [(":path", "/etcdserverpb.KV/Put"), ("content-type", "application/grpc"), ("te", "trailers")]
    {
        fields.push(0);
        for text in [name, value] {
            fields.push(text.len() as u8);
            fields.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 4, stream, &fields)
}

/// What a message of a mebibyte begins with, as many bytes of it as this.
fn part_of_message(bytes: usize) -> Vec<u8> {
    [&[0, 0, 0x10, 0, 0][..], &vec![0; bytes - 5]].concat()
}

/// Keeps a writer going while its answers are read, and closes the connection when it is dropped.
fn say_without_listening(address: SocketAddr, bytes: Vec<u8>) -> TcpStream {
    let stream = connect(address);
    let mut writer = stream.try_clone().unwrap();
    std::thread::spawn(move || drop(writer.write_all(&bytes)));
    stream
}

#[test]
fn requests_that_never_become_whole_take_no_more_than_their_budget() {
    both_ways(hold_partial_requests_to_their_budget);
}

fn hold_partial_requests_to_their_budget(way: Way) {
    const BUDGET: f64 = (16 << 20) as f64;
    let member = way.start_ready(&Plan::single().with(&["--partial-request-bytes-max", "16777216"]));
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut bytes = PREFACE.to_vec();
        for nth in 0..200 {
            bytes.extend(put_head(2 * nth + 1));
            let part = part_of_message(60_000);
            part.chunks(16_000).for_each(|piece| bytes.extend(frame(0, 0, 2 * nth + 1, piece)));
        }
        held.push(say_without_listening(member.client, bytes));
    }
    // Answers come only to what is refused: nothing is whole.
    for stream in &mut held {
        let refused = until("one is refused", || {
            let mut head = [0; 9];
            stream.read_exact(&mut head).unwrap();
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            stream.read_exact(&mut vec![0; len]).unwrap();
            (head[3] == 1).then_some(true)
        });
        assert!(refused);
        assert!(member.metric("althing_client_partial_request_bytes") <= BUDGET);
    }
    // Others are served meanwhile.
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.put(put("key".to_owned(), vec![7; 1_000])).await.unwrap();
    });
    drop(held);
    until("everything is given back", || {
        (member.metric("althing_client_partial_request_bytes") == 0.0).then_some(())
    });
}

#[test]
fn many_large_requests_of_one_connection_become_whole_one_after_the_other() {
    both_ways(complete_large_requests_in_turn);
}

fn complete_large_requests_in_turn(way: Way) {
    let member = way.start_ready(&Plan::single());
    block_on(async {
        let channel = Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap();
        let mut reads = JoinSet::new();
        for _ in 0..100 {
            let mut kv = KvClient::new(channel.clone());
            // A read, because the core takes only so many bytes of writes at a time.
            let read = RangeRequest { key: vec![7; 1 << 20].into(), ..Default::default() };
            reads.spawn(async move { kv.range(read).await.map(drop) });
        }
        let done = tokio::time::timeout(PATIENCE * 5, reads.join_all()).await.unwrap();
        assert!(done.iter().all(Result::is_ok), "{done:?}");
    });
}

/// Whether the other side has closed it; if not, one more byte is sent.
fn is_cut(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let is_over = match stream.read(&mut [0; 4096]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    };
    is_over || stream.write_all(b"a").is_err()
}

#[test]
fn slow_clients_are_cut_on_every_port() {
    both_ways(cut_slow_clients);
}

fn cut_slow_clients(way: Way) {
    let member = way.start_ready(&Plan::single());
    let rest = member.rest.unwrap();
    let body = "POST /v3/kv/put HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\n{";
    let data = "PUT /v1/data/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\n{";
    let odd = "PUT /v1/data/a HTTP/1.1\r\nhost: localhost\r\nx-odd: 1\r\ncontent-length: 900\r\n\r\n{";
    let put = [PREFACE, &put_head(1), &frame(0, 0, 1, &part_of_message(100))].concat();
    let slow: Vec<(SocketAddr, &[u8])> = vec![
        (member.client, b"GET /health HTTP/1.1\r\nhost"),
        (rest, b"GET /health HTTP/1.1\r\nhost"),
        (member.client, body.as_bytes()),
        (rest, data.as_bytes()),
        (rest, odd.as_bytes()),
    ];
    let mut streams: Vec<TcpStream> = slow.iter().map(|(address, words)| say(*address, words)).collect();
    let mut partial_put = say(member.client, &put);
    // One byte now and then does not help. It stops being taken when the connection is closed.
    let deadline = Instant::now() + PATIENCE * 3;
    while !streams.is_empty() {
        assert!(Instant::now() < deadline, "{} slow connections live on", streams.len());
        streams.retain_mut(|stream| !is_cut(stream));
    }
    // A call of HTTP/2 is refused, and its connection lives on.
    let mut heard = Vec::new();
    until("the put is refused", || {
        let mut bytes = [0; 4096];
        let read = partial_put.read(&mut bytes).unwrap();
        heard.extend_from_slice(&bytes[..read]);
        let refusal = b"etcdserver:";
        heard.windows(refusal.len()).any(|part| part == refusal).then_some(())
    });
}

/// Words of a client that never come to a hello: nothing, a hello or a question that ends early, and a handshake of TLS that does.
const HALF_A_HELLO: [&[u8]; 4] = [b"", b"ALTHINGP\x01", b"ALTHINGJ\x01", &[22, 3, 1, 2, 0, 1, 0, 1]];

#[test]
fn slow_clients_of_the_peer_port_are_cut() {
    // A node alone makes a secret, and its peers speak TLS; members of a static cluster are open.
    let alone = Plan::single();
    let open = Plan::cluster(3);
    let _members: Vec<Member> = [&alone].into_iter().chain(&open).map(Plan::start).collect();
    let ports = [&alone, &open[0]].map(|plan| SocketAddr::from(([127, 0, 0, 1], plan.peer_port)));
    let mut streams: Vec<TcpStream> =
        ports.iter().flat_map(|port| HALF_A_HELLO.map(|words| say(*port, words))).collect();
    until("all are cut", || {
        streams.retain_mut(|stream| !is_cut(stream));
        streams.is_empty().then_some(())
    });
}

/// Questions of a node that wants to join which never become whole, one after the other, from an address of their own.
fn keep_asking(port: SocketAddr, ends: &AtomicBool, asked: &AtomicUsize) {
    let mut held = VecDeque::new();
    while !ends.load(Ordering::Relaxed) {
        if let Some(mut stream) = connect_from([127, 0, 0, 9], port) {
            // It may have been cut already.
            let _ = stream.write_all(b"ALTHINGJ\x01\0");
            held.push_back(stream);
            asked.fetch_add(1, Ordering::Relaxed);
        }
        if held.len() > 300 {
            held.pop_front();
        }
        // Hundreds within the time that one may take, and processors for others.
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn questions_to_the_peer_port_take_neither_all_descriptors_nor_the_places_of_others() {
    const FILES: usize = 256;
    // Members of a static cluster are open, and nodes join without a token.
    let plans: Vec<Plan> =
        Plan::cluster(3).into_iter().map(|plan| plan.with(&["--wal-segment-bytes", "1048576"])).collect();
    let mut member = Member::from_child(spawn_with_files(&plans[0], FILES));
    let others: Vec<Member> = plans[1..].iter().map(Plan::start).collect();
    others.iter().chain([&member]).for_each(Member::wait_ready);
    let port = SocketAddr::from(([127, 0, 0, 1], plans[0].peer_port));
    let (ends, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| keep_asking(port, &ends, &asked));
        let finish = EndOnDrop(&ends);
        until("they have asked", || (asked.load(Ordering::Relaxed) > 600).then_some(()));
        assert!(member.open_files() < FILES - 64, "{} descriptors of {FILES}", member.open_files());
        block_on(async {
            let channel = Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap();
            let mut kv = KvClient::new(channel);
            for nth in 0..40 {
                kv.put(put(format!("key-{nth}"), vec![7; 100_000])).await.unwrap();
            }
        });
        assert!(member.is_running());
        joiner("m9", plans[0].peer_port).start_ready();
        drop(finish);
    });
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
