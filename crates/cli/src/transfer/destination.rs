//! Where rows go: one of the two planes. Both are read and written batch by batch.

use super::plane::DataPlane;
use super::row::Row;
use crate::client::{Client, Error};
use base::limits::REQUEST_BYTES_MAX_DEFAULT;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{Compare, PutRequest, RangeRequest, RequestOp, TxnRequest};
use std::collections::{BTreeMap, BTreeSet};
use tonic::Code;

/// A row that is to be written, and what is there.
pub struct Change {
    pub row: Row,
    pub found: Option<Row>,
}

/// A key that the destination does not take, and why.
pub struct RefusedKey {
    pub name: String,
    pub what: String,
}

pub enum Destination {
    Coord(CoordKeys),
    Data(DataPlane),
}

impl Destination {
    pub fn coord(client: Client) -> Destination {
        Destination::Coord(CoordKeys { client, granted: BTreeSet::new() })
    }

    /// Why a row cannot be there at all.
    pub fn unfit(&self, row: &Row) -> Option<&'static str> {
        match self {
            _ if row.key.is_empty() => Some("the key is empty"),
            Destination::Coord(_) => None,
            Destination::Data(_) => {
                std::str::from_utf8(&row.key).is_err().then_some("keys of the data plane are UTF-8")
            }
        }
    }

    /// What is there under these keys.
    pub async fn read(&self, rows: &[Row]) -> Result<Vec<Option<Row>>, Error> {
        match self {
            Destination::Coord(keys) => keys.read(rows).await,
            Destination::Data(plane) => plane.read(rows).await,
        }
    }

    /// Whether what was found is what the row says.
    pub fn holds(&self, row: &Row, found: &Row) -> bool {
        match self {
            Destination::Coord(_) => row.value.bytes() == found.value.bytes(),
            Destination::Data(_) => super::plane::holds(row, found),
        }
    }

    /// The keys of one call are different ones. Of a batch that is refused the rows are written one by one, to name those that are refused.
    pub async fn write(&mut self, changes: &[Change]) -> Result<Vec<RefusedKey>, Error> {
        match self.put(changes).await {
            Err(error) if is_about_rows(&error, changes) && changes.len() > 1 => {
                let mut refused = Vec::new();
                for change in changes {
                    refused.extend(self.put_alone(change).await?);
                }
                Ok(refused)
            }
            Err(error) if is_about_rows(&error, changes) => Ok(vec![refusal(&changes[0], &error)]),
            written => written,
        }
    }

    async fn put_alone(&mut self, change: &Change) -> Result<Vec<RefusedKey>, Error> {
        let changes = std::slice::from_ref(change);
        match self.put(changes).await {
            Err(error) if is_about_rows(&error, changes) => Ok(vec![refusal(change, &error)]),
            written => written,
        }
    }

    async fn put(&mut self, changes: &[Change]) -> Result<Vec<RefusedKey>, Error> {
        match self {
            Destination::Coord(keys) => keys.put(changes).await.map(|()| Vec::new()),
            Destination::Data(plane) => plane.write(changes).await,
        }
    }
}

/// Whether other rows may be taken. A message that is too large is refused before it is read, with the code for a store that is full.
fn is_about_rows(error: &Error, changes: &[Change]) -> bool {
    let bytes: usize = changes.iter().map(|change| change.row.size()).sum();
    let is_too_large = error.is_refusal(Code::ResourceExhausted) && bytes > REQUEST_BYTES_MAX_DEFAULT;
    error.is_refusal(Code::InvalidArgument) || is_too_large
}

fn refusal(change: &Change, error: &Error) -> RefusedKey {
    RefusedKey { name: change.row.name(), what: error.to_string() }
}

pub struct CoordKeys {
    client: Client,
    /// Leases that are here under the ids of their source.
    granted: BTreeSet<i64>,
}

impl CoordKeys {
    async fn read(&self, rows: &[Row]) -> Result<Vec<Option<Row>>, Error> {
        let get = |row: &Row| {
            let range = RangeRequest { key: row.key.clone().into(), ..RangeRequest::default() };
            RequestOp { request: Some(Request::RequestRange(range)) }
        };
        let success = rows.iter().map(get).collect();
        let answer = self.client.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
        let found = answer.responses.into_iter().map(|response| match response.response {
            Some(Response::ResponseRange(range)) => range.kvs.into_iter().next().map(|kv| Row {
                lease: Some(kv.lease).filter(|lease| *lease != 0),
                ..Row::of_bytes(kv.key.to_vec(), kv.value.to_vec())
            }),
            _ => None,
        });
        Ok(found.collect())
    }

    /// In one step, unless one of the keys came meanwhile that was not there.
    async fn put(&mut self, changes: &[Change]) -> Result<(), Error> {
        let leases = self.leases_of(changes).await?;
        let put = |(Change { row, .. }, lease): (&Change, i64)| {
            let (key, value) = (row.key.clone().into(), row.value.bytes().to_vec().into());
            let put = PutRequest { key, value, lease, ..PutRequest::default() };
            RequestOp { request: Some(Request::RequestPut(put)) }
        };
        let absent = |change: &Change| Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Create as i32,
            key: change.row.key.clone().into(),
            target_union: Some(TargetUnion::CreateRevision(0)),
            ..Compare::default()
        };
        let compare = changes.iter().filter(|change| change.found.is_none()).map(absent).collect();
        let success = changes.iter().zip(leases).map(put).collect();
        self.client.txn(TxnRequest { compare, success, ..TxnRequest::default() }).await?;
        Ok(())
    }

    /// Each under its own id, and one for all rows of the batch that live equally long without one.
    async fn leases_of(&mut self, changes: &[Change]) -> Result<Vec<i64>, Error> {
        let mut by_ttl: BTreeMap<u64, i64> = BTreeMap::new();
        let mut leases = Vec::with_capacity(changes.len());
        for Change { row, .. } in changes {
            let lease = match (row.lease, row.ttl) {
                (_, None) => 0,
                (Some(id), Some(ttl)) => {
                    if self.granted.insert(id) {
                        grant(&self.client, id, ttl).await?;
                    }
                    id
                }
                (None, Some(ttl)) => match by_ttl.get(&ttl) {
                    Some(id) => *id,
                    None => {
                        let id = self.client.grant_lease(seconds(ttl), 0).await?.response.id;
                        by_ttl.insert(ttl, id);
                        id
                    }
                },
            };
            leases.push(lease);
        }
        Ok(leases)
    }
}

fn seconds(ttl: u64) -> i64 {
    i64::try_from(ttl).unwrap_or(i64::MAX)
}

/// A lease of this id, unless it is there.
pub async fn grant(client: &Client, id: i64, ttl: u64) -> Result<(), Error> {
    match client.grant_lease(seconds(ttl), id).await.map_err(Error::from) {
        Err(error) if error.is_refusal(Code::FailedPrecondition) => Ok(()),
        granted => granted.map(drop),
    }
}
