//! The frames of the change feed: a follower's question to a node, and its answer.

use super::{Frame, OpId, begin};
use crate::feed::{FeedAnswer, FeedAsk};
use base::codec::Reader;

const ASK: u8 = 70;
const ANSWER: u8 = 71;

pub(super) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::FeedAsk { id, ask } => {
            begin(out, ASK, id);
            ask.encode(out);
        }
        Frame::FeedAnswer { id, answer } => {
            begin(out, ANSWER, id);
            answer.encode(out);
        }
        _ => unreachable!("only frames of the feed are encoded here"),
    }
}

pub(super) fn decode(number: u8, id: OpId, reader: &mut Reader) -> Option<Frame> {
    Some(match number {
        ASK => Frame::FeedAsk { id, ask: Box::new(FeedAsk::decode(reader)?) },
        ANSWER => Frame::FeedAnswer { id, answer: Box::new(FeedAnswer::decode(reader)?) },
        _ => return None,
    })
}
