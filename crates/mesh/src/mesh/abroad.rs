//! The other regions as this node sees them: their topologies, how far each has this node's log, and how far their logs
//! are applied here. Frames of a region that is not in the table of regions are dropped; from a listed region only the
//! frames that regions exchange are accepted. A region that leaves the table is forgotten at once.

use super::membership::Routes;
use super::witness::{Witnesses, is_far_behind};
use super::{Destination, Mesh, Note, Turn, exchange};
use crate::actor::{Actor, Dot, RegionId};
use crate::frame::pulse::Pulse;
use crate::frame::{Ask, Envelope, Frame, Shard, Why};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::log::Head;
use crate::marks::REGIONS_MAX;
use crate::overlay::Overlay;
use crate::peers::Peers;
use crate::regions::Regions;
use crate::rows::{self, Rows};
use crate::stream::Stream;
use crate::topology::{MEMBERS_MAX, Topology};
use base::limits::MESH_REPLICATION_LOG_BYTES_MAX;
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How often a region whose topology is unknown is asked for it, and how often heartbeats are sent.
const PULSE_INTERVAL: Duration = Duration::from_secs(1);
/// A region that was silent for so long is not healthy.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Nodes of other regions whose position is remembered.
const POSITIONS_MAX: usize = 4_096;
/// Forwarded writes whose regions may be asked for a moment later.
const REACHED_MAX: usize = 256;

pub(super) struct Abroad {
    me: Actor,
    pub table: Regions,
    pub others: BTreeMap<RegionId, Other>,
    /// The region of each node.
    nodes: BTreeMap<NodeId, RegionId>,
    pub log: Head,
    /// Entries up to here are durable and may leave.
    pub durable: u64,
    /// The head has changed in this turn.
    pub is_dirty: bool,
    /// What the log may take before it is cut for regions that are away.
    pub log_bytes_max: u64,
    /// The last heartbeat of each node of another region: how far its log is applied here.
    pub positions: BTreeMap<Actor, Pulse>,
    /// Writes of this node that wait until other regions have them, by their place in the log.
    pub awaited: BTreeMap<u64, Ask>,
    /// Forwarded writes that were answered, the last ones first.
    reached_of_others: VecDeque<(Dot, Vec<RegionId>)>,
    /// Reads that wait for more of another region's log.
    pub waiting: BTreeSet<Ask>,
    /// Over everything that this node holds, as of late.
    digest: u64,
    digest_at: Instant,
    pub save_at: Instant,
}

#[derive(Default)]
pub(super) struct Other {
    topology: Option<Topology>,
    witnesses: Witnesses,
    pub routes: Routes,
    pub stream: Stream,
    /// The row that holds the stream.
    pub saved: Bytes,
    pub exchanges: usize,
    /// Shards that were the same on both sides when they were last compared.
    pub same: BTreeSet<Shard>,
    /// Which shard is compared next, and when the round ends.
    pub cursor: usize,
    pub round_at: Instant,
    heard_at: Option<Instant>,
    /// When it was added to the table.
    since: Instant,
    digest: u64,
    which_at: Instant,
    pulse_at: Instant,
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

impl Abroad {
    pub fn load(me: Actor, overlay: &Overlay, rows: &dyn Rows) -> Abroad {
        let row = |key: &[u8]| overlay.get(rows, key).0;
        let table = row(rows::REGIONS).and_then(Regions::decode).unwrap_or_default();
        let log = row(rows::LOG_HEAD).and_then(Head::decode).unwrap_or_default();
        let load = |region: RegionId| {
            let saved = row(&rows::stream(region)).unwrap_or_default();
            let stream = Stream::decode(saved.clone()).unwrap_or_default();
            (region, Other { stream, saved, ..Other::default() })
        };
        let others = table.others(me.region).map(load).collect();
        Abroad {
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
            reached_of_others: VecDeque::new(),
            waiting: BTreeSet::new(),
            digest: 0,
            digest_at: Instant::ZERO,
            save_at: Instant::ZERO,
        }
    }

