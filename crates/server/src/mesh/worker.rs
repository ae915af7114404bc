//! Delivers replies of the mesh. A thread that serves many clients is a worker with an inbox: all replies of a turn are pushed
//! into it, its delivery task is woken once, and completes the requests on its own thread, where waking a task is cheap. A
//! reply without a worker goes straight to the requester.
//! A worker also counts its requests between two rests of its thread: where several requests come together, they are posted
//! together. Every reply in the inbox is delivered unless its requester is gone.

use crate::reply_inbox::ReplyInbox;
use base::Code;
use mesh::Reply;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use tokio::sync::oneshot;

pub(crate) type WorkerReply = Result<Reply, Code>;

/// One thread that serves many clients; cheap to clone.
#[derive(Clone, Default)]
pub struct Worker(Arc<WorkerShared>);

#[derive(Default)]
struct WorkerShared {
    /// Answers gather here.
    replies: ReplyInbox<(oneshot::Sender<WorkerReply>, WorkerReply)>,
    /// Requests since the thread last rested, and in the last stretch before that had any. Only the thread itself counts.
    asked: AtomicUsize,
    asked_before: AtomicUsize,
}

impl Worker {
    /// To be called when the thread has nothing more to do and is about to sleep.
    pub fn rest(&self) {
        let asked = self.0.asked.swap(0, Relaxed);
        if asked > 0 {
            self.0.asked_before.store(asked, Relaxed);
        }
    }

    /// Counts a request. Whether it is likely to be the only one before the thread rests.
    pub(crate) fn is_only_request(&self) -> bool {
        let asked = self.0.asked.fetch_add(1, Relaxed);
        asked == 0 && self.0.asked_before.load(Relaxed) <= 1
    }
}

/// The caller that waits for one answer.
pub(crate) struct ReplyTo {
    sender: oneshot::Sender<WorkerReply>,
    worker: Option<Worker>,
}

impl ReplyTo {
    pub fn new(worker: Option<Worker>) -> (ReplyTo, oneshot::Receiver<WorkerReply>) {
        let (sender, answer) = oneshot::channel();
        (ReplyTo { sender, worker }, answer)
    }

    pub fn send(self, answer: WorkerReply) {
        match self.worker {
            Some(worker) => worker.0.replies.push((self.sender, answer)),
            // A requester that has gone away does not get the reply.
            None => drop(self.sender.send(answer)),
        }
    }
}

/// Delivers the replies of a worker for as long as it lives.
pub(crate) async fn deliver(worker: Worker) {
    let mut replies = Vec::new();
    loop {
        poll_fn(|context| {
            worker.0.replies.take(&mut replies, context);
            if replies.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        for (sender, answer) in replies.drain(..) {
            let _ = sender.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_only_request_is_predicted_from_the_requests_before_the_last_rest() {
        let worker = Worker::default();
        assert!(worker.is_only_request());
        worker.rest();
        assert!(worker.is_only_request());
        assert!(!worker.is_only_request(), "one has asked since the rest");
        worker.rest();
        // Nothing was asked in between: that says nothing about how many ask together.
        worker.rest();
        assert!(!worker.is_only_request(), "two asked the last time");
        worker.rest();
        assert!(worker.is_only_request());
    }

    #[tokio::test]
    async fn answers_get_to_those_who_asked_with_a_worker_and_without() {
        let worker = Worker::default();
        let delivery = tokio::spawn(deliver(worker.clone()));
        for worker in [Some(worker.clone()), None, Some(worker.clone())] {
            let (reply_to, answer) = ReplyTo::new(worker);
            reply_to.send(Err(Code::Timeout));
            assert_eq!(answer.await.unwrap().unwrap_err(), Code::Timeout);
        }
        let (gone, _) = ReplyTo::new(Some(worker.clone()));
        gone.send(Err(Code::Timeout));
        let (last, answer) = ReplyTo::new(Some(worker));
        last.send(Err(Code::Stopped));
        assert_eq!(answer.await.unwrap().unwrap_err(), Code::Stopped);
        delivery.abort();
    }
}
