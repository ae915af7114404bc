//! Changes of one key by this node wait for each other: one is under way at a time.

use crate::frame::Ask;
use crate::key::Key;
use crate::mesh::{Mesh, Turn};

impl Mesh {
    /// The change is over; the next one of the key begins.
    pub(super) fn next_in_queue(&mut self, t: &mut Turn<'_>, key: &Key, ask: Ask) {
        let Some(queue) = self.ballots.queues.get_mut(key) else { return };
        let was_first = queue.front() == Some(&ask);
        queue.retain(|other| *other != ask);
        let next = queue.front().copied();
        if next.is_none() {
            self.ballots.queues.remove(key);
        }
        self.ballots.ready.extend(next.filter(|_| was_first));
        self.begin_ready(t);
    }

    /// One after the other and not one within the other: many may be waiting that end as soon as they begin.
    pub(super) fn begin_ready(&mut self, t: &mut Turn<'_>) {
        if std::mem::replace(&mut self.ballots.is_beginning, true) {
            return;
        }
        while let Some(ask) = self.ballots.ready.pop_front() {
            self.propose(t, ask);
        }
        self.ballots.is_beginning = false;
    }
}
