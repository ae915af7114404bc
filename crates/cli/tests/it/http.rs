//! The plain HTTP side of the client port.

use crate::process::Plan;

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
    assert_eq!(verbose, "[+]serializable_read ok\n[+]linearizable_read ok\nok\n");
    assert_eq!(member.http("GET", "/readyz/linearizable_read").body, "ok\n");
    assert_eq!(member.http("GET", "/livez/no_such_check").status, 404);

    let version = member.http("GET", "/version").body;
    assert!(version.starts_with(r#"{"etcdserver":"3."#), "{version}");
    assert!(version.contains(r#""etcdcluster":"3."#), "{version}");
    assert!(member.http("GET", "/metrics").body.ends_with("# EOF\n"));
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
