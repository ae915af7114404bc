//! The queue of a lock as it lies in the keys: everything below `name/`, in the order of creation. A name and the
//! state go in; the holder of the lock and the number of places ahead come out. Nothing is kept beside the keys, so a
//! lock that plain puts and deletes take part in is the same lock.

use crate::draft::{Draft, ReadAt};
use crate::reply::LockHolder;
use crate::state::State;
use base::{KeyRange, LeaseId, Revision};
use bytes::Bytes;

/// The place of a lease in the queue of a lock, spelt as etcd spells it.
pub fn key_of(name: &[u8], lease: LeaseId) -> Bytes {
    let mut key = name.to_vec();
    key.push(b'/');
    key.extend_from_slice(format!("{:x}", lease.0).as_bytes());
    Bytes::from(key)
}

/// The lock in whose queue a key stands first of all: its name up to the last slash.
pub fn lock_of(key: &Bytes) -> Option<Bytes> {
    let slash = key.iter().rposition(|byte| *byte == b'/')?;
    Some(key.slice(..slash))
}

/// Every lock in whose queue a key stands: `a/b/c` waits for `a/b`, and as in etcd for `a` too.
pub fn locks_of(key: &Bytes) -> impl Iterator<Item = Bytes> {
    let slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| key.slice(..at))
}

/// All places in the queue of a lock.
pub fn keys_of(name: &[u8]) -> KeyRange {
    let mut prefix = name.to_vec();
    prefix.push(b'/');
    let end = base::key_range::prefix_end(&prefix);
    KeyRange::from_wire(Bytes::from(prefix), end)
}

/// The position of one place in a queue.
pub(crate) struct QueuePosition {
    pub ahead: u64,
    pub holder: Option<LockHolder>,
}

/// The holder of the lock, and the number of places created before `token`. As everywhere in a queue, keys of one
/// revision stand in key order.
pub(crate) fn queue_position(draft: &Draft<'_>, name: &[u8], token: Revision) -> QueuePosition {
    let keys = keys_of(name);
    let mut ahead = 0;
    let places =
        draft.versions(&keys, ReadAt::Now).inspect(|(_, place)| ahead += u64::from(place.create < token));
    let holder = first(places.map(|(key, place)| (key, place.create)));
    QueuePosition { ahead, holder }
}

fn first<'k>(places: impl Iterator<Item = (&'k [u8], Revision)>) -> Option<LockHolder> {
    let (key, token) = places.min_by_key(|(_, token)| *token)?;
    Some(LockHolder { key: Bytes::copy_from_slice(key), token })
}

/// The token that holds a lock; zero when it is free.
pub(crate) fn holding_token(draft: &Draft<'_>, name: &[u8]) -> Revision {
    queue_position(draft, name, Revision::ZERO).holder.map_or(Revision::ZERO, |holder| holder.token)
}

impl State {
    /// The holder of a lock.
    pub fn lock_holder(&self, name: &[u8]) -> Option<LockHolder> {
        first(self.index.iter(&keys_of(name)).map(|(key, current)| (key, current.create)))
    }

    /// When a live key was created.
    pub fn created(&self, key: &[u8]) -> Option<Revision> {
        self.index.current(key).map(|current| current.create)
    }
}
