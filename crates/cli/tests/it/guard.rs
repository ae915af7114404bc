//! Guards and leaderships of the client crate against real members: what they know, when they are lost, and that
//! nothing is written after that.

use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use ::client::{Client, Config, Error, Lease, LockOptions};
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest};
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn client_of(members: &[Member]) -> Client {
    let endpoints = members.iter().map(Member::endpoint).collect();
    Client::new(Config { endpoints, dial_timeout: PATIENCE, call_timeout: PATIENCE, login: None, tls: None })
        .unwrap()
}

fn options(ttl_seconds: i64, timeout: Option<Duration>) -> LockOptions {
    LockOptions {
        lease: Lease::Own { ttl_seconds },
        timeout,
        holder_id: "tester".to_owned(),
        metadata: b"why".to_vec(),
    }
}

fn put(key: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: "x".into(), ..Default::default() }
}

async fn count(client: &Client, key: &str) -> i64 {
    let request = RangeRequest { key: key.to_owned().into(), ..Default::default() };
    client.range(request).await.unwrap().count
}

async fn is_free(client: &Client, name: &str) -> bool {
    client.inspect_lock(name).await.unwrap().lock.is_none()
}

#[test]
fn a_guard_knows_its_token_and_its_deadline_and_excludes_others() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let before = Instant::now();
        let guard = client.lock("db", options(60, None)).await.unwrap();
        let deadline = guard.deadline().unwrap();
        assert!(guard.is_held() && deadline < Instant::now() + Duration::from_secs(60));
        assert!(deadline > before + Duration::from_secs(50));
        assert_eq!(guard.key(), format!("db/{:x}", guard.lease()).as_bytes());
        let shown = client.inspect_lock("db").await.unwrap().lock.unwrap();
        assert_eq!((shown.fencing_token, shown.holder_id.as_str()), (guard.token(), "tester"));
        assert_eq!(shown.metadata, "why");

        let refused = client.lock("db", options(60, Some(Duration::from_millis(50)))).await.unwrap_err();
        assert!(matches!(&refused, Error::LockHeld { token, .. } if *token == guard.token()), "{refused}");
        let leases = client.leases().await.unwrap().leases;
        assert_eq!(leases.len(), 1, "who was refused leaves no lease behind");

        guard.put(put("k")).await.unwrap();
        let request = TxnRequest::default();
        assert!(guard.txn(request).await.unwrap().succeeded);
        let delete = DeleteRangeRequest { key: "k".into(), ..Default::default() };
        assert_eq!(guard.delete(delete).await.unwrap().deleted, 1);
        let first = guard.token();
        guard.release().await.unwrap();
        assert!(client.leases().await.unwrap().leases.is_empty());
        let again = client.lock("db", options(60, Some(Duration::ZERO))).await.unwrap();
        assert!(again.token() > first);
    });
}

#[test]
fn after_loss_a_guard_says_so_and_writes_nothing() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        // Its lease is ended.
        let guard = client.lock("a b,c%", options(60, None)).await.unwrap();
        guard.put(put("before")).await.unwrap();
        client.revoke_lease(guard.lease()).await.unwrap();
        let next = client.lock("a b,c%", options(60, Some(Duration::ZERO))).await.unwrap();
        let refused = client.put_fenced(guard.fence(), put("after")).await.unwrap_err().to_string();
        let (old, new) =
            (format!("token {} does not hold", guard.token()), format!("token {} does", next.token()));
        assert!(refused.contains(&old) && refused.contains(&new), "{refused}");
        let lost = timeout(PATIENCE, guard.lost()).await.expect("it is told");
        assert!(matches!(lost, Error::LockLost { .. }) && !guard.is_held(), "{lost}");
        assert!(matches!(guard.put(put("after")).await, Err(Error::LockLost { .. })));
        assert!(matches!(guard.release().await, Err(Error::LockLost { .. })));
        next.put(put("next")).await.unwrap();

        // Its key is deleted, as an operator would do it.
        let delete = DeleteRangeRequest { key: next.key().to_vec().into(), ..Default::default() };
        client.delete(delete).await.unwrap();
        timeout(PATIENCE, next.lost()).await.expect("it is told");
        assert!(!next.is_held());
        assert_eq!((count(&client, "before").await, count(&client, "after").await), (1, 0));
    });
}

#[test]
fn who_is_dropped_gives_back_what_it_has() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let lease = client.grant_lease(60, 0).await.unwrap().response.id;
        let given = LockOptions { lease: Lease::Given(lease), ..options(60, None) };
        drop(client.lock("given", given.clone()).await.unwrap());
        drop(client.lock("own", options(60, None)).await.unwrap());
        client.wait_for_releases().await;
        assert!(is_free(&client, "given").await && is_free(&client, "own").await);
        let leases = client.leases().await.unwrap().leases;
        assert_eq!((leases.len(), leases[0].id), (1, lease), "a lease that was given is left alone");

        let guard = client.lock("given", given).await.unwrap();
        let waits = timeout(Duration::from_millis(100), client.lock("given", options(60, None)));
        assert!(waits.await.is_err());
        client.wait_for_releases().await;
        assert!(client.inspect_lock("given").await.unwrap().lock.unwrap().queue.is_empty());
        guard.release().await.unwrap();
        assert_eq!(client.time_to_live(lease, true).await.unwrap().keys.len(), 0);
    });
}

#[test]
fn who_waits_is_served_though_its_member_dies() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let holding = client_of(&members[1..]);
        let guard = holding.lock("l", options(60, None)).await.unwrap();
        let waiting = client_of(&members);
        let waiter = tokio::spawn(async move { waiting.lock("l", options(60, None)).await });
        while holding.inspect_lock("l").await.unwrap().lock.unwrap().queue.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        members[0].kill();
        let first = guard.token();
        guard.release().await.unwrap();
        let second = timeout(PATIENCE, waiter).await.expect("it is its turn").unwrap().unwrap();
        assert!(second.token() > first && second.is_held());
    });
}

#[test]
fn a_leader_proclaims_is_observed_and_resigns() {
    let member = Plan::single().start_ready();
    block_on(async {
        let client = client_of(std::slice::from_ref(&member));
        let own = Lease::Own { ttl_seconds: 60 };
        assert_eq!(client.leader(b"e").await.unwrap(), None);
        let first = client.campaign(b"e", b"one", own).await.unwrap();
        let mut observer = client.observe(b"e");
        assert_eq!(observer.next().await.unwrap().kv.unwrap().value, "one");
        first.proclaim(b"two").await.unwrap();
        assert_eq!(observer.next().await.unwrap().kv.unwrap().value, "two");
        assert_eq!(client.leader(b"e").await.unwrap().unwrap().value, "two");
        first.put(put("led")).await.unwrap();

        let candidate = client.clone();
        let second = tokio::spawn(async move { candidate.campaign(b"e", b"three", own).await.unwrap() });
        let fence = first.fence().clone();
        first.resign().await.unwrap();
        let second = timeout(PATIENCE, second).await.expect("it is its turn").unwrap();
        assert_eq!(observer.next().await.unwrap().kv.unwrap().value, "three");
        assert!(client.put_fenced(&fence, put("late")).await.is_err(), "a former leader writes nothing");
        client.revoke_lease(second.lease()).await.unwrap();
        timeout(PATIENCE, second.lost()).await.expect("it is told");
        assert!(second.proclaim(b"four").await.is_err());
    });
}
