//! The topology that this node follows, whether it serves, and which nodes keep a key.
//! A newer topology is followed from any source; requests under an older epoch are declined from then on. A node that has
//! started serves once a majority of the replicas of each of its partitions has answered, because only then does it know
//! whether it was away for too long. A node that was away for too long serves once it has caught up.

use super::hints::Hints;
use super::witness::is_far_behind;
use super::writes::Route;
use super::{Mesh, MeshEvent, Then, Turn};
use crate::frame::{Frame, Shard};
use crate::moves::{MoveReport, majority};
use crate::ring::Partition;
use crate::rows;
use crate::topology::{MovePhase, Topology};
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const HELLO_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// It is not known yet which incarnation of the node the others count on.
    unenrolled: bool,
    is_ready: bool,
    /// Has lost its disk and not finish_session_read everything back yet.
    wiped: bool,
    heard: BTreeSet<NodeId>,
    hello_at: Instant,
}

/// The replicas of every partition under one topology, computed once.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// For each number of copies in use, by partition.
    by_copies: Vec<(u8, Vec<Arc<Route>>)>,
    no_replicas: Arc<Route>,
}

impl Routes {
    pub fn of(topology: &Topology) -> Routes {
        let placement = topology.placement();
        let route = |partition: Partition, copies: u8| {
            let now = placement.now.of(partition, copies.into());
            let next = placement.next.of(partition, copies.into());
            let (read, also) = match topology.phase(partition) {
                MovePhase::Still => (now, now),
                MovePhase::Pending => (now, next),
                MovePhase::Switched => (next, now),
                MovePhase::Moved => (next, next),
            };
            let differs = !read.iter().all(|node| also.contains(node)) || read.len() != also.len();
            Arc::new(Route { read: read.to_vec(), also: if differs { also.to_vec() } else { Vec::new() } })
        };
        let routes = |copies| Partition::all().map(|partition| route(partition, copies)).collect();
        let by_copies = topology.copies_in_use().into_iter().map(|copies| (copies, routes(copies)));
        Routes { by_copies: by_copies.collect(), no_replicas: Arc::default() }
    }

    /// Empty for a number of copies that no namespace has.
    pub fn of_shard(&self, partition: Partition, copies: u8) -> &Arc<Route> {
        let mut found = self.by_copies.iter().filter(|(other, _)| *other == copies);
        found.next().map_or(&self.no_replicas, |(_, routes)| &routes[partition.idx()])
    }
}

impl Readiness {
    pub fn new(unenrolled: bool, wiped: bool) -> Readiness {
        Readiness { unenrolled, wiped, ..Readiness::default() }
    }

    pub fn is_unenrolled(&self) -> bool {
        self.unenrolled
    }

    pub fn is_wiped(&self) -> bool {
        self.wiped
    }

    pub fn caught_up(&mut self) {
        self.wiped = false;
    }
}

impl Mesh {
    pub(super) fn route(&self, partition: Partition, copies: u8) -> &Arc<Route> {
        self.routes.of_shard(partition, copies)
    }

    pub(super) fn keeps(&self, shard: Shard) -> bool {
        self.route(shard.partition, shard.copies).everyone().any(|node| node == self.me)
    }

    /// Is in the new list of a shard that has not moved yet, and not in the old one.
    pub(super) fn is_newcomer(&self, shard: Shard) -> bool {
        let route = self.route(shard.partition, shard.copies);
        let pending = self.topology.phase(shard.partition) == MovePhase::Pending;
        pending && !route.read.contains(&self.me) && route.also.contains(&self.me)
    }

    /// Gives dots and answers readers.
    pub fn is_serving(&self) -> bool {
        self.readiness.is_ready && !self.readiness.unenrolled && !self.readiness.wiped && !self.is_stale()
    }

    pub(super) fn is_stale(&self) -> bool {
        self.topology.member(self.me).is_some_and(|member| member.stale)
    }

    pub(super) fn step_startup(&mut self, t: &mut Turn<'_>) {
        if self.readiness.is_ready {
            return;
        }
        if self.has_heard_majorities() {
            self.readiness.is_ready = true;
            t.out.events.push(MeshEvent::Ready);
            return self.report_epoch(t);
        }
        if t.now.at >= self.readiness.hello_at {
            self.readiness.hello_at = t.now.at.after(HELLO_INTERVAL);
            let nodes = self.topology.members().iter().map(|member| member.node);
            let others: Vec<NodeId> = nodes.filter(|node| *node != self.me).collect();
            for node in others {
                self.send(t, node, Frame::Hello);
            }
        }
    }

