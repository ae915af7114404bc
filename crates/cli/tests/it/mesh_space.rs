//! A disk that the data API fills to the brim: what grows is refused before the disk is full, however many ask at once;
//! reads and deletes go on, and when something was deleted everything is taken in again.

use crate::process::{Member, PATIENCE, until};
use crate::rest::Rest;
use crate::space::on_small_disk;
use std::io::Write;
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;
const VALUE_BYTES: usize = 64 * 1024;
const SMALL_KEYS: usize = 20_000;
/// Refusals in a row after which a client takes the disk for full. One may be of a moment only.
const REFUSED_IN_A_ROW: usize = 20;

fn target(client: usize, n: usize) -> String {
    format!("/v1/data/key-{client}-{n}")
}

fn put(rest: Rest, target: &str, bytes: usize) -> u16 {
    let answer =
        rest.call("PUT", target, &[("content-type", "application/octet-stream")], &vec![b'x'; bytes]);
    assert!(matches!(answer.status, 200 | 507), "{}", String::from_utf8_lossy(&answer.bytes));
    if answer.status == 507 {
        assert_eq!(answer.json()["error"], "no_space");
        assert!(answer.header("retry-after").is_some());
    }
    answer.status
}

/// Many clients write values of their own until they are refused; how many each could write.
fn fill(rest: Rest) -> Vec<usize> {
    let fill_one = |client: usize| {
        let (mut n, mut refused) = (0, 0);
        while refused < REFUSED_IN_A_ROW {
            match put(rest, &target(client, n), VALUE_BYTES) {
                200 => (n, refused) = (n + 1, 0),
                _ => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
        n
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|client| scope.spawn(move || fill_one(client))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

/// Everything that was acknowledged is there.
fn read_all(rest: Rest, written: &[usize]) {
    for (client, n) in written.iter().enumerate() {
        for n in 0..*n {
            let answer = rest.get(&target(client, n));
            assert!(answer.status == 200 && answer.bytes.len() >= VALUE_BYTES, "{client} {n}");
        }
    }
}

/// One after the other. On a full disk there may be no space for one until the store has those before it.
fn delete_all(rest: Rest, written: &[usize]) {
    let delete = |target: &str| match rest.delete(target).status {
        200 => Some(()),
        status => {
            assert_eq!(status, 507, "{target}");
            None
        }
    };
    for (client, n) in written.iter().enumerate() {
        (0..*n).for_each(|n| until("it is deleted", || delete(&target(client, n))));
    }
}

/// Does the same to many small keys, in batches; those that were refused. Whatever waits for the log would wait too long,
/// and be told so.
fn flood(rest: Rest, field: &str, keys: &[usize], one: impl Fn(&usize) -> String) -> Vec<usize> {
    let mut refused = Vec::new();
    for keys in keys.chunks(500) {
        let parts: Vec<String> = keys.iter().map(&one).collect();
        let body = format!(r#"{{"{field}": [{}]}}"#, parts.join(", "));
        let said = rest.post("/v1/data/batch", &body).json();
        for (key, part) in keys.iter().zip(said["results"].as_array().unwrap()) {
            match part["status"].as_u64().unwrap() {
                200 => {}
                507 => refused.push(*key),
                _ => panic!("{part}"),
            }
        }
    }
    refused
}

#[test]
fn a_flood_of_deletes_on_a_full_disk_gets_through() {
    let Some((plan, _disk)) = on_small_disk() else { return };
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    let name = |sort: &str, n: usize| format!("{sort}-{n}-{}", "x".repeat(100));
    let put_small = |n: &usize| format!(r#"{{"key": "{}", "value": 1}}"#, name("small", *n));
    let delete = |sort: &'static str| move |n: &usize| format!(r#"{{"delete": "{}"}}"#, name(sort, *n));
    let keys: Vec<usize> = (0..SMALL_KEYS).collect();
    let until_all = |what: &str, attempt: &dyn Fn(&[usize]) -> Vec<usize>| {
        let mut left = keys.clone();
        until(what, || {
            left = attempt(&left);
            left.is_empty().then_some(())
        });
    };
    until_all("all small keys are there", &|left| flood(rest, "entries", left, put_small));
    let written = fill(rest);
    let refused = flood(rest, "operations", &keys, delete("never"));
    assert!(!refused.is_empty(), "traces of what was never there need space that is not there");
    until_all("all small keys are deleted", &|left| flood(rest, "operations", left, delete("small")));
    read_all(rest, &written);
    delete_all(rest, &written);
}

#[test]
fn a_crowd_fills_a_disk_by_the_data_api_and_it_heals_after_deletes() {
    let Some((plan, _disk)) = on_small_disk() else { return };
    let mut member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    let coord_is_well = |member: &Member| member.http("GET", "/health").status == 200;
    for round in 0..2 {
        let written = fill(rest);
        let fitted: usize = written.iter().sum();
        let _ = writeln!(std::io::stderr(), "round {round}: {fitted} values of 64 KiB fitted");
        // Of a file that was full once, only a part is counted on.
        let least = if round == 0 { 50 } else { 10 };
        assert!(fitted > least, "only {fitted} values fitted");
        assert!(round > 0 || coord_is_well(&member), "the mesh leaves what coord needs");
        read_all(rest, &written);
        let begun = Instant::now();
        delete_all(rest, &written);
        until("there is space again", || (put(rest, "/v1/data/more", VALUE_BYTES) == 200).then_some(()));
        let _ = writeln!(std::io::stderr(), "round {round}: space again after {:?}", begun.elapsed());
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(member.is_running());
    let log = plan.log();
    assert!(
        log.contains("disk full: the mesh accepts only deletes")
            && log.contains("disk space available again"),
        "{log}"
    );
    member.kill();
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    assert!(rest.get("/v1/data/more").bytes.len() >= VALUE_BYTES);
    // It may be forgotten already that it was deleted.
    assert!(matches!(rest.get(&target(0, 0)).status, 404 | 410));
}
