//! The hash of all keys and their history up to a revision, as etcd computes it: CRC-32C over the rows of its bucket
//! of keys. Of what a compaction has hidden only those changes count that are the newest of their key and live at the
//! revision; so the hash is the same whether or not they were swept yet.

use crate::changes::{ChangeReader, PositionedChange};
use crate::error::Error;
use base::Revision;
use base::checksum::hash64;
use coord::etcd::bucket;
use coord::rows::Meta;
use disk::StoreView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The hash, and the compacted revision that it was computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    pub hash: u32,
    pub compacted: Revision,
}

/// Calls `rest` after every few changes.
pub fn hash_keys(view: Arc<StoreView>, revision: Revision, rest: &mut dyn FnMut()) -> Result<KeyHash, Error> {
    let compacted = Meta::read(&*view)?.map_or(Revision::ZERO, |meta| meta.compacted);
    let hidden = CompactedChanges::find(&view, revision, compacted, rest)?;
    let mut hash = crc32c::crc32c(bucket::KEY.as_bytes());
    for_each(&view, revision, rest, &mut |changes, change| {
        if hidden.counts(change, compacted) {
            let (key, value) = changes.etcd_row(change)?;
            hash = crc32c::crc32c_append(crc32c::crc32c_append(hash, &key), &value);
        }
        Ok(())
    })?;
    Ok(KeyHash { hash, compacted })
}

fn for_each(
    view: &Arc<StoreView>,
    revision: Revision,
    rest: &mut dyn FnMut(),
    each: &mut dyn FnMut(&ChangeReader, &PositionedChange) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut changes = ChangeReader::new(view.clone());
    loop {
        let some = changes.next()?;
        let is_last = some.last().is_none_or(|last| last.revision > revision);
        for change in some.iter().filter(|change| change.revision <= revision) {
            each(&changes, change)?;
        }
        if is_last {
            return Ok(());
        }
        rest();
    }
}

/// Which of the changes at or below the compacted revision count.
struct CompactedChanges {
    /// Changes that a later one has replaced or ended, by revision and hash of the key.
    superseded: BTreeSet<(Revision, u64)>,
    /// Something is live at the revision.
    has_live: bool,
}

impl CompactedChanges {
    fn find(
        view: &Arc<StoreView>,
        revision: Revision,
        compacted: Revision,
        rest: &mut dyn FnMut(),
    ) -> Result<CompactedChanges, Error> {
        let mut superseded = BTreeSet::new();
        let mut below = BTreeSet::new();
        let mut above: BTreeMap<u64, bool> = BTreeMap::new();
        for_each(view, revision, rest, &mut |_, change| {
            let (key, prev) = (hash64(&change.logged.key, 0), change.logged.prev);
            if prev > Revision::ZERO && prev <= compacted {
                superseded.insert((prev, key));
            }
            let is_put = change.logged.put.is_some();
            if change.revision > compacted {
                above.insert(key, is_put);
            } else if is_put {
                below.insert((change.revision, key));
            }
            Ok(())
        })?;
        let has_live = above.values().any(|live| *live) || below.difference(&superseded).next().is_some();
        Ok(CompactedChanges { superseded, has_live })
    }

    fn counts(&self, change: &PositionedChange, compacted: Revision) -> bool {
        let is_delete = change.logged.put.is_none();
        if change.revision > compacted {
            return true;
        }
        if change.revision == compacted && is_delete {
            return false;
        }
        let key = hash64(&change.logged.key, 0);
        !self.has_live || !is_delete && !self.superseded.contains(&(change.revision, key))
    }
}
