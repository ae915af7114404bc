//! Log lines and counts for the events of the mesh.

use crate::mesh::status::MeshCounts;
use mesh::{CatchUp, MeshEvent};
use mesh_node::DriverEvent;

/// What the machine notes.
pub(super) fn count(counts: &mut MeshCounts, note: MeshEvent) {
    match note {
        MeshEvent::Conflict(_) => counts.conflicts += 1,
        MeshEvent::Hinted(_) => counts.hinted += 1,
        MeshEvent::Repaired { records, .. } => counts.repaired += records as u64,
        MeshEvent::Purged(records) => counts.purged += records as u64,
        MeshEvent::ForgedClaim { actor } => {
            counts.claims_refused += 1;
            let node = actor.node.0;
            tracing::warn!(node, "a record claims writes of this node that it never made: they are left out");
        }
        MeshEvent::FarStamp { from, stamp } => {
            counts.claims_refused += 1;
            let (node, wall_ms) = (from.0, stamp.ms());
            tracing::warn!(node, wall_ms, "a peer vouches for a time that no clock can have reached");
        }
        MeshEvent::ClockAhead { actor, stamp } => {
            counts.clocks_ahead += 1;
            let (node, wall_ms) = (actor.node.0, stamp.ms());
            tracing::warn!(node, wall_ms, "a record comes from a clock that is far ahead");
        }
        MeshEvent::RegionClash { region, node } => {
            let (region, node) = (region.0, node.0);
            tracing::error!(region, node, "a node of another region has the id of one of this region");
        }
        MeshEvent::HandlerFellBack { handler } => {
            let handler = handler.escape_ascii();
            tracing::warn!(%handler, "a custom value is shown as the last write left it: no such handler");
        }
        MeshEvent::Damaged { from } => {
            tracing::warn!(node = from.0, "what another region sent was damaged on the way");
        }
        MeshEvent::NoSpace => {
            tracing::error!("the disk has no room: the mesh takes in nothing but deletes until it has");
        }
        MeshEvent::SpaceAgain => tracing::info!("the disk has room again: the mesh takes in everything"),
        MeshEvent::Ready => {
            tracing::info!("mesh ready: a majority of the replicas of every partition has answered");
        }
    }
}

/// What the driver notes.
pub(super) fn log(note: DriverEvent) {
    match note {
        DriverEvent::Begins { epoch, incarnation, is_unenrolled } => tracing::info!(
            epoch = epoch.0,
            incarnation = incarnation.number,
            boot = incarnation.boot,
            behind = incarnation.catch_up == CatchUp::Behind,
            unenrolled = is_unenrolled,
            "mesh started"
        ),
        DriverEvent::Enrolled { is_behind } => {
            tracing::info!(behind = is_behind, "mesh enrolled: the cluster has recorded this incarnation");
        }
        DriverEvent::CaughtUp => {
            tracing::info!("mesh caught up: it has everything that an earlier incarnation had")
        }
        DriverEvent::Unreadable { name, version } => {
            tracing::error!(document = name, version, "a document of the mesh cannot be read");
        }
        DriverEvent::ProposesPlan { epoch, n_nodes, is_moving } => tracing::info!(
            epoch = epoch.0,
            nodes = n_nodes,
            moving = is_moving,
            "proposing a topology of the mesh"
        ),
        DriverEvent::ProposesRegions { n_regions } => {
            tracing::info!(regions = n_regions, "proposing the table of regions");
        }
        DriverEvent::ProposesHome { scope, ownership, region } => tracing::info!(
            namespace = scope.namespace,
            prefix = scope.prefix,
            region = region.as_deref().unwrap_or("this region or one that is not listed"),
            epoch = ownership.home.epoch,
            settled = ownership.settled,
            "proposing a home"
        ),
        DriverEvent::RegionUnreachable { region, trouble } => {
            tracing::warn!(region, trouble, "cannot ask another region for its nodes; retrying");
        }
    }
}
