//! Reads and writes files of bbolt, etcd's storage engine, so that etcd's tools read our backups and we read theirs.
//! `Writer` makes a file of rows that come in order, bucket by bucket, and keeps no more than a page of each level of
//! the tree. `Reader` walks the rows of a bucket. Neither opens files: pages are taken from the one, and the other
//! asks for them. The format is drawn in docs/formats/bbolt.md.

mod layout;
mod reader;
mod writer;

pub use layout::{HEAD_BYTES, PAGE_BYTES};
pub use reader::{Damage, EachRow, ReadError, Reader};
pub use writer::Writer;

#[cfg(test)]
mod tests;
