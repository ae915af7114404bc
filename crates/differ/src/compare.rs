//! What of an answer must be equal: everything but who answered, in which term, and how much time is left.

use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AuthDisableResponse, AuthEnableResponse, AuthRoleAddResponse, AuthRoleDeleteResponse,
    AuthRoleGetResponse, AuthRoleGrantPermissionResponse, AuthRoleListResponse,
    AuthRoleRevokePermissionResponse, AuthStatusResponse, AuthUserAddResponse,
    AuthUserChangePasswordResponse, AuthUserDeleteResponse, AuthUserGetResponse, AuthUserGrantRoleResponse,
    AuthUserListResponse, AuthUserRevokeRoleResponse, AuthenticateResponse, CompactionResponse,
    DeleteRangeResponse, LeaseGrantResponse, LeaseKeepAliveResponse, LeaseLeasesResponse,
    LeaseRevokeResponse, LeaseTimeToLiveResponse, PutResponse, RangeResponse, ResponseHeader, TxnResponse,
    WatchResponse,
};
use std::fmt::Debug;
use tonic::Status;

/// An answer, reduced to what must be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparableAnswer {
    pub text: String,
    /// The newest revision, when the answer has it.
    pub revision: Option<i64>,
}

pub trait Answer: Debug {
    fn header(&mut self) -> &mut Option<ResponseHeader>;

    /// Makes equal what may differ.
    fn normalize(&mut self) {}
}

macro_rules! answers {
    ($($answer:ty $({ $normalize:expr })?;)*) => {$(
        impl Answer for $answer {
            fn header(&mut self) -> &mut Option<ResponseHeader> {
                &mut self.header
            }
            $(fn normalize(&mut self) {
                let normalize: fn(&mut $answer) = $normalize;
                normalize(self);
            })?
        }
    )*};
}

answers! {
    RangeResponse { forget_leases_of_keys };
    PutResponse;
    DeleteRangeResponse;
    TxnResponse { forget_leases_of_keys_in_txn };
    CompactionResponse;
    LeaseGrantResponse;
    LeaseRevokeResponse;
    LeaseKeepAliveResponse;
    AuthEnableResponse;
    AuthDisableResponse;
    AuthStatusResponse;
    // Each gives a token of its own.
    AuthenticateResponse { |answer| answer.token.truncate(0) };
    AuthUserAddResponse;
    AuthUserGetResponse;
    AuthUserListResponse;
    AuthUserDeleteResponse;
    AuthUserChangePasswordResponse;
    AuthUserGrantRoleResponse;
    AuthUserRevokeRoleResponse;
    AuthRoleAddResponse;
    AuthRoleGetResponse;
    AuthRoleListResponse;
    AuthRoleDeleteResponse;
    AuthRoleGrantPermissionResponse;
    AuthRoleRevokePermissionResponse;
    // Two clocks, and keys in any order (deviation 21).
    LeaseTimeToLiveResponse { |answer| {
        answer.ttl = answer.ttl.signum();
        answer.keys.sort();
    } };
    // Deviation 21: in any order.
    LeaseLeasesResponse { |answer| answer.leases.sort_by_key(|lease| lease.id) };
    // Deviation 26: etcd sends no revision with a compaction.
    WatchResponse { |answer| if answer.compact_revision != 0 { answer.header = None } };
}

/// Deviation 27: keys without values come without leases.
fn forget_leases_of_keys(answer: &mut RangeResponse) {
    answer.kvs.iter_mut().filter(|kv| kv.value.is_empty()).for_each(|kv| kv.lease = 0);
}

fn forget_leases_of_keys_in_txn(answer: &mut TxnResponse) {
    for op in &mut answer.responses {
        match &mut op.response {
            Some(Response::ResponseRange(range)) => forget_leases_of_keys(range),
            Some(Response::ResponseTxn(txn)) => forget_leases_of_keys_in_txn(txn),
            _ => {}
        }
    }
}

pub fn essence<T: Answer>(outcome: Result<T, Status>) -> ComparableAnswer {
    match outcome {
        Ok(mut answer) => {
            answer.normalize();
            let revision = answer.header().map(|header| header.revision);
            *answer.header() = revision.map(|revision| ResponseHeader { revision, ..Default::default() });
            ComparableAnswer { text: format!("{answer:?}"), revision }
        }
        Err(status) => refusal(&status),
    }
}

pub fn refusal(status: &Status) -> ComparableAnswer {
    ComparableAnswer { text: format!("{:?}: {}", status.code(), status.message()), revision: None }
}

/// Of what cannot be decoded, each library has its own error text.
pub fn code_alone(status: &Status) -> ComparableAnswer {
    ComparableAnswer { text: format!("{:?}", status.code()), revision: None }
}
