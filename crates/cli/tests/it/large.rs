//! Large answers over the wire: one message, a stream and JSON all say the same, and memory stays bounded.

use crate::etcd::put;
use crate::process::{Member, Plan};
use crate::tour::block_on;
use base64::Engine;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::{CompactionRequest, RangeRequest, RangeResponse};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

const KEYS: usize = 2_000;

async fn client(member: &Member) -> KvClient<Channel> {
    let channel = Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap();
    KvClient::new(channel).max_decoding_message_size(usize::MAX)
}

async fn fill(client: &mut KvClient<Channel>) {
    for nth in 0..KEYS {
        client.put(put(format!("key-{nth:05}"), format!("{nth}").repeat(80))).await.unwrap();
    }
}

fn everything() -> RangeRequest {
    RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }
}

async fn streamed(
    client: &mut KvClient<Channel>,
    request: RangeRequest,
) -> Result<RangeResponse, tonic::Status> {
    let mut stream = client.range_stream(request).await?.into_inner();
    let mut merged = RangeResponse::default();
    let mut parts = 0;
    while let Some(part) = stream.message().await? {
        assert!(merged.header.is_none(), "only the last part has a header");
        let part = part.range_response.unwrap();
        merged.kvs.extend(part.kvs);
        merged = RangeResponse { kvs: merged.kvs, ..part };
        parts += 1;
    }
    assert!(parts > 1 || merged.kvs.len() < KEYS);
    assert!(merged.header.is_some());
    Ok(merged)
}

#[test]
fn a_large_range_is_one_message_a_stream_or_json_with_the_same_content() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut client = client(&member).await;
        fill(&mut client).await;
        // Page by page, each of them small.
        let mut kvs = Vec::new();
        loop {
            let from = kvs
                .last()
                .map_or("\0".into(), |kv: &proto::mvccpb::KeyValue| [&kv.key[..], b"\0"].concat().into());
            let page = RangeRequest { key: from, limit: 50, ..everything() };
            let page = client.range(page).await.unwrap().into_inner();
            kvs.extend(page.kvs);
            if !page.more {
                break;
            }
        }
        assert_eq!(kvs.len(), KEYS);
        let all = client.range(everything()).await.unwrap().into_inner();
        assert_eq!((all.kvs == kvs, all.count, all.more), (true, KEYS as i64, false));
        assert_eq!(all.header.unwrap().revision, KEYS as i64 + 1);
        for limit in [0, 1, 1_500] {
            let request = RangeRequest { limit, ..everything() };
            let at_once = client.range(request.clone()).await.unwrap().into_inner();
            assert_eq!(streamed(&mut client, request).await.unwrap(), at_once);
        }
        let sorted = RangeRequest {
            sort_order: SortOrder::Descend as i32,
            sort_target: SortTarget::Mod as i32,
            ..everything()
        };
        kvs.reverse();
        assert!(client.range(sorted).await.unwrap().into_inner().kvs == kvs);
        kvs.reverse();

        let json = member.http_with("POST", "/v3/kv/range", r#"{"key":"AA==","range_end":"AA=="}"#);
        let json: serde_json::Value = serde_json::from_str(&unchunked(&json.body)).unwrap();
        assert_eq!(json["count"], KEYS.to_string());
        let found = json["kvs"].as_array().unwrap();
        assert_eq!(found.len(), KEYS);
        for (found, kv) in found.iter().zip(&kvs) {
            let value = base64::engine::general_purpose::STANDARD.encode(&kv.value);
            assert_eq!(found["value"], value);
            assert_eq!(found["mod_revision"], kv.mod_revision.to_string());
        }
    });
}

/// What is in the chunks of a body of unknown length.
fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((len, rest)) = body.split_once("\r\n") {
        let len = usize::from_str_radix(len, 16).unwrap();
        out.push_str(&rest[..len]);
        body = rest[len..].strip_prefix("\r\n").unwrap();
    }
    out
}

#[test]
fn a_stream_refuses_orders_filters_and_what_was_compacted() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut client = client(&member).await;
        for nth in 0..4 {
            client.put(put("k", nth.to_string())).await.unwrap();
        }
        let compact = CompactionRequest { revision: 4, physical: false };
        client.compact(compact).await.unwrap();
        let descending = RangeRequest { sort_order: SortOrder::Descend as i32, ..everything() };
        let unknown = RangeRequest { sort_order: 9, ..everything() };
        let filtered = RangeRequest { min_mod_revision: 1, ..everything() };
        let past = RangeRequest { revision: 3, ..everything() };
        let refusals = [
            (descending, Code::Unimplemented, "RangeStream does not support custom sort orders"),
            (filtered, Code::Unimplemented, "RangeStream does not support revision filters"),
            (unknown, Code::InvalidArgument, "etcdserver: invalid sort option"),
            (RangeRequest::default(), Code::InvalidArgument, "etcdserver: key is not provided"),
            (past, Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
        ];
        for (request, code, message) in refusals {
            let status = streamed(&mut client, request).await.unwrap_err();
            assert_eq!((status.code(), status.message()), (code, message));
        }
        let ascending = RangeRequest { sort_order: SortOrder::Ascend as i32, ..everything() };
        let mut stream = client.range_stream(ascending).await.unwrap().into_inner();
        let only = stream.message().await.unwrap().unwrap().range_response.unwrap();
        assert_eq!((only.count, only.kvs.len(), only.header.unwrap().revision), (1, 1, 5));
        assert!(stream.message().await.unwrap().is_none());
    });
}

#[test]
fn a_stream_by_value_without_an_order_ascends() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut client = client(&member).await;
        for (key, value) in [("a", "3"), ("b", "1"), ("c", "2")] {
            client.put(put(key, value)).await.unwrap();
        }
        let by_value = RangeRequest { sort_target: SortTarget::Value as i32, ..everything() };
        let kvs = streamed(&mut client, by_value).await.unwrap().kvs;
        assert_eq!(kvs.iter().map(|kv| &kv.key[..]).collect::<Vec<_>>(), [b"b", b"c", b"a"]);
    });
}
