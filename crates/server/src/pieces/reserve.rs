//! Reservations for answers that are read whole, as those of transactions are: they cannot be cut into pieces,
//! as what they read is decided where they are applied.
//! The ranges of a request go in, and a share as large as their answers would be now comes out, or none if they are
//! small. By the time that the request is applied they may have grown, as much as others write meanwhile.

use super::{BudgetShare, HoldKind, KeyEncoder};
use crate::handle::KvHandle;
use base::limits::RANGE_WHOLE_BYTES_MAX;
use base::{Code, Revision};
use coord::request::Range;
use std::sync::Arc;

impl KvHandle<'_> {
    pub async fn reserve_for(
        self,
        ranges: Vec<Range>,
        encode: &Arc<dyn KeyEncoder>,
    ) -> Result<Option<BudgetShare>, Code> {
        let budget = &self.handle.core().reads.budget;
        let now = self.handle.status().revision;
        let mut bytes = 0;
        for range in ranges {
            let revision = if range.revision == Revision::ZERO { now } else { range.revision };
            // What cannot be read needs no memory; the read itself refuses it.
            if revision > now {
                continue;
            }
            match self.size_of(Range { revision, ..range }, encode.clone()).await {
                Ok(more) => bytes += more,
                Err(Code::Compacted) => {}
                Err(code) => return Err(code),
            }
            if bytes >= budget.bytes_max() as u64 {
                break;
            }
        }
        if bytes <= RANGE_WHOLE_BYTES_MAX as u64 {
            return Ok(None);
        }
        // It is in memory twice: as it was read, and as it is encoded.
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2);
        budget.reserve(bytes).await.map(Some)
    }

    async fn size_of(self, range: Range, encode: Arc<dyn KeyEncoder>) -> Result<u64, Code> {
        let pieces = self.pieces(range, HoldKind::EndsWithCompaction, encode).await?;
        Ok(pieces.survey().await?.bytes)
    }
}
