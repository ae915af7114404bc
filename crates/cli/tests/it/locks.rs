//! Locks as clients meet them: tokens, queues, fences, and etcd's own lock service on the same names.

use crate::etcd::{Etcd, get, put};
use crate::process::{Member, Plan, until};
use crate::rest::Rest;
use crate::tour::block_on;
use proto::etcdserverpb::{DeleteRangeRequest, LeaseRevokeRequest, PutRequest};
use proto::lock::lock_service_client::LockServiceClient;
use proto::lock::watch_request::Filter;
use proto::lock::{
    FenceRequest, InspectRequest, LeaseGrantRequest, LeaseKeepAliveRequest, ListRequest, Lock, LockRequest,
    LockResponse, TryLockRequest, UnlockRequest, UpdateRequest, WatchRequest,
};
use proto::v3lockpb::lock_client::LockClient;
use serde_json::Value;
use std::time::{Duration, Instant};
use tonic::codegen::tokio_stream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

pub type Locks = LockServiceClient<Channel>;

pub async fn connect(member: &Member) -> Locks {
    Locks::connect(member.endpoint()).await.unwrap()
}

pub async fn lease(locks: &mut Locks, ttl: i64) -> i64 {
    locks.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await.unwrap().into_inner().id
}

pub fn ask(name: &str, lease_id: i64, timeout_ms: Option<i64>) -> LockRequest {
    LockRequest {
        name: name.to_owned(),
        lease_id,
        metadata: "{ \"operation\": \"schema-migration\" }".into(),
        timeout_ms,
        holder_id: format!("client-{lease_id}"),
    }
}

async fn lock(locks: &mut Locks, request: LockRequest) -> LockResponse {
    locks.lock(request).await.unwrap().into_inner()
}

async fn unlock(locks: &mut Locks, held: &LockResponse) -> Result<(), Status> {
    let (key, fencing_token) = (held.key.clone(), held.fencing_token);
    locks.unlock(UnlockRequest { key, fencing_token, ..Default::default() }).await.map(drop)
}

async fn inspect(locks: &mut Locks, name: &str) -> Option<Lock> {
    locks.inspect(InspectRequest { name: name.to_owned() }).await.unwrap().into_inner().lock
}

