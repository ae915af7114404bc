//! The redirect hint: a member that does not lead says in its answers which member does, and where clients reach it.
//! Every member serves every request, so a hint needs no attention; a client that heeds it saves the way through this
//! member. Plain calls on the fast path go without it unless they send metadata of ours. See docs/adr/0072.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use server::Handle;

/// The id of the leader, in hexadecimal.
const LEADER: HeaderName = HeaderName::from_static("althing-leader");
/// Where clients reach it.
const LEADER_URL: HeaderName = HeaderName::from_static("althing-leader-url");

/// Adds the hint, if another member leads.
pub fn add(handle: &Handle, headers: &mut HeaderMap) {
    let status = handle.status();
    let Some(leader) = status.leader.filter(|_| !status.is_leader) else { return };
    if let Ok(id) = HeaderValue::try_from(format!("{:x}", leader.0)) {
        headers.insert(LEADER, id);
    }
    let member = handle.members().list().into_iter().find(|member| member.id == leader);
    let url = member.and_then(|member| member.client_urls.into_iter().next());
    if let Some(url) = url.and_then(|url| HeaderValue::try_from(url).ok()) {
        headers.insert(LEADER_URL, url);
    }
}

pub async fn hinted(
    axum::extract::State(handle): axum::extract::State<Handle>,
    mut response: Response,
) -> Response {
    add(&handle, response.headers_mut());
    response
}
