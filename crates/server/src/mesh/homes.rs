//! The shell's side of homes: has the steward look at the clock, carries its words to the nodes of other regions, proposes
//! what it wants agreed on, and lets the nodes of this region know what they may write and for how long. That is told
//! as a span, so the time a message takes within the region goes on top; the steward leaves room for it.

use crate::core::Core;
use crate::mesh::{scout, wire};
use crate::peer::Peers;
use base::codec::{Reader, put_varint};
use base::{Instant, NodeId};
use bytes::Bytes;
use coord::{Command, SetDocument};
use mesh::homes::{DOCUMENT, Homes, Place};
use mesh::steward::{Name, Steward, Tenure, Word};
use mesh::{RegionId, Regions};
use node::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the nodes of the region are told what they may write.
const TELL_EVERY: Duration = Duration::from_millis(300);
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(2);
/// More than a region has homes.
const TENURES_MAX: usize = 1_024;

pub(super) struct Keeper {
    core: Arc<Core>,
    steward: Steward,
    /// The newest that is agreed on, decoded once for each of its versions.
    homes: (u64, Homes),
    look_at: Instant,
    tell_at: Instant,
}

impl Keeper {
    pub fn new(core: Arc<Core>, me: NodeId, region: RegionId, start: u64) -> Keeper {
        let steward = Steward::new(region, Name { node: me, start });
        Keeper { core, steward, homes: (0, Homes::default()), look_at: Instant::ZERO, tell_at: Instant::ZERO }
    }

    pub fn hear(&mut self, now: Instant, from: RegionId, word: Word) {
        self.steward.hear(now, from, word);
    }

    pub fn tick(&mut self, now: Instant, peers: &Peers) {
        if now < self.look_at {
            return;
        }
        self.look_at = now.after(LOOK_EVERY);
        let leads = self.core.board.read().is_leader;
        if !leads {
            self.steward.tick(now, false, &self.homes.1, &BTreeSet::new());
            return;
        }
        self.read_homes();
        let here = RegionId::of(&self.core.mesh.region);
        let table = scout::table(&self.core);
        let others = table.others(here).collect();
        let acts = self.steward.tick(now, true, &self.homes.1, &others);
        if let Some(next) = acts.next {
            self.propose(now, &next, &table);
        }
        if let Some(word) = acts.word {
            let frame = wire::word_frame(&word);
            // What is lost is said again.
            for node in others.iter().flat_map(|region| self.core.mesh.atlas.nodes(*region).into_keys()) {
                peers.send_data(node, vec![frame.clone()]);
            }
        }
        if self.tell_at <= now {
            self.tell_at = now.after(TELL_EVERY);
            self.tell_held(now, peers, &acts.held);
        }
        self.core.mesh.tenures.set(&acts.held);
    }

    fn tell_held(&self, now: Instant, peers: &Peers, held: &[Tenure]) {
        if held.is_empty() {
            return;
        }
        let frame = wire::held_frame(held, now);
        for (id, _) in self.core.members.others() {
            peers.send_data(id, vec![frame.clone()]);
        }
    }

    fn read_homes(&mut self) {
        let Some(document) = self.core.documents.get(DOCUMENT) else { return };
        if document.version == self.homes.0 {
            return;
        }
        match Homes::decode(document.bytes) {
            Some(homes) => self.homes = (document.version, homes),
            None => {
                tracing::error!(version = document.version, "the homes cannot be read");
                self.homes.0 = document.version;
            }
        }
    }

    fn propose(&self, now: Instant, next: &Homes, table: &Regions) {
        for (place, title) in next.iter().filter(|(place, title)| self.homes.1.get(place) != Some(*title)) {
            let name = table
                .get(title.home.region)
                .map_or("this region or one that is not listed", |region| &region.name);
            tracing::info!(
                namespace = place.namespace,
                prefix = place.prefix,
                region = name,
                epoch = title.home.epoch,
                settled = title.settled,
                "proposing a home"
            );
        }
        let set = SetDocument { name: DOCUMENT.to_owned(), expect: self.homes.0, bytes: next.encode() };
        let mut bytes = Vec::new();
        Command::Document(set).encode(&mut bytes);
        self.core.submit(now.after(PROPOSAL_TIMEOUT), Work::Propose(bytes.into()));
    }
}

/// What this region may write, as this node was told last.
#[derive(Default)]
pub(crate) struct Tenures {
    until: Mutex<BTreeMap<Place, (u64, Instant)>>,
}

impl Tenures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, (u64, Instant)>> {
        self.until.lock().expect("no thread panics while it holds the tenures")
    }

    pub fn set(&self, held: &[Tenure]) {
        let mut until = self.lock();
        for tenure in held {
            if until.contains_key(&tenure.place) || until.len() < TENURES_MAX {
                until.insert(tenure.place.clone(), (tenure.epoch, tenure.until));
            }
        }
    }

    /// Whether this region may write the place now, as the owner of this epoch.
    pub fn holds(&self, place: &Place, epoch: u64, now: Instant) -> bool {
        self.lock().get(place).is_some_and(|held| held.0 == epoch && held.1 > now)
    }
}

/// Places with their epochs, and for how long each is held still, in milliseconds.
pub(super) fn encode_held(held: &[Tenure], now: Instant, out: &mut Vec<u8>) {
    put_varint(out, held.len() as u64);
    for tenure in held {
        tenure.place.encode(out);
        put_varint(out, tenure.epoch);
        put_varint(out, tenure.until.since(now).as_millis() as u64);
    }
}

pub(super) fn decode_held(bytes: Bytes) -> Option<Vec<(Place, u64, Duration)>> {
    let mut reader = Reader::new(bytes);
    let count = reader.count().filter(|count| *count <= TENURES_MAX)?;
    let one = |reader: &mut Reader| {
        let place = Place::decode(reader)?;
        let (epoch, ms) = (reader.varint()?, reader.varint()?);
        Some((place, epoch, Duration::from_millis(ms)))
    };
    let held = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
    reader.is_empty().then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenure_ends_and_is_of_one_epoch() {
        let (tenures, place) = (Tenures::default(), Place::new("shop", ""));
        tenures.set(&[Tenure { place: place.clone(), epoch: 2, until: Instant(10) }]);
        assert!(tenures.holds(&place, 2, Instant(9)));
        assert!(!tenures.holds(&place, 2, Instant(10)) && !tenures.holds(&place, 1, Instant(9)));
    }

    #[test]
    fn what_is_held_is_told_as_spans() {
        let held = [Tenure { place: Place::new("shop", "eu/"), epoch: 2, until: Instant(9_000) }];
        let mut bytes = Vec::new();
        encode_held(&held, Instant(4_000), &mut bytes);
        let told = decode_held(bytes.clone().into()).unwrap();
        assert_eq!(told, [(held[0].place.clone(), 2, Duration::from_millis(5))]);
        for cut in 0..bytes.len() {
            assert_eq!(decode_held(Bytes::copy_from_slice(&bytes[..cut])), None);
        }
    }
}
