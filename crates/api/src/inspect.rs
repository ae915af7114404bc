//! The lists of clients, watches and leases: gathers what connections and the apply machine know into messages, for gRPC and
//! for REST. What a member tells of clients and watches is about itself; leases are known to all.

mod peers;

pub use peers::{InspectCall, PeerInspections};

use crate::clients::{ClientSnapshot, unix_millis};
use crate::connections::Connections;
use crate::grpc::call_context;
use base::{Code, LeaseId, Revision};
use coord::Caller;
use coord::watch::{StreamId, WatchDescription, WatchId, WatchPosition, WatchSelection};
use proto::althing::inspect::v1::watch::State;
use proto::althing::inspect::v1::{
    Client, ClientsRequest, ClientsResponse, CompactionResponse, Lease, LeasesRequest, LeasesResponse,
    MemberNeed, Pin, Round, Watch, WatchesRequest, WatchesResponse,
};
use server::{
    CompactionDescription, CompactionPin, Handle, LeaseDescription, PinReader, RoundOutcome, RoundReport,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LIMIT_DEFAULT: usize = 1_000;
pub const LIMIT_MAX: usize = 10_000;
const PINS_MAX: usize = 100;
/// Longer than any lease lives.
const FAR_MS: u64 = 1 << 62;
/// What is shown for a lease that is gone.
const GONE_MS: i64 = -1_000;

#[derive(Clone)]
pub struct Inspector {
    pub handle: Handle,
    pub connections: Arc<Connections>,
}

impl Inspector {
    pub async fn clients(&self, request: ClientsRequest) -> Result<ClientsResponse, Code> {
        let records = self.connections.clients();
        let total = records.len() as i64;
        let at_most = limit(request.limit);
        let behind = records.iter().filter(|client| client.id > request.after);
        let named = behind.map(|client| client.snapshot()).filter(|client| names(client, &request.filter));
        let mut clients: Vec<ClientSnapshot> = named.take(at_most + 1).collect();
        let more = clients.len() > at_most;
        clients.truncate(at_most);
        let streams = clients.iter().flat_map(|client| client.watch_streams.iter().copied()).collect();
        let sizes = self.handle.maintenance().sizes_of_streams(streams).await?;
        let clients = clients.into_iter().map(|client| render_client(client, &sizes)).collect();
        Ok(ClientsResponse { header: self.header(self.handle.status().revision), clients, total, more })
    }

    pub async fn watches(&self, request: WatchesRequest) -> Result<WatchesResponse, Code> {
        let owners = self.owners_of_streams();
        let of_client = |(stream, owner): (&StreamId, &u64)| (*owner == request.client).then_some(*stream);
        let streams: Option<BTreeSet<StreamId>> =
            (request.client != 0).then(|| owners.iter().filter_map(of_client).collect());
        let maintenance = self.handle.maintenance();
        let counted: Option<usize> = match &streams {
            None => None,
            Some(streams) => Some(maintenance.sizes_of_streams(streams.clone()).await?.values().sum()),
        };
        let at_most = limit(request.limit);
        let selection = WatchSelection {
            after: request.after.map(|place| (StreamId(place.stream), WatchId(place.id))),
            streams,
            text: request.filter,
            at_most: at_most + 1,
        };
        let mut described = maintenance.describe_watches(selection).await?;
        // The count of all is published a moment after a watch is there.
        let total = counted.unwrap_or_else(|| self.handle.status().watches.watches.max(described.len()));
        let more = described.len() > at_most;
        described.truncate(at_most);
        let revision = self.handle.status().revision;
        let owner = |watch: &WatchDescription| owners.get(&watch.stream).copied().unwrap_or_default();
        let watches = described.into_iter().map(|watch| render_watch(owner(&watch), watch, revision));
        let watches = watches.collect();
        Ok(WatchesResponse { header: self.header(revision), watches, total: total as i64, more })
    }

    /// The list is linearizable; what is left of each lease is asked of the leader.
    pub async fn leases(&self, request: LeasesRequest) -> Result<LeasesResponse, Code> {
        let revision = self.handle.leases().list().await?.revision;
        let at_most = limit(request.limit);
        let after = if request.after == 0 { LeaseId(i64::MIN) } else { LeaseId(request.after) };
        let mut described = self.handle.maintenance().describe_leases(after, at_most + 1).await?;
        let more = described.len() > at_most;
        described.truncate(at_most);
        let mut left = self.ending().await?;
        let holders = self.holders_of_leases();
        let now_ms = unix_millis();
        let mut leases = Vec::new();
        for lease in described {
            let left_ms = match left.remove(&lease.id) {
                Some(left_ms) => left_ms,
                None => self.left_of(lease.id).await?,
            };
            leases.push(render_lease(lease, left_ms, now_ms, &holders));
        }
        Ok(LeasesResponse { header: self.header(revision), leases, more })
    }

    /// What is left of the leases that end first, in milliseconds.
    async fn ending(&self) -> Result<BTreeMap<LeaseId, i64>, Code> {
        let ending = self.handle.leases().ending(FAR_MS).await?.body;
        let left = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        Ok(ending.into_iter().map(|ending| (ending.id, left(ending.left_ms))).collect())
    }

    async fn left_of(&self, id: LeaseId) -> Result<i64, Code> {
        Ok(self.handle.leases().left_ms(id).await?.unwrap_or(GONE_MS))
    }

    pub async fn compaction(&self) -> Result<CompactionResponse, Code> {
        let owners = self.owners_of_streams();
        let CompactionDescription {
            revision,
            compacted,
            goal,
            needed,
            lag_bound,
            is_sweeping,
            pins,
            last_round,
        } = self.handle.maintenance().describe_compaction(PINS_MAX).await?;
        Ok(CompactionResponse {
            header: self.header(revision),
            compact_revision: compacted.0,
            retention_revision: goal.map_or(0, |goal| goal.0),
            needed_revision: needed.0,
            lag_bound_revision: lag_bound.0,
            is_sweeping,
            pins: pins.into_iter().map(|pin| render_pin(pin, &owners)).collect(),
            last_round: last_round.map(render_round),
        })
    }

    fn header(&self, revision: Revision) -> Option<proto::etcdserverpb::ResponseHeader> {
        Some(call_context::header(&self.handle, revision))
    }

    fn snapshots(&self) -> Vec<ClientSnapshot> {
        self.connections.clients().iter().map(|client| client.snapshot()).collect()
    }

    fn owners_of_streams(&self) -> BTreeMap<StreamId, u64> {
        let of_client = |client: ClientSnapshot| {
            let id = client.id;
            client.watch_streams.into_iter().map(move |stream| (stream, id))
        };
        self.snapshots().into_iter().flat_map(of_client).collect()
    }

    /// A later connection stands for an earlier one.
    fn holders_of_leases(&self) -> BTreeMap<LeaseId, (u64, String)> {
        let of_client = |client: ClientSnapshot| {
            let (id, user) = (client.id, client.user);
            client.leases.into_iter().map(move |lease| (lease, (id, user.clone())))
        };
        self.snapshots().into_iter().flat_map(of_client).collect()
    }
}

/// How many are shown.
fn limit(asked: i64) -> usize {
    match usize::try_from(asked) {
        Ok(0) | Err(_) => LIMIT_DEFAULT,
        Ok(asked) => asked.min(LIMIT_MAX),
    }
}

fn address_of(client: &ClientSnapshot) -> String {
    client.address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
}

/// Whether the client is called so, is at such an address, or calls itself so.
fn names(client: &ClientSnapshot, text: &str) -> bool {
    client.user.contains(text) || client.agent.contains(text) || address_of(client).contains(text)
}

fn render_client(client: ClientSnapshot, sizes: &BTreeMap<StreamId, usize>) -> Client {
    let watching = client.watch_streams.iter().filter_map(|stream| sizes.get(stream)).sum::<usize>() as i64;
    Client {
        id: client.id,
        address: address_of(&client),
        user: client.user,
        connected_ms: client.connected_ms,
        streams: client.streams as i64,
        watches: watching,
        requests: client.requests,
        agent: client.agent,
        leases: client.leases.into_iter().map(|lease| lease.0).collect(),
    }
}

fn render_watch(client: u64, watch: WatchDescription, revision: Revision) -> Watch {
    let (state, lag) = match watch.position {
        WatchPosition::Live => (State::Live, 0),
        WatchPosition::Behind => (State::Behind, (revision.0 - watch.next.0 + 1).max(0)),
        WatchPosition::Paused => (State::Paused, (revision.0 - watch.next.0 + 1).max(0)),
        WatchPosition::Future => (State::Future, 0),
    };
    let user = match &watch.caller {
        Caller::User { name, .. } => name.to_string(),
        Caller::Anonymous | Caller::Member => String::new(),
    };
    Watch {
        id: watch.watch.0,
        stream: watch.stream.0,
        client,
        user,
        range_end: watch.keys.wire_end(),
        key: watch.keys.start,
        start_revision: watch.start.0,
        next_revision: watch.next.0,
        lag,
        state: state as i32,
        no_put: watch.filters.no_put,
        no_delete: watch.filters.no_delete,
        prev_kv: watch.prev_kv,
    }
}

fn render_lease(
    lease: LeaseDescription,
    left_ms: i64,
    now_ms: i64,
    holders: &BTreeMap<LeaseId, (u64, String)>,
) -> Lease {
    let (client, user) = holders.get(&lease.id).cloned().unwrap_or_default();
    Lease {
        id: lease.id.0,
        granted_ttl: lease.ttl,
        granted_ms: lease.granted_ms,
        left_ms,
        expires_ms: now_ms.saturating_add(left_ms),
        keys: lease.keys,
        key_count: lease.key_count as i64,
        client,
        user,
    }
}

fn render_pin(pin: CompactionPin, owners: &BTreeMap<StreamId, u64>) -> Pin {
    let CompactionPin { reader, needs, is_given_up } = pin;
    let (stream, watch, what) = match reader {
        PinReader::Watch { stream, watch } => {
            (stream, watch.0, "a watch that has not been sent everything".to_owned())
        }
        PinReader::LargeRead { unused } => {
            let what = format!("a large read, unused for {} ms", unused.as_millis());
            (StreamId(0), 0, what)
        }
    };
    let end = if is_given_up { "; it is too far behind and delays nothing any more" } else { "" };
    Pin {
        reason: format!("{what}{end}"),
        revision: needs.0,
        is_given_up,
        stream: stream.0,
        watch,
        client: owners.get(&stream).copied().unwrap_or_default(),
    }
}

fn render_round(round: RoundReport) -> Round {
    let silent = match &round.outcome {
        RoundOutcome::Unanswered(members) => members.iter().map(|member| member.0).collect(),
        RoundOutcome::Compacted | RoundOutcome::HeldBack => Vec::new(),
    };
    let need =
        |(member, revision): (base::NodeId, Revision)| MemberNeed { member: member.0, revision: revision.0 };
    Round {
        goal_revision: round.goal.0,
        agreed_revision: round.to.0,
        outcome: round.outcome.name().to_owned(),
        needs: round.needs.into_iter().map(need).collect(),
        silent,
    }
}
