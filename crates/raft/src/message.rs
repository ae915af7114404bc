//! A raft message between members, and its bytes on a peer stream. The library's protobuf types stay inside; the
//! encoding is ours, bounded, and entry data is shared with the received buffer. Decoding refuses what is malformed;
//! `is_plausible` refuses what no correct member sends.

use crate::config::Config;
use crate::entry::Entry;
use crate::mutant::Mutant;
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::MEMBERS_MAX;
use base::mutant::planted;
use base::{Index, NodeId, Position, Term};
use raft_rs::eraftpb::{self, ConfState, EntryType, MessageType};

#[derive(Clone, Debug, PartialEq)]
pub struct Message(pub(crate) eraftpb::Message);

/// The kinds that travel between members, by their number on the wire. Proposals do not: the crate `node` forwards
/// them with their identity. Only a leader can transfer its leadership, so that request does not travel either.
const KINDS: [(MessageType, u8); 12] = [
    (MessageType::MsgAppend, 1),
    (MessageType::MsgAppendResponse, 2),
    (MessageType::MsgRequestVote, 3),
    (MessageType::MsgRequestVoteResponse, 4),
    (MessageType::MsgSnapshot, 5),
    (MessageType::MsgHeartbeat, 6),
    (MessageType::MsgHeartbeatResponse, 7),
    (MessageType::MsgTimeoutNow, 9),
    (MessageType::MsgReadIndex, 10),
    (MessageType::MsgReadIndexResp, 11),
    (MessageType::MsgRequestPreVote, 12),
    (MessageType::MsgRequestPreVoteResponse, 13),
];

/// Terms and indexes beyond these are refused, so that adding to one can never overflow. Terms have twice the range:
/// a member of 0.1.0 took any term up to 2^62, and members at such a term must be able to elect again.
const INDEX_MAX: u64 = 1 << 62;
const TERM_MAX: u64 = 1 << 63;
const CONTEXT_BYTES_MAX: usize = 64;

impl Message {
    pub fn to(&self) -> NodeId {
        NodeId(self.0.to)
    }

    pub fn from(&self) -> NodeId {
        NodeId(self.0.from)
    }

    pub fn term(&self) -> Term {
        Term(self.0.term)
    }

    pub fn is_snapshot(&self) -> bool {
        self.0.msg_type == MessageType::MsgSnapshot
    }

    /// Where the snapshot stands that this message announces.
    pub fn snapshot_at(&self) -> Option<Position> {
        let meta = self.0.snapshot.as_ref()?.get_metadata();
        Some(Position { term: Term(meta.term), index: Index(meta.index) })
    }

    /// Announces the same snapshot at the position that the streamed store really has, with the configuration that
    /// it holds.
    pub fn with_snapshot_at(mut self, at: Position, config: Option<&Config>) -> Message {
        assert!(self.is_snapshot(), "only a snapshot message announces a snapshot");
        let meta = self.0.mut_snapshot().mut_metadata();
        assert!(meta.index <= at.index.0, "a store never goes back");
        meta.index = at.index.0;
        meta.term = at.term.0;
        if let Some(config) = config.filter(|_| !planted(Mutant::ConfigLostInSnapshot)) {
            *meta.mut_conf_state() = config.to_library();
        }
        self
    }

    pub(crate) fn kind(&self) -> MessageType {
        self.0.msg_type
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let m = &self.0;
        let kind = KINDS.iter().find(|(kind, _)| *kind == m.msg_type);
        out.push(kind.expect("only kinds that travel are sent").1);
        for number in [
            m.to,
            m.from,
            m.term,
            m.log_term,
            m.index,
            m.commit,
            m.commit_term,
            m.reject_hint,
            m.request_snapshot,
        ] {
            put_varint(out, number);
        }
        out.push(u8::from(m.reject));
        put_bytes(out, &m.context);
        put_varint(out, m.entries.len() as u64);
        for entry in m.entries.iter() {
            put_varint(out, entry.term);
            put_varint(out, entry.index);
            out.push(u8::from(entry.entry_type == EntryType::EntryConfChangeV2));
            put_bytes(out, &entry.data);
        }
        if let Some(snapshot) = m.snapshot.as_ref() {
            let meta = snapshot.get_metadata();
            put_varint(out, meta.term);
            put_varint(out, meta.index);
            let state = meta.get_conf_state();
            put_ids(out, &state.voters);
            put_ids(out, &state.learners);
            // Members of an older release know no third list, and are never sent one while it is empty.
            if !state.voters_outgoing.is_empty() {
                put_ids(out, &state.voters_outgoing);
            }
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<Message> {
        let number = reader.u8()?;
        let kind = KINDS.iter().find(|(_, wire)| *wire == number)?.0;
        let mut m = eraftpb::Message { msg_type: kind, ..eraftpb::Message::default() };
        // Member ids are hashes and use all 64 bits.
        m.to = reader.varint()?;
        m.from = reader.varint()?;
        m.term = term(reader)?;
        m.log_term = term(reader)?;
        m.index = index(reader)?;
        m.commit = index(reader)?;
        m.commit_term = term(reader)?;
        m.reject_hint = index(reader)?;
        m.request_snapshot = index(reader)?;
        m.reject = reader.bool()?;
        m.context = reader.bytes()?;
        let count = reader.count()?;
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let at = Position { term: Term(term(reader)?), index: Index(index(reader)?) };
            let reconfigures = reader.bool()?;
            entries.push(Entry { at, data: reader.bytes()?, reconfigures }.to_library());
        }
        m.entries = entries.into();
        if kind == MessageType::MsgSnapshot {
            let meta = m.mut_snapshot().mut_metadata();
            meta.term = term(reader)?;
            meta.index = index(reader)?;
            let mut state = ConfState::from((take_ids(reader)?, take_ids(reader)?));
            if !reader.is_empty() {
                state.set_voters_outgoing(take_ids(reader)?);
            }
            *meta.mut_conf_state() = state;
        }
        Some(Message(m))
    }

    /// What holds for every message that a member sends, whatever state its receiver is in.
    pub fn is_plausible(&self) -> bool {
        let m = &self.0;
        // Only a read request has no term: any leader may answer it.
        let term_fits = (m.term == 0) == (m.msg_type == MessageType::MsgReadIndex)
            && m.log_term <= m.term
            && m.commit_term <= m.term;
        let entries_fit = match m.msg_type {
            MessageType::MsgAppend => {
                let mut last = (m.log_term, m.index);
                m.entries.iter().all(|entry| {
                    let follows = entry.index == last.1 + 1 && entry.term >= last.0.max(1);
                    last = (entry.term, entry.index);
                    follows && entry.term <= m.term
                })
            }
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
                m.entries.len() == 1 && m.entries[0].data.len() <= CONTEXT_BYTES_MAX
            }
            _ => m.entries.is_empty(),
        };
        let snapshot_fits =
            self.snapshot_at().is_none_or(|at| at.index.0 > 0 && (1..=m.term).contains(&at.term.0));
        // No member requests a snapshot in this way.
        let asks_for_snapshot = m.request_snapshot != 0;
        term_fits
            && m.context.len() <= CONTEXT_BYTES_MAX
            && entries_fit
            && snapshot_fits
            && !asks_for_snapshot
    }

