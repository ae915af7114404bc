//! Delivers replies of the mesh. A thread that serves many clients is a worker with an inbox: all replies of a turn are pushed
//! into it, its delivery task is woken once, and completes the requests on its own thread, where waking a task is cheap. A
//! reply without a worker goes straight to the requester.
//! A worker also counts its requests between two rests of its thread: where several requests come together, they are posted
//! together. Every reply in the inbox is delivered unless its requester is gone.

use crate::mailbox::Mailbox;
use base::Code;
use mesh::request::Reply;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use tokio::sync::oneshot;

pub(crate) type Answer = Result<Reply, Code>;

/// One thread that serves many clients; cheap to clone.
#[derive(Clone, Default)]
pub struct Lane(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Answers gather here.
    letters: Mailbox<(oneshot::Sender<Answer>, Answer)>,
    /// Requests since the thread last rested, and in the last stretch before that had any. Only the thread itself counts.
    asked: AtomicUsize,
    asked_before: AtomicUsize,
}

impl Lane {
    /// To be called when the thread has nothing more to do and is about to sleep.
    pub fn rest(&self) {
        let asked = self.0.asked.swap(0, Relaxed);
        if asked > 0 {
            self.0.asked_before.store(asked, Relaxed);
        }
    }

    /// Counts a request. Whether it is likely to be the only one before the thread rests.
    pub(crate) fn asks_alone(&self) -> bool {
        let asked = self.0.asked.fetch_add(1, Relaxed);
        asked == 0 && self.0.asked_before.load(Relaxed) <= 1
    }
}

/// Who waits for one answer.
pub(crate) struct Asker {
    sender: oneshot::Sender<Answer>,
    lane: Option<Lane>,
}

impl Asker {
    pub fn new(lane: Option<Lane>) -> (Asker, oneshot::Receiver<Answer>) {
        let (sender, answer) = oneshot::channel();
        (Asker { sender, lane }, answer)
    }

    pub fn tell(self, answer: Answer) {
        match self.lane {
            Some(lane) => lane.0.letters.push((self.sender, answer)),
            // One who has gone away does not hear it.
            None => drop(self.sender.send(answer)),
        }
    }
}

/// Hands out for ever what is laid into a lane.
pub(crate) async fn deliver(lane: Lane) {
    let mut letters = Vec::new();
    loop {
        poll_fn(|context| {
            lane.0.letters.take(&mut letters, context);
            if letters.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        for (sender, answer) in letters.drain(..) {
            let _ = sender.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_alone_is_told_by_what_was_asked_before_the_last_rest() {
        let lane = Lane::default();
        assert!(lane.asks_alone());
        lane.rest();
        assert!(lane.asks_alone());
        assert!(!lane.asks_alone(), "one has asked since the rest");
        lane.rest();
        // Nothing was asked in between: that says nothing about how many ask together.
        lane.rest();
        assert!(!lane.asks_alone(), "two asked the last time");
        lane.rest();
        assert!(lane.asks_alone());
    }

    #[tokio::test]
    async fn answers_get_to_those_who_asked_with_a_lane_and_without() {
        let lane = Lane::default();
        let postman = tokio::spawn(deliver(lane.clone()));
        for lane in [Some(lane.clone()), None, Some(lane.clone())] {
            let (asker, answer) = Asker::new(lane);
            asker.tell(Err(Code::Timeout));
            assert_eq!(answer.await.unwrap().unwrap_err(), Code::Timeout);
        }
        let (gone, _) = Asker::new(Some(lane.clone()));
        gone.tell(Err(Code::Timeout));
        let (last, answer) = Asker::new(Some(lane));
        last.tell(Err(Code::Stopped));
        assert_eq!(answer.await.unwrap().unwrap_err(), Code::Stopped);
        postman.abort();
    }
}
