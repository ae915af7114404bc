//! Frames between the consensus thread and the peer streams: encoded and grouped by peer on the way out,
//! decoded on the readers' threads on the way in. A frame that is malformed is counted and closes its stream; one of a
//! kind that this release does not know is counted and dropped, for a later release may send it.

use crate::consensus::Mail;
use crate::core::Core;
use crate::mesh::node::Mail as MeshMail;
use crate::mesh::wire::{self, Assembled, Assembly, Message};
use crate::peer::{Deliver, Event, Forged, Peers};
use base::NodeId;
use bytes::Bytes;
use node::{Frame, Input, Part};
use std::sync::{Arc, Mutex};

/// What one turn sends, by peer: one call to the transport for each.
#[derive(Default)]
pub(crate) struct Outgoing {
    by_peer: Vec<(NodeId, Vec<Bytes>)>,
}

impl Outgoing {
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
type Taken = Result<(), Forged>;

/// Posts the transport's events to the consensus queue, and blocks the stream while that is full.
pub(crate) fn incoming(core: Arc<Core>) -> Deliver {
    let assembly = Mutex::new(Assembly::default());
    Arc::new(move |event| match event {
        Event::Frames { from, mut frames } => {
            let of_the_mesh: Vec<Bytes> =
                frames.extract_if(.., |frame| wire::is_of_the_mesh(frame)).collect();
            let of_raft = if frames.is_empty() { Ok(()) } else { on_frames(&core, from, frames) };
            if of_the_mesh.is_empty() {
                return of_raft;
            }
            of_raft.and(on_mesh_frames(&core, &assembly, from, of_the_mesh))
        }
        Event::Connected { peer } => {
            core.consensus.queue.push(Mail::Connected(peer));
            core.mesh.seat.queue.push(MeshMail::Connected(peer));
            Ok(())
        }
        Event::Lost { peer } => {
            core.report(Input::Lost(peer));
            core.mesh.seat.queue.push(MeshMail::Lost(peer));
            forget_pieces(&assembly, peer)
        }
        Event::Removed { by } => {
            if core.members.turned_away(by) && !core.removed.send_replace(true) {
                tracing::error!(peer = by.0, "removed from the cluster, says a majority");
            }
            Ok(())
        }
        Event::Damaged { .. } => count_damage(&core),
    })
}

/// The same for nodes of other regions: they may send only frames of the mesh's machine, and
/// messages about homes and shared documents.
pub(crate) fn incoming_abroad(core: Arc<Core>) -> Deliver {
    let assembly = Mutex::new(Assembly::default());
    Arc::new(move |event| match event {
        Event::Frames { from, frames } => on_frames_abroad(&core, &assembly, from, frames),
        Event::Lost { peer } => {
            core.mesh.seat.queue.push(MeshMail::Lost(peer));
            forget_pieces(&assembly, peer)
        }
        Event::Connected { peer } => {
            core.mesh.seat.queue.push(MeshMail::Connected(peer));
            Ok(())
        }
        Event::Removed { .. } => Ok(()),
        Event::Damaged { .. } => count_damage(&core),
    })
}

fn forget_pieces(assembly: &Mutex<Assembly>, peer: NodeId) -> Taken {
    assembly.lock().expect("no thread panics while it holds the pieces").forget(peer);
    Ok(())
}

fn count_damage(core: &Core) -> Taken {
    core.metrics.refuse_frame("envelope");
    Ok(())
}

/// A frame that no correct peer sends is counted, and its stream is closed.
fn refuse(core: &Core, reason: &'static str) -> Taken {
    core.metrics.frames_malformed.inc();
    core.metrics.refuse_frame(reason);
    Err(Forged(reason))
}

fn on_frames_abroad(core: &Core, assembly: &Mutex<Assembly>, from: NodeId, frames: Vec<Bytes>) -> Taken {
    // Its region may have been evicted a moment ago.
    let Some(region) = core.mesh.addresses.get().region_of(from) else { return Ok(()) };
    let bytes = frames.iter().map(Bytes::len).sum();
    let (mut envelopes, mut taken) = (Vec::new(), Ok(()));
    for frame in frames {
        let assembled = assembly.lock().expect("no thread panics while it holds the pieces").add(from, frame);
        match assembled {
            Assembled::Message(Message::Envelope(envelope)) => envelopes.push(envelope),
            Assembled::Message(Message::Word(word)) => {
                core.mesh.seat.queue.push(MeshMail::Word { region, word });
            }
            Assembled::Message(Message::SharedDocuments(message)) => {
                core.mesh.seat.queue.push(MeshMail::SharedDocuments { region, message });
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
        core.mesh.seat.queue.wait_for_room();
        core.mesh.tell(MeshMail::Abroad { region, from, envelopes }, bytes);
    }
    taken
}

fn on_frames(core: &Core, from: NodeId, received: Vec<Bytes>) -> Taken {
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
            core.members.learn(from, std::mem::take(url));
            false
        }
        Frame::Members(members) => {
            if core.members.hear(members) {
                core.consensus.queue.push(Mail::Others(core.members.others()));
            }
            false
        }
        _ => true,
    });
    // A snapshot's rows go on to the storage thread, which may be slower than the stream.
    if frames.iter().any(|frame| matches!(frame, Frame::Snapshot { part: Part::Rows(_), .. })) {
        core.storage.wait_for_room();
    }
    core.consensus.queue.wait_for_room();
    core.consult(Mail::Frames { from, frames }, bytes);
    taken
}

/// Frames of the mesh wait for the mesh alone: raft's frames came before them in the envelope and are passed on.
fn on_mesh_frames(core: &Core, assembly: &Mutex<Assembly>, from: NodeId, frames: Vec<Bytes>) -> Taken {
    let bytes = frames.iter().map(Bytes::len).sum();
    let (mut envelopes, mut taken) = (Vec::with_capacity(frames.len()), Ok(()));
    for frame in frames {
        let assembled = assembly.lock().expect("no thread panics while it holds the pieces").add(from, frame);
        match assembled {
            Assembled::Message(Message::Envelope(envelope)) => envelopes.push(envelope),
            Assembled::Message(Message::Tidings(tidings)) => {
                core.mesh.seat.queue.push(MeshMail::Tidings { from, tidings });
            }
            Assembled::Message(Message::Document(document)) => {
                core.mesh.seat.queue.push(MeshMail::Told(document));
            }
            Assembled::Message(Message::Held(held)) => {
                core.mesh.seat.queue.push(MeshMail::Held(held));
            }
            Assembled::Message(Message::AskTenures(asked)) => {
                core.mesh.seat.queue.push(MeshMail::AskTenures { from, asked });
            }
            Assembled::Message(Message::Tenures(asked, held)) => {
                core.mesh.seat.queue.push(MeshMail::Tenures(asked, held));
            }
            Assembled::Incomplete => {}
            Assembled::Unknown => drop(core.metrics.frames_malformed.inc()),
            Assembled::Message(Message::Word(_) | Message::SharedDocuments(_)) | Assembled::Malformed => {
                taken = refuse(core, "mesh-malformed");
                break;
            }
        }
    }
    if !envelopes.is_empty() {
        core.mesh.seat.queue.wait_for_room();
        core.mesh.tell(MeshMail::Frames { from, envelopes }, bytes);
    }
    taken
}
