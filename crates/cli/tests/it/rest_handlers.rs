//! Values that merge as a handler says, and namespaces that one region owns, as clients of the data API meet them.

use crate::both_ways::{Way, both_ways};
use crate::process::{Plan, until};
use crate::rest::{Rest, single};
use serde_json::json;

#[test]
fn a_script_is_tried_before_it_is_taken_and_then_decides_what_is_shown() {
    let (_member, rest) = single();
    let lawless = rest.put("/v1/handlers/first", r#"{"script": "left"}"#);
    assert_eq!((lawless.status, &lawless.json()["law"]), (400, &json!("commutative")));
    for (name, body) in [
        ("max", r#"{"script": "larger(left, right)"}"#),
        ("bad", r#"{"script": "if ("}"#),
        ("bad", r#"{"script": "loop {}"}"#),
        ("bad", r#"{"scrip": "1"}"#),
    ] {
        assert_eq!(rest.put(&format!("/v1/handlers/{name}"), body).status, 400, "{name} {body}");
    }
    let script = "if left.len > right.len { left } else if left.len < right.len { right } else { larger(left, right) }";
    let body = json!({ "script": script }).to_string();
    assert_eq!(rest.put("/v1/handlers/widest", &body).status, 201);
    assert_eq!(rest.put("/v1/handlers/widest", &body).status, 200);
    assert_eq!(rest.get("/v1/handlers/widest").json()["script"], script);
    assert_eq!(rest.get("/v1/handlers").json()["handlers"].as_array().unwrap().len(), 5);

    for value in ["a long title", "short"] {
        let body = json!({ "value": value, "type": "custom", "handler": "widest" }).to_string();
        assert_eq!(rest.put("/v1/data/title", &body).status, 200);
    }
    assert_eq!(rest.get("/v1/data/title").json()["value"], "a long title");
    let unknown = rest.put("/v1/data/other", r#"{"value": 1, "type": "custom", "handler": "narrowest"}"#);
    assert_eq!((unknown.status, &unknown.json()["error"]), (404, &json!("unknown_handler")));
    for value in [3, 12, 7] {
        let body = json!({ "value": value, "type": "custom", "handler": "max" }).to_string();
        assert_eq!(rest.put("/v1/data/high", &body).status, 200);
    }
    assert_eq!(rest.get("/v1/data/high").json()["value"], 12);
    assert_eq!(rest.put("/v1/data/plain", r#"{"value": 1, "handler": "max"}"#).status, 400);
    assert_eq!(rest.delete("/v1/handlers/widest").status, 200);
    assert_eq!(rest.delete("/v1/handlers/widest").status, 404);
}

#[test]
fn a_namespace_has_one_home_and_its_epoch_is_in_every_write() {
    let (_member, rest) = single();
    let home = "/v1/namespaces/default/home";
    assert!(rest.get(home).json()["home_region"].is_null());
    assert_eq!(rest.put("/v1/data/before", r#"{"value": 1}"#).status, 200);
    assert_eq!(rest.put(home, r#"{"region": "elsewhere"}"#).status, 404, "no such region");
    assert_eq!(rest.put(home, r#"{"region": "default"}"#).json()["epoch"], 1);
    assert_eq!(rest.put(home, r#"{"region": "default", "epoch": 5}"#).json()["epoch"], 5);
    assert_eq!(rest.put(home, r#"{"region": "default", "epoch": 2}"#).status, 409);
    assert_eq!(rest.put("/v1/data/owned", r#"{"value": 1}"#).status, 200);
    assert_eq!(rest.get("/v1/data/owned?explain=1").json()["explain"]["fence"], 5);
    let headers = [("content-type", "application/json"), ("x-fence", "lock=l,token=9")];
    assert_eq!(rest.call("PUT", "/v1/data/owned", &headers, br#"{"value": 2}"#).status, 400);
}

/// A script each that takes memory, time or steps without end, or would wait.
const GREEDY: [&str; 8] = [
    "let f = Fn(\"x\"); loop { f = f.curry(f); }",
    "let m = #{}; let i = 0; loop { m[i] = left + i; i += 1; }",
    "let a = []; loop { a.push(a); }",
    "let s = left + right + \"x\"; loop { s = s + s; }",
    "let s = \"aaaa\"; loop { s += s; }",
    "sleep(15); larger(left, right)",
    "try { loop {} } catch { larger(left, right) }",
    "fn f(x) { f(x) + f(x) } f(1)",
];

#[test]
fn scripts_that_would_take_everything_are_refused_and_take_next_to_nothing() {
    both_ways(refuse_greedy_scripts);
}

fn refuse_greedy_scripts(way: Way) {
    let member = way.start_ready(&Plan::single());
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    member.forget_peak_rss();
    let before = member.rss_bytes();
    std::thread::scope(|scope| {
        for script in GREEDY {
            scope.spawn(move || {
                let body = json!({ "script": script }).to_string();
                let refused = rest.put("/v1/handlers/greedy", &body);
                assert!([400, 429].contains(&refused.status), "{script}: {}", refused.json());
            });
        }
    });
    assert_eq!(rest.put("/v1/data/other", r#"{"value": 1}"#).status, 200);
    let more = member.peak_rss_bytes().saturating_sub(before);
    assert!(more < 256 * 1024 * 1024, "{more} bytes more");
}

#[test]
fn a_script_that_takes_too_much_in_use_falls_back_and_is_reported() {
    let plan = Plan::single();
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    // A step for each letter: quick when it is tried.
    let script = "let end = left.len; let n = 0; while n < end { n += 1; } larger(left, right)";
    let body = json!({ "script": script }).to_string();
    assert_eq!(rest.put("/v1/handlers/letters", &body).status, 201);
    let put = |key: &str, value: &str| {
        let body = json!({ "value": value, "type": "custom", "handler": "letters" }).to_string();
        rest.put(&format!("/v1/data/{key}"), &body)
    };
    for value in ["b", "a"] {
        assert_eq!(put("short", value).status, 200);
    }
    assert_eq!(rest.get("/v1/data/short").json()["value"], "b");
    assert!(rest.get("/v1/handlers/letters").json()["fell_back"].is_null());

    let large = |letter: &str| letter.repeat(100_000);
    for letter in ["z", "y", "x"] {
        let written = put("long", &large(letter));
        assert_eq!(written.status, 200, "{}", written.json());
    }
    assert_eq!(rest.get("/v1/data/long").json()["value"], large("x"), "the last write is shown");
    let told = rest.get("/v1/handlers/letters").json();
    assert_eq!(told["last_failure"], "operations");
    assert!(told["fell_back"].as_u64().unwrap() >= 3, "{told}");
    assert!(member.metric(r#"althing_mesh_script_merges_total{outcome="operations"}"#) >= 3.0);
    assert!(member.metric(r#"althing_mesh_script_merges_total{outcome="merged"}"#) >= 1.0);
    let said = || plan.log().matches("a merge script failed in use").count();
    until("it is logged", || (said() > 0).then_some(()));
    // However many more are written, they are kept.
    for n in 0..40 {
        let written = put("long", &large(&(n % 10).to_string()));
        assert_eq!(written.status, 200, "{n}: {}", written.json());
    }
    assert_eq!(said(), 1, "it is said once");
    // What had to go for that is in the log of conflicts, every value of it.
    let conflicts = rest.get("/v1/conflicts").json();
    let conflicts = conflicts["conflicts"].as_array().unwrap();
    assert!(!conflicts.is_empty());
    for conflict in conflicts {
        assert_eq!(conflict["resolution_strategy"], "replaced_unmerged", "{conflict}");
        assert_eq!(conflict["losing_values"].as_array().unwrap().len(), 16);
    }
    let lost = |value: &str| {
        let holds = |one: &serde_json::Value| one.as_array().unwrap().iter().any(|value_| value_ == value);
        conflicts.iter().any(|conflict| holds(&conflict["losing_values"]))
    };
    assert!(["z", "y", "x", "0", "9"].into_iter().all(|letter| lost(&large(letter))));
    // Once the handler can do it, nothing that was kept side by side is lost.
    assert_eq!(put("apart", &large("b")).status, 200);
    assert_eq!(put("apart", &large("a")).status, 200);
    assert_eq!(rest.get("/v1/data/apart").json()["value"], large("a"));
    assert_eq!(rest.put("/v1/handlers/letters", r#"{"script": "larger(left, right)"}"#).status, 200);
    until("the new script is known", || {
        (rest.get("/v1/data/apart").json()["value"] == large("b")).then_some(())
    });
}

#[test]
fn writers_of_one_key_at_the_same_time_come_to_what_the_script_says() {
    let (_member, rest) = single();
    assert_eq!(rest.put("/v1/handlers/top", r#"{"script": "larger(left, right)"}"#).status, 201);
    std::thread::scope(|scope| {
        for client in 0..6 {
            scope.spawn(move || {
                for n in 0..20 {
                    let value = (client * 7 + n * 11) % 150;
                    let body = json!({ "value": value, "type": "custom", "handler": "top" }).to_string();
                    let written = rest.put("/v1/data/high", &body);
                    assert_eq!(written.status, 200, "{}", written.json());
                }
            });
        }
    });
    let expected = (0..6).flat_map(|client| (0..20).map(move |n| (client * 7 + n * 11) % 150)).max();
    assert_eq!(rest.get("/v1/data/high").json()["value"], json!(expected));
}
