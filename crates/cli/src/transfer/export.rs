//! Rows from a source into a file. It grows under another name beside it, is read again when all rows are in it, and gets its name when its
//! counts and checksum are those of the rows that were sent.

use super::checkpoint::{Checkpoint, TransferCounts};
use super::source::Source;
use super::{LineFile, TableFile, lines, table};
use crate::client::Error;
use crate::progress::Progress;
use ::backup::Pace;
use clap::ValueEnum;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    Jsonl,
    Csv,
}

impl FileFormat {
    pub fn open(self, path: &Path) -> Result<Source, Error> {
        Ok(match self {
            FileFormat::Jsonl => Source::Lines(LineFile::open(path)?),
            FileFormat::Csv => Source::Table(Box::new(TableFile::open(path)?)),
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Jsonl => "jsonl",
            FileFormat::Csv => "csv",
        }
    }
}

pub struct Export {
    pub path: PathBuf,
    pub format: FileFormat,
    pub pace: Pace,
    pub checkpoint: Checkpoint,
}

impl Export {
    pub async fn run(&mut self, source: &mut Source) -> Result<TransferCounts, Error> {
        if self.path.exists() {
            return Err(Error::Usage(format!("{} is there already", self.path.display())));
        }
        let partial = self.partial();
        let saved = self.checkpoint.read()?;
        let mut counts = saved.as_ref().map_or_else(TransferCounts::default, |(_, counts)| counts.clone());
        let mut file = self.begin(&partial, saved.is_some(), &mut counts)?;
        if let Some((position, _)) = saved {
            source.go_on(&position)?;
        }
        let mut progress: Option<Progress> = None;
        while let Some(chunk) = source.next().await? {
            counts.ended += chunk.ended;
            chunk.left_out.into_iter().for_each(|name| counts.left_out.add(name));
            let mut bytes = Vec::new();
            for row in &chunk.rows {
                bytes.extend(match self.format {
                    FileFormat::Jsonl => lines::encode(row),
                    FileFormat::Csv => table::encode(row),
                });
                counts.add(row);
            }
            counts.file_bytes += bytes.len() as u64;
            // What the checkpoint vouches for is in the file.
            file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(failed(&partial))?;
            self.checkpoint.save(source.position(), &counts)?;
            self.pace.spend(bytes.len() as u64).await;
            let (unit, total, done) = source.progress();
            progress.get_or_insert_with(|| Progress::new("exporting", unit, total)).update(done);
        }
        if let Some(progress) = progress {
            progress.end();
        }
        self.end(&partial, source.rows_expected(), &counts).await?;
        Ok(counts)
    }

    fn partial(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".partial");
        name.into()
    }

    /// What was written behind the checkpoint is cut off.
    fn begin(&self, partial: &Path, goes_on: bool, counts: &mut TransferCounts) -> Result<File, Error> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(!goes_on).truncate(!goes_on).open(partial).map_err(failed(partial))?;
        if !goes_on {
            let head = if self.format == FileFormat::Csv { table::head() } else { Vec::new() };
            counts.file_bytes = head.len() as u64;
            file.write_all(&head).map_err(failed(partial))?;
            return Ok(file);
        }
        if file.metadata().map_err(failed(partial))?.len() < counts.file_bytes {
            let problem = "is shorter than the checkpoint says: remove both to begin again";
            return Err(Error::Incomplete(format!("{} {problem}", partial.display())));
        }
        let sought = file.set_len(counts.file_bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        sought.map_err(failed(partial))?;
        Ok(file)
    }

    async fn end(&self, partial: &Path, expected: Option<u64>, counts: &TransferCounts) -> Result<(), Error> {
        let mut read = TransferCounts::default();
        let mut file = self.format.open(partial)?;
        while let Some(chunk) = file.next().await? {
            chunk.rows.iter().for_each(|row| read.add(row));
        }
        if (read.rows, read.checksum()) != (counts.rows, counts.checksum()) {
            let problem = format!(
                "{} has {} rows with the checksum {}, and {} with {} were sent",
                partial.display(),
                read.rows,
                read.checksum(),
                counts.rows,
                counts.checksum()
            );
            return Err(Error::Incomplete(problem));
        }
        if let Some(expected) = expected.filter(|expected| *expected != counts.rows + counts.ended) {
            let problem = format!("the source has {expected} keys, and {} came", counts.rows + counts.ended);
            return Err(Error::Incomplete(problem));
        }
        std::fs::rename(partial, &self.path).map_err(failed(&self.path))?;
        self.checkpoint.remove()
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |reason| Error::File { file: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 2_500;

    fn rows(path: &Path, bad: Option<usize>) {
        let line = |n: usize| match bad {
            Some(bad) if bad == n => "{\"key\": \"cut o\n".to_owned(),
            _ => format!("{{\"key\": \"k{n:04}\", \"value\": \"v\"}}\n"),
        };
        std::fs::write(path, (0..ROWS).map(line).collect::<String>()).unwrap();
    }

    fn run(dir: &Path, format: FileFormat) -> Result<TransferCounts, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut export = Export {
            path: dir.join("out"),
            format,
            pace: Pace::new(None),
            checkpoint: Checkpoint::new(Some(dir.join("checkpoint")), "job".to_owned()),
        };
        runtime.block_on(export.run(&mut FileFormat::Jsonl.open(&dir.join("rows"))?))
    }

    #[test]
    fn an_export_goes_on_where_it_stopped_and_has_its_name_when_it_is_whole() {
        for format in [FileFormat::Jsonl, FileFormat::Csv] {
            let dir = tempfile::tempdir().unwrap();
            let partial = dir.path().join("out.partial");
            rows(&dir.path().join("rows"), Some(1_800));
            assert!(run(dir.path(), format).is_err());
            assert!(partial.exists() && !dir.path().join("out").exists());
            // As if it had been killed between the file and the checkpoint.
            let mut file = OpenOptions::new().append(true).open(&partial).unwrap();
            file.write_all(b"half a ro").unwrap();
            rows(&dir.path().join("rows"), None);
            let counts = run(dir.path(), format).unwrap();
            assert_eq!(counts.rows, ROWS as u64);
            assert!(!partial.exists() && !dir.path().join("checkpoint").exists());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut read = TransferCounts::default();
            let mut file = format.open(&dir.path().join("out")).unwrap();
            while let Some(chunk) = runtime.block_on(file.next()).unwrap() {
                chunk.rows.iter().for_each(|row| read.add(row));
            }
            assert_eq!((read.rows, read.checksum()), (counts.rows, counts.checksum()));
            assert!(matches!(run(dir.path(), format), Err(Error::Usage(_))), "it is there");
        }
    }

    #[test]
    fn a_file_that_is_shorter_than_its_checkpoint_is_not_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        rows(&dir.path().join("rows"), Some(1_800));
        assert!(run(dir.path(), FileFormat::Jsonl).is_err());
        std::fs::write(dir.path().join("out.partial"), "").unwrap();
        let error = run(dir.path(), FileFormat::Jsonl).unwrap_err().to_string();
        assert!(error.contains("shorter than the checkpoint"), "{error}");
    }
}
