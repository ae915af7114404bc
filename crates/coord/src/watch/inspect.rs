//! What can be told of the watches of a member: their keys, how far each has been sent, and what holds it up. The hub
//! goes in, descriptions come out, in the order of streams; nothing is changed.

use super::hub::Hub;
use super::stream::{Stream, Watch, WatchState};
use super::{Filters, StreamId, WatchId};
use crate::auth::Caller;
use base::{KeyRange, Revision};

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
    /// The revision that it needs next.
    pub next: Revision,
    pub position: WatchPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchPosition {
    /// Has been sent everything so far.
    Live,
    /// Reads what it missed.
    Behind,
    /// The same, and its client takes nothing.
    Paused,
    /// Waits for a revision that is yet to come.
    Future,
}

impl Hub {
    /// The watches, so many at most.
    pub fn describe(&self, at_most: usize) -> Vec<WatchDescription> {
        let of_stream = |(id, stream): (&StreamId, &Stream)| {
            let described = stream.watches.iter().map(|(watch, state)| {
                let described = self.describe_one(*id, *watch, state);
                let takes_nothing =
                    described.position == WatchPosition::Behind && !stream.credit.is_positive();
                let position = if takes_nothing { WatchPosition::Paused } else { described.position };
                WatchDescription { position, ..described }
            });
            described.collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_stream).take(at_most).collect()
    }

    fn describe_one(&self, stream: StreamId, watch: WatchId, state: &Watch) -> WatchDescription {
        let shape = &self.interests.get(state.interest).shape;
        let (next, position) = match state.place {
            WatchState::Live => (self.current.next(), WatchPosition::Live),
            WatchState::Behind(next) => (next, WatchPosition::Behind),
            WatchState::Future(next) => (next, WatchPosition::Future),
        };
        WatchDescription {
            stream,
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
