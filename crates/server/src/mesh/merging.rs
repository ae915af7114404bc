//! Custom values whose handler is a script, merged outside the mesh's thread. A request that would put one goes in: what is
//! there is read, the script makes one value of it and the new one, and the write puts that in the place of what was read. What
//! was written meanwhile stays beside it, and is merged by the next write, or for a reader. A reply goes in: values side by
//! side are folded before a client sees them.
//! So many scripts run at a time, each within its bounds; where one fails, values stay side by side and the last write is shown.
//! What replicas hold follows from writes alone, never from what a script did on one node. See docs/adr/0057.

use crate::core::Core;
use crate::merge_scripts::{BoundedScripts, ScriptFailure, Scripts};
use crate::mesh::handle::MeshHandle;
use base::Code;
use base::limits::MESH_SIBLINGS_MAX;
use bytes::Bytes;
use mesh::{
    Attributes, Body, Handler, Handlers, Kind, Op, Record, Reply, Request, Siblings, Write, documents,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Scripts that run at a time. Each takes 64 MiB at most.
const RUNNING_MAX: usize = 2;
/// How long a merge may wait for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);
/// For all that is merged for one value, however many are side by side.
const FOLD_TIMEOUT: Duration = Duration::from_secs(4);
/// To try a script before it is registered.
pub const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a write is done again that found too many values side by side.
const ATTEMPTS: usize = 4;
/// Where a script fails on more values than this, a write replaces all but the last: the next ones need space. What it replaces
/// goes to the log of conflicts.
const APART_MAX: usize = MESH_SIBLINGS_MAX / 2;

/// What a script was last unable to do on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptTrouble {
    pub fell_back: u64,
    pub reason: &'static str,
}

pub(crate) struct Merging {
    scripts: Scripts,
    turns: Arc<Semaphore>,
    /// The registry of this version.
    known: Mutex<(u64, Arc<Handlers>)>,
    /// By the handler's name.
    troubles: Mutex<BTreeMap<String, ScriptTrouble>>,
}

impl Default for Merging {
    fn default() -> Merging {
        Merging {
            scripts: Scripts::default(),
            turns: Arc::new(Semaphore::new(RUNNING_MAX)),
            known: Mutex::default(),
            troubles: Mutex::default(),
        }
    }
}

/// Why values stay side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeSkipped {
    /// Too many scripts run already.
    Busy,
    Failed(ScriptFailure),
}

impl MergeSkipped {
    fn reason(self) -> &'static str {
        match self {
            MergeSkipped::Busy => "busy",
            MergeSkipped::Failed(ScriptFailure::Operations) => "operations",
            MergeSkipped::Failed(ScriptFailure::Memory) => "memory",
            MergeSkipped::Failed(ScriptFailure::Time) => "time",
            MergeSkipped::Failed(ScriptFailure::Failed) => "error",
        }
    }
}

impl Merging {
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        timeout(TURN_TIMEOUT, self.turns.clone().acquire_owned()).await.ok()?.ok()
    }

    fn handlers(&self, core: &Core) -> Arc<Handlers> {
        let mut known = self.known.lock().expect("no thread panics while it holds the handlers");
        if let Some(document) =
            core.published.documents.get(documents::HANDLERS).filter(|document| document.version != known.0)
            && let Some(handlers) = Handlers::decode(document.bytes)
        {
            *known = (document.version, Arc::new(handlers));
        }
        known.1.clone()
    }

    /// What values come to, in their order.
    async fn fold(&self, handler: Handler, values: Vec<Bytes>) -> Result<Bytes, MergeSkipped> {
        let turn = self.turn().await.ok_or(MergeSkipped::Busy)?;
        let scripts = self.scripts.until(Instant::now() + FOLD_TIMEOUT);
        let folding = spawn_blocking(move || {
            let _turn = turn;
            let merge = |left: Bytes, right: Bytes| handler.merge(&scripts, &left, &right);
            let folded = values.into_iter().map(Some).reduce(|left, right| merge(left?, right?)).flatten();
            folded.ok_or_else(|| MergeSkipped::Failed(scripts.failure().unwrap_or(ScriptFailure::Failed)))
        });
        folding.await.unwrap_or(Err(MergeSkipped::Failed(ScriptFailure::Failed)))
    }

    /// Counts it, and says it once for each handler and reason.
    fn note(&self, core: &Core, name: &str, outcome: Result<(), MergeSkipped>) {
        let reason = match outcome {
            Ok(()) => return core.metrics.mesh.merged("merged"),
            Err(apart) => apart.reason(),
        };
        core.metrics.mesh.merged(reason);
        let mut troubles = self.troubles.lock().expect("no thread panics while it holds the troubles");
        let trouble = troubles.entry(name.to_owned()).or_insert(ScriptTrouble { fell_back: 0, reason: "" });
        trouble.fell_back += 1;
        if trouble.reason != reason {
            trouble.reason = reason;
            tracing::warn!(
                handler = name,
                reason,
                "a merge script failed in use: values stay side by side, and the last write is shown"
            );
        }
    }
}

