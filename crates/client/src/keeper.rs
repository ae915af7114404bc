//! Keeps one lease alive, and knows until when its holder may rely on it.
//! A lease goes in; a state comes out: held until a deadline, or lost. The deadline is the *send* time of the
//! last keep-alive that was acknowledged, plus the TTL, less a margin for clocks that run at different speeds; so
//! it is never later than the server's, whatever the network did. What is lost stays lost.

use crate::connection::ROUND_PAUSE;
use crate::lease::{KeepAlives, keep};
use crate::{Client, Error, GrantedLease};
use proto::etcdserverpb::LeaseKeepAliveResponse;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// How many keep-alives are sent in a TTL: two more attempts fit before the lease expires.
const KEEPS_PER_TTL: u32 = 3;
/// The part of the TTL by which a holder stops early: far more than clocks drift apart, and a little time for the
/// holder to react.
const DRIFT_PARTS: u32 = 20;

/// What a holder may rely on.
#[derive(Clone, Debug)]
pub enum LeaseState {
    /// The lease exists at least until the deadline.
    Held { deadline: Instant, kept: LeaseKeepAliveResponse },
    /// It is gone, or may be: no server answered in time.
    Lost(Error),
}

/// Dropping it stops the keep-alives; the lease then expires, unless it is revoked.
#[derive(Debug)]
pub struct LeaseKeeper {
    id: i64,
    lease_state: watch::Receiver<LeaseState>,
    task: JoinHandle<()>,
}

impl LeaseKeeper {
    /// Keeps a lease that was just granted.
    pub fn of(client: &Client, granted: &GrantedLease) -> LeaseKeeper {
        let response = &granted.response;
        let kept = LeaseKeepAliveResponse { header: response.header, id: response.id, ttl: response.ttl };
        LeaseKeeper::start(client, kept, granted.asked_at)
    }

    /// Keeps a lease that is known only by its id.
    pub async fn adopt(client: &Client, id: i64) -> Result<LeaseKeeper, Error> {
        let sent_at = Instant::now();
        let kept = client.keep_lease_once(id).await?;
        Ok(LeaseKeeper::start(client, kept, sent_at))
    }

    fn start(client: &Client, kept: LeaseKeepAliveResponse, sent_at: Instant) -> LeaseKeeper {
        let id = kept.id;
        let ttl = ttl_of(&kept);
        let (tell, lease_state) = watch::channel(LeaseState::Held { deadline: deadline(sent_at, ttl), kept });
        let task = KeepAliveTask { client: client.clone(), id, stream: None, sent_at, ttl, tell };
        LeaseKeeper { id, lease_state, task: tokio::spawn(task.run()) }
    }

    pub fn lease_state(&self) -> LeaseState {
        self.lease_state.borrow().clone()
    }

    pub fn id(&self) -> i64 {
        self.id
    }

    /// Whether the holder may act now. A deadline that has passed counts, even before the task has reported it.
    pub fn is_held(&self) -> bool {
        self.is_held_for(Duration::ZERO)
    }

    /// Until when the holder may act, without another keep-alive; none when the lease is lost.
    pub fn deadline(&self) -> Option<Instant> {
        match &*self.lease_state.borrow() {
            LeaseState::Held { deadline, .. } => Some(*deadline),
            LeaseState::Lost(_) => None,
        }
    }

    /// The next change: kept once more, or lost.
    pub async fn changed(&mut self) -> LeaseState {
        // A task that ended has reported before that the lease is lost.
        let _ = self.lease_state.changed().await;
        self.lease_state.borrow_and_update().clone()
    }

    /// What a holder may rely on, now and later.
    pub fn lease_states(&self) -> watch::Receiver<LeaseState> {
        self.lease_state.clone()
    }

    /// Waits until the lease is lost, and returns why.
    pub async fn lost(&self) -> Error {
        self.doubtful(Duration::ZERO).await
    }

    /// Waits until the lease is lost, or so near to its deadline without another keep-alive.
    pub async fn doubtful(&self, ahead: Duration) -> Error {
        let mut lease_states = self.lease_state.clone();
        loop {
            let lease_state = lease_states.borrow_and_update().clone();
            match lease_state {
                LeaseState::Lost(error) => return error,
                LeaseState::Held { deadline, .. } => {
                    let changed = timeout_at(deadline - ahead, lease_states.changed()).await;
                    if changed.is_err() && !self.is_held_for(ahead) {
                        return Error::TimedOut;
                    }
                }
            }
        }
    }

    fn is_held_for(&self, ahead: Duration) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() + ahead < deadline)
    }
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct KeepAliveTask {
    client: Client,
    id: i64,
    /// With the index of its endpoint.
    stream: Option<(usize, KeepAlives)>,
    sent_at: Instant,
    ttl: Duration,
    tell: watch::Sender<LeaseState>,
}

impl KeepAliveTask {
    async fn run(mut self) {
        loop {
            sleep_until(self.sent_at + self.ttl / KEEPS_PER_TTL).await;
            match self.keep_in_time().await {
                Ok(kept) => {
                    let deadline = deadline(self.sent_at, self.ttl);
                    self.tell.send_replace(LeaseState::Held { deadline, kept });
                }
                Err(error) => {
                    self.tell.send_replace(LeaseState::Lost(error));
                    return;
                }
            }
        }
    }

    /// Tries until it is acknowledged, refused, or too late.
    async fn keep_in_time(&mut self) -> Result<LeaseKeepAliveResponse, Error> {
        let deadline = deadline(self.sent_at, self.ttl);
        loop {
            let sent_at = Instant::now();
            // A silent endpoint is left while there is time for another.
            let patience = (sent_at + self.ttl / KEEPS_PER_TTL).min(deadline);
            match self.keep_once(patience).await {
                Ok(kept) if kept.ttl > 0 => {
                    (self.sent_at, self.ttl) = (sent_at, ttl_of(&kept));
                    return Ok(kept);
                }
                Ok(_) => return Err(Error::LeaseGone { id: self.id }),
                Err(error) if error.is_final() || Instant::now() + ROUND_PAUSE >= deadline => {
                    return Err(error);
                }
                Err(_) => sleep(ROUND_PAUSE).await,
            }
        }
    }

    async fn keep_once(&mut self, patience: Instant) -> Result<LeaseKeepAliveResponse, Error> {
        let (place, mut stream) = match self.stream.take() {
            Some(open) => open,
            None => timeout_at(patience, self.client.keep_alives()).await.map_err(|_| Error::TimedOut)??,
        };
        match keep(&mut stream, self.id, patience).await {
            Ok(kept) => {
                self.stream = Some((place, stream));
                Ok(kept)
            }
            // A late answer must not be taken for a later one's: the stream is not used again.
            Err(error) => {
                self.client.move_on(place);
                Err(error)
            }
        }
    }
}

fn ttl_of(kept: &LeaseKeepAliveResponse) -> Duration {
    Duration::from_secs(kept.ttl.max(0).unsigned_abs())
}

fn deadline(sent_at: Instant, ttl: Duration) -> Instant {
    sent_at + ttl - ttl / DRIFT_PARTS
}
