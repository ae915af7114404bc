//! Rows from a source into a destination. Each batch is read before it is written, so what is there already is neither written again nor
//! written over unless that is asked for; and read again afterwards, so what is counted is what is there.

use super::checkpoint::{Checkpoint, TransferCounts};
use super::destination::{Change, Destination};
use super::row::{Row, RowChecksum};
use super::source::{Chunk, Source};
use crate::client::Error;
use crate::progress::Progress;
use ::backup::Pace;
use std::collections::BTreeSet;

/// Rows of one request; etcd's own bound of a transaction.
const BATCH_ROWS: usize = 128;
/// Below the bound of a request.
const BATCH_BYTES_SOFT: usize = 512 * 1024;

pub struct Import {
    pub destination: Destination,
    pub overwrite: bool,
    /// Only keys that begin with this.
    pub prefix: Vec<u8>,
    pub pace: Pace,
    pub checkpoint: Checkpoint,
}

impl Import {
    /// What has become of all rows, also of those of the runs before.
    pub async fn run(&mut self, source: &mut Source) -> Result<TransferCounts, Error> {
        let mut counts = TransferCounts::default();
        if let Some((position, saved)) = self.checkpoint.read()? {
            source.go_on(&position)?;
            counts = saved;
        }
        let mut progress: Option<Progress> = None;
        while let Some(chunk) = source.next().await? {
            self.take_chunk(chunk, &mut counts).await?;
            self.checkpoint.save(source.position(), &counts)?;
            let (unit, total, done) = source.progress();
            progress.get_or_insert_with(|| Progress::new("importing", unit, total)).update(done);
        }
        if let Some(progress) = progress {
            progress.end();
        }
        Ok(counts)
    }

    async fn take_chunk(&mut self, chunk: Chunk, counts: &mut TransferCounts) -> Result<(), Error> {
        counts.ended += chunk.ended;
        chunk.left_out.into_iter().for_each(|name| counts.left_out.add(name));
        let (mut batch, mut keys, mut bytes): (Vec<Row>, BTreeSet<Vec<u8>>, usize) = Default::default();
        for row in chunk.rows {
            if !row.key.starts_with(&self.prefix) {
                continue;
            }
            if let Some(what) = self.destination.unfit(&row) {
                counts.refused.add(format!("{} ({what})", row.name()));
                continue;
            }
            let is_full = batch.len() == BATCH_ROWS || bytes + row.size() > BATCH_BYTES_SOFT;
            // The first of two rows with one key is there when the second is looked at.
            if !batch.is_empty() && (is_full || keys.contains(&row.key)) {
                self.take_batch(std::mem::take(&mut batch), counts).await?;
                keys.clear();
                bytes = 0;
            }
            bytes += row.size();
            keys.insert(row.key.clone());
            batch.push(row);
        }
        if batch.is_empty() { Ok(()) } else { self.take_batch(batch, counts).await }
    }

    async fn take_batch(&mut self, rows: Vec<Row>, counts: &mut TransferCounts) -> Result<(), Error> {
        self.pace.spend(rows.iter().map(|row| row.size() as u64).sum()).await;
        let found = self.destination.read(&rows).await?;
        let mut changes = Vec::new();
        for (row, found) in rows.into_iter().zip(found) {
            match found {
                Some(found)
                    if self.destination.holds(&row, &found) && !(self.overwrite && expires(&row, &found)) =>
                {
                    counts.add(&row);
                }
                Some(_) if !self.overwrite => counts.kept.add(row.name()),
                found => changes.push(Change { row, found }),
            }
        }
        if changes.is_empty() { Ok(()) } else { self.write(changes, counts).await }
    }

    async fn write(&mut self, changes: Vec<Change>, counts: &mut TransferCounts) -> Result<(), Error> {
        let refused = self.destination.write(&changes).await?;
        let rows: Vec<Row> = changes.into_iter().map(|change| change.row).collect();
        let found = self.destination.read(&rows).await?;
        let names: BTreeSet<&String> = refused.iter().map(|key| &key.name).collect();
        for (row, found) in rows.iter().zip(found) {
            match found {
                _ if names.contains(&row.name()) => {}
                Some(found) if self.destination.holds(row, &found) => {
                    counts.written += 1;
                    counts.add(row);
                }
                // Its time may be over.
                None if row.ttl.is_some() => counts.ended += 1,
                _ => counts.changed.add(row.name()),
            }
        }
        refused.iter().for_each(|key| counts.refused.add(format!("{} ({})", key.name, key.what)));
        Ok(())
    }

    /// Says what was done, and fails if that is not everything.
    pub fn finish(&self, counts: &TransferCounts, wanted: Option<RowChecksum>) -> Result<(), Error> {
        let keep = "hold something else here and stay (give --overwrite to write over them)";
        let mut troubles: Vec<String> = [
            counts.kept.summary(keep),
            counts.refused.summary("were refused"),
            counts.left_out.summary("have no counterpart here and were left out"),
            counts
                .changed
                .summary("held something else when they were read back: does another client write them?"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let checksum = counts.checksum();
        if let Some(wanted) = wanted.filter(|wanted| *wanted != checksum) {
            troubles.push(format!("the checksum is {checksum}, and should be {wanted}"));
        }
        self.checkpoint.remove()?;
        if troubles.is_empty() { Ok(()) } else { Err(Error::Incomplete(troubles.join("\n"))) }
    }
}

/// Whether one of them has a time to live, which is written again.
fn expires(row: &Row, found: &Row) -> bool {
    [row, found].iter().any(|row| row.ttl.is_some() || row.lease.is_some())
}
