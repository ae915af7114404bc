//! What `?explain=1` adds to an answer: where the key lies, which replicas were counted, which write is shown, in which state
//! the record is, how long it took. A refusal for a key that is not there, or not any more, has it as well.
//! Nothing here decides anything; it shows what was decided.

use super::refusal::Refusal;
use super::request_head::{RequestHead, now_ms};
use super::value::{kind_name, text_of};
use super::{Rest, conflicts, date};
use base::NodeId;
use base::limits::MESH_PAGE_KEYS_MAX;
use mesh::{Body, Conflict, Dot, Explanation, Key, ListConflicts, MovePhase, Record, Stamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

/// Elements of a set whose tags are told.
const TAGGED_MAX: usize = 1_000;

pub struct PendingExplanation {
    began: Instant,
}

impl PendingExplanation {
    /// Only if the request asks for it.
    pub fn begin(head: &RequestHead) -> Result<Option<PendingExplanation>, Refusal> {
        Ok(head.query.flag("explain")?.then(|| PendingExplanation { began: Instant::now() }))
    }

    /// Where the key lies, which is known of every key.
    fn place(&self, rest: &Rest, head: &RequestHead, key: &Key) -> Map<String, Value> {
        let topology = rest.mesh().topology();
        let partition = key.partition();
        let copies = topology.copies(head.space.id).unwrap_or(head.space.wants.copies);
        let placement = topology.placement();
        let names = rest.node_names();
        let nodes = |list: &[base::NodeId]| -> Vec<Value> {
            let name = |id: &base::NodeId| names.get(id).cloned().unwrap_or_default();
            list.iter().map(|id| json!({ "node": format!("{:x}", id.0), "name": name(id) })).collect()
        };
        let (from, to) =
            (placement.now.of(partition, copies.into()), placement.next.of(partition, copies.into()));
        // The replicas that reads ask, and those that must have writes as well.
        let (now, also) = match topology.phase(partition) {
            MovePhase::Still => (from, None),
            MovePhase::Pending => (from, Some(to)),
            MovePhase::Switched => (to, Some(from)),
            MovePhase::Moved => (to, None),
        };
        let majority = now.len() / 2 + 1;
        let asked_for = |name: &str| head.query.get(name).and_then(|text| text.parse().ok());
        object_of(json!({
            "namespace": head.space.name,
            "coordinator": rest.handle().identity().name,
            "epoch": topology.epoch.0,
            "partition": partition.0,
            "replicas": nodes(now),
            "writes_also": also.map(nodes),
            "n": now.len(),
            "r": asked_for("r").unwrap_or(majority),
            "w": asked_for("w").unwrap_or(majority),
            "took_ms": self.began.elapsed().as_secs_f64() * 1e3,
        }))
    }

    fn end(self, rest: &Rest, head: &RequestHead, key: &Key, record: &Record, found: &FoundFacts) -> Value {
        let why = Explanation::of(record, key, &found.conflicts, now_ms());
        let written_by = |dot: &Dot| written_by(rest, dot);
        let by = |dot: &Dot| {
            format!("{} in {}", names_of(rest, dot.actor.node), rest.region_name(dot.actor.region))
        };
        let preferred_to = why.preferred_to.iter().map(|(dot, stamp, rule)| {
            json!({ "written_by": written_by(dot), "hlc": hlc(*stamp), "rule": rule.name() })
        });
        let preferred_to: Vec<Value> = preferred_to.collect();
        let mut said = self.place(rest, head, key);
        said.append(&mut object_of(json!({
            "type": kind_name(record.kind),
            "state": state_of(record, &why, &found.replicated),
            "replicated": found.replicated,
            "written_by": written_by(&why.dot),
            "hlc": hlc(why.stamp),
            "last_merge": date::rfc3339(record.updated_ms()),
            "tags": tags_of(rest, record),
            "shown": format!("{:?}", why.shown).to_lowercase(),
            "fence": why.fence,
            "home_region": why.home.map(|home| rest.region_name(home)),
            "siblings": why.n_siblings,
            "preferred_to": preferred_to,
            "because": why.sentences(by),
        })));
        Value::Object(said)
    }
}

/// What is asked for an explanation alone.
#[derive(Default)]
struct FoundFacts {
    conflicts: Vec<Conflict>,
    /// Other regions by name, and whether they have the last write, where this node has given the write its name and knows.
    replicated: BTreeMap<String, Option<bool>>,
}

impl FoundFacts {
    /// What lost is known as far as the nodes of this region answer.
    async fn gather(rest: &Rest, key: &Key, record: &Record) -> FoundFacts {
        let order = conflicts::newest_first(rest);
        let newest = ListConflicts { after: None, limit: MESH_PAGE_KEYS_MAX, order };
        let met = conflicts::of_key(rest, key, newest).await;
        let conflicts = met.map(|listed| listed.conflicts).unwrap_or_default();
        let dot = record.header.dot;
        let (_, others) = rest.mesh().regions();
        let is_ours =
            dot.actor.region == rest.region_id() && dot.actor.node == rest.handle().identity().member;
        let reached = if is_ours && !others.is_empty() {
            rest.mesh().reached(dot).await.unwrap_or_default()
        } else {
            Vec::new()
        };
        let replicated = others.iter().map(|remote| {
            let is_behind = remote.state.as_ref().is_some_and(|state| state.acked < state.last);
            let has = reached.contains(&remote.region.id).then_some(true);
            (remote.region.name.clone(), has.or((is_ours && is_behind).then_some(false)))
        });
        FoundFacts { conflicts, replicated: replicated.collect() }
    }
}

/// A word for what the record is: gone, or waiting for regions, or with values side by side, or what is left of several.
fn state_of(record: &Record, why: &Explanation, replicated: &BTreeMap<String, Option<bool>>) -> &'static str {
    match () {
        _ if record.is_tombstone() => "tombstone",
        _ if !record.is_live(now_ms()) => "expired",
        _ if replicated.values().any(|has| *has == Some(false)) => "pending",
        _ if why.n_siblings > 1 => "conflict",
        _ if !why.preferred_to.is_empty() => "resolved",
        _ => "active",
    }
}