    /// Removes the nodes of this region.
    pub fn not_here(&mut self, topology: &Topology) {
        self.nodes.retain(|node, _| topology.member(*node).is_none());
    }

    /// The region of a node that is not of this one.
    pub fn home(&self, node: NodeId) -> Option<RegionId> {
        self.nodes.get(&node).copied()
    }

    pub fn regions(&self) -> impl Iterator<Item = RegionId> {
        self.others.keys().copied()
    }

    /// Regions that were silent for so long that operations do not wait for them.
    pub fn away(&self, now: Instant) -> Vec<RegionId> {
        let away = |other: &Other| now.since(other.heard_at.unwrap_or(other.since)) >= SILENCE_MAX;
        self.others.iter().filter(|(_, other)| away(other)).map(|(region, _)| *region).collect()
    }

    /// A shard was compared with a node of another region.
    pub fn compared(&mut self, with: NodeId, shard: Shard, same: bool) {
        let other = self.home(with).and_then(|region| self.others.get_mut(&region));
        if let Some(other) = other {
            if same {
                other.same.insert(shard)
            } else {
                other.same.remove(&shard)
            };
        }
    }

    /// Records the regions that have a forwarded write, as its coordinator reported.
    pub fn remember_reached(&mut self, dot: Dot, reached: Vec<RegionId>) {
        if reached.is_empty() {
            return;
        }
        self.reached_of_others.truncate(REACHED_MAX - 1);
        self.reached_of_others.push_front((dot, reached));
    }

    /// Regions that have a write of this node, or one that it forwarded recently.
    pub fn reached(&self, dot: Dot) -> Vec<RegionId> {
        if let Some((_, reached)) = self.reached_of_others.iter().find(|(other, _)| *other == dot) {
            return reached.clone();
        }
        let has = |other: &Other| dot.actor == self.me && other.stream.has(dot.counter);
        self.others.iter().filter(|(_, other)| has(other)).map(|(region, _)| *region).collect()
    }

    /// How far the log of another region's node is here.
    pub fn position(&self, actor: Actor) -> u64 {
        self.positions.get(&actor).map_or(0, |pulse| pulse.position)
    }

    /// The quickest node of a region that keeps the key and may be asked.
    pub fn keeper(&self, peers: &mut Peers, at: Instant, region: RegionId, key: &Key) -> Option<NodeId> {
        let other = self.others.get(&region)?;
        let copies = other.topology.as_ref()?.copies(key.kept_by())?;
        let mut list = other.routes.of_shard(key.partition(), copies).read.clone();
        peers.order(&mut list);
        list.into_iter().find(|node| peers.may_ask(*node, at))
    }
}

impl Mesh {
    pub(super) fn step_regions(&mut self, t: &mut Turn<'_>, table: Regions) {
        if table.version <= self.abroad.table.version {
            return;
        }
        let here = self.params.actor.region;
        self.put_row(Bytes::from_static(rows::REGIONS), Some(table.encode()));
        let gone: Vec<RegionId> =
            self.abroad.regions().filter(|region| table.get(*region).is_none()).collect();
        gone.into_iter().for_each(|region| self.evict(region));
        for region in table.others(here) {
            if !self.abroad.others.contains_key(&region) {
                let mut other = Other { since: t.now.at, ..Other::default() };
                // What was written before is not in the log.
                let upto = self.dots.last().max(self.abroad.log.last);
                other.stream.skip(upto, self.clock.tick(t.now.wall_ms));
                self.abroad.others.insert(region, other);
            }
        }
        self.abroad.table = table;
        self.save_streams();
    }

    /// Forgets a region that left the table.
    fn evict(&mut self, region: RegionId) {
        if planted(Mutant::EvictedWaitedFor) {
            return;
        }
        self.abroad.others.remove(&region);
        self.abroad.nodes.retain(|_, home| *home != region);
        self.abroad.positions.retain(|actor, _| actor.region != region);
        self.shards.forget_region(region);
        self.put_row(rows::stream(region), None);
    }

