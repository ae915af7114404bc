//! `/health`: whether this member can serve, found out by serving.
//! It reads through the same door as clients do, so a core that hangs cannot look healthy; with
//! `?serializable=true` it judges this member alone.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::request::{Bounds, Range, Request};
use serde::{Deserialize, Serialize};
use server::Handle;
use std::time::Duration;

/// A member that needs longer than this for a read is not healthy.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Health {
    /// "true" or "false", as a string: so do etcd's clients expect it.
    health: &'static str,
    reason: String,
}

#[derive(Debug, Deserialize)]
pub struct Options {
    #[serde(default)]
    serializable: String,
}

pub async fn health(
    State(handle): State<Handle>,
    Query(options): Query<Options>,
) -> (StatusCode, Json<Health>) {
    let serializable = options.serializable == "true";
    if !serializable && handle.status().leader.is_none() {
        return render(Err("RAFT NO LEADER".to_owned()));
    }
    render(read(&handle, serializable).await.map_err(|code| format!("RANGE ERROR:{code}")))
}

fn render(outcome: Result<(), String>) -> (StatusCode, Json<Health>) {
    match outcome {
        Ok(()) => (StatusCode::OK, Json(Health { health: "true", reason: String::new() })),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { health: "false", reason })),
    }
}

/// One small read, linearizable or local, within the time that health allows.
pub async fn read(handle: &Handle, serializable: bool) -> Result<(), Code> {
    let range = Range {
        keys: KeyRange::single(Bytes::from_static(b"health")),
        revision: Revision::ZERO,
        limit: 1,
        sort: None,
        serializable,
        keys_only: true,
        count_only: false,
        mod_revisions: Bounds::default(),
        create_revisions: Bounds::default(),
    };
    match tokio::time::timeout(READ_TIMEOUT, handle.submit(Request::Range(range))).await {
        Ok(outcome) => outcome.map(drop),
        Err(_) => Err(Code::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_etcds() {
        let (status, Json(body)) = render(Ok(()));
        assert_eq!(status, StatusCode::OK);
        assert_eq!(serde_json::to_string(&body).unwrap(), r#"{"health":"true","reason":""}"#);

        let (status, Json(body)) = render(Err("RAFT NO LEADER".to_owned()));
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(serde_json::to_string(&body).unwrap(), r#"{"health":"false","reason":"RAFT NO LEADER"}"#);
    }
}
