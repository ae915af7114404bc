//! Listings over REST and on the command line: names alone, from the end, counted, up to a time, and deleted by prefix; large values
//! never make a page fail, and single keys are read while scans of them go on.

use crate::process::althing;
use crate::rest::{Rest, single};
use serde_json::Value;

fn names(page: &Value) -> Vec<String> {
    let entries = page["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
}

fn fill(rest: Rest, prefix: &str, n: usize) {
    let entries: Vec<String> =
        (0..n).map(|nth| format!(r#"{{"key":"{prefix}{nth:03}","value":{nth}}}"#)).collect();
    let body = format!(r#"{{"entries":[{}]}}"#, entries.join(","));
    assert_eq!(rest.post("/api/v1/store/batch", &body).status, 200);
}

#[test]
fn ranges_are_listed_counted_and_deleted() {
    let (member, rest) = single();
    fill(rest, "user/", 30);
    fill(rest, "other/", 3);
    let range = "/api/v1/store/range";
    let page = rest.get(&format!("{range}?prefix=user/&keys_only=1&limit=20")).json();
    assert_eq!(
        (names(&page).len(), page["entries"][7].to_string()),
        (20, r#"{"key":"user/007"}"#.to_owned())
    );
    let next = page["next_page"].as_str().unwrap();
    let rest_of_it = rest.get(&format!("{range}?prefix=user/&keys_only=1&page={next}")).json();
    assert_eq!((names(&rest_of_it).len(), &rest_of_it["next_page"]), (10, &Value::Null));

    let down = rest.get(&format!("{range}?prefix=user/&reverse=1&limit=2")).json();
    assert_eq!(names(&down), ["user/029", "user/028"]);
    assert_eq!(down["entries"][0]["value"], 29);
    let next = down["next_page"].as_str().unwrap();
    let down = rest.get(&format!("{range}?prefix=user/&reverse=1&limit=2&page={next}")).json();
    assert_eq!(names(&down), ["user/027", "user/026"]);

    assert_eq!(rest.get(&format!("{range}?prefix=user/&count=1")).json()["count"], 30);
    assert_eq!(rest.get(&format!("{range}?count=1")).json()["count"], 33);
    assert_eq!(rest.delete(range).status, 400, "everything must be named");
    let deleted = rest.delete(&format!("{range}?prefix=user/00")).json();
    assert_eq!(
        (&deleted["deleted"], &deleted["failed"], &deleted["complete"]),
        (&10.into(), &0.into(), &true.into())
    );
    assert_eq!(rest.get(&format!("{range}?prefix=user/&count=1")).json()["count"], 20);
    assert_eq!(rest.get("/v1/data/user/003").status, 410);

    let run = |args: &[&str]| {
        let endpoint = rest.0.to_string();
        let output = althing().arg("data").args(args).args(["--http-endpoints", &endpoint]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
        told
    };
    assert_eq!(run(&["count", "--prefix", "user/"]), "20\n");
    assert_eq!(run(&["ls", "--prefix", "other/"]), "other/000\nother/001\nother/002\n");
    assert_eq!(run(&["ls", "--reverse", "--limit", "1"]), "user/029\n");
    assert_eq!(run(&["delete", "--prefix", "other/"]), "3 deleted\n");
    assert_eq!(run(&["count", "-w", "json"]), "{\"count\":20}\n");
    drop(member);
}

#[test]
fn the_first_design_s_paths_and_levels_are_served() {
    let (_member, rest) = single();
    assert_eq!(rest.put("/key", r#"{"key":"a","value":1}"#).status, 200);
    assert_eq!(rest.get("/key/a").json()["value"], 1);
    assert_eq!(rest.get("/key?key=a").json()["value"], 1);
    assert_eq!(rest.post("/batch", r#"{"entries":[{"key":"b","value":2}]}"#).status, 200);
    assert_eq!(names(&rest.get("/range?start=a&end=c").json()), ["a", "b"]);
    assert_eq!(rest.delete("/key/b").status, 200);
    assert_eq!(rest.get("/v3/api-docs").json()["openapi"], "3.0.3");
    assert_eq!(rest.get("/swagger-ui.html").status, 307);
    for level in ["ONE", "ALL"] {
        let level = [("x-consistency-level", level), ("content-type", "application/json")];
        assert_eq!(rest.call("PUT", "/v1/data/c", &level, br#"{"value":3}"#).status, 200);
        assert_eq!(rest.call("GET", "/v1/data/c", &level, b"").json()["value"], 3);
    }
    assert_eq!(rest.call("GET", "/v1/data/c", &[("x-consistency-level", "MOST")], b"").status, 400);
}

#[test]
fn what_was_written_up_to_a_time_is_found() {
    let (_member, rest) = single();
    rest.put("/v1/data/first", r#"{"value":1}"#);
    let written = rest.get("/api/v1/store/keys/first").json()["timestamp"].as_u64().unwrap();
    let mut later = written;
    while later <= written {
        rest.put("/v1/data/second", r#"{"value":2}"#);
        later = rest.get("/api/v1/store/keys/second").json()["timestamp"].as_u64().unwrap();
    }
    let found = rest.get(&format!("/v1/data?until={written}")).json();
    assert_eq!((names(&found), &found["next_page"]), (vec!["first".to_owned()], &Value::Null));
    let found = rest.get(&format!("/v1/data?since={later}&until={later}")).json();
    assert_eq!(names(&found), ["second"]);
    assert_eq!(rest.get("/v1/data?until=yesterday").status, 400);
}

#[test]
fn keys_are_read_while_scans_of_large_values_go_on() {
    let (_member, rest) = single();
    let large = "x".repeat(1_000_000);
    for n in 0..12 {
        rest.put(&format!("/v1/data/large/{n:02}"), &format!(r#"{{"value":"{large}"}}"#));
    }
    rest.put("/v1/data/small", r#"{"value":1}"#);
    std::thread::scope(|scope| {
        let scans: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(move || {
                    let (mut found, mut place) = (0, String::new());
                    loop {
                        let answer = rest.get(&format!("/api/v1/store/range?prefix=large/{place}"));
                        assert_eq!(answer.status, 200);
                        let page = answer.json();
                        let of_page = names(&page).len();
                        assert!((1..=3).contains(&of_page), "{of_page} values of a megabyte in one page");
                        found += of_page;
                        match page["next_page"].as_str() {
                            Some(next) => place = format!("&page={next}"),
                            None => return found,
                        }
                    }
                })
            })
            .collect();
        while !scans.iter().all(|scan| scan.is_finished()) {
            assert_eq!(rest.get("/v1/data/small").status, 200);
        }
        for scan in scans {
            assert_eq!(scan.join().unwrap(), 12);
        }
    });
}
