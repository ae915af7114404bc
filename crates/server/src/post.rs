//! Frames between the consensus thread and the peer streams: encoded and grouped by peer on the way out,
//! decoded on the readers' threads on the way in. A frame that is malformed is counted and closes its stream; one of a
//! kind that this release does not know is counted and dropped, for a later release may send it.

use crate::consensus::ConsensusMessage;
use crate::core::{Core, Help};
use crate::mesh::node::MeshMessage;
use crate::mesh::wire::{self, Assembled, FrameAssembler, WireMessage};
use crate::peer::{Deliver, ForgedFrame, PeerEvent, Peers};
use base::NodeId;
use bytes::Bytes;
use mesh_node::Input;
use node::{ConsensusInput, Frame, SnapshotPart};
use std::sync::{Arc, Mutex};

/// The frames that one turn sends, by peer: one call to the transport for each.
#[derive(Default)]
pub(crate) struct OutgoingFrames {
    by_peer: Vec<(NodeId, Vec<Bytes>)>,
}

impl OutgoingFrames {
    pub fn add(&mut self, to: NodeId, frame: &Frame) {
        let bytes = frame.encode();
        match self.by_peer.iter_mut().find(|(peer, _)| *peer == to) {
            Some((_, frames)) => frames.push(bytes),
            None => self.by_peer.push((to, vec![bytes])),
        }
    }

    /// The machines repeat what the transport refuses.
    pub fn send(&mut self, peers: &Peers, at_once: bool) {
        for (peer, frames) in self.by_peer.drain(..) {
            if at_once {
                peers.send_at_once(peer, frames)
            } else {
                peers.send(peer, frames)
            };
        }
    }
}

/// Whether a stream stays open.
type DeliverResult = Result<(), ForgedFrame>;

/// Posts the transport's events to the consensus queue, and blocks the stream while that is full.
pub(crate) fn deliver_from_members(core: Arc<Core>) -> Deliver {
    let assembly = Mutex::new(FrameAssembler::default());
    Arc::new(move |event| match event {
        PeerEvent::Frames { from, mut frames } => {
            let of_the_mesh: Vec<Bytes> =
                frames.extract_if(.., |frame| wire::is_of_the_mesh(frame)).collect();
            let of_raft = if frames.is_empty() { Ok(()) } else { on_frames(&core, from, frames) };
            if of_the_mesh.is_empty() {
                return of_raft;
            }
            of_raft.and(on_mesh_frames(&core, &assembly, from, of_the_mesh))
        }
        PeerEvent::Connected { peer } => {
            core.coord.consensus.post(ConsensusMessage::Connected(peer));
            core.mesh.actor.post(Input::Connected(peer));
            Ok(())
        }
        PeerEvent::Lost { peer } => {
            core.coord.consensus.post(ConsensusInput::Lost(peer));
            core.mesh.actor.post(Input::Lost(peer));
            forget_pieces(&assembly, peer)
        }
        PeerEvent::Removed { by } => {
            if core.members.on_removed_by(by) && !core.published.removed.send_replace(true) {
                tracing::error!(peer = by.0, "removed from the cluster: a majority confirmed it");
            }
            Ok(())
        }
        PeerEvent::Damaged { .. } => count_damage(&core),
    })
}

/// The same for nodes of other regions: they may send only frames of the mesh's machine, and
/// messages about homes and shared documents.
pub(crate) fn deliver_from_regions(core: Arc<Core>) -> Deliver {
    let assembly = Mutex::new(FrameAssembler::default());
    Arc::new(move |event| match event {
        PeerEvent::Frames { from, frames } => on_region_frames(&core, &assembly, from, frames),
        PeerEvent::Lost { peer } => {
            core.mesh.actor.post(Input::Lost(peer));
            forget_pieces(&assembly, peer)
        }
        PeerEvent::Connected { peer } => {
            core.mesh.actor.post(Input::Connected(peer));
            Ok(())
        }
        PeerEvent::Removed { .. } => Ok(()),
        PeerEvent::Damaged { .. } => count_damage(&core),
    })
}

fn forget_pieces(assembly: &Mutex<FrameAssembler>, peer: NodeId) -> DeliverResult {
    assembly.lock().expect("no thread panics while it holds the pieces").forget(peer);
    Ok(())
}

fn count_damage(core: &Core) -> DeliverResult {
    core.metrics.refuse_frame("envelope");
    Ok(())
}

/// A frame that no correct peer sends is counted, and its stream is closed.
fn refuse(core: &Core, reason: &'static str) -> DeliverResult {
    core.metrics.frames_malformed.inc();
    core.metrics.refuse_frame(reason);
    Err(ForgedFrame(reason))
}

