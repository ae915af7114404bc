//! The stream of lease events, and leases that are revoked when the connection of their client ends.

use crate::etcd::Etcd;
use crate::process::{Member, Plan};
use crate::tour::block_on;
use proto::althing::lease::v1::lease_event::Type;
use proto::althing::lease::v1::lease_service_client::LeaseServiceClient;
use proto::althing::lease::v1::{EventsRequest, EventsResponse};
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Streaming};

async fn listen(member: &Member, ids: Vec<i64>, warning_ms: i64) -> Events {
    let mut client = LeaseServiceClient::connect(member.endpoint()).await.unwrap();
    let mut stream = client.events(EventsRequest { ids, warning_ms }).await.unwrap().into_inner();
    let opened = stream.message().await.unwrap().unwrap();
    assert!(opened.events.is_empty() && opened.header.is_some());
    Events { stream, pending: VecDeque::new() }
}

/// Events that happen close together may come in one response.
struct Events {
    stream: Streaming<EventsResponse>,
    pending: VecDeque<(Type, i64)>,
}

async fn next(events: &mut Events) -> (Type, i64) {
    loop {
        if let Some(event) = events.pending.pop_front() {
            return event;
        }
        let response = events.stream.message().await.unwrap().unwrap();
        events.pending.extend(response.events.iter().map(|event| (event.r#type(), event.id)));
    }
}

async fn grant(etcd: &mut Etcd, id: i64, ttl: i64) {
    etcd.lease.lease_grant(LeaseGrantRequest { ttl, id }).await.unwrap();
}

async fn exists(etcd: &mut Etcd, id: i64) -> bool {
    let request = LeaseTimeToLiveRequest { id, keys: false };
    etcd.lease.lease_time_to_live(request).await.unwrap().into_inner().ttl >= 0
}

/// A stream that keeps a lease; it breaks when the sender and the connection are dropped.
async fn keep(
    member: &Member,
    id: i64,
    grace_ms: Option<&str>,
) -> (mpsc::Sender<LeaseKeepAliveRequest>, Etcd) {
    let mut etcd = member.etcd().await;
    let (sender, receiver) = mpsc::channel(4);
    sender.send(LeaseKeepAliveRequest { id }).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(receiver));
    if let Some(grace) = grace_ms {
        request.metadata_mut().insert("althing-revoke-on-disconnect", grace.parse().unwrap());
    }
    let mut answers = etcd.lease.lease_keep_alive(request).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().unwrap().ttl > 0);
    (sender, etcd)
}

#[test]
fn every_member_tells_what_happens_to_leases() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut streams = Vec::new();
        for member in &members {
            streams.push(listen(member, vec![], 6_000).await);
        }
        let mut only = listen(&members[1], vec![6], -1).await;
        let mut etcd = members[0].etcd().await;
        // Two seconds until the warning, and then six in which it can be renewed.
        grant(&mut etcd, 5, 8).await;
        grant(&mut etcd, 6, 600).await;
        let granted = Instant::now();
        for stream in &mut streams {
            assert_eq!(next(stream).await, (Type::Granted, 5));
            assert_eq!(next(stream).await, (Type::Granted, 6));
            assert_eq!(next(stream).await, (Type::Expiring, 5));
            assert!(granted.elapsed() > Duration::from_secs(1), "{:?}", granted.elapsed());
        }
        drop(keep(&members[2], 5, None).await);
        for stream in &mut streams {
            assert_eq!(next(stream).await, (Type::Renewed, 5));
            assert_eq!(next(stream).await, (Type::Expiring, 5));
            assert_eq!(next(stream).await, (Type::Expired, 5));
        }
        etcd.lease.lease_revoke(LeaseRevokeRequest { id: 6 }).await.unwrap();
        for stream in &mut streams {
            assert_eq!(next(stream).await, (Type::Revoked, 6));
        }
        assert_eq!(next(&mut only).await, (Type::Granted, 6));
        assert_eq!(next(&mut only).await, (Type::Revoked, 6), "without warnings, and of the one alone");
    });
}

#[test]
fn a_stream_of_events_ends_with_its_member() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut events = listen(&member, vec![], 0).await;
        member.signal("TERM");
        assert_eq!(events.stream.message().await.unwrap_err().code(), Code::Unavailable);
    });
    assert!(member.wait_exit().success());
}

#[test]
fn a_lease_goes_with_its_connection_only_when_that_was_asked_for() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for id in [5, 6, 7] {
            grant(&mut etcd, id, 600).await;
        }
        let mut events = listen(&member, vec![], -1).await;
        let stays = keep(&member, 5, None).await;
        let returns = keep(&member, 6, Some("8000")).await;
        let goes = keep(&member, 7, Some("300")).await;
        drop((stays, returns, goes));
        let returned = keep(&member, 6, None).await;
        assert_eq!(next(&mut events).await, (Type::Revoked, 7));
        // Longer than the grace of the one that came back.
        tokio::time::sleep(Duration::from_millis(9_000)).await;
        assert!(exists(&mut etcd, 5).await && exists(&mut etcd, 6).await && !exists(&mut etcd, 7).await);
        drop(returned);
    });
}

#[test]
fn a_grace_that_is_no_number_is_refused() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for grace in ["soon", "-1", "3600001"] {
            let mut request =
                Request::new(tonic::codegen::tokio_stream::iter(vec![LeaseKeepAliveRequest { id: 1 }]));
            request.metadata_mut().insert("althing-revoke-on-disconnect", grace.parse().unwrap());
            let refused = etcd.lease.lease_keep_alive(request).await.err().unwrap();
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        }
    });
}
