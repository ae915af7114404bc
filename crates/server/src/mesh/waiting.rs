//! A request to the mesh in progress: a future of the reply, which comes by the request's deadline. The request is posted when
//! this is created, whether or not the future is polled.

use crate::mesh::Errand;
use crate::mesh::lane::Answer;
use base::Code;
use mesh::request::Reply;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;
use tokio::task::yield_now;

pub struct Waiting {
    asked: Result<oneshot::Receiver<Answer>, Code>,
    errand: Option<Errand>,
    /// The others have had their chance to ask.
    has_yielded: bool,
}

impl Waiting {
    pub(super) fn new(answer: oneshot::Receiver<Answer>, errand: Option<Errand>) -> Waiting {
        Waiting { asked: Ok(answer), errand, has_yielded: false }
    }

    pub(super) fn refused(code: Code) -> Waiting {
        Waiting { asked: Err(code), errand: None, has_yielded: false }
    }
}

impl Future for Waiting {
    type Output = Result<Reply, Code>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.errand.is_some() && !std::mem::replace(&mut self.has_yielded, true) {
            ready!(pin!(yield_now()).poll(context));
        }
        self.errand = None;
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
    use crate::mesh::Desk;
    use crate::mesh::node::Mail;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn who_goes_for_all_lets_all_that_are_ready_ask_first() {
        let desk = Arc::new(Desk::new("here", Duration::from_secs(1)));
        let (sender, answer) = oneshot::channel();
        let first = Waiting::new(answer, desk.bring(Mail::Documents, false));
        let first = tokio::spawn(first);
        let next = |desk: &Arc<Desk>| {
            let desk = desk.clone();
            tokio::spawn(async move { desk.bring(Mail::Documents, false).is_some() })
        };
        let ready = [next(&desk), next(&desk)];
        for asked in ready {
            assert!(!asked.await.unwrap(), "the errand takes it along");
        }
        yield_now().await;
        assert!(next(&desk).await.unwrap(), "the errand was done, though no answer has come");
        sender.send(Err(Code::Timeout)).unwrap();
        assert_eq!(first.await.unwrap().unwrap_err(), Code::Timeout);
    }

    #[tokio::test]
    async fn whoever_is_refused_or_forgotten_is_told() {
        assert_eq!(Waiting::refused(Code::TooManyRequests).await.unwrap_err(), Code::TooManyRequests);
        let (sender, answer) = oneshot::channel();
        drop(sender);
        assert_eq!(Waiting::new(answer, None).await.unwrap_err(), Code::Stopped);
    }
}
