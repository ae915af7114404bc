//! Every call with a message and who may make it.

use super::{BOTH, DATA_READ, DATA_WRITE, READ, ROOT, USER, WRITE, Who};
use bytes::Bytes;
use prost::Message;
use proto::althing::auth::v1 as data_auth;
use proto::althing::backup::v1 as saved;
use proto::althing::data::v1 as data;
use proto::althing::lease::v1 as lease_events;
use proto::althing::lock::v1 as lock;
use proto::althing::store::v1 as store;
use proto::etcdserverpb as etcd;
use proto::{health, inspect, v3electionpb as election, v3lockpb as v3lock};

pub fn bytes(message: impl Message) -> Bytes {
    message.encode_to_vec().into()
}

const KEY: Bytes = Bytes::from_static(b"a1");
/// Of no user, role, member or lease.
const NAME: &str = "no-such";
const ID: u64 = 77;
/// There is one of this number, and locks are held by it.
pub const LEASE: i64 = 88;

/// Every call with a message and who may make it. What would change who may what, or who is there, names what is not there:
/// who may is told that, and who may not is told so first.
pub fn calls() -> Vec<(&'static str, Bytes, Who)> {
    let name = || NAME.to_owned();
    let leader = || Some(election::LeaderKey { name: KEY, key: KEY, rev: 1, lease: 7 });
    let range = || etcd::RangeRequest { key: KEY, ..Default::default() };
    let put = etcd::PutRequest { key: KEY, value: KEY, ..Default::default() };
    let op = |request| etcd::RequestOp { request: Some(request) };
    let txn = etcd::TxnRequest {
        success: vec![
            op(etcd::request_op::Request::RequestPut(put.clone())),
            op(etcd::request_op::Request::RequestRange(range())),
        ],
        ..Default::default()
    };
    let create = etcd::WatchCreateRequest { key: KEY, ..Default::default() };
    let union = Some(etcd::watch_request::RequestUnion::CreateRequest(create));
    vec![
        ("/etcdserverpb.KV/Range", bytes(range()), READ),
        ("/etcdserverpb.KV/RangeStream", bytes(range()), READ),
        ("/etcdserverpb.KV/Put", bytes(put), WRITE),
        (
            "/etcdserverpb.KV/DeleteRange",
            bytes(etcd::DeleteRangeRequest { key: KEY, ..Default::default() }),
            WRITE,
        ),
        ("/etcdserverpb.KV/Txn", bytes(txn), BOTH),
        (
            "/etcdserverpb.KV/Compact",
            bytes(etcd::CompactionRequest { revision: 1 << 40, physical: false }),
            ROOT,
        ),
        ("/etcdserverpb.Watch/Watch", bytes(etcd::WatchRequest { request_union: union }), READ),
        ("/etcdserverpb.Lease/LeaseGrant", bytes(etcd::LeaseGrantRequest { ttl: 600, id: 0 }), USER),
        ("/etcdserverpb.Lease/LeaseRevoke", bytes(etcd::LeaseRevokeRequest { id: 77 }), USER),
        ("/etcdserverpb.Lease/LeaseKeepAlive", bytes(etcd::LeaseKeepAliveRequest { id: 77 }), USER),
        (
            "/etcdserverpb.Lease/LeaseTimeToLive",
            bytes(etcd::LeaseTimeToLiveRequest { id: 77, keys: true }),
            USER,
        ),
        ("/etcdserverpb.Lease/LeaseLeases", bytes(etcd::LeaseLeasesRequest {}), USER),
        ("/etcdserverpb.Cluster/MemberList", bytes(etcd::MemberListRequest { linearizable: false }), USER),
        (
            "/etcdserverpb.Cluster/MemberAdd",
            bytes(etcd::MemberAddRequest { peer_ur_ls: vec![name()], is_learner: true }),
            ROOT,
        ),
        ("/etcdserverpb.Cluster/MemberRemove", bytes(etcd::MemberRemoveRequest { id: ID }), ROOT),
        (
            "/etcdserverpb.Cluster/MemberUpdate",
            bytes(etcd::MemberUpdateRequest { id: ID, ..Default::default() }),
            ROOT,
        ),
        ("/etcdserverpb.Cluster/MemberPromote", bytes(etcd::MemberPromoteRequest { id: ID }), ROOT),
        ("/etcdserverpb.Maintenance/Alarm", bytes(etcd::AlarmRequest::default()), USER),
        (
            "/etcdserverpb.Maintenance/Alarm",
            bytes(change_alarm(etcd::alarm_request::AlarmAction::Activate)),
            ROOT,
        ),
        (
            "/etcdserverpb.Maintenance/Alarm",
            bytes(change_alarm(etcd::alarm_request::AlarmAction::Deactivate)),
            ROOT,
        ),
        ("/etcdserverpb.Maintenance/Status", bytes(etcd::StatusRequest {}), USER),
        ("/etcdserverpb.Maintenance/Defragment", bytes(etcd::DefragmentRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/Hash", bytes(etcd::HashRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/HashKV", bytes(etcd::HashKvRequest { revision: 0 }), ROOT),
        ("/etcdserverpb.Maintenance/Snapshot", bytes(etcd::SnapshotRequest {}), ROOT),
        ("/etcdserverpb.Maintenance/MoveLeader", bytes(etcd::MoveLeaderRequest { target_id: ID }), ROOT),
        ("/etcdserverpb.Maintenance/Downgrade", bytes(etcd::DowngradeRequest::default()), ROOT),
        ("/etcdserverpb.Auth/AuthStatus", bytes(etcd::AuthStatusRequest {}), Who::NoCredentials),
        ("/etcdserverpb.Auth/Authenticate", bytes(etcd::AuthenticateRequest::default()), Who::Anyone),
        ("/etcdserverpb.Auth/AuthEnable", bytes(etcd::AuthEnableRequest {}), ROOT),
        ("/etcdserverpb.Auth/AuthDisable", bytes(etcd::AuthDisableRequest {}), ROOT),
        (
            "/etcdserverpb.Auth/UserAdd",
            bytes(etcd::AuthUserAddRequest {
                name: "root".to_owned(),
                password: name(),
                ..Default::default()
            }),
            ROOT,
        ),
        ("/etcdserverpb.Auth/UserGet", bytes(etcd::AuthUserGetRequest { name: name() }), ROOT),
        ("/etcdserverpb.Auth/UserList", bytes(etcd::AuthUserListRequest {}), ROOT),
        ("/etcdserverpb.Auth/UserDelete", bytes(etcd::AuthUserDeleteRequest { name: name() }), ROOT),
        (
            "/etcdserverpb.Auth/UserChangePassword",
            bytes(etcd::AuthUserChangePasswordRequest { name: name(), password: name() }),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/UserGrantRole",
            bytes(etcd::AuthUserGrantRoleRequest { user: name(), role: name() }),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/UserRevokeRole",
            bytes(etcd::AuthUserRevokeRoleRequest { name: name(), role: name() }),
            ROOT,
        ),
        ("/etcdserverpb.Auth/RoleAdd", bytes(etcd::AuthRoleAddRequest::default()), ROOT),
        ("/etcdserverpb.Auth/RoleGet", bytes(etcd::AuthRoleGetRequest { role: name() }), ROOT),
        ("/etcdserverpb.Auth/RoleList", bytes(etcd::AuthRoleListRequest {}), ROOT),
        ("/etcdserverpb.Auth/RoleDelete", bytes(etcd::AuthRoleDeleteRequest { role: name() }), ROOT),
        (
            "/etcdserverpb.Auth/RoleGrantPermission",
            bytes(etcd::AuthRoleGrantPermissionRequest::default()),
            ROOT,
        ),
        (
            "/etcdserverpb.Auth/RoleRevokePermission",
            bytes(etcd::AuthRoleRevokePermissionRequest { role: name(), ..Default::default() }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleGrantData",
            bytes(data_auth::RoleGrantDataRequest {
                role: name(),
                permission: Some(data_auth::DataPermission { namespace: name(), ..Default::default() }),
            }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleRevokeData",
            bytes(data_auth::RoleRevokeDataRequest { role: name(), namespace: name(), ..Default::default() }),
            ROOT,
        ),
        (
            "/althing.auth.v1.DataAuth/RoleGetData",
            bytes(data_auth::RoleGetDataRequest { role: name() }),
            ROOT,
        ),
        ("/v3lockpb.Lock/Lock", bytes(v3lock::LockRequest { name: KEY, lease: LEASE }), BOTH),
        ("/v3lockpb.Lock/Unlock", bytes(v3lock::UnlockRequest { key: KEY }), WRITE),
        (
            "/v3electionpb.Election/Campaign",
            bytes(election::CampaignRequest { name: KEY, lease: LEASE, value: KEY }),
            BOTH,
        ),
        (
            "/v3electionpb.Election/Proclaim",
            bytes(election::ProclaimRequest { leader: leader(), value: KEY }),
            BOTH,
        ),
        ("/v3electionpb.Election/Leader", bytes(election::LeaderRequest { name: KEY }), READ),
        ("/v3electionpb.Election/Observe", bytes(election::LeaderRequest { name: KEY }), READ),
        ("/v3electionpb.Election/Resign", bytes(election::ResignRequest { leader: leader() }), BOTH),
        (
            "/althing.lock.v1.LockService/Lock",
            bytes(lock::LockRequest { name: "a1".into(), lease_id: LEASE, ..Default::default() }),
            BOTH,
        ),
        (
            "/althing.lock.v1.LockService/TryLock",
            bytes(lock::TryLockRequest { name: "a1".into(), lease_id: LEASE, ..Default::default() }),
            BOTH,
        ),
        (
            "/althing.lock.v1.LockService/Unlock",
            bytes(lock::UnlockRequest { key: "a1".into(), ..Default::default() }),
            WRITE,
        ),
        (
            "/althing.lock.v1.LockService/Update",
            bytes(lock::UpdateRequest { name: "a1".into(), fencing_token: 1, ..Default::default() }),
            BOTH,
        ),
        ("/althing.lock.v1.LockService/LeaseGrant", bytes(lock::LeaseGrantRequest { ttl: 600, id: 0 }), USER),
        ("/althing.lock.v1.LockService/LeaseRevoke", bytes(lock::LeaseRevokeRequest { id: 77 }), USER),
        ("/althing.lock.v1.LockService/LeaseKeepAlive", bytes(lock::LeaseKeepAliveRequest { id: 77 }), USER),
        (
            "/althing.lock.v1.LockService/Watch",
            bytes(lock::WatchRequest { key: "a1".into(), ..Default::default() }),
            READ,
        ),
        ("/althing.lock.v1.LockService/Inspect", bytes(lock::InspectRequest { name: "a1".into() }), READ),
        (
            "/althing.lock.v1.LockService/List",
            bytes(lock::ListRequest { prefix: "a".into(), limit: 0 }),
            READ,
        ),
        (
            "/althing.lock.v1.LockService/Fence",
            bytes(lock::FenceRequest { resource: "r".into(), lock: "a1".into(), fencing_token: 1 }),
            READ,
        ),
        ("/althing.lease.v1.LeaseService/Events", bytes(lease_events::EventsRequest::default()), USER),
        ("/althing.store.v1.StoreService/History", bytes(store::HistoryRequest { key: KEY, limit: 0 }), READ),
        ("/althing.store.v1.StoreService/Quota", bytes(store::QuotaRequest::default()), USER),
        (
            "/althing.store.v1.StoreService/ReplaceMember",
            bytes(store::ReplaceMemberRequest { id: ID, ..Default::default() }),
            ROOT,
        ),
        ("/althing.store.v1.StoreService/AcceptLoss", bytes(store::AcceptLossRequest { id: ID }), ROOT),
        (
            "/althing.store.v1.StoreService/CreateJoinToken",
            bytes(store::CreateJoinTokenRequest::default()),
            ROOT,
        ),
        ("/althing.store.v1.StoreService/SecurePeers", bytes(store::SecurePeersRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Clients", bytes(inspect::ClientsRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Watches", bytes(inspect::WatchesRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Leases", bytes(inspect::LeasesRequest::default()), ROOT),
        ("/althing.inspect.v1.InspectService/Compaction", bytes(inspect::CompactionRequest::default()), ROOT),
        ("/althing.backup.v1.BackupService/Describe", bytes(saved::DescribeRequest {}), ROOT),
        ("/althing.backup.v1.BackupService/Rows", bytes(saved::RowsRequest::default()), ROOT),
        ("/althing.backup.v1.BackupService/Elements", bytes(saved::ElementsRequest::default()), ROOT),
        ("/althing.backup.v1.BackupService/Restore", bytes(restore_nothing()), ROOT),
        (
            "/althing.data.v1.DataService/Get",
            bytes(data::GetRequest { key: "open".to_owned(), ..Default::default() }),
            DATA_READ,
        ),
        ("/althing.data.v1.DataService/Put", bytes(put_data()), DATA_WRITE),
        (
            "/althing.data.v1.DataService/Delete",
            bytes(data::DeleteRequest { key: "open".to_owned(), ..Default::default() }),
            DATA_WRITE,
        ),
        ("/althing.data.v1.DataService/Update", bytes(increment_data()), DATA_WRITE),
        ("/althing.data.v1.DataService/Batch", bytes(batch_data()), DATA_WRITE),
        (
            "/althing.data.v1.DataService/Scan",
            bytes(data::ScanRequest { keys: open_keys(), ..Default::default() }),
            DATA_READ,
        ),
        (
            "/althing.data.v1.DataService/Count",
            bytes(data::CountRequest { keys: open_keys(), ..Default::default() }),
            DATA_READ,
        ),
        (
            "/althing.data.v1.DataService/Watch",
            bytes(data::WatchRequest { prefix: "open".to_owned(), ..Default::default() }),
            DATA_READ,
        ),
        (
            "/althing.data.v1.DataService/Elements",
            bytes(data::ElementsRequest {
                key: "open".to_owned(),
                r#type: "bigset".to_owned(),
                ..Default::default()
            }),
            DATA_READ,
        ),
        (
            "/althing.data.v1.DataService/DeleteRange",
            bytes(data::DeleteRangeRequest { keys: open_keys(), ..Default::default() }),
            DATA_WRITE,
        ),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", LIST_SERVICES, Who::Anyone),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", LIST_SERVICES, Who::Anyone),
        ("/grpc.health.v1.Health/Check", bytes(health::HealthCheckRequest::default()), Who::Anyone),
        ("/grpc.health.v1.Health/Watch", bytes(health::HealthCheckRequest::default()), Who::Anyone),
    ]
}

/// Raises an alarm, or ends it: the rows that follow are served again.
fn change_alarm(action: etcd::alarm_request::AlarmAction) -> etcd::AlarmRequest {
    let alarm = etcd::AlarmType::Nospace.into();
    etcd::AlarmRequest { action: action.into(), member_id: 0, alarm }
}

fn open_keys() -> Option<data::Keys> {
    Some(data::Keys { prefix: "open".to_owned(), ..Default::default() })
}

fn put_data() -> data::PutRequest {
    let value = data::Value { kind: Some(data::value::Kind::Json("1".into())) };
    data::PutRequest { key: "open".to_owned(), value: Some(value), ..Default::default() }
}

fn increment_data() -> data::UpdateRequest {
    let operation = data::Operation { kind: Some(data::operation::Kind::Increment(1)) };
    data::UpdateRequest {
        key: "open-counter".to_owned(),
        r#type: "counter".to_owned(),
        operation: Some(operation),
        ..Default::default()
    }
}

fn batch_data() -> data::BatchRequest {
    let operation = data::BatchOperation { kind: Some(data::batch_operation::Kind::Put(put_data())) };
    data::BatchRequest { operations: vec![operation], ..Default::default() }
}

/// A request to reflection for the names of services: field 7, empty.
const LIST_SERVICES: Bytes = Bytes::from_static(&[0x3a, 0]);

fn restore_nothing() -> saved::RestoreRequest {
    let namespace = saved::NamespaceSettings { name: "default".to_owned(), copies: 3, ..Default::default() };
    saved::RestoreRequest { namespace: Some(namespace), ..Default::default() }
}
