//! Bounded counters over REST and `althing crdt`: rights come to whichever of three nodes is asked.

use crate::process::{Member, Plan, althing, until};
use crate::rest::{Answer, Rest, single};
use serde_json::json;

/// Does an operation under a request id of its own, again where the cluster was not ready for it.
fn call(rest: Rest, id: &str, operation: &str, body: &str) -> Answer {
    until("the operation is done", || {
        let target = format!("/v1/crdt/bounded_counter:stock/{operation}");
        let answer = rest.call("POST", &target, &[("X-Request-Id", id)], body.as_bytes());
        (answer.status != 503).then_some(answer)
    })
}

#[test]
fn any_of_three_nodes_takes_what_another_one_has_added_and_no_more() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let rest: Vec<Rest> = members.iter().map(Rest::of).collect();
    rest.iter().for_each(|rest| rest.wait_for_ring(3));
    assert_eq!(call(rest[0], "a1", "increment", r#"{"amount": 10}"#).json()["value"], 10);
    assert_eq!(call(rest[1], "t1", "decrement", r#"{"amount": 4}"#).json()["value"], 6);
    assert_eq!(call(rest[1], "t1", "decrement", r#"{"amount": 4}"#).json()["value"], 6, "it comes again");
    assert_eq!(call(rest[1], "t1", "decrement", r#"{"amount": 5}"#).status, 422, "for something else");
    let refused = call(rest[2], "t2", "decrement", r#"{"amount": 7}"#);
    assert_eq!((refused.status, &refused.json()["error"]), (409, &json!("below_bound")));
    assert_eq!(call(rest[2], "t3", "decrement", r#"{"amount": 6}"#).json()["value"], 0);
    let shown = until("the counter is read", || {
        Some(rest[0].get("/v1/crdt/bounded_counter:stock")).filter(|answer| answer.status == 200)
    });
    let shown = shown.json();
    assert_eq!((&shown["value"], &shown["bound"]), (&json!(0), &json!(0)));
}

#[test]
fn a_bound_is_kept_and_what_a_counter_does_not_take_is_refused() {
    let (_member, rest) = single();
    let post =
        |operation: &str, body: &str| rest.post(&format!("/v1/crdt/bounded_counter:b/{operation}"), body);
    let first = post("increment", r#"{"amount": 3, "bound": -5}"#).json();
    assert_eq!(
        (&first["value"], &first["bound"], &first["rights"]),
        (&json!(-2), &json!(-5), &json!({"default": 3}))
    );
    assert_eq!(post("increment", r#"{"bound": 0}"#).json()["error"], "bound_differs");
    assert_eq!(post("reserve", r#"{"amount": 4}"#).json()["error"], "below_bound");
    assert_eq!(post("reserve", r#"{"amount": 3}"#).json()["value"], -2);
    for (body, operation) in [(r#"{"amount": -1}"#, "decrement"), (r#"{"by": 1}"#, "increment"), ("", "give")]
    {
        assert_eq!(post(operation, body).status, 400, "{operation} {body}");
    }
    let record = rest.get("/v1/data/b").json();
    assert_eq!((&record["value"], &record["type"]), (&json!(-2), &json!("bounded_counter")));
    let level = [("X-Consistency-Level", "LINEARIZABLE")];
    for (method, target) in
        [("POST", "/v1/crdt/bounded_counter:b/increment"), ("DELETE", "/v1/data/b"), ("GET", "/v1/data/b")]
    {
        let answer = rest.call(method, target, &level, b"");
        assert_eq!(answer.json()["error"], "not_for_bounded_counters", "{method} {target}");
    }
    assert_eq!(rest.put("/v1/data/b", r#"{"value": 1, "type": "bounded_counter"}"#).status, 400);
    let said = |args: &[&str]| {
        let output = althing().args(args).env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&["crdt", "decrement", "b", "--by", "2", "--type", "bounded_counter"]), "-4\n");
    assert_eq!(said(&["crdt", "increment", "c", "--type", "bounded_counter", "--bound", "7"]), "8\n");
    assert_eq!(rest.delete("/v1/crdt/bounded_counter:b").status, 200);
    assert_eq!(rest.get("/v1/crdt/bounded_counter:b").status, 410);
    assert_eq!(post("increment", "").json()["value"], 1, "it begins again, at another bound");
}