/// Whether a script may have to run before the request is made.
pub fn is_custom_write(request: &Request) -> bool {
    let is_custom = |write: &Write| write.kind == Kind::Custom && matches!(write.op, Op::Put(_));
    match request {
        Request::Write(write) => is_custom(write),
        Request::Batch(writes) => writes.iter().any(is_custom),
        _ => false,
    }
}

/// Whether a reply has values side by side that a script may have to fold.
pub fn has_values_apart(reply: &Reply) -> bool {
    match reply {
        Reply::Found(Some(record)) | Reply::Written(record) => is_apart(record),
        Reply::Got(got) => got.record.as_deref().is_some_and(is_apart),
        Reply::Scanned(scanned) => scanned.records.iter().any(|(_, record)| is_apart(record)),
        Reply::Batch(replies) => replies.iter().any(has_values_apart),
        _ => false,
    }
}

fn is_apart(record: &Record) -> bool {
    record.kind == Kind::Custom && siblings_of(record).is_some_and(|siblings| siblings.values().len() > 1)
}

fn siblings_of(record: &Record) -> Option<&Siblings> {
    match &record.body {
        Body::Siblings(siblings) => Some(siblings),
        _ => None,
    }
}

fn handler_of(record: &Record) -> Option<Bytes> {
    record.header.rare.as_ref().and_then(|rare| rare.handler.clone())
}

/// Oldest first.
fn values_of(siblings: &Siblings) -> Vec<Bytes> {
    let mut values: Vec<_> = siblings.values().iter().collect();
    values.sort_by_key(|sibling| (sibling.stamp, sibling.dot));
    values.into_iter().map(|sibling| sibling.value.clone()).collect()
}

