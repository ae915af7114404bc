//! Calls of operators to single members: status, hashes, alarms, defragmentation, leadership.

use crate::{Client, Error, Kind};
use proto::etcdserverpb::maintenance_client::MaintenanceClient;
use proto::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DowngradeRequest, DowngradeResponse, HashKvRequest,
    HashKvResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest,
    StatusResponse,
};
use tonic::metadata::MetadataMap;
use tonic::{Response, Streaming};

/// A piece holds a value at least, which may be as large as a request.
const SNAPSHOT_PIECE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The outcome of a defragmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefragmentedBytes {
    pub before: u64,
    pub after: u64,
}

impl DefragmentedBytes {
    fn of(metadata: &MetadataMap) -> Option<DefragmentedBytes> {
        let read = |name| metadata.get(name)?.to_str().ok()?.parse().ok();
        Some(DefragmentedBytes { before: read(proto::BYTES_BEFORE)?, after: read(proto::BYTES_AFTER)? })
    }
}

impl Client {
    pub async fn status(&self) -> Result<StatusResponse, Error> {
        let call = |channel| async move { MaintenanceClient::new(channel).status(StatusRequest {}).await };
        self.call(Kind::Read, call).await
    }

    /// The hash of all keys as of this revision; 0 is the newest.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKvResponse, Error> {
        let request = HashKvRequest { revision };
        self.call(Kind::Read, |channel| async move { MaintenanceClient::new(channel).hash_kv(request).await })
            .await
    }

    /// What the called member's stores took of the disk before and what they take now; etcd does not say.
    pub async fn defragment(&self) -> Result<Option<DefragmentedBytes>, Error> {
        let call = |channel| async move {
            let answer = MaintenanceClient::new(channel).defragment(DefragmentRequest {}).await?;
            Ok(Response::new(DefragmentedBytes::of(answer.metadata())))
        };
        self.call(Kind::Write, call).await
    }

    pub async fn alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, Error> {
        self.call(Kind::Write, |channel| async move { MaintenanceClient::new(channel).alarm(request).await })
            .await
    }

    /// The pieces of a backup of the called member.
    pub async fn snapshot(&self) -> Result<Streaming<SnapshotResponse>, Error> {
        let (_, channel) = self.channel().await?;
        let mut client = MaintenanceClient::new(channel).max_decoding_message_size(SNAPSHOT_PIECE_BYTES_MAX);
        Ok(client.snapshot(SnapshotRequest {}).await?.into_inner())
    }

    pub async fn downgrade(&self, request: DowngradeRequest) -> Result<DowngradeResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { MaintenanceClient::new(channel).downgrade(request).await }
        };
        self.call(Kind::Write, call).await
    }

    /// Only the leader can do it: this client must speak to it alone.
    pub async fn move_leader(&self, target_id: u64) -> Result<MoveLeaderResponse, Error> {
        let request = MoveLeaderRequest { target_id };
        let call = |channel| async move { MaintenanceClient::new(channel).move_leader(request).await };
        self.call(Kind::Write, call).await
    }
}
