//! The decode limit: requests may be decoded if their decoded form is not far larger than their bytes.
//! Only a transaction can grow: an empty operation takes two bytes on the wire and two hundred in memory, so
//! its tree is walked and counted first. The walk allocates nothing.

use crate::etcdserverpb::{
    AlarmRequest, AlarmResponse, CompactionRequest, CompactionResponse, DeleteRangeRequest,
    DeleteRangeResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    RangeStreamResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse, WatchRequest, WatchResponse,
};
use base::Code;
use base::code::GrpcCode;
use tonic::Status;

/// Compares and operations, of both branches and nested transactions together. Decoded, as many take about
/// as much memory as the largest message has bytes.
const PARTS_MAX: usize = 16_384;
/// Transactions within transactions that are walked; prost gives up at twice as many messages.
const DEPTH_MAX: usize = 48;

/// The leases that one stream of events may name.
const EVENTS_REQUEST_BYTES_MAX: usize = 64 * 1024;

/// A message that can tell from its bytes that it must not be decoded.
pub trait DecodeLimit {
    fn check(_bytes: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

impl DecodeLimit for RangeRequest {}
impl DecodeLimit for PutRequest {}
impl DecodeLimit for DeleteRangeRequest {}
impl DecodeLimit for CompactionRequest {}
impl DecodeLimit for AlarmRequest {}
impl DecodeLimit for StatusRequest {}
impl DecodeLimit for WatchRequest {}
impl DecodeLimit for LeaseGrantRequest {}
impl DecodeLimit for LeaseRevokeRequest {}
impl DecodeLimit for LeaseKeepAliveRequest {}
impl DecodeLimit for LeaseTimeToLiveRequest {}
impl DecodeLimit for LeaseLeasesRequest {}

/// A client trusts the server it calls.
macro_rules! trusted {
    ($($response:ty),*) => { $(impl DecodeLimit for $response {})* };
}

trusted!(
    RangeResponse,
    RangeStreamResponse,
    PutResponse,
    DeleteRangeResponse,
    TxnResponse,
    CompactionResponse,
    AlarmResponse,
    StatusResponse,
    WatchResponse,
    LeaseGrantResponse,
    LeaseRevokeResponse,
    LeaseKeepAliveResponse,
    LeaseTimeToLiveResponse,
    LeaseLeasesResponse
);

/// Requests of a few fields, none of which holds others, and what is answered to them.
macro_rules! flat {
    ($($service:ident: $($message:ident),*;)*) => {
        $($(impl DecodeLimit for crate::$service::$message {})*)*
    };
}

flat! {
    etcdserverpb: DefragmentRequest, HashRequest, HashKvRequest, SnapshotRequest, MoveLeaderRequest,
        DowngradeRequest;
    etcdserverpb: DefragmentResponse, HashResponse, HashKvResponse, SnapshotResponse, MoveLeaderResponse,
        DowngradeResponse;
    etcdserverpb: MemberAddRequest, MemberRemoveRequest, MemberUpdateRequest, MemberListRequest,
        MemberPromoteRequest;
    etcdserverpb: MemberAddResponse, MemberRemoveResponse, MemberUpdateResponse, MemberListResponse,
        MemberPromoteResponse;
    etcdserverpb: AuthEnableRequest, AuthDisableRequest, AuthStatusRequest, AuthenticateRequest, AuthUserAddRequest, AuthUserGetRequest, AuthUserListRequest, AuthUserDeleteRequest, AuthUserChangePasswordRequest, AuthUserGrantRoleRequest, AuthUserRevokeRoleRequest, AuthRoleAddRequest, AuthRoleGetRequest, AuthRoleListRequest, AuthRoleDeleteRequest, AuthRoleGrantPermissionRequest, AuthRoleRevokePermissionRequest;
    etcdserverpb: AuthEnableResponse, AuthDisableResponse, AuthStatusResponse, AuthenticateResponse, AuthUserAddResponse, AuthUserGetResponse, AuthUserListResponse, AuthUserDeleteResponse, AuthUserChangePasswordResponse, AuthUserGrantRoleResponse, AuthUserRevokeRoleResponse, AuthRoleAddResponse, AuthRoleGetResponse, AuthRoleListResponse, AuthRoleDeleteResponse, AuthRoleGrantPermissionResponse, AuthRoleRevokePermissionResponse;
    data_auth: RoleGrantDataRequest, RoleGrantDataResponse, RoleRevokeDataRequest, RoleRevokeDataResponse,
        RoleGetDataRequest, RoleGetDataResponse;
    health: HealthCheckRequest, HealthCheckResponse;
    inspect: ClientsRequest, ClientsResponse, WatchesRequest, WatchesResponse, LeasesRequest, LeasesResponse,
        CompactionRequest, CompactionResponse;
    v3lockpb: LockRequest, LockResponse, UnlockRequest, UnlockResponse;
    v3electionpb: CampaignRequest, CampaignResponse, LeaderRequest, LeaderResponse, ProclaimRequest,
        ProclaimResponse, ResignRequest, ResignResponse;
    lock: LockRequest, TryLockRequest, LockResponse, UnlockRequest, UnlockResponse, LeaseGrantRequest,
        LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseKeepAliveRequest,
        LeaseKeepAliveResponse, WatchRequest, WatchResponse, InspectRequest, InspectResponse, ListRequest,
        ListResponse, FenceRequest, FenceResponse;
}

/// A packed number takes one byte on the wire and eight in memory.
impl DecodeLimit for crate::althing::lease::v1::EventsRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        if bytes.len() <= EVENTS_REQUEST_BYTES_MAX { Ok(()) } else { Err(refuse(Code::TooManyOps)) }
    }
}

