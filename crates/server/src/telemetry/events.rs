//! What has happened on and around this node: differences between two looks at the published state, in words.
//! Two changes within a second may be told as one.

use crate::handle::Handle;
use base::{NodeId, Term};
use coord::AlarmKind;
use mesh::MemberState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The last so many are kept, and as many refusals: a flood of those does not drive others out.
const EVENTS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    pub at_ms: u64,
    /// A word to filter by: `start`, `leader`, `member`, `peer`, `ring`, `region`, `alarm`, `auth`, `login`, `denied`.
    pub kind: String,
    pub text: String,
}

#[derive(Default)]
pub struct EventLog {
    events: VecDeque<NodeEvent>,
    refusals: VecDeque<NodeEvent>,
}

/// The published state at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    term: Term,
    leader: Option<NodeId>,
    /// Members and nodes of the ring, by the name that people gave them.
    names: BTreeMap<NodeId, String>,
    members: BTreeSet<NodeId>,
    connected: BTreeSet<NodeId>,
    ring: BTreeMap<NodeId, &'static str>,
    is_moving: bool,
    regions: BTreeMap<String, bool>,
    alarms: BTreeSet<(NodeId, &'static str)>,
    is_auth_on: bool,
}

impl Observation {
    pub fn of(handle: &Handle) -> Observation {
        let status = handle.status();
        let members = handle.members().list();
        let mesh = handle.mesh();
        let topology = mesh.topology();
        let moving = mesh.status().moving;
        let standing = |state| match state {
            MemberState::Joining => "joining",
            MemberState::Serving => "serving",
            MemberState::Leaving => "leaving",
        };
        let regions = mesh.regions().1.into_iter();
        let healthy = |info: &crate::mesh::handle::RegionInfo| {
            info.state.as_ref().is_some_and(|state| state.is_healthy)
        };
        let alarm = |alarm: &coord::Alarm| (alarm.member, alarm_name(alarm.kind));
        Observation {
            term: status.term,
            leader: status.leader,
            names: members.iter().map(|member| (member.id, member.name.clone())).collect(),
            members: members.iter().map(|member| member.id).collect(),
            connected: handle.connected_nodes().into_iter().collect(),
            ring: topology.members().iter().map(|member| (member.node, standing(member.state))).collect(),
            is_moving: moving.n_pending + moving.n_switched + moving.n_moved > 0,
            regions: regions.map(|info| (info.region.name.clone(), healthy(&info))).collect(),
            alarms: handle.maintenance().known_alarms().iter().map(alarm).collect(),
            is_auth_on: handle.auth().is_on(),
        }
    }

    fn name(&self, node: NodeId) -> String {
        let known = self.names.get(&node).filter(|name| !name.is_empty());
        known.cloned().unwrap_or_else(|| format!("{:x}", node.0))
    }
}

pub fn alarm_name(kind: AlarmKind) -> &'static str {
    match kind {
        AlarmKind::NoSpace => "NOSPACE",
        AlarmKind::Corrupt => "CORRUPT",
    }
}

impl EventLog {
    /// The last so many of either sort, the oldest first.
    pub fn last(&self, at_most: usize) -> Vec<NodeEvent> {
        let last = |events: &VecDeque<NodeEvent>| {
            events.iter().skip(events.len().saturating_sub(at_most)).cloned().collect::<Vec<_>>()
        };
        let mut all = last(&self.events);
        all.extend(last(&self.refusals));
        all.sort_by_key(|event| event.at_ms);
        all
    }

