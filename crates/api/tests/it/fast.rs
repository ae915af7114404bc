//! Calls that go straight to the core. From outside they look like those of the services.

use crate::client::{Answer, Client, GRPC, GRPC_ROUTED, framed};
use crate::world::World;
use bytes::Bytes;
use h2::client::Builder;
use http::Method;
use proto::etcdserverpb as wire;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> wire::PutRequest {
    wire::PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

fn get(key: &'static str) -> wire::RangeRequest {
    wire::RangeRequest { key: key.into(), ..Default::default() }
}

/// The same call on both paths.
async fn both_ways(client: &Client, method: &str, more: &[(&str, &str)], body: Bytes) -> [Answer; 2] {
    let path = format!("/etcdserverpb.KV/{method}");
    let short = client.post(&path, &[&[GRPC], more].concat(), body.clone()).await.unwrap();
    let long = client.post(&path, &[&[GRPC_ROUTED], more].concat(), body).await.unwrap();
    [short, long]
}

#[tokio::test]
async fn the_four_calls_are_answered_as_the_services_answer_them() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    let first: wire::PutResponse = client.kv("Put", &[GRPC], &put("a", "1")).await.message();
    assert_eq!(first.header.unwrap().revision, 2);
    let [short, long] = both_ways(&client, "Range", &[], framed(&get("a"))).await;
    assert_eq!(short, long);
    let found: wire::RangeResponse = short.message();
    assert_eq!((found.count, &found.kvs[0].value[..]), (1, &b"1"[..]));
    let op = wire::RequestOp { request: Some(wire::request_op::Request::RequestRange(get("a"))) };
    let txn = wire::TxnRequest { success: vec![op], ..Default::default() };
    let [short, long] = both_ways(&client, "Txn", &[], framed(&txn)).await;
    assert_eq!(short, long);
    assert!(short.message::<wire::TxnResponse>().succeeded);
    let delete = wire::DeleteRangeRequest { key: "a".into(), prev_kv: true, ..Default::default() };
    let deleted: wire::DeleteRangeResponse = client.kv("DeleteRange", &[GRPC], &delete).await.message();
    assert_eq!((deleted.deleted, deleted.prev_kvs.len()), (1, 1));
    let all = wire::RangeRequest { range_end: "z".into(), ..get("a") };
    assert_eq!(client.kv("Range", &[GRPC], &all).await.message::<wire::RangeResponse>().count, 0);
}

#[tokio::test]
async fn refusals_are_the_same_on_both_ways() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    let ignored = wire::PutRequest { ignore_value: true, ..put("k", "v") };
    let future = wire::RangeRequest { revision: 99, ..get("k") };
    let lease = wire::PutRequest { lease: 77, ..put("k", "v") };
    let too_deep: Bytes = {
        let wrap = |txn| wire::RequestOp { request: Some(wire::request_op::Request::RequestTxn(txn)) };
        let nested = (0..8).fold(wire::TxnRequest::default(), |txn, _| wire::TxnRequest {
            success: vec![wrap(txn)],
            ..Default::default()
        });
        framed(&nested)
    };
    for (method, body) in [
        ("Put", framed(&put("", "v"))),
        ("Put", framed(&ignored)),
        ("Put", framed(&lease)),
        ("Range", framed(&future)),
        ("Txn", too_deep),
        ("Put", framed(&put("k", vec![7; 1_600_000]))),
        // Too large to be decoded, no protobuf, compressed, cut short, two messages, nothing.
        ("Put", framed(&put("k", vec![7; 3_000_000]))),
        ("Put", Bytes::from_static(b"\0\0\0\0\x03\xff\xff\xff")),
        ("Put", Bytes::from_static(b"\x01\0\0\0\x01\0")),
        ("Put", Bytes::from_static(b"\0\0\0\0\x09abc")),
        ("Put", Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0")),
        ("Put", Bytes::from_static(b"\0\0")),
        ("Put", Bytes::new()),
    ] {
        let what = format!("{method} of {} bytes {:02x?}", body.len(), &body[..body.len().min(12)]);
        let [short, long] = both_ways(&client, method, &[], body).await;
        assert_eq!(short, long, "{what}");
        assert_ne!(short.refusal().0, "0", "{what}");
    }
}

#[tokio::test]
async fn a_message_may_come_in_any_number_of_pieces() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    for size in [1, 4, 5, 6, 1_000] {
        let (response, mut stream) = client.begin(Method::POST, "/etcdserverpb.KV/Put", &[GRPC], false).await;
        for piece in framed(&put("key", vec![7; 900])).chunks(size) {
            stream.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
        let answer = crate::client::gather(response).await.unwrap();
        answer.message::<wire::PutResponse>();
    }
    let found: wire::RangeResponse = client.kv("Range", &[GRPC], &get("key")).await.message();
    assert_eq!((found.kvs[0].version, found.kvs[0].value.len()), (5, 900));
}

