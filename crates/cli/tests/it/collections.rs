//! Collections over REST and `althing crdt`: a set through three nodes, one of which is away for a while, and the operations of
//! every type.

use crate::process::{Member, Plan, althing, until};
use crate::rest::Rest;
use serde_json::{Value, json};

/// All elements; none where a quorum does not answer in time.
fn elements_of(rest: Rest, query: &str) -> Option<Vec<String>> {
    let (mut all, mut page) = (Vec::new(), String::new());
    loop {
        let answer = rest.get(&format!("/v1/crdt/bigset:tags?limit=300{query}{page}"));
        assert!(matches!(answer.status, 200 | 503), "{}", answer.json());
        let said = Some(answer.json()).filter(|_| answer.status == 200)?;
        let elements = said["elements"].as_array().expect("a page has elements").clone();
        assert!(elements.len() <= 300);
        all.extend(elements.iter().map(|element| element.as_str().expect("it is text").to_owned()));
        match said["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => return Some(all),
        }
    }
}

/// Does an operation, again where it took too long: twice is as good as once.
fn done(rest: Rest, word: &str, body: &str) -> Value {
    until("the operation is done", || {
        let answer = rest.post(&format!("/v1/crdt/bigset:tags/{word}"), body);
        assert!(matches!(answer.status, 200 | 503), "{}", answer.json());
        (answer.status == 200).then(|| answer.json())
    })
}

