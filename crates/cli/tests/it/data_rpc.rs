//! The service for data over gRPC, by tonic's own client against a real member: what it writes REST reads and the other way
//! round, every refusal has the code of the table, and with auth on a caller sees and changes what its role permits.

use crate::data_auth::turn_on;
use crate::process::Member;
use crate::rest::single;
use crate::tour::block_on;
use prost::Message;
use proto::althing::data::v1 as wire;
use proto::althing::data::v1::data_service_client::DataServiceClient;
use proto::althing::data::v1::operation::Kind as Operation;
use proto::althing::data::v1::value::Kind as Value;
use proto::althing::data::v1::watch_response::Event;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

type Client = DataServiceClient<Channel>;

async fn client(member: &Member) -> Client {
    let client = DataServiceClient::connect(member.endpoint()).await.unwrap();
    client.max_decoding_message_size(64 * 1024 * 1024)
}

fn json(text: &str) -> Option<wire::Value> {
    Some(wire::Value { kind: Some(Value::Json(text.to_owned().into())) })
}

fn get(key: &str) -> wire::GetRequest {
    wire::GetRequest { key: key.to_owned(), ..Default::default() }
}

fn put(key: &str, text: &str) -> wire::PutRequest {
    wire::PutRequest { key: key.to_owned(), value: json(text), ..Default::default() }
}

fn update(kind: &str, key: &str, operation: Operation) -> wire::UpdateRequest {
    wire::UpdateRequest {
        key: key.to_owned(),
        r#type: kind.to_owned(),
        operation: Some(wire::Operation { kind: Some(operation) }),
        ..Default::default()
    }
}

/// The name of the code and what else the trailers say.
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String, wire::Refusal) {
    let status = answer.unwrap_err();
    let error = status.metadata().get("althing-error").unwrap().to_str().unwrap().to_owned();
    let bytes = status.metadata().get_bin("althing-refusal-bin").unwrap().to_bytes().unwrap();
    let refusal = wire::Refusal::decode(bytes).unwrap();
    assert_eq!((refusal.error.as_str(), refusal.grpc_code), (error.as_str(), status.code() as i32));
    assert_eq!(refusal.message, status.message());
    (status.code(), error, refusal)
}

async fn entry(client: &mut Client, key: &str) -> wire::Entry {
    client.get(get(key)).await.unwrap().into_inner().entry.unwrap()
}

fn kind(entry: &wire::Entry) -> &Value {
    entry.value.as_ref().unwrap().kind.as_ref().unwrap()
}

