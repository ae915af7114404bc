//! A large range, read piece by piece: the keys of each piece come from the apply thread, which knows them, and
//! their values from the store, on a thread where that may take time. An encoding goes in, encoded pieces come
//! out, each under its share of the budget. All pieces show one revision.

mod fill;
mod reserve;

use crate::apply::ApplyJob;
use crate::core::Core;
use crate::fatal::AbortOnPanic;
use base::limits::{RANGE_PIECE_BYTES, RANGE_PIECE_KEYS, RANGE_SURVEY_KEYS};
use base::{Code, Instant, LeaseId};
use bytes::Bytes;
use coord::pieces::WalkEnd;
use coord::reply::RangeReply;
use coord::request::Range;
use disk::StoreView;
use fill::{FillResult, fill, measure_stored};
use node::Apply;
use node::apply::{HoldId, Page, PageRequest, SizeSurvey};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::oneshot;

pub use crate::budget::BudgetShare;
pub use coord::pieces::{Content, Version};
pub use node::apply::HoldKind;

/// How long the apply thread may take for a piece.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How keys are written in an answer.
pub trait KeyEncoder: Send + Sync + 'static {
    /// As many bytes as `put` will write, or more.
    fn size(&self, key_len: usize, version: &Version, content: Content) -> usize;

    fn put(&self, out: &mut Vec<u8>, kv: KeyValueRef<'_>);
}

/// One version of a key, wherever it lies.
#[derive(Clone, Copy, Debug)]
pub struct KeyValueRef<'a> {
    pub key: &'a [u8],
    pub version: Version,
    pub lease: LeaseId,
    pub value: &'a [u8],
}

/// A range at one revision, which is held until this is dropped.
pub struct RangePieces {
    hold: RevisionHold,
    range: Arc<Range>,
    encode: Arc<dyn KeyEncoder>,
    count: u64,
    /// Where the next piece begins; `None` at the end.
    next: Option<Bytes>,
    keys_left: u64,
}

/// How large the whole answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeTotal {
    pub bytes: u64,
    pub keys: u64,
    /// There are further keys beyond the limit.
    pub more: bool,
}

/// Encoded keys; dropping the last copy of the bytes releases their share.
#[derive(Debug)]
pub struct RangePiece {
    pub bytes: Bytes,
    pub keys: u64,
}

/// A whole answer, and its share of the budget, which must outlive it.
#[derive(Debug)]
pub struct WholeRange {
    pub reply: RangeReply,
    pub share: BudgetShare,
}

struct RevisionHold {
    core: Arc<Core>,
    id: HoldId,
}

impl Drop for RevisionHold {
    fn drop(&mut self) {
        self.core.coord.apply.post(ApplyJob::Pieces(PieceRequest::Release(self.id)));
    }
}

/// Requests to the apply thread.
pub(crate) enum PieceRequest {
    RevisionHold {
        id: HoldId,
        range: Arc<Range>,
        keep: HoldKind,
        reply: PieceReply<u64>,
    },
    Survey {
        at: PagePosition,
        keys_left: u64,
        encode: Arc<dyn KeyEncoder>,
        reply: PieceReply<WithView<SizeSurvey>>,
    },
    Page {
        at: PagePosition,
        reply: PieceReply<WithView<Page>>,
    },
    WholeRange {
        id: HoldId,
        range: Arc<Range>,
        reply: PieceReply<RangeReply>,
    },
    Release(HoldId),
}

type PieceReply<T> = oneshot::Sender<Result<T, Code>>;

pub(crate) struct PagePosition {
    hold: HoldId,
    range: Arc<Range>,
    from: Bytes,
}

impl PagePosition {
    fn place(&self, keys_max: usize) -> PageRequest<'_> {
        PageRequest { hold: self.hold, range: &self.range, from: &self.from, keys_max }
    }
}

/// A result with the store that holds the rest of it.
pub(crate) type WithView<T> = (T, Arc<StoreView>);

/// On the apply thread. The caller may have gone away.
pub(crate) fn answer(machine: &mut Apply, now: Instant, view: &Arc<StoreView>, ask: PieceRequest) {
    match ask {
        PieceRequest::RevisionHold { id, range, keep, reply } => {
            let _ = reply.send(machine.hold(now, id, &range, keep));
        }
        PieceRequest::Survey { at, keys_left, encode, reply } => {
            let measure = |key_len, version: &Version, content| encode.size(key_len, version, content);
            let survey = machine.survey(now, at.place(RANGE_SURVEY_KEYS), keys_left, &measure);
            let _ = reply.send(survey.map(|survey| (survey, view.clone())));
        }
        PieceRequest::Page { at, reply } => {
            let page = machine.page(now, at.place(RANGE_PIECE_KEYS), RANGE_PIECE_BYTES);
            let _ = reply.send(page.map(|page| (page, view.clone())));
        }
        PieceRequest::WholeRange { id, range, reply } => {
            let _ = reply.send(machine.whole(now, &**view, id, &range));
        }
        PieceRequest::Release(id) => machine.release(id),
    }
}

