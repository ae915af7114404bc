//! `/v1/cluster`: every node of the cluster at a glance, whichever node is asked; its events, and the last hour of a node's
//! figures. Reports that nodes make of themselves go in; one document with a sentence for people comes out.

use super::query::Query;
use super::refusal::Refusal;
use super::{Rest, json};
use axum::extract::RawQuery;
use axum::response::Response;
use base::{Code, NodeId};
use coord::{Alarm, AlarmKind, AlarmOrigin};
use mesh::MemberState;
use serde_json::{Map, Value, json as object};
use server::{NodeReport, NodeSeries, ReportedNode, SERIES};
use std::collections::BTreeMap;

/// Events of all nodes that are shown, and refusals beside them.
const EVENTS_MAX: usize = 100;
/// Kinds of events that tell of refusals.
const REFUSALS: [&str; 2] = ["login", "denied"];

/// `GET /v1/cluster`.
pub async fn get(rest: Rest) -> Result<Response, Refusal> {
    Ok(json(&document(&rest).await))
}

pub async fn document(rest: &Rest) -> Value {
    let handle = rest.handle();
    let reports = handle.cluster_reports().await;
    let names = names_of(rest, &reports);
    let learners: BTreeMap<NodeId, bool> =
        handle.members().list().into_iter().map(|member| (member.id, member.learner)).collect();
    let zones: BTreeMap<NodeId, (String, &'static str)> = ring_of(rest);
    let nodes: Map<String, Value> = reports
        .iter()
        .map(|node| {
            let member = learners.get(&node.id).copied();
            (hex(node.id), node_of(node, &names, member, zones.get(&node.id)))
        })
        .collect();
    let status = handle.status();
    let alarms: Vec<Value> =
        handle.maintenance().known_alarms().iter().map(|alarm| alarm_of(alarm, &names)).collect();
    let leader = status.leader.or_else(|| leader_of(&reports));
    let regions = handle.mesh().regions().1;
    let lag_ms = handle.mesh().lag_ms();
    let summary = ClusterSummary {
        members: learners.len(),
        healthy: reports
            .iter()
            .filter(|node| learners.contains_key(&node.id) && node.trouble.is_none())
            .count(),
        data_nodes: reports.iter().filter(|node| !learners.contains_key(&node.id)).count(),
        leader: leader.map(|leader| name_in(&names, leader)),
        regions: regions.len() + 1,
        lag_ms,
        alarms: alarms.len(),
    };
    object!({
        "cluster": format!("{:x}", handle.identity().cluster.0),
        "region": rest.region(),
        "node": hex(handle.identity().member),
        "version": env!("CARGO_PKG_VERSION"),
        "auth": handle.auth().is_on(),
        "leader": leader.map(hex),
        "term": status.term.0,
        "revision": status.revision.0,
        "compacted": status.compacted.0,
        "keys": status.keys,
        "stored_bytes": status.stored_bytes,
        "quota_bytes": status.quota_bytes,
        "lag_ms": lag_ms,
        "regions": regions.len() + 1,
        "healthy": summary.is_well(),
        "summary": summary.sentence(),
        "guarantees": guarantees(rest),
        "alarms": alarms,
        "nodes": nodes,
    })
}

fn leader_of(reports: &[ReportedNode]) -> Option<NodeId> {
    let told = reports.iter().filter(|node| node.trouble.is_none()).filter_map(|node| node.report.as_ref());
    let told = told.filter_map(|report| u64::from_str_radix(report.text("leader")?, 16).ok());
    told.map(NodeId).next()
}

fn names_of(rest: &Rest, reports: &[ReportedNode]) -> BTreeMap<NodeId, String> {
    let told = reports.iter().filter_map(|node| {
        Some((node.id, node.report.as_ref()?.text("name")?.to_owned())).filter(|(_, name)| !name.is_empty())
    });
    rest.node_names().into_iter().filter(|(_, name)| !name.is_empty()).chain(told).collect()
}

fn name_in(names: &BTreeMap<NodeId, String>, node: NodeId) -> String {
    names.get(&node).cloned().unwrap_or_else(|| hex(node))
}

fn ring_of(rest: &Rest) -> BTreeMap<NodeId, (String, &'static str)> {
    let topology = rest.mesh().topology();
    let standing = |state| match state {
        MemberState::Joining => "joining",
        MemberState::Serving => "serving",
        MemberState::Leaving => "leaving",
    };
    let members = topology.members().iter();
    members.map(|member| (member.node, (member.zone.to_string(), standing(member.state)))).collect()
}

fn node_of(
    node: &ReportedNode,
    names: &BTreeMap<NodeId, String>,
    learner: Option<bool>,
    ring: Option<&(String, &'static str)>,
) -> Value {
    let mut shown = Map::new();
    let mut set = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    set("name", name_in(names, node.id).into());
    set("member", learner.is_some().into());
    set("reachable", node.trouble.is_none().into());
    set("trouble", node.trouble.clone().into());
    set("zone", ring.map(|(zone, _)| zone.clone()).into());
    set("ring", ring.map(|(_, standing)| *standing).into());
    let role = node.report.as_ref().and_then(|report| report.text("role")).map(str::to_owned);
    set(
        "role",
        role.unwrap_or_else(|| if learner.is_some() { "follower" } else { "data" }.to_owned()).into(),
    );
    // A node that answers would show another time at every read.
    set("reported_ms", node.trouble.as_ref().map(|_| node.reported_ms).filter(|at_ms| *at_ms > 0).into());
    if let Some(report) = &node.report {
        set("version", report.text("version").into());
        set("region", report.text("region").into());
        set("numbers", numbers_of(report));
        let round_trips = report.round_trips.iter();
        let round_trips: Map<String, Value> =
            round_trips.map(|trip| (hex(trip.peer), rounded(trip.millis))).collect();
        set("round_trips_ms", round_trips.into());
        set("recent", series_of(&report.series));
    }
    Value::Object(shown)
}

fn numbers_of(report: &NodeReport) -> Value {
    report.numbers.iter().map(|(name, number)| (name.clone(), rounded(*number))).collect::<Map<_, _>>().into()
}

fn series_of(series: &NodeSeries) -> Value {
    let values = series.values.iter().map(|(name, values)| {
        let values: Vec<Value> = values.iter().map(|value| rounded(f64::from(*value))).collect();
        (name.clone(), Value::Array(values))
    });
    let values: Map<String, Value> = values.collect();
    object!({ "end_ms": series.end_ms, "step_ms": series.step_ms, "values": values })
}

/// To what a person can tell apart; whole numbers as such. What is not known is null.
fn rounded(number: f64) -> Value {
    if !number.is_finite() {
        Value::Null
    } else if number == number.trunc() && number.abs() < 9e15 {
        (number as i64).into()
    } else if number.abs() >= 1_000.0 {
        number.round().into()
    } else {
        ((number * 1_000.0).round() / 1_000.0).into()
    }
}

/// What an operator ought to do about it is part of the alarm.
fn alarm_of(alarm: &Alarm, names: &BTreeMap<NodeId, String>) -> Value {
    let (kind, advice) = match (alarm.kind, alarm.origin) {
        (AlarmKind::NoSpace, AlarmOrigin::Disk) => (
            "NOSPACE",
            "the disk is nearly full: free space on it, and the alarm clears itself; until then nothing that grows is accepted",
        ),
        (AlarmKind::NoSpace, AlarmOrigin::Healed) => {
            ("NOSPACE", "its cause is gone and nothing is refused; `althing alarm disarm` removes it")
        }
        (AlarmKind::NoSpace, _) => (
            "NOSPACE",
            "the store has reached its quota: compact, delete keys or raise the quota (`althing quota`), then disarm",
        ),
        (AlarmKind::Corrupt, _) => (
            "CORRUPT",
            "the state of this member differs from the majority's: replace the member (`althing member replace`)",
        ),
    };
    object!({ "kind": kind, "node": name_in(names, alarm.member), "advice": advice })
}

struct ClusterSummary {
    members: usize,
    healthy: usize,
    data_nodes: usize,
    leader: Option<String>,
    regions: usize,
    lag_ms: u64,
    alarms: usize,
}

impl ClusterSummary {
    fn is_well(&self) -> bool {
        self.healthy == self.members && self.leader.is_some() && self.alarms == 0
    }

    fn sentence(&self) -> String {
        let ClusterSummary { members, healthy, data_nodes, regions, lag_ms, .. } = self;
        let mut parts =
            vec![format!("{healthy} of {members} {} healthy", plural(*members, "member", "members"))];
        parts.push(match &self.leader {
            Some(leader) => format!("leader {leader}"),
            None => "no leader".to_owned(),
        });
        if *data_nodes > 0 {
            parts.push(format!("{data_nodes} data-only {}", plural(*data_nodes, "node", "nodes")));
        }
        if *regions > 1 {
            parts.push(format!("{regions} regions, lag {:.1} s", *lag_ms as f64 / 1e3));
        }
        parts.push(match self.alarms {
            0 => "no alarms".to_owned(),
            1 => "1 alarm".to_owned(),
            alarms => format!("{alarms} alarms"),
        });
        parts.join(", ")
    }
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// What callers can rely on now, in words.
fn guarantees(rest: &Rest) -> Vec<String> {
    let handle = rest.handle();
    let members = handle.members().list();
    let voters = members.iter().filter(|member| !member.learner).count();
    let mut told = vec![format!(
        "a write to the coordination store is acknowledged when {} of {voters} voting members have it on disk; {} may fail",
        voters / 2 + 1,
        voters.saturating_sub(1) / 2
    )];
    told.push("reads of the coordination store are linearizable unless they ask for less".to_owned());
    told.push(
        "a write of data is acknowledged when a majority of the key's copies has it on disk, unless w says otherwise"
            .to_owned(),
    );
    told.push(if handle.auth().is_on() {
        "auth is on: each caller says who it is and may do what its roles permit".to_owned()
    } else {
        "auth is off: every caller that reaches a port may do everything (`althing auth enable`)".to_owned()
    });
    if handle.peer_port().is_open() {
        told.push("members do not authenticate to each other (`althing cluster secure`)".to_owned());
    }
    told
}

/// `GET /v1/cluster/events`.
pub async fn events(rest: Rest) -> Result<Response, Refusal> {
    Ok(json(&event_list(&rest).await))
}

/// The last events of all nodes, the newest first.
pub async fn event_list(rest: &Rest) -> Value {
    let reports = rest.handle().cluster_reports().await;
    let names = names_of(rest, &reports);
    let mut all = Vec::new();
    for node in &reports {
        let Some(report) = &node.report else { continue };
        all.extend(report.events.iter().map(|event| (event.at_ms, name_in(&names, node.id), event)));
    }
    // Who was refused what is for those who grant it.
    let is_root =
        !rest.handle().auth().is_on() || rest.caller.as_ref().is_some_and(|caller| caller.rights().is_root());
    all.retain(|(_, _, event)| is_root || !REFUSALS.contains(&event.kind.as_str()));
    all.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    // A flood of refusals does not drive others out.
    let mut shown_of = [0, 0];
    all.retain(|(_, _, event)| {
        let shown = &mut shown_of[usize::from(REFUSALS.contains(&event.kind.as_str()))];
        *shown += 1;
        *shown <= EVENTS_MAX
    });
    let shown = all.into_iter().map(|(at_ms, node, event)| {
        object!({ "at_ms": at_ms, "node": node, "kind": event.kind, "text": event.text })
    });
    object!({ "events": shown.collect::<Vec<_>>() })
}

/// `GET /v1/cluster/metrics`: the last hour of one node, which is this one if none is named.
pub async fn metrics(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&["node"])?;
    let node = match query.get("node") {
        None => rest.handle().identity().member,
        Some(called) => rest.node_called(called)?,
    };
    let unknown = || Refusal::new(Code::MemberNotFound, "no node of this cluster has this id");
    let report = rest.handle().hour_of(node).await.ok_or_else(unknown)?;
    let report = report.map_err(|why| {
        Refusal::new(Code::NoLeader, format!("the node did not answer: {why}; ask it at its own address"))
    })?;
    let help: BTreeMap<String, String> =
        server::metric_table().into_iter().map(|metric| (metric.name, metric.help)).collect();
    let described = SERIES.iter().map(|series| {
        object!({
            "name": series.name, "title": series.title, "unit": series.unit.name(), "metric": series.metric,
            "help": help.get(series.metric),
        })
    });
    Ok(json(&object!({
        "node": hex(node),
        "name": report.text("name"),
        "series": described.collect::<Vec<_>>(),
        "samples": series_of(&report.series),
    })))
}

fn hex(node: NodeId) -> String {
    format!("{:x}", node.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_what_matters() {
        let well = ClusterSummary {
            members: 3,
            healthy: 3,
            data_nodes: 0,
            leader: Some("n2".into()),
            regions: 2,
            lag_ms: 300,
            alarms: 0,
        };
        assert_eq!(well.sentence(), "3 of 3 members healthy, leader n2, 2 regions, lag 0.3 s, no alarms");
        let ill = ClusterSummary { healthy: 1, leader: None, regions: 1, data_nodes: 1, alarms: 1, ..well };
        assert_eq!(ill.sentence(), "1 of 3 members healthy, no leader, 1 data-only node, 1 alarm");
        assert!(!ill.is_well());
    }

    #[test]
    fn numbers_are_shown_as_far_as_they_can_be_told_apart() {
        assert_eq!(rounded(0.123_456), object!(0.123));
        assert_eq!(rounded(1_234.5), object!(1235.0));
        assert_eq!(rounded(3.0), object!(3));
        assert_eq!(rounded(f64::NAN), Value::Null);
    }
}
