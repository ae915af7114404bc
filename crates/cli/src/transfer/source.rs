//! Where rows come from: chunk by chunk, and after each chunk a position from which another run can go on.

use super::row::Row;
use super::{DataSource, EtcdSource, LineFile, RedisSource, SavedSource, TableFile};
use crate::client::Error;
use serde::{Deserialize, Serialize};

/// Rows and bytes of a chunk of a file.
const CHUNK_ROWS: usize = 1_000;
const CHUNK_BYTES_SOFT: usize = 4 << 20;

#[derive(Default)]
pub struct Chunk {
    pub rows: Vec<Row>,
    /// Keys without a counterpart, and why.
    pub left_out: Vec<String>,
    /// Keys that ended while they were read.
    pub ended: u64,
}

/// Behind a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    File {
        offset: u64,
        line: u64,
    },
    List {
        nth: usize,
    },
    Range {
        revision: i64,
        next: Vec<u8>,
        done: u64,
        /// All keys were read.
        #[serde(default)]
        at_end: bool,
    },
    Scan {
        run_id: String,
        cursor: u64,
        done: u64,
    },
}

pub enum Source {
    Lines(LineFile),
    Table(Box<TableFile>),
    List { rows: Vec<Row>, nth: usize },
    Etcd(Box<EtcdSource>),
    Redis(Box<RedisSource>),
    Data(Box<DataSource>),
    Saved(Box<SavedSource>),
}

impl Source {
    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        match self {
            Source::Lines(file) => chunk_of(|| file.next()),
            Source::Table(file) => chunk_of(|| file.next()),
            Source::List { rows, nth } => chunk_of(|| {
                let row = rows.get(*nth).cloned();
                *nth += 1;
                Ok(row)
            }),
            Source::Etcd(etcd) => etcd.next().await,
            Source::Redis(redis) => redis.next().await,
            Source::Data(data) => data.next().await,
            Source::Saved(saved) => saved.next().await,
        }
    }

    pub fn position(&self) -> Position {
        match self {
            Source::Lines(file) => Position::File { offset: file.offset, line: file.line },
            Source::Table(file) => {
                let (offset, line) = file.place();
                Position::File { offset, line }
            }
            Source::List { nth, .. } => Position::List { nth: *nth },
            Source::Etcd(etcd) => etcd.position(),
            Source::Redis(redis) => redis.position(),
            Source::Data(data) => data.position(),
            Source::Saved(saved) => Position::List { nth: saved.done as usize },
        }
    }

    pub fn go_on(&mut self, from: &Position) -> Result<(), Error> {
        match (self, from) {
            (Source::Lines(file), Position::File { offset, line }) => file.go_on(*offset, *line),
            (Source::Table(file), Position::File { offset, line }) => file.go_on(*offset, *line),
            (Source::List { nth, .. }, Position::List { nth: from }) => {
                *nth = *from;
                Ok(())
            }
            (Source::Redis(redis), Position::Scan { run_id, cursor, done }) => {
                redis.go_on(run_id, *cursor, *done);
                Ok(())
            }
            (Source::Etcd(etcd), Position::Range { revision, next, done, .. }) => {
                etcd.go_on(*revision, next.clone(), *done);
                Ok(())
            }
            (Source::Data(data), Position::Range { next, done, at_end, .. }) => {
                data.go_on(next, *done);
                data.at_end = *at_end;
                Ok(())
            }
            _ => Err(Error::Usage("the checkpoint is of another kind of source".to_owned())),
        }
    }

    /// What is counted for the progress, how much there is, and how much of it was read.
    pub fn progress(&self) -> (&'static str, u64, u64) {
        match self {
            Source::Lines(file) => ("bytes", file.bytes, file.offset),
            Source::Table(file) => ("bytes", file.bytes, file.place().0),
            Source::List { rows, nth } => ("keys", rows.len() as u64, *nth as u64),
            Source::Etcd(etcd) => ("keys", etcd.total, etcd.done),
            Source::Redis(redis) => ("keys", redis.total, redis.done),
            Source::Data(data) => ("keys", data.total, data.done),
            Source::Saved(saved) => ("keys", saved.total, saved.done),
        }
    }

    /// How many rows there must be, where that is certain.
    pub fn rows_expected(&self) -> Option<u64> {
        match self {
            Source::Etcd(etcd) => Some(etcd.total),
            _ => None,
        }
    }
}

fn chunk_of(mut next: impl FnMut() -> Result<Option<Row>, Error>) -> Result<Option<Chunk>, Error> {
    let (mut chunk, mut bytes) = (Chunk::default(), 0);
    while chunk.rows.len() < CHUNK_ROWS && bytes < CHUNK_BYTES_SOFT {
        let Some(row) = next()? else { break };
        bytes += row.size();
        chunk.rows.push(row);
    }
    Ok(Some(chunk).filter(|chunk| !chunk.rows.is_empty()))
}
