//! Backups restored as of every revision and time that they have, held against what was written.

use super::*;
use crate::restore::RestoredBackup;
use base::LeaseId;
use coord::{ChangeKind, Revoke};
use std::collections::BTreeMap;

const LEASE: LeaseId = LeaseId(7);
const ENDED: LeaseId = LeaseId(8);

fn put(key: u8, value: u8, lease: LeaseId) -> Command {
    Command::Put(Put {
        key: vec![b'k', key].into(),
        value: Some(vec![value; 20].into()),
        lease: Some(lease),
        prev_kv: false,
    })
}

/// Keys with and without leases, deletes, and a lease that ends with its keys; a time mark behind every third command.
fn history() -> (SimDisk, State, Vec<Change>) {
    let mut commands = vec![
        Command::LeaseGrant(Grant { id: LEASE, ttl: 60 }),
        Command::LeaseGrant(Grant { id: ENDED, ttl: 60 }),
    ];
    for n in 0..40_u8 {
        let lease = [LeaseId::NONE, LeaseId::NONE, LEASE, ENDED][usize::from(n % 4)];
        commands.push(put(n % 11, n, lease));
        if n % 7 == 6 {
            let keys = base::KeyRange::single(vec![b'k', n % 5].into());
            commands.push(Command::Delete(Delete { keys, prev_kv: false }));
        }
        if n % 3 == 2 {
            commands.push(Command::TimeMark { millis: i64::from(n) * 1_000 });
        }
    }
    commands.push(Command::LeaseRevoke(Revoke { id: ENDED, guard: None }));
    commands.push(put(1, 99, LeaseId::NONE));
    filled_by(commands)
}

type Keys = BTreeMap<Bytes, (Bytes, LeaseId)>;

/// What was there at a revision, without keys of the lease that has ended since.
fn expected(changes: &[Change], revision: Revision) -> Keys {
    let mut keys = Keys::new();
    for change in changes.iter().filter(|change| change.revision <= revision) {
        match &change.kind {
            ChangeKind::Put(record) => {
                keys.insert(change.key.clone(), (record.value.clone(), record.lease));
            }
            ChangeKind::Delete => drop(keys.remove(&change.key)),
        }
    }
    keys.retain(|_, (_, lease)| *lease != ENDED);
    keys
}

fn saved(bytes: &[u8], point: RestorePoint) -> Result<Keys, Error> {
    let mut source = Cursor::new(bytes);
    let found = SavedKeys::read(&mut source, DigestRule::Required, point)?;
    let mut keys = Keys::new();
    found.values(&mut source, DigestRule::Required, &mut |some| {
        keys.extend(some.into_iter().map(|key| (key.key, (key.value, key.lease.unwrap_or(LeaseId::NONE)))));
        true
    })?;
    assert_eq!(keys.len(), found.count());
    Ok(keys)
}

fn restored_at(bytes: &[u8], raise_by: i64, point: RestorePoint) -> (SimDisk, Result<RestoredBackup, Error>) {
    let disk = SimDisk::new(4);
    let rules = rules(raise_by, point);
    let done = restore(Arc::new(disk.clone()), PARAMS, &mut Cursor::new(bytes), rules, &mut |_| {});
    (disk, done)
}

#[test]
fn every_revision_comes_back_as_it_was() {
    let (disk, state, changes) = history();
    let bytes = backup_of(&disk);
    let newest = state.revision().0;
    for revision in 2..=newest {
        let (point, revision) = (RestorePoint::Revision(Revision(revision)), Revision(revision));
        let wanted = expected(&changes, revision);
        assert_eq!(saved(&bytes, point).unwrap(), wanted, "{revision:?}");
        let (disk, done) = restored_at(&bytes, 1_000, point);
        let done = done.unwrap();
        assert_eq!((done.revision.0, done.last), (newest + 1_000, Some(revision)));
        let report = verify(Arc::new(disk.clone()), CACHE, &mut |_| {}).unwrap();
        assert_eq!((report.keys, report.revision.0), (wanted.len(), newest + 1_000), "{revision:?}");
        // What is restored is itself a backup of the same keys.
        assert_eq!(saved(&backup_of(&disk), RestorePoint::Newest).unwrap(), wanted);
    }
}

#[test]
fn a_time_stands_for_the_newest_revision_that_is_marked_by_then() {
    let (disk, _, changes) = history();
    let bytes = backup_taken_at(&disk, 50_000);
    // The mark at 5,000 ms lies behind the sixth put.
    let sixth = changes.iter().filter(|change| matches!(change.kind, ChangeKind::Put(_))).nth(5).unwrap();
    for millis in [5_000, 7_999] {
        let wanted = expected(&changes, sixth.revision);
        assert_eq!(saved(&bytes, RestorePoint::Time(millis)).unwrap(), wanted, "{millis}");
        let (_, done) = restored_at(&bytes, 10, RestorePoint::Time(millis));
        assert_eq!(done.unwrap().last, Some(sixth.revision));
    }
    assert!(matches!(saved(&bytes, RestorePoint::Time(1_999)), Err(Error::Backup(BackupError::UnknownTime))));
    assert!(matches!(
        saved(&bytes, RestorePoint::Time(50_001)),
        Err(Error::Backup(BackupError::LaterTime { .. }))
    ));
}

#[test]
fn a_point_that_the_backup_does_not_have_is_refused_and_leaves_no_store() {
    let (disk, state, _) = history();
    let bytes = backup_of(&disk);
    let newest = state.revision();
    let refused = |bytes: &[u8], raise_by, point| {
        let (disk, done) = restored_at(bytes, raise_by, point);
        assert_eq!(disk.list().unwrap(), Vec::<String>::new());
        done.unwrap_err()
    };
    let later = refused(&bytes, 5, RestorePoint::Revision(newest.next()));
    assert!(matches!(later, Error::Backup(BackupError::Later { newest: found }) if found == newest.0));
    let unraised = refused(&bytes, 0, RestorePoint::Revision(Revision(9)));
    assert!(matches!(unraised, Error::Raise { .. }));
    // A restored store has no past before its raised revision.
    let (disk, _) = restored(&bytes, 1_000);
    let raised = backup_of(&disk);
    let compacted = refused(&raised, 5, RestorePoint::Revision(Revision(newest.0 + 999)));
    assert!(matches!(compacted, Error::Backup(BackupError::Compacted { .. })));
    let first = first_format_of(&history().0);
    let whole = refused(&first, 5, RestorePoint::Revision(Revision(9)));
    assert!(matches!(whole, Error::Backup(BackupError::FirstFormat)));
}
