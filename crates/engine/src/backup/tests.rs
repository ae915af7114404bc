//! A backup taken, read back, damaged everywhere, and restored into another directory.

mod points;

use super::*;
use crate::member_store::{LIVE, MemberStoreParams};
use crate::restore::{RestoreRules, restore};
use crate::verify::verify;
use base::{Boot, Index, Position, ProposalId, Revision, Term};
use coord::request::{Delete, Put};
use coord::{Change, Command, Grant, Proposal, Record, Records, State, Unindexed, rows};
use disk::store::chunk::Chunks;
use disk::{Disk, SimDisk, Store};
use std::io::Cursor;

fn digest_of(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    digest::digest(&SHA256, bytes).as_ref().try_into().unwrap()
}

const CACHE: usize = 256 * 1024;
const PARAMS: MemberStoreParams =
    MemberStoreParams { cache_bytes: CACHE, chunk_bytes: 600, unindexed_keys_max: 100 };

struct Kept<'a>(&'a [Change]);

impl Records for Kept<'_> {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        let change = self.0.iter().find(|change| change.key == key && change.revision == revision)?;
        match &change.kind {
            coord::ChangeKind::Put(record) => Some(record.clone()),
            coord::ChangeKind::Delete => None,
        }
    }
}

/// A store with keys, a lease, deletes and a past.
fn filled() -> (SimDisk, State) {
    let mut commands = vec![Command::LeaseGrant(Grant { id: base::LeaseId(7), ttl: 60 })];
    for n in 0..40u8 {
        commands.push(Command::Put(Put {
            key: vec![b'k', n % 16].into(),
            value: Some(vec![n; 50].into()),
            lease: Some(base::LeaseId(if n % 5 == 0 { 7 } else { 0 })),
            prev_kv: false,
        }));
    }
    commands.push(Command::Delete(Delete { keys: base::KeyRange::single("k\u{3}".into()), prev_kv: false }));
    let (disk, state, _) = filled_by(commands);
    (disk, state)
}

/// A store in which these were applied, and the changes that they made.
fn filled_by(commands: Vec<Command>) -> (SimDisk, State, Vec<Change>) {
    let disk = SimDisk::new(3);
    let mut state = State::empty();
    let mut changes = Vec::new();
    let mut applied = Position::ORIGIN;
    for (seq, command) in (1..).zip(commands) {
        applied = Position { index: Index(seq), term: Term(2) };
        let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq };
        let proposal = Proposal { id, low: seq, command };
        let coord::Applied::Done { changes: new, reply } = state.apply(&Kept(&changes), applied, &proposal)
        else {
            panic!("nothing is a duplicate");
        };
        reply.unwrap();
        changes.extend(new);
    }
    let store = Store::open(Arc::new(disk.clone()), LIVE, CACHE).unwrap();
    let mut unindexed = Unindexed::default();
    changes.iter().for_each(|change| unindexed.note(change));
    store
        .write_with(&mut |put| {
            rows::change_rows(&changes, put);
            unindexed.write(put);
            rows::state_rows(&state, applied, put);
            state.take_rows(put);
        })
        .unwrap();
    (disk, state, changes)
}

fn taken() -> BackupOrigin {
    BackupOrigin { cluster: ClusterId(5), member: NodeId(6), at_millis: 7 }
}

fn backup_of(disk: &SimDisk) -> Vec<u8> {
    backup_taken_at(disk, taken().at_millis)
}

fn backup_taken_at(disk: &SimDisk, at_millis: u64) -> Vec<u8> {
    let store = Store::open(Arc::new(disk.clone()), LIVE, CACHE).unwrap();
    let taken = BackupOrigin { at_millis, ..taken() };
    let mut backup = Backup::begin(Arc::new(store.view().unwrap()), taken, 600, &mut || ()).unwrap();
    let mut bytes = Vec::new();
    let total = backup.left_bytes();
    while let Some(piece) = backup.next() {
        bytes.extend_from_slice(&piece);
        assert_eq!(backup.left_bytes() + bytes.len() as u64, total);
    }
    assert_eq!(backup.left_bytes(), 0);
    bytes
}

