//! A member from its start to its end: files opened, port bound, threads started; later all of it undone in
//! the order that loses nothing. What was acknowledged is in the log and survives any end; draining only
//! spares the callers and the next start.

use crate::audit::Audit;
use crate::clock::Clock;
use crate::cluster_secret::{self, SecretStore, StoredSecret};
use crate::config::{self, Config};
use crate::consensus::{self, HEARTBEAT_TICKS};
use crate::core::{Core, Help, NodeSecurity};
use crate::durable_log::{self, LogOwner, LogWriter};
use crate::error::Error;
use crate::handle::{self, Handle};
use crate::join::{self, JoinCredentials, JoinGrant};
use crate::log::RaftLogObserver;
use crate::members::{self, MemberDirectory};
use crate::mesh::region_discovery::{self, RegionDiscovery};
use crate::mesh::store::RowStore;
use crate::metrics::Metrics;
use crate::peer::{self, OnQuestion, OnRoundTrip, PeerAuth, PeerAuthStage, Peers, Timing};
use crate::snapshot::SnapshotStreams;
use crate::status::Identity;
use crate::storage::CoordStore;
use crate::store_thread::StoreThread;
use crate::thread::Thread;
use crate::{apply, identity, mesh, post, telemetry, volume};
use base::limits::{
    APPEND_BYTES_SOFT, GRPC_OVERHEAD_BYTES, RANGE_WHOLE_BYTES_MAX, SNAPSHOT_CHUNK_BYTES,
    WATCH_BATCH_BYTES_SOFT, WATCH_BATCH_REVISIONS, WATCHES_PER_STREAM_MAX,
};
use base::{Boot, ClusterId, NodeId};
use bytes::Bytes;
use disk::{DirLock, Disk, RealDisk, ReserveDisk};
use engine::{MeshFiles, OpenedMember};
use node::member::{cluster_id, member_id};
use node::{ConsensusInput, compactor};
use raft::Doubt;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tls::Secret;

/// The store's cache.
pub(crate) const STORE_CACHE_BYTES: usize = 8 * 1024 * 1024;
/// More is cheaper for the store, and costs memory and time at the next start.
pub(crate) const UNINDEXED_KEYS_MAX: usize = 100_000;
/// How often the apply thread ticks, at least.
const APPLY_TICK_MAX: Duration = Duration::from_millis(100);
/// How often the remaining time of a long lease is recorded, as in etcd.
const LEASE_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(300);
/// A member that was silent for so long no longer holds compaction back for its readers.
const MEMBER_GRACE: Duration = Duration::from_secs(60);
/// How much of the reserve the store may need until the alarm is committed.
const RESERVE_FOR_STORE_BYTES: u64 = 4 * 1024 * 1024;
/// How often a drain polls whether it is done.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// A running member. Dropping it stops it without draining.
pub struct Server {
    handle: Handle,
    core: Arc<Core>,
    peers: Arc<Peers>,
    drain_timeout: Duration,
    /// Until the end.
    threads: Option<Threads>,
    telemetry: Option<Thread>,
    _lock: Box<dyn DirLock>,
}

struct Threads {
    consensus: Thread,
    persist: Thread,
    apply: Thread,
    storage: Thread,
    mesh: Thread,
    mesh_log: Thread,
    mesh_store: Thread,
    discovery: Thread,
}

/// Whether the store is flushed at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShutdownMode {
    Flushed,
    AtOnce,
}

impl Server {
    pub fn start(config: Config) -> Result<Server, Error> {
        let address = config.peer_addr;
        if config.shares_a_port() {
            return Server::launch(None, config);
        }
        let listen = TcpListener::bind(address).map_err(|source| Error::PeerAddress { address, source })?;
        Server::start_on(listen, config)
    }

    /// Starts with a port that is bound already.
    pub fn start_on(listen: TcpListener, config: Config) -> Result<Server, Error> {
        Server::launch(Some(listen), config)
    }

