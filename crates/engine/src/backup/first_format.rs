//! Backups of 0.1.0: a head, rows in chunks with a checksum each, a digest over everything at the end. They are read and
//! not written any more.

use super::head::{self, Head};
use super::read::{Summary, Take};
use super::{BackupError, PAGE_BYTES};
use crate::error::Error;
use base::limits::{REQUEST_BYTES_MAX, SNAPSHOT_CHUNK_BYTES};
use base::{Row, Table};
use bytes::Bytes;
use disk::store::chunk;
use ring::digest::{self, SHA256, SHA256_OUTPUT_LEN as DIGEST_BYTES};
use std::io::{self, Read};

/// A chunk holds one row at least, and a row at most a key and a value of the largest request.
const CHUNK_BYTES_MAX: usize = SNAPSHOT_CHUNK_BYTES + 2 * REQUEST_BYTES_MAX;

/// Before each chunk.
pub(super) const LENGTH_BYTES: u64 = 4;

pub(super) fn read(source: &mut dyn Read, take: &mut Take<'_>) -> Result<Summary, Error> {
    let mut input = Input { source, digest: digest::Context::new(&SHA256), at: 0 };
    let head = Head::decode(&input.bytes(head::BYTES as usize)?)?;
    let (mut versions, mut leases, mut n_rows) = (0, 0, 0);
    for _ in 0..head.chunks {
        let rows = input.chunk()?;
        let count = |table| rows.iter().filter(|row| row.table == table).count() as u64;
        versions += count(Table::Versions);
        leases += count(Table::Leases);
        n_rows += rows.len() as u64;
        take(&rows, input.at)?;
    }
    input.padding(&head)?;
    let digest = input.digest.clone().finish();
    let at = input.at;
    if input.bytes(DIGEST_BYTES)? != digest.as_ref() {
        return Err(BackupError::Damaged { at, what: "the SHA-256 at its end is another" }.into());
    }
    input.end()?;
    let Head { taken, meta, total_bytes, .. } = head;
    Ok(Summary {
        taken: Some(taken),
        meta,
        total_bytes,
        versions,
        leases,
        rows: n_rows,
        digest: digest.as_ref().try_into().ok(),
    })
}

struct Input<'a> {
    source: &'a mut dyn Read,
    digest: digest::Context,
    at: u64,
}

impl Input<'_> {
    fn bytes(&mut self, len: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = vec![0; len];
        self.source.read_exact(&mut bytes).map_err(|error| match error.kind() {
            // A file that is no backup is often shorter than the head of one.
            io::ErrorKind::UnexpectedEof if self.at == 0 => BackupError::NotABackup,
            io::ErrorKind::UnexpectedEof => BackupError::Cut { at: self.at },
            _ => BackupError::Read(error),
        })?;
        self.digest.update(&bytes);
        self.at += len as u64;
        Ok(bytes)
    }

    fn chunk(&mut self) -> Result<Vec<Row>, BackupError> {
        let at = self.at;
        let len = self.bytes(LENGTH_BYTES as usize)?;
        let len = u32::from_le_bytes(len.try_into().expect("four bytes were read")) as usize;
        if !(1..=CHUNK_BYTES_MAX).contains(&len) {
            return Err(BackupError::Damaged { at, what: "a chunk of impossible length" });
        }
        let chunk = Bytes::from(self.bytes(len)?);
        chunk::decode(chunk).ok_or(BackupError::Damaged { at, what: "a chunk does not match its checksum" })
    }

    /// The end mark and what fills the last page are zeroes.
    fn padding(&mut self, head: &Head) -> Result<(), BackupError> {
        let at = self.at;
        let damaged = BackupError::Damaged { at, what: "its end is not where its head says" };
        let len = head.total_bytes.checked_sub(at + DIGEST_BYTES as u64);
        let Some(len) = len.filter(|len| (LENGTH_BYTES..LENGTH_BYTES + PAGE_BYTES).contains(len)) else {
            return Err(damaged);
        };
        if self.bytes(len as usize)?.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(damaged) }
    }

    fn end(&mut self) -> Result<(), BackupError> {
        match self.source.read(&mut [0]).map_err(BackupError::Read)? {
            0 => Ok(()),
            _ => Err(BackupError::TooLong),
        }
    }
}