/// The nodes have shown each other that they know such sets.
fn add_first(rest: Rest) {
    done(rest, "add", r#"{"element": "e0000"}"#);
}

#[test]
fn a_big_set_is_written_read_and_deleted_through_three_nodes() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let rest: Vec<Rest> = members.iter().map(Rest::of).collect();
    rest.iter().for_each(|rest| rest.wait_for_ring(3));
    add_first(rest[0]);
    let names = |from: usize, to: usize| (from..to).map(|n| format!("e{n:04}")).collect::<Vec<_>>();
    let body = json!({ "elements": names(1, 900) }).to_string();
    let added = done(rest[1], "add", &body);
    assert!(
        added["size"].is_u64() && added.get("elements").is_none(),
        "an answer never holds the set: {added}"
    );
    until("a quorum counts all", || {
        let counted = rest[2].get("/v1/crdt/bigset:tags?limit=0");
        (counted.status == 200 && counted.json()["size"] == 900).then_some(())
    });
    assert_eq!(until("the set is read", || elements_of(rest[2], "")), names(0, 900));

    members[2].kill();
    done(rest[0], "remove", r#"{"elements": ["e0000", "e0007"]}"#);
    done(rest[1], "add", r#"{"element": "later"}"#);
    members[2] = plans[2].start_ready();
    let third = Rest::of(&members[2]);
    let expected: Vec<String> =
        names(1, 900).into_iter().filter(|name| name != "e0007").chain(["later".to_owned()]).collect();
    assert_eq!(until("the set is read again", || elements_of(third, "")), expected, "a quorum knows");
    until("the answer of a single replica is complete", || {
        (elements_of(third, "&r=1").as_ref() == Some(&expected)).then_some(())
    });
    let which = done(third, "contains", r#"{"elements": ["e0007", "e0008"]}"#);
    assert_eq!(which, json!({ "contains": { "e0007": false, "e0008": true } }));
    let one = third.get("/v1/crdt/bigset:tags?contains=later");
    assert_eq!(one.json(), json!({ "element": "later", "contains": true }));

    until("the delete is done", || (rest[0].delete("/v1/crdt/bigset:tags").status == 200).then_some(()));
    until("what was deleted is gone everywhere", || {
        let gone = rest[1].get("/v1/crdt/bigset:tags?limit=0");
        (gone.status == 410).then_some(())
    });
}

#[test]
fn a_big_set_refuses_what_it_does_not_take() {
    let (_member, rest) = crate::rest::single();
    add_first(rest);
    let add = |headers: &[(&str, &str)], body: &str| {
        rest.call("POST", "/v1/crdt/bigset:tags/add", headers, body.as_bytes())
    };
    for header in [
        ("x-request-id", "again"),
        ("x-consistency-level", "LINEARIZABLE"),
        ("x-conflict-resolution", "FAIL"),
    ] {
        let refused = add(&[header], r#"{"element": "x"}"#);
        assert_eq!(
            (refused.status, &refused.json()["error"]),
            (400, &json!("not_for_collections")),
            "{header:?}"
        );
    }
    assert_eq!(add(&[], "").status, 400);
    let many: Vec<String> = (0..1_025).map(|n| n.to_string()).collect();
    assert_eq!(add(&[], &json!({ "elements": many }).to_string()).status, 413);
    assert_eq!(rest.post("/v1/crdt/bigset:tags/increment", "").status, 400);
    assert_eq!(rest.put("/v1/data/tags", r#"{"value": 1}"#).status, 409, "it is a set");
    assert_eq!(rest.get("/v1/crdt/set:tags").status, 409);
    assert_eq!(rest.put("/v1/data/word", r#"{"value": 1}"#).status, 200);
    assert_eq!(rest.post("/v1/crdt/bigset:word/add", r#"{"element": "x"}"#).status, 409);
    assert_eq!(rest.get("/v1/crdt/bigset:word").status, 409);
    assert_eq!(rest.get("/v1/crdt/bigset:none").status, 404);
    let none = rest.get("/v1/crdt/bigset:none?contains=x").json();
    assert_eq!(none["contains"], Value::Bool(false));
    assert_eq!(rest.get("/v1/crdt/bigset:tags?page=%21").status, 400);
}

#[test]
fn a_big_set_has_verbs() {
    let (_member, rest) = crate::rest::single();
    add_first(rest);
    let said = |args: &[&str]| {
        let output = althing().args(args).env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&["crdt", "add", "tags", "red", "blue", "--type", "bigset"]), "3\n");
    assert_eq!(said(&["crdt", "remove", "tags", "e0000", "--type", "bigset"]), "2\n");
    assert_eq!(said(&["crdt", "contains", "tags", "red", "--type", "bigset"]), "true\n");
    assert_eq!(said(&["crdt", "get", "bigset:tags"]), "blue\nred\n");
}

/// Does an operation that must be done once.
fn call(rest: Rest, name: &str, word: &str, body: &Value) -> Value {
    let answer = rest.post(&format!("/v1/crdt/{name}/{word}"), &body.to_string());
    assert_eq!(answer.status, 200, "{name} {word}: {}", answer.json());
    answer.json()
}

fn read(rest: Rest, path: &str) -> Value {
    let answer = rest.get(&format!("/v1/crdt/{path}"));
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
}

#[test]
fn maps_hold_values_and_amounts() {
    let (_member, rest) = crate::rest::single();
    let set = json!({ "fields": { "name": "Ann", "tags": [1, 2] } });
    assert_eq!(call(rest, "map:ann", "set", &set)["size"], 2);
    call(rest, "map:ann", "set", &json!({ "field": "name", "value": "Anna" }));
    assert_eq!(
        call(rest, "map:ann", "increment", &json!({ "field": "visits", "by": "2.5" }))["value"],
        "2.5"
    );
    assert_eq!(call(rest, "map:ann", "increment", &json!({ "field": "visits" }))["value"], "3.5");
    let page = read(rest, "map:ann?limit=2");
    assert_eq!(
        (&page["size"], &page["entries"]),
        (&json!(3), &json!([{ "field": "name", "value": "Anna" }, { "field": "tags", "value": [1, 2] }]))
    );
    let next = page["next_page"].as_str().expect("there is more");
    let page = read(rest, &format!("map:ann?limit=2&page={next}"));
    assert_eq!(page["entries"], json!([{ "field": "visits", "value": "3.5" }]));
    assert_eq!(read(rest, "map:ann?element=name")["value"], "Anna");
    assert_eq!(rest.get("/v1/crdt/map:ann?element=none").status, 404);
    let some = call(rest, "map:ann", "get", &json!({ "elements": ["name", "none"] }));
    assert_eq!(some, json!({ "values": { "name": "Anna" } }));
    let removed = call(rest, "map:ann", "remove", &json!({ "elements": ["name", "none"] }));
    assert_eq!((&removed["removed"], &removed["size"]), (&json!(1), &json!(2)));
    assert_eq!(rest.post("/v1/crdt/map:ann/increment", r#"{"field": "tags"}"#).status, 409, "it is a value");
    assert_eq!(rest.post("/v1/crdt/list:ann/push", r#"{"value": 1}"#).status, 409, "it is a map");
    assert_eq!(rest.get("/v1/crdt/list:ann").status, 409);
}

#[test]
fn sorted_sets_are_read_by_score_and_by_rank() {
    let (_member, rest) = crate::rest::single();
    let scores = json!({ "scores": { "ann": 12.5, "bob": "-3", "cyd": 7 } });
    assert_eq!(call(rest, "sorted_set:game", "set", &scores)["size"], 3);
    let raised = call(rest, "sorted_set:game", "increment", &json!({ "member": "bob", "by": 20 }));
    assert_eq!(raised["value"], "17");
    let entry = |member: &str, score: &str| json!({ "member": member, "score": score });
    let (ann, bob, cyd) = (entry("ann", "12.5"), entry("bob", "17"), entry("cyd", "7"));
    assert_eq!(read(rest, "sorted_set:game")["entries"], json!([cyd, ann, bob]));
    assert_eq!(read(rest, "sorted_set:game?rank=1&limit=1")["entries"], json!([ann]));
    assert_eq!(read(rest, "sorted_set:game?min_score=7.1&max_score=17")["entries"], json!([ann, bob]));
    let (mut all, mut page) = (Vec::new(), String::new());
    loop {
        let said = read(rest, &format!("sorted_set:game?reverse=1&limit=1{page}"));
        all.extend(said["entries"].as_array().expect("a page has entries").clone());
        match said["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    assert_eq!(all, [bob, ann, cyd]);
    assert_eq!(rest.get("/v1/crdt/sorted_set:game?page=AA").status, 400);
}

#[test]
fn lists_keep_their_order() {
    let (_member, rest) = crate::rest::single();
    call(rest, "list:todo", "push", &json!({ "values": ["b", "d"] }));
    call(rest, "list:todo", "push", &json!({ "value": "a", "end": "first" }));
    let inserted = call(rest, "list:todo", "insert", &json!({ "value": "c", "index": 2 }));
    let position = inserted["positions"][0].as_str().expect("an item has a position");
    call(rest, "list:todo", "insert", &json!({ "value": "c2", "after": position }));
    call(rest, "list:todo", "set", &json!({ "position": position, "value": "C" }));
    let values = |query: &str| -> Vec<Value> {
        let page = read(rest, &format!("list:todo{query}"));
        page["entries"]
            .as_array()
            .expect("a page has entries")
            .iter()
            .map(|entry| entry["value"].clone())
            .collect()
    };
    assert_eq!(values(""), ["a", "b", "C", "c2", "d"]);
    assert_eq!(values("?rank=2&limit=2"), ["C", "c2"]);
    assert_eq!(call(rest, "list:todo", "pop", &json!({}))["value"], "d");
    assert_eq!(call(rest, "list:todo", "pop", &json!({ "end": "first" }))["value"], "a");
    assert_eq!(call(rest, "list:todo", "remove", &json!({ "position": position }))["removed"], 1);
    assert_eq!(values(""), ["b", "c2"]);
}

#[test]
fn flags_and_observed_values_have_operations() {
    let (_member, rest) = crate::rest::single();
    assert_eq!(call(rest, "flag:on", "enable", &json!({}))["value"], true);
    assert_eq!(read(rest, "flag:on")["value"], true);
    assert_eq!(call(rest, "flag:on", "disable", &json!({}))["value"], false);
    assert_eq!(read(rest, "flag:on")["value"], false);
    let seen: Vec<String> = (0..1_000).map(|n| format!("visitor {n}")).collect();
    for _ in 0..2 {
        call(rest, "hyperloglog:seen", "observe", &json!({ "elements": seen }));
    }
    let estimate = read(rest, "hyperloglog:seen")["value"].as_u64().expect("it is a number");
    assert!((970..=1_030).contains(&estimate), "{estimate}");
    let said = |args: &[&str]| {
        let output = althing().args(args).env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&["crdt", "call", "flag:on", "enable"]), "true\n");
    assert_eq!(said(&["crdt", "call", "map:bob", "set", r#"{"field": "age", "value": 7}"#]), "1\n");
    assert_eq!(said(&["crdt", "get", "map:bob"]), "age\t7\n");
}