#[tokio::test]
async fn many_calls_on_one_connection_are_each_answered() {
    let world = World::start().await;
    // With a smaller window this client takes so many small frames at once for an attack.
    let builder = Builder::new();
    let client =
        Client::connect_with(world.address, builder.clone().initial_connection_window_size(8 << 20)).await;
    let mut calls = tokio::task::JoinSet::new();
    for nth in 0..1_000 {
        let client = client.clone();
        calls.spawn(async move {
            let put = put(format!("key {}", nth % 10), format!("value {nth}"));
            let answer: wire::PutResponse = client.kv("Put", &[GRPC], &put).await.message();
            answer.header.unwrap().revision
        });
    }
    let revisions: BTreeSet<i64> = calls.join_all().await.into_iter().collect();
    assert_eq!(revisions, (2..1_002).collect());
}

#[tokio::test]
async fn a_client_waits_no_longer_than_it_wanted() {
    let world = World::start_lonely().await;
    let client = Client::connect(world.address).await;
    let begun = Instant::now();
    let [short, long] = both_ways(&client, "Put", &[("grpc-timeout", "50m")], framed(&put("k", "v"))).await;
    assert!((Duration::from_millis(100)..Duration::from_secs(15)).contains(&begun.elapsed()));
    assert_eq!(short, long);
    assert_eq!(short.refusal(), ("4", "context deadline exceeded"));
}

/// Go's client sends a write again when it receives that its deadline has passed while it has not.
#[tokio::test]
async fn no_call_is_told_that_its_deadline_has_passed_before_it_has() {
    let world = World::start_lonely().await;
    let client = Client::connect(world.address).await;
    let mut calls = tokio::task::JoinSet::new();
    for nth in 0..200 {
        let client = client.clone();
        calls.spawn(async move {
            let limit = Duration::from_micros(20_000 + 517 * nth);
            let timeout = format!("{}u", limit.as_micros());
            let put = framed(&put(format!("key {nth}"), "v"));
            let begun = Instant::now();
            let answers = both_ways(&client, "Put", &[("grpc-timeout", &timeout)], put).await;
            for answer in answers {
                assert_eq!(answer.refusal().0, "4");
            }
            begun.elapsed().checked_sub(2 * limit)
        });
    }
    for spare in calls.join_all().await {
        assert!(spare.is_some(), "an answer came before its time");
    }
}

#[tokio::test]
async fn a_client_that_requires_a_leader_is_told_that_there_is_none() {
    let world = World::start_lonely().await;
    let client = Client::connect(world.address).await;
    let [short, long] = both_ways(&client, "Range", &[("hasleader", "true")], framed(&get("k"))).await;
    assert_eq!(short, long);
    assert_eq!(short.refusal().0, "14");
}

#[tokio::test]
async fn calls_are_counted_whichever_way_they_go_and_however_they_end() {
    let world = World::start_lonely().await;
    let client = Client::connect(world.address).await;
    both_ways(&client, "Put", &[], framed(&put("", "v"))).await;
    // Two that are given up: one while the core has it, one before its message has come.
    for body in [framed(&put("k", "v")), Bytes::from_static(b"\0")] {
        let (response, mut stream) = client.begin(Method::POST, "/etcdserverpb.KV/Put", &[GRPC], false).await;
        stream.send_data(body.clone(), body.len() > 1).unwrap();
        client.get("/version").await;
        drop(response);
        stream.send_reset(h2::Reason::CANCEL);
    }
    let metrics = client.get("/metrics").await;
    let text = std::str::from_utf8(&metrics.body).unwrap();
    let labels = r#"grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Put""#;
    for line in [
        format!("grpc_server_started_total{{{labels}}} 4\n"),
        format!("grpc_server_msg_received_total{{{labels}}} 4\n"),
        format!("grpc_server_handled_total{{{labels},grpc_code=\"InvalidArgument\"}} 2\n"),
        format!("grpc_server_handled_total{{{labels},grpc_code=\"Canceled\"}} 2\n"),
    ] {
        assert!(text.contains(&line), "{line} is missing");
    }
}

#[tokio::test]
async fn a_large_range_is_counted_once_although_it_is_asked_twice() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    for key in ["a", "b"] {
        client.kv("Put", &[GRPC], &put(key, vec![7; 500_000])).await.message::<wire::PutResponse>();
    }
    let all = wire::RangeRequest { range_end: "z".into(), ..get("a") };
    let [short, long] = both_ways(&client, "Range", &[("grpc-timeout", "30S")], framed(&all)).await;
    assert_eq!(short.body, long.body);
    let found: wire::RangeResponse = short.message();
    assert_eq!((found.count, found.kvs[1].value.len()), (2, 500_000));
    let metrics = client.get("/metrics").await;
    let text = std::str::from_utf8(&metrics.body).unwrap();
    let labels = r#"grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range""#;
    for line in [
        format!("grpc_server_started_total{{{labels}}} 2\n"),
        format!("grpc_server_handled_total{{{labels},grpc_code=\"OK\"}} 2\n"),
    ] {
        assert!(text.contains(&line), "{line} is missing");
    }
}
