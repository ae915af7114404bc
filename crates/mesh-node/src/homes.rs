//! Drives the election of home regions: ticks it, sends its messages to the nodes of other regions, proposes its decisions,
//! and tells the nodes of this region what they may write and for how long. A node asks for that and names the time by its
//! own clock; the span of the answer counts from that time, so neither a slow message nor a stopped process extends a lease.
//! Nodes of 0.1.0 do not ask: for them the span counts from its arrival, and the election leaves a margin for that.

use crate::address_book::AddressBook;
use crate::documents::Documents;
use crate::messages::{Coord, HeldFor, Message, Note, Output, Proposal};
use base::mutant::{Mutant, planted};
use base::{Instant, NodeId};
use mesh::homes::{DOCUMENT, Homes};
use mesh::steward::{Name, Steward, Tenure, Word};
use mesh::{RegionId, Regions};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the nodes of the region ask what they may write, and are told.
const TELL_EVERY: Duration = Duration::from_millis(300);

/// When a node asked, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedAt {
    /// Names the start of its process.
    pub start: u64,
    pub at: u64,
}

pub(crate) struct HomeDriver {
    here: RegionId,
    /// This start of the process.
    start: u64,
    election: Steward,
    /// The newest that is agreed on, decoded once for each of its versions.
    homes: (u64, Homes),
    look_at: Instant,
    tell_at: Instant,
    /// Nodes that asked, and when that was heard.
    asked: BTreeMap<NodeId, (AskedAt, Instant)>,
}

/// What the election goes by.
pub(crate) struct Around<'a> {
    pub documents: &'a Documents,
    pub table: &'a Regions,
    pub addresses: &'a AddressBook,
    pub coord: &'a Coord,
}

impl HomeDriver {
    pub fn new(here: RegionId, name: Name) -> HomeDriver {
        HomeDriver {
            here,
            start: name.start,
            election: Steward::new(here, name),
            homes: (0, Homes::default()),
            look_at: Instant::ZERO,
            tell_at: Instant::ZERO,
            asked: BTreeMap::new(),
        }
    }

    /// A node of this region asks what it may write.
    pub fn hear_ask(&mut self, now: Instant, from: NodeId, asked: AskedAt) {
        self.asked.insert(from, (asked, now));
    }

    /// What the leader says that this region may write, as of when this node asked.
    pub fn hear_tenures(&self, now: Instant, asked: AskedAt, held: Vec<HeldFor>) -> Vec<Tenure> {
        if asked.start != self.start || asked.at > now.0 {
            return Vec::new();
        }
        let since = if planted(Mutant::HomeHeldFromArrival) { now } else { Instant(asked.at) };
        let tenure = |(place, epoch, span)| Tenure { place, epoch, until: since.after(span) };
        held.into_iter().map(tenure).collect()
    }

    pub fn hear(&mut self, now: Instant, from: RegionId, word: Word) {
        self.election.hear(now, from, word);
    }

    pub fn tick(&mut self, now: Instant, leads: bool, around: &Around<'_>, out: &mut Output) {
        if now < self.look_at {
            return;
        }
        self.look_at = now.after(LOOK_EVERY);
        let tells = self.tell_at <= now;
        if tells {
            self.tell_at = now.after(TELL_EVERY);
        }
        if !leads {
            self.election.tick(now, false, &self.homes.1, &BTreeSet::new());
            if tells && around.documents.version(DOCUMENT) > 0 {
                self.ask(now, around.coord, out);
            }
            return;
        }
        self.read_homes(around.documents, out);
        let others: BTreeSet<RegionId> = around.table.others(self.here).collect();
        let acts = self.election.tick(now, true, &self.homes.1, &others);
        if let Some(next) = acts.next {
            self.propose(&next, around.table, out);
        }
        if let Some(word) = acts.word {
            for node in others.iter().flat_map(|region| around.addresses.node_ids(*region)) {
                out.messages.push((node, Message::Home(word.clone())));
            }
        }
        if tells {
            self.tell_held(now, around.coord, &acts.held, out);
        }
        out.held.extend(acts.held);
    }

    fn read_homes(&mut self, documents: &Documents, out: &mut Output) {
        let Some((version, bytes)) = documents.get(DOCUMENT) else { return };
        if version == self.homes.0 {
            return;
        }
        match Homes::decode(bytes) {
            Some(homes) => self.homes = (version, homes),
            None => {
                out.notes.push(Note::Unreadable { name: DOCUMENT, version });
                self.homes.0 = version;
            }
        }
    }

    fn propose(&self, next: &Homes, table: &Regions, out: &mut Output) {
        for (place, title) in next.iter().filter(|(place, title)| self.homes.1.get(place) != Some(*title)) {
            let region = table.get(title.home.region).map(|region| region.name.clone());
            out.notes.push(Note::ProposesHome { place: place.clone(), title, region });
        }
        out.propose.push(Proposal { name: DOCUMENT, expect: self.homes.0, bytes: next.encode() });
    }

    /// Any of them may lead.
    fn ask(&self, now: Instant, coord: &Coord, out: &mut Output) {
        let asked = AskedAt { start: self.start, at: now.0 };
        out.messages.extend(coord.peers.iter().map(|peer| (*peer, Message::AskTenures(asked))));
    }

    /// Spans count from when the leader heard the question, which is later than when it was asked.
    fn tell_held(&mut self, now: Instant, coord: &Coord, held: &[Tenure], out: &mut Output) {
        self.asked.retain(|node, _| coord.peers.contains(node));
        if held.is_empty() {
            return;
        }
        let spans = |since: Instant| -> Vec<HeldFor> {
            let span = |tenure: &Tenure| (tenure.place.clone(), tenure.epoch, tenure.until.since(since));
            held.iter().map(span).collect()
        };
        for peer in &coord.peers {
            let message = match self.asked.get(peer) {
                Some((asked, heard)) => Message::Tenures(*asked, spans(*heard)),
                None => Message::Held(spans(now)),
            };
            out.messages.push((*peer, message));
        }
    }
}
