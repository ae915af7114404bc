//! A store that reaches its quota: it says so, refuses what grows, and heals by itself when space is free again.

use crate::process::{Member, Plan, althing, until};
use std::process::{Command, Output};

const QUOTA: &str = "300000";
const FULL: &str = "etcdserver: mvcc: database space exceeded";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn ask(member: &Member, words: &[&str]) -> String {
    text(&althing().args(words).args(["--endpoints", &member.client.to_string()]).output().unwrap())
}

/// Puts until it is refused.
fn fill(member: &Member) {
    let value = "x".repeat(20_000);
    let mut n = 0;
    until("the quota is reached", || {
        n += 1;
        let told = ask(member, &["put", &format!("key-{n}"), &value]);
        assert!(told == "OK\n" || told.contains(FULL), "{told}");
        (told != "OK\n").then_some(())
    });
    assert!(n > 10, "only {n} values fitted");
}

fn make_room(member: &Member) {
    let told = ask(member, &["del", "key-", "--prefix"]);
    assert!(told.trim().parse::<u32>().is_ok(), "{told}");
    let json: serde_json::Value = serde_json::from_str(&ask(member, &["get", "x", "-w", "json"])).unwrap();
    let told = ask(member, &["compaction", &json["header"]["revision"].to_string()]);
    assert!(told.contains("compacted revision"), "{told}");
}

#[test]
fn a_full_store_refuses_what_grows_and_heals_after_deletes() {
    let plan = Plan::single().with(&["--quota-bytes", QUOTA]);
    let mut member = plan.start_ready();
    ask(&member, &["put", "small", "1"]);
    fill(&member);
    let health = member.http("GET", "/health");
    assert_eq!(health.status, 503);
    assert!(health.body.contains("ALARM NOSPACE"), "{}", health.body);
    assert_eq!(member.http("GET", "/health?exclude=NOSPACE").status, 200);
    assert!(ask(&member, &["alarm", "list"]).contains("alarm:NOSPACE"));
    assert!(ask(&member, &["endpoint", "status", "-w", "json"]).contains("alarm:NOSPACE"));
    assert_eq!(ask(&member, &["get", "small"]), "small\n1\n");
    assert!(ask(&member, &["lease", "grant", "60"]).contains(FULL));
    assert!(plan.log().contains("space becomes scarce"), "a warning came before");

    // It is not forgotten by a restart.
    member.kill();
    let member = plan.start();
    until("it serves", || (ask(&member, &["get", "small"]) == "small\n1\n").then_some(()));
    assert!(ask(&member, &["put", "more", "1"]).contains(FULL));

    make_room(&member);
    until("there is space again", || (ask(&member, &["put", "more", "1"]) == "OK\n").then_some(()));
    assert_eq!(ask(&member, &["alarm", "list"]), "");
    assert_eq!(member.http("GET", "/health").status, 200);
}

#[test]
fn etcdctl_lists_and_disarms_alarms_on_three_members() {
    let Ok(binary) = std::env::var("ETCDCTL") else { return };
    let plans: Vec<Plan> =
        Plan::cluster(3).into_iter().map(|plan| plan.with(&["--quota-bytes", QUOTA])).collect();
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let all: Vec<String> = members.iter().map(|member| member.client.to_string()).collect();
    let etcdctl = |words: &[&str]| {
        let mut command = Command::new(&binary);
        text(
            &command
                .env("ETCDCTL_API", "3")
                .args(["--endpoints", &all.join(",")])
                .args(words)
                .output()
                .unwrap(),
        )
    };
    fill(&members[0]);
    for member in &members {
        assert!(ask(member, &["put", "k", "v"]).contains(FULL), "all members agree");
    }
    assert!(etcdctl(&["alarm", "list"]).contains("alarm:NOSPACE"));
    assert!(etcdctl(&["alarm", "disarm"]).contains("alarm:NOSPACE"));
    // Nothing was freed, so it comes back by itself.
    until("it is raised again", || etcdctl(&["alarm", "list"]).contains("alarm:NOSPACE").then_some(()));
    assert!(etcdctl(&["defrag"]).contains("Finished defragmenting"));
    make_room(&members[1]);
    until("there is space again", || etcdctl(&["alarm", "list"]).is_empty().then_some(()));
    until("all accept again", || {
        members.iter().all(|member| ask(member, &["put", "k", "v"]) == "OK\n").then_some(())
    });
    let hashes = etcdctl(&["endpoint", "hashkv"]);
    assert_eq!(hashes.lines().count(), 3, "{hashes}");
}
