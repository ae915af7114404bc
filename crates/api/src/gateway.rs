//! The JSON gateway: etcd's API for clients that have no gRPC, as grpc-gateway would give it.
//! A row of the table below is a path and the call behind it. JSON goes in, becomes the call's message, and
//! the answer goes back as JSON; in between is the same function that serves gRPC, in the same process.

mod answer;
pub mod old_prefix;
mod range;
pub mod socket;
mod streams;
mod transcoder;

pub use transcoder::Transcoder;

use crate::grpc::auth::AuthService;
use crate::grpc::call_context;
use crate::grpc::cluster::ClusterService;
use crate::grpc::data_auth::DataAuthService;
use crate::grpc::election::ElectionService;
use crate::grpc::etcd_lock::EtcdLockService;
use crate::grpc::kv_service::KvService;
use crate::grpc::lease::LeaseService;
use crate::grpc::lock::LockApi;
use crate::grpc::maintenance::MaintenanceService;
use crate::grpc::store::StoreApi;
use crate::grpc::watch::WatchService;
use crate::request_budget::RequestBudget;
use answer::{refuse_method, refuse_path, server_stream, unary};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Extensions;
use axum::routing::{any, post};
use proto::althing::auth::v1::data_auth_server::DataAuth;
use proto::althing::store::v1::store_service_server::StoreService;
use proto::etcdserverpb::auth_server::Auth;
use proto::etcdserverpb::cluster_server::Cluster;
use proto::etcdserverpb::kv_server::Kv;
use proto::etcdserverpb::lease_server::Lease;
use proto::etcdserverpb::maintenance_server::Maintenance;
use proto::lock::lock_service_server::LockService;
use proto::v3electionpb::election_server::Election;
use proto::v3lockpb::lock_server::Lock;
use range::range;
use std::sync::Arc;
use tonic::Request;

/// What the rows call.
pub struct Services {
    pub kv: Arc<KvService>,
    pub cluster: Arc<ClusterService>,
    pub maintenance: Arc<MaintenanceService>,
    pub lease: Arc<LeaseService>,
    pub watch: WatchService,
    pub lock: Arc<EtcdLockService>,
    pub election: Arc<ElectionService>,
    pub locks: Arc<LockApi>,
    pub store: Arc<StoreApi>,
    pub auth: Arc<AuthService>,
    pub data_auth: Arc<DataAuthService>,
    /// The budget for incomplete requests.
    pub request_budget: Arc<RequestBudget>,
}

/// A row each: the path, how it is answered, the service and its call.
macro_rules! rows {
    ($router:expr, $transcoder:expr; $($path:literal $kind:ident $service:ident $call:path;)*) => {
        $router $(.route($path, {
            let (transcoder, service) = ($transcoder.clone(), $service.clone());
            post(|extensions: Extensions, headers, body| async move {
                let call = |mut request: Request<_>| {
                    call_context::set_address(request.extensions_mut(), &extensions);
                    $call(&*service, request)
                };
                $kind(transcoder, headers, body, call).await
            })
            .fallback(refuse_method)
        }))*
    };
}

