//! The level of the formats that the cluster writes, as this node knows it: what is refused below the newest level, when
//! the logs leave the formats of the release before, and how an operator raises it. The level is a document of the cluster
//! (`base::FormatLevel`); nodes without the coordination store are told of it as of other documents.

use crate::core::Core;
use crate::durable_log::Order;
use crate::fatal::fatal;
use crate::handle::Handle;
use crate::telemetry::ReportedNode;
use base::{Code, FormatLevel, NodeId};
use bytes::Bytes;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// What this node's logs are written in.
#[derive(Default)]
pub(crate) struct LogFormats {
    /// The logs were told to leave the formats of the release before.
    are_told: AtomicBool,
    raft_is_old: AtomicBool,
    mesh_is_old: AtomicBool,
}

impl LogFormats {
    pub fn set_raft(&self, is_old: bool) {
        self.raft_is_old.store(is_old, Ordering::Relaxed);
    }

    pub fn set_mesh(&self, is_old: bool) {
        self.mesh_is_old.store(is_old, Ordering::Relaxed);
    }

    /// The release before can open some of the logs.
    pub fn are_old(&self) -> bool {
        self.raft_is_old.load(Ordering::Relaxed) || self.mesh_is_old.load(Ordering::Relaxed)
    }
}

/// The level as far as this node knows it; without the document, the oldest.
pub(crate) fn level(core: &Core) -> FormatLevel {
    let document = core.published.documents.get(FormatLevel::DOCUMENT);
    document.and_then(|document| FormatLevel::decode(&document.bytes)).unwrap_or_default()
}

/// To be called when documents have changed.
pub(crate) fn follow(core: &Core) {
    let level = level(core);
    core.metrics.background.set_format_level(level);
    if level > FormatLevel::NEWEST {
        let why = "another node has raised the format level of the cluster above what this release knows";
        fatal("reading the level of the formats", &io::Error::other(why));
    }
    if level == FormatLevel::OLDEST || core.published.log_formats.are_told.swap(true, Ordering::Relaxed) {
        return;
    }
    core.mesh.log.push(Order::Upgrade);
    if !core.data_only {
        core.coord.persist.push(Order::Upgrade);
    }
}

/// A node and what it says of its release.
#[derive(Clone, Debug)]
pub struct UpgradeNode {
    pub id: NodeId,
    pub name: String,
    /// None if the node does not report it: nodes of 0.1.0 do not.
    pub version: Option<String>,
    /// The highest level that its release knows.
    pub newest: FormatLevel,
    /// Its logs are still as the release before reads them.
    pub has_old_logs: bool,
    /// Why nothing newer is known.
    pub trouble: Option<String>,
}

impl UpgradeNode {
    /// Whether the node would go on if the level was raised.
    pub fn is_ready(&self) -> bool {
        self.trouble.is_none() && self.newest >= FormatLevel::NEWEST
    }

    fn of(node: ReportedNode) -> UpgradeNode {
        let ReportedNode { id, report, trouble, .. } = node;
        let report = report.as_deref();
        let number = |name: &str| report.and_then(|report| report.number(name)).unwrap_or_default();
        let text = |name: &str| report.and_then(|report| report.text(name)).map(str::to_owned);
        UpgradeNode {
            id,
            name: text("name").unwrap_or_default(),
            version: text("version"),
            newest: FormatLevel(number("format_level_newest") as u8),
            has_old_logs: number("old_logs") > 0.0,
            trouble,
        }
    }
}

#[derive(Clone, Debug)]
pub struct UpgradeStatus {
    pub level: FormatLevel,
    pub nodes: Vec<UpgradeNode>,
}

impl UpgradeStatus {
    /// The way back to the release before is closed on every node.
    pub fn is_finished(&self) -> bool {
        let is_finished = |node: &UpgradeNode| node.is_ready() && !node.has_old_logs;
        self.level == FormatLevel::NEWEST && self.nodes.iter().all(is_finished)
    }
}

#[derive(Debug)]
pub enum FinalizeError {
    /// These nodes run another release, or do not answer.
    NotReady(Vec<UpgradeNode>),
    Refused(Code),
}

/// The formats of the cluster.
#[derive(Clone, Copy)]
pub struct FormatHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl FormatHandle<'_> {
    pub fn level(self) -> FormatLevel {
        level(self.handle.core())
    }

    /// Refuses what needs a later level than the cluster has.
    pub fn require(self, needed: FormatLevel) -> Result<(), Code> {
        let is_met = needed == FormatLevel::OLDEST || needed <= self.level();
        if is_met { Ok(()) } else { Err(Code::FormatLevelTooLow) }
    }

    /// Which release every node runs, asked now.
    pub async fn status(self) -> UpgradeStatus {
        let nodes = self.handle.cluster_reports_asked_now().await;
        UpgradeStatus { level: self.level(), nodes: nodes.into_iter().map(UpgradeNode::of).collect() }
    }

    /// Raises the level to the newest, if every node knows it.
    pub async fn finalize(self) -> Result<UpgradeStatus, FinalizeError> {
        let waiting: Vec<UpgradeNode> =
            self.status().await.nodes.into_iter().filter(|node| !node.is_ready()).collect();
        if !waiting.is_empty() {
            return Err(FinalizeError::NotReady(waiting));
        }
        self.raise().await.map_err(FinalizeError::Refused)?;
        Ok(self.status().await)
    }

    async fn raise(self) -> Result<(), Code> {
        let documents = self.handle.documents();
        let found = documents.get(FormatLevel::DOCUMENT).await?;
        let version = found.as_ref().map_or(0, |(version, _)| *version);
        let known = found.and_then(|(_, bytes)| FormatLevel::decode(&bytes)).unwrap_or_default();
        if known < FormatLevel::NEWEST {
            let bytes = Bytes::copy_from_slice(&FormatLevel::NEWEST.encode());
            documents.set(FormatLevel::DOCUMENT, version, bytes).await?;
            tracing::info!(level = FormatLevel::NEWEST.0, "raised the format level");
        }
        Ok(())
    }
}
