//! Secondary indexes: rows by type, by home region and by the time of the last write, written in the batch of the record. They
//! have no values, but for those by type, which say of records that never expire that they do not. Times are rounded to about
//! a minute, so that a key that is written often costs one row a minute. Tombstones are in no index; the purge finds them by
//! their due stamp.

use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::query::Query;
use crate::record::{Kind, Record};
use crate::rows::{BY_HOME, BY_KIND, BY_TIME};
use bytes::Bytes;

/// Milliseconds are counted in steps of this many bits.
const STEP_BITS: u32 = 16;

fn step(stamp: Stamp) -> u32 {
    (stamp.ms() >> STEP_BITS) as u32
}

/// The value of a row by type whose record does not expire. Rows without it, as those of 0.1.0, say nothing.
const LASTING: &[u8] = &[1];

/// The rows under which a record is found, one of each index at most, with their values.
pub fn rows(key: &Key, record: &Record) -> [Option<(Bytes, Bytes)>; 3] {
    if record.is_tombstone() {
        return [None, None, None];
    }
    let home = record.header.rare.as_ref().and_then(|rare| rare.home);
    let lasting = if record.header.expires_ms.is_none() { LASTING } else { &[] };
    let by_time = by_time(key.namespace_id(), step(record.header.stamp), key.bytes());
    [
        Some((by_kind(record.kind, key.bytes()), Bytes::from_static(lasting))),
        Some((by_time, Bytes::new())),
        home.map(|home| (by_home(home, key.bytes()), Bytes::new())),
    ]
}

/// Whether a node writes rows of an index with this value.
pub fn is_value(row: &[u8], value: &[u8]) -> bool {
    value.is_empty() || row.first() == Some(&BY_KIND) && value == LASTING
}

/// Whether the record of a row by type must be read to know that it has not expired.
pub fn may_expire(value: &[u8]) -> bool {
    value != LASTING
}

/// The rows by type of the names from one on up to another in a namespace.
pub fn names_of_kind(kind: Kind, namespace_id: u32, start: &[u8], end: Option<&[u8]>) -> (Bytes, Bytes) {
    let name = |namespace_id: u32, name: &[u8]| by_kind(kind, &join(&namespace_id.to_be_bytes(), name));
    let to = match (end, namespace_id.checked_add(1)) {
        (Some(end), _) => name(namespace_id, end),
        (None, Some(next)) => name(next, b""),
        (None, None) => successor(&by_kind(kind, b"")),
    };
    (name(namespace_id, start), to)
}

/// The key that a row by type leads to.
pub fn named_key(row: &[u8]) -> Option<Key> {
    Key::from_bytes(Bytes::copy_from_slice(row.get(2..)?))
}

/// Whether a record is found where it was found before, without looking up where that is.
pub fn stays(old: &Record, new: &Record) -> bool {
    let facts = |record: &Record| {
        let home = record.header.rare.as_ref().and_then(|rare| rare.home);
        let expires = record.header.expires_ms.is_some();
        (record.is_tombstone(), record.kind, home, step(record.header.stamp), expires)
    };
    facts(old) == facts(new)
}

fn by_kind(kind: Kind, cursor: &[u8]) -> Bytes {
    join(&[BY_KIND, kind as u8], cursor)
}

fn by_home(home: RegionId, cursor: &[u8]) -> Bytes {
    let [a, b, c, d] = home.0.to_be_bytes();
    join(&[BY_HOME, a, b, c, d], cursor)
}

fn by_time(namespace_id: u32, step: u32, cursor: &[u8]) -> Bytes {
    let mut head = [BY_TIME, 0, 0, 0, 0, 0, 0, 0, 0];
    head[1..5].copy_from_slice(&namespace_id.to_be_bytes());
    head[5..].copy_from_slice(&step.to_be_bytes());
    join(&head, cursor)
}

fn time_of(namespace_id: u32) -> Bytes {
    join(&[BY_TIME], &namespace_id.to_be_bytes())
}

fn time_cursor(key: &Key, record: &Record) -> Bytes {
    join(&step(record.header.stamp).to_be_bytes(), key.bytes())
}

fn join(head: &[u8], tail: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(head.len() + tail.len());
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(tail);
    bytes.into()
}

/// How a query walks: the index, the part of it that may answer, and how rows are places in the order of answers.
pub struct IndexScan {
    head: Bytes,
    pub from: Bytes,
    pub to: Bytes,
    /// Bytes of a place before its key.
    before_key: usize,
}

impl IndexScan {
    pub fn of(query: &Query) -> IndexScan {
        let namespace_id = query.namespace_id.to_be_bytes();
        let next_space = query.namespace_id.checked_add(1).map(u32::to_be_bytes);
        let (head, before_key, first) = match (query.since, query.home, query.kind) {
            (None, Some(home), _) => (by_home(home, b""), 0, namespace_id.to_vec()),
            (None, None, Some(kind)) => (by_kind(kind, b""), 0, namespace_id.to_vec()),
            (since, ..) => {
                let first = step(since.unwrap_or_default()).to_be_bytes();
                (time_of(query.namespace_id), first.len(), first.to_vec())
            }
        };
        let from = match &query.after {
            Some(after) => join(&join(&head, after), b"\0"),
            None => join(&head, &first),
        };
        let to = match next_space.filter(|_| before_key == 0) {
            Some(next) => join(&head, &next),
            None => successor(&head),
        };
        IndexScan { head, from, to, before_key }
    }

    /// The place of a row in the order of answers, and the key that it leads to.
    pub fn read(&self, row: &[u8]) -> Option<(Bytes, Key)> {
        let cursor = row.strip_prefix(self.head.as_ref())?;
        let key = Key::from_bytes(Bytes::copy_from_slice(cursor.get(self.before_key..)?))?;
        Some((Bytes::copy_from_slice(cursor), key))
    }

    /// Whether everything behind a place, in the order of time, is later than the query asks for.
    pub fn is_past(&self, query: &Query, place: &[u8]) -> bool {
        let step_of = |place: &[u8]| Some(u32::from_be_bytes(place.get(..4)?.try_into().ok()?));
        self.before_key == 4
            && query.until.is_some_and(|until| step_of(place).is_some_and(|place| place > step(until)))
    }

    /// Where a record stands in the order of answers.
    pub fn cursor_of(&self, key: &Key, record: &Record) -> Bytes {
        if self.before_key == 0 { key.bytes().clone() } else { time_cursor(key, record) }
    }
}

/// The first row behind all that begin so.
fn successor(head: &[u8]) -> Bytes {
    let mut next = head.to_vec();
    while let Some(last) = next.pop() {
        if let Some(larger) = last.checked_add(1) {
            next.push(larger);
            break;
        }
    }
    next.into()
}

/// Whether a record is what a query asks for.
pub fn matches(query: &Query, key: &Key, record: &Record) -> bool {
    let home = record.header.rare.as_ref().and_then(|rare| rare.home);
    key.namespace_id() == query.namespace_id
        && query.kind.is_none_or(|kind| kind == record.kind)
        && query.home.is_none_or(|wanted| home == Some(wanted))
        && query.since.is_none_or(|since| record.header.stamp >= since)
        && query.until.is_none_or(|until| record.header.stamp <= until)
}