    /// Without a port, the client port hands over the connections of peers: see `PeerPortHandle::adopt`.
    fn launch(listen: Option<TcpListener>, config: Config) -> Result<Server, Error> {
        if config.join.is_none() {
            // A name that is not in the list is reported before anything is opened.
            StartMembers::founder(&config.name, &config.initial_cluster, &config.cluster_token, false)?;
        }
        let audit = config.audit.as_ref().map(|audit| Audit::start(audit, &config.name)).transpose();
        let audit = audit.map_err(Error::AuditLog)?;
        let DataDir { disk, lock, volume_bytes } = DataDir::open(&config.data_dir)?;
        let config = volume::fit(config, volume_bytes);
        let disk = with_reserve(disk, &config)?;
        let owner = identity::owner(&*disk, &config.data_dir)?;
        let is_alone = owner.is_none() && config.join.is_none() && config.initial_cluster.len() == 1;
        let mut kept = cluster_secret::resolve(&*disk, &config.data_dir, &config.peer_security, is_alone)?;
        let guard = cluster_secret::guard(&config.peer_security, kept.as_ref(), None)?;
        let (listed, token) = (&config.initial_cluster, &config.cluster_token);
        let founder = StartMembers::founder(&config.name, listed, token, guard.is_encrypted());
        let founder = if config.join.is_none() { Some(founder?) } else { founder.ok() };
        let forced = owner.clone().filter(|_| config.force_new_cluster);
        let mut roster = match forced {
            Some(owner) => keep_alone(disk.clone(), owner)?,
            None => StartMembers::find(&config, founder, owner, &guard)?,
        };
        if let Some(secret) = roster.secret.take() {
            let told = StoredSecret { secret, stage: PeerAuthStage::Closed };
            kept = Some(cluster_secret::store(&*disk, &config.data_dir, told)?);
        }
        identity::claim(&*disk, &config.data_dir, &roster.identity)?;
        let secret_store = SecretStore::new(disk.clone(), &config);
        let mesh_files = mesh::start::open(&config)?;
        let clock = Clock::start();
        let member = engine::open(disk, &engine_params(&config, &roster), clock.now())?;
        log_recovery(&roster.identity, &member);
        let me = roster.identity.member;
        let guard = cluster_secret::guard(&config.peer_security, kept.as_ref(), Some(me))?;
        let known = member.apply.members();
        let table = if known.is_empty() { roster.ask_members(&config, &guard)? } else { known.clone() };
        let mut metrics = Metrics::new(Some(&roster.identity));
        metrics.slow_requests.set_threshold(config.slow_request);
        if let Some(audit) = &audit {
            metrics.register_audit(audit);
        }
        let members = MemberDirectory::new(me, &config, &roster.initial_members, table);
        log_open_peer_port(&config, &guard);
        let security = NodeSecurity::new(&config, roster.data_only, guard, secret_store, audit);
        let core = Arc::new(Core::new(clock, metrics, members, &config, roster.data_only, security));
        let asked: Arc<OnceLock<Handle>> = Arc::default();
        let params = peer::PeerParams {
            cluster: roster.identity.cluster,
            me,
            listen,
            peers: core.members.others(),
            timing: Timing::default(),
            security: core.security.peers.clone(),
            trusts_this_machine: true,
            on_round_trip: observe_round_trips(core.clone()),
            on_question: answer_questions(asked.clone()),
            audit: core.security.audit.clone(),
        };
        let peers =
            Arc::new(Peers::start(params, post::deliver_from_members(core.clone())).map_err(Error::Thread)?);
        peers.set_removed(core.members.removed());
        if member.consensus.config().voters == [me] {
            core.coord.consensus.post(ConsensusInput::Campaign);
        }
        let cluster = roster.identity.cluster;
        let params = handle::HandleParams {
            identity: roster.identity,
            request_timeout: config.request_timeout,
            request_bytes_max: config.request_bytes_max,
            election: config.election,
            boot: member.boot,
            lease_ttl_min: lease_ttl_min(config.election),
            strict_reconfig: config.strict_reconfig,
        };
        let handle = Handle::new(core.clone(), &peers, params);
        asked.get_or_init(|| handle.clone());
        let threads =
            Threads::start(&core, &peers, member, mesh_files, cluster, &config).map_err(Error::Thread)?;
        let (observed, observer) = (core.clone(), handle.clone());
        let telemetry =
            Thread::spawn("telemetry", move || observed.telemetry.run(&observer)).map_err(Error::Thread)?;
        let drain_timeout = config.drain_timeout;
        Ok(Server {
            handle,
            core,
            peers,
            drain_timeout,
            threads: Some(threads),
            telemetry: Some(telemetry),
            _lock: lock,
        })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends in good order: no new requests, leadership handed over, requests under way answered, everything
    /// flushed. Blocks for the drain timeout at most, and then for the flush.
    pub fn drain(mut self) {
        self.core.draining.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + self.drain_timeout;
        self.transfer_leadership(deadline);
        let waiting = || self.core.waiters.count() + self.core.mesh.slots.waiting();
        let answered = poll(deadline, || waiting() == 0);
        if !answered {
            let waiting = waiting();
            tracing::warn!(waiting, "stopping with requests under way");
        }
        self.end(ShutdownMode::Flushed);
    }

    /// Ends at once. Requests under way get `Stopped`; their outcome is unknown.
    pub fn stop(mut self) {
        self.end(ShutdownMode::AtOnce);
    }

    /// Transfers leadership to a connected member, if there is one.
    fn transfer_leadership(&self, deadline: Instant) {
        let leads = || self.core.published.status.read().is_leader;
        let voters = self.core.members.list().into_iter().filter(|member| !member.learner);
        let target = voters.map(|member| member.id).find(|id| self.peers.connected(*id));
        let (true, Some(target)) = (leads(), target) else { return };
        self.core.coord.consensus.post(ConsensusInput::Transfer(target));
        if poll(deadline, || !leads()) {
            tracing::info!(peer = target.0, "transferred leadership");
        }
    }

    /// Each thread ends after those that may still send to it.
    fn end(&mut self, end: ShutdownMode) {
        let Some(threads) = self.threads.take() else { return };
        self.core.draining.store(true, Ordering::Relaxed);
        self.core.telemetry.stop();
        self.telemetry.take().into_iter().for_each(Thread::join);
        self.core.mesh.discovery.close();
        threads.discovery.join();
        self.core.mesh.actor.close();
        threads.mesh.join();
        self.core.mesh.store.close();
        threads.mesh_store.join();
        self.core.mesh.log.close();
        threads.mesh_log.join();
        self.core.coord.consensus.close();
        threads.consensus.join();
        self.peers.halt();
        self.core.coord.persist.close();
        threads.persist.join();
        self.core.coord.apply.post(apply::ApplyJob::Finish { flush: end == ShutdownMode::Flushed });
        threads.apply.join();
        self.core.coord.apply.close();
        self.core.coord.storage.close();
        threads.storage.join();
        self.core.waiters.clear();
        if let Some(audit) = &self.core.security.audit {
            audit.stop();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(ShutdownMode::AtOnce);
    }
}

impl Threads {
    fn start(
        core: &Arc<Core>,
        peers: &Arc<Peers>,
        member: OpenedMember,
        mesh_files: MeshFiles,
        cluster: ClusterId,
        config: &Config,
    ) -> io::Result<Threads> {
        let OpenedMember { consensus, apply, member_log, member_store, .. } = member;
        let view = member_store.shared_view();
        let streams = SnapshotStreams::new(core.clone(), peers.clone(), config.election * 2);
        let low_bytes = reserve_bytes(config);
        let defrag = &core.metrics.defrag;
        let storage = CoordStore::new(core.clone(), member_store, streams, low_bytes);
        let storage = StoreThread::new(storage, defrag.clone(), low_bytes);
        let apply_tick = config.flush_interval.min(APPLY_TICK_MAX);
        let apply = apply::ApplyLoop::new(core.clone(), apply, view, apply_tick, low_bytes);
        let observer = RaftLogObserver::new(core.clone(), &member_log);
        let log = LogWriter::new(member_log, observer);
        let consensus = consensus::ConsensusLoop::new(
            core.clone(),
            peers.clone(),
            consensus,
            LogOwner::new(log.clone()),
            tick(config),
        );
        let settings = mesh::start::settings(config, core, cluster);
        let segment_bytes = mesh::start::segment_bytes(config);
        let (node, mesh_log, mesh_store) =
            mesh::node::MeshLoop::new(core.clone(), peers.clone(), settings, segment_bytes, mesh_files);
        let mesh_store = RowStore::new(core.clone(), mesh_store);
        let mesh_store = StoreThread::new(mesh_store, defrag.clone(), low_bytes);
        let discovery =
            RegionDiscovery::new(core.clone(), peers.clone(), post::deliver_from_regions(core.clone()));
        let (mesh_core, log_core, persist_core) = (core.clone(), core.clone(), core.clone());
        let (store_core, row_store_core) = (core.clone(), core.clone());
        let core_of_apply = core.clone();
        let apply_thread = move || core_of_apply.coord.apply.run(apply, || {});
        let core = core.clone();
        let consensus_thread =
            move || core.coord.consensus.run(consensus, || core.coord.apply.wake_if_urgent());
        Ok(Threads {
            discovery: Thread::spawn("mesh-discovery", || discovery.run())?,
            mesh: Thread::spawn("mesh", move || mesh_core.mesh.actor.run(node, || {}))?,
            mesh_log: Thread::spawn("mesh-log", move || {
                let persisted = |seq| {
                    log_core.mesh.actor.post_and_help(mesh::node::MeshMessage::Persisted(seq));
                };
                durable_log::run(&log_core.mesh.log, &mesh_log, persisted);
            })?,
            mesh_store: Thread::spawn("mesh-store", move || mesh_store.run(&row_store_core.mesh.store))?,
            storage: Thread::spawn("storage", move || storage.run(&store_core.coord.storage))?,
            apply: Thread::spawn("apply", apply_thread)?,
            persist: Thread::spawn("persist", move || {
                let persisted = |seq| {
                    persist_core.post_and_help(ConsensusInput::Persisted(seq).into(), Help::UnderLightLoad);
                };
                durable_log::run(&persist_core.coord.persist, &log, persisted);
            })?,
            consensus: Thread::spawn("consensus", consensus_thread)?,
        })
    }
}

/// This member's identity, and the members of the cluster as far as it knows them at its start.
pub(crate) struct StartMembers {
    pub identity: Identity,
    /// The first members; empty for a member that joined later.
    initial_members: Vec<coord::Member>,
    /// The table that a joining node received.
    members: coord::Members,
    /// A data-only node is no member.
    data_only: bool,
    /// Its id was assigned for this start.
    is_new: bool,
    /// The secret that it received when it joined.
    secret: Option<Secret>,
}

impl StartMembers {
    /// A founder knows everything from its configuration; a node that has joined knows itself from its directory, and a
    /// joining node asks.
    fn find(
        config: &Config,
        founder: Option<StartMembers>,
        owner: Option<Identity>,
        guard: &PeerAuth,
    ) -> Result<StartMembers, Error> {
        if let (Some(_), Some(owner)) = (&config.join, &owner) {
            tracing::info!(
                cluster = owner.cluster.0,
                "data directory belongs to a cluster member already: join settings ignored"
            );
        }
        let was_founder = |founder: &StartMembers| owner.as_ref() == Some(&founder.identity);
        if let Some(founder) = founder.filter(|founder| config.join.is_none() || was_founder(founder)) {
            return Ok(founder);
        }
        let join = config.join.as_ref().expect("a node that is no founder has a join configuration");
        match owner {
            Some(owner) => {
                let identity = Identity { name: config.name.clone(), ..owner };
                Ok(StartMembers::of(identity))
            }
            None => {
                let approach = JoinCredentials::new(guard.clone(), join)?;
                let place = join::request_to_join(config, join, &approach)?;
                let JoinGrant { identity, members, data_only, is_new, secret } = place;
                tracing::info!(
                    member = identity.member.0,
                    cluster = identity.cluster.0,
                    "joined the cluster"
                );
                Ok(StartMembers { members, data_only, is_new, secret, ..StartMembers::of(identity) })
            }
        }
    }

    /// The members that a node can contact which has applied nothing yet. One that was admitted and ended before it learnt
    /// more asks again.
    fn ask_members(&mut self, config: &Config, guard: &PeerAuth) -> Result<coord::Members, Error> {
        if let Some(join) = &config.join
            && self.initial_members.is_empty()
            && self.members.is_empty()
        {
            let place = join::request_to_join(config, join, &JoinCredentials::new(guard.clone(), join)?)?;
            (self.members, self.data_only) = (place.members, place.data_only);
        }
        Ok(self.members.clone())
    }

    /// A member of the cluster that is founded by these.
    pub fn founder(
        name: &str,
        members: &[config::ClusterMember],
        token: &str,
        tls: bool,
    ) -> Result<StartMembers, Error> {
        let me = member_id(token, name);
        let initial_members = members::configured(members, token, tls);
        let ids: Vec<NodeId> = initial_members.iter().map(|member| member.id).collect();
        if !ids.contains(&me) {
            return Err(Error::NotAMember { name: name.to_owned() });
        }
        let identity = Identity { cluster: cluster_id(token, &ids), member: me, name: name.to_owned() };
        Ok(StartMembers { initial_members, ..StartMembers::of(identity) })
    }

    /// The start of a member that knows no other yet.
    fn of(identity: Identity) -> StartMembers {
        let members = coord::Members::default();
        StartMembers {
            identity,
            initial_members: Vec::new(),
            members,
            data_only: false,
            is_new: false,
            secret: None,
        }
    }
}

/// Continues as the only member of the cluster.
fn keep_alone(disk: Arc<dyn disk::Disk>, owner: Identity) -> Result<StartMembers, Error> {
    if !engine::keep_only(disk, STORE_CACHE_BYTES, owner.member)? {
        return Err(Error::NotAMember { name: owner.name });
    }
    tracing::warn!(
        member = format!("{:x}", owner.member.0),
        "forced a new cluster: this is its only member; the data of the others must not be used again"
    );
    Ok(StartMembers::of(owner))
}

/// Until the member runs, it answers no request.
fn answer_questions(handle: Arc<OnceLock<Handle>>) -> OnQuestion {
    Arc::new(move |question, asker| match handle.get() {
        Some(handle) if mesh_node::is_region_question(&question) => {
            region_discovery::answer(handle, question, asker)
        }
        Some(handle) if telemetry::is_status_question(&question) => {
            telemetry::answer(handle, &question, asker)
        }
        Some(handle) => join::answer(handle, question, asker),
        None => Bytes::new(),
    })
}

fn log_open_peer_port(config: &Config, guard: &PeerAuth) {
    if !guard.is_open() {
        return;
    }
    for address in config.peer_addrs() {
        if address.ip().is_loopback() {
            tracing::info!(%address, "peer port is open, to this machine alone");
        } else {
            tracing::warn!(
                %address,
                "peer port is open: any machine with a member's address can speak for a member on the peer port; \
                 `althing cluster secure`, or --cluster-secret-file on every member, closes it"
            );
        }
    }
}

/// The data directory, owned by this process for as long as the lock lives.
pub(crate) struct DataDir {
    pub disk: Arc<dyn Disk>,
    pub lock: Box<dyn DirLock>,
    pub volume_bytes: u64,
}

impl DataDir {
    pub fn open(path: &Path) -> Result<DataDir, Error> {
        let trouble = |action| move |source| Error::DataDir { action, path: path.to_owned(), source };
        let disk = RealDisk::open(path.to_owned()).map_err(trouble("open or create files"))?;
        warn_of_loose_mode(path);
        let lock = disk.lock().map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => Error::InUse { path: path.to_owned() },
            _ => trouble("take the lock")(source),
        })?;
        let volume_bytes = disk.volume_bytes().map_err(trouble("measure the volume"))?;
        Ok(DataDir { disk: Arc::new(disk), lock, volume_bytes })
    }
}

