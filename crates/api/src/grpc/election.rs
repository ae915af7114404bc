//! etcd's election service over the lock machine: the leader is the holder of the lock of the election's name.
//! A candidate waits as for any lock; its value is the value of its key. Observers receive each leader and
//! each value it proclaims, in order.

use crate::audit;
use crate::grpc::etcd_lock::{hold, render_session, until_stopped};
use crate::grpc::follow::KeyFollower;
use crate::grpc::{call_context, kv, refusal};
use base::{Code, KeyRange, LeaseId, Revision};
use bytes::Bytes;
use coord::call::TypedRequest;
use coord::lock_queue;
use coord::reply::KeyValue;
use coord::request::{
    Compare, Delete, Order, Put, Range, Relation, Request as CoreRequest, Sort, SortTarget, Target, Txn,
};
use proto::v3electionpb::election_server::Election;
use proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use server::Handle;
use tokio::sync::{mpsc, watch};
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

/// Answers that an observer has not taken yet.
const ANSWERS_BUFFERED: usize = 16;

pub struct ElectionService {
    handle: Handle,
    stopping: watch::Receiver<bool>,
}

impl ElectionService {
    pub fn new(handle: Handle, stopping: watch::Receiver<bool>) -> ElectionService {
        ElectionService { handle, stopping }
    }

    /// The handle of the caller.
    async fn admit(&self, metadata: &MetadataMap) -> Result<Handle, Status> {
        call_context::check_leader(&self.handle, metadata).map_err(refusal::render)?;
        call_context::admit(&self.handle, metadata).await
    }
}

#[tonic::async_trait]
impl Election for ElectionService {
    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        audit::note_target("election", &String::from_utf8_lossy(&request.get_ref().name));
        audit::note_id("lease", request.get_ref().lease as u64);
        let handle = self.admit(request.metadata()).await?;
        let CampaignRequest { name, lease, value } = request.into_inner();
        let held = hold(&handle, &self.stopping, name.clone(), lease, Some(value)).await;
        let held = held.map_err(render_session)?;
        let header = Some(call_context::header(&self.handle, held.revision));
        let leader = Some(LeaderKey { name, lease: lease_of(&held.key), key: held.key, rev: held.token.0 });
        Ok(Response::new(CampaignResponse { header, leader }))
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        note_leader(request.get_ref().leader.as_ref());
        let handle = self.admit(request.metadata()).await?;
        let ProclaimRequest { leader, value } = request.into_inner();
        let leader = leader.ok_or(Code::MissingLeaderKey).map_err(refusal::render)?;
        let lease = Some(LeaseId(leader.lease));
        let put =
            CoreRequest::Put(Put { key: leader.key.clone(), value: Some(value), lease, prev_kv: false });
        match while_leading(&handle, &leader, put).await.map_err(refusal::render)? {
            (revision, true) => {
                let header = Some(call_context::header(&self.handle, revision));
                Ok(Response::new(ProclaimResponse { header }))
            }
            (_, false) => Err(refusal::render(Code::NotElected)),
        }
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        audit::note_target("election", &String::from_utf8_lossy(&request.get_ref().name));
        let handle = self.admit(request.metadata()).await?;
        let name = request.into_inner().name;
        let (revision, leader) = leader_of(&handle, &name).await.map_err(refusal::render)?;
        let leader = leader.ok_or(Code::NoElectedLeader).map_err(refusal::render)?;
        Ok(Response::new(answer(&self.handle, revision, leader)))
    }

    type ObserveStream = BoxStream<LeaderResponse>;

    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        audit::note_target("election", &String::from_utf8_lossy(&request.get_ref().name));
        let handle = self.admit(request.metadata()).await?;
        let name = request.into_inner().name;
        let (answers, receiver) = mpsc::channel(ANSWERS_BUFFERED);
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            let observed = tokio::select! {
                observed = until_stopped(&stopping, observe(&handle, &name, &answers)) => observed,
                () = answers.closed() => Ok(()),
            };
            if let Err(code) = observed {
                let _ = answers.send(Err(refusal::render(code))).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        note_leader(request.get_ref().leader.as_ref());
        let handle = self.admit(request.metadata()).await?;
        let leader = request.into_inner().leader;
        let leader = leader.ok_or(Code::MissingLeaderKey).map_err(refusal::render)?;
        let keys = KeyRange::single(leader.key.clone());
        let delete = CoreRequest::Delete(Delete { keys, prev_kv: false });
        let (revision, _) = while_leading(&handle, &leader, delete).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, revision));
        Ok(Response::new(ResignResponse { header }))
    }
}

fn note_leader(leader: Option<&LeaderKey>) {
    let Some(leader) = leader else { return };
    audit::note_target("election", &String::from_utf8_lossy(&leader.name));
    audit::note_key(&leader.key);
}

/// Executes a request on the key of a leader, if that still leads.
async fn while_leading(
    handle: &Handle,
    leader: &LeaderKey,
    what: CoreRequest,
) -> Result<(Revision, bool), Code> {
    let keys = KeyRange::single(leader.key.clone());
    let target = Target::Create(Revision(leader.rev));
    let compares = vec![Compare { keys, relation: Relation::Equal, target }];
    let txn = TypedRequest::of(Txn { compares, success: vec![what], failure: Vec::new() });
    txn.request().validate(&coord::Limits::default())?;
    let reply = handle.kv().submit(txn).await?;
    Ok((reply.revision, reply.body.succeeded))
}

type LeaderSender = mpsc::Sender<Result<LeaderResponse, Status>>;

/// Sends leaders until the observer goes away.
async fn observe(handle: &Handle, name: &Bytes, answers: &LeaderSender) -> Result<(), Code> {
    loop {
        let (mut revision, leader) = leader_of(handle, name).await?;
        let leader = match leader {
            Some(leader) => leader,
            None => {
                let leader = first_candidate(handle, name, revision).await?;
                revision = leader.mod_revision;
                leader
            }
        };
        let key = KeyRange::single(leader.key.clone());
        if answers.send(Ok(answer(handle, revision, leader))).await.is_err() {
            return Ok(());
        }
        let mut follow = KeyFollower::begin(handle, key, revision.next()).await?;
        loop {
            let (revision, event) = follow.next().await?;
            if event.deleted {
                break;
            }
            if answers.send(Ok(answer(handle, revision, event.kv))).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn first_candidate(handle: &Handle, name: &Bytes, since: Revision) -> Result<KeyValue, Code> {
    let mut follow = KeyFollower::begin(handle, lock_queue::keys_of(name), since.next()).await?;
    loop {
        let (_, event) = follow.next().await?;
        if !event.deleted {
            return Ok(event.kv);
        }
    }
}

async fn leader_of(handle: &Handle, name: &[u8]) -> Result<(Revision, Option<KeyValue>), Code> {
    let sort = Some(Sort { target: SortTarget::Create, order: Order::Ascending });
    let range = Range { limit: 1, sort, ..Range::of(lock_queue::keys_of(name)) };
    let mut reply = handle.kv().submit(range).await?;
    Ok((reply.revision, reply.body.kvs.pop()))
}

fn answer(handle: &Handle, revision: Revision, leader: KeyValue) -> LeaderResponse {
    let header = Some(call_context::header(handle, revision));
    LeaderResponse { header, kv: Some(kv::render_key_value(leader)) }
}

/// The lease is spelt at the end of the key.
fn lease_of(key: &[u8]) -> i64 {
    let hex = key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    std::str::from_utf8(hex).ok().and_then(|hex| i64::from_str_radix(hex, 16).ok()).unwrap_or(0)
}