/// Waits until so many stand behind the holder.
async fn queue_of(locks: &mut Locks, name: &str, count: usize) -> Lock {
    let deadline = Instant::now() + crate::process::PATIENCE;
    loop {
        let found = inspect(locks, name).await;
        if let Some(lock) = found.filter(|lock| lock.queue.len() == count) {
            return lock;
        }
        assert!(Instant::now() < deadline, "waited too long for a queue of {count}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn fenced<T>(request: T, lock: &str, token: i64) -> Request<T> {
    let mut request = Request::new(request);
    request.metadata_mut().insert("althing-fence", format!("lock={lock},token={token}").parse().unwrap());
    request
}

#[test]
fn a_lock_is_taken_shown_and_given_back() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let (a, b) = (lease(&mut locks, 30).await, lease(&mut locks, 30).await);
        let held = lock(&mut locks, ask("/locks/db", a, None)).await;
        assert!(held.acquired);
        assert_eq!(held.key, format!("/locks/db/{a:x}"));
        assert_eq!((held.fencing_token, held.header.unwrap().revision), (2, 2));
        assert_eq!((held.holder_id.clone(), held.queue_position), (format!("client-{a}"), 0));
        assert!((1_000..=30_000).contains(&held.remaining_ttl_ms), "{held:?}");
        assert!(held.deadline_unix_ms > held.remaining_ttl_ms);

        let again = lock(&mut locks, ask("/locks/db", a, None)).await;
        assert_eq!((again.acquired, again.fencing_token), (true, 2), "the same holder, the same token");

        let tried = TryLockRequest { name: "/locks/db".into(), lease_id: b, ..Default::default() };
        let tried = locks.try_lock(tried).await.unwrap().into_inner();
        assert_eq!((tried.acquired, tried.fencing_token, tried.holder_token), (false, 0, 2));
        assert_eq!((tried.holder_id, tried.queue_position), (format!("client-{a}"), 1));

        let before = Instant::now();
        let waited = lock(&mut locks, ask("/locks/db", b, Some(200))).await;
        assert!(!waited.acquired && before.elapsed() >= Duration::from_millis(200));
        let shown = inspect(&mut locks, "/locks/db").await.unwrap();
        assert!(shown.queue.is_empty(), "who runs out of time leaves the queue");
        while inspect(&mut locks, "/locks/db").await.unwrap().remaining_ttl_ms % 1_000 == 0 {
            assert!(before.elapsed() < Duration::from_secs(20), "told in whole seconds");
        }
        assert_eq!((shown.holder_id, shown.fencing_token, shown.lease_id), (format!("client-{a}"), 2, a));
        assert_eq!((shown.create_revision, shown.version), (2, 1));
        assert_eq!(shown.metadata, "{ \"operation\": \"schema-migration\" }");

        let stranger = UnlockRequest { name: "/locks/db".into(), lease_id: b, ..Default::default() };
        let refused = locks.unlock(stranger).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::FailedPrecondition, "althing: not lock holder")
        );
        unlock(&mut locks, &held).await.unwrap();
        assert_eq!(unlock(&mut locks, &held).await.unwrap_err().code(), Code::FailedPrecondition);
        assert_eq!(inspect(&mut locks, "/locks/db").await, None);
        let unknown = locks.lock(ask("/locks/db", 77, None)).await.unwrap_err();
        assert_eq!(unknown.message(), "etcdserver: requested lease not found");
    });
}

#[test]
fn waiters_are_served_in_order_and_those_that_leave_are_forgotten() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let first = lease(&mut locks, 60).await;
        let held = lock(&mut locks, ask("l", first, None)).await;
        let mut waiting = Vec::new();
        for place in 0..4 {
            let id = lease(&mut locks, 60).await;
            let mut client = locks.clone();
            waiting.push((id, tokio::spawn(async move { lock(&mut client, ask("l", id, None)).await })));
            let shown = queue_of(&mut locks, "l", place + 1).await;
            let last = shown.queue.last().unwrap();
            assert_eq!((last.lease_id, last.client_id.clone()), (id, format!("client-{id}")));
            assert!(last.since_unix_ms > 0);
        }
        let all = locks.list(ListRequest::default()).await.unwrap().into_inner().locks;
        assert_eq!((all.len(), all[0].name.as_str(), all[0].queue.len()), (1, "l", 4));
        assert_eq!(all[0].queue[1].predecessor_key, all[0].queue[0].waiter_key);

        // The second is cancelled, the third loses its lease.
        let (_, cancelled) = waiting.remove(1);
        cancelled.abort();
        queue_of(&mut locks, "l", 3).await;
        let (ended, lost) = waiting.remove(1);
        member.etcd().await.lease.lease_revoke(LeaseRevokeRequest { id: ended }).await.unwrap();
        assert!(lost.await.unwrap_err().is_panic(), "its place is gone, and it is told so");

        let mut token = held.fencing_token;
        unlock(&mut locks, &held).await.unwrap();
        for (id, granted) in waiting {
            let granted = granted.await.unwrap();
            assert_eq!(granted.holder_id, format!("client-{id}"));
            assert!(granted.acquired && granted.fencing_token > token);
            token = granted.fencing_token;
            unlock(&mut locks, &granted).await.unwrap();
        }
    });
}

