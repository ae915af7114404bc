//! Calls of users: they go straight to the core as those of an open cluster do, and what was revoked is refused on
//! connections that stay.

use crate::client::{Answer, Client, GRPC, GRPC_ROUTED, framed};
use crate::world::{PATIENCE, World, cheap};
use bytes::Bytes;
use prost::Message;
use proto::authpb;
use proto::etcdserverpb as wire;
use server::AuthConfig;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const DENIED: &str = "7";
const UNAUTHENTICATED: &str = "16";
const INVALID: &str = "3";

/// A member with auth on, the user root, and ann, who may read and write the keys from `a` to `b`.
pub struct Secured {
    pub world: World,
    pub client: Client,
    pub root: String,
}

impl Secured {
    pub async fn start() -> Secured {
        Secured::on(World::start().await).await
    }

    async fn on(world: World) -> Secured {
        let client = Client::connect(world.address).await;
        let mut secured = Secured { world, client, root: String::new() };
        secured.add_user("root", "rpw").await;
        secured.grant_role("root", "root").await;
        secured.add_user("ann", "apw").await;
        let role = wire::AuthRoleAddRequest { name: "r".into() };
        secured.change("RoleAdd", &role).await;
        secured.grant_permission().await;
        secured.grant_role("ann", "r").await;
        secured.change("AuthEnable", &wire::AuthEnableRequest {}).await;
        secured.root = secured.log_in("root", "rpw").await;
        secured
    }

    async fn change(&self, method: &str, message: &impl Message) {
        let fields = [GRPC, ("token", self.root.as_str())];
        // A token is not sent where there is none.
        let fields = if self.root.is_empty() { &fields[..1] } else { &fields[..] };
        let answer = self.client.post(&format!("/etcdserverpb.Auth/{method}"), fields, framed(message)).await;
        let answer = answer.unwrap();
        assert_eq!(answer.trailers.get("grpc-status").map(|v| v.as_bytes()), Some(&b"0"[..]), "{answer:?}");
    }

    async fn add_user(&self, name: &str, password: &str) {
        let (name, password) = (name.to_owned(), password.to_owned());
        self.change("UserAdd", &wire::AuthUserAddRequest { name, password, options: None }).await;
    }

    async fn grant_role(&self, user: &str, role: &str) {
        let request = wire::AuthUserGrantRoleRequest { user: user.into(), role: role.into() };
        self.change("UserGrantRole", &request).await;
    }

    async fn grant_permission(&self) {
        let perm = authpb::Permission { perm_type: 2, key: "a".into(), range_end: "b".into() };
        let request = wire::AuthRoleGrantPermissionRequest { name: "r".into(), perm: Some(perm) };
        self.change("RoleGrantPermission", &request).await;
    }

    async fn revoke_permission(&self) {
        let (key, range_end) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let request = wire::AuthRoleRevokePermissionRequest { role: "r".into(), key, range_end };
        self.change("RoleRevokePermission", &request).await;
    }

    pub async fn log_in(&self, name: &str, password: &str) -> String {
        let request = wire::AuthenticateRequest { name: name.into(), password: password.into() };
        let path = "/etcdserverpb.Auth/Authenticate";
        let answer = self.client.post(path, &[GRPC], framed(&request)).await.unwrap();
        answer.message::<wire::AuthenticateResponse>().token
    }

    async fn fast_calls(&self) -> u64 {
        let metrics = self.client.get("/metrics").await;
        let text = std::str::from_utf8(&metrics.body).unwrap().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("althing_grpc_fast_calls_total "));
        line.unwrap().parse().unwrap()
    }
}

pub fn put(key: &str) -> wire::PutRequest {
    wire::PutRequest { key: Bytes::copy_from_slice(key.as_bytes()), value: "v".into(), ..Default::default() }
}

fn get(key: &str) -> wire::RangeRequest {
    wire::RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..Default::default() }
}

pub fn code(answer: &Answer) -> &str {
    let told = answer.trailers.get("grpc-status").or_else(|| answer.headers.get("grpc-status"));
    told.unwrap().to_str().unwrap()
}

