//! A query for records by their properties: by type, by home region, by the time of the last write. Results come in pages;
//! the start of the next page is an opaque cursor.

use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::record::Kind;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub namespace_id: u32,
    pub kind: Option<Kind>,
    pub home: Option<RegionId>,
    /// Written at this stamp or later. With it the answer is in the order of time, without it in that of names.
    pub since: Option<Stamp>,
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
        Some(Query { namespace_id, kind, home, since, after, limit: u16::try_from(reader.varint()?).ok()? })
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
