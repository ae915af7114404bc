//! `althing backup create`: the coordination store as one member has it at one entry, and the rows of the data plane from every
//! node that can be reached. All of it is read after the backup began, so nothing is missing that was acknowledged before.

use super::nodes::{self, Node};
use super::selection::{SavedKey, is_collection, partition_of};
use super::{Error, Options, TargetArgs, print};
use crate::client::rate;
use crate::progress::Progress;
use crate::verbs::snapshot::save::{NICENESS, TrailingDigest};
use ::backup::{
    BackupId, BackupKey, CoordPart, Copies, DataRow, MANIFEST_VERSION, Manifest, MergedRow, MeshPart,
    NamespaceEntry, NodeEntry, ObjectRef, Pace, PartitionPart, RowChunks, RowPass, Target, Writer,
};
use bytes::Bytes;
use clap::Args;
use proto::althing::backup::v1::{ElementsRequest, RowsRequest, RowsResponse};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const EXAMPLE: &str = "\
Example: into a directory, and into a bucket at 20 MB a second
  althing backup create /backups --endpoints 10.0.0.1:2379
  AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… althing backup create s3://bucket/althing --limit-rate 20MB

Example: encrypted
  openssl rand -hex 32 > backup.key
  althing backup create /backups --key-file backup.key

A backup that was interrupted is started again with the same words: what it had sent is not sent again.";

/// The bytes of a piece of the coordination store.
const PIECE_BYTES: usize = 4 << 20;
/// How often the data plane is read from the beginning because its ring has changed, and the pause before that.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Create {
    #[command(flatten)]
    place: TargetArgs,
    /// How many bytes are read from the nodes in a second at most, as 500KB, 20MB or 1GB; no more are sent to the target
    #[arg(long, value_name = "BYTES", value_parser = rate::parse)]
    limit_rate: Option<u64>,
    #[command(flatten)]
    options: Options,
}

/// Why the data plane must be read again.
enum Trouble {
    RingChanged,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Failed(error.into())
    }
}

impl Create {
    pub async fn run(&self) -> Result<(), Error> {
        // The backup works without it.
        let _ = rustix::process::nice(NICENESS);
        let (target, key) = self.place.open()?;
        let cut_ms = now_ms();
        let id = BackupId::at_ms(cut_ms);
        let nodes = nodes::reachable(&self.options).await?;
        let manifest = self.save(&target, key.as_ref(), &id, cut_ms, nodes).await?;
        let told = format!(
            "Backup {id} saved: revision {}, {} rows with {} elements of collections, {} bytes, {} sent\n",
            manifest.coord.as_ref().map_or(0, |coord| coord.revision),
            manifest.rows(),
            manifest.elements(),
            manifest.content_bytes(),
            manifest.sent_bytes
        );
        print(told.as_bytes())
    }

    async fn save(
        &self,
        target: &Target,
        key: Option<&BackupKey>,
        id: &BackupId,
        cut_ms: u64,
        mut nodes: Vec<Node>,
    ) -> Result<Manifest, Error> {
        let mut writer = Writer::begin(target, key, id.clone()).await?;
        let mut saver = Saver { writer: &mut writer, pace: Pace::new(self.limit_rate) };
        let saved = match saver.save_coord(&nodes).await {
            Ok(coord) => saver.save_mesh_retrying(&mut nodes).await.map(|mesh| (coord, mesh)),
            Err(error) => Err(error),
        };
        let (coord, mesh) = match saved {
            Ok(saved) => saved,
            Err(error) => {
                // The first error matters more than the marker.
                let _ = writer.give_up().await;
                return Err(error);
            }
        };
        let cluster = nodes.first().map_or(0, |node| node.about.cluster_id);
        let manifest = Manifest {
            version: MANIFEST_VERSION,
            id: id.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: format!("{cluster:x}"),
            cut_ms,
            finished_ms: now_ms(),
            coord: Some(coord),
            mesh: Some(mesh),
            sent_bytes: 0,
        };
        Ok(writer.finish(manifest).await?)
    }
}

struct Saver<'a, 'b> {
    writer: &'a mut Writer<'b>,
    /// Of what is read. What is sent is less: rows that nodes have in common are sent once, and compressed.
    pace: Pace,
}

impl Saver<'_, '_> {
    /// From the first node that has the coordination store.
    async fn save_coord(&mut self, nodes: &[Node]) -> Result<CoordPart, Error> {
        let mut trouble = Error::Incomplete("no member can be reached".to_owned());
        for node in nodes {
            match node.client.snapshot().await {
                Ok(pieces) => return self.save_pieces(node, pieces).await,
                Err(error) => trouble = error.into(),
            }
        }
        Err(trouble)
    }

