//! Who may do what with data, on a member of the coordination store and on a node that keeps data alone: every kind of
//! route for every kind of caller, revocations on connections that are kept, and what goes on without a majority.

use crate::auth::{CHEAP, gate, token_of, v3};
use crate::process::{Member, PATIENCE, Plan, althing, free_port, until};
use crate::rest::{Answer, Rest};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use tempfile::TempDir;

/// What the password of a user is called.
pub const USERS: [(&str, &str); 5] =
    [("root", "rpw"), ("reader", "p1"), ("writer", "p2"), ("admin", "p3"), ("other", "p4")];
pub const GRANTS: [(&str, &str, &str); 6] = [
    ("reader", "read", "shop/orders/"),
    ("writer", "write", "shop/orders/"),
    ("admin", "admin", "shop"),
    ("other", "readwrite", "bank"),
    ("reader", "read", "default/open"),
    ("writer", "readwrite", "default/open"),
];

pub fn run(args: &[&str]) -> (bool, String) {
    let output = althing().args(args).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.success(), told)
}

/// A verb about users, which must succeed.
pub fn manage(member: &Member, args: &[&str]) -> String {
    let endpoint = member.client.to_string();
    let (done, told) = run(&[args, &["--endpoints", &endpoint]].concat());
    assert!(done, "{args:?}: {told}");
    told
}

pub fn as_root(member: &Member, args: &[&str]) -> String {
    manage(member, &[args, &["--user", "root:rpw"]].concat())
}

/// Users, roles of their names with permissions, and auth turned on.
pub fn turn_on(member: &Member) {
    for (user, password) in USERS {
        manage(member, &["user", "add", user, "--new-user-password", password]);
        if user != "root" {
            manage(member, &["role", "add", user]);
        }
        manage(member, &["user", "grant-role", user, user]);
    }
    for (role, access, data) in GRANTS {
        manage(member, &["role", "grant-permission", role, access, "--data", data]);
    }
    manage(member, &["auth", "enable"]);
}

/// A node that keeps data and nothing of the coordination store, invited while auth is off.
fn data_only(name: &str, (plan, member): (&Plan, &Member), flags: &[&str]) -> Member {
    let peer_port = free_port();
    let token = manage(member, &["ring", "invite"]);
    let place = format!("127.0.0.1:{}", plan.peer_port);
    let plan = Plan {
        name: name.to_owned(),
        peer_port,
        http_port: 0,
        cluster: format!("{name}=127.0.0.1:{peer_port}"),
        dir: Arc::new(TempDir::new().unwrap()),
        extra: ["--join", &place, "--data-only", "true", "--join-token", token.trim()]
            .map(str::to_owned)
            .to_vec(),
    };
    plan.with(flags).start()
}

pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

pub fn call(node: Rest, authorization: &str, method: &str, path: &str, body: &str) -> Answer {
    let json = ("content-type", "application/json");
    match authorization {
        "" => node.call(method, path, &[json], body.as_bytes()),
        given => node.call(method, path, &[json, ("authorization", given)], body.as_bytes()),
    }
}

/// A connection that is kept, as the fast path serves it.
pub struct Kept(TcpStream);

impl Kept {
    pub fn to(node: Rest) -> Kept {
        let stream = TcpStream::connect(node.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Kept(stream)
    }

    /// The status of the answer.
    pub fn call(&mut self, method: &str, path: &str, headers: &str, body: &str) -> u16 {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}{length}\r\n{body}");
        self.0.write_all(request.as_bytes()).unwrap();
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let text = String::from_utf8_lossy(&heard).into_owned();
            if let Some((head, rest)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if rest.len() >= length.parse().unwrap() {
                    return head[9..12].parse().unwrap();
                }
            }
            let read = self.0.read(&mut piece).unwrap();
            assert_ne!(read, 0, "the connection was closed after {text}");
            heard.extend_from_slice(&piece[..read]);
        }
    }
}

