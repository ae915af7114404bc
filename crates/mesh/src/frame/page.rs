//! The pages of an exchange: the entries of one side in the buckets that differ, and the other side's answer.

use super::{OpId, Shard, key, optional_key, put_records, put_shard, records, shard};
use crate::actor::RegionId;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::tree::{Buckets, TREE_LEAVES};
use crate::watermarks::{REGIONS_MAX, Watermarks};
use base::codec::{Reader, put_bytes, put_optional, put_varint};
use bytes::Bytes;

/// What the sender has in the differing buckets, in `(after, upto]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangePage {
    pub id: OpId,
    pub shard: Shard,
    pub buckets: Buckets,
    pub marks: Watermarks,
    pub after: Option<Key>,
    /// None to the end.
    pub upto: Option<Key>,
    pub entries: Vec<ExchangeEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeEntry {
    pub key: Key,
    pub digest: u64,
    pub stamp: Stamp,
    /// The regions whose writes went into it.
    pub writers: Vec<RegionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeAnswer {
    pub id: OpId,
    /// The answer is about keys up to here; none for the whole page.
    pub upto: Option<Key>,
    /// What the asker lacks or has otherwise.
    pub records: Vec<(Key, Bytes)>,
    /// What the answerer lacks or has otherwise.
    pub wanted: Vec<Key>,
    /// What was deleted everywhere and should not be with the asker any more.
    pub purged: Vec<Key>,
}

pub(super) fn encode_page(page: &ExchangePage, out: &mut Vec<u8>) {
    out.push(16);
    put_varint(out, page.id.0);
    put_shard(out, page.shard);
    page.buckets.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
    page.marks.encode(out);
    put_optional(out, page.after.as_ref().map(Key::bytes));
    put_optional(out, page.upto.as_ref().map(Key::bytes));
    put_varint(out, page.entries.len() as u64);
    for ExchangeEntry { key, digest, stamp, writers } in &page.entries {
        put_bytes(out, key.bytes());
        out.extend(digest.to_le_bytes());
        out.extend(stamp.0.to_le_bytes());
        put_varint(out, writers.len() as u64);
        writers.iter().for_each(|region| put_varint(out, u64::from(region.0)));
    }
}

pub(super) fn encode_answer(answer: &ExchangeAnswer, out: &mut Vec<u8>) {
    out.push(17);
    put_varint(out, answer.id.0);
    put_optional(out, answer.upto.as_ref().map(Key::bytes));
    put_records(out, &answer.records);
    for keys in [&answer.wanted, &answer.purged] {
        put_varint(out, keys.len() as u64);
        keys.iter().for_each(|key| put_bytes(out, key.bytes()));
    }
}

pub(super) fn decode_page(id: OpId, reader: &mut Reader) -> Option<ExchangePage> {
    let shard = shard(reader)?;
    let mut words = [0; TREE_LEAVES / 64];
    for word in &mut words {
        *word = reader.u64()?;
    }
    let marks = Watermarks::decode(reader)?;
    let (after, upto) = (optional_key(reader)?, optional_key(reader)?);
    let entry = |reader: &mut Reader| {
        let (key, digest, stamp) = (key(reader)?, reader.u64()?, Stamp(reader.u64()?));
        let region = |reader: &mut Reader| Some(RegionId(u32::try_from(reader.varint()?).ok()?));
        let count = Some(reader.count()?).filter(|count| *count <= REGIONS_MAX)?;
        let writers = (0..count).map(|_| region(reader)).collect::<Option<Vec<_>>>()?;
        Some(ExchangeEntry { key, digest, stamp, writers })
    };
    let entries = (0..reader.count()?).map(|_| entry(reader)).collect::<Option<Vec<_>>>()?;
    Some(ExchangePage { id, shard, buckets: Buckets::from_words(words), marks, after, upto, entries })
}

pub(super) fn decode_answer(id: OpId, reader: &mut Reader) -> Option<ExchangeAnswer> {
    let upto = optional_key(reader)?;
    let records = records(reader)?;
    let mut keys = || (0..reader.count()?).map(|_| key(reader)).collect::<Option<Vec<_>>>();
    Some(ExchangeAnswer { id, upto, records, wanted: keys()?, purged: keys()? })
}
