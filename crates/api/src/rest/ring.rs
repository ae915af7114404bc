//! `/v1/ring`: the nodes of the ring, how much of it each node stores, what moves, and this node's state; and requests
//! to a node to leave, or to stay. This node's topology goes in; counts and names for people come out.

use super::refusal::Refusal;
use super::{Rest, date, json};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::{Code, NodeId};
use mesh::{MachineStatus, MemberState, MovePhase, PARTITIONS, Partition, Placement, Topology, namespaces};
use serde_json::{Value, json as object};
use std::collections::BTreeMap;

impl Rest {
    /// Nodes by the names that people gave them: those of members, and of nodes that keep data alone what they have told.
    pub fn node_names(&self) -> BTreeMap<NodeId, String> {
        let members = self.handle().members().list().into_iter().map(|member| (member.id, member.name));
        self.handle().reported_names().into_iter().chain(members).collect()
    }

    /// The node that is called so, by its number or its name.
    pub fn node_called(&self, called: &str) -> Result<NodeId, Refusal> {
        let topology = self.mesh().topology();
        let names = self.node_names();
        let number = u64::from_str_radix(called, 16).ok().map(NodeId);
        let named = |node: &NodeId| names.get(node).is_some_and(|name| name == called);
        let mut nodes = topology.members().iter().map(|member| member.node).chain(names.keys().copied());
        let is_meant = |node: &NodeId| named(node) || Some(*node) == number;
        let message = || format!("no node of the ring is called `{called}`; GET /v1/ring lists them");
        nodes.find(is_meant).ok_or_else(|| Refusal::new(Code::MemberNotFound, message()))
    }
}

/// Tells a node to move its data away and leave the ring.
pub async fn leave(rest: Rest, Path(node): Path<String>) -> Result<Response, Refusal> {
    let node = rest.node_called(&node)?;
    rest.handle().let_node_go(node, true).await?;
    Ok(on_its_way(node, "leaving"))
}

/// Revokes that; a node that has left already joins again.
pub async fn stay(rest: Rest, Path(node): Path<String>) -> Result<Response, Refusal> {
    let node = rest.node_called(&node)?;
    rest.handle().let_node_go(node, false).await?;
    Ok(on_its_way(node, "staying"))
}

fn on_its_way(node: NodeId, status: &str) -> Response {
    let body = object!({ "node": format!("{:x}", node.0), "status": status });
    (StatusCode::ACCEPTED, json(&body)).into_response()
}

pub async fn get(rest: Rest) -> Result<Response, Refusal> {
    Ok(json(&document(&rest)))
}

pub fn document(rest: &Rest) -> Value {
    let topology = rest.mesh().topology();
    let status = rest.mesh().status();
    let copies =
        topology.copies(namespaces::id_of(namespaces::DEFAULT)).unwrap_or(namespaces::COPIES_DEFAULT);
    let placement = topology.placement();
    let shares = RingShares::of(&topology, &placement, copies);
    let moves = NodeMoves::of(&topology, &placement, copies);
    let names = rest.node_names();
    let down = status.machine.as_ref().map(|machine| machine.down.clone()).unwrap_or_default();
    let members = topology.members().iter().map(|member| {
        let name = names.get(&member.node).cloned().unwrap_or_default();
        let (primary, replicas) = shares.of_node(member.node);
        let moves = moves.of_node(member.node);
        object!({
            "node": format!("{:x}", member.node.0),
            "name": name,
            "zone": member.zone,
            "vnodes": member.points,
            "standing": state(member.state),
            "stale": member.stale,
            "seems_down": down.contains(&member.node),
            "partitions_first": primary,
            "partitions": replicas,
            "share": replicas as f64 / (PARTITIONS as f64),
            "takes": { "partitions": moves.n_takes, "done": moves.n_taken },
            "gives": { "partitions": moves.n_gives, "done": moves.n_given },
        })
    });
    let members: Vec<Value> = members.collect();
    let moving = status.moving;
    object!({
        "region": rest.region(),
        "node": rest.handle().identity().name,
        "http": rest.advertised(),
        "epoch": topology.epoch.0,
        "partitions": PARTITIONS,
        "n": copies,
        "nodes": members,
        "moving": {
            "pending": moving.n_pending, "switched": moving.n_switched, "moved": moving.n_moved,
        },
        "namespaces": topology.namespace_copies().len(),
        "here": status.machine.as_ref().map(machine),
        "counts": {
            "written": status.counts.written,
            "read": status.counts.read,
            "scanned": status.counts.scanned,
            "indeterminate": status.counts.indeterminate,
            "unavailable": status.counts.unavailable,
            "refused": status.counts.refused,
            "hinted": status.counts.hinted,
            "repaired": status.counts.repaired,
            "conflicts": status.counts.conflicts,
            "purged": status.counts.purged,
            "clocks_ahead": status.counts.clocks_ahead,
        },
        "store_bytes": status.store_bytes,
        "log_bytes": status.log_bytes,
    })
}

