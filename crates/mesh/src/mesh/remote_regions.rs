//! The other regions as this node sees them: their topologies, how far each has this node's log, and how far their logs
//! are applied here. Frames of a region that is not in the table of regions are dropped; from a listed region only the
//! frames that regions exchange are accepted. A region that leaves the table is forgotten at once.

pub mod apply_remote;
mod bundle;
pub mod streams;

use crate::actor::{Actor, Dot, RegionId};
use crate::mesh::membership::routes::Routes;
use crate::mesh::membership::witness::{TopologyWitnesses, is_far_behind};
use crate::mesh::repair::exchange::{CompareRequest, LeavesReply, UnderWay};
use crate::mesh::{Destination, Mesh, MeshEvent, Now, Turn};

use crate::frame::{Envelope, Frame, OpId, RegionHeartbeat, Shard, StoreReason};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::log::LogHead;
use crate::mesh::replica::storage::Storage;
use crate::mutant::Mutant;
use crate::peers::PeerHealth;
use crate::record::Kind;
use crate::regions::Regions;
use crate::rows::{self, Rows};
use crate::stream::RegionStream;
use crate::topology::{MEMBERS_MAX, Topology};
use crate::watermarks::REGIONS_MAX;
use base::limits::MESH_REPLICATION_LOG_BYTES_MAX;
use base::mutant::planted;
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How often a region whose topology is unknown is asked for it, and how often heartbeats are sent.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// A region that was silent for so long is not healthy.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Nodes of other regions whose position is remembered.
const POSITIONS_MAX: usize = 4_096;
/// Forwarded writes whose regions may be asked for a moment later.
const REACHED_MAX: usize = 256;

pub(in crate::mesh) struct RemoteRegions {
    pub me: Actor,
    pub table: Regions,
    pub others: BTreeMap<RegionId, RemoteRegion>,
    /// The region of each node.
    nodes: BTreeMap<NodeId, RegionId>,
    pub log: LogHead,
    /// Entries up to here are durable and may leave.
    pub durable: u64,
    /// The head has changed in this turn.
    pub is_dirty: bool,
    /// The bytes that the log may take before it is cut for regions that are away.
    pub log_bytes_max: u64,
    /// The last heartbeat of each node of another region: how far its log is applied here.
    pub positions: BTreeMap<Actor, RegionHeartbeat>,
    /// Writes of this node that wait until other regions have them, by their place in the log.
    pub awaited: BTreeMap<u64, OpId>,
    /// Forwarded writes that were answered, the last ones first.
    reached_of_forwarded: VecDeque<(Dot, Vec<RegionId>)>,
    /// Reads that wait for more of another region's log.
    pub waiting: BTreeSet<OpId>,
    /// Over everything that this node holds, as of late.
    digest: u64,
    digest_at: Instant,
    pub save_at: Instant,
}

#[derive(Default)]
pub(in crate::mesh) struct RemoteRegion {
    topology: Option<Topology>,
    witnesses: TopologyWitnesses,
    pub routes: Routes,
    pub stream: RegionStream,
    /// The row that holds the stream.
    pub saved: Bytes,
    pub exchanges: UnderWay,
    /// Shards that were the same on both sides when they were last compared.
    pub same: BTreeSet<Shard>,
    /// Which shard is compared next, and when the round ends.
    pub cursor: usize,
    pub round_at: Instant,
    heard_at: Option<Instant>,
    /// When it was added to the table.
    since: Instant,
    digest: u64,
    ask_topology_at: Instant,
    heartbeat_at: Instant,
    /// The position in the last heartbeat.
    told: u64,
}