    pub(super) fn step_abroad(
        &mut self,
        t: &mut Turn<'_>,
        region: RegionId,
        from: NodeId,
        envelope: Envelope,
    ) {
        if self.topology.member(from).is_some() {
            return t.out.notes.push(Note::RegionClash { region, node: from });
        }
        let Some(other) = self.abroad.others.get_mut(&region) else { return };
        other.heard_at = Some(t.now.at);
        let epoch = other.topology.as_ref().map(|topology| topology.epoch);
        let is_member = other.topology.as_ref().is_some_and(|topology| topology.member(from).is_some());
        if !is_member && self.abroad.nodes.len() < 2 * MEMBERS_MAX * REGIONS_MAX {
            self.abroad.nodes.insert(from, region);
        }
        self.peers.heard(from);
        let is_topology = matches!(envelope.frame, Frame::Topology(_));
        if epoch.is_none_or(|epoch| epoch < envelope.epoch) && !is_topology {
            self.send(t, from, Frame::Which);
        }
        self.step_frame_abroad(t, region, from, envelope);
    }

    fn step_frame_abroad(&mut self, t: &mut Turn<'_>, region: RegionId, from: NodeId, envelope: Envelope) {
        let Envelope { epoch, frame } = envelope;
        match self.without_far_stamps(t, from, frame) {
            Frame::Replicate { ask, entry } => self.step_replicate(t, from, ask, entry),
            Frame::Stored { ask, outcome } => self.step_stored(t, from, ask, outcome),
            Frame::Declined { ask } => self.step_declined(t, from, ask),
            Frame::Seek { ask, key, session } => self.step_seek(t, from, ask, key, session),
            Frame::Sought { ask, record } => self.step_sought(t, from, ask, record),
            Frame::Pulse(pulse) => self.step_pulse(t, region, *pulse),
            Frame::Which => self.send(t, from, Frame::Topology(self.topology.encode())),
            Frame::Topology(bytes) => self.step_topology_abroad(region, from, bytes),
            Frame::Store { ask, key, record, .. } => self.step_store(t, from, ask, key, record, Why::Repair),
            Frame::Compare { ask, shard, root, known } => {
                self.step_compare(t, from, ask, exchange::Side { shard, root, known });
            }
            Frame::Leaves { ask, leaves, known, marks } => {
                self.step_leaves(t, from, exchange::Opening { ask, epoch, leaves, known, marks });
            }
            Frame::Page(page) => self.step_page(t, from, *page),
            Frame::Answer(answer) => self.step_answer(t, from, *answer),
            Frame::Settled { shard, known, marks } => self.step_settled(t, from, shard, known, marks),
            // Frames within one region only.
            _ => {}
        }
    }

    fn step_topology_abroad(&mut self, region: RegionId, from: NodeId, bytes: Bytes) {
        let Some(topology) = Topology::decode(bytes).filter(|topology| topology.region == region) else {
            return;
        };
        let Some(other) = self.abroad.others.get_mut(&region) else { return };
        let is_old = other.topology.as_ref().is_some_and(|known| {
            known.epoch >= topology.epoch && !is_far_behind(topology.epoch, known.epoch)
        });
        if is_old || !other.witnesses.confirm(from, &topology, other.topology.as_ref()) {
            return;
        }
        self.abroad.nodes.retain(|_, home| *home != region);
        let strangers =
            topology.members().iter().filter(|member| self.topology.member(member.node).is_none());
        self.abroad.nodes.extend(strangers.map(|member| (member.node, region)));
        other.routes = Routes::of(&topology);
        other.topology = Some(topology);
    }

    fn step_pulse(&mut self, t: &mut Turn<'_>, region: RegionId, pulse: Pulse) {
        if pulse.actor.region != region {
            return;
        }
        if let Some(other) = self.abroad.others.get_mut(&region) {
            other.digest = pulse.digest;
        }
        let known = self.abroad.positions.get(&pulse.actor);
        let is_known = known.is_some() || self.abroad.positions.len() < POSITIONS_MAX;
        let moved = known.is_none_or(|known| known.position < pulse.position);
        // The network may reorder two heartbeats.
        let later = known.is_none_or(|known| (known.position, known.at_ms) <= (pulse.position, pulse.at_ms));
        if is_known && later {
            self.abroad.positions.insert(pulse.actor, pulse);
        }
        if moved {
            self.wake_sessions(t);
        }
    }

