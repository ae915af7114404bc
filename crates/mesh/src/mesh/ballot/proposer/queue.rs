//! Changes of one key by this node wait for each other: one is under way at a time.

use crate::frame::OpId;
use crate::key::Key;
use crate::mesh::{Mesh, Turn};

impl Mesh {
    /// The change is over; the next one of the key begins.
    pub(super) fn start_next_in_queue(&mut self, t: &mut Turn<'_>, key: &Key, id: OpId) {
        let Some(queue) = self.ballots.queues.get_mut(key) else { return };
        let was_first = queue.front() == Some(&id);
        queue.retain(|other| *other != id);
        let next = queue.front().copied();
        if next.is_none() {
            self.ballots.queues.remove(key);
        }
        self.ballots.ready.extend(next.filter(|_| was_first));
        self.start_ready(t);
    }

    /// One after the other and not one within the other: many may be waiting that end as soon as they begin.
    pub(super) fn start_ready(&mut self, t: &mut Turn<'_>) {
        if std::mem::replace(&mut self.ballots.is_beginning, true) {
            return;
        }
        while let Some(id) = self.ballots.ready.pop_front() {
            self.propose(t, id);
        }
        self.ballots.is_beginning = false;
    }
}
