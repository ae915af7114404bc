//! `althing diagnose` of a cluster with auth and a secret: everything that a report needs is in the archive with its
//! checksum, and no secret is. And of requests that took long it is told where the time went.

use crate::data_auth::manage;
use crate::process::{Member, Plan, althing, until};
use crate::rest::Rest;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

const SECRET: &str = "a-cluster-secret-that-no-one-else-may-have";
const VALUE: &str = "value-of-a-customer";

/// The files of the archive, by their names below its folder.
fn unpack(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let unpacked = zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let mut archive = tar::Archive::new(&unpacked[..]);
    let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().strip_prefix("althing-diagnose").unwrap().display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (name, content)
    };
    archive.entries().unwrap().map(read).collect()
}

fn contains(content: &[u8], wanted: &str) -> bool {
    content.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

#[test]
fn an_archive_has_every_part_with_its_checksum_and_no_secret() {
    let plan = Plan::single();
    let secret_file = plan.dir.path().join("secret");
    std::fs::write(&secret_file, SECRET).unwrap();
    let plan = plan.with(&["--cluster-secret-file", secret_file.to_str().unwrap()]);
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    rest.put("/v1/data/customer-key", &format!(r#"{{"value":"{VALUE}"}}"#));
    manage(&member, &["user", "add", "root", "--new-user-password", "root-password"]);
    manage(&member, &["user", "grant-role", "root", "root"]);
    manage(&member, &["auth", "enable"]);
    let log = plan.dir.path().join("node.log");
    let lines = "started\nAuthorization: Basic cm9vdDpyb290LXBhc3N3b3Jk\nlogin of root with root-password\n";
    std::fs::write(&log, lines).unwrap();
    let out = plan.dir.path().join("report.tar.zst");

    let refused = collect(rest, &out, &[]).output().unwrap();
    assert!(!refused.status.success(), "callers without credentials get nothing");
    let args = ["--user", "root:root-password", "--log", log.to_str().unwrap()];
    let done = collect(rest, &out, &args).env("ALTHING_CLUSTER_SECRET", SECRET).output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success() && !told.contains("missing:"),
        "{told}{}",
        String::from_utf8_lossy(&done.stderr)
    );

    let parts = unpack(&out);
    let folder = rest.0.to_string().replace(':', "_");
    for file in ["cluster.json", "metrics.txt", "settings.json", "slow-requests.json", "upgrade.json"] {
        assert!(!parts[&format!("{folder}/{file}")].is_empty(), "{file}");
    }
    assert!(contains(&parts["logs/0-node.log"], "started"));
    for (name, content) in &parts {
        for secret in [SECRET, "root-password", "cm9vdDpyb290LXBhc3N3b3Jk", VALUE, "customer-key"] {
            assert!(!contains(content, secret), "{secret} is in {name}");
        }
    }
    let sums = String::from_utf8(parts["SHA256SUMS"].clone()).unwrap();
    assert_eq!(sums.lines().count(), parts.len() - 1);
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let found: String =
            digest(&SHA256, &parts[name]).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, found, "{name}");
    }
    let manifest: Value = serde_json::from_slice(&parts["MANIFEST.json"]).unwrap();
    assert_eq!(manifest["missing"], Value::Array(vec![]), "{manifest}");
}

fn collect(rest: Rest, out: &Path, args: &[&str]) -> std::process::Command {
    let mut command = althing();
    command.args(["diagnose", "--http-endpoints", &rest.0.to_string(), "--out"]).arg(out).args(args);
    command
}

/// The write has to be slow: the leader's followers stand still for so long.
fn put_while_others_stand_still(members: &[Member], leader: usize) {
    let others = || members.iter().enumerate().filter(|(idx, _)| *idx != leader);
    others().for_each(|(_, member)| member.signal("STOP"));
    std::thread::scope(|scope| {
        scope.spawn(|| members[leader].http_with("POST", "/v3/kv/put", r#"{"key":"YQ==","value":"Yg=="}"#));
        std::thread::sleep(Duration::from_millis(400));
        others().for_each(|(_, member)| member.signal("CONT"));
    });
}

#[test]
fn of_a_slow_request_it_is_told_where_the_time_went() {
    let plans = Plan::cluster(3).into_iter().map(|plan| plan.with(&["--slow-request-ms", "200"]));
    let plans: Vec<Plan> = plans.collect();
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    // On a busy machine the write may come after the pause, or find another leader.
    let (leader, slow) = until("a slow write is reported", || {
        let leader = members.iter().position(Member::leads)?;
        put_while_others_stand_still(&members, leader);
        let told = Rest::of(&members[leader]).get("/v1/slow-requests").json();
        let all = told["slow_requests"].as_array()?.clone();
        all.into_iter().find(|slow| slow["kind"] == "put").map(|slow| (leader, slow))
    });
    let took = slow["took_ms"].as_f64().unwrap();
    let phases: f64 = slow["phases"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!(took >= 200.0 && (took - phases).abs() < 1.0, "{slow}");
    let metrics = members[leader].http("GET", "/metrics").body;
    assert!(metrics.contains(r#"althing_slow_requests_total{kind="put"}"#), "{metrics}");
    assert!(plans[leader].log().contains("slow request"));
}
