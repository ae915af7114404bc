//! What etcd's tools and client libraries see besides keys: prefixes, trailers, frames, alarms, downgrades, metrics.

use crate::process::{Plan, until};
use crate::tour::block_on;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{RangeRequest, WatchCreateRequest, WatchRequest};
use std::collections::BTreeSet;
use tokio::net::TcpStream;

/// The names that etcd 3.7 documents and its dashboards, alerts and tools read, and that Althing tells as well.
const METRICS: &[&str] = &[
    "etcd_cluster_version",
    "etcd_debugging_lease_granted_total",
    "etcd_debugging_lease_revoked_total",
    "etcd_debugging_mvcc_compact_revision",
    "etcd_debugging_mvcc_current_revision",
    "etcd_debugging_mvcc_db_compaction_keys_total",
    "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count",
    "etcd_debugging_mvcc_events_total",
    "etcd_debugging_mvcc_keys_total",
    "etcd_debugging_mvcc_pending_events_total",
    "etcd_debugging_mvcc_slow_watcher_total",
    "etcd_debugging_mvcc_total_put_size_in_bytes",
    "etcd_debugging_mvcc_watch_stream_total",
    "etcd_debugging_mvcc_watcher_total",
    "etcd_debugging_server_lease_expired_total",
    "etcd_disk_backend_commit_duration_seconds_bucket",
    "etcd_disk_backend_defrag_duration_seconds_bucket",
    "etcd_disk_backend_snapshot_duration_seconds_bucket",
    "etcd_disk_defrag_inflight",
    "etcd_disk_wal_fsync_duration_seconds_bucket",
    "etcd_disk_wal_write_bytes_total",
    "etcd_disk_wal_write_duration_seconds_bucket",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_mvcc_db_open_read_transactions",
    "etcd_mvcc_delete_total",
    "etcd_mvcc_hash_duration_seconds_bucket",
    "etcd_mvcc_hash_rev_duration_seconds_bucket",
    "etcd_mvcc_put_total",
    "etcd_mvcc_range_total",
    "etcd_mvcc_txn_total",
    "etcd_network_active_peers",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "etcd_network_disconnected_peers_total",
    "etcd_network_known_peers",
    "etcd_network_peer_received_bytes_total",
    "etcd_network_peer_round_trip_time_seconds_bucket",
    "etcd_network_peer_sent_bytes_total",
    "etcd_network_peer_sent_failures_total",
    "etcd_server_apply_duration_seconds_bucket",
    "etcd_server_client_requests_total",
    "etcd_server_has_leader",
    "etcd_server_health_failures",
    "etcd_server_health_success",
    "etcd_server_heartbeat_send_failures_total",
    "etcd_server_id",
    "etcd_server_is_leader",
    "etcd_server_is_learner",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_learner_promote_successes",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_failed_total",
    "etcd_server_proposals_pending",
    "etcd_server_quota_backend_bytes",
    "etcd_server_range_duration_seconds_bucket",
    "etcd_server_read_indexes_failed_total",
    "etcd_server_request_duration_seconds_bucket",
    "etcd_server_slow_apply_total",
    "etcd_server_slow_read_indexes_total",
    "etcd_server_version",
    "grpc_server_handled_total",
    "grpc_server_msg_received_total",
    "grpc_server_msg_sent_total",
    "grpc_server_started_total",
    "os_fd_limit",
    "os_fd_used",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_network_receive_bytes_total",
    "process_network_transmit_bytes_total",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
];

