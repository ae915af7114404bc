//! Input that no honest client sends. Each is refused or dropped; afterwards the member still answers, its
//! state is untouched and its memory has not grown out of bounds.

use crate::etcd::everything;
use crate::process::{Member, PATIENCE, Plan};
use crate::raw::RawClient;
use crate::tour::block_on;
use bytes::Bytes;
use prost::Message;
use proto::etcdserverpb as wire;
use proto::etcdserverpb::request_op::Request as Op;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use tonic::Code;

/// Far below what any of these attacks would reach if it were not bounded.
const RSS_BYTES_MAX: u64 = 256 * 1024 * 1024;

fn key() -> Bytes {
    Bytes::from_static(b"key")
}

/// A member that was attacked serves on, remembers nothing of it, and is not bloated.
fn assert_unharmed(member: &mut Member) {
    assert!(member.is_running());
    assert_eq!(member.http("GET", "/health").status, 200);
    block_on(async {
        let mut etcd = member.etcd().await;
        let all = etcd.range(everything()).await.unwrap();
        assert_eq!((all.count, all.header.unwrap().revision), (0, 1));
    });
    let rss = member.rss_bytes();
    assert!(rss < RSS_BYTES_MAX, "{} MiB resident", rss >> 20);
}

async fn refused(client: &mut RawClient, method: &str, message: impl Into<Bytes>) -> (Code, String) {
    let status = client.kv(method, message).await.expect_err("it is refused");
    (status.code(), status.message().to_owned())
}

#[test]
fn bytes_that_are_no_protobuf_are_refused() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut client = RawClient::connect(&member.endpoint()).await;
        let garbage: [&[u8]; 5] = [
            &[0xff; 64],
            &[0x0a, 0x7f, 0x00],
            &[0x0b, 0x0b, 0x0b],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x00],
        ];
        for method in ["Range", "Put", "DeleteRange", "Txn"] {
            for bytes in garbage {
                let (code, _) = refused(&mut client, method, Bytes::copy_from_slice(bytes)).await;
                assert_eq!(code, Code::Internal, "{method} {bytes:02x?}");
            }
        }
        let unknown = client.call("/etcdserverpb.KV/Nothing", Bytes::new()).await.expect_err("unknown");
        assert_eq!(unknown.code(), Code::Unimplemented);
    });
    assert_unharmed(&mut member);
}

#[test]
fn requests_of_ten_mebibytes_are_turned_away() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut client = RawClient::connect(&member.endpoint()).await;
        let put = wire::PutRequest { key: key(), value: vec![7; 10 << 20].into(), ..Default::default() };
        let message: Bytes = put.encode_to_vec().into();
        for _ in 0..20 {
            let (code, words) = refused(&mut client, "Put", message.clone()).await;
            assert_eq!(code, Code::ResourceExhausted, "{words}");
            assert!(words.starts_with("grpc: received message larger than max"), "{words}");
        }
    });
    assert_unharmed(&mut member);
}

#[test]
fn unknown_enums_and_negative_numbers_are_refused() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut client = RawClient::connect(&member.endpoint()).await;
        let range = || wire::RangeRequest { key: key(), ..Default::default() };
        let sort = (Code::InvalidArgument, "etcdserver: invalid sort option".to_owned());
        let order = wire::RangeRequest { sort_order: 77, ..range() };
        assert_eq!(refused(&mut client, "Range", order.encode_to_vec()).await, sort);
        let target = wire::RangeRequest { sort_target: -1, ..range() };
        assert_eq!(refused(&mut client, "Range", target.encode_to_vec()).await, sort);

        let past = wire::RangeRequest { revision: i64::MIN, ..range() };
        assert!(client.kv("Range", past.encode_to_vec()).await.is_ok(), "etcd takes it for now");
        let past = wire::RequestOp { request: Some(wire::request_op::Request::RequestRange(past)) };
        let past = wire::TxnRequest { success: vec![past], ..Default::default() };
        let (code, words) = refused(&mut client, "Txn", past.encode_to_vec()).await;
        assert_eq!(
            (code, words.as_str()),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted")
        );
        let limit = wire::RangeRequest { limit: -1, ..range() };
        assert!(client.kv("Range", limit.encode_to_vec()).await.is_ok(), "etcd takes it for no limit");

        let lease = wire::PutRequest { key: key(), lease: -1, ..Default::default() };
        assert_eq!(refused(&mut client, "Put", lease.encode_to_vec()).await.0, Code::NotFound);

        let compare = wire::Compare { key: key(), result: 99, ..Default::default() };
        let txn = wire::TxnRequest { compare: vec![compare], ..Default::default() };
        assert_eq!(refused(&mut client, "Txn", txn.encode_to_vec()).await.0, Code::InvalidArgument);
        let empty = wire::TxnRequest { success: vec![wire::RequestOp::default()], ..Default::default() };
        let (code, words) = refused(&mut client, "Txn", empty.encode_to_vec()).await;
        assert_eq!((code, words.as_str()), (Code::InvalidArgument, "etcdserver: key not found"));
    });
    assert_unharmed(&mut member);
}

