//! A backup read back, ours or one of etcd's. The digest over everything is verified first, then the rows of its buckets become
//! rows of a store. The receiver must not keep the rows if the reading fails.

use super::{BackupError, BackupOrigin, ORIGIN_ROW, OWN_BUCKET, PAGE_BYTES, first_format, head};
use crate::error::Error;
use base::{Row, Table};
use bbolt::{ReadError, Reader};
use bytes::Bytes;
use coord::etcd::{Import, bucket};
use coord::rows::{META_KEY, Meta};
use ring::digest::{self, SHA256, SHA256_OUTPUT_LEN as DIGEST_BYTES};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

/// Rows that are handed on together.
const ROWS_AT_ONCE: usize = 1_000;
const READ_BYTES: usize = 1 << 20;

/// A source of a backup.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Whether a file without a digest is taken: a database that was copied out of etcd's data directory has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestRule {
    Required,
    Optional,
}

/// What a whole backup holds.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Missing in one of etcd's.
    pub taken: Option<BackupOrigin>,
    /// Missing when nothing had been written yet.
    pub meta: Option<Meta>,
    /// The length of the whole file.
    pub total_bytes: u64,
    /// Versions of keys, the past included.
    pub versions: u64,
    pub leases: u64,
    pub rows: u64,
    pub digest: Option<[u8; DIGEST_BYTES]>,
}

/// Receives rows; the second argument is the number of bytes read so far.
pub type Take<'a> = dyn FnMut(&[Row], u64) -> Result<(), Error> + 'a;

pub fn read(source: &mut dyn Source, digest: DigestRule, take: &mut Take<'_>) -> Result<Summary, Error> {
    let total_bytes = source.seek(SeekFrom::End(0)).map_err(BackupError::Read)?;
    let mut magic = [0; head::MAGIC.len()];
    let is_first = total_bytes >= magic.len() as u64 && {
        source.rewind().and_then(|()| source.read_exact(&mut magic)).map_err(BackupError::Read)?;
        magic == *head::MAGIC
    };
    source.rewind().map_err(BackupError::Read)?;
    if is_first {
        return first_format::read(&mut io::BufReader::with_capacity(READ_BYTES, source), take);
    }
    let found = verify_digest(source, total_bytes, digest)?;
    let body_bytes = total_bytes - found.map_or(0, |_| DIGEST_BYTES as u64);
    let mut gathering = RowBatch { take, rows: Vec::new(), at: 0, versions: 0, leases: 0, n_rows: 0 };
    let (taken, meta) = read_database(source, body_bytes, &mut gathering)?;
    gathering.hand_on()?;
    let RowBatch { versions, leases, n_rows: rows, .. } = gathering;
    Ok(Summary { taken, meta, total_bytes, versions, leases, rows, digest: found })
}

/// The digest at the end, if there is one.
fn verify_digest(
    source: &mut dyn Source,
    total_bytes: u64,
    digest: DigestRule,
) -> Result<Option<[u8; DIGEST_BYTES]>, BackupError> {
    if total_bytes % PAGE_BYTES != DIGEST_BYTES as u64 {
        return match digest {
            DigestRule::Optional => Ok(None),
            DigestRule::Required => Err(BackupError::NoDigest),
        };
    }
    let mut hash = digest::Context::new(&SHA256);
    let mut left = total_bytes - DIGEST_BYTES as u64;
    let mut buffer = vec![0; READ_BYTES];
    while left > 0 {
        let part = &mut buffer[..left.min(READ_BYTES as u64) as usize];
        source.read_exact(part).map_err(BackupError::Read)?;
        hash.update(part);
        left -= part.len() as u64;
    }
    let mut found = [0; DIGEST_BYTES];
    source.read_exact(&mut found).map_err(BackupError::Read)?;
    let at = total_bytes - DIGEST_BYTES as u64;
    if hash.finish().as_ref() == found {
        Ok(Some(found))
    } else {
        Err(BackupError::Damaged { at, what: "the SHA-256 at its end is another" })
    }
}

