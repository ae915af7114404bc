//! What `?explain=1` adds to an answer: where the key lies, who was counted, which write is shown, how long it took.
//! Nothing here decides anything; it says what was decided.

use super::Rest;
use super::asked::Asked;
use super::refusal::Refusal;
use super::value::kind_name;
use mesh::key::Key;
use mesh::record::Record;
use mesh::topology::Phase;
use serde_json::{Value, json};
use std::time::Instant;

pub struct Explaining {
    began: Instant,
}

impl Explaining {
    /// Only if it is wanted.
    pub fn begin(asked: &Asked) -> Result<Option<Explaining>, Refusal> {
        Ok(asked.query.flag("explain")?.then(|| Explaining { began: Instant::now() }))
    }

    pub fn end(self, rest: &Rest, asked: &Asked, key: &Key, record: &Record) -> Value {
        let topology = rest.mesh().topology();
        let partition = key.partition();
        let copies = topology.copies(asked.space.id).unwrap_or(asked.space.wants.copies);
        let placement = topology.placement();
        let names = rest.node_names();
        let nodes = |list: &[base::NodeId]| -> Vec<Value> {
            let name = |id: &base::NodeId| names.get(id).cloned().unwrap_or_default();
            list.iter().map(|id| json!({ "node": format!("{:x}", id.0), "name": name(id) })).collect()
        };
        let (from, to) =
            (placement.now.of(partition, copies.into()), placement.next.of(partition, copies.into()));
        // Whom reads ask, and who must have writes as well.
        let (now, also) = match topology.phase(partition) {
            Phase::Still => (from, None),
            Phase::Pending => (from, Some(to)),
            Phase::Switched => (to, Some(from)),
            Phase::Moved => (to, None),
        };
        let majority = now.len() / 2 + 1;
        let asked_for = |name: &str| asked.query.get(name).and_then(|text| text.parse().ok());
        let dot = record.header.dot;
        json!({
            "namespace": asked.space.name,
            "coordinator": rest.handle().identity().name,
            "epoch": topology.epoch.0,
            "partition": partition.0,
            "replicas": nodes(now),
            "writes_also": also.map(nodes),
            "n": now.len(),
            "r": asked_for("r").unwrap_or(majority),
            "w": asked_for("w").unwrap_or(majority),
            "type": kind_name(record.kind),
            "written_by": {
                "region": rest.region_name(dot.actor.region),
                "node": names.get(&dot.actor.node).cloned().unwrap_or_else(|| format!("{:x}", dot.actor.node.0)),
                "incarnation": dot.actor.incarnation,
                "counter": dot.counter,
            },
            "hlc": { "physical": record.header.stamp.ms(), "logical": record.header.stamp.logical() },
            "took_ms": self.began.elapsed().as_secs_f64() * 1e3,
        })
    }
}
