//! Users, roles and permissions as clients meet them: etcd's answers, every member's agreement, and no way around them.

use crate::both_ways::{Way, both_ways};
use crate::etcdctl::{self, Etcdctl};
use crate::process::{Member, Plan, althing, until};
use crate::rest::{Answer, Rest};
use differ::server::Server;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// Passwords are hashed cheaply: the tests are not about that.
pub const CHEAP: [&str; 2] = ["--bcrypt-cost", "4"];

/// One step: the caller (none, `root`, `u1`, or a literal token), the path below `/v3/`, and the body.
type Step = (&'static str, &'static str, &'static str);

const OPENING: &[Step] = &[
    ("", "auth/enable", "{}"),
    ("", "auth/authenticate", r#"{"name":"root","password":"x"}"#),
    ("", "auth/user/add", r#"{"name":"","password":"x"}"#),
    ("", "auth/user/add", r#"{"name":"root","password":"rpw"}"#),
    ("", "auth/user/add", r#"{"name":"root","password":"rpw"}"#),
    ("", "auth/enable", "{}"),
    ("", "auth/user/grant", r#"{"user":"root","role":"root"}"#),
    ("", "auth/user/grant", r#"{"user":"root","role":"root"}"#),
    ("", "auth/user/grant", r#"{"user":"root","role":"nope"}"#),
    ("", "auth/user/grant", r#"{"user":"nope","role":"root"}"#),
    ("", "auth/user/revoke", r#"{"name":"root","role":"r1"}"#),
    ("", "auth/user/revoke", r#"{"name":"nope","role":"r1"}"#),
    ("", "auth/role/get", r#"{"role":"root"}"#),
    ("", "auth/role/add", r#"{"name":""}"#),
    ("", "auth/role/add", r#"{"name":"r1"}"#),
    ("", "auth/role/add", r#"{"name":"r1"}"#),
    ("", "auth/role/grant", r#"{"name":"r1"}"#),
    ("", "auth/role/grant", r#"{"name":"nope"}"#),
    ("", "auth/role/grant", r#"{"name":"nope","perm":{"permType":"READ","key":"YQ=="}}"#),
    (
        "",
        "auth/role/grant",
        r#"{"name":"r1","perm":{"permType":"READWRITE","key":"YQ==","range_end":"Yg=="}}"#,
    ),
    ("", "auth/role/get", r#"{"role":"r1"}"#),
    ("", "auth/role/revoke", r#"{"role":"r1","key":"eg=="}"#),
    ("", "auth/role/revoke", r#"{"role":"nope","key":"eg=="}"#),
    ("", "auth/role/delete", r#"{"role":"nope"}"#),
    ("", "auth/user/get", r#"{"name":"nope"}"#),
    ("", "auth/user/delete", r#"{"name":"nope"}"#),
    ("", "auth/user/changepw", r#"{"name":"nope","password":"s"}"#),
    ("", "auth/user/add", r#"{"name":"np","options":{"no_password":true}}"#),
    ("", "auth/user/add", r#"{"name":"u1","password":"pw"}"#),
    ("", "auth/user/grant", r#"{"user":"u1","role":"r1"}"#),
    ("", "auth/user/list", "{}"),
    ("", "auth/role/list", "{}"),
    ("", "auth/status", "{}"),
    ("", "auth/enable", "{}"),
];

const VISITS: &[Step] = &[
    ("", "auth/enable", "{}"),
    ("", "kv/range", r#"{"key":"YQ=="}"#),
    ("", "kv/put", r#"{"key":"YQ=="}"#),
    ("nonsense", "kv/put", r#"{"key":"YQ=="}"#),
    ("", "auth/authenticate", r#"{"name":"np","password":""}"#),
    ("", "auth/authenticate", r#"{"name":"nope","password":""}"#),
    ("", "auth/authenticate", r#"{"name":"u1","password":"bad"}"#),
    ("u1", "auth/user/list", "{}"),
    ("u1", "auth/user/get", r#"{"name":"u1"}"#),
    ("u1", "auth/user/get", r#"{"name":"np"}"#),
    ("u1", "auth/role/get", r#"{"role":"r1"}"#),
    ("u1", "auth/role/get", r#"{"role":"nope"}"#),
    ("u1", "kv/put", r#"{"key":"YQ==","value":"YQ=="}"#),
    ("u1", "kv/put", r#"{"key":"Yg==","value":"YQ=="}"#),
    ("u1", "kv/range", r#"{"key":"YQ==","range_end":"Yg=="}"#),
    ("u1", "kv/range", r#"{"key":"YQ==","range_end":"Yw=="}"#),
    ("u1", "kv/range", r#"{"key":"AA==","range_end":"AA=="}"#),
    ("root", "lease/grant", r#"{"TTL":"1000","ID":"55"}"#),
    ("root", "kv/put", r#"{"key":"eA==","value":"YQ==","lease":"55"}"#),
    ("u1", "kv/put", r#"{"key":"YQ==","value":"YQ==","lease":"55"}"#),
    ("u1", "lease/revoke", r#"{"ID":"55"}"#),
    ("u1", "lease/revoke", r#"{"ID":"56"}"#),
    ("root", "auth/user/delete", r#"{"name":"root"}"#),
    ("root", "auth/role/delete", r#"{"role":"root"}"#),
    ("root", "auth/user/revoke", r#"{"name":"root","role":"root"}"#),
    ("u1", "auth/user/changepw", r#"{"name":"u1","password":"s"}"#),
    ("root", "auth/user/changepw", r#"{"name":"u1","password":"s"}"#),
    ("u1", "kv/put", r#"{"key":"YQ==","value":"YQ=="}"#),
    ("root", "auth/status", "{}"),
    ("root", "auth/role/delete", r#"{"role":"r1"}"#),
    ("root", "auth/user/get", r#"{"name":"u1"}"#),
    ("root", "auth/disable", "{}"),
    ("", "auth/status", "{}"),
    ("", "kv/range", r#"{"key":"YQ=="}"#),
];

/// The whole tour, with what was answered to each step.
fn tour(server: Rest) -> Vec<String> {
    let mut told: Vec<String> = OPENING.iter().map(|step| ask(server, step, "", "")).collect();
    let (root, u1) = (token_of(server, "root", "rpw"), token_of(server, "u1", "pw"));
    told.extend(VISITS.iter().map(|step| ask(server, step, &root, &u1)));
    told
}

fn ask(server: Rest, (who, path, body): &Step, root: &str, u1: &str) -> String {
    let token = match *who {
        "root" => root,
        "u1" => u1,
        other => other,
    };
    let answer = v3(server, token, path, body);
    // Headers differ; etcd 3.5 tells an error twice.
    let mut json = answer.json();
    let fields = json.as_object_mut().unwrap();
    for name in ["header", "error", "details"] {
        fields.remove(name);
    }
    format!("{who} {path} {body}: {} {json}", answer.status)
}

pub fn v3(server: Rest, token: &str, path: &str, body: &str) -> Answer {
    let path = format!("/v3/{path}");
    match token {
        "" => server.call("POST", &path, &[], body.as_bytes()),
        token => server.call("POST", &path, &[("authorization", token)], body.as_bytes()),
    }
}

pub fn token_of(server: Rest, user: &str, password: &str) -> String {
    let body = format!(r#"{{"name":"{user}","password":"{password}"}}"#);
    let answer = v3(server, "", "auth/authenticate", &body).json();
    answer["token"].as_str().unwrap_or_else(|| panic!("{user} got {answer}")).to_owned()
}

pub fn gate(member: &Member) -> Rest {
    Rest(member.client)
}

/// Auth is on, and `u1` may read and write `a`.
pub fn with_auth(member: &Member) {
    open_with_auth(gate(member));
}

pub fn open_with_auth(server: Rest) {
    for step in OPENING {
        ask(server, step, "", "");
    }
}

#[test]
fn a_tour_ends_as_it_should_and_as_it_does_on_etcd() {
    let member = Plan::single().with(&CHEAP).start_ready();
    let ours = tour(gate(&member));
    assert!(ours.iter().any(|line| line.contains("etcdserver: permission denied")), "{ours:#?}");
    assert!(ours.last().unwrap().contains(": 200 "), "{ours:#?}");
    let Ok(binary) = std::env::var("ETCD") else {
        let _ = writeln!(std::io::stderr(), "SKIPPED comparing auth with etcd: set ETCD to a binary");
        return;
    };
    let etcd = Server::etcd(Path::new(&binary)).unwrap();
    let address: SocketAddr = etcd.endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    until("etcd listens", || TcpStream::connect(address).ok());
    until("etcd leads", || {
        (Rest(address).call("POST", "/v3/kv/range", &[], br#"{"key":"YQ=="}"#).status == 200).then_some(())
    });
    for (ours, theirs) in ours.iter().zip(tour(Rest(address))) {
        assert_eq!(*ours, theirs);
    }
}

#[test]
fn every_member_knows_every_token_and_every_revocation() {
    let members: Vec<Member> = Plan::cluster(3).into_iter().map(|plan| plan.with(&CHEAP).start()).collect();
    members.iter().for_each(Member::wait_ready);
    with_auth(&members[0]);
    let u1 = token_of(gate(&members[1]), "u1", "pw");
    let root = token_of(gate(&members[2]), "root", "rpw");
    let put = |member: &Member| v3(gate(member), &u1, "kv/put", r#"{"key":"YQ==","value":"YQ=="}"#);
    for member in &members {
        let answer = put(member);
        assert_eq!(answer.status, 200, "{}", answer.json());
        let anonymous = v3(gate(member), "", "kv/put", r#"{"key":"YQ==","value":"YQ=="}"#);
        assert_eq!(
            (anonymous.status, &anonymous.json()["message"]),
            (400, &"etcdserver: user name is empty".into())
        );
    }
    // What is acknowledged by one member holds at once on all, however far behind they are.
    let revoke = r#"{"role":"r1","key":"YQ==","range_end":"Yg=="}"#;
    assert_eq!(v3(gate(&members[0]), &root, "auth/role/revoke", revoke).status, 200);
    for member in &members {
        assert_eq!(put(member).status, 403);
    }
    assert_eq!(v3(gate(&members[1]), &root, "auth/user/delete", r#"{"name":"u1"}"#).status, 200);
    for member in &members {
        assert_eq!(put(member).status, 401);
    }
}

#[test]
fn a_watch_ends_when_its_permission_does() {
    let member = Plan::single().with(&CHEAP).start_ready();
    with_auth(&member);
    let (root, u1) = (token_of(gate(&member), "root", "rpw"), token_of(gate(&member), "u1", "pw"));
    let mut denied = Lines::watch(&member, &u1, "eA==");
    assert!(denied.next().contains("PermissionDenied"));
    let mut anonymous = Lines::watch(&member, "", "YQ==");
    assert!(anonymous.next().contains("user name is empty"));
    let mut lines = Lines::watch(&member, &u1, "YQ==");
    assert!(lines.next().contains(r#""created":true"#));
    assert_eq!(v3(gate(&member), &root, "kv/put", r#"{"key":"YQ==","value":"MQ=="}"#).status, 200);
    assert!(lines.next().contains(r#""events""#));
    assert_eq!(v3(gate(&member), &root, "auth/role/delete", r#"{"role":"r1"}"#).status, 200);
    assert_eq!(v3(gate(&member), &root, "kv/put", r#"{"key":"YQ==","value":"Mg=="}"#).status, 200);
    let last = lines.next();
    assert!(last.contains(r#""canceled":true"#) && last.contains("PermissionDenied"), "{last}");
}

/// The lines of an answer that goes on.
struct Lines(BufReader<TcpStream>);

impl Lines {
    fn watch(member: &Member, token: &str, key: &str) -> Lines {
        let mut stream = TcpStream::connect(member.client).unwrap();
        stream.set_read_timeout(Some(crate::process::PATIENCE)).unwrap();
        let body = format!(r#"{{"create_request":{{"key":"{key}"}}}}"#);
        let credentials =
            if token.is_empty() { String::new() } else { format!("authorization: {token}\r\n") };
        let head = format!(
            "POST /v3/watch HTTP/1.1\r\nhost: localhost\r\n{credentials}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        Lines(BufReader::new(stream))
    }

    /// Among the marks of chunks and the head, what is JSON.
    fn next(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream goes on");
            if line.starts_with('{') {
                return line;
            }
        }
    }
}

#[test]
fn no_other_port_admits_an_unauthenticated_call_also_after_a_restart() {
    both_ways(refuse_unauthenticated_calls);
}

fn refuse_unauthenticated_calls(way: Way) {
    let plan = Plan::single().with(&CHEAP);
    let member = way.start_ready(&plan);
    let data = Rest::of(&member);
    data.wait_for_ring(1);
    assert_eq!(
        data.post("/api/v1/store/keys", r#"{"key":"k","value":"1"}"#).status,
        200,
        "the data API is open while auth is off"
    );
    with_auth(&member);
    drop(member);
    let member = way.start_ready(&plan);
    let (server, data) = (gate(&member), Rest::of(&member));
    let (root, u1) = (token_of(server, "root", "rpw"), token_of(server, "u1", "pw"));
    for (path, body) in [
        ("kv/compaction", r#"{"revision":"1"}"#),
        ("maintenance/defragment", "{}"),
        ("maintenance/hash", "{}"),
        ("maintenance/hashkv", "{}"),
        ("maintenance/snapshot", "{}"),
        ("maintenance/transfer-leadership", r#"{"targetID":"1"}"#),
        ("maintenance/alarm", r#"{"action":"ACTIVATE","alarm":"NOSPACE"}"#),
        ("cluster/member/add", r#"{"peerURLs":["http://127.0.0.1:1"]}"#),
        ("cluster/member/remove", r#"{"ID":"1"}"#),
    ] {
        assert_eq!(v3(server, "", path, body).status, 400, "{path}");
        assert_eq!(v3(server, &u1, path, body).status, 403, "{path}");
    }
    // These are for every user, as in etcd since 3.5.28 and 3.6.9.
    for (path, body) in
        [("maintenance/status", "{}"), ("cluster/member/list", "{}"), ("maintenance/alarm", "{}")]
    {
        assert_eq!(v3(server, "", path, body).status, 400, "{path}");
        assert_eq!(v3(server, "nonsense", path, body).status, 401, "{path}");
        assert_eq!(v3(server, &u1, path, body).status, 200, "{path}");
    }
    for (token, status) in [("", 400), (u1.as_str(), 403)] {
        for (path, body) in [
            ("lock/lock", r#"{"name":"eA=="}"#),
            ("lock/unlock", r#"{"key":"eC8x"}"#),
            ("election/leader", r#"{"name":"eA=="}"#),
            ("kv/txn", r#"{"compare":[{"key":"eA==","target":"VERSION","version":"0"}]}"#),
            ("kv/txn", r#"{"failure":[{"requestPut":{"key":"eA=="}}]}"#),
            ("kv/txn", r#"{"success":[{"requestTxn":{"success":[{"requestRange":{"key":"eA=="}}]}}]}"#),
        ] {
            assert_eq!(v3(server, token, path, body).status, status, "{path} {body}");
        }
        let history =
            server.call("POST", "/v1/store/history", &[("authorization", token)], br#"{"key":"eA=="}"#);
        assert!(matches!(history.status, 400 | 401 | 403), "{}", history.status);
    }
    let bearer = |token: &str| format!("Bearer {token}");
    assert_eq!(data.get("/api/v1/store/keys/k").status, 401);
    until("the data are served again", || {
        let answer = data.call("GET", "/api/v1/store/keys/k", &[("authorization", &bearer(&root))], b"");
        (answer.status == 200).then_some(())
    });
    for (credentials, status) in [
        (bearer("nonsense"), 401),
        (bearer(&u1), 403),
        ("Basic cm9vdDpiYWQ=".to_owned(), 401),
        ("Basic cm9vdDpycHc=".to_owned(), 200),
        (bearer(&root), 200),
    ] {
        let answer = data.call("GET", "/api/v1/store/keys/k", &[("authorization", &credentials)], b"");
        assert_eq!(answer.status, status, "{credentials}");
    }
    assert_eq!(server.call("GET", "/health", &[], b"").status, 200);
}

#[test]
fn the_command_line_manages_users_and_logs_in() {
    let member = Plan::single().with(&CHEAP).start_ready();
    let run = |args: &[&str]| {
        let output = althing().args(args).args(["--endpoints", &member.client.to_string()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let root = ["--user", "root:rpw"];
    let as_root = |args: &[&str]| run(&[args, &root].concat());
    assert_eq!(run(&["user", "add", "root:rpw"]), "User root created\n");
    assert_eq!(run(&["user", "grant-role", "root", "root"]), "Role root is granted to user root\n");
    assert_eq!(run(&["role", "add", "clerk"]), "Role clerk created\n");
    let grant = ["role", "grant-permission", "clerk", "readwrite", "a", "--prefix"];
    assert_eq!(run(&grant), "Role clerk updated\n");
    assert_eq!(run(&["user", "add", "ann", "--new-user-password", "pw"]), "User ann created\n");
    assert_eq!(run(&["user", "grant-role", "ann", "clerk"]), "Role clerk is granted to user ann\n");
    assert_eq!(run(&["auth", "enable"]), "Authentication Enabled\n");
    assert!(run(&["auth", "status"]).starts_with("Authentication Status: true\nAuthRevision: "));
    assert_eq!(run(&["put", "ab", "1"]), "Error: etcdserver: user name is empty\n");
    assert_eq!(run(&["put", "ab", "1", "--user", "ann", "--password", "pw"]), "OK\n");
    assert_eq!(run(&["get", "ab", "--user", "ann:pw"]), "ab\n1\n");
    assert_eq!(run(&["get", "b", "--user", "ann:pw"]), "Error: etcdserver: permission denied\n");
    let bad = "Error: etcdserver: authentication failed, invalid user ID or password\n";
    assert_eq!(run(&["get", "ab", "--user", "ann:no"]), bad);
    assert_eq!(as_root(&["user", "get", "ann"]), "User: ann\nRoles: clerk\n");
    assert_eq!(as_root(&["user", "list"]), "ann\nroot\n");
    assert_eq!(
        as_root(&["role", "get", "clerk"]),
        "Role clerk\nKV Read:\n\t[a, b) (prefix a)\nKV Write:\n\t[a, b) (prefix a)\n"
    );
    assert_eq!(
        as_root(&["role", "revoke-permission", "clerk", "a", "--prefix"]),
        "Permission of range [a, b) is revoked from role clerk\n"
    );
    assert_eq!(run(&["get", "ab", "--user", "ann:pw"]), "Error: etcdserver: permission denied\n");
    assert_eq!(as_root(&["user", "delete", "ann"]), "User ann deleted\n");
    assert_eq!(as_root(&["role", "delete", "clerk"]), "Role clerk deleted\n");
    assert_eq!(as_root(&["auth", "disable"]), "Authentication Disabled\n");
    assert_eq!(run(&["get", "ab"]), "ab\n1\n");
}

#[test]
fn etcdctl_logs_in_on_one_member_and_on_three() {
    let Some(binary) = etcdctl::binary("auth with etcdctl") else { return };
    for count in [1, 3] {
        let members: Vec<Member> =
            Plan::cluster(count).into_iter().map(|plan| plan.with(&CHEAP).start()).collect();
        members.iter().for_each(Member::wait_ready);
        let ctl = Etcdctl::of(&binary, &members);
        let run = |args: &[&str]| ctl.run(args, "");
        assert!(run(&["user", "add", "root:rpw"]).contains("User root created"));
        assert!(run(&["user", "grant-role", "root", "root"]).contains("is granted to user root"));
        assert!(run(&["auth", "enable"]).contains("Authentication Enabled"));
        assert!(run(&["put", "a", "1"]).contains("user name is empty"));
        let as_root = |args: &[&str]| ctl.run(&[&["--user", "root:rpw"], args].concat(), "");
        assert!(as_root(&["role", "add", "clerk"]).contains("Role clerk created"));
        let grant = ["role", "grant-permission", "clerk", "readwrite", "a", "c"];
        assert!(as_root(&grant).contains("Role clerk updated"));
        assert!(as_root(&["user", "add", "ann:pw"]).contains("User ann created"));
        assert!(as_root(&["user", "grant-role", "ann", "clerk"]).contains("is granted to user ann"));
        let as_ann = |args: &[&str]| ctl.run(&[&["--user", "ann:pw"], args].concat(), "");
        assert!(as_ann(&["put", "a", "1"]).contains("OK"));
        assert_eq!(as_ann(&["get", "a", "c"]), "a\n1\n");
        assert!(as_ann(&["get", "a", "d"]).contains("permission denied"));
        assert!(as_ann(&["user", "list"]).contains("permission denied"));
        assert!(as_root(&["role", "get", "clerk"]).contains("[a, c)"));
        assert!(as_root(&["auth", "disable"]).contains("Authentication Disabled"));
        assert_eq!(run(&["get", "a"]), "a\n1\n");
    }
}