/// Every call that goes straight to the core, about one key.
fn calls(key: &str) -> Vec<(&'static str, Bytes)> {
    let op = |request| wire::RequestOp { request: Some(request) };
    let read = op(wire::request_op::Request::RequestRange(get(key)));
    let write = op(wire::request_op::Request::RequestPut(put(key)));
    let delete = wire::DeleteRangeRequest { key: get(key).key, prev_kv: true, ..Default::default() };
    vec![
        ("Put", framed(&put(key))),
        ("Range", framed(&get(key))),
        ("Range", framed(&wire::RangeRequest { serializable: true, ..get(key) })),
        ("Txn", framed(&wire::TxnRequest { success: vec![read.clone()], ..Default::default() })),
        ("Txn", framed(&wire::TxnRequest { success: vec![write, read], ..Default::default() })),
        ("DeleteRange", framed(&delete)),
    ]
}

async fn call(client: &Client, method: &str, fields: &[(&str, &str)], body: Bytes) -> Answer {
    client.post(&format!("/etcdserverpb.KV/{method}"), fields, body).await.unwrap()
}

#[tokio::test]
async fn calls_of_users_go_straight_to_the_core_and_are_answered_as_the_services_answer() {
    let secured = Secured::start().await;
    let client = Client::connect(secured.world.address).await;
    let ann = secured.log_in("ann", "apw").await;
    let bearer = format!("Bearer {ann}");
    for shown in [("token", ann.as_str()), ("authorization", &ann), ("authorization", &bearer)] {
        for (method, body) in calls("a1") {
            let before = secured.fast_calls().await;
            let short = call(&client, method, &[GRPC, shown], body.clone()).await;
            assert_eq!(code(&short), "0", "{method} {short:?}");
            assert_eq!(secured.fast_calls().await, before + 1, "{method} with {}", shown.0);
            let long = call(&client, method, &[GRPC_ROUTED, shown], body).await;
            assert_eq!(code(&long), "0", "{method}");
        }
    }
    for (shown, expected) in [
        (vec![GRPC, ("token", ann.as_str())], DENIED),
        (vec![GRPC], INVALID),
        (vec![GRPC, ("token", "unknown.1")], UNAUTHENTICATED),
        (vec![GRPC, ("token", "")], UNAUTHENTICATED),
    ] {
        for (method, body) in calls("b1") {
            let short = call(&client, method, &shown, body.clone()).await;
            let long = call(&client, method, &[&[GRPC_ROUTED], &shown[1..]].concat(), body).await;
            assert_eq!((code(&short), &short), (expected, &long), "{method} with {shown:?}");
        }
    }
}

#[tokio::test]
async fn what_strangers_ask_for_is_not_put_into_the_log() {
    let secured = Secured::start().await;
    let index = async || {
        let fields = [GRPC, ("token", secured.root.as_str())];
        let body = framed(&wire::StatusRequest {});
        let path = "/etcdserverpb.Maintenance/Status";
        let answer = secured.client.post(path, &fields, body).await.unwrap();
        answer.message::<wire::StatusResponse>().raft_index
    };
    let before = index().await;
    for _ in 0..300 {
        assert_eq!(code(&call(&secured.client, "Put", &[GRPC], framed(&put("a1"))).await), INVALID);
    }
    // The member itself writes down the time now and then.
    assert!(index().await < before + 150);
}

#[tokio::test]
async fn callers_take_turns_on_one_connection() {
    let secured = Secured::start().await;
    let ann = secured.log_in("ann", "apw").await;
    let client = Client::connect(secured.world.address).await;
    for _ in 0..3 {
        let fields = [GRPC, ("token", ann.as_str())];
        assert_eq!(code(&call(&client, "Put", &fields, framed(&put("b1"))).await), DENIED);
        assert_eq!(code(&call(&client, "Put", &fields, framed(&put("a1"))).await), "0");
        assert_eq!(code(&call(&client, "Put", &[GRPC], framed(&put("a1"))).await), INVALID);
        let root = [GRPC, ("token", secured.root.as_str())];
        assert_eq!(code(&call(&client, "Put", &root, framed(&put("b1"))).await), "0");
    }
}

