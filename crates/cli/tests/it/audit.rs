//! The audit log of a real process: every way in leaves its line, with who, from where, what and the outcome, and no line
//! ever holds a value, a password or a token; files are rotated, and a restart goes on where the last life ended.

use crate::auth::{CHEAP, gate, token_of, v3};
use crate::data_auth::{Kept, bearer, call, manage, run, turn_on};
use crate::etcd;
use crate::process::{Member, PATIENCE, Plan, althing, free_port, until};
use crate::rest::Rest;
use crate::sockets::Socket;
use crate::tls::{identity, out, pem, wait_ready, with_authority};
use crate::tour::block_on;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What must be in no line.
const VALUE: &str = "VALUE-that-is-a-secret";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn traceparent() -> String {
    format!("00-{TRACE}-b7ad6b7169203331-01")
}

fn path_in(plan: &Plan) -> PathBuf {
    plan.dir.path().join("audit.jsonl")
}

fn with_audit(plan: Plan, flags: &[&str]) -> Plan {
    let path = path_in(&plan);
    plan.with(&["--audit-log", path.to_str().unwrap()]).with(flags)
}

fn lines(path: &Path) -> Vec<Value> {
    // While a file is renamed there is none.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.lines().filter(|line| line.ends_with('}'));
    whole.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Waits for a line that has these fields, among others.
fn wait_for(path: &Path, wanted: Value) -> Value {
    let fits = |line: &Value| wanted.as_object().unwrap().iter().all(|(name, value)| line[name] == *value);
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let all = lines(path);
        if let Some(line) = all.iter().find(|line| fits(line)) {
            return line.clone();
        }
        let last: Vec<String> = all.iter().rev().take(30).map(Value::to_string).collect();
        assert!(
            std::time::Instant::now() < deadline,
            "no line has {wanted}; the last are\n{}",
            last.join("\n")
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn put(member: &Member, token: Option<&str>, key: &str) -> Result<(), tonic::Status> {
    block_on(async {
        let mut request = tonic::Request::new(etcd::put(key.to_owned(), VALUE));
        request.metadata_mut().insert("traceparent", traceparent().parse().unwrap());
        if let Some(token) = token {
            request.metadata_mut().insert("token", token.parse().unwrap());
        }
        member.etcd().await.kv.put(request).await.map(drop)
    })
}

#[test]
fn every_way_in_leaves_its_line_and_no_line_holds_a_secret() {
    let plan = with_audit(Plan::single().with(&CHEAP), &[]);
    let (member, path) = (plan.start_ready(), path_in(&plan));
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    wait_for(&path, json!({"event": "start", "node": "m0", "reads": false}));

    // While auth is off, callers have no name.
    put(&member, None, "open").unwrap();
    let open = wait_for(&path, json!({"operation": "etcdserverpb.KV/Put", "keys": [{"key": "open"}]}));
    assert_eq!((&open["user"], &open["outcome"], &open["code"]), (&Value::Null, &json!("ok"), &json!("OK")));
    assert_eq!((&open["class"], &open["protocol"]), (&json!("change"), &json!("grpc")));
    assert_eq!(open["trace_id"], TRACE);
    assert!(open["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{open}");

    assert_eq!(rest.put("/v1/namespaces/shop", r#"{"n":1}"#).status, 201);
    wait_for(&path, json!({"operation": "PUT /v1/namespaces/{ns}", "namespace": "shop", "code": "201"}));
    turn_on(&member);
    wait_for(&path, json!({"operation": "etcdserverpb.Auth/UserAdd", "target": {"user": "writer"}}));
    wait_for(
        &path,
        json!({"operation": "etcdserverpb.Auth/UserGrantRole", "target": {"user": "writer", "role": "writer"}}),
    );
    wait_for(
        &path,
        json!({"operation": "althing.auth.v1.DataAuth/RoleGrantData", "target": {"role": "writer"},
               "namespace": "shop"}),
    );
    wait_for(&path, json!({"operation": "etcdserverpb.Auth/AuthEnable", "outcome": "ok"}));

    // Logins, good and bad.
    let (root, writer) = (token_of(gate(&member), "root", "rpw"), token_of(gate(&member), "writer", "p2"));
    let login = wait_for(&path, json!({"class": "login", "user": "root", "outcome": "ok"}));
    assert_eq!(login["operation"], "/v3/auth/authenticate");
    let wrong = r#"{"name":"writer","password":"WRONG-password"}"#;
    assert_ne!(v3(gate(&member), "", "auth/authenticate", wrong).status, 200);
    let failed = wait_for(&path, json!({"class": "login", "outcome": "refused"}));
    assert_eq!((&failed["user"], &failed["target"]), (&Value::Null, &json!({"user": "writer"})));
    assert!(
        !run(&["get", "a", "--user", "writer:WRONG-password", "--endpoints", &member.client.to_string()]).0
    );
    wait_for(&path, json!({"operation": "etcdserverpb.Auth/Authenticate", "outcome": "refused"}));

    // gRPC straight to the core, permitted and not, with a wrong token and without one.
    put(&member, Some(&root), "fast").unwrap();
    wait_for(
        &path,
        json!({"operation": "etcdserverpb.KV/Put", "user": "root", "identified_by": "token",
               "keys": [{"key": "fast"}], "trace_id": TRACE, "outcome": "ok"}),
    );
    assert!(put(&member, Some(&writer), "denied").is_err());
    wait_for(
        &path,
        json!({"user": "writer", "keys": [{"key": "denied"}], "outcome": "refused", "code": "PermissionDenied"}),
    );
    assert!(put(&member, Some("WRONG-token"), "denied-2").is_err());
    wait_for(
        &path,
        json!({"user": null, "identified_by": "token", "keys": [{"key": "denied-2"}], "outcome": "refused"}),
    );
    assert!(put(&member, None, "denied-3").is_err());
    wait_for(&path, json!({"user": null, "keys": [{"key": "denied-3"}], "outcome": "refused"}));

    // The gateway and a WebSocket.
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, "Z2F0ZQ==", "VkFMVUUtdGhhdC1pcy1hLXNlY3JldA==");
    assert_eq!(v3(gate(&member), &root, "kv/put", &body).status, 200);
    wait_for(
        &path,
        json!({"protocol": "json", "operation": "/v3/kv/put", "user": "root", "keys": [{"key": "gate"}],
               "outcome": "ok"}),
    );
    assert_eq!(v3(gate(&member), &writer, "kv/range", r#"{"key":"Z2F0ZQ=="}"#).status, 403);
    wait_for(
        &path,
        json!({"operation": "/v3/kv/range", "class": "read", "user": "writer", "code": "PermissionDenied"}),
    );
    let protocol = format!("Sec-WebSocket-Protocol: Bearer, {writer}\r\n");
    let mut socket = Socket::open(member.client, "/v3/watch?method=POST", &protocol).unwrap();
    socket.say(r#"{"create_request":{"key":"d2F0Y2hlZA=="}}"#);
    assert_eq!(socket.hear()["result"]["canceled"], true);
    let watch = wait_for(&path, json!({"operation": "/v3/watch", "keys": [{"key": "watched"}]}));
    assert_eq!((&watch["user"], &watch["outcome"]), (&json!("writer"), &json!("refused")));
    assert!(watch["address"].is_string(), "{watch}");

    // Locks and members.
    let lock = r#"{"name":"job","lease_id":"7"}"#;
    rest_of(&member).call("POST", "/v1/lock/try", &[("authorization", &writer)], lock.as_bytes());
    wait_for(
        &path,
        json!({"operation": "/v1/lock/try", "user": "writer", "target": {"lock": "job", "lease": "7"}}),
    );
    let add = r#"{"peerURLs":["http://127.0.0.1:9"],"isLearner":true}"#;
    assert_eq!(v3(gate(&member), &writer, "cluster/member/add", add).status, 403);
    wait_for(
        &path,
        json!({"operation": "/v3/cluster/member/add", "user": "writer", "outcome": "refused",
               "target": {"peer_url": "http://127.0.0.1:9"}}),
    );

    // REST: the fast path, the router, a password, and no credentials.
    let mut kept = Kept::to(rest);
    let headers = format!("authorization: {}\r\ntraceparent: {}\r\n", bearer(&writer), traceparent());
    let value = format!(r#"{{"value":"{VALUE}"}}"#);
    assert_eq!(kept.call("PUT", "/v1/data/open", &headers, &value), 200);
    wait_for(
        &path,
        json!({"protocol": "rest", "operation": "PUT /v1/data/{*key}", "namespace": "default", "user": "writer",
               "identified_by": "token", "keys": [{"key": "open"}], "code": "200", "trace_id": TRACE}),
    );
    let entry = format!(r#"{{"key":"closed","value":"{VALUE}"}}"#);
    assert_eq!(kept.call("POST", "/api/v1/store/keys", &headers, &entry), 403);
    wait_for(
        &path,
        json!({"operation": "POST /api/v1/store/keys", "keys": [{"key": "closed"}], "code": "403"}),
    );
    assert_eq!(kept.call("GET", "/v1/data/open", "", ""), 401);
    wait_for(
        &path,
        json!({"operation": "GET /v1/data/{*key}", "class": "read", "user": null, "code": "401"}),
    );
    let routed = "/v1/namespaces/shop/data/orders/1";
    assert_eq!(call(rest, &bearer(&writer), "PUT", routed, &value).status, 200);
    wait_for(
        &path,
        json!({"operation": "PUT /v1/namespaces/{ns}/data/{*key}", "namespace": "shop", "user": "writer",
               "keys": [{"key": "orders/1"}], "outcome": "ok"}),
    );
    assert_eq!(call(rest, "Basic cmVhZGVyOnAx", "PUT", routed, &value).status, 403);
    wait_for(&path, json!({"user": "reader", "identified_by": "password", "code": "403"}));
    assert_eq!(call(rest, &bearer(&writer), "GET", "/v1/data/open", "").status, 200);

    // A node that asks to join without a token.
    let stranger = Plan {
        name: "stranger".to_owned(),
        peer_port: free_port(),
        http_port: 0,
        ..Plan::single().with(&["--join", &format!("127.0.0.1:{}", plan.peer_port)])
    };
    let stranger = Plan { cluster: format!("stranger=127.0.0.1:{}", stranger.peer_port), ..stranger };
    assert!(!stranger.spawn().wait().unwrap().success());
    wait_for(&path, json!({"protocol": "peer", "operation": "join", "outcome": "refused"}));

    refuse_before_routes(&member, &plan, &path);

    drop(stop(member));
    wait_for(&path, json!({"event": "stop"}));
    let text = std::fs::read_to_string(&path).unwrap();
    for secret in [VALUE, "WRONG-", "rpw", "\"p1\"", "\"p2\"", root.as_str(), writer.as_str()] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
    let reads = lines(&path).into_iter().filter(|line| line["class"] == "read" && line["outcome"] == "ok");
    assert_eq!(reads.count(), 0, "reads are not recorded");
}

/// What is refused before its route or its sender is looked at.
fn refuse_before_routes(member: &Member, plan: &Plan, path: &Path) {
    let json = ("content-type", "application/json");
    for (target, headers, code) in [
        ("/v1/data/by-a-name", vec![("host", "evil.example")], "421"),
        (
            "/v1/data/by-an-origin",
            vec![("host", "localhost"), ("origin", "https://evil.example"), json],
            "403",
        ),
        (
            "/v1/data/by-a-form",
            vec![("host", "localhost"), ("sec-fetch-site", "same-origin"), ("content-type", "text/plain")],
            "415",
        ),
    ] {
        let fields: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let request =
            format!("PUT {target}?secret={VALUE} HTTP/1.1\r\n{fields}content-length: 2\r\n\r\n{{}}");
        let answer = Rest::of(member).raw(request.as_bytes()).unwrap();
        assert_eq!(answer.status.to_string(), code, "{target}");
        let operation = format!("PUT {target}");
        let line = wait_for(path, json!({"protocol": "http", "operation": operation, "outcome": "refused"}));
        assert_eq!((&line["code"], &line["user"]), (&json!(code), &Value::Null));
        assert!(line["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    }
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", plan.peer_port)).unwrap();
    std::io::Write::write_all(&mut stream, b"no protocol of ours").unwrap();
    wait_for(
        path,
        json!({"protocol": "peer", "operation": "stream", "outcome": "refused", "code": "Garbage"}),
    );
    // A report, of a node that proves nothing.
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", plan.peer_port)).unwrap();
    std::io::Write::write_all(&mut stream, b"ALTHINGJ\x01\0\x02\0\0\0\x04\0").unwrap();
    wait_for(path, json!({"protocol": "peer", "operation": "status", "outcome": "refused"}));
}

fn rest_of(member: &Member) -> Rest {
    gate(member)
}

fn stop(mut member: Member) -> Member {
    member.signal("TERM");
    assert!(member.wait_exit().success());
    member
}

#[test]
fn reads_are_recorded_on_demand_and_files_are_rotated_across_lives() {
    let flags = ["--audit-reads", "--audit-log-bytes-max", "4096", "--audit-log-files-kept", "3"];
    let plan = with_audit(Plan::single(), &flags);
    let path = path_in(&plan);
    let member = plan.start_ready();
    Rest::of(&member).wait_for_ring(1);
    let endpoint = member.client.to_string();
    assert!(run(&["get", "a", "--prefix", "--endpoints", &endpoint]).0);
    wait_for(
        &path,
        json!({"operation": "etcdserverpb.KV/Range", "class": "read", "keys": [{"from": "a", "to": "b"}]}),
    );
    block_on(async {
        let mut etcd = member.etcd().await;
        for number in 0..200 {
            etcd.put(etcd::put(format!("key-{number}"), VALUE)).await.unwrap();
        }
    });
    wait_for(&path, json!({"keys": [{"key": "key-199"}]}));
    assert!(member.metric("althing_audit_entries_total") >= 200.0);
    assert_eq!(member.metric("althing_audit_dropped_total"), 0.0);
    drop(stop(member));
    drop(stop(plan.start_ready()));
    let files = || std::fs::read_dir(plan.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> = files().filter(|file| file.to_string_lossy().contains("audit.jsonl")).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in &files {
        assert!(std::fs::metadata(file).unwrap().len() <= 4_096, "{file:?}");
        assert!(lines(file).iter().all(|line| line["time"].is_string()));
        assert!(!std::fs::read_to_string(file).unwrap().contains(VALUE));
    }
    assert_eq!(lines(&path).last().unwrap()["event"], "stop");
}

#[test]
fn it_goes_to_standard_error_and_a_path_that_cannot_be_is_told() {
    let plan = Plan::single().with(&["--audit-log", "-"]);
    let member = plan.start_ready();
    put(&member, None, "seen").unwrap();
    until("the line is there", || plan.log().contains(r#""keys":[{"key":"seen"}]"#).then_some(()));
    drop(stop(member));
    let plan = Plan::single().with(&["--audit-log", "/no/such/directory/audit"]);
    assert!(!plan.spawn().wait().unwrap().success());
    assert!(plan.log().contains("cannot write the audit log (--audit-log)"), "{}", plan.log());
}

/// With auth on, the name on a certificate is a user of the data API as well, on the fast path and by the router.
#[test]
fn the_name_on_a_certificate_is_a_user_of_the_data_api() {
    let plan = with_audit(with_authority(Plan::single()).with(&["--client-cert-auth"]).with(&CHEAP), &[]);
    let (member, path) = (plan.start(), path_in(&plan));
    let root = Some("root");
    wait_ready(&member, root);
    for args in [
        &["user", "add", "root:rpw"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "reader", "read", "--data", "default/a"],
        &["user", "add", "alice", "--no-password"],
        &["user", "grant-role", "alice", "reader"],
        &["auth", "enable"],
    ] {
        out(&member, root, args);
    }
    let rest = format!("https://{}", member.rest.unwrap());
    let data = |who: &str, args: &[&str]| {
        let mut command = althing();
        command.args(args).args(["--http-endpoints", &rest, "--cacert", &pem("ca.pem")]).args(identity(who));
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), told + &String::from_utf8_lossy(&output.stderr))
    };
    until("root writes", || data("root", &["data", "put", "a1", "x"]).0.then_some(()));
    wait_for(
        &path,
        json!({"protocol": "rest", "user": "root", "identified_by": "certificate", "keys": [{"key": "a1"}],
               "outcome": "ok"}),
    );
    assert_eq!(data("alice", &["data", "get", "a1"]), (true, "a1\nx\n".to_owned()));
    let denied = data("alice", &["data", "put", "a1", "y"]);
    assert!(!denied.0 && denied.1.contains("permission_denied"), "{}", denied.1);
    let unknown = data("nameless", &["data", "get", "a1"]);
    assert!(!unknown.0 && unknown.1.contains("auth is on"), "{}", unknown.1);
    let unknown = data("peer", &["data", "get", "a1"]);
    assert!(!unknown.0 && unknown.1.contains("auth is on"), "a name that is no user: {}", unknown.1);
    assert!(data("alice", &["data", "put", "a1", "z", "--user", "root:rpw"]).0, "a password says more");
    assert!(data("root", &["namespace", "create", "shop"]).0);
    assert!(!data("alice", &["namespace", "create", "bank"]).0);

    // Two requests on one connection, which the fast path serves; and one that a proxy passes on.
    let answers =
        by_certificate(member.rest.unwrap(), "alice", &["", "", "x-forwarded-for: 10.0.0.9\r\n", ""]);
    assert_eq!(answers, [200, 200, 401, 200]);
}

/// The statuses of reads of `a1` with these headers, one after the other on one connection with a certificate.
fn by_certificate(address: std::net::SocketAddr, who: &str, headers: &[&str]) -> Vec<u16> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    block_on(async {
        let identity = Some((pem(&format!("{who}.pem")).into(), pem(&format!("{who}.key")).into()));
        let files = ::tls::ClientFiles { ca: Some(pem("ca.pem").into()), identity };
        let config = files.config(&[b"http/1.1"]).unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let name = ::tls::ClientFiles::name_of(&address.to_string()).unwrap();
        let mut stream = tokio_rustls::TlsConnector::from(config).connect(name, stream).await.unwrap();
        let mut statuses = Vec::new();
        for headers in headers {
            let request = format!("GET /v1/data/a1 HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut heard = String::new();
            let length = |text: &str| -> Option<usize> {
                let (head, rest) = text.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
                (rest.len() >= length.parse().ok()?).then_some(rest.len())
            };
            while length(&heard).is_none() {
                let mut piece = [0; 4096];
                let read = stream.read(&mut piece).await.unwrap();
                assert_ne!(read, 0, "{heard}");
                heard.push_str(&String::from_utf8_lossy(&piece[..read]));
            }
            statuses.push(heard[9..12].parse().unwrap());
        }
        statuses
    })
}

#[test]
fn namespaces_are_managed_by_their_verbs() {
    let (member, rest) = crate::rest::single();
    let verb = |args: &[&str]| {
        let output = althing().args(args).env("ALTHING_HTTP_ENDPOINTS", rest.0.to_string()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap(), told + &String::from_utf8_lossy(&output.stderr))
    };
    let created = verb(&["namespace", "create", "shop", "--copies", "1", "--default-type", "orset"]);
    assert_eq!(created, (0, "shop, 1, orset, LWW\n".to_owned()));
    let again = verb(&["namespace", "create", "shop"]);
    assert!(again.0 == 2 && again.1.contains("namespace set"), "{again:?}");
    assert_eq!(verb(&["namespace", "set", "shop", "--conflict-policy", "FAIL"]).1, "shop, 1, orset, FAIL\n");
    let absent = verb(&["namespace", "set", "absent", "--conflict-policy", "FAIL"]);
    assert!(absent.0 == 2 && absent.1.contains("namespace create"), "{absent:?}");
    assert_eq!(verb(&["namespace", "set", "shop"]).0, 2);
    assert_eq!(verb(&["namespace", "set", "shop", "--conflict-policy", "never"]).0, 2);
    let shown: Value = serde_json::from_str(&verb(&["namespace", "show", "shop", "-w", "json"]).1).unwrap();
    assert_eq!(
        shown,
        json!({"namespace": "shop", "n": 1, "default_type": "orset", "conflict_policy": "FAIL"})
    );
    let table = verb(&["namespace", "ls", "-w", "table"]).1;
    assert!(table.contains("| NAMESPACE |") && table.contains(" shop |"), "{table}");
    assert!(verb(&["namespace", "ls"]).1.contains("default, "));
    assert_eq!(verb(&["namespace", "delete", "shop"]), (0, "namespace shop is deleted\n".to_owned()));
    assert_eq!(verb(&["namespace", "show", "shop"]).0, 2);
    drop(member);
}

#[test]
fn verbs_about_namespaces_and_loads_say_who_asks() {
    let plan = Plan::single().with(&CHEAP);
    let member = plan.start_ready();
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    assert_eq!(rest.put("/v1/namespaces/shop", r#"{"n":1}"#).status, 201);
    turn_on(&member);
    let place = rest.0.to_string();
    let ask = |args: &[&str]| run(&[args, &["--http-endpoints", &place]].concat());
    let set = ["namespace", "set", "shop", "--conflict-policy", "CRDT"];
    assert!(!ask(&set).0);
    let denied = ask(&[&set[..], &["--user", "writer:p2"]].concat());
    assert!(!denied.0 && denied.1.contains("permission"), "{}", denied.1);
    assert!(ask(&[&set[..], &["--user", "admin", "--password", "p3"]].concat()).0);
    let token = manage(&member, &["auth", "login", "--user", "admin:p3"]);
    let listed = ask(&["namespace", "ls", "--token", token.trim()]);
    assert!(listed.0 && listed.1.contains("shop, 1, ") && !listed.1.contains("bank"), "{}", listed.1);

    let endpoint = member.client.to_string();
    let bench = |args: &[&str]| {
        run(&[&["bench", "put", "--total", "10", "--endpoints", &endpoint][..], args].concat())
    };
    let token = token_of(gate(&member), "root", "rpw");
    assert!(bench(&["--token", &token]).0);
    assert!(bench(&["--user", "root:rpw"]).0);
    assert!(!bench(&["--user", "root:wrong"]).0);
}
