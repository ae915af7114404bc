//! The data API as its design has it: headers, versions, conditions, types that merge, namespaces, conflicts.

use crate::process::{Plan, until};
use crate::rest::{Rest, single};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn every_header_and_body_of_the_design_is_there() {
    let (_member, rest) = single();
    let body = br#"{"value": {"name": "Alice"}, "ttl": 86400, "metadata": {"source": "mobile-app"}}"#;
    let headers = [JSON, ("x-consistency-level", "LOCAL_QUORUM"), ("x-session-token", "session-1")];
    let put = rest.call("PUT", "/v1/data/user:12345", &headers, body);
    assert_eq!((put.status, &put.json()["status"]), (200, &json!("committed")));
    assert!(put.json()["vector_clock"]["default"].as_u64().unwrap() > 0);
    assert_eq!(put.header("x-replicated-to"), Some("[]"));
    assert!(
        put.header("x-session-token").unwrap().starts_with("s1."),
        "a word of the client's begins a session"
    );
    let clock = put.header("x-vector-clock").unwrap().to_owned();

    for level in ["LOCAL_ONE", "LOCAL_QUORUM", "GLOBAL_QUORUM", "EACH_QUORUM"] {
        let headers = [
            ("x-consistency-level", level),
            ("x-session-token", "session-1"),
            ("x-min-vector-clock", clock.as_str()),
        ];
        let get = rest.call("GET", "/v1/data/user:12345?explain=1", &headers, b"");
        assert_eq!(get.status, 200);
        assert_eq!(get.header("x-vector-clock"), Some(clock.as_str()));
        assert_eq!(
            (get.header("x-served-from"), get.header("x-replication-lag-ms")),
            (Some("default"), Some("0"))
        );
        let said = get.json();
        assert_eq!(said["key"], "user:12345");
        assert_eq!(said["value"], json!({"name": "Alice"}));
        assert_eq!(said["metadata"], json!({"source": "mobile-app"}));
        assert!(said["last_modified"].as_str().unwrap().ends_with('Z') && said["expires_at"].is_string());
        assert_eq!(said["created_at"], said["last_modified"], "it was written once");
        assert_eq!(said["explain"]["replicas"].as_array().unwrap().len(), 1);
        assert_eq!(said["explain"]["namespace"], "default");
    }
    let deleted = rest.delete("/v1/data/user:12345");
    assert_eq!((deleted.status, &deleted.json()["status"]), (200, &json!("deleted")));
    assert_eq!(rest.get("/v1/data/user:12345").status, 410);
}

