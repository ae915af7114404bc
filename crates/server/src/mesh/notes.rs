//! Log lines and counts for the events of the mesh.

use crate::mesh::status::Counts;
use mesh::life::Standing;
use mesh::mesh::Note as MachineNote;
use mesh_node::Note;

/// What the machine notes.
pub(super) fn count(counts: &mut Counts, note: MachineNote) {
    match note {
        MachineNote::Conflict(_) => counts.conflicts += 1,
        MachineNote::Hinted(_) => counts.hinted += 1,
        MachineNote::Repaired { records, .. } => counts.repaired += records as u64,
        MachineNote::Purged(records) => counts.purged += records as u64,
        MachineNote::ForgedClaim { actor } => {
            counts.claims_refused += 1;
            let node = actor.node.0;
            tracing::warn!(node, "a record claims writes of this node that it never made: they are left out");
        }
        MachineNote::FarStamp { from, stamp } => {
            counts.claims_refused += 1;
            let (node, wall_ms) = (from.0, stamp.ms());
            tracing::warn!(node, wall_ms, "a peer vouches for a time that no clock can have reached");
        }
        MachineNote::ClockAhead { actor, stamp } => {
            counts.clocks_ahead += 1;
            let (node, wall_ms) = (actor.node.0, stamp.ms());
            tracing::warn!(node, wall_ms, "a record comes from a clock that is far ahead");
        }
        MachineNote::RegionClash { region, node } => {
            let (region, node) = (region.0, node.0);
            tracing::error!(region, node, "a node of another region has the id of one of this region");
        }
        MachineNote::HandlerFellBack { handler } => {
            let handler = handler.escape_ascii();
            tracing::warn!(%handler, "a custom value is shown as the last write left it: no such handler");
        }
        MachineNote::Damaged { from } => {
            tracing::warn!(node = from.0, "what another region sent was damaged on the way");
        }
        MachineNote::NoRoom => {
            tracing::error!("the disk has no room: the mesh takes in nothing but deletes until it has");
        }
        MachineNote::RoomAgain => tracing::info!("the disk has room again: the mesh takes in everything"),
        MachineNote::Awake => {
            tracing::info!("mesh ready: a majority of the replicas of every partition has answered");
        }
    }
}

/// What the driver notes.
pub(super) fn log(note: Note) {
    match note {
        Note::Begins { epoch, life, is_unenrolled } => tracing::info!(
            epoch = epoch.0,
            incarnation = life.incarnation,
            boot = life.boot,
            behind = life.standing == Standing::Behind,
            unenrolled = is_unenrolled,
            "mesh started"
        ),
        Note::Enrolled { is_behind } => {
            tracing::info!(behind = is_behind, "mesh enrolled: the cluster has recorded this incarnation");
        }
        Note::CaughtUp => tracing::info!("mesh caught up: it has everything that an earlier incarnation had"),
        Note::Unreadable { name, version } => {
            tracing::error!(document = name, version, "a document of the mesh cannot be read");
        }
        Note::ProposesPlan { epoch, n_nodes, is_moving } => tracing::info!(
            epoch = epoch.0,
            nodes = n_nodes,
            moving = is_moving,
            "proposing a topology of the mesh"
        ),
        Note::ProposesRegions { n_regions } => {
            tracing::info!(regions = n_regions, "proposing the table of regions");
        }
        Note::ProposesHome { place, title, region } => tracing::info!(
            namespace = place.namespace,
            prefix = place.prefix,
            region = region.as_deref().unwrap_or("this region or one that is not listed"),
            epoch = title.home.epoch,
            settled = title.settled,
            "proposing a home"
        ),
        Note::RegionUnreachable { region, trouble } => {
            tracing::warn!(region, trouble, "cannot ask another region for its nodes; retrying");
        }
    }
}