fn machine(status: &MachineStatus) -> Value {
    let hex = |nodes: &[NodeId]| nodes.iter().map(|node| format!("{:x}", node.0)).collect::<Vec<_>>();
    object!({
        "serving": status.is_serving,
        "shards": status.n_shards,
        "filling": status.n_filling,
        "digest": status.digest.map(|digest| format!("{digest:016x}")),
        "repaired_upto": date::rfc3339(status.repaired_upto.ms()),
        "hints_for": hex(&status.hinted),
        "operations": status.n_operations,
        "unflushed_bytes": status.overlay_bytes,
    })
}

fn state(state: MemberState) -> &'static str {
    match state {
        MemberState::Joining => "joining",
        MemberState::Serving => "serving",
        MemberState::Leaving => "leaving",
    }
}

/// How many partitions are read from each node: as the first of their list, and at all.
struct RingShares(BTreeMap<NodeId, (usize, usize)>);

impl RingShares {
    fn of(topology: &Topology, placement: &Placement, copies: u8) -> RingShares {
        let mut shares: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
        for partition in Partition::all() {
            let list = match topology.phase(partition) {
                MovePhase::Still | MovePhase::Pending => placement.now.of(partition, copies.into()),
                MovePhase::Switched | MovePhase::Moved => placement.next.of(partition, copies.into()),
            };
            for (rank, node) in list.iter().enumerate() {
                let share = shares.entry(*node).or_default();
                share.0 += usize::from(rank == 0);
                share.1 += 1;
            }
        }
        RingShares(shares)
    }

    fn of_node(&self, node: NodeId) -> (usize, usize) {
        self.0.get(&node).copied().unwrap_or_default()
    }
}

/// What each node takes from others and leaves to others in the move that is under way.
struct NodeMoves(BTreeMap<NodeId, NodeMove>);

#[derive(Clone, Copy, Default)]
struct NodeMove {
    n_takes: usize,
    n_taken: usize,
    n_gives: usize,
    n_given: usize,
}

impl NodeMoves {
    fn of(topology: &Topology, placement: &Placement, copies: u8) -> NodeMoves {
        let mut moves: BTreeMap<NodeId, NodeMove> = BTreeMap::new();
        for partition in Partition::all() {
            let (now, next) =
                (placement.now.of(partition, copies.into()), placement.next.of(partition, copies.into()));
            let phase = topology.phase(partition);
            for node in next.iter().filter(|node| !now.contains(node)) {
                let moved = moves.entry(*node).or_default();
                moved.n_takes += 1;
                moved.n_taken += usize::from(matches!(phase, MovePhase::Switched | MovePhase::Moved));
            }
            for node in now.iter().filter(|node| !next.contains(node)) {
                let moved = moves.entry(*node).or_default();
                moved.n_gives += 1;
                moved.n_given += usize::from(phase == MovePhase::Moved);
            }
        }
        NodeMoves(moves)
    }

    fn of_node(&self, node: NodeId) -> NodeMove {
        self.0.get(&node).copied().unwrap_or_default()
    }
}
