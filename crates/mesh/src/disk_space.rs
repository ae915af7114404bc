//! Disk space of a node as measured: free space, and the size of the store's file, part of which the store can reuse. The
//! result is whether so much more may be accepted. What was accepted and is not in the store yet counts as if none of it were
//! on the disk, so the node never accepts more between two measurements than there is space for. A row of few bytes may
//! cost a page, because the store writes a new page before it frees the old one. What a disk can take is counted in `base`
//! for both planes; coord raises an alarm of the whole cluster from it (`node`), a node of the mesh refuses for itself.

use base::DiskAccount;
use base::disk_space::log_and_file_bytes;

/// What the store writes at a time.
const PAGE_BYTES: u64 = 4 * 1024;

/// What is on its way to log and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingWrites {
    pub bytes: u64,
    /// Different ones.
    pub rows: u64,
}

impl PendingWrites {
    pub fn and(self, other: PendingWrites) -> PendingWrites {
        let bytes = self.bytes.saturating_add(other.bytes);
        PendingWrites { bytes, rows: self.rows.saturating_add(other.rows) }
    }

    pub fn times(self, n: u64) -> PendingWrites {
        PendingWrites { bytes: self.bytes.saturating_mul(n), rows: self.rows.saturating_mul(n) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub free_bytes: u64,
    /// What the store's file takes of the disk.
    pub taken_bytes: u64,
    /// What the log needs for its next segment and has not in store yet.
    pub lacking_bytes: u64,
}

impl DiskSpace {
    /// Whether so much may be under way to log and store with `low_bytes` left free, when the store holds rows of so many
    /// bytes.
    pub fn holds(&self, under_way: PendingWrites, stored_bytes: u64, low_bytes: u64) -> bool {
        let DiskSpace { free_bytes, taken_bytes, .. } = *self;
        // Each row is rewritten in a page of its own, but in no more pages than the file has.
        let rewritten = under_way.rows.saturating_mul(PAGE_BYTES).min(taken_bytes);
        let written = log_and_file_bytes(under_way.bytes).saturating_add(rewritten);
        let writable = DiskAccount { free_bytes, taken_bytes, stored_bytes }.writable_bytes();
        writable >= written.saturating_add(low_bytes)
    }

    /// Whether the log finds its next segment with so much under way. What is free inside the store's file is no help to it.
    pub fn feeds_log(&self, under_way: PendingWrites) -> bool {
        self.free_bytes >= under_way.bytes.saturating_add(self.lacking_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: u64) -> PendingWrites {
        PendingWrites { bytes, rows: 0 }
    }

    #[test]
    fn what_is_under_way_counts_for_the_log_and_for_the_store() {
        let disk_space = DiskSpace { free_bytes: 400, taken_bytes: 0, lacking_bytes: 0 };
        assert!(disk_space.holds(bytes(100), 0, 100));
        assert!(!disk_space.holds(bytes(101), 0, 100));
        assert!(!disk_space.holds(bytes(u64::MAX), 0, 100));
    }

    #[test]
    fn the_log_is_fed_from_outside_of_the_store() {
        let disk_space = DiskSpace { free_bytes: 100, taken_bytes: 1_000_000, lacking_bytes: 50 };
        assert!(disk_space.holds(bytes(10_000), 0, 100));
        assert!(!disk_space.feeds_log(bytes(10_000)));
        assert!(disk_space.feeds_log(bytes(50)));
        assert!(!disk_space.feeds_log(bytes(51)));
    }

    #[test]
    fn what_was_removed_from_the_store_frees_space_in_its_file() {
        let disk_space = DiskSpace { free_bytes: 100, taken_bytes: 1_000, lacking_bytes: 0 };
        assert!(!disk_space.holds(bytes(10), 500, 100), "the file is full");
        assert!(disk_space.holds(bytes(10), 400, 100));
        assert!(!disk_space.holds(bytes(10), u64::MAX, 100));
    }

    #[test]
    fn a_row_may_cost_a_page_and_all_together_no_more_than_there_are() {
        let disk_space =
            DiskSpace { free_bytes: 5 * PAGE_BYTES, taken_bytes: 20 * PAGE_BYTES, lacking_bytes: 0 };
        let rows = |rows| PendingWrites { bytes: 0, rows };
        let stored_bytes = disk_space.taken_bytes / 2;
        assert!(disk_space.holds(rows(5), stored_bytes, 0));
        assert!(!disk_space.holds(rows(6), stored_bytes, 0));
        let small = DiskSpace { taken_bytes: 3 * PAGE_BYTES, ..disk_space };
        assert!(small.holds(rows(u64::MAX), small.taken_bytes / 2, 0));
    }
}
