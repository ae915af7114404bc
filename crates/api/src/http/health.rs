//! `/health`: whether this member can serve, decided by serving.
//! It reads by the same path as clients do, so a core that hangs cannot look healthy; with
//! `?serializable=true` it judges this member alone.

use crate::grpc::call_context;
use crate::metrics::ApiMetrics;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use base::Code;
use coord::Alarm;
use serde::{Deserialize, Serialize};
use server::Handle;
use std::sync::Arc;
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
pub struct HealthOptions {
    #[serde(default)]
    serializable: String,
    /// An alarm that is passed over.
    #[serde(default)]
    exclude: String,
}

pub async fn health(
    State(handle): State<Handle>,
    State(metrics): State<Arc<ApiMetrics>>,
    Query(options): Query<HealthOptions>,
) -> (StatusCode, Json<Health>) {
    let outcome = check_health(&handle, &options).await;
    match outcome {
        Ok(()) => metrics.health_success.inc(),
        Err(_) => metrics.health_failures.inc(),
    };
    render(outcome)
}

async fn check_health(handle: &Handle, options: &HealthOptions) -> Result<(), String> {
    let alarms = handle.maintenance().known_alarms();
    if alarms.iter().any(Alarm::refuses_growth) && options.exclude != "NOSPACE" {
        return Err("ALARM NOSPACE".to_owned());
    }
    if alarms.iter().any(Alarm::refuses_changes) && options.exclude != "CORRUPT" {
        return Err("ALARM CORRUPT".to_owned());
    }
    let serializable = options.serializable == "true";
    if !serializable && handle.status().leader.is_none() {
        return Err("RAFT NO LEADER".to_owned());
    }
    if !serializable && handle.status().in_doubt {
        return Err("RAFT LOG IN DOUBT".to_owned());
    }
    read(handle, serializable).await.map_err(|code| format!("RANGE ERROR:{code}"))
}

fn render(outcome: Result<(), String>) -> (StatusCode, Json<Health>) {
    match outcome {
        Ok(()) => (StatusCode::OK, Json(Health { health: "true", reason: String::new() })),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { health: "false", reason })),
    }
}

/// One small read, linearizable or local, within the time that health allows.
pub async fn read(handle: &Handle, serializable: bool) -> Result<(), Code> {
    // A data-only node has nothing of coord to read.
    if handle.is_data_only() {
        let serves = handle.mesh().status().machine.is_some_and(|machine| machine.is_serving);
        return if serves { Ok(()) } else { Err(Code::NotInStep) };
    }
    match tokio::time::timeout(
        READ_TIMEOUT,
        handle.as_member().kv().submit(call_context::probe(serializable)),
    )
    .await
    {
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
