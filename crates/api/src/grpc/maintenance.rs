//! The Maintenance service: this member's status, hashes to compare members by, alarms, backups, and
//! transfers of leadership. Calls that read published state never wait, so they are answered also without a
//! leader.

use crate::ETCD_VERSION;
use crate::audit;
use crate::grpc::{alarm, call_context, downgrade, refusal, snapshot};
use base::{Code, NodeId, Revision};
use coord::AlarmCommand;
use proto::etcdserverpb::maintenance_server::Maintenance;
use proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeRequest, DowngradeResponse,
    HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse,
    ResponseHeader, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use server::{Handle, KeyHash, RequiredAccess};
use tonic::codegen::BoxStream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Request, Response, Status};

/// For operators who ask how a member is.
const OPEN_PEERS: &str =
    "peer port is open: members do not authenticate to each other, and other machines can connect to it";

/// What an empty store has in use.
const PAGE_BYTES: u64 = 4096;

pub struct MaintenanceService {
    handle: Handle,
}

impl MaintenanceService {
    pub fn new(handle: Handle) -> MaintenanceService {
        MaintenanceService { handle }
    }

    fn header(&self) -> Option<ResponseHeader> {
        Some(call_context::header(&self.handle, self.handle.status().revision))
    }

    async fn check_root(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let handle = call_context::admit(&self.handle, metadata).await?;
        handle.auth().permit(RequiredAccess::Root).await.map_err(refusal::render)
    }

    /// The revision to hash: the newest, or one that is still there.
    fn hashed_revision(&self, asked: i64) -> Result<Revision, Code> {
        let status = self.handle.status();
        match Revision(asked) {
            Revision::ZERO => Ok(status.revision),
            asked if asked < status.compacted.max(Revision::ZERO) => Err(Code::Compacted),
            asked if asked > status.revision => Err(Code::FutureRevision),
            asked => Ok(asked),
        }
    }
}

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let wanted = alarm::parse(request.get_ref())?;
        let command = wanted.command();
        match command {
            Some(AlarmCommand::List) => {
                audit::note_read();
                call_context::require_user(&self.handle, request.metadata()).await?
            }
            _ => {
                audit::note_id("member", request.get_ref().member_id);
                let handle = call_context::admit(&self.handle, request.metadata()).await?;
                handle.auth().permit_agreed(RequiredAccess::Root).await.map_err(refusal::render)?;
            }
        }
        let Some(command) = command else {
            return Ok(Response::new(AlarmResponse { header: self.header(), alarms: vec![] }));
        };
        let reply = self.handle.maintenance().alarm(command).await.map_err(refusal::render)?;
        let header = Some(call_context::header(&self.handle, reply.revision));
        Ok(Response::new(AlarmResponse { header, alarms: wanted.render(&reply.body) }))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        call_context::require_user(&self.handle, request.metadata()).await?;
        let status = self.handle.status();
        let mut errors = vec![];
        if status.leader.is_none() {
            errors.push(Code::NoLeader.message().to_owned());
        }
        errors.extend(alarm::describe_all(&self.handle.maintenance().known_alarms()));
        errors.extend(self.handle.members().waits_for().iter().map(describe_waiting));
        if self.handle.peer_port().is_open() {
            errors.push(OPEN_PEERS.to_owned());
        }
        Ok(Response::new(StatusResponse {
            header: Some(call_context::header(&self.handle, status.revision)),
            version: ETCD_VERSION.to_owned(),
            db_size: status.store_bytes as i64,
            leader: status.leader.map_or(0, |leader| leader.0),
            raft_index: status.committed.0,
            raft_term: status.term.0,
            raft_applied_index: status.applied.0,
            errors,
            // What is not flushed yet counts, and an empty store has a page.
            db_size_in_use: status.stored_bytes.max(PAGE_BYTES) as i64,
            is_learner: self.handle.members().is_learner(),
            storage_version: ETCD_VERSION.to_owned(),
            db_size_quota: status.quota_bytes as i64,
            downgrade_info: Some(downgrade::info(&self.handle)),
        }))
    }

    async fn defragment(
        &self,
        request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let report = self.handle.maintenance().defragment().await.map_err(refusal::render)?;
        // As etcd answers it; it has no field for what was gained.
        let mut response = Response::new(DefragmentResponse { header: None });
        let metadata = response.metadata_mut();
        metadata.insert(proto::BYTES_BEFORE, MetadataValue::from(report.before_bytes));
        metadata.insert(proto::BYTES_AFTER, MetadataValue::from(report.after_bytes));
        Ok(response)
    }

    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let hash = self.handle.maintenance().state_hash();
        Ok(Response::new(HashResponse { header: self.header(), hash: (hash ^ (hash >> 32)) as u32 }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let revision = self.hashed_revision(request.get_ref().revision).map_err(refusal::render)?;
        let KeyHash { hash, compacted } =
            self.handle.maintenance().hash_keys(revision).await.map_err(refusal::render)?;
        Ok(Response::new(HashKvResponse {
            header: self.header(),
            hash,
            compact_revision: if compacted == Revision::ZERO { -1 } else { compacted.0 },
            hash_revision: revision.0,
        }))
    }

    type SnapshotStream = BoxStream<SnapshotResponse>;

    async fn snapshot(
        &self,
        request: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        self.check_root(request.metadata()).await?;
        Ok(Response::new(snapshot::stream(&self.handle).await.map_err(refusal::render)?))
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        audit::note_id("member", request.get_ref().target_id);
        self.check_root(request.metadata()).await?;
        let target = NodeId(request.get_ref().target_id);
        self.handle.maintenance().move_leader(target).await.map_err(refusal::render)?;
        // As etcd answers it.
        Ok(Response::new(MoveLeaderResponse { header: None }))
    }

    async fn downgrade(
        &self,
        request: Request<DowngradeRequest>,
    ) -> Result<Response<DowngradeResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let version = downgrade::run(&self.handle, request.get_ref()).await?;
        Ok(Response::new(DowngradeResponse { header: self.header(), version }))
    }
}

fn describe_waiting(member: &NodeId) -> String {
    format!("in doubt of its log: waits for member {:x} (see `althing member accept-loss`)", member.0)
}