/// The state of another region, as seen from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionState {
    pub id: RegionId,
    pub name: String,
    /// Not silent for long.
    pub is_healthy: bool,
    pub silent_for: Option<Duration>,
    /// How far that region has this node's log, and where the log ends.
    pub acked: u64,
    pub last: u64,
    /// How old the first write is that waits for that region, in milliseconds.
    pub lag_out_ms: u64,
    /// How old the first write of that region is that is known to be missing here.
    pub lag_in_ms: u64,
    /// The positions of its nodes' logs here.
    pub positions: Vec<(Actor, u64)>,
    /// Over everything that its node held that was heard last.
    pub digest: u64,
    /// Shards of this node that were the same there when they were last compared.
    pub n_same: usize,
}

impl RemoteRegions {
    /// The log of another incarnation is not this one's: its numbers are those of other dots.
    pub fn load(me: Actor, keeps_log: bool, storage: &Storage, rows: &dyn Rows) -> RemoteRegions {
        let row = |key: &[u8]| storage.get(rows, key).0;
        let table = row(rows::REGIONS).and_then(Regions::decode).unwrap_or_default();
        let log_row = |key: &[u8]| row(key).filter(|_| keeps_log);
        let log = log_row(rows::LOG_HEAD).and_then(LogHead::decode).unwrap_or_default();
        let load = |region: RegionId| {
            let saved = log_row(&rows::stream(region)).unwrap_or_default();
            let stream = RegionStream::decode(saved.clone()).unwrap_or_default();
            (region, RemoteRegion { stream, saved, ..RemoteRegion::default() })
        };
        let others = table.others(me.region).map(load).collect();
        RemoteRegions {
            me,
            table,
            others,
            nodes: BTreeMap::new(),
            log,
            durable: log.last,
            is_dirty: false,
            log_bytes_max: MESH_REPLICATION_LOG_BYTES_MAX,
            positions: BTreeMap::new(),
            awaited: BTreeMap::new(),
            reached_of_forwarded: VecDeque::new(),
            waiting: BTreeSet::new(),
            digest: 0,
            digest_at: Instant::ZERO,
            save_at: Instant::ZERO,
        }
    }

    /// Removes the nodes of this region.
    pub fn remove_local(&mut self, topology: &Topology) {
        self.nodes.retain(|node, _| topology.member(*node).is_none());
    }

    /// The region of a node, if it is another region.
    pub fn region_of(&self, node: NodeId) -> Option<RegionId> {
        self.nodes.get(&node).copied()
    }

    pub fn regions(&self) -> impl Iterator<Item = RegionId> {
        self.others.keys().copied()
    }

    /// Regions that were silent for so long that operations do not wait for them.
    pub fn unreachable(&self, now: Instant) -> Vec<RegionId> {
        let away = |other: &RemoteRegion| now.since(other.heard_at.unwrap_or(other.since)) >= SILENCE_MAX;
        self.others.iter().filter(|(_, other)| away(other)).map(|(region, _)| *region).collect()
    }

    /// A shard was compared with a node of another region.
    pub fn compared(&mut self, with: NodeId, shard: Shard, same: bool) {
        let other = self.region_of(with).and_then(|region| self.others.get_mut(&region));
        if let Some(other) = other {
            if same {
                other.same.insert(shard)
            } else {
                other.same.remove(&shard)
            };
        }
    }

    /// Records the regions that have a forwarded write, as its coordinator reported.
    pub fn record_reached(&mut self, dot: Dot, reached: Vec<RegionId>) {
        if reached.is_empty() {
            return;
        }
        self.reached_of_forwarded.truncate(REACHED_MAX - 1);
        self.reached_of_forwarded.push_front((dot, reached));
    }

    /// Regions that have a write of this node, or one that it forwarded recently.
    pub fn reached(&self, dot: Dot) -> Vec<RegionId> {
        if let Some((_, reached)) = self.reached_of_forwarded.iter().find(|(other, _)| *other == dot) {
            return reached.clone();
        }
        let has = |other: &RemoteRegion| dot.actor == self.me && other.stream.has(dot.counter);
        self.others.iter().filter(|(_, other)| has(other)).map(|(region, _)| *region).collect()
    }

