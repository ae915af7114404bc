//! What passes between hosts: frames and messages, streams that come up and break, and questions to other regions.

use super::{Event, MS, MeshCluster};
use base::checksum::hash64;
use base::rng::mix;
use base::{Instant, NodeId};
use bytes::Bytes;
use mesh::{Envelope, HomeScope, RegionId};
use mesh_node::{Input, Message, RegionQuery};
use std::collections::{BTreeMap, BTreeSet};

/// For a question to another region.
const ANSWER_TIMEOUT: u64 = 1_000 * MS;

impl MeshCluster {
    pub(super) fn deliver(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        self.trace = mix(self.trace ^ hash64(&bytes, 0));
        let envelope = Envelope::decode(bytes).expect("what a node sends can be read");
        if self.hosts[&from].region == self.hosts[&to].region {
            self.step(to, Input::Frame { from, envelope });
        } else if let Some(region) = self.known_region(from, to) {
            self.step(to, Input::RemoteFrame { region, from, envelope });
        }
    }

    /// The region of a node, if the receiver has heard of it.
    fn known_region(&self, from: NodeId, to: NodeId) -> Option<RegionId> {
        let process = self.hosts[&to].process.as_ref()?;
        process.driver.address_book().region_of(from)
    }

    pub(super) fn deliver_message(&mut self, from: NodeId, to: NodeId, message: Message) {
        match message {
            Message::Report(report) => self.step(to, Input::Report { from, report }),
            Message::Held(held) => self.step(to, Input::Held(held)),
            Message::AskHomeLeases(asked) => self.step(to, Input::AskHomeLeases { from, asked }),
            Message::HomeLeases(asked, held) => self.step(to, Input::HomeLeases(asked, held)),
            Message::Home(message) => {
                if let Some(region) = self.known_region(from, to) {
                    self.step(to, Input::HomeMessage { region, message });
                }
            }
            Message::Documents(message) => {
                if let Some(region) = self.known_region(from, to) {
                    self.step(to, Input::DocumentMessage { region, message });
                }
            }
        }
    }

    pub(super) fn post(&mut self, from: NodeId, to: NodeId, envelope: &Envelope) {
        self.post_copies(|| Event::Deliver { from, to, bytes: envelope.encode() });
    }

    pub(super) fn post_message(&mut self, from: NodeId, to: NodeId, message: &Message) {
        self.post_copies(|| Event::Message { from, to, message: message.clone() });
    }

    fn post_copies(&mut self, event: impl Fn() -> Event) {
        let copies = if self.rng.chance(self.loss_per_million) {
            0
        } else {
            1 + u64::from(self.rng.chance(self.loss_per_million / 4))
        };
        for _ in 0..copies {
            let span = 100 + self.rng.between(0, self.delay_max);
            self.after(span, event());
        }
    }

    /// A process that has started is connected with all others that run; what they had of an earlier one is lost.
    pub(super) fn connect(&mut self, node: NodeId) {
        let running = |other: &NodeId| *other != node && self.hosts[other].process.is_some();
        let others: Vec<NodeId> = self.nodes().into_iter().filter(running).collect();
        for other in others {
            for (of, peer) in [(node, other), (other, node)] {
                let (span, pid) = (self.rng.between(MS, 30 * MS), self.hosts[&of].pid);
                self.after(span, Event::Connected { of, pid, peer });
            }
        }
    }

    pub(super) fn connected(&mut self, of: NodeId, peer: NodeId) {
        self.step(of, Input::Lost(peer));
        if self.hosts.get(&peer).is_some_and(|host| host.process.is_some()) {
            self.step(of, Input::Connected(peer));
        }
    }

    /// The others notice that a process has ended: soon if its machine still runs, after a silence otherwise.
    pub(super) fn disconnect(&mut self, node: NodeId, power_cut: bool) {
        let longest = if power_cut { 2_000 * MS } else { 50 * MS };
        for other in self.nodes().into_iter().filter(|other| *other != node) {
            let (span, pid) = (self.rng.between(MS, longest), self.hosts[&other].pid);
            self.after(span, Event::Broken { of: other, pid, peer: node, peer_pid: self.hosts[&node].pid });
        }
    }

    /// Unless it has come back since.
    pub(super) fn broken(&mut self, of: NodeId, peer: NodeId, peer_pid: u64) {
        if self.hosts.get(&peer).is_none_or(|host| host.pid == peer_pid) {
            self.step(of, Input::Lost(peer));
        }
    }

    /// A question goes to the host at a place, whose driver answers it; or its time runs out.
    pub(super) fn ask_region(&mut self, from: NodeId, question: RegionQuery) {
        let pid = self.hosts[&from].pid;
        let RegionQuery { region, address, bytes } = question;
        let to = self.nodes().into_iter().find(|node| super::host::address(*node) == address);
        let hears =
            |to: &NodeId| self.reaches(from, *to) && self.reaches(*to, from) && !self.hosts[to].paused;
        let process = to.filter(hears).and_then(|to| self.hosts[&to].process.as_ref());
        let answer = process.map(|process| process.driver.answer(bytes));
        let span = match answer {
            Some(_) => 200 + self.rng.between(0, 2 * self.delay_max),
            None => ANSWER_TIMEOUT,
        };
        let answer = answer.ok_or_else(|| "nothing answers there".to_owned());
        self.after(span, Event::Answered { to: from, pid, region, answer });
    }

    /// No two regions own a place at a time.
    pub(super) fn check_owners(&mut self) {
        let now = Instant(self.now);
        let mut owners: BTreeMap<&HomeScope, BTreeSet<RegionId>> = BTreeMap::new();
        for host in self.hosts.values() {
            let held = host.process.iter().flat_map(|process| process.home_leases.held(now));
            for (scope, _) in held {
                owners.entry(scope).or_default().insert(host.region);
            }
        }
        if let Some((scope, regions)) = owners.iter().find(|(_, regions)| regions.len() > 1) {
            let wrong = format!("homes: {regions:?} own {scope:?} at a time");
            self.violation = Some(wrong);
        }
    }

    /// The region that owns a place now.
    pub fn owner(&self, scope: &HomeScope) -> Option<RegionId> {
        let now = Instant(self.now);
        let owns =
            |process: &super::host::Process| process.home_leases.held(now).any(|(held, _)| held == scope);
        let mut hosts = self.hosts.values();
        hosts.find(|host| host.process.as_ref().is_some_and(owns)).map(|host| host.region)
    }
}
