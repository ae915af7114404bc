//! `/debug/vars`: what etcd tells there, as far as it is not about the Go runtime: the program, the limit on open
//! files, memory, and where raft is.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use server::Handle;
use std::fs;

#[derive(Serialize)]
pub struct DebugVars {
    /// The program alone: its arguments may have secrets.
    cmdline: Vec<String>,
    file_descriptor_limit: u64,
    memstats: MemoryStats,
    #[serde(rename = "raft.status")]
    raft_status: RaftStatus,
}

/// Names of Go's own; both tell the resident memory.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MemoryStats {
    alloc: u64,
    sys: u64,
}

#[derive(Serialize)]
struct RaftStatus {
    id: String,
    term: u64,
    commit: u64,
    applied: u64,
    lead: String,
    #[serde(rename = "raftState")]
    state: &'static str,
}

pub async fn vars(State(handle): State<Handle>) -> Json<DebugVars> {
    let status = handle.status();
    let state = match (status.is_leader, status.leader) {
        (true, _) => "StateLeader",
        (false, Some(_)) => "StateFollower",
        (false, None) => "StateCandidate",
    };
    let resident = resident_bytes();
    Json(DebugVars {
        cmdline: std::env::args().take(1).collect(),
        file_descriptor_limit: files_max(),
        memstats: MemoryStats { alloc: resident, sys: resident },
        raft_status: RaftStatus {
            id: format!("{:x}", handle.identity().member.0),
            term: status.term.0,
            commit: status.committed.0,
            applied: status.applied.0,
            lead: format!("{:x}", status.leader.map_or(0, |leader| leader.0)),
            state,
        },
    })
}

/// Zero where the operating system does not report it.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Zero where the operating system does not report it.
fn files_max() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
