//! The replies to requests of client sessions, so that a repeated request gets the same reply. Requests with an id go
//! in by log order, with the answers they got; for a repetition the kept answer comes out. A session is a lease: its
//! table comes with the first request and goes with the lease, in the same step. Of each session the last answers are
//! kept; below them nothing is known any more, so nothing is carried out.

use crate::cached_reply::{self, ReplyResult};
use crate::command::Command;
use crate::idempotent::{IdempotentCommand, RequestId};
use crate::leases::Leases;
use crate::mutant::Mutant;
use crate::rows::{Emit, FORMAT, formatted};
use base::codec::put_varint;
use base::limits::{SESSION_REPLIES_MAX, SESSIONS_BYTES_MAX};
use base::mutant::planted;
use base::{Code, LeaseId, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Sessions {
    by_lease: BTreeMap<LeaseId, Session>,
    /// The bytes of all kept answers.
    bytes: usize,
    touched: BTreeSet<SessionRow>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Session {
    /// What was below is forgotten.
    low: u64,
    answers: BTreeMap<u64, CachedReply>,
}

#[derive(Debug, PartialEq, Eq)]
struct CachedReply {
    fingerprint: u64,
    /// As `kept` encodes it.
    answer: Bytes,
}

/// A row: the session's low mark, or the answer to one of its requests.
pub(crate) type SessionRow = (LeaseId, Option<u64>);

impl Sessions {
    /// The answer that a request gets without being carried out, if there is one.
    pub fn recall(&self, leases: &Leases, once: &IdempotentCommand) -> Option<ReplyResult> {
        let RequestId { session, seq, .. } = once.id;
        if leases.get(session).is_none() && !planted(Mutant::UnknownSessionServed) {
            return Some(Err(Code::SessionUnknown));
        }
        let is_fenced = matches!(once.command(), Command::Fenced(_));
        if planted(Mutant::RetryCarriedOutAgain) || is_fenced && planted(Mutant::FencedRetryJudgedAgain) {
            return None;
        }
        let session = self.by_lease.get(&session)?;
        if seq < session.low {
            return (!planted(Mutant::ForgottenCarriedOut)).then_some(Err(Code::RequestForgotten));
        }
        let kept = if planted(Mutant::ReplyOfAnother) {
            session.answers.range(seq.saturating_sub(1)..=seq).next().map(|(_, kept)| kept)?
        } else {
            session.answers.get(&seq)?
        };
        if kept.fingerprint != once.fingerprint() && !planted(Mutant::ReplyOfAnother) {
            return Some(Err(Code::RequestIdReused));
        }
        Some(cached_reply::decode(kept.answer.clone()).expect("only what can be read is kept"))
    }

    pub fn remember(&mut self, once: &IdempotentCommand, answer: &ReplyResult) {
        let RequestId { session: lease, seq, low } = once.id;
        let bytes_left = SESSIONS_BYTES_MAX.saturating_sub(self.bytes);
        let kept =
            CachedReply { fingerprint: once.fingerprint(), answer: cached_reply::encode(answer, bytes_left) };
        self.bytes += kept.answer.len();
        self.touched.extend([(lease, None), (lease, Some(seq))]);
        let session = self.by_lease.entry(lease).or_default();
        if let Some(before) = session.answers.insert(seq, kept) {
            self.bytes -= before.answer.len();
        }
        session.low = session.low.max(low);
        while let Some(entry) = session.answers.first_entry().filter(|entry| *entry.key() < session.low) {
            self.touched.insert((lease, Some(*entry.key())));
            self.bytes -= entry.remove().answer.len();
        }
        while session.answers.len() > SESSION_REPLIES_MAX {
            let (oldest, gone) = session.answers.pop_first().expect("there are too many");
            session.low = oldest + 1;
            self.touched.insert((lease, Some(oldest)));
            self.bytes -= gone.answer.len();
        }
    }

    /// The lease has ended.
    pub fn remove(&mut self, lease: LeaseId) {
        if planted(Mutant::SessionOutlivesLease) {
            return;
        }
        let Some(session) = self.by_lease.remove(&lease) else { return };
        self.touched.insert((lease, None));
        for (seq, gone) in session.answers {
            self.touched.insert((lease, Some(seq)));
            self.bytes -= gone.answer.len();
        }
    }

    /// The planted bug of a snapshot that brings everything but this.
    pub fn forget_all(&mut self) {
        *self = Sessions::default();
    }

    /// Answers that are kept, of all sessions.
    pub fn answers(&self) -> usize {
        self.by_lease.values().map(|session| session.answers.len()).sum()
    }

    /// The rows that were touched since this was last called.
    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        let mut value = Vec::new();
        for (lease, seq) in std::mem::take(&mut self.touched) {
            value.clear();
            let session = self.by_lease.get(&lease);
            let written = match seq {
                None => session.map(|session| session.encode(&mut value)),
                Some(seq) => {
                    let kept = session.and_then(|session| session.answers.get(&seq));
                    kept.filter(|_| !planted(Mutant::RepliesNotWritten)).map(|kept| kept.encode(&mut value))
                }
            };
            emit(Table::Sessions, &key_of((lease, seq)), written.map(|()| value.as_slice()));
        }
    }

    /// Takes up a row that was read back; a mark comes before the answers of its session. The error says what is
    /// wrong with it.
    pub(crate) fn insert(&mut self, (lease, seq): SessionRow, row: Bytes) -> Result<(), &'static str> {
        let Some(seq) = seq else {
            let session = Session::decode(row).ok_or("malformed")?;
            self.by_lease.insert(lease, session);
            return Ok(());
        };
        let kept = CachedReply::decode(row).ok_or("malformed")?;
        let session = self.by_lease.get_mut(&lease).ok_or("an answer without its session")?;
        if seq < session.low {
            return Err("an answer below the session's mark");
        }
        self.bytes += kept.answer.len();
        session.answers.insert(seq, kept);
        Ok(())
    }
}

impl Session {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_varint(out, self.low);
    }

    fn decode(row: Bytes) -> Option<Session> {
        let mut reader = formatted(row)?;
        let session = Session { low: reader.varint()?, answers: BTreeMap::new() };
        reader.is_empty().then_some(session)
    }
}

impl CachedReply {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.fingerprint.to_le_bytes());
        out.extend_from_slice(&self.answer);
    }

    fn decode(row: Bytes) -> Option<CachedReply> {
        let mut reader = formatted(row)?;
        let kept = CachedReply { fingerprint: reader.u64()?, answer: reader.rest() };
        cached_reply::decode(kept.answer.clone()).map(|_| kept)
    }
}

fn key_of((lease, seq): SessionRow) -> Vec<u8> {
    let mut key = lease.0.to_be_bytes().to_vec();
    key.extend(seq.into_iter().flat_map(u64::to_be_bytes));
    key
}

pub(crate) fn parse_key(row: &[u8]) -> Option<SessionRow> {
    let (lease, seq) = row.split_first_chunk::<8>()?;
    let seq = match seq {
        [] => None,
        seq => Some(u64::from_be_bytes(seq.try_into().ok()?)),
    };
    Some((LeaseId(i64::from_be_bytes(*lease)), seq))
}