    /// Sends heartbeats, and asks regions for their topologies while those are unknown.
    pub(super) fn step_pulses(&mut self, t: &mut Turn<'_>) {
        let (actor, at_ms, last) = (self.params.actor, t.now.wall_ms, self.abroad.log.last);
        if !self.abroad.others.is_empty() && t.now.at >= self.abroad.digest_at {
            self.abroad.digest_at = t.now.at.after(PULSE_INTERVAL);
            self.abroad.digest = self.shards.digest();
        }
        let digest = self.abroad.digest;
        for region in self.abroad.regions().collect::<Vec<_>>() {
            let Some(other) = self.abroad.others.get_mut(&region) else { continue };
            let Some(topology) = &other.topology else {
                if t.now.at >= other.which_at {
                    other.which_at = t.now.at.after(PULSE_INTERVAL);
                    let envelope = Envelope { epoch: self.topology.epoch, frame: Frame::Which };
                    t.out.abroad.push((Destination::AnyOf(region), envelope));
                }
                continue;
            };
            let position = other.stream.position();
            if position == other.told && t.now.at < other.pulse_at {
                continue;
            }
            (other.told, other.pulse_at) = (position, t.now.at.after(PULSE_INTERVAL));
            let waiting = other.stream.waiting();
            let nodes: Vec<NodeId> = topology.members().iter().map(|member| member.node).collect();
            for node in nodes {
                let pulse = Pulse { actor, at_ms, position, last, waiting, digest };
                self.send(t, node, Frame::Pulse(Box::new(pulse)));
            }
        }
    }

    /// The regions that have a write of this node.
    pub fn reached(&self, dot: Dot) -> Vec<RegionId> {
        self.abroad.reached(dot)
    }

    /// The state of the other regions.
    pub fn regions(&self, now: super::Now) -> Vec<RegionState> {
        let state = |(id, other): (&RegionId, &Other)| {
            let positions = self.abroad.positions.values().filter(|pulse| pulse.actor.region == *id);
            let age =
                |stamp: Stamp| if stamp == Stamp::ZERO { 0 } else { now.wall_ms.saturating_sub(stamp.ms()) };
            let silent_for = other.heard_at.map(|at| now.at.since(at));
            let silence_ms = silent_for.filter(|silence| *silence > 2 * PULSE_INTERVAL);
            let silence_ms = silence_ms.map_or(0, |silence| silence.as_millis() as u64);
            RegionState {
                id: *id,
                name: self.abroad.table.get(*id).map(|region| region.name.clone()).unwrap_or_default(),
                is_healthy: silent_for.is_some_and(|silence| silence < SILENCE_MAX),
                silent_for,
                acked: other.stream.position(),
                last: self.abroad.log.last,
                lag_out_ms: age(other.stream.waiting()),
                lag_in_ms: positions
                    .clone()
                    .map(|pulse| age(pulse.waiting))
                    .max()
                    .unwrap_or(0)
                    .max(silence_ms),
                positions: positions.map(|pulse| (pulse.actor, pulse.position)).collect(),
                digest: other.digest,
                n_same: other.same.len(),
            }
        };
        self.abroad.others.iter().map(state).collect()
    }

    /// A replica of another region to compare a shard with.
    pub(super) fn peer_abroad(&mut self, at: Instant, region: RegionId, shard: Shard) -> Option<NodeId> {
        let other = self.abroad.others.get(&region)?;
        let mut list = other.routes.of_shard(shard.partition, shard.copies).read.clone();
        self.peers.order(&mut list);
        list.into_iter().find(|node| self.peers.may_ask(*node, at))
    }
}