impl DecodeLimit for crate::althing::lease::v1::EventsResponse {}

impl DecodeLimit for crate::althing::store::v1::HistoryRequest {}
impl DecodeLimit for crate::althing::store::v1::HistoryResponse {}
impl DecodeLimit for crate::althing::store::v1::QuotaRequest {}
impl DecodeLimit for crate::althing::store::v1::ReplaceMemberRequest {}
impl DecodeLimit for crate::althing::store::v1::ReplaceMemberResponse {}
impl DecodeLimit for crate::althing::store::v1::QuotaResponse {}
impl DecodeLimit for crate::althing::store::v1::AcceptLossRequest {}
impl DecodeLimit for crate::althing::store::v1::AcceptLossResponse {}
impl DecodeLimit for crate::althing::store::v1::CreateJoinTokenRequest {}
impl DecodeLimit for crate::althing::store::v1::CreateJoinTokenResponse {}
impl DecodeLimit for crate::althing::store::v1::SecurePeersRequest {}
impl DecodeLimit for crate::althing::store::v1::SecurePeersResponse {}

impl DecodeLimit for TxnRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        let mut parts_left = PARTS_MAX;
        walk_txn(bytes, DEPTH_MAX, &mut parts_left).map_err(|refusal| match refusal {
            WalkError::Malformed => Status::internal("malformed protobuf in a transaction"),
            WalkError::TooManyParts => refuse(Code::TooManyOps),
            WalkError::TooDeep => refuse(Code::TxnTooDeep),
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum WalkError {
    Malformed,
    TooManyParts,
    TooDeep,
}

fn refuse(code: Code) -> Status {
    const { assert!(matches!(Code::TooManyOps.grpc(), GrpcCode::InvalidArgument)) };
    const { assert!(matches!(Code::TxnTooDeep.grpc(), GrpcCode::InvalidArgument)) };
    Status::invalid_argument(code.message())
}

/// Fields of `TxnRequest` that hold parts, and the one of `RequestOp` that nests.
const COMPARE: u64 = 1;
const SUCCESS: u64 = 2;
const FAILURE: u64 = 3;
const NESTED_TXN: u64 = 4;

fn walk_txn(bytes: &[u8], depth_left: usize, parts_left: &mut usize) -> Result<(), WalkError> {
    let depth_left = depth_left.checked_sub(1).ok_or(WalkError::TooDeep)?;
    for_each_message(bytes, &mut |field, part| {
        if !matches!(field, COMPARE | SUCCESS | FAILURE) {
            return Ok(());
        }
        *parts_left = parts_left.checked_sub(1).ok_or(WalkError::TooManyParts)?;
        if field == COMPARE {
            return Ok(());
        }
        for_each_message(part, &mut |field, txn| match field {
            NESTED_TXN => walk_txn(txn, depth_left, parts_left),
            _ => Ok(()),
        })
    })
}

/// Visits the length-delimited fields of one message and passes over the others. Groups, which no proto3
/// schema has, count as malformed: their content could not be counted.
fn for_each_message<'a>(
    mut bytes: &'a [u8],
    visit: &mut dyn FnMut(u64, &'a [u8]) -> Result<(), WalkError>,
) -> Result<(), WalkError> {
    while !bytes.is_empty() {
        let key = take_varint(&mut bytes)?;
        match key & 7 {
            0 => drop(take_varint(&mut bytes)?),
            1 => drop(take(&mut bytes, 8)?),
            2 => {
                let len = take_varint(&mut bytes)?;
                let part = take(&mut bytes, usize::try_from(len).map_err(|_| WalkError::Malformed)?)?;
                visit(key >> 3, part)?;
            }
            5 => drop(take(&mut bytes, 4)?),
            _ => return Err(WalkError::Malformed),
        }
    }
    Ok(())
}

fn take_varint(bytes: &mut &[u8]) -> Result<u64, WalkError> {
    prost::encoding::decode_varint(bytes).map_err(|_| WalkError::Malformed)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], WalkError> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(WalkError::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests;