    /// The configuration in the snapshot that this message announces.
    pub fn config(&self) -> Option<Config> {
        let snapshot = self.0.snapshot.as_ref()?;
        Some(Config::from_library(snapshot.get_metadata().get_conf_state()))
    }

    /// Of a round that confirms reads, or a heartbeat.
    pub fn is_of_read_round(&self) -> bool {
        matches!(
            self.0.msg_type,
            MessageType::MsgHeartbeat
                | MessageType::MsgHeartbeatResponse
                | MessageType::MsgReadIndex
                | MessageType::MsgReadIndexResp
        )
    }

    /// An answer to something that this member sent.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(
            self.0.msg_type,
            MessageType::MsgAppendResponse
                | MessageType::MsgRequestVoteResponse
                | MessageType::MsgRequestPreVoteResponse
                | MessageType::MsgHeartbeatResponse
        )
    }
}

fn put_ids(out: &mut Vec<u8>, ids: &[u64]) {
    put_varint(out, ids.len() as u64);
    ids.iter().for_each(|id| put_varint(out, *id));
}

fn take_ids(reader: &mut Reader) -> Option<Vec<u64>> {
    let count = reader.count().filter(|count| *count <= MEMBERS_MAX)?;
    (0..count).map(|_| reader.varint()).collect()
}

fn term(reader: &mut Reader) -> Option<u64> {
    reader.varint().filter(|term| *term <= TERM_MAX)
}

fn index(reader: &mut Reader) -> Option<u64> {
    reader.varint().filter(|index| *index <= INDEX_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use bytes::Bytes;

    fn sample(kind: MessageType) -> Message {
        let mut m = eraftpb::Message { msg_type: kind, to: u64::MAX, from: 7, term: 9, ..Default::default() };
        m.log_term = 3;
        m.index = 40;
        m.commit = 38;
        m.reject = true;
        m.reject_hint = 5;
        m.context = Bytes::from_static(b"ctx");
        let entry = |index| Entry {
            at: Position { term: Term(4), index: Index(index) },
            data: Bytes::from_static(b"payload"),
            reconfigures: index == 42,
        };
        match kind {
            MessageType::MsgAppend => m.entries = vec![entry(41).to_library(), entry(42).to_library()].into(),
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => {
                m.entries = vec![entry(0).to_library()].into();
            }
            MessageType::MsgSnapshot => {
                let meta = m.mut_snapshot().mut_metadata();
                meta.index = 30;
                meta.term = 2;
                *meta.mut_conf_state() = ConfState::from((vec![1, 2, 3], vec![4]));
                meta.mut_conf_state().set_voters_outgoing(vec![1, 2, 5]);
            }
            _ => {}
        }
        Message(m)
    }

    #[test]
    fn every_kind_survives_a_round_trip() {
        for (kind, _) in KINDS {
            let mut out = Vec::new();
            sample(kind).encode(&mut out);
            let mut reader = Reader::new(out.into());
            assert_eq!(Message::decode(&mut reader), Some(sample(kind)));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let mut rng = Rng::new(11);
        for round in 0..50_000 {
            let (kind, _) = KINDS[round % KINDS.len()];
            let mut out = Vec::new();
            sample(kind).encode(&mut out);
            for _ in 0..rng.between(1, 4) {
                let at = rng.between(0, out.len() as u64) as usize;
                out[at] = rng.next_u64() as u8;
            }
            out.truncate(rng.between(0, out.len() as u64 + 1) as usize);
            let _ = Message::decode(&mut Reader::new(out.into()));
        }
    }

    #[test]
    fn an_append_with_a_hole_is_refused() {
        let mut message = sample(MessageType::MsgAppend);
        message.0.entries[1].index = 44;
        assert!(!message.is_plausible());
        assert!(sample(MessageType::MsgAppend).is_plausible());
    }
}
