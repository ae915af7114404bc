//! `althing snapshot`: saves a backup from a running member, prints its content, and makes the directory of a
//! new cluster's member from one. Backups are those of etcd: its tools read ours, and these verbs read etcd's.

pub(super) mod restore;
pub(super) mod save;

use super::{Error, Options, print};
use crate::output::{BackupStatus, Printer};
use clap::Subcommand;
use server::offline::DigestRule;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

const SAVE_EXAMPLE: &str = "\
Example:
  althing snapshot save backup.db --endpoints 10.0.0.1:2379";
const STATUS_EXAMPLE: &str = "\
Example:
  althing snapshot status backup.db -w table";

/// The format is etcd's, which knows no other plane.
const WITHOUT_DATA: &str =
    "The file holds no keys of the data plane (REST): `althing backup create` saves both planes.";

#[derive(Subcommand)]
pub enum Snapshot {
    /// Saves keys, leases and users into a file; 'backup create' saves the data plane too
    #[command(after_help = SAVE_EXAMPLE)]
    Save {
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Verifies a backup, and prints its content
    #[command(after_help = STATUS_EXAMPLE)]
    Status {
        file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
    /// Makes the data directory of a new cluster's member from a backup
    Restore(restore::Restore),
}

impl Snapshot {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Snapshot::Save { file, options } => {
                save::save(&options.client()?, file).await?;
                let _ = writeln!(std::io::stderr(), "{WITHOUT_DATA}");
                print(format!("Snapshot saved at {}\n", file.display()).as_bytes())
            }
            Snapshot::Status { file, options } => {
                let mut source = open(file)?;
                let summary =
                    server::offline::read_backup(&mut source, DigestRule::Optional, &mut |_, _| Ok(()))
                        .map_err(server::Error::from)?;
                print(&Printer::new(options).backup(&BackupStatus::of(&summary)))
            }
            Snapshot::Restore(restore) => restore.run(),
        }
    }
}

fn open(file: &Path) -> Result<File, Error> {
    File::open(file).map_err(trouble(file))
}

fn trouble(file: &Path) -> impl Fn(std::io::Error) -> Error {
    let file = file.display().to_string();
    move |reason| Error::File { file: file.clone(), reason }
}
