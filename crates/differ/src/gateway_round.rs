//! A round by JSON: the same requests as of other rounds, sent to the gateways of two fresh servers. Status and body of every
//! answer must be the same, but for what `compare` leaves out of messages, and, at the end, the names of the metrics: what
//! etcd tells and Althing does not must be in the list below.

use crate::generator::RequestGenerator;
use crate::http::{HttpAnswer, HttpConn};
use crate::round::Outcome;
use crate::test_call::{Step, TestCall};
use crate::{Difference, PATIENCE, json};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::timeout;

/// Metrics that Althing does not tell (COMPAT.md, deviation 45), by how their names begin.
const NOT_TOLD: &[&str] = &[
    "etcd_debugging_auth_revision",
    "etcd_debugging_disk_backend_commit_",
    "etcd_debugging_lease_renewed_total",
    "etcd_debugging_lease_ttl_total",
    "etcd_debugging_mvcc_db_compaction_last",
    "etcd_debugging_mvcc_index_compaction_pause_duration_milliseconds",
    "etcd_debugging_mvcc_range_total",
    "etcd_debugging_server_watch_send_loop_",
    "etcd_debugging_snap_",
    "etcd_debugging_store_",
    "etcd_grpc_proxy_",
    "etcd_network_snapshot_",
    "etcd_server_feature_enabled",
    "etcd_server_go_version",
    "etcd_server_snapshot_apply_in_progress_total",
    "etcd_snap_",
    "go_",
    "process_virtual_memory_max_bytes",
    "promhttp_",
];

struct GatewayRound {
    theirs: HttpConn,
    ours: HttpConn,
    generator: RequestGenerator,
    seed: u64,
    step: u64,
}

pub async fn run(
    theirs: &str,
    ours: &str,
    generator: RequestGenerator,
    ops: u64,
    done: &AtomicU64,
) -> Outcome<()> {
    let (theirs, ours) = (HttpConn::new(theirs), HttpConn::new(ours));
    let seed = generator.seed;
    let mut round = GatewayRound { theirs, ours, generator, seed, step: 0 };
    let mut asked = 0;
    while asked < ops {
        let step = round.generator.step();
        let before = asked;
        round.step += 1;
        for call in calls(step) {
            if let Some((path, body)) = json::request(&call) {
                asked += 1;
                round.ask(&call, path, body.to_string()).await?;
            } else if let TestCall::Malformed { .. } = call {
                asked += 1;
                round.ask_malformed().await?;
            }
        }
        done.fetch_add(asked - before, Ordering::Relaxed);
    }
    round.compare_metrics().await
}

/// Watches are not asked for by JSON: their answers have no end.
fn calls(step: Step) -> Vec<TestCall> {
    match step {
        Step::Reads(reads) => reads,
        Step::Alone(call) => vec![call],
        Step::ShortLease(grant) => {
            let id = grant.id;
            vec![TestCall::Grant(grant), TestCall::Revoke(id)]
        }
        Step::Watch { .. } => vec![],
    }
}

impl GatewayRound {
    async fn ask(&mut self, call: &TestCall, path: &str, body: String) -> Outcome<()> {
        let (expected, found) = self.answers(path, &body).await;
        let (expected, found) = (essence(call, &expected), essence(call, &found));
        if expected != found {
            return Err(self.difference(&(path, body), &expected, &found));
        }
        let revision = found.1["header"]["revision"].as_str().and_then(|text| text.parse().ok());
        if let (TestCall::Compact(compact), Some(_)) = (call, revision) {
            self.generator.floor = compact.revision;
        }
        self.generator.now = self.generator.now.max(revision.unwrap_or(0));
        Ok(())
    }

    /// Of what is no request, each has its own text.
    async fn ask_malformed(&mut self) -> Outcome<()> {
        let body = match self.generator.below(4) {
            0 => r#"{"key": "Zm9v""#,
            1 => r#"{"key": 7}"#,
            2 => r#"{"key": "not base64!"}"#,
            _ => r#"[]"#,
        };
        let path = "/v3/kv/put";
        let (expected, found) = self.answers(path, body).await;
        if expected.status == found.status {
            return Ok(());
        }
        Err(self.difference(&(path, body), &expected.status, &found.status))
    }

    async fn answers(&mut self, path: &str, body: &str) -> (HttpAnswer, HttpAnswer) {
        tokio::join!(in_time(self.theirs.post(path, body)), in_time(self.ours.post(path, body)))
    }

    async fn compare_metrics(&mut self) -> Outcome<()> {
        let (theirs, ours) =
            tokio::join!(in_time(self.theirs.get("/metrics")), in_time(self.ours.get("/metrics")));
        let ours = metric_names(&ours);
        let missing: Vec<String> =
            metric_names(&theirs).into_iter().filter(|name| !is_told(name, &ours)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(self.difference(&"/metrics", &missing, &"none of these"))
    }

    fn difference(&self, request: &dyn Debug, theirs: &dyn Debug, ours: &dyn Debug) -> Box<Difference> {
        Box::new(Difference {
            seed: self.seed,
            step: self.step,
            request: format!("{request:?}"),
            theirs: format!("{theirs:?}"),
            ours: format!("{ours:?}"),
        })
    }
}

fn is_told(name: &str, ours: &BTreeSet<String>) -> bool {
    ours.contains(name) || NOT_TOLD.iter().any(|not_told| name.starts_with(not_told))
}

/// The names of all samples.
fn metric_names(answer: &HttpAnswer) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(&answer.body);
    let samples = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next().map(str::to_owned)).collect()
}

/// What cannot be asked is told instead of a body, with status zero.
async fn in_time(answer: impl Future<Output = std::io::Result<HttpAnswer>>) -> HttpAnswer {
    let failed = |text: String| HttpAnswer { status: 0, body: text.into_bytes() };
    match timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed("no answer".to_owned()),
    }
}

/// The status, and what of the body must be equal.
fn essence(call: &TestCall, answer: &HttpAnswer) -> (u16, Value) {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    normalize(&mut body);
    if let (TestCall::TimeToLive(_), Value::Object(fields)) = (call, &mut body) {
        // Two clocks.
        fields.remove("TTL");
    }
    (answer.status, body)
}

fn normalize(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(normalize),
        Value::Object(fields) => {
            // Releases before 3.6 repeat the message.
            fields.remove("error");
            if let Some(header) = fields.get_mut("header").and_then(Value::as_object_mut) {
                header.retain(|name, _| name == "revision");
            }
            if is_key_without_value(fields) {
                fields.remove("lease");
            }
            // Deviation 21: in any order.
            for name in ["leases", "keys"] {
                if let Some(all) = fields.get_mut(name).and_then(Value::as_array_mut) {
                    all.sort_by_key(Value::to_string);
                }
            }
            fields.values_mut().for_each(normalize);
        }
        _ => {}
    }
}

/// Deviation 27: keys without values come without leases.
fn is_key_without_value(fields: &Map<String, Value>) -> bool {
    fields.contains_key("mod_revision") && !fields.contains_key("value")
}
