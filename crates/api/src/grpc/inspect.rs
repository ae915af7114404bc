//! The InspectService: clients, watches, leases and what pins compaction, for root. Permitted by what this member
//! knows, so that it is answered also without a leader, but for leases, whose time only the leader counts.

use crate::grpc::{call_context, refusal};
use crate::inspect::Inspector;
use proto::althing::inspect::v1::inspect_service_server::InspectService;
use proto::althing::inspect::v1::{
    ClientsRequest, ClientsResponse, CompactionRequest, CompactionResponse, LeasesRequest, LeasesResponse,
    WatchesRequest, WatchesResponse,
};
use server::RequiredAccess;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

pub struct InspectApi {
    inspector: Inspector,
}

impl InspectApi {
    pub fn new(inspector: Inspector) -> InspectApi {
        InspectApi { inspector }
    }

    async fn require_root(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let handle = call_context::admit(&self.inspector.handle, metadata).await?;
        handle.auth().permit_here(RequiredAccess::Root).await.map_err(refusal::render)
    }
}

#[tonic::async_trait]
impl InspectService for InspectApi {
    async fn clients(&self, request: Request<ClientsRequest>) -> Result<Response<ClientsResponse>, Status> {
        self.require_root(request.metadata()).await?;
        let clients = self.inspector.clients(request.into_inner()).await;
        clients.map(Response::new).map_err(refusal::render)
    }

    async fn watches(&self, request: Request<WatchesRequest>) -> Result<Response<WatchesResponse>, Status> {
        self.require_root(request.metadata()).await?;
        let watches = self.inspector.watches(request.into_inner()).await;
        watches.map(Response::new).map_err(refusal::render)
    }

    async fn leases(&self, request: Request<LeasesRequest>) -> Result<Response<LeasesResponse>, Status> {
        self.require_root(request.metadata()).await?;
        let leases = self.inspector.leases(request.into_inner()).await;
        leases.map(Response::new).map_err(refusal::render)
    }

    async fn compaction(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        self.require_root(request.metadata()).await?;
        self.inspector.compaction().await.map(Response::new).map_err(refusal::render)
    }
}
