//! What operators do by hand: compact, clear alarms, hand over leadership; and the settings that this node runs with.

use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use base::{Code, NodeId, Revision};
use coord::{AlarmCommand, Compact};
use proto::etcdserverpb::MoveLeaderRequest;
use serde::Deserialize;
use serde_json::{Value, json as object};
use server::InspectionTrouble;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;

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

/// `GET /v1/slow-requests`: of this node, the newest first.
pub async fn slow_requests(rest: Rest) -> Result<Response, Refusal> {
    let millis = |took: Duration| (took.as_secs_f64() * 1e6).round() / 1e3;
    let shown = rest.handle().maintenance().slow_requests().into_iter().map(|slow| {
        let phases = slow.phases.by_name().map(|(name, took)| (format!("{name}_ms"), millis(took).into()));
        object!({
            "at_ms": slow.at_ms, "kind": slow.kind, "bytes": slow.bytes,
            "refusal": slow.refusal.map(Code::message), "took_ms": millis(slow.took),
            "phases": Value::Object(phases.into_iter().collect()),
        })
    });
    let node = &rest.handle().identity().name;
    Ok(json(&object!({ "node": node, "slow_requests": shown.collect::<Vec<Value>>() })))
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

/// `POST /v1/defragment`: gives the free space of this node's stores back.
pub async fn defragment(rest: Rest) -> Result<Response, Refusal> {
    let report = rest.handle().maintenance().defragment().await?;
    Ok(json(&object!({
        "node": rest.handle().identity().name,
        "before_bytes": report.before_bytes,
        "after_bytes": report.after_bytes,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotaBody {
    /// None leaves it to each member's setting.
    bytes: Option<u64>,
}

/// `GET /v1/quota`.
pub async fn quota(rest: Rest) -> Result<Response, Refusal> {
    let status = rest.coord().await?.status();
    Ok(json(&object!({ "quota_bytes": status.quota_bytes, "stored_bytes": status.stored_bytes })))
}

/// `PUT /v1/quota`: for all members.
pub async fn set_quota(rest: Rest, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let QuotaBody { bytes } =
        parse_json(&body, r#"{"bytes": 8000000000}; 0 for no bound, null for each member's setting"#)?;
    let handle = rest.coord().await?;
    handle.maintenance().set_quota(bytes).await?;
    quota(rest).await
}

/// `GET /v1/snapshot`: the coordination store of this member as `althing snapshot save` writes it. Its last bytes are the
/// digest of those before, so that a file which is not whole is refused by restore.
pub async fn snapshot(rest: Rest) -> Result<Response, Refusal> {
    let handle = rest.coord().await?;
    let mut pieces = handle.maintenance().backup().await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let piece = match pieces.next().await {
                Ok(None) => return,
                Ok(Some(piece)) => Ok(piece.bytes),
                // The connection ends before the answer does.
                Err(code) => Err(std::io::Error::other(code.message())),
            };
            let ends = piece.is_err();
            if sender.send(piece).await.is_err() || ends {
                return;
            }
        }
    });
    let name = format!("attachment; filename=\"althing-{}.db\"", handle.status().revision.0);
    let headers = [(CONTENT_TYPE, "application/octet-stream".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(ReceiverStream::new(receiver))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaderBody {
    node: String,
}

/// `PUT /v1/leader`: the leader hands leadership over, whichever member is asked.
pub async fn move_leader(rest: Rest, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let LeaderBody { node } = parse_json(&body, r#"{"node": "NAME"}"#)?;
    let node = rest.node_called(&node)?;
    let maintenance = rest.handle().maintenance();
    let leader = rest.handle().status().leader;
    let leader = leader.ok_or_else(|| Refusal::new(Code::NoLeader, "there is no leader at the moment"))?;
    let call = MoveLeaderRequest { target_id: node.0 };
    rest.inspector().ask(leader, call).await.map_err(|trouble| not_handed_over(&rest, leader, trouble))?;
    maintenance.wait_for_leader(node).await?;
    Ok(json(&object!({ "status": "ok", "leader": format!("{:x}", node.0) })))
}

fn not_handed_over(rest: &Rest, leader: NodeId, trouble: InspectionTrouble) -> Refusal {
    let why = match trouble {
        InspectionTrouble::Refused(code) => return code.into(),
        InspectionTrouble::UnknownNode => "this node does not know its address".to_owned(),
        InspectionTrouble::Unable => {
            "its release does not take the request from other members, or auth is on and the \
                                      members do not authenticate to each other (`althing cluster secure`)"
                .to_owned()
        }
        InspectionTrouble::Unreachable(why) => why,
    };
    let names = rest.node_names();
    let name = names.get(&leader).cloned().unwrap_or_else(|| format!("{:x}", leader.0));
    Refusal::new(
        Code::NotLeader,
        format!("the leader did not take the request: {why}; ask {name} at its own address"),
    )
}
