//! A hash of all keys and values at a revision, for comparing members.
//! The keys are read as a client would read them, a page at a time, so that nobody waits for a long walk. Equal
//! states give equal hashes on every member and at any time; the number is not etcd's.

use base::checksum::hash64;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::reply::{Body, KeyValue, RangeReply, Reply};
use coord::request::{Range, Request};
use server::Handle;

/// Keys of the first page; how many follow depends on how large they were.
const PAGE_KEYS_FIRST: u64 = 16;
const PAGE_KEYS_MAX: u64 = 1_024;
/// Pages are meant to be about as large as this.
const PAGE_BYTES: usize = 256 * 1024;

/// Of the state at `revision`, which must be one that this member has.
pub async fn hash_keys(handle: &Handle, revision: Revision) -> Result<u32, Code> {
    // No keys have a hash, too.
    let mut hash = hash64(b"keys", 0);
    let mut start = Bytes::from_static(b"\0");
    let mut limit = PAGE_KEYS_FIRST;
    loop {
        let page = read_page(handle, start, limit, revision).await?;
        hash = page.kvs.iter().fold(hash, hash_key);
        match page.kvs.last().filter(|_| page.more) {
            Some(last) => start = [&last.key[..], b"\0"].concat().into(),
            None => return Ok((hash ^ (hash >> 32)) as u32),
        }
        limit = next_limit(limit, &page);
    }
}

async fn read_page(
    handle: &Handle,
    start: Bytes,
    limit: u64,
    revision: Revision,
) -> Result<RangeReply, Code> {
    let keys = KeyRange::from_wire(start, Bytes::from_static(b"\0"));
    let range = Range { limit, revision, serializable: true, ..Range::of(keys) };
    match handle.submit(Request::Range(range)).await? {
        Reply { body: Body::Range(reply), .. } => Ok(reply),
        other => unreachable!("a range is answered by a range, not {other:?}"),
    }
}

fn next_limit(limit: u64, page: &RangeReply) -> u64 {
    let bytes: usize = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    match bytes {
        ..PAGE_BYTES => (limit * 2).min(PAGE_KEYS_MAX),
        _ => (limit / 2).max(1),
    }
}

fn hash_key(hash: u64, kv: &KeyValue) -> u64 {
    let numbers = [
        kv.create_revision.0,
        kv.mod_revision.0,
        kv.version,
        kv.lease.0,
        kv.key.len() as i64,
        kv.value.len() as i64,
    ];
    let hash = hash64(numbers.map(i64::to_le_bytes).as_flattened(), hash);
    hash64(&kv.value, hash64(&kv.key, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LeaseId;

    fn kv() -> KeyValue {
        KeyValue {
            key: "key".into(),
            create_revision: Revision(2),
            mod_revision: Revision(3),
            version: 2,
            lease: LeaseId(7),
            value: "value".into(),
        }
    }

    #[test]
    fn every_field_counts_and_so_does_the_order() {
        let others = [
            KeyValue { key: "kez".into(), ..kv() },
            KeyValue { create_revision: Revision(1), ..kv() },
            KeyValue { mod_revision: Revision(4), ..kv() },
            KeyValue { version: 1, ..kv() },
            KeyValue { lease: LeaseId(8), ..kv() },
            KeyValue { value: "valuf".into(), ..kv() },
            KeyValue { key: "keyv".into(), value: "alue".into(), ..kv() },
        ];
        for other in &others {
            assert_ne!(hash_key(0, other), hash_key(0, &kv()), "{other:?}");
            assert_ne!(hash_key(hash_key(0, other), &kv()), hash_key(hash_key(0, &kv()), other));
        }
    }

    #[test]
    fn pages_grow_with_small_keys_and_shrink_with_large_ones() {
        let page = |bytes| RangeReply {
            kvs: vec![KeyValue { value: vec![0; bytes].into(), ..kv() }],
            more: true,
            count: 2,
        };
        assert_eq!(next_limit(16, &page(1)), 32);
        assert_eq!(next_limit(PAGE_KEYS_MAX, &page(1)), PAGE_KEYS_MAX);
        assert_eq!(next_limit(16, &page(PAGE_BYTES)), 8);
        assert_eq!(next_limit(1, &page(PAGE_BYTES)), 1);
    }
}
