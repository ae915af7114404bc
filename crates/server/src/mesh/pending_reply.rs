//! A request to the mesh in progress: when the turn runs that takes it, and a future of the reply, which comes by the request's
//! deadline. The request is posted when this is created, whether or not the future is polled.

use crate::mesh::MeshShared;
use crate::mesh::node::MeshMessage;
use crate::mesh::worker::WorkerReply;
use base::Code;
use mesh::Reply;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::yield_now;

impl MeshShared {
    /// Posts the request of a task that serves a client. One that comes alone runs the turn at once. Otherwise the first task
    /// gets a deferred turn: it lets all other ready tasks of its thread post first, and then runs one turn for all of them
    /// on this thread. See ADR 34.
    fn post_request(self: &Arc<MeshShared>, request: MeshMessage, alone: bool) -> Option<DeferredTurn> {
        if alone {
            self.actor.post_and_help(request);
            return None;
        }
        self.actor.post(request);
        let is_first = !self.deferred_turn.swap(true, Ordering::AcqRel);
        is_first.then(|| DeferredTurn(self.clone()))
    }
}

/// The turn runs on drop, so that it runs even if the task is cancelled.
pub(crate) struct DeferredTurn(Arc<MeshShared>);

impl Drop for DeferredTurn {
    fn drop(&mut self) {
        // Before the turn: a message posted from now on gets a turn of its own.
        self.0.deferred_turn.store(false, Ordering::Release);
        self.0.actor.help();
    }
}

pub struct PendingReply {
    reply: Result<oneshot::Receiver<WorkerReply>, Code>,
    deferred_turn: Option<DeferredTurn>,
    /// The others have had their chance to ask.
    has_yielded: bool,
}

impl PendingReply {
    /// Posts the request, and waits for its reply.
    pub(super) fn post(
        shared: &Arc<MeshShared>,
        (request, alone): (MeshMessage, bool),
        answer: oneshot::Receiver<WorkerReply>,
    ) -> PendingReply {
        PendingReply::new(answer, shared.post_request(request, alone))
    }

    fn new(answer: oneshot::Receiver<WorkerReply>, deferred_turn: Option<DeferredTurn>) -> PendingReply {
        PendingReply { reply: Ok(answer), deferred_turn, has_yielded: false }
    }

    pub(super) fn refused(code: Code) -> PendingReply {
        PendingReply { reply: Err(code), deferred_turn: None, has_yielded: false }
    }
}

impl Future for PendingReply {
    type Output = Result<Reply, Code>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.deferred_turn.is_some() && !std::mem::replace(&mut self.has_yielded, true) {
            ready!(pin!(yield_now()).poll(context));
        }
        self.deferred_turn = None;
        match &mut self.reply {
            // After the node has stopped no reply comes.
            Ok(answer) => Pin::new(answer).poll(context).map(|answer| answer.unwrap_or(Err(Code::Stopped))),
            Err(code) => Poll::Ready(Err(*code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_task_runs_the_turn_for_all_that_post_together() {
        let shared = Arc::new(MeshShared::new("here", Duration::from_secs(1)));
        assert!(
            shared.post_request(MeshMessage::Documents, true).is_none(),
            "a request that comes alone runs its turn at once"
        );
        let first = shared.post_request(MeshMessage::Documents, false);
        assert!(first.is_some());
        assert!(shared.post_request(MeshMessage::Documents, false).is_none());
        drop(first);
        assert!(
            shared.post_request(MeshMessage::Documents, false).is_some(),
            "a later request gets a turn of its own"
        );
    }

    #[tokio::test]
    async fn a_deferred_turn_lets_all_ready_tasks_post_first() {
        let shared = Arc::new(MeshShared::new("here", Duration::from_secs(1)));
        let (sender, answer) = oneshot::channel();
        let first = PendingReply::new(answer, shared.post_request(MeshMessage::Documents, false));
        let first = tokio::spawn(first);
        let next = |shared: &Arc<MeshShared>| {
            let shared = shared.clone();
            tokio::spawn(async move { shared.post_request(MeshMessage::Documents, false).is_some() })
        };
        let ready = [next(&shared), next(&shared)];
        for has_turn in ready {
            assert!(!has_turn.await.unwrap(), "the deferred turn takes it along");
        }
        yield_now().await;
        assert!(next(&shared).await.unwrap(), "the turn has run, though no answer has come");
        sender.send(Err(Code::Timeout)).unwrap();
        assert_eq!(first.await.unwrap().unwrap_err(), Code::Timeout);
    }

    #[tokio::test]
    async fn a_refused_or_dropped_request_gets_an_error() {
        assert_eq!(PendingReply::refused(Code::TooManyRequests).await.unwrap_err(), Code::TooManyRequests);
        let (sender, answer) = oneshot::channel();
        drop(sender);
        assert_eq!(PendingReply::new(answer, None).await.unwrap_err(), Code::Stopped);
    }
}
