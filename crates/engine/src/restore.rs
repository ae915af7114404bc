//! Restores a backup into the store of a new member: the state is kept, the data of its old cluster is not, and the
//! revision is raised. The store is built beside its place and put there when everything in the backup has been
//! verified; until then a crash, a full disk or a damaged file leaves no store behind.

use crate::backup::{self, DigestRule, Source, Summary};
use crate::error::Error;
use crate::member_store::{LIVE, MemberStoreParams, STAGED};
use base::{Revision, Row};
use coord::{State, rebase};
use disk::store::staging::{self, Staging};
use disk::{Disk, Store};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct RestoredBackup {
    pub summary: Summary,
    /// Where the new cluster begins.
    pub revision: Revision,
}

/// Into a directory without a store; `raise_by` of zero leaves the revision as it was. `progress` is called with the
/// number of bytes read.
pub fn restore(
    disk: Arc<dyn Disk>,
    params: MemberStoreParams,
    source: &mut dyn Source,
    digest: DigestRule,
    raise_by: i64,
    progress: &mut dyn FnMut(u64),
) -> Result<RestoredBackup, Error> {
    let mut filling = Staging::begin(disk.clone(), STAGED, params.cache_bytes)?;
    let summary = backup::read(source, digest, &mut |rows, at| {
        let kept: Vec<Row> =
            rows.iter().filter(|row| rebase::survives_restore(row.table, &row.key)).cloned().collect();
        progress(at);
        Ok(filling.add(&kept)?)
    });
    let summary = summary.inspect_err(|_| {
        // The next attempt removes the rest as well.
        let _ = staging::discard(&*disk, STAGED);
    })?;
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
    Ok(RestoredBackup { summary, revision })
}
