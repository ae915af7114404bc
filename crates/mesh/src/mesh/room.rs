//! What a node does while its disk has no room: it takes in nothing that grows, neither from its clients nor from its
//! peers, and says so, as a replica that is away does not. Deletes pass always, and so does all that is read. What it
//! misses comes to it by hints and by comparison, once there is room again.

use super::{Mesh, Note, Turn};
use crate::op::Op;
use crate::record::Record;
use crate::request::Write;
use crate::room::Room;
use base::mutant::{Mutant, planted};

/// What a node that had no room must have room for before it says that all is well.
const AGAIN_BYTES: u64 = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Rooming {
    /// Unlimited until something was measured.
    room: Option<Room>,
    /// Bytes of rows in the flush that is under way.
    pub flushing_bytes: u64,
    /// Something was refused, and there was no room since.
    full: bool,
}

impl Mesh {
    pub(super) fn step_room(&mut self, t: &mut Turn<'_>, room: Room) {
        self.rooming.room = Some(room);
        if self.rooming.full && self.has_room_for(AGAIN_BYTES) {
            self.rooming.full = false;
            t.out.notes.push(Note::RoomAgain);
        }
    }

    /// Something was refused for lack of room, and there was none since.
    pub fn is_full(&self) -> bool {
        self.rooming.full
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        let under_way = self.unflushed_bytes + self.rooming.flushing_bytes;
        self.has_room_beside(under_way.saturating_add(bytes))
    }

    fn has_room_beside(&self, under_way_bytes: u64) -> bool {
        // Until all rows were counted the store's file counts as full.
        let stored = self.shards.stored_bytes().unwrap_or(u64::MAX);
        let holds = |room: &Room| room.holds(under_way_bytes, stored, self.params.low_bytes);
        self.rooming.room.as_ref().is_none_or(holds)
    }

    /// Whether a client's write may be begun here.
    pub(super) fn may_begin(&mut self, t: &mut Turn<'_>, write: &Write) -> bool {
        let grown = match &write.op {
            Op::Delete | Op::Remove(_) => return true,
            Op::Put(bytes) | Op::Insert(bytes) => bytes.len(),
            Op::Add(_) | Op::Assign(_) => size_of::<i128>(),
        };
        self.admit(t, grown + write.key.bytes().len())
    }

    /// Whether a record of somebody else's may be taken in, in the place of one of so many bytes.
    pub(super) fn may_take(&mut self, t: &mut Turn<'_>, record: &Record, bytes: usize, here: usize) -> bool {
        let shrinks = !record.kind.is_last_write_wins() && bytes <= here;
        record.is_tombstone() || shrinks || self.admit(t, bytes)
    }

    fn admit(&mut self, t: &mut Turn<'_>, bytes: usize) -> bool {
        if planted(Mutant::RoomIgnored) || self.has_room_for(bytes as u64) {
            return true;
        }
        if self.has_room_beside(bytes as u64) {
            // Only what waits for the store is in the way.
            self.flush_due = true;
        }
        if !std::mem::replace(&mut self.rooming.full, true) {
            t.out.notes.push(Note::NoRoom);
        }
        false
    }
}