#[tokio::test]
async fn what_is_revoked_is_refused_on_a_connection_that_stays() {
    let secured = Secured::start().await;
    let client = Client::connect(secured.world.address).await;
    let ann = secured.log_in("ann", "apw").await;
    let fields = [GRPC, ("token", ann.as_str())];
    let ask = async |expected: &str, when: &str| {
        for (method, body) in calls("a1") {
            let answer = call(&client, method, &fields, body).await;
            assert_eq!(code(&answer), expected, "{method} {when}: {answer:?}");
        }
    };
    ask("0", "at first").await;
    secured.revoke_permission().await;
    ask(DENIED, "without the permission").await;
    secured.grant_permission().await;
    ask("0", "with the permission again").await;
    let request = wire::AuthUserRevokeRoleRequest { name: "ann".into(), role: "r".into() };
    secured.change("UserRevokeRole", &request).await;
    ask(DENIED, "without the role").await;
    secured.grant_role("ann", "r").await;
    ask("0", "with the role again").await;
    let request = wire::AuthUserChangePasswordRequest { name: "ann".into(), password: "new".into() };
    secured.change("UserChangePassword", &request).await;
    ask(UNAUTHENTICATED, "after another password").await;
    let again = secured.log_in("ann", "new").await;
    let fields = [GRPC, ("token", again.as_str())];
    assert_eq!(code(&call(&client, "Put", &fields, framed(&put("a1"))).await), "0");
    secured.change("UserDelete", &wire::AuthUserDeleteRequest { name: "ann".into() }).await;
    assert_eq!(code(&call(&client, "Put", &fields, framed(&put("a1"))).await), UNAUTHENTICATED);
    assert_eq!(code(&call(&client, "Range", &fields, framed(&get("a1"))).await), UNAUTHENTICATED);
}

#[tokio::test]
async fn changes_of_permissions_under_load_refuse_what_they_should_and_nothing_else() {
    let secured = Secured::start().await;
    let ann = secured.log_in("ann", "apw").await;
    let client = Client::connect(secured.world.address).await;
    let writer = tokio::spawn(async move {
        let fields = [GRPC, ("token", ann.as_str())];
        let mut told = Vec::new();
        for nth in 0..400 {
            let (method, body) = calls(&format!("a{nth}")).swap_remove(nth % 6);
            told.push(code(&call(&client, method, &fields, body).await).to_owned());
        }
        told
    });
    // Other permissions than hers change: each call is admitted again where it has to be, and none is refused.
    let mut changes = 0;
    while !writer.is_finished() {
        let name = format!("r{changes}");
        secured.change("RoleAdd", &wire::AuthRoleAddRequest { name }).await;
        changes += 1;
    }
    let told = writer.await.unwrap();
    assert!(told.iter().all(|code| code == "0"), "{told:?}");
    assert!(changes > 0);
}

#[tokio::test]
async fn a_token_that_is_not_used_ends_although_its_connection_stays() {
    const TTL: Duration = Duration::from_millis(500);
    let secured = Secured::on(World::start_with(AuthConfig { token_ttl: TTL, ..cheap() }).await).await;
    let client = Client::connect(secured.world.address).await;
    let begun = Instant::now();
    let ann = loop {
        let ann = secured.log_in("ann", "apw").await;
        let answer = call(&client, "Put", &[GRPC, ("token", ann.as_str())], framed(&put("a1"))).await;
        if code(&answer) == "0" {
            break ann;
        }
        // On a busy machine it may have ended before it was used.
        assert!(begun.elapsed() < 4 * PATIENCE, "{answer:?}");
    };
    tokio::time::sleep(2 * TTL).await;
    let answer = call(&client, "Put", &[GRPC, ("token", ann.as_str())], framed(&put("a1"))).await;
    assert_eq!(code(&answer), UNAUTHENTICATED);
}

#[tokio::test]
async fn a_flood_of_wrong_passwords_does_not_keep_others_out() {
    let dear = AuthConfig { bcrypt_cost: 10, ..AuthConfig::default() };
    let secured = Secured::on(World::start_with(dear).await).await;
    let flood = Client::connect(secured.world.address).await;
    let wrong = wire::AuthenticateRequest { name: "root".into(), password: "wrong".into() };
    let (wrong, path) = (framed(&wrong), "/etcdserverpb.Auth/Authenticate");
    let mut attempts = JoinSet::new();
    for _ in 0..300 {
        let (flood, wrong) = (flood.clone(), wrong.clone());
        attempts.spawn(async move { code(&flood.post(path, &[GRPC], wrong).await.unwrap()).to_owned() });
    }
    // From the first answers on, all places that the flood can take are taken.
    let first = attempts.join_next().await.unwrap().unwrap();
    secured.log_in("ann", "apw").await;
    let mut told = attempts.join_all().await;
    told.push(first);
    // Wrong, or too many.
    assert!(told.iter().all(|code| code == INVALID || code == "8"), "{told:?}");
    assert!(told.iter().any(|code| code == INVALID) && told.iter().any(|code| code == "8"), "{told:?}");
}
