//! Decides which changes of a peer's two streams are reported, in the order in which they happened.
//! Streams report that they are up and that they broke; `Connected` and `Lost` events come out.
//! A dying process breaks both streams, but its loss is reported once: a stream that was up before the last reported
//! loss belongs to that loss.

use super::{Deliver, PeerEvent, PeerShared};
use base::NodeId;
use std::sync::{Mutex, MutexGuard};

pub(super) struct Link {
    peer: NodeId,
    /// Losses reported so far. Held while an event is delivered, which keeps the events in order.
    losses: Mutex<u64>,
}

/// The losses that had been reported when a stream came up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct UpSince(u64);

impl Link {
    pub fn new(peer: NodeId) -> Link {
        Link { peer, losses: Mutex::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.losses.lock().expect("deliver does not panic")
    }

    /// The peer's stream to us is up.
    pub fn accepted(&self) -> UpSince {
        UpSince(*self.lock())
    }

    /// Our stream to the peer is up.
    pub fn dialled(&self, deliver: &Deliver) -> UpSince {
        let losses = self.lock();
        let _ = deliver(PeerEvent::Connected { peer: self.peer });
        UpSince(*losses)
    }

    /// One of the streams broke by itself.
    pub fn broke(&self, shared: &PeerShared, deliver: &Deliver, since: UpSince) {
        let mut losses = self.lock();
        if since == UpSince(*losses) && !shared.stopping() {
            *losses += 1;
            let _ = deliver(PeerEvent::Lost { peer: self.peer });
        }
    }
}
