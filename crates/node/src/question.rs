//! Questions about leases that only the leader can answer, and their bytes between members. A question goes to the
//! leader; its answer comes back under the asker's token. A member that no longer leads says so, and the question is
//! asked again.

use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::limits::LEASES_ENDING_MAX;
use base::{Boot, Instant, LeaseId, NodeId, ReplyToken, Revision, Term};
use coord::reply::{Body, EndingLease, LeaseRenewal, LeaseTime, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderQuestion {
    /// Renew a lease.
    KeepAlive(LeaseId),
    TimeToLive {
        id: LeaseId,
        keys: bool,
    },
    /// Which leases end within so many milliseconds unless they are renewed.
    Ending {
        within_ms: u64,
    },
    /// How many milliseconds are left of a lease: answered as `Ending` is, with one lease or none. Members of 0.1.0 do
    /// not know this question.
    TimeLeft(LeaseId),
    /// Which leases there are. Every member knows, once it has caught up.
    Leases,
}

impl LeaderQuestion {
    /// Can be answered by any member that has applied enough.
    pub fn is_for_anyone(self) -> bool {
        self == LeaderQuestion::Leases
    }

    /// Whether this is the kind of body that answers the question.
    pub fn is_answered_by(self, body: &Body) -> bool {
        match self {
            LeaderQuestion::KeepAlive(_) => matches!(body, Body::LeaseRenewed { .. }),
            LeaderQuestion::TimeToLive { .. } => matches!(body, Body::LeaseTime(_)),
            LeaderQuestion::Ending { .. } | LeaderQuestion::TimeLeft(_) => {
                matches!(body, Body::LeasesEnding(_))
            }
            LeaderQuestion::Leases => matches!(body, Body::Leases(_)),
        }
    }
}

/// The asker. The boot is part of it: tokens restart with each boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskerId {
    pub member: NodeId,
    pub boot: Boot,
    pub token: ReplyToken,
}

/// A question on its way to the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedQuestion {
    pub asker: AskerId,
    /// After it no caller waits for the answer.
    pub deadline: Instant,
    pub question: LeaderQuestion,
}

/// `None` when the member that was asked does not lead.
pub type LeaderAnswer = Option<Reply>;

const KEEP_ALIVE: u8 = 0;
const TIME_TO_LIVE: u8 = 1;
const TIME_TO_LIVE_WITH_KEYS: u8 = 2;
const ENDING: u8 = 3;
const TIME_LEFT: u8 = 4;

/// Questions that any member can answer are not sent.
pub(crate) fn encode_question(question: LeaderQuestion, out: &mut Vec<u8>) {
    let (kind, id) = match question {
        LeaderQuestion::KeepAlive(id) => (KEEP_ALIVE, id),
        LeaderQuestion::TimeToLive { id, keys: false } => (TIME_TO_LIVE, id),
        LeaderQuestion::TimeToLive { id, keys: true } => (TIME_TO_LIVE_WITH_KEYS, id),
        LeaderQuestion::TimeLeft(id) => (TIME_LEFT, id),
        LeaderQuestion::Ending { within_ms } => {
            out.push(ENDING);
            return put_varint(out, within_ms);
        }
        LeaderQuestion::Leases => unreachable!("every member answers it itself"),
    };
    out.push(kind);
    put_signed(out, id.0);
}

pub(crate) fn decode_question(reader: &mut Reader) -> Option<LeaderQuestion> {
    let kind = reader.u8()?;
    if kind == ENDING {
        return Some(LeaderQuestion::Ending { within_ms: reader.varint()? });
    }
    let id = LeaseId(reader.signed()?);
    match kind {
        KEEP_ALIVE => Some(LeaderQuestion::KeepAlive(id)),
        TIME_TO_LIVE => Some(LeaderQuestion::TimeToLive { id, keys: false }),
        TIME_TO_LIVE_WITH_KEYS => Some(LeaderQuestion::TimeToLive { id, keys: true }),
        TIME_LEFT => Some(LeaderQuestion::TimeLeft(id)),
        _ => None,
    }
}

const NOT_LEADING: u8 = 0;
const RENEWED: u8 = 1;
const TIME: u8 = 2;
const SOON: u8 = 3;

pub(crate) fn encode_answer(answer: &LeaderAnswer, out: &mut Vec<u8>) {
    let Some(Reply { revision, body }) = answer else { return out.push(NOT_LEADING) };
    out.push(match body {
        Body::LeaseRenewed { .. } => RENEWED,
        Body::LeasesEnding(_) => SOON,
        _ => TIME,
    });
    put_signed(out, revision.0);
    match body {
        Body::LeaseRenewed { ttl, renewal } => {
            put_signed(out, *ttl);
            encode_renewal(*renewal, out);
        }
        Body::LeasesEnding(list) => {
            put_varint(out, list.len() as u64);
            for EndingLease { id, left_ms } in list {
                put_signed(out, id.0);
                put_varint(out, *left_ms);
            }
        }
        Body::LeaseTime(time) => {
            put_signed(out, time.ttl);
            put_signed(out, time.granted);
            put_varint(out, time.keys.len() as u64);
            time.keys.iter().for_each(|key| put_bytes(out, key));
            encode_renewal(time.renewal, out);
        }
        other => unreachable!("no question of another member is answered by {other:?}"),
    }
}

pub(crate) fn decode_answer(reader: &mut Reader) -> Option<LeaderAnswer> {
    let kind = reader.u8()?;
    if kind == NOT_LEADING {
        return Some(None);
    }
    let revision = Revision(reader.signed()?);
    let body = match kind {
        RENEWED => Body::LeaseRenewed { ttl: reader.signed()?, renewal: decode_renewal(reader)? },
        SOON => Body::LeasesEnding(decode_ending(reader)?),
        TIME => {
            let ttl = reader.signed()?;
            let granted = reader.signed()?;
            let mut keys = Vec::new();
            for _ in 0..reader.count()? {
                keys.push(reader.bytes()?);
            }
            Body::LeaseTime(LeaseTime { ttl, granted, keys, renewal: decode_renewal(reader)? })
        }
        _ => return None,
    };
    Some(Some(Reply { revision, body }))
}

fn encode_renewal(renewal: LeaseRenewal, out: &mut Vec<u8>) {
    put_varint(out, renewal.term.0);
    put_varint(out, renewal.nth);
}

fn decode_renewal(reader: &mut Reader) -> Option<LeaseRenewal> {
    Some(LeaseRenewal { term: Term(reader.varint()?), nth: reader.varint()? })
}

fn decode_ending(reader: &mut Reader) -> Option<Vec<EndingLease>> {
    let count = reader.count()?;
    if count > LEASES_ENDING_MAX {
        return None;
    }
    let mut list = Vec::new();
    for _ in 0..count {
        list.push(EndingLease { id: LeaseId(reader.signed()?), left_ms: reader.varint()? });
    }
    Some(list)
}
