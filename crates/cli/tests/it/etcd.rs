//! A small etcd client for tests: the generated one, with words for what tests say most.

use bytes::Bytes;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::lease_client::LeaseClient;
use proto::etcdserverpb::maintenance_client::MaintenanceClient;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RequestOp, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, compare,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

pub type Answer<T> = Result<T, Status>;

#[derive(Clone)]
pub struct Etcd {
    kv: KvClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
    pub lease: LeaseClient<Channel>,
}

impl Etcd {
    pub async fn connect(endpoint: &str) -> Etcd {
        let channel = Endpoint::from_shared(endpoint.to_owned()).unwrap().connect().await.unwrap();
        Etcd {
            kv: KvClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel.clone()),
            lease: LeaseClient::new(channel),
        }
    }

    pub async fn range(&mut self, request: RangeRequest) -> Answer<RangeResponse> {
        self.kv.range(request).await.map(Response::into_inner)
    }

    pub async fn put(&mut self, request: PutRequest) -> Answer<PutResponse> {
        self.kv.put(request).await.map(Response::into_inner)
    }

    pub async fn delete(&mut self, request: DeleteRangeRequest) -> Answer<DeleteRangeResponse> {
        self.kv.delete_range(request).await.map(Response::into_inner)
    }

    pub async fn txn(&mut self, request: TxnRequest) -> Answer<TxnResponse> {
        self.kv.txn(request).await.map(Response::into_inner)
    }

    pub async fn compact(&mut self, revision: i64) -> Answer<CompactionResponse> {
        self.kv.compact(CompactionRequest { revision, physical: true }).await.map(Response::into_inner)
    }

    pub async fn range_stream(&mut self, request: RangeRequest) -> Answer<()> {
        self.kv.range_stream(request).await.map(drop)
    }

    pub async fn status(&mut self) -> Answer<StatusResponse> {
        self.maintenance.status(StatusRequest {}).await.map(Response::into_inner)
    }
}

/// The one key.
pub fn get(key: impl Into<Bytes>) -> RangeRequest {
    RangeRequest { key: key.into(), ..Default::default() }
}

/// Every key that begins so; the last byte must not be 0xff.
pub fn prefix(prefix: &str) -> RangeRequest {
    RangeRequest {
        key: prefix.to_owned().into(),
        range_end: base::key_range::prefix_end(prefix.as_bytes()),
        ..Default::default()
    }
}

pub fn everything() -> RangeRequest {
    RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() }
}

pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), ..Default::default() }
}

pub fn delete(key: impl Into<Bytes>) -> DeleteRangeRequest {
    DeleteRangeRequest { key: key.into(), ..Default::default() }
}

pub fn op(request: Op) -> RequestOp {
    RequestOp { request: Some(request) }
}

pub fn value_is(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Compare {
    Compare {
        key: key.into(),
        target: compare::CompareTarget::Value as i32,
        target_union: Some(compare::TargetUnion::Value(value.into())),
        ..Default::default()
    }
}
