//! What replicas vouch for, in frames: writers with their stamps. A whole region travels as an actor of it without a node,
//! which no node is: numbers of nodes begin at one.

use super::{StampVector, Writer};
use crate::actor::Actor;
use crate::hlc::Stamp;
use base::NodeId;
use base::codec::{Reader, put_varint};

const NO_NODE: NodeId = NodeId(0);

/// Writers that a shard is said to know.
const KNOWN_MAX: usize = 1_024;

pub(super) fn put_known(out: &mut Vec<u8>, known: &StampVector) {
    put_varint(out, known.len() as u64);
    for (writer, stamp) in known {
        match writer {
            Writer::Actor(actor) => actor.encode(out),
            Writer::Region(region) => {
                Actor { region: *region, node: NO_NODE, incarnation: 0 }.encode(out);
            }
        }
        put_varint(out, stamp.0);
    }
}

pub(super) fn known(reader: &mut Reader) -> Option<StampVector> {
    let writer = |actor: Actor| match actor {
        Actor { region, node: NO_NODE, incarnation: 0 } => Writer::Region(region),
        actor => Writer::Actor(actor),
    };
    let entry = |reader: &mut Reader| Some((writer(Actor::decode(reader)?), Stamp(reader.varint()?)));
    let count = Some(reader.count()?).filter(|count| *count <= KNOWN_MAX)?;
    (0..count).map(|_| entry(reader)).collect()
}
