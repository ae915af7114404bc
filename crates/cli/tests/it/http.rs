//! The plain HTTP side of the client port.

use crate::etcd::put;
use crate::process::Plan;
use crate::tour::block_on;

#[test]
fn probes_answer_as_etcds_do() {
    let member = Plan::single().start_ready();
    let health = member.http("GET", "/health");
    assert_eq!(health.body, r#"{"health":"true","reason":""}"#);
    assert!(health.head.contains("content-type: application/json"), "{}", health.head);
    assert_eq!(member.http("GET", "/health?serializable=true&exclude=NOSPACE").status, 200);

    assert_eq!(member.http("GET", "/livez").body, "ok\n");
    assert_eq!(member.http("GET", "/readyz").body, "ok\n");
    let verbose = member.http("GET", "/readyz?verbose").body;
    assert_eq!(
        verbose,
        "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n"
    );
    assert_eq!(member.http("GET", "/readyz/linearizable_read").body, "ok\n");
    assert_eq!(member.http("GET", "/readyz/non_learner?verbose").body, "[+]non_learner ok\nok\n");
    assert_eq!(
        member.http("GET", "/readyz?verbose&exclude=linearizable_read&exclude=non_learner").body,
        "[+]data_corruption ok\n[+]serializable_read ok\nok\n"
    );
    assert_eq!(member.http("GET", "/livez/no_such_check").status, 404);

    let version = member.http("GET", "/version").body;
    assert!(version.starts_with(r#"{"etcdserver":"3."#), "{version}");
    assert!(version.contains(r#""etcdcluster":"3."#), "{version}");
}

#[test]
fn metrics_have_etcds_names_and_count_calls() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.put(put("a", "1")).await.unwrap();
        etcd.put(put("", "1")).await.unwrap_err();
    });
    member.http("GET", "/readyz");
    let metrics = member.http("GET", "/metrics").body;
    assert!(metrics.ends_with("# EOF\n"));
    assert_eq!(metrics.matches("# EOF").count(), 1);
    let put = r#"grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Put""#;
    for line in [
        format!("grpc_server_started_total{{{put}}} 2"),
        format!(r#"grpc_server_handled_total{{{put},grpc_code="OK"}} 1"#),
        format!(r#"grpc_server_handled_total{{{put},grpc_code="InvalidArgument"}} 1"#),
        r#"etcd_server_healthcheck{type="readyz",name="linearizable_read"} 1"#.to_owned(),
        "etcd_debugging_mvcc_keys_total 1".to_owned(),
        "etcd_server_has_leader 1".to_owned(),
        "etcd_server_is_learner 0".to_owned(),
        "etcd_server_slow_apply_total 0".to_owned(),
        "etcd_server_slow_read_indexes_total 0".to_owned(),
        "etcd_server_read_indexes_failed_total 0".to_owned(),
        "etcd_debugging_server_lease_expired_total 0".to_owned(),
        "etcd_debugging_mvcc_events_total 0".to_owned(),
        "etcd_debugging_mvcc_pending_events_total 0".to_owned(),
        "etcd_debugging_mvcc_db_compaction_keys_total 0".to_owned(),
        "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count 0".to_owned(),
        format!("grpc_server_msg_received_total{{{put}}} 2"),
        format!("grpc_server_msg_sent_total{{{put}}} 1"),
        r#"etcd_cluster_version{cluster_version="3.7"} 1"#.to_owned(),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing from {metrics}");
    }
    for name in [
        "etcd_network_client_grpc_received_bytes_total",
        "etcd_network_client_grpc_sent_bytes_total",
        "etcd_server_health_success",
        "etcd_server_quota_backend_bytes",
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "os_fd_limit",
    ] {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        let value: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(value > 0.0, "{line}");
    }
}

#[test]
fn every_question_for_health_is_counted_once() {
    let member = Plan::single().start_ready();
    let count = |name: &str| {
        let metrics = member.http("GET", "/metrics").body;
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
    };
    // The readiness check may have called too early, so only the difference is known.
    let (well, unwell) = (count("etcd_server_health_success"), count("etcd_server_health_failures"));
    assert_eq!(member.http("GET", "/health").status, 200);
    assert_eq!(count("etcd_server_health_success"), well + 1);
    assert_eq!(count("etcd_server_health_failures"), unwell);
}

#[test]
fn a_wrong_method_or_path_is_refused() {
    let member = Plan::single().start_ready();
    for path in ["/health", "/livez", "/readyz", "/version", "/metrics"] {
        let refused = member.http("POST", path);
        assert_eq!(refused.status, 405, "{path}");
        assert!(refused.head.contains("allow: get"), "{path}: {}", refused.head);
    }
    assert_ne!(member.http("GET", "/nothing/here").status, 200);
}

#[test]
fn a_member_without_its_quorum_says_so() {
    let lonely = Plan::cluster(3).remove(0).start();
    let health = lonely.http("GET", "/health");
    assert_eq!(
        (health.status, health.body.as_str()),
        (503, r#"{"health":"false","reason":"RAFT NO LEADER"}"#)
    );
    assert_eq!(lonely.http("GET", "/health?serializable=true").status, 200);
    assert_eq!(lonely.http("GET", "/livez").status, 200);
    assert_eq!(lonely.http("GET", "/readyz").status, 503);
}

#[test]
fn starting_is_told_in_one_line_with_the_endpoints() {
    let plan = Plan::single();
    let member = plan.start();
    assert!(member.announced.contains("member m0"), "{}", member.announced);
    assert!(member.announced.contains(&format!("peers on 127.0.0.1:{}", plan.peer_port)));
}