/// A transaction in a transaction in a transaction, built from the inside out.
fn nested(depth: usize) -> Bytes {
    let mut bytes = vec![];
    let wrap = |tag: u8, inner: &[u8]| {
        let mut outer = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend_from_slice(inner);
        outer
    };
    for _ in 0..depth {
        // Field 4 of RequestOp is the transaction, field 2 of TxnRequest the operation.
        bytes = wrap(0x12, &wrap(0x22, &bytes));
    }
    bytes.into()
}

#[test]
fn nesting_is_bounded_however_deep_it_goes() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut client = RawClient::connect(&member.endpoint()).await;
        for depth in [5, 40, 60, 200, 20_000] {
            assert_eq!(refused(&mut client, "Txn", nested(depth)).await.0, Code::InvalidArgument, "{depth}");
        }
        assert!(client.kv("Txn", nested(4)).await.is_ok());
    });
    assert_unharmed(&mut member);
}

#[test]
fn a_transaction_of_a_million_operations_costs_no_memory() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut client = RawClient::connect(&member.endpoint()).await;
        let empty_operations: Bytes = [0x12, 0x00].repeat(1_000_000).into();
        let empty_compares: Bytes = [0x0a, 0x00].repeat(1_000_000).into();
        let put = wire::RequestOp { request: Some(Op::RequestPut(Default::default())) };
        let puts = wire::TxnRequest { failure: vec![put; 400_000], ..Default::default() }.encode_to_vec();
        for message in [empty_operations, empty_compares, puts.into()] {
            for _ in 0..20 {
                let (code, words) = refused(&mut client, "Txn", message.clone()).await;
                assert_eq!(code, Code::InvalidArgument);
                assert_eq!(words, "etcdserver: too many operations in txn request");
            }
        }
    });
    assert_unharmed(&mut member);
}

fn send(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The other side may hang up before it has read everything.
    let _ = stream.write_all(bytes);
    stream
}

/// Bytes without sense, the same in every run.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = base::Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn garbage_on_either_port_is_dropped() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    let peer = SocketAddr::from(([127, 0, 0, 1], plan.peer_port));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for seed in 0..40 {
        for address in [member.client, peer] {
            for len in [1, 100, 100_000] {
                let mut stream = send(address, &noise(seed, len));
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.read_to_end(&mut vec![]);
            }
            let mut stream = send(address, &[&preface[..], &noise(seed, 1_000)].concat());
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut vec![]);
        }
    }
    assert_unharmed(&mut member);
}

#[test]
fn frames_that_lie_about_their_length_are_not_believed() {
    let mut member = Plan::single().start_ready();
    for prefix in [[0, 0xff, 0xff, 0xff, 0xff], [1, 0, 0, 0, 1], [9, 0, 0, 0, 1], [0, 0, 0, 0, 200]] {
        let head = "POST /etcdserverpb.KV/Put HTTP/1.1\r\nhost: localhost\r\nte: trailers\r\nconnection: close\r\n\
                    content-type: application/grpc\r\ncontent-length: 10\r\n\r\n";
        let mut stream = send(member.client, &[head.as_bytes(), &prefix, b"\x0a\x03key"].concat());
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("grpc-status: ") && !answer.contains("grpc-status: 0"), "{answer}");
    }
    assert_unharmed(&mut member);
}

#[test]
fn connections_that_say_half_a_word_and_fall_silent_cost_little() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    let peer = SocketAddr::from(([127, 0, 0, 1], plan.peer_port));
    let half_words: [&[u8]; 5] = [
        b"",
        b"PRI * HT",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00",
        b"GET /health HTTP/1.1\r\nhost: te",
        b"POST /etcdserverpb.KV/Put HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\ncontent-length: 9\r\n\r\n\x00",
    ];
    let mut held = vec![];
    for round in 0..100 {
        held.extend(half_words.iter().map(|bytes| send(member.client, bytes)));
        held.push(send(peer, &noise(round, 7)));
    }
    assert_unharmed(&mut member);
    drop(held);
    assert_unharmed(&mut member);
}

#[test]
fn headers_without_end_are_cut_off() {
    let mut member = Plan::single().start_ready();
    let mut stream = send(member.client, b"GET /health HTTP/1.1\r\n");
    let line = format!("x-filler: {}\r\n", "y".repeat(1_000));
    let sent = (0..10_000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(sent < 10_000, "ten megabytes of headers were taken");
    assert_unharmed(&mut member);
}
