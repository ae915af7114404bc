//! Frames of the mesh on the peer streams: their first bytes, how large frames are split into pieces so that no urgent frame
//! waits long behind them, and how pieces become frames again. Pieces of one frame come in order or not at all. A frame of an
//! unknown kind is dropped; a malformed one closes its stream.

use crate::mesh::homes::{decode_asked, decode_held, decode_home_leases, encode_asked, encode_held};
use base::NodeId;
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::{MESH_NAME_BYTES_MAX, MESH_RECORD_BYTES_MAX};
use bytes::Bytes;
use mesh::{DocumentMessage, Envelope, FrameError, HomeMessage, NodeReport};
use mesh_node::{AskTime, Document, HeldHome};
use std::collections::BTreeMap;

/// The first byte of every frame of the mesh is at least this; those of `node` are below.
pub(super) const FIRST_KIND: u8 = 64;
const ENVELOPE: u8 = 64;
const PIECE: u8 = 65;
const NODE_REPORT: u8 = 66;
const DOCUMENT: u8 = 67;
const HOME_MESSAGE: u8 = 68;
const HELD: u8 = 69;
const ASK_TENURES: u8 = 70;
const TENURES: u8 = 71;
const SHARED_DOCUMENTS: u8 = 72;

/// Longer frames are cut.
const PIECE_BYTES: usize = 64 * 1024;
/// No node sends a longer frame than a page of an exchange with one large record at its end.
const FRAME_BYTES_MAX: usize = 2 * MESH_RECORD_BYTES_MAX + 1_000 * MESH_NAME_BYTES_MAX;

/// The message in one frame of the mesh.
#[derive(Debug)]
pub(crate) enum WireMessage {
    Envelope(Envelope),
    /// To the controller.
    NodeReport(NodeReport),
    /// A document of the cluster, for nodes that hold nothing of coord.
    Document(Document),
    /// To the leader of another region, of homes.
    HomeMessage(HomeMessage),
    /// To the leader of another region, of the documents that regions share.
    SharedDocuments(DocumentMessage),
    /// The homes that the region may write, and for how long still.
    Held(Vec<HeldHome>),
    /// To the leader: what may the region write?
    AskHomeLeases(AskTime),
    /// The homes that the region may write, and for how long since the question.
    HomeLeases(AskTime, Vec<HeldHome>),
}

pub(crate) fn is_of_the_mesh(frame: &Bytes) -> bool {
    frame.first().is_some_and(|kind| *kind >= FIRST_KIND)
}

/// Numbers the frames that are cut, over all peers.
#[derive(Debug, Default)]
pub(super) struct FrameSplitter {
    last: u64,
}

impl FrameSplitter {
    pub fn split(&mut self, envelope: &Envelope, out: &mut Vec<Bytes>) {
        let mut headed = Vec::with_capacity(1 + envelope.size_hint());
        headed.push(ENVELOPE);
        envelope.encode_to(&mut headed);
        let bytes = &headed[1..];
        if bytes.len() <= PIECE_BYTES {
            return out.push(headed.into());
        }
        self.last += 1;
        for (nth, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let mut head = vec![PIECE];
            put_varint(&mut head, self.last);
            put_varint(&mut head, bytes.len() as u64);
            put_varint(&mut head, (nth * PIECE_BYTES) as u64);
            head.extend_from_slice(piece);
            out.push(head.into());
        }
    }
}

/// The frame of a message that the driver sends beside the frames of its machine.
pub(super) fn message_frame(message: &mesh_node::Message) -> Bytes {
    match message {
        mesh_node::Message::Report(report) => headed(NODE_REPORT, &report.encode()),
        mesh_node::Message::Home(message) => headed(HOME_MESSAGE, &message.encode()),
        mesh_node::Message::Documents(message) => headed(SHARED_DOCUMENTS, &message.encode()),
        mesh_node::Message::Held(held) => {
            let mut out = vec![HELD];
            encode_held(held, &mut out);
            out.into()
        }
        mesh_node::Message::AskHomeLeases(asked) => {
            let mut out = vec![ASK_TENURES];
            encode_asked(*asked, &mut out);
            out.into()
        }
        mesh_node::Message::HomeLeases(asked, held) => {
            let mut out = vec![TENURES];
            encode_asked(*asked, &mut out);
            encode_held(held, &mut out);
            out.into()
        }
    }
}

