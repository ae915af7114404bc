//! Who is connected, what is watched and leased, what pins compaction, and where the leader is: by verbs, REST and headers.

use crate::process::{Member, Plan, althing, http_at, until};
use crate::rest::Rest;
use crate::talking::Talking;
use crate::verbs::out;
use serde_json::Value;
use std::process::Stdio;

fn json(member: &Member, args: &[&str]) -> Value {
    serde_json::from_str(&out(member, args, "")).unwrap()
}

fn watching(member: &Member, args: &[&str]) -> Talking {
    let mut command = althing();
    command.env("ALTHING_ENDPOINTS", member.client.to_string()).arg("watch").args(args);
    Talking::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_watch_is_listed_with_its_client_until_it_ends() {
    let member = Plan::single().start_ready();
    let watcher = watching(&member, &["--prefix", "jobs/"]);
    let listed = until("the watch is listed", || {
        let listed = json(&member, &["watches", "-w", "json"]);
        listed["watches"].as_array().filter(|all| !all.is_empty()).cloned()
    });
    let watch = &listed[0];
    assert_eq!((&watch["key"], &watch["range_end"]), (&"am9icy8=".into(), &"am9iczA=".into()), "{watch}");
    assert_eq!((&watch["state"], &watch["lag"]), (&"live".into(), &0.into()), "{watch}");
    let clients = json(&member, &["clients", "-w", "json"]);
    let is_owner = |client: &&Value| client["id"] == watch["client"];
    let owner = clients["clients"].as_array().unwrap().iter().find(is_owner).cloned();
    let owner = owner.unwrap_or_else(|| panic!("{watch} has no client in {clients}"));
    assert_eq!(owner["watches"], 1, "{owner}");
    assert!(owner["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{owner}");
    assert!(owner["streams"].as_i64() >= Some(1) && owner["requests"].as_i64() >= Some(1), "{owner}");
    assert!(owner["connected_ms"].as_i64() > Some(1_700_000_000_000), "{owner}");

    let rest = Rest::of(&member).get("/v1/watches").json();
    assert_eq!((&rest["total"], &rest["watches"][0]["key"]), (&1.into(), &"jobs/".into()), "{rest}");
    let rest = Rest::of(&member).get("/v1/clients").json();
    assert!(rest["total"].as_i64() >= Some(2), "the REST port's own connection is listed, too: {rest}");
    assert!(out(&member, &["watches", "-w", "table"], "").contains("[jobs/, jobs0)"));
    assert!(out(&member, &["clients"], "").contains("address=127.0.0.1:"));

    watcher.interrupt();
    until("the watch is gone", || {
        let listed = json(&member, &["watches", "-w", "json"]);
        listed["watches"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
}

#[test]
fn a_lease_is_listed_with_its_times_and_keys() {
    let member = Plan::single().start_ready();
    let granted = out(&member, &["lease", "grant", "600"], "");
    let id = granted.split_whitespace().nth(1).unwrap();
    out(&member, &["put", "worker/1", "alive", "--lease", id], "");
    let lease = until("the time of the grant is marked", || {
        let lease = json(&member, &["leases", "-w", "json"])["leases"][0].clone();
        (lease["granted_ms"] != 0).then_some(lease)
    });
    assert_eq!(
        (&lease["id"], &lease["granted_ttl"], &lease["key_count"]),
        (&id.into(), &600.into(), &1.into())
    );
    assert_eq!(lease["keys"][0], "d29ya2VyLzE=");
    let (granted, expires) = (lease["granted_ms"].as_i64().unwrap(), lease["expires_ms"].as_i64().unwrap());
    assert!(
        granted > 1_700_000_000_000 && (1..=600_000).contains(&lease["left_ms"].as_i64().unwrap()),
        "{lease}"
    );
    assert!(expires > granted, "{lease}");
    let rest = Rest::of(&member).get("/v1/leases").json();
    assert_eq!((&rest["leases"][0]["keys"][0], &rest["more"]), (&"worker/1".into(), &false.into()), "{rest}");
    assert!(out(&member, &["leases", "-w", "table"], "").contains("worker/1"));
}

#[test]
fn the_time_of_a_grant_outlives_a_restart() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    out(&member, &["lease", "grant", "600"], "");
    // Marks of time follow changes of keys.
    out(&member, &["put", "k", "v"], "");
    let granted =
        |member: &Member| json(member, &["leases", "-w", "json"])["leases"][0]["granted_ms"].clone();
    let before = until("it is marked", || Some(granted(&member)).filter(|at| *at != 0));
    member.kill();
    let member = plan.start_ready();
    assert_eq!(granted(&member), before);
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let member = Plan::single().start_ready();
    for path in ["/v1/clients?limit=x", "/v1/watches?client=-1", "/v1/leases?after=zz", "/v1/compaction?x=1"]
    {
        assert_eq!(Rest::of(&member).get(path).status, 400, "{path}");
    }
    let compaction = Rest::of(&member).get("/v1/compaction").json();
    assert_eq!((&compaction["pins"], &compaction["compact_revision"]), (&Value::Array(vec![]), &0.into()));
    assert!(out(&member, &["compaction", "--status"], "").contains("compacted to revision 0 of 1"));
}

#[test]
fn a_follower_says_who_leads_and_the_leader_does_not() {
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let hint = |member: &Member| {
        let answer = http_at(member.client, "POST", "/v3/kv/range", r#"{"key":"YQ=="}"#);
        answer.head.lines().find_map(|line| line.strip_prefix("althing-leader-url: ").map(str::to_owned))
    };
    until("the followers point at the leader", || {
        let leader = members.iter().find(|member| member.leads())?;
        let others = members.iter().filter(|member| member.client != leader.client);
        let right = others.map(&hint).all(|url| url == Some(leader.endpoint()));
        (right && hint(leader).is_none()).then_some(())
    });
}
