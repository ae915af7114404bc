//! The decode limit: requests may be decoded if their decoded form is not far larger than their bytes.
//! Only a transaction, and records that are restored, can grow: an empty operation takes two bytes on the wire and two hundred in memory, so
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
    inspect: ClientsRequest, ClientsResponse, WatchPlace, WatchesRequest, WatchesResponse, LeasesRequest, LeasesResponse,
        CompactionRequest, CompactionResponse;
    v3lockpb: LockRequest, LockResponse, UnlockRequest, UnlockResponse;
    v3electionpb: CampaignRequest, CampaignResponse, LeaderRequest, LeaderResponse, ProclaimRequest,
        ProclaimResponse, ResignRequest, ResignResponse;
    lock: LockRequest, TryLockRequest, LockResponse, UnlockRequest, UnlockResponse, UpdateRequest, UpdateResponse, LeaseGrantRequest,
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

impl DecodeLimit for crate::althing::backup::v1::DescribeRequest {}
impl DecodeLimit for crate::althing::backup::v1::DescribeResponse {}
impl DecodeLimit for crate::althing::backup::v1::RowsRequest {}
impl DecodeLimit for crate::althing::backup::v1::RowsResponse {}
impl DecodeLimit for crate::althing::backup::v1::ElementsRequest {}
impl DecodeLimit for crate::althing::backup::v1::ElementsResponse {}
impl DecodeLimit for crate::althing::backup::v1::RestoreResponse {}

impl DecodeLimit for crate::althing::data::v1::GetRequest {}
impl DecodeLimit for crate::althing::data::v1::DeleteRequest {}
impl DecodeLimit for crate::althing::data::v1::ScanRequest {}
impl DecodeLimit for crate::althing::data::v1::CountRequest {}
impl DecodeLimit for crate::althing::data::v1::ElementsRequest {}
impl DecodeLimit for crate::althing::data::v1::WatchRequest {}
impl DecodeLimit for crate::althing::data::v1::WatchResponse {}
impl DecodeLimit for crate::althing::data::v1::CountResponse {}
impl DecodeLimit for crate::althing::data::v1::ElementsResponse {}
impl DecodeLimit for crate::althing::data::v1::DeleteRangeRequest {}
impl DecodeLimit for crate::althing::data::v1::DeleteRangeResponse {}
impl DecodeLimit for crate::althing::data::v1::GetResponse {}
impl DecodeLimit for crate::althing::data::v1::WriteResponse {}
impl DecodeLimit for crate::althing::data::v1::UpdateResponse {}
impl DecodeLimit for crate::althing::data::v1::BatchResponse {}
impl DecodeLimit for crate::althing::data::v1::ScanResponse {}

/// Metadata and elements take more memory than their bytes.
impl DecodeLimit for crate::althing::data::v1::PutRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        check_data(bytes, walk_data_put)
    }
}

impl DecodeLimit for crate::althing::data::v1::UpdateRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        check_data(bytes, walk_data_update)
    }
}

impl DecodeLimit for crate::althing::data::v1::BatchRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        check_data(bytes, |batch, parts_left| {
            for_each_message(batch, &mut |field, operation| match field {
                DATA_OPERATIONS => {
                    count_part(parts_left)?;
                    for_each_message(operation, &mut |field, request| match field {
                        DATA_PUT => walk_data_put(request, parts_left),
                        DATA_UPDATE => walk_data_update(request, parts_left),
                        _ => Ok(()),
                    })
                }
                _ => Ok(()),
            })
        })
    }
}

/// Fields of the requests of the DataService that hold parts, or messages in which they are.
const DATA_OPERATIONS: u64 = 2;
const DATA_PUT: u64 = 2;
const DATA_UPDATE: u64 = 4;
const PUT_VALUE: u64 = 3;
const PUT_METADATA: u64 = 6;
const UPDATE_OPERATION: u64 = 4;
const OPERATION_SET: u64 = 5;
const VALUE_ELEMENTS: u64 = 5;

fn check_data(
    bytes: &[u8],
    walk: impl FnOnce(&[u8], &mut usize) -> Result<(), WalkError>,
) -> Result<(), Status> {
    let mut parts_left = PARTS_MAX;
    walk(bytes, &mut parts_left).map_err(|refusal| match refusal {
        WalkError::Malformed => Status::internal("malformed protobuf in a request for data"),
        WalkError::TooManyParts | WalkError::TooDeep => refuse(Code::TooManyOps),
    })
}

fn count_part(parts_left: &mut usize) -> Result<(), WalkError> {
    *parts_left = parts_left.checked_sub(1).ok_or(WalkError::TooManyParts)?;
    Ok(())
}

fn walk_data_put(put: &[u8], parts_left: &mut usize) -> Result<(), WalkError> {
    for_each_message(put, &mut |field, part| match field {
        PUT_VALUE => walk_data_value(part, parts_left),
        PUT_METADATA => count_part(parts_left),
        _ => Ok(()),
    })
}

fn walk_data_update(update: &[u8], parts_left: &mut usize) -> Result<(), WalkError> {
    for_each_message(update, &mut |field, operation| match field {
        UPDATE_OPERATION => for_each_message(operation, &mut |field, value| match field {
            OPERATION_SET => walk_data_value(value, parts_left),
            _ => Ok(()),
        }),
        _ => Ok(()),
    })
}

fn walk_data_value(value: &[u8], parts_left: &mut usize) -> Result<(), WalkError> {
    for_each_message(value, &mut |field, elements| match field {
        VALUE_ELEMENTS => for_each_message(elements, &mut |_, _| count_part(parts_left)),
        _ => Ok(()),
    })
}

/// Records and their rows, which take memory also when they are empty.
impl DecodeLimit for crate::althing::backup::v1::RestoreRequest {
    fn check(bytes: &[u8]) -> Result<(), Status> {
        let mut parts_left = PARTS_MAX;
        let mut count = || {
            parts_left = parts_left.checked_sub(1).ok_or(WalkError::TooManyParts)?;
            Ok(())
        };
        let walked = for_each_message(bytes, &mut |field, record| match field {
            SAVED_RECORDS => {
                count()?;
                for_each_message(record, &mut |_, _| count())
            }
            _ => Ok(()),
        });
        walked.map_err(|_| refuse(Code::TooManyOps))
    }
}

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

/// The field of `RestoreRequest` that holds records.
const SAVED_RECORDS: u64 = 3;

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
