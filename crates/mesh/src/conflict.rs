//! A last write that lost against one that had not seen it, kept so that people can look at it and bring it back.
//! Every replica that merges the two writes the same conflict under the same identity.

use crate::key::Key;
use crate::record::Record;
use crate::rows::{self, Row};
use base::checksum::hash64;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub key: Key,
    pub winner: Record,
    pub loser: Record,
    /// When this replica resolved it.
    pub at_ms: u64,
}

const VERSION: u8 = 1;

/// Where the conflict of two writes lies: by the winner's stamp, then by its identity, the same on every replica.
pub fn row_key(key: &Key, winner: &Record, loser: &Record) -> Bytes {
    let mut out = key.bytes().to_vec();
    winner.header.dot.encode(&mut out);
    loser.header.dot.encode(&mut out);
    rows::conflict(winner.header.stamp, hash64(&out, 0))
}

impl Conflict {
    pub fn row(&self) -> Row {
        Row { key: row_key(&self.key, &self.winner, &self.loser), value: Some(self.encode()) }
    }

    fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.at_ms);
        put_bytes(&mut out, self.key.bytes());
        put_bytes(&mut out, &self.winner.encode());
        put_bytes(&mut out, &self.loser.encode());
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
        reader.is_empty().then_some(Conflict { key, winner, loser, at_ms })
    }
}
