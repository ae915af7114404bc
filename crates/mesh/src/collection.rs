//! Collections whose elements are rows of their own: sets, flags, maps, sorted sets, lists and HyperLogLogs.
//! An operation and the rows here go in; a delta comes out that holds what the operation changed and what it has seen. A
//! delta and the rows of any replica go in; the rows to write come out. An operation reads and writes as many rows in a
//! collection of a million elements as in one of ten, but for a logarithm. Replicas that have merged the same deltas, in any
//! order and any number of times, show the same. See docs/adr/0080.

mod bounded_counter;
mod changes;
mod convert;
mod delta;
mod draft;
mod element;
mod header;
mod hyper_log_log;
mod merge;
mod op;
mod op_codec;
mod page;
mod position;
mod ranges;
mod repair;
mod sweep;
#[cfg(test)]
mod tests;
mod view;
mod writer;

pub use bounded_counter::BoundedCounter;
pub use changes::changed_elements;
pub use convert::convert;
pub use delta::{CollectionDelta, ElementDelta, is_lawful_element};
pub use element::{Cell, CellValue, ElementState};
pub use header::{CollectionHeader, CollectionKind, CollectionType, Expiry, Sweep};
pub use hyper_log_log::estimate;
pub use merge::{CollectionChange, TooManyGaps, TypeVerdict, merge, merge_own};
pub use op::{CollectionOp, InsertPosition, apply, apply_found};
pub use page::{
    ElementEntry, ElementPage, MergedPage, OrderedPage, ScorePaging, StaleEntry, last, merge_pages, named,
    page, page_by_rank, page_by_score, page_of_span, rank_of,
};
pub use position::Position;
pub use ranges::{ElementRange, RangeSummary};
pub use repair::{
    ComparedSpan, ElementSpan, RemoteRow, compare_ranges, differing_ranges, differing_spans, is_claimed,
    join_same, merge_cleared, merge_page, merge_row, ranges_of,
};
pub use sweep::{SweepStep, expire_fields, first_expiry, next_expiry, sweep};
pub use view::{
    CollectionRows, Direction, RowRange, element as element_row, element_name as element_row_name,
};