    /// How far the log of another region's node is here.
    pub fn position(&self, actor: Actor) -> u64 {
        self.positions.get(&actor).map_or(0, |heartbeat| heartbeat.position)
    }

    /// The quickest node of a region that keeps the key and may be asked.
    pub fn replica_in(
        &self,
        peers: &mut PeerHealth,
        at: Instant,
        region: RegionId,
        key: &Key,
    ) -> Option<NodeId> {
        let other = self.others.get(&region)?;
        let copies = other.topology.as_ref()?.copies(key.kept_by())?;
        let mut list = other.routes.of_shard(key.partition(), copies).read.clone();
        peers.order(&mut list);
        list.into_iter().find(|node| peers.may_ask(*node, at))
    }

    /// The state of the other regions.
    pub fn states(&self, now: Now) -> Vec<RegionState> {
        let state = |(id, other): (&RegionId, &RemoteRegion)| {
            let positions = self.positions.values().filter(|heartbeat| heartbeat.actor.region == *id);
            let age =
                |stamp: Stamp| if stamp == Stamp::ZERO { 0 } else { now.wall_ms.saturating_sub(stamp.ms()) };
            let silent_for = other.heard_at.map(|at| now.at.since(at));
            let silence_ms = silent_for.filter(|silence| *silence > 2 * HEARTBEAT_INTERVAL);
            let silence_ms = silence_ms.map_or(0, |silence| silence.as_millis() as u64);
            RegionState {
                id: *id,
                name: self.table.get(*id).map(|region| region.name.clone()).unwrap_or_default(),
                is_healthy: silent_for.is_some_and(|silence| silence < SILENCE_MAX),
                silent_for,
                acked: other.stream.position(),
                last: self.log.last,
                lag_out_ms: age(other.stream.waiting()),
                lag_in_ms: positions
                    .clone()
                    .map(|heartbeat| age(heartbeat.waiting))
                    .max()
                    .unwrap_or(0)
                    .max(silence_ms),
                positions: positions.map(|heartbeat| (heartbeat.actor, heartbeat.position)).collect(),
                digest: other.digest,
                n_same: other.same.len(),
            }
        };
        self.others.iter().map(state).collect()
    }

    /// Whether a write may travel before it is durable here. A last write may, in one region: its order is in itself.
    /// Where others rely on this node's log, what was forgotten in a crash would be missing from it for ever.
    pub fn may_leave_early(&self, kind: Kind) -> bool {
        let alone = self.others.is_empty() || planted(Mutant::LastWriteSentEarly);
        kind.is_last_write_wins() && alone || planted(Mutant::MergeableSentEarly)
    }

    pub fn lag_ms(&self, t: &Turn<'_>) -> u64 {
        self.states(t.now).iter().map(|region| region.lag_in_ms).max().unwrap_or(0)
    }
}

impl Mesh {
    pub(in crate::mesh) fn step_regions(&mut self, t: &mut Turn<'_>, table: Regions) {
        if table.version <= self.remote.table.version {
            return;
        }
        let here = self.params.actor.region;
        self.replica.storage.put_row(Bytes::from_static(rows::REGIONS), Some(table.encode()));
        let gone: Vec<RegionId> =
            self.remote.regions().filter(|region| table.get(*region).is_none()).collect();
        gone.into_iter().for_each(|region| self.evict(region));
        for region in table.others(here) {
            if !self.remote.others.contains_key(&region) {
                let mut other = RemoteRegion { since: t.now.at, ..RemoteRegion::default() };
                // Earlier writes are not in the log.
                let upto = self.replica.dots.last().max(self.remote.log.last);
                other.stream.skip(upto, self.replica.clock.tick(t.now.wall_ms));
                self.remote.others.insert(region, other);
            }
        }
        self.remote.table = table;
        self.save_streams();
    }

