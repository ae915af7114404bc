//! The JSON gateway as curl meets it: names, numbers, statuses and words are those of etcd.

use crate::process::{PATIENCE, Plan, http_at, until};
use differ::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// Listening when this returns.
fn start_etcd(binary: &str) -> Server {
    let etcd = Server::etcd(std::path::Path::new(binary)).unwrap();
    let address: SocketAddr = etcd.endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    until("etcd listens", || TcpStream::connect(address).ok());
    etcd
}

fn without_ids(body: &str) -> String {
    // The header is first; what it says of cluster, member and term differs from run to run.
    let mut out = String::new();
    let mut rest = body;
    for field in ["\"cluster_id\":\"", "\"member_id\":\"", "\"raft_term\":\""] {
        let Some((before, after)) = rest.split_once(field) else { continue };
        let (_, after) = after.split_once('"').unwrap();
        out.push_str(before);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    out + rest
}

#[test]
fn keys_are_written_and_read_as_json() {
    let member = Plan::single().start_ready();
    let post = |path: &str, body: &str| {
        let answer = member.http_with("POST", path, body);
        (answer.status, without_ids(&answer.body))
    };
    let ok = |body: &str| (200, body.to_owned());

    assert_eq!(
        post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy","bogus":1}"#),
        ok(r#"{"header":{"revision":"2",}}"#)
    );
    let foo = r#"{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"YmFy"}"#;
    assert_eq!(
        post("/v3/kv/range", r#"{"key":"AA==","rangeEnd":"AA==","sortOrder":"ASCEND","limit":"5"}"#),
        ok(&format!(r#"{{"header":{{"revision":"2",}},"kvs":[{foo}],"count":"1"}}"#))
    );
    assert_eq!(
        post(
            "/v3/kv/txn",
            r#"{"compare":[{"target":"VERSION","key":"Zm9v","version":"1","result":"EQUAL"}],
                "success":[{"requestRange":{"key":"Zm9v"}}]}"#
        ),
        ok(&format!(
            r#"{{"header":{{"revision":"2",}},"succeeded":true,"responses":[{{"response_range":{{"header":{{"revision":"2"}},"kvs":[{foo}],"count":"1"}}}}]}}"#
        ))
    );
    assert_eq!(
        post("/v3/kv/deleterange", r#"{"key":"Zm9v","prev_kv":true}"#),
        ok(&format!(r#"{{"header":{{"revision":"3",}},"deleted":"1","prev_kvs":[{foo}]}}"#))
    );
}

#[test]
fn the_cluster_and_its_members_are_told_as_json() {
    let member = Plan::single().start_ready();
    let post = |path: &str| member.http_with("POST", path, "{}").body;
    let members = post("/v3/cluster/member/list");
    assert!(members.contains(r#""name":"m0","peerURLs":["https://127.0.0.1:"#), "{members}");
    assert!(members.contains(&format!(r#""clientURLs":["{}"]"#, member.endpoint())), "{members}");
    let status = post("/v3/maintenance/status");
    assert!(status.contains(r#""version":"3.7.0","dbSize":""#), "{status}");
    assert_eq!(without_ids(&post("/v3/maintenance/alarm")), r#"{"header":{"revision":"1",}}"#);
    assert_eq!(without_ids(&post("/v3/maintenance/defragment")), "{}");
    let hash = without_ids(&post("/v3/maintenance/hashkv"));
    let (head, tail) =
        (r#"{"header":{"revision":"1",},"hash":"#, r#","compact_revision":"-1","hash_revision":"1"}"#);
    let number = hash.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    assert!(number.is_some_and(|number| number.parse::<u32>().unwrap() != 0), "of nothing: {hash}");
    member.http_with("POST", "/v3/kv/put", r#"{"key":"Zm9v"}"#);
    for path in ["/v3/maintenance/hash", "/v3/maintenance/hashkv"] {
        assert!(post(path).contains(r#""hash":"#), "{path}");
    }
}

#[test]
fn refusals_are_json_with_the_status_of_their_code() {
    let member = Plan::single().start_ready();
    let post = |path: &str, body: &str| {
        let answer = member.http_with("POST", path, body);
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        (answer.status, answer.body)
    };
    let refusal =
        |status, code, message: &str| (status, format!(r#"{{"code":{code},"message":"{message}"}}"#));
    assert_eq!(post("/v3/kv/range", ""), refusal(400, 3, "etcdserver: key is not provided"));
    assert_eq!(
        post("/v3/kv/range", r#"{"key":"Zm9v","revision":"99"}"#),
        refusal(400, 11, "etcdserver: mvcc: required revision is a future revision")
    );
    assert_eq!(
        post("/v3/kv/put", r#"{"key":"Zm9v","lease":"7"}"#),
        refusal(404, 5, "etcdserver: requested lease not found")
    );
    assert_eq!(
        post("/v3/maintenance/transfer-leadership", r#"{"targetID":"5"}"#),
        refusal(400, 9, "etcdserver: bad leader transferee")
    );
    assert_eq!(post("/v3/kv/range", "{nojson").0, 400);
    assert_eq!(
        post("/v3/cluster/member/add", r#"{"peerURLs":["nonsense"]}"#),
        refusal(400, 3, "etcdserver: given member URLs are invalid")
    );
    assert_eq!(
        post("/v3/cluster/member/remove", r#"{"ID":"5"}"#),
        refusal(404, 5, "etcdserver: member not found")
    );

    let large = format!(r#"{{"key":"Zm9v","value":"{}"}}"#, "AAAA".repeat(600_000));
    assert_eq!(post("/v3/kv/put", &large), refusal(400, 3, "etcdserver: request is too large"));
}

#[test]
fn a_wrong_method_or_path_is_refused_as_grpc_gateway_does() {
    let member = Plan::single().start_ready();
    let refused = member.http("GET", "/v3/kv/range");
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (501, r#"{"code":12,"message":"Method Not Allowed"}"#)
    );
    let refused = member.http_with("POST", "/v3/nothing", "{}");
    assert_eq!((refused.status, refused.body.as_str()), (404, r#"{"code":5,"message":"Not Found"}"#));
}

#[test]
fn leases_are_granted_kept_and_revoked_as_json() {
    let member = Plan::single().start_ready();
    let post = |path: &str, body: &str| without_ids(&member.http_with("POST", path, body).body);
    let head = r#"{"header":{"revision":"1",}"#;
    assert_eq!(post("/v3/lease/grant", r#"{"ID":"7","TTL":60}"#), format!(r#"{head},"ID":"7","TTL":"60"}}"#));
    for path in ["/v3/lease/timetolive", "/v3/kv/lease/timetolive"] {
        let time = post(path, r#"{"ID":7,"keys":true}"#);
        assert!(time.starts_with(&format!(r#"{head},"ID":"7","TTL":""#)), "{time}");
        assert!(time.ends_with(r#"","grantedTTL":"60"}"#), "{time}");
    }
    for path in ["/v3/lease/leases", "/v3/kv/lease/leases"] {
        assert_eq!(post(path, "{}"), format!(r#"{head},"leases":[{{"ID":"7"}}]}}"#));
    }
    let kept = member.http_with("POST", "/v3/lease/keepalive", r#"{"ID":"7"} {"ID":"8"}"#).body;
    let kept: Vec<_> = kept.lines().filter(|line| line.starts_with("{\"result\"")).map(without_ids).collect();
    assert_eq!(kept[0], format!(r#"{{"result":{head},"ID":"7","TTL":"60"}}}}"#));
    assert_eq!(kept[1], format!(r#"{{"result":{head},"ID":"8"}}}}"#));
    assert_eq!(post("/v3/kv/lease/revoke", r#"{"ID":"7"}"#), format!("{head}}}"));
    let gone = member.http_with("POST", "/v3/lease/revoke", r#"{"ID":"7"}"#);
    let refusal = r#"{"code":5,"message":"etcdserver: requested lease not found"}"#;
    assert_eq!((gone.status, gone.body.as_str()), (404, refusal));
}

/// The lines of an answer that goes on, as they come.
fn watch_lines(address: SocketAddr, body: &str) -> impl Iterator<Item = String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let len = body.len();
    write!(stream, "POST /v3/watch HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len}\r\n\r\n{body}")
        .unwrap();
    BufReader::new(stream).lines().map(Result::unwrap).filter(|line| line.starts_with('{'))
}

#[test]
fn a_watch_is_a_line_of_json_for_each_response() {
    let member = Plan::single().start_ready();
    let mut addresses = vec![member.client];
    let etcd = std::env::var("ETCD").ok().map(|binary| start_etcd(&binary));
    addresses.extend(
        etcd.iter().map(|etcd| etcd.endpoint.strip_prefix("http://").unwrap().parse::<SocketAddr>().unwrap()),
    );
    for address in addresses {
        let put = |value: &str| {
            let body = format!(r#"{{"key":"Zm9v","value":"{value}"}}"#);
            assert_eq!(http_at(address, "POST", "/v3/kv/put", &body).status, 200);
        };
        put("MQ==");
        let create = r#"{"create_request":{"key":"Zm9v","start_revision":"2","prev_kv":true}}"#;
        let mut lines = watch_lines(address, create);
        let mut next = || without_ids(&lines.next().unwrap());
        assert_eq!(next(), r#"{"result":{"header":{"revision":"2",},"created":true}}"#);
        let first = r#"{"key":"Zm9v","create_revision":"2","mod_revision":"2","version":"1","value":"MQ=="}"#;
        assert_eq!(
            next(),
            format!(r#"{{"result":{{"header":{{"revision":"2",}},"events":[{{"kv":{first}}}]}}}}"#)
        );
        put("Mg==");
        let second =
            r#"{"key":"Zm9v","create_revision":"2","mod_revision":"3","version":"2","value":"Mg=="}"#;
        assert_eq!(
            next(),
            format!(
                r#"{{"result":{{"header":{{"revision":"3",}},"events":[{{"kv":{second},"prev_kv":{first}}}]}}}}"#
            )
        );
    }
}

#[test]
fn a_watch_that_cannot_be_read_ends_with_an_error() {
    let member = Plan::single().start_ready();
    let lines: Vec<_> = watch_lines(member.client, "nonsense").take(1).collect();
    assert!(lines[0].starts_with(r#"{"error":{"code":3,"#), "{lines:?}");
}

/// What is asked in turn, of etcd and of us.
const QUESTIONS: &[(&str, &str)] = &[
    ("put", r#"{"key":"YQ==","value":"MQ=="}"#),
    ("put", r#"{"key":"Yg==","value":"Mg==","prevKv":true}"#),
    ("put", r#"{"key":"Yg==","value":"Mw==","prev_kv":true}"#),
    ("put", r#"{"key":"Yg==","ignoreValue":true,"value":"Mw=="}"#),
    ("put", r#"{"key":"Yg==","lease":"99"}"#),
    ("put", r#"{"value":"Mw=="}"#),
    ("range", r#"{"key":"AA==","range_end":"AA==","sort_order":"DESCEND","sort_target":"MOD"}"#),
    ("range", r#"{"key":"AA==","rangeEnd":"AA==","sortTarget":4,"limit":1,"keysOnly":true}"#),
    ("range", r#"{"key":"AA==","rangeEnd":"AA==","countOnly":true}"#),
    ("range", r#"{"key":"YQ==","revision":"99"}"#),
    ("range", r#"{"key":"YQ==","revision":-5,"unknown":[{"x":1}]}"#),
    ("range", r#"{"key":"YQ==","serializable":true,"min_mod_revision":"2"}"#),
    ("range", r#"{"key":"eg=="}"#),
    ("range", ""),
    ("txn", "{}"),
    ("txn", r#"{"success":[{"requestRange":{"key":"YQ==","revision":"-2"}}]}"#),
    (
        "txn",
        r#"{"compare":[{"target":"VALUE","key":"YQ==","value":"MQ=="}],
        "success":[{"request_put":{"key":"Yw==","value":"NA=="}},{"request_range":{"key":"YQ=="}}],
        "failure":[{"requestDeleteRange":{"key":"YQ=="}}]}"#,
    ),
    (
        "txn",
        r#"{"compare":[{"result":"LESS","target":"CREATE","key":"YQ==","createRevision":"2"}],
        "failure":[{"requestTxn":{"success":[{"requestDeleteRange":{"key":"Yw==","prevKv":true}}]}}]}"#,
    ),
    ("txn", r#"{"success":[{}]}"#),
    ("txn", r#"{"success":[{"request_put":{"key":"YQ=="}},{"request_put":{"key":"YQ=="}}]}"#),
    ("deleterange", r#"{"key":"YQ==","rangeEnd":"eg==","prevKv":true}"#),
    ("deleterange", r#"{"key":"YQ=="}"#),
];

/// etcd 3.5 repeats the message of a refusal under another name.
fn without_error(body: &str) -> String {
    match body.strip_prefix("{\"error\":\"").and_then(|rest| rest.split_once("\",")) {
        Some((_, rest)) => format!("{{{rest}"),
        None => body.to_owned(),
    }
}

#[test]
fn the_gateway_answers_as_etcds_does() {
    let Ok(binary) = std::env::var("ETCD") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED the_gateway_answers_as_etcds_does: set ETCD to a binary to run it"
        );
        return;
    };
    let etcd = start_etcd(&binary);
    let theirs = etcd.endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    let ours = Plan::single().start_ready();
    for (path, body) in QUESTIONS {
        let ask = |address| {
            let answer = http_at(address, "POST", &format!("/v3/kv/{path}"), body);
            (answer.status, without_ids(&without_error(&answer.body)))
        };
        assert_eq!(ask(ours.client), ask(theirs), "{path} {body}");
    }
}
