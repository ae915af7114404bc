//! Streams of changes: the feed of the data plane and watches of coord's keys, over HTTP and by `althing data watch`, with real
//! processes that are killed. What comes is read line by line; nothing here sleeps.

use crate::process::{Member, PATIENCE, Plan, althing, free_port, until};
use crate::rest::{Rest, single};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A stream that is open; its lines come as they are sent.
struct Lines {
    received: Receiver<String>,
}

impl Lines {
    fn read(from: impl std::io::Read + Send + 'static) -> Lines {
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                if line.map(|line| sender.send(line)).is_err() {
                    return;
                }
            }
        });
        Lines { received }
    }

    fn open(rest: Rest, target: &str, headers: &str) -> Lines {
        let mut stream = TcpStream::connect(rest.0).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").unwrap();
        Lines::read(stream)
    }

    /// The next line that begins so.
    fn next(&self, beginning: &str) -> String {
        loop {
            let line = self.received.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {beginning} came"));
            if line.starts_with(beginning) {
                return line;
            }
        }
    }

    /// The next message of JSON with this name.
    fn event(&self, name: &str) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.next("{")).unwrap();
            if message["event"] == name {
                return message;
            }
        }
    }
}

#[test]
fn the_feed_tells_the_state_and_then_every_change() {
    let (_member, rest) = single();
    let put = |key: &str, value: i64| {
        assert_eq!(rest.put(&format!("/v1/data/{key}"), &json!({ "value": value }).to_string()).status, 200);
    };
    put("a1", 1);
    put("b1", 9);
    let feed = Lines::open(rest, "/v1/feed?prefix=a&format=jsonl", "");
    let state = feed.event("state");
    assert_eq!((&state["data"]["key"], &state["data"]["value"]), (&json!("a1"), &json!(1)));
    feed.event("live");
    put("b1", 10);
    (2..5).for_each(|n| put("a1", n));
    for n in 2..5 {
        let data = feed.event("change")["data"].clone();
        assert_eq!((&data["op"], &data["key"], &data["value"]), (&json!("put"), &json!("a1"), &json!(n)));
        assert_eq!((&data["region"], &data["type"]), (&json!("default"), &json!("lww_register")));
        assert!(data["stamp"].is_string() && data["x_vector_clock"].is_string());
    }
    assert_eq!(rest.delete("/v1/data/a1").status, 200);
    assert_eq!(feed.event("change")["data"]["op"], "delete");
    rest.put("/v1/data/a2", r#"{"value": "soon gone", "ttl": 1}"#);
    assert_eq!(feed.event("change")["data"]["op"], "put");
    assert_eq!(feed.event("change")["data"]["op"], "expire");

    // A page goes on behind the cursor that it was told, and is told of nothing that lies before it.
    let cursor = until("a cursor covers what was written", || {
        let id = feed.event("cursor")["id"].as_str().unwrap().to_owned();
        let again = Lines::open(rest, "/v1/feed?format=jsonl", &format!("last-event-id: {id}\r\n"));
        let first: Value = serde_json::from_str(&again.next("{")).unwrap();
        (first["event"] == "live").then_some(id)
    });
    let counters = Lines::open(rest, &format!("/v1/feed?type=orset&since={cursor}"), "");
    counters.next("event: live");
    put("a3", 1);
    assert_eq!(rest.post("/v1/crdt/set:tags/add", r#"{"element": "x"}"#).status, 200);
    counters.next("event: change");
    assert!(counters.next("data: ").contains("\"key\":\"tags\""));
    for bad in ["since=x", "type=none", "format=xml", "no=1"] {
        assert_eq!(rest.get(&format!("/v1/feed?{bad}")).status, 400, "{bad}");
    }
}

#[test]
fn elements_of_collections_are_told_with_what_was_done_to_them() {
    let (_member, rest) = single();
    let operate = |operation: &str, body: Value| {
        let answer = rest.post(&format!("/v1/crdt/{operation}"), &body.to_string());
        assert_eq!(answer.status, 200, "{operation}: {}", answer.json());
    };
    let names: Vec<String> = (0..600).map(|n| format!("e{n:04}")).collect();
    operate("bigset:tags/add", json!({ "elements": names }));
    let feed = Lines::open(rest, "/v1/feed?format=jsonl", "");
    let mut listed = Vec::new();
    while listed.len() < 600 {
        let data = feed.event("state")["data"].clone();
        assert_eq!(data["op"], if listed.is_empty() { "state" } else { "add" });
        assert_eq!((&data["type"], &data["size"]), (&json!("bigset"), &json!(600)));
        let changes = data["changes"].as_array().unwrap().clone();
        listed.extend(changes.iter().map(|change| change["element"].as_str().unwrap().to_owned()));
    }
    assert_eq!(listed, names);
    feed.event("live");
    let told = || {
        let data = feed.event("change")["data"].clone();
        (data["op"].as_str().unwrap().to_owned(), data["changes"].clone())
    };
    operate("bigset:tags/remove", json!({ "element": "e0007" }));
    assert_eq!(told(), ("remove".to_owned(), json!([{ "op": "remove", "element": "e0007" }])));
    operate("map:ann/set", json!({ "field": "name", "value": "Ann" }));
    assert_eq!(told(), ("set".to_owned(), json!([{ "op": "set", "field": "name", "value": "Ann" }])));
    for sum in ["2.5", "5"] {
        operate("map:ann/increment", json!({ "field": "visits", "by": "2.5" }));
        let change = json!([{ "op": "increment", "field": "visits", "value": sum }]);
        assert_eq!(told(), ("increment".to_owned(), change));
    }
    operate("sorted_set:game/set", json!({ "scores": { "ann": 7 } }));
    assert_eq!(told(), ("set".to_owned(), json!([{ "op": "set", "member": "ann", "score": "7" }])));
    operate("list:todo/push", json!({ "values": ["a", "b"] }));
    let (op, changes) = told();
    assert_eq!(
        (op.as_str(), &changes[0]["value"], &changes[1]["value"]),
        ("insert", &json!("a"), &json!("b"))
    );
    operate("list:todo/pop", json!({ "end": "first" }));
    assert_eq!(
        told(),
        ("remove".to_owned(), json!([{ "op": "remove", "position": changes[0]["position"] }]))
    );
    operate("flag:on/enable", json!({}));
    let flag = feed.event("change")["data"].clone();
    assert_eq!((&flag["op"], &flag["value"]), (&json!("enable"), &json!(true)));
    operate("hyperloglog:seen/observe", json!({ "element": "x" }));
    let seen = feed.event("change")["data"].clone();
    assert_eq!((&seen["op"], &seen["value"]), (&json!("observe"), &json!(1)));
    assert_eq!(rest.delete("/v1/crdt/bigset:tags").status, 200);
    let gone = feed.event("change")["data"].clone();
    assert_eq!((&gone["op"], &gone["key"], gone.get("changes")), (&json!("delete"), &json!("tags"), None));
}

#[test]
fn keys_of_coord_are_followed_and_gone_on_with() {
    let (member, rest) = single();
    let put = |key: &str, value: &str| {
        let answer = rest.put(&format!("/v1/coord/key?key={key}"), &json!({ "value": value }).to_string());
        assert_eq!(answer.status, 200);
        answer.json()["revision"].as_i64().unwrap()
    };
    put("app/a", "1");
    let watch = Lines::open(rest, "/v1/coord/watch?prefix=app/&since=0", "");
    watch.next("event: state");
    assert!(watch.next("data: ").contains("\"key\":\"app/a\""));
    watch.next("event: live");
    put("other", "1");
    let revision = put("app/b", "2");
    watch.next("event: put");
    assert_eq!(watch.next("id: "), format!("id: {revision}"));
    assert!(watch.next("data: ").contains("app/b"));
    assert_eq!(rest.delete("/v1/coord/key?key=app/a").status, 200);
    watch.next("event: delete");
    let again = Lines::open(
        rest,
        "/v1/coord/watch?prefix=app/&format=jsonl",
        &format!("last-event-id: {revision}\r\n"),
    );
    assert_eq!(again.event("delete")["data"]["key"], "app/a");
    let last = put("app/c", "3");
    assert_eq!(again.event("put")["id"], last.to_string());

    // What is compacted is told, and the state comes in its place.
    assert_eq!(rest.post("/v1/compaction", &json!({ "revision": last }).to_string()).status, 200);
    let late = Lines::open(rest, "/v1/coord/watch?prefix=app/&since=1&format=jsonl", "");
    assert_eq!(late.event("gap")["data"]["since"], 1);
    assert_eq!(late.event("state")["data"]["key"], "app/b");
    drop(member);
}

/// `althing data watch`, and what it has printed.
struct Watching {
    child: Child,
    lines: Lines,
    told: BTreeMap<String, i64>,
}

impl Watching {
    fn start(members: &[Member]) -> Watching {
        let endpoints: Vec<String> = members.iter().map(|member| Rest::of(member).0.to_string()).collect();
        let mut command = althing();
        command.args([
            "data",
            "watch",
            "--prefix",
            "k",
            "-w",
            "json",
            "--http-endpoints",
            &endpoints.join(","),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = Lines::read(child.stdout.take().unwrap());
        Watching { child, lines, told: BTreeMap::new() }
    }

    /// Reads until every key was told with a value as high as this one. A key goes back only where the stream begins again.
    fn until_told(&mut self, acked: &BTreeMap<String, i64>) {
        let mut since_last_start: BTreeMap<String, i64> = BTreeMap::new();
        while acked.iter().any(|(key, n)| self.told.get(key).is_none_or(|told| told < n)) {
            let message: Value = serde_json::from_str(&self.lines.next("{")).unwrap();
            if message["event"] == "live" || message["event"] == "gap" {
                since_last_start.clear();
            }
            let (Some(key), Some(n)) = (message["data"]["key"].as_str(), message["data"]["value"].as_i64())
            else {
                continue;
            };
            if message["event"] == "change" {
                let before = since_last_start.insert(key.to_owned(), n).unwrap_or(0);
                assert!(before <= n || n == 0, "{key} went back from {before} to {n}");
            }
            let told = self.told.entry(key.to_owned()).or_default();
            *told = n.max(*told);
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watch_misses_nothing_while_nodes_are_killed() {
    let mut plans = Plan::cluster(3);
    // The watch knows these addresses, so members come back at them.
    plans.iter_mut().for_each(|plan| plan.http_port = free_port());
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(|member| Rest::of(member).wait_for_ring(3));
    let mut watching = Watching::start(&members);
    let mut acked: BTreeMap<String, i64> = BTreeMap::new();
    // The last killed is the node that the watch is connected to.
    for (round, killed) in [2, 1, 0].into_iter().enumerate() {
        for phase in 0..2 {
            let places: Vec<Rest> = members
                .iter()
                .enumerate()
                .filter(|(idx, _)| phase == 0 || *idx != killed)
                .map(|(_, it)| Rest::of(it))
                .collect();
            for n in 1..=10 {
                for key in ["k1", "k2", "k3"] {
                    let value = round as i64 * 100 + phase * 50 + n;
                    let rest = places[n as usize % places.len()];
                    until("a write is acknowledged", || {
                        let body = json!({ "value": value }).to_string();
                        (rest.put(&format!("/v1/data/{key}?timeout_ms=5000"), &body).status == 200)
                            .then_some(())
                    });
                    acked.insert(key.to_owned(), value);
                }
            }
            if phase == 0 {
                members[killed].kill();
            }
        }
        watching.until_told(&acked);
        members[killed] = plans[killed].start();
        members.iter().for_each(|member| Rest::of(member).wait_for_ring(3));
    }
}
