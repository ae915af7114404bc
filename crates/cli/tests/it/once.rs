//! Requests with an identity of their client's: sent again, through another member and after a failover, they are
//! carried out once.

use crate::etcd::{Answer, Etcd, delete, get, op, put};
use crate::locks::{ask, connect, lease};
use crate::process::{Member, Plan, until};
use crate::tour::block_on;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest, PutRequest, PutResponse, TxnRequest};
use std::io::{Read, Write};
use std::net::TcpStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Response};

fn identified<T>(message: T, id: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("althing-request-id", id.parse().unwrap());
    request
}

async fn kv(member: &Member) -> KvClient<Channel> {
    KvClient::connect(member.endpoint()).await.unwrap()
}

async fn grant(etcd: &mut Etcd, id: i64) {
    etcd.lease.lease_grant(LeaseGrantRequest { ttl: 600, id }).await.unwrap();
}

async fn put_once(kv: &mut KvClient<Channel>, id: &str, put: PutRequest) -> Answer<PutResponse> {
    kv.put(identified(put, id)).await.map(Response::into_inner)
}

fn revision(answer: Answer<PutResponse>) -> i64 {
    answer.unwrap().header.unwrap().revision
}

fn refusal<T>(answer: Answer<T>) -> (Code, String) {
    let status = answer.err().unwrap();
    (status.code(), status.message().to_owned())
}

#[test]
fn a_fenced_write_that_is_sent_again_is_answered_as_at_first() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let (mut kv, mut locks) = (kv(&member).await, connect(&member).await);
        grant(&mut etcd, 5).await;
        let (holder, next) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let held = locks.lock(ask("l", holder, None)).await.unwrap().into_inner();
        let fenced = |id: &str, value: &'static str| {
            let mut request = identified(put("k", value), id);
            let fence = format!("lock=l,token={}", held.fencing_token);
            request.metadata_mut().insert("althing-fence", fence.parse().unwrap());
            request
        };
        let first = kv.put(fenced("5-1", "held")).await.unwrap().into_inner();
        etcd.lease.lease_revoke(LeaseRevokeRequest { id: holder }).await.unwrap();
        let stale = refusal(kv.put(fenced("5-2", "late")).await);
        assert!(stale.1.ends_with("the lock is free"), "{stale:?}");

        locks.lock(ask("l", next, None)).await.unwrap();
        assert_eq!(kv.put(fenced("5-1", "held")).await.unwrap().into_inner(), first);
        assert_eq!(refusal(kv.put(fenced("5-2", "late")).await), stale, "also a refusal is kept");
        assert!(refusal(kv.put(fenced("5-3", "late")).await).1.contains("does not hold"));
        assert_eq!(refusal(put_once(&mut kv, "5-1", put("k", "held")).await).0, Code::InvalidArgument);
        assert_eq!(etcd.range(get("k")).await.unwrap().kvs[0].value, "held");
    });
}

#[test]
fn every_call_that_changes_something_may_be_sent_again() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut kv = kv(&member).await;
        grant(&mut etcd, 5).await;
        let with_prev = PutRequest { prev_kv: true, ..put("k", "1") };
        let first = put_once(&mut kv, "5-1", with_prev.clone()).await.unwrap();
        etcd.put(put("k", "2")).await.unwrap();
        assert_eq!(put_once(&mut kv, "5-1", with_prev).await.unwrap(), first);
        assert_eq!(etcd.range(get("k")).await.unwrap().kvs[0].value, "2");

        let txn = TxnRequest { success: vec![op(Op::RequestPut(put("k", "3")))], ..Default::default() };
        let first = kv.txn(identified(txn.clone(), "5-2")).await.unwrap().into_inner();
        assert_eq!(kv.txn(identified(txn, "5-2")).await.unwrap().into_inner(), first);
        let first = kv.delete_range(identified(delete("k"), "5-3")).await.unwrap().into_inner();
        assert_eq!(first.deleted, 1);
        assert_eq!(kv.delete_range(identified(delete("k"), "5-3")).await.unwrap().into_inner(), first);

        let open = LeaseGrantRequest { ttl: 600, id: 0 };
        let lease = etcd.lease.lease_grant(identified(open, "5-4")).await.unwrap().into_inner();
        assert_eq!(etcd.lease.lease_grant(identified(open, "5-4")).await.unwrap().into_inner(), lease);
        let revoke = LeaseRevokeRequest { id: lease.id };
        for _ in 0..2 {
            etcd.lease.lease_revoke(identified(revoke, "5-5")).await.unwrap();
        }
    });
}

