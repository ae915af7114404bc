//! The head of a backup of 0.1.0: what it is, whose, when it was taken, where the state stood, how long it is.
//! It has a fixed length and a checksum of its own, so it can be believed before anything else is read.

use super::{BackupError, BackupOrigin};
use base::codec::Reader;
use base::{ClusterId, Index, NodeId, Position, Revision, Term, checksum};
use bytes::Bytes;
use coord::rows::Meta;

pub(super) const MAGIC: &[u8; 7] = b"ALTHBAK";
const VERSION: u8 = 1;

/// Magic and version, ten numbers, checksum.
pub(super) const BYTES: u64 = 8 + 10 * 8 + 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub taken: BackupOrigin,
    /// Missing when nothing had been written yet.
    pub meta: Option<Meta>,
    pub chunks: u64,
    /// The length of the whole file.
    pub total_bytes: u64,
}

impl Head {
    #[cfg(test)]
    pub(super) fn encode(&self) -> Vec<u8> {
        let Head { taken, meta, chunks, total_bytes } = *self;
        let nothing =
            Meta { applied: Position::ORIGIN, revision: Revision::ZERO, compacted: Revision::ZERO, hash: 0 };
        let meta = meta.unwrap_or(nothing);
        let numbers = [
            taken.cluster.0,
            taken.member.0,
            taken.at_millis,
            meta.applied.index.0,
            meta.applied.term.0,
            meta.revision.0 as u64,
            meta.compacted.0 as u64,
            meta.hash,
            chunks,
            total_bytes,
        ];
        let mut out = Vec::with_capacity(BYTES as usize);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        let sum = checksum::crc32(&[&out]);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Head, BackupError> {
        if !bytes.starts_with(MAGIC) {
            return Err(BackupError::NotABackup);
        }
        if bytes[MAGIC.len()] != VERSION {
            return Err(BackupError::Version { found: bytes[MAGIC.len()], known: VERSION });
        }
        let damaged = BackupError::Damaged { at: 0, what: "its head does not match its checksum" };
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        if sum != checksum::crc32(&[body]).to_le_bytes() {
            return Err(damaged);
        }
        Head::parse(Reader::new(Bytes::copy_from_slice(&body[8..]))).ok_or(damaged)
    }

    fn parse(mut reader: Reader) -> Option<Head> {
        let mut number = || reader.u64();
        let taken =
            BackupOrigin { cluster: ClusterId(number()?), member: NodeId(number()?), at_millis: number()? };
        let applied = Position { index: Index(number()?), term: Term(number()?) };
        let (revision, compacted) = (Revision(number()? as i64), Revision(number()? as i64));
        let meta = Meta { applied, revision, compacted, hash: number()? };
        let meta = Some(meta).filter(|meta| meta.revision != Revision::ZERO);
        Some(Head { taken, meta, chunks: number()?, total_bytes: number()? })
    }
}
