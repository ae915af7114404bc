//! Answers to ranges.
//! A range and the state it is asked of go in, the keys it selects come out: filtered, sorted and cut by what
//! the index knows, so that a value is read only for a key that is answered. The count is always that of the
//! whole range.

use crate::draft::{Draft, ReadAt};
use crate::entry::Version;
use crate::reply::{KeyValue, RangeReply};
use crate::request::{Order, Range, Sort, SortTarget};
use base::{Code, LeaseId, RangeEnd};
use bytes::Bytes;
use std::cmp::Ordering;

/// What an answer holds of a key beside key and value, about.
const KEY_OVERHEAD_BYTES: usize = 32;

pub fn answer(draft: &Draft<'_>, range: &Range) -> Result<RangeReply, Code> {
    let at = draft.at(range.revision)?;
    Ok(answer_at(draft, range, at, usize::MAX).expect("an answer may be as large as it likes"))
}

/// `None` as soon as it is seen that the answer takes more than `bytes_max`.
pub fn answer_at(draft: &Draft<'_>, range: &Range, at: ReadAt, bytes_max: usize) -> Option<RangeReply> {
    if range.count_only {
        let count = draft.count(&range.keys, at) as u64;
        return Some(RangeReply { count, ..RangeReply::default() });
    }
    if range.sort.is_some() || range.is_filtered() {
        answer_selected(draft, range, at, bytes_max)
    } else {
        answer_plain(draft, range, at, bytes_max)
    }
}

/// In key order: the walk ends with the limit, and what lies behind it is only counted.
fn answer_plain(draft: &Draft<'_>, range: &Range, at: ReadAt, bytes_max: usize) -> Option<RangeReply> {
    let limit = range.limit();
    let taken = draft.versions(&range.keys, at).take(limit);
    let kvs = read(draft, taken, range.keys_only, bytes_max)?;
    let is_all = kvs.len() < limit || range.keys.end == RangeEnd::Single;
    let count = if is_all { kvs.len() } else { draft.count(&range.keys, at) };
    Some(RangeReply { more: count > kvs.len(), count: count as u64, kvs })
}

/// Filters first, then the order, then the limit.
fn answer_selected(draft: &Draft<'_>, range: &Range, at: ReadAt, bytes_max: usize) -> Option<RangeReply> {
    let mut count = 0;
    let mut selected: Vec<(&[u8], Version)> = draft
        .versions(&range.keys, at)
        .inspect(|_| count += 1)
        .filter(|(_, version)| range.selects(version))
        .collect();
    let limit = range.limit();
    let more = selected.len() > limit;
    if is_order_unspecified(range) {
        selected.truncate(limit.saturating_add(1));
    }
    let kvs = match range.sort {
        Some(Sort { target: SortTarget::Value, order }) => {
            sorted_by_value(draft, range, selected, order, bytes_max)?
        }
        sort => {
            if let Some(sort) = sort {
                selected.sort_by(|left, right| compare_by(sort, left, right));
            }
            read(draft, selected.into_iter().take(limit), range.keys_only, bytes_max)?
        }
    };
    Some(RangeReply { kvs, more, count })
}

/// Keys with their values, unless they are too much together.
fn read<'s>(
    draft: &Draft<'_>,
    versions: impl Iterator<Item = (&'s [u8], Version)>,
    keys_only: bool,
    bytes_max: usize,
) -> Option<Vec<KeyValue>> {
    let mut bytes_left = bytes_max;
    let kvs = versions.map(|(key, version)| {
        let kv = key_value(draft, key, version, keys_only);
        bytes_left = bytes_left.checked_sub(KEY_OVERHEAD_BYTES + kv.key.len() + kv.value.len())?;
        Some(kv)
    });
    kvs.collect()
}

/// The only order that needs every value of the range.
fn sorted_by_value(
    draft: &Draft<'_>,
    range: &Range,
    selected: Vec<(&[u8], Version)>,
    order: Order,
    bytes_max: usize,
) -> Option<Vec<KeyValue>> {
    let mut kvs = read(draft, selected.into_iter(), false, bytes_max)?;
    kvs.sort_by(|left, right| directed(left.value.cmp(&right.value), order));
    kvs.truncate(range.limit());
    if range.keys_only {
        kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
    Some(kvs)
}

/// Equal ones stay in key order, whichever the direction.
fn compare_by(sort: Sort, left: &(&[u8], Version), right: &(&[u8], Version)) -> Ordering {
    let rising = match sort.target {
        SortTarget::Key => left.0.cmp(right.0),
        SortTarget::Version => left.1.version.cmp(&right.1.version),
        SortTarget::Create => left.1.create.cmp(&right.1.create),
        SortTarget::Mod => left.1.modified.cmp(&right.1.modified),
        SortTarget::Value => unreachable!("values are not in the index and are sorted after reading"),
    };
    directed(rising, sort.order)
}

fn directed(rising: Ordering, order: Order) -> Ordering {
    match order {
        Order::Ascending | Order::Unspecified => rising,
        Order::Descending => rising.reverse(),
    }
}

/// etcd sees that it must look at the whole range by the order or by a filter, not by the target.
fn is_order_unspecified(range: &Range) -> bool {
    range.sort.is_some_and(|sort| sort.order == Order::Unspecified) && !range.is_filtered()
}

/// As etcd since 3.7, keys alone come from the index and without their lease.
fn key_value(draft: &Draft<'_>, key: &[u8], version: Version, keys_only: bool) -> KeyValue {
    let (lease, value) = if keys_only {
        (LeaseId::NONE, Bytes::new())
    } else {
        let record = draft.record(key, version.modified);
        (record.lease, record.value)
    };
    KeyValue {
        key: Bytes::copy_from_slice(key),
        create_revision: version.create,
        mod_revision: version.modified,
        version: version.version,
        lease,
        value,
    }
}
