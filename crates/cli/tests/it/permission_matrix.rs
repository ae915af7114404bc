//! Every call, every path and a WebSocket, each asked by every kind of caller: without credentials, with wrong, forged and
//! expired ones, by a user who has other rights, a reader, a writer, an administrator and root; on a member and on a node
//! that keeps data alone. A call or a path that is not in a table here fails the test.

use crate::auth::{gate, token_of, v3};
use crate::data_auth::{USERS, bearer, call, manage, member_and_node};
use crate::process::{Member, until};
use crate::rest::Rest;
use crate::sockets::Socket;
use crate::tour::block_on;
use bytes::Bytes;
use differ::RawCodec;
use jwt::{Claims, JwtKeys, SigningMethod};
use prost::Message;
use proto::althing::auth::v1 as data_auth;
use proto::althing::lease::v1 as lease_events;
use proto::althing::lock::v1 as lock;
use proto::althing::store::v1 as store;
use proto::etcdserverpb as etcd;
use proto::{health, inspect, v3electionpb as election, v3lockpb as v3lock};
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
enum Who {
    /// Also callers that the server does not know.
    Anyone,
    /// Callers without credentials, not those with wrong ones.
    NoCredentials,
    Users([bool; 4]),
}

const USER: Who = Who::Users([true; 4]);
const ROOT: Who = Who::Users([false; 4]);
/// Of the keys from `a` to `b`: reading, writing, both.
const READ: Who = Who::Users([false, true, false, true]);
const WRITE: Who = Who::Users([false, false, true, true]);
const BOTH: Who = Who::Users([false, false, false, true]);

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The caller is not known.
    Unknown,
    Denied,
    Served,
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
        Ok(first) => match reason_of_cancel(path, &first.unwrap_or_default()) {
            reason if reason.contains("permission denied") => (Outcome::Denied, reason),
            reason if reason.contains("user name is empty") || reason.contains("invalid auth token") => {
                (Outcome::Unknown, reason)
            }
            reason => (Outcome::Served, reason),
        },
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

fn bytes(message: impl Message) -> Bytes {
    message.encode_to_vec().into()
}

const KEY: Bytes = Bytes::from_static(b"a1");
/// Of no user, role, member or lease.
const NAME: &str = "no-such";
const ID: u64 = 77;
/// There is one of this number, and locks are held by it.
const LEASE: i64 = 88;