    /// Forgets a region that left the table.
    fn evict(&mut self, region: RegionId) {
        if planted(Mutant::EvictedWaitedFor) {
            return;
        }
        self.remote.others.remove(&region);
        self.remote.nodes.retain(|_, home| *home != region);
        self.remote.positions.retain(|actor, _| actor.region != region);
        self.replica.shards.forget_region(region);
        self.replica.storage.put_row(rows::stream(region), None);
    }

    pub(in crate::mesh) fn step_remote(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        from: NodeId,
        envelope: Envelope,
    ) {
        if self.membership.topology.member(from).is_some() {
            return t.out.events.push(MeshEvent::RegionClash { region, node: from });
        }
        let Some(other) = self.remote.others.get_mut(&region) else { return };
        other.heard_at = Some(t.now.at);
        let epoch = other.topology.as_ref().map(|topology| topology.epoch);
        let is_member = other.topology.as_ref().is_some_and(|topology| topology.member(from).is_some());
        if !is_member && self.remote.nodes.len() < 2 * MEMBERS_MAX * REGIONS_MAX {
            self.remote.nodes.insert(from, region);
        }
        self.membership.peers.mark_alive(from);
        let is_topology = matches!(envelope.frame, Frame::Topology(_));
        if epoch.is_none_or(|epoch| epoch < envelope.epoch) && !is_topology {
            self.send(t, from, Frame::AskTopology);
        }
        self.step_remote_frame(t, region, from, envelope);
    }

    fn step_remote_frame(&mut self, t: &mut Turn<'_>, region: RegionId, from: NodeId, envelope: Envelope) {
        let Envelope { epoch, frame } = envelope;
        match self.without_far_stamps(t, from, frame) {
            Frame::Replicate { id, entry } => self.step_replicate(t, from, id, entry),
            Frame::Stored { id, outcome } => self.step_stored(t, from, id, outcome),
            Frame::Declined { id } => self.step_declined(t, from, id),
            Frame::RemoteRead { id, key, session } => self.step_remote_read(t, from, id, key, session),
            Frame::RemoteReadResult { id, record } => self.step_remote_read_result(t, from, id, record),
            Frame::Heartbeat(heartbeat) => self.step_heartbeat(t, region, from, *heartbeat),
            Frame::AskTopology => self.send(t, from, Frame::Topology(self.membership.topology.encode())),
            Frame::Topology(bytes) => self.step_remote_topology(region, from, bytes),
            Frame::Store { id, key, record, .. } => {
                self.step_store(t, from, id, key, record, StoreReason::Repair)
            }
            Frame::Compare { id, shard, root, known } => {
                self.step_compare(t, from, id, CompareRequest { shard, root, known });
            }
            Frame::Leaves { id, leaves, known, marks } => {
                self.step_leaves(t, from, LeavesReply { id, epoch, leaves, known, marks });
            }
            Frame::Page(page) => self.step_page(t, from, *page),
            Frame::Answer(answer) => self.step_answer(t, from, *answer),
            Frame::CollectionQuery { id, key, purpose, question } => {
                self.step_look(t, from, id, &key, purpose, &question);
            }
            Frame::CollectionAnswer { id, view } => self.step_collection_answer(t, from, id, *view),
            Frame::Synced { shard, known, marks } => self.step_synced(t, from, shard, known, marks),
            // Frames within one region only.
            _ => {}
        }
    }

    fn step_remote_topology(&mut self, region: RegionId, from: NodeId, bytes: Bytes) {
        let Some(topology) = Topology::decode(bytes).filter(|topology| topology.region == region) else {
            return;
        };
        let Some(other) = self.remote.others.get_mut(&region) else { return };
        let is_old = other.topology.as_ref().is_some_and(|known| {
            known.epoch >= topology.epoch && !is_far_behind(topology.epoch, known.epoch)
        });
        if is_old || !other.witnesses.confirm(from, &topology, other.topology.as_ref()) {
            return;
        }
        self.remote.nodes.retain(|_, home| *home != region);
        let strangers =
            topology.members().iter().filter(|member| self.membership.topology.member(member.node).is_none());
        self.remote.nodes.extend(strangers.map(|member| (member.node, region)));
        other.routes = Routes::of(&topology);
        other.topology = Some(topology);
    }