#[test]
fn a_write_under_a_stale_token_is_refused_and_both_tokens_are_named() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let mut etcd = member.etcd().await;
        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let slept = lock(&mut locks, ask("db", a, None)).await.fencing_token;
        for value in ["1", "2"] {
            etcd.kv.put(fenced(put("table", value), "db", slept)).await.unwrap();
        }
        etcd.lease.lease_revoke(LeaseRevokeRequest { id: a }).await.unwrap();
        let awake = lock(&mut locks, ask("db", b, None)).await.fencing_token;
        etcd.kv.put(fenced(put("table", "X"), "db", awake)).await.unwrap();
        let refused = etcd.kv.put(fenced(put("table", "Y"), "db", slept)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let words = format!(
            "althing: fencing token is stale: token {slept} does not hold lock \"db\": token {awake} does"
        );
        assert_eq!(refused.message(), words);
        let delete = DeleteRangeRequest { key: "table".into(), ..Default::default() };
        assert!(etcd.kv.delete_range(fenced(delete, "db", slept)).await.is_err());
        assert!(etcd.kv.txn(fenced(Default::default(), "db", slept)).await.is_err());
        assert_eq!(etcd.range(get("table")).await.unwrap().kvs[0].value, "X");
        let malformed = etcd.kv.put(fenced(put("table", "Z"), "db", -1)).await.unwrap_err();
        assert_eq!(malformed.code(), Code::InvalidArgument);

        let check =
            |fencing_token| FenceRequest { resource: "disk".into(), lock: "db".into(), fencing_token };
        for token in [slept, slept, awake, awake] {
            assert_eq!(locks.fence(check(token)).await.unwrap().into_inner().last_token, token);
        }
        let stale = locks.fence(check(slept)).await.unwrap_err();
        assert!(stale.message().contains(&format!("token {slept} is lower than token {awake}")), "{stale}");
        assert_eq!(locks.fence(check(i64::MAX)).await.unwrap_err().code(), Code::OutOfRange);
    });
}

