//! Starts the mesh of a node: opens its directory, and translates the configuration into the driver's settings.

use crate::config::{self, Config};
use crate::core::Core;
use crate::error::Error;
use crate::server::reserve_bytes;
use base::ClusterId;
use base::checksum::hash64;
use base::limits::MESH_SEGMENT_BYTES;
use disk::{RealDisk, RecoveryReport};
use engine::{MeshFiles, MeshParams};
use mesh::{Region, Regions};
use mesh_node::DriverSettings;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

/// Where its files lie, below the member's directory.
pub(crate) const DIR: &str = "mesh";
/// The store keeps this much of its file in memory.
pub(crate) const CACHE_BYTES: usize = 48 * 1024 * 1024;
/// Its rows are flushed so much less often than those of coord: the log has them, keys that are written again cost
/// nothing more until then, and a flush rewrites a page of the store for nearly every key that it holds.
const FLUSH_INTERVALS: u32 = 100;
/// What deletes and the upkeep of the mesh may need of the store's file while there is no space for more.
const LOW_FOR_STORE_BYTES: u64 = 4 * 1024 * 1024;
/// What even deletes leave to the store. They may use all space that coord keeps free; otherwise no client could delete
/// anything from the mesh once coord has filled the disk.
const LEAST_FOR_STORE_BYTES: u64 = LOW_FOR_STORE_BYTES / 2;

/// The mesh has a directory of its own below the member's.
pub(crate) fn open(config: &Config) -> Result<MeshFiles, Error> {
    let path = config.data_dir.join(DIR);
    let trouble = |source| Error::DataDir { action: "open or create files", path: path.clone(), source };
    let disk = RealDisk::open(path.clone()).map_err(trouble)?;
    let params = MeshParams {
        log_segment_bytes: segment_bytes(config),
        cache_bytes: CACHE_BYTES,
        fresh_incarnation: fresh_incarnation(),
    };
    let files = engine::open_mesh(Arc::new(disk), &params)?;
    let (incarnation, replayed) = (files.incarnation_file.get(), files.replayed.len());
    tracing::info!(
        incarnation = incarnation.number,
        boot = incarnation.boot,
        replayed,
        "opened the mesh files"
    );
    log_losses(&files.recovery);
    Ok(files)
}

fn log_losses(recovery: &RecoveryReport) {
    if let Some(torn) = &recovery.torn {
        tracing::warn!(
            file = torn.file,
            offset = torn.offset,
            "truncated the end of the mesh log: its last frame was being written when the node died, or was damaged \
             since; the node goes on as after the loss of its disk, and serves when it has been \
             compared with the other replicas"
        );
    }
    if let Some(shortened) = &recovery.shortened {
        tracing::warn!(
            file = shortened.file,
            found_bytes = shortened.found_bytes,
            listed_bytes = shortened.listed_bytes,
            "the last segment of the mesh log is shorter than listed; no frame is missing"
        );
    }
}

pub(crate) fn segment_bytes(config: &Config) -> u64 {
    (2 * config.wal_segment_bytes).min(MESH_SEGMENT_BYTES)
}

/// What the mesh leaves free: all that coord wants to be free, so that it is never the mesh that has coord refuse what
/// grows; and for what the mesh takes in nevertheless, the next segment of its log and some for its store.
fn low_bytes(config: &Config) -> u64 {
    reserve_bytes(config) + segment_bytes(config) + LOW_FOR_STORE_BYTES
}

/// Numbers an incarnation that has never been before: randomness of the process, and the time.
fn fresh_incarnation() -> u32 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(time.as_nanos());
    (hasher.finish() as u32).max(1)
}

/// How this node takes part, from what was configured.
pub(crate) fn settings(config: &Config, core: &Core, cluster: ClusterId) -> DriverSettings {
    let me = core.members.me();
    let config::MeshConfig { region, zone, points, timeout, round_every, drift_max, region_peers, .. } =
        config.mesh.clone();
    let region_address = match config.mesh.advertise_region.as_str() {
        "" => config.advertise_peer.clone(),
        address => address.to_owned(),
    };
    DriverSettings {
        me,
        cluster,
        regions: founded(&region, &region_peers),
        region,
        // Without a zone the node's id stands for one, as in the controller.
        zone: if zone.is_empty() { me.0 as u32 } else { hash64(zone.as_bytes(), 0) as u32 },
        points,
        address: if core.data_only { config.advertise_peer.clone() } else { String::new() },
        region_address,
        data_only: core.data_only,
        timeout,
        flush_every: config.flush_interval * FLUSH_INTERVALS,
        low_bytes: low_bytes(config),
        least_bytes: LEAST_FOR_STORE_BYTES,
        round_every,
        drift_max,
    }
}

/// The first table of regions; nothing where none is configured.
fn founded(here: &str, peers: &[(String, String)]) -> Regions {
    let mut table = Regions::default();
    let mut names: Vec<&String> = peers.iter().map(|(name, _)| name).filter(|name| *name != here).collect();
    names.sort();
    names.dedup();
    for name in names {
        let seeds = peers.iter().filter(|(other, _)| other == name).map(|(_, place)| place.clone()).collect();
        match table.with(Region::new(name, seeds)) {
            Ok(next) => table = next,
            Err(code) => {
                tracing::error!(region = name, %code, "cannot add the region to the table of regions")
            }
        }
    }
    table
}