/// Bits of a mode by which others than the owner get in.
const OTHERS: u32 = 0o077;

/// A directory that was there before may be open to other users of the machine: it holds keys, values and secrets.
fn warn_of_loose_mode(path: &Path) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        tracing::warn!(
            path = %path.display(),
            mode = format!("{mode:04o}"),
            "the data directory is open to other users of this machine: `chmod 700` closes it"
        );
    }
}

/// How much of the disk must be free beside the reserve, which is as large: a segment of the log, what waits for the store,
/// and some for the store itself.
pub(crate) fn reserve_bytes(config: &Config) -> u64 {
    let batches = 2 * config.flush_bytes as u64;
    config.wal_segment_bytes + batches + batches.min(RESERVE_FOR_STORE_BYTES)
}

fn with_reserve(disk: Arc<dyn Disk>, config: &Config) -> Result<Arc<dyn Disk>, Error> {
    let path = config.data_dir.clone();
    let trouble = |source| Error::DataDir { action: "keep space in reserve", path, source };
    Ok(Arc::new(ReserveDisk::over(disk, reserve_bytes(config)).map_err(trouble)?))
}

fn observe_round_trips(core: Arc<Core>) -> OnRoundTrip {
    Arc::new(move |peer, time| core.metrics.observe_round_trip(peer, time))
}

