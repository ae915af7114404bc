//! `althing backup restore`: with --data-dir a new member's directory with the coordination store of the backup; without it the
//! data plane of the backup, or with --coord the coordination store, or a part of these, into a running cluster of any size. A backup that is not whole is refused before
//! anything is changed.

use super::selection::{SavedKey, Selection, is_collection};
use super::told::{KeyFate, KeyName, tell};
use super::verify::{DamagedObjects, verify};
use super::{Error, Options, TargetArgs, coord_keys, print};
use crate::client::{Format, rate};
use crate::progress::Progress;
use crate::verbs::snapshot::restore as member;
use ::backup::{
    BELOW_COLLECTION, CoordPart, DataRow, MeshPart, NamespaceEntry, ObjectRef, Pace, PartitionPart, Reader,
    decode_rows,
};
use clap::Args;
use client::Client;
use proto::althing::backup::v1::restored_record::Outcome;
use proto::althing::backup::v1::{RestoreRequest, Row, SavedRecord};
use server::offline::RestorePoint;
use std::collections::BTreeMap;
use std::fs::File;
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

Example: keys of coordination, as they were before a mistake, into the running cluster
  althing backup restore /backups --coord --prefix app/ --to-time 2025-01-22T10:30:00Z --replace

Keys that hold something stay as they are, unless --replace is given; so a restore that was interrupted may be repeated.";

/// Records, elements of one collection, and bytes of one request.
const BATCH_RECORDS: usize = 128;
const BATCH_ELEMENTS: usize = 512;
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
    /// Prints what would become of each key; with -w json an object for each
    #[arg(long, conflicts_with = "data_dir")]
    dry_run: bool,
    /// The keys of the coordination store instead of the data plane, into the running cluster
    #[arg(long, conflicts_with_all = ["data_dir", "ns"])]
    coord: bool,
    #[command(flatten)]
    point: member::PointArgs,
    /// How many bytes are sent in a second at most, as 500KB, 20MB or 1GB
    #[arg(long, value_name = "BYTES", value_parser = rate::parse, conflicts_with = "data_dir")]
    limit_rate: Option<u64>,
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
            None if self.coord => coord_keys::restore(self, &reader).await,
            None if self.point() != RestorePoint::Newest => {
                let problem = "--to-revision and --to-time go with --data-dir or --coord";
                Err(Error::Usage(problem.to_owned()))
            }
            None => self.restore_data(&reader).await,
        }
    }

    pub fn point(&self) -> RestorePoint {
        self.point.point()
    }

    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub fn replaces(&self) -> bool {
        self.replace
    }

    pub fn pace(&self) -> Pace {
        Pace::new(self.limit_rate)
    }

    /// Among lines of JSON it has no place.
    pub fn print_summary(&self, told: &str) -> Result<(), Error> {
        let is_json = self.dry_run && self.options.write_out == Format::Json;
        if is_json { Ok(()) } else { print(told.as_bytes()) }
    }

    async fn restore_member(&self, reader: &Reader<'_>, data_dir: PathBuf) -> Result<(), Error> {
        let Some(coord) = &reader.manifest().coord else {
            return Err(Error::Incomplete("the backup has nothing of the coordination store".to_owned()));
        };
        let mut file = tempfile::NamedTempFile::new().map_err(Error::Output)?;
        coord_file(reader, coord, file.as_file_mut()).await?;
        let restore = member::Restore {
            file: file.path().to_owned(),
            data_dir,
            name: self.name.clone(),
            initial_cluster: self.initial_cluster.clone(),
            region: self.region.clone(),
            cluster_token: self.cluster_token.clone(),
            bump_revision: member::RAISE_ADVISED,
            mark_compacted: None,
            skip_hash_check: false,
            point: self.point,
        };
        restore.run()
    }

    async fn restore_data(&self, reader: &Reader<'_>) -> Result<(), Error> {
        let Some(mesh) = &reader.manifest().mesh else {
            return Err(Error::Incomplete("the backup has nothing of the data plane".to_owned()));
        };
        self.selection.check(mesh)?;
        self.print_summary(&verify(reader, DamagedObjects::Stay).await?)?;
        let client = self.options.client()?;
        let mut restoring = Restoring {
            restore: self,
            mesh,
            has_elements: reader.manifest().has_elements(),
            client,
            pace: self.pace(),
            run: run_id(),
            waiting: BTreeMap::new(),
            batch: Batch::default(),
            collection: None,
            counts: BTreeMap::new(),
            elements: 0,
            refused: Vec::new(),
        };
        restoring.take_all(reader).await?;
        restoring.report()
    }
}

