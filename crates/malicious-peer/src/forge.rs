//! Makes the frames of a peer that lies: every kind, every field, lawful ones that were changed, and noise.
//! Left out is the one sort that no receiver can tell from the truth without another proof of who speaks: a lawful message of the
//! peer that it names (an append that fits, a vote, an acknowledgement, a command of its own). Raft believes its members.

use base::codec::{put_bytes, put_varint};
use base::{Boot, Index, LeaseId, NodeId, Position, ProposalId, ReplyToken, Revision, Rng, Term};
use bytes::Bytes;
use fuzz_targets::frames::{self, RaftMessage, SNAPSHOT_BEGIN, SNAPSHOT_END, SNAPSHOT_ROWS};
use fuzz_targets::{Input, forged_mesh, mutate};
use mesh::{Envelope, Epoch, Frame as MeshFrame, Topology};
use node::batch::Proposal;
use node::{
    CompactionEpoch as RoundEpoch, CompactionMessage, CompactionSignal, Frame, LeaderQuestion, LogState,
    PeerMessage, StateDigest,
};

const FORWARD: u8 = 2;
const MEMBERS: u8 = 9;
const MESH_ENVELOPE: u8 = 64;
const MESH_PIECE: u8 = 65;
const MESH_KINDS: [u8; 9] = [64, 65, 66, 67, 68, 69, 70, 71, 72];
/// Lawful frames that are remembered, to be changed.
const REMEMBERED_MAX: usize = 512;
/// A term or an index so far beyond what is known is forged.
const FAR: u64 = 1 << 21;

/// What is known of the member that gets the frames, and of its cluster.
pub struct AttackFacts {
    pub target: u64,
    /// Whom this side says to be.
    pub liar: u64,
    pub members: Vec<u64>,
    pub term: u64,
    pub index: u64,
    pub mesh: forged_mesh::MeshFacts,
}

pub struct Forge {
    rng: Rng,
    remembered: Vec<Vec<u8>>,
}

impl Forge {
    pub fn new(seed: u64) -> Forge {
        Forge { rng: Rng::new(seed), remembered: Vec::new() }
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.rng.between(0, most);
        (0..count).map(|_| self.rng.next_u64() as u8).collect()
    }

    /// The frames of one envelope to a member of the same cluster.
    pub fn frames(&mut self, facts: &AttackFacts, count: usize) -> Vec<Bytes> {
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count {
            let more = self.next(facts);
            frames.extend(more.into_iter().filter(|frame| !is_believable(frame, facts)));
        }
        frames
    }

    /// The frames of one envelope to a node of another region.
    pub fn remote_frames(&mut self, facts: &AttackFacts, count: usize) -> Vec<Bytes> {
        let one = |forge: &mut Forge| match forge.rng.between(0, 4) {
            0 | 1 => forge.mesh(facts),
            2 => forge.beside_mesh(facts),
            _ => forge.changed(),
        };
        let all = std::iter::repeat_with(|| one(self)).filter(|frame| !is_believable(frame, facts));
        all.take(count).collect()
    }

    fn next(&mut self, facts: &AttackFacts) -> Vec<Bytes> {
        let frame = match self.rng.between(0, 16) {
            0..=3 => self.raft(facts),
            4 => return self.snapshot(facts),
            5 | 6 => self.beside_raft(facts),
            7 => self.forward(facts),
            8..=10 => self.mesh(facts),
            11 => self.beside_mesh(facts),
            12 => self.noise(),
            _ => self.changed(),
        };
        vec![frame]
    }