    pub fn refused(&mut self, at_ms: u64, told: Vec<(&'static str, String)>) {
        for (kind, text) in told {
            push(&mut self.refusals, NodeEvent { at_ms, kind: kind.to_owned(), text });
        }
    }

    pub fn started(&mut self, at_ms: u64, handle: &Handle) {
        let text = format!("{} started, version {}", handle.identity().name, env!("CARGO_PKG_VERSION"));
        self.add(at_ms, "start", text);
    }

    fn add(&mut self, at_ms: u64, kind: &str, text: String) {
        push(&mut self.events, NodeEvent { at_ms, kind: kind.to_owned(), text });
    }

    pub fn compare(&mut self, at_ms: u64, before: &Observation, now: &Observation) {
        for (kind, text) in differences(before, now) {
            self.add(at_ms, kind, text);
        }
    }
}

fn push(events: &mut VecDeque<NodeEvent>, event: NodeEvent) {
    events.push_back(event);
    if events.len() > EVENTS_MAX {
        events.pop_front();
    }
}

fn differences(before: &Observation, now: &Observation) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    if before.leader != now.leader || before.term != now.term && now.leader.is_some() {
        told.push((
            "leader",
            match now.leader {
                Some(leader) => format!("{} leads since term {}", now.name(leader), now.term.0),
                None => format!("no leader is known in term {}", now.term.0),
            },
        ));
    }
    for id in now.members.difference(&before.members).filter(|_| !before.members.is_empty()) {
        told.push(("member", format!("{} joined the members", now.name(*id))));
    }
    for id in before.members.difference(&now.members) {
        told.push(("member", format!("{} left the members", before.name(*id))));
    }
    for id in now.connected.difference(&before.connected) {
        told.push(("peer", format!("connected to {}", now.name(*id))));
    }
    for id in before.connected.difference(&now.connected) {
        told.push(("peer", format!("lost the connection to {}", before.name(*id))));
    }
    told.extend(ring_differences(before, now));
    for (region, healthy) in &now.regions {
        if before.regions.get(region).is_some_and(|was| was != healthy) {
            let state = if *healthy { "answers again" } else { "does not answer" };
            told.push(("region", format!("region {region} {state}")));
        }
    }
    for (member, kind) in now.alarms.difference(&before.alarms) {
        told.push(("alarm", format!("alarm {kind} on {}", now.name(*member))));
    }
    for (member, kind) in before.alarms.difference(&now.alarms) {
        told.push(("alarm", format!("alarm {kind} on {} is cleared", now.name(*member))));
    }
    if before.is_auth_on != now.is_auth_on {
        told.push(("auth", format!("auth was turned {}", if now.is_auth_on { "on" } else { "off" })));
    }
    told
}

fn ring_differences(before: &Observation, now: &Observation) -> Vec<(&'static str, String)> {
    let mut told = Vec::new();
    for (node, standing) in &now.ring {
        if before.ring.get(node) != Some(standing) {
            told.push(("ring", format!("{} is {standing} in the ring", now.name(*node))));
        }
    }
    for node in before.ring.keys().filter(|node| !now.ring.contains_key(node)) {
        told.push(("ring", format!("{} left the ring", before.name(*node))));
    }
    if before.is_moving != now.is_moving {
        let text =
            if now.is_moving { "partitions of the ring begin to move" } else { "all partitions have moved" };
        told.push(("ring", text.to_owned()));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Observation {
        let names = [(NodeId(1), "n1".to_owned()), (NodeId(2), "n2".to_owned())].into();
        Observation { members: [NodeId(1), NodeId(2)].into(), names, ..Observation::default() }
    }

    #[test]
    fn what_differs_is_told_and_what_is_the_same_is_not() {
        let before = seen();
        assert!(differences(&before, &before).is_empty());
        let now = Observation { leader: Some(NodeId(2)), term: Term(3), ..before.clone() };
        let told: Vec<String> = differences(&before, &now).into_iter().map(|(_, text)| text).collect();
        assert_eq!(told, ["n2 leads since term 3"]);
        let lost = Observation { alarms: [(NodeId(1), "NOSPACE")].into(), is_moving: true, ..before.clone() };
        let kinds: Vec<&str> = differences(&before, &lost).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, ["ring", "alarm"]);
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let mut log = EventLog::default();
        for nth in 0..EVENTS_MAX + 5 {
            log.add(nth as u64, "leader", String::new());
        }
        assert_eq!((log.events.len(), log.events[0].at_ms), (EVENTS_MAX, 5));
        log.refused(7, vec![("login", String::new()); EVENTS_MAX + 1]);
        let last = log.last(3);
        assert_eq!(last.iter().map(|event| event.at_ms).collect::<Vec<_>>(), [7, 7, 7, 202, 203, 204]);
    }
}
