//! Interests: watches that want the same events in the same form are one interest, so that an event is
//! matched, gathered and encoded once for all of them. Keys go in; the interests that hold them come out.
//! An interest lives as long as a watch has it.

use super::event::BatchBuilder;
use super::ranges::Ranges;
use super::{Create, Filters, StreamId, WatchId};
use base::{KeyRange, RangeEnd};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Everything about a watch that decides what its responses look like.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchShape {
    pub keys: KeyRange,
    pub prev_kv: bool,
    pub filters: Filters,
    pub progress_notify: bool,
    pub fragment: bool,
}

impl WatchShape {
    pub fn of(create: &Create) -> WatchShape {
        WatchShape {
            keys: create.keys.clone(),
            prev_kv: create.prev_kv,
            filters: create.filters,
            progress_notify: create.progress_notify,
            fragment: create.fragment,
        }
    }

    pub fn wants(&self, deleted: bool) -> bool {
        if deleted { !self.filters.no_delete } else { !self.filters.no_put }
    }
}

#[derive(Debug)]
pub struct Interest {
    pub shape: WatchShape,
    watches: usize,
    /// Watches that get changes as they are applied.
    pub live: BTreeSet<(StreamId, WatchId)>,
    /// Events for them that are not sent yet.
    pub gathered: BatchBuilder,
}

/// The place of an interest; used again when it has ended.
pub type InterestId = usize;

#[derive(Debug, Default)]
pub struct Interests {
    by_shape: BTreeMap<WatchShape, InterestId>,
    places: Vec<Option<Interest>>,
    free: Vec<InterestId>,
    single: BTreeMap<Bytes, Vec<InterestId>>,
    ranges: Ranges,
}

impl Interests {
    /// One more watch has this shape.
    pub fn join(&mut self, shape: WatchShape) -> InterestId {
        let id = match self.by_shape.get(&shape) {
            Some(id) => *id,
            None => self.begin(shape),
        };
        self.get_mut(id).watches += 1;
        id
    }

    fn begin(&mut self, shape: WatchShape) -> InterestId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        match shape.keys.end {
            RangeEnd::Single => self.single.entry(shape.keys.start.clone()).or_default().push(id),
            _ => self.ranges.insert(shape.keys.clone(), id),
        }
        self.by_shape.insert(shape.clone(), id);
        let (live, gathered) = (BTreeSet::new(), BatchBuilder::default());
        self.places[id] = Some(Interest { shape, watches: 0, live, gathered });
        id
    }

    /// One watch less has this interest.
    pub fn leave(&mut self, id: InterestId) {
        let interest = self.get_mut(id);
        interest.watches -= 1;
        if interest.watches == 0 {
            self.end(id);
        }
    }

    fn end(&mut self, id: InterestId) {
        let interest = self.places[id].take().expect("an interest ends once");
        self.free.push(id);
        let shape = interest.shape;
        self.by_shape.remove(&shape);
        match shape.keys.end {
            RangeEnd::Single => {
                let same_key = self.single.get_mut(&shape.keys.start).expect("it was put there");
                same_key.retain(|other| *other != id);
                if same_key.is_empty() {
                    self.single.remove(&shape.keys.start);
                }
            }
            _ => self.ranges.remove(&shape.keys, id),
        }
    }

    pub fn get(&self, id: InterestId) -> &Interest {
        self.places[id].as_ref().expect("a watch keeps its interest alive")
    }

    pub fn get_mut(&mut self, id: InterestId) -> &mut Interest {
        self.places[id].as_mut().expect("a watch keeps its interest alive")
    }

    /// The interests that hold the key.
    pub fn find(&self, key: &[u8], found: &mut Vec<InterestId>) {
        found.extend(self.single.get(key).into_iter().flatten());
        self.ranges.find(key, &mut |id| found.push(id));
    }
}