/// One frame for each document.
pub(super) fn documents_frames<'a>(
    documents: impl Iterator<Item = (&'a str, &'a coord::Document)>,
) -> Vec<Bytes> {
    let frame = |(name, document): (&str, &coord::Document)| {
        let mut out = vec![DOCUMENT];
        put_bytes(&mut out, name.as_bytes());
        put_varint(&mut out, document.version);
        out.extend_from_slice(&document.bytes);
        out.into()
    };
    documents.map(frame).collect()
}

fn decode_document(mut reader: Reader) -> Option<Document> {
    let name = String::from_utf8(reader.bytes()?.into()).ok()?;
    let version = reader.varint()?;
    Some(Document { name, version, bytes: reader.rest() })
}

fn headed(kind: u8, bytes: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(1 + bytes.len());
    out.push(kind);
    out.extend_from_slice(bytes);
    out.into()
}

/// Frames that are coming in pieces, one at a time from each peer.
#[derive(Debug, Default)]
pub(crate) struct FrameAssembler {
    partial: BTreeMap<NodeId, PartialFrame>,
}

#[derive(Debug)]
struct PartialFrame {
    number: u64,
    len: usize,
    bytes: Vec<u8>,
}

/// The outcome of decoding a frame.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for every frame")]
#[derive(Debug)]
pub(crate) enum Assembled {
    Message(WireMessage),
    /// More pieces have to come.
    Incomplete,
    /// The message is of a kind that this release does not know. A later one may.
    Unknown,
    Malformed,
}

impl Assembled {
    fn of(read: Result<Envelope, FrameError>) -> Assembled {
        match read {
            Ok(envelope) => Assembled::Message(WireMessage::Envelope(envelope)),
            Err(FrameError::Unknown) => Assembled::Unknown,
            Err(FrameError::Malformed) => Assembled::Malformed,
        }
    }
}

impl FrameAssembler {
    /// The peer's stream is another now.
    pub fn forget(&mut self, peer: NodeId) {
        self.partial.remove(&peer);
    }

    pub fn add(&mut self, from: NodeId, frame: Bytes) -> Assembled {
        let mut reader = Reader::new(frame);
        let message = match reader.u8() {
            Some(ENVELOPE) => return Assembled::of(Envelope::read(reader.rest())),
            Some(PIECE) => {
                return match self.add_piece(from, reader) {
                    Some(Some(bytes)) => Assembled::of(Envelope::read(bytes)),
                    Some(None) => Assembled::Incomplete,
                    None => Assembled::Malformed,
                };
            }
            Some(NODE_REPORT) => NodeReport::decode(reader.rest()).map(WireMessage::NodeReport),
            Some(DOCUMENT) => decode_document(reader).map(WireMessage::Document),
            Some(HOME_MESSAGE) => HomeMessage::decode(reader.rest()).map(WireMessage::HomeMessage),
            Some(SHARED_DOCUMENTS) => {
                DocumentMessage::decode(reader.rest()).map(WireMessage::SharedDocuments)
            }
            Some(HELD) => decode_held(reader.rest()).map(WireMessage::Held),
            Some(ASK_TENURES) => decode_asked(reader.rest()).map(WireMessage::AskHomeLeases),
            Some(TENURES) => {
                decode_home_leases(reader.rest()).map(|(asked, held)| WireMessage::HomeLeases(asked, held))
            }
            Some(_) => return Assembled::Unknown,
            None => None,
        };
        message.map_or(Assembled::Malformed, Assembled::Message)
    }

