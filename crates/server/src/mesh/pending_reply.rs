//! A request to the mesh in progress: a future of the reply, which comes by the request's deadline. The request is posted when
//! this is created, whether or not the future is polled.

use crate::mesh::DeferredTurn;
use crate::mesh::worker::WorkerReply;
use base::Code;
use mesh::Reply;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::yield_now;

pub struct PendingReply {
    asked: Result<oneshot::Receiver<WorkerReply>, Code>,
    deferred_turn: Option<DeferredTurn>,
    /// The others have had their chance to ask.
    has_yielded: bool,
}

impl PendingReply {
    pub(super) fn new(
        answer: oneshot::Receiver<WorkerReply>,
        deferred_turn: Option<DeferredTurn>,
    ) -> PendingReply {
        PendingReply { asked: Ok(answer), deferred_turn, has_yielded: false }
    }

    pub(super) fn refused(code: Code) -> PendingReply {
        PendingReply { asked: Err(code), deferred_turn: None, has_yielded: false }
    }
}

impl Future for PendingReply {
    type Output = Result<Reply, Code>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.deferred_turn.is_some() && !std::mem::replace(&mut self.has_yielded, true) {
            ready!(pin!(yield_now()).poll(context));
        }
        self.deferred_turn = None;
        match &mut self.asked {
            // After the node has stopped no reply comes.
            Ok(answer) => Pin::new(answer).poll(context).map(|answer| answer.unwrap_or(Err(Code::Stopped))),
            Err(code) => Poll::Ready(Err(*code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::MeshShared;
    use crate::mesh::node::MeshMessage;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn a_deferred_turn_lets_all_ready_tasks_post_first() {
        let shared = Arc::new(MeshShared::new("here", Duration::from_secs(1)));
        let (sender, answer) = oneshot::channel();
        let first = PendingReply::new(answer, shared.post_batched(MeshMessage::Documents, false));
        let first = tokio::spawn(first);
        let next = |shared: &Arc<MeshShared>| {
            let shared = shared.clone();
            tokio::spawn(async move { shared.post_batched(MeshMessage::Documents, false).is_some() })
        };
        let ready = [next(&shared), next(&shared)];
        for asked in ready {
            assert!(!asked.await.unwrap(), "the errand takes it along");
        }
        yield_now().await;
        assert!(next(&shared).await.unwrap(), "the errand was done, though no answer has come");
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
