//! What every service asks of the member it runs on: the response header, and whether there is a leader for
//! those clients that insist on one.

use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::request::{Range, Request};
use proto::etcdserverpb::ResponseHeader;
use server::Handle;
use tonic::metadata::MetadataMap;

/// Set by etcd's clients under `WithRequireLeader`.
pub const REQUIRE_LEADER: &str = "hasleader";

pub fn header(handle: &Handle, revision: Revision) -> ResponseHeader {
    header_at(handle, revision, handle.status().term.0)
}

/// The header for a term that was looked up before.
pub fn header_at(handle: &Handle, revision: Revision, raft_term: u64) -> ResponseHeader {
    let identity = handle.identity();
    ResponseHeader {
        cluster_id: identity.cluster.0,
        member_id: identity.member.0,
        revision: revision.0,
        raft_term,
    }
}

/// Waits until this member has everything that was committed when it was asked.
pub async fn catch_up(handle: &Handle) -> Result<(), Code> {
    handle.submit(probe(false)).await.map(drop)
}

/// The smallest read there is, linearizable or local.
pub fn probe(serializable: bool) -> Request {
    let keys = KeyRange::single(Bytes::from_static(b"health"));
    Request::Range(Range { limit: 1, keys_only: true, serializable, ..Range::of(keys) })
}

pub fn requires_leader(metadata: &MetadataMap) -> bool {
    metadata.get(REQUIRE_LEADER).is_some_and(|value| value == "true")
}

pub fn check_leader(handle: &Handle, metadata: &MetadataMap) -> Result<(), Code> {
    check_leader_if(requires_leader(metadata), handle)
}

/// A client that requires a leader would rather go elsewhere than wait for an election here.
pub fn check_leader_if(required: bool, handle: &Handle) -> Result<(), Code> {
    if required && handle.status().leader.is_none() {
        return Err(Code::NoLeader);
    }
    Ok(())
}
