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
            tracing::warn!(node, "dropped forged version entries of this node");
        }
        MeshEvent::FarStamp { from, stamp } => {
            counts.claims_refused += 1;
            let (node, wall_ms) = (from.0, stamp.ms());
            tracing::warn!(node, wall_ms, "refused a stamp too far ahead from a peer");
        }
        MeshEvent::ClockAhead { actor, stamp } => {
            counts.clocks_ahead += 1;
            let (node, wall_ms) = (actor.node.0, stamp.ms());
            tracing::warn!(node, wall_ms, "a record comes from a clock that is far ahead");
        }
        MeshEvent::RegionClash { region, node } => {
            let (region, node) = (region.0, node.0);
            tracing::error!(region, node, "node id of another region is taken in this region");
        }
        MeshEvent::HandlerFellBack { handler } => {
            let handler = handler.escape_ascii();
            tracing::warn!(%handler, "no such merge handler: custom value shown as last written");
        }
        MeshEvent::Damaged { from } => {
            tracing::warn!(node = from.0, "damaged frame from another region");
        }
        MeshEvent::NoSpace => {
            tracing::error!("disk full: the mesh accepts only deletes");
        }
        MeshEvent::SpaceAgain => tracing::info!("disk space available again: the mesh accepts all writes"),
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
            tracing::error!(document = name, version, "cannot decode a document of the mesh");
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
