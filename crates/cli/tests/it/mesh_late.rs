//! Replicas of the mesh that stand still, as real processes: a write that waited in a socket does not come back behind what was
//! acknowledged since, another replica is asked in time, refusals name who did not answer, and a request that is
//! repeated counts once.

use crate::process::{Member, Plan, until};
use crate::rest::{Answer, Rest};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Far longer than any answer takes, so that a busy machine does not decide how a test ends.
const TIMEOUT: &str = "timeout_ms=60000";

struct Nodes {
    plans: Vec<Plan>,
    members: Vec<Member>,
}

impl Nodes {
    fn start(n: usize) -> Nodes {
        let plans = Plan::cluster(n);
        let members: Vec<Member> = plans.iter().map(Plan::start).collect();
        members.iter().for_each(|member| Rest::of(member).wait_for_ring(n));
        Nodes { plans, members }
    }

    fn rest(&self, idx: usize) -> Rest {
        Rest::of(&self.members[idx])
    }

    /// The nodes that keep a key, after it was written.
    fn replicas(&self, key: &str) -> BTreeSet<usize> {
        let said = self.rest(0).get(&format!("/v1/data/{key}?explain=1&{TIMEOUT}")).json();
        let names = said["explain"]["replicas"].as_array().expect("replicas").clone();
        let place = |name: &str| self.plans.iter().position(|plan| plan.name == name).expect("a node's name");
        names.iter().map(|node| place(node["name"].as_str().expect("a name"))).collect()
    }

    /// A key that the last node does not keep.
    fn foreign_key(&self) -> (String, BTreeSet<usize>) {
        self.foreign_key_written_by("late", |rest, key| put(rest, key, "first"))
    }

    fn foreign_key_written_by(
        &self,
        prefix: &str,
        write: impl Fn(Rest, &str) -> Answer,
    ) -> (String, BTreeSet<usize>) {
        let last = self.members.len() - 1;
        (0..)
            .map(|n| format!("{prefix}-{n}"))
            .map(|key| {
                assert_eq!(write(self.rest(0), &key).status, 200);
                let replicas = self.replicas(&key);
                (key, replicas)
            })
            .find(|(_, replicas)| !replicas.contains(&last))
            .expect("some key is not kept by each node")
    }
}

