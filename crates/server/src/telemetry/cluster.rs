//! Reports of every node of the cluster: this node asks the others on the peer port, and answers when it is asked.
//! Nodes are asked only while a client wants to know, at most every two seconds, each on a blocking thread and with a
//! deadline. Of a node that does not answer, the last report stays, with its age.

use super::report::NodeReport;
use super::{RefusalKind, RefusedAccess, SERIES, now_ms};
use crate::handle::Handle;
use crate::join::record_refused_question;
use crate::members::host_and_port;
use crate::peer::{QuestionSender, question};
use base::{Code, FormatLevel, NodeId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::PeerClaim;
use tokio::sync::Mutex;

/// The first byte of a question for a report. Join requests begin with 1 and 3, those of regions with 2.
const STATUS_QUESTION: u8 = 4;
/// What of a report is wanted.
const SHORT: u8 = 0;
const WITH_SERIES: u8 = 1;
/// No report is wanted: what follows is for the API of the node.
const INSPECTION: u8 = 2;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// For how long reports are taken as they are.
const FRESH_FOR: Duration = Duration::from_millis(1_900);
/// A node that cannot answer such questions, being of an older release, is left alone for so long.
const UNABLE_FOR: Duration = Duration::from_secs(300);
/// Samples of a short report: five minutes.
const SHORT_SAMPLES: usize = 60;
const HOUR_SAMPLES: usize = 720;
/// The series of a short report.
const SHORT_SERIES: [&str; 6] = [
    "puts_per_second",
    "ranges_per_second",
    "data_writes_per_second",
    "data_reads_per_second",
    "cpu_percent",
    "fsync_p99_ms",
];
const EVENTS_TOLD: usize = 50;

/// A node, and its last report.
#[derive(Clone, Debug)]
pub struct ReportedNode {
    pub id: NodeId,
    /// None if it has never answered.
    pub report: Option<Arc<NodeReport>>,
    /// When the report came, in milliseconds since 1970.
    pub reported_ms: u64,
    /// Why there is no newer report.
    pub trouble: Option<String>,
}

/// Answers questions of other nodes about this node's clients and watches, which the API knows.
pub trait InspectionAnswerer: Send + Sync {
    fn answer(&self, question: Bytes) -> Bytes;
}

/// Why a node has not answered such a question.
#[derive(Debug)]
pub enum InspectionTrouble {
    UnknownNode,
    /// Its release does not know the question, or it keeps such answers to itself.
    Unable,
    Unreachable(String),
    Refused(Code),
}

/// What the others have reported.
#[derive(Default)]
pub(crate) struct OtherNodes {
    known: Mutex<KnownReports>,
    /// As the last reports have them; the lock is held for a moment only.
    names: std::sync::Mutex<BTreeMap<NodeId, String>>,
}

#[derive(Default)]
struct KnownReports {
    asked: Option<Instant>,
    by_node: BTreeMap<NodeId, KnownNode>,
}

#[derive(Clone, Default)]
struct KnownNode {
    report: Option<Arc<NodeReport>>,
    reported_ms: u64,
    trouble: Option<String>,
    unable_until: Option<Instant>,
}

pub(crate) fn is_status_question(question: &[u8]) -> bool {
    question.first() == Some(&STATUS_QUESTION)
}

/// What a node of the same cluster is told.
pub(crate) fn answer(handle: &Handle, question: &[u8], asker: &QuestionSender<'_>) -> Bytes {
    if !asker.may_be(PeerClaim::Peer) {
        record_refused_question(handle, "status", asker);
        return Bytes::new();
    }
    // A stranger that reaches an open peer port learns nothing of clients that had to log in, nor of those that failed to.
    let is_told_of_clients = !handle.auth().is_on() || asker.proves(PeerClaim::Peer);
    if question.get(1) == Some(&INSPECTION) {
        if !is_told_of_clients {
            record_refused_question(handle, "inspect", asker);
            return Bytes::new();
        }
        let api = handle.core().telemetry.inspections().clone();
        return api.map_or_else(Bytes::new, |api| api.answer(Bytes::copy_from_slice(&question[2..])));
    }
    let mut report =
        if question.get(1) == Some(&WITH_SERIES) { handle.report_with_hour() } else { handle.report() };
    if !is_told_of_clients {
        report.events.retain(|event| !RefusalKind::is_word_of_refusals(&event.kind));
    }
    report.encode().into()
}

impl Handle {
    /// What this node says of itself, with the last minutes.
    pub fn report(&self) -> NodeReport {
        let wanted = |series: &super::Series| SHORT_SERIES.contains(&series.name);
        let series = self.core().telemetry.series(SHORT_SAMPLES, wanted);
        NodeReport { series, ..self.report_without_series() }
    }

    /// The same with every series of the last hour.
    pub fn report_with_hour(&self) -> NodeReport {
        let series = self.core().telemetry.series(HOUR_SAMPLES, |_| true);
        NodeReport { series, ..self.report_without_series() }
    }

    fn report_without_series(&self) -> NodeReport {
        let telemetry = &self.core().telemetry;
        let (status, mesh) = (self.status(), self.mesh().status());
        let role = if self.is_data_only() {
            "data"
        } else if status.is_leader {
            "leader"
        } else if self.members().is_learner() {
            "learner"
        } else {
            "follower"
        };
        let texts = [
            ("name", self.identity().name.clone()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("region", self.core().mesh.region.clone()),
            ("role", role.to_owned()),
            ("leader", status.leader.map(|leader| format!("{:x}", leader.0)).unwrap_or_default()),
        ];
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        let numbers = [
            ("started_ms", telemetry.started_ms as f64),
            ("format_level", f64::from(self.formats().level().0)),
            ("format_level_newest", f64::from(FormatLevel::NEWEST.0)),
            ("old_logs", flag(self.core().published.log_formats.are_old())),
            ("term", status.term.0 as f64),
            ("committed", status.committed.0 as f64),
            ("applied", status.applied.0 as f64),
            ("revision", status.revision.0 as f64),
            ("compacted", status.compacted.0 as f64),
            ("keys", status.keys as f64),
            ("stored_bytes", status.stored_bytes as f64),
            ("quota_bytes", status.quota_bytes as f64),
            ("wal_bytes", status.wal_bytes as f64),
            ("no_space", flag(status.no_space)),
            ("in_doubt", flag(status.in_doubt)),
            ("watches", status.watches.watches as f64),
            ("watch_streams", status.watches.streams as f64),
            ("watches_behind", status.watches.behind as f64),
            ("peer_port_open", flag(self.peer_port().is_open())),
            ("data_store_bytes", mesh.store_bytes as f64),
            ("data_log_bytes", mesh.log_bytes as f64),
            ("data_serving", flag(mesh.machine.as_ref().is_some_and(|machine| machine.is_serving))),
            ("data_conflicts", mesh.counts.conflicts as f64),
            ("data_repaired", mesh.counts.repaired as f64),
            ("data_hinted", mesh.counts.hinted as f64),
            ("data_lag_ms", self.mesh().lag_ms() as f64),
        ];
        let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), number));
        NodeReport {
            texts: texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
            numbers: numbers.chain(telemetry.latest()).collect(),
            round_trips: telemetry.round_trips(),
            series: Default::default(),
            events: telemetry.events(EVENTS_TOLD),
        }
    }

    /// A request was refused for want of a right; it becomes an event.
    pub fn note_refused(&self, refused: RefusedAccess) {
        self.core().telemetry.refusals.note(refused);
    }

    /// Nodes with an open stream to this one.
    pub fn connected_nodes(&self) -> Vec<NodeId> {
        let Some(peers) = self.shared.peers.upgrade() else { return Vec::new() };
        let others = self.core().members.others();
        others.into_iter().map(|(id, _)| id).filter(|id| peers.connected(*id)).collect()
    }

    pub fn disk_free_bytes(&self) -> u64 {
        self.core().published.status.measures().free_bytes
    }

    /// Every node of the cluster, this one first.
    pub async fn cluster_reports(&self) -> Vec<ReportedNode> {
        let mut known = self.core().telemetry.others.known.lock().await;
        if known.asked.is_none_or(|asked| asked.elapsed() > FRESH_FOR) {
            self.refresh(&mut known).await;
            self.note_names(&known);
            known.asked = Some(Instant::now());
        }
        let own = ReportedNode {
            id: self.identity().member,
            report: Some(Arc::new(self.report())),
            reported_ms: now_ms(),
            trouble: None,
        };
        let others = known.by_node.iter().map(|(id, node)| ReportedNode {
            id: *id,
            report: node.report.clone(),
            reported_ms: node.reported_ms,
            trouble: node.trouble.clone(),
        });
        std::iter::once(own).chain(others).collect()
    }

    /// The same, also of nodes that were asked a moment ago or could not answer a while ago.
    pub async fn cluster_reports_asked_now(&self) -> Vec<ReportedNode> {
        {
            let mut known = self.core().telemetry.others.known.lock().await;
            known.asked = None;
            known.by_node.values_mut().for_each(|node| node.unable_until = None);
        }
        self.cluster_reports().await
    }

    async fn refresh(&self, known: &mut KnownReports) {
        let others: BTreeMap<NodeId, String> = self.core().members.others().into_iter().collect();
        known.by_node.retain(|id, _| others.contains_key(id));
        let now = Instant::now();
        let mut asked = Vec::new();
        for (id, address) in others {
            let node = known.by_node.entry(id).or_default();
            if node.unable_until.is_none_or(|until| until <= now) {
                asked.push((id, self.ask_report(id, address, SHORT)));
            }
        }
        for (id, answer) in asked {
            let node = known.by_node.entry(id).or_default();
            match answer.await {
                Ok(report) => {
                    *node = KnownNode {
                        report: Some(Arc::new(report)),
                        reported_ms: now_ms(),
                        ..KnownNode::default()
                    };
                }
                Err(ReportError::Unable) => {
                    node.unable_until = Some(now + UNABLE_FOR);
                    node.report = None;
                    node.trouble = Some("its release tells nothing of itself".to_owned());
                }
                Err(ReportError::Unreachable(why)) => node.trouble = Some(why),
            }
        }
    }

    /// Names that other nodes have told in their last reports.
    pub fn reported_names(&self) -> BTreeMap<NodeId, String> {
        self.core().telemetry.others.names.lock().expect("no thread panics while it holds the names").clone()
    }

    fn note_names(&self, known: &KnownReports) {
        let name = |node: &KnownNode| node.report.as_ref()?.text("name").map(str::to_owned);
        let told = known.by_node.iter().filter_map(|(id, node)| Some((*id, name(node)?)));
        let told = told.filter(|(_, name)| !name.is_empty()).collect();
        *self.core().telemetry.others.names.lock().expect("no thread panics while it holds the names") = told;
    }

    /// One node with the samples of the last hour; none if no node has this id.
    pub async fn hour_of(&self, id: NodeId) -> Option<Result<NodeReport, String>> {
        if id == self.identity().member {
            return Some(Ok(self.report_with_hour()));
        }
        let address = self.core().members.others().into_iter().find(|(other, _)| *other == id)?.1;
        Some(self.ask_report(id, address, WITH_SERIES).await.map_err(|error| match error {
            ReportError::Unable => "its release tells nothing of itself".to_owned(),
            ReportError::Unreachable(why) => why,
        }))
    }

    /// Begins at once, on a thread of its own.
    fn ask_report(
        &self,
        id: NodeId,
        address: String,
        kind: u8,
    ) -> impl Future<Output = Result<NodeReport, ReportError>> + use<> {
        let asking = self.ask_node(id, address, vec![STATUS_QUESTION, kind]);
        async move {
            let bytes = asking.await.map_err(ReportError::Unreachable)?;
            NodeReport::decode(bytes).ok_or(ReportError::Unable)
        }
    }

    fn ask_node(
        &self,
        id: NodeId,
        address: String,
        question: Vec<u8>,
    ) -> impl Future<Output = Result<Bytes, String>> + use<> {
        let security = self.core().security.peers.now();
        let asking = tokio::task::spawn_blocking(move || {
            let place = host_and_port(&address).to_owned();
            let dial = || security.dial(PeerClaim::Member { id: id.0, address: &place }, &place);
            question::ask(&place, &question, ANSWER_TIMEOUT, dial)
        });
        async move {
            let answer = asking.await.map_err(|_| "this node stops".to_owned())?;
            answer.map_err(|error| error.to_string())
        }
    }

    /// Says who answers other nodes' questions about clients and watches; the first one does.
    pub fn answer_inspections(&self, answerer: impl InspectionAnswerer + 'static) {
        self.core().telemetry.inspections().get_or_insert_with(|| Arc::new(answerer));
    }

    /// Asks another node what its API knows.
    pub async fn ask_inspection(&self, id: NodeId, question: &[u8]) -> Result<Bytes, InspectionTrouble> {
        let others = self.core().members.others();
        let address = others.into_iter().find(|(other, _)| *other == id).map(|(_, address)| address);
        let address = address.ok_or(InspectionTrouble::UnknownNode)?;
        let question = [&[STATUS_QUESTION, INSPECTION], question].concat();
        self.ask_node(id, address, question).await.map_err(InspectionTrouble::Unreachable)
    }
}

enum ReportError {
    /// The node answers, but does not know this question.
    Unable,
    Unreachable(String),
}

const _: () = assert!(SHORT_SERIES.len() <= SERIES.len());
