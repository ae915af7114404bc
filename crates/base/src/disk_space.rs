//! What can still be written to a disk that holds a store's file, as both planes count it.

/// One part in so many of the free bytes inside the store's file counts: the rest is fragmented, or waits for readers.
const REUSED_PART: u64 = 4;
/// Rows take about so many times their size in the store's file.
const STORE_OVERHEAD: u64 = 2;

/// A disk as measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskAccount {
    pub free_bytes: u64,
    /// What the store's file takes of the disk.
    pub taken_bytes: u64,
    /// What its rows add up to.
    pub stored_bytes: u64,
}

impl DiskAccount {
    /// What the disk and the store's file can still take.
    pub fn writable_bytes(self) -> u64 {
        let reusable = self.taken_bytes.saturating_sub(file_bytes(self.stored_bytes));
        self.free_bytes.saturating_add(reusable / REUSED_PART)
    }
}

/// What rows of so many bytes take in the store's file.
pub fn file_bytes(row_bytes: u64) -> u64 {
    row_bytes.saturating_mul(STORE_OVERHEAD)
}

/// What rows of so many bytes take in the log, where they are written once, and in the store's file.
pub fn log_and_file_bytes(row_bytes: u64) -> u64 {
    row_bytes.saturating_add(file_bytes(row_bytes))
}
