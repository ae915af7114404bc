//! One client's stream: its watches, and how much more it can take. A watch is in one state at a time: it gets
//! changes as they come, or reads what it missed, or waits for a future revision.

use super::WatchId;
use super::interest::InterestId;
use crate::auth::Caller;
use base::{Instant, Revision};
use std::collections::{BTreeMap, BTreeSet};

/// What a stream's client can still take, in responses and in bytes. One response may overdraw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    pub responses: i64,
    pub bytes: i64,
}

impl Credit {
    pub fn is_positive(self) -> bool {
        self.responses > 0 && self.bytes > 0
    }

    pub fn plus(self, more: Credit) -> Credit {
        Credit { responses: self.responses + more.responses, bytes: self.bytes + more.bytes }
    }

    pub fn minus(self, less: Credit) -> Credit {
        Credit { responses: self.responses - less.responses, bytes: self.bytes - less.bytes }
    }
}

#[derive(Debug)]
pub struct Stream {
    pub watches: BTreeMap<WatchId, Watch>,
    next_id: i64,
    pub credit: Credit,
    /// Watches that read what they missed.
    pub behind: BTreeSet<WatchId>,
    /// When its quiet watches get a progress notification; `None` while no watch asked for that.
    pub progress_due: Option<Instant>,
}

#[derive(Debug)]
pub struct Watch {
    pub interest: InterestId,
    pub caller: Caller,
    /// The revision that the client named; zero for none.
    pub start: Revision,
    pub place: WatchState,
    /// No event was sent since the last round of progress.
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Has been sent everything so far.
    Live,
    /// Catches up from this past revision.
    Behind(Revision),
    /// Waits for this revision, which is later than the next one.
    Future(Revision),
}

impl Stream {
    pub fn new(credit: Credit) -> Stream {
        Stream { watches: BTreeMap::new(), next_id: 0, credit, behind: BTreeSet::new(), progress_due: None }
    }

    /// The id for a new watch, unless the client chose one that is taken.
    pub fn claim(&mut self, chosen: Option<WatchId>) -> Option<WatchId> {
        if let Some(id) = chosen {
            return (!self.watches.contains_key(&id)).then_some(id);
        }
        while self.watches.contains_key(&WatchId(self.next_id)) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Some(WatchId(self.next_id - 1))
    }
}

impl Watch {
    /// Everything it asked for up to `current` has been sent, and it asked for something up to there.
    pub fn is_synced(&self, current: Revision) -> bool {
        self.place == WatchState::Live && current >= self.start
    }
}
