//! `althing backup restore`: with --data-dir a new member's directory with the coordination store of the backup; without it the
//! data plane of the backup, or a part of it, into a running cluster of any size. A backup that is not whole is refused before
//! anything is changed.

use super::selection::{SavedKey, Selection};
use super::{Error, Options, TargetArgs, print, verify_backup};
use crate::progress::Progress;
use crate::verbs::snapshot::restore as member;
use ::backup::{DataRow, MeshPart, ObjectRef, PartitionPart, Reader, decode_rows};
use clap::Args;
use client::Client;
use proto::althing::backup::v1::restored_record::Outcome;
use proto::althing::backup::v1::{RestoreRequest, Row, SavedRecord};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example: a new cluster of three from a backup, once on each machine with its own name, and then the data
  althing backup restore /backups --name a --data-dir a --cluster-token restored \\
      --initial-cluster a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380
  althing backup restore /backups --endpoints 10.0.0.1:2379

Example: what would become of one prefix; then these keys under another name
  althing backup restore /backups --ns shop --prefix order/ --dry-run
  althing backup restore /backups --ns shop --prefix order/ --as-prefix recovered/

Keys that hold something stay as they are, unless --replace is given; so a restore that was interrupted may be repeated.";

/// Records and bytes of one request.
const BATCH_RECORDS: usize = 128;
const BATCH_BYTES_SOFT: usize = 1 << 20;

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Restore {
    #[command(flatten)]
    place: TargetArgs,
    /// The backup [default: the newest]
    id: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Keys that hold something get the value of the backup
    #[arg(long, conflicts_with = "data_dir")]
    replace: bool,
    /// Prints what would become of the keys
    #[arg(long, conflicts_with = "data_dir")]
    dry_run: bool,
    /// Where a new member's data goes; there must be nothing in it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["ns", "prefix", "keys"])]
    data_dir: Option<PathBuf>,
    /// The name that the member will be started with, with --data-dir
    #[arg(long, default_value = "default")]
    name: String,
    /// All members of the new cluster, with --data-dir [default: this member alone]
    #[arg(long, value_name = "NAME=HOST:PORT,...", value_delimiter = ',')]
    initial_cluster: Vec<String>,
    /// The region that the members will be started with, with --data-dir
    #[arg(long, default_value = "default")]
    region: String,
    /// The token that the members will be started with, with --data-dir [default: that of the region]
    #[arg(long)]
    cluster_token: Option<String>,
    #[command(flatten)]
    options: Options,
}

impl Restore {
    pub async fn run(&self) -> Result<(), Error> {
        let (target, key) = self.place.open()?;
        let reader = Reader::open(&target, key.as_ref(), self.id.as_deref()).await?;
        match &self.data_dir {
            Some(data_dir) => self.restore_member(&reader, data_dir.clone()).await,
            None => self.restore_data(&reader).await,
        }
    }

    async fn restore_member(&self, reader: &Reader<'_>, data_dir: PathBuf) -> Result<(), Error> {
        let Some(coord) = &reader.manifest().coord else {
            return Err(Error::Incomplete("the backup has nothing of the coordination store".to_owned()));
        };
        let mut file = tempfile::NamedTempFile::new().map_err(Error::Output)?;
        for object in &coord.objects {
            let content = reader.content(object).await?;
            file.write_all(&content).map_err(Error::Output)?;
        }
        file.flush().map_err(Error::Output)?;
        let restore = member::Restore {
            file: file.path().to_owned(),
            data_dir,
            name: self.name.clone(),
            initial_cluster: self.initial_cluster.clone(),
            region: self.region.clone(),
            cluster_token: self.cluster_token.clone(),
            bump_revision: member::RAISE_DEFAULT,
            mark_compacted: None,
            skip_hash_check: false,
        };
        restore.run()
    }

    async fn restore_data(&self, reader: &Reader<'_>) -> Result<(), Error> {
        let Some(mesh) = &reader.manifest().mesh else {
            return Err(Error::Incomplete("the backup has nothing of the data plane".to_owned()));
        };
        self.selection.check(mesh)?;
        verify_backup(reader).await?;
        let client = self.options.client()?;
        let mut restoring = Restoring {
            restore: self,
            mesh,
            client,
            run: run_id(),
            waiting: BTreeMap::new(),
            batch: Batch::default(),
            counts: BTreeMap::new(),
            refused: Vec::new(),
        };
        restoring.take_all(reader).await?;
        restoring.report()
    }
}

/// Another for every restore.
fn run_id() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[derive(Default)]
struct Batch {
    namespace_id: u32,
    records: Vec<SavedRecord>,
    bytes: usize,
}

struct Restoring<'a> {
    restore: &'a Restore,
    mesh: &'a MeshPart,
    client: Client,
    run: u64,
    /// Rows that nodes kept for others, until the rows of their keys come.
    waiting: BTreeMap<SavedKey, Vec<Row>>,
    batch: Batch,
    counts: BTreeMap<i32, u64>,
    refused: Vec<String>,
}

