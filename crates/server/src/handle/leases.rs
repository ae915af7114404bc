//! Leases: grants and revocations go through the log, renewals and remaining time come from the leader, wherever it is.

use crate::handle::Handle;
use crate::lease_events::{LeaseEventFilter, LeaseEvents};
use base::limits::LEASE_TTL_SECONDS_MAX;
use base::{Code, FormatLevel, LeaseId};
use coord::call::{GrantedLease, RenewedLease, ReplyBody};
use coord::reply::{EndingLease, LeaseTime, Reply};
use coord::{Command, Grant, Revoke};
use node::{ClientWork, LeaderQuestion};
use std::sync::atomic::Ordering;

#[derive(Clone, Copy)]
pub struct LeaseHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl LeaseHandle<'_> {
    /// Grants a lease, under an id of our choice if none is given. If that id exists already, another is chosen.
    pub async fn grant(self, id: LeaseId, ttl: i64) -> Result<Reply<GrantedLease>, Code> {
        if ttl > LEASE_TTL_SECONDS_MAX {
            return Err(Code::LeaseTtlTooLarge);
        }
        let ttl = ttl.max(self.handle.shared.params.lease_ttl_min);
        loop {
            let chosen = if id == LeaseId::NONE { self.next_id() } else { id };
            let grant = Command::LeaseGrant(Grant { id: chosen, ttl });
            match self.handle.propose_and_wait(&grant).await {
                Err(Code::LeaseExists) if id == LeaseId::NONE => {}
                answer => return answer,
            }
        }
    }

    pub async fn revoke(self, id: LeaseId) -> Result<Reply<()>, Code> {
        self.handle.propose_and_wait(&Command::LeaseRevoke(Revoke { id, guard: None })).await
    }

    pub async fn keep_alive(self, id: LeaseId) -> Result<Reply<RenewedLease>, Code> {
        self.ask_leader(LeaderQuestion::KeepAlive(id)).await
    }

    /// The remaining time of a lease.
    pub async fn time_to_live(self, id: LeaseId) -> Result<Reply<LeaseTime>, Code> {
        self.ask_leader(LeaderQuestion::TimeToLive { id, keys: false }).await
    }

    /// The same with the keys that are attached to it.
    pub async fn time_to_live_and_keys(self, id: LeaseId) -> Result<Reply<LeaseTime>, Code> {
        self.ask_leader(LeaderQuestion::TimeToLive { id, keys: true }).await
    }

    /// How many milliseconds are left of a lease; none without the lease. Before an upgrade from 0.1.0 is finalized,
    /// the leader tells whole seconds.
    pub async fn left_ms(self, id: LeaseId) -> Result<Option<i64>, Code> {
        if self.handle.formats().level() == FormatLevel::OLDEST {
            let ttl = self.time_to_live(id).await?.body.ttl;
            return Ok((ttl >= 0).then_some(ttl * 1_000));
        }
        let left: Reply<Vec<EndingLease>> = self.ask_leader(LeaderQuestion::TimeLeft(id)).await?;
        Ok(left.body.first().map(|lease| i64::try_from(lease.left_ms).unwrap_or(i64::MAX)))
    }

    /// The ids of all leases.
    pub async fn list(self) -> Result<Reply<Vec<LeaseId>>, Code> {
        self.ask_leader(LeaderQuestion::Leases).await
    }

    /// Leases that end within so many milliseconds unless they are renewed.
    pub async fn ending(self, within_ms: u64) -> Result<Reply<Vec<EndingLease>>, Code> {
        self.ask_leader(LeaderQuestion::Ending { within_ms }).await
    }

    /// Subscribes to lease events from now on.
    pub fn events(self, wanted: LeaseEventFilter) -> Result<LeaseEvents, Code> {
        if self.handle.is_draining() {
            return Err(Code::Stopped);
        }
        Ok(LeaseEvents::new(
            self.handle.clone(),
            self.handle.core().published.lease_events.subscribe(),
            wanted,
        ))
    }

    async fn ask_leader<T: ReplyBody>(self, question: LeaderQuestion) -> Result<Reply<T>, Code> {
        self.handle.wait_for(ClientWork::LeaderQuestion(question)).await.map(Reply::narrowed)
    }

    fn next_id(self) -> LeaseId {
        let nth = self.handle.shared.lease_ids.fetch_add(1, Ordering::Relaxed);
        node::member::lease_id(self.handle.identity().member, self.handle.shared.params.boot, nth)
    }
}