    /// A node speaks for its own log only: a position that is believed ends the wait of sessions for good.
    fn step_heartbeat(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        from: NodeId,
        heartbeat: RegionHeartbeat,
    ) {
        let speaks_for_itself = heartbeat.actor.node == from || planted(Mutant::HeartbeatOfAnother);
        if heartbeat.actor.region != region || !speaks_for_itself {
            return;
        }
        if let Some(other) = self.remote.others.get_mut(&region) {
            other.digest = heartbeat.digest;
        }
        let known = self.remote.positions.get(&heartbeat.actor);
        let is_known = known.is_some() || self.remote.positions.len() < POSITIONS_MAX;
        let moved = known.is_none_or(|known| known.position < heartbeat.position);
        // The network may reorder two heartbeats.
        let later =
            known.is_none_or(|known| (known.position, known.at_ms) <= (heartbeat.position, heartbeat.at_ms));
        if is_known && later {
            self.remote.positions.insert(heartbeat.actor, heartbeat);
        }
        if moved {
            self.retry_session_reads(t);
        }
    }

    /// Sends heartbeats, and asks regions for their topologies while those are unknown.
    pub(in crate::mesh) fn step_heartbeats(&mut self, t: &mut Turn<'_>) {
        let (actor, at_ms, last) = (self.params.actor, t.now.wall_ms, self.remote.log.last);
        if !self.remote.others.is_empty() && t.now.at >= self.remote.digest_at {
            self.remote.digest_at = t.now.at.after(HEARTBEAT_INTERVAL);
            self.remote.digest = self.replica.shards.digest();
        }
        let digest = self.remote.digest;
        for region in self.remote.regions().collect::<Vec<_>>() {
            let Some(other) = self.remote.others.get_mut(&region) else { continue };
            let Some(topology) = &other.topology else {
                if t.now.at >= other.ask_topology_at {
                    other.ask_topology_at = t.now.at.after(HEARTBEAT_INTERVAL);
                    let envelope =
                        Envelope { epoch: self.membership.topology.epoch, frame: Frame::AskTopology };
                    t.out.to_regions.push((Destination::AnyOf(region), envelope));
                }
                continue;
            };
            let position = other.stream.position();
            if position == other.told && t.now.at < other.heartbeat_at {
                continue;
            }
            (other.told, other.heartbeat_at) = (position, t.now.at.after(HEARTBEAT_INTERVAL));
            let waiting = other.stream.waiting();
            let nodes: Vec<NodeId> = topology.members().iter().map(|member| member.node).collect();
            for node in nodes {
                let heartbeat = RegionHeartbeat { actor, at_ms, position, last, waiting, digest };
                self.send(t, node, Frame::Heartbeat(Box::new(heartbeat)));
            }
        }
    }

    /// The regions that have a write of this node.
    pub fn reached(&self, dot: Dot) -> Vec<RegionId> {
        self.remote.reached(dot)
    }

    /// The state of the other regions.
    pub fn regions(&self, now: Now) -> Vec<RegionState> {
        self.remote.states(now)
    }

    /// A replica of another region to compare a shard with.
    pub(in crate::mesh) fn peer_in_region(
        &mut self,
        at: Instant,
        region: RegionId,
        shard: Shard,
    ) -> Option<NodeId> {
        let other = self.remote.others.get(&region)?;
        let mut list = other.routes.of_shard(shard.partition, shard.copies).read.clone();
        self.membership.peers.order(&mut list);
        list.into_iter().find(|node| self.membership.peers.may_ask(*node, at))
    }
}