impl Restoring<'_> {
    async fn take_all(&mut self, reader: &Reader<'_>) -> Result<(), Error> {
        let total = self.mesh.partitions.iter().map(|part| part.rows).sum();
        let mut progress = Progress::new("restoring", "rows", total);
        let mut done = 0;
        let (in_none, by_partition): (Vec<&PartitionPart>, Vec<&PartitionPart>) =
            self.mesh.partitions.iter().partition(|part| part.partition.is_none());
        for object in in_none.iter().flat_map(|part| &part.objects) {
            for (key, rows) in saved_rows(reader, object).await? {
                done += rows.len() as u64;
                self.waiting.entry(key).or_default().extend(rows);
            }
        }
        for object in by_partition.iter().flat_map(|part| &part.objects) {
            for (key, mut rows) in saved_rows(reader, object).await? {
                done += rows.len() as u64;
                rows.extend(self.waiting.remove(&key).unwrap_or_default());
                self.add(key, rows).await?;
            }
            progress.tell(done);
        }
        for (key, rows) in std::mem::take(&mut self.waiting) {
            self.add(key, rows).await?;
        }
        self.send().await?;
        progress.end();
        Ok(())
    }

    async fn add(&mut self, key: SavedKey, rows: Vec<Row>) -> Result<(), Error> {
        let mut namespaces = self.mesh.namespaces.iter();
        let namespace = namespaces.find(|namespace| namespace.id == key.namespace_id).ok_or_else(|| {
            Error::Incomplete(format!(
                "the backup has keys of the namespace {}, and not its name",
                key.namespace_id
            ))
        })?;
        if !self.restore.selection.takes(namespace, &key.name) {
            return Ok(());
        }
        let bytes = rows.iter().map(|row| row.key.len() + row.value.len()).sum::<usize>();
        let full = self.batch.records.len() >= BATCH_RECORDS || self.batch.bytes + bytes > BATCH_BYTES_SOFT;
        if full || self.batch.namespace_id != key.namespace_id {
            self.send().await?;
        }
        self.batch.namespace_id = key.namespace_id;
        self.batch.bytes += bytes;
        self.batch.records.push(SavedRecord { name: self.restore.selection.name(&key.name), rows });
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Error> {
        let Batch { namespace_id, records, .. } = std::mem::take(&mut self.batch);
        let namespace = self.mesh.namespaces.iter().find(|namespace| namespace.id == namespace_id);
        let Some(namespace) = namespace.filter(|_| !records.is_empty()) else { return Ok(()) };
        let names: Vec<_> = records.iter().map(|record| record.name.clone()).collect();
        let request = RestoreRequest {
            run: self.run,
            namespace: Some(self.restore.selection.settings(namespace)),
            records,
            replace: self.restore.replace,
            dry_run: self.restore.dry_run,
        };
        let response = self.client.restore_rows(request).await?;
        for (record, name) in response.records.iter().zip(names) {
            *self.counts.entry(record.outcome).or_default() += 1;
            if record.outcome() == Outcome::Refused {
                self.refused.push(format!("{}: {}", String::from_utf8_lossy(&name), record.message));
            }
        }
        Ok(())
    }

    fn report(self) -> Result<(), Error> {
        let count = |outcome: Outcome| self.counts.get(&(outcome as i32)).copied().unwrap_or(0);
        let verb = if self.restore.dry_run { "Would restore" } else { "Restored" };
        let told = format!(
            "{verb} {} keys and replace {}; {} hold something and stay, {} had been deleted or have expired\n",
            count(Outcome::Restored),
            count(Outcome::Replaced),
            count(Outcome::Kept),
            count(Outcome::Gone)
        );
        print(told.as_bytes())?;
        if self.refused.is_empty() {
            return Ok(());
        }
        Err(Error::Incomplete(format!(
            "{} keys were refused:\n  {}",
            self.refused.len(),
            self.refused.join("\n  ")
        )))
    }
}

/// The rows of an object, by key.
async fn saved_rows(reader: &Reader<'_>, object: &ObjectRef) -> Result<Vec<(SavedKey, Vec<Row>)>, Error> {
    let unknown = || {
        let message = format!(
            "object {} holds rows that this release does not know: restore it with a later one",
            object.name
        );
        Error::Incomplete(message)
    };
    let mut found: Vec<(SavedKey, Vec<Row>)> = Vec::new();
    for DataRow { key, value } in decode_rows(reader.content(object).await?).ok_or_else(unknown)? {
        let saved = SavedKey::of_row(&key).ok_or_else(unknown)?;
        let row = Row { key, value };
        match found.last_mut() {
            Some((last, rows)) if *last == saved => rows.push(row),
            _ => found.push((saved, vec![row])),
        }
    }
    Ok(found)
}
