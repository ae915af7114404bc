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

fn tells(member: &Member, metric: &str) -> bool {
    member.http("GET", "/metrics").body.lines().any(|line| line == metric)
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
    until("the watch is counted", || tells(&member, "althing_watches{state=\"live\"} 1").then_some(()));
    assert!(tells(&member, "althing_compaction_pinned_revision{reason=\"watch\"} 0"));

    watcher.interrupt();
    until("the watch is gone", || {
        let listed = json(&member, &["watches", "-w", "json"]);
        listed["watches"].as_array().is_some_and(Vec::is_empty).then_some(())
    });
}

/// Every page of a list, by `next_page`.
fn paged(rest: Rest, path: &str, name: &str) -> Vec<Value> {
    let (mut all, mut page) = (Vec::new(), String::new());
    loop {
        let answer = rest.get(&format!("{path}&page={page}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.shown());
        let said = answer.json();
        all.extend(said[name].as_array().expect("a page is a list").iter().cloned());
        match said["next_page"].as_str() {
            Some(next) => page = next.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn watches_and_clients_are_paged_filtered_and_told_by_every_node() {
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let _watchers = ["jobs/1", "jobs/2", "jobs/3", "other"].map(|key| watching(&members[0], &[key]));
    let here = Rest::of(&members[0]);
    until("the watches are listed", || (here.get("/v1/watches").json()["total"] == 4).then_some(()));
    let keys = |rest: Rest, query: &str| {
        let rows = paged(rest, &format!("/v1/watches?limit=1{query}"), "watches");
        let mut keys: Vec<String> = rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(here, ""), ["jobs/1", "jobs/2", "jobs/3", "other"]);
    assert_eq!(keys(here, "&filter=jobs/2"), ["jobs/2"]);
    let client = here.get("/v1/watches?limit=1").json()["watches"][0]["client"].clone();
    assert_eq!(keys(here, &format!("&client={client}")).len(), 1);

    let there = Rest::of(&members[1]);
    assert_eq!(there.get("/v1/watches").json()["total"], 0, "a node tells of itself, if none is named");
    assert_eq!(keys(there, "&node=m0&filter=jobs/"), ["jobs/1", "jobs/2", "jobs/3"]);
    let clients = |rest: Rest, query: &str| paged(rest, &format!("/v1/clients?limit=1{query}"), "clients");
    let with_watches =
        |rows: Vec<Value>| rows.iter().filter(|row| row["watches"].as_u64() == Some(1)).count();
    assert_eq!(with_watches(clients(here, "")), 4);
    assert_eq!(with_watches(clients(there, "&node=m0")), 4);
    assert_eq!(clients(here, "&filter=no-such-program"), Vec::<Value>::new());
    assert_eq!(there.get("/v1/compaction?node=m0").json()["pins"], Value::Array(vec![]));
    for path in ["/v1/watches?node=m9", "/v1/clients?node=m9", "/v1/compaction?node=m9"] {
        assert_eq!(there.get(path).status, 404, "{path}");
    }
    for path in ["/v1/watches?page=3", "/v1/clients?page=x"] {
        assert_eq!(there.get(path).status, 400, "{path}");
    }
}

#[test]
fn locks_are_paged_and_filtered_by_name() {
    let member = Plan::single().start_ready();
    let rest = Rest::of(&member);
    let _holders: Vec<Talking> = ["jobs/a", "jobs/b", "printer"]
        .iter()
        .map(|name| {
            let mut command = althing();
            command.env("ALTHING_ENDPOINTS", member.client.to_string()).args(["lock", name, "--ttl", "60s"]);
            let holder = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut holder = Talking::of(holder.spawn().unwrap());
            holder.line();
            holder
        })
        .collect();
    let names = |query: &str| {
        let rows = paged(rest, &format!("/v1/locks?limit=1{query}"), "locks");
        assert!(rows.iter().all(|row| row["remaining_ttl_ms"].as_u64() > Some(0)), "{rows:?}");
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["jobs/a", "jobs/b", "printer"]);
    assert_eq!(names("&filter=obs/"), ["jobs/a", "jobs/b"]);
    assert_eq!(names("&prefix=p"), ["printer"]);
    let counted = rest.get("/v1/locks?limit=1&filter=jobs").json();
    assert_eq!((&counted["count"], &counted["complete"]), (&2.into(), &true.into()), "{counted}");
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
    until("the lease is counted", || tells(&member, "althing_leases 1").then_some(()));
}

#[test]
fn the_time_of_a_grant_outlives_a_restart() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    out(&member, &["lease", "grant", "600"], "");
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
