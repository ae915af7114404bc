//! `/v1/ring`: who is in the ring, how much of it each node keeps, what moves, and how this node is doing.
//! The topology that this node goes by goes in; counts and names for people come out.

use super::refusal::Refusal;
use super::{Rest, date, json};
use axum::extract::State;
use axum::response::Response;
use base::NodeId;
use mesh::mesh::status::Status;
use mesh::namespaces;
use mesh::ring::{PARTITIONS, Partition};
use mesh::topology::{Phase, Standing, Topology};
use serde_json::{Value, json as object};
use std::collections::BTreeMap;

impl Rest {
    /// Members by the names that people gave them.
    pub fn node_names(&self) -> BTreeMap<NodeId, String> {
        self.handle().members().into_iter().map(|member| (member.id, member.name)).collect()
    }
}

pub async fn get(State(rest): State<Rest>) -> Result<Response, Refusal> {
    let topology = rest.mesh().topology();
    let status = rest.mesh().status();
    let copies =
        topology.copies(namespaces::id_of(namespaces::DEFAULT)).unwrap_or(namespaces::COPIES_DEFAULT);
    let shares = Shares::of(&topology, copies);
    let names = rest.node_names();
    let down = status.machine.as_ref().map(|machine| machine.down.clone()).unwrap_or_default();
    let members = topology.members().iter().map(|member| {
        let name = names.get(&member.node).cloned().unwrap_or_default();
        let (primary, replicas) = shares.of_node(member.node);
        object!({
            "node": format!("{:x}", member.node.0),
            "name": name,
            "zone": member.zone,
            "vnodes": member.points,
            "standing": standing(member.standing),
            "stale": member.stale,
            "seems_down": down.contains(&member.node),
            "partitions_first": primary,
            "partitions": replicas,
            "share": replicas as f64 / (PARTITIONS as f64),
        })
    });
    let members: Vec<Value> = members.collect();
    let moving = status.moving;
    Ok(json(&object!({
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
        "namespaces": topology.spaces().len(),
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
    })))
}

fn machine(status: &Status) -> Value {
    let hex = |nodes: &[NodeId]| nodes.iter().map(|node| format!("{:x}", node.0)).collect::<Vec<_>>();
    object!({
        "serving": status.is_serving,
        "shards": status.n_shards,
        "filling": status.n_filling,
        "repaired_upto": date::rfc3339(status.repaired_upto.ms()),
        "hints_for": hex(&status.hinted),
        "operations": status.n_operations,
        "unflushed_bytes": status.overlay_bytes,
    })
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Joining => "joining",
        Standing::Serving => "serving",
        Standing::Leaving => "leaving",
    }
}

/// How many partitions are read from each node: as the first of their list, and at all.
struct Shares(BTreeMap<NodeId, (usize, usize)>);

impl Shares {
    fn of(topology: &Topology, copies: u8) -> Shares {
        let placement = topology.placement();
        let mut shares: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
        for partition in Partition::all() {
            let list = match topology.phase(partition) {
                Phase::Still | Phase::Pending => placement.now.of(partition, copies.into()),
                Phase::Switched | Phase::Moved => placement.next.of(partition, copies.into()),
            };
            for (rank, node) in list.iter().enumerate() {
                let share = shares.entry(*node).or_default();
                share.0 += usize::from(rank == 0);
                share.1 += 1;
            }
        }
        Shares(shares)
    }

    fn of_node(&self, node: NodeId) -> (usize, usize) {
        self.0.get(&node).copied().unwrap_or_default()
    }
}
