//! What is still known of a key's past: read from the store as it is on the disk, on a blocking thread.
//! A key goes in, its last changes come out, with or without values. Each query reads all rows of the past, so only so
//! many run at a time.

use crate::backup::flushed_view;
use crate::handle::KvHandle;
use base::Code;
use bytes::Bytes;
use coord::PastChange;

impl KvHandle<'_> {
    /// The last changes of a key, the oldest first, and whether there were more before them.
    pub async fn history(self, key: Bytes, limit: usize) -> Result<(Vec<PastChange>, bool), Code> {
        let core = self.handle.core();
        let view = flushed_view(core, self.handle.status().applied.0).await?;
        let _permit = core.reads.readers.acquire().await.expect("it is never closed");
        let read = tokio::task::spawn_blocking(move || coord::history_of(&*view, &key, limit));
        // A row that cannot be read ends the process wherever it is read; this is only the first place.
        read.await.map_err(|_| Code::Stopped)?.map_err(|_| Code::Stopped)
    }
}
