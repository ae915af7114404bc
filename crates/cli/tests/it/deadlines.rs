//! Calls that cannot be carried out in time: the server says that a deadline has passed only after it has, because Go's
//! client sends a write a second time while its own clock still has time left; and a limit of the server's own is told as such.

use crate::etcd_surface::{framed, request};
use crate::process::{Member, Plan, until};
use crate::tour::block_on;
use bytes::Bytes;
use proto::etcdserverpb::{LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, request_op};
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::codegen::http::HeaderMap;

/// Shorter than an election, so that a paused leader is waited for.
const SHORT_MS: [u64; 3] = [1, 20, 100];
/// Longer than the server's own limit of a request.
const LONG: &str = "50S";

struct Answered {
    code: Code,
    message: String,
    after: Duration,
}

/// One call over a connection of its own, whose header alone says how long the caller waits: this side ends nothing.
async fn call(member: &Member, path: &str, message: Bytes, timeout: &str) -> Answered {
    let socket = tokio::net::TcpStream::connect(member.client).await.unwrap();
    let (sender, connection) = h2::client::handshake(socket).await.unwrap();
    let driver = tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let mut head = request(path);
    head.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
    let began = Instant::now();
    let (answer, mut body) = sender.send_request(head, false).unwrap();
    body.send_data(message, true).unwrap();
    let answer = answer.await.unwrap();
    let mut trailers = answer.headers().clone();
    let mut body = answer.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data.unwrap().len()).unwrap();
    }
    trailers.extend(body.trailers().await.unwrap().unwrap_or_default());
    let after = began.elapsed();
    driver.abort();
    let said = |name: &str| text(&trailers, name);
    Answered { code: Code::from_bytes(said("grpc-status").as_bytes()), message: said("grpc-message"), after }
}

fn text(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
}

/// Served on the connection's thread, and by the router.
fn calls() -> [(&'static str, Bytes); 4] {
    let put = PutRequest { key: "k".into(), value: "v".into(), ..Default::default() };
    let op = RequestOp { request: Some(request_op::Request::RequestPut(put.clone())) };
    [
        ("/etcdserverpb.KV/Put", framed(&put)),
        ("/etcdserverpb.KV/Txn", framed(&TxnRequest { success: vec![op], ..Default::default() })),
        ("/etcdserverpb.KV/Range", framed(&RangeRequest { key: "k".into(), ..Default::default() })),
        ("/etcdserverpb.Lease/LeaseGrant", framed(&LeaseGrantRequest { ttl: 60, ..Default::default() })),
    ]
}

/// Three members of which only the last can act: it follows a leader that stands still, and no other answers.
fn with_paused_majority() -> Vec<Member> {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let leader = until("a member leads", || members.iter().position(Member::leads));
    members.swap(leader, 0);
    members[..2].iter().for_each(|member| member.signal("STOP"));
    members
}

#[test]
fn no_answer_says_that_a_deadline_has_passed_before_it_has() {
    let members = with_paused_majority();
    let mut n_late = 0;
    for (path, message) in calls() {
        for ms in SHORT_MS {
            let answer = block_on(call(&members[2], path, message.clone(), &format!("{ms}m")));
            if answer.code != Code::DeadlineExceeded {
                assert_eq!(answer.code, Code::Unavailable, "{path}: {}", answer.message);
                continue;
            }
            n_late += 1;
            assert!(
                answer.after >= Duration::from_millis(ms),
                "{path} after {:?}, not {ms} ms",
                answer.after
            );
        }
    }
    assert!(n_late > 0, "no deadline passed");
}

#[test]
fn a_limit_of_the_servers_own_is_not_told_as_the_callers() {
    let members = with_paused_majority();
    for (path, message) in calls() {
        let answer = block_on(call(&members[2], path, message, LONG));
        assert_eq!(answer.code, Code::Unavailable, "{path}: {}", answer.message);
    }
}
