//! Keys: reads, writes, transactions, compaction.

use crate::{AuthedChannel, Client, Error, Kind};
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};

impl Client {
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        let call = |channel| {
            let request = request.clone();
            async move { kv(channel).range(request).await }
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

/// The server bounds the size of its answers.
pub(crate) fn kv(line: AuthedChannel) -> KvClient<AuthedChannel> {
    KvClient::new(line).max_decoding_message_size(usize::MAX)
}
