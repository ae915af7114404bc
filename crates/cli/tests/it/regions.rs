//! Regions as real processes: cut apart under writes of every type in each and healed, so that all hold the same and
//! nothing that was acknowledged is gone without a trace; clients that move from one to another; and a region that is
//! gone for good. `REGIONS`, `REGION_NODES` and `REGIONS_CUT_SECONDS` make it larger and longer.

mod cable;
mod homes;
mod load;
pub mod world;

use crate::process::until;
use crate::rest::{Answer, Rest};
use load::{Client, Ledger};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use world::World;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn tell(text: String) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Every region writes for so long.
fn write_everywhere(world: &World, before: Vec<(Ledger, u64)>, span: Duration) -> Vec<(Ledger, u64)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = world
            .regions
            .iter()
            .zip(before)
            .map(|(region, (ledger, n))| {
                let mut client = Client { region: &region.name, nodes: region.rests(), ledger, n };
                let done = &done;
                scope.spawn(move || {
                    client.run(done);
                    (client.ledger, client.n)
                })
            })
            .collect();
        thread::sleep(span);
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn regions_that_were_cut_apart_come_to_hold_the_same_and_lose_nothing_in_silence() {
    let world = World::start(setting("REGIONS", 2) as usize, setting("REGION_NODES", 3) as usize);
    let span = Duration::from_secs(setting("REGIONS_CUT_SECONDS", 2));
    let nothing = world.regions.iter().map(|_| (Ledger::default(), 0)).collect();
    let before = write_everywhere(&world, nothing, span.min(Duration::from_secs(5)));
    world.cables.cut();
    let after = write_everywhere(&world, before, span);
    let healed = Instant::now();
    world.cables.mend();
    until("all regions hold the same", || (world.digests().len() == 1).then_some(()));
    let took = healed.elapsed();
    let ledgers: Vec<Ledger> = after.into_iter().map(|(ledger, _)| ledger).collect();
    let conflicts = world.conflicts();
    let (written, failed) =
        ledgers.iter().fold((0, 0), |(done, not), ledger| (done + ledger.written, not + ledger.failed));
    tell(format!(
        "{written} writes acknowledged, {failed} not, {} conflicts; {:.1} s after healing all held the same",
        conflicts.len(),
        took.as_secs_f64()
    ));
    for rest in world.rests() {
        load::check(&ledgers, rest, &conflicts);
    }
}