    async fn save_pieces(
        &mut self,
        node: &Node,
        mut pieces: tonic::Streaming<proto::etcdserverpb::SnapshotResponse>,
    ) -> Result<CoordPart, Error> {
        let (mut objects, mut content): (Vec<ObjectRef>, Vec<u8>) = (Vec::new(), Vec::new());
        let (mut digest, mut bytes, mut progress) = (TrailingDigest::default(), 0, None);
        while let Some(piece) = pieces.message().await.map_err(client::Error::from)? {
            // Piece by piece: the member gives up a receiver that takes nothing for long.
            self.pace.spend(piece.blob.len() as u64).await;
            digest.add(&piece.blob);
            bytes += piece.blob.len() as u64;
            content.extend_from_slice(&piece.blob);
            while content.len() >= PIECE_BYTES {
                let rest = content.split_off(PIECE_BYTES);
                objects.push(self.writer.put(&content).await?);
                content = rest;
            }
            let total = bytes + piece.remaining_bytes;
            progress.get_or_insert_with(|| Progress::new("saving keys", "bytes", total)).update(bytes);
        }
        if !content.is_empty() {
            objects.push(self.writer.put(&content).await?);
        }
        if let Some(progress) = progress {
            progress.end();
        }
        if !digest.matches_the_end() {
            return Err(Error::Digest);
        }
        let member = format!("{:x}", node.about.node);
        Ok(CoordPart { member, revision: node.about.revision, bytes, objects })
    }