/// The snapshot of the coordination store, put together again.
pub async fn coord_file(reader: &Reader<'_>, coord: &CoordPart, file: &mut File) -> Result<(), Error> {
    for object in &coord.objects {
        let content = reader.content(object).await?;
        file.write_all(&content).map_err(Error::Output)?;
    }
    file.flush().map_err(Error::Output)
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

/// A collection whose elements are being read.
struct SavedCollection {
    key: SavedKey,
    /// The rows of its record.
    records: Vec<Row>,
    elements: Vec<Row>,
    bytes: usize,
    /// So many elements have been sent.
    offset: u64,
    outcome: Option<Outcome>,
    /// No more elements are wanted.
    is_over: bool,
}

struct Restoring<'a> {
    restore: &'a Restore,
    mesh: &'a MeshPart,
    has_elements: bool,
    client: Client,
    pace: Pace,
    run: u64,
    /// Rows that nodes kept for others, until the rows of their keys come.
    waiting: BTreeMap<SavedKey, Vec<Row>>,
    batch: Batch,
    collection: Option<SavedCollection>,
    counts: BTreeMap<i32, u64>,
    /// Of collections, that were put back.
    elements: u64,
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
            progress.update(done);
        }
        for (key, rows) in std::mem::take(&mut self.waiting) {
            self.add(key, rows).await?;
        }
        self.end_collection().await?;
        self.send().await?;
        progress.end();
        Ok(())
    }

    fn namespace(&self, key: &SavedKey) -> Result<&NamespaceEntry, Error> {
        let mut namespaces = self.mesh.namespaces.iter();
        namespaces.find(|namespace| namespace.id == key.namespace_id).ok_or_else(|| {
            Error::Incomplete(format!(
                "the backup has keys of the namespace {}, and not its name",
                key.namespace_id
            ))
        })
    }

    async fn add(&mut self, key: SavedKey, rows: Vec<Row>) -> Result<(), Error> {
        let namespace = self.namespace(&key)?;
        if !self.restore.selection.takes(namespace, &key.name) {
            return Ok(());
        }
        let is_element = |row: &Row| row.key.first() == Some(&BELOW_COLLECTION);
        let (elements, records): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(is_element);
        if records.iter().any(|row| is_collection(&row.key, &row.value)) {
            self.begin_collection(key, records).await?;
            return self.add_elements(elements).await;
        }
        if records.is_empty() {
            if self.collection.as_ref().is_none_or(|collection| collection.key != key) {
                let name = String::from_utf8_lossy(&key.name).into_owned();
                return Err(Error::Incomplete(format!(
                    "the backup has elements of {name}, and not its record"
                )));
            }
            return self.add_elements(elements).await;
        }
        self.add_record(key, records).await
    }

    async fn begin_collection(&mut self, key: SavedKey, records: Vec<Row>) -> Result<(), Error> {
        self.end_collection().await?;
        if !self.has_elements {
            let name = String::from_utf8_lossy(&key.name);
            self.refused.push(format!("{name}: the backup was taken without its elements"));
        }
        let is_over = !self.has_elements;
        let (elements, bytes, offset, outcome) = (Vec::new(), 0, 0, None);
        self.collection = Some(SavedCollection { key, records, elements, bytes, offset, outcome, is_over });
        Ok(())
    }

    async fn add_elements(&mut self, elements: Vec<Row>) -> Result<(), Error> {
        for row in elements {
            let Some(collection) = self.collection.as_mut().filter(|collection| !collection.is_over) else {
                return Ok(());
            };
            collection.bytes += row.key.len() + row.value.len();
            collection.elements.push(row);
            if collection.elements.len() >= BATCH_ELEMENTS || collection.bytes >= BATCH_BYTES_SOFT {
                self.send_elements().await?;
            }
        }
        Ok(())
    }

    /// The elements that were read, which come behind those that were sent.
    async fn send_elements(&mut self) -> Result<(), Error> {
        let Some(mut collection) = self.collection.take() else { return Ok(()) };
        let elements = std::mem::take(&mut collection.elements);
        let n_elements = elements.len() as u64;
        let name = self.restore.selection.name(&collection.key.name);
        self.pace.spend(collection.bytes as u64).await;
        let rows = collection.records.iter().cloned().chain(elements).collect();
        let request = RestoreRequest {
            run: self.run,
            namespace: Some(self.restore.selection.settings(self.namespace(&collection.key)?)),
            records: vec![SavedRecord { name, rows, offset: collection.offset }],
            replace: self.restore.replace,
            dry_run: self.restore.dry_run,
        };
        let response = self.client.restore_rows(request).await?;
        for record in &response.records {
            self.elements += record.elements;
            let outcome = record.outcome();
            if outcome == Outcome::Refused {
                let name = String::from_utf8_lossy(&collection.key.name);
                self.refused.push(format!("{name}: {}", record.message));
            }
            let is_kept = collection.outcome == Some(Outcome::Kept);
            let first = collection.outcome.filter(|_| !is_kept && outcome != Outcome::Refused);
            collection.outcome = Some(first.unwrap_or(outcome));
            collection.is_over = record.is_other || self.restore.dry_run;
        }
        (collection.bytes, collection.offset) = (0, collection.offset + n_elements);
        self.collection = Some(collection);
        Ok(())
    }

    /// A collection whose elements have all expired is gone.
    async fn end_collection(&mut self) -> Result<(), Error> {
        if self.collection.as_ref().is_some_and(|collection| !collection.elements.is_empty()) {
            self.send_elements().await?;
        }
        if let Some(SavedCollection { key, outcome, is_over, .. }) = self.collection.take() {
            let outcome = outcome.unwrap_or(if is_over { Outcome::Refused } else { Outcome::Gone });
            let namespace = self.restore.selection.settings(self.namespace(&key)?).name;
            let name = self.restore.selection.name(&key.name);
            self.note_outcome(outcome, KeyName { namespace: Some(&namespace), key: &name })?;
        }
        Ok(())
    }

    async fn add_record(&mut self, key: SavedKey, rows: Vec<Row>) -> Result<(), Error> {
        let bytes = rows.iter().map(|row| row.key.len() + row.value.len()).sum::<usize>();
        let full = self.batch.records.len() >= BATCH_RECORDS || self.batch.bytes + bytes > BATCH_BYTES_SOFT;
        if full || self.batch.namespace_id != key.namespace_id {
            self.send().await?;
        }
        self.batch.namespace_id = key.namespace_id;
        self.batch.bytes += bytes;
        self.batch.records.push(SavedRecord {
            name: self.restore.selection.name(&key.name),
            rows,
            offset: 0,
        });
        Ok(())
    }

    async fn send(&mut self) -> Result<(), Error> {
        let Batch { namespace_id, records, bytes } = std::mem::take(&mut self.batch);
        let namespace = self.mesh.namespaces.iter().find(|namespace| namespace.id == namespace_id);
        let Some(namespace) = namespace.filter(|_| !records.is_empty()) else { return Ok(()) };
        let names: Vec<_> = records.iter().map(|record| record.name.clone()).collect();
        let settings = self.restore.selection.settings(namespace);
        self.pace.spend(bytes as u64).await;
        let request = RestoreRequest {
            run: self.run,
            namespace: Some(settings.clone()),
            records,
            replace: self.restore.replace,
            dry_run: self.restore.dry_run,
        };
        let response = self.client.restore_rows(request).await?;
        for (record, name) in response.records.iter().zip(names) {
            if record.outcome() == Outcome::Refused {
                self.refused.push(format!("{}: {}", String::from_utf8_lossy(&name), record.message));
            }
            self.note_outcome(record.outcome(), KeyName { namespace: Some(&settings.name), key: &name })?;
        }
        Ok(())
    }

    fn note_outcome(&mut self, outcome: Outcome, name: KeyName<'_>) -> Result<(), Error> {
        *self.counts.entry(outcome as i32).or_default() += 1;
        let fate = match outcome {
            Outcome::Restored => KeyFate::Restore,
            Outcome::Replaced => KeyFate::Replace,
            Outcome::Kept => KeyFate::Keep,
            Outcome::Refused => KeyFate::Refuse,
            Outcome::Gone => return Ok(()),
        };
        if self.restore.dry_run { tell(self.restore.options.write_out, fate, name) } else { Ok(()) }
    }

    fn report(self) -> Result<(), Error> {
        let count = |outcome: Outcome| self.counts.get(&(outcome as i32)).copied().unwrap_or(0);
        let verb = if self.restore.dry_run { "Would restore" } else { "Restored" };
        let told = format!(
            "{verb} {} keys and replace {}; {} hold something and stay, {} had been deleted or have expired; \
             {} elements of collections\n",
            count(Outcome::Restored),
            count(Outcome::Replaced),
            count(Outcome::Kept),
            count(Outcome::Gone),
            self.elements
        );
        self.restore.print_summary(&told)?;
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
pub async fn saved_rows(reader: &Reader<'_>, object: &ObjectRef) -> Result<Vec<(SavedKey, Vec<Row>)>, Error> {
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
