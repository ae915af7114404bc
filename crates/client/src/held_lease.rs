//! A lease for as long as something is held under it: granted for the purpose, or given by the caller.
//! It is kept alive from the first moment. One that was granted for the purpose is revoked in the end, also when
//! the tenure is dropped; a given one outlives it.

use crate::{Client, Error, LeaseKeeper, LeaseState};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The lease under which something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// One of its own, which lives for so many seconds after the last keep-alive.
    Own { ttl_seconds: i64 },
    /// One that exists, and is not revoked.
    Given(i64),
}

#[derive(Debug)]
pub(crate) struct HeldLease {
    client: Client,
    keeper: LeaseKeeper,
    is_own: bool,
    has_ended: bool,
}

impl HeldLease {
    pub async fn begin(client: &Client, lease: Lease) -> Result<HeldLease, Error> {
        let keeper = match lease {
            Lease::Own { ttl_seconds } => LeaseKeeper::of(client, &client.grant_lease(ttl_seconds, 0).await?),
            Lease::Given(id) => LeaseKeeper::adopt(client, id).await?,
        };
        let is_own = matches!(lease, Lease::Own { .. });
        Ok(HeldLease { client: client.clone(), keeper, is_own, has_ended: false })
    }

    pub fn lease(&self) -> i64 {
        self.keeper.id()
    }

    pub fn is_own(&self) -> bool {
        self.is_own
    }

    pub fn is_held(&self) -> bool {
        self.keeper.is_held()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.keeper.deadline()
    }

    pub async fn lost(&self) -> Error {
        self.keeper.lost().await
    }

    pub async fn doubtful(&self, ahead: Duration) -> Error {
        self.keeper.doubtful(ahead).await
    }

    pub fn states(&self) -> watch::Receiver<LeaseState> {
        self.keeper.lease_states()
    }

    /// Waits no longer than the lease lives.
    pub async fn unless_lost<T>(&self, wait: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            outcome = wait => outcome,
            error = self.lost() => Err(error),
        }
    }

    /// Revokes the lease if it is its own. It may be gone already.
    pub async fn end(mut self) -> Result<(), Error> {
        self.has_ended = true;
        if !self.is_own {
            return Ok(());
        }
        match self.client.revoke_lease(self.lease()).await {
            Err(error) if !error.is_refusal(base::Code::LeaseNotFound) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if self.is_own && !self.has_ended {
            let (client, id) = (self.client.clone(), self.lease());
            self.client.spawn_cleanup(async move {
                // If it does not arrive, the lease expires.
                let _ = client.revoke_lease(id).await;
            });
        }
    }
}