fn put(rest: Rest, key: &str, value: &str) -> Answer {
    rest.put(&format!("/v1/data/{key}?{TIMEOUT}"), &format!(r#"{{"value":"{value}"}}"#))
}

fn value(rest: Rest, key: &str, r: &str) -> String {
    let answer = until("the key is read", || {
        let answer = rest.get(&format!("/v1/data/{key}?r={r}&{TIMEOUT}"));
        (answer.status == 200).then_some(answer)
    });
    answer.json()["value"].as_str().expect("a text").to_owned()
}

#[test]
fn a_write_that_waited_in_a_paused_replica_stays_behind_what_came_after() {
    let nodes = Nodes::start(4);
    let (key, replicas) = nodes.foreign_key();
    let client = nodes.rest(3);
    for (round, paused) in replicas.into_iter().enumerate() {
        nodes.members[paused].signal("STOP");
        let (mut last, mut n) = (String::new(), 0);
        for _ in 0..6 {
            last = until("a write is acknowledged by the other two", || {
                n += 1;
                let wrote = format!("{round}-{n}");
                (put(client, &key, &wrote).status == 200).then_some(wrote)
            });
        }
        assert_eq!(value(client, &key, "2"), last);
        nodes.members[paused].signal("CONT");
        // Asked over the connection in which the first writes waited, so behind them.
        assert_eq!(value(client, &key, "3"), last);
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            assert_eq!(value(client, &key, "2"), last, "it stays");
        }
    }
}

#[test]
fn a_replica_that_stands_still_is_passed_over_by_replicas_and_others() {
    let nodes = Nodes::start(4);
    let (key, replicas) = nodes.foreign_key();
    for paused in replicas {
        nodes.members[paused].signal("STOP");
        for node in (0..4).filter(|node| *node != paused) {
            let wrote = format!("{paused}-{node}");
            let answer = put(nodes.rest(node), &key, &wrote);
            assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
            let read = nodes.rest(node).get(&format!("/v1/data/{key}?{TIMEOUT}"));
            assert_eq!((read.status, read.json()["value"].as_str()), (200, Some(wrote.as_str())));
        }
        nodes.members[paused].signal("CONT");
        until("it answers again", || (nodes.rest(paused).get("/health").status == 200).then_some(()));
    }
}

/// Writes that a coordinator has to name before it can pass them on to a second replica.
#[test]
fn additions_and_decisions_are_passed_over_a_replica_that_stands_still_and_count_once() {
    let nodes = Nodes::start(4);
    let add = |rest: Rest, key: &str| {
        rest.post(&format!("/v1/crdt/counter:{key}/increment?{TIMEOUT}"), r#"{"amount": 1}"#)
    };
    let decide = |rest: Rest, key: &str| {
        let headers = [("content-type", "application/json"), ("x-consistency-level", "LINEARIZABLE")];
        rest.call("PUT", &format!("/v1/data/{key}?{TIMEOUT}"), &headers, br#"{"value": "v"}"#)
    };
    let (counter, counters) = nodes.foreign_key_written_by("counter", add);
    let (register, registers) = nodes.foreign_key_written_by("decided", decide);
    let client = nodes.rest(3);
    let mut counted = 1;
    for paused in &counters | &registers {
        nodes.members[paused].signal("STOP");
        for _ in 0..3 {
            for answer in [add(client, &counter), decide(client, &register)] {
                assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
            }
            counted += 1;
        }
        nodes.members[paused].signal("CONT");
        until("it answers again", || (nodes.rest(paused).get("/health").status == 200).then_some(()));
    }
    let count = until("all replicas are read", || {
        let answer = client.get(&format!("/v1/crdt/counter:{counter}?r=3&{TIMEOUT}"));
        (answer.status == 200).then(|| answer.json()["value"].clone())
    });
    assert_eq!(count, counted);
}

/// No replica is left that could carry it out.
#[test]
fn an_addition_is_answered_when_the_connection_to_its_replica_breaks() {
    let mut nodes = Nodes::start(4);
    let add = |rest: Rest, key: &str| {
        rest.post(&format!("/v1/crdt/counter:{key}/increment?{TIMEOUT}"), r#"{"amount": 1}"#)
    };
    let (key, replicas) = nodes.foreign_key_written_by("counter", add);
    replicas.iter().for_each(|node| nodes.members[*node].signal("STOP"));
    let rest = nodes.rest(3);
    let began = Instant::now();
    let asked = std::thread::spawn(move || add(rest, &key));
    // Whether it was passed on before or after, the replica that has it ends.
    replicas.iter().for_each(|node| nodes.members[*node].kill());
    let answer = asked.join().expect("a request does not panic");
    assert_eq!(answer.status, 503, "{}", String::from_utf8_lossy(&answer.bytes));
    assert!(began.elapsed() < Duration::from_secs(40), "after {:?}", began.elapsed());
}

#[test]
fn a_read_without_its_quorum_says_so_before_its_deadline_and_names_the_missing() {
    let mut nodes = Nodes::start(3);
    let rest = nodes.rest(0);
    assert_eq!(put(rest, "k", "v").status, 200);
    nodes.members[1..].iter_mut().for_each(Member::kill);
    let missing = |answer: &Answer| -> BTreeSet<String> {
        let said = answer.json();
        let names = said["missing"].as_array().expect("those who are missing").iter();
        names.map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let others = BTreeSet::from(["m1".to_owned(), "m2".to_owned()]);
    // Once it is known that the others are down.
    until("a read is refused at once", || {
        let began = Instant::now();
        let answer = rest.get("/v1/data/k?timeout_ms=8000");
        assert_eq!(answer.status, 503);
        assert_eq!(missing(&answer), others);
        (began.elapsed() < Duration::from_secs(4)).then_some(())
    });
    until("a write is refused at once", || {
        let began = Instant::now();
        let answer = rest.put("/v1/data/k?timeout_ms=8000", r#"{"value":"w"}"#);
        assert_eq!(answer.status, 503);
        assert_eq!(missing(&answer), others);
        (began.elapsed() < Duration::from_secs(4)).then_some(())
    });
}

#[test]
fn a_request_that_is_repeated_counts_once_whatever_came_in_between() {
    let nodes = Nodes::start(3);
    for level in ["LOCAL_QUORUM", "LINEARIZABLE"] {
        let counter = format!("/v1/crdt/counter:visits-{level}");
        let add = |node: usize, id: &str, amount: u64| {
            let content = ("content-type", "application/json");
            let headers = [content, ("x-request-id", id), ("x-consistency-level", level)];
            let target = format!("{counter}/increment?{TIMEOUT}");
            nodes.rest(node).call("POST", &target, &headers, format!(r#"{{"amount": {amount}}}"#).as_bytes())
        };
        assert_eq!(add(0, "first", 5).status, 200);
        for n in 0..12 {
            assert_eq!(add(n % 3, &format!("other-{n}"), 1).status, 200);
        }
        for node in 0..3 {
            let again = add(node, "first", 5);
            assert_eq!((again.status, again.json()["value"].as_u64()), (200, Some(17)));
            let reused = add(node, "first", 6);
            assert_eq!((reused.status, reused.json()["error"].as_str()), (422, Some("request_id_reused")));
        }
        let old = add(0, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", 1);
        assert_eq!((old.status, old.json()["error"].as_str()), (422, Some("request_id_expired")));
        assert_eq!(nodes.rest(1).get(&counter).json()["value"], 17);
    }
}

#[test]
fn a_condition_that_was_met_is_met_when_its_request_comes_again() {
    let nodes = Nodes::start(3);
    let create = |node: usize, id: &str, condition: (&str, &str)| {
        let headers = [("content-type", "application/json"), ("x-request-id", id), condition];
        let body = format!(r#"{{"value": "{id}"}}"#);
        nodes.rest(node).call("PUT", &format!("/v1/data/once?{TIMEOUT}"), &headers, body.as_bytes()).status
    };
    let (absent, linearizable) = (("x-conflict-resolution", "FAIL"), ("x-consistency-level", "LINEARIZABLE"));
    assert_eq!(create(0, "first", absent), 200);
    for n in 0..10 {
        assert_eq!(create(n % 3, &format!("other-{n}"), linearizable), 200);
    }
    assert_eq!(create(1, "first", absent), 200);
    assert_eq!(create(2, "second", absent), 409);
    assert_eq!(value(nodes.rest(2), "once", "2"), "other-9");
}