    fn remember(&mut self, frame: Bytes) -> Bytes {
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.push(frame.to_vec());
        } else {
            let at = self.rng.between(0, REMEMBERED_MAX as u64) as usize;
            self.remembered[at] = frame.to_vec();
        }
        frame
    }

    fn known(facts: &AttackFacts) -> [u64; 4] {
        [facts.term, facts.index, facts.target, facts.liar]
    }

    fn raft(&mut self, facts: &AttackFacts) -> Bytes {
        let bytes = self.bytes(200);
        let mut input = Input::new(&bytes);
        let mut message = frames::forged(&mut input, facts.target, &[facts.liar], &Forge::known(facts));
        if self.rng.chance(20_000) {
            message.from = *self.rng.pick(&facts.members);
        }
        self.remember(message.frame())
    }

    /// Begin, rows and end: most of them in order, others as they come.
    fn snapshot(&mut self, facts: &AttackFacts) -> Vec<Bytes> {
        let bytes = self.bytes(200);
        let mut input = Input::new(&bytes);
        let mut message = frames::forged(&mut input, facts.target, &[facts.liar], &Forge::known(facts));
        message.kind = frames::SNAPSHOT;
        message.entries.clear();
        if message.snapshot.is_none() || self.rng.chance(500_000) {
            let ids = [facts.members.clone(), Vec::new(), Vec::new()];
            message.snapshot = Some((facts.term, facts.index + self.rng.between(0, 100), ids));
        }
        if self.rng.chance(500_000) {
            // Fits, so that it comes as far as the store.
            (message.term, message.request_snapshot) = (facts.term, 0);
            (message.log_term, message.commit_term, message.context) = (0, 0, Bytes::new());
        }
        let mut begin = Vec::new();
        message.encode(&mut begin);
        let id = self.rng.between(0, 4);
        let rows = self.bytes(400);
        let mut parts = vec![
            frames::snapshot_part(SNAPSHOT_BEGIN, id, 0, &begin),
            frames::snapshot_part(SNAPSHOT_ROWS, id, 1, &rows),
            frames::snapshot_part(SNAPSHOT_END, id, 2, &[]),
        ];
        match self.rng.between(0, 4) {
            0 => parts.rotate_left(1),
            1 => parts.swap(1, 2),
            2 => {
                let gone = self.rng.between(0, 3) as usize;
                parts.remove(gone);
            }
            _ => {}
        }
        parts
    }

    /// What members say beside raft: states, questions, who belongs to the cluster, where clients are served.
    fn beside_raft(&mut self, facts: &AttackFacts) -> Bytes {
        let bytes = self.bytes(120);
        let mut input = Input::new(&bytes);
        let known = Forge::known(facts);
        let (one, other) = (input.number(&known), input.number(&known));
        let epoch = RoundEpoch { term: Term(one), nth: other };
        let revision = Revision(input.number(&known) as i64);
        let round = |signal| Frame::PeerMessage(PeerMessage::Compaction(CompactionMessage { epoch, signal }));
        let ask = |question| Frame::LeaderQuestion { boot: Boot(one), token: ReplyToken(other), question };
        let frame = match self.rng.between(0, 18) {
            0 => Frame::ClientUrl(String::from_utf8_lossy(input.string()).into_owned()),
            1 => {
                let mut out = vec![MEMBERS];
                out.extend(self.bytes(80));
                return out.into();
            }
            2 => ask(LeaderQuestion::KeepAlive(LeaseId(one as i64))),
            3 => ask(LeaderQuestion::TimeToLive { id: LeaseId(one as i64), keys: true }),
            4 => ask(LeaderQuestion::Ending { within_ms: one }),
            14 => ask(LeaderQuestion::TimeLeft(LeaseId(one as i64))),
            5 => round(CompactionSignal::Ask),
            6 => round(CompactionSignal::Need(revision)),
            7 => round(CompactionSignal::Agreed),
            8 => round(CompactionSignal::Refused),
            13 => round(CompactionSignal::Notice(revision)),
            9 => Frame::LogQuestion { boot: Boot(one), round: other },
            10 => {
                let last = Position { term: Term(one), index: Index(other) };
                let voters = facts.members.iter().map(|id| NodeId(*id)).collect();
                let (term, led, configured) = (Term(other), Term(one), Index(one));
                let state = LogState { leads: input.flag(), term, led, last, configured, voters };
                Frame::LogAnswer { boot: Boot(input.number(&known)), round: input.number(&known), state }
            }
            11 => Frame::SteppedDown(Term(one)),
            15 => Frame::PeerMessage(PeerMessage::DigestQuestion { index: Index(one & !0xff), nonce: other }),
            16 => {
                let digest = StateDigest { index: Index(one & !0xff), hash: other };
                Frame::PeerMessage(PeerMessage::DigestAnswer { nonce: input.number(&known), digest })
            }
            12 => Frame::LeaderAnswer { boot: Boot(one), token: ReplyToken(other), answer: None },
            _ => Frame::PeerMessage(PeerMessage::Digest(StateDigest {
                index: Index(one & !0xff),
                hash: other,
            })),
        };
        self.remember(frame.encode())
    }

    /// Proposals of others than the sender, or none at all.
    fn forward(&mut self, facts: &AttackFacts) -> Bytes {
        let mut out = vec![FORWARD];
        for _ in 0..self.rng.between(1, 4) {
            let bytes = self.bytes(64);
            let mut input = Input::new(&bytes);
            let origin = if input.flag() { facts.target } else { input.number(&[]) };
            let id =
                ProposalId { origin: NodeId(origin), boot: Boot(input.number(&[])), seq: input.number(&[]) };
            let low = input.number(&[id.seq]).min(id.seq);
            let command = match input.choice(3) {
                0 => put(input.string()),
                1 => mutate::mutate(&mut self.rng, &[put(b"value").to_vec()]).into(),
                _ => Bytes::copy_from_slice(input.rest()),
            };
            Proposal { id, low, command }.encode(&mut out);
        }
        if self.rng.chance(300_000) {
            out.truncate(self.rng.between(1, out.len() as u64) as usize);
        }
        out.into()
    }

    fn mesh(&mut self, facts: &AttackFacts) -> Bytes {
        let bytes = self.bytes(400);
        let mut input = Input::new(&bytes);
        let epoch = facts.mesh.topology.epoch.0;
        let epoch = if input.choice(4) > 0 { epoch } else { input.number(&[epoch]) };
        let frame = forged_mesh::frame(&mut input, &facts.mesh);
        let mut out = vec![MESH_ENVELOPE];
        out.extend(Envelope { epoch: Epoch(epoch), frame }.encode());
        self.remember(out.into())
    }

    /// Pieces, reports, documents and what regions say of homes.
    fn beside_mesh(&mut self, facts: &AttackFacts) -> Bytes {
        let kind = *self.rng.pick(&MESH_KINDS);
        let mut out = vec![kind];
        if kind == MESH_PIECE {
            let bytes = self.bytes(60);
            let mut input = Input::new(&bytes);
            let numbers = [input.number(&[]), input.number(&[]), input.number(&[])];
            numbers.into_iter().for_each(|number| put_varint(&mut out, number));
            out.extend_from_slice(input.rest());
            return out.into();
        }
        let known = [facts.target, facts.liar, facts.mesh.topology.epoch.0];
        for _ in 0..self.rng.between(0, 8) {
            let bytes = self.bytes(24);
            let mut input = Input::new(&bytes);
            match input.choice(3) {
                0 => put_varint(&mut out, input.number(&known)),
                1 => put_bytes(&mut out, input.string()),
                _ => out.push(input.byte() % 4),
            }
        }
        out.into()
    }

    fn noise(&mut self) -> Bytes {
        self.bytes(300).into()
    }

    /// A lawful frame with some of its bytes changed.
    fn changed(&mut self) -> Bytes {
        if self.remembered.is_empty() {
            self.noise()
        } else {
            mutate::mutate(&mut self.rng, &self.remembered).into()
        }
    }
}

