//! Stopping: SIGTERM loses nothing that was acknowledged, and impatience is possible.

use crate::etcd::{Etcd, get, put};
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WRITERS: usize = 16;
/// Acknowledged writes after which the signal is sent.
const ENOUGH: usize = 300;

/// Writes until the member is gone; returns the keys that were acknowledged.
async fn write_until_refused(mut etcd: Etcd, writer: usize, acked: Arc<AtomicUsize>) -> Vec<String> {
    let mut keys = vec![];
    for i in 0.. {
        let key = format!("{writer}/{i}");
        match tokio::time::timeout(PATIENCE, etcd.put(put(key.clone(), "value"))).await {
            Ok(Ok(_)) => keys.push(key),
            _ => break,
        }
        acked.fetch_add(1, Ordering::Relaxed);
    }
    keys
}

async fn load_until_terminated(member: &Member) -> Vec<String> {
    let acked = Arc::new(AtomicUsize::new(0));
    let mut writers = vec![];
    for writer in 0..WRITERS {
        writers.push(tokio::spawn(write_until_refused(member.etcd().await, writer, acked.clone())));
    }
    while acked.load(Ordering::Relaxed) < ENOUGH {
        tokio::task::yield_now().await;
    }
    member.signal("TERM");
    let mut keys = vec![];
    for writer in writers {
        keys.extend(writer.await.unwrap());
    }
    keys
}

#[test]
fn sigterm_under_load_loses_nothing_and_exits_cleanly() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    let acked = block_on(load_until_terminated(&member));
    assert!(member.wait_exit().success());
    assert!(acked.len() >= ENOUGH);

    let again = plan.start_ready();
    block_on(async {
        let mut etcd = again.etcd().await;
        for key in acked {
            assert_eq!(etcd.range(get(key.clone())).await.unwrap().count, 1, "{key} was acknowledged");
        }
    });
}

#[test]
fn an_idle_member_stops_at_once_on_sigint() {
    let mut member = Plan::single().start_ready();
    member.signal("INT");
    assert!(member.wait_exit().success());
}

/// Opens a request that never ends, so that draining has something to wait for.
fn hang(member: &Member) -> TcpStream {
    let mut stream = TcpStream::connect(member.client).unwrap();
    let head = "POST /etcdserverpb.KV/Put HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\n\
                content-length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[0, 0, 0, 0, 95]).unwrap();
    // Answered only after the request above has been taken up.
    member.http("GET", "/health");
    stream
}

#[test]
fn a_request_that_never_ends_holds_up_draining_no_longer_than_allowed() {
    let mut member = Plan::single().with(&["--drain-timeout-ms", "100"]).start_ready();
    let _stream = hang(&member);
    member.signal("TERM");
    assert!(member.wait_exit().success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut member = Plan::single().with(&["--drain-timeout-ms", "600000"]).start_ready();
    let _stream = hang(&member);
    member.signal("TERM");
    crate::process::until("the second signal is heard", || {
        if member.is_running() {
            member.signal("TERM");
            None
        } else {
            Some(())
        }
    });
    assert_eq!(member.wait_exit().code(), Some(1));
}