impl RangePieces {
    /// Holds the range's revision, which must be set.
    pub(crate) async fn begin(
        core: &Arc<Core>,
        range: Range,
        keep: HoldKind,
        encode: Arc<dyn KeyEncoder>,
    ) -> Result<RangePieces, Code> {
        let id = HoldId(core.reads.large_reads.fetch_add(1, Ordering::Relaxed));
        let hold = RevisionHold { core: core.clone(), id };
        let next = Some(range.keys.start.clone());
        let keys_left = range.limit() as u64;
        let range = Arc::new(range);
        let count =
            hold.ask(|reply| PieceRequest::RevisionHold { id, range: range.clone(), keep, reply }).await?;
        Ok(RangePieces { hold, range, encode, count, next, keys_left })
    }

    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Keys of the range, whatever its limit and filters.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sums up the size of all pieces. A sorted range may need all keys, whatever the limit.
    pub async fn survey(&self) -> Result<RangeTotal, Code> {
        let limit = if self.range.sort.is_some() { u64::MAX } else { self.range.limit() as u64 };
        let mut total = RangeTotal::default();
        let mut next = Some(self.range.keys.start.clone());
        while let Some(from) = next {
            let at = self.at(from);
            let (encode, keys_left) = (self.encode.clone(), limit - total.keys);
            let (survey, view) =
                self.hold.ask(|reply| PieceRequest::Survey { at, keys_left, encode, reply }).await?;
            total.bytes += survey.bytes;
            total.keys += survey.keys;
            total.more = survey.more;
            if !survey.unmeasured.is_empty() {
                let encode = self.encode.clone();
                let read = move || measure_stored(&survey.unmeasured, &view, &*encode);
                total.bytes += self.hold.read(read).await?;
            }
            next = next_of(survey.walked).filter(|_| !total.more);
        }
        Ok(total)
    }

    /// The next piece; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<RangePiece>, Code> {
        let mut piece_bytes = RANGE_PIECE_BYTES;
        loop {
            let Some(from) = self.next.clone().filter(|_| self.keys_left > 0) else { return Ok(None) };
            let share = self.hold.core.reads.budget.reserve(piece_bytes).await?;
            let at = self.at(from);
            let (mut page, view) = self.hold.ask(|reply| PieceRequest::Page { at, reply }).await?;
            page.rows.truncate(usize::try_from(self.keys_left).unwrap_or(usize::MAX));
            let encode = self.encode.clone();
            let share_bytes = share.bytes();
            let (page, filled) = self
                .hold
                .read(move || {
                    let filled = fill(&page.rows, &view, &*encode, share_bytes);
                    (page, filled)
                })
                .await?;
            match filled {
                FillResult::Nothing => self.next = next_of(page.walked),
                FillResult::TooLarge(needed) => piece_bytes = needed,
                FillResult::Rows { bytes, rows } => {
                    let behind = page.rows.get(rows).map(|row| row.key.clone());
                    self.next = behind.or_else(|| next_of(page.walked));
                    self.keys_left -= rows as u64;
                    let bytes = Bytes::from_owner(BudgetedBytes { bytes, _share: share });
                    return Ok(Some(RangePiece { bytes, keys: rows as u64 }));
                }
            }
        }
    }

    /// The whole answer at once, for orders that cannot be walked; `total` says how large it may become.
    pub async fn whole(&self, total: RangeTotal) -> Result<WholeRange, Code> {
        let bytes = usize::try_from(total.bytes).unwrap_or(usize::MAX);
        // It is in memory twice: as it was read, and as it is encoded.
        let share = self.hold.core.reads.budget.reserve(bytes.saturating_mul(2)).await?;
        let (id, range) = (self.hold.id, self.range.clone());
        let reply = self.hold.ask(|reply| PieceRequest::WholeRange { id, range, reply }).await?;
        Ok(WholeRange { reply, share })
    }

    fn at(&self, from: Bytes) -> PagePosition {
        PagePosition { hold: self.hold.id, range: self.range.clone(), from }
    }
}

impl RevisionHold {
    async fn ask<T>(&self, ask: impl FnOnce(PieceReply<T>) -> PieceRequest) -> Result<T, Code> {
        let (reply, answer) = oneshot::channel();
        if !self.core.coord.apply.post(ApplyJob::Pieces(ask(reply))) {
            return Err(Code::Stopped);
        }
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(answer) => answer.unwrap_or(Err(Code::Stopped)),
            Err(_) => Err(Code::Timeout),
        }
    }

    /// Reads from the store on a blocking thread; only so many at a time.
    async fn read<T: Send + 'static>(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, Code> {
        let _permit = self.core.reads.readers.acquire().await.expect("it is never closed");
        // An error there is an error of the store: the process must not continue as if one client were affected.
        let guarded = || {
            let _guard = AbortOnPanic;
            read()
        };
        tokio::task::spawn_blocking(guarded).await.map_err(|_| Code::Stopped)
    }
}

fn next_of(walked: WalkEnd) -> Option<Bytes> {
    match walked {
        WalkEnd::NextKey(key) => Some(key),
        WalkEnd::Finished => None,
    }
}

/// Bytes that count against the budget until they are dropped.
struct BudgetedBytes {
    bytes: Vec<u8>,
    _share: BudgetShare,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
