//! `althing export`: the keys of one plane, with their values, into a file of lines of JSON or of CSV. Keys of coordination are written as
//! they are at one revision; those of the data plane as each is when its page is read.

use super::import::TransferArgs;
use super::{Error, print};
use crate::transfer::{self, Checkpoint, FileFormat, Source};
use clap::{Args, Subcommand};
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example:
  althing export jsonl keys.jsonl                             the coordination store, at one revision
  althing export csv shop.csv --data --ns shop                a namespace of the data plane
  althing export jsonl big.jsonl --checkpoint big.checkpoint  once more after an interruption: it goes on

A line is {\"key\": …, \"value\": …} with type, ttl, lease, and encodings where bytes are no text. `althing import` reads it, and prints the
same checksum.";

#[derive(Subcommand)]
pub enum Export {
    /// Writes a line of JSON for each key
    #[command(after_help = EXAMPLE)]
    Jsonl(ToFile),
    /// Writes CSV, with the names of the columns in the first line
    #[command(after_help = EXAMPLE)]
    Csv(ToFile),
}

#[derive(Args)]
pub struct ToFile {
    /// Must not be there; until it is whole, its name ends with .partial
    file: PathBuf,
    #[command(flatten)]
    transfer: TransferArgs,
}

impl Export {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Export::Jsonl(to) => to.run(FileFormat::Jsonl).await,
            Export::Csv(to) => to.run(FileFormat::Csv).await,
        }
    }
}

impl ToFile {
    async fn run(&self, format: FileFormat) -> Result<(), Error> {
        let transfer = &self.transfer;
        let mut source = transfer.own_keys().await?;
        let job = format!("export {} {} of {}", format.name(), self.file.display(), transfer.described());
        let mut export = transfer::Export {
            path: self.file.clone(),
            format,
            pace: transfer.pace(),
            checkpoint: Checkpoint::new(transfer.checkpoint.clone(), job),
        };
        let counts = export.run(&mut source).await?;
        let as_of = match &source {
            Source::Etcd(keys) => format!(" as of revision {}", keys.revision()),
            _ => String::new(),
        };
        let told = format!("Exported {} keys{as_of}, checksum {}\n", counts.rows, counts.checksum());
        print(told.as_bytes())?;
        counts
            .left_out
            .summary("cannot be written and were left out")
            .map_or(Ok(()), |told| Err(Error::Incomplete(told)))
    }
}