#[test]
fn what_cannot_be_known_is_refused_and_never_carried_out() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut kv = kv(&member).await;
        let unknown = (Code::FailedPrecondition, "etcdserver: request id belongs to no session".to_owned());
        assert_eq!(refusal(put_once(&mut kv, "5-1", put("k", "1")).await), unknown);
        grant(&mut etcd, 5).await;
        put_once(&mut kv, "5-1", put("k", "1")).await.unwrap();
        let reused =
            (Code::InvalidArgument, "etcdserver: request id was used for another request".to_owned());
        assert_eq!(refusal(put_once(&mut kv, "5-1", put("k", "2")).await), reused);
        put_once(&mut kv, "5-7-7", put("k", "7")).await.unwrap();
        let below =
            (Code::FailedPrecondition, "etcdserver: request id is below the session's window".to_owned());
        assert_eq!(refusal(put_once(&mut kv, "5-1", put("k", "1")).await), below);
        let malformed = (Code::InvalidArgument, "etcdserver: malformed request id".to_owned());
        assert_eq!(refusal(put_once(&mut kv, "5-1-2", put("k", "1")).await), malformed);
        assert_eq!(etcd.range(get("k")).await.unwrap().kvs[0].version, 2);
    });
}

#[test]
fn of_a_reply_that_is_too_large_the_revision_is_told() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut kv = kv(&member).await;
        grant(&mut etcd, 5).await;
        etcd.put(put("k", vec![b'x'; 10_000])).await.unwrap();
        let with_prev = PutRequest { prev_kv: true, ..put("k", "1") };
        let first = revision(put_once(&mut kv, "5-1", with_prev.clone()).await);
        let status = put_once(&mut kv, "5-1", with_prev).await.err().unwrap();
        assert_eq!(status.message(), "etcdserver: request was carried out, its reply was too large to keep");
        assert_eq!(status.metadata().get("althing-revision").unwrap(), first.to_string().as_str());
    });
}

#[test]
fn the_gateway_takes_the_id_as_a_header() {
    let member = Plan::single().start_ready();
    block_on(async { grant(&mut member.etcd().await, 5).await });
    let address = member.endpoint().replace("http://", "");
    let post = || {
        let body = r#"{"key":"aw==","value":"dg=="}"#;
        let mut stream = TcpStream::connect(&address).unwrap();
        let head =
            "POST /v3/kv/put HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nalthing-request-id: 5-1";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let first = post();
    assert!(first.contains(r#""revision":"2""#), "{first}");
    assert_eq!(post(), first);
}

#[test]
fn a_request_is_carried_out_once_though_its_leader_dies_and_all_restart() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let first = block_on(async {
        grant(&mut members[0].etcd().await, 5).await;
        revision(put_once(&mut kv(&members[0]).await, "5-1", put("k", "1")).await)
    });
    let leader = until("a leader", || members.iter().position(Member::leads));
    members[leader].kill();
    let other = (leader + 1) % 3;
    block_on(async {
        let again = until_answered(&members[other], put("k", "1")).await;
        assert_eq!(again, first);
    });
    members.iter_mut().for_each(Member::kill);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        for member in &members {
            assert_eq!(until_answered(member, put("k", "1")).await, first);
        }
        let mut etcd = members[0].etcd().await;
        assert_eq!(etcd.range(get("k")).await.unwrap().kvs[0].version, 1);
    });
}

/// The same request again and again, which is what it is for.
async fn until_answered(member: &Member, put: PutRequest) -> i64 {
    loop {
        match put_once(&mut kv(member).await, "5-1", put.clone()).await {
            Ok(answer) => return answer.header.unwrap().revision,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
    }
}
