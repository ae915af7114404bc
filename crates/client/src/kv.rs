//! Keys: reads, writes, transactions, compaction.

use crate::{AuthedChannel, Client, Error, Kind};
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use tonic::Response;

impl Client {
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { kv(channel).range(request).await }
        };
        self.call(Kind::Read, call).await
    }

    /// The answer of `range`, joined from the pieces in which the member sends it.
    pub async fn range_stream(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move {
                let mut pieces = kv(channel).range_stream(request).await?.into_inner();
                let mut whole = RangeResponse::default();
                while let Some(piece) = pieces.message().await? {
                    join(&mut whole, piece.range_response.unwrap_or_default());
                }
                Ok(Response::new(whole))
            }
        };
        self.call(Kind::Read, call).await
    }

    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { kv(channel).put(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn delete(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { kv(channel).delete_range(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { kv(channel).txn(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Error> {
        self.call(Kind::Write, |channel| async move { kv(channel).compact(request).await }).await
    }
}

/// As protobuf merges messages.
fn join(whole: &mut RangeResponse, piece: RangeResponse) {
    whole.header = piece.header.or(whole.header);
    whole.kvs.extend(piece.kvs);
    whole.more |= piece.more;
    if piece.count != 0 {
        whole.count = piece.count;
    }
}

/// The server bounds the size of its answers.
pub(crate) fn kv(line: AuthedChannel) -> KvClient<AuthedChannel> {
    KvClient::new(line).max_decoding_message_size(usize::MAX)
}
