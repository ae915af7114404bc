//! Backups in a directory, written, read, damaged and pruned.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use backup::{
    BackupId, BackupKey, CoordPart, Error, Manifest, ObjectRef, Reader, Target, Writer, list, prune, verify,
};
use std::path::{Path, PathBuf};

fn manifest(id: &BackupId, objects: Vec<ObjectRef>) -> Manifest {
    let bytes = objects.iter().map(|object| object.bytes).sum();
    Manifest {
        version: backup::MANIFEST_VERSION,
        id: id.clone(),
        release: "test".to_owned(),
        cluster: "1".to_owned(),
        cut_ms: 1,
        finished_ms: 2,
        coord: Some(CoordPart { member: "2".to_owned(), revision: 3, bytes, objects }),
        mesh: None,
        sent_bytes: 0,
    }
}

async fn write(target: &Target, key: Option<&BackupKey>, ms: u64, contents: &[&[u8]]) -> Manifest {
    let id = BackupId::at_ms(ms);
    let mut writer = Writer::begin(target, key, id.clone()).await.unwrap();
    let mut objects = Vec::new();
    for content in contents {
        objects.push(writer.put(content).await.unwrap());
    }
    writer.finish(manifest(&id, objects)).await.unwrap()
}

fn target(dir: &Path) -> Target {
    Target::parse(dir.to_str().unwrap()).unwrap()
}

fn object_file(dir: &Path, object: &ObjectRef) -> PathBuf {
    dir.join("objects").join(&object.name[..2]).join(&object.name)
}

#[tokio::test]
async fn a_backup_gives_its_contents_back_and_the_second_sends_only_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    let large = vec![7; 1 << 20];
    let first = write(&target, None, 1_000, &[&large, b"one"]).await;
    let second = write(&target, None, 2_000, &[&large, b"two"]).await;
    assert!(second.sent_bytes < first.sent_bytes + 1_000);
    assert_eq!(std::fs::read_dir(dir.path().join("running")).unwrap().count(), 0);
    let objects: usize = walk(&dir.path().join("objects")).len();
    assert_eq!(objects, 3, "the large one is there once");
    let reader = Reader::open(&target, None, None).await.unwrap();
    assert_eq!(reader.manifest().id, BackupId::at_ms(2_000), "the newest, if none is named");
    let contents: Vec<ObjectRef> = reader.manifest().objects().cloned().collect();
    assert_eq!(reader.content(&contents[0]).await.unwrap(), large);
    assert_eq!(&reader.content(&contents[1]).await.unwrap()[..], b"two");
}

#[tokio::test]
async fn a_backup_that_was_interrupted_is_none_and_what_it_sent_is_not_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    let mut writer = Writer::begin(&target, None, BackupId::at_ms(1)).await.unwrap();
    writer.put(&vec![9; 500_000]).await.unwrap();
    drop(writer);
    assert!(list(&target).await.unwrap().is_empty());
    assert!(matches!(Reader::open(&target, None, None).await, Err(Error::NoBackups(_))));
    let refused = prune(&target, None, 1, false).await;
    assert!(matches!(refused, Err(Error::UnderWay { .. })), "{refused:?}");
    let mut again = Writer::begin(&target, None, BackupId::at_ms(2)).await.unwrap();
    again.put(&vec![9; 500_000]).await.unwrap();
    assert_eq!(again.sent_bytes(), 0);
}

#[tokio::test]
async fn damaged_missing_and_cut_objects_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    let contents: [&[u8]; 4] = [b"damaged", b"missing", b"truncated", b"whole"];
    let written = write(&target, None, 1, &contents).await;
    let objects: Vec<ObjectRef> = written.objects().cloned().collect();
    let damaged = object_file(dir.path(), &objects[0]);
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&damaged, bytes).unwrap();
    std::fs::remove_file(object_file(dir.path(), &objects[1])).unwrap();
    let cut = object_file(dir.path(), &objects[2]);
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let reader = Reader::open(&target, None, None).await.unwrap();
    let verified = verify(&reader, &mut |_| {}).await.unwrap();
    let told: Vec<String> = verified.flaws.iter().map(|flaw| flaw.error.to_string()).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    for (object, told) in objects.iter().zip(&told) {
        assert!(told.contains(&object.name), "{told}");
    }
    assert!(told[1].contains("missing"));
    for object in &objects[..3] {
        assert!(reader.content(object).await.is_err());
    }
    assert!(reader.content(&objects[3]).await.is_ok());
}

#[tokio::test]
async fn pruning_keeps_the_newest_and_every_object_that_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    for (ms, own) in [(1, b"first"), (2, b"again"), (3, b"third")] {
        write(&target, None, ms, &[b"shared", own]).await;
    }
    let dry = prune(&target, None, 1, true).await.unwrap();
    assert_eq!((dry.backups.len(), dry.kept, dry.objects), (2, 1, 2));
    assert_eq!(list(&target).await.unwrap().len(), 3, "a dry run removes nothing");
    let pruned = prune(&target, None, 1, false).await.unwrap();
    assert_eq!(pruned, dry);
    assert_eq!(list(&target).await.unwrap(), [BackupId::at_ms(3)]);
    let reader = Reader::open(&target, None, None).await.unwrap();
    assert!(verify(&reader, &mut |_| {}).await.unwrap().flaws.is_empty());
    assert_eq!(walk(&dir.path().join("objects")).len(), 2);
}

#[tokio::test]
async fn an_encrypted_backup_needs_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    let (key, other) = (BackupKey::new(&[1; 32]), BackupKey::new(&[2; 32]));
    write(&target, Some(&key), 1, &[b"a secret that is long enough to be seen"]).await;
    for file in walk(dir.path()) {
        let bytes = std::fs::read(file).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
    }
    assert!(matches!(Reader::open(&target, None, None).await, Err(Error::KeyNeeded(_))));
    assert!(matches!(Reader::open(&target, Some(&other), None).await, Err(Error::WrongKey(_))));
    let reader = Reader::open(&target, Some(&key), None).await.unwrap();
    assert!(verify(&reader, &mut |_| {}).await.unwrap().flaws.is_empty());
}

#[tokio::test]
async fn a_manifest_that_was_renamed_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let target = target(dir.path());
    write(&target, None, 1, &[b"x"]).await;
    let at = |ms| dir.path().join("backups").join(BackupId::at_ms(ms).as_str());
    std::fs::rename(at(1), at(2)).unwrap();
    assert!(matches!(Reader::open(&target, None, None).await, Err(Error::Damaged { .. })));
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}
