//! Restores a backup into the store of a new member: the state is kept, the data of its old cluster is not, and the
//! revision is raised. The store is built beside its place and put there when everything in the backup has been
//! verified; until then a crash, a full disk or a damaged file leaves no store behind.

use crate::backup::{self, DigestRule, Source, Summary};
use crate::error::Error;
use crate::member_store::{LIVE, MemberStoreParams, STAGED};
use base::{Revision, Row};
use coord::{RestoreCut, RestorePoint, State, rebase};
use disk::store::staging::{self, Staging};
use disk::{Disk, Store};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct RestoredBackup {
    pub summary: Summary,
    /// Where the new cluster begins.
    pub revision: Revision,
    /// The last revision whose changes are restored, if that is not the newest.
    pub last: Option<Revision>,
}

/// How a backup is restored.
#[derive(Clone, Copy, Debug)]
pub struct RestoreRules {
    pub digest: DigestRule,
    /// How far the revision is raised; zero leaves it as it was.
    pub raise_by: i64,
    /// An earlier point than the backup's own needs a revision that is raised.
    pub point: RestorePoint,
}

/// Into a directory without a store. `progress` is called with the number of bytes read.
pub fn restore(
    disk: Arc<dyn Disk>,
    params: MemberStoreParams,
    source: &mut dyn Source,
    rules: RestoreRules,
    progress: &mut dyn FnMut(u64),
) -> Result<RestoredBackup, Error> {
    let RestoreRules { raise_by, .. } = rules;
    let mut filling = Staging::begin(disk.clone(), STAGED, params.cache_bytes)?;
    let filled = fill(&mut filling, source, rules, progress).inspect_err(|_| {
        // The next attempt removes the rest as well.
        let _ = staging::discard(&*disk, STAGED);
    });
    let (summary, last) = filled?;
    let mut revision = summary.meta.map_or(Revision::EMPTY_STORE, |meta| meta.revision);
    if let Some(meta) = summary.meta.filter(|_| raise_by != 0) {
        let mut rows = Vec::new();
        let to = rebase::rebase(meta, raise_by, &mut |table, key, value| {
            let value = value.map(|value| value.to_vec().into());
            rows.push(Row { table, key: key.to_vec().into(), value });
        });
        revision = to.ok_or(Error::Raise { revision: meta.revision.0, by: raise_by })?;
        filling.add(&rows)?;
    }
    let staged = filling.finish()?;
    // A store that cannot be served is not installed.
    State::load(&Store::open(disk.clone(), STAGED, params.cache_bytes)?.view()?)?;
    staging::install(&*disk, staged, LIVE)?;
    Ok(RestoredBackup { summary, revision, last })
}

/// The rows of the backup that stay; with the last revision whose changes do, if that is not the newest.
fn fill(
    filling: &mut Staging,
    source: &mut dyn Source,
    rules: RestoreRules,
    progress: &mut dyn FnMut(u64),
) -> Result<(Summary, Option<Revision>), Error> {
    let mut cut = RestoreCut::new(rules.point);
    let summary = backup::read(source, rules.digest, &mut |rows, at| {
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows {
            if cut.takes(row)? && rebase::survives_restore(row.table, &row.key) {
                kept.push(row.clone());
            }
        }
        progress(at);
        Ok(filling.add(&kept)?)
    })?;
    backup::check_moment(rules.point, &summary)?;
    let last = cut.last()?;
    if rules.raise_by == 0 && last.is_some() {
        return Err(Error::Raise { revision: summary.meta.map_or(0, |meta| meta.revision.0), by: 0 });
    }
    let mut added = Vec::new();
    cut.finish(&mut |table, key, value| {
        let value = value.map(|value| value.to_vec().into());
        added.push(Row { table, key: key.to_vec().into(), value });
    })?;
    filling.add(&added)?;
    Ok((summary, last))
}
