//! Compare-and-set on real processes: clients of three nodes change the same keys under conditions, at once. Of those who
//! create a key one wins, and no increment that was acknowledged is lost, also while a node is killed and comes back.

use crate::process::{Member, Plan, until};
use crate::rest::Rest;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 3;
const KEYS: usize = 40;
const INCREMENTS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(120);
const JSON: (&str, &str) = ("content-type", "application/json");
const CREATE: (&str, &str) = ("x-conflict-resolution", "FAIL");
const LINEARIZABLE: (&str, &str) = ("x-consistency-level", "LINEARIZABLE");

fn start() -> (Vec<Plan>, Vec<Option<Member>>) {
    let plans = Plan::cluster(NODES);
    let members: Vec<Option<Member>> = plans.iter().map(|plan| Some(plan.start())).collect();
    members.iter().flatten().for_each(|member| Rest::of(member).wait_for_ring(NODES));
    (plans, members)
}

/// Writes under a condition, until it is known what came of it: an answer that leaves it open is asked again, and a
/// conflict may then be one with the writer's own value, which no other client writes.
fn wins(rest: Rest, key: &str, condition: (&str, &str), mine: &str) -> bool {
    let (target, body) = (format!("/v1/data/{key}"), format!("{{\"value\": \"{mine}\"}}"));
    until("a condition is decided", || {
        let status = rest.call("PUT", &target, &[JSON, condition], body.as_bytes()).status;
        match status {
            200 => Some(true),
            409 => Some(read(rest, key).0 == mine),
            503 => None,
            status => panic!("{key}: {status}"),
        }
    })
}

/// What a key holds, and its version.
fn read(rest: Rest, key: &str) -> (String, String) {
    let target = format!("/v1/data/{key}");
    let found = until("the key can be read", || {
        Some(rest.call("GET", &target, &[LINEARIZABLE], b"")).filter(|answer| answer.status == 200)
    });
    let clock = found.header("x-vector-clock").unwrap().to_owned();
    (found.json()["value"].as_str().unwrap().to_owned(), clock)
}

#[test]
fn of_clients_who_create_a_key_through_three_nodes_one_wins() {
    let (_plans, members) = start();
    let barrier = Arc::new(Barrier::new(NODES));
    let clients: Vec<_> = (0..NODES)
        .map(|client| {
            let rest = Rest::of(members[client].as_ref().unwrap());
            let barrier = barrier.clone();
            thread::spawn(move || {
                let one = |n: usize| {
                    barrier.wait();
                    wins(rest, &format!("created-{n}"), CREATE, &format!("client-{client}"))
                };
                (0..KEYS).map(one).collect::<Vec<bool>>()
            })
        })
        .collect();
    let won: Vec<Vec<bool>> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    for n in 0..KEYS {
        let winners = won.iter().filter(|won| won[n]).count();
        assert_eq!(winners, 1, "key {n} was created by {winners}");
    }
}

/// One increment by compare-and-set. None if it is not known whether it counts.
fn increment(rest: Rest) -> Option<()> {
    loop {
        let read = rest.call("GET", "/v1/data/sum", &[LINEARIZABLE], b"");
        let (value, clock) = match read.status {
            200 => {
                (read.json()["value"].as_u64().unwrap(), read.header("x-vector-clock").unwrap().to_owned())
            }
            _ => return None,
        };
        let body = format!("{{\"value\": {}}}", value + 1);
        let put = rest.call("PUT", "/v1/data/sum", &[JSON, ("x-if-vector-clock", &clock)], body.as_bytes());
        match put.status {
            200 => return Some(()),
            409 => {}
            503 => return None,
            status => panic!("{status}"),
        }
    }
}

#[test]
fn increments_by_compare_and_set_are_not_lost_while_a_node_is_killed() {
    let (plans, mut members) = start();
    let first = Rest::of(members[0].as_ref().unwrap());
    until("the sum begins at zero", || {
        let status = first.call("PUT", "/v1/data/sum", &[JSON, CREATE], br#"{"value": 0}"#).status;
        [200, 409].contains(&status).then_some(())
    });
    let (acked, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    // The third node is killed, so its client asks the second.
    let clients: Vec<_> = (0..NODES)
        .map(|client| {
            let rest = Rest::of(members[client.min(1)].as_ref().unwrap());
            let (acked, open) = (acked.clone(), open.clone());
            thread::spawn(move || {
                let (mut done, began) = (0, Instant::now());
                while done < INCREMENTS {
                    assert!(began.elapsed() < PATIENCE, "client {client} came to {done}");
                    match increment(rest) {
                        Some(()) => {
                            done += 1;
                            acked.fetch_add(1, Ordering::Relaxed);
                        }
                        None => drop(open.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            })
        })
        .collect();
    until("a third is done", || (acked.load(Ordering::Relaxed) >= INCREMENTS).then_some(()));
    members[2] = None;
    until("two thirds are done", || (acked.load(Ordering::Relaxed) >= 2 * INCREMENTS).then_some(()));
    members[2] = Some(plans[2].start());
    clients.into_iter().for_each(|client| client.join().unwrap());
    let (acked, open) = (acked.load(Ordering::Relaxed), open.load(Ordering::Relaxed));
    assert_eq!(acked, NODES as u64 * INCREMENTS);
    for member in members.iter().flatten() {
        let rest = Rest::of(member);
        rest.wait_for_ring(NODES);
        let sum = until("the sum can be read", || {
            let answer = rest.call("GET", "/v1/data/sum", &[LINEARIZABLE], b"");
            (answer.status == 200).then(|| answer.json()["value"].as_u64().unwrap())
        });
        assert!((acked..=acked + open).contains(&sum), "{acked} acknowledged, {open} open, the sum is {sum}");
    }
}

#[test]
fn plain_writes_of_a_key_that_is_decided_are_decided_too() {
    let (_plans, members) = start();
    let rests: Vec<Rest> = members.iter().flatten().map(Rest::of).collect();
    assert!(wins(rests[0], "mixed", CREATE, "created"));
    for (n, rest) in rests.iter().cycle().take(12).enumerate() {
        let plain = format!("{{\"value\": \"plain-{n}\"}}");
        until("a plain write is taken", || {
            (rest.call("PUT", "/v1/data/mixed", &[JSON], plain.as_bytes()).status == 200).then_some(())
        });
        let next = rests[(n + 1) % NODES];
        let (value, clock) = read(next, "mixed");
        assert_eq!(value, format!("plain-{n}"));
        let condition = ("x-if-vector-clock", clock.as_str());
        assert!(wins(next, "mixed", condition, &format!("next-{n}")));
        assert!(!wins(*rest, "mixed", condition, &format!("late-{n}")), "another has won");
        assert_eq!(read(*rest, "mixed").0, format!("next-{n}"));
    }
    let many = rests[0].call("GET", "/api/v1/store/range?prefix=mixed", &[LINEARIZABLE], b"");
    assert_eq!(many.status, 400, "for single keys");
}
