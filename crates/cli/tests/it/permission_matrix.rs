//! Every call and every path, each asked by every kind of caller: without credentials, with wrong, forged and
//! expired ones, by a user who has other rights, a reader, a writer, an administrator and root; on a member and on a node
//! that keeps data alone. A call or a path that is not in a table here fails the test.

pub mod calls;

use crate::auth::{gate, token_of, v3};
use crate::data_auth::{USERS, bearer, call, manage, member_and_node};
use crate::process::{Member, until};
use crate::rest::Rest;
use crate::tour::block_on;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use calls::{LEASE, bytes, calls};
use differ::RawCodec;
use jwt::{Claims, JwtKeys, SigningMethod};
use prost::Message;
use proto::althing::lock::v1 as lock;
use proto::althing::store::v1 as store;
use proto::etcdserverpb as etcd;
use ring::signature::Ed25519KeyPair;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../jwt/keys");

/// Who may: other, reader, writer, admin. Root may everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Also callers that the server does not know.
    Anyone,
    /// Callers without credentials, not those with wrong ones.
    NoCredentials,
    Users([bool; 4]),
}

/// What nodes that keep data alone serve as members do.
const DATA_SERVICE: &str = "/althing.data.v1.DataService/";

pub const USER: Who = Who::Users([true; 4]);
const ROOT: Who = Who::Users([false; 4]);
/// Of the keys from `a` to `b`: reading, writing, both.
pub const READ: Who = Who::Users([false, true, false, true]);
pub const WRITE: Who = Who::Users([false, false, true, true]);
const BOTH: Who = Who::Users([false, false, false, true]);

/// Of keys of the data plane that begin with `open`, in the namespace `default`.
pub const DATA_READ: Who = Who::Users([false, true, true, false]);
const DATA_WRITE: Who = Who::Users([false, false, true, false]);

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The caller is not known.
    Unknown,
    Denied,
    Served,
}

impl Outcome {
    /// What the text of an answer says.
    pub fn told_by(text: &str) -> Outcome {
        let has = |words: [&str; 2]| words.iter().any(|words| text.contains(words));
        match text {
            _ if has(["permission denied", "\"code\":7,"]) => Outcome::Denied,
            _ if has(["user name is empty", "invalid auth token"]) => Outcome::Unknown,
            _ => Outcome::Served,
        }
    }
}

impl Who {
    /// What comes of it for a caller that the server does not know.
    pub fn for_stranger(self, token: &str) -> Outcome {
        let is_open = self == Who::Anyone || self == Who::NoCredentials && token.is_empty();
        if is_open { Outcome::Served } else { Outcome::Unknown }
    }

    /// What comes of it for this one of the users: other, reader, writer, admin.
    pub fn for_user(self, nth: usize) -> Outcome {
        let may = match self {
            Who::Anyone | Who::NoCredentials => true,
            Who::Users(may) => may[nth],
        };
        if may { Outcome::Served } else { Outcome::Denied }
    }
}

fn outcome_of(status: &Status) -> Outcome {
    match status.code() {
        Code::PermissionDenied => Outcome::Denied,
        Code::Unauthenticated => Outcome::Unknown,
        Code::InvalidArgument if status.message().contains("user name is empty") => Outcome::Unknown,
        _ => Outcome::Served,
    }
}

/// Calls with one message, and looks at the first answer.
async fn ask(channel: &Channel, token: &str, path: &str, message: Bytes) -> (Outcome, String) {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = Request::new(tokio_stream::once(message));
    if !token.is_empty() {
        request.metadata_mut().insert("token", token.parse().unwrap());
    }
    let answer = client.streaming(request, path.parse::<PathAndQuery>().unwrap(), RawCodec).await;
    let first = match answer {
        Ok(answers) => answers.into_inner().message().await,
        Err(status) => Err(status),
    };
    match first {
        Err(status) => (outcome_of(&status), status.to_string()),
        Ok(first) => {
            let reason = reason_of_cancel(path, &first.unwrap_or_default());
            (Outcome::told_by(&reason), reason)
        }
    }
}

