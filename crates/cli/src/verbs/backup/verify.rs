//! `althing backup verify`: every object is read and held against its name. With a scratch directory the coordination store is restored there as
//! for a new member and checked as a stopped member is, and the rows of the data plane are taken apart as for a restore.

use super::restore::{coord_file, saved_rows};
use super::{Error, print};
use crate::progress::Progress;
use ::backup::{BELOW_COLLECTION, MeshPart, Reader};
use server::ClusterMember;
use server::offline::{self, DigestRule, NewMember, RestorePoint, RestoreRules};
use std::path::Path;

/// The name of the member that is restored for the check alone.
const NAME: &str = "scratch";

/// What becomes of objects that are damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedObjects {
    Stay,
    /// The next backup that needs them sends them again.
    Removed,
}

/// What to say of a whole backup. Every flaw is told before it fails.
pub async fn verify(reader: &Reader<'_>, damaged: DamagedObjects) -> Result<String, Error> {
    let mut progress = Progress::new("verifying", "bytes", reader.manifest().content_bytes());
    let verified = ::backup::verify(reader, &mut |bytes| progress.update(bytes)).await?;
    progress.end();
    let id = &reader.manifest().id;
    if verified.flaws.is_empty() {
        let told = format!(
            "backup {id} is whole: {} objects, {} bytes, {} rows with {} elements of collections\n",
            verified.objects, verified.bytes, verified.rows, verified.elements
        );
        return Ok(told);
    }
    if damaged == DamagedObjects::Removed {
        let dropped = reader.drop_damaged(&verified).await?;
        let told: String = dropped.iter().map(|name| format!("removed object {name}\n")).collect();
        print(told.as_bytes())?;
    }
    let flaws: Vec<String> = verified.flaws.iter().map(|flaw| flaw.error.to_string()).collect();
    Err(Error::Incomplete(format!("backup {id} is not whole:\n  {}", flaws.join("\n  "))))
}

/// What was restored is gone afterwards, whether it was good or not.
pub async fn restore_in(reader: &Reader<'_>, dir: &Path) -> Result<(), Error> {
    let of_coord = restore_coord(reader, dir).await?;
    let counted = match &reader.manifest().mesh {
        Some(mesh) => count_records(reader, mesh).await?,
        None => Counted::default(),
    };
    let Counted { records, elements } = counted;
    let id = &reader.manifest().id;
    print(
        format!(
            "backup {id} was restored and verified: {of_coord}; {records} records of data with {elements} elements\n"
        )
        .as_bytes(),
    )
}

async fn restore_coord(reader: &Reader<'_>, dir: &Path) -> Result<String, Error> {
    let Some(coord) = &reader.manifest().coord else { return Ok("nothing of coordination".to_owned()) };
    let failed = |reason| Error::File { file: dir.display().to_string(), reason };
    let scratch = tempfile::tempdir_in(dir).map_err(failed)?;
    let member = NewMember {
        name: NAME.to_owned(),
        initial_cluster: vec![ClusterMember { name: NAME.to_owned(), peer_addr: String::new() }],
        cluster_token: NAME.to_owned(),
        data_dir: scratch.path().join("member"),
    };
    let mut file = tempfile::tempfile_in(scratch.path()).map_err(failed)?;
    coord_file(reader, coord, &mut file).await?;
    let mut progress = Progress::new("restoring", "bytes", coord.bytes);
    let mut update = |done| progress.update(done);
    let rules = RestoreRules { digest: DigestRule::Required, raise_by: 0, point: RestorePoint::Newest };
    let (restored, _) = offline::restore(&member, &mut file, rules, &mut update)?;
    progress.end();
    let report = offline::verify(&member.data_dir, &mut |_| ())?;
    let report = report.map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Error::Incomplete(format!("what was restored is damaged:\n  {}", faults.join("\n  ")))
    })?;
    let (summary, found) = (restored.summary, report.member);
    let counted = (found.versions, found.leases as u64, found.revision);
    if counted != (summary.versions, summary.leases, restored.revision) || found.revision.0 < coord.revision {
        return Err(Error::Incomplete(format!(
            "what was restored has {} versions and {} leases at revision {}, the backup {} and {} at revision {} or later",
            found.versions, found.leases, found.revision.0, summary.versions, summary.leases, coord.revision
        )));
    }
    Ok(format!(
        "{} keys of coordination in {} versions, {} leases, revision {}",
        found.keys, found.versions, found.leases, found.revision.0
    ))
}

#[derive(Default)]
struct Counted {
    records: u64,
    elements: u64,
}

/// Every row must be one that this release restores, of a namespace that the backup names; every element comes behind the record
/// of its collection.
async fn count_records(reader: &Reader<'_>, mesh: &MeshPart) -> Result<Counted, Error> {
    let (mut counted, mut collection) = (Counted::default(), None);
    for object in mesh.partitions.iter().flat_map(|part| &part.objects) {
        for (key, rows) in saved_rows(reader, object).await? {
            if !mesh.namespaces.iter().any(|namespace| namespace.id == key.namespace_id) {
                let problem =
                    format!("the backup has keys of the namespace {}, and not its name", key.namespace_id);
                return Err(Error::Incomplete(problem));
            }
            for row in rows {
                if row.key.first() != Some(&BELOW_COLLECTION) {
                    counted.records += u64::from(collection.as_ref() != Some(&key));
                    collection = Some(key.clone());
                    continue;
                }
                if collection.as_ref() != Some(&key) {
                    let problem = format!("object {} has elements without their collection", object.name);
                    return Err(Error::Incomplete(problem));
                }
                counted.elements += 1;
            }
        }
    }
    Ok(counted)
}