/// The elements of a set with the additions that keep them there; none of another type.
fn tags_of(rest: &Rest, record: &Record) -> Option<Vec<Value>> {
    let Body::Set(set) = &record.body else { return None };
    let tags = set.entries().take(TAGGED_MAX).map(|(element, dots)| {
        let tags: Vec<Value> = dots.iter().map(|dot| written_by(rest, dot)).collect();
        json!({ "element": text_of(element), "tags": tags })
    });
    Some(tags.collect())
}

fn written_by(rest: &Rest, dot: &Dot) -> Value {
    json!({
        "region": rest.region_name(dot.actor.region),
        "node": names_of(rest, dot.actor.node),
        "incarnation": dot.actor.incarnation,
        "counter": dot.counter,
    })
}

fn hlc(stamp: Stamp) -> Value {
    json!({ "physical": stamp.ms(), "logical": stamp.logical() })
}

fn object_of(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The explanation, if the request asks for it.
pub async fn ended(
    explaining: Option<PendingExplanation>,
    rest: &Rest,
    head: &RequestHead,
    key: &Key,
    record: &Record,
) -> Option<Value> {
    let explaining = explaining?;
    let found = FoundFacts::gather(rest, key, record).await;
    Some(explaining.end(rest, head, key, record, &found))
}

/// A refusal for a key that is not shown, with the explanation if the request asks for it.
pub async fn refused(
    explaining: Option<PendingExplanation>,
    (rest, head): (&Rest, &RequestHead),
    key: &Key,
    record: Option<&Record>,
    refusal: Refusal,
) -> Refusal {
    let Some(explaining) = explaining else { return refusal };
    let explain = match record {
        Some(record) => {
            let found = FoundFacts::gather(rest, key, record).await;
            explaining.end(rest, head, key, record, &found)
        }
        None => {
            let mut said = explaining.place(rest, head, key);
            said.insert("state".to_owned(), "absent".into());
            Value::Object(said)
        }
    };
    refusal.with("explain", explain)
}

fn names_of(rest: &Rest, node: NodeId) -> String {
    rest.node_names().get(&node).cloned().unwrap_or_else(|| format!("{:x}", node.0))
}
