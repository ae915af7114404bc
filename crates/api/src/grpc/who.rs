//! What every service asks of the member it runs on: the response header, and whether there is a leader for
//! those clients that insist on one.

use crate::grpc::refusal;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::request::{Range, Request};
use proto::etcdserverpb::ResponseHeader;
use server::Handle;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Set by etcd's clients under `WithRequireLeader`.
pub const REQUIRE_LEADER: &str = "hasleader";
/// Where etcd's clients put their token.
const TOKEN: &str = "token";
/// Where the clients of the gateway put it.
pub const AUTHORIZATION: &str = "authorization";
const BEARER: &str = "Bearer ";

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

/// The smallest read there is, linearizable or local.
pub fn probe(serializable: bool) -> Request {
    let keys = KeyRange::single(Bytes::from_static(b"health"));
    Request::Range(Range { limit: 1, keys_only: true, serializable, ..Range::of(keys) })
}

/// The handle of whoever asks: the token comes as `token`, or as an HTTP client would send it.
pub async fn admit(handle: &Handle, metadata: &MetadataMap) -> Result<Handle, Status> {
    handle.admit(token(metadata)).await.map_err(refusal::render)
}

/// Of several, the first; one that is no text belongs to nobody.
pub fn token(metadata: &MetadataMap) -> Option<&str> {
    let value = metadata.get(TOKEN).or_else(|| metadata.get(AUTHORIZATION))?;
    let text = value.to_str().unwrap_or_default();
    Some(text.strip_prefix(BEARER).unwrap_or(text))
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
