//! Locks: taken under a lease that is kept alive, guarded by a value that knows when it is over, released.
//! A name and options go in; a guard comes out, or the current holder. At no time does a guard claim more
//! than the server grants: its deadline lies before the end of the lease, and its writes carry its token.

use crate::connection::Kind;
use crate::held_lease::{HeldLease, Lease};
use crate::{AuthedChannel, Client, Error, Fence, Hold};
use proto::lock::lock_service_client::LockServiceClient;
use proto::lock::{
    InspectRequest, InspectResponse, ListRequest, ListResponse, LockRequest, LockResponse, UnlockRequest,
    UpdateRequest, UpdateResponse,
};
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct LockOptions {
    pub lease: Lease,
    /// How long to wait for the lock; zero does not wait, none waits for ever.
    pub timeout: Option<Duration>,
    /// The holder's name, for people to read.
    pub holder_id: String,
    /// The value of the key, for people and tools to read.
    pub metadata: Vec<u8>,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        let lease = Lease::Own { ttl_seconds: 30 };
        LockOptions { lease, timeout: None, holder_id: String::new(), metadata: Vec::new() }
    }
}

/// A lock that is held. It is released by `release`; dropping it releases it as well as can be done without waiting
/// (`Client::wait_for_releases` waits for that).
#[derive(Debug)]
pub struct Guard(Hold);

impl Deref for Guard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Client {
    /// Waits for the lock and takes it. Dropping this future leaves the queue.
    pub async fn lock(&self, name: &str, options: LockOptions) -> Result<Guard, Error> {
        self.lock_noting(name, options, &OnceLock::new()).await
    }

    /// The same, and notes the lease under which it waits.
    pub async fn lock_noting(
        &self,
        name: &str,
        options: LockOptions,
        lease: &OnceLock<i64>,
    ) -> Result<Guard, Error> {
        let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
        let held_lease = HeldLease::begin(self, options.lease).await?;
        // A cell that was used before keeps its lease.
        let _ = lease.set(held_lease.lease());
        let request = LockRequest {
            name: name.to_owned(),
            lease_id: held_lease.lease(),
            metadata: options.metadata.into(),
            timeout_ms: None,
            holder_id: options.holder_id,
        };
        match held_lease.unless_lost(self.take(request, deadline)).await {
            Ok(held) if held.acquired => {
                let fence = Fence { lock: name.as_bytes().to_vec(), token: held.fencing_token };
                Ok(Guard(Hold::new(self, held_lease, held.key.into_bytes(), fence)))
            }
            outcome => {
                // The reason why there is no lock is what matters; the lease would expire.
                let _ = held_lease.end().await;
                let LockResponse { holder_id, holder_token, .. } = outcome?;
                Err(Error::LockHeld { name: name.to_owned(), holder_id, token: holder_token })
            }
        }
    }

    /// Repeats until there is an answer: under one lease a lock is taken once, however often the call is repeated.
    async fn take(&self, request: LockRequest, deadline: Option<Instant>) -> Result<LockResponse, Error> {
        let call = |channel| {
            let timeout_ms = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                i64::try_from(left.as_millis()).unwrap_or(i64::MAX)
            });
            let request = LockRequest { timeout_ms, ..request.clone() };
            async move { service(channel).lock(request).await }
        };
        // The server answers when the time is up; that answer has time to arrive.
        let patience = deadline.map(|deadline| deadline + self.config().call_timeout);
        self.retry_until(patience, call).await
    }

    /// The holder of a lock, and the waiters.
    pub async fn inspect_lock(&self, name: &str) -> Result<InspectResponse, Error> {
        let call = |channel| {
            let request = InspectRequest { name: name.to_owned() };
            async move { service(channel).inspect(request).await }
        };
        self.call(Kind::Read, call).await
    }

    /// The locks whose names begin so.
    pub async fn locks(&self, prefix: &str) -> Result<ListResponse, Error> {
        let call = |channel| {
            let request = ListRequest { prefix: prefix.to_owned(), limit: 0 };
            async move { service(channel).list(request).await }
        };
        self.call(Kind::Read, call).await
    }

    /// Replaces the metadata of the holder that has this token.
    pub async fn update_lock(
        &self,
        name: &str,
        token: i64,
        metadata: Vec<u8>,
    ) -> Result<UpdateResponse, Error> {
        let request =
            UpdateRequest { name: name.to_owned(), fencing_token: token, metadata: metadata.into() };
        let call = |channel| {
            let request = request.clone();
            async move { service(channel).update(request).await }
        };
        self.call(Kind::Write, call).await
    }

    async fn unlock(&self, key: &[u8], token: i64) -> Result<(), Error> {
        let request = UnlockRequest {
            key: String::from_utf8_lossy(key).into_owned(),
            fencing_token: token,
            ..Default::default()
        };
        let call = |channel| {
            let request = request.clone();
            async move { service(channel).unlock(request).await }
        };
        self.call(Kind::Write, call).await.map(drop)
    }
}

impl Guard {
    /// Releases the lock, and ends the lease if that is its own. A lock that was lost before is an error.
    pub async fn release(self) -> Result<(), Error> {
        let given_back = self.0.client().unlock(self.key(), self.token()).await;
        let has_own_lease = self.has_own_lease();
        let ended = self.0.end().await;
        match given_back {
            Err(error) if error.is_refusal(base::Code::NotLockHolder) => {
                Err(Error::LockLost { reason: error.to_string() })
            }
            // The end of the lease has released it.
            Err(_) if has_own_lease && ended.is_ok() => Ok(()),
            given_back => given_back.and(ended),
        }
    }
}

/// The server bounds the size of its answers.
fn service(line: AuthedChannel) -> LockServiceClient<AuthedChannel> {
    LockServiceClient::new(line).max_decoding_message_size(usize::MAX)
}
