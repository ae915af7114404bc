//! What operators do by hand: compact, clear alarms, hand over leadership; and the settings that this node runs with.

use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use axum::response::Response;
use base::{Code, Revision};
use coord::{AlarmCommand, Compact};
use serde::Deserialize;
use serde_json::{Value, json as object};

/// A setting as it is shown: never with a secret in it.
#[derive(Clone, Debug)]
pub struct ShownSetting {
    pub name: &'static str,
    pub value: String,
    /// Where the value came from.
    pub origin: String,
    pub is_default: bool,
    pub meaning: &'static str,
}

/// `GET /v1/settings`.
pub async fn settings(rest: Rest) -> Result<Response, Refusal> {
    let shown = rest.shared.settings.shown.iter().map(|setting| {
        object!({
            "name": setting.name, "value": setting.value, "origin": setting.origin,
            "is_default": setting.is_default, "meaning": setting.meaning,
        })
    });
    Ok(json(&object!({ "node": rest.handle().identity().name, "settings": shown.collect::<Vec<Value>>() })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactBody {
    revision: i64,
}

/// `POST /v1/compaction`.
pub async fn compact(rest: Rest, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let CompactBody { revision } = parse_json(&body, r#"{"revision": 100}"#)?;
    let handle = rest.coord().await?;
    let compact = Compact { revision: Revision(revision), physical: false };
    let reply = handle.kv().compact(compact).await?;
    Ok(json(&object!({ "status": "ok", "revision": reply.revision.0 })))
}

/// `DELETE /v1/alarms`.
pub async fn clear_alarms(rest: Rest) -> Result<Response, Refusal> {
    let handle = rest.coord().await?;
    let alarms = handle.maintenance().known_alarms();
    for alarm in &alarms {
        handle.maintenance().alarm(AlarmCommand::Clear(*alarm)).await?;
    }
    Ok(json(&object!({ "status": "ok", "cleared": alarms.len() })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderBody {
    node: String,
}

/// `PUT /v1/leader`.
pub async fn move_leader(rest: Rest, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let LeaderBody { node } = parse_json(&body, r#"{"node": "NAME"}"#)?;
    let node = rest.node_called(&node)?;
    if !rest.handle().status().is_leader {
        let names = rest.node_names();
        let leader = rest.handle().status().leader.and_then(|leader| names.get(&leader).cloned());
        let message = format!(
            "only the leader hands leadership over; ask {}",
            leader.as_deref().unwrap_or("it once there is one")
        );
        return Err(Refusal::new(Code::NotLeader, message));
    }
    rest.handle().maintenance().move_leader(node).await?;
    Ok(json(&object!({ "status": "ok", "leader": format!("{:x}", node.0) })))
}
