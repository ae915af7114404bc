//! The questions of this member's clients that wait for an answer of the leader. Each is sent to the leader, and
//! again when the leader changes or does not answer: asking twice does no harm. A question leaves with its first
//! answer or at its deadline.

use crate::question::{AskedQuestion, AskerId, LeaderQuestion};
use base::limits::REQUESTS_WAITING_MAX;
use base::{Boot, Instant, NodeId, ReplyToken};
use coord::reply::Body;
use std::collections::BTreeMap;

pub(crate) struct WaitingQuestions {
    me: NodeId,
    boot: Boot,
    waiting: BTreeMap<ReplyToken, WaitingQuestion>,
    has_unsent: bool,
}

struct WaitingQuestion {
    question: LeaderQuestion,
    deadline: Instant,
    sent_at: Option<Instant>,
}

impl WaitingQuestions {
    pub fn new(me: NodeId, boot: Boot) -> WaitingQuestions {
        WaitingQuestions { me, boot, waiting: BTreeMap::new(), has_unsent: false }
    }

    pub fn add(&mut self, token: ReplyToken, question: LeaderQuestion, deadline: Instant) -> bool {
        let has_capacity = self.waiting.len() < REQUESTS_WAITING_MAX;
        if has_capacity {
            self.waiting.insert(token, WaitingQuestion { question, deadline, sent_at: None });
            self.has_unsent = true;
        }
        has_capacity
    }

    /// Whether a caller waited for this answer. An answer to another question is ignored: any peer may send one.
    pub fn finish(&mut self, boot: Boot, token: ReplyToken, body: &Body) -> bool {
        let waiting = self.waiting.get(&token).filter(|_| boot == self.boot);
        let is_answer = waiting.is_some_and(|waiting| waiting.question.is_answered_by(body));
        if is_answer {
            self.waiting.remove(&token);
        }
        is_answer
    }

    /// The member that was asked does not lead: the question goes to another.
    pub fn ask_again(&mut self, boot: Boot, token: ReplyToken) {
        if let Some(waiting) = self.waiting.get_mut(&token).filter(|_| boot == self.boot) {
            waiting.sent_at = None;
            self.has_unsent = true;
        }
    }

    pub fn ask_all_again(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.sent_at = None);
        self.has_unsent = true;
    }

    /// Questions sent before `then` were lost.
    pub fn ask_again_since(&mut self, then: Instant) {
        for waiting in self.waiting.values_mut() {
            if waiting.sent_at.is_some_and(|sent| sent < then) {
                waiting.sent_at = None;
                self.has_unsent = true;
            }
        }
    }

    pub fn expire(&mut self, now: Instant) -> Vec<ReplyToken> {
        let late = self.waiting.extract_if(.., |_, waiting| waiting.deadline <= now);
        late.map(|(token, _)| token).collect()
    }

    pub fn take_unsent(&mut self, now: Instant) -> Vec<AskedQuestion> {
        if !std::mem::take(&mut self.has_unsent) {
            return Vec::new();
        }
        let (member, boot) = (self.me, self.boot);
        let unsent = self.waiting.iter_mut().filter(|(_, waiting)| waiting.sent_at.is_none());
        unsent
            .map(|(token, waiting)| {
                waiting.sent_at = Some(now);
                let asker = AskerId { member, boot, token: *token };
                AskedQuestion { asker, deadline: waiting.deadline, question: waiting.question }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LeaseId;
    use coord::reply::LeaseRenewal;

    fn tokens(asks: &mut WaitingQuestions) -> Vec<u64> {
        asks.take_unsent(Instant(5)).iter().map(|ask| ask.asker.token.0).collect()
    }

    #[test]
    fn a_question_is_sent_once_and_again_without_an_answer() {
        let mut asks = WaitingQuestions::new(NodeId(1), Boot(2));
        for token in 1..=3 {
            assert!(asks.add(ReplyToken(token), LeaderQuestion::KeepAlive(LeaseId(1)), Instant(token * 10)));
        }
        assert_eq!(tokens(&mut asks), [1, 2, 3]);
        assert!(tokens(&mut asks).is_empty());
        asks.ask_again(Boot(1), ReplyToken(1));
        assert!(tokens(&mut asks).is_empty(), "an answer to an earlier start is ignored");
        asks.ask_again(Boot(2), ReplyToken(1));
        assert_eq!(tokens(&mut asks), [1]);
        let renewed = Body::LeaseRenewed { ttl: 1, renewal: LeaseRenewal::default() };
        assert!(
            !asks.finish(Boot(2), ReplyToken(2), &Body::LeasesEnding(Vec::new())),
            "another kind of answer"
        );
        assert!(!asks.finish(Boot(1), ReplyToken(2), &renewed));
        assert!(
            asks.finish(Boot(2), ReplyToken(2), &renewed) && !asks.finish(Boot(2), ReplyToken(2), &renewed)
        );
        asks.ask_again_since(Instant(5));
        assert!(tokens(&mut asks).is_empty());
        asks.ask_again_since(Instant(6));
        assert_eq!(tokens(&mut asks), [1, 3]);
        assert_eq!(asks.expire(Instant(10)), [ReplyToken(1)]);
    }
}
