//! The questions of this member's clients that wait for an answer of the leader. Each is sent to the leader, and
//! again when the leader changes or does not answer: asking twice does no harm. A question leaves with its first
//! answer or at its deadline.

use crate::question::{Ask, Asker, Question};
use base::limits::REQUESTS_WAITING_MAX;
use base::{Boot, Instant, NodeId, Token};
use std::collections::BTreeMap;

pub(crate) struct Asks {
    me: NodeId,
    boot: Boot,
    waiting: BTreeMap<Token, Waiting>,
    has_unsent: bool,
}

struct Waiting {
    question: Question,
    deadline: Instant,
    sent_at: Option<Instant>,
}

impl Asks {
    pub fn new(me: NodeId, boot: Boot) -> Asks {
        Asks { me, boot, waiting: BTreeMap::new(), has_unsent: false }
    }

    pub fn add(&mut self, token: Token, question: Question, deadline: Instant) -> bool {
        let room = self.waiting.len() < REQUESTS_WAITING_MAX;
        if room {
            self.waiting.insert(token, Waiting { question, deadline, sent_at: None });
            self.has_unsent = true;
        }
        room
    }

    /// Whether a caller waited for this answer.
    pub fn finish(&mut self, boot: Boot, token: Token) -> bool {
        boot == self.boot && self.waiting.remove(&token).is_some()
    }

    /// The member that was asked does not lead: the question goes to another.
    pub fn put_again(&mut self, boot: Boot, token: Token) {
        if let Some(waiting) = self.waiting.get_mut(&token).filter(|_| boot == self.boot) {
            waiting.sent_at = None;
            self.has_unsent = true;
        }
    }

    pub fn put_all_again(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.sent_at = None);
        self.has_unsent = true;
    }

    /// Questions sent before `then` were lost.
    pub fn put_again_since(&mut self, then: Instant) {
        for waiting in self.waiting.values_mut() {
            if waiting.sent_at.is_some_and(|sent| sent < then) {
                waiting.sent_at = None;
                self.has_unsent = true;
            }
        }
    }

    pub fn expire(&mut self, now: Instant) -> Vec<Token> {
        let late = self.waiting.extract_if(.., |_, waiting| waiting.deadline <= now);
        late.map(|(token, _)| token).collect()
    }

    pub fn take_unsent(&mut self, now: Instant) -> Vec<Ask> {
        if !std::mem::take(&mut self.has_unsent) {
            return Vec::new();
        }
        let (member, boot) = (self.me, self.boot);
        let unsent = self.waiting.iter_mut().filter(|(_, waiting)| waiting.sent_at.is_none());
        unsent
            .map(|(token, waiting)| {
                waiting.sent_at = Some(now);
                let asker = Asker { member, boot, token: *token };
                Ask { asker, deadline: waiting.deadline, question: waiting.question }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LeaseId;

    fn tokens(asks: &mut Asks) -> Vec<u64> {
        asks.take_unsent(Instant(5)).iter().map(|ask| ask.asker.token.0).collect()
    }

    #[test]
    fn a_question_is_put_once_and_again_when_nothing_is_heard() {
        let mut asks = Asks::new(NodeId(1), Boot(2));
        for token in 1..=3 {
            assert!(asks.add(Token(token), Question::KeepAlive(LeaseId(1)), Instant(token * 10)));
        }
        assert_eq!(tokens(&mut asks), [1, 2, 3]);
        assert!(tokens(&mut asks).is_empty());
        asks.put_again(Boot(1), Token(1));
        assert!(tokens(&mut asks).is_empty(), "an answer to an earlier start is ignored");
        asks.put_again(Boot(2), Token(1));
        assert_eq!(tokens(&mut asks), [1]);
        assert!(asks.finish(Boot(2), Token(2)) && !asks.finish(Boot(2), Token(2)));
        asks.put_again_since(Instant(5));
        assert!(tokens(&mut asks).is_empty());
        asks.put_again_since(Instant(6));
        assert_eq!(tokens(&mut asks), [1, 3]);
        assert_eq!(asks.expire(Instant(10)), [Token(1)]);
    }
}