#[test]
fn a_client_that_moves_with_its_token_never_reads_older_than_it_wrote() {
    let world = World::start(2, 1);
    let (here, there) = (world.regions[0].rest(0), world.regions[1].rest(0));
    let mut token = "a-new-session".to_owned();
    for n in 0..40 {
        let (write_at, read_at) = if n % 2 == 0 { (here, there) } else { (there, here) };
        let headers = [("content-type", "application/json"), ("x-session-token", token.as_str())];
        let body = format!(r#"{{"value":{n}}}"#);
        let put = write_at.call("PUT", "/v1/data/moving", &headers, body.as_bytes());
        assert_eq!(put.status, 200);
        token = put.header("x-session-token").unwrap().to_owned();
        let read = read_at.call("GET", "/v1/data/moving", &[("x-session-token", &token)], b"");
        assert_eq!((read.status, &read.json()["value"]), (200, &n.into()), "round {n}");
        token = read.header("x-session-token").unwrap().to_owned();
    }
    // Apart, the other region can only say that it does not know.
    world.cables.cut();
    let headers = [("content-type", "application/json"), ("x-session-token", token.as_str())];
    let put = here.call("PUT", "/v1/data/moving", &headers, br#"{"value":"late"}"#);
    token = put.header("x-session-token").unwrap().to_owned();
    let target = "/v1/data/moving?timeout_ms=300";
    let read = there.call("GET", target, &[("x-session-token", &token)], b"");
    assert_eq!(read.status, 503, "{}", String::from_utf8_lossy(&read.bytes));
    assert!(read.json()["lag_ms"].is_u64());
    let old = there.get("/v1/data/moving").json();
    assert_eq!(old["value"], 39, "without the token it is shown what is there");
    world.cables.mend();
    until("the write arrives", || {
        let read = there.call("GET", target, &[("x-session-token", &token)], b"");
        (read.status == 200 && read.json()["value"] == "late").then_some(())
    });
    let forged = there.call("GET", target, &[("x-session-token", &token[..token.len() - 2])], b"");
    assert_eq!(forged.status, 400);
}

#[test]
fn a_global_quorum_is_over_regions_and_needs_them() {
    let world = World::start(2, 1);
    let (here, there) = (world.regions[0].rest(0), world.regions[1].rest(0));
    let headers = [("content-type", "application/json"), ("x-consistency-level", "GLOBAL_QUORUM")];
    let put = here.call("PUT", "/v1/data/all", &headers, br#"{"value":"everywhere"}"#);
    assert_eq!((put.status, put.header("x-replicated-to")), (200, Some(r#"["r1"]"#)));
    assert_eq!(
        there.get("/v1/data/all").json()["value"],
        "everywhere",
        "it is there when it is acknowledged"
    );
    there.put("/v1/data/all", r#"{"value":"newer"}"#);
    let read = here.call("GET", "/v1/data/all", &headers[1..], b"");
    assert_eq!((read.status, &read.json()["value"]), (200, &"newer".into()));
    world.cables.cut();
    let late = here.call("PUT", "/v1/data/all?timeout_ms=300", &headers, br#"{"value":"alone"}"#);
    assert_eq!((late.status, &late.json()["status"]), (503, &"indeterminate".into()));
    for level in ["GLOBAL_QUORUM", "EACH_QUORUM"] {
        let headers = [("content-type", "application/json"), ("x-consistency-level", level)];
        for (method, body) in [("PUT", &br#"{"value":"alone"}"#[..]), ("GET", b"")] {
            // Once it is known that the region is away.
            until("it is refused before its deadline", || {
                let began = Instant::now();
                let answer = here.call(method, "/v1/data/all?timeout_ms=8000", &headers, body);
                assert_eq!(answer.status, 503, "{method} {level}");
                assert_eq!(answer.json()["missing_regions"], serde_json::json!(["r1"]), "{method} {level}");
                (began.elapsed() < Duration::from_secs(4)).then_some(())
            });
        }
    }
    assert_eq!(here.put("/v1/data/all", r#"{"value":"local"}"#).status, 200, "a local quorum does not wait");
}

#[test]
fn a_region_that_is_gone_for_good_is_evicted_and_nothing_is_kept_for_it() {
    let mut world = World::start(3, 1);
    let mut gone = world.regions.pop().unwrap();
    gone.members[0].kill();
    let here = world.regions[0].rest(0);
    for n in 0..50 {
        assert_eq!(here.put(&format!("/v1/data/k{n}"), r#"{"value":1}"#).status, 200);
        assert_eq!(here.delete(&format!("/v1/data/k{n}")).status, 200);
    }
    let log_bytes = || here.get("/v1/regions").json()["log"]["bytes"].as_u64();
    // Figures are as of a moment ago.
    until("the log is kept for who may come back", || log_bytes().filter(|bytes| *bytes > 0));
    for region in &world.regions {
        assert_eq!(region.rest(0).delete("/v1/regions/r2").status, 200);
        assert_eq!(region.rest(0).delete("/v1/regions/r2").status, 404);
    }
    until("the log is let go of", || (log_bytes() == Some(0)).then_some(()));
    // It takes some rounds of comparing, of ten seconds each.
    if setting("REGIONS_CUT_SECONDS", 0) > 0 {
        until("deletes are forgotten", || {
            (0..50).all(|n| here.get(&format!("/v1/data/k{n}")).status == 404).then_some(())
        });
    }
    // Those that are left go on.
    here.put("/v1/data/after", r#"{"value":"two"}"#);
    let there = world.regions[1].rest(0);
    until("the others still hear of each other", || {
        (there.get("/v1/data/after").status == 200).then_some(())
    });
}

#[test]
fn only_the_home_of_a_namespace_writes_it_and_regions_are_named_in_answers() {
    let world = World::start(2, 1);
    let (here, there) = (world.regions[0].rest(0), world.regions[1].rest(0));
    for rest in [here, there] {
        assert_eq!(rest.put("/v1/namespaces/default/home", r#"{"region": "r0"}"#).json()["epoch"], 1);
    }
    assert_eq!(here.put("/v1/data/owned", r#"{"value": 1, "home_region": "r0"}"#).status, 200);
    let astray = there.put("/v1/data/owned", r#"{"value": 2}"#);
    assert_eq!((astray.status, &astray.json()["error"]), (421, &"not_home".into()));
    until("it is there too", || (there.get("/v1/data/owned").status == 200).then_some(()));
    let read = there.get("/v1/data/owned?explain=1").json();
    assert_eq!(
        (&read["home_region"], &read["explain"]["written_by"]["region"]),
        (&"r0".into(), &"r0".into())
    );
    let found = there.get("/v1/data?home_region=r0&type=lww_register").json();
    assert_eq!(found["entries"][0]["key"], "owned");
    assert_eq!(there.get("/v1/data?home_region=r1").json()["entries"], serde_json::json!([]));
    let metrics = world.regions[0].members[0].http("GET", "/metrics").body;
    assert!(metrics.contains(r#"althing_region_lag_in_ms{region="r1"}"#), "{metrics}");
    // Handed over, with the next epoch.
    for rest in [here, there] {
        assert_eq!(rest.put("/v1/namespaces/default/home", r#"{"region": "r1"}"#).json()["epoch"], 2);
    }
    assert_eq!(there.put("/v1/data/owned", r#"{"value": 3}"#).status, 200);
    assert_eq!(here.put("/v1/data/owned", r#"{"value": 4}"#).status, 421);
}

const JSON: (&str, &str) = ("content-type", "application/json");
const CREATE: (&str, &str) = ("x-conflict-resolution", "FAIL");
const LINEARIZABLE: (&str, &str) = ("x-consistency-level", "LINEARIZABLE");

/// What is decided once: a creation, a write and a read at the level LINEARIZABLE.
fn decided(rest: Rest) -> [Answer; 3] {
    let put = |header| rest.call("PUT", "/v1/data/k", &[JSON, header], br#"{"value": 1}"#);
    [put(CREATE), put(LINEARIZABLE), rest.call("GET", "/v1/data/k", &[LINEARIZABLE], b"")]
}

#[test]
fn what_is_decided_once_is_refused_outside_the_home_with_the_name_of_the_home() {
    let world = World::start(2, 1);
    let (here, there) = (world.regions[0].rest(0), world.regions[1].rest(0));
    for answer in decided(here) {
        let told = (answer.status, &answer.json()["error"]) == (409, &"home_needed".into());
        assert!(told, "no region is its home: {}", answer.shown());
    }
    for rest in [here, there] {
        assert_eq!(rest.put("/v1/namespaces/default/home", r#"{"region": "r0"}"#).json()["epoch"], 1);
    }
    let [created, written, read] = decided(here);
    assert_eq!([created.status, written.status, read.status], [200; 3]);
    let clock = read.header("x-vector-clock").expect("a read tells the clock").to_owned();
    let compare = |rest: Rest| {
        let headers = [JSON, ("x-if-vector-clock", clock.as_str())];
        rest.call("PUT", "/v1/data/k", &headers, br#"{"value": 2}"#)
    };
    for answer in decided(there).into_iter().chain([compare(there)]) {
        let body = answer.json();
        assert_eq!((answer.status, &body["error"]), (421, &"not_home".into()), "{}", answer.shown());
        assert_eq!((&body["home_region"], &body["home_epoch"]), (&"r0".into(), &1.into()));
    }
    assert_eq!([compare(here).status, compare(here).status], [200, 409], "once");
    let [created, ..] = decided(here);
    assert_eq!(created.status, 409, "it is there");
}

#[test]
fn namespaces_and_handlers_that_one_region_has_all_regions_have() {
    let world = World::start(2, 1);
    let [here, there] = [0, 1].map(|nth| world.regions[nth].rests()[0]);
    assert_eq!(here.put("/v1/namespaces/shop", r#"{"n": 1}"#).status, 201);
    assert_eq!(there.put("/v1/handlers/widest", r#"{"script": "longer(left, right)"}"#).status, 201);
    let value = r#"{"value": "v"}"#;
    until("a key can be written where its namespace was created", || {
        (here.put("/v1/data/k?ns=shop", value).status == 200).then_some(())
    });
    until("the namespace and its keys are in the other region", || {
        let read = there.get("/v1/data/k?ns=shop");
        (read.status == 200 && read.json()["value"] == "v").then_some(())
    });
    until("the handler is known in the other region", || {
        let body = r#"{"value": "a", "type": "custom", "handler": "widest"}"#;
        (here.put("/v1/data/title", body).status == 200).then_some(())
    });
    assert_eq!(there.delete("/v1/handlers/widest").status, 200);
    until("a handler that was removed is gone everywhere", || {
        (here.get("/v1/handlers/widest").status == 404).then_some(())
    });
}
