//! Actors and dots.
//! An actor is one incarnation of a node of a region: a node that lost its disk is another actor, so that no dot is ever
//! assigned twice. A dot identifies one write for ever.

use base::NodeId;
use base::checksum::hash64;
use base::codec::{Reader, put_varint};

/// A region, by the hash of its name, so that regions agree on it without asking each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl RegionId {
    pub fn of(name: &str) -> RegionId {
        RegionId(hash64(name.as_bytes(), 0) as u32)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    pub region: RegionId,
    pub node: NodeId,
    /// Another at every start on an empty disk.
    pub incarnation: u32,
}

/// One write: the actor that gave it its name, and a number of that actor's own counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dot {
    pub actor: Actor,
    pub counter: u64,
}

impl Actor {
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.region.0));
        put_varint(out, self.node.0);
        put_varint(out, u64::from(self.incarnation));
    }

    pub fn decode(reader: &mut Reader) -> Option<Actor> {
        let region = RegionId(u32::try_from(reader.varint()?).ok()?);
        let node = NodeId(reader.varint()?);
        Some(Actor { region, node, incarnation: u32::try_from(reader.varint()?).ok()? })
    }
}

impl Dot {
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.actor.encode(out);
        put_varint(out, self.counter);
    }

    /// Counting begins at one.
    pub fn decode(reader: &mut Reader) -> Option<Dot> {
        let actor = Actor::decode(reader)?;
        Some(Dot { actor, counter: reader.varint().filter(|counter| *counter > 0)? })
    }
}
