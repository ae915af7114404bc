//! `/v1/upgrade`: which release every node runs, in which formats the cluster writes, and the end of the way back.

use super::refusal::Refusal;
use super::{Rest, json};
use axum::response::Response;
use base::{Code, FormatLevel};
use serde_json::{Value, json as object};
use server::{FinalizeError, UpgradeNode, UpgradeStatus};

/// `GET /v1/upgrade`.
pub async fn get(rest: Rest) -> Result<Response, Refusal> {
    Ok(json(&show(&rest.handle().formats().status().await)))
}

/// `POST /v1/upgrade/finalize`.
pub async fn finalize(rest: Rest) -> Result<Response, Refusal> {
    let handle = rest.coord().await?;
    match handle.formats().finalize().await {
        Ok(status) => Ok(json(&show(&status))),
        Err(FinalizeError::Refused(code)) => Err(code.into()),
        Err(FinalizeError::NotReady(nodes)) => {
            let named: Vec<String> = nodes.iter().map(why_not_ready).collect();
            let message = format!(
                "every node has to run this release first; nothing was changed. Waiting for {}",
                named.join(", ")
            );
            Err(Refusal::new(Code::UnhealthyCluster, message).with("waiting_for", named))
        }
    }
}

fn why_not_ready(node: &UpgradeNode) -> String {
    let name = if node.name.is_empty() { format!("{:x}", node.id.0) } else { node.name.clone() };
    match &node.trouble {
        Some(trouble) => format!("{name} ({trouble})"),
        None => format!("{name} (release {})", node.version.as_deref().unwrap_or("unknown")),
    }
}

fn show(status: &UpgradeStatus) -> Value {
    let nodes = status.nodes.iter().map(|node| {
        object!({
            "id": format!("{:x}", node.id.0), "name": node.name, "version": node.version,
            "newest_level": node.newest.0, "ready": node.is_ready(), "has_old_logs": node.has_old_logs,
            "trouble": node.trouble,
        })
    });
    object!({
        "level": status.level.0, "newest_level": FormatLevel::NEWEST.0, "finished": status.is_finished(),
        "summary": summary(status), "nodes": nodes.collect::<Vec<Value>>(),
    })
}

/// The operator's next step, in a sentence.
fn summary(status: &UpgradeStatus) -> String {
    let waiting: Vec<String> =
        status.nodes.iter().filter(|node| !node.is_ready()).map(why_not_ready).collect();
    if status.is_finished() {
        format!(
            "finished: all nodes run this release and the cluster writes formats of level {}",
            status.level.0
        )
    } else if !waiting.is_empty() {
        format!("waiting for {}; until `althing upgrade finalize` the way back is open", waiting.join(", "))
    } else if status.level < FormatLevel::NEWEST {
        "all nodes run this release: `althing upgrade finalize` closes the way back and permits the new features"
            .to_owned()
    } else {
        "the logs of some nodes are about to leave the old formats".to_owned()
    }
}
