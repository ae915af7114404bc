//! Drives the election of home regions: ticks it, sends its messages to the nodes of other regions, proposes its decisions,
//! and tells the nodes of this region what they may write and for how long. A node asks for that and names the time by its
//! own clock; the span of the answer counts from that time, so neither a slow message nor a stopped process extends a lease.
//! Nodes of 0.1.0 do not ask: for them the span counts from its arrival, and the election leaves a margin for that.

use crate::address_book::AddressBook;
use crate::documents::Documents;
use crate::messages::{CoordMembers, DocumentProposal, DriverEvent, HeldHome, Message, Output};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Instant, NodeId};
use mesh::{
    AgreedHomes, Electorate, Electorates, HomeElection, HomeLease, HomeMessage, Homes, ProcessId, RegionId,
    Regions, documents,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the nodes of the region ask what they may write, and are told.
const TELL_EVERY: Duration = Duration::from_millis(300);

/// When a node asked, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskTime {
    /// Names the start of its process.
    pub start: u64,
    pub at: u64,
}

pub(crate) struct HomeDriver {
    here: RegionId,
    /// This start of the process.
    start: u64,
    election: HomeElection,
    /// The newest that is agreed on, decoded once for each of its versions.
    homes: (u64, Homes),
    electorates: (u64, Electorates),
    look_at: Instant,
    tell_at: Instant,
    /// Nodes that asked, and when that was heard.
    asked: BTreeMap<NodeId, (AskTime, Instant)>,
}

/// What the election goes by.
pub(crate) struct HomeContext<'a> {
    pub documents: &'a Documents,
    pub table: &'a Regions,
    pub addresses: &'a AddressBook,
    pub coord: &'a CoordMembers,
}

impl HomeDriver {
    pub fn new(here: RegionId, process: ProcessId) -> HomeDriver {
        HomeDriver {
            here,
            start: process.start,
            election: HomeElection::new(here, process),
            homes: (0, Homes::default()),
            electorates: (0, Electorates::default()),
            look_at: Instant::ZERO,
            tell_at: Instant::ZERO,
            asked: BTreeMap::new(),
        }
    }

    /// A node of this region asks what it may write.
    pub fn receive_lease_request(&mut self, now: Instant, from: NodeId, asked: AskTime) {
        self.asked.insert(from, (asked, now));
    }

    /// What the leader says that this region may write, as of when this node asked.
    pub fn receive_home_leases(&self, now: Instant, asked: AskTime, held: Vec<HeldHome>) -> Vec<HomeLease> {
        if asked.start != self.start || asked.at > now.0 {
            return Vec::new();
        }
        let since = if planted(Mutant::HomeHeldFromArrival) { now } else { Instant(asked.at) };
        let home_lease = |(scope, epoch, span)| HomeLease { scope, epoch, until: since.after(span) };
        held.into_iter().map(home_lease).collect()
    }

    pub fn receive(&mut self, now: Instant, from: RegionId, message: HomeMessage) {
        self.election.receive(now, from, message);
    }

    pub fn tick(&mut self, now: Instant, leads: bool, context: &HomeContext<'_>, out: &mut Output) {
        if now < self.look_at {
            return;
        }
        self.look_at = now.after(LOOK_EVERY);
        let tells = self.tell_at <= now;
        if tells {
            self.tell_at = now.after(TELL_EVERY);
        }
        let others: BTreeSet<RegionId> = context.table.others(self.here).collect();
        let table: Electorate = others.iter().copied().chain([self.here]).collect();
        if leads {
            self.read_homes(context.documents, out);
            self.read_electorates(context.documents, out);
        }
        let agreed = AgreedHomes { homes: &self.homes.1, electorates: &self.electorates.1, table: &table };
        let acts = self.election.tick(now, leads, agreed);
        if !leads {
            if tells && context.documents.version(documents::HOMES) > 0 {
                self.ask(now, context.coord, out);
            }
            return;
        }
        if let Some(next) = acts.next {
            self.propose(&next, context.table, out);
        }
        // Where no home has a lease, nothing is elected.
        let has_leases = self.homes.1.iter().any(|(_, ownership)| ownership.lease_ms > 0);
        if let Some(next) = acts.next_electorates.filter(|_| has_leases) {
            let (name, expect) = (documents::ELECTORATES, self.electorates.0);
            out.propose.push(DocumentProposal { name, expect, bytes: next.encode() });
        }
        if let Some(message) = acts.message {
            for node in others.iter().flat_map(|region| context.addresses.node_ids(*region)) {
                out.messages.push((node, Message::Home(message.clone())));
            }
        }
        if tells {
            self.send_held(now, context.coord, &acts.held, out);
        }
        out.held.extend(acts.held);
    }

    fn read_homes(&mut self, documents: &Documents, out: &mut Output) {
        let Some((version, bytes)) = documents.get(documents::HOMES) else { return };
        if version == self.homes.0 {
            return;
        }
        match Homes::decode(bytes) {
            Some(homes) => self.homes = (version, homes),
            None => {
                out.events.push(DriverEvent::Unreadable { name: documents::HOMES, version });
                self.homes.0 = version;
            }
        }
    }

    fn read_electorates(&mut self, documents: &Documents, out: &mut Output) {
        let Some((version, bytes)) = documents.get(documents::ELECTORATES) else { return };
        if version == self.electorates.0 {
            return;
        }
        match Electorates::decode(bytes) {
            Some(electorates) => self.electorates = (version, electorates),
            None => {
                out.events.push(DriverEvent::Unreadable { name: documents::ELECTORATES, version });
                // Nothing is owned or elected by an electorate that is not known.
                self.electorates = (version, Electorates::default());
            }
        }
    }

    fn propose(&self, next: &Homes, table: &Regions, out: &mut Output) {
        for (scope, ownership) in
            next.iter().filter(|(scope, ownership)| self.homes.1.get(scope) != Some(*ownership))
        {
            let region = table.get(ownership.home.region).map(|region| region.name.clone());
            out.events.push(DriverEvent::ProposesHome { scope: scope.clone(), ownership, region });
        }
        out.propose.push(DocumentProposal {
            name: documents::HOMES,
            expect: self.homes.0,
            bytes: next.encode(),
        });
    }

    /// Any of them may lead.
    fn ask(&self, now: Instant, coord: &CoordMembers, out: &mut Output) {
        let asked = AskTime { start: self.start, at: now.0 };
        out.messages.extend(coord.peers.iter().map(|peer| (*peer, Message::AskHomeLeases(asked))));
    }

    /// Spans count from when the leader heard the question, which is later than when it was asked.
    fn send_held(&mut self, now: Instant, coord: &CoordMembers, held: &[HomeLease], out: &mut Output) {
        self.asked.retain(|node, _| coord.peers.contains(node));
        if held.is_empty() {
            return;
        }
        let spans = |since: Instant| -> Vec<HeldHome> {
            let span = |home_lease: &HomeLease| {
                (home_lease.scope.clone(), home_lease.epoch, home_lease.until.since(since))
            };
            held.iter().map(span).collect()
        };
        for peer in &coord.peers {
            let message = match self.asked.get(peer) {
                Some((asked, heard)) => Message::HomeLeases(*asked, spans(*heard)),
                None => Message::Held(spans(now)),
            };
            out.messages.push((*peer, message));
        }
    }
}
