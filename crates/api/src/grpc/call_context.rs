//! What every service needs of the member it runs on: the response header, the caller, and whether there is a leader for
//! those clients that insist on one.

use crate::audit;
use crate::clients;
use crate::grpc::refusal;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::request::Range;
use http2::Head;
use proto::etcdserverpb::ResponseHeader;
use server::{Handle, RequiredAccess};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tonic::Extensions;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Set by etcd's clients under `WithRequireLeader`.
pub const REQUIRE_LEADER: &str = "hasleader";
/// Where etcd's clients put their token.
pub const TOKEN: &str = "token";
/// Where the clients of the gateway put it.
pub const AUTHORIZATION: &str = "authorization";

/// What a call is authorized by, or nothing.
pub fn given(metadata: &MetadataMap) -> &[u8] {
    let value = metadata.get(TOKEN).or(metadata.get(AUTHORIZATION));
    value.map(|value| value.as_encoded_bytes()).unwrap_or_default()
}
const BEARER: &str = "Bearer ";
/// Set by a gateway that passes on what others ask: the certificate is its own, and not theirs.
const GATEWAY: &str = "grpcgateway-accept";

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
pub fn probe(serializable: bool) -> Range {
    let keys = KeyRange::single(Bytes::from_static(b"health"));
    Range { limit: 1, keys_only: true, serializable, ..Range::of(keys) }
}

/// The handle of the caller: the token comes as `token`, or as an HTTP client would send it.
pub async fn admit(handle: &Handle, metadata: &MetadataMap) -> Result<Handle, Status> {
    let token = token(metadata);
    audit::note_token(handle, token);
    let admitted = handle.auth().admit(token).await.map_err(refusal::render)?;
    audit::note_caller(admitted.caller());
    if let Some(client) = clients::current() {
        client.set_caller(admitted.caller());
    }
    Ok(admitted)
}

/// For calls that any user may make. It is decided by what this member knows, so that it is answered also without a leader.
pub async fn require_user(handle: &Handle, metadata: &MetadataMap) -> Result<(), Status> {
    let handle = admit(handle, metadata).await?;
    handle.auth().permit_here(RequiredAccess::User).await.map_err(refusal::render)
}

/// The first token; one that is no text is ignored.
pub fn token(metadata: &MetadataMap) -> Option<&str> {
    let value = metadata.get(TOKEN).or_else(|| metadata.get(AUTHORIZATION))?;
    let text = value.to_str().unwrap_or_default();
    Some(text.strip_prefix(BEARER).unwrap_or(text))
}

/// The client's address, as far as that is known.
pub fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<Option<SocketAddr>>().copied().flatten().map(|address| address.ip())
}

/// Copies the client's address to a call of the gateway.
pub fn set_address(extensions: &mut Extensions, of: &Extensions) {
    extensions.insert(of.get::<Option<SocketAddr>>().copied().flatten());
}

/// The same for a call that did not go through the router.
pub fn token_in(head: &Head) -> Option<&[u8]> {
    let value = head.get(TOKEN).or_else(|| head.get(AUTHORIZATION))?;
    Some(value.strip_prefix(BEARER.as_bytes()).unwrap_or(value))
}

/// Whether the name on a client's certificate is the caller: only for calls without a token, and never for
/// those that a gateway passes on.
pub fn may_use_certificate(head: &Head) -> bool {
    let is_grpc = head.get("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc"));
    is_grpc && [TOKEN, AUTHORIZATION, GATEWAY].iter().all(|name| head.get(name).is_none())
}

pub fn requires_leader(metadata: &MetadataMap) -> bool {
    metadata.get(REQUIRE_LEADER).is_some_and(|value| value == "true")
}

pub fn check_leader(handle: &Handle, metadata: &MetadataMap) -> Result<(), Code> {
    check_leader_if(requires_leader(metadata), handle)
}

/// How often a leader is looked for while one is elected.
const LEADER_POLL: Duration = Duration::from_millis(10);

/// A stream that requires a leader waits for the outcome of an election that is under way.
pub async fn wait_for_leader(handle: &Handle, metadata: &MetadataMap) -> Result<(), Code> {
    let begun = Instant::now();
    while check_leader(handle, metadata).is_err() && begun.elapsed() < handle.election_timeout() {
        tokio::time::sleep(LEADER_POLL).await;
    }
    check_leader(handle, metadata)
}

/// A client that requires a leader prefers another member to waiting for an election here.
pub fn check_leader_if(required: bool, handle: &Handle) -> Result<(), Code> {
    if required && handle.status().leader.is_none() {
        return Err(Code::NoLeader);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http2::Field;

    #[test]
    fn a_token_is_found_in_the_head_of_a_call_as_it_is_in_a_request() {
        let given: [&[(&'static str, &'static str)]; 6] = [
            &[],
            &[("token", "t")],
            &[("authorization", "Bearer t")],
            &[("authorization", "other"), ("token", "Bearer t")],
            &[("token", "first"), ("token", "second")],
            &[("authorization", "bearer t")],
        ];
        for fields in given {
            let mut metadata = MetadataMap::new();
            for (name, value) in fields {
                metadata.append(*name, value.parse().unwrap());
            }
            let fields = fields.iter().map(|(name, value)| Field::from_static(name, value)).collect();
            let head = Head { fields, ..Head::default() };
            assert_eq!(token_in(&head), token(&metadata).map(str::as_bytes), "{metadata:?}");
        }
    }

    #[test]
    fn a_certificate_speaks_for_calls_that_do_not_speak_for_themselves() {
        let wears = |fields: &[(&'static str, &'static str)]| {
            let fields = fields.iter().map(|(name, value)| Field::from_static(name, value)).collect();
            may_use_certificate(&Head { fields, ..Head::default() })
        };
        let grpc = ("content-type", "application/grpc");
        assert!(wears(&[grpc]));
        assert!(wears(&[("content-type", "application/grpc+proto")]));
        assert!(!wears(&[]), "as the gateway is asked");
        assert!(!wears(&[("content-type", "application/json")]));
        for said in ["token", "authorization", "grpcgateway-accept"] {
            assert!(!wears(&[grpc, (said, "x")]), "{said}");
        }
    }
}