/// A watch that is refused is told so by an answer.
fn reason_of_cancel(path: &str, answer: &Bytes) -> String {
    match path {
        "/etcdserverpb.Watch/Watch" => etcd::WatchResponse::decode(answer.clone()).unwrap().cancel_reason,
        "/althing.lock.v1.LockService/Watch" => {
            lock::WatchResponse::decode(answer.clone()).unwrap().cancel_reason
        }
        _ => String::new(),
    }
}

/// A member and a node with users of both planes, and a token of each user; then those that are good for nothing.
pub struct World {
    pub member: Member,
    pub node: Member,
    /// Other, reader, writer, admin.
    pub users: [(&'static str, String); 4],
    pub root: String,
    pub strangers: Vec<(&'static str, String)>,
    _plan: crate::process::Plan,
}

pub fn world() -> World {
    let key = std::fs::read(format!("{KEYS}/ed.pem")).unwrap();
    let flag = format!("jwt,sign-method=EdDSA,priv-key={KEYS}/ed.pem,ttl=1h");
    let (plan, member, node) = member_and_node(&["--auth-token", &flag]);
    let grant = |role: &str, access: &str, from: &str, to: &str| {
        manage(&member, &["role", "grant-permission", role, access, from, to, "--user", "root:rpw"]);
    };
    grant("reader", "read", "a", "b");
    grant("writer", "write", "a", "b");
    grant("admin", "readwrite", "a", "z");
    grant("other", "readwrite", "z", "zz");
    let token = |user: &str| {
        let password = USERS.iter().find(|(name, _)| *name == user).unwrap().1;
        token_of(gate(&member), user, password)
    };
    let root = token("root");
    let granted = v3(gate(&member), &root, "lease/grant", &format!(r#"{{"TTL":"3600","ID":"{LEASE}"}}"#));
    assert_eq!(granted.status, 200, "{}", granted.json());
    let status = v3(gate(&member), &root, "auth/status", "{}").json();
    let revision = status["authRevision"].as_str().unwrap().parse().unwrap();
    let claims = |ends| Claims { user: "root".to_owned(), revision, ends };
    let expired = JwtKeys::load(SigningMethod::EdDsa, None, Some(&key[..]))
        .unwrap()
        .sign(&claims(Duration::from_secs(1_000_000)));
    let later = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
        + Duration::from_secs(3_600);
    let ends = format!(r#","exp":{}"#, later.as_secs());
    let [endless, endful] = ["", ends.as_str()]
        .map(|end| signed_by(&key, &format!(r#"{{"username":"root","revision":{revision}{end}}}"#)));
    assert_eq!(v3(gate(&member), &endful, "auth/user/list", "{}").status, 200, "it is signed as it must be");
    let forged = JwtKeys::of_private(&JwtKeys::generate().unwrap()).unwrap().sign(&claims(later)).unwrap();
    let strangers = vec![
        ("no credentials", String::new()),
        ("a wrong token", "nonsense".to_owned()),
        ("an expired token", expired.unwrap()),
        ("a forged token", forged),
        ("a token without an end", endless),
    ];
    until("the node knows the newest policy", || {
        (call(Rest::of(&node), &bearer(&root), "GET", "/v1/ring", "").status == 200).then_some(())
    });
    let users = ["other", "reader", "writer", "admin"].map(|user| (user, token(user)));
    World { member, node, users, root, strangers, _plan: plan }
}

/// These claims, signed by the key.
fn signed_by(key: &[u8], claims: &str) -> String {
    let text = std::str::from_utf8(key).unwrap();
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&STANDARD.decode(body).unwrap()).unwrap();
    let [head, claims] = [r#"{"alg":"EdDSA","typ":"JWT"}"#, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{head}.{claims}");
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())))
}

/// Every call that is served, as it is counted.
fn served(member: &Member) -> BTreeSet<String> {
    let metrics = member.http("GET", "/metrics").body;
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let started = metrics.lines().filter(|line| line.starts_with("grpc_server_started_total{"));
    let paths: BTreeSet<String> = started
        .filter_map(|line| Some(format!("/{}/{}", label(line, "grpc_service")?, label(line, "grpc_method")?)))
        .collect();
    assert!(paths.len() > 60, "{paths:?}");
    paths
}

fn channel(member: &Member) -> Channel {
    Endpoint::from_shared(member.endpoint()).unwrap().connect_lazy()
}

#[test]
fn every_call_is_for_those_who_have_its_permission() {
    let world = world();
    let calls = calls();
    let listed: BTreeSet<&str> = calls.iter().map(|(path, ..)| *path).collect();
    for path in served(&world.member) {
        assert!(listed.contains(path.as_str()), "{path} is in no row");
    }
    block_on(async {
        let (member, node) = (channel(&world.member), channel(&world.node));
        let mut wrong = Vec::new();
        // A node that keeps data alone serves nothing of this to a caller that it does not know.
        let mut elsewhere = tokio::task::JoinSet::new();
        for (path, message, who) in calls {
            let mut expect = |caller: &str, wanted: Outcome, (got, why): (Outcome, String)| {
                if got != wanted {
                    wrong.push(format!("{path} for {caller}: {got:?}, not {wanted:?} ({why})"));
                }
            };
            for (stranger, token) in &world.strangers {
                expect(stranger, who.for_stranger(token), ask(&member, token, path, message.clone()).await);
                if matches!(who, Who::Users(_)) {
                    let (node, token, message) = (node.clone(), token.clone(), message.clone());
                    elsewhere.spawn(async move {
                        let asked = ask(&node, &token, path, message);
                        (path, tokio::time::timeout(Duration::from_secs(5), asked).await)
                    });
                }
            }
            for (at, (user, token)) in world.users.iter().enumerate() {
                expect(user, who.for_user(at), ask(&member, token, path, message.clone()).await);
                if path.starts_with(DATA_SERVICE) {
                    let asked = ask(&node, token, path, message.clone()).await;
                    expect(&format!("{user} on the node"), who.for_user(at), asked);
                    // By name and password, which members compare.
                    let password = USERS.iter().find(|(name, _)| name == user).unwrap().1;
                    let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
                    let asked = ask(&member, &basic, path, message.clone()).await;
                    expect(&format!("{user} with a password"), who.for_user(at), asked);
                    let wrong = format!("Basic {}", STANDARD.encode(format!("{user}:wrong")));
                    for basic in [&wrong, &basic] {
                        let asked = ask(&node, basic, path, message.clone()).await;
                        expect(&format!("{user} on the node with {basic}"), Outcome::Unknown, asked);
                    }
                    let (_, why) = ask(&member, &wrong, path, message.clone()).await;
                    let is_refused = why.contains("authentication failed");
                    let outcome = if is_refused { Outcome::Unknown } else { Outcome::Served };
                    expect(&format!("{user} with a wrong password"), Outcome::Unknown, (outcome, why));
                }
            }
            if path.starts_with(DATA_SERVICE) {
                let asked = ask(&node, &world.root, path, message.clone()).await;
                expect("root on the node", Outcome::Served, asked);
            }
            // Auth stays on for the rows that follow.
            if path != "/etcdserverpb.Auth/AuthDisable" {
                expect("root", Outcome::Served, ask(&member, &world.root, path, message.clone()).await);
            }
        }
        // What the node tells of itself it tells to users, and what changes it is root's.
        let status = ("/etcdserverpb.Maintenance/Status", bytes(etcd::StatusRequest {}));
        let secure =
            ("/althing.store.v1.StoreService/SecurePeers", bytes(store::SecurePeersRequest::default()));
        for ((path, message), may) in [(status, [true; 4]), (secure, [false; 4])] {
            for ((user, token), may) in world.users.iter().zip(may) {
                let (got, why) = ask(&node, token, path, message.clone()).await;
                let wanted = if may { Outcome::Served } else { Outcome::Denied };
                assert_eq!(got, wanted, "{path} on the node for {user}: {why}");
            }
            let served = (Outcome::Served, String::new());
            assert_eq!(ask(&node, &world.root, path, message).await, served, "{path} on the node for root");
        }
        while let Some(asked) = elsewhere.join_next().await {
            let (path, answer) = asked.unwrap();
            // An answer without a word of refusal; what waits for the coordination store is answered by nothing.
            if let Ok((Outcome::Served, why)) = answer
                && why.is_empty()
            {
                wrong.push(format!("{path} on the node is answered to a stranger"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Which of reader, writer, admin and other may, in the namespaces `shop` and `default`.
fn expected(path: &str, method: &str, permission: &str) -> Option<[bool; 4]> {
    let (every, none) = ([true; 4], [false; 4]);
    let in_shop = path.contains("{ns}");
    let of = |shop: [bool; 4], default: [bool; 4]| if in_shop { shop } else { default };
    let is_whole_namespace = method == "GET" && (path.ends_with("/data") || path.ends_with("/store/range"));
    Some(match permission {
        "none" => return None,
        "any user" => every,
        "root" => none,
        "admin on the namespace" => [false, false, true, false],
        "any permission in the namespace" => [true, true, true, false],
        // Others are left out of the answer.
        _ if path.starts_with("/v1/conflicts") => every,
        _ if is_whole_namespace => of([false, false, true, false], none),
        "read on the keys" | "read or write on each key" => {
            of([true, false, true, false], [true, true, false, false])
        }
        "read on the keys in the coordination store" => [true, false, true, false],
        "write on the keys in the coordination store" => [false, true, true, false],
        "read and write on the keys in the coordination store" => [false, false, true, false],
        "write on the keys" => of([false, true, true, false], [false, true, false, false]),
        "read and write on the key" => of([false, false, true, false], [false, true, false, false]),
        other => panic!("{other} is a permission that the test does not know"),
    })
}

fn body_of(path: &str, method: &str, key: &str) -> String {
    let entry = format!(r#"{{"key":"{key}","value":1}}"#);
    match (method, path) {
        ("GET" | "DELETE", _) => String::new(),
        (_, path) if path.ends_with("/data/batch") || path.ends_with("/batch/read") => {
            format!(r#"{{"keys":["{key}"]}}"#)
        }
        (_, path) if path.ends_with("/batch") || path.ends_with("/batch/write") => {
            format!(r#"{{"entries":[{entry}]}}"#)
        }
        (_, path) if path.ends_with("/store/keys") || path.ends_with("/store/key") => entry,
        (_, path) if path.contains("/crdt/") => String::new(),
        (_, "/v1/lock") => r#"{"metadata":"1"}"#.to_owned(),
        (_, "/v1/coord/key") => r#"{"value":"1"}"#.to_owned(),
        // What changes the cluster is malformed: who may is told that.
        (_, path) if !path.contains("/data/") && !path.contains("/store/") => "{".to_owned(),
        _ => r#"{"value":1}"#.to_owned(),
    }
}

/// A row of docs/permissions.md, with a request of its kind.
pub struct MatrixRow {
    pub pattern: String,
    pub method: String,
    pub permission: String,
    pub path: String,
    pub body: String,
    /// Reader, writer, admin and other; none if the row is for all.
    pub may: Option<[bool; 4]>,
}

impl MatrixRow {
    /// A caller that may do it takes away what the rows that follow need.
    pub fn ends_the_rest(&self) -> bool {
        self.method == "DELETE" && self.pattern == "/v1/namespaces/{ns}"
    }
}

pub fn rest_rows() -> Vec<MatrixRow> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<MatrixRow> = page.lines().filter(|line| line.starts_with("| `/")).map(rest_row).collect();
    assert!(rows.len() > 60, "{} rows of docs/permissions.md", rows.len());
    rows
}

fn rest_row(line: &str) -> MatrixRow {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let (pattern, method, permission) = (cells[1].trim_matches('`'), cells[2], cells[3]);
    let key = if pattern.contains("{ns}") { "orders/1" } else { "open" };
    let filled = [
        ("{ns}", "shop"),
        ("{key}", key),
        ("{type}", "counter"),
        ("{operation}", "increment"),
        ("{handler}", "no-such"),
        ("{region}", "no-such"),
        ("{node}", "ffff"),
        ("{id}", "no-such"),
    ];
    let path = filled.iter().fold(pattern.to_owned(), |path, (name, value)| path.replace(name, value));
    let path = match pattern {
        _ if pattern.ends_with("/store/key") && method != "PUT" => format!("{path}?key={key}"),
        _ if pattern.ends_with("/store/range") && method == "DELETE" => format!("{path}?prefix={key}"),
        "/v1/coord/keys" => format!("{path}?prefix=a1"),
        "/v1/coord/key" | "/v1/coord/history" => format!("{path}?key=a1"),
        "/v1/lock" if method == "GET" => format!("{path}?name=a1"),
        "/v1/lock" if method == "PUT" => format!("{path}?name=a1&token=1"),
        "/v1/lock" => format!("{path}?name=a1&key=a1/9&token=1"),
        // A page of its own, which ends with the connection.
        "/v1/events" => format!("{path}?topics=no-such"),
        // Refused when the caller is known to be permitted: a stream would not end.
        "/v1/feed" => format!("{path}?prefix=open&format=no-such"),
        "/v1/coord/watch" => format!("{path}?key=a1&format=no-such"),
        _ => path,
    };
    MatrixRow {
        body: body_of(pattern, method, key),
        may: expected(pattern, method, permission),
        path,
        pattern: pattern.to_owned(),
        method: method.to_owned(),
        permission: permission.to_owned(),
    }
}

#[test]
fn every_path_is_for_those_who_have_its_permission() {
    let world = world();
    let tokens: BTreeMap<&str, &String> = world.users.iter().map(|(user, token)| (*user, token)).collect();
    let mut wrong = Vec::new();
    for MatrixRow { pattern, method, permission, path, body, may } in rest_rows() {
        let (pattern, method) = (pattern.as_str(), method.as_str());
        for (name, place) in [("member", Rest::of(&world.member)), ("node", Rest::of(&world.node))] {
            let mut expect = |caller: &str, wanted: &str, status: u16| {
                let got = match status {
                    401 => "unknown",
                    403 => "denied",
                    _ => "served",
                };
                if got != wanted {
                    wrong.push(format!("{method} {path} on the {name} for {caller}: {status}, not {wanted}"));
                }
            };
            for (stranger, token) in &world.strangers {
                let given = if token.is_empty() { String::new() } else { bearer(token) };
                let status = call(place, &given, method, &path, &body).status;
                expect(stranger, if may.is_none() { "served" } else { "unknown" }, status);
            }
            // A node without the coordination store sends every caller that it knows to a member.
            let is_elsewhere = name == "node" && permission.ends_with("in the coordination store");
            let may = if is_elsewhere { Some([true; 4]) } else { may };
            for (user, may) in ["reader", "writer", "admin", "other"].iter().zip(may.unwrap_or([true; 4])) {
                // The namespace stays for the rows that follow.
                let is_last = method == "DELETE" && pattern == "/v1/namespaces/{ns}" && may;
                if !is_last {
                    let status = call(place, &bearer(tokens[user]), method, &path, &body).status;
                    expect(user, if may { "served" } else { "denied" }, status);
                }
            }
            if !(method == "DELETE" && pattern == "/v1/namespaces/{ns}") {
                expect("root", "served", call(place, &bearer(&world.root), method, &path, &body).status);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
