//! `althing backup`: both planes of a running cluster, saved into a directory or a bucket, looked at, verified, pruned and
//! restored. The crate `backup` has the formats and the places; here are the calls to the cluster, and what is printed.

mod coord_keys;
mod create;
mod nodes;
mod restore;
mod selection;
mod told;
mod verify;

use super::{Error, Options, print};
use ::backup::{BackupKey, Manifest, Reader, Target};
use clap::{Args, Subcommand};
use std::path::PathBuf;

const LS_EXAMPLE: &str = "\
Example:
  althing backup ls s3://bucket/althing
  althing backup show /backups 20250122T103000.000Z
  althing backup verify /backups --scratch /var/tmp
  althing backup prune /backups --keep 7";

#[derive(Subcommand)]
pub enum Backup {
    /// Saves both planes of a running cluster
    Create(create::Create),
    /// Lists the backups, the oldest first
    #[command(after_help = LS_EXAMPLE)]
    Ls {
        #[command(flatten)]
        place: TargetArgs,
    },
    /// Prints what a backup holds, as JSON
    Show {
        #[command(flatten)]
        place: TargetArgs,
        /// The backup [default: the newest]
        id: Option<String>,
    },
    /// Reads every object of a backup, and names those that are damaged or missing
    Verify {
        #[command(flatten)]
        place: TargetArgs,
        /// The backup [default: the newest]
        id: Option<String>,
        /// Restore it, too, in a directory below this one, which is removed afterwards
        #[arg(long, value_name = "DIR")]
        scratch: Option<PathBuf>,
        /// Remove objects that are damaged, so that the next backup sends them again
        #[arg(long)]
        drop_damaged: bool,
    },
    /// Removes old backups, and the objects that no other backup needs
    Prune {
        #[command(flatten)]
        place: TargetArgs,
        /// How many of the newest stay
        #[arg(long, value_name = "N")]
        keep: usize,
        /// Prints what would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Restores a backup into a new member's directory, or into a running cluster
    Restore(Box<restore::Restore>),
}

/// Where backups are kept, and their key.
#[derive(Args)]
pub struct TargetArgs {
    /// A directory, or s3://BUCKET/PREFIX with credentials and endpoint in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
    /// AWS_REGION, AWS_ENDPOINT_URL, or the files of ~/.aws
    target: String,
    /// The key of encrypted backups: a file of 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl TargetArgs {
    fn open(&self) -> Result<(Target, Option<BackupKey>), Error> {
        let key = self.key_file.as_deref().map(BackupKey::read).transpose()?;
        Ok((Target::parse(&self.target)?, key))
    }
}

impl Backup {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Backup::Create(create) => create.run().await,
            Backup::Restore(restore) => restore.run().await,
            Backup::Ls { place } => ls(place).await,
            Backup::Show { place, id } => {
                let (target, key) = place.open()?;
                let reader = Reader::open(&target, key.as_ref(), id.as_deref()).await?;
                let text = serde_json::to_string_pretty(&summary(reader.manifest()));
                print(format!("{}\n", text.unwrap_or_default()).as_bytes())
            }
            Backup::Verify { place, id, scratch, drop_damaged } => {
                let (target, key) = place.open()?;
                let reader = Reader::open(&target, key.as_ref(), id.as_deref()).await?;
                let damaged = if *drop_damaged {
                    verify::DamagedObjects::Removed
                } else {
                    verify::DamagedObjects::Stay
                };
                print(verify::verify(&reader, damaged).await?.as_bytes())?;
                match scratch {
                    Some(dir) => verify::restore_in(&reader, dir).await,
                    None => Ok(()),
                }
            }
            Backup::Prune { place, keep, dry_run } => prune(place, *keep, *dry_run).await,
        }
    }
}

async fn ls(place: &TargetArgs) -> Result<(), Error> {
    let (target, key) = place.open()?;
    let mut text = String::new();
    for id in ::backup::list(&target).await? {
        let reader = Reader::open(&target, key.as_ref(), Some(id.as_str())).await?;
        let manifest = reader.manifest();
        let revision = manifest.coord.as_ref().map_or(0, |coord| coord.revision);
        text += &format!(
            "{id}, revision {revision}, {} rows, {} bytes, {} sent\n",
            manifest.rows(),
            manifest.content_bytes(),
            manifest.sent_bytes
        );
    }
    print(text.as_bytes())
}

/// The manifest with counts in the place of its objects.
fn summary(manifest: &Manifest) -> serde_json::Value {
    let mesh = manifest.mesh.as_ref();
    serde_json::json!({
        "id": manifest.id,
        "release": manifest.release,
        "cluster": manifest.cluster,
        "cut_ms": manifest.cut_ms,
        "finished_ms": manifest.finished_ms,
        "objects": manifest.objects().count(),
        "bytes": manifest.content_bytes(),
        "sent_bytes": manifest.sent_bytes,
        "coord": manifest.coord.as_ref().map(|coord| serde_json::json!({
            "member": coord.member, "revision": coord.revision, "bytes": coord.bytes,
        })),
        "data": mesh.map(|mesh| serde_json::json!({
            "epoch": mesh.epoch,
            "nodes": mesh.nodes,
            "namespaces": mesh.namespaces.iter().map(|namespace| &namespace.name).collect::<Vec<_>>(),
            "rows": manifest.rows(),
            "elements": manifest.elements(),
        })),
    })
}

async fn prune(place: &TargetArgs, keep: usize, dry_run: bool) -> Result<(), Error> {
    let (target, key) = place.open()?;
    let pruned = ::backup::prune(&target, key.as_ref(), keep, dry_run).await?;
    let verb = if dry_run { "would remove" } else { "removed" };
    let mut text: String = pruned.backups.iter().map(|id| format!("{verb} backup {id}\n")).collect();
    text +=
        &format!("{verb} {} objects, {} bytes; {} backups stay\n", pruned.objects, pruned.bytes, pruned.kept);
    print(text.as_bytes())
}
