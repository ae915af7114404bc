//! etcd's services over gRPC: each file is one service or one concern they share.
//! Wire messages go in and come out; between the two is nothing but `server::Handle`.

mod alarm;
pub mod auth;
pub mod backup;
pub mod breadth;
pub mod call_context;
pub mod calls;
pub mod cluster;
pub mod data_auth;
mod downgrade;
pub mod election;
pub mod etcd_lock;
pub mod fence;
pub mod follow;
pub mod health;
pub mod inspect;
pub mod kv;
pub mod kv_service;
pub mod lease;
pub mod lease_events;
pub mod lock;
pub mod lock_view;
pub mod lock_watch;
pub mod maintenance;
pub mod messages;
pub mod once;
pub mod ordered_answers;
pub mod oversize;
pub mod pieces;
pub mod refusal;
mod revoke_on_disconnect;
mod snapshot;
pub mod store;
pub mod unserved;
pub mod watch;
