//! What can be told of the watches of a member: their keys, how far each has been sent, and what holds it up. The hub
//! goes in, descriptions come out, in the order of streams; nothing is changed.

use super::hub::Hub;
use super::stream::{Stream, Watch, WatchState};
use super::{Filters, StreamId, WatchId};
use crate::auth::Caller;
use base::{KeyRange, Revision};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchDescription {
    pub stream: StreamId,
    pub watch: WatchId,
    pub caller: Caller,
    pub keys: KeyRange,
    pub filters: Filters,
    pub prev_kv: bool,
    /// The revision that the client named; zero for none.
    pub start: Revision,
    /// The revision that the watch needs next.
    pub next: Revision,
    pub position: WatchPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPosition {
    /// Has been sent everything so far.
    Live,
    /// Reads what it missed.
    Behind,
    /// The watch is behind, and its client accepts nothing.
    Paused,
    /// Waits for a revision that is yet to come.
    Future,
}

/// How many watches there are of each position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchPositionCounts {
    pub live: usize,
    pub behind: usize,
    pub paused: usize,
    pub future: usize,
}

/// Which watches are described, in the order of their streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSelection {
    /// Only those behind this one.
    pub after: Option<(StreamId, WatchId)>,
    /// Only those of these streams.
    pub streams: Option<BTreeSet<StreamId>>,
    /// Only those with this text in their first key or in the name of their user.
    pub text: String,
    pub at_most: usize,
}

impl WatchSelection {
    fn has(&self, stream: StreamId, watch: WatchId) -> bool {
        self.after.is_none_or(|after| (stream, watch) > after)
            && self.streams.as_ref().is_none_or(|streams| streams.contains(&stream))
    }

    fn names(&self, keys: &KeyRange, caller: &Caller) -> bool {
        let text = self.text.as_bytes();
        let is_in = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        text.is_empty()
            || is_in(&keys.start)
            || matches!(caller, Caller::User { name, .. } if is_in(name.as_bytes()))
    }
}

impl Hub {
    pub fn count_positions(&self) -> WatchPositionCounts {
        let mut counts = WatchPositionCounts { future: self.future.len(), ..WatchPositionCounts::default() };
        for stream in self.streams.values() {
            let behind = stream.behind.len();
            let group = if stream.credit.is_positive() { &mut counts.behind } else { &mut counts.paused };
            *group += behind;
            counts.live += stream.watches.len() - behind;
        }
        counts.live -= counts.future;
        counts
    }

    pub fn describe(&self, selection: &WatchSelection) -> Vec<WatchDescription> {
        let first = selection.after.map_or(StreamId(0), |(stream, _)| stream);
        let all = self.streams.range(first..).flat_map(|(id, stream)| {
            stream.watches.iter().map(move |(watch, state)| (*id, stream, *watch, state))
        });
        let wanted = all.filter(|(id, _, watch, state)| {
            let keys = || &self.interests.get(state.interest).shape.keys;
            selection.has(*id, *watch) && selection.names(keys(), &state.caller)
        });
        let described = wanted.map(|(id, stream, watch, state)| self.describe_one(id, stream, watch, state));
        described.take(selection.at_most).collect()
    }

    /// The watches that have not been sent everything.
    pub fn describe_behind(&self) -> impl Iterator<Item = WatchDescription> {
        self.streams.iter().flat_map(|(id, stream)| {
            let of_stream = |watch: &WatchId| self.describe_one(*id, stream, *watch, &stream.watches[watch]);
            stream.behind.iter().map(of_stream).collect::<Vec<_>>()
        })
    }

    /// How many watches each of these streams has; none for one that has ended.
    pub fn sizes_of(&self, streams: &BTreeSet<StreamId>) -> BTreeMap<StreamId, usize> {
        let size = |id: &StreamId| Some((*id, self.streams.get(id)?.watches.len()));
        streams.iter().filter_map(size).collect()
    }

    fn describe_one(&self, id: StreamId, stream: &Stream, watch: WatchId, state: &Watch) -> WatchDescription {
        let shape = &self.interests.get(state.interest).shape;
        let (next, position) = match state.place {
            WatchState::Live => (self.current.next(), WatchPosition::Live),
            WatchState::Behind(next) if !stream.credit.is_positive() => (next, WatchPosition::Paused),
            WatchState::Behind(next) => (next, WatchPosition::Behind),
            WatchState::Future(next) => (next, WatchPosition::Future),
        };
        WatchDescription {
            stream: id,
            watch,
            caller: state.caller.clone(),
            keys: shape.keys.clone(),
            filters: shape.filters,
            prev_kv: shape.prev_kv,
            start: state.start,
            next,
            position,
        }
    }
}
