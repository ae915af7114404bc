//! Calls from node to node, so that each node tells of all, and passes on what the leader alone does: a call and its request, as
//! the services have them, go to the other node by the peer port, and its answer comes back.

use super::Inspector;
use base::{Code, NodeId};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use proto::althing::inspect::v1::{
    ClientsRequest, ClientsResponse, CompactionRequest, CompactionResponse, WatchesRequest, WatchesResponse,
};
use proto::etcdserverpb::{MoveLeaderRequest, MoveLeaderResponse};
use server::{InspectionAnswerer, InspectionTrouble};

/// The first byte of an answer. Nodes that do not know such questions answer with another.
const ANSWERED: u8 = 2;
const REFUSED: u8 = 3;

/// A call that a node answers about itself, or carries out.
pub trait InspectCall: Message + Default {
    type Answer: Message + Default;
    /// Names the call between nodes, for ever.
    const NUMBER: u8;

    fn run(self, inspector: &Inspector) -> impl Future<Output = Result<Self::Answer, Code>> + Send;
}

impl InspectCall for ClientsRequest {
    type Answer = ClientsResponse;
    const NUMBER: u8 = 1;

    fn run(self, inspector: &Inspector) -> impl Future<Output = Result<ClientsResponse, Code>> + Send {
        inspector.clients(self)
    }
}

impl InspectCall for WatchesRequest {
    type Answer = WatchesResponse;
    const NUMBER: u8 = 2;

    fn run(self, inspector: &Inspector) -> impl Future<Output = Result<WatchesResponse, Code>> + Send {
        inspector.watches(self)
    }
}

impl InspectCall for CompactionRequest {
    type Answer = CompactionResponse;
    const NUMBER: u8 = 3;

    fn run(self, inspector: &Inspector) -> impl Future<Output = Result<CompactionResponse, Code>> + Send {
        inspector.compaction()
    }
}

/// Begins what the caller then waits for: an answer comes at once or not at all.
impl InspectCall for MoveLeaderRequest {
    type Answer = MoveLeaderResponse;
    const NUMBER: u8 = 4;

    async fn run(self, inspector: &Inspector) -> Result<MoveLeaderResponse, Code> {
        inspector.handle.maintenance().begin_move_leader(NodeId(self.target_id))?;
        Ok(MoveLeaderResponse { header: None })
    }
}

impl Inspector {
    /// Asks a node, which may be this one.
    pub async fn ask<C: InspectCall>(&self, node: NodeId, call: C) -> Result<C::Answer, InspectionTrouble> {
        if node == self.handle.identity().member {
            return call.run(self).await.map_err(InspectionTrouble::Refused);
        }
        let mut question = BytesMut::new();
        question.put_u8(C::NUMBER);
        question.put(call.encode_to_vec().as_slice());
        let mut answer = self.handle.ask_inspection(node, &question).await?;
        match answer.try_get_u8() {
            Ok(ANSWERED) => C::Answer::decode(answer).map_err(|_| InspectionTrouble::Unable),
            Ok(REFUSED) => Err(InspectionTrouble::Unreachable("it could not answer".to_owned())),
            _ => Err(InspectionTrouble::Unable),
        }
    }

    async fn answer<C: InspectCall>(&self, request: Bytes) -> Option<Vec<u8>> {
        let answer = C::decode(request).ok()?.run(self).await.ok()?;
        let mut out = vec![ANSWERED];
        answer.encode(&mut out).ok()?;
        Some(out)
    }
}

/// Answers other nodes on threads that wait.
pub struct PeerInspections {
    pub inspector: Inspector,
    pub runtime: tokio::runtime::Handle,
}

impl InspectionAnswerer for PeerInspections {
    fn answer(&self, mut question: Bytes) -> Bytes {
        let Self { inspector, runtime } = self;
        let answer = match question.try_get_u8() {
            Ok(ClientsRequest::NUMBER) => runtime.block_on(inspector.answer::<ClientsRequest>(question)),
            Ok(WatchesRequest::NUMBER) => runtime.block_on(inspector.answer::<WatchesRequest>(question)),
            Ok(CompactionRequest::NUMBER) => {
                runtime.block_on(inspector.answer::<CompactionRequest>(question))
            }
            Ok(MoveLeaderRequest::NUMBER) => {
                runtime.block_on(inspector.answer::<MoveLeaderRequest>(question))
            }
            _ => None,
        };
        answer.unwrap_or_else(|| vec![REFUSED]).into()
    }
}