fn read_all(bytes: &[u8]) -> Result<Summary, Error> {
    read(&mut Cursor::new(bytes), DigestRule::Required, &mut |_, _| Ok(()))
}

fn restored(bytes: &[u8], raise_by: i64) -> (SimDisk, Revision) {
    let disk = SimDisk::new(4);
    let done = restore(
        Arc::new(disk.clone()),
        PARAMS,
        &mut Cursor::new(bytes),
        rules(raise_by, RestorePoint::Newest),
        &mut |_| {},
    )
    .unwrap();
    (disk, done.revision)
}

fn rules(raise_by: i64, point: RestorePoint) -> RestoreRules {
    RestoreRules { digest: DigestRule::Required, raise_by, point }
}

fn load(disk: &SimDisk) -> State {
    let store = Store::open(Arc::new(disk.clone()), LIVE, CACHE).unwrap();
    State::load(&store.view().unwrap()).unwrap().unwrap()
}

#[test]
fn etcds_tools_take_it_for_a_backup_with_a_digest() {
    let bytes = backup_of(&filled().0);
    assert_eq!(bytes.len() % 512, DIGEST_BYTES);
    let (body, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    assert_eq!(digest_of(body), digest);
}

#[test]
fn a_backup_tells_what_it_holds() {
    let (disk, state) = filled();
    let bytes = backup_of(&disk);
    let summary = read_all(&bytes).unwrap();
    assert_eq!(summary.total_bytes, bytes.len() as u64);
    assert_eq!(summary.taken, Some(taken()));
    assert_eq!(summary.meta.unwrap().revision, state.revision());
    assert_eq!((summary.versions, summary.leases), (40, 1));
}

#[test]
fn no_flipped_bit_and_no_cut_passes() {
    let bytes = backup_of(&filled().0);
    for at in (0..bytes.len()).step_by(211) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read_all(&damaged).is_err(), "byte {at}");
        assert!(read_all(&bytes[..at]).is_err(), "cut at {at}");
    }
    assert!(read_all(&[&bytes[..], b"x"].concat()).is_err());
}

/// As 0.1.0 wrote them.
fn first_format_of(disk: &SimDisk) -> Vec<u8> {
    let view = Arc::new(Store::open(Arc::new(disk.clone()), LIVE, CACHE).unwrap().view().unwrap());
    let meta = rows::Meta::read(&*view).unwrap();
    let chunks: Vec<Bytes> = Chunks::new(view, 600).collect();
    let frames = chunks.iter().map(|chunk| 4 + chunk.len() as u64).sum::<u64>() + head::BYTES + 4;
    let total_bytes = frames.next_multiple_of(PAGE_BYTES) + DIGEST_BYTES as u64;
    let head = head::Head { taken: taken(), meta, chunks: chunks.len() as u64, total_bytes };
    let mut bytes = head.encode();
    for chunk in &chunks {
        bytes.extend((chunk.len() as u32).to_le_bytes());
        bytes.extend_from_slice(chunk);
    }
    bytes.resize(total_bytes as usize - DIGEST_BYTES, 0);
    let digest = digest_of(&bytes);
    [&bytes[..], &digest].concat()
}

#[test]
fn a_backup_of_the_first_release_is_read() {
    let (disk, before) = filled();
    let bytes = first_format_of(&disk);
    let summary = read_all(&bytes).unwrap();
    assert_eq!((summary.taken, summary.versions), (Some(taken()), 40));
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read_all(&damaged).is_err(), "byte {at}");
    }
    let after = load(&restored(&bytes, 0).0);
    assert_eq!((after.revision(), after.key_count()), (before.revision(), before.key_count()));
}

/// A store of our own is read as etcd would read it, and as if etcd had written it.
#[test]
fn without_our_own_bucket_the_keys_leases_and_revisions_are_the_same() {
    let (disk, before) = filled();
    let bytes = backup_of(&disk);
    let of_etcd = rewritten(&bytes[..bytes.len() - DIGEST_BYTES]);
    let after = load(&restored(&of_etcd, 0).0);
    assert_eq!((after.revision(), after.compacted()), (before.revision(), before.compacted()));
    assert_eq!((after.key_count(), after.lease_count()), (before.key_count(), before.lease_count()));
}

