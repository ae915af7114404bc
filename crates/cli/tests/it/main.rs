//! Tests of the binary as its users meet it: real processes, real sockets, etcd's wire protocol.
//! Every test has its own ports and data directory, and waits for what it needs instead of sleeping.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod auth;
mod backup;
mod chaos;
mod client;
mod cluster;
mod compaction;
mod config;
mod crowds;
mod dev;
mod differential;
mod drain;
mod elections;
mod etcd;
mod etcd_flags;
mod etcdctl;
mod gateway;
mod guard;
mod http;
mod import;
mod large;
mod lease;
mod lease_events;
mod lock_fight;
mod lock_verbs;
mod locks;
mod log;
mod malformed;
mod membership;
mod mesh_chaos;
mod mesh_load;
mod mesh_moves;
mod mesh_space;
mod once;
mod process;
mod proxy;
mod raw;
mod regions;
mod rest;
mod rest_data;
mod rest_handlers;
mod rest_malformed;
mod rest_quick;
mod rest_store;
mod rest_verbs;
mod signed_tokens;
mod sockets;
mod space;
mod talking;
mod tls;
mod tour;
mod verbs;
mod verbs_watch;
mod watch;
