//! Changes of one key by this node wait for each other: one is under way at a time.

use crate::frame::OpId;
use crate::key::Key;
use crate::mesh::{Mesh, Turn};

impl Mesh {
    /// The change is over; the next one of the key begins.
    pub(super) fn start_next_in_queue(&mut self, t: &mut Turn<'_>, key: &Key, id: OpId) {
        let Some(queue) = self.coordinator.proposals.queues.get_mut(key) else { return };
        let was_first = queue.front() == Some(&id);
        queue.retain(|other| *other != id);
        let next = queue.front().copied();
        if next.is_none() {
            self.coordinator.proposals.queues.remove(key);
        }
        self.coordinator.proposals.ready.extend(next.filter(|_| was_first));
        self.start_ready(t);
    }

    /// Starts the proposals that are ready, in a loop and not recursively: many may end as soon as they begin.
    pub(super) fn start_ready(&mut self, t: &mut Turn<'_>) {
        if std::mem::replace(&mut self.coordinator.proposals.is_beginning, true) {
            return;
        }
        while let Some(id) = self.coordinator.proposals.ready.pop_front() {
            self.propose(t, id);
        }
        self.coordinator.proposals.is_beginning = false;
    }
}