    /// The whole frame, if this was its last piece; nothing at all if the piece does not fit.
    fn add_piece(&mut self, from: NodeId, mut reader: Reader) -> Option<Option<Bytes>> {
        let number = reader.varint()?;
        let len = usize::try_from(reader.varint()?).ok().filter(|len| *len <= FRAME_BYTES_MAX)?;
        let offset = usize::try_from(reader.varint()?).ok()?;
        let piece = reader.rest();
        if offset == 0 {
            // It grows with what comes, whatever is said.
            self.partial.insert(from, PartialFrame { number, len, bytes: Vec::new() });
        }
        let partial = self.partial.get_mut(&from)?;
        let fits = (partial.number, partial.len, partial.bytes.len()) == (number, len, offset)
            && !piece.is_empty()
            && offset + piece.len() <= len;
        if !fits {
            self.partial.remove(&from);
            return None;
        }
        partial.bytes.extend_from_slice(&piece);
        if partial.bytes.len() < len {
            return Some(None);
        }
        self.partial.remove(&from).map(|partial| Some(partial.bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::{Epoch, Frame, Key, OpId, StoreReason};

    fn store(len: usize) -> Envelope {
        let frame = Frame::Store {
            id: OpId(7),
            key: Key::new(0, b"k"),
            record: vec![9; len].into(),
            reason: StoreReason::Write,
        };
        Envelope { epoch: Epoch(3), frame }
    }

    fn put_together(assembly: &mut FrameAssembler, frames: Vec<Bytes>) -> Option<Envelope> {
        let mut whole = None;
        for frame in frames {
            assert!(is_of_the_mesh(&frame) && frame.len() <= PIECE_BYTES + 32);
            if let Assembled::Message(WireMessage::Envelope(envelope)) = assembly.add(NodeId(1), frame) {
                assert!(whole.replace(envelope).is_none(), "once");
            }
        }
        whole
    }

    #[test]
    fn frames_of_any_size_arrive_whole() {
        let (mut splitter, mut assembly) = (FrameSplitter::default(), FrameAssembler::default());
        for len in [0, 1, PIECE_BYTES - 40, PIECE_BYTES, 5 * PIECE_BYTES + 1] {
            let mut frames = Vec::new();
            splitter.split(&store(len), &mut frames);
            assert_eq!(put_together(&mut assembly, frames), Some(store(len)), "{len}");
        }
        assert!(assembly.partial.is_empty());
    }

    #[test]
    fn pieces_that_do_not_fit_together_are_dropped() {
        let (mut splitter, mut assembly) = (FrameSplitter::default(), FrameAssembler::default());
        let mut first = Vec::new();
        splitter.split(&store(5 * PIECE_BYTES), &mut first);
        let mut second = Vec::new();
        splitter.split(&store(5 * PIECE_BYTES), &mut second);
        let mixed = vec![first[0].clone(), second[1].clone(), first[1].clone(), first[2].clone()];
        assert_eq!(put_together(&mut assembly, mixed), None);
        assert!(assembly.partial.is_empty());
        assert_eq!(
            put_together(&mut assembly, second),
            Some(store(5 * PIECE_BYTES)),
            "the next one is whole"
        );
    }

    #[test]
    fn a_length_that_lies_costs_nothing() {
        let mut assembly = FrameAssembler::default();
        for len in [FRAME_BYTES_MAX as u64 + 1, u64::MAX] {
            let mut piece = vec![PIECE];
            [1, len, 0].into_iter().for_each(|number| put_varint(&mut piece, number));
            piece.push(1);
            assert!(matches!(assembly.add(NodeId(1), piece.into()), Assembled::Malformed));
        }
        for junk in [
            &b""[..],
            &[ENVELOPE],
            &[PIECE, 1],
            &[NODE_REPORT, 9],
            &[DOCUMENT],
            &[HOME_MESSAGE, 1],
            &[HELD],
            &[ASK_TENURES],
            &[TENURES, 1],
        ] {
            assert!(matches!(assembly.add(NodeId(1), Bytes::copy_from_slice(junk)), Assembled::Malformed));
        }
        for later in [&[200][..], &[ENVELOPE, 3, 200, 1]] {
            assert!(matches!(assembly.add(NodeId(1), Bytes::copy_from_slice(later)), Assembled::Unknown));
        }
    }
}
