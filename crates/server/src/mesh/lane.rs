//! How answers of the mesh get to those who wait for them. Whoever serves many clients on one thread has a lane: all
//! answers of a turn are laid into it, its postman is woken once for them, and hands them out where waking costs
//! nothing. An answer without a lane goes straight to who asked.
//! Every answer that is laid in is handed out, or nobody waits for it any more.

use crate::mailbox::Mailbox;
use base::Code;
use mesh::request::Reply;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

type Answer = Result<Reply, Code>;

/// Where the answers for one thread gather.
pub(crate) type Lane = Arc<Mailbox<(oneshot::Sender<Answer>, Answer)>>;

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
            Some(lane) => lane.push((self.sender, answer)),
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
            lane.take(&mut letters, context);
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
