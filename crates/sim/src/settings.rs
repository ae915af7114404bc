//! What a seed chooses about the world: its size, its pace, and how soon things overflow.
//! Small segments, small logs and small chunks, so that the rare paths of a large store are common here.

use crate::auth_users::AUTH_USERS;
use crate::host::Host;
use crate::lease_holders::LEASE_HOLDERS;
use crate::operators::member_of;
use crate::run::Kind;
use crate::scenario::Bias;
use base::{Boot, Rng};
use engine::MemberParams;
use node::compactor;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Settings {
    pub members: usize,
    pub clients: usize,
    pub watchers: usize,
    pub lease_holders: usize,
    pub lock_clients: usize,
    /// Users of a cluster with auth on.
    pub auth_users: usize,
    pub tick_us: u64,
    pub think_us: u64,
    slow_syncs_per_million: u64,
    flush_interval: Duration,
    flush_bytes: usize,
    log_keep_entries: u64,
    wal_segment_bytes: u64,
    watch: coord::watch::Params,
    pub bias: Bias,
    /// The leader compacts what no member needs, and clients do not compact.
    pub leader_compacts: bool,
    keep: compactor::Retention,
    unindexed_keys_max: usize,
}

const HEARTBEAT_TICKS: usize = 1;
const ELECTION_TICKS: usize = 10;
const STORE_CACHE_BYTES: usize = 256 * 1024;
const SNAPSHOT_CHUNK_BYTES: usize = 1024;
/// Most answers that hold anything are larger.
const RANGE_BYTES: usize = 40;

impl Settings {
    pub fn draw(rng: &mut Rng, bias: Bias, kind: Kind) -> Settings {
        let mixed = Settings::draw_mixed(rng, bias);
        match kind {
            Kind::Mixed => mixed,
            Kind::Locks => {
                let lock_clients = *rng.pick(&[6, 12, 12, 24, 24, 48, 200]);
                Settings { clients: 0, watchers: 0, lease_holders: 0, lock_clients, ..mixed }
            }
            Kind::Auth => {
                Settings { clients: 0, watchers: 0, lease_holders: 0, auth_users: AUTH_USERS, ..mixed }
            }
        }
    }

    fn draw_mixed(rng: &mut Rng, bias: Bias) -> Settings {
        Settings {
            bias,
            leader_compacts: false,
            keep: compactor::Retention { age: Duration::ZERO, revisions: 0, step: 1 },
            members: *rng.pick(bias.members),
            clients: 6,
            watchers: 4,
            lease_holders: LEASE_HOLDERS,
            lock_clients: 0,
            auth_users: 0,
            tick_us: 100_000,
            think_us: *rng.pick(&[200_000, 400_000, 800_000]),
            slow_syncs_per_million: *rng.pick(&[0, 5_000, 50_000]),
            flush_interval: Duration::from_millis(*rng.pick(&[1_000, 2_000, 4_000])),
            flush_bytes: *rng.pick(&[16 * 1024, 1024 * 1024]),
            log_keep_entries: *rng.pick(if bias.short_log { &[0, 1, 2] } else { &[0, 10, 100] }),
            wal_segment_bytes: *rng.pick(&[8 * 1024, 64 * 1024]),
            watch: coord::watch::Params {
                progress_interval: Duration::from_millis(*rng.pick(&[1_000, 5_000])),
                fragment_bytes: *rng.pick(&[64, 1024 * 1024]),
                batch_revisions: *rng.pick(&[1, 5, 1_000]),
                batch_bytes: *rng.pick(&[1, 200, 1024 * 1024]),
                watches_max: 1_000,
            },
            unindexed_keys_max: *rng.pick(&[1, 4, 8, 1_000]),
        }
    }

    /// With dice of its own, so that everything else about a seed stays what it was.
    pub fn draw_compaction(&mut self, rng: &mut Rng) {
        self.leader_compacts = self.lease_holders > 0 && rng.chance(self.bias.leader_compacts);
        self.keep = compactor::Retention {
            age: Duration::from_millis(*rng.pick(&[0, 500, 3_000])),
            revisions: *rng.pick(&[0, 5, 20]),
            step: 1,
        };
    }

    fn compaction(&self) -> compactor::CompactorParams {
        let hour = Duration::from_secs(3_600);
        let bound = if self.keeps_for_all() { hour } else { Duration::from_secs(4) };
        compactor::CompactorParams {
            keep: self.leader_compacts.then_some(self.keep),
            lag_max: compactor::LagLimit { age: bound, revisions: 1_000_000 },
            interval: Duration::from_millis(500),
            patience: Duration::from_millis(300),
            grace: bound,
        }
    }

    /// No watch and no member is ever too far behind.
    pub fn keeps_for_all(&self) -> bool {
        !self.bias.dead_watchers
    }

    pub fn kept_revisions(&self) -> u64 {
        self.keep.revisions
    }

    pub fn member_params(&self, host: usize, hosts: &[Host]) -> MemberParams {
        let first = if host < self.members { &hosts[..self.members] } else { &[] };
        let raft = raft::Params {
            id: hosts[host].id,
            voters: first.iter().map(|host| host.id).collect(),
            heartbeat_ticks: HEARTBEAT_TICKS,
            election_ticks: ELECTION_TICKS,
            seed: host as u64,
            log_keep_entries: self.log_keep_entries,
            append_bytes: self.bias.append_bytes,
            lost: raft::Doubt::None,
            is_new: host >= self.members && hosts[host].pid == 0 && hosts[host].disks == 0,
        };
        MemberParams {
            consensus: node::consensus::ConsensusParams { raft, retry_after: Duration::from_millis(300) },
            flush_interval: self.flush_interval,
            flush_bytes: self.flush_bytes,
            range_bytes: RANGE_BYTES,
            quota_bytes: 0,
            compaction: self.compaction(),
            history: coord::HistoryWindow { millis: i64::MAX, rows_max: u64::MAX },
            leases: node::LeaseClockParams {
                election: Duration::from_micros(self.tick_us * ELECTION_TICKS as u64),
                checkpoint_interval: Duration::from_secs(3),
            },
            digest_secret: host as u64,
            initial_members: first.iter().map(member_of).collect(),
            // In the product it is the time of the first start, in seconds.
            first_boot: Boot(1 + 1_000 * hosts[host].disks),
            wal_segment_bytes: self.wal_segment_bytes,
            member_store: engine::MemberStoreParams {
                cache_bytes: STORE_CACHE_BYTES,
                chunk_bytes: SNAPSHOT_CHUNK_BYTES,
                unindexed_keys_max: self.unindexed_keys_max,
            },
            watch: self.watch.clone(),
        }
    }

    /// How long a sync takes on a disk, which may be having a bad time.
    pub fn sync_latency(&self, rng: &mut Rng, slow: bool) -> u64 {
        if slow || rng.chance(self.slow_syncs_per_million) {
            rng.between(10_000, 1_000_000)
        } else {
            rng.between(200, 5_000)
        }
    }
}
