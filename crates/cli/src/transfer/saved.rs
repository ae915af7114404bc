//! The keys of a backup of the coordination store, in the order in which they were written. A thread reads the file and waits for the
//! keys before to be taken.

use super::row::{Row, RowValue};
use super::source::Chunk;
use crate::client::Error;
use bytes::Bytes;
use server::offline::{DigestRule, SavedKey, SavedKeys};
use std::fs::File;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Chunks of keys that are read ahead.
const CHUNKS_AHEAD: usize = 2;

pub struct SavedSource {
    chunks: Receiver<Result<Chunk, Error>>,
    pub total: u64,
    pub done: u64,
}

impl SavedSource {
    /// `name_of` says under which name a key goes on, if it does.
    pub fn begin(
        file: File,
        keys: SavedKeys,
        name_of: impl Fn(&Bytes) -> Option<Bytes> + Send + 'static,
    ) -> SavedSource {
        let (sender, chunks) = channel(CHUNKS_AHEAD);
        let total = keys.count() as u64;
        tokio::task::spawn_blocking(move || send(file, &keys, &name_of, &sender));
        SavedSource { chunks, total, done: 0 }
    }

    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        let chunk = self.chunks.recv().await.transpose()?;
        self.done += chunk.as_ref().map_or(0, |chunk| chunk.rows.len() as u64);
        Ok(chunk)
    }
}

type NameOf = dyn Fn(&Bytes) -> Option<Bytes>;

fn send(mut file: File, keys: &SavedKeys, name_of: &NameOf, to: &Sender<Result<Chunk, Error>>) {
    let read = keys.values(&mut file, DigestRule::Required, &mut |some| {
        to.blocking_send(Ok(chunk_of(some, keys, name_of))).is_ok()
    });
    if let Err(error) = read {
        // The receiver is gone if it does not take this.
        let _ = to.blocking_send(Err(server::Error::from(error).into()));
    }
}

fn chunk_of(some: Vec<SavedKey>, keys: &SavedKeys, name_of: &NameOf) -> Chunk {
    let mut chunk = Chunk::default();
    for SavedKey { key, value, lease } in some {
        let Some(name) = name_of(&key) else { continue };
        let ttl = lease.and_then(|lease| keys.leases.get(&lease)).map(|ttl| ttl.unsigned_abs());
        if lease.is_some() && ttl.is_none() {
            chunk.ended += 1;
            continue;
        }
        chunk.rows.push(Row {
            key: name.to_vec(),
            value: RowValue::of_bytes(value.to_vec()),
            kind: String::new(),
            ttl,
            lease: lease.map(|lease| lease.0),
        });
    }
    chunk
}
