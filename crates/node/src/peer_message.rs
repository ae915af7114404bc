//! Messages between the state machines of members beside the log, and their bytes: rounds of compaction, and digests
//! of states. A compaction message belongs to one round, which its epoch identifies; messages of an ended round are
//! ignored. All of these messages may be lost.

use base::codec::{Reader, put_signed, put_varint};
use base::{Index, Revision, Term};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    Compaction(CompactionMessage),
    Digest(StateDigest),
    /// What is the digest of the receiver's state at this index? The nonce is known to the receiver alone.
    DigestQuestion {
        index: Index,
        nonce: u64,
    },
    /// The answer, with the nonce of the question: it comes from the member that was asked.
    DigestAnswer {
        nonce: u64,
        digest: StateDigest,
    },
}

/// The digest of the sender's state at this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateDigest {
    pub index: Index,
    pub hash: u64,
}

/// A round of one leader. Later rounds are greater, under any leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompactionEpoch {
    pub term: Term,
    pub nth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionMessage {
    pub epoch: CompactionEpoch,
    pub signal: CompactionSignal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionSignal {
    /// From which revision on does the member still need everything?
    Ask,
    Need(Revision),
    /// A compaction to this revision is about to be proposed: nothing that it would end may begin.
    Notice(Revision),
    /// No reader of the member would be ended by it, nor will be.
    Agreed,
    /// A reader would be ended.
    Refused,
}

const ASK: u8 = 0;
const NEED: u8 = 1;
const NOTICE: u8 = 2;
const AGREED: u8 = 3;
const REFUSED: u8 = 4;
const DIGEST: u8 = 5;
const DIGEST_QUESTION: u8 = 6;
const DIGEST_ANSWER: u8 = 7;

impl PeerMessage {
    /// Part of a check of digests, which travels as a frame of its own kind.
    pub(crate) fn is_digest_check(self) -> bool {
        matches!(self, PeerMessage::DigestQuestion { .. } | PeerMessage::DigestAnswer { .. })
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            PeerMessage::Compaction(round) => round.encode(out),
            PeerMessage::Digest(StateDigest { index, hash }) => {
                out.push(DIGEST);
                put_varint(out, index.0);
                out.extend_from_slice(&hash.to_le_bytes());
            }
            PeerMessage::DigestQuestion { index, nonce } => {
                out.push(DIGEST_QUESTION);
                put_varint(out, index.0);
                out.extend_from_slice(&nonce.to_le_bytes());
            }
            PeerMessage::DigestAnswer { nonce, digest: StateDigest { index, hash } } => {
                out.push(DIGEST_ANSWER);
                put_varint(out, index.0);
                out.extend_from_slice(&nonce.to_le_bytes());
                out.extend_from_slice(&hash.to_le_bytes());
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<PeerMessage> {
        match reader.u8()? {
            DIGEST => {
                let index = Index(reader.varint()?);
                Some(PeerMessage::Digest(StateDigest { index, hash: reader.u64()? }))
            }
            DIGEST_QUESTION => {
                let index = Index(reader.varint()?);
                Some(PeerMessage::DigestQuestion { index, nonce: reader.u64()? })
            }
            DIGEST_ANSWER => {
                let (index, nonce) = (Index(reader.varint()?), reader.u64()?);
                let digest = StateDigest { index, hash: reader.u64()? };
                Some(PeerMessage::DigestAnswer { nonce, digest })
            }
            kind => CompactionMessage::decode(kind, reader).map(PeerMessage::Compaction),
        }
    }
}

impl CompactionMessage {
    fn encode(self, out: &mut Vec<u8>) {
        let (kind, revision) = match self.signal {
            CompactionSignal::Ask => (ASK, None),
            CompactionSignal::Need(revision) => (NEED, Some(revision)),
            CompactionSignal::Notice(revision) => (NOTICE, Some(revision)),
            CompactionSignal::Agreed => (AGREED, None),
            CompactionSignal::Refused => (REFUSED, None),
        };
        out.push(kind);
        put_varint(out, self.epoch.term.0);
        put_varint(out, self.epoch.nth);
        if let Some(revision) = revision {
            put_signed(out, revision.0);
        }
    }

    fn decode(kind: u8, reader: &mut Reader) -> Option<CompactionMessage> {
        let epoch = CompactionEpoch { term: Term(reader.varint()?), nth: reader.varint()? };
        let signal = match kind {
            ASK => CompactionSignal::Ask,
            NEED => CompactionSignal::Need(Revision(reader.signed()?)),
            NOTICE => CompactionSignal::Notice(Revision(reader.signed()?)),
            AGREED => CompactionSignal::Agreed,
            REFUSED => CompactionSignal::Refused,
            _ => return None,
        };
        Some(CompactionMessage { epoch, signal })
    }
}
