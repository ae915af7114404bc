//! The bytes of forged frames between members: every field is free, whatever its kind allows.

use crate::input::Input;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

pub const RAFT: u8 = 1;
pub const SNAPSHOT_BEGIN: u8 = 3;
pub const SNAPSHOT_ROWS: u8 = 4;
pub const SNAPSHOT_END: u8 = 5;

pub const APPEND: u8 = 1;
pub const APPEND_RESPONSE: u8 = 2;
pub const VOTE: u8 = 3;
pub const VOTE_RESPONSE: u8 = 4;
pub const SNAPSHOT: u8 = 5;
pub const HEARTBEAT: u8 = 6;
pub const HEARTBEAT_RESPONSE: u8 = 7;
pub const PRE_VOTE: u8 = 12;
pub const PRE_VOTE_RESPONSE: u8 = 13;

/// The fields of a raft message as they stand on the wire.
#[derive(Clone, Debug, Default)]
pub struct RaftMessage {
    pub kind: u8,
    pub to: u64,
    pub from: u64,
    pub term: u64,
    pub log_term: u64,
    pub index: u64,
    pub commit: u64,
    pub commit_term: u64,
    pub reject_hint: u64,
    pub request_snapshot: u64,
    pub reject: bool,
    pub context: Bytes,
    pub entries: Vec<(u64, u64, bool, Bytes)>,
    /// Term, index, voters, learners, outgoing voters.
    pub snapshot: Option<(u64, u64, [Vec<u64>; 3])>,
}

impl RaftMessage {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        for number in [
            self.to,
            self.from,
            self.term,
            self.log_term,
            self.index,
            self.commit,
            self.commit_term,
            self.reject_hint,
            self.request_snapshot,
        ] {
            put_varint(out, number);
        }
        out.push(u8::from(self.reject));
        put_bytes(out, &self.context);
        put_varint(out, self.entries.len() as u64);
        for (term, index, reconfigures, data) in &self.entries {
            put_varint(out, *term);
            put_varint(out, *index);
            out.push(u8::from(*reconfigures));
            put_bytes(out, data);
        }
        if let Some((term, index, [voters, learners, outgoing])) = &self.snapshot {
            put_varint(out, *term);
            put_varint(out, *index);
            put_ids(out, voters);
            put_ids(out, learners);
            if !outgoing.is_empty() {
                put_ids(out, outgoing);
            }
        }
    }

    pub fn frame(&self) -> Bytes {
        let mut out = vec![RAFT];
        self.encode(&mut out);
        out.into()
    }

    /// The fields that a lawful answer needs, from a frame that a member sent.
    pub fn read(frame: &Bytes) -> Option<RaftMessage> {
        let mut reader = Reader::new(frame.clone());
        if reader.u8()? != RAFT {
            return None;
        }
        let kind = reader.u8()?;
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = reader.varint()?;
        }
        let [to, from, term, log_term, index, commit, commit_term, reject_hint, request_snapshot] = numbers;
        let reject = reader.bool()?;
        let context = reader.bytes()?;
        let mut entries = Vec::new();
        for _ in 0..reader.count()? {
            entries.push((reader.varint()?, reader.varint()?, reader.bool()?, reader.bytes()?));
        }
        Some(RaftMessage {
            kind,
            to,
            from,
            term,
            log_term,
            index,
            commit,
            commit_term,
            reject_hint,
            request_snapshot,
            reject,
            context,
            entries,
            snapshot: None,
        })
    }

    /// What an honest follower answers.
    pub fn answer(&self) -> Option<RaftMessage> {
        let mut answer =
            RaftMessage { to: self.from, from: self.to, term: self.term, ..RaftMessage::default() };
        answer.kind = match self.kind {
            APPEND => {
                answer.index = self.index + self.entries.len() as u64;
                answer.commit = self.commit;
                APPEND_RESPONSE
            }
            VOTE => VOTE_RESPONSE,
            PRE_VOTE => PRE_VOTE_RESPONSE,
            HEARTBEAT => {
                answer.context = self.context.clone();
                HEARTBEAT_RESPONSE
            }
            _ => return None,
        };
        Some(answer)
    }
}

/// Any message, with numbers near those that the machine knows.
pub fn forged(input: &mut Input<'_>, to: u64, peers: &[u64], known: &[u64]) -> RaftMessage {
    const KINDS: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13];
    let kind = KINDS[input.choice(KINDS.len())];
    let from = peers[input.choice(peers.len())];
    let mut message = RaftMessage { kind, to, from, ..RaftMessage::default() };
    for field in [
        &mut message.term,
        &mut message.log_term,
        &mut message.index,
        &mut message.commit,
        &mut message.commit_term,
        &mut message.reject_hint,
        &mut message.request_snapshot,
    ] {
        *field = input.number(known);
    }
    message.reject = input.flag();
    message.context = Bytes::copy_from_slice(input.string());
    for nth in 0..input.choice(4) as u64 {
        let follows = message.index.wrapping_add(nth).wrapping_add(1);
        let term = input.number(known);
        let index = if input.flag() { follows } else { input.number(known) };
        let (reconfigures, data) = (input.flag(), Bytes::copy_from_slice(input.string()));
        message.entries.push((term, index, reconfigures, data));
    }
    if kind == SNAPSHOT {
        let ids = |input: &mut Input<'_>| {
            (0..input.choice(5)).map(|_| if input.flag() { to } else { input.number(peers) }).collect()
        };
        let at = (input.number(known), input.number(known));
        message.snapshot = Some((at.0, at.1, [ids(input), ids(input), ids(input)]));
    }
    message
}

pub fn snapshot_part(number: u8, id: u64, nth: u32, body: &[u8]) -> Bytes {
    let mut out = vec![number];
    put_varint(&mut out, id);
    put_varint(&mut out, u64::from(nth));
    out.extend_from_slice(body);
    out.into()
}

fn put_ids(out: &mut Vec<u8>, ids: &[u64]) {
    put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| put_varint(out, *id));
}
