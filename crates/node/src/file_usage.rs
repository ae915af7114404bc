//! How much of the store's file the rows use. The engine reuses the space of removed rows only after the next
//! transaction, so between two flushes the file still holds what there was before the last, and during one what there
//! was before the last but one.

#[derive(Debug, Default)]
pub(crate) struct FileUsage {
    /// What was stored when the last flush began, and the one before it if that may still count.
    last_bytes: u64,
    before_bytes: u64,
}

impl FileUsage {
    /// A flush begins, and may remove some of what is stored.
    pub fn flush(&mut self, stored_bytes: u64) {
        self.before_bytes = std::mem::replace(&mut self.last_bytes, stored_bytes);
    }

    pub fn flushed(&mut self) {
        self.before_bytes = 0;
    }

    pub fn bytes(&self, stored_bytes: u64) -> u64 {
        stored_bytes.max(self.last_bytes).max(self.before_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_rows_take_file_space_until_the_next_flush_is_done() {
        let mut usage = FileUsage::default();
        assert_eq!(usage.bytes(100), 100);
        usage.flush(100);
        assert_eq!(usage.bytes(30), 100, "it is being removed");
        usage.flushed();
        assert_eq!(usage.bytes(30), 100, "it is removed, and nothing may be written there yet");
        usage.flush(30);
        assert_eq!(usage.bytes(40), 100, "this one is written beside it");
        usage.flushed();
        assert_eq!(usage.bytes(40), 40);
    }
}