/// A member, and a node that keeps data alone and knows that auth is on.
pub fn member_and_node(flags: &[&str]) -> (Plan, Member, Member) {
    let plan = Plan::single().with(&CHEAP).with(flags);
    let member = plan.start_ready();
    Rest::of(&member).wait_for_ring(1);
    let node = data_only("d1", (&plan, &member), flags);
    Rest::of(&member).wait_for_ring(2);
    for namespace in ["shop", "bank"] {
        let answer = Rest::of(&member).put(&format!("/v1/namespaces/{namespace}"), r#"{"n":1}"#);
        assert_eq!(answer.status, 201, "{}", answer.json());
    }
    turn_on(&member);
    let root = token_of(gate(&member), "root", "rpw");
    until("the node knows the users", || {
        (call(Rest::of(&node), &bearer(&root), "GET", "/v1/ring", "").status == 200).then_some(())
    });
    until("the node knows the namespace", || {
        let known = call(Rest::of(&node), &bearer(&root), "GET", "/v1/namespaces/shop/data/k", "");
        (known.status == 404).then_some(())
    });
    (plan, member, node)
}

/// A route, and which of reader, writer, admin and other may use it.
type Row = (&'static str, &'static str, &'static str, [bool; 4]);

const EVERY: [bool; 4] = [true; 4];
const NO_USER: [bool; 4] = [false; 4];
const MATRIX: &[Row] = &[
    ("GET", "/v1/namespaces/shop/data/orders/1", "", [true, false, true, false]),
    ("GET", "/v1/data/orders/1?ns=shop", "", [true, false, true, false]),
    ("GET", "/v1/namespaces/shop/store/keys/orders/1", "", [true, false, true, false]),
    ("GET", "/v1/namespaces/shop/data/other", "", [false, false, true, false]),
    ("PUT", "/v1/namespaces/shop/data/orders/1", r#"{"value":1}"#, [false, true, true, false]),
    ("PUT", "/v1/namespaces/shop/data/other", r#"{"value":1}"#, [false, false, true, false]),
    ("DELETE", "/v1/namespaces/shop/data/orders/2", "", [false, true, true, false]),
    ("POST", "/v1/namespaces/shop/store/keys", r#"{"key":"orders/1","value":1}"#, [false, true, true, false]),
    ("GET", "/v1/namespaces/shop/store/range?prefix=orders/", "", [true, false, true, false]),
    ("GET", "/v1/namespaces/shop/store/range?start=orders/&end=p", "", [false, false, true, false]),
    ("GET", "/v1/namespaces/shop/store/range", "", [false, false, true, false]),
    ("GET", "/v1/namespaces/shop/data", "", [false, false, true, false]),
    ("POST", "/v1/namespaces/shop/data/batch/read", r#"{"keys":["orders/1"]}"#, [true, false, true, false]),
    (
        "POST",
        "/v1/namespaces/shop/data/batch/write",
        r#"{"entries":[{"key":"orders/1","value":1}]}"#,
        [false, true, true, false],
    ),
    (
        "POST",
        "/v1/namespaces/shop/data/batch/write",
        r#"{"entries":[{"key":"orders/1","value":1},{"key":"other","value":1}]}"#,
        [false, false, true, false],
    ),
    ("POST", "/v1/namespaces/shop/data/batch", r#"{"keys":["orders/1"]}"#, [true, false, true, false]),
    ("POST", "/v1/namespaces/shop/crdt/counter:orders/c/increment", "", [false, false, true, false]),
    ("GET", "/v1/namespaces/shop/crdt/counter:orders/c", "", [true, false, true, false]),
    ("GET", "/v1/namespaces/shop", "", [true, true, true, false]),
    ("GET", "/v1/namespaces/shop/home", "", [true, true, true, false]),
    ("PUT", "/v1/namespaces/shop/home", "{", [false, false, true, false]),
    ("PUT", "/v1/namespaces/shop", r#"{"n":"none"}"#, [false, false, true, false]),
    ("DELETE", "/v1/namespaces/bank", "", NO_USER),
    ("GET", "/v1/namespaces/no-such/data/k", "", NO_USER),
    ("GET", "/v1/namespaces", "", EVERY),
    ("GET", "/v1/conflicts", "", EVERY),
    ("GET", "/v1/ring", "", EVERY),
    ("GET", "/v1/regions", "", EVERY),
    ("GET", "/v1/handlers", "", EVERY),
    ("PUT", "/v1/handlers/h", "{", NO_USER),
    ("DELETE", "/v1/handlers/h", "", NO_USER),
    ("PUT", "/v1/regions/mars", "{", NO_USER),
    ("DELETE", "/v1/ring/nodes/ffff", "", NO_USER),
];

#[test]
fn every_kind_of_route_is_for_those_who_have_its_permission() {
    let (_plan, member, node) = member_and_node(&[]);
    let token = |user: &str, password: &str| bearer(&token_of(gate(&member), user, password));
    let tokens = USERS.map(|(user, password)| token(user, password));
    let [root, callers @ ..] = &tokens;
    for (name, place) in [("member", Rest::of(&member)), ("node", Rest::of(&node))] {
        for (method, path, body, allowed) in MATRIX {
            let what = format!("{method} {path} on the {name}");
            for strange in ["", "Bearer nonsense", "Bearer a.b.c", "Basic cmVhZGVyOndyb25n", "Basic %%%"] {
                let status = call(place, strange, method, path, body).status;
                assert_eq!(status, 401, "{what} for {strange:?}");
            }
            for ((caller, (user, _)), allowed) in callers.iter().zip(&USERS[1..]).zip(allowed) {
                let status = call(place, caller, method, path, body).status;
                assert_ne!(status, 401, "{what} for {user}");
                assert_eq!(status != 403, *allowed, "{what} for {user}: {status}");
            }
            let is_change_of_the_cluster =
                path.ends_with("/h") || path.ends_with("bank") || path.contains("ffff");
            if !is_change_of_the_cluster {
                let status = call(place, root, method, path, body).status;
                assert!(!matches!(status, 401 | 403), "{what} for root: {status}");
            }
        }
        for path in ["/openapi.json", "/health"] {
            assert!(!matches!(place.get(path).status, 401 | 403), "{path} is open");
        }
    }
    // Names and passwords are compared where the users are.
    let basic = "Basic cmVhZGVyOnAx";
    let path = "/v1/namespaces/shop/data/orders/1";
    assert_eq!(call(Rest::of(&member), basic, "GET", path, "").status, 200);
    let elsewhere = call(Rest::of(&node), basic, "GET", path, "");
    assert_eq!((elsewhere.status, elsewhere.json()["error"].as_str()), (401, Some("password_not_here")));
    let listed = call(Rest::of(&member), &callers[0], "GET", "/v1/namespaces", "").json();
    assert!(listed.to_string().contains("shop") && !listed.to_string().contains("bank"), "{listed}");
}

#[test]
fn the_fast_path_asks_who_calls_and_hears_of_every_change() {
    let (_plan, member, node) = member_and_node(&[]);
    let places = [Rest::of(&member), Rest::of(&node)];
    let (reader, writer) = (token_of(gate(&member), "reader", "p1"), token_of(gate(&member), "writer", "p2"));
    let header = |token: &str| format!("Authorization: Bearer {token}\r\ntraceparent: 00-1-2-01\r\n");
    let mut lines = places.map(Kept::to);
    for line in &mut lines {
        let put = r#"{"value":7}"#;
        assert_eq!(line.call("PUT", "/v1/data/open", &header(&writer), put), 200);
        let in_session = format!("{}X-Session-Token: new\r\nX-Forwarded-For: 10.0.0.1\r\n", header(&writer));
        assert_eq!(line.call("PUT", "/v1/data/open", &in_session, put), 200);
        assert_eq!(line.call("GET", "/v1/data/open", &header(&reader), ""), 200);
        assert_eq!(line.call("PUT", "/v1/data/open", &header(&reader), put), 403);
        assert_eq!(line.call("GET", "/v1/data/closed", &header(&reader), ""), 403);
        assert_eq!(line.call("GET", "/v1/data/open", "", ""), 401);
        assert_eq!(line.call("GET", "/v1/data/open", "Authorization: Bearer wrong\r\n", ""), 401);
        assert_eq!(line.call("GET", "/v1/data/open", &header(&reader), ""), 200);
    }
    as_root(&member, &["role", "revoke-permission", "reader", "--data", "default/open"]);
    for line in &mut lines {
        until("a permission that was revoked is gone", || {
            let status = line.call("GET", "/v1/data/open", &header(&reader), "");
            assert!(matches!(status, 200 | 403), "{status}");
            (status == 403).then_some(())
        });
        assert_eq!(line.call("GET", "/v1/data/open", &header(&writer), ""), 200, "others are not concerned");
    }
    // On the member it holds from the answer on.
    let root = token_of(gate(&member), "root", "rpw");
    let body = r#"{"name":"writer","password":"p5"}"#;
    assert_eq!(v3(gate(&member), &root, "auth/user/changepw", body).status, 200);
    assert_eq!(lines[0].call("GET", "/v1/data/open", &header(&writer), ""), 401);
    until("the node hears of the new password", || {
        let status = lines[1].call("GET", "/v1/data/open", &header(&writer), "");
        (status == 401).then_some(())
    });
    let writer = token_of(gate(&member), "writer", "p5");
    for line in &mut lines {
        assert_eq!(
            line.call("GET", "/v1/data/open", &header(&writer), ""),
            200,
            "a new token is good at once"
        );
    }
    as_root(&member, &["user", "delete", "writer"]);
    assert_eq!(lines[0].call("GET", "/v1/data/open", &header(&writer), ""), 401);
    as_root(&member, &["auth", "disable"]);
    for line in &mut lines {
        until("auth is off", || (line.call("GET", "/v1/data/open", "", "") == 200).then_some(()));
    }
}

#[test]
fn a_token_ends_on_members_and_on_nodes() {
    let (_plan, member, node) = member_and_node(&["--auth-token-ttl-ms", "2000"]);
    let token = bearer(&token_of(gate(&member), "reader", "p1"));
    let path = "/v1/namespaces/shop/data/orders/1";
    until("it ends on the node, used or not", || {
        let status = call(Rest::of(&node), &token, "GET", path, "").status;
        assert!(matches!(status, 404 | 401), "{status}");
        (status == 401).then_some(())
    });
    // It was not used here; it ends two seconds after it was given out.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(call(Rest::of(&member), &token, "GET", path, "").status, 401);
}

#[test]
fn data_are_served_to_users_without_a_majority_of_the_coordination_store() {
    let plans: Vec<Plan> = Plan::cluster(3).into_iter().map(|plan| plan.with(&CHEAP)).collect();
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(|member| Rest::of(member).wait_for_ring(3));
    let nodes = ["d1", "d2"].map(|name| data_only(name, (&plans[0], &members[0]), &[]));
    Rest::of(&members[0]).wait_for_ring(5);
    turn_on(&members[0]);
    let (writer, reader) =
        (token_of(gate(&members[0]), "writer", "p2"), token_of(gate(&members[0]), "reader", "p1"));
    let (writer, reader) = (bearer(&writer), bearer(&reader));
    for node in &nodes {
        until("the node knows the users", || {
            let status = call(Rest::of(node), &writer, "PUT", "/v1/data/open", r#"{"value":1}"#).status;
            (status == 200).then_some(())
        });
    }
    members[1].kill();
    members[2].kill();
    let survivors = [Rest::of(&members[0]), Rest::of(&nodes[0]), Rest::of(&nodes[1])];
    until("the coordination store has lost its majority", || {
        let leader = v3(gate(&members[0]), "", "maintenance/status", "{}");
        let health = members[0].http("GET", "/health").status;
        (health != 200 || leader.status != 200).then_some(())
    });
    // Most keys have two of their three replicas among the nodes that are left.
    for place in survivors {
        until("a quorum is found", || {
            let key = (0..20).find(|nth| {
                let path = format!("/v1/data/open-{nth}");
                call(place, &writer, "PUT", &path, r#"{"value":2}"#).status == 200
            })?;
            let read = call(place, &reader, "GET", &format!("/v1/data/open-{key}"), "");
            (read.status == 200 && read.json()["value"] == 2).then_some(())
        });
        assert_eq!(call(place, &reader, "PUT", "/v1/data/open-1", r#"{"value":3}"#).status, 403);
        assert_eq!(call(place, "", "GET", "/v1/data/open-1", "").status, 401);
    }
    let basic = "Basic d3JpdGVyOnAy";
    let status = call(survivors[0], basic, "GET", "/v1/data/open-none", "").status;
    assert!(!matches!(status, 401 | 403), "a password is compared with what the member knows: {status}");
}

#[test]
fn a_node_without_policy_updates_refuses_every_caller_after_its_limit() {
    let plan = Plan::single().with(&CHEAP);
    let mut member = plan.start_ready();
    Rest::of(&member).wait_for_ring(1);
    let node = data_only("d1", (&plan, &member), &["--auth-staleness-max", "4000"]);
    Rest::of(&member).wait_for_ring(2);
    turn_on(&member);
    let root = bearer(&token_of(gate(&member), "root", "rpw"));
    let ring = |place: Rest| call(place, &root, "GET", "/v1/ring", "");
    until("the node knows the users", || (ring(Rest::of(&node)).status == 200).then_some(()));
    member.kill();
    // The last report of the member may still be on its way: it makes what the node knows young once more.
    until("what it knows is too old", || {
        let answer = ring(Rest::of(&node));
        let is_refused = answer.status == 503 && answer.json()["error"] == "policy_too_old";
        let metrics = String::from_utf8(Rest::of(&node).get("/metrics").bytes).unwrap();
        let age =
            metrics.lines().find_map(|line| line.strip_prefix("althing_auth_policy_age_seconds ")).unwrap();
        (is_refused && age.parse::<f64>().unwrap() > 4.0).then_some(())
    });
    let member = plan.start_ready();
    until("it is told again", || (ring(Rest::of(&node)).status == 200).then_some(()));
    drop(member);
}

#[test]
fn verbs_of_data_say_who_asks() {
    let (_plan, member, _node) = member_and_node(&[]);
    let place = Rest::of(&member).0.to_string();
    let data = |args: &[&str]| run(&[args, &["--http-endpoints", &place, "--ns", "shop"]].concat());
    let put = ["data", "put", "orders/9", "v"];
    assert!(!data(&put).0);
    assert!(data(&[&put[..], &["--user", "writer:p2"]].concat()).0);
    assert!(data(&[&put[..], &["--user", "writer", "--password", "p2"]].concat()).0);
    let denied = data(&[&put[..], &["--user", "reader:p1"]].concat());
    assert!(!denied.0 && denied.1.contains("permission_denied"), "{}", denied.1);
    let token = manage(&member, &["auth", "login", "--user", "reader:p1"]);
    let get = data(&["data", "get", "orders/9", "--token", token.trim()]);
    assert_eq!(get, (true, "orders/9\nv\n".to_owned()));
    let ring = |args: &[&str]| run(&[args, &["--http-endpoints", &place]].concat()).0;
    for verb in [&["ring"][..], &["region", "ls"], &["conflicts", "ls"], &["handlers", "ls"]] {
        assert!(!ring(verb), "{verb:?}");
        assert!(ring(&[verb, &["--user", "other:p4"]].concat()), "{verb:?}");
    }
    let shown = as_root(&member, &["role", "get", "reader"]);
    assert!(shown.contains("Data:\n\tread default/open\n\tread shop/orders/\n"), "{shown}");
    as_root(&member, &["role", "revoke-permission", "reader", "--data", "shop/orders/"]);
    assert!(!as_root(&member, &["role", "get", "reader"]).contains("shop"));
}
