//! A session token: what a client has seen, so that no region shows it less. For each node whose writes the client read or
//! made it holds the position in that node's log and the stamp. A region has it when the log is applied up to the position,
//! or when everything up to the stamp is known to be on every replica of the key. Clients treat the bytes as opaque; a
//! checksum guards them.

use crate::actor::{Actor, RegionId};
use crate::hlc::Stamp;
use crate::record::Record;
use crate::sealed::{seal, unseal};
use base::codec::put_varint;
use bytes::Bytes;

const VERSION: u8 = 1;
const ACTORS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenPosition {
    /// In the log of the node.
    pub position: u64,
    pub stamp: Stamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// By actor.
    seen: Vec<(Actor, SeenPosition)>,
}

impl Session {
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    pub fn seen(&self) -> &[(Actor, SeenPosition)] {
        &self.seen
    }

    /// Takes note of a record that was read or written: of its greatest write, and of everything that went into it
    /// if it is made of several.
    pub fn observe(&mut self, record: &Record) {
        let stamp = record.header.stamp;
        let dot = record.header.dot;
        self.note(dot.actor, SeenPosition { position: dot.counter, stamp });
        if !record.kind.is_last_write_wins() {
            for (actor, span) in record.context.spans() {
                self.note(*actor, SeenPosition { position: span.upto, stamp });
            }
        }
    }

    fn note(&mut self, actor: Actor, seen: SeenPosition) {
        match self.seen.binary_search_by_key(&actor, |(other, _)| *other) {
            Ok(at) => {
                let known = &mut self.seen[at].1;
                known.position = known.position.max(seen.position);
                known.stamp = known.stamp.max(seen.stamp);
            }
            Err(at) => self.seen.insert(at, (actor, seen)),
        }
    }

    pub fn join(&mut self, other: &Session) {
        other.seen.iter().for_each(|(actor, seen)| self.note(*actor, *seen));
    }

    /// What this session writes comes after it.
    pub fn latest(&self) -> Stamp {
        self.seen.iter().map(|(_, seen)| seen.stamp).max().unwrap_or_default()
    }

    /// The first region of which something is missing, as `has` tells.
    pub fn missing_region(
        &self,
        here: RegionId,
        has: impl Fn(Actor, SeenPosition) -> bool,
    ) -> Option<RegionId> {
        let lacks = |(actor, seen): &&(Actor, SeenPosition)| actor.region != here && !has(*actor, *seen);
        self.seen.iter().find(lacks).map(|(actor, _)| actor.region)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.seen.len() as u64);
        for (actor, seen) in &self.seen {
            actor.encode(&mut out);
            put_varint(&mut out, seen.position);
            put_varint(&mut out, seen.stamp.0);
        }
        seal(out)
    }

    pub fn decode(bytes: Bytes) -> Option<Session> {
        let mut reader = unseal(&bytes, VERSION)?;
        let mut session = Session::default();
        for _ in 0..Some(reader.count()?).filter(|count| *count <= ACTORS_MAX)? {
            let actor = Actor::decode(&mut reader)?;
            session.note(actor, SeenPosition { position: reader.varint()?, stamp: Stamp(reader.varint()?) });
        }
        reader.is_empty().then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;

    fn actor(region: u32, node: u64) -> Actor {
        Actor { region: RegionId(region), node: NodeId(node), incarnation: 0 }
    }

    #[test]
    fn a_token_survives_a_round_trip_and_a_forged_one_is_refused() {
        let mut session = Session::default();
        session.note(actor(1, 2), SeenPosition { position: 70_000, stamp: Stamp(9) });
        session.note(actor(0, 5), SeenPosition { position: 3, stamp: Stamp(8) });
        let bytes = session.encode();
        assert_eq!(Session::decode(bytes.clone()), Some(session.clone()));
        for at in 0..bytes.len() {
            let mut forged = bytes.to_vec();
            forged[at] ^= 1;
            assert_eq!(Session::decode(forged.into()), None);
            assert_eq!(Session::decode(bytes.slice(..at)), None);
        }
        assert_eq!(session.latest(), Stamp(9));
    }

    #[test]
    fn what_was_seen_only_grows_and_this_region_needs_no_waiting() {
        let mut session = Session::default();
        session.note(actor(1, 2), SeenPosition { position: 7, stamp: Stamp(9) });
        session.note(actor(1, 2), SeenPosition { position: 5, stamp: Stamp(4) });
        assert_eq!(session.seen(), [(actor(1, 2), SeenPosition { position: 7, stamp: Stamp(9) })]);
        assert_eq!(session.missing_region(RegionId(1), |_, _| false), None);
        assert_eq!(session.missing_region(RegionId(2), |_, _| false), Some(RegionId(1)));
        assert_eq!(session.missing_region(RegionId(2), |_, seen| seen.position <= 7), None);
    }
}