pub fn router(services: &Services, transcoder: &Arc<Transcoder>) -> Router {
    let Services {
        kv,
        cluster,
        maintenance,
        lease,
        watch,
        lock,
        election,
        locks,
        store,
        auth,
        data_auth,
        request_budget,
    } = services;
    let router = rows! { Router::new(), transcoder;
        "/v3/kv/range" range kv Kv::range;
        "/v3/kv/put" unary kv Kv::put;
        "/v3/kv/deleterange" unary kv Kv::delete_range;
        "/v3/kv/txn" unary kv Kv::txn;
        "/v3/kv/compaction" unary kv Kv::compact;
        "/v3/lease/grant" unary lease Lease::lease_grant;
        "/v3/lease/revoke" unary lease Lease::lease_revoke;
        "/v3/kv/lease/revoke" unary lease Lease::lease_revoke;
        "/v3/lease/timetolive" unary lease Lease::lease_time_to_live;
        "/v3/kv/lease/timetolive" unary lease Lease::lease_time_to_live;
        "/v3/lease/leases" unary lease Lease::lease_leases;
        "/v3/kv/lease/leases" unary lease Lease::lease_leases;
        "/v3/cluster/member/add" unary cluster Cluster::member_add;
        "/v3/cluster/member/remove" unary cluster Cluster::member_remove;
        "/v3/cluster/member/update" unary cluster Cluster::member_update;
        "/v3/cluster/member/list" unary cluster Cluster::member_list;
        "/v3/cluster/member/promote" unary cluster Cluster::member_promote;
        "/v3/maintenance/alarm" unary maintenance Maintenance::alarm;
        "/v3/maintenance/status" unary maintenance Maintenance::status;
        "/v3/maintenance/defragment" unary maintenance Maintenance::defragment;
        "/v3/maintenance/hash" unary maintenance Maintenance::hash;
        "/v3/maintenance/hashkv" unary maintenance Maintenance::hash_kv;
        "/v3/maintenance/snapshot" server_stream maintenance Maintenance::snapshot;
        "/v3/maintenance/transfer-leadership" unary maintenance Maintenance::move_leader;
        "/v3/maintenance/downgrade" unary maintenance Maintenance::downgrade;
        "/v3/auth/enable" unary auth Auth::auth_enable;
        "/v3/auth/disable" unary auth Auth::auth_disable;
        "/v3/auth/status" unary auth Auth::auth_status;
        "/v3/auth/authenticate" unary auth Auth::authenticate;
        "/v3/auth/user/add" unary auth Auth::user_add;
        "/v3/auth/user/get" unary auth Auth::user_get;
        "/v3/auth/user/list" unary auth Auth::user_list;
        "/v3/auth/user/delete" unary auth Auth::user_delete;
        "/v3/auth/user/changepw" unary auth Auth::user_change_password;
        "/v3/auth/user/grant" unary auth Auth::user_grant_role;
        "/v3/auth/user/revoke" unary auth Auth::user_revoke_role;
        "/v3/auth/role/add" unary auth Auth::role_add;
        "/v3/auth/role/get" unary auth Auth::role_get;
        "/v3/auth/role/list" unary auth Auth::role_list;
        "/v3/auth/role/delete" unary auth Auth::role_delete;
        "/v3/auth/role/grant" unary auth Auth::role_grant_permission;
        "/v3/auth/role/revoke" unary auth Auth::role_revoke_permission;
        "/v1/auth/role/grant-data" unary data_auth DataAuth::role_grant_data;
        "/v1/auth/role/revoke-data" unary data_auth DataAuth::role_revoke_data;
        "/v1/auth/role/get-data" unary data_auth DataAuth::role_get_data;
        "/v3/lock/lock" unary lock Lock::lock;
        "/v3/lock/unlock" unary lock Lock::unlock;
        "/v3/election/campaign" unary election Election::campaign;
        "/v3/election/proclaim" unary election Election::proclaim;
        "/v3/election/leader" unary election Election::leader;
        "/v3/election/observe" server_stream election Election::observe;
        "/v3/election/resign" unary election Election::resign;
        "/v1/lock/lock" unary locks LockService::lock;
        "/v1/lock/try" unary locks LockService::try_lock;
        "/v1/lock/unlock" unary locks LockService::unlock;
        "/v1/lock/update" unary locks LockService::update;
        "/v1/lock/inspect" unary locks LockService::inspect;
        "/v1/lock/list" unary locks LockService::list;
        "/v1/lock/fence" unary locks LockService::fence;
        "/v1/store/history" unary store StoreService::history;
        "/v1/store/quota" unary store StoreService::quota;
        "/v1/store/replace-member" unary store StoreService::replace_member;
        "/v1/store/accept-loss" unary store StoreService::accept_loss;
        "/v1/store/create-join-token" unary store StoreService::create_join_token;
        "/v1/store/secure-peers" unary store StoreService::secure_peers;
    };
    let (with_watch, with_lease) = ((transcoder.clone(), watch.clone()), (transcoder.clone(), lease.clone()));
    let (for_watch, for_lease) = (request_budget.clone(), request_budget.clone());
    let router = router
        .route(
            "/v3/watch",
            post(|headers, body| streams::watch(with_watch.0, with_watch.1, headers, (body, for_watch)))
                .fallback(refuse_method),
        )
        .route(
            "/v3/lease/keepalive",
            post(|headers, body| streams::keep_alive(with_lease.0, with_lease.1, headers, (body, for_lease)))
                .fallback(refuse_method),
        );
    router.route("/v3/{*rest}", any(refuse_path)).layer(DefaultBodyLimit::max(transcoder.json_bytes_max()))
}