#[test]
fn a_write_that_has_not_seen_what_is_there_is_told_both_sides() {
    let (_member, rest) = single();
    let fail = |body: &str, clock: Option<&str>| {
        let mut headers = vec![JSON, ("x-conflict-resolution", "FAIL")];
        headers.extend(clock.map(|clock| ("x-if-vector-clock", clock)));
        rest.call("PUT", "/v1/data/cas", &headers, body.as_bytes())
    };
    let first = fail(r#"{"value": 1}"#, None);
    assert_eq!(first.status, 200, "nothing was there");
    let clock = first.header("x-vector-clock").unwrap().to_owned();
    assert_eq!(fail(r#"{"value": 2}"#, Some(&clock)).status, 200);
    for stale in [Some(clock.as_str()), None] {
        let conflict = fail(r#"{"value": 3}"#, stale);
        let said = conflict.json();
        assert_eq!((conflict.status, &said["error"]), (409, &json!("conflict_detected")));
        assert_eq!((&said["local_value"], &said["remote_value"]), (&json!(2), &json!(3)));
        assert_eq!(said["resolution_hint"], "concurrent_writes");
        assert!(said["local_clock"]["default"].is_u64() && said["remote_clock"].is_object());
    }
    assert_eq!(rest.delete("/v1/data/cas").status, 200);
    assert_eq!(fail(r#"{"value": 4}"#, None).status, 200, "what was deleted may be created");
}

#[test]
fn counters_sets_registers_and_exact_numbers_merge() {
    let (_member, rest) = single();
    let post = |target: &str, body: &str| rest.post(target, body).json();
    assert_eq!(post("/v1/crdt/counter:visits/increment", r#"{"amount": 5}"#)["value"], 5);
    let counted = post("/v1/crdt/counter:visits/decrement", r#"{"amount": 2}"#);
    assert_eq!((&counted["value"], &counted["state"]), (&json!(3), &json!({"default": 3})));
    assert_eq!(rest.get("/v1/crdt/counter:visits").json()["value"], 3);
    assert_eq!(rest.post("/v1/crdt/gcounter:g/decrement", "").status, 400, "it only grows");

    post("/v1/crdt/set:tags/add", r#"{"element": "item-xyz"}"#);
    let set = post("/v1/crdt/set:tags/add", r#"{"element": "item-abc"}"#);
    assert_eq!((&set["elements"], &set["size"]), (&json!(["item-abc", "item-xyz"]), &json!(2)));
    assert_eq!(post("/v1/crdt/set:tags/contains", r#"{"element": "item-abc"}"#)["contains"], true);
    assert_eq!(post("/v1/crdt/set:tags/remove", r#"{"element": "item-abc"}"#)["size"], 1);
    assert_eq!(rest.get("/v1/crdt/set:tags?contains=item-abc").json()["contains"], false);

    assert_eq!(post("/v1/crdt/register:r/set", r#"{"value": "x"}"#)["value"], "x");
    post("/v1/crdt/delta_numeric:account/set", r#"{"value": 100}"#);
    post("/v1/crdt/delta_numeric:account/add", r#"{"delta": "-20.00"}"#);
    assert_eq!(post("/v1/crdt/delta_numeric:account/subtract", r#"{"delta": "30"}"#)["value"], "50");
    assert_eq!(rest.post("/v1/crdt/set:visits/add", r#"{"element": "x"}"#).status, 409, "it is a counter");
    assert_eq!(rest.get("/v1/data/visits").json()["type"], "pncounter");
    assert_eq!(rest.delete("/v1/crdt/set:tags").status, 200);
    assert_eq!(rest.get("/v1/crdt/set:tags").status, 410);
}

#[test]
fn siblings_are_replaced_by_a_writer_that_has_seen_them() {
    let (_member, rest) = single();
    let put = |body: &str, clock: Option<&str>| {
        let mut headers = vec![JSON, ("x-conflict-resolution", "CRDT")];
        headers.extend(clock.map(|clock| ("x-vector-clock", clock)));
        rest.call("PUT", "/v1/data/cart", &headers, body.as_bytes())
    };
    put(r#"{"value": "a"}"#, None);
    put(r#"{"value": "b"}"#, None);
    let both = rest.get("/v1/data/cart");
    assert_eq!(both.json()["siblings"].as_array().unwrap().len(), 2);
    put(r#"{"value": "a+b"}"#, both.header("x-vector-clock"));
    assert_eq!(rest.get("/v1/data/cart").json()["siblings"], json!(["a+b"]));
}

#[test]
fn batches_read_and_write() {
    let (_member, rest) = single();
    let written =
        rest.post("/v1/data/batch", r#"{"entries": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}"#);
    assert_eq!((written.status, &written.json()["succeeded"]), (200, &json!(2)));
    let read = rest.post("/v1/data/batch", r#"{"keys": ["a", "b", "c"]}"#);
    let said = read.json();
    let values: Vec<&Value> = said["results"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!((read.status, values), (207, vec![&json!(1), &json!(2), &Value::Null]));
    assert_eq!(said["results"][2]["status"], 404);
    assert_eq!(rest.post("/v1/data/batch/read", r#"{"keys": ["a"]}"#).status, 200);
    assert_eq!(rest.post("/v1/data/batch/write", r#"{"entries": [{"key": "a", "value": 3}]}"#).status, 200);
    // A key may be called like a route.
    assert_eq!(rest.put("/v1/data/batch", r#"{"value": "mine"}"#).status, 200);
    assert_eq!(rest.get("/v1/data/batch").json()["value"], "mine");
    assert_eq!(rest.put("/v1/data/batch/else/where", r#"{"value": 1}"#).status, 200);
    assert_eq!(rest.get("/v1/data/batch%2Felse%2Fwhere").json()["key"], "batch/else/where");
}

#[test]
fn a_batch_of_operations_does_each_as_it_would_be_done_alone() {
    let (_member, rest) = single();
    for key in ["a", "b", "c"] {
        rest.put(&format!("/v1/data/{key}"), r#"{"value": 1}"#);
    }
    let body = r#"{"operations": [{"get": "a"}, {"put": {"key": "b", "value": 2, "ttl": 60}}, {"delete": "c"},
        {"put": {"key": "new", "value": 3}}, {"fetch": "a"}]}"#;
    let headers = [JSON, ("x-conflict-resolution", "FAIL")];
    let done = rest.call("POST", "/v1/data/batch", &headers, body.as_bytes());
    let said = done.json();
    let statuses: Vec<u64> =
        said["results"].as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!((done.status, statuses), (207, vec![200, 409, 409, 200, 400]), "{said}");
    assert_eq!(said["results"][0]["value"], 1);
    let conflict = &said["results"][1];
    assert_eq!((&conflict["local_value"], &conflict["remote_value"]), (&json!(1), &json!(2)), "both sides");
    assert!(said["results"][3]["x_vector_clock"].is_string());
    let done = rest.post("/v1/data/batch", r#"{"operations": [{"delete": "c"}, {"delete": "never"}]}"#);
    assert_eq!(done.status, 200);
    assert_eq!(rest.get("/v1/data/c").status, 410);
    assert_eq!(rest.post("/v1/data/batch", r#"{"operations": [], "keys": []}"#).status, 400);
}

#[test]
fn a_batch_takes_operations_on_values_that_merge_and_options_of_each_write() {
    let (_member, rest) = single();
    rest.put("/v1/data/seen", r#"{"value": 1}"#);
    let body = r#"{"operations": [
        {"crdt": {"type": "counter", "key": "visits", "operation": "increment", "argument": {"amount": 5}}},
        {"crdt": {"type": "bigset", "key": "tags", "operation": "add", "argument": {"elements": ["a", "b"]}}},
        {"crdt": {"type": "list", "key": "todo", "operation": "pop"}},
        {"put": {"key": "seen", "value": 2}, "options": {"conflict_resolution": "FAIL"}},
        {"put": {"key": "other", "value": 2}, "options": {"w": 1}},
        {"get": "seen", "options": {"w": 1}},
        {"get": "seen", "delete": "seen"},
        {"crdt": {"type": "counter", "key": "orders", "operation": "increment"}, "options": {"request_id": "o-1"}}
    ]}"#;
    let done = rest.post("/v1/data/batch", body);
    let said = done.json();
    let results = said["results"].as_array().unwrap();
    let statuses: Vec<u64> = results.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!((done.status, statuses), (207, vec![200, 200, 400, 409, 200, 400, 400, 200]), "{said}");
    assert_eq!((&results[0]["key"], &results[0]["value"]), (&json!("visits"), &json!(5)));
    assert_eq!((&results[1]["key"], &results[1]["size"]), (&json!("tags"), &json!(2)));
    assert!(results[1].get("elements").is_none(), "an answer never holds the collection");
    // The id counts wherever the write comes again: in another place of a batch, or alone.
    let again = r#"{"operations": [{"get": "seen"},
        {"crdt": {"type": "counter", "key": "orders", "operation": "increment"}, "options": {"request_id": "o-1"}}]}"#;
    assert_eq!(rest.post("/v1/data/batch", again).status, 200);
    let alone = rest.call("POST", "/v1/crdt/counter:orders/increment", &[JSON, ("x-request-id", "o-1")], b"");
    assert_eq!((alone.status, &alone.json()["value"]), (200, &json!(1)));
    let all_bad = r#"{"operations": [{"crdt": {"type": "heap", "key": "a", "operation": "add"}}]}"#;
    let refused = rest.post("/v1/data/batch", all_bad);
    assert_eq!((refused.status, &refused.json()["failed"]), (400, &json!(1)));
}

#[test]
fn an_explanation_tells_the_state_also_of_what_is_gone() {
    let (_member, rest) = single();
    let state = |status: u16, target: &str| {
        let answer = rest.get(&format!("{target}?explain=1"));
        assert_eq!(answer.status, status, "{}", answer.shown());
        answer.json()["explain"].clone()
    };
    assert_eq!(state(404, "/v1/data/k")["state"], "absent");
    assert_eq!(state(404, "/api/v1/store/keys/k")["namespace"], "default");
    rest.put("/v1/data/k", r#"{"value": 1}"#);
    let active = state(200, "/v1/data/k");
    assert_eq!((&active["state"], &active["tags"]), (&json!("active"), &Value::Null));
    rest.delete("/v1/data/k");
    let gone = state(410, "/v1/data/k");
    assert_eq!((&gone["state"], &gone["shown"]), (&json!("tombstone"), &json!("deleted")));
    assert!(gone["last_merge"].is_string() && gone["replicas"].is_array(), "{gone}");
    rest.post("/v1/crdt/set:tags/add", r#"{"element": "blue"}"#);
    let set = state(200, "/v1/data/tags");
    let tags = &set["tags"][0];
    assert_eq!((&tags["element"], tags["tags"].as_array().map(Vec::len)), (&json!("blue"), Some(1)), "{set}");
    assert!(tags["tags"][0]["counter"].is_u64());
    assert!(rest.get("/v1/data/never").json().get("explain").is_none(), "only if it is asked for");
}

#[test]
fn how_a_conflict_is_resolved_is_the_types_to_say() {
    let (_member, rest) = single();
    let put = |policy: &str, content_type: &str, body: &str| {
        let headers = [("content-type", content_type), ("x-conflict-resolution", policy)];
        rest.call("PUT", "/v1/data/k", &headers, body.as_bytes()).status
    };
    assert_eq!(put("LWW", "application/json", r#"{"value": 1, "type": "siblings"}"#), 400);
    assert_eq!(put("CRDT", "application/json", r#"{"value": 1, "type": "lww_register"}"#), 400);
    assert_eq!(put("CRDT", "application/octet-stream", "bytes"), 400);
    assert_eq!(put("LWW", "application/octet-stream", "bytes"), 200);
    assert_eq!(put("LWW", "application/json", r#"{"value": 1}"#), 200);
}

#[test]
fn a_type_may_be_named_by_the_query_and_records_are_found_since_a_moment() {
    let (_member, rest) = single();
    let counted = rest.post("/v1/crdt/page%2Fviews:today/increment?type=counter", r#"{"amount": 4}"#);
    assert_eq!((counted.status, &counted.json()["value"]), (200, &json!(4)));
    assert_eq!(rest.get("/v1/crdt/page/views:today?type=pncounter").json()["value"], 4);
    let found = rest.get("/v1/data?type=pncounter").json();
    let entry = &found["entries"][0];
    assert_eq!(entry["key"], "page/views:today");
    let since = entry["last_modified"].as_str().unwrap();
    let found = rest.get(&format!("/v1/data?since={since}")).json();
    assert_eq!(found["entries"].as_array().unwrap().len(), 1);
    let found = rest.get("/v1/data?since=2999-01-01T00:00:00Z").json();
    assert_eq!(found["entries"].as_array().unwrap().len(), 0);
    assert_eq!(rest.get("/v1/data?since=yesterday").status, 400);
}

#[test]
fn namespaces_are_created_used_and_deleted() {
    let (_member, rest) = single();
    let body = r#"{"n": 2, "default_type": "siblings", "conflict_policy": "CRDT"}"#;
    assert_eq!(rest.get("/v1/namespaces/shop").status, 404);
    assert_eq!(rest.put("/v1/data/k?ns=shop", r#"{"value": 1}"#).status, 404);
    assert_eq!(rest.put("/v1/namespaces/shop", body).status, 201);
    assert_eq!(rest.put("/v1/namespaces/shop", "").status, 200);
    assert_eq!(rest.put("/v1/namespaces/shop", r#"{"n": 3}"#).status, 409, "copies are never changed");
    let shop = rest.get("/v1/namespaces/shop").json();
    assert_eq!(
        (&shop["n"], &shop["default_type"], &shop["conflict_policy"]),
        (&json!(2), &json!("siblings"), &json!("CRDT"))
    );
    let all = rest.get("/v1/namespaces").json();
    assert_eq!(all["namespaces"].as_array().unwrap().len(), 2);

    assert_eq!(rest.put("/v1/namespaces/shop/data/k", r#"{"value": 1}"#).status, 200);
    assert_eq!(rest.get("/v1/data/k?ns=shop").json()["type"], "siblings");
    assert_eq!(rest.get("/v1/data/k").status, 404, "not in the default one");
    let found = rest.get("/v1/namespaces/shop/store/range").json();
    assert_eq!(found["entries"].as_array().unwrap().len(), 1);
    assert_eq!(rest.post("/v1/namespaces/shop/crdt/counter:c/increment", "").json()["value"], 1);
    assert_eq!(rest.get("/v1/namespaces/shop/data/k?r=3").status, 400, "more than n");

    assert_eq!(rest.delete("/v1/namespaces/shop").status, 409, "it holds keys");
    rest.delete("/v1/namespaces/shop/data/k");
    rest.delete("/v1/namespaces/shop/crdt/counter:c");
    assert_eq!(rest.delete("/v1/namespaces/shop").status, 200);
    assert_eq!(rest.get("/v1/namespaces/shop").status, 404);
    assert_eq!(rest.delete("/v1/namespaces/default").status, 409);
}

#[test]
fn what_lives_for_a_second_is_gone_then() {
    let (_member, rest) = single();
    rest.put("/v1/data/short", r#"{"value": 1, "ttl": 1}"#);
    assert_eq!(rest.get("/v1/data/short").status, 200);
    until("it has expired", || (rest.get("/v1/data/short").status == 410).then_some(()));
}

#[test]
fn a_fence_refuses_a_stale_token() {
    let (_member, rest) = single();
    let put = |fence: &str| {
        rest.call("PUT", "/v1/data/fenced", &[JSON, ("x-fence", fence)], br#"{"value": 1}"#).status
    };
    assert_eq!(put("lock=jobs,token=7"), 200);
    assert_eq!(put("lock=jobs,token=9"), 200);
    assert_eq!(put("lock=jobs,token=8"), 409);
    assert_eq!(rest.put("/v1/data/fenced", r#"{"value": 1}"#).status, 409, "without a token is before all");
    for bad in ["token=1", "lock=a,token=x", "lock=a,token=0"] {
        assert_eq!(put(bad), 400, "{bad}");
    }
}

#[test]
fn the_description_covers_every_path_and_every_path_answers() {
    let (member, rest) = single();
    let clients = Rest(member.client);
    let document = rest.get("/openapi.json").json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    for (path, methods) in document["paths"].as_object().unwrap() {
        let target = path.replace("{ns}", "default").replace("{key}", "k").replace("{id}", "00");
        let target = target.replace("{type}", "counter").replace("{operation}", "increment");
        // A stream would not end; one without a topic or a format that is known is refused.
        let target = match target.as_str() {
            "/v1/events" => "/v1/events?topics=none".to_owned(),
            "/v1/feed" | "/v1/coord/watch" => format!("{target}?format=none"),
            _ => target,
        };
        for (method, operation) in methods.as_object().unwrap() {
            // What names servers of its own is on the port of etcd's clients.
            let port = if operation["servers"].is_null() { rest } else { clients };
            let answer = port.call(&method.to_uppercase(), &target, &[], b"");
            assert!(answer.status != 405 && answer.status < 500, "{method} {path}: {}", answer.status);
            if answer.status == 404 {
                assert_ne!(answer.json()["error"], "unknown_path", "{method} {path}");
            }
        }
    }
}

#[test]
fn a_write_that_lost_can_be_looked_at_and_brought_back() {
    let plans = Plan::cluster(3);
    let start_ready = |plan: &Plan| {
        let member = plan.start();
        let rest = Rest::of(&member);
        (member, rest)
    };
    let mut first = start_ready(&plans[0]);
    let mut others: Vec<_> = plans[1..].iter().map(start_ready).collect();
    for (_, rest) in std::iter::once(&first).chain(&others) {
        rest.wait_for_ring(3);
    }
    // One node takes a write alone; the two others take one that cannot have seen it; then they meet.
    others.iter_mut().for_each(|(member, _)| member.kill());
    assert_eq!(first.1.put("/v1/data/disputed?w=1", r#"{"value": "mine"}"#).status, 200);
    first.0.kill();
    let others: Vec<_> = plans[1..].iter().map(start_ready).collect();
    others.iter().for_each(|(_, rest)| rest.wait_for_ring(3));
    let theirs = until("the two take a write", || {
        let put = others[0].1.put("/v1/data/disputed", r#"{"value": "theirs"}"#);
        (put.status == 200).then_some(put)
    });
    assert!(theirs.header("x-vector-clock").is_some());
    let first = start_ready(&plans[0]);
    first.1.wait_for_ring(3);
    let nodes = [first.1, others[0].1, others[1].1];
    let conflict = until("both sides have met", || {
        let listed = nodes.map(|node| node.get("/v1/conflicts?key=disputed").json());
        let conflict = |listed: &Value| listed["conflicts"].as_array()?.first().cloned();
        nodes.into_iter().zip(&listed).find_map(|(node, listed)| Some((node, conflict(listed)?)))
    });
    let (node, conflict) = conflict;
    assert_eq!((&conflict["winning_value"], &conflict["losing_value"]), (&json!("theirs"), &json!("mine")));
    assert_eq!(
        (&conflict["resolution_strategy"], &conflict["namespace"]),
        (&json!("last_write_wins"), &json!("default"))
    );
    let id = conflict["conflict_id"].as_str().unwrap();
    assert_eq!(node.get(&format!("/v1/conflicts/{id}")).json(), conflict);
    let (local, remote) = (&conflict["local_clock"], &conflict["remote_clock"]);
    assert!(local.is_object() && remote.is_object() && conflict["losing_clock"].is_object());
    // Where the key has a home meanwhile, what is brought back carries the home's epoch as any write does.
    assert_eq!(node.put("/v1/namespaces/default/home", r#"{"region": "default"}"#).status, 200);
    assert_eq!(node.put("/v1/data/disputed", r#"{"value": "owned"}"#).status, 200);
    let restored = node.post(&format!("/v1/conflicts/{id}/restore"), "");
    assert_eq!((restored.status, &restored.json()["value"]), (200, &json!("mine")));
    for node in nodes {
        assert_eq!(node.get("/v1/data/disputed").json()["value"], "mine");
    }
}
