//! Explains why a key has its value: the winning write, the writes included in it, and the writes that lost.
//! A record and the conflicts of its key go in; facts come out, and sentences for people.

use crate::actor::{Dot, RegionId};
use crate::conflict::{Conflict, ConflictRule};
use crate::hlc::Stamp;
use crate::key::Key;
use crate::record::{Body, Kind, Record};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    Live,
    Deleted,
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub shown: KeyState,
    pub kind: Kind,
    /// The greatest write: it gives the record its header, and a register its value.
    pub dot: Dot,
    pub stamp: Stamp,
    pub fence: u64,
    pub home: Option<RegionId>,
    /// How many writes of each region are included.
    pub included: Vec<(RegionId, u64)>,
    /// Values that stand side by side.
    pub n_siblings: usize,
    /// What it was preferred to, newest first, and by which rule.
    pub preferred_to: Vec<(Dot, Stamp, ConflictRule)>,
}

impl Explanation {
    /// `conflicts` may be of other keys too, in any order.
    pub fn of(record: &Record, key: &Key, conflicts: &[Conflict], wall_ms: u64) -> Explanation {
        let shown = if record.is_tombstone() {
            KeyState::Deleted
        } else if record.is_expired(wall_ms) {
            KeyState::Expired
        } else {
            KeyState::Live
        };
        let ours = conflicts.iter().filter(|conflict| conflict.key == *key);
        let mut preferred_to: Vec<(Dot, Stamp, ConflictRule)> = ours
            .map(|conflict| (conflict.loser.header.dot, conflict.loser.header.stamp, conflict.rule))
            .collect();
        preferred_to.sort_by_key(|(dot, stamp, _)| std::cmp::Reverse((*stamp, *dot)));
        preferred_to.dedup_by_key(|(dot, ..)| *dot);
        Explanation {
            shown,
            kind: record.kind,
            dot: record.header.dot,
            stamp: record.header.stamp,
            fence: record.header.token(),
            home: record.header.rare.as_ref().and_then(|rare| rare.home),
            included: record.context.by_region(),
            n_siblings: match &record.body {
                Body::Siblings(siblings) => siblings.values().len(),
                _ => 0,
            },
            preferred_to,
        }
    }

    /// The explanation, one sentence an item; `by` names the node that made a write, and its region.
    pub fn sentences(&self, by: impl Fn(&Dot) -> String) -> Vec<String> {
        let what = match self.shown {
            KeyState::Live => "shows",
            KeyState::Deleted => "is deleted, by",
            KeyState::Expired => "has expired after",
        };
        let mut said = vec![match self.kind {
            Kind::Register => format!("The key {what} write {} of {}.", self.dot.counter, by(&self.dot)),
            _ => format!(
                "Every write went into the state; the last is {} of {}.",
                self.dot.counter,
                by(&self.dot)
            ),
        }];
        if self.fence > 0 {
            said.push(format!("It was made under fencing token {}; lower ones lose.", self.fence));
        }
        if self.n_siblings > 1 {
            said.push(format!(
                "{} values that have not seen each other stand side by side.",
                self.n_siblings
            ));
        }
        for (dot, _, rule) in &self.preferred_to {
            said.push(format!("It was preferred to write {} of {}: {}.", dot.counter, by(dot), rule.name()));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Actor;
    use crate::op::{self, Attributes, Op, WriteEvent};
    use base::NodeId;
    use bytes::Bytes;

    fn put(node: u64, ms: u64) -> Record {
        let actor = Actor { region: RegionId(node as u32), node: NodeId(node), incarnation: 0 };
        let event = WriteEvent { dot: Dot { actor, counter: ms }, stamp: Stamp::at_ms(ms), wall_ms: ms };
        let op = Op::Put(Bytes::from_static(b"v"));
        op::apply(None, Kind::Register, &op, &Attributes::default(), event).unwrap().full
    }

    #[test]
    fn what_was_preferred_to_what_is_said_with_the_rule() {
        let (key, other) = (Key::new(0, b"k"), Key::new(0, b"other"));
        let (winner, loser) = (put(1, 20), put(2, 10));
        let conflict = |key: &Key| Conflict::new(key, &winner, &loser, RegionId(2), 99);
        let conflicts = [conflict(&key), conflict(&other), conflict(&key)];
        let why = Explanation::of(&winner, &key, &conflicts, 30);
        assert_eq!(why.preferred_to, [(loser.header.dot, loser.header.stamp, ConflictRule::LaterStamp)]);
        assert_eq!((why.shown, why.included.len()), (KeyState::Live, 1));
        let told = why.sentences(|dot| format!("n{} in eu", dot.actor.node.0));
        assert_eq!(
            told,
            [
                "The key shows write 20 of n1 in eu.",
                "It was preferred to write 10 of n2 in eu: last_write_wins.",
            ]
        );
    }
}