/// A lease outlives an election and the time to notice that there must be one; in seconds, as in etcd.
fn lease_ttl_min(election: Duration) -> i64 {
    (election * 3).as_millis().div_ceil(2_000) as i64
}

fn tick(config: &Config) -> Duration {
    (config.heartbeat / HEARTBEAT_TICKS).max(Duration::from_millis(1))
}

fn engine_params(config: &Config, roster: &StartMembers) -> engine::MemberParams {
    let heartbeat_ticks = HEARTBEAT_TICKS as usize;
    let election_ticks = (config.election.as_micros() / tick(config).as_micros()) as usize;
    let raft = raft::Params {
        id: roster.identity.member,
        voters: roster.initial_members.iter().map(|member| member.id).collect(),
        heartbeat_ticks,
        election_ticks: election_ticks.max(heartbeat_ticks + 1),
        seed: roster.identity.cluster.0,
        log_keep_entries: config.log_keep_entries,
        append_bytes: APPEND_BYTES_SOFT,
        // The engine decides this once it has read the log.
        lost: Doubt::None,
        is_new: roster.is_new,
    };
    engine::MemberParams {
        consensus: node::consensus::ConsensusParams { raft, retry_after: config.election },
        flush_interval: config.flush_interval,
        flush_bytes: config.flush_bytes,
        range_bytes: RANGE_WHOLE_BYTES_MAX,
        quota_bytes: config.quota_bytes,
        compaction: compaction_params(config),
        history: coord::HistoryWindow {
            millis: i64::try_from(config.history_age.as_millis()).unwrap_or(i64::MAX),
            rows_max: config.history_rows_max,
        },
        leases: node::LeaseClockParams {
            election: config.election,
            checkpoint_interval: LEASE_CHECKPOINT_INTERVAL,
        },
        digest_secret: digest_secret(),
        initial_members: roster.initial_members.clone(),
        first_boot: first_boot(),
        wal_segment_bytes: config.wal_segment_bytes,
        member_store: engine::MemberStoreParams {
            cache_bytes: STORE_CACHE_BYTES,
            chunk_bytes: SNAPSHOT_CHUNK_BYTES,
            unindexed_keys_max: UNINDEXED_KEYS_MAX,
        },
        watch: coord::watch::Params {
            progress_interval: config.watch_progress_interval,
            fragment_bytes: config.request_bytes_max + GRPC_OVERHEAD_BYTES,
            batch_revisions: WATCH_BATCH_REVISIONS,
            batch_bytes: WATCH_BATCH_BYTES_SOFT,
            watches_max: WATCHES_PER_STREAM_MAX,
        },
    }
}

