//! What is served of the Maintenance service: what this member knows of itself, and that there are no alarms.
//! Both read what the core published last and never wait, so they answer also when there is no leader.

use crate::ETCD_VERSION;
use crate::grpc::who;
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::maintenance_server::Maintenance;
use proto::etcdserverpb::{AlarmRequest, AlarmResponse, StatusRequest, StatusResponse};
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
    /// Nothing raises an alarm yet, so the list is empty; to raise or clear one is another matter.
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        if request.get_ref().action != AlarmAction::Get as i32 {
            return Err(Status::unimplemented("alarms are not kept by this version"));
        }
        let header = who::header(&self.handle, self.handle.status().revision);
        Ok(Response::new(AlarmResponse { header: Some(header), alarms: vec![] }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let status = self.handle.status();
        let errors = match status.leader {
            Some(_) => vec![],
            None => vec![base::Code::NoLeader.message().to_owned()],
        };
        Ok(Response::new(StatusResponse {
            header: Some(who::header(&self.handle, status.revision)),
            version: ETCD_VERSION.to_owned(),
            db_size: status.store_bytes as i64,
            leader: status.leader.map_or(0, |leader| leader.0),
            raft_index: status.committed.0,
            raft_term: status.term.0,
            raft_applied_index: status.applied.0,
            errors,
            ..StatusResponse::default()
        }))
    }
}
