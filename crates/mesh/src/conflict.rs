//! A write that lost against one that had not seen it, kept so that a person can inspect and restore it.
//! Every replica that merges the two records the same conflict under the same id. Both sides are kept as they were before
//! the merge, so that their clocks show how the conflict arose.

#[cfg(test)]
mod tests;

use crate::actor::RegionId;
use crate::key::Key;
use crate::op::{Attributes, Op};
use crate::record::{Body, Record};
use crate::request::Write;
use crate::rows::{self, Row};
use base::Code;
use base::checksum::hash64;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

const VERSION: u8 = 1;

/// What decided, in the order in which it is asked. The number is part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConflictRule {
    /// The key was deleted and created again as another kind of thing.
    Era = 0,
    /// Created as two kinds of thing at once: one kind goes before the other.
    Kind = 1,
    /// The later fencing token.
    Fence = 2,
    LaterStamp = 3,
    /// At the same stamp, the larger actor.
    Actor = 4,
    /// The same actor has written twice at one stamp: the larger hash.
    Bytes = 5,
    /// The key is decided by ballots, and the loser was none, or one of an earlier home.
    Ballot = 6,
    /// Custom values that the winner could not be merged with, and replaced.
    Replaced = 7,
}

/// Which conflicts a list begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConflictOrder {
    #[default]
    Oldest,
    /// Nodes of 0.1.0 do not know it.
    Newest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub key: Key,
    pub winner: Record,
    pub loser: Record,
    pub rule: ConflictRule,
    /// The region whose write met the other here.
    pub source: RegionId,
    /// When this replica resolved it.
    pub at_ms: u64,
}

impl ConflictRule {
    pub const ALL: [ConflictRule; 8] = [
        ConflictRule::Era,
        ConflictRule::Kind,
        ConflictRule::Fence,
        ConflictRule::LaterStamp,
        ConflictRule::Actor,
        ConflictRule::Bytes,
        ConflictRule::Ballot,
        ConflictRule::Replaced,
    ];

    /// Why the first of two goes before the second.
    pub fn between(winner: &Record, loser: &Record) -> ConflictRule {
        if winner.ballot() != loser.ballot() {
            ConflictRule::Ballot
        } else if winner.era != loser.era {
            ConflictRule::Era
        } else if winner.kind != loser.kind {
            ConflictRule::Kind
        } else if winner.header.replaces_apart() {
            ConflictRule::Replaced
        } else if winner.header.token() != loser.header.token() {
            ConflictRule::Fence
        } else if winner.header.stamp != loser.header.stamp {
            ConflictRule::LaterStamp
        } else if winner.header.dot.actor != loser.header.dot.actor {
            ConflictRule::Actor
        } else {
            ConflictRule::Bytes
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ConflictRule::Era => "recreated",
            ConflictRule::Kind => "type_precedence",
            ConflictRule::Fence => "fencing_token",
            ConflictRule::LaterStamp => "last_write_wins",
            ConflictRule::Actor => "last_write_wins_by_node",
            ConflictRule::Bytes => "last_write_wins_by_hash",
            ConflictRule::Ballot => "decided_by_ballot",
            ConflictRule::Replaced => "replaced_unmerged",
        }
    }
}

/// Where the conflict of two writes lies: by the winner's stamp, then by its identity, the same on every replica.
pub fn row_key(key: &Key, winner: &Record, loser: &Record) -> Bytes {
    rows::conflict(winner.header.stamp, id(key, winner, loser))
}

fn id(key: &Key, winner: &Record, loser: &Record) -> u64 {
    let mut out = key.bytes().to_vec();
    winner.header.dot.encode(&mut out);
    loser.header.dot.encode(&mut out);
    hash64(&out, 0)
}

impl Conflict {
    pub fn new(key: &Key, winner: &Record, loser: &Record, source: RegionId, at_ms: u64) -> Conflict {
        let (key, winner, loser) = (key.clone(), winner.clone(), loser.clone());
        let rule = ConflictRule::between(&winner, &loser);
        Conflict { key, winner, loser, rule, source, at_ms }
    }

    pub fn id(&self) -> u64 {
        id(&self.key, &self.winner, &self.loser)
    }

    /// Where it lies among all conflicts; those after it come later.
    pub fn cursor(&self) -> Bytes {
        row_key(&self.key, &self.winner, &self.loser)
    }

    pub fn row(&self) -> Row {
        Row { key: self.cursor(), value: Some(self.encode()) }
    }

    /// The write that puts the loser back, over what won and all that was seen of both.
    pub fn restore(&self) -> Result<Write, Code> {
        let op = match (&self.loser.body, self.loser.header.tombstone) {
            (_, true) => Op::Delete,
            (Body::Register(value), _) => Op::Put(value.clone()),
            // It is not one value, and its key is something else now.
            _ => return Err(Code::WrongType),
        };
        if self.winner.kind != self.loser.kind {
            return Err(Code::WrongType);
        }
        let mut context = self.winner.context.clone();
        context.join(&self.loser.context);
        let rare = self.loser.header.rare.as_deref().cloned().unwrap_or_default();
        let attributes = Attributes {
            context: Some(context),
            expires_ms: self.loser.header.expires_ms,
            home: rare.home,
            metadata: rare.metadata,
            schema: rare.schema,
            after: self.winner.header.stamp,
            ..Attributes::default()
        };
        let (key, kind) = (self.key.clone(), self.loser.kind);
        Ok(Write { key, kind, op, attributes, expect: None, w: None, sloppy: false })
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.at_ms);
        put_bytes(&mut out, self.key.bytes());
        put_bytes(&mut out, &self.winner.encode());
        put_bytes(&mut out, &self.loser.encode());
        out.push(self.rule as u8);
        put_varint(&mut out, u64::from(self.source.0));
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Conflict> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let at_ms = reader.varint()?;
        let key = Key::from_bytes(reader.bytes()?)?;
        let (winner, loser) = (Record::decode(reader.bytes()?)?, Record::decode(reader.bytes()?)?);
        let number = reader.u8()?;
        let rule = ConflictRule::ALL.into_iter().find(|rule| *rule as u8 == number)?;
        let source = RegionId(u32::try_from(reader.varint()?).ok()?);
        reader.is_empty().then_some(Conflict { key, winner, loser, rule, source, at_ms })
    }
}