#[test]
fn fences_and_locks_are_reached_through_the_gateway() {
    let member = Plan::single().start_ready();
    let post = |path: &str, body: &str| member.http_with("POST", path, body);
    let granted = block_on(async { lease(&mut connect(&member).await, 60).await });
    let held = post("/v3/lock/lock", &format!(r#"{{"name":"bA==","lease":"{granted}"}}"#));
    assert_eq!(held.status, 200, "{}", held.body);
    let key = format!(r#""key":"{}""#, base64_key(granted));
    assert!(held.body.contains(r#""revision":"2""#) && held.body.contains(&key), "{}", held.body);
    let shown = post("/v1/lock/inspect", r#"{"name":"l"}"#).body;
    assert!(shown.contains(r#""fencing_token":"2""#), "{shown}");
    let put = r#"{"key":"a2V5","value":"dg=="}"#;
    for (token, status) in [(2, 200), (1, 400)] {
        let headers = format!("X-Fence: lock=l,token={token}\r\n");
        let answer = crate::process::http_with_headers(member.client, "/v3/kv/put", &headers, put);
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let checked = post("/v1/lock/fence", r#"{"resource":"disk","lock":"l","fencing_token":"2"}"#);
    assert_eq!((checked.status, checked.body.contains(r#""last_token":"2""#)), (200, true));
    assert_eq!(post("/v3/lock/unlock", &format!(r#"{{"key":"{}"}}"#, base64_key(granted))).status, 200);
    assert_eq!(post("/v3/election/leader", r#"{"name":"bA=="}"#).status, 500);
}

/// `l/` and the lease in hex, in base64.
fn base64_key(lease: i64) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let key = format!("l/{lease:x}").into_bytes();
    let mut out = String::new();
    for chunk in key.chunks(3) {
        let word =
            chunk.iter().enumerate().fold(0u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= chunk.len() { digit as char } else { '=' });
        }
    }
    out
}

#[test]
fn etcds_lock_service_and_ours_exclude_each_other_on_one_name() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let mut etcd_locks = LockClient::connect(member.endpoint()).await.unwrap();
        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let theirs = proto::v3lockpb::LockRequest { name: "l".into(), lease: a };
        let key = etcd_locks.lock(theirs.clone()).await.unwrap().into_inner().key;
        assert_eq!(key, format!("l/{a:x}"));
        let before = member.etcd().await.range(get("x")).await.unwrap().header.unwrap().revision;
        etcd_locks.lock(theirs).await.unwrap();
        let after = member.etcd().await.range(get("x")).await.unwrap().header.unwrap().revision;
        assert_eq!(before, after, "calling again with the same lease does nothing");
        assert!(!lock(&mut locks, ask("l", b, Some(0))).await.acquired);

        let mut client = locks.clone();
        let waiting = tokio::spawn(async move { lock(&mut client, ask("l", b, None)).await });
        queue_of(&mut locks, "l", 1).await;
        etcd_locks.unlock(proto::v3lockpb::UnlockRequest { key }).await.unwrap();
        let ours = waiting.await.unwrap();
        assert!(ours.acquired);

        let theirs = proto::v3lockpb::LockRequest { name: "l".into(), lease: a };
        let mut client = etcd_locks.clone();
        let waiting = tokio::spawn(async move { client.lock(theirs).await.unwrap().into_inner() });
        queue_of(&mut locks, "l", 1).await;
        // A plain transaction on the keys, as etcdctl makes it, stands in the same queue.
        let plain = PutRequest { lease: b, ..put("l/plain", "") };
        member.etcd().await.put(plain).await.unwrap();
        unlock(&mut locks, &ours).await.unwrap();
        assert_eq!(waiting.await.unwrap().key, format!("l/{a:x}"));
        assert_eq!(inspect(&mut locks, "l").await.unwrap().queue[0].waiter_key, "l/plain");
        // Without a lease of its own a client is given one.
        let given = etcd_locks.lock(proto::v3lockpb::LockRequest { name: "free".into(), lease: 0 }).await;
        assert!(given.unwrap().into_inner().key.starts_with(b"free/"));
    });
}

#[test]
fn a_watch_on_a_lock_tells_of_every_hand_over() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let held = lock(&mut locks, ask("l", a, None)).await;
        let request = WatchRequest { key: "l".into(), lock: true, ..Default::default() };
        let requests = tokio_stream::iter([request]);
        let requests = tokio_stream::StreamExt::chain(requests, tokio_stream::pending());
        let mut watch = locks.watch(requests).await.unwrap().into_inner();
        let mut told = Vec::new();
        let created = watch.message().await.unwrap().unwrap();
        assert!(created.created);
        told.extend(created.hand_overs);
        let mut client = locks.clone();
        let waiting = tokio::spawn(async move { lock(&mut client, ask("l", b, None)).await });
        queue_of(&mut locks, "l", 1).await;
        unlock(&mut locks, &held).await.unwrap();
        let next = waiting.await.unwrap();
        unlock(&mut locks, &next).await.unwrap();
        let mut events = 0;
        while told.len() < 3 {
            let heard = watch.message().await.unwrap().unwrap();
            events += heard.events.len();
            told.extend(heard.hand_overs);
        }
        let tokens: Vec<i64> = told.iter().map(|hand_over| hand_over.fencing_token).collect();
        assert_eq!(tokens, [held.fencing_token, next.fencing_token, 0]);
        assert_eq!((told[1].holder_id.clone(), told[1].lease_id), (format!("client-{b}"), b));
        assert_eq!(events, 3, "b joins, a goes, b goes");

        let keep = tokio_stream::iter([LeaseKeepAliveRequest { id: a }, LeaseKeepAliveRequest { id: 7 }]);
        let mut kept = locks.lease_keep_alive(keep).await.unwrap().into_inner();
        assert_eq!(kept.message().await.unwrap().unwrap().ttl, 60);
        assert_eq!(kept.message().await.unwrap().unwrap().ttl, 0);
    });
}

#[test]
fn a_watch_on_a_lock_leaves_out_what_its_filters_say() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let watch = |id, lock, filters: &[Filter]| WatchRequest {
            key: if lock { "l".into() } else { "l/".into() },
            lock,
            prefix: !lock,
            watch_id: id,
            filters: filters.iter().map(|filter| *filter as i32).collect(),
            ..Default::default()
        };
        let requests = [
            watch(1, true, &[Filter::NoPut, Filter::NoDelete]),
            watch(2, true, &[Filter::NoHandOver, Filter::NoPut]),
            watch(3, false, &[Filter::NoDelete]),
        ];
        let requests = tokio_stream::StreamExt::chain(tokio_stream::iter(requests), tokio_stream::pending());
        let mut watch = locks.watch(requests).await.unwrap().into_inner();
        for _ in 0..3 {
            assert!(watch.message().await.unwrap().unwrap().created);
        }
        let held = lock(&mut locks, ask("l", a, None)).await;
        unlock(&mut locks, &held).await.unwrap();
        lock(&mut locks, ask("l", b, None)).await;
        // Of each watch: events and hand-overs.
        let mut told = [(0, 0); 4];
        while told != [(0, 0), (0, 3), (1, 0), (2, 0)] {
            let heard = watch.message().await.unwrap().unwrap();
            assert!(heard.events.len() + heard.hand_overs.len() > 0, "{heard:?}");
            let told = &mut told[usize::try_from(heard.watch_id).unwrap()];
            *told = (told.0 + heard.events.len(), told.1 + heard.hand_overs.len());
            assert!(told.0 <= 2 && told.1 <= 3, "{heard:?}");
        }
    });
}

#[test]
fn a_holder_updates_its_metadata_and_no_other_client_can() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let held = lock(&mut locks, ask("l", a, None)).await;
        let update = |token, metadata: &'static str| UpdateRequest {
            name: "l".into(),
            fencing_token: token,
            metadata: metadata.into(),
        };
        locks.update(update(held.fencing_token, "half done")).await.unwrap();
        let shown = inspect(&mut locks, "l").await.unwrap();
        assert_eq!((&shown.metadata[..], shown.lease_id), (&b"half done"[..], a));
        assert_eq!(shown.fencing_token, held.fencing_token, "the lock was held all the time");
        for token in [0, -1, 1, held.fencing_token + 1] {
            let refused = locks.update(update(token, "mine")).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
        }
        let mut client = locks.clone();
        let waiting = tokio::spawn(async move { lock(&mut client, ask("l", b, None)).await });
        let waits = queue_of(&mut locks, "l", 1).await.queue[0].create_revision;
        let refused = locks.update(update(waits, "mine")).await.unwrap_err();
        assert!(refused.message().contains(&format!("token {} does", held.fencing_token)), "{refused:?}");
        unlock(&mut locks, &held).await.unwrap();
        let next = waiting.await.unwrap();
        locks.update(update(held.fencing_token, "late")).await.unwrap_err();

        // By REST, and what is put below the name is shown as what it is.
        let rest = Rest::of(&member);
        let token = next.fencing_token;
        let path = format!("/v1/lock?name=l&token={token}");
        assert_eq!(rest.put(&path, r#"{"metadata":"by REST"}"#).status, 200);
        assert_eq!(rest.put("/v1/lock?name=l&token=1", r#"{"metadata":"x"}"#).status, 400);
        member.etcd().await.put(put("l/stray", "")).await.unwrap();
        let shown = rest.get("/v1/lock?name=l").json();
        assert_eq!((&shown["metadata"], &shown["queue"][0]["client"]), (&"by REST".into(), &Value::Null));
        unlock(&mut locks, &next).await.unwrap();
        let shown = rest.get("/v1/lock?name=l").json();
        assert_eq!((&shown["blocked_by"], &shown["holder"]), (&"l/stray".into(), &Value::Null));
    });
}

#[test]
fn every_call_that_the_description_has_is_served_by_the_gateway() {
    let member = Plan::single().start_ready();
    let document = Rest::of(&member).get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap().keys();
    let calls: Vec<&String> = paths.filter(|path| path.starts_with("/v1/lock/")).collect();
    assert_eq!(calls.len(), 7);
    for path in calls {
        let answer = member.http_with("POST", path, "{}");
        assert_ne!(answer.status, 404, "{path}: {}", answer.body);
    }
}

#[test]
fn waiters_are_served_and_cancelled_calls_leave_when_the_leader_dies() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let leader = until("there is a leader", || members.iter().position(Member::leads));
    let (here, there) = ((leader + 1) % 3, (leader + 2) % 3);
    block_on(async {
        let mut locks = connect(&members[here]).await;
        let mut others = connect(&members[there]).await;
        let holder = lease(&mut locks, 60).await;
        let held = lock(&mut locks, ask("l", holder, None)).await;
        let mut waiting = Vec::new();
        for turn in 0..20 {
            let id = lease(&mut locks, 60).await;
            let mut client = if turn % 2 == 0 { locks.clone() } else { others.clone() };
            waiting.push(tokio::spawn(async move { lock(&mut client, ask("l", id, None)).await }));
            queue_of(&mut locks, "l", turn + 1).await;
        }
        members[leader].kill();
        // There is no leader, and these go away.
        for cancelled in waiting.split_off(10) {
            cancelled.abort();
        }
        queue_of(&mut others, "l", 10).await;
        let mut token = held.fencing_token;
        unlock(&mut others, &held).await.unwrap();
        for granted in waiting {
            let granted = granted.await.unwrap();
            assert!(granted.acquired && granted.fencing_token > token);
            token = granted.fencing_token;
            unlock(&mut locks, &granted).await.unwrap();
        }
        assert_eq!(inspect(&mut locks, "l").await, None);
    });
}

#[test]
fn a_holder_that_falls_silent_loses_its_lock_and_a_restart_keeps_the_rest() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    let (silent, lasting) = block_on(async {
        let mut locks = connect(&member).await;
        let silent = lease(&mut locks, 1).await;
        let lasting = lease(&mut locks, 600).await;
        lock(&mut locks, ask("l", silent, None)).await;
        let granted = lock(&mut locks, ask("l", lasting, Some(30_000))).await;
        assert!(granted.acquired, "the silent one has lost it");
        let fencing_token = granted.fencing_token;
        let check = FenceRequest { resource: "disk".into(), lock: "l".into(), fencing_token };
        locks.fence(check).await.unwrap();
        (silent, granted.fencing_token)
    });
    member.kill();
    let member = plan.start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let shown = inspect(&mut locks, "l").await.unwrap();
        assert_eq!((shown.fencing_token, shown.queue.len()), (lasting, 0));
        assert!(shown.holder_id.starts_with("client-"), "{shown:?}");
        let stale = FenceRequest { resource: "disk".into(), lock: "l".into(), fencing_token: 2 };
        assert!(locks.fence(stale).await.is_err(), "what a resource has seen is not forgotten");
        let refused = locks.lock(ask("l", silent, Some(0))).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
    });
}

/// The committed index of the log, as the member tells it.
async fn committed(etcd: &mut Etcd) -> u64 {
    etcd.status().await.unwrap().raft_index
}

#[test]
fn an_uncontended_lock_and_unlock_cost_two_entries() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let mut etcd = member.etcd().await;
        let id = lease(&mut locks, 600).await;
        // Others have entries of their own, above all after a start: a stretch without any shows what locks cost.
        let mut least = u64::MAX;
        for _ in 0..10 {
            let before = committed(&mut etcd).await;
            for _ in 0..10 {
                let held = lock(&mut locks, ask("l", id, None)).await;
                unlock(&mut locks, &held).await.unwrap();
            }
            least = least.min(committed(&mut etcd).await - before);
        }
        assert!(least <= 20, "{least} entries for ten rounds");
    });
}
