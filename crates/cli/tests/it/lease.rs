//! Leases as clients meet them: on one member, and on three with questions sent to each.

use crate::etcd::{Answer, Etcd, get, put};
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseRevokeRequest,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest,
};
use std::time::{Duration, Instant};
use tonic::{Code, Response, Status};

async fn grant(etcd: &mut Etcd, id: i64, ttl: i64) -> Answer<LeaseGrantResponse> {
    etcd.lease.lease_grant(LeaseGrantRequest { ttl, id }).await.map(Response::into_inner)
}

async fn revoke(etcd: &mut Etcd, id: i64) -> Answer<()> {
    etcd.lease.lease_revoke(LeaseRevokeRequest { id }).await.map(drop)
}

async fn left(etcd: &mut Etcd, id: i64) -> LeaseTimeToLiveResponse {
    let request = LeaseTimeToLiveRequest { id, keys: true };
    etcd.lease.lease_time_to_live(request).await.unwrap().into_inner()
}

async fn keep_alive(etcd: &mut Etcd, ids: &[i64]) -> Vec<i64> {
    let requests: Vec<_> = ids.iter().map(|id| LeaseKeepAliveRequest { id: *id }).collect();
    let stream = tonic::codegen::tokio_stream::iter(requests);
    let mut answers = etcd.lease.lease_keep_alive(stream).await.unwrap().into_inner();
    let mut ttls = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        assert_eq!(answer.id, ids[ttls.len()]);
        ttls.push(answer.ttl);
    }
    ttls
}

async fn list(etcd: &mut Etcd) -> Vec<i64> {
    let answer = etcd.lease.lease_leases(LeaseLeasesRequest {}).await.unwrap().into_inner();
    answer.leases.into_iter().map(|lease| lease.id).collect()
}

fn refusal<T>(answer: Answer<T>) -> (Code, String) {
    let status: Status = answer.err().unwrap();
    (status.code(), status.message().to_owned())
}

#[test]
fn a_lease_is_granted_kept_shown_and_revoked() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        // The least is one and a half of the tests' short elections, in whole seconds.
        let chosen = grant(&mut etcd, 0, 0).await.unwrap();
        assert!(chosen.id > 0);
        assert_eq!((chosen.ttl, chosen.header.unwrap().revision), (1, 1));
        assert_eq!(grant(&mut etcd, 9, 600).await.unwrap().ttl, 600);
        let exists = (Code::FailedPrecondition, "etcdserver: lease already exists".to_owned());
        assert_eq!(refusal(grant(&mut etcd, 9, 600).await), exists);
        let large = (Code::OutOfRange, "etcdserver: too large lease TTL".to_owned());
        assert_eq!(refusal(grant(&mut etcd, 10, 9_000_000_001).await), large);

        for key in ["b", "a"] {
            etcd.put(PutRequest { lease: 9, ..put(key, "v") }).await.unwrap();
        }
        let time = left(&mut etcd, 9).await;
        assert_eq!((time.granted_ttl, time.keys), (600, vec!["a".into(), "b".into()]));
        assert!((590..=600).contains(&time.ttl), "{}", time.ttl);
        assert_eq!(keep_alive(&mut etcd, &[9, 77, 9]).await, [600, 0, 600]);
        revoke(&mut etcd, 9).await.unwrap();
        assert_eq!(etcd.range(get("a")).await.unwrap().count, 0);
        let unknown = (Code::NotFound, "etcdserver: requested lease not found".to_owned());
        assert_eq!(refusal(revoke(&mut etcd, 9).await), unknown);
        assert_eq!(left(&mut etcd, 9).await.ttl, -1);
    });
}

#[test]
fn any_member_of_three_keeps_a_lease_alive_and_it_expires_without_keep_alives() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut clients = Vec::new();
        for member in &members {
            clients.push(member.etcd().await);
        }
        const TTL: u64 = 8;
        grant(&mut clients[0], 5, TTL as i64).await.unwrap();
        clients[1].put(PutRequest { lease: 5, ..put("k", "v") }).await.unwrap();
        let start = Instant::now();
        // Longer than it lives by itself.
        for turn in (0..3).cycle() {
            assert_eq!(keep_alive(&mut clients[turn], &[5]).await, [TTL as i64]);
            assert_eq!(list(&mut clients[turn]).await, [5]);
            assert!(left(&mut clients[turn], 5).await.ttl > 0);
            if start.elapsed() > Duration::from_secs(TTL + 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let last = Instant::now();
        assert_eq!(keep_alive(&mut clients[2], &[5]).await, [TTL as i64]);
        while clients[1].range(get("k")).await.unwrap().count > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let lived = last.elapsed();
        assert!(lived >= Duration::from_secs(TTL), "too early: {lived:?}");
        assert!(lived < PATIENCE, "too late: {lived:?}");
        assert!(list(&mut clients[0]).await.is_empty());
        assert_eq!(keep_alive(&mut clients[1], &[5]).await, [0]);
    });
}

#[test]
fn leases_survive_a_restart_and_compaction_does_too() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        grant(&mut etcd, 5, 600).await.unwrap();
        for value in 0..20 {
            etcd.put(PutRequest { lease: 5, ..put("k", value.to_string()) }).await.unwrap();
        }
        etcd.compact(15).await.unwrap();
    });
    member.signal("KILL");
    member.wait_exit();
    let member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        assert_eq!(left(&mut etcd, 5).await.keys, ["k"]);
        let at = |revision| proto::etcdserverpb::RangeRequest { revision, ..get("k") };
        assert_eq!(etcd.range(at(15)).await.unwrap().kvs[0].value, "13");
        assert_eq!(refusal(etcd.range(at(14)).await).0, Code::OutOfRange);
        assert_eq!(refusal(etcd.compact(15).await).0, Code::OutOfRange);
    });
}