/// Every call with a message and who may make it. What would change who may what, or who is there, names what is not there:
/// who may is told that, and who may not is told so first.
fn calls() -> Vec<(&'static str, Bytes, Who)> {
    let name = || NAME.to_owned();
    let leader = || Some(election::LeaderKey { name: KEY, key: KEY, rev: 1, lease: 7 });
    let range = || etcd::RangeRequest { key: KEY, ..Default::default() };
    let put = etcd::PutRequest { key: KEY, value: KEY, ..Default::default() };
    let op = |request| etcd::RequestOp { request: Some(request) };
    let txn = etcd::TxnRequest {
        success: vec![
            op(etcd::request_op::Request::RequestPut(put.clone())),
            op(etcd::request_op::Request::RequestRange(range())),
        ],
        ..Default::default()
    };
    let create = etcd::WatchCreateRequest { key: KEY, ..Default::default() };
    let union = Some(etcd::watch_request::RequestUnion::CreateRequest(create));
    vec![
        ("/etcdserverpb.KV/Range", bytes(range()), READ),
        ("/etcdserverpb.KV/RangeStream", bytes(range()), READ),
        ("/etcdserverpb.KV/Put", bytes(put), WRITE),
        (
            "/etcdserverpb.KV/DeleteRange",
            bytes(etcd::DeleteRangeRequest { key: KEY, ..Default::default() }),
            WRITE,
        ),
        ("/etcdserverpb.KV/Txn", bytes(txn), BOTH),
        (
            "/etcdserverpb.KV/Compact",
            bytes(etcd::CompactionRequest { revision: 1 << 40, physical: false }),
            ROOT,
        ),
        ("/etcdserverpb.Watch/Watch", bytes(etcd::WatchRequest { request_union: union }), READ),
        ("/etcdserverpb.Lease/LeaseGrant", bytes(etcd::LeaseGrantRequest { ttl: 600, id: 0 }), USER),
        ("/etcdserverpb.Lease/LeaseRevoke", bytes(etcd::LeaseRevokeRequest { id: 77 }), USER),
        ("/etcdserverpb.Lease/LeaseKeepAlive", bytes(etcd::LeaseKeepAliveRequest { id: 77 }), USER),
        (
            "/etcdserverpb.Lease/LeaseTimeToLive",
            bytes(etcd::LeaseTimeToLiveRequest { id: 77, keys: true }),
            USER,
        ),
        ("/etcdserverpb.Lease/LeaseLeases", bytes(etcd::LeaseLeasesRequest {}), USER),
        ("/etcdserverpb.Cluster/MemberList", bytes(etcd::MemberListRequest { linearizable: false }), USER),
        (
            "/etcdserverpb.Cluster/MemberAdd",
            bytes(etcd::MemberAddRequest { peer_ur_ls: vec![name()], is_learner: true }),
            ROOT,
        ),
        ("/etcdserverpb.Cluster/MemberRemove", bytes(etcd::MemberRemoveRequest { id: ID }), ROOT),
        (
            "/etcdserverpb.Cluster/MemberUpdate",
            bytes(etcd::MemberUpdateRequest { id: ID, ..Default::default() }),
            ROOT,
        ),
        ("/etcdserverpb.Cluster/MemberPromote", bytes(etcd::MemberPromoteRequest { id: ID }), ROOT),
        ("/etcdserverpb.Maintenance/Alarm", bytes(etcd::AlarmRequest::default()), USER),
        ("/etcdserverpb.Maintenance/Status", bytes(etcd::StatusRequest {}), USER),
        ("/etcdserverpb.Maintenance/Defragment", bytes(etcd::DefragmentRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/Hash", bytes(etcd::HashRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/HashKV", bytes(etcd::HashKvRequest { revision: 0 }), ROOT),
        ("/etcdserverpb.Maintenance/Snapshot", bytes(etcd::SnapshotRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/MoveLeader", bytes(etcd::MoveLeaderRequest { target_id: ID }), ROOT),
        ("/etcdserverpb.Maintenance/Downgrade", bytes(etcd::DowngradeRequest::default()), ROOT),
        ("/etcdserverpb.Auth/AuthStatus", bytes(etcd::AuthStatusRequest {}), Who::NoCredentials),
        ("/etcdserverpb.Auth/Authenticate", bytes(etcd::AuthenticateRequest::default()), Who::Anyone),
        ("/etcdserverpb.Auth/AuthEnable", bytes(etcd::AuthEnableRequest {}), ROOT),
        ("/etcdserverpb.Auth/AuthDisable", bytes(etcd::AuthDisableRequest {}), ROOT),
        (
            "/etcdserverpb.Auth/UserAdd",
            bytes(etcd::AuthUserAddRequest {
                name: "root".to_owned(),
                password: name(),
                ..Default::default()
            }),
            ROOT,
        ),
        ("/etcdserverpb.Auth/UserGet", bytes(etcd::AuthUserGetRequest { name: name() }), ROOT),
        ("/etcdserverpb.Auth/UserList", bytes(etcd::AuthUserListRequest {}), ROOT),
        ("/etcdserverpb.Auth/UserDelete", bytes(etcd::AuthUserDeleteRequest { name: name() }), ROOT),
        (
            "/etcdserverpb.Auth/UserChangePassword",
            bytes(etcd::AuthUserChangePasswordRequest { name: name(), password: name() }),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/UserGrantRole",
            bytes(etcd::AuthUserGrantRoleRequest { user: name(), role: name() }),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/UserRevokeRole",
            bytes(etcd::AuthUserRevokeRoleRequest { name: name(), role: name() }),
            ROOT,
        ),
        ("/etcdserverpb.Auth/RoleAdd", bytes(etcd::AuthRoleAddRequest::default()), ROOT),
        ("/etcdserverpb.Auth/RoleGet", bytes(etcd::AuthRoleGetRequest { role: name() }), ROOT),
        ("/etcdserverpb.Auth/RoleList", bytes(etcd::AuthRoleListRequest {}), ROOT),
        ("/etcdserverpb.Auth/RoleDelete", bytes(etcd::AuthRoleDeleteRequest { role: name() }), ROOT),
        (
            "/etcdserverpb.Auth/RoleGrantPermission",
            bytes(etcd::AuthRoleGrantPermissionRequest::default()),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/RoleRevokePermission",
            bytes(etcd::AuthRoleRevokePermissionRequest { role: name(), ..Default::default() }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleGrantData",
            bytes(data_auth::RoleGrantDataRequest {
                role: name(),
                permission: Some(data_auth::DataPermission { namespace: name(), ..Default::default() }),
            }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleRevokeData",
            bytes(data_auth::RoleRevokeDataRequest { role: name(), namespace: name(), ..Default::default() }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleGetData",
            bytes(data_auth::RoleGetDataRequest { role: name() }),
            ROOT,
        ),
        ("/v3lockpb.Lock/Lock", bytes(v3lock::LockRequest { name: KEY, lease: LEASE }), BOTH),
        ("/v3lockpb.Lock/Unlock", bytes(v3lock::UnlockRequest { key: KEY }), WRITE),
        (
            "/v3electionpb.Election/Campaign",
            bytes(election::CampaignRequest { name: KEY, lease: LEASE, value: KEY }),
            BOTH,
        ),
        (
            "/v3electionpb.Election/Proclaim",
            bytes(election::ProclaimRequest { leader: leader(), value: KEY }),
            BOTH,
        ),
        ("/v3electionpb.Election/Leader", bytes(election::LeaderRequest { name: KEY }), READ),
        ("/v3electionpb.Election/Observe", bytes(election::LeaderRequest { name: KEY }), READ),
        ("/v3electionpb.Election/Resign", bytes(election::ResignRequest { leader: leader() }), BOTH),
        (
            "/althing.lock.v1.LockService/Lock",
            bytes(lock::LockRequest { name: "a1".into(), lease_id: LEASE, ..Default::default() }),
            BOTH,
        ),
        (
            "/althing.lock.v1.LockService/TryLock",
            bytes(lock::TryLockRequest { name: "a1".into(), lease_id: LEASE, ..Default::default() }),
            BOTH,
        ),
        (
            "/althing.lock.v1.LockService/Unlock",
            bytes(lock::UnlockRequest { key: "a1".into(), ..Default::default() }),
            WRITE,
        ),
        ("/althing.lock.v1.LockService/LeaseGrant", bytes(lock::LeaseGrantRequest { ttl: 600, id: 0 }), USER),
        ("/althing.lock.v1.LockService/LeaseRevoke", bytes(lock::LeaseRevokeRequest { id: 77 }), USER),
        ("/althing.lock.v1.LockService/LeaseKeepAlive", bytes(lock::LeaseKeepAliveRequest { id: 77 }), USER),
        (
            "/althing.lock.v1.LockService/Watch",
            bytes(lock::WatchRequest { key: "a1".into(), ..Default::default() }),
            READ,
        ),
        ("/althing.lock.v1.LockService/Inspect", bytes(lock::InspectRequest { name: "a1".into() }), READ),
        (
            "/althing.lock.v1.LockService/List",
            bytes(lock::ListRequest { prefix: "a".into(), limit: 0 }),
            READ,
        ),
        (
            "/althing.lock.v1.LockService/Fence",
            bytes(lock::FenceRequest { resource: "r".into(), lock: "a1".into(), fencing_token: 1 }),
            READ,
        ),
        ("/althing.lease.v1.LeaseService/Events", bytes(lease_events::EventsRequest::default()), USER),
        ("/althing.store.v1.StoreService/History", bytes(store::HistoryRequest { key: KEY, limit: 0 }), READ),
        ("/althing.store.v1.StoreService/Quota", bytes(store::QuotaRequest::default()), USER),
        (
            "/althing.store.v1.StoreService/ReplaceMember",
            bytes(store::ReplaceMemberRequest { id: ID, ..Default::default() }),
            ROOT,
        ),
        ("/althing.store.v1.StoreService/AcceptLoss", bytes(store::AcceptLossRequest { id: ID }), ROOT),
        (
            "/althing.store.v1.StoreService/CreateJoinToken",
            bytes(store::CreateJoinTokenRequest::default()),
            ROOT,
        ),
        ("/althing.store.v1.StoreService/SecurePeers", bytes(store::SecurePeersRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Clients", bytes(inspect::ClientsRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Watches", bytes(inspect::WatchesRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Leases", bytes(inspect::LeasesRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Compaction", bytes(inspect::CompactionRequest::default()), ROOT),
        ("/grpc.health.v1.Health/Check", bytes(health::HealthCheckRequest::default()), Who::Anyone),
        ("/grpc.health.v1.Health/Watch", bytes(health::HealthCheckRequest::default()), Who::Anyone),
    ]
}

/// A member and a node with users of both planes, and a token of each user; then those that are good for nothing.
struct World {
    member: Member,
    node: Member,
    /// Other, reader, writer, admin.
    users: [(&'static str, String); 4],
    root: String,
    strangers: Vec<(&'static str, String)>,
    _plan: crate::process::Plan,
}

fn world() -> World {
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
    let forged = JwtKeys::of_private(&JwtKeys::generate().unwrap()).unwrap().sign(&claims(later)).unwrap();
    let strangers = vec![
        ("no credentials", String::new()),
        ("a wrong token", "nonsense".to_owned()),
        ("an expired token", expired.unwrap()),
        ("a forged token", forged),
    ];
    until("the node knows the newest policy", || {
        (call(Rest::of(&node), &bearer(&root), "GET", "/v1/ring", "").status == 200).then_some(())
    });
    let users = ["other", "reader", "writer", "admin"].map(|user| (user, token(user)));
    World { member, node, users, root, strangers, _plan: plan }
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
                let is_open = who == Who::Anyone || who == Who::NoCredentials && token.is_empty();
                let wanted = if is_open { Outcome::Served } else { Outcome::Unknown };
                expect(stranger, wanted, ask(&member, token, path, message.clone()).await);
                if matches!(who, Who::Users(_)) {
                    let (node, token, message) = (node.clone(), token.clone(), message.clone());
                    elsewhere.spawn(async move {
                        let asked = ask(&node, &token, path, message);
                        (path, tokio::time::timeout(Duration::from_secs(5), asked).await)
                    });
                }
            }
            for (at, (user, token)) in world.users.iter().enumerate() {
                let may = match who {
                    Who::Anyone | Who::NoCredentials => true,
                    Who::Users(may) => may[at],
                };
                let wanted = if may { Outcome::Served } else { Outcome::Denied };
                expect(user, wanted, ask(&member, token, path, message.clone()).await);
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

#[test]
fn a_socket_is_for_those_who_have_its_permission() {
    let world = world();
    let watch = |token: &str| {
        let protocol = if token.is_empty() {
            String::new()
        } else {
            format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n")
        };
        let mut socket = Socket::open(world.member.client, "/v3/watch?method=POST", &protocol).unwrap();
        socket.say(r#"{"create_request":{"key":"YTE="}}"#);
        socket.hear()["result"]["canceled"] != true
    };
    for (stranger, token) in &world.strangers {
        assert!(!watch(token), "{stranger}");
    }
    for ((user, token), may) in world.users.iter().zip([false, true, false, true]) {
        assert_eq!(watch(token), may, "{user}");
    }
    assert!(watch(&world.root));
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
        (_, "/v1/coord/key") => r#"{"value":"1"}"#.to_owned(),
        // What changes the cluster is malformed: who may is told that.
        (_, path) if !path.contains("/data/") && !path.contains("/store/") => "{".to_owned(),
        _ => r#"{"value":1}"#.to_owned(),
    }
}

#[test]
fn every_path_is_for_those_who_have_its_permission() {
    let world = world();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md");
    let page = std::fs::read_to_string(page).unwrap();
    let tokens: BTreeMap<&str, &String> = world.users.iter().map(|(user, token)| (*user, token)).collect();
    let mut rows = 0;
    let mut wrong = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `/")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (pattern, method, permission) = (cells[1].trim_matches('`'), cells[2], cells[3]);
        rows += 1;
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
        let path = if pattern.ends_with("/store/key") && method != "PUT" {
            format!("{path}?key={key}")
        } else {
            match pattern {
                "/v1/coord/keys" => format!("{path}?prefix=a1"),
                "/v1/coord/key" | "/v1/coord/history" => format!("{path}?key=a1"),
                "/v1/lock" if method == "GET" => format!("{path}?name=a1"),
                "/v1/lock" => format!("{path}?name=a1&key=a1/9&token=1"),
                // A page of its own, which ends with the connection.
                "/v1/events" => format!("{path}?topics=no-such"),
                _ => path,
            }
        };
        let body = body_of(pattern, method, key);
        let may = expected(pattern, method, permission);
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
    assert!(rows > 60, "{rows} rows of docs/permissions.md");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
