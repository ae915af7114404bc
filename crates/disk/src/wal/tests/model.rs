//! Thousands of random runs of one log, against a list of the batches that were written.

use super::*;
use base::Rng;

/// What the log should hold.
#[derive(Default)]
struct Model {
    /// Every batch ever accepted and not cut since, oldest first.
    batches: Vec<Vec<WalRecord>>,
    /// So many of them had been synced.
    synced: usize,
    released: u64,
    position: u64,
    stamp: u64,
}

struct LogRun {
    disk: SimDisk,
    segment_bytes: u64,
    rng: Rng,
    model: Model,
    wal: Wal,
}

/// What ended the process.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Orderly,
    Kill,
    PowerCut,
}

impl LogRun {
    fn begin(seed: u64) -> LogRun {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed ^ 77);
        let segment_bytes = *rng.pick(&[1024, 4096, 10_000, 32 * 1024]);
        let wal = open_with(&disk, segment_bytes).unwrap().wal;
        LogRun { disk, segment_bytes, rng, model: Model::default(), wal }
    }

    fn batch(&mut self) -> Vec<WalRecord> {
        let n = self.rng.between(1, 4);
        (0..n).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> WalRecord {
        self.model.stamp += 1;
        let stamp = self.model.stamp.to_le_bytes();
        if self.rng.chance(200_000) {
            return vote(&stamp);
        }
        // Frames come out as multiples of 32, as an opening's first frame does, so that new frames often end
        // where the remains of an old one begin.
        let len = 8 + 32
            * match self.rng.between(0, 40) {
                0 => self.rng.between(100, 600),
                1..10 => self.rng.between(8, 50),
                _ => self.rng.between(0, 4),
            };
        let mut payload = stamp.to_vec();
        payload.resize(8 + len as usize, self.model.stamp as u8);
        self.model.position += 1;
        entry(self.model.position, &payload)
    }

    fn write(&mut self) -> Result<(), Error> {
        let batch = self.batch();
        // Even when the write fails, some or all of it may be on the disk.
        self.model.batches.push(batch.clone());
        self.wal.write(&batch)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.wal.sync()?;
        self.model.synced = self.model.batches.len();
        Ok(())
    }

    fn release(&mut self) -> Result<(), Error> {
        let durable: Vec<WalRecord> = self.model.batches[..self.model.synced].concat();
        let highest = positions(&durable).into_iter().max().unwrap_or(0);
        if highest > self.model.released {
            self.model.released = self.rng.between(self.model.released, highest + 1);
        }
        self.wal.release(RecordStream::Raft, self.model.released)
    }

    /// A few random steps, until one fails or all are done.
    fn live(&mut self) -> Result<(), Error> {
        for _ in 0..self.rng.between(0, 30) {
            match self.rng.between(0, 10) {
                0..6 => self.write()?,
                6..9 => self.sync()?,
                _ => self.release()?,
            }
        }
        Ok(())
    }

    fn live_and_die(&mut self) {
        match self.rng.between(0, 8) {
            0 => self.disk.fail_next_sync(),
            1..3 => self.disk.fail_after_ops(self.rng.between(0, 60)),
            3 => self.disk.set_space(self.disk.used_bytes() + self.rng.between(0, 3 * self.segment_bytes)),
            _ => {}
        }
        let result = self.live();
        self.disk.set_space(u64::MAX);
        let end = match result {
            // Only a power cut tells what the disk holds after a failure.
            Err(_) => End::PowerCut,
            Ok(()) => *self.rng.pick(&[End::Orderly, End::Kill, End::PowerCut, End::PowerCut]),
        };
        match end {
            End::Orderly => {}
            End::Kill => self.disk.kill(),
            End::PowerCut => self.disk.crash(),
        }
        let (opened, end) = self.reopen(end);
        self.check(opened, end);
    }

    /// Opens the log again; sometimes the power goes while it does.
    fn reopen(&mut self, end: End) -> (Opened, End) {
        if self.rng.chance(200_000) {
            self.disk.fail_after_ops(self.rng.between(0, 15));
        }
        match open_with(&self.disk, self.segment_bytes) {
            Ok(opened) => (opened, end),
            Err(Error::Corrupt { file, offset, reason }) => panic!("{file} at {offset}: {reason}"),
            Err(_) => {
                self.disk.crash();
                (open_with(&self.disk, self.segment_bytes).unwrap(), End::PowerCut)
            }
        }
    }

    /// The replayed entries are those of whole batches, from somewhere at or before what is still needed, up
    /// to at least what was synced; and the newest sticky record is that of the same batches.
    fn check(&mut self, opened: Opened, end: End) {
        let replayed: Vec<&WalRecord> =
            opened.records.iter().filter(|record| record.sticky.is_none()).collect();
        let model = &mut self.model;
        let least = if end == End::PowerCut { model.synced } else { model.batches.len() };
        let fitting = (least..=model.batches.len()).rev().find(|n| {
            let all = model.batches[..*n].concat();
            let entries: Vec<&WalRecord> = all.iter().filter(|record| record.sticky.is_none()).collect();
            let sticky = |records: &[WalRecord]| records.iter().rfind(|r| r.sticky.is_some()).cloned();
            let needed_from = entries.partition_point(|record| record.position <= model.released);
            entries.ends_with(&replayed)
                && replayed.len() >= entries.len() - needed_from
                && sticky(&all) == sticky(&opened.records)
        });
        let survived = fitting.unwrap_or_else(|| {
            panic!(
                "after {} synced of {} batches, released {}, came {:?}",
                model.synced,
                model.batches.len(),
                model.released,
                positions(&opened.records),
            )
        });
        model.batches.truncate(survived);
        // What an opening has replayed it has also made durable.
        model.synced = survived;
        self.wal = opened.wal;
    }
}

#[test]
fn every_synced_record_comes_back_in_every_life() {
    for seed in 0..2000 {
        let mut life = LogRun::begin(seed);
        for _ in 0..12 {
            life.live_and_die();
        }
    }
}
