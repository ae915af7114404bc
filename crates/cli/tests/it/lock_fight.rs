//! Many clients fight for a few locks while members are killed and paused.
//! Each client has a lease that it keeps alive, takes a lock through any member, writes under its token, checks its
//! token for a resource kept elsewhere, and gives the lock back. Judged are the tokens: those of one lock rise from
//! holder to holder, no write under a stale token was accepted, and in the end nothing is stuck.
//!
//! The size is set by `ALTHING_FIGHT_CLIENTS`, `ALTHING_FIGHT_LOCKS` and `ALTHING_FIGHT_SECONDS`; the one by which the
//! lock service is judged is 200 clients, 10 locks and 60 seconds.

use crate::locks::{Locks, ask};
use crate::process::{Member, Plan};
use crate::tour::block_on;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::{PutRequest, RangeRequest};
use proto::lock::{
    FenceRequest, InspectRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, LockResponse,
    UnlockRequest,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tonic::codegen::tokio_stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const LEASE_TTL: i64 = 3;
/// Longer than any call should take while there is a leader.
const CALL: Duration = Duration::from_secs(8);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// What the clients share.
#[derive(Default)]
struct Field {
    /// Where each member serves now; it moves when a member starts again.
    endpoints: Mutex<Vec<String>>,
    stop: AtomicBool,
    acquired: AtomicU64,
    fenced: AtomicU64,
    /// By lock: the tokens that were told, in the order of telling.
    told: Mutex<BTreeMap<String, Vec<i64>>>,
    /// By lock: writes that were accepted, as revision and token.
    written: Mutex<BTreeMap<String, Vec<(i64, i64)>>>,
}

struct Client {
    field: Arc<Field>,
    number: u64,
    turn: u64,
}

impl Client {
    /// The next member, if it can be reached.
    async fn channel(&mut self) -> Option<Channel> {
        self.turn += 1;
        let endpoint = {
            let endpoints = self.field.endpoints.lock().unwrap();
            endpoints[(self.number + self.turn) as usize % endpoints.len()].clone()
        };
        let endpoint = Endpoint::from_shared(endpoint).unwrap().connect_timeout(Duration::from_secs(1));
        endpoint.connect().await.ok()
    }

    async fn fight(mut self, locks: u64) {
        while !self.field.stop.load(Ordering::Relaxed) {
            // Whatever goes wrong, the client begins again, elsewhere and with another lease.
            if self.live_with_one_lease(locks).await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn live_with_one_lease(&mut self, locks: u64) -> Result<(), Status> {
        let unreachable = || Status::unavailable("no server answers");
        let channel = self.channel().await.ok_or_else(unreachable)?;
        let mut client = Locks::new(channel.clone());
        let grant = LeaseGrantRequest { ttl: LEASE_TTL, id: 0 };
        let id = within(client.lease_grant(grant)).await?.id;
        let keeper = tokio::spawn(keep_alive(client.clone(), id));
        let fought = self.fight_rounds(&mut client, channel, id, locks).await;
        keeper.abort();
        if fought.is_ok() {
            let _ = within(client.lease_revoke(LeaseRevokeRequest { id })).await;
        }
        fought
    }

    async fn fight_rounds(
        &mut self,
        client: &mut Locks,
        channel: Channel,
        id: i64,
        locks: u64,
    ) -> Result<(), Status> {
        for round in 0..20 {
            if self.field.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let name = format!("fight-{}", (self.number + round) % locks);
            let held = within(client.lock(ask(&name, id, Some(2_000)))).await?;
            if held.acquired {
                self.hold(client, channel.clone(), &name, &held).await?;
            }
        }
        Ok(())
    }

    async fn hold(
        &mut self,
        client: &mut Locks,
        channel: Channel,
        name: &str,
        held: &LockResponse,
    ) -> Result<(), Status> {
        let token = held.fencing_token;
        self.field.acquired.fetch_add(1, Ordering::Relaxed);
        self.field.told.lock().unwrap().entry(name.to_owned()).or_default().push(token);
        // One in a hundred sleeps beyond the end of its lease, which is not renewed.
        let sleeps = token % 100 == 0;
        if sleeps {
            client.lease_revoke(LeaseRevokeRequest { id: lease_of(&held.key) }).await.ok();
            sleep(Duration::from_millis(200)).await;
        }
        let put = PutRequest {
            key: format!("resource-{name}").into(),
            value: token.to_string().into(),
            ..Default::default()
        };
        let mut put = Request::new(put);
        put.metadata_mut().insert("althing-fence", format!("lock={name},token={token}").parse().unwrap());
        match within(KvClient::new(channel).put(put)).await {
            Ok(put) => {
                assert!(!sleeps, "a write under a token that is gone was accepted");
                let revision = put.header.unwrap().revision;
                self.field
                    .written
                    .lock()
                    .unwrap()
                    .entry(name.to_owned())
                    .or_default()
                    .push((revision, token));
            }
            Err(refused) if refused.code() == Code::FailedPrecondition => {
                self.field.fenced.fetch_add(1, Ordering::Relaxed);
                return Err(refused);
            }
            Err(other) => return Err(other),
        }
        let resource = format!("disk-{name}");
        within(client.fence(FenceRequest { resource, lock: name.to_owned(), fencing_token: token })).await?;
        let unlock = UnlockRequest { key: held.key.clone(), fencing_token: token, ..Default::default() };
        within(client.unlock(unlock)).await.map(drop)
    }
}

async fn within<T>(call: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
    match timeout(CALL, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("it took too long")),
    }
}

async fn keep_alive(mut client: Locks, id: i64) {
    loop {
        sleep(Duration::from_secs(LEASE_TTL as u64) / 3).await;
        let once = tokio_stream::iter([LeaseKeepAliveRequest { id }]);
        if let Ok(answers) = client.lease_keep_alive(once).await {
            let _ = answers.into_inner().message().await;
        }
    }
}

fn lease_of(key: &str) -> i64 {
    i64::from_str_radix(key.rsplit('/').next().unwrap(), 16).unwrap()
}

/// Kills and pauses one member after the other until the time is up.
async fn trouble(members: &mut [Member], plans: &[Plan], field: &Field, until: Instant) {
    let mut turn = 0;
    while Instant::now() < until {
        let victim = turn % members.len();
        turn += 1;
        sleep(Duration::from_secs(2)).await;
        if turn % 2 == 0 {
            members[victim].signal("STOP");
            sleep(Duration::from_secs(2)).await;
            members[victim].signal("CONT");
        } else {
            members[victim].kill();
            sleep(Duration::from_secs(1)).await;
            members[victim] = plans[victim].start();
            field.endpoints.lock().unwrap()[victim] = members[victim].endpoint();
        }
    }
}

fn fight(clients: u64, locks: u64, seconds: u64) {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let field = Arc::new(Field::default());
    *field.endpoints.lock().unwrap() = members.iter().map(Member::endpoint).collect();
    block_on(async {
        let fighting: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(Client { field: field.clone(), number, turn: 0 }.fight(locks)))
            .collect();
        let until = Instant::now() + Duration::from_secs(seconds);
        trouble(&mut members, &plans, &field, until).await;
        field.stop.store(true, Ordering::Relaxed);
        for client in fighting {
            client.await.unwrap();
        }
        members.iter().for_each(Member::wait_ready);
        judge(&members[0], &field, locks).await;
    });
}

async fn judge(member: &Member, field: &Field, locks: u64) {
    // Clients that were cut off left keys behind that end with their leases.
    let mut client = Locks::connect(member.endpoint()).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(LEASE_TTL as u64 + 5);
    for name in (0..locks).map(|lock| format!("fight-{lock}")) {
        while let Some(stuck) =
            client.inspect(InspectRequest { name: name.clone() }).await.unwrap().into_inner().lock
        {
            assert!(Instant::now() < deadline, "stuck: {stuck:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
    let mut kv = KvClient::connect(member.endpoint()).await.unwrap();
    let written = std::mem::take(&mut *field.written.lock().unwrap());
    for (name, mut writes) in written {
        writes.sort_unstable();
        assert!(writes.is_sorted_by_key(|(_, token)| *token), "{name} was written out of order: {writes:?}");
        let range = RangeRequest { key: format!("resource-{name}").into(), ..Default::default() };
        let last = kv.range(range).await.unwrap().into_inner().kvs.remove(0);
        let last: i64 = std::str::from_utf8(&last.value).unwrap().parse().unwrap();
        assert!(last >= writes.last().unwrap().1, "{name}: an accepted write was lost");
    }
    for (name, tokens) in field.told.lock().unwrap().iter_mut() {
        let told = tokens.len();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(told, tokens.len(), "{name} was granted twice under one token");
    }
    let (acquired, fenced) = (field.acquired.load(Ordering::Relaxed), field.fenced.load(Ordering::Relaxed));
    let _ = writeln!(std::io::stderr(), "locks acquired: {acquired}, stale writes refused: {fenced}");
    assert!(acquired > locks, "{acquired}");
}

#[test]
fn tokens_rise_and_nothing_is_stuck_while_members_are_killed_and_paused() {
    fight(
        number("ALTHING_FIGHT_CLIENTS", 30),
        number("ALTHING_FIGHT_LOCKS", 4),
        number("ALTHING_FIGHT_SECONDS", 12),
    );
}
