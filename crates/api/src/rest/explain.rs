//! What `?explain=1` adds to an answer: where the key lies, which replicas were counted, which write is shown, how long it
//! took.
//! Nothing here decides anything; it shows what was decided.

use super::refusal::Refusal;
use super::request_head::{RequestHead, now_ms};
use super::value::kind_name;
use super::{Rest, conflicts};
use base::NodeId;
use base::limits::MESH_PAGE_KEYS_MAX;
use mesh::{Conflict, Dot, Explanation, Key, ListConflicts, MovePhase, Record, Stamp};
use serde_json::{Value, json};
use std::time::Instant;

pub struct PendingExplanation {
    began: Instant,
}

impl PendingExplanation {
    /// Only if the request asks for it.
    pub fn begin(head: &RequestHead) -> Result<Option<PendingExplanation>, Refusal> {
        Ok(head.query.flag("explain")?.then(|| PendingExplanation { began: Instant::now() }))
    }

    fn end(
        self,
        rest: &Rest,
        head: &RequestHead,
        key: &Key,
        record: &Record,
        conflicts: &[Conflict],
    ) -> Value {
        let why = Explanation::of(record, key, conflicts, now_ms());
        let written_by = |dot: &Dot| {
            let node = names_of(rest, dot.actor.node);
            json!({
                "region": rest.region_name(dot.actor.region),
                "node": node,
                "incarnation": dot.actor.incarnation,
                "counter": dot.counter,
            })
        };
        let by = |dot: &Dot| {
            format!("{} in {}", names_of(rest, dot.actor.node), rest.region_name(dot.actor.region))
        };
        let hlc = |stamp: Stamp| json!({ "physical": stamp.ms(), "logical": stamp.logical() });
        let preferred_to = why.preferred_to.iter().map(|(dot, stamp, rule)| {
            json!({ "written_by": written_by(dot), "hlc": hlc(*stamp), "rule": rule.name() })
        });
        let preferred_to: Vec<Value> = preferred_to.collect();
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
        json!({
            "namespace": head.space.name,
            "coordinator": rest.handle().identity().name,
            "epoch": topology.epoch.0,
            "partition": partition.0,
            "replicas": nodes(now),
            "writes_also": also.map(nodes),
            "n": now.len(),
            "r": asked_for("r").unwrap_or(majority),
            "w": asked_for("w").unwrap_or(majority),
            "type": kind_name(record.kind),
            "written_by": written_by(&why.dot),
            "hlc": hlc(why.stamp),
            "shown": format!("{:?}", why.shown).to_lowercase(),
            "fence": why.fence,
            "home_region": why.home.map(|home| rest.region_name(home)),
            "siblings": why.n_siblings,
            "preferred_to": preferred_to,
            "because": why.sentences(by),
            "took_ms": self.began.elapsed().as_secs_f64() * 1e3,
        })
    }
}

/// The explanation, if the request asks for it. The values that lost are known as far as the nodes of this region answer.
pub async fn ended(
    explaining: Option<PendingExplanation>,
    rest: &Rest,
    head: &RequestHead,
    key: &Key,
    record: &Record,
) -> Option<Value> {
    let explaining = explaining?;
    let order = conflicts::newest_first(rest);
    let newest = ListConflicts { after: None, limit: MESH_PAGE_KEYS_MAX, order };
    let met = conflicts::of_key(rest, key, newest).await;
    let met = met.map(|listed| listed.conflicts).unwrap_or_default();
    Some(explaining.end(rest, head, key, record, &met))
}

fn names_of(rest: &Rest, node: NodeId) -> String {
    rest.node_names().get(&node).cloned().unwrap_or_else(|| format!("{:x}", node.0))
}