/// No other process can guess it. Without the kernel's random numbers the clock is all there is.
fn digest_secret() -> u64 {
    let nanos = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos() as u64);
    tls::random().map_or_else(nanos, u64::from_le_bytes)
}

/// The start of the boot counter. A later disk begins higher, and no member starts every second for long.
fn first_boot() -> Boot {
    Boot(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |age| age.as_secs().max(1)))
}

fn compaction_params(config: &Config) -> compactor::CompactorParams {
    let compaction = config.compaction;
    compactor::CompactorParams {
        keep: compaction.map(|compaction| compactor::Retention {
            age: compaction.keep_age,
            revisions: compaction.keep_revisions,
            step: compaction.step,
        }),
        lag_max: compactor::LagLimit {
            age: compaction.map_or(Duration::MAX, |compaction| compaction.lag_age_max),
            revisions: compaction.map_or(u64::MAX, |compaction| compaction.lag_revisions_max),
        },
        interval: compaction.map_or(Duration::ZERO, |compaction| compaction.interval),
        patience: config.election,
        grace: MEMBER_GRACE,
    }
}

fn log_recovery(identity: &Identity, member: &OpenedMember) {
    let OpenedMember { apply, recovery, boot, .. } = member;
    tracing::info!(
        node = identity.member.0,
        name = identity.name,
        boot = boot.0,
        index = apply.applied_index().0,
        rev = apply.revision().0,
        records = recovery.records,
        bytes = recovery.bytes,
        "opened the data directory"
    );
    if let Some(torn) = &recovery.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            "truncated the end of the write-ahead log: it was being written when the process or the machine died, or it was \
             damaged since"
        );
    }
    if let Some(shortened) = &recovery.shortened {
        tracing::warn!(
            file = shortened.file,
            bytes = shortened.found_bytes,
            expected_bytes = shortened.listed_bytes,
            "the newest file of the write-ahead log was cut short"
        );
    }
    match member.doubt {
        Doubt::None => {}
        Doubt::LastFrame => tracing::warn!("last log writes may be lost: voting restricted"),
        Doubt::Everything if recovery.records == 0 => {
            tracing::info!("data directory is empty: voting restricted until caught up")
        }
        Doubt::Everything => tracing::warn!("log may be incomplete: voting restricted until caught up"),
    }
    if let Some(id) = member.accepted_loss {
        tracing::warn!(member = format!("{:x}", id.0), "operator accepted the loss of a member earlier");
    }
    if recovery.unfinished_segment {
        tracing::info!("removed an unfinished segment of the write-ahead log");
    }
}

/// Polls until it is true or time is up.
fn poll(deadline: Instant, done: impl Fn() -> bool) -> bool {
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(DRAIN_POLL);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lease_is_shorter_than_one_and_a_half_elections() {
        let least = |millis| lease_ttl_min(Duration::from_millis(millis));
        assert_eq!([500, 1_000, 1_334, 50_000].map(least), [1, 2, 3, 75]);
    }
}
