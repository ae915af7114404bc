//! The frames between members, and their bytes on a peer stream. A frame is self-contained; the stream adds length
//! and checksum. Decoding refuses anything malformed, and what it accepts shares the received buffer.

use crate::log_state::LogState;
use crate::peer_message::PeerMessage;
use crate::question::{self, LeaderAnswer, LeaderQuestion};
use base::codec::{Reader, put_varint};
use base::{Boot, ReplyToken, Term};
use bytes::Bytes;
use coord::Members;
use raft::Message;

#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    Raft(Message),
    /// Proposals of the sender, for the leader to order.
    Forward(Bytes),
    /// One part of a snapshot's stream, numbered from zero.
    Snapshot {
        id: u64,
        number: u32,
        part: SnapshotPart,
    },
    /// Where the sender serves clients.
    ClientUrl(String),
    /// The sender's table of members: a receiver that lags may have a leader that its own table does not have yet.
    Members(Members),
    /// A question to the leader, with the sender's start and token.
    LeaderQuestion {
        boot: Boot,
        token: ReplyToken,
        question: LeaderQuestion,
    },
    /// The answer to such a question.
    LeaderAnswer {
        boot: Boot,
        token: ReplyToken,
        answer: LeaderAnswer,
    },
    /// A message from one state machine to another.
    PeerMessage(PeerMessage),
    /// How far does the receiver's log reach? With the sender's start, and the round of its questions.
    LogQuestion {
        boot: Boot,
        round: u64,
    },
    LogAnswer {
        boot: Boot,
        round: u64,
        state: LogState,
    },
    /// The sender led this term, heard no majority, and stepped down.
    SteppedDown(Term),
}

#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotPart {
    /// The message that raft gets once all rows are here.
    Begin(Message),
    Rows(Bytes),
    End,
}

const RAFT: u8 = 1;
const FORWARD: u8 = 2;
const SNAPSHOT_BEGIN: u8 = 3;
const SNAPSHOT_ROWS: u8 = 4;
const SNAPSHOT_END: u8 = 5;
const CLIENT_URL: u8 = 6;

const CLIENT_URL_BYTES_MAX: usize = 1024;
const ASK: u8 = 7;
const ANSWER: u8 = 8;
const MEMBERS: u8 = 9;
const PEER_MESSAGE: u8 = 10;
const LOG_QUESTION: u8 = 11;
const LOG_ANSWER: u8 = 12;
const STEPPED_DOWN: u8 = 13;
/// A peer message that 0.1.0 does not know.
const DIGEST_CHECK: u8 = 14;