/// The same database without our own bucket, with its digest.
fn rewritten(database: &[u8]) -> Vec<u8> {
    let mut reader = bbolt::Reader::open(|offset: u64, len: usize| {
        let start = (offset as usize).min(database.len());
        Ok::<_, std::convert::Infallible>(database[start..(start + len).min(database.len())].to_vec())
    })
    .unwrap();
    let mut writer = Writer::default();
    let names = ["alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members", "meta"];
    for name in names {
        writer.bucket(name.as_bytes());
        let each = &mut |key: &[u8], value: &[u8]| {
            writer.row(key, value);
            std::ops::ControlFlow::Continue(())
        };
        reader.rows(name.as_bytes(), each).unwrap();
    }
    let (pages, head) = writer.finish();
    let bytes = [head, pages].concat();
    let digest = digest_of(&bytes);
    [&bytes[..], &digest].concat()
}

#[test]
fn a_damaged_backup_leaves_no_store_behind() {
    let mut bytes = backup_of(&filled().0);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let disk = SimDisk::new(4);
    let rules = rules(5, RestorePoint::Newest);
    restore(Arc::new(disk.clone()), PARAMS, &mut Cursor::new(bytes), rules, &mut |_| {}).unwrap_err();
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_restored_state_is_the_same_with_a_raised_and_compacted_revision() {
    let (disk, before) = filled();
    let bytes = backup_of(&disk);
    let (disk, revision) = restored(&bytes, 1_000);
    assert_eq!(revision.0, before.revision().0 + 1_000);
    let after = load(&disk);
    assert_eq!((after.revision(), after.compacted()), (revision, revision));
    assert_eq!((after.key_count(), after.lease_count()), (before.key_count(), before.lease_count()));
    assert!(after.is_sweeping(), "the past goes");
    let report = verify(Arc::new(disk), CACHE, &mut |_| {}).unwrap();
    assert_eq!(report.revision, revision);
}

#[test]
fn a_revision_that_is_not_raised_stays_with_its_past() {
    let (disk, before) = filled();
    let (disk, revision) = restored(&backup_of(&disk), 0);
    assert_eq!(revision, before.revision());
    let after = load(&disk);
    assert_eq!((after.revision(), after.compacted()), (before.revision(), Revision::ZERO));
    assert!(!after.is_sweeping());
}

#[test]
fn what_was_applied_for_the_old_cluster_is_forgotten() {
    let (disk, _) = filled();
    let (disk, _) = restored(&backup_of(&disk), 1);
    let mut state = load(&disk);
    let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq: 1 };
    let command = Command::Delete(Delete { keys: base::KeyRange::single("none".into()), prev_kv: false });
    let at = Position { index: Index(100), term: Term(3) };
    let applied = state.apply(&Kept(&[]), at, &Proposal { id, low: 1, command });
    assert!(matches!(applied, coord::Applied::Done { .. }), "a new member of the same id may begin at 1");
}

#[test]
fn a_damaged_page_is_found_and_nothing_is_changed_by_looking() {
    let (disk, _) = filled();
    let len = disk.open(LIVE).unwrap().len().unwrap();
    verify(Arc::new(disk.clone()), CACHE, &mut |_| {}).unwrap();
    let mut found = 0;
    for page in 2..len / 4096 {
        let (disk, _) = filled();
        let file = disk.open(LIVE).unwrap();
        let mut byte = [0];
        file.read_at(page * 4096 + 100, &mut byte).unwrap();
        file.write_at(page * 4096 + 100, &[byte[0] ^ 0x40]).unwrap();
        found += u64::from(verify(Arc::new(disk.clone()), CACHE, &mut |_| {}).is_err());
        let mut after = [0];
        file.read_at(page * 4096 + 100, &mut after).unwrap();
        assert_eq!(after[0], byte[0] ^ 0x40, "it is not repaired either");
        assert_eq!(disk.list().unwrap(), [LIVE]);
    }
    assert!(found > 5, "{found} of {} pages", len / 4096);
}