/// Rows on their way to the receiver.
struct RowBatch<'a, 'b> {
    take: &'a mut Take<'b>,
    rows: Vec<Row>,
    /// How much was read.
    at: u64,
    versions: u64,
    leases: u64,
    n_rows: u64,
}

impl RowBatch<'_, '_> {
    fn add(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.versions += u64::from(table == Table::Versions);
        self.leases += u64::from(table == Table::Leases);
        self.n_rows += 1;
        let (key, value) = (Bytes::copy_from_slice(key), Some(Bytes::copy_from_slice(value)));
        self.rows.push(Row { table, key, value });
    }

    fn hand_on(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        (self.take)(&rows, self.at)
    }
}

fn read_database(
    source: &mut dyn Source,
    body_bytes: u64,
    gathering: &mut RowBatch<'_, '_>,
) -> Result<(Option<BackupOrigin>, Option<Meta>), Error> {
    let n_read = std::cell::Cell::new(0);
    let mut reader = Reader::open(|offset, len| {
        let len = len.min(body_bytes.saturating_sub(offset) as usize);
        let mut bytes = vec![0; len];
        source.seek(SeekFrom::Start(offset))?;
        source.read_exact(&mut bytes)?;
        n_read.set(n_read.get() + len as u64);
        Ok(bytes)
    })
    .map_err(database_error)?;
    if !reader.has_bucket(bucket::KEY.as_bytes()) {
        return Err(BackupError::NotABackup.into());
    }
    let is_own = reader.has_bucket(OWN_BUCKET.as_bytes());
    let (mut taken, mut meta, mut import) = (None, None, Import::default());
    let others = [bucket::LEASE, bucket::AUTH, bucket::USERS, bucket::ROLES, bucket::META];
    let names: &[&str] = if is_own { &[OWN_BUCKET, bucket::KEY] } else { &[bucket::KEY] };
    for name in names.iter().chain(others.iter().filter(|_| !is_own)) {
        let mut outcome = Ok(());
        let each = &mut |key: &[u8], value: &[u8]| {
            gathering.at = n_read.get();
            outcome = match *name {
                OWN_BUCKET => take_own_row(key, value, gathering, &mut taken, &mut meta),
                name => {
                    let emit = &mut |table: Table, key: &[u8], value: Option<&[u8]>| {
                        gathering.add(table, key, value.unwrap_or_default());
                    };
                    let taken = import.row(name, key, Bytes::copy_from_slice(value), emit);
                    taken.map_err(|what| BackupError::Row { bucket: name.to_owned(), what }.into())
                }
            };
            if outcome.is_ok() && gathering.rows.len() >= ROWS_AT_ONCE {
                outcome = gathering.hand_on();
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        reader.rows(name.as_bytes(), each).map_err(database_error)?;
        outcome?;
    }
    if !is_own {
        meta = Some(
            import.finish(&mut |table, key, value| gathering.add(table, key, value.unwrap_or_default())),
        );
    }
    Ok((taken, meta))
}

fn take_own_row(
    key: &[u8],
    value: &[u8],
    gathering: &mut RowBatch<'_, '_>,
    taken: &mut Option<BackupOrigin>,
    meta: &mut Option<Meta>,
) -> Result<(), Error> {
    let malformed = || BackupError::Row { bucket: OWN_BUCKET.to_owned(), what: "a row of a later release" };
    let (table, key) = key.split_first().ok_or_else(malformed)?;
    if *table == ORIGIN_ROW {
        *taken = Some(BackupOrigin::decode(value).ok_or_else(malformed)?);
        return Ok(());
    }
    let table = Table::ALL.into_iter().find(|known| *known as u8 == *table).ok_or_else(malformed)?;
    if (table, key) == (Table::Meta, META_KEY) {
        *meta = Some(Meta::decode(Bytes::copy_from_slice(value)).ok_or_else(malformed)?);
    }
    gathering.add(table, key, value);
    Ok(())
}

fn database_error(error: ReadError<io::Error>) -> BackupError {
    match error {
        ReadError::Failed(error) => BackupError::Read(error),
        ReadError::Damaged(bbolt::Damage::NotBbolt) => BackupError::NotABackup,
        ReadError::Damaged(damage) => BackupError::Database(damage.to_string()),
    }
}
