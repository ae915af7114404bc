//! What only the leader can say of a lease, and how it is asked and answered between members.
//! A question goes to whoever leads; its answer comes back under the asker's token. A leader that is one no
//! longer says so, and the question is put again.

use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::{Boot, Instant, LeaseId, NodeId, Revision, Token};
use coord::reply::{Body, LeaseTime, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Start the time of a lease anew.
    KeepAlive(LeaseId),
    TimeToLive {
        id: LeaseId,
        keys: bool,
    },
    /// Which leases there are. Every member knows, once it has caught up.
    Leases,
}

impl Question {
    /// Can be answered by any member that has applied enough.
    pub fn is_for_anyone(self) -> bool {
        self == Question::Leases
    }
}

/// Who asked. The start is part of it: tokens begin anew with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    pub member: NodeId,
    pub boot: Boot,
    pub token: Token,
}

/// A question on its way to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    pub asker: Asker,
    /// From then on nobody waits for the answer.
    pub deadline: Instant,
    pub question: Question,
}

/// `None` when the member that was asked does not lead.
pub type Answer = Option<Reply>;

const KEEP_ALIVE: u8 = 0;
const TIME_TO_LIVE: u8 = 1;
const TIME_TO_LIVE_WITH_KEYS: u8 = 2;

/// Questions for anyone are not sent.
pub(crate) fn encode_question(question: Question, out: &mut Vec<u8>) {
    let (kind, id) = match question {
        Question::KeepAlive(id) => (KEEP_ALIVE, id),
        Question::TimeToLive { id, keys: false } => (TIME_TO_LIVE, id),
        Question::TimeToLive { id, keys: true } => (TIME_TO_LIVE_WITH_KEYS, id),
        Question::Leases => unreachable!("every member answers it itself"),
    };
    out.push(kind);
    put_signed(out, id.0);
}

pub(crate) fn decode_question(reader: &mut Reader) -> Option<Question> {
    let kind = reader.u8()?;
    let id = LeaseId(reader.signed()?);
    match kind {
        KEEP_ALIVE => Some(Question::KeepAlive(id)),
        TIME_TO_LIVE => Some(Question::TimeToLive { id, keys: false }),
        TIME_TO_LIVE_WITH_KEYS => Some(Question::TimeToLive { id, keys: true }),
        _ => None,
    }
}

const NOT_LEADING: u8 = 0;
const RENEWED: u8 = 1;
const TIME: u8 = 2;

pub(crate) fn encode_answer(answer: &Answer, out: &mut Vec<u8>) {
    let Some(Reply { revision, body }) = answer else { return out.push(NOT_LEADING) };
    out.push(match body {
        Body::LeaseRenewed { .. } => RENEWED,
        _ => TIME,
    });
    put_signed(out, revision.0);
    match body {
        Body::LeaseRenewed { ttl } => put_signed(out, *ttl),
        Body::LeaseTime(time) => {
            put_signed(out, time.ttl);
            put_signed(out, time.granted);
            put_varint(out, time.keys.len() as u64);
            time.keys.iter().for_each(|key| put_bytes(out, key));
        }
        other => unreachable!("no question of another member is answered by {other:?}"),
    }
}

pub(crate) fn decode_answer(reader: &mut Reader) -> Option<Answer> {
    let kind = reader.u8()?;
    if kind == NOT_LEADING {
        return Some(None);
    }
    let revision = Revision(reader.signed()?);
    let ttl = reader.signed()?;
    let body = match kind {
        RENEWED => Body::LeaseRenewed { ttl },
        TIME => {
            let granted = reader.signed()?;
            let mut keys = Vec::new();
            for _ in 0..reader.count()? {
                keys.push(reader.bytes()?);
            }
            Body::LeaseTime(LeaseTime { ttl, granted, keys })
        }
        _ => return None,
    };
    Some(Some(Reply { revision, body }))
}