fn on_region_frames(
    core: &Core,
    assembly: &Mutex<FrameAssembler>,
    from: NodeId,
    frames: Vec<Bytes>,
) -> DeliverResult {
    // Its region may have been evicted a moment ago.
    let Some(region) = core.mesh.addresses.get().region_of(from) else { return Ok(()) };
    let bytes = frames.iter().map(Bytes::len).sum();
    let (mut envelopes, mut taken) = (Vec::new(), Ok(()));
    for frame in frames {
        let assembled = assembly.lock().expect("no thread panics while it holds the pieces").add(from, frame);
        match assembled {
            Assembled::Message(WireMessage::Envelope(envelope)) => envelopes.push(envelope),
            Assembled::Message(WireMessage::HomeMessage(message)) => {
                core.mesh.actor.post(Input::HomeMessage { region, message });
            }
            Assembled::Message(WireMessage::SharedDocuments(message)) => {
                core.mesh.actor.post(Input::DocumentMessage { region, message });
            }
            Assembled::Incomplete => {}
            Assembled::Unknown => drop(core.metrics.frames_malformed.inc()),
            Assembled::Message(_) | Assembled::Malformed => {
                taken = refuse(core, "region-malformed");
                break;
            }
        }
    }
    if !envelopes.is_empty() {
        core.mesh.actor.wait_for_space();
        core.mesh.actor.post_and_help(MeshMessage::RemoteFrames { region, from, envelopes, bytes });
    }
    taken
}

fn on_frames(core: &Core, from: NodeId, received: Vec<Bytes>) -> DeliverResult {
    let bytes = received.iter().map(Bytes::len).sum();
    let (mut frames, mut taken) = (Vec::with_capacity(received.len()), Ok(()));
    for frame in received {
        let is_known = Frame::is_known(&frame);
        match Frame::decode(frame) {
            Some(frame) => frames.push(frame),
            None if is_known => {
                taken = refuse(core, "malformed");
                break;
            }
            None => drop(core.metrics.frames_malformed.inc()),
        }
    }
    frames.retain_mut(|frame| match frame {
        // This needs no agreement.
        Frame::ClientUrl(url) => {
            core.members.set_client_url(from, std::mem::take(url));
            false
        }
        Frame::Members(members) => {
            if core.members.merge_table(members) {
                core.coord.consensus.post(ConsensusMessage::Others(core.members.others()));
            }
            false
        }
        _ => true,
    });
    // A snapshot's rows go on to the storage thread, which may be slower than the stream.
    if frames.iter().any(|frame| matches!(frame, Frame::Snapshot { part: SnapshotPart::Rows(_), .. })) {
        core.coord.storage.wait_for_space();
    }
    core.coord.consensus.wait_for_space();
    let confirms_reads = frames.iter().all(Frame::is_of_read_round);
    let message = ConsensusMessage::Frames { from, frames, bytes };
    // Six confirmations make a round: waking a thread for each would cost more than the round.
    let help = if confirms_reads { Help::Always } else { Help::UnderLightLoad };
    core.post_and_help(message, help);
    taken
}

/// Frames of the mesh wait for the mesh alone: raft's frames came before them in the envelope and are passed on.
fn on_mesh_frames(
    core: &Core,
    assembly: &Mutex<FrameAssembler>,
    from: NodeId,
    frames: Vec<Bytes>,
) -> DeliverResult {
    let bytes = frames.iter().map(Bytes::len).sum();
    let (mut envelopes, mut taken) = (Vec::with_capacity(frames.len()), Ok(()));
    for frame in frames {
        let assembled = assembly.lock().expect("no thread panics while it holds the pieces").add(from, frame);
        match assembled {
            Assembled::Message(WireMessage::Envelope(envelope)) => envelopes.push(envelope),
            Assembled::Message(WireMessage::NodeReport(report)) => {
                core.mesh.actor.post(Input::Report { from, report });
            }
            Assembled::Message(WireMessage::Document(document)) => {
                core.mesh.actor.post(MeshMessage::ReceivedDocument(document));
            }
            Assembled::Message(WireMessage::Held(held)) => {
                core.mesh.actor.post(Input::Held(held));
            }
            Assembled::Message(WireMessage::AskHomeLeases(asked)) => {
                core.mesh.actor.post(Input::AskHomeLeases { from, asked });
            }
            Assembled::Message(WireMessage::HomeLeases(asked, held)) => {
                core.mesh.actor.post(Input::HomeLeases(asked, held));
            }
            Assembled::Incomplete => {}
            Assembled::Unknown => drop(core.metrics.frames_malformed.inc()),
            Assembled::Message(WireMessage::HomeMessage(_) | WireMessage::SharedDocuments(_))
            | Assembled::Malformed => {
                taken = refuse(core, "mesh-malformed");
                break;
            }
        }
    }
    if !envelopes.is_empty() {
        core.mesh.actor.wait_for_space();
        core.mesh.actor.post_and_help(MeshMessage::Frames { from, envelopes, bytes });
    }
    taken
}
