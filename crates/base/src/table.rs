//! The tables of the store, as pure crates see them: a few ordered tables of bytes. Crates name rows and read them
//! through a `ReadView`; the shell chooses the storage engine.

use bytes::Bytes;
use std::ops::Bound;

/// The tables of the store. The number is part of the file format: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// Applied index and term, revision, compaction floor and how far it is swept, membership, state hash.
    Meta = 0,
    /// (key, revision) → one version of a key, with its value.
    Versions = 1,
    /// (revision, position in it) → the key that changed and how, without values.
    Log = 2,
    /// key → its current version, without value.
    Index = 3,
    /// origin member → which of its proposals were applied.
    Origins = 4,
    /// lease → its TTL, what is left of it, and when it was granted.
    Leases = 5,
    /// lease, number of a request → what was answered; lease → the number below which that is forgotten.
    Sessions = 6,
    /// key in the queue of a lock → the client that holds the place.
    Claims = 7,
    /// resource → the highest token that it has seen, and of which lock.
    Fences = 8,
    /// The rows of the mesh, whose first byte says what they are; in a store of their own.
    Mesh = 9,
    /// revision → the time at which it was the newest.
    Clock = 10,
    /// (revision, position in it) → a change whose version was compacted, as it stood in the log.
    History = 11,
    /// (kind byte, name) → a user, a role, or whether auth is enabled.
    Auth = 12,
}

impl Table {
    /// One more than the highest number.
    pub const NUMBERS: usize = 13;

    pub const ALL: [Table; 13] = [
        Table::Meta,
        Table::Versions,
        Table::Log,
        Table::Index,
        Table::Origins,
        Table::Leases,
        Table::Sessions,
        Table::Claims,
        Table::Fences,
        Table::Mesh,
        Table::Clock,
        Table::History,
        Table::Auth,
    ];

    pub fn from_number(number: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| *table as u8 == number)
    }
}

/// One row to be written (`Some`) or removed (`None`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub table: Table,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// A consistent, synchronous read of the store. A store that cannot be read stops the process, so pure crates get no
/// error.
pub trait ReadView {
    fn get(&self, table: Table, key: &[u8]) -> Option<Bytes>;

    /// Visits rows in key order until the visitor answers `false`.
    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    );
}
