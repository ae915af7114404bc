//! One request to both servers.

use crate::auth::AuthCall;
use bytes::Bytes;
use proto::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, TxnRequest, WatchCreateRequest,
};

#[derive(Clone, Debug)]
pub enum TestCall {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Grant(LeaseGrantRequest),
    Revoke(i64),
    KeepAlive(i64),
    TimeToLive(LeaseTimeToLiveRequest),
    Leases,
    Auth(AuthCall),
    /// Bytes that no honest client would send; only the code of the refusal is compared.
    Malformed {
        path: &'static str,
        message: Bytes,
    },
}

/// Requests on one of the streams of watches.
#[derive(Clone, Debug)]
pub enum WatchCall {
    Create(WatchCreateRequest),
    /// One of the watches of the stream, by its position in the order of ids, or one that does not exist.
    Cancel {
        nth: u64,
    },
    Progress,
}

/// What is sent at once. Reads do not depend on their order; everything else comes alone.
#[derive(Clone, Debug)]
pub enum Step {
    Reads(Vec<TestCall>),
    Alone(TestCall),
    Watch {
        stream: usize,
        ask: WatchCall,
    },
    /// A lease that would expire soon is revoked before it can.
    ShortLease(LeaseGrantRequest),
}

impl Step {
    /// How many operations it counts for.
    pub fn len(&self) -> u64 {
        match self {
            Step::Reads(reads) => reads.len() as u64,
            Step::Alone(_) | Step::Watch { .. } => 1,
            Step::ShortLease(_) => 2,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
