//! Linearizable reads: those that arrive together share one ReadIndex round.
//! While a round is under way the next batch gathers. Every attempt has a context of its own, so that the
//! late answer to an earlier attempt can never be taken for the answer to a later one.

use crate::mutant::Mutant;
use crate::question::AskedQuestion;
use base::limits::REQUESTS_WAITING_MAX;
use base::mutant::planted;
use base::{Boot, Index, Instant, NodeId, ReplyToken};
use bytes::{BufMut, Bytes};
use coord::Caller;
use coord::request::Request;

#[derive(Clone, Debug)]
pub struct Read {
    pub token: ReplyToken,
    pub deadline: Instant,
    pub request: Request,
    /// The caller; its permissions are checked when the read is answered.
    pub caller: Caller,
}

/// Reads that may run as soon as `index` is applied.
#[derive(Clone, Debug)]
pub struct ReadBatch {
    pub index: Index,
    pub reads: Vec<Read>,
    /// Questions to this member as leader; the round confirmed that it still led.
    pub asks: Vec<AskedQuestion>,
}

/// Failures since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Rounds that were not answered in time, or were begun under another leader.
    pub given_up: u64,
    /// Reads whose deadline passed before a round was answered.
    pub expired: u64,
}

pub(crate) struct Reads {
    me: NodeId,
    boot: Boot,
    attempts: u64,
    gathering: Vec<Read>,
    asks: Vec<AskedQuestion>,
    round: Option<ReadRound>,
    counts: ReadCounts,
}

struct ReadRound {
    context: Bytes,
    started: Instant,
    reads: Vec<Read>,
    asks: Vec<AskedQuestion>,
}

impl Reads {
    pub fn new(me: NodeId, boot: Boot) -> Reads {
        Reads {
            me,
            boot,
            attempts: 0,
            gathering: Vec::new(),
            asks: Vec::new(),
            round: None,
            counts: ReadCounts::default(),
        }
    }

    pub fn add(&mut self, read: Read) -> bool {
        let has_capacity = self.gathering.len() < REQUESTS_WAITING_MAX;
        if has_capacity {
            self.gathering.push(read);
        }
        has_capacity
    }

    /// The asker asks again if it is dropped here.
    pub fn add_ask(&mut self, ask: AskedQuestion) {
        if self.asks.len() < REQUESTS_WAITING_MAX {
            self.asks.push(ask);
        }
    }

    /// The context of a new round, if there is something to ask and nothing under way.
    pub fn begin(&mut self, now: Instant) -> Option<Bytes> {
        if self.round.is_some() || self.gathering.is_empty() && self.asks.is_empty() {
            return None;
        }
        self.attempts += u64::from(self.attempts == 0 || !planted(Mutant::ReadContextReused));
        let mut context = Vec::with_capacity(24);
        context.put_u64_le(self.me.0);
        context.put_u64_le(self.boot.0);
        context.put_u64_le(self.attempts);
        let context = Bytes::from(context);
        let reads = std::mem::take(&mut self.gathering);
        let asks = std::mem::take(&mut self.asks);
        self.round = Some(ReadRound { context: context.clone(), started: now, reads, asks });
        Some(context)
    }

    /// The answer to a round; answers to abandoned rounds are ignored.
    pub fn answer(&mut self, context: &Bytes, index: Index) -> Option<ReadBatch> {
        let round = self.round.take_if(|round| round.context == *context)?;
        Some(ReadBatch { index, reads: round.reads, asks: round.asks })
    }

    /// Gives up a round that began before `then`; its reads join those that gather. Askers repeat their questions, to
    /// the leader of that time.
    pub fn give_up_since(&mut self, then: Instant) {
        if let Some(round) = self.round.take_if(|round| round.started < then) {
            let later = std::mem::replace(&mut self.gathering, round.reads);
            self.gathering.extend(later);
            self.counts.given_up += 1;
        }
    }

    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    pub fn expire(&mut self, now: Instant) -> Vec<ReplyToken> {
        let mut late = Vec::new();
        let mut keep = |read: &Read| {
            let in_time = read.deadline > now;
            if !in_time {
                late.push(read.token);
            }
            in_time
        };
        self.gathering.retain(&mut keep);
        if let Some(round) = &mut self.round {
            round.reads.retain(&mut keep);
        }
        self.asks.retain(|ask| ask.deadline > now);
        self.counts.expired += late.len() as u64;
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::KeyRange;
    use coord::request::Range;

    fn read(token: u64) -> Read {
        let range = Range::of(KeyRange::single(Bytes::from_static(b"k")));
        let (token, deadline) = (ReplyToken(token), Instant(token * 10));
        Read { token, deadline, request: Request::Range(range), caller: Caller::Anonymous }
    }

    fn tokens(batch: &ReadBatch) -> Vec<u64> {
        batch.reads.iter().map(|read| read.token.0).collect()
    }

    #[test]
    fn reads_gather_while_a_round_is_under_way() {
        let mut reads = Reads::new(NodeId(1), Boot(1));
        reads.add(read(1));
        reads.add(read(2));
        let first = reads.begin(Instant(0)).unwrap();
        reads.add(read(3));
        assert_eq!(reads.begin(Instant(0)), None);
        assert_eq!(tokens(&reads.answer(&first, Index(7)).unwrap()), [1, 2]);
        let second = reads.begin(Instant(0)).unwrap();
        assert_eq!(tokens(&reads.answer(&second, Index(7)).unwrap()), [3]);
    }

    #[test]
    fn the_answer_to_an_attempt_that_was_given_up_is_ignored() {
        let mut reads = Reads::new(NodeId(1), Boot(1));
        reads.add(read(1));
        let first = reads.begin(Instant(0)).unwrap();
        reads.add(read(2));
        reads.give_up_since(Instant(1));
        let second = reads.begin(Instant(2)).unwrap();
        assert_ne!(first, second);
        assert!(reads.answer(&first, Index(7)).is_none());
        assert_eq!(tokens(&reads.answer(&second, Index(9)).unwrap()), [1, 2]);
    }

    #[test]
    fn a_passed_deadline_ends_a_read_wherever_it_waits() {
        let mut reads = Reads::new(NodeId(1), Boot(1));
        reads.add(read(1));
        reads.begin(Instant(0));
        reads.add(read(2));
        reads.add(read(3));
        let mut late = reads.expire(Instant(20));
        late.sort();
        assert_eq!(late, [ReplyToken(1), ReplyToken(2)]);
    }
}
