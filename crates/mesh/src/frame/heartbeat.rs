//! The heartbeat between regions: the sender's position, and how far the receiver's region has the sender's log.
//! It is sent every second, and at once when the position has moved. Health, lag, and whether this region has what a session
//! has seen follow from it.

use crate::actor::Actor;
use crate::hlc::Stamp;
use base::codec::{Reader, put_varint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionHeartbeat {
    pub actor: Actor,
    /// The sender's wall clock.
    pub at_ms: u64,
    /// Everything of the sender's log up to here is on a quorum of every key's replicas in the receiver's region.
    pub position: u64,
    /// The end of its log.
    pub last: u64,
    /// The stamp of the first entry that is not there yet; zero if all are.
    pub waiting: Stamp,
    /// Over everything that the sender holds.
    pub digest: u64,
}

impl RegionHeartbeat {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let RegionHeartbeat { actor, at_ms, position, last, waiting, digest } = self;
        actor.encode(out);
        [*at_ms, *position, *last, waiting.0, *digest].into_iter().for_each(|n| put_varint(out, n));
    }

    pub fn decode(reader: &mut Reader) -> Option<RegionHeartbeat> {
        Some(RegionHeartbeat {
            actor: Actor::decode(reader)?,
            at_ms: reader.varint()?,
            position: reader.varint()?,
            last: reader.varint()?,
            waiting: Stamp(reader.varint()?),
            digest: reader.varint()?,
        })
    }
}
