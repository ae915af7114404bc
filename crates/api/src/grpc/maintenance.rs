//! The one call of the Maintenance service that is served: what this member knows of itself.
//! It reads what the core published last and never waits, so it answers also when there is no leader.

use crate::ETCD_VERSION;
use crate::grpc::who;
use proto::etcdserverpb::maintenance_server::Maintenance;
use proto::etcdserverpb::{StatusRequest, StatusResponse};
use server::Handle;
use tonic::{Request, Response, Status};

pub struct MaintenanceService {
    handle: Handle,
}

impl MaintenanceService {
    pub fn new(handle: Handle) -> MaintenanceService {
        MaintenanceService { handle }
    }
}

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let status = self.handle.status();
        let errors = match status.leader {
            Some(_) => vec![],
            None => vec![base::Code::NoLeader.message().to_owned()],
        };
        Ok(Response::new(StatusResponse {
            header: Some(who::header(&self.handle, status.revision)),
            version: ETCD_VERSION.to_owned(),
            leader: status.leader.map_or(0, |leader| leader.0),
            raft_index: status.committed.0,
            raft_term: status.term.0,
            raft_applied_index: status.applied.0,
            errors,
            ..StatusResponse::default()
        }))
    }
}