#[test]
fn what_one_interface_writes_the_other_reads() {
    let (member, rest) = single();
    block_on(async {
        let mut client = client(&member).await;
        let written = client.put(put("user", r#"{"name": "Ann"}"#)).await.unwrap().into_inner();
        let read = rest.get("/v1/data/user");
        assert_eq!(read.json()["value"]["name"], "Ann");
        assert_eq!(read.header("x-vector-clock"), Some(written.version.as_str()));
        rest.put("/v1/data/user", r#"{"value": [1, 2.50], "ttl": 600, "metadata": {"from": "rest"}}"#);
        let found = entry(&mut client, "user").await;
        assert_eq!(kind(&found), &Value::Json("[1, 2.50]".into()), "digit for digit");
        assert_eq!((found.metadata["from"].as_str(), found.r#type.as_str()), ("rest", "lww_register"));
        assert!(found.expires_ms > found.modified_ms && found.created_ms <= found.modified_ms);

        let blob = wire::Blob { data: vec![0, 255].into(), content_type: "image/png".to_owned() };
        let request = wire::PutRequest {
            value: Some(wire::Value { kind: Some(Value::Blob(blob.clone())) }),
            metadata: [("who".to_owned(), "ann".to_owned())].into(),
            ..put("photo", "0")
        };
        client.put(request).await.unwrap();
        assert_eq!(rest.get("/v1/data/photo?raw").bytes, [0, 255]);
        assert_eq!(rest.get("/v1/data/photo").json()["metadata"]["who"], "ann");
        assert_eq!(kind(&entry(&mut client, "photo").await), &Value::Blob(blob));

        client.delete(wire::DeleteRequest { key: "user".to_owned(), ..Default::default() }).await.unwrap();
        assert_eq!(rest.get("/v1/data/user").status, 410);
        let (code, error, refusal) = refused(client.get(get("user")).await);
        assert_eq!((code, error.as_str()), (Code::NotFound, "key_deleted"));
        let details: serde_json::Value = serde_json::from_slice(&refusal.details).unwrap();
        assert!(details["x_vector_clock"].is_string());
        assert_eq!(refused(client.get(get("never")).await).1, "key_absent");
    });
}

#[test]
fn conditions_sessions_and_request_ids_mean_what_they_mean_over_rest() {
    let (member, _rest) = single();
    block_on(async {
        let mut client = client(&member).await;
        let with = |options: wire::WriteOptions, text: &str| wire::PutRequest {
            options: Some(options),
            ..put("k", text)
        };
        let create = || wire::WriteOptions {
            conflict_resolution: wire::ConflictResolution::Fail as i32,
            ..Default::default()
        };
        let first = client.put(with(create(), "1")).await.unwrap().into_inner();
        let (code, error, refusal) = refused(client.put(with(create(), "2")).await);
        assert_eq!(error, "conflict_detected");
        assert_ne!(code, Code::Unknown);
        let details: serde_json::Value = serde_json::from_slice(&refusal.details).unwrap();
        assert_eq!((&details["local_value"], &details["remote_value"]), (&1.into(), &2.into()));
        let seen = wire::WriteOptions { if_version: first.version.clone(), ..Default::default() };
        client.put(with(seen.clone(), "3")).await.unwrap();
        assert_eq!(refused(client.put(with(seen, "4")).await).1, "conflict_detected");

        // A repetition is done once; another body under the same id is refused.
        let once = wire::WriteOptions { request_id: "r-1".to_owned(), ..Default::default() };
        let count = |amount| wire::UpdateRequest {
            options: Some(once.clone()),
            ..update("counter", "visits", Operation::Increment(amount))
        };
        for _ in 0..2 {
            client.update(count(5)).await.unwrap();
        }
        assert_eq!(kind(&entry(&mut client, "visits").await), &Value::Integer(5));
        assert_eq!(refused(client.update(count(6)).await).1, "request_id_reused");

        let scope = Some(wire::Scope { session: "begin".to_owned(), ..Default::default() });
        let written = client.put(wire::PutRequest { scope, ..put("s", "1") }).await.unwrap().into_inner();
        assert!(written.session.starts_with("s1."), "{}", written.session);
        let scope = Some(wire::Scope {
            session: written.session,
            consistency: wire::Consistency::LocalQuorum as i32,
            ..Default::default()
        });
        assert!(
            !client
                .get(wire::GetRequest { scope, ..get("s") })
                .await
                .unwrap()
                .into_inner()
                .session
                .is_empty()
        );

        // What is malformed is refused by the parser of the REST API.
        let wrong_level = Some(wire::Scope { consistency: 77, ..Default::default() });
        assert_eq!(
            refused(client.get(wire::GetRequest { scope: wrong_level, ..get("k") }).await).1,
            "bad_request"
        );
        let one = Some(wire::Scope { consistency: wire::Consistency::LocalOne as i32, ..Default::default() });
        client.get(wire::GetRequest { scope: one.clone(), ..get("k") }).await.unwrap();
        assert_eq!(
            refused(client.put(wire::PutRequest { scope: one, ..put("k", "1") }).await).1,
            "bad_request"
        );
        assert_eq!(refused(client.put(put("k", "{")).await).1, "bad_request");
        assert_eq!(refused(client.put(put("", "1")).await).1, "empty_key");
        let nowhere = Some(wire::Scope { namespace: "no-such".to_owned(), ..Default::default() });
        assert_eq!(
            refused(client.get(wire::GetRequest { scope: nowhere, ..get("k") }).await).1,
            "unknown_space"
        );
        let many = wire::WriteOptions { w: 9, ..Default::default() };
        assert_eq!(refused(client.put(with(many, "1")).await).1, "bad_quorum");
    });
}

#[test]
fn every_type_that_merges_has_its_operations() {
    let (member, rest) = single();
    block_on(async {
        let mut client = client(&member).await;
        let mut done = async |request| {
            let answer = client.update(request).await.map(|answer| answer.into_inner().entry.unwrap());
            answer.map(|entry| kind(&entry).clone())
        };
        assert_eq!(done(update("counter", "c", Operation::Increment(5))).await.unwrap(), Value::Integer(5));
        assert_eq!(done(update("counter", "c", Operation::Increment(-7))).await.unwrap(), Value::Integer(-2));
        let add = |element: &str| Operation::AddElement(element.to_owned());
        done(update("set", "tags", add("new"))).await.unwrap();
        done(update("set", "tags", Operation::RemoveElement("new".to_owned()))).await.unwrap();
        let elements = wire::Elements { elements: vec!["old".to_owned()] };
        assert_eq!(done(update("set", "tags", add("old"))).await.unwrap(), Value::Elements(elements));
        let set = |text: &str| Operation::Set(json(text).unwrap());
        done(update("delta_numeric", "n", set("\"10.50\""))).await.unwrap();
        let added = done(update("delta_numeric", "n", Operation::AddDecimal("-0.25".to_owned()))).await;
        assert_eq!(added.unwrap(), Value::Decimal("10.25".to_owned()));
        assert_eq!(done(update("register", "r", set("[1]"))).await.unwrap(), Value::Json("[1]".into()));
        let named = wire::NamedOperation { name: "increment".to_owned(), argument: "{\"amount\":2}".into() };
        assert_eq!(done(update("gcounter", "g", Operation::Named(named))).await.unwrap(), Value::Integer(2));
        assert_eq!(
            refused(done(update("gcounter", "g", Operation::Increment(-1))).await).1,
            "negative_amount"
        );
        assert_eq!(
            done(update("bounded_counter", "b", Operation::Increment(2))).await.unwrap(),
            Value::Integer(2)
        );
        assert_eq!(
            refused(done(update("bounded_counter", "b", Operation::Increment(-3))).await).1,
            "below_bound"
        );
        assert_eq!(refused(done(update("heap", "h", add("x"))).await).1, "bad_request");
        let (code, error, _) = refused(done(update("set", "c", add("x"))).await);
        assert_eq!((error.as_str(), code == Code::Unknown), ("wrong_type", false));
    });
    assert_eq!(rest.get("/v1/crdt/counter:c").json()["value"], -2);
}

#[test]
fn a_batch_has_conditions_and_mergeable_operations_and_each_part_an_outcome() {
    use wire::batch_operation::Kind;
    use wire::batch_result::Outcome;
    let (member, _rest) = single();
    block_on(async {
        let mut client = client(&member).await;
        client.put(put("there", "1")).await.unwrap();
        let create = wire::WriteOptions {
            conflict_resolution: wire::ConflictResolution::Fail as i32,
            ..Default::default()
        };
        let operations = [
            Kind::Get("there".to_owned()),
            Kind::Put(wire::PutRequest { options: Some(create.clone()), ..put("there", "2") }),
            Kind::Put(wire::PutRequest { options: Some(create), ..put("new", "3") }),
            Kind::Update(update("counter", "hits", Operation::Increment(2))),
            Kind::Delete(wire::DeleteRequest { key: "gone".to_owned(), ..Default::default() }),
            Kind::Get("missing".to_owned()),
            Kind::Put(put("", "1")),
        ];
        let operations: Vec<_> =
            operations.into_iter().map(|kind| wire::BatchOperation { kind: Some(kind) }).collect();
        let n = operations.len();
        let answer = client.batch(wire::BatchRequest { operations, ..Default::default() }).await;
        let results = answer.unwrap().into_inner().results;
        assert_eq!(results.len(), n);
        let told: Vec<String> = results
            .into_iter()
            .map(|result| match result.outcome.unwrap() {
                Outcome::Entry(entry) => format!("entry {}", entry.key),
                Outcome::Written(_) => "written".to_owned(),
                Outcome::Refusal(refusal) => refusal.error,
            })
            .collect();
        let wanted =
            ["entry there", "conflict_detected", "written", "written", "written", "key_absent", "empty_key"];
        assert_eq!(told, wanted);
        assert_eq!(kind(&entry(&mut client, "hits").await), &Value::Integer(2));
        let nothing = client.batch(wire::BatchRequest::default()).await;
        assert_eq!(refused(nothing).1, "bad_request");
    });
}

#[test]
fn collections_are_changed_and_read_page_by_page() {
    let (member, rest) = single();
    block_on(async {
        let mut client = client(&member).await;
        let named = |name: &str, argument: &str| {
            let argument = argument.to_owned().into();
            Operation::Named(wire::NamedOperation { name: name.to_owned(), argument })
        };
        let scores = named("set", r#"{"scores": {"ann": 12.5, "bob": 3}}"#);
        let set = client.update(update("sorted_set", "game", scores)).await.unwrap().into_inner();
        assert_eq!(set.result, r#"{"size":2}"#);
        assert_eq!(set.entry.unwrap().r#type, "sorted_set");
        let read = wire::ElementsRequest {
            key: "game".to_owned(),
            r#type: "sorted_set".to_owned(),
            limit: 1,
            ..Default::default()
        };
        let page = client.elements(read.clone()).await.unwrap().into_inner();
        assert_eq!((page.size, page.elements[0].name.as_str()), (2, "bob"));
        let next = wire::ElementsRequest { page: page.next_page, ..read.clone() };
        let page = client.elements(next).await.unwrap().into_inner();
        let score = page.elements[0].value.clone().unwrap().kind.unwrap();
        assert_eq!((page.elements[0].name.as_str(), score), ("ann", Value::Decimal("12.5".to_owned())));
        let by_name =
            wire::ElementsRequest { names: vec!["ann".to_owned(), "cyd".to_owned()], ..read.clone() };
        assert_eq!(client.elements(by_name).await.unwrap().into_inner().elements.len(), 1);
        let asked = client.update(update("sorted_set", "game", named("contains", r#"{"member": "ann"}"#)));
        let asked = asked.await.unwrap().into_inner();
        assert_eq!((asked.entry, &asked.result[..]), (None, &br#"{"contains":true,"element":"ann"}"#[..]));
        assert_eq!(rest.get("/v1/crdt/sorted_set:game?element=bob").json()["value"], "3");
        let other = wire::ElementsRequest { r#type: "map".to_owned(), ..read };
        assert_eq!(refused(client.elements(other).await).1, "wrong_type");
    });
}

fn keys(prefix: &str) -> Option<wire::Keys> {
    Some(wire::Keys { prefix: prefix.to_owned(), ..Default::default() })
}

async fn scanned(client: &mut Client, request: wire::ScanRequest) -> Vec<wire::Entry> {
    let mut pages = client.scan(request).await.unwrap().into_inner();
    let mut entries = Vec::new();
    while let Some(page) = pages.message().await.unwrap() {
        assert_eq!(page.missing_partitions, 0);
        entries.extend(page.entries);
    }
    entries
}

#[test]
fn a_scan_streams_its_pages_to_the_end() {
    let (member, rest) = single();
    let entries: Vec<String> = (0..1_000).map(|n| format!(r#"{{"key":"row/{n:04}","value":{n}}}"#)).collect();
    for some in [&entries[..500], &entries[500..]] {
        let body = format!(r#"{{"entries":[{}]}}"#, some.join(","));
        assert_eq!(rest.post("/v1/data/batch/write", &body).status, 200);
    }
    // Larger than a page takes.
    let large = "x".repeat(900_000);
    for n in 0..4 {
        rest.put(&format!("/v1/data/large/{n}"), &format!(r#"{{"value":"{large}"}}"#));
    }
    block_on(async {
        let mut client = client(&member).await;
        let prefix = |prefix: &str| wire::ScanRequest { keys: keys(prefix), ..Default::default() };
        let all = scanned(&mut client, prefix("row/")).await;
        assert_eq!(all.len(), 1_000);
        assert!(all.is_sorted_by(|left, right| left.key < right.key));
        assert_eq!(kind(&all[7]), &Value::Json("7".into()));
        let limited = wire::ScanRequest { limit: 333, ..prefix("row/") };
        assert_eq!(scanned(&mut client, limited).await.len(), 333);
        let part = Some(wire::Keys {
            start: "row/0100".to_owned(),
            end: "row/0110".to_owned(),
            ..Default::default()
        });
        let part = wire::ScanRequest { keys: part, ..Default::default() };
        assert_eq!(scanned(&mut client, part).await.len(), 10);
        assert_eq!(scanned(&mut client, prefix("large/")).await.len(), 4);
        assert_eq!(scanned(&mut client, prefix("none/")).await.len(), 0);
        let both = Some(wire::Keys { start: "a".to_owned(), ..keys("b").unwrap() });
        let both = wire::ScanRequest { keys: both, ..Default::default() };
        assert_eq!(refused(client.scan(both).await.map(|_| ())).1, "bad_request");
        let down = wire::ScanRequest { keys_only: true, reverse: true, limit: 3, ..prefix("row/") };
        let down = scanned(&mut client, down).await;
        assert_eq!(
            down.iter().map(|entry| &*entry.key).collect::<Vec<_>>(),
            ["row/0999", "row/0998", "row/0997"]
        );
        assert!(down.iter().all(|entry| entry.value.is_none()));
        let count = wire::CountRequest { keys: keys("row/"), ..Default::default() };
        assert_eq!(client.count(count.clone()).await.unwrap().into_inner().count, 1_000);
        let delete = wire::DeleteRangeRequest { keys: keys("row/"), ..Default::default() };
        let deleted = client.delete_range(delete).await.unwrap().into_inner();
        assert_eq!((deleted.deleted, deleted.failed), (1_000, 0));
        assert_eq!(client.count(count).await.unwrap().into_inner().count, 0);
        let everything = client.delete_range(wire::DeleteRangeRequest::default()).await;
        assert_eq!(refused(everything).1, "bad_request");
    });
}

#[test]
fn callers_see_and_change_what_their_roles_permit() {
    let (member, _rest) = single();
    turn_on(&member);
    block_on(async {
        let mut client = client(&member).await;
        let as_user = |user: &str, password: &str| {
            use base64::Engine;
            let word = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            format!("Basic {word}")
        };
        fn with<T>(message: T, authorization: &str) -> Request<T> {
            let mut request = Request::new(message);
            request.metadata_mut().insert("authorization", authorization.parse().unwrap());
            request
        }
        let (writer, reader) = (as_user("writer", "p2"), as_user("reader", "p1"));
        assert_eq!(refused(client.put(put("open/1", "1")).await).1, "user_empty");
        let wrong = as_user("writer", "p9");
        assert_eq!(refused(client.put(with(put("open/1", "1"), &wrong)).await).1, "auth_failed");
        client.put(with(put("open/1", "1"), &writer)).await.unwrap();
        client.get(with(get("open/1"), &reader)).await.unwrap();
        assert_eq!(refused(client.put(with(put("open/1", "2"), &reader)).await).0, Code::PermissionDenied);
        assert_eq!(refused(client.get(with(get("closed"), &reader)).await).0, Code::PermissionDenied);
        let scan = |prefix: &str| wire::ScanRequest { keys: keys(prefix), ..Default::default() };
        client.scan(with(scan("open"), &reader)).await.unwrap();
        let delete = |prefix: &str| wire::DeleteRangeRequest { keys: keys(prefix), ..Default::default() };
        let by_reader = client.delete_range(with(delete("open"), &reader)).await;
        assert_eq!(refused(by_reader).0, Code::PermissionDenied);
        let beyond = client.scan(with(scan("o"), &reader)).await.map(|_| ());
        assert_eq!(refused(beyond).0, Code::PermissionDenied);
        // A batch whose writes are not all permitted writes nothing.
        let write =
            |key: &str| wire::BatchOperation { kind: Some(wire::batch_operation::Kind::Put(put(key, "9"))) };
        let operations = vec![write("open/1"), write("closed")];
        let batch = wire::BatchRequest { operations, ..Default::default() };
        assert_eq!(refused(client.batch(with(batch, &writer)).await).0, Code::PermissionDenied);
        let read = client.get(with(get("open/1"), &writer)).await.unwrap().into_inner();
        assert_eq!(kind(&read.entry.unwrap()), &Value::Json("1".into()));
        // Whether a namespace exists is told to those who may see it.
        let scope = Some(wire::Scope { namespace: "no-such".to_owned(), ..Default::default() });
        let hidden = client.get(with(wire::GetRequest { scope, ..get("k") }, &writer)).await;
        assert_eq!(refused(hidden).0, Code::PermissionDenied);
    });
}

#[test]
fn the_service_is_described_by_reflection_on_the_port_of_etcd() {
    let (member, _rest) = single();
    let listed = block_on(async { reflect(&member, reflection_request()).await });
    let listed = String::from_utf8_lossy(&listed);
    for service in ["althing.data.v1.DataService", "etcdserverpb.KV", "etcdserverpb.Lease", "v3lockpb.Lock"] {
        assert!(listed.contains(service), "{service} is missing from {listed}");
    }
}

/// `list_services: "*"` of `ServerReflectionRequest`.
fn reflection_request() -> bytes::Bytes {
    bytes::Bytes::from_static(b"\x3a\x01*")
}

async fn reflect(member: &Member, request: bytes::Bytes) -> bytes::Bytes {
    use tonic::codegen::tokio_stream;
    let channel = tonic::transport::Endpoint::from_shared(member.endpoint()).unwrap().connect_lazy();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".parse().unwrap();
    let request = Request::new(tokio_stream::once(request));
    let answers = client.streaming(request, path, differ::RawCodec).await.unwrap();
    answers.into_inner().message().await.unwrap().unwrap()
}

/// The next message that is no sign of life and no cursor.
async fn told(stream: &mut tonic::Streaming<wire::WatchResponse>) -> wire::WatchResponse {
    loop {
        let message = stream.message().await.unwrap().expect("the stream goes on");
        if !matches!(message.event(), Event::Alive | Event::Cursor) {
            return message;
        }
    }
}

#[test]
fn changes_are_followed_as_messages_from_the_state_on_and_behind_a_cursor() {
    let (member, _) = single();
    block_on(async {
        let mut client = client(&member).await;
        client.put(put("a1", "1")).await.unwrap();
        client.put(put("b1", "9")).await.unwrap();
        let request = wire::WatchRequest { prefix: "a".to_owned(), ..Default::default() };
        let mut stream = client.watch(request.clone()).await.unwrap().into_inner();
        let state = told(&mut stream).await;
        assert_eq!((state.event(), state.op.as_str()), (Event::State, "put"));
        assert_eq!(kind(state.entry.as_ref().unwrap()), &Value::Json("1".into()));
        assert_eq!(told(&mut stream).await.event(), Event::Live);
        client.put(put("b1", "10")).await.unwrap();
        client.put(put("a1", "2")).await.unwrap();
        let change = told(&mut stream).await;
        let entry = change.entry.as_ref().unwrap();
        assert_eq!((change.event(), entry.key.as_str()), (Event::Change, "a1"));
        assert_eq!((kind(entry), entry.version.is_empty()), (&Value::Json("2".into()), false));
        assert!(change.stamp > 0 && change.region == "default");
        let named = |name: &str, argument: &str| {
            let (name, argument) = (name.to_owned(), argument.to_owned().into());
            Operation::Named(wire::NamedOperation { name, argument })
        };
        let set = named("set", r#"{"scores": {"ann": 7}}"#);
        client.update(update("sorted_set", "a2", set)).await.unwrap();
        let scored = told(&mut stream).await;
        let element = scored.elements[0].element.as_ref().unwrap();
        assert_eq!((scored.op.as_str(), scored.size, element.name.as_str()), ("set", Some(1), "ann"));
        let score = element.value.as_ref().unwrap().kind.as_ref();
        assert_eq!(score, Some(&Value::Decimal("7".to_owned())));
        client.update(update("sorted_set", "a2", named("remove", r#"{"member": "ann"}"#))).await.unwrap();
        let removed = told(&mut stream).await;
        let element = removed.elements[0].element.as_ref().unwrap();
        assert_eq!((removed.elements[0].op.as_str(), &element.value), ("remove", &None));
        client.delete(wire::DeleteRequest { key: "a1".to_owned(), ..Default::default() }).await.unwrap();
        let gone = told(&mut stream).await;
        assert_eq!((gone.op.as_str(), gone.entry.unwrap().value), ("delete", None));
        let cursor = loop {
            let message = stream.message().await.unwrap().unwrap();
            if message.event() == Event::Cursor && !message.cursor.is_empty() {
                break message.cursor;
            }
        };
        let since = wire::WatchRequest { since: cursor, r#type: "lww_register".to_owned(), ..request };
        let mut again = client.watch(since).await.unwrap().into_inner();
        while told(&mut again).await.event() != Event::Live {}
        client.put(put("a3", "3")).await.unwrap();
        assert_eq!(told(&mut again).await.entry.unwrap().key, "a3");
        for (kind, since) in [("none", ""), ("", "x")] {
            let (r#type, since) = (kind.to_owned(), since.to_owned());
            let bad = wire::WatchRequest { r#type, since, ..Default::default() };
            assert_eq!(refused(client.watch(bad).await).0, Code::InvalidArgument);
        }
    });
}
