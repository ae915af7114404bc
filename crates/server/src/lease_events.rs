//! One subscriber to lease events.
//! Grants and ends come from this member's own apply thread, in the order of the log and without a gap: a subscriber
//! that cannot keep up gets an error and ends. Warnings are polled from the leader, wherever it is;
//! a lease that was warned of and lives on was renewed.

use crate::handle::Handle;
use base::limits::LEASES_ENDING_MAX;
use base::{Code, LeaseId, Revision};
use coord::reply::{EndingLease, Reply};
use node::{LeaseEvent, LeaseEventKind};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

/// Bounds of the interval of polls; in between, a quarter of the time of the warning.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(50);
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// How many warned leases one poll checks that are no longer about to expire.
const RENEWALS_PER_POLL: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct LeaseEventFilter {
    /// Empty for all.
    pub ids: BTreeSet<LeaseId>,
    /// How long before its end a lease is warned of, if at all.
    pub warning: Option<Duration>,
}

pub struct LeaseEvents {
    handle: Handle,
    inbox: Receiver<LeaseEvent>,
    filter: LeaseEventFilter,
    /// Leases that a warning was sent for.
    warned: BTreeSet<LeaseId>,
    ready: VecDeque<LeaseEvent>,
    next_look: Instant,
}

impl LeaseEvents {
    pub(crate) fn new(handle: Handle, inbox: Receiver<LeaseEvent>, filter: LeaseEventFilter) -> LeaseEvents {
        let warned = BTreeSet::new();
        LeaseEvents { handle, inbox, filter, warned, ready: VecDeque::new(), next_look: Instant::now() }
    }

    /// The next event; an error ends the subscription.
    pub async fn next(&mut self) -> Result<LeaseEvent, Code> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            tokio::select! {
                event = self.inbox.recv() => match event {
                    Ok(event) => self.on_event(event),
                    Err(RecvError::Lagged(_)) => return Err(Code::LeaseEventsLost),
                    Err(RecvError::Closed) => return Err(Code::Stopped),
                },
                () = sleep_until(self.next_look), if self.filter.warning.is_some() => self.poll_leader().await,
            }
        }
    }

    fn matches_filter(&self, id: LeaseId) -> bool {
        self.filter.ids.is_empty() || self.filter.ids.contains(&id)
    }

    fn on_event(&mut self, event: LeaseEvent) {
        if self.matches_filter(event.id) {
            self.warned.remove(&event.id);
            self.ready.push_back(event);
        }
    }

    /// Without a leader there is nothing to poll, and no lease expires either.
    async fn poll_leader(&mut self) {
        let Some(warning) = self.filter.warning else { return };
        self.next_look = Instant::now() + (warning / 4).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX);
        let within_ms = u64::try_from(warning.as_millis()).unwrap_or(u64::MAX);
        let Ok(reply) = self.handle.leases().ending(within_ms).await else { return };
        let ending = &reply.body;
        let all_named = ending.len() < LEASES_ENDING_MAX;
        let named: BTreeSet<LeaseId> = ending.iter().map(|ending| ending.id).collect();
        for EndingLease { id, left_ms } in
            ending.iter().filter(|ending| self.matches_filter(ending.id)).copied().collect::<Vec<_>>()
        {
            if self.warned.insert(id) {
                self.emit(id, reply.revision, LeaseEventKind::Expiring { left_ms });
            }
        }
        if all_named {
            self.check_renewed(&named).await;
        }
    }

    /// Checks the leases that were warned of and are not about to expire any more. The log says which of them have ended, and how.
    async fn check_renewed(&mut self, named: &BTreeSet<LeaseId>) {
        let quiet: Vec<LeaseId> = self.warned.difference(named).copied().take(RENEWALS_PER_POLL).collect();
        for id in quiet {
            let Ok(Reply { revision, body: time }) = self.handle.leases().time_to_live(id).await else {
                return;
            };
            self.warned.remove(&id);
            if time.ttl >= 0 {
                self.emit(id, revision, LeaseEventKind::Renewed);
            }
        }
    }

    fn emit(&mut self, id: LeaseId, revision: Revision, kind: LeaseEventKind) {
        self.ready.push_back(LeaseEvent { id, revision, kind });
    }
}