    fn has_heard_majorities(&self) -> bool {
        let heard = |node: &&NodeId| **node == self.me || self.readiness.heard.contains(node);
        self.topology.copies_in_use().into_iter().all(|copies| {
            Partition::all().all(|partition| {
                let route = self.route(partition, copies);
                let list = &route.read;
                !list.contains(&self.me) || list.iter().filter(heard).count() >= majority(list.len())
            })
        })
    }

    pub(super) fn step_welcome(&mut self, t: &mut Turn<'_>, from: NodeId) {
        self.readiness.heard.insert(from);
        self.step_startup(t);
    }

    /// What another node says to follow. What the cluster has agreed on comes by `step_topology`.
    pub(super) fn step_peer_topology(&mut self, t: &mut Turn<'_>, from: NodeId, topology: Topology) {
        let is_news = topology.epoch > self.topology.epoch && topology.region == self.topology.region;
        if is_news && self.witnesses.confirm(from, &topology, Some(&self.topology)) {
            self.step_topology(t, topology);
        }
    }

    /// An agreed topology far behind the one that this node goes by shows that the latter was forged.
    pub(super) fn step_topology(&mut self, t: &mut Turn<'_>, topology: Topology) {
        let is_news =
            topology.epoch > self.topology.epoch || is_far_behind(topology.epoch, self.topology.epoch);
        if !is_news || topology.region != self.topology.region {
            return;
        }
        if self.readiness.unenrolled {
            return self.follow_unenrolled(t, topology);
        }
        let begins = topology.is_moving() && topology.began != self.topology.began;
        let kept: Vec<Shard> = self.all_shards().filter(|shard| self.keeps(*shard)).collect();
        let was_stale = self.is_stale();
        self.put_row(Bytes::from_static(rows::TOPOLOGY), Some(topology.encode()));
        self.topology = topology;
        self.remote.remove_local(&self.topology);
        self.routes = Routes::of(&self.topology);
        if begins {
            // What is left of an earlier time must not pass for what the move brings.
            let new: Vec<Shard> = self.all_shards().filter(|shard| self.is_newcomer(*shard)).collect();
            for shard in new {
                self.wipe(t, shard, usize::MAX);
            }
        }
        if self.is_stale() && !was_stale {
            self.forget_sources();
        }
        let lost: Vec<Shard> = kept.into_iter().filter(|shard| !self.keeps(*shard)).collect();
        self.plan_exchanges(begins, lost);
        self.reroute_writes(t);
        self.reroute_reads(t);
        self.reroute_proposals(t);
        self.report_epoch(t);
    }

    /// Others rely on it that a node which reports an epoch never again follows an older one, crash or not.
    pub(super) fn report_epoch(&mut self, t: &mut Turn<'_>) {
        let report = MoveReport::At(self.topology.epoch);
        if planted(Mutant::TopologyNotDurable) {
            return t.out.reports.push(report);
        }
        self.after(t, self.horizon(), Then::MoveReport(report));
    }

    /// It has nothing to keep, to compare or to report.
    fn follow_unenrolled(&mut self, t: &mut Turn<'_>, topology: Topology) {
        self.topology = topology;
        self.routes = Routes::of(&self.topology);
        self.reroute_reads(t);
        self.reroute_proposals(t);
    }

    /// The node starts with the topology that it followed while it was not enrolled.
    pub(super) fn step_enrolled(&mut self, wiped: bool) {
        if self.readiness.unenrolled {
            self.readiness = Readiness::new(false, wiped);
            self.hints = Hints::of(&self.topology, self.me);
            self.agreed_topology = Some(self.topology.clone());
        }
    }

    pub(super) fn all_shards(&self) -> impl Iterator<Item = Shard> + use<> {
        all_shards(&self.topology)
    }

    /// Removes records of a shard, up to a number, and says how many there were.
    pub(super) fn wipe(&mut self, t: &mut Turn<'_>, shard: Shard, most: usize) -> usize {
        let (from, to) = (rows::records_from(shard.partition, b""), rows::records_end(shard.partition));
        let mut keys = Vec::new();
        self.overlay.scan(t.rows, &from, &to, &mut |row, _| {
            let key = rows::record_key(row).filter(|key| self.shard_of(key) == Some(shard));
            keys.extend(key);
            keys.len() < most
        });
        for key in &keys {
            let local = self.load(t, key);
            self.remove(t, key, shard, &local);
        }
        self.forget_undecided(t, shard);
        self.shards.forget(shard);
        self.put_row(rows::mark(shard.partition, shard.copies), None);
        keys.len()
    }
}

fn all_shards(topology: &Topology) -> impl Iterator<Item = Shard> + use<> {
    let copies = topology.copies_in_use();
    Partition::all()
        .flat_map(move |partition| copies.clone().into_iter().map(move |copies| Shard { partition, copies }))
}
