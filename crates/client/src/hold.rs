//! What a lock and a leadership have in common: a key that was created before all others below a name, its
//! lease, and the token that proves it.
//! A hold knows when it is over: when its deadline passes, when its lease is gone, or when its key is. Writes
//! through it carry its fence, so that the server decides.

use crate::connection::ROUND_PAUSE;
use crate::held_lease::HeldLease;
use crate::{Client, Error, Fence, LeaseState};
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RequestOp,
    TxnRequest, TxnResponse, WatchCreateRequest,
};
use proto::mvccpb::event::EventType;
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub struct Hold {
    client: Client,
    key: Vec<u8>,
    fence: Fence,
    /// Until it is ended, or dropped.
    held_lease: Option<HeldLease>,
    /// Whether the key is gone.
    key_gone: watch::Receiver<bool>,
    key_watch: JoinHandle<()>,
}

impl Hold {
    pub(crate) fn new(client: &Client, held_lease: HeldLease, key: Vec<u8>, fence: Fence) -> Hold {
        let (gone, key_gone) = watch::channel(false);
        let key_watch = KeyWatch { client: client.clone(), key: key.clone(), token: fence.token };
        let key_watch = tokio::spawn(async move {
            key_watch.until_gone().await;
            gone.send_replace(true);
        });
        Hold { client: client.clone(), key, fence, held_lease: Some(held_lease), key_gone, key_watch }
    }

    /// The key of the hold, which every client can read.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Higher than that of every earlier holder.
    pub fn token(&self) -> i64 {
        self.fence.token
    }

    /// For others that write on behalf of the holder.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    pub fn lease(&self) -> i64 {
        self.held_lease().lease()
    }

    /// Until when the holder may act, without another keep-alive; none when the lease is lost.
    pub fn deadline(&self) -> Option<Instant> {
        self.held_lease().deadline()
    }

    /// Whether the holder may act now, as far as the client can know. Only a fence is proof.
    pub fn is_held(&self) -> bool {
        self.held_lease().is_held() && !*self.key_gone.borrow()
    }

    /// What is known of the lease, now and later.
    pub fn lease_states(&self) -> watch::Receiver<LeaseState> {
        self.held_lease().states()
    }

    /// Waits until it is lost, and returns why.
    pub async fn lost(&self) -> Error {
        self.doubtful(Duration::ZERO).await
    }

    /// Waits until it is lost, or so near to its deadline without another keep-alive; returns why.
    pub async fn doubtful(&self, ahead: Duration) -> Error {
        let mut key_gone = self.key_gone.clone();
        let key_gone = async move {
            // The task ends only after it has sent that.
            let _ = key_gone.wait_for(|gone| *gone).await;
        };
        let reason = tokio::select! {
            error = self.held_lease().doubtful(ahead) => error.to_string(),
            () = key_gone => "its key is gone".to_owned(),
        };
        Error::LockLost { reason }
    }

    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Error> {
        self.check()?;
        self.client.put_fenced(&self.fence, request).await
    }

    pub async fn delete(&self, request: DeleteRangeRequest) -> Result<DeleteRangeResponse, Error> {
        self.check()?;
        self.client.delete_fenced(&self.fence, request).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        self.check()?;
        self.client.txn_fenced(&self.fence, request).await
    }

    /// A hold that is over makes no call.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_held() {
            Ok(())
        } else {
            Err(Error::LockLost { reason: "nothing is sent under it any more".to_owned() })
        }
    }

    /// The key was deleted, or that was tried: ends the lease, if it is the hold's own.
    pub(crate) async fn end(mut self) -> Result<(), Error> {
        let held_lease = self.held_lease.take().expect("it is taken only here and on drop");
        held_lease.end().await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn has_own_lease(&self) -> bool {
        self.held_lease().is_own()
    }

    fn held_lease(&self) -> &HeldLease {
        self.held_lease.as_ref().expect("it is taken only at the end")
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.key_watch.abort();
        // The end of its own lease deletes the key; under another lease, the key is deleted by itself.
        if self.held_lease.take().is_some_and(|held_lease| !held_lease.is_own()) {
            let (client, request) = (self.client.clone(), delete_if_same(&self.key, self.fence.token));
            self.client.spawn_cleanup(async move {
                // If it does not arrive, the key ends with the lease.
                let _ = client.txn(request).await;
            });
        }
    }
}

/// A key of the same name that was created later belongs to another holder.
fn delete_if_same(key: &[u8], token: i64) -> TxnRequest {
    let same = Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Create as i32,
        key: key.to_vec().into(),
        target_union: Some(TargetUnion::CreateRevision(token)),
        ..Default::default()
    };
    let delete = DeleteRangeRequest { key: key.to_vec().into(), ..Default::default() };
    let delete = RequestOp { request: Some(Request::RequestDeleteRange(delete)) };
    TxnRequest { compare: vec![same], success: vec![delete], failure: vec![] }
}

/// Watches the key.
struct KeyWatch {
    client: Client,
    key: Vec<u8>,
    token: i64,
}

impl KeyWatch {
    /// Errors are retried: the lease decides whether they last too long.
    async fn until_gone(&self) {
        loop {
            match self.read_and_watch().await {
                Ok(ControlFlow::Break(())) => return,
                Ok(ControlFlow::Continue(())) => {}
                Err(_) => sleep(ROUND_PAUSE).await,
            }
        }
    }

    /// Reads first, for the key may be gone already; later changes are watched.
    async fn read_and_watch(&self) -> Result<ControlFlow<()>, Error> {
        let request = RangeRequest { key: self.key.clone().into(), ..Default::default() };
        let seen = self.client.range(request).await?;
        if seen.kvs.first().is_none_or(|kv| kv.create_revision != self.token) {
            return Ok(ControlFlow::Break(()));
        }
        let start_revision = seen.header.map_or(0, |header| header.revision) + 1;
        let create =
            WatchCreateRequest { key: self.key.clone().into(), start_revision, ..Default::default() };
        let mut watcher = self.client.watch(create);
        loop {
            let events = match watcher.next().await {
                Ok(response) => response.events,
                // Nothing is known of compacted revisions; another read decides.
                Err(Error::Compacted { .. }) => return Ok(ControlFlow::Continue(())),
                Err(error) => return Err(error),
            };
            if events.iter().any(|event| event.r#type() == EventType::Delete) {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}