impl Frame {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            Frame::Raft(message) => {
                out.push(RAFT);
                message.encode(&mut out);
            }
            Frame::Forward(batch) => {
                out.reserve_exact(batch.len() + 1);
                out.push(FORWARD);
                out.extend_from_slice(batch);
            }
            Frame::Snapshot { id, number, part } => {
                out.push(match part {
                    SnapshotPart::Begin(_) => SNAPSHOT_BEGIN,
                    SnapshotPart::Rows(_) => SNAPSHOT_ROWS,
                    SnapshotPart::End => SNAPSHOT_END,
                });
                put_varint(&mut out, *id);
                put_varint(&mut out, u64::from(*number));
                match part {
                    SnapshotPart::Begin(message) => message.encode(&mut out),
                    SnapshotPart::Rows(rows) => out.extend_from_slice(rows),
                    SnapshotPart::End => {}
                }
            }
            Frame::ClientUrl(url) => {
                out.push(CLIENT_URL);
                out.extend_from_slice(url.as_bytes());
            }
            Frame::Members(members) => {
                out.push(MEMBERS);
                out.extend(members.encode());
            }
            Frame::LeaderQuestion { boot, token, question } => {
                out.push(ASK);
                put_varint(&mut out, boot.0);
                put_varint(&mut out, token.0);
                question::encode_question(*question, &mut out);
            }
            Frame::LeaderAnswer { boot, token, answer } => {
                out.push(ANSWER);
                put_varint(&mut out, boot.0);
                put_varint(&mut out, token.0);
                question::encode_answer(answer, &mut out);
            }
            Frame::SteppedDown(term) => {
                out.push(STEPPED_DOWN);
                put_varint(&mut out, term.0);
            }
            Frame::LogQuestion { boot, round } => {
                out.push(LOG_QUESTION);
                put_varint(&mut out, boot.0);
                put_varint(&mut out, *round);
            }
            Frame::LogAnswer { boot, round, state } => {
                out.push(LOG_ANSWER);
                put_varint(&mut out, boot.0);
                put_varint(&mut out, *round);
                state.encode(&mut out);
            }
            Frame::PeerMessage(message) => {
                out.push(if message.is_digest_check() { DIGEST_CHECK } else { PEER_MESSAGE });
                message.encode(&mut out);
            }
        }
        out.into()
    }

    /// Whether this release knows frames of this kind. Others are those of a later release, and are dropped.
    pub fn is_known(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|kind| (RAFT..=DIGEST_CHECK).contains(kind))
    }

    /// Of a round that confirms reads, or a heartbeat: small, and waited for by reads of several members.
    pub fn is_of_read_round(&self) -> bool {
        matches!(self, Frame::Raft(message) if message.is_of_read_round())
    }

    pub fn decode(bytes: Bytes) -> Option<Frame> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            RAFT => {
                let message = Message::decode(&mut reader)?;
                (reader.is_empty() && !message.is_snapshot()).then_some(Frame::Raft(message))
            }
            FORWARD => Some(Frame::Forward(reader.rest())),
            kind @ (SNAPSHOT_BEGIN | SNAPSHOT_ROWS | SNAPSHOT_END) => {
                let id = reader.varint()?;
                let number = u32::try_from(reader.varint()?).ok()?;
                let part = match kind {
                    SNAPSHOT_BEGIN => {
                        let message = Message::decode(&mut reader)?;
                        (reader.is_empty() && message.is_snapshot())
                            .then_some(SnapshotPart::Begin(message))?
                    }
                    SNAPSHOT_ROWS => SnapshotPart::Rows(reader.rest()),
                    _ => reader.is_empty().then_some(SnapshotPart::End)?,
                };
                Some(Frame::Snapshot { id, number, part })
            }
            CLIENT_URL if reader.remaining() <= CLIENT_URL_BYTES_MAX => {
                String::from_utf8(reader.rest().into()).ok().map(Frame::ClientUrl)
            }
            MEMBERS => Members::decode(reader.rest()).map(Frame::Members),
            kind @ (ASK | ANSWER) => {
                let boot = Boot(reader.varint()?);
                let token = ReplyToken(reader.varint()?);
                let frame = match kind {
                    ASK => Frame::LeaderQuestion {
                        boot,
                        token,
                        question: question::decode_question(&mut reader)?,
                    },
                    _ => Frame::LeaderAnswer { boot, token, answer: question::decode_answer(&mut reader)? },
                };
                reader.is_empty().then_some(frame)
            }
            STEPPED_DOWN => {
                let term = Term(reader.varint()?);
                reader.is_empty().then_some(Frame::SteppedDown(term))
            }
            kind @ (LOG_QUESTION | LOG_ANSWER) => {
                let boot = Boot(reader.varint()?);
                let round = reader.varint()?;
                let frame = match kind {
                    LOG_QUESTION => Frame::LogQuestion { boot, round },
                    _ => Frame::LogAnswer { boot, round, state: LogState::decode(&mut reader)? },
                };
                reader.is_empty().then_some(frame)
            }
            kind @ (PEER_MESSAGE | DIGEST_CHECK) => {
                let message = PeerMessage::decode(&mut reader)?;
                let fits = message.is_digest_check() == (kind == DIGEST_CHECK);
                (reader.is_empty() && fits).then_some(Frame::PeerMessage(message))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_message::{CompactionEpoch, CompactionMessage, CompactionSignal, StateDigest};
    use base::{Index, LeaseId, NodeId, Position, Revision};
    use coord::reply::{Body, EndingLease, LeaseRenewal, LeaseTime, Reply};

    fn ask(question: LeaderQuestion) -> Frame {
        Frame::LeaderQuestion { boot: Boot(3), token: ReplyToken(300), question }
    }

    fn answer(body: Option<Body>) -> Frame {
        let answer = body.map(|body| Reply { revision: Revision(7), body });
        Frame::LeaderAnswer { boot: Boot(3), token: ReplyToken(300), answer }
    }

    fn compaction(signal: CompactionSignal) -> Frame {
        Frame::PeerMessage(PeerMessage::Compaction(CompactionMessage {
            epoch: CompactionEpoch { term: Term(7), nth: 300 },
            signal,
        }))
    }

    #[test]
    fn frames_survive_a_round_trip() {
        let renewal = LeaseRenewal { term: Term(4), nth: 900 };
        let state = LogState {
            leads: true,
            term: Term(9),
            led: Term(9),
            last: Position { term: Term(8), index: Index(700) },
            configured: Index(699),
            voters: vec![NodeId(1), NodeId(u64::MAX)],
        };
        let frames = [
            Frame::Forward(Bytes::from_static(b"batch")),
            Frame::Snapshot { id: 9, number: 3, part: SnapshotPart::Rows(Bytes::from_static(b"rows")) },
            Frame::Snapshot { id: u64::MAX, number: u32::MAX, part: SnapshotPart::End },
            Frame::ClientUrl("http://db1.example.com:2379".to_owned()),
            Frame::Members(Members::default()),
            ask(LeaderQuestion::KeepAlive(LeaseId(-3))),
            ask(LeaderQuestion::TimeToLive { id: LeaseId(3), keys: true }),
            ask(LeaderQuestion::TimeToLive { id: LeaseId(3), keys: false }),
            ask(LeaderQuestion::Ending { within_ms: 5_000 }),
            ask(LeaderQuestion::TimeLeft(LeaseId(3))),
            compaction(CompactionSignal::Ask),
            compaction(CompactionSignal::Need(Revision(1_000_000))),
            compaction(CompactionSignal::Notice(Revision(70))),
            compaction(CompactionSignal::Agreed),
            compaction(CompactionSignal::Refused),
            Frame::LogQuestion { boot: Boot(3), round: 300 },
            Frame::SteppedDown(Term(300)),
            Frame::LogAnswer { boot: Boot(3), round: 300, state },
            Frame::PeerMessage(PeerMessage::Digest(StateDigest { index: Index(1_024), hash: u64::MAX })),
            Frame::PeerMessage(PeerMessage::DigestQuestion { index: Index(1_024), nonce: u64::MAX }),
            Frame::PeerMessage(PeerMessage::DigestAnswer {
                nonce: 7,
                digest: StateDigest { index: Index(1_024), hash: u64::MAX },
            }),
            answer(None),
            answer(Some(Body::LeaseRenewed { ttl: 60, renewal })),
            answer(Some(Body::LeasesEnding(vec![EndingLease { id: LeaseId(-7), left_ms: 900 }]))),
            answer(Some(Body::LeaseTime(LeaseTime { ttl: -1, granted: 0, keys: vec![], renewal }))),
            answer(Some(Body::LeaseTime(LeaseTime {
                ttl: 1,
                granted: 2,
                keys: vec![Bytes::from_static(b"k"), Bytes::new()],
                renewal,
            }))),
        ];
        for frame in frames {
            assert_eq!(Frame::decode(frame.encode()), Some(frame));
        }
    }

    #[test]
    fn what_is_not_a_frame_is_refused() {
        for bytes in
            [&b""[..], b"\0", b"\x01", b"\x06\xff", b"\x07abc", b"\x05\x01", b"\x05\x01\x01x", b"\x04\xff"]
        {
            assert_eq!(Frame::decode(Bytes::copy_from_slice(bytes)), None, "{bytes:?}");
        }
        let question = Frame::PeerMessage(PeerMessage::DigestQuestion { index: Index(256), nonce: 1 });
        let mut bytes = question.encode().to_vec();
        assert!(Frame::is_known(&bytes));
        bytes[0] = PEER_MESSAGE;
        assert_eq!(Frame::decode(bytes.into()), None, "0.1.0 would close the stream");
    }
}
