//! The answers of a stream on which every request is answered, in order. Requests that have arrived together are asked
//! together, so that the core processes them in one turn; the task that sends the response asks, without a task or a
//! queue in between. The stream ends with its requests, or behind the first refusal.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

/// Requests of one stream that are asked and not answered yet; while there are so many, none is read.
const ASKED_MAX: usize = 16;

pub type Asking<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

pub struct OrderedAnswers<S, F, T> {
    /// None when no more are read.
    requests: Option<S>,
    ask: F,
    asked: VecDeque<PendingAnswer<T>>,
}

enum PendingAnswer<T> {
    Waiting(Asking<T>),
    Answered(Option<Result<T, Status>>),
}

impl<T> PendingAnswer<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Status>>> {
        match self {
            PendingAnswer::Waiting(waiting) => waiting.as_mut().poll(context).map(Some),
            PendingAnswer::Answered(answer) => Poll::Ready(answer.take()),
        }
    }
}

impl<S, F, T, R> OrderedAnswers<S, F, T>
where
    S: Stream<Item = Result<R, Status>> + Unpin,
    F: FnMut(R) -> Asking<T>,
{
    pub fn new(requests: S, ask: F) -> OrderedAnswers<S, F, T> {
        OrderedAnswers { requests: Some(requests), ask, asked: VecDeque::new() }
    }

    pub fn is_reading(&self) -> bool {
        self.requests.is_some()
    }

    /// Only what is asked already is answered.
    pub fn stop_reading(&mut self) {
        self.requests = None;
    }

    fn read(&mut self, context: &mut Context<'_>) {
        while self.asked.len() < ASKED_MAX
            && let Some(requests) = &mut self.requests
            && let Poll::Ready(request) = Pin::new(requests).poll_next(context)
        {
            match request {
                Some(Ok(request)) => {
                    // The first poll hands the question over.
                    let mut asked = PendingAnswer::Waiting((self.ask)(request));
                    if let Poll::Ready(answer) = asked.poll(context) {
                        asked = PendingAnswer::Answered(answer);
                    }
                    self.asked.push_back(asked);
                }
                Some(Err(status)) => {
                    self.requests = None;
                    self.asked.push_back(PendingAnswer::Answered(Some(Err(status))));
                }
                None => self.requests = None,
            }
        }
    }
}

impl<S, F, T, R> Stream for OrderedAnswers<S, F, T>
where
    S: Stream<Item = Result<R, Status>> + Unpin,
    F: FnMut(R) -> Asking<T> + Unpin,
    T: Unpin,
{
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T, Status>>> {
        let this = self.get_mut();
        this.read(context);
        let Some(first) = this.asked.front_mut() else {
            return if this.requests.is_some() { Poll::Pending } else { Poll::Ready(None) };
        };
        let answer = ready!(first.poll(context));
        this.asked.pop_front();
        if matches!(answer, Some(Err(_))) {
            this.requests = None;
            this.asked.clear();
        }
        Poll::Ready(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{mpsc, oneshot};
    use tonic::codegen::tokio_stream::StreamExt;
    use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;

    type Question = oneshot::Receiver<Result<u64, Status>>;

    fn answers(
        requests: mpsc::UnboundedReceiver<Result<Question, Status>>,
    ) -> impl Stream<Item = Result<u64, Status>> + Unpin {
        OrderedAnswers::new(UnboundedReceiverStream::new(requests), |question: Question| {
            Box::pin(async { question.await.unwrap_or_else(|_| Err(Status::aborted("dropped"))) })
                as Asking<u64>
        })
    }

    #[tokio::test]
    async fn requests_are_asked_together_and_answered_in_order() {
        let (sender, requests) = mpsc::unbounded_channel();
        let mut answers = answers(requests);
        let (first, second) = (oneshot::channel(), oneshot::channel());
        sender.send(Ok(first.1)).unwrap();
        sender.send(Ok(second.1)).unwrap();
        second.0.send(Ok(2)).unwrap();
        let next = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut answers).poll_next(context)));
        assert!(next.await.is_pending(), "the second waits for the first");
        first.0.send(Ok(1)).unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap(), 1);
        assert_eq!(answers.next().await.unwrap().unwrap(), 2);
        drop(sender);
        assert!(answers.next().await.is_none());
    }

    #[tokio::test]
    async fn a_refusal_ends_the_stream_and_no_more_than_a_bound_are_read() {
        let (sender, requests) = mpsc::unbounded_channel();
        let mut answers = answers(requests);
        let mut open = Vec::new();
        for _ in 0..2 * ASKED_MAX {
            let (answer, question) = oneshot::channel();
            sender.send(Ok(question)).unwrap();
            open.push(answer);
        }
        let mut open = open.into_iter();
        open.next().unwrap().send(Err(Status::not_found("gone"))).unwrap();
        assert_eq!(answers.next().await.unwrap().unwrap_err().message(), "gone");
        let unread = open.skip(ASKED_MAX - 1).filter(|answer| !answer.is_closed()).count();
        assert_eq!(unread, 0, "what was not read is dropped with the requests");
        assert!(answers.next().await.is_none());
    }
}
