//! Everything that goes through the router: streams in both directions, large bodies, HTTP/1, and the end.

use crate::client::{Answer, Client, GRPC, framed, gather};
use crate::world::{PATIENCE, World};
use bytes::Bytes;
use h2::client::Builder;
use http::Method;
use prost::Message;
use proto::etcdserverpb as wire;
use proto::etcdserverpb::watch_request::RequestUnion;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio::time::timeout;

async fn put(client: &Client, key: &str, value: impl Into<Bytes>) {
    let put = wire::PutRequest { key: key.to_owned().into(), value: value.into(), ..Default::default() };
    client.kv("Put", &[GRPC], &put).await.message::<wire::PutResponse>();
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port_alike() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    let Answer { status, headers, body, .. } = client.get("/version").await;
    assert_eq!((status, headers["content-length"].to_str().unwrap()), (200, &*body.len().to_string()));
    let address = world.address;
    let http1 = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        // In pieces: the protocol is not clear from the first.
        for piece in ["P", "OST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"] {
            stream.write_all(piece.as_bytes()).unwrap();
            std::thread::yield_now();
        }
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let http1 = http1.await.unwrap();
    assert!(http1.starts_with("HTTP/1.1 404"), "{http1}");
    assert!(http1.ends_with(std::str::from_utf8(&body).unwrap()), "{http1}");
    assert_eq!(client.get("/nothing").await.status, 404);
    let unserved = client.post("/etcdserverpb.Unknown/Nothing", &[GRPC], Bytes::new()).await.unwrap();
    assert_eq!(unserved.refusal().0, "12");
}

/// The messages that a stream has sent so far, and what is left of the next.
async fn next_message<M: Message + Default>(stream: &mut h2::RecvStream, held: &mut Vec<u8>) -> Option<M> {
    loop {
        if let Some(head) = held.first_chunk::<5>() {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if held.len() >= 5 + len {
                let message = M::decode(&held[5..5 + len]).unwrap();
                held.drain(..5 + len);
                return Some(message);
            }
        }
        let data = timeout(PATIENCE, stream.data()).await.expect("a message comes")?.unwrap();
        held.extend_from_slice(&data);
        stream.flow_control().release_capacity(data.len()).unwrap();
    }
}

#[tokio::test]
async fn a_watch_tells_what_happens_until_the_member_stops() {
    let mut world = World::start().await;
    let client = Client::connect(world.address).await;
    let (response, mut requests) =
        client.begin(Method::POST, "/etcdserverpb.Watch/Watch", &[GRPC], false).await;
    let create = wire::WatchCreateRequest { key: "k".into(), ..Default::default() };
    let create = wire::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
    requests.send_data(framed(&create), false).unwrap();
    let mut events = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    let mut held = Vec::new();
    let created: wire::WatchResponse = next_message(&mut events, &mut held).await.unwrap();
    assert!(created.created);
    for nth in 0..50u8 {
        put(&client, "k", vec![nth; 10_000]).await;
        let told: wire::WatchResponse = next_message(&mut events, &mut held).await.unwrap();
        assert_eq!(told.events[0].kv.as_ref().unwrap().value[0], nth);
    }
    world.stop();
    while next_message::<wire::WatchResponse>(&mut events, &mut held).await.is_some() {}
    assert!(timeout(PATIENCE, events.trailers()).await.unwrap().unwrap().is_some());
    world.stopped().await;
}

#[tokio::test]
async fn a_large_answer_comes_whole_through_a_small_window_beside_others() {
    let world = World::start().await;
    let builder = Builder::new();
    let client = Client::connect_with(world.address, builder.clone().initial_window_size(10_000)).await;
    for nth in 0..100 {
        put(&client, &format!("k{nth:03}"), vec![7; 50_000]).await;
    }
    let all = wire::RangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() };
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (client, all) = (client.clone(), all.clone());
        calls.spawn(async move { client.kv("Range", &[GRPC], &all).await.message::<wire::RangeResponse>() });
    }
    put(&client, "beside", "them").await;
    for answer in calls.join_all().await {
        assert_eq!((answer.count, answer.kvs.len()), (100, 100));
        assert!(answer.kvs.iter().all(|kv| kv.value == vec![7; 50_000]));
    }
}

#[tokio::test]
async fn unread_answers_do_not_delay_others() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    put(&client, "large", vec![7; 1_000_000]).await;
    let get = wire::RangeRequest { key: "large".into(), ..Default::default() };
    // It takes the whole window of its connection, which the client never opens again.
    let (response, mut stream) = client.begin(Method::POST, "/etcdserverpb.KV/Range", &[GRPC], false).await;
    stream.send_data(framed(&get), true).unwrap();
    let unread = timeout(PATIENCE, response).await.unwrap().unwrap();
    let other = Client::connect(world.address).await;
    put(&other, "small", "value").await;
    let answer = other.kv("Range", &[GRPC], &get).await.message::<wire::RangeResponse>();
    assert_eq!(answer.kvs[0].value.len(), 1_000_000);
    drop(unread);
    assert_eq!(client.kv("Range", &[GRPC], &get).await.message::<wire::RangeResponse>().count, 1);
}

#[tokio::test]
async fn who_stops_finishes_what_is_under_way_and_takes_nothing_new() {
    let mut world = World::start().await;
    let client = Client::connect(world.address).await;
    let (response, mut stream) = client.begin(Method::POST, "/etcdserverpb.KV/Put", &[GRPC], false).await;
    client.get("/version").await;
    world.stop();
    let put = wire::PutRequest { key: "k".into(), ..Default::default() };
    stream.send_data(framed(&put), true).unwrap();
    gather(response).await.unwrap().message::<wire::PutResponse>();
    let address = world.address;
    world.stopped().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
