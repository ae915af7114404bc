//! The settings of a member in a test: of this crate, of `api`, and of the examples, which include this file.

use server::{ClusterMember, Config};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub fn member_name(idx: usize) -> String {
    format!("m{idx}")
}

/// The member of this number in a cluster whose peer ports these are; its files are below `dir`.
pub fn config(dir: &Path, idx: usize, peers: &[SocketAddr]) -> Config {
    let member = |(idx, address): (usize, &SocketAddr)| ClusterMember {
        name: member_name(idx),
        peer_addr: address.to_string(),
    };
    Config {
        name: member_name(idx),
        data_dir: dir.join(member_name(idx)),
        client_addr: "127.0.0.1:0".parse().expect("this is an address"),
        peer_addr: peers[idx],
        more_peer_addrs: Vec::new(),
        initial_cluster: peers.iter().enumerate().map(member).collect(),
        join: None,
        cluster_token: "test".to_owned(),
        advertise_client: String::new(),
        advertise_peer: String::new(),
        heartbeat: Duration::from_millis(40),
        election: Duration::from_millis(400),
        request_timeout: Duration::from_secs(7),
        request_bytes_max: 1536 * 1024,
        txn_ops_max: 128,
        flush_interval: Duration::from_millis(100),
        flush_bytes: 8 * 1024 * 1024,
        response_bytes_max: 4 * 1024 * 1024,
        quota_bytes: 0,
        compaction: None,
        history_age: Duration::from_secs(3_600),
        history_rows_max: 1_000,
        wal_segment_bytes: 4 * 1024 * 1024,
        log_keep_entries: 5_000,
        watch_progress_interval: Duration::from_secs(600),
        client_tls: false,
        peer_security: Default::default(),
        force_new_cluster: false,
        strict_reconfig: false,
        drain_timeout: Duration::from_secs(5),
        slow_request: Duration::ZERO,
        audit: None,
        auth: Default::default(),
        mesh: server::MeshConfig::default(),
    }
}
