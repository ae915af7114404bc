//! The keys of a store that speaks etcd's API, all as they were at one revision: of an etcd, or of our own coordination store.

use super::row::{Row, RowValue};
use super::source::{Chunk, Position};
use crate::client::{Client, Error};
use crate::progress::Progress;
use base::key_range::prefix_end;
use proto::etcdserverpb::RangeRequest;
use std::collections::BTreeMap;
use tonic::Code;

/// Keys that are asked for at once.
const PAGE_KEYS: i64 = 1_000;

pub struct EtcdSource {
    client: Client,
    range: RangeRequest,
    /// With their whole times to live.
    pub leases: BTreeMap<i64, u64>,
    at_end: bool,
    pub total: u64,
    pub done: u64,
}

impl EtcdSource {
    /// At the revision that the store has now.
    pub async fn begin(client: Client, prefix: &[u8]) -> Result<EtcdSource, Error> {
        let (key, range_end) = if prefix.is_empty() {
            (vec![0], vec![0])
        } else {
            (prefix.to_vec(), prefix_end(prefix).to_vec())
        };
        let range = RangeRequest { key: key.into(), range_end: range_end.into(), ..RangeRequest::default() };
        let first = client.range(RangeRequest { count_only: true, ..range.clone() }).await?;
        let revision = first.header.map_or(0, |header| header.revision);
        // Leases are read after the revision: one that is missing now has ended, with its keys.
        let leases = read_leases(&client).await?;
        let range = RangeRequest { revision, limit: PAGE_KEYS, ..range };
        Ok(EtcdSource { client, range, leases, at_end: false, total: first.count as u64, done: 0 })
    }

    pub fn revision(&self) -> i64 {
        self.range.revision
    }

    pub fn position(&self) -> Position {
        Position::Range {
            revision: self.range.revision,
            next: self.range.key.to_vec(),
            done: self.done,
            at_end: self.at_end,
        }
    }

    /// At the revision of the run before. How many keys there are is not known before the end.
    pub fn go_on(&mut self, revision: i64, next: Vec<u8>, done: u64) {
        (self.range.revision, self.range.key, self.done) = (revision, next.into(), done);
    }

    fn explained(&self, error: Error) -> Error {
        if !error.is_refusal(Code::OutOfRange) {
            return error;
        }
        let revision = self.range.revision;
        let problem = "of the source is compacted: remove the checkpoint to begin again";
        Error::Incomplete(format!("revision {revision} {problem}"))
    }

    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        if self.at_end {
            return Ok(None);
        }
        let page = self.client.range(self.range.clone()).await.map_err(Error::from);
        let page = page.map_err(|error| self.explained(error))?;
        self.at_end = !page.more;
        // What is left is counted with every page, also where another run had begun.
        self.total = self.done + page.count as u64;
        let Some(last) = page.kvs.last() else { return Ok(None) };
        // The next key is the last one with a zero behind it.
        self.range.key = [&last.key[..], &[0]].concat().into();
        self.done += page.kvs.len() as u64;
        let mut chunk = Chunk::default();
        for kv in page.kvs {
            let ttl = self.leases.get(&kv.lease).copied();
            if kv.lease != 0 && ttl.is_none() {
                chunk.ended += 1;
                continue;
            }
            let lease = Some(kv.lease).filter(|lease| *lease != 0);
            let value = RowValue::of_bytes(kv.value.to_vec());
            chunk.rows.push(Row { key: kv.key.to_vec(), value, kind: String::new(), ttl, lease });
        }
        Ok(Some(chunk))
    }
}

async fn read_leases(client: &Client) -> Result<BTreeMap<i64, u64>, Error> {
    let found = client.leases().await?.leases;
    let mut progress = Progress::new("reading", "leases", found.len() as u64);
    let mut leases = BTreeMap::new();
    for (done, lease) in (1..).zip(found) {
        let life = client.time_to_live(lease.id, false).await?;
        if life.ttl > 0 {
            leases.insert(lease.id, life.granted_ttl.unsigned_abs());
        }
        progress.update(done);
    }
    progress.end();
    Ok(leases)
}

/// Every lease that lives, under its own id, with its whole time before it. They come over also without keys.
pub async fn copy_leases(leases: &BTreeMap<i64, u64>, target: &Client) -> Result<(), Error> {
    let mut progress = Progress::new("importing", "leases", leases.len() as u64);
    for (done, (id, ttl)) in (1..).zip(leases) {
        super::destination::grant(target, *id, *ttl).await?;
        progress.update(done);
    }
    progress.end();
    Ok(())
}
