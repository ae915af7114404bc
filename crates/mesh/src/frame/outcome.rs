//! How a write began, why a record is sent, and what a replica made of it.

use crate::hlc::Stamp;
use base::codec::{Reader, put_varint};

/// How a write began, at the node that its client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOrigin {
    pub stamp: Stamp,
    /// How long its client still waited when this was sent.
    pub remaining_ms: u64,
    pub check: StampCheck,
    /// The name of a write that has no request id and may be passed on to several replicas.
    pub operation: Option<u64>,
}

/// Which replicas have compared the stamp of a write with what they have. The stamp that follows is later than all of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StampCheck {
    #[default]
    None = 0,
    Replica = 1,
    /// What was acknowledged or shown before the write began is among it. What is later still is concurrent.
    Quorum = 2,
}

impl StampCheck {
    pub fn from_number(number: u8) -> Option<StampCheck> {
        [StampCheck::None, StampCheck::Replica, StampCheck::Quorum].get(usize::from(number)).copied()
    }
}

/// Why a record is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreReason {
    /// A client waits, and a fence that was passed must be told.
    Write,
    /// To bring a replica up to date.
    Repair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Durable, and this is what shows.
    Applied,
    /// Durable, but something with this stamp, which it has not seen, shows instead.
    Superseded(Stamp),
    /// Refused: written under a fence that was passed.
    Fenced,
    /// Refused: the key was deleted so long ago that every replica has forgotten the tombstone.
    Purged,
    /// Refused: the key was created as another kind, which goes before this one.
    WrongType,
    /// Refused: the key is decided by ballots, so that a plain write would be lost.
    KeyDecided,
    /// Durable, but the replica has forgotten what it acknowledged before and does not have it back yet. It cannot tell
    /// whether something later was acknowledged, so this does not count as an acknowledgement.
    Refilling,
}

impl StoreOutcome {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (number, stamp) = match self {
            StoreOutcome::Applied => (0, Stamp::ZERO),
            StoreOutcome::Superseded(stamp) => (1, *stamp),
            StoreOutcome::Fenced => (2, Stamp::ZERO),
            StoreOutcome::Purged => (3, Stamp::ZERO),
            StoreOutcome::WrongType => (4, Stamp::ZERO),
            StoreOutcome::KeyDecided => (5, Stamp::ZERO),
            StoreOutcome::Refilling => (6, Stamp::ZERO),
        };
        out.push(number);
        put_varint(out, stamp.0);
    }

    pub fn decode(reader: &mut Reader) -> Option<StoreOutcome> {
        let (number, stamp) = (reader.u8()?, Stamp(reader.varint()?));
        Some(match number {
            0 => StoreOutcome::Applied,
            1 => StoreOutcome::Superseded(stamp),
            2 => StoreOutcome::Fenced,
            3 => StoreOutcome::Purged,
            4 => StoreOutcome::WrongType,
            5 => StoreOutcome::KeyDecided,
            6 => StoreOutcome::Refilling,
            _ => return None,
        })
    }
}
