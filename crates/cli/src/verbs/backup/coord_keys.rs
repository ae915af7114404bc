//! `althing backup restore --coord`: keys of the coordination store, as a backup has them, into a running cluster. They are written
//! by clients' requests, so revisions rise and watchers are told. Keys of leases come with leases of the same ids.

use super::restore::{Restore, coord_file};
use super::told::{KeyFate, KeyName, tell};
use super::verify::{DamagedObjects, verify};
use super::{Error, print};
use crate::progress::Progress;
use crate::transfer::{Checkpoint, Destination, Import, Row, SavedSource, Source};
use ::backup::Reader;
use bytes::Bytes;
use server::offline::{DigestRule, RestorePoint, SavedKeys};
use std::fs::File;

/// Keys that are looked at together.
const BATCH_KEYS: usize = 128;

pub async fn restore(restore: &Restore, reader: &Reader<'_>) -> Result<(), Error> {
    let Some(coord) = &reader.manifest().coord else {
        return Err(Error::Incomplete("the backup has nothing of the coordination store".to_owned()));
    };
    restore.print_summary(&verify(reader, DamagedObjects::Stay).await?)?;
    let mut file = tempfile::tempfile().map_err(Error::Output)?;
    coord_file(reader, coord, &mut file).await?;
    let (file, keys) = read_keys(file, restore.point()).await?;
    let selection = restore.selection().clone();
    let name_of = move |key: &Bytes| selection.takes_name(key).then(|| selection.name(key));
    let mut source = Source::Saved(Box::new(SavedSource::begin(file, keys, name_of)));
    let destination = Destination::coord(restore.options().client()?);
    if restore.is_dry_run() {
        return tell_all(restore, &mut source, &destination).await;
    }
    let mut import = Import {
        destination,
        overwrite: restore.replaces(),
        prefix: Vec::new(),
        pace: restore.pace(),
        checkpoint: Checkpoint::new(None, String::new()),
    };
    let counts = import.run(&mut source).await?;
    let told = format!(
        "Restored {} keys of coordination; {} had that value, {} hold something else and stay, {} had ended with their leases\n",
        counts.written,
        counts.rows - counts.written,
        counts.kept.n,
        counts.ended
    );
    print(told.as_bytes())?;
    let troubles = [
        counts.refused.summary("were refused"),
        counts
            .changed
            .summary("held something else when they were read back: does another client write them?"),
    ];
    let troubles: Vec<String> = troubles.into_iter().flatten().collect();
    if troubles.is_empty() { Ok(()) } else { Err(Error::Incomplete(troubles.join("\n"))) }
}

async fn read_keys(mut file: File, point: RestorePoint) -> Result<(File, SavedKeys), Error> {
    let read = tokio::task::spawn_blocking(move || {
        let keys = SavedKeys::read(&mut file, DigestRule::Required, point);
        (file, keys)
    });
    let (file, keys) =
        read.await.map_err(|_| Error::Incomplete("reading the backup ended early".to_owned()))?;
    Ok((file, keys.map_err(server::Error::from)?))
}

/// What would become of each key.
async fn tell_all(restore: &Restore, source: &mut Source, destination: &Destination) -> Result<(), Error> {
    let (mut n_restore, mut n_replace, mut n_keep, mut progress) = (0_u64, 0_u64, 0_u64, None);
    while let Some(chunk) = source.next().await? {
        for rows in chunk.rows.chunks(BATCH_KEYS) {
            for (row, found) in rows.iter().zip(destination.read(rows).await?) {
                let fate = fate_of(destination, row, found.as_ref(), restore.replaces());
                match fate {
                    KeyFate::Restore => n_restore += 1,
                    KeyFate::Replace => n_replace += 1,
                    KeyFate::Keep | KeyFate::Refuse => n_keep += 1,
                }
                tell(restore.options().write_out, fate, KeyName { namespace: None, key: &row.key })?;
            }
        }
        let (unit, total, done) = source.progress();
        progress.get_or_insert_with(|| Progress::new("comparing", unit, total)).update(done);
    }
    if let Some(progress) = progress {
        progress.end();
    }
    let told =
        format!("Would restore {n_restore} keys of coordination and replace {n_replace}; {n_keep} stay\n");
    restore.print_summary(&told)
}

fn fate_of(destination: &Destination, row: &Row, found: Option<&Row>, replaces: bool) -> KeyFate {
    match found {
        None => KeyFate::Restore,
        Some(found) if replaces && !destination.holds(row, found) => KeyFate::Replace,
        Some(_) => KeyFate::Keep,
    }
}