fn put(value: &[u8]) -> Bytes {
    fuzz_targets::put(Bytes::copy_from_slice(value))
}

/// Whether the frame could be true: then a receiver that believes it does no wrong.
fn is_believable(frame: &Bytes, facts: &AttackFacts) -> bool {
    match frame.first() {
        Some(&frames::RAFT) => RaftMessage::read(frame).is_some_and(|message| is_lawful(&message, facts)),
        Some(&FORWARD) => {
            let proposals = node::batch::decode(frame.slice(1..)).unwrap_or_default();
            !proposals.is_empty() && proposals.iter().all(|proposal| proposal.id.origin.0 == facts.liar)
        }
        Some(&MESH_ENVELOPE) => is_near_topology(frame.slice(1..), facts),
        _ => false,
    }
}

/// A plan could have come so far.
fn is_near_topology(envelope: Bytes, facts: &AttackFacts) -> bool {
    let Some(MeshFrame::Topology(bytes)) = Envelope::decode(envelope).map(|envelope| envelope.frame) else {
        return false;
    };
    let near = facts.mesh.topology.epoch.0.saturating_add(FAR);
    Topology::decode(bytes).is_some_and(|topology| topology.epoch.0 <= near)
}

fn is_lawful(message: &RaftMessage, facts: &AttackFacts) -> bool {
    let in_time = message.term >= facts.term && message.term <= facts.term + FAR;
    let near = |index: u64| index <= facts.index + FAR;
    in_time
        && message.from == facts.liar
        && match message.kind {
            frames::APPEND => near(message.index),
            frames::HEARTBEAT => message.commit > 0,
            frames::VOTE_RESPONSE | frames::PRE_VOTE_RESPONSE => !message.reject,
            frames::APPEND_RESPONSE => !message.reject && near(message.index),
            _ => false,
        }
}