impl MeshHandle {
    /// Waits until a script may be tried, and for the verdict of `judge`, which is given all scripts until a deadline.
    pub async fn try_script<T: Send + 'static>(
        &self,
        judge: impl FnOnce(BoundedScripts) -> T + Send + 'static,
    ) -> Result<T, Code> {
        let merging = &self.core.mesh.merging;
        let turn = merging.turn().await.ok_or(Code::TooManyRequests)?;
        let scripts = merging.scripts.until(Instant::now() + TRIAL_TIMEOUT);
        let judged = spawn_blocking(move || {
            let _turn = turn;
            judge(scripts)
        });
        judged.await.map_err(|_| Code::BadHandler)
    }

    /// What scripts were unable to do on this node, by the names of handlers.
    pub fn script_troubles(&self) -> BTreeMap<String, ScriptTrouble> {
        self.core.mesh.merging.troubles.lock().expect("no thread panics while it holds the troubles").clone()
    }

    /// Makes a request with custom writes.
    pub async fn write_custom(&self, request: Request, timeout: Option<Duration>) -> Result<Reply, Code> {
        match request {
            Request::Write(write) => {
                for _ in 1..ATTEMPTS {
                    match self.write_once(&write, timeout).await {
                        Err(Code::TooManySiblings) | Ok(Reply::Refused(Code::TooManySiblings)) => {}
                        reply => return reply,
                    }
                }
                self.write_once(&write, timeout).await
            }
            Request::Batch(mut writes) => {
                for write in &mut writes {
                    if let Some(merged) = self.merged(write, timeout).await {
                        *write = merged;
                    }
                }
                self.request(Request::Batch(writes), timeout).await
            }
            other => self.request(other, timeout).await,
        }
    }

    async fn write_once(&self, write: &Arc<Write>, timeout: Option<Duration>) -> Result<Reply, Code> {
        let write = self.merged(write, timeout).await.map_or_else(|| write.clone(), Arc::new);
        self.request(Request::Write(write), timeout).await
    }

    /// The write with what its script makes of what is there and the new value. None if it is to be done as it is: no script
    /// has to do with it, or nothing is there, or it cannot be read.
    async fn merged(&self, write: &Write, timeout: Option<Duration>) -> Option<Write> {
        let (Kind::Custom, Op::Put(new)) = (write.kind, &write.op) else { return None };
        let merging = &self.core.mesh.merging;
        let handlers = merging.handlers(&self.core);
        let script = |name: &Bytes| handlers.get(&String::from_utf8_lossy(name)).filter(Handler::is_script);
        if let Some(name) = &write.attributes.handler {
            script(name)?;
        }
        let read = Request::Read { key: write.key.clone(), r: Some(1) };
        let Ok(Reply::Found(Some(record))) = self.request(read, timeout).await else { return None };
        let is_live = !record.is_tombstone() && record.header.expires_ms.is_none_or(|end| end > now_ms());
        let siblings = siblings_of(&record).filter(|_| record.kind == Kind::Custom && is_live)?;
        let name = write.attributes.handler.clone().or_else(|| handler_of(&record))?;
        let handler = script(&name)?;
        let values = values_of(siblings);
        let n_apart = values.len();
        let folded = merging.fold(handler, values.into_iter().chain([new.clone()]).collect()).await;
        merging.note(&self.core, &String::from_utf8_lossy(&name), verdict(&folded));
        let op = match folded {
            Ok(value) => Op::Put(value),
            Err(_) if n_apart < APART_MAX => return None,
            // There is no more space beside it.
            Err(_) => Op::Replace(new.clone()),
        };
        let context = Some(record.context.clone());
        let attributes = Attributes { context, handler: Some(name), ..write.attributes.clone() };
        Some(Write { op, attributes, ..write.clone() })
    }

    /// The reply as a client is shown it: one value in the place of those side by side.
    pub async fn show_custom(&self, mut reply: Reply) -> Reply {
        for record in records_of(&mut reply) {
            if is_apart(record) {
                self.show_record(record).await;
            }
        }
        reply
    }

    async fn show_record(&self, record: &mut Record) {
        let merging = &self.core.mesh.merging;
        let name = String::from_utf8_lossy(&handler_of(record).unwrap_or_default()).into_owned();
        let Some(siblings) = siblings_of(record) else { return };
        let handler = merging.handlers(&self.core).get(&name);
        let values = values_of(siblings);
        let last = values.last().cloned().unwrap_or_default();
        let value = match handler {
            Some(handler) => {
                let folded = merging.fold(handler, values).await;
                merging.note(&self.core, &name, verdict(&folded));
                folded.unwrap_or(last)
            }
            None => last,
        };
        record.body = Body::Siblings(siblings.folded(value));
    }
}

fn records_of(reply: &mut Reply) -> Vec<&mut Record> {
    match reply {
        Reply::Found(Some(record)) | Reply::Written(record) => vec![&mut **record],
        Reply::Got(got) => got.record.as_deref_mut().into_iter().collect(),
        Reply::Scanned(scanned) => scanned.records.iter_mut().map(|(_, record)| record).collect(),
        Reply::Batch(replies) => replies.iter_mut().flat_map(records_of).collect(),
        _ => vec![],
    }
}

fn verdict(folded: &Result<Bytes, MergeSkipped>) -> Result<(), MergeSkipped> {
    match folded {
        Ok(_) => Ok(()),
        Err(apart) => Err(*apart),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