#[test]
fn metrics_have_etcds_names_and_count_what_etcd_counts() {
    let plans = Plan::cluster(2);
    let members: Vec<_> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(|member| member.wait_ready());
    let member = &members[0];
    let post =
        |path: &str, body: &str| assert_eq!(member.http_with("POST", path, body).status, 200, "{path}");
    let before = ["put", "delete", "range", "txn"].map(|op| member.metric(&format!("etcd_mvcc_{op}_total")));
    post("/v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#);
    post(
        "/v3/kv/txn",
        r#"{"success":[{"request_put":{"key":"Yg=="}},{"request_delete_range":{"key":"YQ=="}}]}"#,
    );
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.range(crate::etcd::get("b")).await.unwrap();
    });
    until("they are counted", || {
        let now = ["put", "delete", "range", "txn"].map(|op| member.metric(&format!("etcd_mvcc_{op}_total")));
        let more: Vec<f64> = now.iter().zip(before).map(|(now, before)| now - before).collect();
        // Probes read, too.
        (more[0] == 2.0 && more[1] == 1.0 && more[2] >= 1.0 && more[3] == 1.0).then_some(())
    });
    let missing = until("all names are there", || {
        let text = member.http("GET", "/metrics").body;
        let names: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.split(['{', ' ']).next())
            .filter(|name| *name != "#")
            .collect();
        let missing: Vec<&str> = METRICS.iter().filter(|name| !names.contains(**name)).copied().collect();
        // The first round trip is told when a peer has answered a ping.
        let waits = missing == ["etcd_network_peer_round_trip_time_seconds_bucket"];
        (!waits).then_some(missing)
    });
    assert_eq!(missing, Vec::<&str>::new());
    let text = member.http("GET", "/metrics").body;
    for line in [
        r#"etcd_server_client_requests_total{type="unary",client_api_version="unknown"}"#,
        r#"etcd_server_request_duration_seconds_bucket{le="0.001",type="Range",success="true"}"#,
        r#"op="Txn",success="true""#,
    ] {
        assert!(text.contains(line), "{line} is missing from {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("etcd_network_active_peers{") && line.ends_with(" 1")));
}

#[test]
fn the_gateways_old_prefixes_are_served() {
    let member = Plan::single().start_ready();
    for prefix in ["v3beta", "v3alpha", "v3"] {
        let put = member.http_with("POST", &format!("/{prefix}/kv/put"), r#"{"key":"YQ=="}"#);
        assert_eq!(put.status, 200, "{prefix}: {}", put.body);
    }
    assert_eq!(member.http_with("POST", "/v3beta/nothing", "{}").status, 404);
    assert_eq!(member.http_with("POST", "/v3gamma/kv/put", "{}").status, 404);
}

#[test]
fn locks_and_elections_with_an_unknown_lease_are_refused_as_by_etcd() {
    let member = Plan::single().start_ready();
    let refusal = r#"{"code":2,"message":"etcdserver: requested lease not found"}"#;
    for (path, body) in [
        ("/v3/lock/lock", r#"{"name":"YQ==","lease":"77"}"#),
        ("/v3/election/campaign", r#"{"name":"YQ==","lease":"77","value":"YQ=="}"#),
    ] {
        let answer = member.http_with("POST", path, body);
        assert_eq!((answer.status, answer.body.as_str()), (500, refusal), "{path}");
    }
    let snapshot = member.http_with("POST", "/v3/maintenance/snapshot", "{}").body;
    assert!(!snapshot.contains("\"header\""), "etcd's pieces have none");
    let status = member.http_with("POST", "/v3/maintenance/status", "{}").body;
    assert!(status.contains("\"dbSizeInUse\":\""), "{status}");
}

#[test]
fn alarms_of_clients_stay_until_a_client_clears_them() {
    let member = Plan::single().start_ready();
    let alarm = |body: &str| {
        let answer = member.http_with("POST", "/v3/maintenance/alarm", body).body;
        answer.split_once("},").map_or("{}".to_owned(), |(_, rest)| format!("{{{rest}"))
    };
    let id = |json: &str| {
        let (_, rest) = json.split_once("\"member_id\":\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let own = id(&member.http_with("POST", "/v3/cluster/member/list", "{}").body);
    for member_id in [own.as_str(), "5", "6"] {
        let raise = format!(r#"{{"action":"ACTIVATE","memberID":"{member_id}","alarm":"NOSPACE"}}"#);
        let told = format!(r#"{{"alarms":[{{"memberID":"{member_id}","alarm":"NOSPACE"}}]}}"#);
        assert_eq!(alarm(&raise), told);
    }
    let put = || {
        let answer = member.http_with("POST", "/v3/kv/put", r#"{"key":"YQ=="}"#);
        (answer.status, answer.body)
    };
    assert_eq!(put().0, 429);
    // The disk is looked at every tick, and the quota as well: neither clears them.
    let looks = member.metric("etcd_server_proposals_applied_total");
    member.http_with("POST", "/v3/kv/deleterange", r#"{"key":"eg=="}"#);
    until("time has passed", || (member.metric("etcd_server_proposals_applied_total") > looks).then_some(()));
    let all = alarm(r#"{"action":"GET"}"#);
    assert_eq!(all.matches("NOSPACE").count(), 3, "{all}");
    for member_id in [own.as_str(), "5", "6"] {
        let clear = format!(r#"{{"action":"DEACTIVATE","memberID":"{member_id}","alarm":"NOSPACE"}}"#);
        assert!(alarm(&clear).contains(member_id), "the alarm that was cleared is told");
        assert_eq!(alarm(&clear), "{}", "and nothing is left to clear");
    }
    assert_eq!(put().0, 200);

    assert!(alarm(r#"{"action":"ACTIVATE","memberID":"7","alarm":"CORRUPT"}"#).contains("CORRUPT"));
    assert_eq!(put(), (500, r#"{"code":15,"message":"etcdserver: corrupt cluster"}"#.to_owned()));
    assert_eq!(member.http_with("POST", "/v3/kv/range", r#"{"key":"YQ=="}"#).status, 200);
    assert!(member.http("GET", "/health").body.contains("ALARM CORRUPT"));
    let ready = member.http("GET", "/readyz");
    assert!(ready.body.contains("[-]data_corruption failed: alarm activated: CORRUPT"), "{}", ready.body);
    let status = member.http_with("POST", "/v3/maintenance/status", "{}").body;
    assert!(status.contains("memberID:7 alarm:CORRUPT"), "{status}");
    assert!(alarm(r#"{"action":"DEACTIVATE","memberID":"7","alarm":"CORRUPT"}"#).contains("CORRUPT"));
    assert_eq!(put().0, 200);
}

#[test]
fn a_downgrade_is_validated_enabled_and_cancelled() {
    let member = Plan::single().start_ready();
    let ask = |body: &str| {
        let answer = member.http_with("POST", "/v3/maintenance/downgrade", body);
        (answer.status, answer.body)
    };
    let refusal =
        |status, code, message: &str| (status, format!(r#"{{"code":{code},"message":"{message}"}}"#));
    assert!(ask(r#"{"action":"VALIDATE","version":"3.6"}"#).1.ends_with(r#""version":"3.7"}"#));
    assert_eq!(
        ask(r#"{"action":"VALIDATE","version":"3.5.0"}"#),
        refusal(400, 3, "etcdserver: invalid downgrade target version")
    );
    assert_eq!(
        ask(r#"{"action":"VALIDATE","version":"x"}"#),
        refusal(400, 3, "etcdserver: wrong downgrade target version format")
    );
    assert_eq!(ask(r#"{"action":"ENABLE","version":"3.6.0"}"#).0, 200);
    assert_eq!(
        ask(r#"{"action":"ENABLE","version":"3.6.0"}"#),
        refusal(400, 9, "etcdserver: cluster has a downgrade job in progress")
    );
    let status = member.http_with("POST", "/v3/maintenance/status", "{}").body;
    assert!(status.contains(r#""downgradeInfo":{"enabled":true,"targetVersion":"3.6.0"}"#), "{status}");
    assert_eq!(ask(r#"{"action":"CANCEL"}"#).0, 200);
    assert_eq!(ask(r#"{"action":"CANCEL"}"#).0, 200, "none under way is no error");
    assert_eq!(ask(r#"{"action":"ENABLE","version":"3.6"}"#).0, 200);
    let vars = member.http("GET", "/debug/vars").body;
    assert!(vars.contains(r#""raft.status":{"id":""#) && vars.contains("file_descriptor_limit"), "{vars}");
}

pub fn framed(message: &impl Message) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.encoded_len() as u32);
    message.encode(&mut frame).unwrap();
    frame.freeze()
}

pub fn request(path: &str) -> tonic::codegen::http::Request<()> {
    tonic::codegen::http::Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

#[test]
fn trailers_and_frames_are_those_of_grpc_go() {
    let member = Plan::single().start_ready();
    assert_eq!(member.http_with("POST", "/v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#).status, 200);
    block_on(async {
        let socket = TcpStream::connect(member.client).await.unwrap();
        let (sender, connection) = h2::client::handshake(socket).await.unwrap();
        let driver = tokio::spawn(connection);
        let mut sender = sender.ready().await.unwrap();

        let (answer, mut body) = sender.send_request(request("/etcdserverpb.KV/Range"), false).unwrap();
        body.send_data(framed(&RangeRequest { key: "a".into(), ..Default::default() }), true).unwrap();
        let mut answer = answer.await.unwrap().into_body();
        while let Some(data) = answer.data().await {
            answer.flow_control().release_capacity(data.unwrap().len()).unwrap();
        }
        let trailers = answer.trailers().await.unwrap().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["grpc-message"]),
            (&"0".parse().unwrap(), &"".parse().unwrap())
        );

        for path in ["/etcdserverpb.KV/Range", "/etcdserverpb.KV/Compact"] {
            let (answer, mut body) = sender.send_request(request(path), false).unwrap();
            body.send_data(framed(&RangeRequest::default()), true).unwrap();
            let answer = answer.await.unwrap();
            let message = answer.headers()["grpc-message"].to_str().unwrap().to_owned();
            assert!(message.starts_with("etcdserver: ") && !message.contains('%'), "{message}");
        }

        let create = WatchCreateRequest { key: "a".into(), start_revision: 2, ..Default::default() };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let (answer, mut body) = sender.send_request(request("/etcdserverpb.Watch/Watch"), false).unwrap();
        body.send_data(framed(&create), false).unwrap();
        let mut answer = answer.await.unwrap().into_body();
        for _ in 0..2 {
            let data = answer.data().await.unwrap().unwrap();
            let len = u32::from_be_bytes(data[1..5].try_into().unwrap()) as usize;
            assert_eq!(data.len(), 5 + len, "one message in each frame");
        }
        driver.abort();
    });
}
