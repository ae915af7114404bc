//! A small etcd client for tests: the generated one, with words for what tests say most.

use bytes::Bytes;
use proto::etcdserverpb::cluster_client::ClusterClient;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::lease_client::LeaseClient;
use proto::etcdserverpb::maintenance_client::MaintenanceClient;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, HashKvRequest,
    HashKvResponse, HashRequest, HashResponse, Member, MemberListRequest, MoveLeaderRequest, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RequestOp, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse, compare,
};
use proto::health::health_client::HealthClient;
use proto::health::{HealthCheckRequest, HealthCheckResponse};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

pub type Answer<T> = Result<T, Status>;

#[derive(Clone)]
pub struct Etcd {
    pub kv: KvClient<Channel>,
    maintenance: MaintenanceClient<Channel>,
    cluster: ClusterClient<Channel>,
    health: HealthClient<Channel>,
    pub lease: LeaseClient<Channel>,
}

impl Etcd {
    pub async fn connect(endpoint: &str) -> Etcd {
        let channel = Endpoint::from_shared(endpoint.to_owned()).unwrap().connect().await.unwrap();
        Etcd {
            kv: KvClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel.clone()),
            cluster: ClusterClient::new(channel.clone()),
            health: HealthClient::new(channel.clone()),
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

    pub async fn hash(&mut self) -> Answer<HashResponse> {
        self.maintenance.hash(HashRequest {}).await.map(Response::into_inner)
    }

    pub async fn hash_kv(&mut self, revision: i64) -> Answer<HashKvResponse> {
        self.maintenance.hash_kv(HashKvRequest { revision }).await.map(Response::into_inner)
    }

    pub async fn move_leader(&mut self, target_id: u64) -> Answer<()> {
        self.maintenance.move_leader(MoveLeaderRequest { target_id }).await.map(drop)
    }

    pub async fn members(&mut self) -> Answer<Vec<Member>> {
        let list = self.cluster.member_list(MemberListRequest { linearizable: true }).await?;
        Ok(list.into_inner().members)
    }

    pub async fn health(&mut self, service: &str) -> Answer<HealthCheckResponse> {
        let request = HealthCheckRequest { service: service.to_owned() };
        self.health.check(request).await.map(Response::into_inner)
    }

    /// The first thing that a watch of the whole server's health says; the watch stays open with the stream.
    pub async fn watch_health(&mut self) -> Answer<tonic::Streaming<HealthCheckResponse>> {
        self.health.watch(HealthCheckRequest::default()).await.map(Response::into_inner)
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
