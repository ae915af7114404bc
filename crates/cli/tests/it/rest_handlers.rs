//! Values that merge as a handler says, and namespaces that one region owns, as clients of the data API meet them.

use crate::rest::single;
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
