//! One subscriber to lease events.
//! Grants and ends come from this member's own apply thread, in the order of the log and without a gap: a subscriber
//! that cannot keep up gets an error and ends. Warnings are polled from the leader, wherever it is;
//! a lease that was warned of and lives on was renewed.

use crate::handle::Handle;
use base::limits::LEASES_ENDING_MAX;
use base::{Code, LeaseId, Revision};
use coord::reply::{Body, Ending, Reply};
use node::{Happened, LeaseEvent, Question};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};

/// Bounds of the interval of polls; in between, a quarter of the time of the warning.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(500);
/// How many warned leases one poll checks that are no longer about to expire.
const RENEWALS_PER_LOOK: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Empty for all.
    pub ids: BTreeSet<LeaseId>,
    /// How long before its end a lease is warned of, if at all.
    pub warning: Option<Duration>,
}

pub struct LeaseEvents {
    handle: Handle,
    inbox: Receiver<LeaseEvent>,
    wanted: Wanted,
    /// Leases that a warning was sent for.
    warned: BTreeSet<LeaseId>,
    ready: VecDeque<LeaseEvent>,
    next_look: Instant,
}

impl LeaseEvents {
    pub(crate) fn new(handle: Handle, inbox: Receiver<LeaseEvent>, wanted: Wanted) -> LeaseEvents {
        let warned = BTreeSet::new();
        LeaseEvents { handle, inbox, wanted, warned, ready: VecDeque::new(), next_look: Instant::now() }
    }

    /// The next event; an error ends the subscription.
    pub async fn next(&mut self) -> Result<LeaseEvent, Code> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            tokio::select! {
                event = self.inbox.recv() => match event {
                    Ok(event) => self.hear(event),
                    Err(RecvError::Lagged(_)) => return Err(Code::LeaseEventsLost),
                    Err(RecvError::Closed) => return Err(Code::Stopped),
                },
                () = sleep_until(self.next_look), if self.wanted.warning.is_some() => self.look().await,
            }
        }
    }

    fn wants(&self, id: LeaseId) -> bool {
        self.wanted.ids.is_empty() || self.wanted.ids.contains(&id)
    }

    fn hear(&mut self, event: LeaseEvent) {
        if self.wants(event.id) {
            self.warned.remove(&event.id);
            self.ready.push_back(event);
        }
    }

    /// Without a leader there is nothing to poll, and no lease expires either.
    async fn look(&mut self) {
        let Some(warning) = self.wanted.warning else { return };
        self.next_look = Instant::now() + (warning / 4).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX);
        let within_ms = u64::try_from(warning.as_millis()).unwrap_or(u64::MAX);
        let Ok(reply) = self.handle.ask(Question::Ending { within_ms }).await else { return };
        let Body::LeasesEnding(ending) = &reply.body else {
            unreachable!("a question for what ends is answered by it, not {reply:?}")
        };
        let all_named = ending.len() < LEASES_ENDING_MAX;
        let named: BTreeSet<LeaseId> = ending.iter().map(|ending| ending.id).collect();
        for Ending { id, left_ms } in
            ending.iter().filter(|ending| self.wants(ending.id)).copied().collect::<Vec<_>>()
        {
            if self.warned.insert(id) {
                self.tell(id, reply.revision, Happened::Expiring { left_ms });
            }
        }
        if all_named {
            self.look_after(&named).await;
        }
    }

    /// Of the leases that were warned of and are not about to expire any more, some have ended: the log says how.
    async fn look_after(&mut self, named: &BTreeSet<LeaseId>) {
        let quiet: Vec<LeaseId> = self.warned.difference(named).copied().take(RENEWALS_PER_LOOK).collect();
        for id in quiet {
            let question = Question::TimeToLive { id, keys: false };
            let Ok(Reply { revision, body: Body::LeaseTime(time) }) = self.handle.ask(question).await else {
                return;
            };
            self.warned.remove(&id);
            if time.ttl >= 0 {
                self.tell(id, revision, Happened::Renewed);
            }
        }
    }

    fn tell(&mut self, id: LeaseId, revision: Revision, kind: Happened) {
        self.ready.push_back(LeaseEvent { id, revision, kind });
    }
}