    async fn save_mesh_retrying(&mut self, nodes: &mut [Node]) -> Result<MeshPart, Error> {
        for attempt in 1.. {
            match self.save_mesh(nodes).await {
                Ok(mesh) => return Ok(mesh),
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::RingChanged) if attempt >= ATTEMPTS => {
                    let message =
                        "the ring keeps changing: take the backup when `althing ring` shows no moves";
                    return Err(Error::Incomplete(message.to_owned()));
                }
                Err(Trouble::RingChanged) => {
                    tokio::time::sleep(PAUSE).await;
                    nodes::refresh(nodes).await?;
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn save_mesh(&mut self, nodes: &[Node]) -> Result<MeshPart, Trouble> {
        let epoch = nodes.iter().map(|node| node.about.epoch).max().unwrap_or(0);
        if nodes.iter().any(|node| node.about.epoch != epoch) {
            return Err(Trouble::RingChanged);
        }
        check_reachable(nodes)?;
        let serving: Vec<&Node> = nodes.iter().filter(|node| node.about.is_serving).collect();
        let partitions = RowSaver::new(self, epoch, &serving).save().await?;
        let about = &serving[0].about;
        let was_read = |node: &u64| serving.iter().any(|other| other.about.node == *node);
        let entry = |node: &u64| NodeEntry { node: format!("{node:x}"), was_read: was_read(node) };
        let namespace = |given: &proto::althing::backup::v1::NamespaceSettings| NamespaceEntry {
            name: given.name.clone(),
            id: given.id,
            copies: given.copies,
            kind: given.kind,
            policy: given.policy,
        };
        Ok(MeshPart {
            epoch,
            nodes: about.nodes.iter().map(entry).collect(),
            namespaces: about.namespaces.iter().map(namespace).collect(),
            partitions,
        })
    }
}

/// Refused without a majority of the replicas of each partition.
fn check_reachable(nodes: &[Node]) -> Result<(), Error> {
    let (n_missing, absent) = nodes::missing(nodes);
    let named = absent.iter().map(|node| format!("{node:x}")).collect::<Vec<_>>().join(", ");
    if n_missing > 0 {
        let message = format!(
            "too few replicas of {n_missing} partitions can be reached: --endpoints must name the nodes {named}"
        );
        return Err(Error::Incomplete(message));
    }
    if !absent.is_empty() {
        let warning = format!(
            "Warning: saved without the nodes {named}; every partition has a majority of its replicas\n"
        );
        // The backup matters more.
        let _ = std::io::stderr().write_all(warning.as_bytes());
    }
    Ok(())
}

/// Reads the rows of all nodes side by side.
struct RowSaver<'s, 'a, 'b> {
    saver: &'s mut Saver<'a, 'b>,
    epoch: u64,
    nodes: &'s [&'s Node],
    parts: Vec<PartitionPart>,
    open: Option<OpenPart>,
    read_bytes: u64,
    progress: Progress,
}

impl<'s, 'a, 'b> RowSaver<'s, 'a, 'b> {
    fn new(saver: &'s mut Saver<'a, 'b>, epoch: u64, nodes: &'s [&'s Node]) -> RowSaver<'s, 'a, 'b> {
        // Every replica has about as much, and most rows are the same.
        let total = nodes.iter().map(|node| node.about.stored_bytes).sum();
        let progress = Progress::new("saving data", "bytes", total);
        RowSaver { saver, epoch, nodes, parts: Vec::new(), open: None, read_bytes: 0, progress }
    }

    async fn save(mut self) -> Result<Vec<PartitionPart>, Trouble> {
        for pass in RowPass::ALL {
            self.save_pass(pass).await?;
            self.end_part().await?;
        }
        self.progress.end();
        Ok(self.parts)
    }

    async fn save_pass(&mut self, pass: RowPass) -> Result<(), Trouble> {
        let mut copies = Copies::of(self.nodes.len());
        let mut from = vec![pass.begin(); self.nodes.len()];
        loop {
            let lacking: Vec<usize> = copies.lacking().collect();
            for nth in &lacking {
                let (rows, next) = self.page(*nth, from[*nth].clone(), pass).await?;
                copies.add(*nth, rows, next.is_none());
                from[*nth] = next.unwrap_or_default();
            }
            self.progress.update(self.read_bytes);
            let mut any = false;
            while let Some(merged) = copies.take_next() {
                any = true;
                self.save_merged(&merged).await?;
            }
            if !any && lacking.is_empty() {
                return Ok(());
            }
        }
    }

    async fn save_merged(&mut self, merged: &MergedRow) -> Result<(), Trouble> {
        let partition = partition_of(&merged.key);
        if self.open.as_ref().is_some_and(|open| open.part.partition != partition) {
            self.end_part().await?;
        }
        if merged.values.iter().any(|value| is_collection(&merged.key, value)) {
            return self.save_collection(merged).await;
        }
        for row in merged.rows() {
            self.add(&row).await?;
        }
        Ok(())
    }

    async fn add(&mut self, row: &DataRow) -> Result<(), Error> {
        let open = self.open.get_or_insert_with(|| OpenPart::new(partition_of(&row.key)));
        open.add(self.saver.writer, row).await
    }

    async fn end_part(&mut self) -> Result<(), Error> {
        if let Some(open) = self.open.take() {
            self.parts.push(open.finish(self.saver.writer).await?);
        }
        Ok(())
    }

    /// The record and the elements of a collection, as all of its replicas have them that can be asked.
    async fn save_collection(&mut self, merged: &MergedRow) -> Result<(), Trouble> {
        let node = self.nodes[0];
        let replicas = nodes::reachable_replicas(self.nodes, &merged.key);
        let mut after = None;
        loop {
            let request = ElementsRequest { record: merged.key.clone(), after, replicas };
            let page = node.client.saved_elements(request).await.map_err(|error| {
                let name = SavedKey::of_row(&merged.key).map(|key| key.name).unwrap_or_default();
                let message = format!("the elements of {}: {error}", String::from_utf8_lossy(&name));
                Trouble::Failed(Error::Incomplete(message))
            })?;
            for row in page.rows {
                let row = DataRow { key: row.key, value: row.value };
                self.saver.pace.spend(row.bytes()).await;
                self.add(&row).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The rows of a page that the pass takes, and where it goes on.
    async fn page(
        &mut self,
        nth: usize,
        from: Bytes,
        pass: RowPass,
    ) -> Result<(Vec<DataRow>, Option<Bytes>), Trouble> {
        let node = self.nodes[nth];
        let page = node.client.rows(RowsRequest { from }).await;
        let RowsResponse { epoch, rows, next } = page.map_err(|error| {
            let message = format!("node {:x} at {}: {error}", node.about.node, node.client.endpoint());
            Trouble::Failed(Error::Incomplete(message))
        })?;
        if epoch != self.epoch {
            return Err(Trouble::RingChanged);
        }
        let rows = rows.into_iter().filter(|row| pass.takes(&row.key));
        let rows: Vec<DataRow> = rows.map(|row| DataRow { key: row.key, value: row.value }).collect();
        let bytes = rows.iter().map(DataRow::bytes).sum::<u64>();
        self.saver.pace.spend(bytes).await;
        self.read_bytes += bytes;
        Ok((rows, pass.after(next)))
    }
}

/// A partition whose rows are being saved.
struct OpenPart {
    part: PartitionPart,
    chunks: RowChunks,
}

impl OpenPart {
    fn new(partition: Option<u8>) -> OpenPart {
        OpenPart {
            part: PartitionPart { partition, rows: 0, elements: 0, objects: Vec::new() },
            chunks: RowChunks::default(),
        }
    }

    async fn add(&mut self, writer: &mut Writer<'_>, row: &DataRow) -> Result<(), Error> {
        self.part.rows += 1;
        self.part.elements += u64::from(row.is_element());
        if let Some(content) = self.chunks.add(row) {
            self.part.objects.push(writer.put(&content).await?);
        }
        Ok(())
    }

    async fn finish(mut self, writer: &mut Writer<'_>) -> Result<PartitionPart, Error> {
        if let Some(content) = self.chunks.finish() {
            self.part.objects.push(writer.put(&content).await?);
        }
        Ok(self.part)
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}
