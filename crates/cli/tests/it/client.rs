//! The client crate against real processes: what it does when members go away.

use crate::process::{Member, PATIENCE, Plan, althing};
use crate::tour::block_on;
use ::client::{Client, Config, Error, LeaseKeeper, LeaseState, Watcher};
use proto::etcdserverpb::{CompactionRequest, PutRequest, RangeRequest, WatchCreateRequest};
use std::process::Stdio;
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn client_of(members: &[Member]) -> Client {
    let endpoints = members.iter().map(Member::endpoint).collect();
    Client::new(Config { endpoints, dial_timeout: PATIENCE, call_timeout: PATIENCE, login: None, tls: None })
        .unwrap()
}

fn three() -> (Vec<Plan>, Vec<Member>) {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    (plans, members)
}

async fn put(client: &Client, key: &str, value: &str) {
    let (key, value) = (key.to_owned().into(), value.to_owned().into());
    client.put(PutRequest { key, value, ..Default::default() }).await.unwrap();
}

fn watch(client: &Client, key: &str, start_revision: i64) -> Watcher {
    client.watch(WatchCreateRequest { key: key.to_owned().into(), start_revision, ..Default::default() })
}

/// The values of the next events, so many of them.
async fn hear(watcher: &mut Watcher, count: usize) -> Vec<String> {
    let mut heard = vec![];
    while heard.len() < count {
        let response = timeout(PATIENCE, watcher.next()).await.expect("events are due").unwrap();
        for event in response.events {
            heard.push(String::from_utf8(event.kv.unwrap().value.to_vec()).unwrap());
        }
    }
    heard
}

#[test]
fn a_watch_goes_on_at_another_member_without_gap_or_repetition() {
    let (_plans, mut members) = three();
    block_on(async {
        let watching = client_of(&members);
        let writing = client_of(&members[1..]);
        let mut watcher = watch(&watching, "a", 1);
        put(&writing, "a", "1").await;
        put(&writing, "a", "2").await;
        assert_eq!(hear(&mut watcher, 2).await, ["1", "2"]);
        members[0].kill();
        put(&writing, "a", "3").await;
        put(&writing, "a", "4").await;
        assert_eq!(hear(&mut watcher, 2).await, ["3", "4"]);
    });
}

#[test]
fn a_watch_survives_the_restart_of_its_only_member() {
    let plan = Plan::single();
    let peer = format!("127.0.0.1:{}", plan.peer_port);
    let start = |address: &str| {
        let mut serve = althing();
        serve.args([
            "serve",
            "--name",
            &plan.name,
            "--client-addr",
            address,
            "--http-addr",
            "none",
            "--data-dir",
        ]);
        serve.arg(plan.data_dir()).args(["--peer-addr", &peer, "--initial-cluster", &plan.cluster]);
        Member::from_child(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    };
    let member = start("127.0.0.1:0");
    let address = member.client.to_string();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let mut watcher = watch(&client, "a", 1);
        put(&client, "a", "1").await;
        assert_eq!(hear(&mut watcher, 1).await, ["1"]);
        drop(member);
        let member = start(&address);
        let fresh = client_of(std::slice::from_ref(&member));
        put(&fresh, "a", "2").await;
        assert_eq!(hear(&mut watcher, 1).await, ["2"]);
    });
}

#[test]
fn a_watch_of_what_was_compacted_says_so() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        for value in ["1", "2", "3"] {
            put(&client, "a", value).await;
        }
        client.compact(CompactionRequest { revision: 3, physical: false }).await.unwrap();
        let ended = watch(&client, "a", 2).next().await.unwrap_err();
        assert!(matches!(ended, Error::Compacted { revision: 3 }), "{ended}");
        assert_eq!(hear(&mut watch(&client, "a", 3), 2).await, ["2", "3"]);
    });
}

#[test]
fn calls_move_on_when_the_member_in_use_is_gone() {
    let (_plans, mut members) = three();
    block_on(async {
        let client = client_of(&members);
        put(&client, "a", "1").await;
        members[0].kill();
        let get = RangeRequest { key: "a".into(), ..Default::default() };
        assert_eq!(client.range(get).await.unwrap().kvs[0].value, "1");
        put(&client, "a", "2").await;
    });
}

#[test]
fn a_kept_lease_outlives_its_time_and_its_end_is_told() {
    let (_plans, mut members) = three();
    block_on(async {
        let client = client_of(&members);
        let granted = client.grant_lease(2, 0).await.unwrap();
        let mut keeper = LeaseKeeper::of(&client, &granted);
        assert!(keeper.is_held());
        let first = keeper.deadline().unwrap();
        assert!(first < granted.asked_at + Duration::from_secs(2), "earlier than the server's");
        members[0].kill();
        // Twice its time, over the loss of the member that was asked.
        while Instant::now() < granted.asked_at + Duration::from_secs(4) {
            let lease_state = timeout(PATIENCE, keeper.changed()).await.unwrap();
            assert!(matches!(lease_state, LeaseState::Held { .. }), "{lease_state:?}");
        }
        assert!(keeper.is_held() && keeper.deadline().unwrap() > first);
        client.revoke_lease(keeper.id()).await.unwrap();
        let lost = timeout(PATIENCE, keeper.lost()).await.unwrap();
        assert!(matches!(lost, Error::LeaseGone { .. }), "{lost}");
        assert!(!keeper.is_held() && keeper.deadline().is_none());
    });
}

#[test]
fn without_a_server_a_lease_is_lost_at_its_deadline() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let granted = client.grant_lease(2, 0).await.unwrap();
        let keeper = LeaseKeeper::of(&client, &granted);
        member.kill();
        timeout(PATIENCE, keeper.lost()).await.unwrap();
        assert!(!keeper.is_held());
    });
}

#[test]
fn a_lease_that_is_not_there_cannot_be_kept() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let refusal = LeaseKeeper::adopt(&client, 77).await.unwrap_err();
        assert!(matches!(refusal, Error::LeaseGone { id: 77 }), "{refusal}");
    });
}
