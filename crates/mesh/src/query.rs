//! What nodes are asked for when many records are wanted: by their properties (type, home region, time of the last write), or by a
//! range of names. Results come in pages; the start of the next page of a query is an opaque cursor.

use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::record::Kind;
use crate::request::{Scan, ScanView};
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::MESH_PAGE_KEYS_MAX;
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub namespace_id: u32,
    pub kind: Option<Kind>,
    pub home: Option<RegionId>,
    /// Written at this stamp or later. With it the answer is in the order of time, without it in that of names.
    pub since: Option<Stamp>,
    /// Written no later than this; in the order of time as well. Only the coordinator looks at it, so it does not travel.
    pub until: Option<Stamp>,
    /// Where the page before ended.
    pub after: Option<Bytes>,
    pub limit: u16,
}

impl Query {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.namespace_id));
        out.push(self.kind.map_or(u8::MAX, |kind| kind as u8));
        put_option(out, self.home.map(|home| u64::from(home.0)));
        put_option(out, self.since.map(|stamp| stamp.0));
        out.push(u8::from(self.after.is_some()));
        if let Some(after) = &self.after {
            put_bytes(out, after);
        }
        put_varint(out, u64::from(self.limit));
    }

    pub fn decode(reader: &mut Reader) -> Option<Query> {
        let namespace_id = u32::try_from(reader.varint()?).ok()?;
        let kind = match reader.u8()? {
            u8::MAX => None,
            number => Some(Kind::from_number(number)?),
        };
        let home = match option(reader)? {
            Some(home) => Some(RegionId(u32::try_from(home).ok()?)),
            None => None,
        };
        let since = option(reader)?.map(Stamp);
        let after = if reader.bool()? { Some(reader.bytes()?) } else { None };
        let limit = u16::try_from(reader.varint()?).ok()?;
        Some(Query { namespace_id, kind, home, since, until: None, after, limit })
    }
}

/// A page of names in order, or of their records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRange {
    pub namespace_id: u32,
    /// Included.
    pub start: Bytes,
    /// Excluded.
    pub end: Option<Bytes>,
    pub limit: u16,
    pub view: ScanView,
}

const KEYS_ONLY: u8 = 1;
const REVERSE: u8 = 2;

impl ScanRange {
    pub fn of(scan: &Scan) -> ScanRange {
        ScanRange {
            namespace_id: scan.namespace_id,
            start: scan.start.clone(),
            end: scan.end.clone(),
            limit: scan.limit.clamp(1, MESH_PAGE_KEYS_MAX) as u16,
            view: scan.view,
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.namespace_id));
        put_bytes(out, &self.start);
        out.push(u8::from(self.end.is_some()));
        if let Some(end) = &self.end {
            put_bytes(out, end);
        }
        put_varint(out, u64::from(self.limit));
        let ScanView { keys_only, reverse } = self.view;
        out.push(if keys_only { KEYS_ONLY } else { 0 } | if reverse { REVERSE } else { 0 });
    }

    pub fn decode(reader: &mut Reader) -> Option<ScanRange> {
        let namespace_id = u32::try_from(reader.varint()?).ok()?;
        let start = reader.bytes()?;
        let end = if reader.bool()? { Some(reader.bytes()?) } else { None };
        let limit = u16::try_from(reader.varint()?).ok()?;
        let flags = reader.u8().filter(|flags| flags & !(KEYS_ONLY | REVERSE) == 0)?;
        let view = ScanView { keys_only: flags & KEYS_ONLY != 0, reverse: flags & REVERSE != 0 };
        Some(ScanRange { namespace_id, start, end, limit, view })
    }
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put_varint(out, value);
    }
}

fn option(reader: &mut Reader) -> Option<Option<u64>> {
    if reader.bool()? { reader.varint().map(Some) } else { Some(None) }
}
